/* Masks against brute force: every token of a vocabulary is asked alone, and those that are spelled
 * in the grammar's letters are compared with a second reading of the grammar. Random grammars and
 * prefixes, three published tokenizers. */
#include "support.h"

#include "base/rng.h"
#include "random_grammar.h"
#include "text/constrain/constraint.h"
#include "text/constrain/matcher.h"
#include "text/sources/source.h"

#define LETTERS " aehinorst\"{"

typedef struct vocabulary {
    host host;
    tokenizer tokenizer;
    token_trie trie;
    uint32_t *spelled; /* tokens of LETTERS only */
    uint32_t n_spelled;
    int32_t end;
} vocabulary;

static void open_vocabulary(vocabulary *v, const char *path)
{
    weft_error err = { 0 };
    host_plain(&v->host);
    if (tokenizer_load(&v->tokenizer, path, NULL, WEFT_LOAD_MAP, &v->host, &err) != WEFT_OK ||
        token_trie_init(&v->trie, &v->tokenizer, &v->host.mem, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    v->end = v->tokenizer.eos >= 0 ? v->tokenizer.eos : 0;
    v->spelled = calloc(v->trie.n_id, sizeof *v->spelled);
    v->n_spelled = 0;
    for (uint32_t id = 0; id < v->trie.n_id; id++) {
        const char *bytes;
        const size_t n = token_text(&v->trie, id, &bytes);
        size_t in = 0;
        while (in < n && bytes[in] && strchr(LETTERS, bytes[in]))
            in++;
        if (n > 0 && n <= 12 && in == n && (int32_t)id != v->end)
            v->spelled[v->n_spelled++] = id;
    }
    assert_true(v->n_spelled > 100);
}

static void close_vocabulary(vocabulary *v)
{
    free(v->spelled);
    token_trie_free(&v->trie);
    tokenizer_free(&v->tokenizer);
    assert_int_equal(v->host.mem.used, 0);
}

/* ---- brute force ----------------------------------------------------------------------------- */

typedef struct trial {
    random_grammar meant;
    char source[1 << 16];
    constraint *c;
    char text[GRAMMAR_WORD + 1]; /* accepted so far */
    int n;
    uint64_t *mask;
    int n_hard;   /* masks that were refused as too much work */
    int n_second; /* tokens a mask that are read a second time */
} trial;

static bool bit(const uint64_t *bits, uint32_t id)
{
    return bits[id / 64] >> id % 64 & 1;
}

/* Every token alone; then the spelled ones by the second reading. False if the mask is refused. */
static bool compare_mask(trial *t, const vocabulary *v)
{
    weft_error err = { 0 };
    if (constraint_mask(t->c, t->mask, v->trie.n_id, &err) != WEFT_OK) {
        assert_int_equal(err.code, WEFT_ELIMIT);
        t->n_hard++;
        return false;
    }
    for (uint32_t id = 0; id < v->trie.n_id; id++)
        if (constraint_allows(t->c, (int32_t)id, &err) != bit(t->mask, id))
            fail_msg("token %u after \"%.*s\" is %s by the mask of\n%s%s", id, t->n, t->text,
                     bit(t->mask, id) ? "allowed" : "refused", t->source, err.message);
    for (int i = 0; i < t->n_second; i++) {
        const uint32_t id = v->spelled[random_grammar_draw(&t->meant, v->n_spelled)];
        const char *bytes;
        const size_t n = token_text(&v->trie, id, &bytes);
        char text[GRAMMAR_WORD + 1];
        bool open;
        if (t->n + n > GRAMMAR_WORD)
            continue;
        memcpy(text, t->text, (size_t)t->n);
        memcpy(text + t->n, bytes, n);
        random_grammar_matches(&t->meant, text, t->n + (int)n, &open);
        if (open != bit(t->mask, id))
            fail_msg("\"%.*s\" after \"%.*s\" %s be in the mask of\n%s", (int)n, bytes, t->n,
                     t->text, open ? "should" : "should not", t->source);
    }
    bool open;
    const bool whole = random_grammar_matches(&t->meant, t->text, t->n, &open);
    assert_int_equal(bit(t->mask, (uint32_t)v->end), whole);
    assert_int_equal(constraint_may_end(t->c), whole);
    return true;
}

/* Accepts a random token of the mask; false if there is none that the second reading can follow. */
static bool go_on(trial *t, const vocabulary *v)
{
    weft_error err = { 0 };
    uint32_t chosen = 0, seen = 0;
    for (uint32_t i = 0; i < v->n_spelled; i++)
        if (bit(t->mask, v->spelled[i]) && random_grammar_draw(&t->meant, ++seen) == 0)
            chosen = v->spelled[i];
    const char *bytes;
    const size_t n = seen > 0 ? token_text(&v->trie, chosen, &bytes) : 0;
    if (n == 0 || t->n + n > GRAMMAR_WORD - 14)
        return false;
    memcpy(t->text + t->n, bytes, n);
    t->n += (int)n;
    assert_int_equal(constraint_accept(t->c, (int32_t)chosen, &err), WEFT_OK);
    return true;
}

/* One grammar, some prefixes: returns how many were compared. */
static int compare_grammar(trial *t, vocabulary *v, uint64_t key)
{
    weft_error err = { 0 };
    mem *m = &v->host.mem;
    random_grammar_make(&t->meant, key, LETTERS);
    random_grammar_write(&t->meant, t->source, sizeof t->source);
    grammar *g = gbnf_read(m, t->source, strlen(t->source), NULL, NULL, &err);
    if (!g)
        return 0;
    constraint_set *s = constraint_set_new(m, g, &v->trie, &v->end, 1, &err);
    assert_non_null(s);
    t->c = constraint_new(s, &err);
    assert_non_null(t->c);
    t->n = 0;
    int n = 0;
    while (n < 6 && compare_mask(t, v)) {
        n++;
        if (!go_on(t, v))
            break;
    }
    constraint_free(t->c);
    constraint_set_free(s);
    return n;
}

/* With WEFT_TEST_LONG: 100,000 pairs in all, about half an hour. */
static void compare_vocabulary(const char *path)
{
    static trial t;
    vocabulary v;
    open_vocabulary(&v, path);
    t.n_hard = 0;
    t.mask = calloc((size_t)v.trie.n_id / 64 + 1, sizeof *t.mask);
    const bool many = getenv("WEFT_TEST_LONG") != NULL;
    const int most = many ? 33400 : quick() ? 10 : 100;
    t.n_second = many ? 40 : 200;
    int n = 0;
    for (uint64_t key = 0; n < most; key++) {
        n += compare_grammar(&t, &v, key + ((uint64_t)v.trie.n_id << 32));
        if (many && key % 1000 == 0)
            print_message("%s: %d pairs\n", path, n);
    }
    assert_that(100 * t.n_hard <= n, "%d of %d masks were too much work", t.n_hard, n);
    free(t.mask);
    close_vocabulary(&v);
}

static void byte_bpe(void **state)
{
    (void)state;
    compare_vocabulary(asset("tokenizers/gpt2"));
}

static void sentencepiece(void **state)
{
    (void)state;
    compare_vocabulary(asset("tokenizers/llama2/tokenizer.model"));
}

static void bert_pieces(void **state)
{
    (void)state;
    compare_vocabulary(asset("tokenizers/bert-uncased/tokenizer.json"));
}

/* ---- strings --------------------------------------------------------------------------------- */

/* Inside strings, masks come from tokens of plain text by their length: against every token alone,
 * at every place of a text. */
static const char *const string_grammars[] = {
    "root ::= [\"] [^\"\\\\\\x00-\\x1F\\x7F]* [\"]",
    "root ::= [\"] [^\"\\\\\\x00-\\x1F\\x7F]{0,1} [\"]",
    "root ::= [\"] [^\"\\\\\\x00-\\x1F\\x7F]{2,7} [\"]",
    "root ::= [\"] [^\"\\\\\\x00-\\x1F\\x7F]{31} [\"]",
    "root ::= [\"] [^\"\\\\\\x00-\\x1F\\x7F]{3,36} [\"] \",\"",
    "root ::= [\"] ([^\"\\\\\\x00-\\x1F] | \"\\\\\" [nt\"])* [\"]", /* a delete is text */
    "root ::= [\"] [^\"\\\\\\x00-\\x1F\\x7Fe]* [\"]",               /* no e */
    "root ::= [\"] [ !#-[\\x5D-~]{0,9} [\"]",                       /* ASCII only */
    "root ::= [\"] [ !#-[\\x5D-~\\x80-\\uD7FF]{0,9} [\"]",          /* not all of Unicode */
    "root ::= [\"] [^\"\\\\\\x00-\\x1F\\x7F]{0,20} [\"]?",          /* it may end anywhere */
    "root ::= [\"] ([^\"\\\\\\x00-\\x1F\\x7F] [^\"\\\\\\x00-\\x1F\\x7F])* [\"]", /* an even number */
    "root ::= [^\"\\\\\\x00-\\x1F\\x7F]{1,3} (\"(\" root \")\")?", /* a plain token crosses its end */
};

static void compare_string(vocabulary *v, const char *source, const char *text)
{
    weft_error err = { 0 };
    uint64_t *mask = calloc((size_t)v->trie.n_id / 64 + 1, sizeof *mask);
    grammar *g = gbnf_read(&v->host.mem, source, strlen(source), NULL, NULL, &err);
    if (!g)
        fail_msg("%s in %s", err.message, source);
    constraint_set *s = constraint_set_new(&v->host.mem, g, &v->trie, &v->end, 1, &err);
    constraint *c = constraint_new(s, &err);
    assert_non_null(c);
    for (; *text; text++) {
        const char byte[] = { *text, 0 };
        assert_int_equal(constraint_mask(c, mask, v->trie.n_id, &err), WEFT_OK);
        int32_t letter = -1;
        for (uint32_t id = 0; id < v->trie.n_id; id++) {
            const char *bytes;
            const size_t n = token_text(&v->trie, id, &bytes);
            if (n == 1 && bytes[0] == byte[0])
                letter = (int32_t)id;
            if (constraint_allows(c, (int32_t)id, &err) != bit(mask, id))
                fail_msg("\"%.*s\" before \"%s\" is %s by the mask of %s", (int)n, bytes, text,
                         bit(mask, id) ? "allowed" : "refused", source);
        }
        if (letter < 0 || constraint_accept(c, letter, &err) != WEFT_OK)
            break;
    }
    constraint_free(c);
    constraint_set_free(s);
    free(mask);
}

static void compare_strings(const char *path)
{
    vocabulary v;
    open_vocabulary(&v, path);
    for (size_t i = 0; i < sizeof string_grammars / sizeof *string_grammars; i++)
        compare_string(&v, string_grammars[i], "\"the rain in spain stays mainly\"");
    close_vocabulary(&v);
    assert_true(v.n_spelled > 100);
}

static void strings_small(void **state)
{
    (void)state;
    compare_strings(fixture("../models/shakespeare.gguf"));
}

static void strings_large(void **state)
{
    (void)state;
    compare_strings(asset("tokenizers/gpt2"));
}

/* ---- a small vocabulary ---------------------------------------------------------------------- */

typedef struct desk {
    vocabulary v;
    constraint_set *set;
    constraint *c;
    weft_error err;
} desk;

/* Ids are places in the file: letters, a few longer tokens, and two special ones. */
static const char small_json[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\\\"\":2,\",\":3,\"[\":4,\"]\":5,"
    "\"ab\":6,\"\\\",\":7,\"\\\",\\\"\":8,\"b\\\"]\":9,\"<end>\":10,\"<tool>\":11,\"1\":12},"
    "\"merges\":[\"a b\"]},"
    "\"added_tokens\":[{\"id\":10,\"content\":\"<end>\",\"special\":true,\"single_word\":false,"
    "\"lstrip\":false,\"rstrip\":false,\"normalized\":false},{\"id\":11,\"content\":\"<tool>\","
    "\"special\":true,\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
    "\"normalized\":false}]}";

static void open_thinking_desk(desk *d, const char *grammar_text, const char *fence)
{
    const int32_t end = 10;
    *d = (desk){ .err = { 0 } };
    host_plain(&d->v.host);
    const char *path = temp_file("tokenizer.json", small_json, strlen(small_json));
    if (tokenizer_load(&d->v.tokenizer, path, NULL, WEFT_LOAD_COPY, &d->v.host, &d->err) !=
            WEFT_OK ||
        token_trie_init(&d->v.trie, &d->v.tokenizer, &d->v.host.mem, &d->err) != WEFT_OK)
        fail_msg("%s", d->err.message);
    grammar *g = gbnf_read(&d->v.host.mem, grammar_text, strlen(grammar_text), &d->v.tokenizer,
                           NULL, &d->err);
    if (!g || (fence && grammar_think(g, fence, fence, false, &d->v.tokenizer, &d->err) != WEFT_OK))
        fail_msg("%s", d->err.message);
    d->set = constraint_set_new(&d->v.host.mem, g, &d->v.trie, &end, 1, &d->err);
    d->c = constraint_new(d->set, &d->err);
    assert_non_null(d->c);
}

static void open_desk(desk *d, const char *grammar_text)
{
    open_thinking_desk(d, grammar_text, NULL);
}

static void close_desk(desk *d)
{
    constraint_free(d->c);
    constraint_set_free(d->set);
    token_trie_free(&d->v.trie);
    tokenizer_free(&d->v.tokenizer);
    assert_int_equal(d->v.host.mem.used, 0);
}

/* The ids of a mask in one line. */
static const char *mask_line(desk *d)
{
    static char line[256];
    uint64_t bits[1];
    size_t n = 0;
    assert_int_equal(constraint_mask(d->c, bits, 13, &d->err), WEFT_OK);
    line[0] = 0;
    for (uint32_t id = 0; id < 13; id++)
        if (bit(bits, id))
            n += (size_t)snprintf(line + n, sizeof line - n, "%s%u", n ? " " : "", id);
    return line;
}

static void accept(desk *d, int32_t id)
{
    if (constraint_accept(d->c, id, &d->err) != WEFT_OK)
        fail_msg("%s", d->err.message);
}

static const char quoted_list[] = "root ::= \"[\" item (\",\" item)* \"]\"\n"
                                  "item ::= \"\\\"\" [ab]+ \"\\\"\"\n";

static void borders(void **state)
{
    (void)state;
    desk d;
    open_desk(&d, quoted_list);
    assert_string_equal(mask_line(&d), "4");
    accept(&d, 4);
    assert_string_equal(mask_line(&d), "2");
    accept(&d, 2);
    assert_string_equal(mask_line(&d), "0 1 6 9");
    accept(&d, 6);
    assert_string_equal(mask_line(&d), "0 1 2 6 7 8 9");
    accept(&d, 8);
    assert_string_equal(mask_line(&d), "0 1 6 9");
    accept(&d, 9);
    assert_string_equal(mask_line(&d), "10");
    assert_true(constraint_done(d.c) && constraint_may_end(d.c));
    accept(&d, 10);
    assert_string_equal(mask_line(&d), "");
    assert_int_equal(constraint_accept(d.c, 0, &d.err), WEFT_EINVAL);
    assert_string_equal(d.err.message, "token 0 is not allowed after 6 tokens of this constraint");
    close_desk(&d);
}

static void rewinding(void **state)
{
    (void)state;
    desk d;
    open_desk(&d, quoted_list);
    accept(&d, 4);
    accept(&d, 2);
    constraint *copy = constraint_clone(d.c, &d.err);
    accept(&d, 9);
    assert_true(constraint_done(d.c));
    assert_int_equal(constraint_length(d.c), 3);
    assert_false(constraint_done(copy));
    assert_true(constraint_allows(copy, 6, &d.err) && !constraint_allows(copy, 7, &d.err));
    constraint_rewind(d.c, 1);
    assert_string_equal(mask_line(&d), "2");
    constraint_rewind(d.c, 5);
    assert_int_equal(constraint_length(d.c), 1);
    constraint_rewind(d.c, 0);
    assert_string_equal(mask_line(&d), "4");
    constraint_free(copy);
    close_desk(&d);
}

static void forced(void **state)
{
    (void)state;
    desk d;
    char bytes[8];
    open_desk(&d, "root ::= \"ab,\" (\"ab]\" | \"a\") \"]\"");
    assert_int_equal(constraint_forced(d.c, bytes, sizeof bytes, &d.err), 4);
    assert_memory_equal(bytes, "ab,a", 4);
    assert_int_equal(constraint_forced(d.c, bytes, 2, &d.err), 2);
    accept(&d, 6);
    accept(&d, 3);
    accept(&d, 6);
    assert_int_equal(constraint_forced(d.c, bytes, sizeof bytes, &d.err), 2);
    assert_memory_equal(bytes, "]]", 2);
    close_desk(&d);
    open_desk(&d, "root ::= \"ab\" (\",a\" root)?"); /* it may end after ab */
    assert_int_equal(constraint_forced(d.c, bytes, sizeof bytes, &d.err), 2);
    close_desk(&d);
}

static void tokens(void **state)
{
    (void)state;
    desk d;
    open_desk(&d, "root ::= <tool> (\"a\"* | !<[1]>) <[12]>");
    assert_string_equal(mask_line(&d), "11");
    accept(&d, 11);
    assert_string_equal(mask_line(&d), "0 2 3 4 5 6 7 8 9 11 12");
    accept(&d, 0); /* both as a letter and as any token but b */
    assert_string_equal(mask_line(&d), "0 12");
    accept(&d, 0);
    assert_string_equal(mask_line(&d), "0 12");
    constraint_rewind(d.c, 1);
    accept(&d, 6); /* only as a token */
    assert_string_equal(mask_line(&d), "12");
    accept(&d, 12);
    assert_string_equal(mask_line(&d), "10");
    close_desk(&d);
}

/* Ids that are none, and tokens after the end. */
static void edges(void **state)
{
    (void)state;
    desk d;
    uint64_t bits[3] = { 0, 0, UINT64_MAX };
    char byte;
    open_desk(&d, "root ::= \"1\" (\"b\" | <tool>)?");
    assert_false(constraint_allows(d.c, -1, &d.err) || constraint_allows(d.c, 13, &d.err));
    assert_false(constraint_allows(d.c, 10, &d.err) || constraint_may_end(d.c));
    assert_int_equal(constraint_accept(d.c, INT32_MAX, &d.err), WEFT_EINVAL);
    assert_int_equal(constraint_length(d.c), 0);
    d.err = (weft_error){ 0 };
    accept(&d, 12);
    assert_true(constraint_may_end(d.c) && !constraint_done(d.c));      /* more may come */
    assert_int_equal(constraint_mask(d.c, bits, 191, &d.err), WEFT_OK); /* ids beyond are not */
    assert_true(bits[0] == (1u << 1 | 1u << 10 | 1u << 11) && bits[1] == 0 && bits[2] == 0);
    assert_int_equal(constraint_forced(d.c, &byte, 1, &d.err), 0);
    accept(&d, 10);
    assert_true(constraint_may_end(d.c) && constraint_done(d.c));
    assert_false(constraint_allows(d.c, 1, &d.err) || constraint_allows(d.c, 10, &d.err));
    assert_int_equal(constraint_forced(d.c, &byte, 1, &d.err), 0);
    constraint_rewind(d.c, -1);
    assert_int_equal(constraint_length(d.c), 2);
    close_desk(&d);
    open_desk(&d, "root ::= (\"1\" | \"b\") \"a\" <tool>?"); /* two bytes far from each other */
    assert_int_equal(constraint_forced(d.c, &byte, 1, &d.err), 0);
    accept(&d, 12);
    accept(&d, 0); /* only a token can follow */
    assert_true(constraint_may_end(d.c) && !constraint_done(d.c));
    close_desk(&d);
    open_desk(&d, "root ::= \"a\" (<tool> | \"b\")"); /* a byte, or a token */
    accept(&d, 0);
    assert_int_equal(constraint_forced(d.c, &byte, 1, &d.err), 0);
    assert_string_equal(mask_line(&d), "1 11");
    close_desk(&d);
}

/* A text may be freed between two others. */
static void freed_in_any_order(void **state)
{
    (void)state;
    desk d;
    open_desk(&d, quoted_list);
    for (int first = 0; first < 3; first++) {
        constraint *c[3];
        for (int i = 0; i < 3; i++)
            c[i] = constraint_new(d.set, &d.err);
        for (int i = 0; i < 3; i++)
            constraint_free(c[(first + i) % 3]);
    }
    accept(&d, 4);
    close_desk(&d);
}

/* A fence that is a special token, and one that is spelled. */
static void fences(void **state)
{
    (void)state;
    desk d;
    open_thinking_desk(&d, quoted_list, "<tool>");
    assert_string_equal(mask_line(&d), "4 11");
    accept(&d, 11);
    assert_string_equal(mask_line(&d), "0 1 2 3 4 5 6 7 8 9 11 12");
    accept(&d, 5);
    accept(&d, 11);
    assert_string_equal(mask_line(&d), "4");
    close_desk(&d);
    open_thinking_desk(&d, quoted_list, "ab");
    assert_string_equal(mask_line(&d), "0 4 6");
    accept(&d, 0);
    assert_string_equal(mask_line(&d), "1 9");
    constraint_rewind(d.c, 0);
    accept(&d, 6);
    accept(&d, 3);
    accept(&d, 6);
    assert_string_equal(mask_line(&d), "4");
    close_desk(&d);
}

/* ---- many rows -------------------------------------------------------------------------------- */

/* Brackets of two kinds: each prefix of opening ones has a row of its own. */
static const char nested[] = "root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"1\"";

/* n brackets, of kinds drawn from a key; returns the status of the last. */
static weft_status open_brackets(constraint *c, uint64_t key, int n, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && status == WEFT_OK; i++)
        status = constraint_accept(c, (int32_t)(rng_draw(key, 0, (uint64_t)i).word[0] & 1), err);
    return status;
}

/* Texts that come and go leave rows behind, which are forgotten; those of the texts that stay, of
 * one that has ended among them, are as they were. */
static void forgotten(void **state)
{
    (void)state;
    desk d;
    open_desk(&d, nested);
    weft_error *err = &d.err;
    constraint *ended = constraint_new(d.set, err);
    assert_int_equal(constraint_accept(ended, 12, err), WEFT_OK);
    assert_int_equal(constraint_accept(ended, 10, err), WEFT_OK);
    assert_int_equal(open_brackets(d.c, 0, 200, err), WEFT_OK);
    for (uint64_t key = 1; key < 300; key++) {
        constraint *c = constraint_new(d.set, err);
        if (open_brackets(c, key, 2000, err) != WEFT_OK)
            fail_msg("%s", err->message);
        constraint_free(c);
    }
    assert_true(d.v.host.mem.used < (size_t)64 << 20); /* 300 texts would need 150 MiB */
    assert_true(constraint_done(ended));
    constraint_free(ended);
    accept(&d, 12);
    for (int i = 200; i-- > 0;) { /* the brackets close in their order, and in no other */
        const int32_t id = (int32_t)(rng_draw(0, 0, (uint64_t)i).word[0] & 1);
        assert_false(constraint_allows(d.c, !id, err));
        accept(&d, id);
    }
    assert_true(constraint_done(d.c));
    constraint_rewind(d.c, 100); /* an earlier row of it */
    accept(&d, 12);
    assert_false(constraint_allows(d.c, !(rng_draw(0, 0, 99).word[0] & 1), err));
    close_desk(&d);
}

/* A text that needs more rows than a grammar may have is an error; the others can continue. */
static void too_many(void **state)
{
    (void)state;
    desk d;
    open_desk(&d, nested);
    constraint *c = constraint_new(d.set, &d.err);
    accept(&d, 0);
    assert_int_equal(open_brackets(c, 1, 1000000, &d.err), WEFT_ELIMIT);
    unsigned long long need = 0;
    assert_int_equal(sscanf(d.err.message, "texts under this grammar need %llu bytes", &need), 1);
    assert_true(need > 25165824 && need < 2 * 25165824);
    assert_non_null(strstr(d.err.message, "; expected at most 25165824: use fewer at a time"));
    constraint_free(c);
    d.err = (weft_error){ 0 };
    accept(&d, 12);
    accept(&d, 0);
    assert_true(constraint_done(d.c));
    close_desk(&d);
}

/* Brackets until rows are forgotten, which takes two blocks and gives them back; the allocation that
 * fails is an error, and works the second time. Returns how many allocations there were. */
static int64_t outgrow(desk *d, int64_t fail_at)
{
    faults memory = { .fail_at = fail_at };
    host h;
    weft_error err = { 0 };
    const int32_t end = 10;
    host_faulty(&h, &memory, NULL);
    grammar *g = gbnf_read(&h.mem, nested, strlen(nested), NULL, NULL, &err);
    constraint_set *s = constraint_set_new(&h.mem, g, &d->v.trie, &end, 1, &err);
    constraint *c = constraint_new(s, &err);
    assert_non_null(c);
    int n_failed = 0, n = 0;
    for (bool forgot = false; !forgot;) {
        const int64_t calls = memory.calls;
        const size_t used = h.mem.used;
        const bool good = constraint_accept(c, n % 3 == 0, &err) == WEFT_OK;
        assert_int_equal(err.code, good ? WEFT_OK : WEFT_ENOMEM);
        err = (weft_error){ 0 };
        n_failed += !good;
        n += good;
        forgot = good && memory.calls >= calls + 2 && h.mem.used <= used;
        assert_true(n < 300000);
    }
    assert_int_equal(n_failed, fail_at > 0);
    assert_int_equal(constraint_length(c), n);
    assert_int_equal(constraint_accept(c, 12, &err), WEFT_OK);
    assert_true(constraint_allows(c, (n - 1) % 3 == 0, &err));
    assert_false(constraint_allows(c, (n - 1) % 3 != 0, &err));
    constraint_free(c);
    constraint_set_free(s);
    assert_int_equal(memory.live, 0);
    return memory.calls;
}

static void forgetting_without_memory(void **state)
{
    (void)state;
    desk d;
    open_desk(&d, nested);
    const int64_t n = outgrow(&d, 0);
    for (int64_t i = 0; i < 4; i++)
        outgrow(&d, n - i);
    close_desk(&d);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* A whole life; false with err filled if something failed. */
static bool live(vocabulary *v, mem *m, weft_error *err)
{
    uint64_t bits[1];
    char bytes[8];
    const int32_t end = 10;
    grammar *g = gbnf_read(m, quoted_list, strlen(quoted_list), &v->tokenizer, NULL, err);
    constraint_set *s = g ? constraint_set_new(m, g, &v->trie, &end, 1, err) : NULL;
    constraint *c = s ? constraint_new(s, err) : NULL;
    constraint *copy = c ? constraint_clone(c, err) : NULL;
    bool good = copy && constraint_mask(c, bits, 13, err) == WEFT_OK &&
                constraint_accept(c, 4, err) == WEFT_OK &&
                constraint_accept(c, 2, err) == WEFT_OK &&
                constraint_mask(c, bits, 13, err) == WEFT_OK;
    if (good) {
        constraint_forced(copy, bytes, sizeof bytes, err);
        good = err->code == WEFT_OK && bits[0] == (1u << 0 | 1u << 1 | 1u << 6 | 1u << 9);
    }
    constraint_free(copy);
    constraint_free(c);
    constraint_set_free(s);
    return good;
}

static void allocation_faults(void **state)
{
    (void)state;
    desk d;
    open_desk(&d, quoted_list);
    int64_t n = 0;
    for (bool good = false; !good; n++) {
        faults memory = { .fail_at = n + 1 };
        host h;
        weft_error err = { 0 };
        host_faulty(&h, &memory, NULL);
        good = live(&d.v, &h.mem, &err);
        if (!good)
            assert_int_equal(err.code, WEFT_ENOMEM);
        assert_int_equal(memory.live, 0);
        assert_true(n < 1000);
    }
    assert_true(n > 30);
    close_desk(&d);
}

/* The trie of a vocabulary: every allocation of it, and one in which every token is plain. */
static void tries(void **state)
{
    (void)state;
    static const char letters[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
        "\"merges\":[\"a b\"]}}";
    desk d;
    int64_t n = 0;
    const char *bytes;
    open_desk(&d, quoted_list);
    for (bool good = false; !good; n++) {
        faults memory = { .fail_at = n + 1 };
        host h;
        weft_error err = { 0 };
        token_trie pieces;
        host_faulty(&h, &memory, NULL);
        good = token_trie_init(&pieces, &d.v.tokenizer, &h.mem, &err) == WEFT_OK;
        assert_int_equal(err.code, good ? WEFT_OK : WEFT_ENOMEM);
        if (good)
            token_trie_free(&pieces);
        assert_int_equal(memory.live, 0);
    }
    assert_int_equal(n, 13); /* 4, and 4 for each of the two tries */
    assert_int_equal(token_text(&d.v.trie, 9, &bytes), 3);
    assert_int_equal(token_text(&d.v.trie, 13, &bytes), 0);
    close_desk(&d);

    tokenizer t;
    token_trie pieces;
    weft_error err = { 0 };
    host h;
    host_plain(&h);
    const char *path = temp_file("tokenizer.json", letters, strlen(letters));
    assert_int_equal(tokenizer_load(&t, path, NULL, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    assert_int_equal(token_trie_init(&pieces, &t, &h.mem, &err), WEFT_OK);
    assert_int_equal(pieces.all.n, 4); /* the root, a, ab, b */
    assert_int_equal(pieces.all.n_id, 3);
    assert_int_equal(pieces.rest.n, 1);
    assert_int_equal(pieces.rest.n_id, 0);
    token_trie_free(&pieces);
    tokenizer_free(&t);
    assert_int_equal(h.mem.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("constraint: masks equal brute force, byte-level BPE", byte_bpe),
        TEST("constraint: masks equal brute force, SentencePiece", sentencepiece),
        TEST("constraint: masks equal brute force, WordPiece", bert_pieces),
        TEST("constraint: masks inside strings equal brute force", strings_small),
        TEST("constraint: masks inside strings equal brute force, byte-level BPE", strings_large),
        TEST("constraint: tokens cross the borders of lexemes, the end is a token", borders),
        TEST("constraint: clones and rewinds", rewinding),
        TEST("constraint: what is forced", forced),
        TEST("constraint: tokens by number and text, and all but one", tokens),
        TEST("constraint: fences of thinking are tokens, or spelled", fences),
        TEST("constraint: ids that are none, and after the end", edges),
        TEST("constraint: texts are freed in any order", freed_in_any_order),
        TEST("constraint: rows that no text needs are forgotten, others are not", forgotten),
        TEST("constraint: a text that needs too many rows is an error", too_many),
        TEST("constraint: rows are forgotten later if there is no memory for that",
             forgetting_without_memory),
        TEST("constraint: every allocation may fail", allocation_faults),
        TEST("constraint: tries of tokens, without memory and without tokens", tries),
    };
    return RUN(tests);
}
