/* Beam search: texts and scores are those of transformers (tools/beam_golden.py); pages are shared
 * and freed; impossible requests are refused; a failure leaves nothing behind. */
#include "small_model.h"

#include "engine/beam.h"

#include <math.h>

enum { MAX_IDS = 256 };

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

/* One text of the golden: its score, then its ids. */
static void check_text(const char *line, char **at, const weft_beam *b, double *worst)
{
    int32_t ids[MAX_IDS];
    const double score = strtod(*at, at);
    const int n = read_ids(at, ids);
    const double error = fabs(b->score - score) / fmax(fabs(score), 1);
    *worst = fmax(*worst, error);
    if (n != b->n || memcmp(ids, b->ids, (size_t)n * sizeof *ids) != 0)
        fail_msg("another text, of score %.9g instead of %.9g: %.200s", b->score, score, line);
    if (!(error <= 1e-5))
        fail_msg("score %.9g, expected %.9g: %.200s", b->score, score, line);
}

static void check_line(engine *e, char *line, double *worst)
{
    int32_t prompt[MAX_IDS], ends[MAX_IDS];
    weft_error err = { 0 };
    weft_beam_options o = { .ends = ends };
    char *at = strchr(line, ' ');
    o.n_beam = (int)strtol(at, &at, 10);
    o.n_best = (int)strtol(at, &at, 10);
    o.n_new = strtol(at, &at, 10);
    o.length_penalty = strtod(at, &at);
    o.stop = (weft_beam_stop)strtol(at, &at, 10);
    at = strchr(at, '|') + 1;
    const int n = read_ids(&at, prompt);
    o.n_end = read_ids(&at, ends);
    weft_beams *b = beam_search(e, prompt, n, &o, (adaption){ 0 }, NULL, NULL, &err);
    if (!b)
        fail_msg("%s", err.message);
    assert_int_equal(b->n, o.n_best);
    for (int i = 0; i < b->n; i++)
        check_text(line, &at, &b->beam[i], worst);
    assert_int_equal(*at, '\0');
    beams_free(b);
    assert_int_equal(e->pages.n_free, e->pages.n_page);
}

typedef struct golden_model {
    host host;
    model model;
    engine *engine;
    char name[64];
} golden_model;

static void close_engine(golden_model *g)
{
    if (!g->engine)
        return;
    engine_free(g->engine);
    model_close(&g->model);
    assert_int_equal(g->host.mem.used, 0);
    *g = (golden_model){ 0 };
}

