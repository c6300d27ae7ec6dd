/* JSON Schema as a grammar: what python-jsonschema says of made-up schemas, the fixed readings, what is
 * refused and where, bombs, faults. */
#include "support.h"

#include "base/clock.h"
#include "text/constrain/rows.h"

#include <math.h>

#ifdef NDEBUG
#define PATIENCE 0.05 /* seconds for the worst schema */
#else
#define PATIENCE 2.0 /* with assertions, perhaps under a sanitizer */
#endif
#define TRIES 5 /* at what takes too long: another program may have been in the way */

/* ---- one schema ------------------------------------------------------------------------------------ */

typedef struct judge {
    mem mem;
    grammar *grammar;
    earley rows;
} judge;

static void judge_open(judge *j, const char *schema, const schema_options *o)
{
    weft_error err = { 0 };
    mem_init(&j->mem, (size_t)64 << 20, NULL);
    j->grammar = schema_read(&j->mem, schema, strlen(schema), o, NULL, &err);
    if (!j->grammar)
        fail_msg("%s: %s", schema, err.message);
    assert_int_equal(rows_init(&j->rows, &j->mem, j->grammar, &err), WEFT_OK);
}

static void judge_close(judge *j)
{
    rows_free(&j->rows);
    grammar_free(j->grammar);
    assert_int_equal(j->mem.used, 0);
}

static bool accepts(judge *j, const char *text)
{
    weft_error err = { 0 };
    uint32_t at = FIRST_ROW;
    rows_begin(&j->rows, &err);
    for (; *text && at != NO_ROW; text++)
        at = rows_step(&j->rows, at, (uint8_t)*text);
    assert_that(err.code == WEFT_OK, "%s", err.message);
    return at != NO_ROW && row_at(&j->rows, at)->accepts;
}

/* Texts are separated by two blanks. */
static void check_texts(judge *j, const char *schema, const char *texts, bool expected)
{
    while (*texts) {
        const char *end = strstr(texts, "  ");
        const size_t n = end ? (size_t)(end - texts) : strlen(texts);
        char *one = strndup(texts, n);
        assert_that(accepts(j, one) == expected, "%s %s %s", schema,
                    expected ? "refuses" : "accepts", one);
        free(one);
        texts += n + (end ? 2 : 0);
    }
}

static void check(const char *schema, const schema_options *o, const char *good, const char *bad)
{
    judge j;
    judge_open(&j, schema, o);
    check_texts(&j, schema, good, true);
    check_texts(&j, schema, bad, false);
    judge_close(&j);
}

/* ---- made-up schemas ---------------------------------------------------------------------------------- */

static void like_jsonschema(void **state)
{
    (void)state;
    size_t size;
    char *text = read_whole(WEFT_TESTS_DIR "/golden/constrain/schemas.txt", &size);
    int n_schema = 0, n_good = 0, n_bad = 0;
    judge j;
    for (char *line = text, *end; line < text + size; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + size - line));
        assert_non_null(end);
        *end = 0;
        if (line[0] == 'S') {
            if (n_schema++ > 0)
                judge_close(&j);
            judge_open(&j, line + 1, NULL);
            continue;
        }
        assert_that(accepts(&j, line + 1) == (line[0] == '+'), "schema %d, %s", n_schema, line);
        n_good += line[0] == '+';
        n_bad += line[0] == '-';
    }
    judge_close(&j);
    free(text);
    assert_that(n_schema == 400 && n_good > 1000 && n_bad > 500, "%d schemas, %d good, %d bad",
                n_schema, n_good, n_bad);
}

/* ---- readings ------------------------------------------------------------------------------------------- */

#define A16 "aaaaaaaaaaaaaaaa"

