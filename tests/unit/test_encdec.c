/* Encoder-decoders in an engine: a session gives the same bits as a forward without caches,
 * whatever else is in the batch; beams share one source; texts and scores equal those of
 * transformers (tools/encdec_golden.py). */
#include "small_model.h"

#include "engine/beam.h"
#include "engine/estimate.h"

#include <jansson.h>
#include <math.h>
#include <sys/stat.h>

enum { MAX_IDS = 256 };

static const char *const names[] = { "bart",     "marian",          "m2m", "t5", "flan-t5",
                                     "bahdanau", "transformer-2017" };
#define N_NAME (sizeof names / sizeof *names)
#define N_TEXT (N_NAME - 2) /* that transformers knows */

/* Tokens below 59, which every golden has. */
static void words(int32_t *ids, int n, uint64_t who)
{
    for (int i = 0; i < n; i++)
        ids[i] = (int32_t)(3 + draw(500 + who, (uint64_t)i) % 56);
}

/* ---- cached is recomputed -------------------------------------------------------------------- */

static void cached_is_recomputed(void **state)
{
    (void)state;
    int32_t source[23], ids[17];
    float want[128];
    words(source, 23, 1);
    words(ids, 17, 2);
    for (size_t k = 0; k < N_NAME; k++) {
        fixture_model f;
        open_golden(&f, names[k]);
        engine *e = make_engine(&f, (engine_options){ .n_thread = 2, .n_batch = 5 });
        session *s = make_session(e);
        must_encode(e, &(source_text){ s, source, 23 }, 1);
        for (int n = 1; n <= 17; n++) {
            must_feed(s, ids + n - 1, 1);
            recompute(&f.model, e->model->kern, source, 23, ids, n, want);
            assert_memory_equal(s->logits, want, (size_t)f.model.n_vocab * sizeof *want);
        }
        session_cut(s, 0);
        must_feed(s, ids, 17); /* the same in pieces of five */
        assert_memory_equal(s->logits, want, (size_t)f.model.n_vocab * sizeof *want);
        source[7] ^= 1; /* the comparison can fail */
        recompute(&f.model, e->model->kern, source, 23, ids, 17, want);
        assert_true(memcmp(s->logits, want, (size_t)f.model.n_vocab * sizeof *want) != 0);
        source[7] ^= 1;
        session_free(s);
        engine_free(e);
        close_llama(&f);
    }
}

/* ---- company does not matter ----------------------------------------------------------------- */

