/* simple.c - a hundred tokens, greedily: the program that weft.h begins with, word for word.
 *
 *     cc simple.c $(pkg-config --cflags --libs weft) -o simple && ./simple model.gguf "Once upon" */
#include <stdio.h>
#include <string.h>
#include <weft.h>

int main(int argc, char **argv)
{
    weft_error err;
    const char *path = argc > 1 ? argv[1] : "model.gguf", *text = argc > 2 ? argv[2] : "Once";
    weft_model *model = weft_model_open(path, NULL, &err);
    weft_tokenizer *tokenizer = model ? weft_tokenizer_load(path, NULL, &err) : NULL;
    weft_engine *engine = tokenizer ? weft_engine_new(model, NULL, &err) : NULL;
    weft_session *session = engine ? weft_session_new(engine, &err) : NULL;
    weft_tokens *prompt = session ? weft_tokenizer_encode(tokenizer, text, strlen(text), NULL, &err)
                                  : NULL;
    if (prompt)
        weft_session_eval(session, prompt->ids, prompt->n, &err);
    for (int i = 0; !err.code && i < 100; i++) {
        char piece[256];
        const int32_t id = weft_session_greedy(session);
        const int64_t n = weft_tokenizer_piece(tokenizer, id, piece, sizeof piece);
        if (weft_model_is_end(model, id))
            break;
        printf("%.*s", n > 0 && n <= (int64_t)sizeof piece ? (int)n : 0, piece);
        weft_session_eval(session, &id, 1, &err);
    }
    fprintf(err.code ? stderr : stdout, "%s\n", err.code ? err.message : "");
    weft_tokens_free(prompt);
    weft_session_free(session);
    weft_engine_free(engine);
    weft_tokenizer_free(tokenizer);
    weft_model_close(model);
    return err.code != WEFT_OK;
}