static const struct {
    const char *schema, *good, *bad;
} readings[] = {
    /* properties in the schema's order, then others; no name twice */
    { "{\"type\":\"object\",\"properties\":{\"b\":{},\"a\":{}},\"required\":[\"a\",\"z\"]}",
      "{\"b\":1,\"a\":2,\"z\":3}  {\"a\":2,\"z\":3}  {\"a\":2,\"z\":3,\"q\":4}",
      "{\"a\":2,\"b\":1,\"z\":3}  {\"b\":1,\"a\":2}  {\"q\":1,\"a\":2,\"z\":3}  "
      "{\"a\":1,\"z\":2,\"a\":3}  {\"b\":1,\"b\":1,\"a\":2,\"z\":3}" },
    /* none, or one blank after : and , */
    { "{}", "{\"a\": 1}  [1, 2]  [1,2]  {\"a\":1, \"b\": []}",
      "{ \"a\":1}  [ 1]  [1 ,2]  [1,\t2]  {\"a\" :1}  {}\n  [1]x" },
    /* integers without a point, no negative zero */
    { "{\"type\":\"integer\"}", "0  -1  12345678901234567",
      "1.0  1e2  -0  01  +1  123456789012345678" },
    { "{\"type\":\"number\"}",
      "0  0.0  -0.5  1.25  1e5  1E+5  1.5e-289  1e199  1e007  0.30000000000000004  "
      "12345678901234567",
      "-0  -0.0  .5  1.  01  1e  1e290  1e300  1e1000  1.12345678901234567  123456789012345678" },
    /* bounds: no exponent, exact */
    { "{\"type\":\"number\",\"minimum\":0.1,\"maximum\":250}",
      "0.1  0.10  0.100001  250  250.00  99", "0.09999999  250.001  1e2  0  -1  251  1000" },
    { "{\"type\":\"integer\",\"minimum\":-9223372036854775808,\"maximum\":9223372036854775807}",
      "9223372036854775807  -9223372036854775808  0", "9223372036854775808  -9223372036854775809" },
    { "{\"type\":\"number\",\"exclusiveMinimum\":-2.5,\"exclusiveMaximum\":-1}",
      "-2.49999  -2.4  -1.0001  -2", "-2.5  -2.50  -1  -1.0  -0.5  -3  1" },
    { "{\"type\":\"integer\",\"minimum\":3,\"exclusiveMinimum\":true,\"maximum\":7,"
      "\"exclusiveMaximum\":false}",
      "4  7", "3  8" },
    { "{\"type\":\"number\",\"multipleOf\":0.01}", "0.01  12.3  -7  1.230", "0.001  1.005" },
    { "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":1}", "7  14  98  70000000000000",
      "0  1  15" },
    { "{\"type\":\"number\",\"multipleOf\":12}", "123456789012348  -24.0  0.000",
      "1234567890123456  12345678901234560.0  1e2" },
    { "{\"maximum\":1e300,\"minimum\":-1e300,\"type\":\"number\"}", "5  -5.5", "\"\"" },
    /* strings: one spelling, lengths in code points */
    { "{\"type\":\"string\"}",
      "\"\"  \"a\\\"b\\\\\"  \"\\n\\u000a\\u001F\"  \"\303\251\360\237\230\200\"",
      "\"\n\"  \"\\/\"  \"\\u0041\"  \"\\ud83d\\ude00\"  \"\\x\"  \"a  \"\303\"" },
    { "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
      "\"ab\"  \"\303\251\303\251\"  \"\\n\\\"\\\\\"  \"\360\237\230\200\360\237\230\200\"",
      "\"a\"  \"abcd\"  \"\\n\"" },
    { "{\"type\":\"string\",\"pattern\":\"^[a-z]+$\",\"maxLength\":2,\"minLength\":2}", "\"ab\"",
      "\"a\"  \"abc\"  \"A1\"" },
    { "{\"type\":\"string\",\"format\":\"date\"}", "\"0001-01-01\"  \"0400-02-29\"",
      "\"0000-01-01\"  \"0000-02-29\"  \"0100-02-29\"" },
    { "{\"type\":\"string\",\"format\":\"date\",\"pattern\":\"^2\"}", "\"2024-02-29\"",
      "\"1999-01-01\"  \"2023-02-29\"" },
    { "{\"type\":\"string\",\"format\":\"email\"}",
      "\"a@b\"  \"" A16 A16 A16 A16 "@b.c\"  \"" A16 A16 "." A16 "@b.c\"",
      "\"a@\"  \"@b\"  \"" A16 A16 A16 A16 "a@b.c\"  \"" A16 A16 A16 ".." A16 "@b.c\"" },
    /* lists as they were before 2020 */
    { "{\"items\":[{\"type\":\"null\"},{\"type\":\"boolean\"}],\"additionalItems\":{\"type\":"
      "\"integer\"},\"type\":\"array\"}",
      "[]  [null]  [null,true]  [null,true,1,2]", "[1]  [null,1]  [null,true,true]" },
    { "{\"items\":[{\"type\":\"null\"}],\"additionalItems\":false,\"type\":\"array\"}",
      "[]  [null]", "[null,1]" },
    { "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"},{\"type\":\"null\"}],\"minItems\":"
      "1,"
      "\"maxItems\":1}",
      "[null]", "[]  [null,null]" },
    { "{\"type\":\"array\",\"prefixItems\":[{}],\"items\":{\"type\":\"null\"},\"minItems\":2,"
      "\"maxItems\":3}",
      "[1,null]  [1,null,null]", "[1]  [1,1]  [1,null,null,null]" },
    { "{\"type\":\"array\",\"minItems\":3,\"maxItems\":2}", "",
      "[]  [1]" }, /* see matches_nothing */
    /* constants */
    { "{\"enum\":[1,2.50,\"a\\nb\",{\"y\":[1,{}],\"x\":null}]}",
      "1  1.0  2.5  2.500  \"a\\nb\"  \"a\\u000Ab\"  {\"y\": [1, {}],\"x\":null}",
      "2  \"a\"  {\"x\":null,\"y\":[1,{}]}  1e0" },
    { "{\"type\":\"integer\",\"enum\":[1,1.5,2.0,\"a\"]}", "1  2", "1.0  1.5  \"a\"" },
    { "{\"const\":5,\"minimum\":3}", "5", "3" },
    { "{\"enum\":[1,5,\"abc\",\"a\"],\"minimum\":3,\"minLength\":2}", "5  \"abc\"", "1  \"a\"" },
    { "{\"enum\":[{\"a\":1},{\"a\":2},{\"b\":1},[1],[1,2]],\"properties\":{\"a\":{\"maximum\":1}},"
      "\"additionalProperties\":false,\"minItems\":2}",
      "{\"a\":1}  [1,2]", "{\"a\":2}  {\"b\":1}  [1]" },
    { "{\"const\":1e300}", "1e+300", "1" },
    /* objects */
    { "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"additionalProperties\":"
      "false,"
      "\"minProperties\":2,\"maxProperties\":2}",
      "{\"a\":1,\"b\":1}  {\"a\":1,\"c\":1}  {\"b\":1,\"c\":1}",
      "{}  {\"a\":1}  {\"a\":1,\"b\":1,\"c\":1}" },
    { "{\"type\":\"object\",\"properties\":{\"a\":{}},\"maxProperties\":2}",
      "{}  {\"x\":1,\"y\":2}  {\"a\":1,\"x\":2}",
      "{\"a\":1,\"x\":2,\"y\":3}  {\"x\":1,\"y\":2,\"z\":3}" },
    { "{\"type\":\"object\",\"maxProperties\":0}", "{}", "{\"a\":1}" },
    { "{\"type\":\"object\",\"properties\":{\"a\":false},\"minProperties\":1}", "{\"b\":1}",
      "{}  {\"a\":1}" },
    { "{\"type\":\"object\",\"patternProperties\":{\"^s\":{\"type\":\"string\"},\"n$\":{"
      "\"minLength\":2}"
      "},\"additionalProperties\":{\"type\":\"null\"},\"properties\":{\"sn\":{\"maxLength\":3}}}",
      "{\"sn\":\"abc\"}  {\"sx\":\"\"}  {\"n\":1}  {\"son\":\"ab\"}  {\"x\":null}",
      "{\"sn\":\"a\"}  {\"sn\":\"abcd\"}  {\"sx\":1}  {\"n\":\"a\"}  {\"son\":\"a\"}  {\"x\":1}" },
    /* keys that a text may spell in two ways are still the same key */
    { "{\"type\":\"object\",\"properties\":{\"a\\nb\":{\"type\":\"null\"}}}",
      "{\"a\\nb\":null}  {\"a\\u000ab\":null}",
      "{\"a\\u000ab\":1}  {\"a\\nb\":null,\"a\\u000ab\":null}" },
    /* references */
    { "{\"$ref\":\"#/a~1b/%41/~0\",\"a/b\":{\"A\":{\"~\":{\"type\":\"null\"}}}}", "null", "1" },
    { "{\"$ref\":\"#/prefixItems/1\",\"prefixItems\":[{},{\"type\":\"null\"}]}", "null", "[]" },
    { "{\"type\":\"array\",\"prefixItems\":[true,false,true]}", "[]  [1]", "[1,2]  [1,2,3]" },
    { "{\"type\":\"array\",\"prefixItems\":[{\"items\":false},true]}", "[1]  [[],2]", "[[1]]" },
    { "{\"definitions\":{\"n\":{\"type\":[\"object\",\"null\"],\"properties\":{\"n\":{\"$ref\":"
      "\"#/definitions/n\"}},\"additionalProperties\":false}},\"$ref\":\"#/definitions/n\"}",
      "null  {}  {\"n\":{\"n\":{\"n\":null}}}", "1  {\"n\":1}  {\"m\":null}" },
    { "{\"$defs\":{\"a\":{\"type\":\"integer\"}},\"$ref\":\"#/$defs/a\",\"minimum\":5}", "5",
      "4  \"a\"" },
    /* choices */
    { "{\"oneOf\":[{\"type\":\"integer\",\"maximum\":3},{\"type\":\"number\",\"minimum\":4}]}",
      "3  4  4.5", "3.5" },
    { "{\"oneOf\":[{\"type\":\"string\",\"format\":\"ipv4\"},{\"type\":\"string\",\"format\":"
      "\"uuid\"}]}",
      "\"1.2.3.4\"", "\"1.2.3\"" },
    { "{\"oneOf\":[{\"type\":\"array\",\"maxItems\":1},{\"type\":\"array\",\"minItems\":2}]}",
      "[]  [1,2]", "1" },
    { "{\"type\":\"object\",\"properties\":{\"t\":{\"type\":\"string\"}},\"required\":[\"t\"],"
      "\"oneOf\":["
      "{\"properties\":{\"t\":{\"const\":\"a\"},\"v\":{\"type\":\"null\"}}},{\"properties\":{\"t\":"
      "{"
      "\"enum\":[\"b\",\"c\"]}}}]}",
      "{\"t\":\"a\",\"v\":null}  {\"t\":\"b\",\"v\":1}", "{\"t\":\"a\",\"v\":1}  {\"t\":\"d\"}" },
    { "{\"oneOf\":[{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{}},"
      "\"additionalProperties\":false},{\"type\":\"object\",\"required\":[\"b\"]}]}",
      "{\"a\":1}  {\"b\":1}", "{}" },
    { "{\"anyOf\":[{\"minimum\":5},{\"maxLength\":2}],\"type\":[\"integer\",\"string\"]}",
      "5  4  \"abc\"", "null" }, /* minimum is for numbers only */
    { "{\"allOf\":[{\"anyOf\":[{\"const\":1},{\"const\":2}]},{\"anyOf\":[{\"const\":2},{\"const\":"
      "3}]}]}",
      "2", "1  3" },
    { "{\"allOf\":[{\"minimum\":-1.5},{\"minimum\":-1.25},{\"minimum\":-2},{\"maximum\":3},{"
      "\"exclusiveMaximum\":3},{\"maximum\":12.75}],\"type\":\"number\"}",
      "-1.25  2.9  0", "-1.3  3  12" },
    { "{\"allOf\":[{\"minimum\":0},{\"exclusiveMinimum\":-0.0},{\"minimum\":0.0}],\"type\":"
      "\"integer\"}",
      "1", "0  -1" },
    { "{\"allOf\":[{\"maximum\":1e50},{\"maximum\":2e50},{\"maximum\":12.5},{\"maximum\":12.25},{"
      "\"maximum\":12.255}],\"type\":\"number\"}",
      "12.25", "12.26" },
    { "{\"type\":\"number\",\"minimum\":100000000000000000000,\"maximum\":1e30}",
      "100000000000000000000  500000000000000000000000000000", "1  99999999999999999999" },
    { "{\"enum\":[-1.5,0,-0.0,1e-30,123456789012345678,0.001]}",
      "-1.5  0  0.0  1e-30  123456789012345678  0.001  0.0010", "-0  1.5  123456789012345679" },
    { "{\"allOf\":[{\"enum\":[[1,2],[1],{\"a\":1},{\"a\":2},{\"a\":1,\"b\":2},\"x\",true,null,[[]]]"
      "},{\"enum\":[[1.0,2],{\"a\":1.0},{\"c\":1},[3,4],{\"a\":1,\"c\":2},\"y\",true,[{}]]}]}",
      "[1,2]  {\"a\":1}  true", "[1]  {\"a\":2}  \"x\"  \"y\"  null  [[]]  [3,4]" },
    { "{\"enum\":[{\"a\":1},{\"b\":1},{\"a\":[1,2]}],\"required\":[\"a\"],\"properties\":{\"a\":{"
      "\"anyOf\":[{\"type\":\"integer\"},{\"minItems\":3}]}}}",
      "{\"a\":1}", "{\"b\":1}  {\"a\":[1,2]}" },
    { "{\"enum\":[1,2,3,\"a\"],\"oneOf\":[{\"minimum\":2},{\"maximum\":1}]}", "1  2  3", "\"a\"" },
    { "{\"oneOf\":[{\"required\":[\"a\",\"b\"],\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{"
      "\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"],\"type\":\"object\"}}},{"
      "\"required\":[\"b\"],\"type\":\"object\",\"properties\":{\"b\":{\"properties\":{\"k\":{"
      "\"type\":\"string\"}},\"required\":[\"k\"],\"type\":\"object\"}}}]}",
      "{\"a\":0,\"b\":{\"k\":1}}  {\"b\":{\"k\":\"x\"}}", "{\"b\":{\"k\":1}}" },
    { "{\"oneOf\":[{\"type\":\"integer\"},{\"enum\":[\"a\",null,1.5]}]}", "1  \"a\"  null  1.5",
      "\"b\"" },
    { "{\"oneOf\":[{\"type\":\"array\",\"minItems\":2},{\"type\":\"array\",\"maxItems\":1},{"
      "\"type\":\"integer\",\"minimum\":5},{\"type\":\"integer\",\"maximum\":4}]}",
      "[]  [1,2]  4  5", "4.5" },
    { "{\"enum\":[1e-300,0.12345678901234568,12.5,1e22]}",
      "1e-300  0.12345678901234568  12.5  12.50  1e+22", "1e-301  12" },
    { "{\"oneOf\":[{\"type\":[\"object\",\"null\"],\"required\":[\"a\"]},{\"type\":\"object\","
      "\"properties\":{\"a\":false}},{\"type\":\"boolean\"}]}",
      "true  {\"a\":1}  {\"b\":1}  null", "" },
    { " true ", "1  {}", "" },
};

