/* Limits of a tokenizer file: files that would make texts grow without bound, search them for hours
 * or exhaust memory are refused with a message, or handled in time and memory proportional to the
 * file and the text. */
#include "base/clock.h"
#include "formats/json.h"
#include "support.h"
#include "text/sources/source.h"

#include <unistd.h>

#define SOON     10.0                /* CPU seconds; files refused here once took minutes */
#define MODERATE ((size_t)256 << 20) /* bytes of memory */
#define MODEL_A  "{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"?\":1},\"unk_token\":\"?\"}"

/* A text that grows. */
typedef struct page {
    char *s;
    size_t n, room;
} page;

static void put(page *p, const char *s)
{
    const size_t n = strlen(s);
    if (p->room - p->n <= n) {
        p->room = 2 * (p->room + n) + 256;
        p->s = realloc(p->s, p->room);
        assert_non_null(p->s);
    }
    memcpy(p->s + p->n, s, n + 1);
    p->n += n;
}

static void put_many(page *p, const char *s, size_t times)
{
    for (size_t i = 0; i < times; i++)
        put(p, s);
}

/* The result of loading a file and encoding a text with it. */
typedef struct outcome {
    weft_error err;
    size_t n; /* ids */
    size_t peak;
    double seconds;
} outcome;

static outcome encode_with(const char *path, const char *text, size_t n, bool spans)
{
    outcome o = { 0 };
    host h;
    tokenizer t;
    encoding k = { 0 };
    host_plain(&h);
    const double start = clock_thread_seconds();
    weft_status status = tokenizer_load(&t, path, NULL, WEFT_LOAD_COPY, &h, &o.err);
    encoder *e = status == WEFT_OK ? encoder_new(&t, &h.mem, &o.err) : NULL;
    if (e)
        status = encoder_encode(e, text, n, NULL, 0, &(encode_options){ .spans = spans }, &k,
                                &o.err);
    o.seconds = clock_thread_seconds() - start;
    o.n = k.n;
    o.peak = atomic_load(&h.mem.peak);
    encoder_free(e);
    if (t.host)
        tokenizer_free(&t);
    assert_int_equal(atomic_load(&h.mem.used), 0);
    assert_int_equal(status, o.err.code);
    return o;
}

static const char *file_of(const char *tokens, const char *normal, const char *pre,
                           const char *decode, const char *model)
{
    const char *const parts[] = { "{\"version\":\"1.0\",\"added_tokens\":[",
                                  tokens,
                                  "],\"normalizer\":",
                                  normal,
                                  ",\"pre_tokenizer\":",
                                  pre,
                                  ",\"decoder\":",
                                  decode,
                                  ",\"model\":",
                                  model,
                                  "}" };
    page p = { 0 };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        put(&p, parts[i]);
    const char *path = temp_file("tokenizer.json", p.s, p.n);
    free(p.s);
    return path;
}

static void check_moderate(const char *what, const outcome *o)
{
    if (o->seconds > SOON || o->peak > MODERATE)
        fail_msg("%s: %.1f s and %zu bytes", what, o->seconds, o->peak);
}

static void refused(const char *what, const outcome *o, const char *sentence)
{
    check_moderate(what, o);
    if (o->err.code == WEFT_OK || !strstr(o->err.message, sentence))
        fail_msg("%s: %s, expected \"%s\"", what, o->err.code ? o->err.message : "taken", sentence);
}

/* n copies of a step as a Sequence. */
static char *sequence(const char *list, const char *const *steps, int kinds, int n)
{
    page p = { 0 };
    put(&p, "{\"type\":\"Sequence\",\"");
    put(&p, list);
    put(&p, "\":[");
    for (int i = 0; i < n; i++) {
        put(&p, i ? "," : "");
        put(&p, steps[i % kinds]);
    }
    put(&p, "]}");
    return p.s;
}

/* ---- growing --------------------------------------------------------------------------------- */

#define TOO_MUCH "a step of the tokenizer grows the text far beyond its length; refused"

