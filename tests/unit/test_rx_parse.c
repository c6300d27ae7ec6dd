/* Patterns of JSON Schema: what they match, what is refused and in which words. */
#include "support.h"

#include "base/clock.h"
#include "text/constrain/rx.h"

#include <math.h>

#define LIMIT 100000
#define TRIES 5 /* at what takes too long: another program may have been in the way */

#ifdef NDEBUG
#define PATIENCE 0.05 /* seconds for the worst pattern */
#else
#define PATIENCE 2.0 /* with assertions, perhaps under a sanitizer */
#endif

static rx_pool *new_pool(mem *m)
{
    weft_error err = { 0 };
    mem_init(m, (size_t)64 << 20, NULL);
    rx_pool *p = rx_pool_new(m, LIMIT, &err);
    assert_non_null(p);
    return p;
}

static bool matches(rx_pool *p, rx a, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a = rx_derive(p, a, (uint8_t)text[i]);
    return rx_matches_empty(p, a);
}

static rx parse(rx_pool *p, const char *pattern, int flags)
{
    weft_error err = { 0 };
    const rx a = rx_parse(p, pattern, strlen(pattern), flags, &err);
    if (err.code != WEFT_OK)
        fail_msg("%s: %s", pattern, err.message);
    return a;
}

/* By ECMA-262; lists of texts are separated by a space, _ stands for the empty text. */
static const struct {
    const char *pattern;
    int flags;
    const char *good, *bad;
} meanings[] = {
    { "abc", 0, "abc", "_ ab abcd xabc" },
    { "abc", RX_SEARCH, "abc xabc abcx ababc", "_ ab axbc" },
    { "^abc", RX_SEARCH, "abc abcx", "xabc" },
    { "abc$", RX_SEARCH, "abc xabc", "abcx" },
    { "^abc$", RX_SEARCH, "abc", "xabc abcx" },
    { "^a|b$", RX_SEARCH, "a ax b xb", "xa bx _" },
    { "(^a|b)c", RX_SEARCH, "ac acx bc xbc", "xac" },
    { "(^a|b)c", 0, "ac bc", "xac xbc" },
    { "a(b$|c)", RX_SEARCH, "ab xab ac acx", "abx" },
    { "^(?:)$", RX_SEARCH, "_", "a" },
    { "$^", RX_SEARCH, "_", "a" },
    { "a^b", RX_SEARCH, "", "ab a b" },
    { "(^)*a", RX_SEARCH, "a xa", "x" },
    { "(^|x){2}a", RX_SEARCH, "a xa xxa yxxa", "yxa ya" },
    { "(?:^a$)+", RX_SEARCH, "a", "aa" },
    { "^$|^a", RX_SEARCH, "_ a ab", "ba" },
    { "", RX_SEARCH, "_ a", "" },
    { "", 0, "_", "a" },
    { "a|", 0, "a _", "b" },
    { "[a-c]x?", 0, "a b c cx", "d x" },
    { "[^a-c]", 0, "d \303\251 \360\237\230\200", "a b c" },
    { "[]", 0, "", "_ a" },
    { "[^]", 0, "a \n", "_" },
    { "[\\w-.]+", 0, "a-b.c", "a+b" },
    { "[a\\-z]+", 0, "a-z", "b" },
    { "[-a]+[a-]", 0, "-a a-", "b" },
    { "[\\]\\\\]+", 0, "]\\", "[" },
    { "[\\b]", 0, "\b", "b" },
    { "[^\\W\\d]+", 0, "ab_", "a1" },
    { "[\\s\\S]", 0, "a \n \342\200\250", "_" },
    { ".", 0, "a \303\251 \342\202\254 \360\237\230\200", "\n \r \342\200\250 \342\200\251 _" },
    { "\\d+", 0, "0 19", "\331\243 a" },
    { "\\w+", 0, "aZ_9", "\303\251" },
    { "\\s+", 0, "\t\n\v\f\r\302\240\342\200\250\357\273\277\343\200\200", "\302\205" },
    { "\\S", 0, "a", "\t" },
    { "\\t\\n\\v\\f\\r", 0, "\t\n\v\f\r", "tnvfr" },
    { "\\x41\\u0042\\u{43}", 0, "ABC", "abc" },
    { "\\u{1F600}", 0, "\360\237\230\200", "a" },
    { "\\ud83d\\ude00", 0, "\360\237\230\200", "a" },
    { "[\\u{1F600}-\\u{1F602}]", 0, "\360\237\230\201", "\360\237\230\203" },
    { "\\cA\\cz", 0, "\001\032", "AZ" },
    { "\\.\\*\\/\\-\\@\\\"", 0, ".*/-@\"", "a" },
    { "\\p{L}+", 0, "a\303\251\346\274\242", "1" },
    { "\\p{Lu}\\p{Ll}", 0, "Aa \303\211\303\251", "aA" },
    { "\\P{L}", 0, "1 \342\202\254", "a" },
    { "\\p{Script=Greek}", 0, "\316\261", "a" },
    { "\\p{sc=Cyrl}", 0, "\320\260", "a" },
    { "\\p{General_Category=Nd}", 0, "1 \331\243", "a" },
    { "[^\\p{L}\\p{N}]+", 0, "-+", "a 1" },
    { "a{2}", 0, "aa", "a aaa" },
    { "a{2,}", 0, "aa aaaaa", "a" },
    { "a{2,3}?", 0, "aa aaa", "a aaaa" },
    { "(ab){0}", 0, "_", "ab" },
    { "a{,2}", 0, "a{,2}", "a aa" },
    { "a{", 0, "a{", "a" },
    { "{}]", 0, "{}]", "a" },
    { "x{2}{", 0, "xx{", "xx" },
    { "(?<year>\\d{4})-(?:\\d\\d)", 0, "2024-01", "24-01" },
    { "((a|b)*c)+?", 0, "c abc abcbc", "ab" },
    { "a{0,99999999999}", 0, "_ aaaa", "b" },
    { "[\"\\\\\\n]+", RX_JSON, "\\\" \\\\ \\n \\u000a \\u000A\\n", "\" \\ \n \\t n \\\\n\\" },
    { "[^a]", RX_JSON, "b \\\" \\\\ \\t \\u001f \\u001F \303\251",
      "a \" \\ \t \\u0020 \\u00e9 \\v" },
    { ".", RX_JSON, "a \\t \\b \\f \\u000b \\u0000 \\u0010", "\\n \\r \\u000d \\u000A" },
    { "^b", RX_SEARCH | RX_JSON, "b ba\\n", "a \\b" },
    { "b$", RX_SEARCH | RX_JSON, "b \\tb \\\\b", "\\b \\\\\\b" },
};

