/* batch.c - memory of a batch. */
#include "tensor/batch.h"

weft_status batch_init(batch *b, int64_t n_row, int64_t n_seq, mem *m, weft_error *err)
{
    *b = (batch){ 0 };
    b->row = mem_zalloc(m, (size_t)n_row, sizeof *b->row, "rows of a batch", err);
    b->seq = b->row ? mem_zalloc(m, (size_t)n_seq, sizeof *b->seq, "sequences of a batch", err)
                    : NULL;
    return b->seq ? WEFT_OK : WEFT_ENOMEM;
}

void batch_free(batch *b, mem *m)
{
    mem_free(m, b->row);
    mem_free(m, b->seq);
    *b = (batch){ 0 };
}
