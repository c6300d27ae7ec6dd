/* Patterns: Oniguruma's meaning, matched by PCRE2. test_onig.c compares the two. */
#include "support.h"

#include "base/clock.h"

#include "text/regex/regex.h"

#include <pthread.h>

/* All non-empty matches, as "start-end start-end". */
static void matches(const regex *re, regex_scratch *s, const char *text, char *to, size_t room)
{
    regex_walk w = { 0 };
    weft_error err = { 0 };
    size_t start, end, n = 0;
    int rc;
    to[0] = 0;
    while ((rc = regex_next(re, s, &w, text, strlen(text), &start, &end, &err)) == 1)
        if (start < end)
            n += (size_t)snprintf(to + n, room - n, "%s%zu-%zu", n ? " " : "", start, end);
    if (rc != 0)
        fail_msg("%s", err.message);
}

/* Each as in Hugging Face's tokenizers 0.23.3. */
static const struct {
    const char *pattern, *text, *found;
} meanings[] = {
    { "a{1,2}+b", "aaaab", "0-5" },
    { "a{2}?b", "aab ab b", "0-3 5-6 7-8" },
    { "a{2}+", "aaaaa", "0-4" },
    { "a{,2}", "aaa", "0-2 2-3" },
    { "a{1,2}?", "aaa", "0-1 1-2 2-3" },
    { "a{2}{2}", "aaaaa", "0-4" },
    { "a**b", "aab", "0-3" },
    { "a+*", "aab", "0-2" },
    { "a??b", "ab", "0-2" },
    { "a++a|b", "aab", "2-3" },
    { "a{", "a{ a", "0-2" },
    { "x{,}", "x{,}", "0-4" },
    { "x{1", "x{1", "0-3" },
    { "a]b", "a]b", "0-3" },
    { "{}", "{}", "0-2" },
    { "a(?i)b|c", "aBacaCC", "0-2 2-4 4-6" },
    { "(?i)AB|c", "abC", "0-2 2-3" },
    { "(?i:a(?-i)b|C)d", "aBdAbdACd", "3-6 6-9" },
    { "(?i:'s|'t)", "'S'\305\277't", "0-2 2-5 5-7" },
    { "(?i:[ks])", "Kk\305\277s", "0-1 1-2 2-4 4-5" },
    { "(?i-m:x)y", "XyXY", "0-2" },
    { "(?m).", "\012", "0-1" },
    { ".", "\012a\015", "1-2 2-3" },
    { "(?m:a.)b", "a\012b", "0-3" },
    { "^a", "a\012a", "0-1 2-3" },
    { "a$", "a\012ab a", "0-1 5-6" },
    { "^", "a\012", "" },
    { "$", "a\012\012", "" },
    { "\\Aa", "aa", "0-1" },
    { "a\\z", "aa", "1-2" },
    { "a\\Z", "aa\012", "1-2" },
    { "\\Ga", "aab", "0-1 1-2" },
    { "\\h+", "09afAFgG", "0-6" },
    { "\\H", "ag", "1-2" },
    { "\\v", "\013\012", "0-1" },
    { "\\e\\a\\f\\t", "\033\007\014\011", "0-4" },
    { "\\R", "\015\012\012\342\200\250\302\205a", "0-2 2-3 3-6 6-8" },
    { "\\x41\\x{1F600}\\u3042", "A\360\237\230\200\343\201\202", "0-8" },
    { "\\bx", "x ax \303\251x \314\201x", "0-1" },
    { "\\B.", "ab cd", "1-2 4-5" },
    { "\\w+", "a\303\251\314\201_1-\302\262\342\205\247\342\223\220", "0-7 8-16" },
    { "\\d+", "1\331\243\302\262", "0-3" },
    { "\\s", "\302\205\341\240\216\342\200\213\343\200\200 ", "0-2 8-11 11-12" },
    { "[^\\S\\n]", " \012\011a", "0-1 2-3" },
    { "[\\D]", "1a", "1-2" },
    { "[\\W_]", "a_-", "1-2 2-3" },
    { "[a[^b]]", "abc", "0-1 2-3" },
    { "[[:^alpha:]x]", "a1x", "1-2 2-3" },
    { "[[:punct:]]+", "$a!^\343\200\201", "0-1 2-7" },
    { "[[:word:]&&[^\\d]]+", "a1b2", "0-1 2-3" },
    { "[\\p{L}&&[^\\p{Han}]]+", "ab\346\274\242c", "0-2 5-6" },
    { "[^\\p{L}&&[^a]]", "abc1", "0-1 3-4" },
    { "[a-c&&b-d]", "abcd", "1-2 2-3" },
    { "[[:^punct:]]", "$a!", "1-2" },
    { "[a-b[d]&&[^b]]", "abd", "0-1 2-3" },
    { "[]a]", "]a", "0-1 1-2" },
    { "[a-]", "a-b", "0-1 1-2" },
    { "[-a]", "a-b", "0-1 1-2" },
    { "[--/]", "-./", "0-1 1-2 2-3" },
    { "[\\b]", "\010b", "0-1" },
    { "[+\\-*]", "+-*a", "0-1 1-2 2-3" },
    { "[^^]", "^a", "1-2" },
    { "\\p{^L}", "a1", "1-2" },
    { "\\P{L}", "a1", "1-2" },
    { "\\P{^L}", "a1", "0-1" },
    { "\\p{greek}", "\316\261a", "0-2" },
    { "\\p{Other_Letter}", "\346\274\242a", "0-3" },
    { "\\p{Ha-n }", "\346\274\242a", "0-3" },
    { "(?<=a|bc)d", "ad bcd d", "1-2 5-6" },
    { "(?<!a)d", "ad d", "3-4" },
    { "(?>a|ab)c", "abc ac", "4-6" },
    { "(?<n>a)+", "aab", "0-2" },
    { "(?#c)a", "a", "0-1" },
    { "(a)(b)?", "ab\320\260", "0-2" },
    { "\\s+$", "a  b \012  \012 c  ", "4-8 11-13" },
    { "a+b", "aaacaab", "4-7" },
    { "a{2,}b", "aaacaabab", "4-7" },
    { "a*b|a", "aacb", "0-1 1-2 3-4" },
    { "a+(?=b)a*b", "aaaab", "0-5" },
    { "", "ab", "" },
    { "x*", "axb", "1-2" },
    { "a|", "ab", "0-1" },
    { "(?:)", "a", "" },
    { "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
      "Hello  world\012\012 12\303\251's '", "0-5 5-6 6-12 12-14 14-17 17-19 19-21 21-23" },
};

