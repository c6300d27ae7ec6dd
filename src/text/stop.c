/* stop.c - failure functions of the stop strings, and the bytes that are held back. */
#include "text/stop.h"

#include <string.h>

/* The length of the match after one more byte of text. */
static size_t follow(const stop_string *s, size_t matched, char c)
{
    while (matched > 0 && s->text[matched] != c)
        matched = s->shorter[matched - 1];
    return s->text[matched] == c ? matched + 1 : 0;
}

static weft_status string_init(stop_string *s, mem *m, const char *text, weft_error *err)
{
    s->n = strlen(text);
    s->text = mem_strdup(m, text, err);
    s->shorter = mem_zalloc(m, s->n, sizeof *s->shorter, "stop strings", err);
    if (!s->text || !s->shorter)
        return WEFT_ENOMEM;
    for (size_t i = 1; i < s->n; i++)
        s->shorter[i] = follow(s, s->shorter[i - 1], s->text[i]);
    return WEFT_OK;
}

static void begin(stop *s)
{
    s->hit = -1;
    for (int i = 0; i < s->n_string; i++)
        s->string[i].matched = 0;
}

weft_status stop_init(stop *s, mem *m, const char *const *strings, int n, weft_error *err)
{
    *s = (stop){ .mem = m };
    buffer_begin(&s->out, m, err);
    if (n < 0 || (n > 0 && !strings))
        return weft_fail(err, WEFT_EINVAL, "%d stop strings, but the list is NULL", n);
    s->string = mem_zalloc(m, (size_t)n + 1, sizeof *s->string, "stop strings", err);
    if (!s->string)
        return WEFT_ENOMEM;
    s->n_string = n;
    for (int i = 0; i < n; i++) {
        if (!strings[i] || !*strings[i])
            return weft_fail(err, WEFT_EINVAL, "stop string %d is empty", i);
        if (string_init(&s->string[i], m, strings[i], err) != WEFT_OK)
            return WEFT_ENOMEM;
    }
    begin(s);
    return WEFT_OK;
}

void stop_free(stop *s)
{
    if (!s->mem)
        return;
    for (int i = 0; i < s->n_string; i++) {
        mem_free(s->mem, (void *)s->string[i].text);
        mem_free(s->mem, s->string[i].shorter);
    }
    mem_free(s->mem, s->string);
    buffer_end(&s->out);
    *s = (stop){ 0 };
}

/* Adds one byte; `hit` is the longest string that it completes. */
static void take_byte(stop *s, char c)
{
    size_t longest = 0;
    for (int i = 0; i < s->n_string; i++) {
        stop_string *t = &s->string[i];
        t->matched = follow(t, t->matched, c);
        if (t->matched == t->n && t->n > longest) {
            longest = t->n;
            s->hit = i;
        }
    }
}

/* How much of the text so far may be emitted. */
static size_t free_length(const stop *s)
{
    size_t held = s->hit >= 0 ? s->string[s->hit].n : 0;
    for (int i = 0; i < s->n_string && s->hit < 0; i++)
        held = s->string[i].matched > held ? s->string[i].matched : held;
    return s->out.n - held;
}

weft_status stop_push(stop *s, const char *bytes, size_t n, const char **out, size_t *out_length,
                      weft_error *err)
{
    *out = "";
    *out_length = 0;
    if (s->hit >= 0)
        return WEFT_OK;
    buffer *b = &s->out;
    const size_t held = b->n - s->given;
    if (held > 0)
        memmove(b->at, b->at + s->given, held);
    b->n = held;
    s->given = 0;
    b->err = err;
    b->failed = false;
    buffer_put(b, bytes, n);
    if (b->failed)
        return WEFT_ENOMEM;
    b->n = held;
    while (b->n < held + n && s->hit < 0)
        take_byte(s, (char)b->at[b->n++]);
    s->given = free_length(s);
    *out_length = s->given;
    if (s->given > 0)
        *out = (const char *)b->at;
    return WEFT_OK;
}

void stop_flush(stop *s, const char **out, size_t *out_length)
{
    *out_length = s->hit < 0 ? s->out.n - s->given : 0;
    *out = *out_length > 0 ? (const char *)s->out.at + s->given : "";
    s->given = s->out.n;
    begin(s);
}
