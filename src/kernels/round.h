/* round.h - rounding to bf16, over the vectors of avx2.h, avx512.h or neon.h. */
#ifndef WEFT_KERNELS_ROUND_H
#define WEFT_KERNELS_ROUND_H

/* A word of each lane: two bf16, the first in the lower half. */
typedef uint32_t pair_vec __attribute__((vector_size(sizeof(vec))));

/* Rounded to bf16, as half.h does it. */
static inline vec v_bf16(vec x)
{
    const pair_vec u = (pair_vec)x, even = u + 0x7FFFu + (u >> 16 & 1);
#if WIDTH == 16
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const pair_vec r = (pair_vec)_mm512_mask_or_epi32((__m512i)even, nan, (__m512i)u,
                                                      _mm512_set1_epi32(0x400000));
    return (vec)(r & 0xFFFF0000u);
#else
    const pair_vec nan = (pair_vec)((u & 0x7FFFFFFFu) > 0x7F800000u);
    return (vec)(((nan & (u | 0x400000u)) | (~nan & even)) & 0xFFFF0000u);
#endif
}

/* Words of two numbers each, rounded: the lanes of `low` and `high`. */
static inline void store_pairs(uint32_t *to, vec low, vec high)
{
    v_store((real *)(void *)to, (vec)((pair_vec)v_bf16(low) >> 16 | (pair_vec)v_bf16(high)));
}

#endif
