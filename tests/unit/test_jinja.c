/* The interpreter of chat templates: origins of bytes, what is refused and where, limits, faults. That
 * it computes what jinja2 computes is in test_templates.c. */
#include "base/clock.h"
#include "support.h"
#include "text/jinja/jinja.h"

#include <pthread.h>

/* A rendering, and what it used. */
typedef struct result {
    char *text; /* malloc'ed; NULL if it failed */
    size_t n;
    char runs[512];   /* "end:origin end:origin ..." */
    char blocks[128]; /* "begin-end ..." */
    weft_error err;
    size_t peak;
    double seconds;
} result;

/* The input of most tests: user "Hi & <b>" has origin 1, who "Ann" origin 2, text "a b\nc" origin
 * 3. */
static void set_input(jinja_input *in)
{
    jinja_put_text(in, "Hi & <b>", 8, 1);
    assert_int_equal(jinja_set(in, "user", NULL), WEFT_OK);
    jinja_put_text(in, "Ann", 3, 2);
    assert_int_equal(jinja_set(in, "who", NULL), WEFT_OK);
    jinja_put_text(in, "a b\nc", 5, 3);
    assert_int_equal(jinja_set(in, "text", NULL), WEFT_OK);
    jinja_begin_dict(in);
    jinja_put_key(in, "k", 1, 4);
    jinja_put_text(in, "v\"\n", 3, 5);
    jinja_put_key(in, "list", 4, 0);
    jinja_begin_list(in);
    jinja_put_int(in, 1);
    jinja_put_float(in, 2.5);
    jinja_put_bool(in, true);
    jinja_put_null(in);
    jinja_put_text(in, "x", 1, 6);
    jinja_end(in);
    jinja_end(in);
    assert_int_equal(jinja_set(in, "d", NULL), WEFT_OK);
}

static void describe(result *x, const jinja_output *out)
{
    size_t at = 0, end = 0;
    for (size_t i = 0; i < out->n_run; i++) {
        assert_true(out->run[i].begin == end && out->run[i].end > end);
        end = out->run[i].end;
        at += (size_t)snprintf(x->runs + at, at < 400 ? 100 : 0, "%s%zu:%u", i ? " " : "", end,
                               out->run[i].origin);
        at = at < 400 ? at : 400;
    }
    assert_int_equal(end, out->n);
    assert_int_equal(out->text[out->n], 0);
    at = 0;
    for (size_t i = 0; i < out->n_generated && at < 100; i++)
        at += (size_t)snprintf(x->blocks + at, 28, "%s%zu-%zu", i ? " " : "",
                               out->generated[i].begin, out->generated[i].end);
}

static result render_n(const char *source, size_t n)
{
    result x = { 0 };
    mem m;
    jinja_output out;
    mem_init(&m, 0, NULL);
    const double start = clock_thread_seconds();
    jinja_template *t = jinja_compile(source, n, "t", &m, &x.err);
    jinja_input *in = jinja_input_new(&m, NULL);
    set_input(in);
    if (t && jinja_render(t, in, NULL, &out, &x.err) == WEFT_OK) {
        describe(&x, &out);
        x.text = malloc(out.n + 1);
        memcpy(x.text, out.text, out.n + 1);
        x.n = out.n;
    }
    jinja_input_free(in);
    jinja_free(t);
    x.seconds = clock_thread_seconds() - start;
    x.peak = atomic_load(&m.peak);
    assert_int_equal(atomic_load(&m.used), 0);
    assert_true((x.text == NULL) == (x.err.code != WEFT_OK));
    return x;
}

static result render(const char *source)
{
    return render_n(source, strlen(source));
}

static void gives(const char *source, const char *text, const char *runs)
{
    result x = render(source);
    if (!x.text)
        fail_msg("%s: %s", source, x.err.message);
    assert_that(strcmp(x.text, text) == 0, "%s: %s, expected %s", source, x.text, text);
    if (runs)
        assert_that(strcmp(x.runs, runs) == 0, "%s: %s, expected %s", source, x.runs, runs);
    free(x.text);
}

static void fails(const char *source)
{
    result x = render(source);
    assert_that(!x.text, "%s: %s, expected an error", source, x.text);
    free(x.text);
}

static void refuses(const char *source, weft_status code, const char *sentence)
{
    result x = render(source);
    assert_that(!x.text && x.err.code == code && strstr(x.err.message, sentence),
                "%.60s: %s, expected %s", source, x.text ? x.text : x.err.message, sentence);
    free(x.text);
}

/* ---- origins --------------------------------------------------------------------------------- */

static void origins(void **state)
{
    (void)state;
    gives("plain", "plain", "5:0");
    gives("", "", "");
    gives("{{ user }}", "Hi & <b>", "8:1");
    gives("a{{ user }}b{{ who }}", "aHi & <b>bAnn", "1:0 9:1 10:0 13:2");
    gives("{{ who + user }}", "AnnHi & <b>", "3:2 11:1");
    gives("{{ who ~ 1 ~ who }}", "Ann1Ann", "3:2 4:0 7:2");
    gives("{{ (who ~ user)[1:5] }}", "nnHi", "2:2 4:1");
    gives("{{ (who ~ user)[::-1][6:] }}", "iHnnA", "2:1 5:2");
    gives("{{ (who ~ user)[2] }}{{ (who ~ user)[3] }}", "nH", "1:2 2:1");
    gives("{{ ('  ' ~ who ~ ' ')|trim }}", "Ann", "3:2");
    gives("{{ ('x' ~ who ~ user)[2:][1:][1:4] }}", "Hi ", "3:1");
    gives("{{ ('x' ~ who ~ user)[1:8][2:5] }}", "nHi", "1:2 3:1");
    gives("{{ ('x' ~ who ~ 'x').strip('x') }}", "Ann", "3:2");
    gives("{{ user.replace('&', 'and') }}", "Hi and <b>", "3:1 6:0 10:1");
    gives("{{ user|replace('Hi', who) }}", "Ann & <b>", "3:2 9:1");
    gives("{{ text.split(' ')|join('-') }}", "a-b\nc", "1:3 2:0 5:3");
    gives("{{ (text ~ who).split()[1] }}", "b", "1:3");
    gives("{{ who.join(['x', text]) }}", "xAnna b\nc", "1:0 4:2 9:3");
    gives("{{ who|upper }}{{ who.lower() }}", "ANNann", "6:2");
    gives("{{ user|e }}", "Hi &amp; &lt;b&gt;", "18:1");
    gives("{{ user|safe + who }}", "Hi & <b>Ann", "8:1 11:2");
    gives("{{ text|indent(2) }}", "a b\n  c", "4:3 6:0 7:3");
    gives("{{ '%s is %5s' % (who, 'x') }}", "Ann is     x", "3:2 12:0");
    gives("{{ '{}:{:>5}'.format(who, who) }}", "Ann:  Ann", "3:2 6:0 9:2");
    gives("{{ who * 2 }}{{ who|list }}", "AnnAnn['A', 'n', 'n']", NULL);
    gives("{{ d|tojson }}", "{\"k\": \"v\\\"\\n\", \"list\": [1, 2.5, true, null, \"x\"]}",
          "2:0 3:4 7:0 12:5 45:0 46:6 49:0");
    gives("{{ d }}", "{'k': 'v\"\\n', 'list': [1, 2.5, True, None, 'x']}",
          "2:0 3:4 7:0 11:5 44:0 45:6 48:0");
    gives("{{ d|tojson(indent=1)|length }}", "66", "2:0");
    gives("{% for c in who %}{{ c }}.{% endfor %}", "A.n.n.", "1:2 2:0 3:2 4:0 5:2 6:0");
    gives("{% set x %}<{{ who }}>{% endset %}{{ x }}{{ x|length }}", "<Ann>5", "1:0 4:2 6:0");
    gives("{% macro f(a) %}[{{ a }}]{% endmacro %}{{ f(who)|upper }}", "[ANN]", "1:0 4:2 5:0");
    gives("{% filter upper %}x{{ who }}{% endfilter %}", "XANN", "1:0 4:2");
    gives("{% set ns = namespace(s='') %}{% for i in [who, user] %}{% set ns.s = ns.s + i %}"
          "{% endfor %}{{ ns.s }}",
          "AnnHi & <b>", "3:2 11:1");
    gives("{{ text.splitlines()|last }}{{ text.partition(' ')[2] }}", "cb\nc", "4:3");
    gives("{{ who.center(7, '*') }}{{ who.zfill(5) }}", "**Ann**00Ann", "2:0 5:2 9:0 12:2");
    gives("{{ [who, user]|map('upper')|join }}", "ANNHI & <B>", "3:2 11:1");
    gives("{{ [who]|sort|first }}{{ {'a': who}|dictsort }}", "Ann[('a', 'Ann')]",
          "3:2 11:0 14:2 17:0");
    gives("{{ (who ~ text)|title }}{{ (who ~ user)|capitalize }}", "Anna B\nCAnnhi & <b>",
          "3:2 8:3 11:2 19:1");
}

