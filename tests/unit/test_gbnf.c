/* GBNF: what is malformed is refused with its place, every prefix of a valid text is read or
 * refused, bombs end early. */
#include "support.h"

#include "base/clock.h"
#include "text/constrain/rows.h"

#include <math.h>

#define TRIES 5 /* at what takes too long: another program may have been in the way */

static grammar *read_text(mem *m, const char *text, size_t n, weft_error *err)
{
    *err = (weft_error){ 0 };
    mem_init(m, (size_t)64 << 20, NULL);
    return gbnf_read(m, text, n, NULL, NULL, err);
}

/* ---- what is malformed ----------------------------------------------------------------------- */

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } wrong[] = {
        { "", "line 1, column 1: found the end; expected a rule named root" },
        { "a ::= \"x\"", "line 1, column 10: found the end; expected a rule named root" },
        { "root ::= x",
          "line 1, column 10: found \"x\"; expected the name of a rule that is defined" },
        { "root = \"x\"", "line 1, column 6: found \"=\"; expected ::= after the name of a rule" },
        { "root ::= \"x",
          "line 1, column 12: found the end; expected the end of a literal or a class" },
        { "root ::= [a",
          "line 1, column 12: found the end; expected the end of a literal or a class" },
        { "root ::= []", "line 1, column 11: found \"]\"; expected a code point in the class" },
        { "root ::= [z-a]",
          "line 1, column 11: found \"z\"; expected a range whose first code point is "
          "not above its last" },
        { "root ::= \"\\q\"",
          "line 1, column 12: found \"q\"; expected one of x u U t r n \\ \" [ ] - ^ "
          "after the backslash" },
        { "root ::= \"\\x4\"", "line 1, column 14: found \"\"\"; expected a hexadecimal digit" },
        { "root ::= \"\\uD800\"",
          "line 1, column 11: found \"\\\"; expected a code point, which is no "
          "surrogate and at most 10FFFF" },
        { "root ::= \"\\U00110000\"",
          "line 1, column 11: found \"\\\"; expected a code point, which is "
          "no surrogate and at most 10FFFF" },
        { "root ::= \"\xFF\"", "line 1, column 11: found byte 0xFF; expected UTF-8" },
        { "root ::= (\"a\"", "line 1, column 14: found the end; expected an item, | or )" },
        { "root ::= \"a\")",
          "line 1, column 13: found \")\"; expected an item, | or the end of the line" },
        { "root ::= * \"a\"",
          "line 1, column 10: found \"*\"; expected an item, | or the end of the line" },
        { "root ::= \"a\"{",
          "line 1, column 14: found the end; expected a count below 1000000000" },
        { "root ::= \"a\"{2,1}",
          "line 1, column 14: found \"2\"; expected a first count that is not "
          "above the second" },
        { "root ::= \"a\"{2;3}", "line 1, column 15: found \";\"; expected } after the counts" },
        { "root ::= \"a\"{1000000000}", "line 1, column 14: found \"1\"; expected a count below "
                                        "1000000000" },
        { "root ::= <[x]>", "line 1, column 12: found \"x\"; expected the number of a token" },
        { "root ::= <[1>",
          "line 1, column 13: found \">\"; expected ]> after the number of a token" },
        { "root ::= <tool>",
          "line 1, column 10: found \"<\"; expected a token of the vocabulary, or its "
          "number as <[12]>" },
        { "root ::= <tool", "line 1, column 15: found the end; expected > at the end of a token" },
        { "root ::= !x",
          "line 1, column 11: found \"x\"; expected a token, as <[12]> or <text>, after "
          "\"!\"" },
        { "root ::= \"a\"\nroot ::= \"b\"",
          "line 2, column 1: found \"r\"; expected another name: this "
          "rule is defined already" },
        { "root ::= root \"a\"", "the grammar matches no text at all" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mem m;
        weft_error err;
        grammar *g = read_text(&m, wrong[i].text, strlen(wrong[i].text), &err);
        if (g)
            fail_msg("accepted: %s", wrong[i].text);
        assert_string_equal(err.message, wrong[i].message);
        assert_int_equal(m.used, 0);
    }
}

/* ---- what is read ---------------------------------------------------------------------------- */

static bool matches(earley *r, const char *text)
{
    uint32_t at = FIRST_ROW;
    for (; *text && at != NO_ROW; text++)
        at = rows_step(r, at, (uint8_t)*text);
    return at != NO_ROW && row_at(r, at)->accepts;
}

