/* fuzz_jinja.c - a chat template, a zero byte, and its variables as JSON, or a text if that is none:
 * compiled and rendered. The output is UTF-8, and every byte has an origin that exists. */
#include "base/utf8.h"
#include "hostile.h"
#include "text/jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

#define CAP   ((size_t)100 << 20)
#define STEPS 5000

static uint32_t next_origin(void *ud, const jinja_step *path, int n_path, bool is_key)
{
    (void)path, (void)n_path, (void)is_key;
    return ++*(uint32_t *)ud;
}

static weft_status set_variables(jinja_input *in, const char *bytes, size_t n, uint32_t *n_origin,
                                 json_t **tree, weft_error *err)
{
    json_error_t why;
    const char *key;
    json_t *value;
    weft_status status = WEFT_OK;
    *tree = json_loadb(bytes, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (!json_is_object(*tree)) {
        jinja_put_text(in, bytes, n, ++*n_origin);
        return jinja_set(in, "text", err);
    }
    json_object_foreach(*tree, key, value)
    {
        if (status == WEFT_OK) {
            jinja_put_json(in, value, next_origin, n_origin);
            status = jinja_set(in, key, err);
        }
    }
    return status;
}

static void check(const jinja_output *out, uint32_t n_origin)
{
    size_t end = 0;
    holds(utf8_find_wrong(out->text, out->n) == out->n, "the output is not UTF-8");
    holds(out->text[out->n] == '\0', "the output is not terminated");
    for (size_t i = 0; i < out->n_run; i++) {
        holds(out->run[i].begin == end && out->run[i].end > end, "runs do not follow each other");
        holds(out->run[i].origin <= n_origin, "an origin that nobody gave");
        end = out->run[i].end;
    }
    holds(end == out->n, "runs do not cover the output");
    end = 0;
    for (size_t i = 0; i < out->n_generated; i++) {
        holds(out->generated[i].begin >= end && out->generated[i].end > out->generated[i].begin,
              "generated ranges overlap");
        end = out->generated[i].end;
    }
    holds(end <= out->n, "a generated range is outside of the output");
}

static void run(const char *source, size_t n, const char *rest, size_t n_rest, mem *m)
{
    const struct tm now = { .tm_year = 126, .tm_mday = 1 };
    weft_error err = { 0 };
    jinja_template *t = jinja_compile(source, n, "fuzz", m, &err);
    uint32_t n_origin = 0;
    json_t *tree = NULL;
    if (!t) {
        holds(err.code != WEFT_OK && strncmp(err.message, "fuzz: ", 6) == 0,
              "an error does not name the template");
        return;
    }
    jinja_input *in = jinja_input_new(m, &err);
    weft_status status = set_variables(in, rest, n_rest, &n_origin, &tree, &err);
    jinja_output out = { 0 };
    if (status == WEFT_OK)
        status = jinja_render(t, in, &(jinja_options){ .now = &now, .steps = STEPS }, &out, &err);
    holds(status == err.code && (status == WEFT_OK || err.message[0]),
          "an error without a sentence");
    if (status == WEFT_OK)
        check(&out, n_origin);
    jinja_input_free(in);
    jinja_free(t);
    json_decref(tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mem m;
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    const size_t n = zero ? (size_t)(zero - data) : size;
    /* every block of its own, so that a sanitizer sees one byte too many */
    mem_init(&m, CAP, &plain_hooks);
    char *source = malloc(n ? n : 1);
    if (n)
        memcpy(source, data, n);
    run(source, n, zero ? (const char *)zero + 1 : "", zero ? size - n - 1 : 0, &m);
    free(source);
    holds(atomic_load(&m.used) == 0, "memory is left");
    return 0;
}
