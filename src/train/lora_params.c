/* lora_params.c - chooses the weights to adapt, makes their A, B and m, and the first numbers. */
#include "train/lora_params.h"

#include "adapt/gain.h"
#include "adapt/modules.h"
#include "adapt/peft.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- which weights --------------------------------------------------------------------------- */

/* Products with it can be adapted, and backward computes the gradients of A and B. */
static bool has_place(const tensor *w)
{
    return ready_has_place(w) && !strstr(w->name, "ffn_gate_inp");
}

static bool is_head(const module_use *u)
{
    return u->shared || strcmp(u->name, "output") == 0 || strncmp(u->name, "cls", 3) == 0;
}

static void warn_of_place(const model *m, const tensor *w)
{
    log_write(&m->host->log, WEFT_LOG_WARN,
              "%s gets no adapter: experts, routers and latent matrices cannot have one", w->name);
}

/* Is it to be adapted? Names that are given must have a place; all-linear and patterns leave others
 * out. */
static weft_status choose(const lora_params *p, const model *m, const module_use *u, bool *chosen,
                          bool *used, weft_error *err)
{
    const tensor *w = m->param[u->param];
    *chosen = u->adaptable && has_place(w);
    if (p->spec.n_target == 0) {
        if (u->adaptable && !*chosen && !u->table)
            warn_of_place(m, w);
        *chosen = *chosen && !u->table && !is_head(u);
        return WEFT_OK;
    }
    const int target = u->tail && strcmp(u->tail, ".bias") != 0
                           ? lora_spec_target(&p->spec, u->name, u->module)
                           : -1;
    const bool table = target >= 0 && u->table;
    const bool pattern = target >= 0 && strpbrk(p->spec.target[target], "*?[");
    if (pattern && u->adaptable && !*chosen)
        warn_of_place(m, w);
    if (target < 0 || (pattern && !*chosen))
        *chosen = false;
    else if (!*chosen)
        return weft_fail(
            err, WEFT_EUNSUPPORTED,
            "lora: target %s is %s; expected matrices of attention, feed-forward layers, "
            "embeddings or the head",
            p->spec.target[target], w->name);
    else if (table && p->spec.dora)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "lora: target %s is an embedding; expected matrices with dora; leave out "
                         "one of the two",
                         p->spec.target[target]);
    else if (table && model_has_source(m))
        return weft_fail(
            err, WEFT_EUNSUPPORTED,
            "lora: target %s is the embedding that encoder and decoder share; expected "
            "matrices",
            p->spec.target[target]);
    else
        used[target] = true;
    return WEFT_OK;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static tensor unmade(int64_t n_row, int64_t n_col)
{
    return (tensor){ .type = &dtype_real, .n_dim = 2, .shape = { n_row, n_col }, .stride = n_col };
}

static weft_status add_part(lora_params *p, const model *m, const module_use *u, weft_error *err)
{
    adapter *a = &p->ready->from;
    const tensor *w = m->param[u->param];
    const int64_t n_in = u->table ? rows(w) : cols(w), n_out = u->table ? cols(w) : rows(w);
    const char *name = arena_text(&a->store, u->name, strlen(u->name), err);
    if (!name)
        return err->code;
    a->part[a->n_part++] = (adapter_part){ .name = name,
                                           .param = u->param,
                                           .table = u->table,
                                           .a = unmade(p->spec.r, n_in),
                                           .b = unmade(n_out, p->spec.r),
                                           .scale = lora_spec_scale(&p->spec) };
    return WEFT_OK;
}

static weft_status refuse_unused(const lora_params *p, const bool *used, weft_error *err)
{
    for (int i = 0; i < p->spec.n_target; i++)
        if (!used[i])
            return weft_fail(err, WEFT_EINVAL,
                             "lora: target %.60s matches no matrix; expected a name like attn_q, "
                             "q_proj or \"blk.0.*\"; see weft inspect",
                             p->spec.target[i]);
    if (p->ready->from.n_part > 0)
        return WEFT_OK;
    return weft_fail(err, WEFT_EUNSUPPORTED, "lora: the model has no matrix that can be adapted");
}

/* Parts of a new adapter, one for each chosen use of a weight. */
static weft_status new_parts(lora_params *p, const model *m, modules *all, weft_error *err)
{
    bool used[MAX_LORA_TARGET] = { false };
    adapter *a = &p->ready->from;
    const size_t n = (size_t)modules_count(all);
    *a = (adapter){ .host = m->host };
    weft_status status = arena_init(&a->store, ARENA_GROWING, &m->host->mem, 0, "", err);
    if (status != WEFT_OK)
        return status;
    a->part = arena_alloc(&a->store, n * sizeof *a->part, err); /* bounded: by the model */
    if (!a->part)
        return WEFT_ENOMEM;
    for (int64_t i = 0; i < modules_count(all) && status == WEFT_OK; i++) {
        module_use u;
        bool chosen = false;
        if (!modules_use(all, i, &u))
            u.adaptable = false;
        status = choose(p, m, &u, &chosen, used, err);
        if (status == WEFT_OK && chosen)
            status = add_part(p, m, &u, err);
    }
    return status == WEFT_OK ? refuse_unused(p, used, err) : status;
}

