/* panels.c - packs a weight, 16 rows of it at a time, on all threads. */
#include "tensor/panels.h"

/* A panel is made of 4-byte words, at least four of each row. A block format without class i8 is
 * decoded from its rows. */
size_t panels_bytes(const tensor *t)
{
    if (!t->multiplied || t->is_param || t->n_dim != 2)
        return 0;
    if (t->type->block > 1 && !t->type->quants)
        return 0;
    const size_t row_bytes = dtype_row_bytes(t->type, cols(t));
    if (row_bytes < 16 || (t->type->block == 1 && row_bytes % 4 != 0))
        return 0;
    const size_t n = (size_t)row_blocks(rows(t), PANEL_ROWS) * PANEL_ROWS * row_bytes;
    return (n + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN;
}

typedef struct job {
    const kernels *kern;
    row_set rows;
    uint8_t *to;
    int64_t n_row, n_block; /* rows of the matrix; blocks of a row */
    int64_t each;           /* rows per chunk of work */
} job;

static void pack_some(void *arg, int64_t chunk)
{
    const job *j = arg;
    const int64_t end = min64((chunk + 1) * j->each, j->n_row);
    for (int64_t o = chunk * j->each; o < end; o += PANEL_ROWS)
        j->kern->pack_panel(j->to + (size_t)o * j->rows.row_bytes, &j->rows, o,
                            min64(PANEL_ROWS, j->n_row - o), 0, j->n_block);
}

void panels_make(tensor *t, const kernels *kern, void *to, pool *threads)
{
    job j = { kern, dtype_rows(t->type, kern, t->data, cols(t)), to, rows(t), 0, 0 };
    const int64_t panels = row_blocks(rows(t), PANEL_ROWS), chunks = 4 * pool_threads(threads);
    j.n_block = cols(t) / j.rows.block;
    j.each = row_blocks(panels, chunks) * PANEL_ROWS;
    pool_run(threads, row_blocks(rows(t), j.each), pack_some, &j);
    t->panels = to;
}