static void fixed_readings(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++)
        if (readings[i].good[0])
            check(readings[i].schema, NULL, readings[i].good, readings[i].bad);
}

static void indent(void **state)
{
    (void)state;
    static const char *const good[] = { "{\n        \"a\": 1,\n\"b\": [\n 1,\n 2\n]\n}", "[1, 2]",
                                        "{}" };
    static const char *const bad[] = { "{\n         \"a\": 1}", "{\n\n\"a\": 1}", "[\n]",
                                       "{\"a\":\n1}",           "[1 ,2]",         "[1,  2]" };
    const schema_options o = { .indent = true };
    judge j;
    judge_open(&j, "{}", &o);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_that(accepts(&j, good[i]), "refuses %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_that(!accepts(&j, bad[i]), "accepts %s", bad[i]);
    judge_close(&j);
    check("{\"const\":[1,2]}", &o, "[\n 1,\n 2\n]  [1,2]", "[ 1,2]");
}

/* ---- what is refused -------------------------------------------------------------------------------------- */

static const struct {
    const char *schema;
    weft_status code;
    const char *says;
} refusals[] = {
    { "{\"properties\":{\"a/b\":{\"not\":{}}}}", WEFT_EUNSUPPORTED,
      "/properties/a~1b/not: not supp" },
    { "{\"items\":{\"if\":{}}}", WEFT_EUNSUPPORTED, "/items/if:" },
    { "{\"dependencies\":{}}", WEFT_EUNSUPPORTED, "/dependencies:" },
    { "{\"dependentRequired\":{}}", WEFT_EUNSUPPORTED, "/dependentRequired:" },
    { "{\"dependentSchemas\":{}}", WEFT_EUNSUPPORTED, "/dependentSchemas:" },
    { "{\"prefixItems\":[{},{\"uniqueItems\":true}]}", WEFT_EUNSUPPORTED,
      "/prefixItems/1/uniqueItems" },
    { "{\"contains\":{}}", WEFT_EUNSUPPORTED, "/contains:" },
    { "{\"unevaluatedProperties\":false}", WEFT_EUNSUPPORTED, "/unevaluatedProperties:" },
    { "{\"unevaluatedItems\":false}", WEFT_EUNSUPPORTED, "/unevaluatedItems:" },
    { "{\"propertyNames\":{}}", WEFT_EUNSUPPORTED, "/propertyNames:" },
    { "{\"$ref\":\"http://x/y\"}", WEFT_EUNSUPPORTED,
      "/$ref: \"http://x/y\" is not in this schema" },
    { "{\"$ref\":\"#name\"}", WEFT_EUNSUPPORTED, "/$ref:" },
    { "{\"format\":\"iri\"}", WEFT_EUNSUPPORTED, "/format: format \"iri\" is not supported" },
    { "{\"pattern\":\"a(?=b)\"}", WEFT_EUNSUPPORTED, "/pattern: pattern: byte 1, \"(?=b)\"" },
    { "{\"patternProperties\":{\"\\\\b\":{}}}", WEFT_EUNSUPPORTED, "/patternProperties: pattern" },
    { "{\"oneOf\":[{\"type\":\"string\"},{\"minLength\":1}]}", WEFT_EUNSUPPORTED, "/oneOf: two" },
    { "{\"oneOf\":[{\"type\":\"number\"},{\"type\":\"integer\"}]}", WEFT_EUNSUPPORTED,
      "/oneOf: two" },
    { "{\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}", WEFT_EUNSUPPORTED,
      "/oneOf: two" },
    { "{\"minProperties\":2}", WEFT_EUNSUPPORTED, "/minProperties: more than one unnamed" },
    { "{\"minimum\":1e-300}", WEFT_EUNSUPPORTED, "/minimum: more than 40 decimals" },
    { "{\"multipleOf\":12345678901}", WEFT_EUNSUPPORTED, "/multipleOf:" },
    { "{\"$ref\":\"#/x\"}", WEFT_EFORMAT, "/$ref: \"#/x\" names no schema" },
    { "{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"allOf\":[{\"$ref\":\"#/$defs/a\"}]}}}",
      WEFT_EFORMAT, "/$defs/a/allOf/0/$ref: it leads to itself" },
    { "{\"$ref\":1}", WEFT_EFORMAT, "/$ref: expected a string" },
    { "{\"type\":\"any\"}", WEFT_EFORMAT, "/type: expected null" },
    { "{\"type\":[1]}", WEFT_EFORMAT, "/type:" },
    { "{\"enum\":1}", WEFT_EFORMAT, "/enum:" },
    { "{\"required\":true}", WEFT_EFORMAT, "/required:" },
    { "{\"required\":[1]}", WEFT_EFORMAT, "/required:" },
    { "{\"required\":[\"a\\u0000\"]}", WEFT_EFORMAT, "/required:" },
    { "{\"properties\":[]}", WEFT_EFORMAT, "/properties: expected an object" },
    { "{\"properties\":{\"a\":1}}", WEFT_EFORMAT, "a schema is an object" },
    { "{\"patternProperties\":1}", WEFT_EFORMAT, "/patternProperties:" },
    { "{\"prefixItems\":1}", WEFT_EFORMAT, "/prefixItems:" },
    { "{\"minLength\":-1}", WEFT_EFORMAT, "/minLength:" },
    { "{\"maxItems\":1.5}", WEFT_EFORMAT, "/maxItems:" },
    { "{\"maxProperties\":\"1\"}", WEFT_EFORMAT, "/maxProperties:" },
    { "{\"maximum\":\"1\"}", WEFT_EFORMAT, "/maximum: expected a number" },
    { "{\"exclusiveMinimum\":\"1\"}", WEFT_EFORMAT, "/exclusiveMinimum: expected a number" },
    { "{\"multipleOf\":0}", WEFT_EFORMAT, "/multipleOf: expected a number above 0" },
    { "{\"multipleOf\":-3}", WEFT_EFORMAT, "/multipleOf: expected a number above 0" },
    { "{\"pattern\":1}", WEFT_EFORMAT, "/pattern: expected a string" },
    { "{\"pattern\":\"(\"}", WEFT_EFORMAT, "/pattern: pattern: byte 0" },
    { "{\"format\":1}", WEFT_EFORMAT, "/format: expected a string" },
    { "{\"allOf\":[]}", WEFT_EFORMAT, "/allOf: expected a list" },
    { "{\"anyOf\":{}}", WEFT_EFORMAT, "/anyOf: expected a list" },
    { "{\"oneOf\":[1]}", WEFT_EFORMAT, "a schema is an object" },
    { "{\"minItems\":1e30}", WEFT_ELIMIT, "/minItems: too large" },
    { "{\"oneOf\":[{\"type\":\"array\"},{\"type\":\"array\",\"minItems\":1}]}", WEFT_EUNSUPPORTED,
      "/oneOf: two" },
    { "{\"oneOf\":[{\"type\":\"array\",\"maxItems\":1.5},{\"type\":\"array\"}]}", WEFT_EFORMAT,
      "/maxItems" },
    { "{\"oneOf\":[{\"enum\":3},{\"const\":1}]}", WEFT_EFORMAT, "/oneOf/0/enum" },
    { "{\"oneOf\":[{\"type\":\"string\"},{\"enum\":3}]}", WEFT_EFORMAT, "/oneOf/1/enum" },
    { "{\"oneOf\":[{\"type\":\"widget\"},{}]}", WEFT_EFORMAT, "/oneOf/0/type" },
    { "{\"oneOf\":[{},{\"type\":\"widget\"}]}", WEFT_EFORMAT, "/oneOf/1/type" },
    { "{\"oneOf\":[{\"type\":\"string\",\"pattern\":\"(\"},{\"type\":\"string\"}]}", WEFT_EFORMAT,
      "/oneOf/0/pattern" },
    { "{\"oneOf\":[{\"type\":\"null\"},{\"type\":\"null\"}]}", WEFT_EUNSUPPORTED, "/oneOf: two" },
    { "{\"oneOf\":[{\"const\":1},{\"const\":1.0}]}", WEFT_EINVAL, "no text" },
    { "{\"oneOf\":[{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":"
      "\"string\"}}},{\"type\":\"object\",\"required\":[\"a\"]}]}",
      WEFT_EUNSUPPORTED, "/oneOf: two" },
    { "{\"oneOf\":[{\"type\":\"object\",\"required\":[\"a\"],\"patternProperties\":{\"(\":{}}},{"
      "\"type\":\"object\"}]}",
      WEFT_EFORMAT, "/oneOf/0/patternProperties" },
    { "{\"const\":1,\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"string\"}],\"oneOf\":[{\"not\":{}},{"
      "\"type\":\"null\"}]}",
      WEFT_EUNSUPPORTED, "/oneOf/0/not" },
    { "{\"oneOf\":[{\"const\":1,\"anyOf\":[{\"$ref\":\"#/oneOf/"
      "0\"}]},{\"type\":\"null\"},{\"type\":\"integer\"}]}",
      WEFT_ELIMIT, "too deep" },
    { "{\"const\":[1],\"items\":{\"type\":\"x\"}}", WEFT_EFORMAT, "/items/type" },
    { "{\"const\":[1],\"minItems\":\"x\"}", WEFT_EFORMAT, "/minItems" },
    { "{\"const\":{\"a\":1},\"maxProperties\":\"x\"}", WEFT_EFORMAT, "/maxProperties" },
    { "{\"const\":{\"a\":1},\"properties\":{\"a\":{\"minimum\":\"x\"}}}", WEFT_EFORMAT,
      "/properties/a/minimum" },
    { "{\"$ref\":\"#/prefixItems/x\",\"prefixItems\":[{}]}", WEFT_EFORMAT, "names no schema" },
    { "{\"$ref\":\"#/prefixItems/12345678\",\"prefixItems\":[{}]}", WEFT_EFORMAT,
      "names no schema" },
    { "{\"$ref\":\"#/prefixItems/1:\",\"prefixItems\":[{}]}", WEFT_EFORMAT, "names no schema" },
    { "{\"$ref\":\"#/title/x\",\"title\":\"y\"}", WEFT_EFORMAT, "names no schema" },
    { "{\"$ref\":\"#/prefixItems/\",\"prefixItems\":[{}]}", WEFT_EFORMAT, "names no schema" },
    { "{\"$ref\":\"#/~2%zz%4x\",\"a\":1}", WEFT_EFORMAT, "names no schema" },
    { "{\"$ref\":\"#/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}",
      WEFT_EFORMAT, "names no schema" },
    { "{\"properties\":{\"~\":{\"not\":{}}}}", WEFT_EUNSUPPORTED, "/properties/~0/not" },
    { "{\"properties\":{\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
      "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
      "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
      "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\" "
      ":{\"not\":{}}}}",
      WEFT_EUNSUPPORTED, "/properties/bbb" },
    { "{\"properties\":{"
      "\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
      "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
      "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb/~\":{\"not\":{}}}}",
      WEFT_EUNSUPPORTED, "/properties/bbb" },
    { "[]", WEFT_EFORMAT, "schema: JSON is not an object" },
    { "{", WEFT_EFORMAT, "schema: line 1" },
    { "{\"a\":1,\"a\":2}", WEFT_EFORMAT, "schema: line 1" },
};

static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        mem m;
        weft_error err = { 0 };
        mem_init(&m, (size_t)64 << 20, NULL);
        const char *schema = refusals[i].schema;
        grammar *g = schema_read(&m, schema, strlen(schema), NULL, NULL, &err);
        assert_that(!g && err.code == refusals[i].code && strstr(err.message, refusals[i].says),
                    "%s: code %d, %s", schema, (int)err.code, err.message);
        assert_int_equal(m.used, 0);
    }
}

