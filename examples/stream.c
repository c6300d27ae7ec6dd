/* stream.c - text as it is made: sampled, decoded code point by code point, ended by a stop string,
 * by the model, or by Ctrl-C, which cancels what is being computed.
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

static void show(const char *bytes, size_t n)
{
    fwrite(bytes, 1, n, stdout);
    fflush(stdout);
}

/* Until a token or a string ends the text, or an error. */
static void generate(const weft_model *model, weft_sampler *sampler, weft_decoder *decoder,
                     weft_stop *stop, weft_error *err)
{
    const char *text;
    size_t n;
    int32_t id;
    while (weft_sampler_next(sampler, session, &id, err) == WEFT_OK &&
           !weft_model_is_end(model, id) &&
           weft_decoder_push(decoder, id, &text, &n, err) == WEFT_OK &&
           weft_stop_push(stop, text, n, &text, &n, err) == WEFT_OK) {
        show(text, n);
        if (weft_stop_hit(stop) >= 0)
            return;
        if (weft_session_eval(session, &id, 1, err) != WEFT_OK)
            break;
    }
    weft_stop_flush(stop, &text, &n); /* what might have become the stop string, but did not */
    show(text, n);
}

int main(int argc, char **argv)
{
    weft_error err;
    const char *path = argc > 1 ? argv[1] : "model.gguf", *text = argc > 2 ? argv[2] : "Once";
    const char *end = argc > 3 ? argv[3] : "\n\n";
    weft_sampler_options how = { .struct_size = sizeof how, .seed = 1 };
    how.temperature = 0.8;
    how.top_p = 0.95;
    weft_model *model = weft_model_open(path, NULL, &err);
    weft_tokenizer *tokenizer = model ? weft_tokenizer_load(path, NULL, &err) : NULL;
    weft_engine *engine = tokenizer ? weft_engine_new(model, NULL, &err) : NULL;
    session = engine ? weft_session_new(engine, &err) : NULL;
    weft_sampler *sampler = session ? weft_sampler_new(model, &how, &err) : NULL;
    weft_decoder *decoder = sampler ? weft_decoder_new(tokenizer, false, &err) : NULL;
    weft_stop *stop = decoder ? weft_stop_new(&end, 1, &err) : NULL;
    weft_tokens *prompt = stop ? weft_tokenizer_encode(tokenizer, text, strlen(text), NULL, &err)
                               : NULL;
    if (prompt) {
        signal(SIGINT, interrupt);
        if (weft_session_eval(session, prompt->ids, prompt->n, &err) == WEFT_OK)
            generate(model, sampler, decoder, stop, &err);
        signal(SIGINT, SIG_DFL);
    }
    puts("");
    if (err.code)
        fprintf(stderr, "%s\n", err.message);
    weft_tokens_free(prompt);
    weft_stop_free(stop);
    weft_decoder_free(decoder);
    weft_sampler_free(sampler);
    weft_session_free(session);
    weft_engine_free(engine);
    weft_tokenizer_free(tokenizer);
    weft_model_close(model);
    return err.code != WEFT_OK;
}
