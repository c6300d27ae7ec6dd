/* embed.c - how much sentences are alike: a vector for each, all in one call, and the cosines of the
 * first with the others.
 *
 *     cc embed.c $(pkg-config --cflags --libs weft) -lm -o embed
 *     ./embed all-MiniLM-L6-v2 "A man plays a guitar" "Someone makes music" "It rains" */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

#define MOST 64 /* sentences */

static double cosine(const float *a, const float *b, int64_t n)
{
    double aa = 0, bb = 0, ab = 0;
    for (int64_t k = 0; k < n; k++) {
        aa += (double)a[k] * (double)a[k];
        bb += (double)b[k] * (double)b[k];
        ab += (double)a[k] * (double)b[k];
    }
    return ab / sqrt(aa * bb);
}

int main(int argc, char **argv)
{
    weft_error err;
    weft_tokens *tokens[MOST] = { NULL };
    weft_input input[MOST];
    const int n = argc - 2 < MOST ? argc - 2 : MOST;
    if (n < 2)
        return fprintf(stderr, "usage: embed MODEL SENTENCE SENTENCE...\n"), 2;
    const weft_encoder_options o = { .struct_size = sizeof o, .output = WEFT_OUTPUT_POOLED };
    weft_model *model = weft_model_open(argv[1], NULL, &err);
    weft_tokenizer *tokenizer = model ? weft_tokenizer_load(argv[1], NULL, &err) : NULL;
    weft_encoder *encoder = tokenizer ? weft_encoder_new(model, &o, &err) : NULL;
    const int64_t width = encoder ? weft_encoder_width(encoder) : 0;
    float *vectors = calloc((size_t)n, (size_t)width * sizeof *vectors + 1);
    bool ready = encoder && vectors;
    for (int i = 0; i < n && ready; i++) {
        tokens[i] = weft_tokenizer_encode(tokenizer, argv[2 + i], strlen(argv[2 + i]), NULL, &err);
        ready = tokens[i] != NULL;
        if (ready)
            input[i] = (weft_input){ .ids = tokens[i]->ids,
                                     .types = tokens[i]->types,
                                     .n = tokens[i]->n,
                                     .out = vectors + i * width };
    }
    if (ready && weft_encoder_eval(encoder, input, n, &err) == WEFT_OK)
        for (int i = 1; i < n; i++)
            printf("%.4f  %s\n", cosine(vectors, vectors + i * width, width), argv[2 + i]);
    else
        fprintf(stderr, "%s\n", vectors ? err.message : "out of memory");
    for (int i = 0; i < n; i++)
        weft_tokens_free(tokens[i]);
    free(vectors);
    weft_encoder_free(encoder);
    weft_tokenizer_free(tokenizer);
    weft_model_close(model);
    return !ready || err.code != WEFT_OK;
}
