/* messages.c - conversations and templates; see messages.h. */
#include "messages.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Appends text as a JSON string; without room (to NULL) it only counts. Bytes that are not UTF-8
 * become U+FFFD. */
static size_t quote(char *to, const char *text, size_t n)
{
    size_t at = 0;
    for (size_t i = 0, step; i < n; i += step) {
        char one[8];
        const unsigned char c = (unsigned char)text[i];
        step = cli_utf8(text + i, n - i);
        const char *from = text + i;
        size_t length = step;
        if (step == 0) {
            from = "\xEF\xBF\xBD";
            length = 3;
            step = 1;
        } else if (c < 0x20 || c == '"' || c == '\\') {
            length = (size_t)snprintf(one, sizeof one, "\\u%04x", c);
            from = one;
        }
        if (to)
            memcpy(to + at, from, length);
        at += length;
    }
    return at;
}

static size_t put(char *to, size_t at, const char *role, const char *text, size_t n)
{
    char head[64];
    const size_t n_head = (size_t)snprintf(head, sizeof head, "%s{\"role\":\"%s\",\"content\":\"",
                                           at > 1 ? "," : "", role);
    if (to)
        memcpy(to + at, head, n_head);
    at += n_head;
    at += quote(to ? to + at : NULL, text, n);
    if (to)
        memcpy(to + at, "\"}", 2);
    return at + 2;
}

static size_t put_all(char *to, const char *system, const char *user, size_t n_user)
{
    size_t at = 1;
    if (to)
        to[0] = '[';
    if (system)
        at = put(to, at, "system", system, strlen(system));
    at = put(to, at, "user", user, n_user);
    if (to)
        memcpy(to + at, "]", 2);
    return at + 2;
}

char *cli_messages(const char *system, const char *user, size_t n_user)
{
    char *text = cli_alloc(put_all(NULL, system, user, n_user), 1, "the messages");
    if (text)
        put_all(text, system, user, n_user);
    return text;
}

weft_template *cli_template(const char *model, const char *file, const char *name, weft_error *err)
{
    const weft_template_options o = { .struct_size = sizeof o,
                                      .name = name,
                                      .budget = cli_budget() };
    const char *path = file ? file : cli_model_path(model, err);
    return path ? weft_template_load(path, &o, err) : NULL;
}

int cli_chat_prompt(const prompt_options *p, const load_options *load, const weft_tokenizer *t,
                    const char *text, size_t length, int32_t **ids, int64_t *n)
{
    weft_error err = { 0 };
    weft_render_options o = { .struct_size = sizeof o, .variables = p->variables };
    weft_template *chat = cli_template(load->path, p->template, NULL, &err);
    if (!chat)
        return cli_fail(&err);
    cli_date(NULL, &o.now);
    char *messages = cli_messages(p->system, text, length);
    weft_rendered *r = messages
                           ? weft_template_render(chat, t, messages, strlen(messages), &o, &err)
                           : NULL;
    *n = r ? r->tokens->n : 0;
    *ids = r ? cli_alloc((size_t)*n + 1, sizeof **ids, "ids") : NULL;
    if (*ids && *n > 0)
        memcpy(*ids, r->tokens->ids, (size_t)*n * sizeof **ids);
    const bool good = *ids != NULL;
    weft_rendered_free(r);
    cli_free(messages);
    weft_template_free(chat);
    return good ? 0 : err.code ? cli_fail(&err) : cli_no_memory();
}

bool cli_date(const char *text, int64_t *now)
{
    struct tm day = { .tm_isdst = -1, .tm_hour = 12 };
    const char *given = text ? text : getenv("SOURCE_DATE_EPOCH");
    char *end;
    *now = 0;
    if (!given)
        return true;
    const long long seconds = strtoll(given, &end, 10);
    if (end != given && !*end && seconds > 0) {
        *now = seconds;
        return true;
    }
    end = strptime(given, "%Y-%m-%d", &day);
    *now = end && !*end ? (int64_t)mktime(&day) : 0;
    return end && !*end;
}
