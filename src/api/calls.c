/* calls.c - the public functions that find calls of tools: check, translate, delegate. */
#include "api/api.h"
#include "text/constrain/tools.h"

struct weft_call_reader {
    mem *mem;
    call_reader inner;
    tool_list tools;
    weft_call_fn *fn;
    void *ud;
    weft_error err; /* of the inner reader */
};

static void tell(void *ud, call_event e, const char *text, size_t n)
{
    static const weft_call_event events[] = {
        [CALL_TEXT] = WEFT_CALL_TEXT,
        [CALL_BEGINS] = WEFT_CALL_BEGINS,
        [CALL_ARGUMENTS] = WEFT_CALL_ARGUMENTS,
        [CALL_ENDS] = WEFT_CALL_ENDS,
    };
    const weft_call_reader *r = ud;
    r->fn(r->ud, events[e], text, n);
}

static bool is_string(void *ud, const char *name, const char *key)
{
    const weft_call_reader *r = ud;
    return tools_is_string(&r->tools, name, key);
}

weft_call_reader *weft_call_reader_new(const weft_template *t, const char *tools, size_t n,
                                       weft_call_fn *fn, void *ud, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!t || !fn || (!tools && n > 0)) {
        weft_fail(err, WEFT_EINVAL, "no %s given", !t ? "template" : !fn ? "function" : "tools");
        return NULL;
    }
    const chat *c = template_inside(t);
    if (c->calls.form == CALLS_NONE) {
        weft_fail(err, WEFT_EUNSUPPORTED,
                  "this template writes calls of tools in a form that weft does not know");
        return NULL;
    }
    mem *m = template_memory(t);
    weft_call_reader *r = mem_zalloc(m, 1, sizeof *r, "a reader of calls", err);
    if (!r)
        return NULL;
    *r = (weft_call_reader){ .mem = m, .fn = fn, .ud = ud };
    calls_read_begin(&r->inner, &c->calls, tell, is_string, r, m, &r->err);
    if (!tools || tools_read(&r->tools, tools, n, m, err) == WEFT_OK)
        return r;
    weft_call_reader_free(r);
    return NULL;
}

void weft_call_reader_free(weft_call_reader *r)
{
    if (!r)
        return;
    calls_read_free(&r->inner);
    tools_free(&r->tools);
    mem_free(r->mem, r);
}

static weft_status status_of(weft_call_reader *r, bool good, weft_error *err)
{
    if (!good)
        *err = r->err;
    return good ? WEFT_OK : err->code;
}

weft_status weft_call_reader_push(weft_call_reader *r, const char *text, size_t n, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!r || (n > 0 && !text))
        return weft_fail(err, WEFT_EINVAL, !r ? "no reader given" : "no text given");
    return n > 0 ? status_of(r, calls_read(&r->inner, text, n), err) : WEFT_OK;
}

weft_status weft_call_reader_finish(weft_call_reader *r, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!r)
        return weft_fail(err, WEFT_EINVAL, "no reader given");
    return status_of(r, calls_read_end(&r->inner), err);
}