static void generated(void **state)
{
    (void)state;
    static const char source[] = "a{% generation %}{{ who }}!{% endgeneration %}b"
                                 "{% generation %}{{ user }}{% endgeneration %}"
                                 "{% generation %}z{% endgeneration %}";
    result x = render(source);
    assert_string_equal(x.text, "aAnn!bHi & <b>z");
    assert_string_equal(x.runs, "1:0 4:2 6:0 14:1 15:0");
    assert_string_equal(x.blocks, "1-5 6-14 14-15");
    free(x.text);
    x = render(
        "{% set s %}x{% generation %}{{ who }}{% endgeneration %}y{% endset %}{{ s[1:3] }}{{ s }}");
    assert_string_equal(x.text, "AnxAnny");
    assert_string_equal(x.blocks, "0-2 3-6");
    free(x.text);
}

/* ---- details of Python that few templates reach ---------------------------------------------- */

static const struct {
    const char *source, *text;
} detail[] = {
    { "\n", "" },
    { "\n\n", "\n" },
    { "{{ 'a  b c'.split(none, 1) }}{{ ' a b  c '.rsplit(none, 1) }}",
      "['a', 'b c'][' a b', 'c']" },
    { "{{ 'a b c'.split(maxsplit=0) }}{{ 'a,b,c'.rsplit(',', 1) }}", "['a b c']['a,b', 'c']" },
    { "{{ 'ΑΣ\u0301 ΣΑ Σ'.lower() }}{{ 'ΑΣ'|lower }}", "ας\u0301 σα σας" },
    { "{{ '%.2s|%.1f|%5.1f|%-4d|%x|%o|%+d|% d|%e|%g' % ('abc', 0.25, 2.5, 3, 255, 8, 1, 2, "
      "12345.678, 0.0001) }}",
      "ab|0.2|  2.5|3   |ff|10|+1| 2|1.234568e+04|0.0001" },
    { "{{ '%(a)s-%(b)05d' % {'a': 1, 'b': -7} }}{{ '%s' % none }}{{ '%r' % 'x' }}{{ '%i%%' % "
      "3.9 }}",
      "1--0007None'x'3%" },
    { "{{ '{:.2f} {:>4} {:<4}| {:^5} {:+d} {:05d} {:,} {:x} {:b} {:.1%} {:e} {:o} "
      "{:X}'.format(1.005, 'a', 'b', 'c', 3, -42, "
      "1234567, 255, 5, 0.25, 1500.0, 8, 255) }}",
      "1.00    a b   |   c   +3 -0042 1,234,567 ff 101 25.0% 1.500000e+03 10 FF" },
    { "{{ '{0.x}{0[x]}{1[0]}{a!r:>5}{{}}'.format({'x': 1}, [2], a='q') }}", "112  'q'{}" },
    { "{{ '{:*^7}{:=+5d}{:.1}'.format('ab', 3, 'xyz') }}", "**ab***+   3x" },
    { "{{ {}.items() is sequence }}{{ {} is sequence }}{{ x is sequence }}{{ range(2) is "
      "sequence }}",
      "FalseTrueTrueTrue" },
    { "{{ 'ab'|center(7) }}|{{ 'ab'.center(5) }}|{{ 'abc'.center(6) }}|{{ '-5'.zfill(4) }}",
      "   ab  |  ab | abc  |-005" },
    { "{{ 'Ab1'.isalnum() }}{{ '1²'.isdigit() }}{{ '1½'.isnumeric() }}{{ '٣'.isdecimal() }}{{ "
      "'a\n'.isprintable() }}",
      "TrueTrueTrueTrueFalse" },
    { "{{ 'Hello World'.istitle() }}{{ 'HEllo'.istitle() }}{{ 'hello'.istitle() }}{{ ' "
      "\t'.isspace() }}",
      "TrueFalseFalseTrue" },
    { "{{ 'ǆ'.title() }}{{ 'ŉ'.upper() }}{{ 'ﬁ'|capitalize }}{{ 'ß'|upper }}{{ "
      "'İ'|lower|length }}{{ 'aB'.swapcase() }}",
      "ǅʼNFiSS2Ab" },
    { "{{ 'aXbXc'.rfind('X') }}{{ 'abc'.index('c') }}{{ 'aaa'.count('a', 1) }}{{ "
      "'aé'.find('é', -1) }}{{ 'abc'.find('c', 0, 2) }}{{ ''.count('') }}",
      "322"
      "1-11" },
    { "{{ 'abc'.startswith(('x', 'a')) }}{{ 'abc'.endswith('b', 0, 2) }}{{ "
      "'abc'.startswith('b', 1) }}{{ 'a'.startswith('a', 5) }}",
      "TrueTrueTrueFalse" },
    { "{{ 'a\r\nb\vc'.splitlines() }}{{ 'a\nb'.splitlines(true) }}{{ 'a-b-c'.rpartition('-') "
      "}}{{ 'x'.partition('-') }}",
      "['a', 'b', 'c']['a\\n', 'b']('a-b', '-', 'c')('x', '', '')" },
    { "{{ [1, 2]|tojson(separators=(',', ':')) }}{{ 'é😀\x7f'|tojson(true) }}{{ {'b': 1, 'a': "
      "2}|tojson(sort_keys=true) }}{{ [1]|tojson(indent='-') }}",
      "[1,2]\"\\u00e9\\ud83d\\ude00\\u007f\"{\"a\": 2, \"b\": 1}[\n-1\n]" },
    { "{{ ['\\x00\\x85\\u200b\\U000e0001', \"it's\", '\"\\''] }}",
      "['\\x00\\x85\\u200b\\U000e0001', \"it's\", '\"\\'']" },
    { "{{ 1e16 }} {{ 1e22 }} {{ 123456789012345680.0 }} {{ 1e-4 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} "
      "{{ -0.0 }} {{ 1e400 }} {{ 'nan'|float }}",
      "1e+16 1e+22 1.2345678901234568e+17 0.0001 1e-05 0.30000000000000004 -0.0 inf nan" },
    { "{{ 9007199254740993 / 3 }} {{ 7 / -2 }} {{ -7 // 2.0 }} {{ 7.5 % -2 }} {{ 0 / -5 }} {{ "
      "2 ** 62 }} {{ (-2) ** 3 }} {{ 4 ** 0.5 }} {{ (-1) ** 7 }}",
      "3002399751580331.0 -3.5 -4.0 -0.5 -0.0 4611686018427387904 -8 2.0 -1" },
    { "{{ 9007199254740993 == 9007199254740992.0 }}{{ 9007199254740993 > 9007199254740992.0 "
      "}}{{ 1 < 1.5 }}{{ 2.5 >= 2 }}{{ 1 < 'nan'|float }}{{ 5 < 'inf'|float }}",
      "FalseTrueTrueTrueFalseTrue" },
    { "{{ '0x1F'|int(0, 16) }} {{ '0b11'|int(base=2) }} {{ '1_000'|int }} {{ '1__0'|int(-1) }} "
      "{{ '+5'|int }} {{ none|int }} {{ 'inf'|int(3) }} {{ '1e2'|int }} {{ '.5'|float }} {{ "
      "'5.'|float }} {{ '.'|float(9.0) }} {{ '1e'|float }} {{ '1_0.5'|float }}",
      "31 3 1000 -1 5 0 3 100 0.5 5.0 9.0 0.0 10.5" },
    { "{{ 2.5|round }}{{ 3.14159|round(2) }}{{ 7|round(1) }}{{ 2.01|round(1, 'ceil') }}{{ "
      "-2.5|round(0, 'floor') }}{{ 5|round(0, 'ceil') }}",
      "2.03.1472.1-3.05.0" },
    { "{{ [3, 1, 2]|sort(reverse=true) }}{{ [[2, 'b'], [1, 'a']]|sort(attribute=0) }}{{ [1, "
      "2]|sum(start=0.5) }}{{ [[1], [2]]|sum(start=[]) }}",
      "[3, 2, 1][[1, 'a'], [2, 'b']]3.5[1, 2]" },
    { "{{ [1, 2, 3]|reverse|list }}{{ {'a': 1}|reverse|list }}{{ (1, 2)|last }}{{ {'a': 1, "
      "'b': 2}|last }}{{ [1, 2]|map('string')|reverse|list }}",
      "[3, 2, 1]['a']2b['2', '1']" },
    { "{{ range(5)[1:4] }}{{ range(5)[-1] }}{{ range(3) == range(0, 3, 1) }}{{ range(3).start "
      "}}{{ 2 in range(3) }}{{ 5 .real }}{{ 2.5.imag }}{{ true.denominator }}",
      "range(1, 4)4True0True50.01" },
    { "{{ {'a': [1, {'b': 2}]} == {'a': [1.0, {'b': 2}]} }}{{ [1] == (1,) }}{{ x == y }}{{ "
      "none == false }}{{ {1: 2} == {1: 3} }}",
      "TrueFalseTrueFalseFalse" },
    { "{{ [1, [2]] < [1, [3]] }}{{ (1, 2) > (1,) }}{{ 'é' > 'z' }}{{ [] < [0] }}{{ 1 <= 1 >= 1 "
      "}}",
      "TrueTrueTrueTrueTrue" },
    { "{% macro f(a, b=a ~ '!') %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{{ caller is defined "
      "}}{% endmacro %}{{ f(1) }}{{ f(1, 2, 3, z=4) }}{{ f(b=1) }}{{ f.name }}",
      "11!(){}False12(3,){'z': 4}False1(){}Falsef" },
    { "{{ 'a\\qb' }}{{ '\\é' }}{{ '\\101\\x41\\u00e9' }}{{ 'a\\\nb' }}", "a\\qb\\xe9AAéab" },
    { "{{ x|attr('y') }}", NULL },
    { "{{ {'k': 1}|attr('items') is callable }}{{ {'k': 1}|attr('k') is defined }}{{ "
      "'a'|attr('upper')() }}",
      "TrueFalseA" },
    { "{{ 'a b_c'|wordcount }}{{ 'hello wOrld-x'|title }}{{ '<a>'|e|forceescape }}{{ "
      "'%s!'|format('x') }}{{ '%(a)s'|format(a=1) }}",
      "2Hello World-X&amp;lt;a&amp;gt;x!1" },
    { "{{ '<'|safe + '<' }}{{ ('<%s>'|safe) % '<' }}{{ ('{}'|safe).format('<') }}{{ "
      "('-'|safe).join(['<', 'a']) }}{{ ('<'|safe)|string is escaped }}{{ ['<'|safe] }}",
      "<&lt;<&lt;>&lt;&lt;-aTrue[Markup('<')]" },
    { "{% for a in [1, 2, 3] if a > 1 %}{{ loop.index }}{{ loop.length }}{{ loop.revindex }}{{ "
      "loop.previtem }}{{ loop.nextitem }}{{ loop }}{% endfor %}",
      "1223<LoopContext 1/2>2212<LoopContext 2/2>" },
    { "{% for a in 'ab' %}{{ loop.changed(1) }}{{ loop.cycle(1, 2) }}{{ loop.depth }}{{ "
      "loop.depth0 }}{{ loop['first'] }}{% endfor %}",
      "True110TrueFalse210False" },
    { "{{ dict([('a', 1), ['b', 2]], c=3) }}{{ dict({'x': 1}) }}{{ namespace({'q': 2}).q }}{{ "
      "namespace(a=1) }}",
      "{'a': 1, 'b': 2, 'c': 3}{'x': 1}2<Namespace {'a': 1}>" },
    { "{{ 3 is divisibleby(3) }}{{ 'a' is in 'abc' }}{{ 'upper' is filter }}{{ 'odd' is test "
      "}}{{ 'zz' is filter }}{{ 'AB' is upper }}{{ 1 is lower }}{{ none is sameas none }}{{ "
      "'x' is sameas 'y' }}",
      "TrueTrueTrueTrueFalseTrueFalseTrueFalse" },
    { "{{ +3 }}{{ +true }}{{ - -3 }}{{ not not 1 }}{{ 2 - 1 - 1 }}{{ 2 ** 3 ** 2 }}{{ 7 // 2 * "
      "2 }}{{ 1 ~ 2 + 3 if false else 'n' }}{{ -5|abs }}",
      "313True0646n5" },
    { "{{ 'Α\u0301Σ'|lower }}{{ '1Σ'|lower }}{{ 'ΑΣ-'|lower }}{{ 'Σ'|lower }}{{ "
      "'Α\u0301Σ\u0301Α'|lower }}",
      "α\u0301ς1σας-σα\u0301σ\u0301α" },
    { "{{ '\\x85\\u1680\\u2000\\u2028\\u2029\\u202f\\u205f\\u3000\\x1f\\x1ba'|trim|length }}{{ "
      "'ĀāĂă\\u0149ǆΐ'|upper|length }}",
      "2"
      "10" },
    { "{{ {}.items() == {}.items() }}{{ {'a': 1}.items() == {'a': 2}.items() }}{{ {'a': 1}.keys() "
      "== {'b': 1}.keys() }}{{ {'a': 1}.keys() == {'a': 3}.keys() }}{{ {'a': 1}.keys() == {'a': "
      "1}.items() }}{{ {'a': 1}.values() == {'a': 1}.values() }}",
      "TrueFalseFalseTrueFalseFalse" },
    { "{{ {'a': 1} == {'b': 1} }}{{ {'a': 1} == {'a': 1, 'b': 2} }}{{ [1, 2] == [1, 3] }}{{ [1] == "
      "[1, 2] }}{{ (1, [2]) == (1, [2]) }}",
      "FalseFalseFalseFalseTrue" },
    { "{{ range(0) == range(5, 5) }}{{ range(1, 2) == range(1, 3, 2) }}{{ range(2) == range(3) "
      "}}{{ range(1, 3) == range(2, 4) }}{{ range(0, 4, 2) == range(0, 3, 2) }}{{ range(0, 4, 2) "
      "== range(0, 6, 3) }}",
      "TrueTrueFalseFalseTrueFalse" },
    { "{{ 'a'.upper == 'a'.lower }}{{ 'a'.upper == 'b'.upper }}{{ [].count == [].index }}{{ range "
      "== dict }}{{ range == range }}",
      "FalseFalseFalseFalseTrue" },
    { "{{ 1 < -1e300 }}{{ -1e300 < 1 }}{{ 'nan'|float < 1 }}{{ 'nan'|float == 'nan'|float }}{{ 1.5 "
      "< 'nan'|float }}{{ 1 > 1e300 }}{{ 3 > 2.5 }}{{ -3 < -2.5 }}",
      "FalseTrueFalseFalseFalseFalseTrueTrue" },
    { "{{ true is sameas true }}{{ 1.5 is sameas 1.5 }}{{ x is sameas x }}{{ 1000 is sameas 2000 "
      "}}{{ [] is sameas [] }}{{ 'a' is sameas 1 }}",
      "TrueFalseFalseFalseFalseFalse" },
    { "{{ true is sameas true }}{{ true is sameas false }}{{ 1000 is sameas 2000 }}{{ [] is sameas "
      "[] }}{{ 'a' is sameas 1 }}{{ -9 is sameas 9 }}",
      "TrueFalseFalseFalseFalseFalse" },
    { "{{ 0 ** 5 }}{{ 0 ** 0 }}{{ 1 ** 99 }}{{ (-1) ** 8 }}{{ 5 ** 0 }}{{ 2.0 ** 3 }}{{ 0.0 ** 2 "
      "}}{{ 0 / 5 }}{{ 7 // -1 }}{{ 7 % -1 }}{{ 8.5 // 2 }}{{ 0.0 // 5 }}{{ -8.5 // 2 }}{{ 6.0 % "
      "-3 }}",
      "0111"
      "18.00.00.0-704.00.0-5.0-0.0" },
    { "{{ 1e+2 }}{{ 1E-2 }}{{ 1_0.5_0 }}{{ 1e1_0 }}{{ 12345.678e-3 }}{{ '1E+2'|float }}{{ 100.0 "
      "}}{{ 1200000.0 }}{{ 1e99999 }}",
      "100.00.0110.510000000000.012.345678100.0100.01200000.0inf" },
    { "{{ '%-5s|%5s|%.5s|%u|%-5d|%05.1f|%G|%F|%X|%E' % ('a', 'b', 'c', 3, 4, 2.25, 1e10, 1.5, 255, "
      "1.5) }}",
      "a    |    b|c|3|4    |002.2|1E+10|1.500000|FF|1.500000E+00" },
    { "{{ '%s' % [1] }}{{ '%s' % {'a': 1} }}{{ 'x' % {} }}{{ 'x' % [] }}{{ '%(a)s' % {'a': 'b'} "
      "}}{{ '%+ d' % 3 }}{{ ('%s%r'|safe) % ('<', '<') }}",
      "[1]{'a': 1}xxb+3&lt;&#39;&lt;&#39;" },
    { "{{ '%s %s' % 'a' }}", NULL },
    { "{{ '%s' % ('a', 'b') }}", NULL },
    { "{{ '%(a)s' % 1 }}", NULL },
    { "{{ '%(a' % {'a': 1} }}", NULL },
    { "{{ '%(b)s' % {'a': 1} }}", NULL },
    { "{{ '%d' % 'a' }}", NULL },
    { "{{ '%' % 1 }}", NULL },
    { "{{ '%y' % 1 }}", NULL },
    { "{{ '{} {0}'.format(1) }}", NULL },
    { "{{ '{0} {}'.format(1) }}", NULL },
    { "{{ '{1}'.format(1) }}", NULL },
    { "{{ '{b}'.format(a=1) }}", NULL },
    { "{{ '{'.format(1) }}", NULL },
    { "{{ '}'.format(1) }}", NULL },
    { "{{ '{!z}'.format(1) }}", NULL },
    { "{{ '{!'.format(1) }}", NULL },
    { "{{ '{!rx}'.format(1) }}", NULL },
    { "{{ '{0.}'.format(1) }}", NULL },
    { "{{ '{0[}'.format(1) }}", NULL },
    { "{{ '{0[1]x}'.format([1, 2]) }}", NULL },
    { "{{ '{:d}'.format('a') }}", NULL },
    { "{{ '{:+}'.format('a') }}", NULL },
    { "{{ '{:,}'.format('a') }}", NULL },
    { "{{ '{:=5}'.format('a') }}", NULL },
    { "{{ '{:s}'.format(1) }}", NULL },
    { "{{ '{:.2d}'.format(1) }}", NULL },
    { "{{ '{:>5}'.format([1]) }}", NULL },
    { "{{ '{!s:>3}{:s}{:-}{: }{:é^5}{ab.x[k].y}{:,.2f}{:,}{:6.1f}{:<5}{:06.2f}{:5}'.format(1, 'q', "
      "2, 3, 'm', 1234.5, 12, 2.25, 7, 3.14159, 1.5, ab={'x': {'k': {'y': 5}}}) }}",
      "  1q2 3ééméé51,234.5012   2.27    003.14  1.5" },
    { "{{ 'x'.replace('x', 'y', 0) }}{{ 'aaa'.replace('a', 'b', 2) }}{{ 'ab'.replace('', '.') }}{{ "
      "''.replace('', 'q') }}{{ 'a'|replace('a', 'b', 0) }}",
      "xbba.a.b.qa" },
    { "{{ 5|round(none) }}{{ 2.5|round(none) }}{{ 'inf'|float|round(1) }}{{ 1e30|round(1) }}{{ "
      "'a'|int(none) }}{{ []|int }}{{ 2.9|int }}{{ 'nan'|float|int(4) }}{{ ''|int }}{{ '-'|int "
      "}}{{ '0o17'|int(0, 8) }}{{ '0x_1'|int(0, 16) }}",
      "52inf1e+30None0240"
      "0151" },
    { "{{ 'infinity'|float }}{{ '-inf'|float }}{{ '+1.5'|float }}{{ '1e5'|float }}{{ '1e-'|float "
      "}}{{ '1.5.5'|float }}{{ ''|float }}{{ []|float }}{{ '1_.5'|float }}{{ 'e5'|float }}",
      "inf-inf1.5100000.00.00.00.00.00.00.0" },
    { "{{ 'a\\nb\\n\\nc'|indent }}|{{ 'a\\nb'|indent('--', true) }}|{{ 'a\\n\\nb'|indent(1, false, "
      "true) }}|{{ ''|indent(2, true) }}|{{ ('a\\n<'|safe)|indent(2) }}",
      "a\n    b\n\n    c|--a\n--b|a\n \n b|  |a\n  <" },
    { "{{ [1, 'a', none, 2.5, true]|map('string')|list }}{{ [{'a': 1}, {}]|map(attribute='a', "
      "default=0)|list }}{{ [[1, 2]]|map(attribute=1)|list }}{{ [{'a': "
      "[5]}]|map(attribute='a.0')|list }}",
      "['1', 'a', 'None', '2.5', 'True'][1, 0][2][5]" },
    { "{{ []|map('nope')|list }}{{ x|select('nope')|list }}{{ x|items|list }}{{ x|reverse|list "
      "}}{{ x|last is defined }}{{ x|list }}{{ x|join }}{{ x|sum }}{{ x|sort }}{{ x|unique|list }}",
      "[][][][]False[]0[][]" },
    { "{{ [{'n': 1, 'm': 'B'}, {'n': 1, 'm': 'a'}]|sort(attribute='n,m')|map(attribute='m')|join "
      "}}{{ ['b', 'A']|min(case_sensitive=true) }}{{ [{'a': 2}, {'a': 1}]|max(attribute='a') }}{{ "
      "['B', 'b', 'a']|unique(true)|list }}{{ [{'a': 1}, {'a': "
      "1}]|unique(attribute='a')|list|length }}",
      "aBA{'a': 2}['B', 'b', 'a']1" },
    { "{% for x in [1, 2, 3, 4] if x is even %}{{ x }}{% else %}none{% endfor %}{% for x in [1] if "
      "x > 5 %}{{ x }}{% else %}none{% endfor %}{% for x in [1, 2] %}{% if x == 1 %}{% continue "
      "%}{% endif %}{{ x }}{% else %}e{% endfor %}",
      "24none2" },
    { "{% for i in [1, 2] %}{% set x %}{% if i == 2 %}{% break %}{% endif %}a{% endset %}{{ x }}{% "
      "endfor %}{% for i in [1] %}{% filter upper %}b{% continue %}{% endfilter %}{% endfor %}",
      "a" },
    { "{{ strftime_now('%Y') is string }}{{ 0x1F }}{{ 0b1_1 }}{{ 0O17 }}{{ 00 }}{{ 1.0.real }}",
      "True3131501.0" },
    { "{{ 0x1F }}{{ 0b1_1 }}{{ 0O17 }}{{ 00 }}{{ 0x }}", NULL },
    { "{{ 0x1F }}{{ 0b1_1 }}{{ 0O17 }}{{ 00 }}{{ [1][] is defined }}{{ {'a': 1}[1, 2] is defined "
      "}}{{ [1,] }}{{ {'a': 1,} }}{{ dict(a=1,) }}",
      "313150FalseFalse[1]{'a': 1}{'a': 1}" },
    { "{{ '\\U0001f600\\a\\b\\f\\v\\r\\t\\'\\\"\\7'|length }}{{ '\\xZZ' }}", NULL },
    { "{{ '\\U0001f600\\a\\b\\f\\v\\r\\t\\'\\\"\\7'|tojson }}{{ 'aa\\\\日\\é😀'|length }}",
      "\"😀\\u0007\\b\\f\\u000b\\r\\t'\\\"\\u0007\"9" },
    { "{{ range() }}", NULL },
    { "{{ range(1, 2, 0) }}", NULL },
    { "{{ raise_exception() }}", NULL },
    { "{{ raise_exception('x' * 300) }}", NULL },
    { "{{ strftime_now() }}", NULL },
    { "{{ strftime_now('%Q') }}", NULL },
    { "{{ strftime_now('%') }}", NULL },
    { "{{ strftime_now('%h%n%t') != '' }}{{ namespace({1: 2, '': 3}) }}",
      "True<Namespace {1: 2, '': 3}>" },
    { "{{ 0 ** -1 }}", NULL },
    { "{{ 0.0 ** -1 }}", NULL },
    { "{{ 1 // 0 }}", NULL },
    { "{{ 1.5 % 0 }}", NULL },
    { "{{ 10.0 ** 999 }}", NULL },
    { "{{ (-8) ** 0.5 }}", NULL },
    { "{{ (-9223372036854775807 - 1) // -1 }}", NULL },
    { "{{ 18446744073709551616 }}", NULL },
    { "{{ 18446744073709551615 }}", NULL },
    { "{{ 0 ** 5.0 }}{{ 1.1 // 0.1 }}{{ 6 // 0.1 }}{{ 0.0 / -5 }}{{ 1e5 // 3 }}",
      "0.011.059.0-0.033333.0" },
    { "{{ "
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
      "aaaaaaaaaaaaaaaaaaaaaaaa.b }}",
      NULL },
    { "{% if false %}{% set who = 1 %}{% endif %}{{ who }}{% for i in [1] %}{% if false %}{% set "
      "who = 1 %}{% endif %}{{ who }}{% endfor %}",
      "AnnAnn" },
    { "{% for i in [1] %}{{ who }}{% set who = 2 %}{{ who }}{% endfor %}{% set who = 5 %}{{ who }}",
      "25" },
    { "{% for i in [1, 2] %}{{ who }}{% set who = i %}{{ who }}{% endfor %}{{ who }}",
      "Ann1Ann2Ann" },
    { "{% macro f() %}{{ who }}{% if i %}{% set who = 3 %}{% endif %}{{ who }}{% endmacro %}{{ f() "
      "}}{% set who = 4 %}{{ f() }}",
      "44" },
    { "{{ (['x'][1])[2::2] }}", NULL },
};
#define N_DETAIL (sizeof detail / sizeof *detail)