/* Gains are as the run was begun with them; init has those of its directory. */
static weft_status check_gains(lora_params *p, const char *directory, weft_error *err)
{
    const adapter *a = &p->ready->from;
    bool gains = false, table = false;
    for (int64_t i = 0; i < a->n_part; i++) {
        gains |= a->part[i].gain != NULL;
        table |= a->part[i].table;
    }
    if (!p->spec.init && gains != p->spec.dora)
        return weft_fail(err, WEFT_EINVAL,
                         "%s: the adapter has %s (DoRA), --lora asks for %s; expected the same; "
                         "resume the run as it was begun",
                         directory, gains ? "gains" : "no gains", gains ? "none" : "them");
    if (gains && table)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: the adapter changes an embedding and has gains (DoRA); expected "
                         "matrices; train it with PEFT",
                         directory);
    p->spec.dora = gains;
    return gains && p->spec.dropout > 0 ? lora_spec_refuse_dropout(&p->spec, err) : WEFT_OK;
}

/* Parts of an adapter that was read. */
static weft_status check_parts(lora_params *p, const model *m, const char *directory,
                               weft_error *err)
{
    const adapter *a = &p->ready->from;
    bool more = a->n_whole > 0, apart = false;
    for (int64_t i = 0; i < a->n_part; i++) {
        more |= a->part[i].bias != NULL;
        apart |= !has_place(m->param[a->part[i].param]);
    }
    if (more)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: the adapter has biases or whole weights; expected A, B and gains "
                         "only; train it with PEFT",
                         directory);
    if (apart)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: the adapter changes experts, routers or latent matrices; expected "
                         "matrices of attention, feed-forward layers, embeddings or the head",
                         directory);
    return check_gains(p, directory, err);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The module of a part; "" if it is not fused with others. */
static void module_of(modules *all, const adapter_part *part, char to[MODULE_BYTES])
{
    to[0] = '\0';
    for (int64_t i = 0; i < modules_count(all); i++) {
        module_use u;
        if (modules_use(all, i, &u) && u.param == part->param && strcmp(u.name, part->name) == 0 &&
            u.rows.n < u.rows.all)
            memcpy(to, u.module, MODULE_BYTES);
    }
}

/* Room for the gains, one for each row of every B. */
static bool take_gains(lora_params *p, weft_error *err)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->ready->from.n_part; i++)
        n += rows(&p->ready->from.part[i].b); /* bounded: by the model */
    p->gain = mem_zalloc(p->mem, (size_t)n, sizeof *p->gain, "an adapter", err);
    return p->gain != NULL;
}

static weft_status take_room(lora_params *p, weft_error *err)
{
    const size_t n = (size_t)p->ready->from.n_part, each = p->spec.dora ? 3 : 2;
    p->item = mem_zalloc(p->mem, n, sizeof *p->item, "an adapter", err);
    if (p->item)
        p->tensor = mem_zalloc(p->mem, each * n, sizeof *p->tensor, "an adapter", err);
    if (p->tensor)
        p->list = mem_zalloc(p->mem, each * n, sizeof(tensor *), "an adapter", err);
    return p->list && (!p->spec.dora || take_gains(p, err)) ? WEFT_OK : WEFT_ENOMEM;
}

/* The next tensor of the list. */
static tensor *add_tensor(lora_params *p, tensor t, const char *name, const char *tail)
{
    tensor *to = p->list[p->n_tensor] = &p->tensor[p->n_tensor];
    p->n_tensor++;
    *to = t;
    snprintf(to->name, NAME_BYTES, "%.70s%s", name, tail);
    return to;
}

static tensor magnitudes(const adapter_part *part)
{
    return (tensor){ .type = &dtype_real,
                     .n_dim = 1,
                     .shape = { rows(&part->b) },
                     .stride = rows(&part->b),
                     .data = (real *)part->gain };
}

/* A, B and m of each part; of those of one module, the first has the A. */
static weft_status make_tensors(lora_params *p, const model *m, modules *all, weft_error *err)
{
    adapter *a = &p->ready->from;
    char fused[MODULE_BYTES] = "", module[MODULE_BYTES];
    weft_status status = take_room(p, err);
    if (status == WEFT_OK)
        status = ready_begin(p->ready, m, err);
    if (status != WEFT_OK)
        return status;
    lora_set *set = &p->ready->set;
    real *gain = p->gain;
    for (int64_t i = 0; i < a->n_part; i++) {
        const adapter_part *part = &a->part[i];
        lora *l = &p->item[i];
        module_of(all, part, module);
        const bool shares = i > 0 && module[0] && strcmp(module, fused) == 0;
        *l = (lora){ .scale = (real)part->scale, .gain = gain };
        l->a = shares ? p->item[i - 1].a : add_tensor(p, part->a, part->name, ".lora_a");
        l->b = add_tensor(p, part->b, part->name, ".lora_b");
        if (gain) {
            l->m = add_tensor(p, magnitudes(part), part->name, ".lora_m");
            gain += rows(l->b);
        }
        const int64_t slot = m->param[part->param]->slot;
        (part->table ? set->table : set->matrix)[slot] = l;
        set->rank = rows(l->a) > set->rank ? rows(l->a) : set->rank;
        memcpy(fused, module, MODULE_BYTES);
    }
    set->scales = p->gain != NULL;
    return WEFT_OK;
}

