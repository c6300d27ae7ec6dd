/* select.c - selects the table of kernels: the best for this CPU, or the one that WEFT_ISA
 * names. */
#include "kernels/kernels.h"

#include "base/cpu.h"

#include <stdlib.h>
#include <string.h>

const kernels *kernels_table(int i)
{
    const cpu_features f = cpu_detect();
    const struct {
        const kernels *table;
        bool runs;
    } all[] = {
#ifdef WEFT_X86_KERNELS
        { &kernels_amx, f.amx_bf16 && f.vnni && cpu_tiles() },
        { &kernels_avx512_vnni, f.avx512 && f.vnni },
        { &kernels_avx512, f.avx512 },
        { &kernels_avx_vnni, f.avx_vnni },
        { &kernels_avx2, f.avx2 },
        { &kernels_amx_emulated, f.avx512 && f.vnni },
        { &kernels_amx_emulated_avx2, f.avx2 },
#elif defined(__aarch64__) && !defined(WEFT_REAL_DOUBLE)
        { &kernels_neon_i8mm, f.neon_i8mm && f.neon_dot },
        { &kernels_neon_dot, f.neon_dot },
        { &kernels_neon, f.neon },
#endif
        { &kernels_scalar, true },
    };
    (void)f;
    for (size_t t = 0; t < sizeof all / sizeof *all; t++)
        if (all[t].runs && i-- == 0)
            return all[t].table;
    return NULL;
}

const kernels *kernels_select(const log_sink *log)
{
    const char *wish = getenv("WEFT_ISA");
    const kernels *best = kernels_table(0);
    if (cpu_detect().amx_bf16 && !cpu_tiles())
        log_write(log, WEFT_LOG_INFO, "the system does not grant tile registers (AMX); using %s",
                  best->name);
    if (!wish || !*wish)
        return best;
    for (int i = 0; kernels_table(i); i++)
        if (strcmp(wish, kernels_table(i)->name) == 0)
            return kernels_table(i);
    log_write(log, WEFT_LOG_WARN, "WEFT_ISA=%s is not a kernel table of this processor; using %s",
              wish, best->name);
    return best;
}
