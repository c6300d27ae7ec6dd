/* dlopen_close.c - a plug-in host: loads libweft.so, evaluates, closes everything and unloads it,
 * again and again. No thread, mapping of the library or memory may be left.
 *
 * CTest turns off malloc's per-thread cache by GLIBC_TUNABLES, because its contents count as in
 * use; the heap is then the same to the byte after every round. */
#include "say.h"

#include <dlfcn.h>
#include <malloc.h>

#define ROUNDS 20
#define WARM   5 /* rounds in which the heap and the loader may settle */

static size_t heap_in_use(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static bool is_mapped(const char *name)
{
    char line[4352];
    bool found = false;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f))
        found |= strstr(line, name) != NULL;
    if (f)
        fclose(f);
    return found;
}

#define LOOK_UP(name) __typeof__(weft_##name) *name = (__typeof__(name))dlsym(lib, "weft_" #name)

static int32_t one_round(const char *path)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        fprintf(stderr, "%s\n", dlerror());
    must(lib, "dlopen: the library loads", NULL);
    LOOK_UP(model_open);
    LOOK_UP(model_close);
    LOOK_UP(engine_new);
    LOOK_UP(engine_free);
    LOOK_UP(session_new);
    LOOK_UP(session_free);
    LOOK_UP(session_eval);
    LOOK_UP(session_greedy);

    weft_error err = { 0 };
    weft_model *model = model_open(golden("llama-gqa"), NULL, &err);
    must(model, "dlopen: the model opens", &err);
    const weft_engine_options o = { .struct_size = sizeof o, .threads = 3 };
    weft_engine *engine = engine_new(model, &o, &err);
    must(engine, "dlopen: the engine is made", &err);
    weft_session *session = session_new(engine, &err);
    must(session, "dlopen: the session is made", &err);
    int32_t ids[100];
    for (int i = 0; i < 100; i++)
        ids[i] = i % 60;
    must(session_eval(session, ids, 100, &err) == WEFT_OK, "dlopen: evaluates", &err);
    const int32_t next = session_greedy(session);
    session_free(session);
    engine_free(engine);
    model_close(model);
    must(dlclose(lib) == 0, "dlopen: the library closes", NULL);
    return next;
}

int main(int argc, char **argv)
{
    must(argc == 2, "dlopen: the path of libweft.so is given", NULL);
    const int32_t first = one_round(argv[1]);
    bool same = true, unloaded = true;
    int tasks = n_task();
    size_t heap = 0, resident = 0; /* after WARM rounds; then the growth after all */
    for (int i = 1; i < ROUNDS; i++) {
        same &= one_round(argv[1]) == first;
        unloaded &= !is_mapped("libweft.so");
        tasks = n_task() > tasks ? n_task() : tasks;
        if (i == WARM) {
            heap = heap_in_use();
            resident = status_bytes("VmRSS");
        }
    }
    heap = heap_in_use() - heap;
    resident = status_bytes("VmRSS") - resident;

    check(same, "dlopen: 20 rounds of load, evaluate and unload agree",
          "one differs from the first");
    if (SANITIZED) /* which has its own thread and keeps freed memory: stop here */
        return n_failed > 0;
    check(tasks == 1, "dlopen: no thread stays", "%d threads", tasks);
    check(unloaded, "dlopen: the library leaves the address space", "still mapped after dlclose");
    printf("dlopen: %td bytes of heap and %td KiB resident more after %d rounds than after %d\n",
           (ptrdiff_t)heap, (ptrdiff_t)resident >> 10, ROUNDS, WARM + 1);
    check((ptrdiff_t)heap <= 4096, "dlopen: the heap does not grow", "%zu bytes more", heap);
    check((ptrdiff_t)resident <= 1 << 20, "dlopen: resident memory does not grow",
          "%zu KiB more, the kernel counts within some hundred", resident >> 10);
    return n_failed > 0;
}
