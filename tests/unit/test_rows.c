/* Rows of a grammar against a second reading of it: random grammars, all short texts. */
#include "support.h"

#include "random_grammar.h"
#include "text/constrain/rows.h"

#define LETTERS "ab\"{"

/* Every text of the letters up to this length. */
#define LONGEST 5

typedef struct walk {
    random_grammar *meant;
    earley *rows;
    const char *source;
    char text[LONGEST + 1];
    int64_t checked;
} walk;

static void compare(walk *w, uint32_t row, int n)
{
    bool open;
    const bool whole = random_grammar_matches(w->meant, w->text, n, &open);
    w->checked++;
    if ((row != NO_ROW) != open)
        fail_msg("\"%.*s\" %s be continued in\n%s", n, w->text, open ? "can" : "cannot", w->source);
    if (row == NO_ROW)
        return;
    if (row_at(w->rows, row)->accepts != whole)
        fail_msg("\"%.*s\" is %s text of\n%s", n, w->text, whole ? "a" : "no", w->source);
    for (size_t i = 0; i < strlen(LETTERS) && n < LONGEST; i++) {
        w->text[n] = LETTERS[i];
        compare(w, rows_step(w->rows, row, (uint8_t)LETTERS[i]), n + 1);
    }
}

static int64_t compare_one(uint64_t key)
{
    static random_grammar meant;
    static char source[1 << 16];
    weft_error err = { 0 };
    mem m;
    bool open;
    random_grammar_make(&meant, key, LETTERS);
    random_grammar_write(&meant, source, sizeof source);
    mem_init(&m, 0, NULL);
    grammar *g = gbnf_read(&m, source, strlen(source), NULL, NULL, &err);
    random_grammar_matches(&meant, "", 0, &open);
    if (!g) {
        if (open)
            fail_msg("%s in\n%s", err.message, source);
        assert_string_equal(err.message, "the grammar matches no text at all");
        assert_int_equal(m.used, 0);
        return 0;
    }
    earley r;
    assert_int_equal(rows_init(&r, &m, g, &err), WEFT_OK);
    walk w = { .meant = &meant, .rows = &r, .source = source };
    compare(&w, FIRST_ROW, 0);
    assert_int_equal(err.code, WEFT_OK);
    rows_free(&r);
    grammar_free(g);
    assert_int_equal(m.used, 0);
    return w.checked;
}

static void random_grammars(void **state)
{
    (void)state;
    const int n = getenv("WEFT_TEST_LONG") ? 100000 : quick() ? 200 : 3000;
    int64_t checked = 0;
    for (int i = 0; i < n; i++)
        checked += compare_one((uint64_t)i);
    assert_true(checked > 50 * n);
}

/* ---- rows recur ------------------------------------------------------------------------------ */

static uint32_t walk_text(earley *r, uint32_t row, const char *text)
{
    for (; *text && row != NO_ROW; text++)
        row = rows_step(r, row, (uint8_t)*text);
    return row;
}

static const char json[] =
    "root ::= value\n"
    "value ::= object | array | string | number | \"true\" | \"null\"\n"
    "object ::= \"{\" (string \":\" value (\",\" string \":\" value)*)? \"}\"\n"
    "array ::= \"[\" (value (\",\" value)*)? \"]\"\n"
    "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1F] | \"\\\\\" [\"\\\\/bfnrt])* \"\\\"\"\n"
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9]+)?\n";

static void open_grammar(earley *r, mem *m, const char *text, weft_error *err)
{
    mem_init(m, 0, NULL);
    grammar *g = gbnf_read(m, text, strlen(text), NULL, NULL, err);
    if (!g)
        fail_msg("%s", err->message);
    assert_int_equal(rows_init(r, m, g, err), WEFT_OK);
}

static void close_grammar(earley *r, mem *m)
{
    grammar *g = r->grammar;
    rows_free(r);
    grammar_free(g);
    assert_int_equal(m->used, 0);
}

static void lists_and_strings(void **state)
{
    (void)state;
    weft_error err = { 0 };
    earley r;
    mem m;
    open_grammar(&r, &m, json, &err);
    const uint32_t once = walk_text(&r, FIRST_ROW, "{\"a\":[1,2,");
    assert_int_equal(walk_text(&r, once, "22,\"x\","), once);
    const uint32_t string = walk_text(&r, once, "\"a");
    assert_int_not_equal(string, NO_ROW);
    assert_int_equal(walk_text(&r, string, "nother word"), string);
    assert_int_equal(walk_text(&r, string, "\\n"), string);
    assert_int_equal(walk_text(&r, once, "]"), NO_ROW);
    const uint32_t end = walk_text(&r, once, "null]}");
    assert_true(row_at(&r, end)->accepts);
    assert_int_equal(row_at(&r, end)->n_scan, 0);
    close_grammar(&r, &m);
}

/* Rows that a text needs are the same after all others were forgotten. */
static void compaction(void **state)
{
    (void)state;
    weft_error err = { 0 };
    earley r;
    mem m;
    open_grammar(&r, &m, json, &err);
    walk_text(&r, FIRST_ROW, "[[[1,2,3],{\"a\":null},[]");
    const uint32_t kept = walk_text(&r, FIRST_ROW, "{\"a\":[1,{\"b\":[true,\"x");
    const uint32_t n = r.row.n;
    uint32_t *map = calloc(n, sizeof *map);
    bool *keep = calloc(n, sizeof *keep);
    keep[kept] = true;
    rows_compact(&r, map, keep);
    assert_true(r.row.n < n && r.row.n > 3);
    const uint32_t now = map[kept];
    free(map);
    free(keep);
    assert_int_equal(walk_text(&r, now, "yz"), now);
    const uint32_t end = walk_text(&r, now, "\"]}]}");
    assert_int_not_equal(end, NO_ROW);
    assert_true(row_at(&r, end)->accepts);
    assert_int_equal(walk_text(&r, now, "\"}"), NO_ROW);
    assert_int_equal(walk_text(&r, FIRST_ROW, "{\"a\":[1,{\"b\":[true,\"x"), now);
    close_grammar(&r, &m);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void item_limit(void **state)
{
    (void)state;
    weft_error err = { 0 };
    mem m;
    mem_init(&m, 0, NULL);
    const grammar_limits small = { .items = 100 };
    const char *text =
        "root ::= x root y | x y\nx ::= \"a\" | z\ny ::= \"b\" | z\nz ::= \"c\" z \"d\" | "
        "\"a\"\n";
    grammar *g = gbnf_read(&m, text, strlen(text), NULL, &small, &err);
    assert_non_null(g);
    earley r;
    assert_int_equal(rows_init(&r, &m, g, &err), WEFT_OK);
    uint32_t row = FIRST_ROW;
    for (int i = 0; i < 300 && row != NO_ROW; i++)
        row = rows_step(&r, row, 'a');
    assert_int_equal(row, NO_ROW);
    assert_int_equal(err.code, WEFT_ELIMIT);
    assert_non_null(strstr(err.message, "more than 100 ways"));
    weft_error again = { 0 };
    rows_begin(&r, &again);
    assert_int_not_equal(rows_step(&r, FIRST_ROW, 'a'), NO_ROW);
    close_grammar(&r, &m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("rows: agree with a second reading of random grammars", random_grammars),
        TEST("rows: lists and strings come back to the same row", lists_and_strings),
        TEST("rows: what a text needs survives when the rest is forgotten", compaction),
        TEST("rows: a row that grows too large is an error, and the grammar lives", item_limit),
    };
    return RUN(tests);
}