/* Calls with each text of a list. */
static void check_list(rx_pool *p, rx a, const char *list, bool expected, const char *pattern)
{
    while (*list) {
        size_t n = strcspn(list, " ");
        const bool none = n == 1 && *list == '_';
        assert_that(matches(p, a, list, none ? 0 : n) == expected, "%s %s %.*s", pattern,
                    expected ? "does not match" : "matches", (int)n, list);
        list += n + (list[n] == ' ');
    }
}

static void constructs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        mem m;
        rx_pool *p = new_pool(&m);
        const rx a = parse(p, meanings[i].pattern, meanings[i].flags);
        check_list(p, a, meanings[i].good, true, meanings[i].pattern);
        check_list(p, a, meanings[i].bad, false, meanings[i].pattern);
        assert_int_equal(rx_failed(p, NULL), WEFT_OK);
        rx_pool_free(p);
        assert_int_equal(m.used, 0);
    }
}

static const struct {
    const char *pattern;
    weft_status code;
    const char *says;
} refusals[] = {
    { "a(?=b)", WEFT_EUNSUPPORTED, "byte 1, \"(?=b)\": a look-ahead" },
    { "^(?!b)", WEFT_EUNSUPPORTED, "byte 1, \"(?!b)\": a look-ahead" },
    { "(?<=b)a", WEFT_EUNSUPPORTED, "byte 0, \"(?<=b)a\": a look-behind" },
    { "(?<!b)a", WEFT_EUNSUPPORTED, "a look-behind" },
    { "(a)\\1", WEFT_EUNSUPPORTED, "byte 3, \"\\1\": a back-reference" },
    { "(?<n>a)\\k<n>", WEFT_EUNSUPPORTED, "byte 7, \"\\k<n>\": a back-reference" },
    { "\\bword\\b", WEFT_EUNSUPPORTED, "byte 0, \"\\bword\\b\": a word boundary" },
    { "a\\B", WEFT_EUNSUPPORTED, "a word boundary" },
    { "(?i)a", WEFT_EUNSUPPORTED, "flags" },
    { "(?", WEFT_EUNSUPPORTED, "flags" },
    { "\\p{Klingon}", WEFT_EUNSUPPORTED, "an unknown property" },
    { "\\ud83d", WEFT_EUNSUPPORTED, "half of a surrogate pair" },
    { "\\ud83d\\u0041", WEFT_EUNSUPPORTED, "half of a surrogate pair" },
    { "\\u{DC00}", WEFT_EUNSUPPORTED, "half of a surrogate pair" },
    { "\\p", WEFT_EFORMAT, "\\p{...}" },
    { "\\p{L", WEFT_EFORMAT, "\\p{...}" },
    { "\\u12", WEFT_EFORMAT, "\\uHHHH" },
    { "\\u{}", WEFT_EFORMAT, "\\uHHHH" },
    { "\\u{110000}", WEFT_EFORMAT, "\\uHHHH" },
    { "\\u{41", WEFT_EFORMAT, "\\uHHHH" },
    { "\\x4", WEFT_EFORMAT, "\\xHH" },
    { "a\\", WEFT_EFORMAT, "byte 1, \"\\\": not an escape" },
    { "\\A", WEFT_EFORMAT, "not an escape" },
    { "\\c1", WEFT_EFORMAT, "not an escape" },
    { "\\\303\251", WEFT_EFORMAT, "not an escape" },
    { "[a", WEFT_EFORMAT, "byte 0, \"[a\": a class without its ]" },
    { "[", WEFT_EFORMAT, "a class without its ]" },
    { "[b-a]", WEFT_EFORMAT, "byte 1, \"b-a]\": a range that ends" },
    { "x(a|b", WEFT_EFORMAT, "byte 1, \"(a|b\": a ( without its )" },
    { "ab)c", WEFT_EFORMAT, "byte 2, \")c\": a ) without its (" },
    { "*a", WEFT_EFORMAT, "byte 0, \"*a\": a count of nothing" },
    { "a|+", WEFT_EFORMAT, "a count of nothing" },
    { "a**", WEFT_EFORMAT, "byte 2, \"*\": a count of nothing" },
    { "a++", WEFT_EFORMAT, "a count of nothing" },
    { "^*", WEFT_EFORMAT, "a count of nothing" },
    { "(?:{2})", WEFT_EFORMAT, "a count of nothing" },
    { "a{3,2}", WEFT_EFORMAT, "byte 1, \"{3,2}\": not a count" },
    { "a{99999999999}", WEFT_EFORMAT, "not a count" },
    { "(?<n", WEFT_EFORMAT, "the name of a group" },
    { "a\377", WEFT_EFORMAT, "byte 1, \"\": not UTF-8" },
    { "[\303]", WEFT_EFORMAT, "not UTF-8" },
    { "((^){9}(^){9}){9}a", WEFT_ELIMIT, "64 anchors" },
};

