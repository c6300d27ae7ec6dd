/* bench_wholes.h - encoders for `weft bench`: texts or pictures, several at a time. */
#ifndef WEFT_CLI_BENCH_WHOLES_H
#define WEFT_CLI_BENCH_WHOLES_H

#include "cli.h"

typedef struct whole_bench {
    weft_encoder *encoder;
    weft_input *input; /* [most], all the same */
    int64_t most;
    int32_t *ids;
    float *features, *out;
} whole_bench;

/* Inputs of n rows, at most `most` at a time; false with err filled, or without memory. To be ended
 * either way. */
bool bench_whole_begin(whole_bench *w, weft_model *model, const weft_model_info *info, int threads,
                       int64_t n, int64_t most, weft_error *err);
void bench_whole_end(whole_bench *w);

/* `width` inputs a second, together. */
weft_status bench_whole(const whole_bench *w, int64_t width, double *rate, weft_error *err);

#endif