static void company_does_not_matter(void **state)
{
    (void)state;
    int32_t source[5][20], ids[5][9];
    const int length[5] = { 20, 1, 13, 7, 19 };
    for (size_t k = 0; k < N_NAME; k++) {
        fixture_model f;
        open_golden(&f, names[k]);
        engine *e = make_engine(&f, (engine_options){ .n_thread = 2, .n_session = 6, .n_ctx = 40 });
        session *s[5], *alone = make_session(e);
        source_text from[5];
        work w[5];
        for (int i = 0; i < 5; i++) {
            words(source[i], length[i], (uint64_t)(10 + i));
            words(ids[i], 9, (uint64_t)(20 + i));
            s[i] = make_session(e);
            from[i] = (source_text){ s[i], source[i], length[i] };
            w[i] = (work){ .session = s[i], .ids = ids[i], .n = 3 + i };
        }
        must_encode(e, from, 5); /* forwards of 40 rows: not all at once */
        must_eval(e, w, 5);
        for (int i = 0; i < 5; i++) {
            must_encode(e, &(source_text){ alone, source[i], length[i] }, 1);
            must_feed(alone, ids[i], 3 + i);
            assert_memory_equal(alone->logits, s[i]->logits,
                                (size_t)f.model.n_vocab * sizeof *alone->logits);
        }
        for (int i = 0; i < 5; i++)
            session_free(s[i]);
        session_free(alone);
        assert_int_equal(e->pages.n_free, e->pages.n_page);
        engine_free(e);
        close_llama(&f);
    }
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* Six beams over a source of two pages, which is stored once. */
static void beams_share_a_source(void **state)
{
    (void)state;
    int32_t source[70];
    fixture_model f;
    weft_error err = { 0 };
    words(source, 70, 3);
    open_golden(&f, "t5");
    engine *e = make_engine(&f, (engine_options){ .n_session = 6, .n_ctx = 100 });
    session *s[6] = { make_session(e) };
    must_encode(e, &(source_text){ s[0], source, 70 }, 1);
    const int32_t start = (int32_t)f.model.start;
    must_feed(s[0], &start, 1);
    for (int i = 1; i < 6; i++)
        s[i] = session_fork(s[0], &err);
    int64_t held = e->pages.n_page - e->pages.n_free;
    assert_int_equal(held, 2 + 1); /* the source; and the start, which all share */
    for (int32_t i = 0; i < 6; i++)
        must_feed(s[i], &i, 1);
    held = e->pages.n_page - e->pages.n_free;
    assert_int_equal(held, 2 + 6);
    print_message("6 beams over a source of 70: %lld pages of %zu bytes, of which 2 are the "
                  "source's; without sharing 18\n",
                  (long long)held, e->pages.layout.page_bytes);
    assert_int_equal(pages_holders(&e->pages, s[3]->source.page[1]), 6);
    for (int i = 0; i < 6; i++)
        session_free(s[i]);
    assert_int_equal(e->pages.n_free, e->pages.n_page);
    engine_free(e);
    close_llama(&f);
}

/* Rows depend on the source: sessions of different sources share no prefix. */
static void other_sources_share_nothing(void **state)
{
    (void)state;
    int32_t source[2][8], ids[130];
    fixture_model f;
    words(source[0], 8, 4);
    words(source[1], 8, 5);
    words(ids, 130, 6);
    open_golden(&f, "t5");
    engine *e = make_engine(&f, (engine_options){ .n_session = 2, .n_ctx = 200 });
    session *a = make_session(e), *b = make_session(e);
    must_encode(e, &(source_text){ a, source[0], 8 }, 1);
    must_encode(e, &(source_text){ b, source[1], 8 }, 1);
    must_feed(a, ids, 130);
    assert_int_equal(session_match(b, ids, 130), 0);
    session_copy(b, a);
    session_cut(b, 0);
    assert_int_equal(session_match(b, ids, 130), 128);
    session_free(a);
    session_free(b);
    engine_free(e);
    close_llama(&f);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    int32_t ids[64];
    fixture_model f;
    weft_error err = { 0 };
    words(ids, 64, 7);
    open_golden(&f, "bart");
    engine *e = make_engine(&f, (engine_options){ .n_cache = 64 });
    session *s = make_session(e);
    assert_int_equal(engine_eval(e, &(work){ .session = s, .ids = ids, .n = 1 }, 1, &err),
                     WEFT_EINVAL);
    assert_non_null(
        strstr(err.message, "the model is an encoder-decoder, and its session has no source"));
    assert_int_equal(engine_encode(e, &(source_text){ s, ids, 0 }, 1, &err), WEFT_EINVAL);
    assert_int_equal(engine_encode(e, &(source_text){ s, ids, 41 }, 1, &err), WEFT_ECONTEXT);
    ids[2] = 61;
    assert_int_equal(engine_encode(e, &(source_text){ s, ids, 5 }, 1, &err), WEFT_EINVAL);
    ids[2] = -1;
    assert_int_equal(engine_encode(e, &(source_text){ s, ids, 5 }, 1, &err), WEFT_EINVAL);
    ids[2] = 9;
    const source_text twice[] = { { s, ids, 5 }, { s, ids, 4 } };
    assert_int_equal(engine_encode(e, twice, 2, &err), WEFT_EINVAL);
    must_encode(e, &(source_text){ s, ids, 5 }, 1);
    session *other = make_session(e);
    assert_int_equal(engine_encode(e, &(source_text){ other, ids, 5 }, 1, &err), WEFT_ECONTEXT);
    assert_int_equal(session_save(s, temp_path("s"), &err), WEFT_EUNSUPPORTED);
    session_free(s);
    session_free(other);
    assert_int_equal(e->pages.n_free, e->pages.n_page);
    engine_free(e);
    close_llama(&f);

    open_typed(&f, &dtype_f32);
    e = make_engine(&f, (engine_options){ 0 });
    s = make_session(e);
    assert_int_equal(engine_encode(e, &(source_text){ s, ids, 5 }, 1, &err), WEFT_EINVAL);
    assert_non_null(strstr(err.message, "is not an encoder-decoder"));
    session_free(s);
    engine_free(e);
    close_llama(&f);
}

/* Blocks of both stacks count, of T5 with a norm and two matrices each. */
static void costs(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    part_cost c[N_PART];
    open_golden(&f, "t5");
    const model *m = &f.model;
    const int64_t D = m->d_model, F = m->d_ff;
    assert_int_equal(model_cost(m, 8, c, &err), WEFT_OK);
    assert_int_equal(c[PART_FEED_FORWARD].n_parameter,
                     (m->n_layer_src + m->n_layer) * (D + 2 * D * F));
    assert_int_equal(c[PART_EMBEDDING].n_parameter, m->n_vocab * D);
    model_close(&f.model);
}

/* Every k-th allocation fails while an engine, a session, a source and beams are made. */
static void memory_faults(void **state)
{
    (void)state;
    int32_t source[7];
    host h;
    faults fault = { 0 };
    model m;
    weft_error err = { 0 };
    words(source, 7, 9);
    host_faulty(&h, &fault, NULL);
    assert_int_equal(model_open(&m, fixture("golden/t5"), WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    const int32_t start = (int32_t)m.start;
    const weft_beam_options o = {
        .n_beam = 3, .n_best = 1, .n_new = 4, .ends = source, .source = source, .n_source = 7
    };
    const size_t used = h.mem.used;
    int64_t k = 1;
    for (bool done = false; !done; k++) {
        fault.fail_at = fault.calls + k;
        engine *e = engine_new(&m, &(engine_options){ .n_thread = 1, .n_session = 3 }, &err);
        weft_beams *b = e ? beam_search(e, &start, 1, &o, (adaption){ 0 }, NULL, NULL, &err) : NULL;
        done = b != NULL;
        assert_true(done || err.code == WEFT_ENOMEM);
        beams_free(b);
        engine_free(e);
        assert_int_equal(h.mem.used, used);
    }
    print_message("%lld allocations failed\n", (long long)k - 2);
    fault.fail_at = 0;
    model_close(&m);
    assert_int_equal(fault.live, 0);
}

/* Configurations with wrong sizes: an error says so, before any allocation. */
static void lies_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *key, *to, *says;
    } lies[] = {
        { "marian", "\"max_position_embeddings\": 48", "\"max_position_embeddings\": 9999999",
          "at most 65536" },
        { "bart", "\"max_position_embeddings\": 40", "\"max_position_embeddings\": 41",
          "embed_positions.weight is f32 [42, 20]" },
        { "bart", "\"decoder_attention_heads\": 2", "\"decoder_attention_heads\": 3", "heads" },
        { "bart", "\"decoder_start_token_id\": 2", "\"decoder_start_token_id\": 61",
          "decoder_start_token_id is 61" },
        { "bart", "\"decoder_layers\": 2", "\"decoder_layers\": 1", "for a bart model" },
        { "bart", "\"gelu\"", "\"glue\"", "an unsupported activation" },
        { "t5", "\"relative_attention_max_distance\": 128",
          "\"relative_attention_max_distance\": 16", "expected 17" },
        { "t5", "\"feed_forward_proj\": \"relu\"", "\"feed_forward_proj\": \"gated-relu\"",
          "gated-relu" },
        { "t5", "\"d_kv\": 7", "\"d_kv\": 8", "[21, 22], expected [24, 22]" },
        { "bahdanau", "\"hidden_size\": 20", "\"hidden_size\": 21", "[61, 20], expected [61, 21]" },
        { "bahdanau", "\"hidden_size\": 20", "\"hidden_size\": 0", "hidden_size is 0" },
        { "bahdanau", "\"hidden_size\": 20", "\"hidden_size\": 2000000000", "hidden_size is" },
        { "bahdanau", "\"attention_size\": 13", "\"attention_size\": 1025", "1024" },
        { "bahdanau", "\"attention_size\": 13", "\"attention_size\": 12", "[13, 20]" },
        { "bahdanau", "\"decoder_start_token_id\": 2", "\"decoder_start_token_id\": 61",
          "decoder_start_token_id is 61" },
    };
    mkdir(temp_path("lie"), 0700);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        char path[128], config[8192];
        size_t n, k;
        host h;
        model m;
        weft_error err = { 0 };
        snprintf(path, sizeof path, "golden/%s/config.json", lies[i].name);
        char *text = read_whole(fixture(path), &n),
             *at = memmem(text, n, lies[i].key, strlen(lies[i].key));
        assert_non_null(at);
        const int length = snprintf(
            config, sizeof config, "%.*s%s%.*s", (int)(at - text), text, lies[i].to,
            (int)(n - (size_t)(at - text) - strlen(lies[i].key)), at + strlen(lies[i].key));
        temp_file("lie/config.json", config, (size_t)length);
        snprintf(path, sizeof path, "golden/%s/model.safetensors", lies[i].name);
        char *weights = read_whole(fixture(path), &k);
        temp_file("lie/model.safetensors", weights, k);
        host_plain(&h);
        if (model_open(&m, temp_path("lie"), WEFT_LOAD_COPY, &h, &err) == WEFT_OK ||
            !strstr(err.message, lies[i].says))
            fail_msg("%zu: \"%s\", expected \"%s\"", i, err.message, lies[i].says);
        assert_int_equal(h.mem.used, 0);
        free(text);
        free(weights);
    }
}