static void constructs(void **state)
{
    (void)state;
    host h;
    host_plain(&h);
    weft_error err = { 0 };
    regex_scratch *s = regex_scratch_new(&h.mem, &err);
    assert_non_null(s);
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        regex *re = regex_new(meanings[i].pattern, strlen(meanings[i].pattern), &h.mem, &err);
        if (!re)
            fail_msg("%s: %s", meanings[i].pattern, err.message);
        char found[256];
        matches(re, s, meanings[i].text, found, sizeof found);
        if (strcmp(found, meanings[i].found) != 0)
            fail_msg("%s in \"%s\": found %s, expected %s", meanings[i].pattern, meanings[i].text,
                     found, meanings[i].found);
        regex_free(re);
    }
    regex_scratch_free(s);
    assert_int_equal(h.mem.used, 0);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static const struct {
    const char *pattern;
    weft_status code;
    const char *says;
} refusals[] = {
    { "a\\1", WEFT_EUNSUPPORTED, "byte 1: unknown escape: '\\1'" },
    { "\\k<n>", WEFT_EUNSUPPORTED, "byte 0: unknown escape" },
    { "a\\K", WEFT_EUNSUPPORTED, "byte 1: unknown escape" },
    { "\\X", WEFT_EUNSUPPORTED, "unknown escape" },
    { "\\p{Klingon}x", WEFT_EUNSUPPORTED, "byte 0: unknown property: '\\p{Klingon}'" },
    { "\\pL", WEFT_EUNSUPPORTED, "a property without braces" },
    { "\\p{L", WEFT_EFORMAT, "a property without its '}'" },
    { "(?s)a", WEFT_EUNSUPPORTED, "unknown group" },
    { "(?x)a", WEFT_EUNSUPPORTED, "unknown group" },
    { "(?~a)", WEFT_EUNSUPPORTED, "unknown group" },
    { "(?(1)a)", WEFT_EUNSUPPORTED, "unknown group" },
    { "(*FAIL)", WEFT_EUNSUPPORTED, "a verb or callout" },
    { "(?<1>a)", WEFT_EUNSUPPORTED, "unknown group" },
    { "(?i:ss)", WEFT_EUNSUPPORTED, "byte 5: case-insensitive letters of a ligature" },
    { "(?i:st)", WEFT_EUNSUPPORTED, "byte 5: case-insensitive letters of a ligature" },
    { "(?i:f(?:I))", WEFT_EUNSUPPORTED, "" },
    { "(?i:\303\251)", WEFT_EUNSUPPORTED, "byte 4: case-insensitive non-ASCII letters" },
    { "(?i:\\p{L})", WEFT_EUNSUPPORTED, "a case-insensitive set" },
    { "(?i:[^a])", WEFT_EUNSUPPORTED, "a case-insensitive negation" },
    { "(?i:[\\w])", WEFT_EUNSUPPORTED, "a case-insensitive set" },
    { "(?i:[[a]])", WEFT_EUNSUPPORTED, "a case-insensitive set" },
    { "(?i:[\303\251])", WEFT_EUNSUPPORTED, "case-insensitive non-ASCII letters" },
    { "[a", WEFT_EFORMAT, "byte 0: a class without its ']'" },
    { "[", WEFT_EFORMAT, "a class without its ']'" },
    { "[a\\", WEFT_EFORMAT, "a '\\' at the end" },
    { "[]", WEFT_EFORMAT, "a class without its ']'" },
    { "[&&a]", WEFT_EFORMAT, "an empty class" },
    { "[a&&]", WEFT_EFORMAT, "an empty class" },
    { "[a&&b]", WEFT_EUNSUPPORTED, "an empty class" },
    { "[b-a]", WEFT_EFORMAT, "a range that runs backwards" },
    { "[a-\\d]", WEFT_EUNSUPPORTED, "a range that ends in a set" },
    { "[a-[b]]", WEFT_EUNSUPPORTED, "a range that ends in a set" },
    { "[\\d-a]", WEFT_EUNSUPPORTED, "a range that begins with a set" },
    { "[a-c-e]", WEFT_EUNSUPPORTED, "a '-' that is not a range" },
    { "[[:klingon:]]", WEFT_EUNSUPPORTED, "unknown POSIX bracket" },
    { "[\\1]", WEFT_EUNSUPPORTED, "unknown escape in a class" },
    { "[[[[[[[[[[a]]]]]]]]]]", WEFT_EUNSUPPORTED, "a class nested too deep" },
    { "\\xFF", WEFT_EFORMAT, "not a code point" },
    { "\\x{110000}", WEFT_EFORMAT, "not a code point" },
    { "\\x{D800}", WEFT_EFORMAT, "not a code point" },
    { "\\x{}", WEFT_EFORMAT, "not a code point" },
    { "\\u12", WEFT_EFORMAT, "not a code point" },
    { "\\", WEFT_EFORMAT, "a '\\' at the end" },
    { "\377", WEFT_EFORMAT, "not UTF-8" },
    { "(a", WEFT_EFORMAT, "a '(' without its ')'" },
    { "a)", WEFT_EFORMAT, "byte 1: a ')' without its '('" },
    { "(?#", WEFT_EFORMAT, "a comment without its ')'" },
    { "*a", WEFT_EUNSUPPORTED, "nothing to repeat" },
    { "a|+", WEFT_EUNSUPPORTED, "byte 2: nothing to repeat" },
    { "^*", WEFT_EUNSUPPORTED, "nothing to repeat" },
    { "(?=a)*", WEFT_EUNSUPPORTED, "nothing to repeat" },
    { "a{3,2}", WEFT_EUNSUPPORTED, "a repeat out of range" },
    { "a{70000}", WEFT_EUNSUPPORTED, "a repeat out of range" },
    { "a{99999999999999999999999}", WEFT_EUNSUPPORTED, "a repeat out of range" },
    { "(?<=a*)b", WEFT_EUNSUPPORTED, "refused by PCRE2" },
};

