/* Regular expressions by derivatives: brute force over short strings, the bytes of code points,
 * counts that are never written out, limits. */
#include "support.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "text/constrain/rx.h"

#define LIMIT 100000

static rx_pool *new_pool(mem *m, uint32_t limit)
{
    weft_error err = { 0 };
    mem_init(m, (size_t)64 << 20, NULL);
    rx_pool *p = rx_pool_new(m, limit, &err);
    assert_non_null(p);
    return p;
}

static void end_pool(rx_pool *p, mem *m)
{
    rx_pool_free(p);
    assert_int_equal(m->used, 0);
}

static bool matches(rx_pool *p, rx a, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a = rx_derive(p, a, (uint8_t)text[i]);
    return rx_matches_empty(p, a);
}

/* ---- brute force ----------------------------------------------------------------------------- */

/* A random expression, and what it means said a second time: the ends of its matches. */
typedef struct tree {
    enum { SET, SEQ, OR, AND, NOT, REPEAT, NONE, ALL_OF } kind;
    int a, b; /* other trees */
    uint32_t min, max;
    int set; /* of the letters a, b, c, as bits */
} tree;

#define TREES 24
#define WORD  5

typedef uint32_t ends; /* bit i: a match may end before letter i */

static ends ends_from(const tree *t, int k, const char *s, int n, int from);

static ends repeat_ends(const tree *t, const tree *x, const char *s, int n, int from)
{
    ends now = 1u << from, all = x->min == 0 ? now : 0;
    for (uint32_t i = 1; i <= x->max && i <= 40; i++) {
        ends next = 0;
        for (int e = from; e <= n; e++)
            if (now >> e & 1)
                next |= ends_from(t, x->a, s, n, e);
        now = next;
        all |= i >= x->min ? now : 0;
    }
    return all;
}