static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        mem m;
        weft_error err = { 0 };
        rx_pool *p = new_pool(&m);
        const char *pattern = refusals[i].pattern;
        assert_int_equal(rx_parse(p, pattern, strlen(pattern), 0, &err), RX_NOTHING);
        assert_that(err.code == refusals[i].code && strstr(err.message, refusals[i].says),
                    "%s: code %d, %s", pattern, (int)err.code, err.message);
        rx_pool_free(p);
        assert_int_equal(m.used, 0);
    }
}

/* ---- against Python -------------------------------------------------------------------------- */

static void check_golden(const char *pattern, size_t n, const char *digits)
{
    mem m;
    rx_pool *p = new_pool(&m);
    weft_error err = { 0 };
    const rx search = rx_parse(p, pattern, n, RX_SEARCH, &err);
    const rx whole = rx_parse(p, pattern, n, 0, &err);
    assert_that(err.code == WEFT_OK, "%.*s: %s", (int)n, pattern, err.message);
    int bit = 0;
    for (int length = 0, count = 1; length <= 4; length++, count *= 3)
        for (int w = 0; w < count; w++, bit += 2) {
            char text[5] = { 0 };
            for (int i = length - 1, rest = w; i >= 0; i--, rest /= 3)
                text[i] = "ab1"[rest % 3];
            const char c = digits[bit / 4];
            const int four = c <= '9' ? c - '0' : c - 'a' + 10;
            const int expected = four >> (2 - bit % 4) & 3;
            const int got = matches(p, search, text, (size_t)length) * 2 +
                            matches(p, whole, text, (size_t)length);
            assert_that(got == expected, "%.*s on \"%s\": %d, expected %d", (int)n, pattern, text,
                        got, expected);
        }
    rx_pool_free(p);
}

