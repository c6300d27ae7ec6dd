/* eval_wholes.c - losses of masked language models and encoder-decoders.
 *
 * A masked language model gives no probability of a text, so we compute the pseudo-perplexity:
 * mask each token in turn and take its loss (Salazar et al., 2020). Special tokens such as [CLS]
 * are not scored. An encoder-decoder predicts each token of the target, end token included, from
 * the source and the tokens before it. */
#include "eval_wholes.h"

#include "score.h"

#include <string.h>

/* ---- lines
 * --------------------------------------------------------------------------------------- */

typedef struct line_reader {
    const char *path;
    char *text;
    size_t n, at;
    int64_t number;
} line_reader;

/* The next line that is not empty, without its line end; NULL after the last. */
static char *next_line(line_reader *r, size_t *n)
{
    while (r->at < r->n) {
        char *line = r->text + r->at;
        const char *end = memchr(line, '\n', r->n - r->at);
        *n = end ? (size_t)(end - line) : r->n - r->at;
        r->at += *n + 1;
        r->number++;
        if (*n > 0 && line[*n - 1] == '\r')
            --*n;
        if (*n > 0)
            return line;
    }
    return NULL;
}

static int too_long(const line_reader *r, int64_t n, int64_t most)
{
    fprintf(stderr,
            "weft: %s: line %lld has %lld tokens; expected at most %lld, the model's context; "
            "shorten it\n",
            r->path, (long long)r->number, (long long)n, (long long)most);
    return 1;
}

static void free_lines(line_reader *all, const whole_eval *e)
{
    for (int i = 0; all && i < e->files->n; i++)
        cli_free(all[i].text);
    cli_free(all);
}

/* Opens all files before scoring the first line, so that a missing one is reported at once. */
static int read_lines(const whole_eval *e, line_reader **all)
{
    *all = cli_zalloc((size_t)e->files->n, sizeof **all, "files");
    int code = *all ? 0 : cli_no_memory();
    for (int i = 0; i < e->files->n && !code; i++) {
        line_reader *r = &(*all)[i];
        r->path = strcmp(e->files->at[i], "-") == 0 ? "standard input" : e->files->at[i];
        code = cli_read(e->files->at[i], CLI_MAX_TEXT, &r->text, &r->n);
    }
    return code;
}

typedef int line_fn(void *job, const line_reader *r, const char *line, size_t n);

static int each_line(const whole_eval *e, line_reader *all, line_fn *fn, void *job, int64_t *n_line)
{
    uint64_t done = 0, total = 0;
    size_t n;
    int code = 0;
    for (int i = 0; i < e->files->n; i++)
        total += all[i].n;
    for (int i = 0; i < e->files->n && !code; done += all[i++].n)
        for (const char *line;
             !code && !cli_interrupted() && (line = next_line(&all[i], &n)) != NULL; ++*n_line) {
            cli_progress_set(done + all[i].at, total);
            code = fn(job, &all[i], line, n);
        }
    return code;
}

static int finish(int code, const whole_eval *e, const row_scores *s, weft_evaluation *to)
{
    if (!code && s->n == 0) {
        fprintf(stderr, "weft: %s: nothing to score\n", e->files->at[0]);
        code = 1;
    }
    score_result(s, to);
    to->n_total = s->n;
    to->stopped = cli_interrupted();
    return code;
}

/* ---- masks
 * --------------------------------------------------------------------------------------- */

typedef struct mask_job {
    const whole_eval *e;
    weft_encoder *encoder[2]; /* of the model and of the other, or NULL */
    weft_tokenizer *tokenizer;
    int32_t mask;
    float *out[2]; /* [V] */
    row_scores score;
} mask_job;

static bool open_job(mask_job *j, weft_error *err)
{
    const whole_eval *e = j->e;
    const weft_encoder_options o = { .struct_size = sizeof o, .threads = e->threads };
    weft_model *const models[] = { e->model, e->other };
    j->tokenizer = cli_tokenizer_of(e->tokenizer, WEFT_SIDE_ANY, e->pre, err);
    bool good = j->tokenizer && score_begin(&j->score, e->info.n_out);
    for (int i = 0; i < 2 && good; i++) {
        if (!models[i])
            continue;
        j->encoder[i] = weft_encoder_new(models[i], &o, err);
        j->out[i] = j->encoder[i] ? cli_alloc((size_t)e->info.n_out, sizeof(float), "logits")
                                  : NULL;
        good = j->out[i] != NULL;
    }
    return good;
}