static void details(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_DETAIL; i++) {
        if (detail[i].text)
            gives(detail[i].source, detail[i].text, NULL);
        else
            fails(detail[i].source);
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refusals(void **state)
{
    (void)state;
    static const char *const tags[] = { "include 'x'",
                                        "import 'x' as y",
                                        "from 'x' import y",
                                        "extends 'x'",
                                        "block b",
                                        "call f()",
                                        "do x",
                                        "raw",
                                        "with",
                                        "autoescape true",
                                        "print 1" };
    char source[100], sentence[100];
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        snprintf(source, sizeof source, "one\n {%% %s %%}", tags[i]);
        snprintf(sentence, sizeof sentence,
                 "t: row 2, column 5: the tag %.*s; weft does not have it",
                 (int)strcspn(tags[i], " "), tags[i]);
        refuses(source, WEFT_EUNSUPPORTED, sentence);
    }
    refuses("é{{ x.y }}", WEFT_EINVAL, "t: row 1, column 7: 'x' is undefined");
    refuses("{{ 1 +\n }}", WEFT_EFORMAT, "t: row 2, column 2: }}; expected an expression");
    refuses("{% if 1 %}", WEFT_EFORMAT, "the end of the template; expected endif");
    refuses("{% unknown %}", WEFT_EFORMAT, "the tag unknown; Jinja does not know it");
    refuses("{% endif %}", WEFT_EFORMAT, "the tag endif");
    refuses("{# never", WEFT_EFORMAT, "the comment has no end");
    refuses("{{ 'never }}", WEFT_EFORMAT, "the string has no end");
    refuses("{{ ( ] }}", WEFT_EFORMAT, "a closing bracket that closes nothing");
    refuses("{{ $ }}", WEFT_EFORMAT, "a character that Jinja does not know");
    refuses("{{ '\\ud800' }}", WEFT_EFORMAT, "an escape that is no character");
    refuses("{{ '\\N{DASH}' }}", WEFT_EFORMAT, "an escape");
    refuses("{{ raise_exception('no ' ~ who) }}", WEFT_EINVAL, "the template refuses: no Ann");
    refuses("{{ x|nope }}", WEFT_EFORMAT,
            "no filter or test has this name; use one that jinja2 has: nope");
    refuses("{% if true %}{{ who|nope }}{% endif %}", WEFT_EINVAL,
            "no filter or test is called nope");
    gives("{% if false %}{{ who|nope }}{% endif %}", "", "");
    refuses("{{ x|pprint }}", WEFT_EUNSUPPORTED, "the filter pprint; weft does not have it");
    refuses("{{ lipsum() }}", WEFT_EUNSUPPORTED, "the function lipsum");
    refuses("{{ who.encode() }}", WEFT_EUNSUPPORTED, "the method encode of str");
    refuses("{% for x in y recursive %}{% endfor %}", WEFT_EUNSUPPORTED, "a recursive loop");
    refuses("{% break %}", WEFT_EFORMAT, "break or continue outside a loop");
    refuses("{% for i in [1] %}{% macro f() %}{% continue %}{% endmacro %}{% endfor %}",
            WEFT_EFORMAT, "outside a loop");
    refuses("{% for loop in [1] %}{% endfor %}", WEFT_EFORMAT,
            "a loop that assigns to its own variable");
    refuses("{% set 1 = 2 %}", WEFT_EFORMAT, "a target that is no name");
    refuses("{% set who.x = 2 %}", WEFT_EINVAL, "an attribute of str is assigned");
    refuses("{% for a, b in [1] %}{% endfor %}", WEFT_EINVAL, "int cannot be walked through");
    refuses("{% for a, b in [[1]] %}{% endfor %}", WEFT_EINVAL,
            "fewer items to unpack; expected 2");
    refuses("{% for a, b in [[1, 2, 3]] %}{% endfor %}", WEFT_EINVAL, "more items to unpack");
    refuses("{{ [].append(1) }}", WEFT_EINVAL, "'append' is undefined");
    refuses("{{ [1]|map('upper')|tojson }}", WEFT_EINVAL, "tojson of a generator");
    refuses("{{ who.upper }}", WEFT_EUNSUPPORTED, "printing a method, which shows an address");
    refuses("{% macro f(a, b=1, c) %}{% endmacro %}", WEFT_EFORMAT,
            "an argument without a default");
    refuses("{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", WEFT_EINVAL,
            "macro f: 2 arguments; expected at most 1");
    refuses("{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", WEFT_EINVAL, "macro f has no argument b");
    refuses("\xff", WEFT_EFORMAT, "byte 0 of the template is not UTF-8");
    refuses("{{ namespace(_x=1) }}", WEFT_EINVAL, "begins with _");
}