static void matches_nothing(void **state)
{
    (void)state;
    static const char *const never[] = {
        "false",
        "{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}",
        "{\"type\":\"array\",\"minItems\":3,\"maxItems\":2}",
        "{\"type\":\"object\",\"required\":[\"a\"],\"additionalProperties\":false}",
        "{\"type\":\"string\",\"pattern\":\"^a\",\"allOf\":[{\"pattern\":\"^b\"}]}",
        "{\"enum\":[1],\"type\":\"string\"}",
        "{\"enum\":[]}",
        "{\"type\":\"array\",\"minItems\":1,\"items\":{\"$ref\":\"#\"}}",
    };
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        mem m;
        weft_error err = { 0 };
        mem_init(&m, 0, NULL);
        assert_null(schema_read(&m, never[i], strlen(never[i]), NULL, NULL, &err));
        assert_that(err.code != WEFT_OK && strstr(err.message, "no text"), "%s: %s", never[i],
                    err.message);
        assert_int_equal(m.used, 0);
    }
}

/* ---- options --------------------------------------------------------------------------------------------------- */

static void note(void *user, const char *pointer, const char *keyword)
{
    char *names = user;
    (void)keyword;
    strcat(strcat(names, pointer), " ");
}

static void lenient(void **state)
{
    (void)state;
    char names[256] = "";
    const schema_options o = { .lenient = true, .ignored = note, .user = names };
    check("{\"properties\":{\"a\":{\"not\":{},\"type\":\"null\"}},\"uniqueItems\":true,\"format\":"
          "\"x\","
          "\"pattern\":\"(?=a)\",\"oneOf\":[{},{\"type\":[\"null\",\"object\"]}]}",
          &o, "null  {\"a\":null}  [1,1]  \"b\"", "{\"a\":1}");
    assert_non_null(strstr(names, "/uniqueItems "));
    assert_non_null(strstr(names, "/properties/a/not "));
    assert_non_null(strstr(names, "/format "));
    assert_non_null(strstr(names, "/pattern "));
    assert_non_null(strstr(names, "/oneOf "));
}

