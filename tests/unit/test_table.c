/* Tables: fields, ends of records, and that every text is either parsed or refused with a
 * message. */
#include "support.h"

#include "formats/table.h"

/* All records as "field|field;field;", or the error. */
static void say(const char *text, size_t n, bool csv, char *to, size_t room)
{
    table t;
    weft_error err = { 0 };
    size_t at = 0;
    char *copy = malloc(n ? n : 1); /* exact size, so that a sanitizer reports an overrun */
    memcpy(copy, text, n);
    table_begin(&t, copy, n, csv, "t");
    to[0] = '\0';
    for (;;) {
        if (table_next(&t, &err) != WEFT_OK) {
            snprintf(to, room, "%s", err.message);
            break;
        }
        if (t.n_field == 0)
            break;
        for (int i = 0; i < t.n_field; i++) {
            char *field = malloc(t.field[i].n ? t.field[i].n : 1);
            const size_t k = table_copy(&t.field[i], field);
            at += (size_t)snprintf(to + at, room - at, "%s%.*s", i ? "|" : "", (int)k, field);
            free(field);
        }
        at += (size_t)snprintf(to + at, room - at, "@%lld;", (long long)t.line);
    }
    free(copy);
}

static void expect(const char *text, bool csv, const char *want)
{
    char got[512];
    say(text, strlen(text), csv, got, sizeof got);
    assert_string_equal(got, want);
}

static void tabs(void **state)
{
    (void)state;
    expect("", false, "");
    expect("\n\r\n\n", false, "");
    expect("a", false, "a@1;");
    expect("a\tb\n", false, "a|b@1;");
    expect("a\tb\r\nc\td\r\n", false, "a|b@1;c|d@2;");
    expect("a\tb\r", false, "a|b@1;");
    expect("a\rb\tc\n", false, "a\rb|c@1;");
    expect("\t", false, "|@1;");
    expect("a\t\tb\n\n\nc", false, "a||b@1;c@4;");
    expect("\"a\tb\"\n", false, "\"a|b\"@1;"); /* nothing is quoted */
    expect("\xEF\xBB\xBF"
           "a\tb",
           false, "a|b@1;");
}

static void commas(void **state)
{
    (void)state;
    expect("a,b\n", true, "a|b@1;");
    expect("\"a\",\"b\"\r\n\"c\"", true, "a|b@1;c@2;");
    expect("\"a,b\",c", true, "a,b|c@1;");
    expect("\"a\nb\",c\nd", true, "a\nb|c@1;d@3;");
    expect("\"a\"\"b\"", true, "a\"b@1;");
    expect("\"\"\"\"", true, "\"@1;");
    expect("\"\",", true, "|@1;");
    expect("a\"b\",c", true, "a\"b\"|c@1;");
    expect("a, \"b\"", true, "a| \"b\"@1;");
    expect("\"a\r\n\"", true, "a\r\n@1;");
    expect("\xEF\xBB\xBF\"a\"", true, "a@1;");
}

static void refusals(void **state)
{
    (void)state;
    static const char open[] = "t:2: unterminated quoted field";
    static const char behind[] =
        "t:1: expected a comma or the end of the line after a quoted field";
    expect("a\n\"b\nc", true, open);
    expect("a\n\"", true, open);
    expect("a\n\"b\"\"", true, open);
    expect("\"a\"b", true, behind);
    expect("\"a\" ,b", true, behind);
    expect("\"a\"\rb", true, behind);
}

/* One more field than fits, and exactly as many. */
static void many_fields(void **state)
{
    (void)state;
    char text[TABLE_FIELDS + 1], got[512];
    for (int csv = 0; csv < 2; csv++) {
        memset(text, csv ? ',' : '\t', sizeof text);
        say(text, TABLE_FIELDS - 1, csv, got, sizeof got);
        assert_int_equal(strlen(got), TABLE_FIELDS - 1 + strlen("@1;"));
        say(text, TABLE_FIELDS, csv, got, sizeof got);
        assert_string_equal(got, "t:1: more than 64 fields");
    }
}

/* Truncated anywhere, a text has the records before the cut and part of one, or an error. */
static void truncation(void **state)
{
    (void)state;
    static const char text[] = "\xEF\xBB\xBF\"a \"\"b\"\"\",c\r\n\r\nd,\"e\nf\"\ng,h\n";
    char whole[512], got[512];
    for (int csv = 0; csv < 2; csv++) {
        say(text, sizeof text - 1, csv, whole, sizeof whole);
        for (size_t n = 0; n < sizeof text - 1; n++) {
            say(text, n, csv, got, sizeof got);
            const char *last = strrchr(got, ';');
            const bool refused = strncmp(got, "t:", 2) == 0;
            assert_true(n < 3 || refused || !last || strlen(got) <= strlen(whole));
            if (refused)
                assert_true(csv && strstr(got, "unterminated quoted field"));
        }
    }
    assert_string_equal(whole, "a \"b\"|c@1;d|e\nf@3;g|h@5;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("table: tabs separate fields and nothing is quoted", tabs),
        TEST("table: commas separate fields, except in quotes", commas),
        TEST("table: quotes that do not end, or end too early, are refused", refusals),
        TEST("table: the number of fields is limited by the buffer", many_fields),
        TEST("table: truncated at any byte, it has records or an error", truncation),
    };
    return RUN(tests);
}
