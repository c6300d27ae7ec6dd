/* embed: y_i = table[index_i], the index being the row's token, position or type. */
#include "ops/ops.h"

#include <assert.h>

static int64_t index_of(const batch_row *b, embed_by by)
{
    return by == EMBED_TOKEN ? b->id : by == EMBED_POSITION ? b->pos : b->type;
}

static void embed_rows(const run *r, const node *n, int64_t i0, int64_t i1)
{
    const tensor *table = n->in[0];
    const size_t row_bytes = dtype_row_bytes(table->type, cols(table));
    for (int64_t i = i0; i < i1; i++) {
        const int64_t index = index_of(&r->batch->row[i], (embed_by)n->i[0]);
        assert(index >= 0 && index < rows(table));
        table->type->decode(row(n->out, i), (const char *)table->data + (size_t)index * row_bytes,
                            0, cols(table));
    }
}

static void forward(run *r, const node *n)
{
    parallel_rows(r, n, embed_rows);
}

static cost embed_cost(const run *r, const node *n)
{
    (void)r;
    return (cost){ 0, 2.0 * (double)(rows(n->out) * cols(n->out)) * sizeof(real) };
}

extern const op embed_op;
const op embed_op = { "embed", forward, embed_cost };

tensor *embed(run *r, tensor *table, embed_by by)
{
    node n = { .op = &embed_op, .label = table->name, .in = { table }, .i = { by } };
    n.out = tensor_new(r, r->batch->n_row, cols(table));
    return apply(r, &n);
}