static void openai(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *says;
    } cases[] = {
        { "{\"type\":\"object\",\"properties\":{\"a\":{}},\"required\":[\"a\"],"
          "\"additionalProperties\":false}",
          NULL },
        { "{\"type\":\"object\",\"properties\":{\"a\":{}},\"required\":[\"a\"]}",
          "/additionalProperties: must be false" },
        { "{\"type\":\"object\",\"properties\":{\"a\":{}},\"additionalProperties\":false}",
          "/required: \"a\" must be in it" },
    };
    const schema_options o = { .openai_strict = true };
    for (size_t i = 0; i < 3; i++) {
        mem m;
        weft_error err = { 0 };
        mem_init(&m, 0, NULL);
        grammar *g = schema_read(&m, cases[i].schema, strlen(cases[i].schema), &o, NULL, &err);
        assert_that(cases[i].says ? !g && strstr(err.message, cases[i].says) : g != NULL, "%s: %s",
                    cases[i].schema, err.message);
        grammar_free(g);
    }
}

/* Two schemas in one grammar, as for the calls of two tools. */
static void inside_a_grammar(void **state)
{
    (void)state;
    judge j;
    weft_error err = { 0 };
    mem_init(&j.mem, 0, NULL);
    j.grammar = grammar_new(&j.mem, NULL, &err);
    rx_pool *p = grammar_pool(j.grammar);
    static const char *const schemas[] = { "{\"type\":\"integer\"}", "{\"type\":\"boolean\"}" };
    const symbol call = grammar_rule(j.grammar, "call");
    for (int i = 0; i < 2; i++) {
        const char name[] = { (char)('f' + i), '(' };
        const symbol right[] = { grammar_lexeme(j.grammar, rx_literal(p, name, 2)),
                                 schema_add(j.grammar, schemas[i], strlen(schemas[i]), NULL, &err),
                                 grammar_lexeme(j.grammar, rx_literal(p, ")", 1)) };
        grammar_add(j.grammar, call, right, 3);
    }
    assert_int_equal(schema_add(j.grammar, "{\"not\":1}", 9, NULL, &err), NO_SYMBOL);
    assert_int_equal(err.code, WEFT_EUNSUPPORTED);
    err = (weft_error){ 0 };
    assert_int_equal(grammar_finish(j.grammar, call, &err), WEFT_OK);
    assert_int_equal(rows_init(&j.rows, &j.mem, j.grammar, &err), WEFT_OK);
    check_texts(&j, "calls", "f(12)  g(true)", true);
    check_texts(&j, "calls", "f(true)  g(12)  12", false);
    judge_close(&j);
}