static ends ends_from(const tree *t, int k, const char *s, int n, int from)
{
    const tree *x = &t[k];
    const ends later = (2u << n) - (1u << from);
    ends r = 0, first;
    switch (x->kind) {
    case SET:
        return from < n && x->set >> (s[from] - 'a') & 1 ? 2u << from : 0;
    case SEQ:
        first = ends_from(t, x->a, s, n, from);
        for (int e = from; e <= n; e++)
            if (first >> e & 1)
                r |= ends_from(t, x->b, s, n, e);
        return r;
    case OR:
        return ends_from(t, x->a, s, n, from) | ends_from(t, x->b, s, n, from);
    case AND:
        return ends_from(t, x->a, s, n, from) & ends_from(t, x->b, s, n, from);
    case NOT:
        return later & ~ends_from(t, x->a, s, n, from);
    case REPEAT:
        return repeat_ends(t, x, s, n, from);
    case NONE:
        return 0;
    case ALL_OF:
        return later;
    }
    return 0;
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static void random_tree(tree *t, int k, uint64_t *random)
{
    tree *x = &t[k];
    *x = (tree){ .kind = k < 3 ? SET : (int)(next_random(random) % 13) };
    if ((int)x->kind > ALL_OF)
        x->kind = (const int[]){ SEQ, SEQ, OR, REPEAT, REPEAT }[x->kind - ALL_OF - 1];
    x->set = 1 + (int)(next_random(random) % 7);
    x->a = k > 0 ? (int)(next_random(random) % (uint32_t)k) : 0;
    x->b = k > 0 ? (int)(next_random(random) % (uint32_t)k) : 0;
    x->min = next_random(random) % 3;
    x->max = next_random(random) % 3 == 0 ? RX_MANY : x->min + next_random(random) % 3;
}

static rx build(rx_pool *p, const tree *x, const rx *made)
{
    uint64_t set[4] = { 0, (uint64_t)x->set << ('a' - 64), 0, 0 };
    switch (x->kind) {
    case SET:
        return rx_bytes(p, set);
    case SEQ:
        return rx_seq(p, made[x->a], made[x->b]);
    case OR:
        return rx_or(p, made[x->a], made[x->b]);
    case AND:
        return rx_and(p, made[x->a], made[x->b]);
    case NOT:
        return rx_not(p, made[x->a]);
    case REPEAT:
        return rx_repeat(p, made[x->a], x->min, x->max);
    case NONE:
        return RX_NOTHING;
    case ALL_OF:
        return RX_ALL;
    }
    return RX_NOTHING;
}

/* Checks all words of up to WORD letters; returns whether any matches. */
static bool check_words(rx_pool *p, const tree *t, int k, rx a)
{
    bool any = false;
    for (int n = 0, count = 1; n <= WORD; n++, count *= 3)
        for (int w = 0; w < count; w++) {
            char s[WORD + 1] = { 0 };
            for (int i = 0, rest = w; i < n; i++, rest /= 3)
                s[i] = (char)('a' + rest % 3);
            const bool expected = ends_from(t, k, s, n, 0) >> n & 1;
            assert_that(matches(p, a, s, (size_t)n) == expected, "%s: %s", s,
                        expected ? "not matched" : "matched");
            any |= expected;
        }
    return any;
}

static void random_expressions(void **state)
{
    (void)state;
    uint64_t random = 7;
    int n_alive = 0, n_dead = 0;
    for (int round = 0; round < 400; round++) {
        mem m;
        rx_pool *p = new_pool(&m, LIMIT);
        tree t[TREES];
        rx made[TREES];
        for (int k = 0; k < TREES; k++) {
            random_tree(t, k, &random);
            made[k] = build(p, &t[k], made);
        }
        for (int k = TREES - 3; k < TREES; k++) {
            const bool any = check_words(p, t, k, made[k]);
            const bool alive = rx_alive(p, made[k]);
            assert_that(!any || alive, "an expression that matches is dead");
            assert_that(alive || made[k] == RX_NOTHING || !any, "dead");
            n_alive += alive, n_dead += !alive;
        }
        assert_int_equal(rx_failed(p, NULL), WEFT_OK);
        end_pool(p, &m);
    }
    assert_that(n_alive > 500 && n_dead > 50, "%d live, %d are dead", n_alive, n_dead);
}

/* Dead, but only a search can tell. */
static void dead_expressions(void **state)
{
    (void)state;
    mem m;
    rx_pool *p = new_pool(&m, LIMIT);
    const rx a = rx_byte_range(p, 'a', 'a'), b = rx_byte_range(p, 'b', 'b');
    const rx even = rx_repeat(p, rx_seq(p, a, a), 0, RX_MANY);
    const rx odd = rx_seq(p, a, even);
    assert_false(rx_alive(p, rx_and(p, even, odd)));
    assert_false(rx_alive(p, rx_seq(p, rx_and(p, even, odd), b)));
    assert_false(rx_alive(p, rx_seq(p, b, rx_and(p, even, odd))));
    assert_false(rx_alive(
        p, rx_or(p, rx_seq(p, a, rx_and(p, even, odd)), rx_seq(p, b, rx_and(p, odd, even)))));
    assert_true(rx_alive(p, rx_and(p, even, rx_not(p, odd))));
    assert_true(rx_alive(p, rx_and(p, rx_repeat(p, a, 7, 7), odd)));
    assert_false(rx_alive(p, rx_and(p, rx_repeat(p, a, 8, 8), odd)));
    assert_true(rx_alive(p, rx_or(p, rx_and(p, even, odd), b)));
    assert_true(rx_alive(p, rx_repeat(p, rx_and(p, even, odd), 0, 3)));
    assert_false(rx_alive(p, rx_repeat(p, rx_and(p, even, odd), 2, 3)));
    assert_false(rx_alive(p, RX_NOTHING));
    assert_true(rx_alive(p, RX_ALL));
    end_pool(p, &m);
}

/* Sixty parts that must each live: more questions than wait for each other. */
static void many_questions(void **state)
{
    (void)state;
    mem m;
    rx_pool *p = new_pool(&m, LIMIT);
    const rx a = rx_byte_range(p, 'a', 'a');
    const rx some = rx_and(p, rx_repeat(p, a, 1, 4), rx_not(p, rx_repeat(p, a, 2, 3)));
    const rx none = rx_and(p, rx_repeat(p, a, 1, 2), rx_not(p, rx_repeat(p, a, 1, 9)));
    rx live = some, dead = none;
    for (int i = 0; i < 100; i++) {
        live = rx_seq(p, some, live);
        dead = rx_seq(p, some, dead);
    }
    assert_true(rx_alive(p, live));
    assert_false(rx_alive(p, dead));
    assert_int_equal(rx_failed(p, NULL), WEFT_OK);
    end_pool(p, &m);
}

/* ---- one form -------------------------------------------------------------------------------- */

static void one_form(void **state)
{
    (void)state;
    mem m;
    rx_pool *p = new_pool(&m, LIMIT);
    const rx a = rx_literal(p, "a", 1), b = rx_literal(p, "b", 1), ab = rx_literal(p, "ab", 2);
    const rx many = rx_repeat(p, ab, 0, RX_MANY);
    assert_int_equal(rx_or(p, a, b), rx_byte_range(p, 'a', 'b'));
    assert_int_equal(rx_or(p, ab, rx_or(p, a, ab)), rx_or(p, a, ab));
    assert_int_equal(rx_seq(p, rx_seq(p, ab, a), b), rx_seq(p, ab, ab));
    assert_int_equal(rx_seq(p, many, many), many);
    assert_int_equal(rx_repeat(p, many, 0, RX_MANY), many);
    assert_int_equal(rx_or(p, rx_repeat(p, ab, 1, 3), rx_repeat(p, ab, 4, 9)),
                     rx_repeat(p, ab, 1, 9));
    assert_int_not_equal(rx_or(p, rx_repeat(p, ab, 1, 3), rx_repeat(p, ab, 5, 9)),
                         rx_repeat(p, ab, 1, 9));
    assert_int_equal(rx_repeat(p, rx_repeat(p, ab, 2, 3), 2, 4), rx_repeat(p, ab, 4, 12));
    assert_int_not_equal(rx_repeat(p, rx_repeat(p, ab, 3, 4), 1, 4), rx_repeat(p, ab, 3, 16));
    assert_int_equal(rx_and(p, many, RX_ALL), many);
    assert_int_equal(rx_or(p, many, RX_NOTHING), many);
    assert_int_equal(rx_or(p, many, RX_ALL), RX_ALL);
    assert_int_equal(rx_and(p, many, RX_EMPTY), RX_EMPTY);
    assert_int_equal(rx_and(p, many, rx_not(p, many)), RX_NOTHING);
    assert_int_equal(rx_not(p, rx_not(p, many)), many);
    assert_int_equal(rx_not(p, RX_NOTHING), RX_ALL);
    assert_int_equal(rx_not(p, RX_ALL), RX_NOTHING);
    assert_int_equal(rx_repeat(p, ab, 3, 2), RX_NOTHING);
    assert_int_equal(rx_seq(p, RX_ALL, RX_ALL), RX_ALL);
    end_pool(p, &m);
}

static void counts(void **state)
{
    (void)state;
    mem m;
    rx_pool *p = new_pool(&m, 64);
    const rx a = rx_literal(p, "a", 1);
    rx r = rx_repeat(p, a, 3, 1000000);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(rx_matches_empty(p, r), i >= 3);
        r = rx_derive(p, r, 'a');
    }
    assert_int_equal(r, rx_repeat(p, a, 0, 999980));
    assert_int_equal(rx_repeat(p, rx_repeat(p, a, 1, 65536), 1, 65535),
                     rx_repeat(p, a, 1, 65536u * 65535u));
    assert_int_equal(rx_failed(p, NULL), WEFT_OK);
    end_pool(p, &m);
}