static void refused_by_name(void **state)
{
    (void)state;
    host h;
    host_plain(&h);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        weft_error err = { 0 };
        regex *re = regex_new(refusals[i].pattern, strlen(refusals[i].pattern), &h.mem, &err);
        if (re || err.code != refusals[i].code || !strstr(err.message, refusals[i].says))
            fail_msg("%s: %s (%d), expected %s (%d)", refusals[i].pattern,
                     re ? "taken" : err.message, err.code, refusals[i].says, refusals[i].code);
        assert_int_equal(h.mem.used, 0);
    }
    char deep[200], wide[70000];
    memset(deep, '(', sizeof deep);
    memset(wide, 'a', sizeof wide);
    weft_error err = { 0 };
    assert_null(regex_new(deep, sizeof deep, &h.mem, &err));
    assert_non_null(strstr(err.message, "nested too deep"));
    assert_null(regex_new(wide, sizeof wide, &h.mem, &err));
    assert_non_null(strstr(err.message, "more than the"));
    for (size_t i = 0; i + 5 <= 65536; i += 5)
        memcpy(wide + i, "\\p{L}", 5);
    assert_null(regex_new(wide, 65535, &h.mem, &err));
    assert_int_equal(err.code, WEFT_EUNSUPPORTED);
    assert_int_equal(h.mem.used, 0);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static const char llama3[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const char *patterns[] = { llama3, "[\\p{L}&&[^\\p{Han}]]+(?:ab)*" };
    for (size_t p = 0; p < 2; p++)
        for (int64_t k = 1;; k++) {
            faults f = { .fail_at = k };
            host h;
            host_faulty(&h, &f, NULL);
            weft_error err = { 0 };
            regex *re = regex_new(patterns[p], strlen(patterns[p]), &h.mem, &err);
            regex_scratch *s = re ? regex_scratch_new(&h.mem, &err) : NULL;
            const bool failed = f.calls >= k;
            if (failed) {
                assert_true(!re || !s);
                assert_int_equal(err.code, WEFT_ENOMEM);
            } else {
                assert_non_null(s);
            }
            regex_scratch_free(s);
            regex_free(re);
            assert_int_equal(f.live, 0);
            assert_int_equal(h.mem.used, 0);
            if (!failed)
                break;
        }
}

