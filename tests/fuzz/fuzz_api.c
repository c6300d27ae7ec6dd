/* fuzz_api.c - bytes as a sequence of public calls on sessions of a tiny model: new, fork, eval,
 * step, sync, match, rewind, save, restore, cancel, sample, search, in any order and with arguments
 * that may be out of range. The target tracks the expected tokens of each session and compares its
 * logits with those of a session that evaluates the same tokens at once. */
#include "gguf_build.h"
#include "hostile.h"
#include "weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_SLOT  5
#define N_CTX   80 /* more than a page of 64 */
#define N_VOCAB 7

/* A session and its expected tokens. */
typedef struct slot {
    weft_session *session;
    int32_t ids[N_CTX];
    int64_t n;
    bool cancelled;
} slot;

typedef struct machine {
    const uint8_t *at, *end; /* of the input */
    slot slot[N_SLOT];
    weft_error err;
} machine;

static weft_model *model;
static weft_engine *engines[2], *engine; /* caches of three and of six pages; the input's */
static weft_engine *other;               /* holds the reference session */
static weft_session *fresh;
static weft_sampler *sampler;
static char saved[512];

static void must(bool holds, const char *what, const weft_error *err)
{
    if (holds)
        return;
    fprintf(stderr, "%s (%d: %.300s)\n", what, (int)err->code, err->code ? err->message : "");
    abort();
}

static weft_engine *new_engine(int n_session, int n_batch, int64_t n_cache)
{
    weft_error err = { 0 };
    const weft_engine_options o = { .struct_size = sizeof o,
                                    .threads = 1,
                                    .n_session = n_session,
                                    .n_batch = n_batch,
                                    .n_ctx = N_CTX,
                                    .n_cache = n_cache };
    weft_engine *e = weft_engine_new(model, &o, &err);
    must(e != NULL, "no engine", &err);
    return e;
}

/* Once: a model of one layer, and engines whose pools are too small for all sessions at once. */
static void open_model(void)
{
    weft_error err = { 0 };
    char path[512];
    const llama_shape shape = { .type = &dtype_real,
                                .n_layer = 1,
                                .d_model = 4,
                                .n_head = 2,
                                .n_head_kv = 1,
                                .d_ff = 4,
                                .n_vocab = N_VOCAB,
                                .n_ctx = N_CTX };
    setenv("WEFT_ISA", "scalar", 1); /* the fastest table for rows of four values */
    bytes b = gguf_llama(&shape);
    const char *directory = getenv("TMPDIR");
    directory = directory ? directory : "/tmp";
    snprintf(path, sizeof path, "%s/weft-fuzz-api-%ld.gguf", directory, (long)getpid());
    snprintf(saved, sizeof saved, "%s/weft-fuzz-api-%ld.session", directory, (long)getpid());
    FILE *f = fopen(path, "wb");
    must(f && fwrite(b.at, 1, b.n, f) == b.n && fclose(f) == 0, "no file", &err);
    const weft_model_options o = { .struct_size = sizeof o, .ram_max = 64 << 20 };
    model = weft_model_open(path, &o, &err);
    unlink(path);
    free(b.at);
    must(model != NULL, "the model does not open", &err);
    engines[0] = new_engine(3, 7, 3 * 64);
    engines[1] = new_engine(3, 7, 6 * 64);
    other = new_engine(1, N_CTX, 0);
    fresh = weft_session_new(other, &err);
    const weft_sampler_options s = { .struct_size = sizeof s,
                                     .temperature = 1,
                                     .top_k = 5,
                                     .repetition = 1.2,
                                     .dry_multiplier = 0.5 };
    sampler = weft_sampler_new(model, &s, &err);
    must(fresh && sampler, "no session or sampler", &err);
}

static int take(machine *m, int below)
{
    return m->at < m->end ? *m->at++ % below : 0;
}

/* A few tokens, or about a page of them, drawn from few kinds so that sessions often share a
 * prefix. */