static void close_job(mask_job *j)
{
    for (int i = 0; i < 2; i++) {
        cli_free(j->out[i]);
        weft_encoder_free(j->encoder[i]);
    }
    score_end(&j->score);
    weft_tokenizer_free(j->tokenizer);
}

/* Token k is masked, and comes back. */
static int score_mask(mask_job *j, int32_t *ids, const weft_tokens *of, int32_t k)
{
    weft_error err = { 0 };
    const int32_t hidden = ids[k];
    ids[k] = j->mask;
    for (int i = 0; i < 2 && j->encoder[i]; i++) {
        const weft_input in = {
            .ids = ids, .types = of->types, .n = of->n, .at = &k, .n_at = 1, .out = j->out[i]
        };
        if (weft_encoder_eval(j->encoder[i], &in, 1, &err) != WEFT_OK)
            return cli_fail(&err);
    }
    ids[k] = hidden;
    return score_row(&j->score, j->out[0], j->out[1], j->e->info.n_out, hidden) ? 0
                                                                                : cli_no_memory();
}

static int score_text(void *job, const line_reader *r, const char *text, size_t n)
{
    mask_job *j = job;
    weft_error err = { 0 };
    weft_tokens *t = weft_tokenizer_encode(j->tokenizer, text, n, NULL, &err);
    if (!t)
        return cli_fail(&err);
    int code = t->n > j->e->info.n_ctx ? too_long(r, t->n, j->e->info.n_ctx) : 0;
    int32_t *ids = code ? NULL : cli_alloc((size_t)t->n + 1, sizeof *ids, "ids");
    if (!code && !ids)
        code = cli_no_memory();
    if (ids)
        memcpy(ids, t->ids, (size_t)t->n * sizeof *ids);
    for (int32_t k = 0; !code && k < t->n && !cli_interrupted(); k++)
        if (!weft_tokenizer_is_special(j->tokenizer, ids[k]))
            code = score_mask(j, ids, t, k);
    cli_free(ids);
    weft_tokens_free(t);
    return code;
}

int eval_masks(const whole_eval *e, weft_evaluation *to, int64_t *n_line)
{
    weft_error err = { 0 };
    mask_job j = { .e = e };
    line_reader *files;
    int code = read_lines(e, &files);
    if (!code && !open_job(&j, &err))
        code = err.code ? cli_fail(&err) : cli_no_memory();
    if (!code) {
        weft_tokenizer_info info = { .struct_size = sizeof info };
        weft_tokenizer_get_info(j.tokenizer, &info);
        j.mask = info.mask_id;
        if (j.mask < 0) {
            fprintf(stderr, "weft: %s: the tokenizer has neither [MASK] nor <mask>\n", e->path);
            code = 1;
        }
    }
    *n_line = 0;
    if (!code)
        code = each_line(e, files, score_text, &j, n_line);
    code = finish(code, e, &j.score, to);
    close_job(&j);
    free_lines(files, e);
    return code;
}

/* ---- pairs
 * --------------------------------------------------------------------------------------- */

typedef struct pair_job {
    const whole_eval *e;
    weft_tokenizer *source, *target;
    weft_engine *engine[2];
    weft_session *session[2]; /* the second: NULL without another model */
    row_scores score;
} pair_job;

static bool open_pairs(pair_job *j, weft_error *err)
{
    const whole_eval *e = j->e;
    const weft_engine_options o = { .struct_size = sizeof o,
                                    .threads = e->threads,
                                    .kv_type = WEFT_KV_F32 };
    weft_model *const models[] = { e->model, e->other };
    j->source = cli_tokenizer_of(e->tokenizer, WEFT_SIDE_SOURCE, e->pre, err);
    j->target = j->source ? cli_tokenizer_of(e->tokenizer, WEFT_SIDE_TARGET, e->pre, err) : NULL;
    bool good = j->target && score_begin(&j->score, e->info.n_vocab);
    for (int i = 0; i < 2 && good; i++) {
        if (!models[i])
            continue;
        j->engine[i] = weft_engine_new(models[i], &o, err);
        j->session[i] = j->engine[i] ? weft_session_new(j->engine[i], err) : NULL;
        good = j->session[i] != NULL;
    }
    return good;
}