/* ---- hostile schemas --------------------------------------------------------------------------------------------- */

static void prefixes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++)
        for (size_t n = 0; n < strlen(readings[i].schema); n++) {
            mem m;
            weft_error err = { 0 };
            char *copy = malloc(n + 1);
            memcpy(copy, readings[i].schema, n);
            mem_init(&m, (size_t)64 << 20, NULL);
            grammar *g = schema_read(&m, copy, n, NULL, NULL, &err);
            assert_that(g || err.message[0], "refused without a sentence");
            grammar_free(g);
            free(copy);
            assert_int_equal(m.used, 0);
        }
}

/* head, `times` times unit with its number, tail */
static void bomb(const char *what, const char *head, const char *unit, int times, const char *tail)
{
    const size_t room = strlen(head) + strlen(tail) + (size_t)times * (strlen(unit) + 16) + 1;
    char *text = malloc(room);
    size_t n = (size_t)snprintf(text, room, "%s", head);
    for (int i = 0; i < times; i++)
        for (const char *c = unit; *c; c++)
            n += (size_t)snprintf(text + n, room - n, *c == '@' ? "%d" : "%c", *c == '@' ? i : *c);
    n += (size_t)snprintf(text + n, room - n, "%s", tail);
    double seconds = 1e9;
    for (int try = 0; try < TRIES && seconds >= PATIENCE; try++) {
        mem m;
        weft_error err = { 0 };
        mem_init(&m, (size_t)64 << 20, NULL);
        const double begin = clock_thread_seconds();
        grammar *g = schema_read(&m, text, n, NULL, NULL, &err);
        seconds = fmin(seconds, clock_thread_seconds() - begin);
        assert_that(m.peak < (size_t)64 << 20, "%s: %zu bytes", what, m.peak);
        assert_that(g || err.message[0], "%s: refused without a sentence", what);
        grammar_free(g);
        assert_int_equal(m.used, 0);
    }
    assert_that(seconds < PATIENCE, "%s: %.3f s", what, seconds);
    free(text);
}