/* ---- limits ---------------------------------------------------------------------------------- */

#define SOON 0.05 /* seconds */

/* Ends soon, in little memory, with this error. */
static void bomb_n(const char *source, size_t n, weft_status code, const char *sentence)
{
    double best = 1e9;
    for (int i = 0; i < 5 && best > SOON; i++) { /* other programs may be in the way */
        result x = render_n(source, n);
        assert_that(!x.text && x.err.code == code && strstr(x.err.message, sentence),
                    "%.80s: %.100s, expected %s", source, x.text ? x.text : x.err.message,
                    sentence);
        assert_that(x.peak <= JINJA_VALUES + (1 << 20), "%.60s: %zu bytes", source, x.peak);
        best = x.seconds < best ? x.seconds : best;
        free(x.text);
    }
    assert_that(best < (quick() ? 40 : 1) * SOON, "%.80s: %.3f s", source, best);
}

static void bomb(const char *source, weft_status code, const char *sentence)
{
    bomb_n(source, strlen(source), code, sentence);
}

static char *repeated(const char *head, const char *middle, size_t times, const char *tail,
                      size_t *n)
{
    const size_t a = strlen(head), b = strlen(middle), c = strlen(tail);
    char *s = malloc(a + b * times + c + 1);
    memcpy(s, head, a);
    for (size_t i = 0; i < times; i++)
        memcpy(s + a + i * b, middle, b);
    memcpy(s + a + times * b, tail, c + 1);
    *n = a + times * b + c;
    return s;
}

