/* Stop strings: a text ends at the first complete string, as in a plain search, however the text is
 * cut. Text before it is emitted as soon as it cannot be part of one. */
#include "support.h"

#include "base/rng.h"
#include "text/stop.h"

enum { LONGEST = 200 };

static uint32_t dice(uint64_t who, uint64_t i, uint32_t sides)
{
    return rng_draw(21, who, i).word[0] % sides;
}

/* A plain search: the end of the first complete string, the longest of several; text_length if
 * there is none. Returns where the text is cut. */
static size_t search(const char *text, size_t n, const char *const *strings, int n_string, int *hit)
{
    *hit = -1;
    for (size_t end = 1; end <= n; end++) {
        size_t longest = 0;
        for (int i = 0; i < n_string; i++) {
            const size_t length = strlen(strings[i]);
            if (length <= end && length > longest &&
                memcmp(text + end - length, strings[i], length) == 0) {
                longest = length;
                *hit = i;
            }
        }
        if (longest > 0)
            return end - longest;
    }
    return n;
}

/* Is the end of the text, from `at` on, a prefix of a stop string? */
static bool may_begin(const char *text, size_t at, size_t n, const char *const *strings,
                      int n_string)
{
    for (int i = 0; i < n_string; i++)
        if (strlen(strings[i]) > n - at && memcmp(text + at, strings[i], n - at) == 0)
            return true;
    return false;
}

typedef struct text {
    char bytes[LONGEST];
    size_t n;
} text;

static void append(text *t, const char *bytes, size_t n)
{
    assert_true(t->n + n <= LONGEST);
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
}

/* Strings and texts of two letters, so that prefixes and suffixes overlap in every way. */
static void check_random(mem *m, uint64_t who)
{
    char strings[4][8], all[LONGEST];
    const char *string[4];
    const int n_string = (int)dice(who, 0, 5);
    uint64_t k = 1;
    for (int i = 0; i < n_string; i++) {
        const uint32_t length = 1 + dice(who, k++, 7);
        for (uint32_t c = 0; c < length; c++)
            strings[i][c] = "ab"[dice(who, k++, 2)];
        strings[i][length] = 0;
        string[i] = strings[i];
    }
    const size_t n = dice(who, k++, 30);
    for (size_t i = 0; i < n; i++)
        all[i] = "abc"[dice(who, k++, 10) == 0 ? 2 : dice(who, k, 2)];
    int hit;
    const size_t want = search(all, n, string, n_string, &hit);

    stop s;
    weft_error err = { 0 };
    text given = { .n = 0 };
    const char *out;
    size_t out_length;
    assert_int_equal(stop_init(&s, m, string, n_string, &err), WEFT_OK);
    for (size_t at = 0; at < n;) {
        size_t take = dice(who, k++, 5);
        take = take < n - at ? take : n - at;
        assert_int_equal(stop_push(&s, all + at, take, &out, &out_length, &err), WEFT_OK);
        append(&given, out, out_length);
        at += take;
        if (s.hit < 0 && given.n < at) /* held-back text must be a prefix of one */
            assert_true(may_begin(all, given.n, at, string, n_string));
    }
    assert_int_equal(s.hit, hit);
    stop_flush(&s, &out, &out_length);
    append(&given, out, out_length);
    assert_int_equal(given.n, want);
    assert_memory_equal(given.bytes, all, want);
    assert_int_equal(s.hit, -1);
    assert_int_equal(stop_push(&s, "c", 1, &out, &out_length, &err), WEFT_OK); /* as new */
    assert_int_equal(out_length, 1);
    stop_free(&s);
}

static void as_a_plain_search(void **state)
{
    (void)state;
    mem m;
    mem_init(&m, 0, NULL);
    for (uint64_t i = 0; i < 20000; i++)
        check_random(&m, i);
    assert_int_equal(atomic_load(&m.used), 0);
}

static void refused(void **state)
{
    (void)state;
    weft_error err = { 0 };
    assert_null(weft_stop_new((const char *const[]){ "a", "" }, 2, &err));
    assert_string_equal(err.message, "stop string 1 is empty");
    assert_null(weft_stop_new(NULL, 1, NULL));
    weft_stop *none = weft_stop_new(NULL, 0, &err);
    const char *out;
    size_t n;
    assert_non_null(none);
    assert_int_equal(weft_stop_push(none, "abc", 3, &out, &n, NULL), WEFT_OK);
    assert_int_equal(n, 3);
    assert_int_equal(weft_stop_hit(none), -1);
    weft_stop_flush(none, &out, &n);
    assert_int_equal(n, 0);
    weft_stop_free(none);
    weft_stop_free(NULL);
}

/* A failed allocation loses no text: the same push may be repeated. */
static void memory_faults(void **state)
{
    (void)state;
    static char long_text[10000];
    memset(long_text, 'x', sizeof long_text);
    for (int64_t k = 1;; k++) {
        host h;
        faults f = { .fail_at = k };
        weft_error err = { 0 };
        stop s;
        const char *out;
        size_t n;
        host_faulty(&h, &f, NULL);
        bool failed = stop_init(&s, &h.mem, (const char *const[]){ "stop", "end" }, 2, &err) !=
                      WEFT_OK;
        if (!failed) {
            failed = stop_push(&s, "abcst", 5, &out, &n, &err) != WEFT_OK;
            if (failed)
                assert_int_equal(stop_push(&s, "abcst", 5, &out, &n, &err), WEFT_OK);
            assert_int_equal(n, 3);
            const bool again = stop_push(&s, long_text, sizeof long_text, &out, &n, &err) !=
                               WEFT_OK;
            if (again)
                assert_int_equal(stop_push(&s, long_text, sizeof long_text, &out, &n, &err),
                                 WEFT_OK);
            assert_int_equal(n, sizeof long_text + 2);
            failed = failed || again;
        }
        stop_free(&s);
        assert_int_equal(f.live, 0);
        if (!failed)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("stop: random texts end where a plain search ends them, however cut",
             as_a_plain_search),
        TEST("stop: an empty string is refused, an empty list is not", refused),
        TEST("stop: a failed allocation loses no text", memory_faults),
    };
    return RUN(tests);
}
