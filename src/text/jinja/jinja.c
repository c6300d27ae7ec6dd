/* jinja.c - compiling, the variables of a rendering, rendering. */
#include "text/jinja/eval.h"

#include "base/err.h"
#include "base/utf8.h"

#include <string.h>

/* ---- compiling ------------------------------------------------------------------------------- */

/* \r\n and \r become \n, and one newline at the end goes. */
static size_t normal_newlines(char *to, const char *from, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (from[i] == '\r' && i + 1 < n && from[i + 1] == '\n')
            continue;
        to[k++] = from[i] == '\r' ? '\n' : from[i];
    }
    return k && to[k - 1] == '\n' ? k - 1 : k;
}

static weft_status compile(jinja_template *t, const char *source, size_t n, weft_error *err)
{
    jrender r = { .pool = &t->pool, .err = err, .name = t->name, .steps = 2 * JINJA_STEPS };
    t->source = jalloc(&r, n + 1, 1);
    if (!t->source)
        return err->code;
    t->n_source = normal_newlines(t->source, source, n);
    t->source[t->n_source] = '\0';
    r.source = t->source;
    r.n_source = t->n_source;
    uint32_t n_token;
    jpool tokens;
    jpool_init(&tokens, t->pool.mem.within, JINJA_VALUES);
    const jtoken *token = jinja_lex(&r, &tokens, &n_token);
    t->body = token ? jinja_parse(&r, token, n_token) : NULL;
    jpool_free(&tokens);
    return t->body && jinja_resolve(&r, t) ? WEFT_OK : err->code;
}

jinja_template *jinja_compile(const char *source, size_t n, const char *name, mem *m,
                              weft_error *err)
{
    weft_error own = { 0 };
    err = err ? err : &own;
    if (n > JINJA_SOURCE) {
        weft_fail(err, WEFT_ELIMIT, "%s: a template of %zu bytes; the limit is %zu", name, n,
                  JINJA_SOURCE);
        return NULL;
    }
    const size_t wrong = utf8_find_wrong(source, n);
    if (wrong < n) {
        weft_fail(err, WEFT_EFORMAT, "%s: byte %zu of the template is not UTF-8; expected text",
                  name, wrong);
        return NULL;
    }
    jinja_template *t = mem_zalloc(m, 1, sizeof *t, "a chat template", err);
    if (!t)
        return NULL;
    jpool_init(&t->pool, m, JINJA_VALUES);
    const size_t n_name = strlen(name) + 1;
    char *copy = jpool_alloc(&t->pool, n_name, err);
    t->name = copy ? memcpy(copy, name, n_name) : NULL;
    if (!copy || compile(t, source, n, err) != WEFT_OK) {
        jinja_free(t);
        return NULL;
    }
    return t;
}

void jinja_free(jinja_template *t)
{
    if (!t)
        return;
    mem *m = t->pool.mem.within;
    jpool_free(&t->pool);
    mem_free(m, t);
}

/* ---- variables ------------------------------------------------------------------------------- */

/* A list or dict that is being built. */
typedef struct level {
    bool dict;
    jmany list;
    jdict *pairs;
    jval key;
} level;

struct jinja_input {
    jpool pool;
    jrender r; /* reports to `why` */
    weft_error why;
    jdict variables;
    uint64_t bytes; /* of text */
    level level[JINJA_DEPTH];
    int depth;
    jval done; /* the value that waits for jinja_set */
    bool failed;
};

jinja_input *jinja_input_new(mem *m, weft_error *err)
{
    jinja_input *in = mem_zalloc(m, 1, sizeof *in, "the input of a chat template", err);
    if (!in)
        return NULL;
    jpool_init(&in->pool, m, JINJA_VALUES);
    in->r = (jrender){
        .pool = &in->pool, .err = &in->why, .name = "input", .source = "", .steps = INT64_MAX
    };
    in->done = jmissing();
    return in;
}

void jinja_input_free(jinja_input *in)
{
    if (!in)
        return;
    mem *m = in->pool.mem.within;
    jpool_free(&in->pool);
    mem_free(m, in);
}

static void fail_input(jinja_input *in, const char *text)
{
    if (!in->failed)
        weft_fail(&in->why, WEFT_EINVAL, "the input of a chat template: %s", text);
    in->failed = true;
}

static void put(jinja_input *in, jval v)
{
    if (in->failed || jbad(v)) {
        in->failed = true;
        return;
    }
    if (in->depth == 0) {
        if (in->done.kind != V_MISSING)
            fail_input(in, "a second value before jinja_set; expected one");
        in->done = v;
        return;
    }
    level *l = &in->level[in->depth - 1];
    if (!l->dict)
        in->failed = !jmany_add(&in->r, &l->list, v);
    else if (l->key.kind != V_STR)
        fail_input(in, "a value without a key; expected one before it");
    else
        in->failed = !jdict_put(&in->r, l->pairs, l->key, v);
    l->key = jmissing();
}

void jinja_put_null(jinja_input *in)
{
    put(in, jnone());
}
void jinja_put_bool(jinja_input *in, bool b)
{
    put(in, jbool(b));
}
void jinja_put_int(jinja_input *in, int64_t i)
{
    put(in, jint(i));
}
void jinja_put_float(jinja_input *in, double f)
{
    put(in, jfloat(f));
}

