/* Patterns on PCRE2 beside Oniguruma itself: every class on every code point, every pattern of the
 * field on random text.
 *
 * The system's Oniguruma may be older than the one whose classes weft has. A code point that it
 * takes for unassigned may differ; any other difference is listed below, or fails. */
#include "patterns.h"
#include "support.h"

#include "base/rng.h"
#include "base/utf8.h"
#include "formats/json.h"
#include "text/regex/regex.h"
#include "text/regex/tables.h"

#include <oniguruma.h>

#define N_POINT 0x110000

/* Every code point in order, and which one begins at a byte. */
typedef struct points {
    char *text;
    size_t n;
    uint32_t *at; /* [n + 1] */
    uint8_t *unassigned;
    uint8_t *a, *b; /* the sets of the two engines */
} points;

static host plain;
static regex_scratch *scratch;
static points all;

/* ---- two engines, one walk ------------------------------------------------------------------- */

typedef struct pair {
    regex *ours;
    OnigRegex theirs;
    OnigRegion *region;
} pair;

static bool pair_new(pair *p, const char *pattern, weft_error *err)
{
    const OnigUChar *s = (const OnigUChar *)pattern;
    OnigErrorInfo why;
    memset(p, 0, sizeof *p);
    p->region = onig_region_new();
    if (onig_new(&p->theirs, s, s + strlen(pattern), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                 ONIG_SYNTAX_RUBY, &why) != ONIG_NORMAL)
        p->theirs = NULL;
    p->ours = regex_new(pattern, strlen(pattern), &plain.mem, err);
    return p->ours && p->theirs;
}

static void pair_free(pair *p)
{
    regex_free(p->ours);
    if (p->theirs)
        onig_free(p->theirs);
    onig_region_free(p->region, 1);
}

/* The next match as the onig crate walks. */
static bool onig_next(const pair *p, regex_walk *w, const char *text, size_t n, size_t *start,
                      size_t *end)
{
    const OnigUChar *s = (const OnigUChar *)text;
    while (w->at <= n) {
        const int rc = onig_search(p->theirs, s, s + n, s + w->at, s + n, p->region,
                                   ONIG_OPTION_NONE);
        if (rc == ONIG_MISMATCH)
            return false;
        assert_true(rc >= 0);
        *start = (size_t)p->region->beg[0];
        *end = (size_t)p->region->end[0];
        if (*start < *end || !w->matched || w->last_end != *end) {
            w->at = w->last_end = *end;
            w->matched = true;
            return true;
        }
        uint32_t c;
        const size_t length = utf8_decode(text + w->at, n - w->at, &c);
        w->at += length > 0 ? length : 1;
    }
    return false;
}

static bool our_next(const pair *p, regex_walk *w, const char *text, size_t n, size_t *start,
                     size_t *end)
{
    weft_error err = { 0 };
    regex_begin(scratch, n);
    const int rc = regex_next(p->ours, scratch, w, text, n, start, end, &err);
    if (rc < 0)
        fail_msg("%s", err.message);
    return rc == 1;
}

/* ---- classes --------------------------------------------------------------------------------- */

typedef bool next_fn(const pair *p, regex_walk *w, const char *text, size_t n, size_t *start,
                     size_t *end);

static void members(const pair *p, next_fn *next, uint8_t *set)
{
    regex_walk w = { 0 };
    size_t start, end;
    memset(set, 0, N_POINT);
    while (next(p, &w, all.text, all.n, &start, &end))
        for (uint32_t c = all.at[start]; c < all.at[end]; c++)
            set[c] = 1;
}

static void make_points(void)
{
    all.text = malloc(4 * N_POINT);
    all.at = malloc((4 * N_POINT + 1) * sizeof *all.at);
    all.unassigned = malloc(N_POINT);
    all.a = malloc(N_POINT);
    all.b = malloc(N_POINT);
    for (uint32_t c = 0; c < N_POINT; c++) {
        all.at[all.n] = c;
        all.n += utf8_encode(c, all.text + all.n);
    }
    all.at[all.n] = N_POINT;
    pair p;
    weft_error err = { 0 };
    assert_true(pair_new(&p, "\\p{Cn}+", &err));
    members(&p, onig_next, all.unassigned);
    pair_free(&p);
}

/* Where the system's Oniguruma 6.9.8 (Unicode 14) knows a code point and says otherwise than the
 * one inside Hugging Face's tokenizers (Unicode 16), which weft follows. */
static const struct {
    const char *name; /* part of the pattern */
    uint32_t first, last;
    const char *why;
} known[] = {
    { "", 0x1171E, 0x1171E, "a nonspacing mark until Unicode 14, spacing in 16" },
    { "al", 0x363, 0x36F, "alphabetic since Unicode 16" },
    { "al", 0xC04, 0xC04, "alphabetic since Unicode 16" },
    { "al", 0xF82, 0xF83, "alphabetic since Unicode 16" },
    { "al", 0x1DD3, 0x1DE6, "alphabetic since Unicode 16" },
    { "al", 0x11080, 0x11081, "alphabetic since Unicode 16" },
    { "lower", 0x10FC, 0x10FC, "lower case since Unicode 15" },
    { "lower", 0xA7F2, 0xA7F4, "lower case since Unicode 15" },
    { "lower", 0xAB69, 0xAB69, "lower case since Unicode 15.1" },
    { "p{word}", 0xB2, 0xBE, "6.9.10 asks its table of ISO 8859-1, as for \\w" },
    { "[:punct:]", 0, 0x10FFFF, "symbols too since 6.9.9" },
};