static void open_engine(golden_model *g, const char *name)
{
    char path[128];
    weft_error err = { 0 };
    close_engine(g);
    snprintf(g->name, sizeof g->name, "%s", name);
    snprintf(path, sizeof path, "golden/%s", name);
    host_plain(&g->host);
    if (model_open(&g->model, fixture(path), WEFT_LOAD_COPY, &g->host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    const engine_options o = { .n_thread = 1, .n_session = 8 };
    g->engine = engine_new(&g->model, &o, &err);
    if (!g->engine)
        fail_msg("%s", err.message);
}

static void as_transformers(void **state)
{
    (void)state;
    size_t size;
    char *text = read_whole(fixture("golden/beam/beams.txt"), &size), *rest = text;
    golden_model g = { 0 };
    double worst = 0;
    int n = 0;
    for (char *line; (line = strsep(&rest, "\n")) && *line; n++) {
        char name[64] = { 0 };
        memcpy(name, line, strcspn(line, " "));
        if (strcmp(name, g.name) != 0)
            open_engine(&g, name);
        check_line(g.engine, line, &worst);
    }
    close_engine(&g);
    print_message("%d searches; scores differ by %.2g at most\n", n, worst);
    assert_true(n > 100);
    free(text);
}

/* ---- the tree -------------------------------------------------------------------------------- */

typedef struct tree {
    weft_beam_node node[4096];
    int n, stop_after;
} tree;

static bool grow(void *ud, const weft_beam_node *kept)
{
    tree *t = ud;
    assert_int_equal(kept->struct_size, sizeof *kept);
    assert_true(t->n < 4096);
    t->node[t->n++] = *kept;
    return t->n != t->stop_after;
}

/* The live beam of a step. */
static const weft_beam_node *live(const tree *t, int64_t step, int beam)
{
    const weft_beam_node *found = NULL;
    for (int i = 0; i < t->n; i++)
        if (t->node[i].step == step && t->node[i].beam == beam) {
            assert_null(found);
            found = &t->node[i];
        }
    assert_non_null(found);
    return found;
}

/* Is this the end of text b? Its ids are those on the way up. */
static bool leads_to(const tree *t, const weft_beam_node *end, const weft_beam *b)
{
    if (end->beam != -1 || end->step + 1 != b->n)
        return false;
    for (const weft_beam_node *at = end;; at = live(t, at->step - 1, at->parent)) {
        if (at->id != b->ids[at->step])
            return false;
        if (at->step == 0)
            return at->parent == 0;
    }
}

/* log p of ids[n], by a session of its own. */
static double logprob_after(weft_engine *e, const int32_t *first, int n_first, const int32_t *ids,
                            int64_t n)
{
    weft_error err = { 0 };
    weft_logprob of = { .id = ids[n] };
    weft_session *s = weft_session_new(e, &err);
    assert_int_equal(weft_session_eval(s, first, n_first, &err), WEFT_OK);
    if (n > 0)
        assert_int_equal(weft_session_eval(s, ids, n, &err), WEFT_OK);
    assert_int_equal(weft_session_logprobs(s, &of, 1, &err), WEFT_OK);
    weft_session_free(s);
    return of.logprob;
}

/* Following parents from the node that ends the best text gives its ids and, with the length, its
 * score; each sum is that of its parent and log p of its token. */
static void check_tree(weft_engine *e, weft_beam_options o, tree *t)
{
    static const int32_t start[] = { 1, 2, 3, 4, 5, 6, 7 };
    weft_error err = { 0 };
    *t = (tree){ 0 };
    o.struct_size = sizeof o;
    o.fn = grow;
    o.ud = t;
    weft_beams *b = weft_beam_search(e, start, 7, &o, &err);
    if (!b)
        fail_msg("%s", err.message);
    for (int i = 0; i < b->n; i++) {
        const weft_beam_node *end = NULL;
        for (int k = 0; k < t->n; k++)
            if (leads_to(t, &t->node[k], &b->beam[i]))
                end = &t->node[k];
        assert_non_null(end);
        assert_true(end->score == b->beam[i].score && end->ended == b->beam[i].ended);
        assert_true(end->score == end->sum / pow((double)b->beam[i].n, o.length_penalty));
        for (const weft_beam_node *at = end; at->step > 0;) {
            const weft_beam_node *up = live(t, at->step - 1, at->parent);
            const double p = logprob_after(e, start, 7, b->beam[i].ids, at->step);
            assert_true(fabs(at->sum - (up->sum + p)) < 1e-9);
            assert_true(up->score == up->sum && !up->ended);
            at = up;
        }
    }
    weft_beams_free(b);
}

static void tree_of_a_search(void **state)
{
    (void)state;
    static tree t;
    weft_error err = { 0 };
    weft_model *m = weft_model_open(fixture("golden/llama-gqa"), NULL, &err);
    const weft_engine_options eo = { .struct_size = sizeof eo, .threads = 1, .n_session = 8 };
    weft_engine *e = weft_engine_new(m, &eo, &err);
    assert_non_null(e);
    int32_t ends[20];
    for (int i = 0; i < 20; i++)
        ends[i] = 3 * i + 1; /* many, so that texts end at all lengths */
    for (int n_end = 0; n_end <= 20; n_end += 5)
        for (int n_beam = 1; n_beam <= 5; n_beam += 2) {
            const weft_beam_options o = { .n_beam = n_beam,
                                          .n_best = n_beam,
                                          .n_new = 12,
                                          .length_penalty = n_end * 0.1,
                                          .ends = ends,
                                          .n_end = n_end };
            check_tree(e, o, &t);
            assert_true(t.n >= n_beam);
        }
    const int32_t start = 1;
    t = (tree){ .stop_after = 3 };
    const weft_beam_options o = { .struct_size = sizeof o, .n_new = 9, .fn = grow, .ud = &t };
    assert_null(weft_beam_search(e, &start, 1, &o, &err));
    assert_int_equal(err.code, WEFT_ESTOPPED);
    assert_int_equal(t.n, 3);
    const size_t before = offsetof(weft_beam_options, fn); /* an older header */
    weft_beam_options old = { .struct_size = before, .n_new = 9, .fn = grow, .ud = &t };
    weft_beams *b = weft_beam_search(e, &start, 1, &old, &err);
    assert_non_null(b);
    assert_int_equal(t.n, 3);
    weft_beams_free(b);
    weft_engine_free(e);
    weft_model_close(m);
}

/* ---- pages, and what goes wrong -------------------------------------------------------------- */

static const int32_t prompt[] = { 1, 2, 3, 4, 5, 6, 7 };

/* Eight texts of 40 tokens after a prompt of four pages fit into the space of two contexts. */
static void shared_pages(void **state)
{
    (void)state;
    fixture_model f;
    int32_t ids[4 * PAGE_ROWS];
    weft_error err = { 0 };
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(
        &f, (engine_options){ .n_thread = 1, .n_session = 8, .n_cache = (4 + 8) * PAGE_ROWS });
    story(ids, 4 * PAGE_ROWS, 3);
    const weft_beam_options o = { .n_beam = 8, .n_best = 8, .n_new = 40, .ends = ids };
    weft_beams *b = beam_search(e, ids, 4 * PAGE_ROWS, &o, (adaption){ 0 }, NULL, NULL, &err);
    if (!b)
        fail_msg("%s", err.message);
    assert_int_equal(b->n, 8);
    for (int i = 1; i < 8; i++) {
        assert_true(b->beam[i - 1].score >= b->beam[i].score);
        assert_memory_not_equal(b->beam[i - 1].ids, b->beam[i].ids, 40 * sizeof *ids);
    }
    assert_int_equal(e->pages.n_free, e->pages.n_page);
    beams_free(b);
    engine_free(e);
    close_llama(&f);
}

/* One beam gives the greedy text. */
static void one_beam(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .n_session = 2 });
    const weft_beam_options o = { .n_beam = 1, .n_best = 1, .n_new = 30, .ends = prompt };
    weft_beams *b = beam_search(e, prompt, 7, &o, (adaption){ 0 }, NULL, NULL, &err);
    session *s = make_session(e);
    assert_non_null(b);
    must_feed(s, prompt, 7);
    for (int i = 0; i < 30; i++) {
        const int32_t id = session_greedy(s);
        assert_int_equal(b->beam[0].ids[i], id);
        must_feed(s, &id, 1);
    }
    session_free(s);
    beams_free(b);
    engine_free(e);
    close_llama(&f);
}

