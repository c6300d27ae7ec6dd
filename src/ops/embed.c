/* embed: y_i = table[first + index_i], the index being the row's token, position or type.
 *
 *     dtable[v] = sum of dy_i over the rows i with first + index_i = v, in ascending order
 *
 * Adapters: adapt.h. */
#include "ops/adapt.h"
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>

/* The table row for row i of the batch. */
static int64_t embed_index(const run *r, const void *ctx, int64_t i)
{
    const node *n = ctx;
    const batch_row *b = &r->at.batch->row[i];
    const embed_by by = (embed_by)n->i[0];
    return n->i[1] + (by == EMBED_TOKEN ? b->id : by == EMBED_POSITION ? b->pos : b->type);
}

static void embed_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const tensor *table = n->in[0];
    const size_t row_bytes = dtype_row_bytes(table->type, cols(table));
    for (int64_t i = i0; i < i1; i++) {
        const int64_t index = embed_index(r, n, i);
        assert(index >= 0 && index < rows(table));
        table->type->decode(row(n->out, i), (const char *)table->data + (size_t)index * row_bytes,
                            0, cols(table));
    }
}

static void embed_forward(run *r, const node *n)
{
    parallel_rows(r, n, embed_rows);
    adapt_table(r, whole(n->out), n->in[0], embed_index, n);
}

/* Threads split the columns, so one thread sums all occurrences of a token. */
static void collect_columns(const run *r, const void *ctx, int64_t c0, int64_t c1)
{
    const node *n = ctx;
    tensor *table = n->in[0];
    for (int64_t v = 0; !table->grad_written && v < rows(table); v++)
        for (int64_t c = c0; c < c1; c++)
            grad_row(table, v)[c] = 0;
    for (int64_t i = 0; i < rows(n->out); i++) {
        real *to = grad_row(table, embed_index(r, n, i));
        r->kern->axpy(to + c0, 1, grad_row(n->out, i) + c0, c1 - c0);
    }
}

static void embed_backward(run *r, const node *n)
{
    if (n->in[0]->needs_grad)
        parallel(r, cols(n->out), rows(n->out) + rows(n->in[0]), collect_columns, n);
    adapt_table_back(r, whole_grad(n->out), n->in[0], embed_index, n);
}

static cost embed_cost(const run *r, const node *n)
{
    (void)r;
    return (cost){ .bytes = 2.0 * (double)(rows(n->out) * cols(n->out)) * sizeof(real) };
}

extern const op embed_op;
const op embed_op = { "embed", "y = table[index]", embed_forward, embed_backward, embed_cost };

/* The table of the batch's adapter in place of the model's. A product with the same weight, a head
 * that shares it, keeps the model's. */
static tensor *table_of(const run *r, tensor *table)
{
    const lora_set *s = r->at.batch->whole;
    return s && s->whole_table[table->slot] ? s->whole_table[table->slot] : table;
}

tensor *embed_from(run *r, tensor *table, embed_by by, int64_t first)
{
    node n = { .op = &embed_op, .label = table->name, .i = { by, first } };
    n.in[0] = table = table_of(r, table);
    n.out = tensor_new(r, r->at.batch->n_row, cols(table));
    table_plan(r, rows(n.out), table);
    adapt_inputs(r, &n, table, true);
    return apply(r, &n);
}

tensor *embed(run *r, tensor *table, embed_by by)
{
    return embed_from(r, table, by, 0);
}