static void bombs(void **state)
{
    (void)state;
#define R "range(100000)"
    bomb("{% for a in " R " %}{% for b in " R " %}{% endfor %}{% endfor %}", WEFT_ELIMIT, "steps");
    bomb("{% for a in " R " %}{{ [1]|list|sort|join }}{% endfor %}", WEFT_ELIMIT, "");
    bomb("{{ range(100001) }}", WEFT_ELIMIT, "a range of 100001 items; the limit is 100000");
    bomb("{{ range(0, 9223372036854775807) }}", WEFT_ELIMIT, "a range of");
    bomb("{{ 'a' * 10**9 }}", WEFT_ELIMIT, "times; values have");
    bomb("{{ [1] * 10**9 }}", WEFT_ELIMIT, "a list, 1000000000 times");
    bomb("{{ 9**9**9**9 }}", WEFT_EUNSUPPORTED, "an integer beyond 64 bits");
    bomb("{{ 9223372036854775807 + 1 }}", WEFT_EUNSUPPORTED, "an integer beyond 64 bits");
    bomb("{{ 99999999999999999999 }}", WEFT_EFORMAT, "an integer beyond 64 bits");
    bomb(
        "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}"
        "{% endfor %}",
        WEFT_ELIMIT, "bytes of memory");
    bomb("{% set ns = namespace(l=[]) %}{% for i in " R " %}{% set ns.l = [ns.l] %}{% endfor %}",
         WEFT_ELIMIT, "values nested deeper than 64");
    bomb("{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% "
         "endfor %}",
         WEFT_ELIMIT, "");
    bomb("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", WEFT_ELIMIT,
         "nested too deeply");
    bomb("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", WEFT_ELIMIT, "nested too deeply");
    bomb("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(20) "
         "}}",
         WEFT_ELIMIT, "");
    bomb("{% for i in " R " %}" R " " R " " R " " R "{% endfor %}", WEFT_ELIMIT,
         "longer than the input");
    bomb("{% set s = 'ab' * 100000 %}{% for i in " R " %}{{ s.find('ba' * 50) }}{% endfor %}",
         WEFT_ELIMIT, "");
    bomb("{% set s = 'é' * 100000 %}{% for i in " R " %}{{ s[99999] }}{% endfor %}", WEFT_ELIMIT,
         "");
    bomb("{{ 'x'.center(2**40) }}", WEFT_ELIMIT, "characters; values have");
    bomb("{{ '%99999999s' % 1 }}", WEFT_EUNSUPPORTED, "a format");
    bomb("{{ (" R "|list)|unique|list }}", WEFT_ELIMIT, "steps");
    bomb("{{ ['a' * 60000] * 90000 }}", WEFT_ELIMIT, "");
    bomb("{{ ('a,' * 90000).split(',')|join(',' * 9000) }}", WEFT_ELIMIT, "");
    bomb("{{ ('a' * 1000000).replace('a', 'b' * 1000) }}", WEFT_ELIMIT, "");
    bomb("{{ [1]|tojson(indent=1001) }}", WEFT_EINVAL, "a width below 1000");
#undef R
}