static void the_cap_holds(void **state)
{
    (void)state;
    for (size_t cap = 64; cap < 1 << 20; cap *= 2) {
        host h;
        host_plain(&h);
        h.mem.cap = cap;
        weft_error err = { 0 };
        regex *re = regex_new(llama3, strlen(llama3), &h.mem, &err);
        regex_scratch *s = re ? regex_scratch_new(&h.mem, &err) : NULL;
        assert_true(s || err.code == WEFT_ELIMIT);
        assert_true(h.mem.peak <= cap);
        regex_scratch_free(s);
        regex_free(re);
        assert_int_equal(h.mem.used, 0);
    }
}

/* ---- searches that want too much ------------------------------------------------------------- */

static void a_search_gives_up(void **state)
{
    (void)state;
    host h;
    host_plain(&h);
    weft_error err = { 0 };
    regex *re = regex_new("(?:a+)+[bc]", 11, &h.mem, &err);
    regex_scratch *s = regex_scratch_new(&h.mem, &err);
    char text[64];
    size_t start, end;
    memset(text, 'a', sizeof text);
    assert_true(regex_find(re, s, text, sizeof text, 0, &start, &end, &err) < 0);
    assert_int_equal(err.code, WEFT_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "steps per byte of the text"));
    text[63] = 'b'; /* and the scratch still works */
    assert_int_equal(regex_find(re, s, text, sizeof text, 0, &start, &end, &err), 1);
    assert_int_equal(end, 64);
    regex_free(re);
    regex_scratch_free(s);
}

