/* prefix.c and the idle pages of pages.c: what the table finds, what it forgets, and that nothing writes
 * to a page that it keeps. */
#include "engine/prefix.h"
#include "small_model.h"

enum { LENGTH = 200, PAGES = 8 };

typedef struct rig {
    fixture_model model;
    engine *engine;
    prefix prefix;
    int32_t text[LENGTH];
} rig;

static const prefix_root ours = { .salt = 1 }, theirs = { .salt = 2 };

static void open_rig(rig *r)
{
    weft_error err;
    open_typed(&r->model, &dtype_f32);
    r->engine = make_engine(
        &r->model, (engine_options){ .n_session = 2, .n_ctx = 320, .n_cache = PAGES * PAGE_ROWS });
    mem *m = &r->model.host.mem;
    assert_int_equal(prefix_init(&r->prefix, &r->engine->pages, m, &err), WEFT_OK);
    story(r->text, LENGTH, 1);
}

static void close_rig(rig *r)
{
    prefix_free(&r->prefix);
    assert_int_equal(r->engine->pages.n_free, PAGES);
    engine_free(r->engine);
    close_llama(&r->model);
}

/* A session with the first n tokens, whose full pages are kept. */
static session *kept(rig *r, int64_t n, const prefix_root *root)
{
    int64_t n_kept = 0;
    session *s = make_session(r->engine);
    must_feed(s, r->text, n);
    prefix_keep(&r->prefix, root, s, &n_kept);
    assert_int_equal(n_kept, n / PAGE_ROWS);
    return s;
}

static int64_t found(const rig *r, const prefix_root *root, int64_t n)
{
    int64_t n_idle;
    return prefix_find(&r->prefix, root, r->text, n, &n_idle);
}

static void finds_full_pages(void **state)
{
    (void)state;
    rig r;
    int64_t n_idle;
    open_rig(&r);
    session *s = kept(&r, LENGTH, &ours);
    assert_int_equal(found(&r, &ours, LENGTH), 3);
    assert_int_equal(found(&r, &ours, 3 * PAGE_ROWS), 3);
    assert_int_equal(found(&r, &ours, 3 * PAGE_ROWS - 1), 2);
    assert_int_equal(found(&r, &ours, 0), 0);
    assert_int_equal(found(&r, &theirs, LENGTH), 0);
    assert_int_equal(prefix_find(&r.prefix, &ours, r.text, LENGTH, &n_idle), 3);
    assert_int_equal(n_idle, 0);
    session_free(s);
    assert_int_equal(r.engine->pages.n_free, PAGES - 3); /* the partial page is free */
    assert_int_equal(prefix_find(&r.prefix, &ours, r.text, LENGTH, &n_idle), 3);
    assert_int_equal(n_idle, 3);
    for (int at = 0; at < 3 * PAGE_ROWS; at++) { /* another token anywhere: only the pages before */
        r.text[at] ^= 1;
        assert_int_equal(found(&r, &ours, LENGTH), at / PAGE_ROWS);
        r.text[at] ^= 1;
    }
    assert_int_equal(found(&r, &ours, LENGTH), 3);
    close_rig(&r);
}

/* Sources are distinguished by more than their hash. */
static void sources_of_one_hash(void **state)
{
    (void)state;
    static const int32_t lists[2][3] = { { 4, 5, 6 }, { 4, 5, 7 } };
    rig r;
    weft_error err;
    prefix_root root[2] = { ours, ours };
    open_rig(&r);
    for (int i = 0; i < 2; i++)
        root[i].source = prefix_source_hold(&r.prefix, lists[i], 3, &err);
    assert_true(root[0].source && root[1].source && root[0].source != root[1].source);
    root[1].source->hash = root[0].source->hash; /* as if they collided */
    prefix_source *again = prefix_source_hold(&r.prefix, lists[0], 3, &err);
    assert_ptr_equal(again, root[0].source);
    session *s = kept(&r, LENGTH, &root[0]);
    assert_int_equal(found(&r, &root[0], LENGTH), 3);
    assert_int_equal(found(&r, &root[1], LENGTH), 0);
    assert_int_equal(found(&r, &ours, LENGTH), 0);
    session_free(s);
    prefix_source_drop(&r.prefix, again);
    for (int i = 0; i < 2; i++)
        prefix_source_drop(&r.prefix, root[i].source);
    close_rig(&r);
}

/* Two pages of the same tokens, of which one follows the other, are not the same. */
static void pages_follow_their_page(void **state)
{
    (void)state;
    rig r;
    open_rig(&r);
    for (int i = 0; i < PAGE_ROWS; i++)
        r.text[PAGE_ROWS + i] = r.text[i];
    session *s = kept(&r, 2 * PAGE_ROWS, &ours), *alone = make_session(r.engine);
    assert_true(s->cache.page[0] != s->cache.page[1]);
    must_feed(s, r.text, 5);
    must_feed(alone, r.text, 2 * PAGE_ROWS);
    must_feed(alone, r.text, 5);
    assert_memory_equal(s->logits, alone->logits, sizeof(float[61]));
    session_free(alone);
    assert_int_equal(found(&r, &ours, 3 * PAGE_ROWS), 2);
    memmove(r.text + 2 * PAGE_ROWS, r.text, PAGE_ROWS * sizeof *r.text);
    assert_int_equal(found(&r, &ours, 3 * PAGE_ROWS), 2); /* the third is nowhere */
    session_free(s);
    close_rig(&r);
}

