/* stream.c - text as it is made: sampled, ended by a stop string, by the model, or by Ctrl-C, which
 * cancels what is being computed.
 *
 *     cc stream.c $(pkg-config --cflags --libs weft) -o stream
 *     ./stream model.gguf "Once upon a time" "The end" */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <weft.h>

static weft_session *session; /* what Ctrl-C stops */

static void interrupt(int number)
{
    (void)number;
    weft_session_cancel(session);
}

static bool show(void *ud, const weft_generated *token)
{
    (void)ud;
    fwrite(token->text, 1, token->length, stdout);
    return fflush(stdout) == 0;
}

int main(int argc, char **argv)
{
    weft_error err;
    const char *path = argc > 1 ? argv[1] : "model.gguf", *text = argc > 2 ? argv[2] : "Once";
    const char *end = argc > 3 ? argv[3] : "\n\n";
    weft_generation made = { .struct_size = sizeof made };
    weft_sampler_options how = { .struct_size = sizeof how, .seed = 1 };
    how.temperature = 0.8;
    how.top_p = 0.95;
    weft_model *model = weft_model_open(path, NULL, &err);
    weft_tokenizer *tokenizer = model ? weft_tokenizer_load(path, NULL, &err) : NULL;
    weft_engine *engine = tokenizer ? weft_engine_new(model, NULL, &err) : NULL;
    session = engine ? weft_session_new(engine, &err) : NULL;
    weft_sampler *sampler = session ? weft_sampler_new(model, &how, &err) : NULL;
    weft_tokens *prompt = sampler ? weft_tokenizer_encode(tokenizer, text, strlen(text), NULL, &err)
                                  : NULL;
    if (prompt) {
        const weft_generate_options o = { .struct_size = sizeof o,
                                          .prompt = prompt->ids,
                                          .n_prompt = prompt->n,
                                          .stop = &end,
                                          .n_stop = 1 };
        signal(SIGINT, interrupt);
        weft_generate(session, sampler, tokenizer, &o, show, NULL, &made, &err);
        signal(SIGINT, SIG_DFL);
    }
    puts("");
    if (made.finish == WEFT_FINISH_CONTEXT)
        fprintf(stderr, "the context is full\n");
    if (err.code)
        fprintf(stderr, "%s\n", err.message);
    weft_tokens_free(prompt);
    weft_sampler_free(sampler);
    weft_session_free(session);
    weft_engine_free(engine);
    weft_tokenizer_free(tokenizer);
    weft_model_close(model);
    return err.code != WEFT_OK;
}
