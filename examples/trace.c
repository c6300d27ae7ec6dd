/* trace.c - how large a model's numbers become, block by block: the root of the mean square of what
 * every block adds and of what flows on, from one forward that tells all its tensors.
 *
 *     cc trace.c $(pkg-config --cflags --libs weft) -lm -o trace && ./trace model.gguf "Once upon" */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <weft.h>

static void show(void *ud, const weft_trace_tensor *t)
{
    (void)ud;
    double sum = 0;
    if (strcmp(t->op, "residual") != 0)
        return;
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t k = 0; k < t->cols; k++)
            sum += (double)t->data[i * t->stride + k] * t->data[i * t->stride + k];
    printf("%-28s %4lld x %-6lld %10.4f\n", t->name, (long long)t->rows, (long long)t->cols,
           sqrt(sum / (double)(t->rows * t->cols)));
}

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
    if (prompt && weft_engine_trace(engine, show, NULL, false, &err) == WEFT_OK)
        weft_session_eval(session, prompt->ids, prompt->n, &err);
    if (err.code)
        fprintf(stderr, "%s\n", err.message);
    weft_tokens_free(prompt);
    weft_session_free(session);
    weft_engine_free(engine);
    weft_tokenizer_free(tokenizer);
    weft_model_close(model);
    return err.code != WEFT_OK;
}
