/* params.c - lays out weights in one block, points the model's tensors into it, and sums gradients:
 * groups by a tree, the norm by chunks. */
#include "train/params.h"

#include "kernels/half.h"

#include <fnmatch.h>
#include <string.h>

#define ALIGN (MEM_ALIGN / (int64_t)sizeof(real))

static int64_t numbers(const tensor *t)
{
    return t->n_dim > 1 ? t->shape[0] * t->shape[1] : t->shape[0];
}

static void move_in(params *p, int64_t i)
{
    tensor *t = p->tensor[i];
    real *to = p->value + p->at[i];
    const int64_t n_row = t->n_dim > 1 ? rows(t) : 1;
    for (int64_t k = 0; t->data && k < n_row; k++)
        t->type->decode(to + k * cols(t),
                        (const char *)t->data + (size_t)k * dtype_row_bytes(t->type, cols(t)), 0,
                        cols(t));
    t->data = to;
    t->panels = NULL;
    t->type = &dtype_real;
    t->grad = p->grad + p->at[i];
    t->is_param = t->needs_grad = t->grad_taken = true;
    t->bf16_copy = p->bf16_copy && t->n_dim > 1 ? p->bf16_copy + p->at[i] : NULL;
}

/* A bf16 copy that is never read: a dry run only checks whether one exists. */
static uint16_t no_copy;

int64_t params_sketch(model *m, bool bf16)
{
    int64_t n = 0;
    for (int64_t i = 0; i < m->n_param; i++) {
        tensor *t = m->param[i];
        t->type = &dtype_real;
        t->is_param = t->needs_grad = t->grad_taken = true;
        t->bf16_copy = bf16 && t->n_dim > 1 ? &no_copy : NULL;
        n += (numbers(t) + ALIGN - 1) / ALIGN * ALIGN;
    }
    return n;
}

int params_blocks(int n_group)
{
    int n = 1;
    while (n_group > 1) {
        n_group /= 2;
        n++;
    }
    return n;
}

/* Allocates everything except the first gradient block. */
static bool take_blocks(params *p, weft_error *err)
{
    p->chunk_sum = mem_zalloc(p->mem, (size_t)params_chunks(p), sizeof *p->chunk_sum, "norms", err);
    for (int i = 1; p->chunk_sum && i < params_blocks(p->n_group); i++) {
        real *more = mem_zalloc(p->mem, (size_t)p->n, sizeof *more, "gradients of groups", err);
        if (!more)
            return false;
        p->spare[p->n_spare++] = more;
    }
    return p->chunk_sum != NULL;
}

weft_status params_init(params *p, tensor **list, int64_t n, mem *from, bool bf16, int n_group,
                        weft_error *err)
{
    *p = (params){ .mem = from, .tensor = list, .n_tensor = n, .n_group = n_group };
    p->at = mem_zalloc(from, (size_t)n + 1, sizeof *p->at, "parameters", err);
    if (!p->at)
        return WEFT_ENOMEM;
    for (int64_t i = 0; i < n; i++)
        p->at[i + 1] = p->at[i] + (numbers(list[i]) + ALIGN - 1) / ALIGN * ALIGN;
    p->n = p->at[n];
    p->n_own = params_chunks(p);
    p->n_moment = p->n;
    p->value = mem_zalloc(from, (size_t)p->n, sizeof *p->value, "parameters", err);
    p->grad = p->value ? mem_zalloc(from, (size_t)p->n, sizeof *p->grad, "gradients", err) : NULL;
    if (p->grad && bf16)
        p->bf16_copy = mem_zalloc(from, (size_t)p->n, sizeof *p->bf16_copy, "bf16 parameters", err);
    if (!p->grad || (bf16 && !p->bf16_copy) || !take_blocks(p, err)) {
        params_free(p);
        return WEFT_ENOMEM;
    }
    for (int64_t i = 0; i < n; i++)
        move_in(p, i);
    params_round(p, 0, p->n);
    return WEFT_OK;
}

