/* train_tokenizer.c - the public function that trains a tokenizer: check, translate,
 * delegate. */
#include "api/api.h"
#include "base/pool.h"
#include "text/train/train.h"

#define DEFAULT_VOCAB     8192
#define DEFAULT_FREQUENCY 2

static weft_status translate(const weft_tokenizer_train_options *o, train_options *to,
                             weft_error *err)
{
    if (o->model != WEFT_TOKENS_BPE && o->model != WEFT_TOKENS_WORDPIECE &&
        o->model != WEFT_TOKENS_CHARACTERS)
        return weft_fail(err, WEFT_EINVAL, "unknown tokenizer model %d", (int)o->model);
    if (o->ties != WEFT_TIES_IDS && o->ties != WEFT_TIES_BYTES)
        return weft_fail(err, WEFT_EINVAL, "unknown tie-breaking rule %d", (int)o->ties);
    if (o->threads > POOL_MAX_THREAD)
        return weft_fail(err, WEFT_EINVAL, "threads is %d, expected 1 to %d, or 0 for all",
                         o->threads, POOL_MAX_THREAD);
    if (o->n_vocab < 0 || o->min_frequency < 0 || o->threads < 0 || o->n_special < 0)
        return weft_fail(err, WEFT_EINVAL, "a negative size, frequency or count");
    if (!load_exists(o->load, err))
        return err->code;
    if (o->n_special > 0 && !o->special)
        return weft_fail(err, WEFT_EINVAL, "%d special tokens, but special is NULL", o->n_special);
    for (int i = 0; i < o->n_special; i++)
        if (!o->special[i])
            return weft_fail(err, WEFT_EINVAL, "special token %d is NULL", i);
    *to = (train_options){
        .wordpiece = o->model == WEFT_TOKENS_WORDPIECE,
        .characters = o->model == WEFT_TOKENS_CHARACTERS,
        .n_vocab = o->n_vocab ? (uint32_t)o->n_vocab : DEFAULT_VOCAB,
        .min_frequency = o->min_frequency ? (uint64_t)o->min_frequency : DEFAULT_FREQUENCY,
        .by_bytes = o->ties == WEFT_TIES_BYTES,
        .lines = o->lines,
        .cased = o->cased,
        .pattern = o->pattern,
        .special = o->special,
        .n_special = o->n_special,
        .n_thread = o->threads,
        .load = o->load,
    };
    return WEFT_OK;
}

weft_status weft_tokenizer_train(const char *const *paths, int n_path, const char *to,
                                 const weft_tokenizer_train_options *options,
                                 weft_tokenizer_train_info *info, weft_error *err)
{
    weft_tokenizer_train_options o;
    train_options inner;
    weft_error local;
    err = begin_call(err, &local);
    if (!paths || n_path < 1 || !to)
        return weft_fail(err, WEFT_EINVAL,
                         paths && n_path > 0 ? "no path to write to" : "no text to train on");
    for (int i = 0; i < n_path; i++)
        if (!paths[i])
            return weft_fail(err, WEFT_EINVAL, "path %d is NULL", i);
    if ((info && !result_fits(info, "weft_tokenizer_train_info", err)) ||
        !read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_tokenizer_train_options", err))
        return WEFT_EINVAL;
    weft_status status = translate(&o, &inner, err);
    if (status != WEFT_OK)
        return status;
    host h = { .io = io_system };
    take_memory(&h, o.ram_max, o.budget);
    trained t;
    status = train_tokenizer(&t, paths, n_path, &inner, &h, err);
    if (status != WEFT_OK)
        return status;
    status = trained_save(&t, &inner, to, &h, err);
    weft_tokenizer_train_info i = {
        .n_vocab = (int32_t)t.merger.tokens.n,
        .n_merge = (int64_t)t.merger.n_merge,
        .n_word = (int64_t)t.n_word,
        .n_occurrence = (int64_t)t.n_occurrence,
        .bytes_peak = h.mem.peak,
    };
    trained_free(&t);
    if (info && status == WEFT_OK)
        copy_result(info, info->struct_size, &i, sizeof i);
    return status;
}
