/* cpu.h - CPU features, as supported by the CPU and by the kernel, which must save the
 * registers. */
#ifndef WEFT_BASE_CPU_H
#define WEFT_BASE_CPU_H

#include <stdbool.h>

typedef struct cpu_features {
    bool avx2;     /* with FMA and F16C */
    bool avx512;   /* F, BW, DQ, VL */
    bool vnni;     /* 512-bit VNNI */
    bool bf16;     /* AVX-512 BF16 */
    bool amx_bf16; /* usable after cpu_tiles() */
    bool amx_int8;
    bool avx_vnni; /* 256-bit VNNI, with AVX2 */
    bool neon;
    bool neon_dot;  /* SDOT */
    bool neon_i8mm; /* SMMLA */
} cpu_features;

cpu_features cpu_detect(void);

/* Asks the system for AMX's tile registers, which it grants to a process once and for all; without
 * this, their first use ends the process. */
bool cpu_tiles(void);

/* CPUs this process may run on, by affinity and by the quota of its control groups; at least 1. */
int cpu_count(void);

#endif
