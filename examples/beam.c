/* beam.c - the three most likely continuations of a text, with their scores.
 *
 *     cc beam.c $(pkg-config --cflags --libs weft) -o beam && ./beam model.gguf "Once upon" */
#include <stdio.h>
#include <string.h>
#include <weft.h>

static void print(const weft_tokenizer *tokenizer, const weft_beam *b)
{
    printf("%8.4f  ", b->score);
    for (int64_t i = 0; i < b->n; i++) {
        char piece[256];
        const int64_t n = weft_tokenizer_piece(tokenizer, b->ids[i], piece, sizeof piece);
        printf("%.*s", n <= (int64_t)sizeof piece ? (int)n : 0, piece);
    }
    puts("");
}

int main(int argc, char **argv)
{
    enum { N_BEAM = 6 };
    weft_error err;
    const char *path = argc > 1 ? argv[1] : "model.gguf", *text = argc > 2 ? argv[2] : "Once";
    const weft_engine_options room = { .struct_size = sizeof room, .n_session = N_BEAM };
    const weft_beam_options how = {
        .struct_size = sizeof how, .n_beam = N_BEAM, .n_best = 3, .n_new = 16, .length_penalty = 1
    };
    weft_model *model = weft_model_open(path, NULL, &err);
    weft_tokenizer *tokenizer = model ? weft_tokenizer_load(path, NULL, &err) : NULL;
    weft_engine *engine = tokenizer ? weft_engine_new(model, &room, &err) : NULL;
    weft_tokens *prompt = engine ? weft_tokenizer_encode(tokenizer, text, strlen(text), NULL, &err)
                                 : NULL;
    weft_beams *beams = prompt ? weft_beam_search(engine, prompt->ids, prompt->n, &how, &err)
                               : NULL;
    for (int i = 0; beams && i < beams->n; i++)
        print(tokenizer, &beams->beam[i]);
    if (err.code)
        fprintf(stderr, "%s\n", err.message);
    weft_beams_free(beams);
    weft_tokens_free(prompt);
    weft_engine_free(engine);
    weft_tokenizer_free(tokenizer);
    weft_model_close(model);
    return err.code != WEFT_OK;
}
