/* replay.c - runs the stored inputs of a fuzz target without a fuzzer: replay_NAME NAME
 * DIRECTORY...
 *
 * The inputs run in a child process, so that an input that crashes it can be named. */
#include "hostile.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Shared between the child that runs and the parent that reports. */
typedef struct progress {
    int n;
    char path[4096]; /* the input that runs */
} progress;

/* There is no fuzzer: mutators are linked, but never called. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room)
{
    (void)data, (void)room;
    return size;
}

static void run_file(progress *p)
{
    FILE *f = fopen(p->path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        exit(2);
    const size_t size = (size_t)ftell(f);
    uint8_t *data = malloc(size ? size : 1); /* exact size: a sanitizer reports an overrun */
    rewind(f);
    if (!data || fread(data, 1, size, f) != size)
        exit(2);
    fclose(f);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    p->n++;
}

static int not_hidden(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

static void run_directory(progress *p, const char *directory)
{
    struct dirent **entry;
    const int n = scandir(directory, &entry, not_hidden, alphasort);
    for (int i = 0; i < n; i++) {
        snprintf(p->path, sizeof p->path, "%s/%s", directory, entry[i]->d_name);
        run_file(p);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
}

int main(int argc, char **argv)
{
    progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc < 3 || p == MAP_FAILED)
        return 2;
    printf("[ RUN      ] replay: %s\n", argv[1]);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        for (int i = 2; i < argc; i++)
            run_directory(p, argv[i]);
        return 0;
    }
    int status = -1;
    const bool passed = waitpid(child, &status, 0) == child && status == 0 && p->n > 0;
    if (passed)
        printf("[       OK ] replay: %s, %d inputs\n", argv[1], p->n);
    else
        printf("[  FAILED  ] replay: %s, after %d inputs, on %s\n", argv[1], p->n,
               p->path[0] ? p->path : "none");
    return passed ? 0 : 1;
}