static void texts_do_not_explode(void **state)
{
    (void)state;
    static const char *const replace[] = {
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaaaaaaaa\"}"
    };
    static const char *const pattern[] = {
        "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"aaaaaaaaaaaaaaaa\"}"
    };
    static const char *const bytes[] = {
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
    };
    static const char *const bars[] = {
        "{\"type\":\"Metaspace\",\"replacement\":\"a\",\"prepend_scheme\":\"always\"}",
        "{\"type\":\"Metaspace\",\"replacement\":\"b\",\"prepend_scheme\":\"always\"}"
    };
    static const struct {
        const char *part, *list;
        const char *const *steps;
        int kinds, n;
        const char *text;
    } bombs[] = {
        { "normalizer", "normalizers", replace, 1, 7, "a" },
        { "normalizer", "normalizers", pattern, 1, 7, "a" },
        { "normalizer", "normalizers", bytes, 1, 31, "\xC3\xA9" },
        { "pre", "pretokenizers", bytes, 1, 31, "\xC3\xA9" },
        { "pre", "pretokenizers", bars, 2, 32, "a" },
        { "decoder", "decoders", replace, 1, 7, "a" },
        { "decoder", "decoders", pattern, 1, 7, "a" },
    };
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
        char *s = sequence(bombs[i].list, bombs[i].steps, bombs[i].kinds, bombs[i].n);
        const char kind = bombs[i].part[0];
        if (kind == 'n' && bombs[i].steps == bytes) { /* that one has no fields */
            free(s);
            static const char *const plain[] = { "{\"type\":\"ByteLevel\"}" };
            s = sequence(bombs[i].list, plain, 1, bombs[i].n);
        }
        const char *path = file_of("", kind == 'n' ? s : "null", kind == 'p' ? s : "null",
                                   kind == 'd' ? s : "null", MODEL_A);
        for (int spans = 0; spans < 2; spans++) {
            const outcome o = encode_with(path, bombs[i].text, strlen(bombs[i].text), spans);
            refused(s, &o, TOO_MUCH);
        }
        free(s);
    }
}

/* Little in every piece, much in total: output is counted for the whole text. */
static void pieces_add_up(void **state)
{
    (void)state;
    page prepend = { 0 }, text = { 0 };
    put(&prepend, "{\"type\":\"Prepend\",\"prepend\":\"");
    put_many(&prepend, "x", 15000);
    put(&prepend, "\"}");
    put_many(&text, "ab", 100000);
    const char *path = file_of(
        "{\"id\":2,\"content\":\"b\",\"special\":false,\"normalized\":false}", prepend.s, "null",
        "null", MODEL_A);
    outcome o = encode_with(path, text.s, text.n, false);
    refused("a long beginning for each piece", &o, TOO_MUCH);
    o = encode_with(path, text.s, 2, false); /* the constant allows one such piece */
    assert_int_equal(o.err.code, WEFT_OK);
    assert_int_equal(o.n, 2);
    free(prepend.s);
    free(text.s);
}

/* Unicode normalisation stays far below the limit. */
static void unicode_may_grow(void **state)
{
    (void)state;
    page text = { 0 };
    put_many(&text, "\xEF\xB7\xBA", quick() ? 20000 : 200000); /* U+FDFA: 33 bytes in NFKC */
    const char *path = file_of("",
                               "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},"
                               "{\"type\":\"ByteLevel\"}]}",
                               "null", "null", MODEL_A);
    const outcome o = encode_with(path, text.s, text.n, false);
    assert_int_equal(o.err.code, WEFT_OK);
    free(text.s);
}

/* ---- searching ------------------------------------------------------------------------------- */

static void patterns_share_a_budget(void **state)
{
    (void)state;
    static const char *const patterns[] = { "(?:a*b|a)", "(?:a*c|a)*[bd]", "a*a*a*[bd]|a",
                                            "(?:a|aa)+[bd]", "(?:a+)+[bd]" };
    page text = { 0 };
    put_many(&text, "a", 50000);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        for (int normal = 0; normal < 2; normal++) {
            char step[256];
            snprintf(step, sizeof step, "{\"type\":\"%s\",\"pattern\":{\"Regex\":\"%s\"},%s}",
                     normal ? "Replace" : "Split", patterns[i],
                     normal ? "\"content\":\"x\"" : "\"behavior\":\"Isolated\",\"invert\":false");
            const char *path = file_of("", normal ? step : "null", normal ? "null" : step, "null",
                                       MODEL_A);
            const outcome o = encode_with(path, text.s, text.n, false);
            refused(patterns[i], &o, "a pattern is too slow: more than");
            const outcome little = encode_with(path, text.s, 16, false);
            assert_int_equal(little.err.code, WEFT_OK);
        }
    free(text.s);
}