void params_free(params *p)
{
    if (!p->mem)
        return;
    mem_free(p->mem, p->at);
    mem_free(p->mem, p->value);
    mem_free(p->mem, p->grad);
    mem_free(p->mem, p->bf16_copy);
    mem_free(p->mem, p->chunk_sum);
    for (int i = 0; i <= MAX_GROUP_LOG; i++)
        mem_free(p->mem, p->waiting[i]);
    for (int i = 0; i < p->n_spare; i++)
        mem_free(p->mem, p->spare[i]);
    *p = (params){ 0 };
}

int64_t params_freeze(params *p, const char *pattern)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->n_tensor; i++)
        if (fnmatch(pattern, p->tensor[i]->name, 0) == 0) {
            p->tensor[i]->needs_grad = false;
            n++;
        }
    return n;
}

void params_round(params *p, int64_t k0, int64_t k1)
{
    for (int64_t k = k0; p->bf16_copy && k < k1; k++)
        p->bf16_copy[k] = bf16_encode((float)p->value[k]);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static void forget(params *p)
{
    for (int64_t i = 0; i < p->n_tensor; i++) {
        p->tensor[i]->grad_written = false;
        p->tensor[i]->uses = 0;
    }
}

void params_begin(params *p)
{
    for (int i = 0; i <= MAX_GROUP_LOG; i++) /* left by an abandoned step */
        if (p->waiting[i]) {
            p->spare[p->n_spare++] = p->waiting[i];
            p->waiting[i] = NULL;
        }
    p->n_made = 0;
    p->merged = p->n;
    forget(p);
}

void params_end(params *p)
{
    for (int64_t i = 0; i < p->n_tensor; i++)
        if (!p->tensor[i]->grad_written)
            memset(p->tensor[i]->grad, 0, (size_t)numbers(p->tensor[i]) * sizeof(real));
}

typedef struct summing {
    const params *p;
    int64_t first; /* chunk */
    real *to;      /* to += from */
    const real *from;
} summing;

static void add_chunk(void *arg, int64_t i)
{
    const summing *s = arg;
    const int64_t chunk = s->first + i;
    for (int64_t k = chunk * PARAM_CHUNK; k < chunk_end(s->p, chunk); k++)
        s->to[k] += s->from[k];
}

real *params_merge(params *p, int64_t k0, pool *threads)
{
    real *sum = p->grad;
    const int64_t first = k0 / PARAM_CHUNK;
    const int64_t n = chunks_of(p->merged) - first;
    for (int level = 0; p->waiting[level]; level++) {
        if (n > 0)
            pool_run(threads, n, add_chunk, &(summing){ p, first, p->waiting[level], sum });
        sum = p->waiting[level];
    }
    p->merged = k0;
    return sum;
}

/* Redirects gradients to this block. */
static void use_block(params *p, real *block, bool written)
{
    p->grad = block;
    p->merged = p->n;
    for (int64_t i = 0; i < p->n_tensor; i++) {
        p->tensor[i]->grad = block + p->at[i];
        p->tensor[i]->grad_written = written;
    }
}

void params_group_end(params *p, pool *threads)
{
    if (p->n_group == 1)
        return;
    params_end(p);
    params_merge(p, 0, threads);
    real *sum = p->grad;
    int level = 0;
    for (; p->waiting[level]; level++) {
        p->spare[p->n_spare++] = sum;
        sum = p->waiting[level];
        p->waiting[level] = NULL;
    }
    if (++p->n_made == p->n_group) {
        use_block(p, sum, true);
        return;
    }
    p->waiting[level] = sum;
    forget(p);
    use_block(p, p->spare[--p->n_spare], false);
}

static void square_chunk(void *arg, int64_t i)
{
    const params *p = arg;
    const int64_t chunk = own_chunk(p, i);
    double sum = 0;
    for (int64_t k = chunk * PARAM_CHUNK; k < chunk_end(p, chunk); k++)
        sum += (double)p->grad[k] * (double)p->grad[k];
    p->chunk_sum[chunk] = sum;
}

void params_norm_own(const params *p, pool *threads)
{
    pool_run(threads, p->n_own, square_chunk, (void *)p);
}

double params_norm_total(const params *p)
{
    double total = 0;
    for (int64_t i = 0; i < params_chunks(p); i++)
        total += p->chunk_sum[i];
    return sqrt(total);
}

double params_norm(const params *p, pool *threads)
{
    params_norm_own(p, threads);
    return params_norm_total(p);
}
