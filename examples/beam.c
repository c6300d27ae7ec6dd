/* beam.c - the three most likely texts after some tokens, with their scores.
 *
 *     cc beam.c $(pkg-config --cflags --libs weft) -o beam && ./beam model.gguf 1 2 3
 *
 * Tokens are shown as text where the file carries a vocabulary, otherwise as ids. */
#include <stdio.h>
#include <stdlib.h>
#include <weft.h>

static void show(const weft_model *model, int32_t id)
{
    char bytes[256];
    const int64_t n = weft_model_piece(model, id, bytes, sizeof bytes);
    if (n < 0)
        printf(" %d", id);
    else if (n <= (int64_t)sizeof bytes)
        fwrite(bytes, 1, (size_t)n, stdout);
}

int main(int argc, char **argv)
{
    enum { MAX_PROMPT = 256, N_BEAM = 6 };
    int32_t prompt[MAX_PROMPT] = { 1 };
    int n = 0;
    for (int i = 2; i < argc && n < MAX_PROMPT; i++)
        prompt[n++] = (int32_t)strtol(argv[i], NULL, 10);
    n = n > 0 ? n : 1;

    weft_error err = { 0 };
    const weft_engine_options engine_options = { .struct_size = sizeof engine_options,
                                                 .n_session = N_BEAM };
    const weft_beam_options options = { .struct_size = sizeof options,
                                        .n_beam = N_BEAM,
                                        .n_best = 3,
                                        .n_new = 16,
                                        .length_penalty = 1 };
    weft_model *model = weft_model_open(argc > 1 ? argv[1] : "model.gguf", NULL, &err);
    weft_engine *engine = model ? weft_engine_new(model, &engine_options, &err) : NULL;
    weft_beams *beams = engine ? weft_beam_search(engine, prompt, n, &options, &err) : NULL;
    for (int i = 0; beams && i < beams->n; i++) {
        printf("%8.4f ", beams->beam[i].score);
        for (int64_t k = 0; k < beams->beam[i].n; k++)
            show(model, beams->beam[i].ids[k]);
        printf("\n");
    }
    if (err.code)
        fprintf(stderr, "%s\n", err.message);
    weft_beams_free(beams);
    weft_engine_free(engine);
    weft_model_close(model);
    return err.code != WEFT_OK;
}