static void no_numbers_are_named(void **state)
{
    (void)state;
    int32_t ids[5];
    fixture_model f;
    weft_error err = { 0 };
    words(ids, 5, 8);
    open_golden(&f, "bart");
    for (int64_t i = 0; i < f.model.n_param; i++)
        if (strcmp(f.model.param[i]->name, "enc.blk.1.ffn_up.weight") == 0)
            ((float *)f.model.param[i]->data)[3] = NAN;
    engine *e = make_engine(&f, (engine_options){ 0 });
    session *s = make_session(e);
    assert_int_equal(engine_encode(e, &(source_text){ s, ids, 5 }, 1, &err), WEFT_ENUMERIC);
    assert_non_null(strstr(err.message, "first non-finite tensor: enc.blk.1.ffn_up"));
    assert_int_equal(e->pages.n_free, e->pages.n_page);
    session_free(s);
    engine_free(e);
    close_llama(&f);
}

/* ---- transformers ---------------------------------------------------------------------------- */

/* The numbers up to the next '|' or the end of the line; leaves `at` after it. */
static int read_ids(char **at, int32_t *ids)
{
    int n = 0;
    for (;;) {
        *at += strspn(*at, " ");
        if (**at == '|' || **at == '\0')
            break;
        assert_true(n < MAX_IDS);
        ids[n++] = (int32_t)strtol(*at, at, 10);
    }
    *at += **at == '|';
    return n;
}

