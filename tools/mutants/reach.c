/* reach.c - which functions a program has called: a byte for each, in a file that outlives crashes and forks. It is linked
 * into what tools/mutate.py compiles with -finstrument-functions. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLAIN   __attribute__((no_instrument_function))
#define LARGEST (64u << 20)

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
static unsigned char *called;

__attribute__((constructor)) PLAIN static void open_file(void)
{
    const char *directory = getenv("MUTATE_REACH");
    char path[1024];
    if (!directory)
        return;
    snprintf(path, sizeof path, "%s/reach-" MODULE, directory);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || ftruncate(fd, LARGEST) != 0)
        return;
    void *map = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    called = map == MAP_FAILED ? NULL : map;
    close(fd);
}

PLAIN __attribute__((visibility("hidden"))) void __cyg_profile_func_enter(void *f, void *from)
{
    const uintptr_t at = (uintptr_t)f - (uintptr_t)__ehdr_start;
    (void)from;
    if (called && at < LARGEST)
        called[at] = 1;
}

PLAIN __attribute__((visibility("hidden"))) void __cyg_profile_func_exit(void *f, void *from)
{
    (void)f, (void)from;
}
