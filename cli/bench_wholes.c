/* bench_wholes.c - measures an encoder. Each text asks for one vector, the labels, or the token of
 * one mask, whatever the model is for. The contents of texts and images do not affect the speed. */
#include "bench_wholes.h"

/* Ids, or the numbers of a picture: the same each time. */
static bool draw(whole_bench *w, const weft_model_info *info, int64_t n)
{
    uint64_t x = 1;
    const int64_t numbers = n * info->n_feature;
    if (numbers == 0)
        return (w->ids = cli_any_ids(n, info->n_vocab)) != NULL;
    w->features = cli_alloc((size_t)numbers, sizeof *w->features, "a picture");
    for (int64_t i = 0; w->features && i < numbers; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        w->features[i] = (float)(x >> 40) / 8388608.0f - 1;
    }
    return w->features != NULL;
}

bool bench_whole_begin(whole_bench *w, weft_model *model, const weft_model_info *info, int threads,
                       int64_t n, int64_t most, weft_error *err)
{
    static const int32_t first = 0;
    const bool masks = info->task == WEFT_TASK_FILL;
    const weft_encoder_options o = { .struct_size = sizeof o,
                                     .threads = threads,
                                     .n_ctx = n,
                                     .output = info->task == WEFT_TASK_EMBED ? WEFT_OUTPUT_POOLED
                                                                             : WEFT_OUTPUT_HEAD };
    *w = (whole_bench){ .most = most };
    w->encoder = weft_encoder_new(model, &o, err);
    w->input = w->encoder ? cli_zalloc((size_t)most, sizeof *w->input, "inputs") : NULL;
    if (!w->input || !draw(w, info, n))
        return false;
    const weft_input in = {
        .ids = w->ids, .features = w->features, .n = n, .at = masks ? &first : NULL, .n_at = masks
    };
    const int64_t each = weft_encoder_rows(w->encoder, &in) * weft_encoder_width(w->encoder);
    w->out = cli_alloc((size_t)(most * each), sizeof *w->out, "the output");
    for (int64_t i = 0; w->out && i < most; i++) {
        w->input[i] = in;
        w->input[i].out = w->out + i * each;
    }
    return w->out != NULL;
}

void bench_whole_end(whole_bench *w)
{
    cli_free(w->out);
    cli_free(w->features);
    cli_free(w->ids);
    cli_free(w->input);
    weft_encoder_free(w->encoder);
    *w = (whole_bench){ 0 };
}

/* At least a tenth of a second: small models need many. */
weft_status bench_whole(const whole_bench *w, int64_t width, double *rate, weft_error *err)
{
    const double start = cli_now();
    weft_status status = WEFT_OK;
    int64_t n = 0;
    double took = 0;
    while (status == WEFT_OK && !cli_interrupted() && took < 0.1) {
        status = weft_encoder_eval(w->encoder, w->input, width, err);
        n += width;
        took = cli_now() - start;
    }
    *rate = (double)n / took;
    return status;
}