/* Bytes of one class have one derivative. */
static void classes(void **state)
{
    (void)state;
    uint64_t random = 3;
    for (int round = 0; round < 100; round++) {
        mem m;
        rx_pool *p = new_pool(&m, LIMIT);
        tree t[TREES];
        rx made[TREES], by_class[256];
        for (int k = 0; k < TREES; k++) {
            random_tree(t, k, &random);
            made[k] = build(p, &t[k], made);
        }
        uint8_t class_of[256];
        const int n = rx_classes(p, made[TREES - 1], class_of);
        assert_in_range(n, 1, 4);
        memset(by_class, 0xFF, sizeof by_class);
        for (int b = 0; b < 256; b++) {
            const rx d = rx_derive(p, made[TREES - 1], (uint8_t)b);
            if (by_class[class_of[b]] == UINT32_MAX)
                by_class[class_of[b]] = d;
            assert_int_equal(by_class[class_of[b]], d);
        }
        for (int c = 0; c < n; c++)
            assert_int_not_equal(by_class[c], UINT32_MAX);
        end_pool(p, &m);
    }
}

/* ---- code points ----------------------------------------------------------------------------- */

static void check_points(const uint32_t (*range)[2], size_t n)
{
    mem m;
    rx_pool *p = new_pool(&m, LIMIT);
    const rx in = rx_points(p, range, n), out = rx_not_points(p, range, n);
    for (uint32_t c = 0; c < 0x110000; c++) {
        char bytes[4];
        bool expected = false;
        const size_t length = utf8_encode(c, bytes);
        if (length == 0)
            continue;
        for (size_t i = 0; i < n; i++)
            expected |= c >= range[i][0] && c <= range[i][1];
        if (matches(p, in, bytes, length) != expected || matches(p, out, bytes, length) == expected)
            fail_msg("U+%04X is %s the set", c, expected ? "not in" : "in");
    }
    /* nothing that is not UTF-8: overlong, surrogates, too large, half */
    static const char *const wrong[] = { "\xC0\x80",
                                         "\xC1\xBF",
                                         "\xE0\x80\x80",
                                         "\xE0\x9F\xBF",
                                         "\xED\xA0\x80",
                                         "\xED\xBF\xBF",
                                         "\xF0\x80\x80\x80",
                                         "\xF0\x8F\xBF\xBF",
                                         "\xF4\x90\x80\x80",
                                         "\xF5\x80\x80\x80",
                                         "\x80",
                                         "\xC3",
                                         "\xE2\x82",
                                         "\xFF" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(matches(p, in, wrong[i], strlen(wrong[i])));
        assert_false(matches(p, out, wrong[i], strlen(wrong[i])));
    }
    end_pool(p, &m);
}

