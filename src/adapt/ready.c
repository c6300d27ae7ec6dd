/* ready.c - makes an adapter ready for sessions. */
#include "adapt/ready.h"

#include "adapt/gain.h"
#include "base/checksum.h"

#include <string.h>

/* ---- what products cannot take --------------------------------------------------------------- */

bool ready_has_place(const tensor *w)
{
    return w->n_dim <= 2 && !strstr(w->name, "_exps") && !strstr(w->name, "attn_k_b") &&
           !strstr(w->name, "attn_v_b") && !strstr(w->name, "attn_kv_b");
}

static weft_status refuse_apart(const adapter *a, const tensor *w, weft_error *err)
{
    if (ready_has_place(w))
        return WEFT_OK;
    return weft_fail(err, WEFT_EUNSUPPORTED,
                     "%s: changes %s; expected weights of attention, feed-forward layers and "
                     "embeddings; merge the adapter with PEFT and convert the result",
                     a->file.path, w->name);
}

/* ---- gains ----------------------------------------------------------------------------------- */

/* The numbers of a tensor as reals. NULL after an error. */
static real *reals_of(const tensor *t, const model *m, weft_error *err)
{
    const size_t bytes = dtype_row_bytes(t->type, cols(t));
    real *to = mem_zalloc(&m->host->mem, (size_t)(rows(t) * cols(t)), /* bounded: in memory */
                          sizeof *to, "an adapter", err);
    for (int64_t i = 0; to && i < rows(t); i++)
        t->type->decode(to + i * cols(t), (const char *)t->data + (size_t)i * bytes, 0, cols(t));
    return to;
}

static weft_status divide_gain(real *to, const adapter_part *p, const tensor *w, const model *m,
                               weft_error *err)
{
    real *a = reals_of(&p->a, m, err), *b = a ? reals_of(&p->b, m, err) : NULL;
    const adapted_weight of = { .w = w,
                                .table = p->table,
                                .a = a,
                                .b = b,
                                .I = cols(&p->a),
                                .rank = rows(&p->a),
                                .scale = (real)p->scale,
                                .kern = m->kern };
    if (b)
        adapted_gains(&of, to, p->gain, 0, rows(&p->b));
    mem_free(&m->host->mem, b);
    mem_free(&m->host->mem, a);
    return b ? WEFT_OK : WEFT_ENOMEM;
}

/* ---- the set --------------------------------------------------------------------------------- */

static void *take_room(ready_adapter *r, int64_t n, size_t size, weft_error *err)
{
    void *at = arena_alloc(&r->from.store, (size_t)n * size, err); /* bounded: by the model */
    if (at)
        memset(at, 0, (size_t)n * size); /* bounded: likewise */
    return at;
}

static weft_status add_part(ready_adapter *r, adapter_part *p, const model *m, weft_error *err)
{
    const tensor *w = m->param[p->param];
    lora *l = take_room(r, 1, sizeof *l, err);
    real *gain = l && p->gain ? take_room(r, rows(&p->b), sizeof *gain, err) : NULL;
    if (!l || (p->gain && !gain))
        return WEFT_ENOMEM;
    weft_status status = refuse_apart(&r->from, w, err);
    if (status == WEFT_OK && gain)
        status = divide_gain(gain, p, w, m, err);
    *l = (lora){ .a = &p->a, .b = &p->b, .scale = (real)p->scale, .gain = gain, .bias = p->bias };
    (p->table ? r->set.table : r->set.matrix)[w->slot] = l;
    r->set.scales = r->set.scales || gain;
    r->set.rank = rows(&p->a) > r->set.rank ? rows(&p->a) : r->set.rank;
    return status;
}

