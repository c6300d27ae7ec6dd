/* stamp.c - what the system says of files, to see later whether they have changed. */
#include "stamp.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES 4352

file_stamp stamp_file(const char *path)
{
    struct stat s;
    if (stat(path, &s) != 0 || S_ISDIR(s.st_mode))
        return (file_stamp){ 0 };
    return (file_stamp){ .device = (uint64_t)s.st_dev,
                         .inode = (uint64_t)s.st_ino,
                         .size = (uint64_t)s.st_size,
                         .changed_s = s.st_ctim.tv_sec,
                         .changed_ns = s.st_ctim.tv_nsec,
                         .written_s = s.st_mtim.tv_sec,
                         .written_ns = s.st_mtim.tv_nsec };
}

/* FNV-1a */
static uint64_t mix(uint64_t sum, const void *from, size_t n)
{
    const unsigned char *p = from;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ p[i]) * 0x100000001b3;
    return sum;
}

/* Of the file's name, too: two files may change places. Not of the time of its last change, which is that of its owner
 * and its links, too. */
static uint64_t number_of(const char *path, const char *name)
{
    file_stamp s = stamp_file(path), none = { 0 };
    if (memcmp(&s, &none, sizeof s) == 0)
        return 0;
    s.changed_s = s.changed_ns = 0;
    return mix(mix(0xcbf29ce484222325, name, strlen(name)), &s, sizeof s);
}

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), n_end = strlen(end);
    return n >= n_end && strcmp(name + n - n_end, end) == 0;
}

/* Is a file of a directory one that a model, a tokenizer or a template is read from? Notes, lists of adapters and what
 * begins with a dot are not. */
static bool is_read(const char *name)
{
    static const char *const ends[] = { ".json",     ".safetensors",   ".gguf",
                                        ".model",    ".spm",           ".jinja",
                                        "vocab.txt", "vocabulary.txt", "merges.txt" };
    for (size_t i = 0; name[0] != '.' && i < sizeof ends / sizeof *ends; i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

/* "x-00001-of-00003.gguf" is one of three files that are read. */
static uint64_t stamp_parts(const char *path)
{
    char full[PATH_BYTES];
    int part, count, used = 0;
    uint64_t sum = 0;
    const size_t n = strlen(path), n_tail = strlen("-00001-of-00003.gguf");
    if (n < n_tail || sscanf(path + n - n_tail, "-%5d-of-%5d.gguf%n", &part, &count, &used) != 2 ||
        used != (int)n_tail)
        return number_of(path, "");
    for (part = 1; part <= count; part++) {
        const int length = snprintf(full, sizeof full, "%.*s-%05d-of-%05d.gguf", (int)(n - n_tail),
                                    path, part, count);
        if (length > 0 && length < (int)sizeof full)
            sum += number_of(full, full + n - n_tail);
    }
    return sum;
}

/* Of name in a directory, which may be "1_Pooling/config.json". */
static uint64_t stamp_inner(const char *directory, const char *name)
{
    char full[PATH_BYTES];
    const int n = snprintf(full, sizeof full, "%s/%s", directory, name);
    return n > 0 && n < (int)sizeof full ? number_of(full, name) : 0;
}

/* The config.json of a module of sentence-transformers, if the directory has modules.json, which names it. Others'
 * directories may be anything: checkpoints that are being written, say. */
static uint64_t stamp_module(const char *directory, const char *name)
{
    char inner[300];
    const int n = snprintf(inner, sizeof inner, "%s/config.json", name);
    const bool modules = name[0] != '.' && stamp_inner(directory, "modules.json") != 0;
    return modules && n > 0 && n < (int)sizeof inner ? stamp_inner(directory, inner) : 0;
}

/* A directory lists its files in any order, so that their numbers are added. */
uint64_t stamp_path(const char *path)
{
    uint64_t sum = 0;
    DIR *d = path ? opendir(path) : NULL;
    if (!d)
        return path ? stamp_parts(path) : 0;
    for (struct dirent *e; (e = readdir(d));)
        sum += is_read(e->d_name) ? stamp_inner(path, e->d_name) : stamp_module(path, e->d_name);
    closedir(d);
    return sum;
}
