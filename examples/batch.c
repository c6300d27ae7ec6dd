/* batch.c - several prompts at once: a session for each, one forward for all, as a server would do
 * it. Works come and go between forwards; what one of them computes does not depend on the others.
 *
 *     cc batch.c $(pkg-config --cflags --libs weft) -o batch
 *     ./batch model.gguf "Once upon" "The cat" "A dog" */
#include <stdio.h>
#include <string.h>
#include <weft.h>

#define MOST  8  /* prompts */
#define TOKEN 40 /* that each gets */

typedef struct text {
    weft_session *session;
    weft_tokens *prompt;
    int32_t ids[TOKEN]; /* the first n are made, and all but the last of them evaluated */
    int64_t n;
} text;

static void print(const weft_tokenizer *tokenizer, const text *t, const char *prompt)
{
    printf("%s", prompt);
    for (int64_t i = 0; i < t->n; i++) {
        char piece[256];
        const int64_t n = weft_tokenizer_piece(tokenizer, t->ids[i], piece, sizeof piece);
        printf("%.*s", n <= (int64_t)sizeof piece ? (int)n : 0, piece);
    }
    puts("\n");
}

/* A text whose work is done has logits: its next token is its next work. False at its end. */
static bool go_on(const weft_model *model, text *t, weft_eval_request *w)
{
    if (w->done < w->n)
        return true;
    const int32_t id = weft_session_greedy(t->session);
    if (t->n == TOKEN || weft_model_is_end(model, id))
        return false;
    t->ids[t->n] = id;
    *w = (weft_eval_request){ .session = t->session, .ids = &t->ids[t->n++], .n = 1 };
    return true;
}

static void run(weft_engine *engine, const weft_model *model, text *texts, int n, weft_error *err)
{
    weft_eval_request work[MOST];
    int live = n;
    for (int i = 0; i < n; i++)
        work[i] = (weft_eval_request){ .session = texts[i].session,
                                       .ids = texts[i].prompt->ids,
                                       .n = texts[i].prompt->n };
    while (live > 0 && weft_engine_step(engine, work, n, err) == WEFT_OK) {
        live = 0;
        for (int i = 0; i < n; i++)
            live += go_on(model, &texts[i], &work[i]);
    }
}

int main(int argc, char **argv)
{
    weft_error err;
    text texts[MOST] = { { 0 } };
    const int n = argc - 2 < MOST ? argc - 2 : MOST;
    if (n < 1)
        return fprintf(stderr, "usage: batch MODEL PROMPT...\n"), 2;
    const weft_engine_options o = { .struct_size = sizeof o, .n_session = n };
    weft_model *model = weft_model_open(argv[1], NULL, &err);
    weft_tokenizer *tokenizer = model ? weft_tokenizer_load(argv[1], NULL, &err) : NULL;
    weft_engine *engine = tokenizer ? weft_engine_new(model, &o, &err) : NULL;
    bool ready = engine != NULL;
    for (int i = 0; i < n && ready; i++) {
        const char *prompt = argv[2 + i];
        texts[i].session = weft_session_new(engine, &err);
        if (texts[i].session)
            texts[i].prompt = weft_tokenizer_encode(tokenizer, prompt, strlen(prompt), NULL, &err);
        ready = texts[i].prompt != NULL;
    }
    if (ready)
        run(engine, model, texts, n, &err);
    for (int i = 0; i < n && !err.code; i++)
        print(tokenizer, &texts[i], argv[2 + i]);
    if (err.code)
        fprintf(stderr, "%s\n", err.message);
    for (int i = 0; i < n; i++) {
        weft_tokens_free(texts[i].prompt);
        weft_session_free(texts[i].session);
    }
    weft_engine_free(engine);
    weft_tokenizer_free(tokenizer);
    weft_model_close(model);
    return err.code != WEFT_OK;
}