weft_status lora_params_make(lora_params *p, ready_adapter *ready, const model *m,
                             const char *directory, weft_error *err)
{
    modules all;
    p->ready = ready;
    p->mem = &m->host->mem;
    p->drawn = directory != NULL;
    weft_status status = modules_open(&all, m, err);
    if (status != WEFT_OK)
        return status;
    if (directory) {
        status = peft_open(&ready->from, m, directory, WEFT_LOAD_MAP, err);
        if (status == WEFT_OK)
            status = check_parts(p, m, directory, err);
    } else {
        status = new_parts(p, m, &all, err);
    }
    if (status == WEFT_OK)
        status = make_tensors(p, m, &all, err);
    modules_close(&all);
    return status;
}

/* ---- numbers --------------------------------------------------------------------------------- */

#define LORA_KEY 0x6c6f7261 /* of random numbers, with the seed */

static void draw(tensor *t, uint64_t seed, uint64_t part, bool normal)
{
    const int64_t n = rows(t) * cols(t); /* bounded: in memory */
    const double bound = 1 / sqrt((double)cols(t));
    for (int64_t i = 0; i < n; i++) {
        const uint64_t at = (uint64_t)i;
        ((real *)t->data)[i] =
            normal ? (real)rng_normal(seed ^ LORA_KEY, part, at)
                   : (real)(bound * (2 * (double)rng_uniform(seed ^ LORA_KEY, part, at) - 1));
    }
}

/* ---- gains ----------------------------------------------------------------------------------- */

#define SOME_ROWS 64 /* that one thread takes at a time */

typedef struct measuring {
    adapted_weight of;
    const real *m; /* NULL: norms are made, not gains */
    real *to;
    int64_t n;
} measuring;

static void measure_rows(void *arg, int64_t chunk)
{
    const measuring *g = arg;
    const int64_t o0 = chunk * SOME_ROWS, o1 = o0 + SOME_ROWS < g->n ? o0 + SOME_ROWS : g->n;
    if (g->m)
        adapted_gains(&g->of, g->to, g->m, o0, o1);
    else
        adapted_norms(&g->of, g->to, o0, o1);
}

/* The norms of W alone into m, or the gains. */
static void measure(const lora_params *p, const model *m, int64_t i, bool gains, pool *threads)
{
    const lora *l = &p->item[i];
    measuring g = { .of = { .w = m->param[p->ready->from.part[i].param],
                            .a = l->a->data,
                            .b = l->b->data,
                            .I = cols(l->a),
                            .rank = gains ? rows(l->a) : 0,
                            .scale = l->scale,
                            .kern = m->kern },
                    .m = gains ? l->m->data : NULL,
                    .to = gains ? (real *)l->gain : l->m->data,
                    .n = rows(l->b) };
    pool_run(threads, (g.n + SOME_ROWS - 1) / SOME_ROWS, measure_rows, &g);
}

void lora_params_renew(lora_params *p, const model *m, pool *threads)
{
    for (int64_t i = 0; p->gain && i < p->ready->from.n_part; i++)
        measure(p, m, i, true, threads);
}

void lora_params_settle(lora_params *p, const model *m, uint64_t seed, pool *threads)
{
    adapter *a = &p->ready->from;
    for (int64_t i = 0; i < a->n_part; i++) {
        adapter_part *part = &a->part[i];
        const lora *l = &p->item[i];
        const bool shares = i > 0 && l->a == p->item[i - 1].a;
        if (!p->drawn && part->table)
            draw(l->b, seed, (uint64_t)i, true);
        else if (!p->drawn && !shares)
            draw(l->a, seed, (uint64_t)i, false);
        if (!p->drawn && l->m)
            measure(p, m, i, false, threads);
        part->a = *l->a;
        part->b = *l->b;
        part->gain = values(l->m);
    }
    p->drawn = true;
    lora_params_renew(p, m, threads);
}

void lora_params_free(lora_params *p)
{
    if (!p->mem)
        return;
    mem_free(p->mem, p->item);
    mem_free(p->mem, p->tensor);
    mem_free(p->mem, p->list);
    mem_free(p->mem, p->gain);
    *p = (lora_params){ 0 };
}