static bool is_known(const char *pattern, uint32_t c)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (c >= known[i].first && c <= known[i].last && strstr(pattern, known[i].name))
            return true;
    return false;
}

/* How many code points differ that may not. */
static int compare_class(const char *spelled)
{
    char pattern[128];
    snprintf(pattern, sizeof pattern, "(?:%s)+", spelled);
    pair p;
    weft_error err = { 0 };
    int differ = 0;
    if (!pair_new(&p, pattern, &err)) {
        if (!p.ours)
            fail_msg("%s: %s", spelled, err.message);
        print_message("%s: not in this Oniguruma\n", spelled);
        pair_free(&p);
        return 0;
    }
    members(&p, our_next, all.a);
    members(&p, onig_next, all.b);
    for (uint32_t c = 0; c < N_POINT; c++)
        if (all.a[c] != all.b[c] && !all.unassigned[c] && !is_known(spelled, c) && differ++ < 8)
            print_message("%s: U+%04X is %s\n", spelled, c, all.a[c] ? "only ours" : "only theirs");
    pair_free(&p);
    return differ;
}

static void shorthands(void **state)
{
    (void)state;
    static const char *const spelled[] = {
        "\\s",
        "\\S",
        "\\w",
        "\\W",
        "\\d",
        "\\D",
        "\\h",
        "\\H",
        "[\\s]",
        "[\\w]",
        "[\\d]",
        "[\\h]",
        "[^\\s]",
        "[^\\w]",
        "[\\S]",
        "[\\W]",
        "[\\D]",
        "[^\\S]",
        "[^\\W]",
        "[[:alnum:]]",
        "[[:alpha:]]",
        "[[:ascii:]]",
        "[[:blank:]]",
        "[[:cntrl:]]",
        "[[:digit:]]",
        "[[:graph:]]",
        "[[:lower:]]",
        "[[:print:]]",
        "[[:punct:]]",
        "[[:space:]]",
        "[[:upper:]]",
        "[[:word:]]",
        "[[:xdigit:]]",
        "[[:^alpha:]]",
        "[[:^space:]]",
        "\\p{^L}",
        "\\P{L}",
        "[^\\p{L}]",
        "[\\P{L}]",
        ".",
        "(?m:.)",
        "[^\\s\\p{L}\\p{N}]",
        "[\\p{L}&&[^\\p{Han}]]",
        "[^\\r\\n\\p{L}\\p{N}]",
        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]",
        "[\\W\\d]",
        "[^\\S\\n]",
        "\\p{word}",
        "\\R",
    };
    int differ = 0;
    for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i += quick() ? 6 : 1)
        differ += compare_class(spelled[i]);
    assert_int_equal(differ, 0);
}

/* Another name of one that was compared before? */
static bool is_alias(int i)
{
    const regex_property *p = &regex_properties[i];
    for (const regex_property *q = regex_properties; q < p; q++)
        if (q->categories == p->categories && q->script == p->script && q->rest == p->rest &&
            q->n_rest == p->n_rest)
            return true;
    return false;
}

static void properties(void **state)
{
    (void)state;
    int differ = 0;
    char spelled[96];
    for (int i = 0; i < n_regex_properties; i += quick() ? 61 : 1) {
        snprintf(spelled, sizeof spelled, "\\p{%s}", regex_properties[i].name);
        if (!is_alias(i))
            differ += compare_class(spelled);
    }
    assert_int_equal(differ, 0);
}

static void letters_of_either_case(void **state)
{
    (void)state;
    int differ = 0;
    char spelled[32];
    for (int c = 0x20; c < 0x7F; c += quick() ? 11 : 1) {
        snprintf(spelled, sizeof spelled, "(?i:\\x%02X)", c);
        differ += compare_class(spelled);
        snprintf(spelled, sizeof spelled, "(?i:[\\x%02X_])", c);
        differ += compare_class(spelled);
    }
    assert_int_equal(differ, 0);
}

/* ---- random text ----------------------------------------------------------------------------- */

typedef struct maker {
    uint64_t key, counter;
} maker;

static uint32_t draw(maker *m, uint32_t n)
{
    return rng_draw(m->key, 5, m->counter++).word[0] % n;
}