static void bombs(void **state)
{
    (void)state;
    bomb("enum", "{\"enum\":[", "\"word @\",", 4000, "0]}");
    bomb("numbers", "{\"enum\":[", "@,", 9000, "0]}");
    bomb("enum with a pattern", "{\"pattern\":\"^(a|b)+$\",\"enum\":[", "\"word @\",", 4000, "0]}");
    bomb("enums", "{\"allOf\":[", "{\"enum\":[1,2,3,@]},", 3000, "{}]}");
    bomb("optional properties", "{\"additionalProperties\":false,\"properties\":{", "\"p@\":{},",
         5000, "\"z\":{}}}");
    bomb("counted properties", "{\"maxProperties\":900,\"properties\":{", "\"p@\":{},", 4000,
         "\"z\":{}}}");
    bomb("choices", "{\"allOf\":[", "{\"anyOf\":[{\"minimum\":@},{\"maximum\":@}]},", 900, "{}]}");
    bomb("exclusive choices", "{\"oneOf\":[", "{\"const\":@},", 4000, "{}]}");
    bomb("exclusive objects", "{\"oneOf\":[",
         "{\"properties\":{\"k\":{\"const\":@}},\"required\":[\"k\"]},", 900,
         "{\"type\":\"null\"}]}");
    bomb("patterns", "{\"patternProperties\":{", "\"^(a|b){1,@}$\":{},", 3000, "\"z\":{}}}");
    bomb("counts", "{\"allOf\":[", "{\"pattern\":\"(a|ab|b){1,@000}c\"},", 400, "{}]}");
    bomb("lengths", "{\"maxLength\":1000000,\"minLength\":999999,\"allOf\":[",
         "{\"pattern\":\"x{@}\"},", 30, "{}]}");
    bomb("items", "{\"minItems\":1000000,\"items\":", "", 0, "{\"type\":\"null\"}}");
    bomb("references", "{\"$defs\":{", "\"d@\":{\"$ref\":\"#/$defs/d@0\"},", 1500,
         "\"z\":{}},\"$ref\":\"#/$defs/d1\"}");
    bomb("a long chain", "{\"$defs\":{",
         "\"d@\":{\"properties\":{\"a@\":{\"$ref\":\"#/$defs/d@\"}}},", 800,
         "\"z\":{}},\"$ref\":\"#/$defs/d1\"}");
    bomb("steps", "{\"allOf\":[", "{\"multipleOf\":9999@},", 7, "{\"minimum\":1}]}");
    bomb("parentheses", "{\"pattern\":\"", "(", 60000, "\"}");
    bomb("depth", "", "{\"items\":", 60,
         "{}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}");
    bomb("too long", "{\"enum\":[", "\"word @\",", 9000, "0]}");
}

