/* keys.c - the keys of a server; see keys.h. */
#include "keys.h"

#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILE ((size_t)1 << 20)

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Keys go through a header field: visible letters only. */
static bool is_visible(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return true;
}

/* Puts one line into the list; false if it is not good. */
static bool add_line(keys *k, const char *line, size_t n)
{
    size_t name = 0;
    while (n > 0 && is_space(line[n - 1]))
        n--;
    while (n > 0 && is_space(*line))
        line++, n--;
    if (n == 0 || *line == '#')
        return true;
    while (name < n && !is_space(line[name]))
        name++;
    size_t at = name;
    while (at < n && is_space(line[at]))
        at++;
    const bool named = at < n;
    const char *secret = named ? line + at : line;
    const size_t length = named ? n - at : n;
    if (k->n == MAX_KEY || length < LEAST_KEY_SIZE || length > MAX_KEY_BYTES ||
        !is_visible(secret, length) || (named && (name >= MAX_KEY_NAME || !is_visible(line, name))))
        return false;
    api_key *to = &k->at[k->n++];
    memcpy(to->secret, secret, length);
    to->n = length;
    if (named)
        snprintf(to->name, sizeof to->name, "%.*s", (int)name, line);
    else
        snprintf(to->name, sizeof to->name, "key%d", k->n);
    return true;
}

/* Two keys of one name would share one place in the queue without anybody knowing. */
static const api_key *twin(const keys *k)
{
    for (int i = 0; i < k->n; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(k->at[i].name, k->at[j].name) == 0 ||
                (k->at[i].n == k->at[j].n &&
                 memcmp(k->at[i].secret, k->at[j].secret, k->at[i].n) == 0))
                return &k->at[i];
    return NULL;
}

bool keys_parse(keys *k, const char *path, const char *text, size_t n, char *why, size_t size)
{
    int number = 0;
    *k = (keys){ .at = memory_take(MAX_KEY * sizeof(api_key)) };
    if (!k->at) {
        snprintf(why, size, "%s: no memory for keys", path);
        return false;
    }
    for (size_t i = 0; i < n;) {
        const char *end = memchr(text + i, '\n', n - i);
        const size_t length = end ? (size_t)(end - text) - i : n - i;
        number++;
        if (!add_line(k, text + i, length)) {
            snprintf(why, size,
                     "%s: line %d; expected NAME KEY or KEY, of %d to %d visible letters, and at "
                     "most %d keys",
                     path, number, LEAST_KEY_SIZE, MAX_KEY_BYTES, MAX_KEY);
            return false;
        }
        i += length + 1;
    }
    if (k->n == 0)
        snprintf(why, size, "%s: no keys; expected one in each line", path);
    else if (twin(k))
        snprintf(why, size, "%s: %s is there twice, or its key is; expected different ones", path,
                 twin(k)->name);
    return k->n > 0 && !twin(k);
}

/* A file of root may be readable for its group: so Kubernetes mounts secrets. */
static bool is_private(const struct stat *s)
{
    const bool of_root = s->st_uid == 0 && geteuid() != 0;
    return (s->st_mode & (of_root ? 037 : 077)) == 0;
}

bool keys_read(keys *k, const char *path, char *why, size_t size)
{
    struct stat s;
    *k = (keys){ 0 };
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &s) != 0) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
    } else if (!is_private(&s)) {
        snprintf(why, size, "%s: others than its owner can read it; run chmod 600 %s", path, path);
    } else {
        char *text = memory_take(MAX_FILE);
        size_t n = 0;
        ssize_t more = text ? 1 : -1;
        while (more > 0 && n < MAX_FILE && (more = read(fd, text + n, MAX_FILE - n)) > 0)
            n += (size_t)more;
        if (more != 0)
            snprintf(why, size, "%s: %s", path,
                     more < 0 ? strerror(errno) : "more than 1 MiB; expected a file of keys");
        const bool good = more == 0 && keys_parse(k, path, text, n, why, size);
        if (text)
            explicit_bzero(text, n);
        memory_give(text);
        close(fd);
        return good;
    }
    if (fd >= 0)
        close(fd);
    return false;
}

void keys_free(keys *k)
{
    if (k->at)
        explicit_bzero(k->at, MAX_KEY * sizeof(api_key));
    memory_give(k->at);
    *k = (keys){ 0 };
}

int keys_find(const keys *k, const char *given, size_t n)
{
    unsigned char padded[MAX_KEY_BYTES] = { 0 };
    int found = -1;
    memcpy(padded, given, n < sizeof padded ? n : sizeof padded);
    for (int i = 0; i < k->n; i++) {
        volatile size_t differs = k->at[i].n ^ n;
        for (size_t b = 0; b < sizeof padded; b++)
            differs |= (size_t)(padded[b] ^ k->at[i].secret[b]);
        const int same = differs == 0; /* at most one is: see twin */
        found += same * (i + 1);
    }
    explicit_bzero(padded, sizeof padded);
    return found;
}
