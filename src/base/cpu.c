/* cpu.c - CPU features, and the number of CPUs this process may use. */
#include "base/cpu.h"

#include "base/cgroup.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* Which register files the system saves on a context switch (XCR0). */
static unsigned long long saved_state(void)
{
    unsigned lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (unsigned long long)hi << 32 | lo;
}

cpu_features cpu_detect(void)
{
    cpu_features f = { 0 };
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return f;
    const unsigned basic = c;
    const unsigned long long state = saved_state();
    const bool ymm = (state & 0x6) == 0x6, zmm = (state & 0xE6) == 0xE6;
    const bool tile = (state & 0x60000) == 0x60000;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return f;

    f.avx2 = ymm && (b & bit_AVX2) && (basic & bit_FMA) && (basic & bit_F16C);
    f.avx512 = f.avx2 && zmm && (b & bit_AVX512F) && (b & bit_AVX512BW) && (b & bit_AVX512DQ) &&
               (b & bit_AVX512VL);
    f.vnni = f.avx512 && (c & bit_AVX512VNNI);
    f.amx_bf16 = f.avx512 && tile && (d & 1u << 22) && (d & 1u << 24);
    f.amx_int8 = f.avx512 && tile && (d & 1u << 25) && (d & 1u << 24);
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
        f.bf16 = f.avx512 && (a & 1u << 5);
        f.avx_vnni = f.avx2 && (a & 1u << 4);
    }
    return f;
}
#else
cpu_features cpu_detect(void)
{
    cpu_features f = { 0 };
#if defined(__aarch64__)
    f.neon = true;
    f.neon_dot = getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
    f.neon_i8mm = getauxval(AT_HWCAP2) & HWCAP2_I8MM;
#endif
    return f;
}
#endif

bool cpu_tiles(void)
{
#if defined(__x86_64__)
    const long request = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    return syscall(SYS_arch_prctl, request, tile_data) == 0;
#else
    return false;
#endif
}

int cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    const int64_t n = CPU_COUNT(&set);
    const int64_t quota = cgroup_limit("/proc/self/cgroup", "/sys/fs/cgroup", "cpu.max");
    return (int)(n < quota ? n : quota); /* both are 1 at least */
}