typedef struct said {
    int32_t ids[MAX_IDS];
    int64_t n;
    double score;
} said;

static bool among(const int32_t *ids, int n, int32_t id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static double log_probability(const session *s, int32_t id)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < s->engine->model->n_vocab; i++)
        top = fmax(top, (double)s->logits[i]);
    for (int64_t i = 0; i < s->engine->model->n_vocab; i++)
        sum += exp((double)s->logits[i] - top);
    return (double)s->logits[id] - top - log(sum);
}

static void say_greedily(engine *e, const weft_beam_options *o, said *to)
{
    session *s = make_session(e);
    int32_t id = (int32_t)e->model->start;
    *to = (said){ 0 };
    must_encode(e, &(source_text){ s, o->source, o->n_source }, 1);
    do {
        must_feed(s, &id, 1);
        id = session_greedy(s);
        to->score += log_probability(s, id);
        to->ids[to->n++] = id;
    } while (to->n < o->n_new && !among(o->ends, o->n_end, id));
    session_free(s);
}

static int say(engine *e, const weft_beam_options *o, said *to)
{
    if (o->n_beam == 1) {
        say_greedily(e, o, to);
        return 1;
    }
    weft_error err = { 0 };
    const int32_t start = (int32_t)e->model->start;
    weft_beams *b = beam_search(e, &start, 1, o, (adaption){ 0 }, NULL, NULL, &err);
    if (!b)
        fail_msg("%s", err.message);
    for (int i = 0; i < b->n; i++) {
        memcpy(to[i].ids, b->beam[i].ids, (size_t)b->beam[i].n * sizeof(int32_t));
        to[i].n = b->beam[i].n;
        to[i].score = b->beam[i].score;
    }
    const int n = b->n;
    beams_free(b);
    return n;
}

