/* gain.c - norms of the rows of W + s B A, piece by piece: sums of a piece in a kernel's order, sums
 * over pieces in double. */
#include "adapt/gain.h"

#include <math.h>

#define PIECE 256 /* columns at a time, on the stack */

/* n values of output o of W, from column k on. */
static void take_piece(const adapted_weight *p, real *to, int64_t o, int64_t k, int64_t n)
{
    const tensor *w = p->w;
    const size_t bytes = dtype_row_bytes(w->type, cols(w));
    if (!p->table)
        w->type->decode(to, (const char *)w->data + (size_t)o * bytes, k, n);
    for (int64_t i = 0; p->table && i < n; i++)
        w->type->decode(to + i, (const char *)w->data + (size_t)(k + i) * bytes, o, 1);
}

static real norm_of(const adapted_weight *p, int64_t o)
{
    const real *b = p->rank ? p->b + o * p->rank : NULL;
    double sum = 0;
    for (int64_t k = 0; k < p->I; k += PIECE) {
        const int64_t n = p->I - k < PIECE ? p->I - k : PIECE;
        real x[PIECE];
        take_piece(p, x, o, k, n);
        for (int64_t j = 0; j < p->rank; j++)
            p->kern->axpy(x, p->scale * b[j], p->a + j * p->I + k, n);
        sum += (double)p->kern->dot(x, x, n);
    }
    return (real)sqrt(sum);
}

void adapted_norms(const adapted_weight *p, real *to, int64_t o0, int64_t o1)
{
    for (int64_t o = o0; o < o1; o++)
        to[o] = norm_of(p, o);
}

void adapted_gains(const adapted_weight *p, real *to, const real *m, int64_t o0, int64_t o1)
{
    adapted_norms(p, to, o0, o1);
    for (int64_t o = o0; o < o1; o++)
        to[o] = to[o] > 0 ? m[o] / to[o] : 0;
}
