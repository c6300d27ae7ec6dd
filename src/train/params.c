/* params.c - lays weights out in one block and points the model's tensors into it. */
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
    for (int64_t k = 0; k < n_row; k++)
        t->type->decode(to + k * cols(t),
                        (const char *)t->data + (size_t)k * dtype_row_bytes(t->type, cols(t)), 0,
                        cols(t));
    t->data = to;
    t->type = &dtype_real;
    t->grad = p->grad + p->at[i];
    t->is_param = t->needs_grad = t->grad_taken = true;
    t->low = p->low && t->n_dim > 1 ? p->low + p->at[i] : NULL;
}

/* A copy in bf16 that is never read: a dry run looks only whether there is one. */
static uint16_t no_copy;

int64_t params_sketch(model *m, bool bf16)
{
    int64_t n = 0;
    for (int64_t i = 0; i < m->n_param; i++) {
        tensor *t = m->param[i];
        t->type = &dtype_real;
        t->is_param = t->needs_grad = t->grad_taken = true;
        t->low = bf16 && t->n_dim > 1 ? &no_copy : NULL;
        n += (numbers(t) + ALIGN - 1) / ALIGN * ALIGN;
    }
    return n;
}

weft_status params_init(params *p, model *m, bool bf16, weft_error *err)
{
    mem *from = &m->host->mem;
    *p = (params){ .mem = from, .tensor = m->param, .n_tensor = m->n_param };
    p->at = mem_zalloc(from, (size_t)m->n_param + 1, sizeof *p->at, "parameters", err);
    if (!p->at)
        return WEFT_ENOMEM;
    for (int64_t i = 0; i < m->n_param; i++)
        p->at[i + 1] = p->at[i] + (numbers(m->param[i]) + ALIGN - 1) / ALIGN * ALIGN;
    p->n = p->at[m->n_param];
    p->value = mem_zalloc(from, (size_t)p->n, sizeof *p->value, "parameters", err);
    p->grad = p->value ? mem_zalloc(from, (size_t)p->n, sizeof *p->grad, "gradients", err) : NULL;
    if (p->grad && bf16)
        p->low = mem_zalloc(from, (size_t)p->n, sizeof *p->low, "bf16 parameters", err);
    if (!p->grad || (bf16 && !p->low)) {
        params_free(p);
        return WEFT_ENOMEM;
    }
    for (int64_t i = 0; i < m->n_param; i++)
        move_in(p, i);
    params_round(p, 0, p->n);
    container_rest(&m->file);
    return WEFT_OK;
}

void params_free(params *p)
{
    if (!p->mem)
        return;
    mem_free(p->mem, p->at);
    mem_free(p->mem, p->value);
    mem_free(p->mem, p->grad);
    mem_free(p->mem, p->low);
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
    for (int64_t k = k0; p->low && k < k1; k++)
        p->low[k] = bf16_encode((float)p->value[k]);
}

void params_begin(params *p)
{
    for (int64_t i = 0; i < p->n_tensor; i++) {
        p->tensor[i]->grad_written = false;
        p->tensor[i]->uses = 0;
    }
}

void params_end(params *p)
{
    for (int64_t i = 0; i < p->n_tensor; i++)
        if (!p->tensor[i]->grad_written)
            memset(p->tensor[i]->grad, 0, (size_t)numbers(p->tensor[i]) * sizeof(real));
}

typedef struct summing {
    const params *p;
    double *sum; /* of each chunk */
} summing;

#define NORM_CHUNKS 64

/* The block is cut into a fixed number of parts, each summed in order. */
static void sum_part(void *arg, int64_t part)
{
    const summing *s = arg;
    const int64_t n = s->p->n;
    double sum = 0;
    for (int64_t k = n * part / NORM_CHUNKS; k < n * (part + 1) / NORM_CHUNKS; k++)
        sum += (double)s->p->grad[k] * (double)s->p->grad[k];
    s->sum[part] = sum;
}

double params_norm(const params *p, pool *threads)
{
    double sum[NORM_CHUNKS], total = 0;
    summing s = { p, sum };
    pool_run(threads, NORM_CHUNKS, sum_part, &s);
    for (int i = 0; i < NORM_CHUNKS; i++)
        total += sum[i];
    return sqrt(total);
}