static void code_points(void **state)
{
    (void)state;
    check_points((const uint32_t[][2]){ { 'a', 'z' } }, 1);
    check_points((const uint32_t[][2]){ { 0, 0x10FFFF } }, 1);
    check_points((const uint32_t[][2]){ { 0x7F, 0x80 }, { 0x7FE, 0x801 }, { 0xFFFF, 0x10000 } }, 3);
    check_points((const uint32_t[][2]){ { 0xD000, 0xE123 },
                                        { 0x3041, 0x3096 },
                                        { 0xFF, 0xFF },
                                        { 0x1F600, 0x1F64F },
                                        { 0x40000, 0x10FFFE },
                                        { '0', '9' } },
                 6);
    check_points((const uint32_t[][2]){ { 0xD800, 0xDFFF } }, 1);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void limits(void **state)
{
    (void)state;
    mem m;
    weft_error err = { 0 };
    rx_pool *p = new_pool(&m, 1000);
    char text[2000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i % 26);
    assert_int_equal(rx_literal(p, text, sizeof text), RX_NOTHING);
    assert_int_equal(rx_failed(p, &err), WEFT_ELIMIT);
    assert_non_null(strstr(err.message, "1000"));
    assert_int_equal(rx_derive(p, RX_ALL, 'a'), RX_NOTHING); /* it stays failed */
    end_pool(p, &m);
}

/* Ten thousand optional parts: derivatives do not recurse, and there is no square of anything. */
static void long_chain(void **state)
{
    (void)state;
    mem m;
    rx_pool *p = new_pool(&m, LIMIT);
    const double begin = clock_thread_seconds();
    rx chain = RX_EMPTY;
    for (int i = 0; i < 10000; i++) {
        const char two[2] = { (char)('a' + i % 25), (char)('b' + i % 25) };
        chain = rx_seq(p, rx_repeat(p, rx_literal(p, two, 2), 0, 1), chain);
    }
    rx r = rx_derive(p, chain, 'z');
    for (int i = 0; i < 10; i++)
        r = rx_derive(p, r, 'a');
    rx_alive(p, r);
    assert_that(clock_thread_seconds() - begin < 2.0, "%.3f s", clock_thread_seconds() - begin);
    end_pool(p, &m);
}

/* Every allocation fails once, and each time the pool says so and is freed whole. */
static void no_memory(void **state)
{
    (void)state;
    int k = 0;
    for (bool failed = true; failed; k++) {
        host h;
        faults f = { .fail_at = k + 1 };
        host_faulty(&h, &f, NULL);
        weft_error err = { 0 };
        failed = true;
        rx_pool *p = rx_pool_new(&h.mem, LIMIT, &err);
        if (p) {
            rx r = rx_points(p, (const uint32_t[][2]){ { 0x100, 0x30000 } }, 1);
            r = rx_and(p, rx_repeat(p, r, 2, 300), rx_not(p, rx_literal(p, "abc", 3)));
            for (int i = 0; i < 200; i++)
                r = rx_derive(p, rx_or(p, r, rx_literal(p, "0123456789", 10)), (uint8_t)(i + 40));
            rx_alive(p, r);
            failed = rx_failed(p, &err) != WEFT_OK;
        }
        assert_that(!failed || err.code == WEFT_ENOMEM, "code %d", (int)err.code);
        rx_pool_free(p);
        assert_int_equal(h.mem.used, 0);
    }
    assert_in_range(k, 10, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("rx: random expressions match what brute force says", random_expressions),
        TEST("rx: a search finds out what is dead", dead_expressions),
        TEST("rx: more parts than questions may wait", many_questions),
        TEST("rx: equal expressions have one form", one_form),
        TEST("rx: counts are never written out", counts),
        TEST("rx: bytes of one class have one derivative", classes),
        TEST("rx: sets of code points match their UTF-8 and nothing else", code_points),
        TEST("rx: a pool that is full says so", limits),
        TEST("rx: a chain of ten thousand optional parts", long_chain),
        TEST("rx: every failed allocation is reported", no_memory),
    };
    return RUN(tests);
}