static void check_line(engine *e, char *line, double *worst)
{
    int32_t source[MAX_IDS], ends[MAX_IDS], ids[MAX_IDS];
    static said texts[16];
    weft_beam_options o = { .ends = ends, .source = source };
    char *at = line;
    o.n_beam = (int)strtol(at, &at, 10);
    o.n_best = (int)strtol(at, &at, 10);
    o.n_new = strtol(at, &at, 10);
    o.length_penalty = strtod(at, &at);
    at = strchr(at, '|') + 1;
    o.n_source = read_ids(&at, source);
    o.n_end = read_ids(&at, ends);
    assert_int_equal(say(e, &o, texts), o.n_best);
    for (int i = 0; i < o.n_best; i++) {
        const double score = strtod(at, &at);
        const int n = read_ids(&at, ids);
        const double error = fabs(texts[i].score - score) / fmax(fabs(score), 1);
        *worst = fmax(*worst, error);
        if (n != texts[i].n || memcmp(ids, texts[i].ids, (size_t)n * sizeof *ids) != 0)
            fail_msg("another text, of score %.9g instead of %.9g: %.200s", texts[i].score, score,
                     line);
        if (!(error <= 1e-5))
            fail_msg("score %.9g, expected %.9g: %.200s", texts[i].score, score, line);
    }
    assert_int_equal(e->pages.n_free, e->pages.n_page);
}

static void texts_of_transformers(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_TEXT; k++) {
        char path[128];
        size_t size;
        double worst = 0;
        int n = 0;
        fixture_model f;
        open_golden(&f, names[k]);
        engine *e = make_engine(&f, (engine_options){ .n_thread = 2, .n_session = 6 });
        snprintf(path, sizeof path, "golden/%s/generate.txt", names[k]);
        char *text = read_whole(fixture(path), &size), *rest = text;
        for (char *line; (line = strsep(&rest, "\n")) && *line; n++)
            check_line(e, line, &worst);
        print_message("%-8s %d searches, scores off by %.1e at most\n", names[k], n, worst);
        assert_true(n >= 20);
        free(text);
        engine_free(e);
        close_llama(&f);
    }
}

/* ---- a trained model ------------------------------------------------------------------------- */

#define AREN "encdec-aren-transliteration"