static jval input_text(jinja_input *in, const char *bytes, size_t n, uint32_t origin)
{
    if (in->failed)
        return (jval){ .kind = V_FAIL };
    if (utf8_find_wrong(bytes, n) < n) {
        fail_input(in, "text that is not UTF-8; expected UTF-8");
        return (jval){ .kind = V_FAIL };
    }
    in->bytes += n;
    return jstr_value(jstr_new(&in->r, bytes, n, origin));
}

void jinja_put_text(jinja_input *in, const char *bytes, size_t n, uint32_t origin)
{
    if (n <= JINJA_INPUT && in->pool.mem.cap <= SIZE_MAX / 2)
        in->pool.mem.cap += JINJA_TIMES * n;
    put(in, input_text(in, bytes, n, origin));
}

void jinja_put_key(jinja_input *in, const char *bytes, size_t n, uint32_t origin)
{
    const jval key = input_text(in, bytes, n, origin);
    level *l = in->depth ? &in->level[in->depth - 1] : NULL;
    if (!l || !l->dict || l->key.kind == V_STR)
        fail_input(in, "a key where none belongs; expected it in a dict, before a value");
    else
        l->key = key;
    in->failed = in->failed || jbad(key);
}

static void begin(jinja_input *in, bool dict)
{
    if (in->depth == JINJA_DEPTH) {
        if (!in->failed)
            weft_fail(&in->why, WEFT_ELIMIT, "the input of a chat template: nested deeper than %d",
                      JINJA_DEPTH);
        in->failed = true;
    }
    if (in->failed)
        return;
    level *l = &in->level[in->depth++];
    *l = (level){ .dict = dict, .key = jmissing() };
    l->pairs = dict ? jdict_new(&in->r, 0) : NULL;
    in->failed = dict && !l->pairs;
}

void jinja_begin_list(jinja_input *in)
{
    begin(in, false);
}
void jinja_begin_dict(jinja_input *in)
{
    begin(in, true);
}

void jinja_end(jinja_input *in)
{
    if (in->depth == 0)
        fail_input(in, "an end without a beginning");
    if (in->failed)
        return;
    level *l = &in->level[--in->depth];
    if (l->dict && l->key.kind != V_MISSING)
        fail_input(in, "a key without a value; expected one after it");
    put(in,
        l->dict ? (jval){ .kind = V_DICT, .dict = l->pairs } : jmany_end(&in->r, &l->list, V_LIST));
}

weft_status jinja_set(jinja_input *in, const char *name, weft_error *err)
{
    if (!in->failed && (in->depth > 0 || in->done.kind == V_MISSING))
        fail_input(in, "jinja_set without a whole value; expected one");
    const jval key = in->failed ? in->done : jstr_value(jstr_new(&in->r, name, strlen(name), 0));
    if (!in->failed)
        in->failed = jbad(key) || !jdict_put(&in->r, &in->variables, key, in->done);
    in->done = jmissing();
    if (in->failed && err)
        *err = in->why;
    return in->failed ? in->why.code : WEFT_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

typedef struct json_walk {
    jinja_input *in;
    jinja_origin_fn *origin;
    void *ud;
    jinja_step path[JINJA_DEPTH];
    int n;
} json_walk;

static uint32_t origin_here(json_walk *w, bool is_key)
{
    return w->origin ? w->origin(w->ud, w->path, w->n, is_key) : 0;
}

static void put_json(json_walk *w, const json_t *v);

static void put_object(json_walk *w, const json_t *v)
{
    const char *key;
    json_t *value, *object = (json_t *)v; /* iterators take no const; nothing is changed */
    jinja_begin_dict(w->in);
    if (w->in->failed)
        return;
    json_object_foreach(object, key, value)
    {
        w->path[w->n++] = (jinja_step){ key, -1 };
        jinja_put_key(w->in, key, strlen(key), origin_here(w, true));
        put_json(w, value);
        w->n--;
        if (w->in->failed)
            return;
    }
    jinja_end(w->in);
}

static void put_array(json_walk *w, const json_t *v)
{
    jinja_begin_list(w->in);
    for (size_t i = 0; i < json_array_size(v) && !w->in->failed; i++) {
        w->path[w->n++] = (jinja_step){ NULL, (int64_t)i };
        put_json(w, json_array_get(v, i));
        w->n--;
    }
    if (!w->in->failed)
        jinja_end(w->in);
}

static void put_json(json_walk *w, const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        put_object(w, v);
        break;
    case JSON_ARRAY:
        put_array(w, v);
        break;
    case JSON_STRING:
        jinja_put_text(w->in, json_string_value(v), json_string_length(v), origin_here(w, false));
        break;
    case JSON_INTEGER:
        jinja_put_int(w->in, json_integer_value(v));
        break;
    case JSON_REAL:
        jinja_put_float(w->in, json_real_value(v));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        jinja_put_bool(w->in, json_is_true(v));
        break;
    default:
        jinja_put_null(w->in);
    }
}

void jinja_put_json(jinja_input *in, const json_t *value, jinja_origin_fn *origin, void *ud)
{
    json_walk w = { .in = in, .origin = origin, .ud = ud };
    put_json(&w, value);
}

/* ---- rendering ------------------------------------------------------------------------------- */

weft_status jinja_render(const jinja_template *t, jinja_input *in, const jinja_options *options,
                         jinja_output *out, weft_error *err)
{
    *out = (jinja_output){ 0 };
    if (!in->failed)
        return jinja_run_template(t, &in->pool, &in->variables, in->bytes, options, out, err);
    if (err)
        *err = in->why;
    return in->why.code;
}
