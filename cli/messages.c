/* messages.c - conversations and templates; see messages.h. */
#include "messages.h"

#include "chat.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

char *cli_messages(const char *system, const char *user, size_t n_user)
{
    conversation c = { 0 };
    cli_text json = { 0 };
    message *m = NULL;
    bool good = !system || conversation_set_system(&c, system, strlen(system));
    good = good && (m = conversation_add(&c, "user")) && cli_text_add(&m->content, user, n_user) &&
           conversation_json(&c, &json);
    conversation_free(&c);
    if (!good)
        cli_text_free(&json);
    return json.at;
}

weft_template *cli_template(const char *model, const char *file, const char *name, weft_error *err)
{
    const weft_template_options o = { .struct_size = sizeof o,
                                      .name = name,
                                      .budget = cli_budget() };
    const char *path = file ? file : cli_model_path(model, err);
    return path ? weft_template_load(path, &o, err) : NULL;
}

/* The ids of a conversation with one message. */
static int render_ids(const prompt_options *p, const load_options *load, const weft_tokenizer *t,
                      const char *messages, int32_t **ids, int64_t *n)
{
    weft_error err = { 0 };
    weft_render_options o = { .struct_size = sizeof o, .variables = p->variables };
    weft_template *form = cli_template(load->path, p->template, NULL, &err);
    cli_date(NULL, &o.now);
    weft_rendered *r = form ? weft_template_render(form, t, messages, strlen(messages), &o, &err)
                            : NULL;
    *n = r ? r->tokens->n : 0;
    *ids = r ? cli_alloc((size_t)*n + 1, sizeof **ids, "ids") : NULL;
    if (*ids && *n > 0)
        memcpy(*ids, r->tokens->ids, (size_t)*n * sizeof **ids);
    weft_rendered_free(r);
    weft_template_free(form);
    return *ids ? 0 : err.code ? cli_fail(&err) : cli_no_memory();
}

int cli_chat_prompt(const command *c, const prompt_options *p, const load_options *load,
                    weft_tokenizer **tokenizer, int32_t **ids, int64_t *n)
{
    weft_error err = { 0 };
    char *given = NULL;
    size_t length = 0;
    *tokenizer = cli_tokenizer(load, p->pre, &err);
    if (!*tokenizer)
        return cli_fail(&err);
    int code = cli_prompt_text(c, p, &given, &length);
    char *messages = code ? NULL : cli_messages(p->system, given, length);
    if (!code)
        code = messages ? render_ids(p, load, *tokenizer, messages, ids, n) : cli_no_memory();
    cli_free(messages);
    cli_free(given);
    return code;
}

bool cli_date(const char *wanted, int64_t *now)
{
    struct tm day = { .tm_isdst = -1, .tm_hour = 12 };
    const char *given = wanted ? wanted : getenv("SOURCE_DATE_EPOCH");
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