static int64_t take_ids(machine *m, int32_t *ids)
{
    const int drawn = take(m, 128), kind = take(m, 4);
    const int64_t n = drawn < 120 ? 1 + drawn % 8 : drawn < 127 ? drawn - 120 + 61 : N_CTX + 4;
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((kind == 3 ? i / 64 : kind) + i % 3);
    return n;
}

/* ---- what must hold -------------------------------------------------------------------------- */

static void check_tokens(const machine *m, const slot *s)
{
    int64_t n;
    const int32_t *ids = weft_session_tokens(s->session, &n);
    must(n == s->n && n == weft_session_length(s->session), "another number of tokens", &m->err);
    must(memcmp(ids, s->ids, (size_t)n * sizeof *ids) == 0, "other tokens", &m->err);
}

/* The reference session continues from its state or starts again. */
static void check_logits(machine *m, const slot *s, bool anew)
{
    const float *z = weft_session_logits(s->session);
    if (!z)
        return;
    must(s->n > 0, "logits after nothing", &m->err);
    if (anew)
        must(weft_session_rewind(fresh, 0, &m->err) == WEFT_OK, "no rewind", &m->err);
    must(weft_session_sync(fresh, s->ids, s->n, NULL, &m->err) == WEFT_OK, "no sync", &m->err);
    must(memcmp(z, weft_session_logits(fresh), N_VOCAB * sizeof *z) == 0, "other logits", &m->err);
}

/* Checks the result of an eval of n more tokens. */
static void check_eval(machine *m, slot *s, const int32_t *ids, int64_t n, weft_status status)
{
    const bool room = n <= N_CTX - s->n;
    must(status == WEFT_OK || status == WEFT_ECONTEXT || status == WEFT_ESTOPPED,
         "an eval that fails otherwise", &m->err);
    must(room || status == WEFT_ECONTEXT, "more tokens than the context has", &m->err);
    must(status != WEFT_OK || !s->cancelled, "a cancelled session went on", &m->err);
    must(status != WEFT_ESTOPPED || s->cancelled, "stopped, but not cancelled", &m->err);
    if (status == WEFT_ESTOPPED)
        s->cancelled = false;
    if (status != WEFT_OK)
        return;
    memcpy(s->ids + s->n, ids, (size_t)n * sizeof *ids);
    s->n += n;
    must(weft_session_logits(s->session) != NULL, "no logits after an eval", &m->err);
}

/* ---- calls ----------------------------------------------------------------------------------- */

typedef void call_fn(machine *m, slot *s);

static void renew(machine *m, slot *s)
{
    weft_session_free(s->session);
    *s = (slot){ .session = weft_session_new(engine, &m->err) };
    must(s->session != NULL, "no session", &m->err);
}

static void fork_to(machine *m, slot *s)
{
    slot *to = &m->slot[take(m, N_SLOT)];
    if (to == s)
        return;
    weft_session_free(to->session);
    *to = *s;
    to->cancelled = false;
    to->session = weft_session_fork(s->session, &m->err);
    must(to->session != NULL, "no fork", &m->err);
}

static void eval(machine *m, slot *s)
{
    int32_t ids[N_CTX + 4];
    const int64_t n = take_ids(m, ids);
    check_eval(m, s, ids, n, weft_session_eval(s->session, ids, n, &m->err));
}

static void eval_one(machine *m, slot *s)
{
    const int32_t id = take(m, N_VOCAB);
    check_eval(m, s, &id, 1, weft_session_eval(s->session, &id, 1, &m->err));
}

