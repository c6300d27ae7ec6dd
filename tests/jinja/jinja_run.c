/* jinja_run.c - renders templates for tools that compare weft with jinja2. Reads lines of JSON from
 * standard input, {"template": "...", "context": {...}}, and answers each with a line: {"text":
 * "...", "runs": [[end, origin], ...]} or {"error": "..."}. The n-th string of the context, keys
 * not counted, has origin n. */
#include "formats/json.h"
#include "text/jinja/jinja.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t count_texts(void *ud, const jinja_step *path, int n_path, bool is_key)
{
    (void)path, (void)n_path;
    return is_key ? 0 : ++*(uint32_t *)ud;
}

/* 2026-03-07, a Saturday, as in tools/template_golden.py. */
static const struct tm now = { .tm_year = 126,
                               .tm_mon = 2,
                               .tm_mday = 7,
                               .tm_hour = 15,
                               .tm_min = 4,
                               .tm_sec = 5,
                               .tm_wday = 6,
                               .tm_yday = 65 };

static weft_status render(const char *source, json_t *context, mem *m, json_t *answer,
                          weft_error *err)
{
    jinja_template *t = jinja_compile(source, strlen(source), "template", m, err);
    jinja_input *in = t ? jinja_input_new(m, err) : NULL;
    weft_status status = in ? WEFT_OK : err->code;
    const char *key;
    json_t *value;
    uint32_t n = 0;
    json_object_foreach(context, key, value)
    {
        if (status == WEFT_OK) {
            jinja_put_json(in, value, count_texts, &n);
            status = jinja_set(in, key, err);
        }
    }
    jinja_output out = { 0 };
    if (status == WEFT_OK)
        status = jinja_render(t, in, &(jinja_options){ .now = &now }, &out, err);
    if (status == WEFT_OK) {
        json_t *runs = json_array();
        json_object_set_new(answer, "text", json_stringn(out.text, out.n));
        for (size_t i = 0; i < out.n_run; i++)
            json_array_append_new(runs, json_pack("[I, I]", (json_int_t)out.run[i].end,
                                                  (json_int_t)out.run[i].origin));
        json_object_set_new(answer, "runs", runs);
    }
    jinja_input_free(in);
    jinja_free(t);
    return status;
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        json_error_t why;
        mem m;
        weft_error err = { 0 };
        json_t *ask = json_loads(line, JSON_ALLOW_NUL, &why);
        if (!ask) {
            fprintf(stderr, "jinja_run: %s\n", why.text);
            return 2;
        }
        json_t *answer = json_object();
        mem_init(&m, 0, NULL);
        const char *source = json_string_value(json_object_get(ask, "template"));
        if (render(source, json_object_get(ask, "context"), &m, answer, &err) != WEFT_OK)
            json_object_set_new(answer, "error", json_string(err.message));
        if (atomic_load(&m.used) != 0) {
            fprintf(stderr, "jinja_run: memory is left\n");
            return 2;
        }
        json_dumpf(answer, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(answer);
        json_decref(ask);
    }
    free(line);
    return 0;
}