/* A table is replaced where rows are taken from it; a head that shares it has a line of its own. */
static weft_status add_whole(ready_adapter *r, adapter_whole *p, const model *m, weft_error *err)
{
    const tensor *w = m->param[p->param];
    const bool table = strcmp(p->name, w->name) == 0 && strstr(p->name, "_embd.");
    p->value.slot = 0;
    (table ? r->set.whole_table : r->set.whole)[w->slot] = &p->value;
    r->set.replaces = true;
    return refuse_apart(&r->from, w, err);
}

/* ---- its fingerprint --------------------------------------------------------------------------- */

static void add_text(xxh64 *s, const char *text)
{
    xxh64_add(s, text, strlen(text) + 1); /* bounded: a string */
}

static void add_tensor(xxh64 *s, const tensor *t)
{
    size_t bytes = dtype_row_bytes(t->type, cols(t));
    for (int d = 0; d < t->n_dim - 1; d++)
        bytes *= (size_t)t->shape[d]; /* bounded: it lies in memory */
    add_text(s, t->type->name);
    xxh64_add(s, t->shape, (size_t)t->n_dim * sizeof *t->shape); /* bounded: MAX_DIM */
    xxh64_add(s, t->data, bytes);
}

static void add_reals(xxh64 *s, const real *x, int64_t n)
{
    const uint64_t count = x ? (uint64_t)n : 0;
    xxh64_add(s, &count, sizeof count);
    if (x)
        xxh64_add(s, x, (size_t)count * sizeof *x); /* bounded: in memory */
}

/* Of all numbers, and of what they belong to. */
static uint64_t fingerprint_of(const adapter *a)
{
    xxh64 s;
    xxh64_begin(&s);
    for (int64_t i = 0; i < a->n_part; i++) {
        const adapter_part *p = &a->part[i];
        add_text(&s, p->name);
        xxh64_add(&s, &p->scale, sizeof p->scale);
        add_tensor(&s, &p->a);
        add_tensor(&s, &p->b);
        add_reals(&s, p->gain, rows(&p->b));
        add_reals(&s, p->bias, rows(&p->b));
    }
    for (int64_t i = 0; i < a->n_whole; i++) {
        add_text(&s, a->whole[i].name);
        add_tensor(&s, &a->whole[i].value);
    }
    return xxh64_end(&s) | 1;
}

void ready_renew(ready_adapter *r)
{
    static atomic_uint_fast64_t serial;
    r->set.serial = atomic_fetch_add(&serial, 1) + 1;
}

weft_status ready_begin(ready_adapter *to, const model *m, weft_error *err)
{
    const int64_t n = m->n_param + 1;
    lora_set *s = &to->set;
    weft_status status = WEFT_OK;
    ready_renew(to);
    if (!(s->matrix = take_room(to, n, sizeof *s->matrix, err)) ||
        !(s->table = take_room(to, n, sizeof *s->table, err)) ||
        !(s->whole = take_room(to, n, sizeof *s->whole, err)) ||
        !(s->whole_table = take_room(to, n, sizeof *s->whole_table, err)))
        status = WEFT_ENOMEM;
    return status;
}

/* A copy: the file may change while sessions compute with the adapter. */
weft_status ready_open(ready_adapter *to, const model *m, const char *path, weft_error *err)
{
    *to = (ready_adapter){ 0 };
    weft_status status = adapter_open(&to->from, m, path, WEFT_LOAD_COPY, err);
    if (status != WEFT_OK)
        return status;
    status = ready_begin(to, m, err);
    for (int64_t i = 0; i < to->from.n_part && status == WEFT_OK; i++)
        status = add_part(to, &to->from.part[i], m, err);
    for (int64_t i = 0; i < to->from.n_whole && status == WEFT_OK; i++)
        status = add_whole(to, &to->from.whole[i], m, err);
    if (status == WEFT_OK)
        to->set.fingerprint = fingerprint_of(&to->from);
    else
        ready_close(to);
    return status;
}

void ready_close(ready_adapter *r)
{
    adapter_close(&r->from);
    *r = (ready_adapter){ 0 };
}