/* Sources that are long, deep or full of names. */
static void sources(void **state)
{
    (void)state;
    static const struct {
        const char *head, *middle, *tail;
        size_t times;
        weft_status code;
        const char *sentence;
    } deep[] = {
        { "{{ ", "(", "1", 100000, WEFT_EFORMAT, "brackets nested too deeply" },
        { "{{ ", "x[[", "1", 40, WEFT_EFORMAT, "brackets nested too deeply" },
        { "{{ ", "not ", "1 }}", 60000, WEFT_ELIMIT, "nested deeper than 64" },
        { "{{ ", "-", "1 }}", 60000, WEFT_ELIMIT, "nested deeper than 64" },
        { "{{ 1", " if 1 else 1", " }}", 10000, WEFT_ELIMIT, "nested deeper than 64" },
        { "{{ 1", " if 1", " }}", 10000, WEFT_ELIMIT, "nested deeper than 64" },
        { "", "{% if 1 %}", "", 10000, WEFT_ELIMIT, "nested deeper than 64" },
        { "", "{% for a in b %}", "", 9000, WEFT_ELIMIT, "nested deeper than 64" },
        { "", "{% macro f() %}", "", 9000, WEFT_ELIMIT, "nested deeper than 64" },
        { "{% set ", "(a,", " = 1 %}", 50000, WEFT_EFORMAT, "nested too deeply" },
        { "{{ x", "[0:]", " }}", 13000, WEFT_EINVAL, "undefined" },
        { "{{ x", "[0:]", " }}", 50000, WEFT_ELIMIT, "the limit is 65536" },
        { "{{ x", ".a", " }}", 30000, WEFT_EINVAL, "undefined" },
        { "{{ x", "|e", "|upper.x }}", 30000, WEFT_EUNSUPPORTED, "a dot in its name" },
        { "{{ [1]", "|select", "|list }}", 30000, WEFT_ELIMIT, "generators nested too deeply" },
        { "x", "x", "", JINJA_SOURCE, WEFT_ELIMIT, "the limit is" },
    };
    for (size_t i = 0; i < sizeof deep / sizeof *deep; i++) {
        size_t n;
        char *s = repeated(deep[i].head, deep[i].middle, deep[i].times, deep[i].tail, &n);
        bomb_n(s, n, deep[i].code, deep[i].sentence);
        free(s);
    }
    size_t n;
    for (size_t k = 0; k < 2; k++) {
        char *not64 = repeated("{{ ", "not ", 64 + k, "1 }}", &n);
        result x = render(not64);
        assert_true(k ? x.err.code == WEFT_ELIMIT : x.text && strcmp(x.text, "True") == 0);
        free(x.text);
        free(not64);
    }
    char *sum = repeated("{{ 1", " + 1", 30000, " }}", &n);
    gives(sum, "30001", NULL);
    free(sum);
    char *names = malloc(JINJA_SOURCE + 100), *at = names;
    for (int i = 0; i < 600; i++)
        at += sprintf(at, "{%% set v%d = 1 %%}", i);
    bomb(names, WEFT_EFORMAT, "more than 500 variables");
    at = names;
    at += sprintf(at, "{%% if 1 %%}");
    for (int i = 0; i < 20000; i++)
        at += sprintf(at, "{{v%d}}", i % 200);
    sprintf(at, "{%% endif %%}");
    gives(names, "", NULL);
    free(names);
}

