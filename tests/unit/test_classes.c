/* Every class of code points over all code points, against hashes of what Hugging Face's tokenizers answer
 * (tests/golden/unicode/classes.txt, made by tools/unicode.py --golden). */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/utf8.h"
#include "sha256.h"
#include "support.h"
#include "text/regex/regex.h"
#include "text/unicode/unicode.h"

#include <pcre2.h>

#define POINTS 0x110000u

typedef bool class_fn(uint32_t c);

static const struct {
    const char *name;
    class_fn *is;
} classes[] = {
    { "space", unicode_is_space },
    { "numeric", unicode_is_numeric },
    { "word", unicode_is_word },
    { "control", unicode_is_control },
    { "punctuation", unicode_is_punctuation },
    { "han", unicode_is_han },
    { "accent", unicode_is_accent },
    { "mark", unicode_is_mark },
};

static bool surrogate(uint32_t c)
{
    return c >= 0xD800 && c < 0xE000;
}

static void expect(const char *kind, const char *name, const uint8_t *data, size_t n, long got,
                   long want, const char *hash)
{
    char hex[65];
    sha256_hex(data, n, hex);
    if (got != want || strcmp(hex, hash) != 0)
        fail_msg("%s %s: %ld members, expected %ld; %s", kind, name, got, want,
                 got == want ? "others than those of tokenizers" : "hash not compared");
}

static void check_class(const char *name, long want, const char *hash)
{
    size_t i = 0;
    while (i < sizeof classes / sizeof *classes && strcmp(classes[i].name, name) != 0)
        i++;
    if (i == sizeof classes / sizeof *classes)
        fail_msg("there is no class %s", name);
    uint8_t *bits = calloc(POINTS / 8, 1);
    long n = 0;
    for (uint32_t c = 0; c < POINTS; c++)
        if (!surrogate(c) && classes[i].is(c)) {
            bits[c >> 3] |= (uint8_t)(1u << (c & 7));
            n++;
        }
    expect("class", name, bits, POINTS / 8, n, want, hash);
    free(bits);
}

static void check_scripts(long want, const char *hash)
{
    uint8_t *script = calloc(POINTS, 1);
    long n = 0;
    for (uint32_t c = 0; c < POINTS; c++)
        if (!surrogate(c))
            n += (script[c] = (uint8_t)unicode_script(c)) != 0;
    expect("script", "", script, POINTS, n, want, hash);
    free(script);
}

static void check_lower(long want, const char *hash)
{
    uint32_t *pair = malloc(POINTS * 2 * sizeof *pair);
    size_t n = 0;
    for (uint32_t c = 0; c < POINTS; c++) {
        uint32_t to[3];
        const int k = surrogate(c) ? 0 : unicode_lower(c, to);
        for (int i = 0; i < k && (k > 1 || to[0] != c); i++) {
            pair[n++] = c;
            pair[n++] = to[i];
        }
    }
    expect("lower", "", (uint8_t *)pair, n * sizeof *pair, (long)n / 2, want, hash);
    free(pair);
}

/* All code points as one text. */
static char *all_points(size_t *n)
{
    char *text = malloc(POINTS * 4);
    *n = 0;
    for (uint32_t c = 0; c < POINTS; c++)
        if (!surrogate(c))
            *n += utf8_encode(c, text + *n);
    return text;
}

static void check_pattern(const char *pattern, long want, const char *hash)
{
    host h;
    weft_error err = { 0 };
    host_plain(&h);
    regex *re = regex_new(pattern, strlen(pattern), &h.mem, &err);
    if (!re)
        fail_msg("%s: %s", pattern, err.message);
    regex_scratch *room = regex_scratch_new(&h.mem, &err);
    regex_walk walk = { 0 };
    uint8_t *bits = calloc(POINTS / 8, 1);
    size_t n, begin, end;
    long members = 0;
    char *text = all_points(&n);
    while (regex_next(re, room, &walk, text, n, &begin, &end, &err) > 0) {
        uint32_t c;
        assert_int_equal(utf8_decode(text + begin, n - begin, &c), end - begin);
        bits[c >> 3] |= (uint8_t)(1u << (c & 7));
        members++;
    }
    expect("pattern", pattern, bits, POINTS / 8, members, want, hash);
    free(bits);
    free(text);
    regex_scratch_free(room);
    regex_free(re);
}

static void each_line(bool patterns)
{
    FILE *f = fopen(fixture("golden/unicode/classes.txt"), "r");
    assert_non_null(f);
    char kind[16], name[128], hash[65];
    long want;
    int lines = 0;
    while (fscanf(f, "%15s %127s %ld %64s", kind, name, &want, hash) == 4) {
        if (strcmp(kind, "pattern") == 0 && patterns)
            check_pattern(name, want, hash);
        else if (strcmp(kind, "class") == 0 && !patterns)
            check_class(name, want, hash);
        else if (strcmp(kind, "script") == 0 && !patterns)
            check_scripts(want, hash);
        else if (strcmp(kind, "lower") == 0 && !patterns)
            check_lower(want, hash);
        lines++;
    }
    assert_true(feof(f));
    assert_true(lines > 60);
    fclose(f);
}

static void tables(void **state)
{
    (void)state;
    each_line(false);
}

/* PCRE2 knows the categories of its own Unicode version; code points newer than tokenizers' 16 are
 * extra. */
static void patterns_of_one(void **state)
{
    (void)state;
    char version[32] = "";
    pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version);
    if (atoi(version) > 16) {
        print_message("PCRE2 has Unicode %s, tokenizers 16\n", version);
        skip();
    }
    each_line(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("unicode: classes equal those of tokenizers, over all code points", tables),
        TEST("regex: properties equal Oniguruma's in tokenizers, over all code points",
             patterns_of_one),
    };
    return RUN(tests);
}
