/* fuzz_calls.c - a template, a zero byte, and a generated text. The template is probed for its syntax of
 * calls; the text is read with it, or with one of two fixed ones, whole and in pieces, which must
 * tell the same. A text that begins with '[' is also read as a list of tools. */
#include "hostile.h"
#include "text/constrain/tools.h"

#include <stdlib.h>
#include <string.h>

#define CAP ((size_t)64 << 20)

#define LITERAL(text)                                                                              \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }

static const call_syntax json_form = {
    .form = CALLS_JSON,
    .several = true,
    .begin = LITERAL("<c>{\"name\":\""),
    .start = LITERAL("<c>"),
    .middle = LITERAL("\",\"id\":\1,\"n\":\2,\"a\":"),
    .between = LITERAL("}</c><c>{\"name\":\""),
    .end = LITERAL("}</c>"),
};

static const call_syntax pair_form = {
    .form = CALLS_PAIRS,
    .several = true,
    .begin = LITERAL("<c><f="),
    .start = LITERAL("<c>"),
    .middle = LITERAL("><p="),
    .between = LITERAL("</p></f><f="),
    .end = LITERAL("</p></f></c>"),
    .value = { LITERAL(" s=true>"), LITERAL(" s=false>") },
    .next = LITERAL("</p><p="),
    .close = LITERAL("</p>"),
    .none_between = LITERAL("></f><f="),
    .none_end = LITERAL("></f></c>"),
};

/* Texts and arguments joined, with a mark where a call begins and ends. */
static void hear(void *ud, call_event e, const char *text, size_t n)
{
    static const char marks[] = { [CALL_TEXT] = 't', [CALL_BEGINS] = 'b', [CALL_ARGUMENTS] = 'a' };
    buffer *b = ud;
    if (e == CALL_ENDS || e == CALL_BEGINS)
        buffer_text(b, e == CALL_ENDS ? "\2" : "\3");
    for (size_t i = 0; e != CALL_ENDS && i < n; i++)
        buffer_put(b, (const char[]){ marks[e], text[i] }, 2);
}

static void read_all(const call_syntax *s, const uint8_t *text, size_t n, size_t step, buffer *to,
                     mem *m)
{
    weft_error err = { 0 };
    call_reader r;
    calls_read_begin(&r, s, hear, NULL, to, m, &err);
    for (size_t i = 0; i < n; i += step)
        calls_read(&r, (const char *)text + i, n - i < step ? n - i : step);
    calls_read_end(&r);
    holds(err.code == WEFT_OK, "an error");
    calls_read_free(&r);
}

static void compare(const call_syntax *s, const uint8_t *text, size_t n, mem *m)
{
    weft_error err = { 0 };
    buffer whole, pieces;
    buffer_begin(&whole, m, &err);
    buffer_begin(&pieces, m, &err);
    read_all(s, text, n, n ? n : 1, &whole, m);
    read_all(s, text, n, 1 + n % 5, &pieces, m);
    holds(whole.n == pieces.n && (whole.n == 0 || memcmp(whole.at, pieces.at, whole.n) == 0),
          "pieces tell something else");
    buffer_end(&whole);
    buffer_end(&pieces);
}

static void read_tools(const uint8_t *text, size_t n, mem *m)
{
    static const tokenizer plain;
    tool_list list;
    weft_error err = { 0 };
    const tool_rules rules = { .required = n % 2, .single = n % 3 == 0 };
    if (tools_read(&list, (const char *)text, n, m, &err) == WEFT_OK) {
        grammar_free(
            tools_grammar(&list, n % 2 ? &json_form : &pair_form, &plain, &rules, m, &err));
        tools_free(&list);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    const size_t n = zero ? (size_t)(zero - data) : 0;
    const uint8_t *text = zero ? zero + 1 : data;
    const size_t length = zero ? size - n - 1 : size;
    weft_error err = { 0 };
    mem m;
    mem_init(&m, CAP, NULL);
    if (n > 0) {
        chat c = { .path = "fuzz", .source = (const char *)data, .n = n };
        if (chat_open(&c, &m, &err) == WEFT_OK) {
            if (c.calls.form != CALLS_NONE)
                compare(&c.calls, text, length, &m);
            chat_close(&c);
        }
    }
    compare(&json_form, text, length, &m);
    compare(&pair_form, text, length, &m);
    if (length > 0 && text[0] == '[')
        read_tools(text, length, &m);
    holds(m.used == 0, "memory is left");
    return 0;
}