/* A pattern that consumes all it looks at is not refused, however long the match. */
static void long_words_are_taken(void **state)
{
    (void)state;
    page text = { 0 };
    const size_t n = quick() ? 20000 : 200000;
    put_many(&text, "ab", n);
    const char *path = file_of("", "null",
                               "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?:ab|c)+|\\\\s+\"},"
                               "\"behavior\":\"Isolated\",\"invert\":false}",
                               "null", MODEL_A);
    const outcome o = encode_with(path, text.s, text.n, false);
    assert_int_equal(o.err.code, WEFT_OK);
    assert_int_equal(o.n, 1);
    check_moderate("one long word", &o);
    free(text.s);
}

/* All matches in text as numbers. */
static char *spans_of(const regex *re, regex_scratch *s, const char *text, size_t n)
{
    page p = { 0 };
    regex_walk walk = { 0 };
    weft_error err = { 0 };
    size_t begin, end;
    int rc;
    put(&p, "");
    regex_begin(s, 100 * n); /* time does not matter here */
    while ((rc = regex_next(re, s, &walk, text, n, &begin, &end, &err)) == 1) {
        char span[64];
        snprintf(span, sizeof span, " %zu-%zu", begin, end);
        put(&p, span);
    }
    if (rc < 0)
        fail_msg("%s", err.message);
    return p.s;
}

/* The fast search works on windows of the text, which must not affect the result. A pattern with \G
 * is searched for in the whole text at once. */
static void windows_are_not_seen(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "a+b?", "a{1020,1030}", "\\bx|y\\b", "(?<=a)b", "a(?!b)",   "(?=b)", "^a|a$", "[^a]+",
        "x*",   "a+(?=c)|b",    "ab|a+",     "\\s+$",   "(?:a|b)+", "$",     "a*?c",  "(?!a)"
    };
    uint64_t x = 88172645463325252u;
    size_t found = 0;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char whole[64];
        const int n = snprintf(whole, sizeof whole, "(?:%s)|\\G\\x{1}", patterns[i]);
        host h;
        host_plain(&h);
        weft_error err = { 0 };
        regex *re[2] = { regex_new(patterns[i], strlen(patterns[i]), &h.mem, &err),
                         regex_new(whole, (size_t)n, &h.mem, &err) };
        regex_scratch *s = regex_scratch_new(&h.mem, &err);
        if (!re[0] || !re[1] || !s)
            fail_msg("%s", err.message);
        for (int round = 0; round < (quick() ? 20 : 200); round++) {
            char text[2000];
            const size_t length = 1100 + (size_t)round * 4;
            const unsigned rare = 1 + (unsigned)round * 7 % 1500;
            for (size_t k = 0; k < length; k++) {
                x ^= x << 13, x ^= x >> 7, x ^= x << 17;
                text[k] = (x >> 20) % rare ? "a "[round % 2] : "bcxy\n"[(x >> 40) % 5];
            }
            if (round % 4 == 3) { /* the text after the first non-a, at the end of a window */
                memset(text, 'a', length);
                memcpy(text + 1020 + round / 4, "bxx", 3);
            }
            char *got = spans_of(re[0], s, text, length), *want = spans_of(re[1], s, text, length);
            if (strcmp(got, want) != 0)
                fail_msg("%s: found%.200s, expected%.200s", patterns[i], got, want);
            found += strlen(got);
            free(got);
            free(want);
        }
        regex_scratch_free(s);
        regex_free(re[0]);
        regex_free(re[1]);
    }
    assert_true(found > 10000);
}

/* ---- lengths --------------------------------------------------------------------------------- */