/* A repeated group needs stack for backtracking: it grows up to the cap, then there is an error. */
static void a_stack_grows_under_the_cap(void **state)
{
    (void)state;
    host h;
    host_plain(&h);
    weft_error err = { 0 };
    regex *re = regex_new("(?:ab|c)+", 9, &h.mem, &err);
    regex_scratch *s = regex_scratch_new(&h.mem, &err);
    const size_t n = 200000;
    char *text = malloc(n);
    for (size_t i = 0; i < n; i++)
        text[i] = "ab"[i % 2];
    size_t start, end;
    regex_begin(s, 3 * n); /* for three searches */
    h.mem.cap = h.mem.used + (1 << 20);
    assert_int_equal(regex_find(re, s, text, n, 0, &start, &end, &err), -1);
    assert_int_equal(err.code, WEFT_ELIMIT);
    assert_non_null(strstr(err.message, "memory "));
    assert_int_equal(regex_find(re, s, text, 100, 0, &start, &end, &err), 1);
    h.mem.cap = 0;
    assert_int_equal(regex_find(re, s, text, n, 0, &start, &end, &err), 1);
    assert_int_equal(end, n);
    free(text);
    regex_free(re);
    regex_scratch_free(s);
    assert_int_equal(h.mem.used, 0);
}

/* Beyond the largest stack a search is an error, however much memory there is. */
static void a_stack_has_a_limit(void **state)
{
    (void)state;
    host h;
    host_plain(&h);
    weft_error err = { 0 };
    regex *re = regex_new("(?:ab|c)+", 9, &h.mem, &err);
    regex_scratch *s = regex_scratch_new(&h.mem, &err);
    const size_t n = (size_t)24 << 20;
    char *text = malloc(n);
    for (size_t i = 0; i < n; i++)
        text[i] = "ab"[i % 2];
    size_t start, end;
    regex_begin(s, n);
    assert_int_equal(regex_find(re, s, text, n, 0, &start, &end, &err), -1);
    assert_int_equal(err.code, WEFT_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "a pattern is too slow"));
    assert_int_equal(regex_find(re, s, text, 100, 0, &start, &end, &err), 1);
    free(text);
    regex_free(re);
    regex_scratch_free(s);
    assert_int_equal(h.mem.used, 0);
}

static double seconds_for(const regex *re, regex_scratch *s, const char *text, size_t n)
{
    regex_walk w = { 0 };
    weft_error err = { 0 };
    size_t start, end;
    int rc;
    regex_begin(s, n);
    const double began = clock_thread_seconds();
    while ((rc = regex_next(re, s, &w, text, n, &start, &end, &err)) == 1) {}
    const double took = clock_thread_seconds() - began;
    assert_int_equal(rc, 0);
    return took;
}

/* How much longer n bytes take than their first eighth: 8 if time is linear, 64 if quadratic. The
 * lowest of several tries, because of other load. */
static double growth(const regex *re, regex_scratch *s, const char *text, size_t n)
{
    double ratio = 1e9;
    for (int again = 0; again < 12 && ratio > 8; again++) {
        const double part = seconds_for(re, s, text, n / 8), whole = seconds_for(re, s, text, n);
        ratio = fmin(ratio, whole / fmax(part, 1e-6));
    }
    return ratio;
}