/* A cache that is too small ends the search with an error, and all pages are freed. */
static void full_cache(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(
        &f, (engine_options){ .n_thread = 1, .n_session = 4, .n_cache = PAGE_ROWS });
    const weft_beam_options o = { .n_beam = 4, .n_best = 1, .n_new = 100, .ends = prompt };
    assert_null(beam_search(e, prompt, 7, &o, (adaption){ 0 }, NULL, NULL, &err));
    assert_int_equal(err.code, WEFT_ECONTEXT);
    assert_int_equal(e->pages.n_free, e->pages.n_page);
    engine_free(e);
    close_llama(&f);
}

/* Every k-th allocation fails: an error, nothing left, and the engine still works. */
static void memory_faults(void **state)
{
    (void)state;
    llama_shape shape = small_shape;
    shape.type = &dtype_f32;
    bytes image = gguf_llama(&shape);
    const char *path = temp_file("beam.gguf", image.at, image.n);
    free(image.at);
    host h;
    faults fault = { 0 };
    model m;
    weft_error err = { 0 };
    host_faulty(&h, &fault, NULL);
    assert_int_equal(model_open(&m, path, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    engine *e = engine_new(&m, &(engine_options){ .n_thread = 1, .n_session = 3 }, &err);
    assert_non_null(e);
    const weft_beam_options o = { .n_beam = 3, .n_best = 2, .n_new = 5, .ends = prompt };
    const size_t used = h.mem.used;
    for (int64_t k = 1;; k++) {
        fault.fail_at = fault.calls + k;
        weft_beams *b = beam_search(e, prompt, 7, &o, (adaption){ 0 }, NULL, NULL, &err);
        if (!b)
            assert_int_equal(err.code, WEFT_ENOMEM);
        const bool done = b != NULL;
        beams_free(b);
        assert_int_equal(h.mem.used, used);
        assert_int_equal(e->pages.n_free, e->pages.n_page);
        if (done)
            break;
    }
    fault.fail_at = 0;
    engine_free(e);
    model_close(&m);
    assert_int_equal(fault.live, 0);
}

static void refused_by(weft_engine *e, weft_beam_options o, int64_t n, const char *why)
{
    weft_error err = { 0 };
    o.struct_size = sizeof o;
    assert_null(weft_beam_search(e, prompt, n, &o, &err));
    if (!strstr(err.message, why))
        fail_msg("\"%s\" does not say \"%s\"", err.message, why);
}

static void refused(void **state)
{
    (void)state;
    weft_error err = { 0 };
    weft_model *m = weft_model_open(fixture("golden/llama-gqa"), NULL, &err);
    const weft_engine_options eo = {
        .struct_size = sizeof eo, .threads = 1, .n_session = 4, .n_ctx = 64
    };
    weft_engine *e = weft_engine_new(m, &eo, &err);
    assert_non_null(e);
    refused_by(e, (weft_beam_options){ .n_beam = -1 }, 7, "n_beam is -1, expected 1 to 256");
    refused_by(e, (weft_beam_options){ .n_beam = 257 }, 7, "n_beam is 257");
    refused_by(e, (weft_beam_options){ .n_beam = 2, .n_best = 3 }, 7, "n_best is 3");
    refused_by(e, (weft_beam_options){ .length_penalty = NAN }, 7, "length_penalty is");
    refused_by(e, (weft_beam_options){ .stop = (weft_beam_stop)3 }, 7, "unknown stop rule 3");
    refused_by(e, (weft_beam_options){ .n_new = 59 }, 7, "7 tokens and 59 new ones do not fit");
    refused_by(e, (weft_beam_options){ .n_new = -1 }, 7, "-1 new ones");
    refused_by(e, (weft_beam_options){ .ends = prompt, .n_end = -1 }, 7, "n_end is -1");
    refused_by(e, (weft_beam_options){ 0 }, 0, "no tokens given");
    weft_beams *b = weft_beam_search(e, prompt, 7, NULL, &err);
    if (!b)
        fail_msg("%s", err.message);
    assert_int_equal(b->n, 1);
    weft_beams_free(b);
    weft_beams_free(NULL);
    weft_engine_free(e);
    weft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("beam: texts and scores of transformers", as_transformers),
        TEST("beam: the tree leads to every text and its score", tree_of_a_search),
        TEST("beam: texts share the pages of their common prefix", shared_pages),
        TEST("beam: one beam is greedy", one_beam),
        TEST("beam: a full cache is an error, and its pages are freed", full_cache),
        TEST("beam: a failed allocation leaves nothing behind", memory_faults),
        TEST("beam: invalid options are refused by name", refused),
    };
    return RUN(tests);
}
