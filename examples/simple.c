/* simple.c - twenty tokens, greedily: the program that weft.h begins with, word for word.
 *
 *     cc simple.c $(pkg-config --cflags --libs weft) -o simple && ./simple model.gguf */
#include <stdio.h>
#include <weft.h>

int main(int argc, char **argv)
{
    weft_error err = { 0 };
    weft_model *model = weft_model_open(argc > 1 ? argv[1] : "model.gguf", NULL, &err);
    weft_engine *engine = model ? weft_engine_new(model, NULL, &err) : NULL;
    weft_session *session = engine ? weft_session_new(engine, &err) : NULL;
    int32_t id = 1;
    for (int i = 0; session && i < 20; i++) {
        if (weft_session_eval(session, &id, 1, &err) != WEFT_OK)
            break;
        id = weft_session_greedy(session);
        printf("%d ", id);
    }
    if (err.code)
        fprintf(stderr, "%s\n", err.message);
    weft_session_free(session);
    weft_engine_free(engine);
    weft_model_close(model);
    return err.code != WEFT_OK;
}
