/* sines.c - positions as sines and cosines of falling frequencies (Vaswani et al., 2017):
 *
 *     PE(p, 2 j) = sin(p 10000^(-2 j / D))        PE(p, 2 j + 1) = cos(p 10000^(-2 j / D))
 *
 * Marian and fairseq have other columns and exponents. */
#include "models/sines.h"

/* Element k of position p is sin or cos of p 10000^-e, where e depends on k's pair. */
static real sine(const void *of, int64_t row_of, int64_t k)
{
    const sines *s = of;
    const bool fairseq = s->kind == POSITION_FAIRSEQ, beside = s->kind == POSITION_INTERLEAVED;
    const int64_t half = fairseq ? s->D / 2 : (s->D + 1) / 2;
    const int64_t pair = beside ? k / 2 : k % half;
    if (fairseq && k == 2 * half)
        return 0; /* the odd one out */
    const double e = fairseq ? (double)pair / (double)(half > 1 ? half - 1 : 1)
                             : 2 * (double)pair / (double)s->D;
    const double angle = (double)(s->first + row_of) * pow(10000, -e);
    return (real)((beside ? k % 2 : k >= half) ? cos(angle) : sin(angle));
}

#define MAX_SINES (1 << 16)

tensor *bind_sines(bind *b, const sines *of, int64_t T)
{
    if (T > MAX_SINES)
        bind_fail(b, WEFT_EUNSUPPORTED, "max_position_embeddings is %lld, expected at most %d",
                  (long long)T, MAX_SINES);
    return bind_made(b, "position_embd", T, of->D, sine, of);
}