/* What is within the limits works: depth 60, and a macro that calls itself 15 times, on the small
 * stack of 64 KiB that weft.h promises to live with. */
static void *on_small_stack(void *unused)
{
    (void)unused;
    size_t n;
    char *s = repeated("{{ ", "[", 60, "1", &n), *t = repeated(s, "]", 60, " }}", &n);
    result x = render(t);
    assert_true(x.text && x.n == 121);
    free(x.text);
    free(s);
    free(t);
    gives("{% macro f(n) %}{% if n %}{% for i in [1] %}({{ f(n - 1) }}){% endfor %}{% endif %}{% "
          "endmacro %}"
          "{{ f(15) }}",
          "((((((((((((((()))))))))))))))", NULL);
    refuses(
        "{% macro f(n) %}{% for i in [1] %}{{ [[[[f(n)]]]] }}{% endfor %}{% endmacro %}{{ f(1) }}",
        WEFT_ELIMIT, "nested too deeply");
    refuses("{% macro f(n) %}{{ f(f(n ~ f(1))|upper|trim) }}{% endmacro %}{{ f(1) }}", WEFT_ELIMIT,
            "nested too deeply");
    refuses("{% macro f() %}{% set x %}{% filter upper %}{{ '%s' % (f() ~ 1) }}{% endfilter %}{% "
            "endset %}"
            "{% endmacro %}{{ f() }}",
            WEFT_ELIMIT, "nested too deeply");
    s = repeated("", "{% if 1 %}{% for a in [1] %}", 31, "{{ (((1))) }}", &n);
    t = repeated(s, "{% endfor %}{% endif %}", 31, "", &n);
    x = render(t);
    assert_non_null(x.err.message);
    free(x.text);
    free(s);
    free(t);
    return NULL;
}

