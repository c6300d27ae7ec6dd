/* cpu.h - what this processor has, asked of the processor and of the system that must save its
 * state. */
#ifndef WEFT_BASE_CPU_H
#define WEFT_BASE_CPU_H

#include <stdbool.h>

typedef struct cpu_features {
    bool avx2;     /* with FMA and F16C */
    bool avx512;   /* F, BW, DQ, VL */
    bool vnni;     /* 512-bit VNNI */
    bool bf16;     /* AVX-512 BF16 */
    bool amx_bf16; /* the processor has it; permission is asked for when it is used */
    bool amx_int8;
    bool avx_vnni; /* 256-bit VNNI, with AVX2 */
    bool neon;
    bool neon_dot;  /* SDOT */
    bool neon_i8mm; /* SMMLA */
} cpu_features;

cpu_features cpu_detect(void);

/* Processors this process may run on, by affinity and by the quota of its control groups; at least
 * 1. */
int cpu_count(void);

#endif