static void open_aren(fixture_model *f)
{
    weft_error err = { 0 };
    host_plain(&f->host);
    if (model_open(&f->model, asset(AREN), WEFT_LOAD_COPY, &f->host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static int read_list(const json_t *of, const char *key, int32_t *ids)
{
    const json_t *list = json_object_get(of, key);
    for (size_t i = 0; i < json_array_size(list); i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return (int)json_array_size(list);
}

/* The largest difference from the stored log-probabilities of its two pairs, the end included. */
static double aren_error(fixture_model *f, int *n_token)
{
    json_t *root = json_load_file(asset(AREN "/ref.json"), 0, NULL), *pair;
    size_t at;
    double worst = 0;
    engine *e = make_engine(f, (engine_options){ .n_thread = 2 });
    session *s = make_session(e);
    *n_token = 0;
    json_array_foreach(json_object_get(root, "score"), at, pair)
    {
        int32_t source[MAX_IDS], ids[MAX_IDS];
        const int n_source = read_list(pair, "source_ids", source);
        const int n = read_list(pair, "decoder_input_ids", ids);
        const json_t *want = json_object_get(pair, "log_probs_f64");
        ids[n] = 2; /* the end */
        must_encode(e, &(source_text){ s, source, n_source }, 1);
        for (int i = 0; i < n; i++, ++*n_token) {
            must_feed(s, ids + i, 1);
            worst = fmax(worst, fabs(log_probability(s, ids[i + 1]) -
                                     json_real_value(json_array_get(want, (size_t)i))));
        }
    }
    json_decref(root);
    session_free(s);
    engine_free(e);
    return worst;
}

static void transliteration_is_ctranslate2s(void **state)
{
    (void)state;
    int n;
    fixture_model f;
    open_aren(&f);
    const double worst = aren_error(&f, &n);
    print_message("%d log-probabilities, off by %.1e at most\n", n, worst);
    assert_true(n == 15 && worst <= 1e-5);
    close_llama(&f);
}

/* All matrices of products as q8_0: within 0.05 nats per token, and the same words. */
static void transliteration_in_q8_0(void **state)
{
    (void)state;
    int n;
    fixture_model f;
    open_aren(&f);
    for (int64_t i = 0; i < f.model.n_param; i++) {
        tensor *t = f.model.param[i];
        if (t->n_dim < 2 || strstr(t->name, "output_bias"))
            continue;
        char *to = arena_alloc(&f.model.store,
                               (size_t)rows(t) * dtype_row_bytes(&dtype_q8_0, cols(t)), NULL);
        for (int64_t k = 0; k < rows(t); k++)
            dtype_q8_0.encode(to + (size_t)k * dtype_row_bytes(&dtype_q8_0, cols(t)),
                              (const real *)t->data + k * cols(t), cols(t));
        t->type = &dtype_q8_0;
        t->data = to;
    }
    const double worst = aren_error(&f, &n);
    print_message("%d log-probabilities of q8_0 weights, off by %.1e at most\n", n, worst);
    assert_true(worst > 1e-5 && worst <= 0.05);
    close_llama(&f);
}

/* Letters in, letters out, through the public functions: greedy and four beams. */
static void transliteration_of_text(void **state)
{
    (void)state;
    static const char *const words_of[][2] = {
        { "\xD8\xA2\xD8\xAA\xD8\xB2\xD9\x85\xD9\x88\xD9\x86", "atzmon" },
        { "\xD8\xA2\xD8\xB2\xD8\xA7", "azza" },
    };
    weft_error err = { 0 };
    weft_model *m = weft_model_open(asset(AREN), NULL, &err);
    weft_tokenizer *from = weft_tokenizer_load(asset(AREN "/source_vocabulary.txt"), NULL, &err);
    weft_tokenizer *to = weft_tokenizer_load(asset(AREN "/target_vocabulary.txt"), NULL, &err);
    const weft_engine_options options = { .struct_size = sizeof options, .n_session = 4 };
    weft_engine *e = m && from && to ? weft_engine_new(m, &options, &err) : NULL;
    if (!e)
        fail_msg("%s", err.message);
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(m, &info);
    assert_int_equal(info.n_vocab_src, 51);
    for (int k = 0; k < 4; k++) {
        const char *word = words_of[k / 2][0];
        weft_tokens *source = weft_tokenizer_encode(from, word, strlen(word), NULL, &err);
        const weft_beam_options o = { .struct_size = sizeof o,
                                      .n_beam = k % 2 ? 4 : 1,
                                      .n_new = 20,
                                      .length_penalty = 1,
                                      .source = source->ids,
                                      .n_source = source->n };
        weft_beams *found = weft_beam_search(e, &info.start_id, 1, &o, &err);
        if (!found)
            fail_msg("%s", err.message);
        char letters[64] = { 0 };
        size_t at = 0;
        for (int64_t i = 0; i < found->beam[0].n; i++)
            at += (size_t)weft_tokenizer_piece(to, found->beam[0].ids[i], letters + at,
                                               sizeof letters - at);
        assert_string_equal(letters, words_of[k / 2][1]);
        weft_beams_free(found);
        weft_tokens_free(source);
    }
    weft_engine_free(e);
    weft_tokenizer_free(from);
    weft_tokenizer_free(to);
    weft_model_close(m);
}

/* ---- learning -------------------------------------------------------------------------------- */

static void must_train(const weft_train_options *o, weft_train_info *info)
{
    weft_error err = { 0 };
    *info = (weft_train_info){ .struct_size = sizeof *info };
    if (weft_train(o, info, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static weft_train_options small_training(const char *out, const char *const *data)
{
    weft_train_options o;
    weft_train_defaults(&o, sizeof o);
    o.out = out;
    o.data = data;
    o.n_data = 1;
    o.characters = true;
    o.n_layer = 1;
    o.d_model = 32;
    o.n_head = 2;
    o.d_ff = 64;
    o.eval_every = o.save_every = 0;
    o.threads = quick() ? 1 : 2;
    return o;
}

/* Nats per target of spans if only frequencies are known. A window of 63 + 1 ids, 62 of them used,
 * has 9 letters, 3 sentinels and an end as targets. */
static double unigram_of_spans(const char *path)
{
    size_t size;
    char *text = read_whole(path, &size);
    double count[256] = { 0 }, nats = 4.0 / 13 * log(13);
    for (size_t i = 0; i < size; i++)
        count[(unsigned char)text[i]]++;
    for (int c = 0; c < 256; c++) {
        const double p = 9.0 / 13 * count[c] / (double)size;
        nats -= count[c] > 0 ? p * log(p) : 0;
    }
    free(text);
    return nats;
}

static void t5_learns_spans(void **state)
{
    (void)state;
    const char *text = asset_head("data/tinyshakespeare/input.txt", quick() ? 20000 : SIZE_MAX);
    weft_train_info info;
    weft_train_options o = small_training(temp_path("t5"), &text);
    o.arch = "t5";
    o.n_ctx = 63;
    o.n_sample = quick() ? 2 : 8;
    o.n_step = quick() ? 6 : 300; /* emulators skip the training */
    o.lr = 1e-2;
    o.validation = quick() ? 0.02 : 0.005;
    must_train(&o, &info);
    const double unigram = unigram_of_spans(text);
    print_message("spans of tinyshakespeare: %.3f nats after %lld steps, unigrams have %.3f\n",
                  info.val_loss, (long long)info.step, unigram);
    assert_true(quick() || info.val_loss < unigram - 0.1);
    weft_error err = { 0 };
    weft_model *m = weft_model_open(o.out, NULL, &err);
    assert_non_null(m);
    weft_model_info shape = { .struct_size = sizeof shape };
    weft_model_get_info(m, &shape);
    assert_true(shape.eos_id >= 0 && shape.eos_id == shape.start_id);
    weft_model_close(m);
}

/* Words of the first letters, and their reverse in capitals, one pair per line. */
static const char *write_words(uint32_t longest, uint32_t letters)
{
    static char text[64 << 10];
    size_t n = 0;
    for (uint64_t i = 0; i < 3000; i++) {
        char word[8] = { 0 }, reversed[8] = { 0 };
        const int length = 2 + (int)(draw(900, i) % (longest - 1));
        for (int k = 0; k < length; k++) {
            word[k] = (char)('a' + draw(901 + i, (uint64_t)k) % letters);
            reversed[length - 1 - k] = (char)(word[k] - 'a' + 'A');
        }
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\t%s\n", word, reversed);
    }
    return temp_file("words.tsv", text, n);
}

static void check_reversed(const char *path, const char *word, const char *reversed)
{
    weft_error err = { 0 };
    weft_model *m = weft_model_open(path, NULL, &err);
    weft_tokenizer *t = weft_tokenizer_load(path, NULL, &err);
    weft_engine *e = m && t ? weft_engine_new(m, NULL, &err) : NULL;
    weft_tokens *source = e ? weft_tokenizer_encode(t, word, strlen(word), NULL, &err) : NULL;
    if (!source)
        fail_msg("%s", err.message);
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(m, &info);
    const weft_beam_options o = { .struct_size = sizeof o,
                                  .n_beam = 1,
                                  .n_new = 12,
                                  .stop = WEFT_BEAM_STOP_FULL,
                                  .source = source->ids,
                                  .n_source = source->n };
    weft_beams *b = weft_beam_search(e, &info.start_id, 1, &o, &err);
    if (!b)
        fail_msg("%s", err.message);
    char letters[64] = { 0 };
    size_t at = 0;
    for (int64_t i = 0; i < b->beam[0].n; i++)
        at += (size_t)weft_tokenizer_piece(t, b->beam[0].ids[i], letters + at, sizeof letters - at);
    assert_string_equal(letters, reversed);
    weft_beams_free(b);
    weft_tokens_free(source);
    weft_engine_free(e);
    weft_tokenizer_free(t);
    weft_model_close(m);
}

/* The recipe of 2017 on a language that is learned in seconds. */
static void pairs_are_learned(void **state)
{
    (void)state;
    const char *text = quick() ? write_words(2, 3) : write_words(5, 6),
               *out = temp_path("reversed");
    weft_train_info info;
    weft_train_options o = small_training(out, &text);
    o.arch = "transformer";
    o.d_model = 64;
    o.n_head = 4;
    o.d_ff = 128;
    o.n_ctx = quick() ? 16
                      : 64; /* sanitizers and emulators learn words of two letters out of three */
    o.n_sample = quick() ? 4 : 8;
    o.n_step = quick() ? 40 : 300;
    o.schedule = WEFT_SCHEDULE_INVERSE_SQRT;
    o.n_warmup = o.n_step / 3;
    o.lr = 3e-3;
    o.smoothing = 0.1;
    o.validation = 0.02;
    must_train(&o, &info);
    print_message("reversed words: %.3f nats after %lld steps\n", info.val_loss,
                  (long long)info.step);
    check_reversed(out, "ac", "CA");
    check_reversed(out, "cb", "BC");
    if (quick())
        return;
    check_reversed(out, "fb", "BF");
    check_reversed(out, "abc", "CBA");
    check_reversed(out, "fedcb", "BCDEF");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("encdec: cached equals recomputed, bit by bit", cached_is_recomputed),
        TEST("encdec: batched sources and texts equal single ones", company_does_not_matter),
        TEST("encdec: beams share one source", beams_share_a_source),
        TEST("encdec: different sources share nothing", other_sources_share_nothing),
        TEST("encdec: impossible requests are refused", what_cannot_be_is_refused),
        TEST("encdec: parameters are counted in both stacks", costs),
        TEST("encdec: every failed allocation is an error and leaves nothing", memory_faults),
        TEST("encdec: inconsistent configurations are refused", lies_are_refused),
        TEST("encdec: the error for a non-finite source names the tensor", no_numbers_are_named),
        TEST("encdec: greedy and beams give transformers' texts and scores", texts_of_transformers),
        TEST("encdec: a transliteration has CTranslate2's log-probabilities",
             transliteration_is_ctranslate2s),
        TEST("encdec: q8_0 is close", transliteration_in_q8_0),
        TEST("encdec: words are transliterated", transliteration_of_text),
        TEST("encdec: pairs are learned, then translated", pairs_are_learned),
        TEST("encdec: a tiny T5 learns spans better than unigrams", t5_learns_spans),
    };
    return RUN(tests);
}