static void small_stack(void **state)
{
    (void)state;
    if (quick()) { /* frames of sanitizers are not ours */
        on_small_stack(NULL);
        return;
    }
    pthread_t thread;
    pthread_attr_t a;
    pthread_attr_init(&a);
    assert_int_equal(pthread_attr_setstacksize(&a, 64 << 10), 0);
    assert_int_equal(pthread_create(&thread, &a, on_small_stack, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&a);
}

/* ---- truncation and faults ------------------------------------------------------------------- */

static const char *const own[] = { "chatml", "generation", "lists", "loops",     "numbers",
                                   "scopes", "strings",    "tools", "whitespace" };

static char *own_source(int i, size_t *n)
{
    char path[100];
    snprintf(path, sizeof path, "golden/templates/%s.jinja", own[i]);
    return read_whole(fixture(path), n);
}

/* Every beginning of every template of ours is a text, or an error message. */
static void truncated(void **state)
{
    (void)state;
    int n_good = 0, n_bad = 0;
    for (int i = 0; i < 9; i++) {
        size_t n;
        char *source = own_source(i, &n);
        for (size_t k = 0; k <= n; k += quick() ? 7 : 1) {
            char *part = malloc(k ? k : 1); /* exactly: a sanitizer sees one byte too many */
            memcpy(part, source, k);
            result x = render_n(part, k);
            if (!x.text)
                assert_that(strncmp(x.err.message, "t: ", 3) == 0, "%s: %s", own[i], x.err.message);
            *(x.text ? &n_good : &n_bad) += 1;
            free(x.text);
            free(part);
        }
        free(source);
    }
    assert_true(n_good > 20 && n_bad > 100);
}

/* Every step may be the last that the budget has. */
static void few_steps(void **state)
{
    (void)state;
    int64_t total = 0;
    for (size_t i = 0; i < N_DETAIL; i++) {
        mem m;
        mem_init(&m, 0, NULL);
        weft_error err = { 0 };
        jinja_template *t = jinja_compile(detail[i].source, strlen(detail[i].source), "t", &m,
                                          &err);
        weft_status status = t ? WEFT_ELIMIT : WEFT_OK;
        for (int64_t steps = 1; status == WEFT_ELIMIT; steps++, total++) {
            jinja_output out;
            jinja_input *in = jinja_input_new(&m, NULL);
            set_input(in);
            err = (weft_error){ 0 };
            status = jinja_render(t, in, &(jinja_options){ .steps = steps }, &out, &err);
            assert_true(status == err.code && steps < 5000);
            jinja_input_free(in);
        }
        assert_true(status == WEFT_OK || !detail[i].text);
        jinja_free(t);
    }
    assert_true(total > 2000);
}

/* A conversation of one message and a tool. */
static void set_conversation(jinja_input *in)
{
    set_input(in);
    jinja_begin_list(in);
    jinja_begin_dict(in);
    jinja_put_key(in, "role", 4, 0);
    jinja_put_text(in, "user", 4, 0);
    jinja_put_key(in, "content", 7, 0);
    jinja_put_text(in, "Hello you!", 10, 9);
    jinja_end(in);
    jinja_end(in);
    jinja_set(in, "messages", NULL);
}

static bool render_with(mem *m, const char *source, size_t n, weft_error *err)
{
    jinja_output out;
    jinja_template *t = jinja_compile(source, n, "t", m, err);
    jinja_input *in = t ? jinja_input_new(m, err) : NULL;
    if (in) {
        jinja_begin_list(in);
        jinja_begin_dict(in);
        jinja_put_key(in, "role", 4, 0);
        jinja_put_text(in, "user", 4, 0);
        jinja_put_key(in, "content", 7, 0);
        jinja_put_text(in, "Hello you!", 10, 9);
        jinja_end(in);
        jinja_end(in);
    }
    const bool good = in && jinja_set(in, "messages", err) == WEFT_OK &&
                      jinja_render(t, in, NULL, &out, err) == WEFT_OK;
    jinja_input_free(in);
    jinja_free(t);
    return good;
}

/* Every step-th allocation fails once; all is freed. Returns how many there were. */
static int64_t fail_each(const char *name, const char *source, size_t n, int64_t step)
{
    int64_t k = 1;
    for (bool failed = true; failed; k += step) {
        faults of = { .fail_at = k };
        host h;
        weft_error err = { 0 };
        host_faulty(&h, &of, NULL);
        const bool good = render_with(&h.mem, source, n, &err);
        failed = of.calls >= k;
        assert_that(failed ? !good && err.code && err.message[0] : good || err.code != WEFT_ENOMEM,
                    "%s: allocation %lld: %s", name, (long long)k, err.message);
        assert_true(of.live == 0 && h.mem.used == 0);
    }
    return k;
}

static void faults_everywhere(void **state)
{
    (void)state;
    static const char all[] = "{% macro f(a, b=[1]) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro "
                              "%}{{ f(1, 2, *[3], x=4, **{'y': 5}) }}"
                              "{% set ns = namespace(x=1) %}{% for k, v in {'a': messages}.items() "
                              "if v %}{{ loop.last }}{{ loop }}"
                              "{% set ns.x = [v, ns.x] %}{% set ns.y = 1 %}{% endfor %}{% set b | "
                              "upper %}x{{ ns }}{% endset %}{{ b[::2] }}"
                              "{% filter indent(2) %}a\nb{% endfilter %}{% generation %}{{ "
                              "'%05d|%s' % (7, 'q') }}{% endgeneration %}"
                              "{{ '{:>6}{x!r}'.format(1.5, x='é') }}{{ "
                              "messages|map(attribute='role')|unique|list|sort|join('-') }}"
                              "{{ messages|tojson(indent=2, sort_keys=true) }}{{ 'a "
                              "b'.split()|map('title')|list }}{{ 'é日x'[::-1] }}"
                              "{{ [3, 1]|sort(reverse=true) }}{{ {'b': 1, 'a': 2}|dictsort }}{{ "
                              "'a-b'|replace('-', '+') }}{{ [1] + [2] }}"
                              "{{ range(5)[1:3]|reverse|list }}{{ '<'|e + '>' }}{{ 'ab'|center(9) "
                              "}}{{ strftime_now('%Y')|length }}"
                              "{{ messages|selectattr('role', 'eq', 'user')|list|length }}{{ 'x' ~ "
                              "2.5 ~ none }}{{ 'a\nb'.splitlines() }}";
    const int n_own = (int)(sizeof own / sizeof *own);
    int64_t total = 0;
    for (int i = 0; i <= n_own; i++) {
        size_t n = sizeof all - 1;
        char *source = i < n_own ? own_source(i, &n) : NULL;
        total += fail_each(i < n_own ? own[i] : "all", source ? source : all, n, quick() ? 13 : 1);
        free(source);
    }
    for (size_t i = 0; i < N_DETAIL; i++)
        total += fail_each(detail[i].source, detail[i].source, strlen(detail[i].source), 1);
    assert_true(total > 2000);
}

/* ---- the input ------------------------------------------------------------------------------- */

static void wrong_inputs(void **state)
{
    (void)state;
    static const char *const sentence[] = {
        "a second value",           "a value without a key",
        "a key where none belongs", "an end without a beginning",
        "a key without a value",    "without a whole value",
        "without a whole value",    "not UTF-8",
        "nested deeper than 64"
    };
    for (int i = 0; i < 9; i++) {
        mem m;
        weft_error err = { 0 };
        jinja_output out;
        mem_init(&m, 0, NULL);
        jinja_input *in = jinja_input_new(&m, NULL);
        switch (i) {
        case 0:
            jinja_put_int(in, 1);
            jinja_put_int(in, 2);
            break;
        case 1:
            jinja_begin_dict(in);
            jinja_put_null(in);
            break;
        case 2:
            jinja_begin_list(in);
            jinja_put_key(in, "k", 1, 0);
            break;
        case 3:
            jinja_end(in);
            break;
        case 4:
            jinja_begin_dict(in);
            jinja_put_key(in, "k", 1, 0);
            jinja_end(in);
            break;
        case 5:
            break;
        case 6:
            jinja_begin_list(in);
            break;
        case 7:
            jinja_put_text(in, "\xc3", 1, 1);
            break;
        default:
            for (int k = 0; k < 65; k++)
                jinja_begin_list(in);
        }
        assert_true(jinja_set(in, "x", &err) != WEFT_OK && err.code != WEFT_OK);
        assert_that(strstr(err.message, sentence[i]), "%d: %s", i, err.message);
        jinja_template *t = jinja_compile("x", 1, "t", &m, NULL);
        assert_true(jinja_render(t, in, NULL, &out, &err) != WEFT_OK);
        jinja_free(t);
        jinja_input_free(in);
        assert_int_equal(atomic_load(&m.used), 0);
    }
}

static uint32_t by_path(void *ud, const jinja_step *path, int n, bool is_key)
{
    ++*(int *)ud;
    if (is_key)
        return 100;
    return (uint32_t)(10 * n + (path[0].key ? 0 : path[0].index));
}

static void json_origins(void **state)
{
    (void)state;
    mem m;
    jinja_output out;
    weft_error err = { 0 };
    int asked = 0;
    mem_init(&m, 0, NULL);
    json_t *v = json_pack("[s, s, {s:s, s:i, s:f, s:b, s:n}]", "zero", "one", "k", "deep", "i", 7,
                          "f", 0.5, "b", 1, "n");
    jinja_input *in = jinja_input_new(&m, NULL);
    jinja_put_json(in, v, by_path, &asked);
    assert_int_equal(jinja_set(in, "v", &err), WEFT_OK);
    static const char source[] =
        "{{ v[1] }}{{ v[2].k }}{{ v[2]|list|first }}{{ v[2].values()|list }}";
    jinja_template *t = jinja_compile(source, sizeof source - 1, "t", &m, &err);
    assert_int_equal(jinja_render(t, in, NULL, &out, &err), WEFT_OK);
    assert_string_equal(out.text, "onedeepk['deep', 7, 0.5, True, None]");
    assert_int_equal(out.run[0].origin, 11);
    assert_int_equal(out.run[1].origin, 22);
    assert_int_equal(out.run[2].origin, 100);
    assert_int_equal(asked, 8);
    jinja_free(t);
    jinja_input_free(in);
    json_decref(v);
}

static void many_renderings(void **state)
{
    (void)state;
    mem m;
    jinja_output a, b;
    weft_error err = { 0 };
    const struct tm day = {
        .tm_year = 100, .tm_mon = 0, .tm_mday = 2, .tm_hour = 13, .tm_wday = 0
    };
    mem_init(&m, 0, NULL);
    jinja_input *in = jinja_input_new(&m, NULL);
    set_conversation(in);
    static const char source[] =
        "{{ strftime_now('%d %b %Y, %A %I%p%%') }}{{ messages[0].content }}";
    jinja_template *t = jinja_compile(source, sizeof source - 1, "t", &m, &err);
    const jinja_options options = { .now = &day };
    assert_int_equal(jinja_render(t, in, &options, &a, &err), WEFT_OK);
    assert_int_equal(jinja_render(t, in, &options, &b, &err), WEFT_OK);
    assert_string_equal(a.text, "02 Jan 2000, Sunday 01PM%Hello you!");
    assert_string_equal(b.text, a.text);
    assert_int_equal(jinja_render(t, in, &(jinja_options){ .steps = 3 }, &a, &err), WEFT_ELIMIT);
    jinja_free(t);
    jinja_input_free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("jinja: every byte of the output knows its origin", origins),
        TEST("jinja: generation blocks are found in the output", generated),
        TEST("jinja: strings, numbers and loops are Python's", details),
        TEST("jinja: what is refused is named, with row and column", refusals),
        TEST("jinja: bombs end soon and in little memory", bombs),
        TEST("jinja: long, deep and crowded sources end soon", sources),
        TEST("jinja: a stack of 64 KiB is enough", small_stack),
        TEST("jinja: every beginning of a template is handled", truncated),
        TEST("jinja: every step may be the last", few_steps),
        TEST("jinja: every allocation may fail", faults_everywhere),
        TEST("jinja: wrong inputs are refused", wrong_inputs),
        TEST("jinja: texts of a JSON tree get their origin by path", json_origins),
        TEST("jinja: an input can be rendered again", many_renderings),
    };
    return RUN(tests);
}