static void lengths_are_bounded(void **state)
{
    (void)state;
    page many = { 0 }, s = { 0 };
    put_many(&many, "a", 8191);
    put(&many, "b");

    put(&s, "{\"id\":2,\"content\":\"");
    put(&s, many.s);
    put(&s, "\",\"special\":false}");
    outcome o = encode_with(file_of(s.s, "null", "null", "null", MODEL_A), "a", 1, false);
    refused("an added token", &o, "added_tokens[0].content is not text of 1 to 4096 bytes");

    s.n = 0;
    put(&s, "{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"");
    put(&s, many.s);
    put(&s, "\":1}}");
    o = encode_with(file_of("", "null", "null", "null", s.s), "a", 1, false);
    refused("a token", &o, "token 1 has 8192 bytes; expected at most 4096");

    s.n = 0;
    put(&s, "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",-9],[\"");
    put(&s, many.s + 8192 - 257);
    put(&s, "\",-1]]}");
    o = encode_with(file_of("", "null", "null", "null", s.s), "a", 1, false);
    refused("a piece", &o, "piece 1 has 257 bytes; expected at most");

    s.n = 0;
    put(&s, "{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"max_input_chars_per_word\":1000000000,"
            "\"vocab\":{\"?\":0,\"");
    put(&s, many.s + 8192 - 257);
    put(&s, "\":1}}");
    o = encode_with(file_of("", "null", "null", "null", s.s), "a", 1, false);
    refused("a piece", &o, "piece 1 has 257 bytes; expected at most");

    s.n = 0;
    put(&s, "YQ== 0\n");
    put_many(&s, "YWFh", 200000);
    put(&s, " 1\n");
    o = encode_with(temp_file("cl100k_base.tiktoken", s.s, s.n), "a", 1, false);
    refused("a rank", &o, "token 1 has 600000 bytes; expected at most 4096");
    free(many.s);
    free(s.s);
}

static void holes_are_bounded(void **state)
{
    (void)state;
    outcome o = encode_with(file_of("", "null", "null", "null",
                                    "{\"type\":\"WordLevel\",\"vocab\":{\"a\":16777214,\"?\":1},"
                                    "\"unk_token\":\"?\"}"),
                            "a", 1, false);
    refused("ids", &o, "ids up to 16777214 for 2 tokens; the limit is 8 ids per token plus 65536");
    static const char ranks[] = "YQ== 0\nYg== 16000000\n";
    o = encode_with(temp_file("cl100k_base.tiktoken", ranks, sizeof ranks - 1), "a", 1, false);
    refused("ranks", &o, "ids up to 16000000 for 2 tokens; the limit is");
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* An unkeyed hash, as weft once had, puts all of these into a sixty-fourth of a table. */
static void collisions_cannot_be_aimed(void **state)
{
    (void)state;
    const uint32_t n = quick() ? 40000 : 120000;
    page s = { 0 };
    put(&s, "{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0");
    uint32_t found = 0;
    for (uint64_t i = 0; found < n; i++) {
        char word[8] = "aaaaaaa";
        uint64_t rest = i;
        for (int k = 0; k < 7; k++, rest /= 26)
            word[k] = (char)('a' + rest % 26);
        if ((hash_bytes(word, 7) & (hash_size(n) - 1)) >= hash_size(n) / 64)
            continue;
        char entry[40];
        snprintf(entry, sizeof entry, ",\"%s\":%u", word, ++found);
        put(&s, entry);
    }
    put(&s, "}}");
    const char *path = file_of("", "null", "null", "null", s.s);
    const outcome o = encode_with(path, "aaaaaaa", 7, false);
    assert_int_equal(o.err.code, WEFT_OK);
    check_moderate("colliding tokens", &o);

    /* and lookups of one of them are short, on average */
    host h;
    tokenizer t;
    weft_error err = { 0 };
    host_plain(&h);
    assert_int_equal(tokenizer_load(&t, path, NULL, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    uint64_t steps = 0;
    for (uint64_t i = 0; i <= t.vocab.mask; i++)
        if (t.vocab.slot[i] != NO_ID) {
            const uint32_t id = t.vocab.slot[i];
            const uint64_t home = hash_text(&t.vocab.secret, vocab_text(&t.vocab, id),
                                            t.vocab.length[id]);
            steps += (i - home) & t.vocab.mask;
        }
    if (steps > 2 * (uint64_t)n)
        fail_msg("%.1f slots are tried for a token", (double)steps / n);
    tokenizer_free(&t);
    free(s.s);
}

static void many_added_tokens(void **state)
{
    (void)state;
    const int n = quick() ? 10000 : 50000;
    page s = { 0 };
    for (int i = 0; i < n; i++) {
        char entry[96];
        snprintf(entry, sizeof entry,
                 "%s{\"id\":%d,\"content\":\"<T%d>\",\"special\":false,\"normalized\":true}",
                 i ? "," : "", i + 2, i);
        put(&s, entry);
    }
    const char *path = file_of(s.s, "{\"type\":\"Lowercase\"}", "null", "null", MODEL_A);
    const outcome o = encode_with(path, "<T17><t18>a<T", 13, false);
    assert_int_equal(o.err.code, WEFT_OK);
    assert_int_equal(o.n, 3);
    if (o.seconds > 4)
        fail_msg("%d added tokens take %.1f s to load", n, o.seconds);
    free(s.s);
}

/* ---- the longest of every place -------------------------------------------------------------- */

static void longest_first(void **state)
{
    (void)state;
    uint64_t x = 0x2545F4914F6CDD1Du;
    host h;
    host_plain(&h);
    size_t strings = 0;
    for (int round = 0; round < (quick() ? 2000 : 20000); round++) {
        weft_error err = { 0 };
        arena store;
        arena_init(&store, ARENA_GROWING, &h.mem, 0, "", &err);
        char word[12][12], text[64];
        trie_entry entry[12];
#define NEXT(n) (x ^= x << 13, x ^= x >> 7, x ^= x << 17, (x >> 24) % (n))
        const size_t n = 1 + NEXT(12), letters = 1 + NEXT(3), length = NEXT(sizeof text);
        for (size_t i = 0; i < n; i++) {
            entry[i] = (trie_entry){ word[i], (uint32_t)NEXT(12), (uint32_t)i };
            for (size_t k = 0; k < entry[i].length; k++)
                word[i][k] = (char)('a' + NEXT(letters));
        }
        for (size_t k = 0; k < length; k++)
            text[k] = (char)('a' + NEXT(letters + (round & 1)));
        munch m;
        assert_int_equal(munch_init(&m, &store, entry, n, &h.mem, &err), WEFT_OK);
        void *room = malloc(munch_room(&m));
        munch_walk w = munch_begin(&m, text, length, room);
        for (size_t at = 0; at < length;) {
            uint32_t value = 0, got;
            const size_t found = trie_longest(&m.trie, 0, text + at, length - at, &value);
            size_t where, bytes;
            if (found == 0) {
                at++;
                continue;
            }
            if (!munch_next(&w, &where, &bytes, &got) || where != at || bytes != found ||
                got != value)
                fail_msg("round %d: not string %u at %zu of \"%.*s\"", round, value, at,
                         (int)length, text);
            at += found;
            strings++;
        }
        size_t where, bytes;
        uint32_t got;
        assert_false(munch_next(&w, &where, &bytes, &got));
        free(room);
        arena_free(&store);
    }
    print_message("%zu strings\n", strings);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static outcome parse(const page *p)
{
    outcome o = { 0 };
    host h;
    host_plain(&h);
    json_section_begin(&h.mem);
    json_read((const uint8_t *)p->s, p->n, true, "x.json", &o.err);
    json_section_end();
    o.peak = atomic_load(&h.mem.peak);
    return o;
}

static void json_is_bounded(void **state)
{
    (void)state;
    static const struct {
        const char *unit;
        bool taken;
    } kinds[] = {
        { "{},", false },           { "[],", false },    { "[{}],", false }, { "[[]],", false },
        { "[\"a\",\"b\"],", true }, { "1,", true },      { "\"\",", true },  { "null,", true },
        { "\"a\\\"[[\",", true },   { "-1.5e3,", true },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        page p = { 0 };
        const size_t bytes = kinds[i].taken || quick() ? 1 << 20 : 4 << 20;
        put(&p, "{\"x\":[");
        put_many(&p, kinds[i].unit, bytes / strlen(kinds[i].unit));
        put(&p, "0]}");
        const outcome o = parse(&p);
        if (kinds[i].taken != (o.err.code == WEFT_OK))
            fail_msg("%s: %s", kinds[i].unit, o.err.code ? o.err.message : "taken");
        if (!kinds[i].taken) {
            assert_non_null(strstr(o.err.message, "bytes of JSON would take"));
            assert_int_equal(o.peak, 0); /* before any allocation */
        }
        /* actual use is close to the estimate */
        assert_true(o.peak <= 33 * p.n + 65536);
        free(p.s);
    }
}

/* ---- memory without a cap -------------------------------------------------------------------- */

static size_t seen; /* the cap while a file is loaded */

static void *look_and_alloc(void *ud, size_t align, size_t size)
{
    const host *h = ud;
    seen = h->mem.cap;
    return aligned_alloc(align, size);
}

static void release(void *ud, void *block)
{
    (void)ud;
    free(block);
}

static void loading_has_a_cap(void **state)
{
    (void)state;
    const char *path = file_of("", "null", "null", "null", MODEL_A);
    size_t size;
    free(read_whole(path, &size));
    for (int own = 0; own < 2; own++) {
        const size_t cap = own ? (size_t)64 << 20 : 0;
        host h = { .io = io_system };
        tokenizer t;
        weft_error err = { 0 };
        mem_init(&h.mem, cap, &(mem_hooks){ look_and_alloc, release, &h, 0 });
        assert_int_equal(tokenizer_load(&t, path, NULL, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
        assert_true(own ? seen == cap : seen >= MODERATE + 64 * size && seen < 2 * MODERATE);
        assert_int_equal(h.mem.cap, cap);
        tokenizer_free(&t);
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

/* llama2.c's file: the maximum length, then score, length and bytes of each. */
static void bytes_have_names(void **state)
{
    (void)state;
    uint8_t data[8192];
    size_t n = 4;
    memset(data, 0, 4);
    for (int i = 0; i < 260; i++) {
        char name[16];
        const float score = 0;
        snprintf(name, sizeof name,
                 i > 258 ? "a"
                 : i > 2 ? "<0x%02X>"
                         : "<t%d>",
                 i > 2 ? i - 3 : i);
        const int32_t length = (int32_t)strlen(name);
        memcpy(data + n, &score, 4);
        memcpy(data + n + 4, &length, 4);
        memcpy(data + n + 8, name, (size_t)length);
        n += 8 + (size_t)length;
    }
    host h;
    tokenizer t;
    weft_error err = { 0 };
    host_plain(&h);
    const char *path = temp_file("tokenizer.bin", data, n);
    assert_int_equal(tokenizer_load(&t, path, NULL, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    for (uint32_t id = 0; id < t.n_id; id++) {
        const uint32_t found = tokenizer_find(&t, vocab_text(&t.vocab, id), t.vocab.length[id]);
        if (found != id)
            fail_msg("\"%.*s\" is found as %d, not as %u", (int)t.vocab.length[id],
                     vocab_text(&t.vocab, id), (int)found, id);
    }
    assert_int_equal(tokenizer_find(&t, "<0x3c>", 6), NO_ID);
    assert_int_equal(tokenizer_find(&t, "<0x3C", 5), NO_ID);
    tokenizer_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("limits: no step makes a text explode", texts_do_not_explode),
        TEST("limits: the output of all pieces adds up", pieces_add_up),
        TEST("limits: Unicode may make a text grow", unicode_may_grow),
        TEST("limits: patterns share one budget for each text", patterns_share_a_budget),
        TEST("limits: long words are accepted", long_words_are_taken),
        TEST("limits: a search does not depend on its windows", windows_are_not_seen),
        TEST("limits: tokens and pieces have a maximum length", lengths_are_bounded),
        TEST("limits: ids have holes of bounded size", holes_are_bounded),
        TEST("limits: a file cannot force collisions", collisions_cannot_be_aimed),
        TEST("limits: many added tokens load in linear time", many_added_tokens),
        TEST("limits: added tokens are cut out longest first", longest_first),
        TEST("limits: JSON takes memory in proportion to its bytes", json_is_bounded),
        TEST("limits: loading is capped even if the host has no cap", loading_has_a_cap),
        TEST("limits: byte tokens are found by their spelling", bytes_have_names),
    };
    return RUN(tests);
}