static void meaning(void **state)
{
    (void)state;
    static const struct {
        const char *grammar, *yes[3], *no[3];
    } of[] = {
        { "root ::= \"\\x41\\u00e9\\U0001F600\\t\\r\\n\\\\\\\"\\[\\]\"",
          { "A\u00e9\U0001F600\t\r\n\\\"[]" },
          { "A", "" } },
        { "root ::= [a-c\\x30-\\x32_-] # a comment\n", { "b", "1", "-" }, { "d", "3", "" } },
        { "root ::= [^a-c\\n]", { "d", "\u00e9", "\U0001F600" }, { "b", "\n", "\xC3" } },
        { "root ::= . .", { "a\n", "\u00e9a" }, { "a", "\xC3\xA9", "aaa" } },
        { "# first\n\nroot ::= a |\n  # second\n  b\na ::= (\n \"x\"\n \"y\" )\nb ::= \"z\"",
          { "xy", "z" },
          { "x", "xyz" } },
        { "root ::= \"a\"{2} \"b\"{1,} \"c\"{ 0 , 2 } \"d\"?",
          { "aab", "aabbccd", "aabd" },
          { "ab", "aac", "aabccc" } },
        { "root ::= | \"a\"", { "", "a" }, { "aa" } },
        { "root ::= (\"a\" | \"b\" root \"b\")*", { "", "abaab", "bbbb" }, { "b", "ba", "bbb" } },
        { "root ::= root \"a\" | under_score-9\nunder_score-9 ::= \"b\"",
          { "b", "baaa" },
          { "a", "bb" } },
        { "root ::= \"a\" root | \"b\"", { "b", "aaab" }, { "a", "ba" } },
        { "root ::= (\"a\"*+)?{3}", { "", "aaaaaa" }, { "b" } },
        { "root ::= x{2,3}\nx ::= \"(\" x \")\" | \"a\"",
          { "aa", "(a)aa", "((a))a" },
          { "a", "(a", "aaaa" } },
        { "root ::= \"\"", { "" }, { "a" } },
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        mem m;
        weft_error err;
        earley r;
        grammar *g = read_text(&m, of[i].grammar, strlen(of[i].grammar), &err);
        if (!g)
            fail_msg("%s in %s", err.message, of[i].grammar);
        assert_int_equal(rows_init(&r, &m, g, &err), WEFT_OK);
        for (int k = 0; k < 3 && of[i].yes[k]; k++)
            assert_that(matches(&r, of[i].yes[k]), "\"%s\" is refused by %s", of[i].yes[k],
                        of[i].grammar);
        for (int k = 0; k < 3 && of[i].no[k]; k++)
            assert_that(!matches(&r, of[i].no[k]), "\"%s\" is accepted by %s", of[i].no[k],
                        of[i].grammar);
        rows_free(&r);
        grammar_free(g);
        assert_int_equal(m.used, 0);
    }
}

static void truncation(void **state)
{
    (void)state;
    static const char text[] = "# json\nroot ::= object | [a-z\\n\\x41]{1,3}* \"\\u00e9\"\n"
                               "object ::= \"{\" (pair (\",\" pair)*)? \"}\" !<[3]> <[4]>\n"
                               "pair ::= \"\\\"\" [^\"\\\\] \"\\\"\" . root?\n";
    int n_read = 0;
    for (size_t n = 0; n <= strlen(text); n++) {
        mem m;
        weft_error err;
        grammar *g = read_text(&m, text, n, &err);
        n_read += g != NULL;
        assert_true((g != NULL) == (err.code == WEFT_OK));
        grammar_free(g);
        assert_int_equal(m.used, 0);
    }
    assert_in_range(n_read, 3, 60);
}

/* ---- bombs ----------------------------------------------------------------------------------- */

/* Ends below 50 ms (more under a sanitizer) and 64 MiB. */
static void bomb(const char *name, const char *text, weft_status expected)
{
    const double patience = quick() ? 2 : 0.05;
    double seconds = 1e9;
    for (int try = 0; try < TRIES && seconds >= patience; try++) {
        mem m;
        weft_error err;
        const double start = clock_thread_seconds();
        grammar *g = read_text(&m, text, strlen(text), &err);
        earley r = { 0 };
        if (g && rows_init(&r, &m, g, &err) == WEFT_OK)
            for (uint32_t at = FIRST_ROW, i = 0; at != NO_ROW && i < 30; i++) {
                rows_begin(&r, &err);
                at = rows_step(&r, at, 'a');
            }
        seconds = fmin(seconds, clock_thread_seconds() - start);
        if (err.code != expected)
            fail_msg("%s: %d %s", name, (int)err.code, err.message);
        rows_free(&r);
        grammar_free(g);
        assert_int_equal(m.used, 0);
    }
    assert_that(seconds < patience, "%s took %.0f ms", name, 1e3 * seconds);
}

