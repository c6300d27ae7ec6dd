/* weft_train with an adapter: the run is a PEFT directory that computes what the trainer computed, a
 * stopped run resumes to the same bytes, the base is untouched, and memory is as planned. */
#include "support.h"
#include "weft.h"

#include <math.h>

enum { N_STEP = 6, MOST_VOCAB = 64 };

static const char *text;
static char base[256]; /* its path, once it is there */

static char *whole_file(const char *directory, const char *name, size_t *n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*n + 1);
    assert_int_equal(fread(data, 1, *n, f), *n);
    fclose(f);
    return data;
}

static void same_file(const char *a, const char *b, const char *name)
{
    size_t n = 0, m = 0;
    char *x = whole_file(a, name, &n), *y = whole_file(b, name, &m);
    assert_non_null(x);
    assert_non_null(y);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static weft_train_options options_for(const char *out)
{
    weft_train_options o;
    weft_train_defaults(&o, sizeof o);
    o.out = out;
    o.data = &text;
    o.n_data = 1;
    o.n_ctx = 16;
    o.n_sample = 2;
    o.n_step = N_STEP;
    o.n_warmup = 0;
    o.threads = 1;
    o.save_every = 2;
    o.seed = 3;
    return o;
}

/* A small new model, to have a base with a tokenizer. */
static const char *base_model(void)
{
    weft_error err = { 0 };
    if (*base)
        return base;
    static char words[4096];
    for (size_t i = 0; i < sizeof words; i++)
        words[i] = (char)('a' + (i * i + i / 7) % 11);
    text = temp_file("words.txt", words, sizeof words);
    weft_train_options o = options_for(temp_path("base"));
    o.characters = true;
    o.arch = "llama";
    o.n_layer = 2;
    o.d_model = 64;
    o.n_head = 2;
    o.d_ff = 96;
    if (weft_train(&o, NULL, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    snprintf(base, sizeof base, "%s", o.out);
    return base;
}

enum { N_KIND = 2 };

static const struct {
    const char *name, *spec;
} kinds[N_KIND] = { { "lora", "r=4,alpha=8,dropout=0.1" }, { "dora", "r=4,alpha=8,dora" } };

/* The path of a run that trains this kind of adapter. */
static const char *place(const char *name, int kind)
{
    char own_name[60];
    snprintf(own_name, sizeof own_name, "%s-%s", name, kinds[kind].name);
    return temp_path(own_name);
}

static weft_train_options adapting_kind(const char *name, int kind)
{
    const char *from = base_model();
    weft_train_options o = options_for(place(name, kind));
    o.model = from;
    o.lora = kinds[kind].spec;
    o.lr = 1e-2;
    return o;
}

static weft_train_options adapting(const char *name)
{
    return adapting_kind(name, 0);
}

static void must_train(const weft_train_options *o, weft_train_info *info)
{
    weft_error err = { 0 };
    if (weft_train(o, info, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static void logits_with(weft_model *m, weft_adapter *a, float *to)
{
    static const int32_t ids[] = { 1, 2, 3, 5, 8, 4 };
    weft_error err = { 0 };
    weft_adapter_info info = { .struct_size = sizeof info };
    weft_model_info of = { .struct_size = sizeof of };
    weft_adapter_get_info(a, &info);
    weft_model_get_info(m, &of);
    assert_true(of.n_vocab <= MOST_VOCAB);
    const weft_engine_options o = { .struct_size = sizeof o,
                                    .threads = 1,
                                    .adapter_rank = info.rank };
    weft_engine *e = weft_engine_new(m, &o, &err);
    weft_session *s = e ? weft_session_new(e, &err) : NULL;
    if (!s || weft_session_adapt(s, a, 1, &err) != WEFT_OK ||
        weft_session_eval(s, ids, 6, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    memcpy(to, weft_session_logits(s), (size_t)of.n_vocab * sizeof *to);
    weft_session_free(s);
    weft_engine_free(e);
}

typedef struct seen {
    float first[MOST_VOCAB], last[MOST_VOCAB], plain[MOST_VOCAB];
    size_t told; /* bytes, before the first step */
    int64_t stop_at;
    double losses[N_STEP + 1];
} seen;

static bool look(void *ud, const weft_train_progress *p, weft_model *m)
{
    seen *s = ud;
    assert_non_null(p->adapter);
    if (isnan(p->lr)) {
        s->told = p->bytes;
        logits_with(m, p->adapter, s->first);
    } else {
        s->losses[p->step] = p->loss;
    }
    logits_with(m, NULL, s->plain);
    logits_with(m, p->adapter, s->last);
    return !s->stop_at || p->step < s->stop_at;
}

static void check_written(int kind)
{
    static seen s;
    float found[MOST_VOCAB] = { 0 };
    weft_error err = { 0 };
    weft_train_options o = adapting_kind("adapter", kind);
    s = (seen){ 0 };
    o.progress = look;
    o.progress_ud = &s;
    must_train(&o, NULL);
    assert_memory_equal(s.first, s.plain, sizeof s.first); /* B is 0 */
    assert_true(memcmp(s.last, s.plain, sizeof s.last) != 0);
    const weft_model_options mo = { .struct_size = sizeof mo };
    weft_model *m = weft_model_open(base, &mo, &err);
    weft_adapter *a = m ? weft_adapter_open(m, o.out, &err) : NULL;
    if (!a)
        fail_msg("%s", err.message);
    logits_with(m, a, found);
    assert_memory_equal(found, s.last, sizeof found);
    weft_adapter_close(a);
    weft_model_close(m);
    size_t n;
    char *tokenizer = whole_file(o.out, "tokenizer.json", &n);
    assert_non_null(tokenizer);
    free(tokenizer);
    assert_null(whole_file(o.out, "config.json", &n)); /* it is not a model */
}

/* The written directory, opened again. */
static void written_is_trained(void **state)
{
    (void)state;
    for (int kind = 0; kind < N_KIND; kind++)
        check_written(kind);
}

static void check_resumed(int kind)
{
    static seen s;
    for (int way = 0; way < 2; way++) {
        weft_train_options o = adapting_kind(way ? "whole-2" : "whole-1", kind);
        o.n_part = way ? 2 : 1;
        o.n_group = way ? 2 : 0;
        o.recompute = way;
        o.threads = 1 + way;
        must_train(&o, NULL);
        const char *whole = o.out;
        o.out = place(way ? "part-2" : "part-1", kind);
        s = (seen){ .stop_at = 3 };
        o.progress = look;
        o.progress_ud = &s;
        must_train(&o, NULL);
        s.stop_at = 0;
        o.resume = true;
        o.threads = 2 - way;
        weft_train_info info = { .struct_size = sizeof info };
        must_train(&o, &info);
        assert_int_equal(info.from_step, 3);
        same_file(whole, o.out, "adapter_model.safetensors");
        same_file(whole, o.out, "adapter_config.json");
    }
}

static void resumed_is_whole(void **state)
{
    (void)state;
    for (int kind = 0; kind < N_KIND; kind++)
        check_resumed(kind);
}

/* A run that continues from the adapter of another computes what that did. */
static void init_continues(void **state)
{
    (void)state;
    static seen one, two;
    for (int kind = 0; kind < N_KIND; kind++) {
        weft_train_options o = adapting_kind("from", kind);
        char spec[600];
        one = two = (seen){ 0 };
        o.progress = look;
        o.progress_ud = &one;
        must_train(&o, NULL);
        snprintf(spec, sizeof spec, "init=%s", o.out);
        o.out = place("continued", kind);
        o.lora = spec;
        o.progress_ud = &two;
        must_train(&o, NULL);
        assert_memory_equal(two.first, one.last, sizeof one.last);
        assert_true(memcmp(two.last, two.first, sizeof two.last) != 0);
    }
}

/* The peak is below that of full training, and a cap one tenth above it suffices. */
static void memory_is_told(void **state)
{
    (void)state;
    weft_train_options full = options_for(temp_path("told-full"));
    full.model = base;
    weft_train_info all = { .struct_size = sizeof all };
    must_train(&full, &all);
    for (int kind = 0; kind < N_KIND; kind++) {
        weft_train_info info = { .struct_size = sizeof info };
        weft_train_options o = adapting_kind("told", kind);
        must_train(&o, &info);
        print_message("%s: peak %zu bytes; all weights: %zu\n", kinds[kind].name, info.bytes_peak,
                      all.bytes_peak);
        assert_true(info.bytes_peak < all.bytes_peak);
        o.out = place("capped", kind);
        o.ram_max = info.bytes_peak + info.bytes_peak / 10;
        must_train(&o, &info); /* the plan is within a tenth */
    }
}

static void refused(weft_train_options o, const char *says)
{
    weft_error err = { 0 };
    assert_true(weft_train(&o, NULL, &err) != WEFT_OK);
    if (!strstr(err.message, says))
        fail_msg("\"%s\" does not say \"%s\"", err.message, says);
}

static void refusals(void **state)
{
    (void)state;
    const char *one = "blk.*";
    weft_train_options o = adapting("refused");
    o.bf16 = true;
    refused(o, "bf16");
    o = adapting("refused");
    o.frozen = &one;
    o.n_frozen = 1;
    refused(o, "frozen");
    o = adapting("refused");
    o.model = NULL;
    refused(o, "no model");
    o = adapting("refused");
    o.lora = "r=4,targets=nothing";
    refused(o, "matches no matrix");
    o = adapting("kept");
    must_train(&o, NULL);
    refused(o, "has a checkpoint");
    o.resume = true;
    o.lora = NULL;
    refused(o, "resume it with --lora");
    static const char *const others[] = { "r=5,alpha=8,dropout=0.1", "r=4,alpha=9,dropout=0.1",
                                          "r=4,alpha=8,rslora,dropout=0.1", "r=4,alpha=8" };
    for (int i = 0; i < 4; i++) {
        o.lora = others[i];
        refused(o, "this run has seed");
    }
    for (int kind = 0; kind < N_KIND; kind++) {
        o = adapting_kind("other-kind", kind);
        must_train(&o, NULL);
        o.resume = true;
        o.lora = kinds[1 - kind].spec;
        refused(o, kind ? "has gains (DoRA)" : "has no gains (DoRA)");
    }
    static const char pairs[] = "{\"prompt\": \"ab\", \"chosen\": \"c\", \"rejected\": \"de\"}\n"
                                "{\"prompt\": \"ba\", \"chosen\": \"cd\", \"rejected\": \"d\"}\n";
    const char *data = temp_file("pairs.jsonl", pairs, strlen(pairs));
    o = options_for(temp_path("pairs"));
    o.model = base;
    o.data = &data;
    o.validation = 0;
    refused(o, "preferences train an adapter; add --lora r=16");
    o.lora = "r=2";
    must_train(&o, NULL);
    o.resume = true;
    o.dpo_beta = 0.2;
    refused(o, "this run has seed");
}

/* The next step would change the adapter that the saved session needs. */
static bool save_session(void *ud, const weft_train_progress *p, weft_model *m)
{
    const weft_engine_options o = { .struct_size = sizeof o, .threads = 1, .adapter_rank = 4 };
    weft_error err = { 0 };
    weft_engine *e = weft_engine_new(m, &o, &err);
    weft_session *s = e ? weft_session_new(e, &err) : NULL;
    if (!s || weft_session_adapt(s, p->adapter, 1, &err) != WEFT_OK ||
        weft_session_eval(s, (int32_t[]){ 1, 2 }, 2, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(weft_session_save(s, temp_path("session"), &err), WEFT_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "that is being trained"));
    weft_session_free(s);
    weft_engine_free(e);
    ++*(int *)ud;
    return false;
}

static void no_saved_sessions(void **state)
{
    (void)state;
    int n = 0;
    weft_train_options o = adapting("sessions");
    o.progress = save_session;
    o.progress_ud = &n;
    must_train(&o, NULL);
    assert_int_equal(n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("train --lora: the written directory computes what the trainer did",
             written_is_trained),
        TEST("train --lora: a stopped run resumes to the same bytes", resumed_is_whole),
        TEST("train --lora: init continues from an adapter", init_continues),
        TEST("train --lora: memory is less than for all weights, and as planned", memory_is_told),
        TEST("train --lora: what does not work is refused", refusals),
        TEST("train --lora: no session is saved with an unfinished adapter", no_saved_sessions),
    };
    return RUN(tests);
}