static void time_is_linear(void **state)
{
    (void)state;
    static const char *const alphabets[] = { " ",
                                             "\n",
                                             " \n",
                                             "a",
                                             "A",
                                             "aA",
                                             "1",
                                             "!",
                                             "a ",
                                             " a",
                                             "'",
                                             "'s",
                                             "\r\n",
                                             "\343\200\200",
                                             "\346\274\242",
                                             "a\314\201",
                                             "\314\201",
                                             "\360\237\230\200",
                                             "a1",
                                             "  a" };
    const size_t n = quick() ? 1 << 16 : 1 << 20;
    host h;
    host_plain(&h);
    weft_error err = { 0 };
    regex *re = regex_new(llama3, strlen(llama3), &h.mem, &err);
    regex_scratch *s = regex_scratch_new(&h.mem, &err);
    char *text = malloc(2 * n);
    for (size_t i = 0; i < sizeof alphabets / sizeof *alphabets; i++) {
        const size_t unit = strlen(alphabets[i]), length = 2 * n / (8 * unit) * (8 * unit);
        for (size_t k = 0; k < length; k++)
            text[k] = alphabets[i][k % unit];
        const double grown = growth(re, s, text, length);
        if (grown > 20)
            fail_msg("\"%s\": eight times the text takes %.0f times the time", alphabets[i], grown);
    }
    free(text);
    regex_free(re);
    regex_scratch_free(s);
}

/* Spaces that do not end the line: the pattern fails at each of them. */
static void a_run_is_left_at_once(void **state)
{
    (void)state;
    const size_t n = quick() ? 1 << 16 : 1 << 20;
    host h;
    host_plain(&h);
    weft_error err = { 0 };
    regex *re = regex_new("\\s+$", 4, &h.mem, &err);
    regex_scratch *s = regex_scratch_new(&h.mem, &err);
    char *text = malloc(n);
    memset(text, ' ', n);
    text[n / 8 - 1] = text[n - 1] = 'x';
    assert_true(growth(re, s, text, n) < 20);
    free(text);
    regex_free(re);
    regex_scratch_free(s);
}

/* ---- sharing --------------------------------------------------------------------------------- */

static void *search_often(void *arg)
{
    const regex *re = arg;
    host h;
    host_plain(&h);
    weft_error err = { 0 };
    regex_scratch *s = regex_scratch_new(&h.mem, &err);
    char found[256];
    bool good = s;
    for (int i = 0; i < 2000 && good; i++) {
        matches(re, s, "It's 2026,  isn't it?\n", found, sizeof found);
        good = strcmp(found, "0-2 2-4 4-5 5-8 8-9 9-10 10-11 11-15 15-18 18-20 20-22") != 0 ||
               found[0];
    }
    regex_scratch_free(s);
    return good ? arg : NULL;
}

static void one_regex_in_many_threads(void **state)
{
    (void)state;
    host h;
    host_plain(&h);
    weft_error err = { 0 };
    regex *re = regex_new(llama3, strlen(llama3), &h.mem, &err);
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, search_often, re), 0);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(thread[i], &result);
        assert_ptr_equal(result, re);
    }
    regex_free(re);
    assert_int_equal(h.mem.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("regex: each construct matches as in Oniguruma", constructs),
        TEST("regex: unknown constructs are refused by name and position", refused_by_name),
        TEST("regex: every allocation may fail", every_allocation_may_fail),
        TEST("regex: the memory cap holds, code and stack included", the_cap_holds),
        TEST("regex: a search that takes too long gives up", a_search_gives_up),
        TEST("regex: the stack grows under the cap", a_stack_grows_under_the_cap),
        TEST("regex: the stack has a limit", a_stack_has_a_limit),
        TEST("regex: time is linear in the text", time_is_linear),
        TEST("regex: a run that cannot match is skipped at once", a_run_is_left_at_once),
        TEST("regex: one regex in many threads", one_regex_in_many_threads),
    };
    return RUN(tests);
}