static void like_python(void **state)
{
    (void)state;
    size_t size;
    char *text = read_whole(WEFT_TESTS_DIR "/golden/constrain/patterns.txt", &size);
    int n = 0;
    for (char *line = text; line < text + size; n++) {
        char *tab = memchr(line, '\t', (size_t)(text + size - line));
        char *end = memchr(line, '\n', (size_t)(text + size - line));
        assert_true(tab && end && tab < end);
        *end = 0;
        check_golden(line, (size_t)(tab - line), tab + 1);
        line = end + 1;
    }
    assert_int_equal(n, 1500);
    free(text);
}

/* ---- hostile patterns ------------------------------------------------------------------------ */

/* Every beginning of every pattern above: read or refused, never anything else. */
static void prefixes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        for (size_t n = 0; n <= strlen(meanings[i].pattern); n++) {
            mem m;
            weft_error err = { 0 };
            rx_pool *p = new_pool(&m);
            char *copy = malloc(n + 1); /* a sanitizer sees a byte too many */
            memcpy(copy, meanings[i].pattern, n);
            rx_parse(p, copy, n, meanings[i].flags, &err);
            assert_that(err.code == WEFT_OK || err.message[0], "refused without a sentence");
            free(copy);
            rx_pool_free(p);
            assert_int_equal(m.used, 0);
        }
}

static void bomb(const char *what, const char *unit, size_t times, const char *tail)
{
    const size_t n = strlen(unit), size = n * times;
    char *pattern = malloc(size + strlen(tail) + 1);
    for (size_t i = 0; i < times; i++)
        memcpy(pattern + i * n, unit, n);
    memcpy(pattern + size, tail, strlen(tail) + 1);
    double seconds = 1e9;
    for (int try = 0; try < TRIES && seconds >= PATIENCE; try++) {
        mem m;
        weft_error err = { 0 };
        rx_pool *p = new_pool(&m);
        const double begin = clock_thread_seconds();
        rx a = rx_parse(p, pattern, strlen(pattern), RX_SEARCH | RX_JSON, &err);
        for (int i = 0; i < 20; i++)
            a = rx_derive(p, a, "ab1(,"[i % 5]);
        seconds = fmin(seconds, clock_thread_seconds() - begin);
        assert_that(m.peak < (size_t)64 << 20, "%s: %zu bytes", what, m.peak);
        rx_pool_free(p);
        assert_int_equal(m.used, 0);
    }
    assert_that(seconds < PATIENCE, "%s: %.3f s", what, seconds);
    free(pattern);
}

static void bombs(void **state)
{
    (void)state;
    bomb("parentheses", "(", 60000, "");
    bomb("pairs", "()", 30000, "");
    bomb("nested counts", "(", 60, "a{1,1000}){1,1000}){1,1000}){1,1000}b{1,1000000}");
    bomb("optional letters", "a?", 30000, "");
    bomb("optional sets", "[ab]?", 12000, "c");
    bomb("alternatives", "a|", 30000, "");
    bomb("counts", "(a|aa|b){1,1000}", 4000, "");
    bomb("anchors", "^$", 30000, "");
    bomb("classes", "\\P{L}", 10000, "");
    bomb("properties", "[^\\p{L}\\p{N}\\u1234-\\u4567]", 2000, "");
    bomb("a class", "[", 1, "zyxwvutsrqponmlkjihgfedcba\303\251\342\202\254a-z");
    bomb("letters", "\u4e00\ue001\u0416q", 3000, "");
    bomb("dots", ".*a.*b", 10000, "");
}

static void no_memory(void **state)
{
    (void)state;
    static const char pattern[] = "^(?:[^\\p{L}]{2,7}|(^a|\\u00e9b$)+)x*$|[zyx\\u4567-\\u5000]";
    bool failed = true;
    int k = 1;
    for (; failed; k++) {
        host h;
        faults f = { .fail_at = k };
        weft_error err = { 0 };
        host_faulty(&h, &f, NULL);
        rx_pool *p = rx_pool_new(&h.mem, LIMIT, &err);
        if (p)
            rx_parse(p, pattern, strlen(pattern), RX_SEARCH, &err);
        failed = err.code != WEFT_OK;
        assert_that(!failed || err.code == WEFT_ENOMEM, "code %d: %s", err.code, err.message);
        rx_pool_free(p);
        assert_int_equal(h.mem.used, 0);
    }
    assert_in_range(k, 20, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("pattern: every construct means what ECMA-262 says", constructs),
        TEST("pattern: what is refused is named with its place", refused),
        TEST("pattern: made-up ones match what Python's re matches", like_python),
        TEST("pattern: every beginning is read or refused", prefixes),
        TEST("pattern: bombs end quickly and small", bombs),
        TEST("pattern: every failed allocation is reported", no_memory),
    };
    return RUN(tests);
}