/* All sessions together: those that fail or are cancelled are undone alone. */
static void eval_all(machine *m, slot *first)
{
    weft_eval_request w[N_SLOT];
    int32_t ids[N_SLOT][N_CTX + 4];
    (void)first;
    for (int i = 0; i < N_SLOT; i++)
        w[i] = (weft_eval_request){ .session = m->slot[i].session,
                                    .ids = ids[i],
                                    .n = take_ids(m, ids[i]) };
    const weft_status status = weft_engine_eval(engine, w, N_SLOT, &m->err);
    weft_status failed = WEFT_OK;
    for (int i = 0; i < N_SLOT; i++) {
        failed = failed == WEFT_OK ? w[i].status : failed;
        must((w[i].status == WEFT_OK) == (w[i].message == NULL), "no message", &m->err);
        check_eval(m, &m->slot[i], ids[i], w[i].n, w[i].status);
    }
    must(status == failed, "another status than that of the first failure", &m->err);
}

/* A few steps; unfinished sessions keep the tokens evaluated so far. */
static void step_all(machine *m, slot *first)
{
    weft_eval_request w[N_SLOT];
    int32_t ids[N_SLOT][N_CTX + 4];
    (void)first;
    for (int i = 0; i < N_SLOT; i++)
        w[i] = (weft_eval_request){ .session = m->slot[i].session,
                                    .ids = ids[i],
                                    .n = take_ids(m, ids[i]) };
    for (int k = take(m, 12); k >= 0; k--) {
        const weft_status status = weft_engine_step(engine, w, N_SLOT, &m->err);
        must(status == WEFT_OK || status == WEFT_ECONTEXT, "a step that fails otherwise", &m->err);
    }
    for (int i = 0; i < N_SLOT; i++) {
        slot *s = &m->slot[i];
        must(w[i].status != WEFT_ESTOPPED || s->cancelled, "stopped, but not cancelled", &m->err);
        s->cancelled = s->cancelled && w[i].status != WEFT_ESTOPPED;
        memcpy(s->ids + s->n, ids[i], (size_t)w[i].done * sizeof **ids);
        s->n += w[i].done;
    }
}

static void rewind_to(machine *m, slot *s)
{
    const int64_t length = take(m, N_CTX + 8) - 4;
    const weft_status status = weft_session_rewind(s->session, length, &m->err);
    must(status == (length < 0 || length > s->n ? WEFT_EINVAL : WEFT_OK), "a rewind", &m->err);
    if (status == WEFT_OK)
        s->n = length;
}

/* A prefix of another session, then tokens of its own. */
static int64_t take_text(machine *m, int32_t *ids)
{
    const slot *of = &m->slot[take(m, N_SLOT)];
    const int64_t same = take(m, N_CTX + 1) % (of->n + 1), more = take(m, 3);
    memcpy(ids, of->ids, (size_t)same * sizeof *ids);
    for (int64_t i = 0; i < more; i++)
        ids[same + i] = take(m, N_VOCAB);
    return same + more;
}

static void sync_to(machine *m, slot *s)
{
    int32_t ids[N_CTX + 4];
    int64_t reused = -1;
    const int64_t n = take_text(m, ids);
    const weft_status status = weft_session_sync(s->session, ids, n, &reused, &m->err);
    must(reused >= 0 && reused <= n, "more was reused than there is", &m->err);
    memcpy(s->ids, ids, (size_t)reused * sizeof *ids);
    s->n = reused;
    if (reused < n)
        check_eval(m, s, ids + reused, n - reused, status);
    else
        must(status == WEFT_OK, "a sync with nothing to do", &m->err);
}

static void match(machine *m, slot *s)
{
    int32_t ids[N_CTX + 4];
    const int64_t n = take_text(m, ids), got = weft_session_match(s->session, ids, n);
    must(got >= 0 && got <= n, "a match", &m->err);
    memcpy(s->ids, ids, (size_t)got * sizeof *ids);
    s->n = got;
}

/* Files are slow: one call in eight. */
static void save_and_restore(machine *m, slot *s)
{
    if (take(m, 8) != 0)
        return;
    must(weft_session_save(s->session, saved, &m->err) == WEFT_OK, "no file", &m->err);
    slot *to = &m->slot[take(m, N_SLOT)];
    weft_session *back = weft_session_restore(engine, saved, &m->err);
    must(back || m->err.code == WEFT_ECONTEXT, "no session of a file", &m->err);
    if (!back)
        return;
    const slot was = *s;
    weft_session_free(to->session);
    *to = was;
    to->session = back;
    to->cancelled = false;
}

