/* test_think.c - thinking is separated from the answer wherever the text is cut (server/think.c). */
#include "support.h"
#include "think.h"

#include <stdio.h>
#include <string.h>

typedef struct parts {
    char thought[512], answer[512];
} parts;

static void take(void *ud, bool thinks, const char *bytes, size_t n)
{
    parts *p = ud;
    char *to = thinks ? p->thought : p->answer;
    assert_true(n > 0);
    strncat(to, bytes, n);
}

typedef struct example {
    const char *begin, *end;
    bool inside;
    const char *text, *thought, *answer;
} example;

#define FENCE "<think>", "</think>"

static const example examples[] = {
    { FENCE, false, "<think>a</think>b", "a", "b" },
    { FENCE, false, "\n <think>\n\na b\n</think>\n\n b ", "a b\n", "b " },
    { FENCE, false, "b", "", "b" },
    { FENCE, false, "", "", "" },
    { FENCE, false, " b", "", " b" },
    { FENCE, false, " \n", "", " \n" },
    { FENCE, false, "<thin", "", "<thin" },
    { FENCE, false, "<thinx>a</think>", "", "<thinx>a</think>" },
    { FENCE, false, "b<think>a</think>", "", "b<think>a</think>" },
    { FENCE, false, "<think>a</think>b <think>c</think>", "a", "b <think>c</think>" },
    { FENCE, false, "<think>a<</</thi</think", "a<</</thi</think", "" },
    { FENCE, false, "<think>a<</</thi</think>b", "a<</</thi", "b" },
    { FENCE, false, "<think></think>b", "", "b" },
    { FENCE, false, "<think>\n\n</think>\n\nb", "", "b" },
    { FENCE, true, "\na</think>b", "a", "b" },
    { FENCE, true, "a", "a", "" },
    /* A fence that begins like its own middle. */
    { "(", "aabaac", true, "aabaabaacb", "aab", "b" },
    { "(", "aabaac", true, "aaabaacb", "a", "b" },
    { "(", "aabaac", true, "aabaabaab", "aabaabaab", "" },
    { "(", "aa", true, "baab", "b", "b" },
    { NULL, NULL, false, "<think>a</think>b", "", "<think>a</think>b" },
};

/* The text in three pieces. */
static void try_cut(const example *e, size_t first, size_t second)
{
    parts p = { "", "" };
    thinking t = { .fn = take, .ud = &p };
    const size_t n = strlen(e->text);
    think_init(&t, e->begin, e->end, e->inside);
    think_feed(&t, e->text, first);
    think_feed(&t, e->text + first, second - first);
    think_feed(&t, e->text + second, n - second);
    think_end(&t);
    if (strcmp(p.thought, e->thought) != 0 || strcmp(p.answer, e->answer) != 0)
        fail_msg("\"%s\" cut at %zu and %zu: \"%s\" and \"%s\"; expected \"%s\" and \"%s\"",
                 e->text, first, second, p.thought, p.answer, e->thought, e->answer);
    assert_string_equal(p.thought, e->thought);
}

static void any_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        for (size_t second = 0; second <= strlen(examples[i].text); second++)
            for (size_t first = 0; first <= second; first++)
                try_cut(&examples[i], first, second);
}

static void byte_by_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const example *e = &examples[i];
        parts p = { "", "" };
        thinking t = { .fn = take, .ud = &p };
        think_init(&t, e->begin, e->end, e->inside);
        for (const char *s = e->text; *s; s++)
            think_feed(&t, s, 1);
        think_end(&t);
        assert_string_equal(p.thought, e->thought);
        assert_string_equal(p.answer, e->answer);
    }
}

/* More blanks than are kept back: then the text is an answer, and nothing is lost. */
static void many_blanks(void **state)
{
    char text[200];
    (void)state;
    for (size_t n = 60; n < 70; n++) {
        memset(text, ' ', n);
        snprintf(text + n, sizeof text - n, "<think>a</think>b");
        const bool kept = n <= 64;
        const example e = { FENCE, false, text, kept ? "a" : "", kept ? "b" : text };
        try_cut(&e, n, n);
        try_cut(&e, n / 2, n + 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("think: a text may be cut anywhere", any_cut),
        TEST("think: a text may come byte by byte", byte_by_byte),
        TEST("think: blanks before the first word are kept", many_blanks),
    };
    return RUN(tests);
}