/* A list of n places, each with a schema of its own. */
static grammar *read_places(int n, const char *one, mem *m, weft_error *err)
{
    const grammar_limits limits = { .text = (size_t)1 << 20, .symbols = 1000000 };
    const size_t room = 64 + (size_t)n * (strlen(one) + 1);
    char *text = malloc(room);
    assert_non_null(text);
    size_t at = (size_t)snprintf(text, room, "{\"type\":\"array\",\"prefixItems\":[");
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%s", i ? "," : "", one);
    at += (size_t)snprintf(text + at, room - at, "]}");
    mem_init(m, 0, NULL);
    grammar *g = schema_read(m, text, at, NULL, &limits, err);
    free(text);
    return g;
}

static void places(void **state)
{
    (void)state;
    mem m;
    weft_error err = { 0 };
    grammar *g = read_places(19998, "{\"type\":\"null\"}", &m, &err); /* and two of the list */
    assert_that(g != NULL, "%s", err.message);
    grammar_free(g);
    assert_null(read_places(19999, "{\"type\":\"null\"}", &m, &err));
    assert_int_equal(err.code, WEFT_ELIMIT);
    assert_string_equal(err.message, "schema: the root: more than 20000 places; simplify it");
    assert_int_equal(m.used, 0);
    assert_null(read_places(20000, "{}", &m, &err)); /* small texts, large trees */
    assert_string_equal(err.message,
                        "schema: 60032 bytes of JSON would take 4640744 bytes of memory; the limit "
                        "is 32 per byte of the file plus 65536");
}

static void no_memory(void **state)
{
    (void)state;
    static const char schema[] =
        "{\"$defs\":{\"t\":{\"enum\":[1,\"a\",[2],{\"x\":3}]}},\"type\":\"object\",\"properties\":{"
        "\"a\":{\"$"
        "ref\":"
        "\"#/$defs/t\"},\"b\":{\"type\":\"array\",\"items\":{\"type\":\"number\",\"minimum\":1.5},"
        "\"maxItems\":3},\"c\":{\"oneOf\":[{\"type\":\"string\",\"pattern\":\"^a\"},{\"const\":"
        "null}]}},"
        "\"patternProperties\":{\"^x\":{\"format\":\"date\"}}}";
    bool failed = true;
    int k = 1;
    for (; failed; k++) {
        host h;
        faults f = { .fail_at = k };
        weft_error err = { 0 };
        host_faulty(&h, &f, NULL);
        grammar *g = schema_read(&h.mem, schema, strlen(schema), NULL, NULL, &err);
        failed = !g;
        assert_that(!failed || err.code == WEFT_ENOMEM, "allocation %d: code %d: %s", k,
                    (int)err.code, err.message);
        grammar_free(g);
        assert_int_equal(h.mem.used, 0);
    }
    assert_in_range(k, 30, 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("schema: made-up ones accept what python-jsonschema accepts", like_jsonschema),
        TEST("schema: texts are written as the readings say", fixed_readings),
        TEST("schema: with indent, lines and up to eight blanks", indent),
        TEST("schema: what is refused is named with its pointer", refused),
        TEST("schema: one that nothing obeys is refused", matches_nothing),
        TEST("schema: lenient, unsupported keywords are listed", lenient),
        TEST("schema: OpenAI's strict demands closed objects", openai),
        TEST("schema: two inside one grammar", inside_a_grammar),
        TEST("schema: every beginning is read or refused", prefixes),
        TEST("schema: bombs end quickly and small", bombs),
        TEST("schema: the number of places is limited", places),
        TEST("schema: every failed allocation is reported", no_memory),
    };
    return RUN(tests);
}
