/* adamw.c - the gradient's norm, then one fused pass over the flat blocks, in chunks that threads
 * share. The chunks do not depend on the number of threads, so neither do the bits. */
#include "train/adamw.h"

weft_status adamw_init(adamw *a, params *p, const adamw_options *o, weft_error *err)
{
    *a = (adamw){ .opt = *o, .p = p };
    const size_t n = p->n_moment > 0 ? (size_t)p->n_moment : 1; /* a rank may have none */
    a->m = mem_zalloc(p->mem, n, sizeof *a->m, "optimiser state", err);
    a->v = a->m ? mem_zalloc(p->mem, n, sizeof *a->v, "optimiser state", err) : NULL;
    if (a->v)
        return WEFT_OK;
    adamw_free(a);
    return WEFT_ENOMEM;
}

void adamw_free(adamw *a)
{
    if (!a->p)
        return;
    mem_free(a->p->mem, a->m);
    mem_free(a->p->mem, a->v);
    *a = (adamw){ 0 };
}

/* Values of this step, the same for all parameters. */
typedef struct update {
    const adamw *a;
    real scale;         /* clipping factor of the gradient */
    real shrink;        /* lr decay */
    real first, second; /* lr / (1 - b1^t) and 1 / sqrt(1 - b2^t) */
} update;

/* Values [k0, k1), whose moments begin at `at`. */
static void update_range(const update *u, int64_t k0, int64_t k1, int64_t at, bool decays)
{
    const adamw_options *o = &u->a->opt;
    const real b1 = (real)o->beta1, b2 = (real)o->beta2, eps = (real)o->eps;
    const real new1 = (real)(1 - o->beta1), new2 = (real)(1 - o->beta2);
    const real keep = decays ? 1 - u->shrink : 1;
    real *w = u->a->p->value + k0, *m = u->a->m + at, *v = u->a->v + at;
    const real *grad = u->a->p->grad + k0;
    for (int64_t k = 0; k < k1 - k0; k++) {
        const real g = grad[k] * u->scale;
        m[k] = b1 * m[k] + new1 * g;
        v[k] = b2 * v[k] + new2 * g * g;
        w[k] = w[k] * keep - u->first * m[k] / (sqrt(v[k]) * u->second + eps);
    }
}

/* A chunk may cover several tensors, and a tensor several chunks. */
static void update_chunk(void *arg, int64_t nth)
{
    const update *u = arg;
    const params *p = u->a->p;
    const int64_t chunk = own_chunk(p, nth), k0 = chunk * PARAM_CHUNK, k1 = chunk_end(p, chunk);
    int64_t i = 0;
    while (p->at[i + 1] <= k0)
        i++;
    for (; i < p->n_tensor && p->at[i] < k1; i++) {
        const int64_t from = p->at[i] > k0 ? p->at[i] : k0;
        const int64_t to = p->at[i + 1] < k1 ? p->at[i + 1] : k1;
        if (p->tensor[i]->needs_grad)
            update_range(u, from, to, nth * PARAM_CHUNK + from - k0, p->tensor[i]->n_dim > 1);
    }
    params_round(u->a->p, k0, k1);
}

double adamw_clip(const adamw_options *o, double norm)
{
    return o->clip > 0 ? fmin(1, o->clip / (norm + 1e-6)) : 1;
}

void adamw_step(adamw *a, double lr, double norm, pool *threads)
{
    const adamw_options *o = &a->opt;
    if (!isfinite(norm))
        return;
    const double t = (double)++a->step;
    update u = { .a = a,
                 .scale = (real)adamw_clip(o, norm),
                 .shrink = (real)(lr * o->decay),
                 .first = (real)(lr / (1 - pow(o->beta1, t))),
                 .second = (real)(1 / sqrt(1 - pow(o->beta2, t))) };
    pool_run(threads, a->p->n_own, update_chunk, &u);
}
