/* select.c - which table of kernels runs here: the best that this processor has, or the one that
 * WEFT_ISA names. */
#include "kernels/kernels.h"

#include "base/cpu.h"

#include <stdlib.h>
#include <string.h>

#ifdef WEFT_X86_KERNELS
static bool runs(const kernels *k, const cpu_features *f)
{
    return k == &kernels_avx512_vnni ? f->avx512 && f->vnni
           : k == &kernels_avx512    ? f->avx512
           : k == &kernels_avx2      ? f->avx2
                                     : true;
}

static const kernels *const tables[] = { &kernels_avx512_vnni, &kernels_avx512, &kernels_avx2,
                                         &kernels_scalar };
#elif defined(__aarch64__) && !defined(WEFT_REAL_DOUBLE)
static bool runs(const kernels *k, const cpu_features *f)
{
    return k != &kernels_neon || f->neon;
}

static const kernels *const tables[] = { &kernels_neon, &kernels_scalar };
#else
static bool runs(const kernels *k, const cpu_features *f)
{
    (void)k, (void)f;
    return true;
}

static const kernels *const tables[] = { &kernels_scalar };
#endif

const kernels *kernels_table(int i)
{
    const cpu_features f = cpu_detect();
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        if (runs(tables[t], &f) && i-- == 0)
            return tables[t];
    return NULL;
}

const kernels *kernels_select(const log_sink *log)
{
    const char *wish = getenv("WEFT_ISA");
    const kernels *best = kernels_table(0);
    if (!wish || !*wish)
        return best;
    for (int i = 0; kernels_table(i); i++)
        if (strcmp(wish, kernels_table(i)->name) == 0)
            return kernels_table(i);
    log_write(log, WEFT_LOG_WARN, "WEFT_ISA=%s is not a kernel table of this processor; using %s",
              wish, best->name);
    return best;
}