static void cancel(machine *m, slot *s)
{
    (void)m;
    weft_session_cancel(s->session);
    s->cancelled = true;
}

static void sample(machine *m, slot *s)
{
    int32_t id = -1;
    const bool any = weft_session_logits(s->session) != NULL;
    const weft_status status = weft_sampler_next(sampler, s->session, &id, &m->err);
    must(status == (any ? WEFT_OK : WEFT_EINVAL), "a pick", &m->err);
    must(!any || (id >= 0 && id < N_VOCAB), "no token", &m->err);
    weft_logprob top[N_VOCAB + 3];
    must(weft_session_top(s->session, N_VOCAB + 3, top) == (any ? N_VOCAB : 0), "the top", &m->err);
    must(weft_session_greedy(s->session) == (any ? top[0].id : -1), "the best", &m->err);
}

static void search(machine *m, slot *s)
{
    const weft_beam_options o = { .struct_size = sizeof o,
                                  .n_beam = 1 + take(m, 3),
                                  .n_new = 1 + take(m, 5),
                                  .ends = &(int32_t){ 2 },
                                  .n_end = 1 };
    if (s->n == 0)
        return;
    weft_beams *b = weft_beam_search(engine, s->ids, s->n, &o, &m->err);
    must(b || m->err.code == WEFT_ECONTEXT, "a search", &m->err);
    weft_beams_free(b);
}

/* Calls that must be refused without effect. */
static void refuse(machine *m, slot *s)
{
    static const int64_t wrong[] = { 0, -1, -3, INT64_MIN, INT64_MAX, INT64_C(1) << 32 };
    const int64_t n = wrong[take(m, 6)];
    const int32_t ids[] = { 1, take(m, 2) ? -1 : N_VOCAB };
    weft_eval_request w = { .session = s->session, .ids = ids, .n = 1, .done = n == 0 ? 2 : n };
    must(weft_session_eval(s->session, ids, n, &m->err) != WEFT_OK, "a wrong count", &m->err);
    must(weft_session_eval(s->session, ids, 2, &m->err) != WEFT_OK, "a wrong token", &m->err);
    must(weft_engine_step(engine, &w, 1, &m->err) != WEFT_OK, "more done than asked", &m->err);
    must(weft_session_match(s->session, ids, -1) == -1, "a match of -1", &m->err);
    must(weft_session_source(s->session, ids, 1, &m->err) == WEFT_EINVAL, "a source", &m->err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static call_fn *const calls[] = { renew,    fork_to,   eval,    eval_one, eval_all,
                                      step_all, rewind_to, sync_to, match,    save_and_restore,
                                      cancel,   sample,    search,  refuse };
    if (!model)
        open_model();
    machine m = { .at = data, .end = data + size };
    weft_model_info before = { .struct_size = sizeof before }, after = before;
    weft_model_get_info(model, &before);
    engine = engines[take(&m, 2)];
    for (int i = 0; i < N_SLOT; i++)
        renew(&m, &m.slot[i]);
    for (int n = 0; m.at < m.end && n < 12; n++) {
        call_fn *call = calls[take(&m, sizeof calls / sizeof *calls)];
        slot *s = &m.slot[take(&m, N_SLOT)];
        call(&m, s);
        for (int i = 0; i < N_SLOT; i++)
            check_tokens(&m, &m.slot[i]);
        check_logits(&m, s, false);
    }
    for (int i = 0; i < N_SLOT; i++) {
        check_logits(&m, &m.slot[i], size % 16 == 0);
        weft_session_free(m.slot[i].session);
    }
    weft_model_get_info(model, &after);
    must(before.bytes_anonymous == after.bytes_anonymous, "memory is left behind", &m.err);
    return 0;
}