/* A little of one kind: letters, a contraction, white space, marks, an emoji family... */
static size_t put_some(maker *m, char *to)
{
    static const char *const set[] = {
        "abcdefgXYZ",
        "\303\251\303\237\305\277\304\260\307\205\312\260",
        "\316\261\316\243\317\202",
        "\320\226\320\266",
        "\346\274\242\344\270\200\351\276\245",
        "\343\201\202\343\203\274\343\202\242",
        "\352\260\200\341\204\200\341\205\241",
        "\330\247\331\216\333\224",
        "\340\244\225\340\245\215\340\244\277",
        "0123456789",
        "\331\243\302\262\342\205\247\302\275",
        " \t",
        "\n\r",
        "   \n ",
        "\302\240\302\205\341\232\200\342\200\203\342\200\250\343\200\200",
        "\342\200\213\341\240\216\357\273\277\342\200\215",
        ".,!?'\"-_/\\",
        "$+<=>^`|~",
        "\343\200\202\357\274\214\342\200\231\342\200\224\340\245\244",
        "\314\201\314\210\340\244\276\342\203\235",
        "\360\237\230\200\360\237\221\251\342\200\215\360\237\222\273\357\270\217",
        "'sS'tT'reRE'veVE'mM'llLL'dD",
        "\360\220\220\200\360\235\224\270\360\236\244\200",
        "IMGIMGABZ<sentinel:1>"
    };
    const char *from = set[draw(m, sizeof set / sizeof *set)];
    const size_t n = strlen(from), count = 1 + draw(m, 4);
    size_t out = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = draw(m, (uint32_t)n);
        while (((uint8_t)from[at] & 0xC0) == 0x80)
            at--;
        uint32_t c;
        const size_t length = utf8_decode(from + at, n - at, &c);
        memcpy(to + out, from + at, length);
        out += length;
    }
    return out;
}

static size_t put_any(maker *m, char *to)
{
    for (;;) {
        const uint32_t c = draw(m, 8) ? draw(m, 0x3000) : draw(m, N_POINT);
        if (!all.unassigned[c] && c != 0x1171E)
            return utf8_encode(c, to);
    }
}

static size_t make_text(maker *m, char *to, size_t room)
{
    const size_t wanted = draw(m, 10) ? draw(m, 80) : draw(m, (uint32_t)room - 32);
    size_t n = 0;
    while (n < wanted)
        n += draw(m, 8) ? put_some(m, to + n) : put_any(m, to + n);
    return n;
}

static void compare_pattern(const char *pattern, uint64_t key)
{
    pair p;
    weft_error err = { 0 };
    if (!pair_new(&p, pattern, &err))
        fail_msg("%s: %s", pattern, p.ours ? "not in this Oniguruma" : err.message);
    static char text[1024];
    const int rounds = quick() ? 40 : 2000;
    for (int i = 0; i < rounds; i++) {
        maker m = { key, (uint64_t)i << 32 };
        const size_t n = make_text(&m, text, sizeof text);
        regex_walk w = { 0 }, v = { 0 };
        for (bool more = true; more;) {
            size_t a[2] = { 0 }, b[2] = { 0 };
            more = our_next(&p, &w, text, n, &a[0], &a[1]);
            const bool theirs = onig_next(&p, &v, text, n, &b[0], &b[1]);
            if (more != theirs || a[0] != b[0] || a[1] != b[1])
                fail_msg("%s, text %d: found %zu-%zu, expected %zu-%zu in \"%.*s\"", pattern, i,
                         a[0], a[1], b[0], b[1], (int)n, text);
        }
    }
    pair_free(&p);
}

static void patterns_of_the_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FIELD_PATTERNS; i++)
        compare_pattern(field_patterns[i], i);
}

/* Every {"Regex": ...} below a value. */
static void compare_below(json_t *value, int *n)
{
    const char *key;
    json_t *item;
    size_t i;
    if (json_is_object(value)) {
        json_object_foreach(value, key, item)
        {
            if (strcmp(key, "Regex") == 0 && json_is_string(item))
                compare_pattern(json_string_value(item), 1000 + (uint64_t)(*n)++);
            else if (strcmp(key, "model") != 0)
                compare_below(item, n);
        }
    } else if (json_is_array(value)) {
        json_array_foreach(value, i, item) compare_below(item, n);
    }
}

static void patterns_of_the_assets(void **state)
{
    (void)state;
    static const char *const files[] = { "llama3", "qwen2.5", "bert-uncased", "t5" };
    int n = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[64];
        snprintf(name, sizeof name, "tokenizers/%s/tokenizer.json", files[i]);
        size_t size;
        char *data = read_whole(asset(name), &size);
        json_t *root = json_loadb(data, size, 0, NULL);
        assert_non_null(root);
        compare_below(root, &n);
        json_decref(root);
        free(data);
    }
    assert_int_equal(n, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("onig: shorthands and brackets hold the same code points", shorthands),
        TEST("onig: properties hold the same code points", properties),
        TEST("onig: letters of either case match the same code points", letters_of_either_case),
        TEST("onig: patterns of the field find the same in random text", patterns_of_the_field),
        TEST("onig: patterns of the assets find the same in random text", patterns_of_the_assets),
    };
    OnigEncoding encodings[] = { ONIG_ENCODING_UTF8 };
    onig_initialize(encodings, 1);
    host_plain(&plain);
    weft_error err = { 0 };
    scratch = regex_scratch_new(&plain.mem, &err);
    if (!scratch)
        return 2;
    make_points();
    print_message("Oniguruma %s\n", onig_version());
    return RUN(tests);
}