static void bombs(void **state)
{
    (void)state;
    static char text[70000];
    memset(text, '(', 60000);
    memcpy(text, "root ::= ", 9);
    bomb("60,000 parentheses", text, WEFT_EFORMAT);
    memset(text + 60000, ')', 9999);
    bomb("a text that is too long", text, WEFT_ELIMIT);
    memset(text, 0, sizeof text);
    bomb("nested counts of a letter", "root ::= ((((\"a\"{1000}){1000}){1000}){1000}){1000}",
         WEFT_OK);
    bomb("a large count of a rule", "root ::= x{1,1000000}\nx ::= \"a\" x \"b\" | \"c\"",
         WEFT_ELIMIT);
    bomb("a large count of a letter", "root ::= \"a\"{1,999999999}", WEFT_OK);
    bomb("an ambiguous rule", "root ::= root root | \"a\" | \"\"", WEFT_OK);
    bomb("an ambiguous rule of three", "root ::= root root root | root root | \"a\"", WEFT_OK);
    bomb("stars of stars", "root ::= ((((\"a\"*)*)*)* ((\"a\"*)+)* root)*", WEFT_OK);
    strcpy(text, "root ::= \"a\"");
    for (int i = 0; i < 5900; i++)
        strcat(text + 11 * (size_t)i, " | \"aaaaaa\"");
    bomb("many alternatives", text, WEFT_OK);
}

/* ---- thinking -------------------------------------------------------------------------------- */

/* Grammars that are one lexeme and that are not; texts that match if the model may think before,
 * and if it does already. */
static void thinking(void **state)
{
    (void)state;
    static const char *const grammars[] = { "root ::= \"(x)\" | \"x\"",
                                            "root ::= \"(\" root \")\" | \"x\"",
                                            ("root ::= pair\npair ::= \"(\" pair \")\" | end\n"
                                             "end ::= \"x\" none*\nnone ::= \"\"") };
    static const struct {
        const char *text;
        bool may, does, never; /* never: there is no string that begins it */
    } texts[] = {
        { "(x)", true, false, true },
        { "<t>so</t>(x)", true, true, false },
        { " \n<t></t>\t\r x", true, true, false },
        { "<t><t></t>x", true, true, false },
        { "so</t>(x)", false, true, false },
        { "</t>  x", false, true, false },
        { "</t>                x", false, true, false },   /* 16 blanks */
        { "</t>                 x", false, false, false }, /* 17 */
        { "<t>so</t>(x", false, false, false },
        { "<t>so</t>y", false, false, false },
        { "<t>so", false, false, false },
        { "<t>so</t></t>x", false, false, false },
        { "x<t></t>", false, false, false },
    };
    for (size_t i = 0; i < 3 * sizeof texts / sizeof *texts; i++)
        for (int k = 0; k < 3; k++) {
            mem m;
            weft_error err;
            earley rows;
            const char *text = texts[i / 3].text;
            uint32_t row = FIRST_ROW;
            const bool want = k == 0   ? texts[i / 3].may
                              : k == 1 ? texts[i / 3].does
                                       : texts[i / 3].never;
            grammar *g = read_text(&m, grammars[i % 3], strlen(grammars[i % 3]), &err);
            assert_non_null(g);
            assert_that(grammar_think(g, k < 2 ? "<t>" : NULL, "</t>", k == 1, NULL, &err) ==
                            WEFT_OK,
                        "%s: %s", grammars[i % 3], err.message);
            assert_int_equal(rows_init(&rows, &m, g, &err), WEFT_OK);
            rows_begin(&rows, &err);
            for (const char *c = text; *c && row != NO_ROW; c++)
                row = rows_step(&rows, row, (uint8_t)*c);
            assert_that((row != NO_ROW && row_at(&rows, row)->accepts) == want,
                        "%s after thinking %d is %s by %s", text, k, want ? "refused" : "accepted",
                        grammars[i % 3]);
            rows_free(&rows);
            grammar_free(g);
            assert_int_equal(m.used, 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("gbnf: what is malformed is refused with its place", refused),
        TEST("gbnf: the whole syntax", meaning),
        TEST("gbnf: every prefix is read or refused", truncation),
        TEST("gbnf: bombs end early", bombs),
        TEST("think: the grammar holds for what follows", thinking),
    };
    return RUN(tests);
}