static void shared_pages_give_the_same_logits(void **state)
{
    (void)state;
    rig r;
    int64_t n_kept = 0;
    open_rig(&r);
    session *s = kept(&r, LENGTH, &ours), *other = make_session(r.engine);
    prefix_share(&r.prefix, &ours, other, r.text, LENGTH - 1, &n_kept);
    assert_int_equal(other->cache.length, 3 * PAGE_ROWS);
    assert_int_equal(n_kept, 3);
    must_feed(other, r.text + 3 * PAGE_ROWS, LENGTH - 3 * PAGE_ROWS);
    assert_memory_equal(other->logits, s->logits, sizeof(float[61]));
    session_free(s);
    session_free(other);
    close_rig(&r);
}

/* A session that goes back into a page and writes other rows gets a copy. */
static void kept_pages_are_not_written(void **state)
{
    (void)state;
    rig r;
    open_rig(&r);
    session *s = kept(&r, 2 * PAGE_ROWS, &ours);
    const size_t size = r.engine->pages.layout.page_bytes;
    char *page = s->cache.page[1], *before = malloc(size);
    memcpy(before, page, size);
    session_cut(s, PAGE_ROWS + 10);
    must_feed(s, r.text, 20);
    assert_true(s->cache.page[1] != page);
    assert_memory_equal(page, before, size);
    assert_int_equal(found(&r, &ours, 2 * PAGE_ROWS), 2);
    session_free(s);
    free(before);
    close_rig(&r);
}

/* The table has a page already: the session uses that, and its own becomes free. */
static void one_copy(void **state)
{
    (void)state;
    rig r;
    open_rig(&r);
    session *s = kept(&r, LENGTH, &ours), *twin = kept(&r, LENGTH, &ours);
    assert_true(s->cache.page[0] == twin->cache.page[0] && s->cache.page[2] == twin->cache.page[2]);
    assert_true(s->cache.page[3] != twin->cache.page[3]);
    assert_int_equal(r.engine->pages.n_free, PAGES - 5);
    session *apart = kept(&r, 2 * PAGE_ROWS, &theirs);
    assert_true(s->cache.page[0] != apart->cache.page[0]);
    session_free(apart);
    session_free(s);
    session_free(twin);
    close_rig(&r);
}

/* All pages are needed: the ends of texts go before their starts, the oldest text first. */
static void idle_pages_go_in_order(void **state)
{
    (void)state;
    rig r;
    int32_t others[5 * PAGE_ROWS];
    int64_t n_idle;
    open_rig(&r);
    session_free(kept(&r, 3 * PAGE_ROWS, &ours));
    session_free(kept(&r, 2 * PAGE_ROWS, &theirs));
    assert_int_equal(r.engine->pages.n_idle, 5);
    assert_int_equal(r.engine->pages.n_free, 3);
    session *s = make_session(r.engine);
    for (int i = 0; i < 5 * PAGE_ROWS; i++)
        others[i] = (i * 7 + 3) % 61;
    const int left[][2] = { { 2, 2 }, { 1, 2 } }; /* pages found of ours and theirs */
    must_feed(s, others, 3 * PAGE_ROWS);
    for (int k = 0; k < 2; k++) {
        must_feed(s, others + (3 + k) * PAGE_ROWS, PAGE_ROWS);
        assert_int_equal(found(&r, &ours, LENGTH), left[k][0]);
        assert_int_equal(found(&r, &theirs, LENGTH), left[k][1]);
    }
    session_free(s);
    s = make_session(r.engine); /* using a prefix again makes it the newest */
    int64_t n_kept = 0;
    prefix_share(&r.prefix, &ours, s, r.text, LENGTH, &n_kept);
    session_cut(s, 0);
    must_feed(s, others, 5 * PAGE_ROWS);
    session *more = make_session(r.engine);
    must_feed(more, others, 1);
    assert_int_equal(found(&r, &ours, LENGTH), 1);
    assert_int_equal(prefix_find(&r.prefix, &theirs, r.text, LENGTH, &n_idle), 1);
    session_free(more);
    session_free(s);
    close_rig(&r);
}

static void equal_sources_are_one(void **state)
{
    (void)state;
    rig r;
    weft_error err;
    open_rig(&r);
    prefix *p = &r.prefix;
    prefix_source *a = prefix_source_hold(p, r.text, 20, &err),
                  *b = prefix_source_hold(p, r.text, 20, &err),
                  *c = prefix_source_hold(p, r.text, 19, &err);
    assert_true(a == b && a != c);
    const prefix_root with_a = { .salt = 1, .source = a }, with_c = { .salt = 1, .source = c };
    session_free(kept(&r, LENGTH, &with_a));
    assert_int_equal(found(&r, &with_a, LENGTH), 3);
    assert_int_equal(found(&r, &with_c, LENGTH) + found(&r, &ours, LENGTH), 0);
    prefix_source_drop(p, a);
    prefix_source_drop(p, b);
    assert_true(prefix_source_hold(p, r.text, 20, &err) == a); /* its pages hold it */
    prefix_source_drop(p, a);
    prefix_source_drop(p, c);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("prefix: sources that share a hash share no page", sources_of_one_hash),
        TEST("prefix: full pages are found by all their tokens", finds_full_pages),
        TEST("prefix: a page is found only after the page before it", pages_follow_their_page),
        TEST("prefix: shared pages give the same logits", shared_pages_give_the_same_logits),
        TEST("prefix: nothing writes to a page that is kept", kept_pages_are_not_written),
        TEST("prefix: equal pages are kept once", one_copy),
        TEST("prefix: idle pages are taken in order, ends before starts", idle_pages_go_in_order),
        TEST("prefix: equal sources are one", equal_sources_are_one),
    };
    return RUN(tests);
}