static void close_pairs(pair_job *j)
{
    for (int i = 0; i < 2; i++) {
        weft_session_free(j->session[i]);
        weft_engine_free(j->engine[i]);
    }
    score_end(&j->score);
    weft_tokenizer_free(j->target);
    weft_tokenizer_free(j->source);
}

/* Each token is predicted from those before it; the first follows the model's start token. */
static bool score_target(pair_job *j, const weft_tokens *source, const int32_t *want, int64_t n,
                         weft_error *err)
{
    int32_t given = j->e->info.start_id < 0 ? 0 : j->e->info.start_id;
    for (int i = 0; i < 2 && j->session[i]; i++)
        if (weft_session_source(j->session[i], source->ids, source->n, err) != WEFT_OK)
            return false;
    for (int64_t k = 0; k < n && !cli_interrupted(); k++) {
        for (int i = 0; i < 2 && j->session[i]; i++)
            if (weft_session_eval(j->session[i], &given, 1, err) != WEFT_OK)
                return false;
        const float *other = j->session[1] ? weft_session_logits(j->session[1]) : NULL;
        if (!score_row(&j->score, weft_session_logits(j->session[0]), other, j->e->info.n_vocab,
                       want[k])) {
            *err = cli_refusal();
            return false;
        }
        given = want[k];
    }
    return true;
}

/* The text ends with the model's end, which not every tokenizer puts there, and begins without the
 * start. */
static int score_tokens(pair_job *j, const line_reader *r, const weft_tokens *s,
                        const weft_tokens *t)
{
    weft_error err = { 0 };
    id_list want = { 0 };
    const weft_model_info *m = &j->e->info;
    const int64_t skip = t->n > 0 && t->ids[0] == m->start_id;
    bool added = cli_add_ids(&want, t->ids + skip, t->n - skip);
    if (added && m->eos_id >= 0 &&
        (want.n == 0 || !weft_model_is_end(j->e->model, want.at[want.n - 1])))
        added = cli_add_ids(&want, &m->eos_id, 1);
    const int64_t longest = s->n > want.n ? s->n : want.n;
    int code = !added ? cli_no_memory() : longest > m->n_ctx ? too_long(r, longest, m->n_ctx) : 0;
    if (!code && !score_target(j, s, want.at, want.n, &err))
        code = cli_fail(&err);
    cli_free(want.at);
    return code;
}

static int score_pair(void *job, const line_reader *r, const char *line, size_t n)
{
    pair_job *j = job;
    weft_error err = { 0 };
    const char *tab = memchr(line, '\t', n);
    if (!tab) {
        fprintf(stderr, "weft: %s: line %lld has no tab; expected source, tab, translation\n",
                r->path, (long long)r->number);
        return 1;
    }
    const size_t first = (size_t)(tab - line);
    weft_tokens *s = weft_tokenizer_encode(j->source, line, first, NULL, &err);
    weft_tokens *t = s ? weft_tokenizer_encode(j->target, tab + 1, n - first - 1, NULL, &err)
                       : NULL;
    const int code = t ? score_tokens(j, r, s, t) : cli_fail(&err);
    weft_tokens_free(t);
    weft_tokens_free(s);
    return code;
}

int eval_pairs(const whole_eval *e, weft_evaluation *to, int64_t *n_line)
{
    weft_error err = { 0 };
    pair_job j = { .e = e };
    line_reader *files;
    int code = read_lines(e, &files);
    if (!code && !open_pairs(&j, &err))
        code = err.code ? cli_fail(&err) : cli_no_memory();
    *n_line = 0;
    if (!code)
        code = each_line(e, files, score_pair, &j, n_line);
    code = finish(code, e, &j.score, to);
    close_pairs(&j);
    free_lines(files, e);
    return code;
}
