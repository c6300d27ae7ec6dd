/* sandbox.c - takes from the process what a server does not need; see sandbox.h. */
#include "sandbox.h"

#include "lora_dir.h"
#include "syscalls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Linux' interface, which headers may be too old for. A kernel reads as much of `ruleset` as its
 * version has. */
#define READ_FILE     (1ull << 2)
#define READ_DIR      (1ull << 3)
#define REMOVE_FILE   (1ull << 5)
#define BENEATH       1
#define ASK_VERSION   1u
#define VERSION_NET   4
#define VERSION_SCOPE 6

struct ruleset {
    uint64_t files, net, scope;
};

struct beneath {
    uint64_t allowed;
    int32_t at;
} __attribute__((packed));

#define MAX_ENTRY 20000 /* files that one path may bring along */
#define MAX_DEPTH 3     /* of directories that are searched for links */

/* ---- Landlock -------------------------------------------------------------------------------- */

typedef struct rules {
    int fd;
    int n_entry;
    char why[PATH_MAX + 128];
} rules;

static int landlock_version(void)
{
    return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);
}

/* All that this version can refuse. */
static int new_ruleset(int version)
{
    static const int n_file[] = { 13, 14, 15, 15, 16 }; /* rights of files, in versions 1 to 5 */
    const int n = n_file[version < 5 ? version - 1 : 4];
    const struct ruleset r = { .files = (1ull << n) - 1, .net = 3, .scope = 3 };
    const size_t size = version >= VERSION_SCOPE ? 24 : version >= VERSION_NET ? 16 : 8;
    return (int)syscall(SYS_landlock_create_ruleset, &r, size, 0);
}

static bool allow(const rules *r, int at, uint64_t rights)
{
    const struct beneath b = { rights, at };
    return syscall(SYS_landlock_add_rule, r->fd, BENEATH, &b, 0) == 0;
}

static bool allow_path(rules *r, int directory, const char *name, uint64_t rights)
{
    struct stat s;
    const int at = openat(directory, name, O_PATH | O_CLOEXEC);
    bool good = at >= 0 && fstat(at, &s) == 0;
    if (good && !S_ISDIR(s.st_mode))
        rights &= READ_FILE;
    else if (rights == READ_FILE) /* would be all that is in the directory */
        good = false;
    good = good && allow(r, at, rights);
    if (at >= 0)
        close(at);
    return good;
}

/* ---- what a path brings along ---------------------------------------------------------------- */

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* DT_LNK, DT_DIR or another; some file systems say it only when asked. */
static int type_of(int directory, const struct dirent *e)
{
    struct stat s;
    if (e->d_type != DT_UNKNOWN)
        return e->d_type;
    return fstatat(directory, e->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 ? IFTODT(s.st_mode)
                                                                       : DT_UNKNOWN;
}

/* A rule for a directory ends at links, which are usual: the cache of Hugging Face has its files
 * elsewhere. A link to a directory would bring all that is beneath it, and stays closed. */
static void allow_links(rules *r, int directory, int depth)
{
    DIR *d = fdopendir(directory);
    for (struct dirent *e; d && r->n_entry < MAX_ENTRY && (e = readdir(d)); r->n_entry++) {
        const int type = type_of(dirfd(d), e);
        const bool deeper = depth < MAX_DEPTH && type == DT_DIR && !is_dots(e->d_name);
        if (type == DT_LNK)
            allow_path(r, dirfd(d), e->d_name, READ_FILE);
        const int inner = deeper ? openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                 : -1;
        if (inner >= 0)
            allow_links(r, inner, depth + 1);
    }
    if (d)
        closedir(d);
    else
        close(directory);
}

/* The files beside a file: other parts of a model, its template, configurations. Neither what begins
 * with a dot nor directories. */
static void allow_neighbours(rules *r, const char *directory)
{
    DIR *d = opendir(directory);
    for (struct dirent *e; d && r->n_entry < MAX_ENTRY && (e = readdir(d)); r->n_entry++)
        if (e->d_name[0] != '.')
            allow_path(r, dirfd(d), e->d_name, READ_FILE);
    if (d)
        closedir(d);
}

/* "models/a.gguf" -> "models" */
static void parent_of(const char *path, char to[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    snprintf(to, PATH_MAX, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
}

/* A path that does not exist is an error where it is opened, which says it better. */
static void allow_reading(rules *r, const char *path)
{
    char parent[PATH_MAX];
    const int at = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (!path)
        return;
    allow_path(r, AT_FDCWD, path, READ_FILE | READ_DIR);
    if (at >= 0) {
        allow_links(r, at, 0);
        return;
    }
    parent_of(path, parent);
    allow_neighbours(r, parent);
}

/* "NAME=DIR:STRENGTH" */
static void allow_adapter(rules *r, const char *given)
{
    char path[PATH_MAX];
    double strength;
    const char *from = strchr(given, '=');
    if (!from)
        return;
    const size_t n = lora_split(from + 1, &strength);
    snprintf(path, sizeof path, "%.*s", (int)(n < PATH_MAX ? n : PATH_MAX - 1), from + 1);
    allow_reading(r, path);
}

/* Another file will have the list's name one day: its directory is open to reloads. */
static void allow_list(rules *r, const char *path)
{
    char line[PATH_MAX + 256], parent[PATH_MAX];
    FILE *f = path ? fopen(path, "re") : NULL;
    if (!path)
        return;
    parent_of(path, parent);
    allow_path(r, AT_FDCWD, parent, READ_FILE | READ_DIR);
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[strspn(line, " \t")] != '#')
            allow_adapter(r, line);
    }
    if (f)
        fclose(f);
}

static bool allow_given(rules *r, const serve_sandbox *o)
{
    for (int i = 0; i < o->n_allowed; i++)
        if (!allow_path(r, AT_FDCWD, o->allowed[i], READ_FILE | READ_DIR)) {
            snprintf(r->why, sizeof r->why, "--allow-read %s: %s", o->allowed[i], strerror(errno));
            return false;
        }
    return true;
}

static bool fill(rules *r, const serve_options *o, const char *unlinks)
{
    char parent[PATH_MAX];
    for (int i = 0; i < o->n_model; i++) {
        allow_reading(r, o->models[i].path);
        allow_reading(r, o->models[i].tokenizer);
        allow_reading(r, o->models[i].template);
    }
    for (int i = 0; i < o->lora.n_given; i++)
        allow_adapter(r, o->lora.given[i]);
    allow_list(r, o->lora.list);
    if (unlinks) {
        parent_of(unlinks, parent);
        allow_path(r, AT_FDCWD, parent, REMOVE_FILE);
    }
    return allow_given(r, &o->sandbox);
}

/* False: a path of the command line is wrong. */
static bool begin_landlock(sandbox *s, const serve_options *o, const char *unlinks)
{
    const int version = landlock_version();
    rules r = { .fd = version > 0 ? new_ruleset(version) : -1 };
    const bool good = r.fd < 0 || fill(&r, o, unlinks);
    if (!good)
        fprintf(stderr, "weft: %s\n", r.why);
    if (good && r.fd >= 0 && syscall(SYS_landlock_restrict_self, r.fd, 0) == 0)
        s->landlock = version;
    if (r.fd >= 0)
        close(r.fd);
    return good;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Limits are ignored where the system pipes dumps into a program; not so the second. */
static void hide_memory(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static bool report(const sandbox *s, bool required)
{
    const char *missing = s->landlock == 0 ? s->seccomp ? "Landlock" : "Landlock and seccomp"
                          : s->seccomp     ? NULL
                                           : "seccomp";
    if (missing && required)
        fprintf(stderr,
                "weft: --sandbox required: this system does not support %s; expected Linux 5.13 or "
                "newer "
                "with both\n",
                missing);
    else if (missing)
        fprintf(stderr, "weft: this system does not support %s: the sandbox is not complete\n",
                missing);
    return !missing || !required;
}

bool sandbox_begin(sandbox *s, const serve_options *o, const char *unlinks)
{
    *s = (sandbox){ 0 };
    if (o->sandbox.mode == SERVE_SANDBOX_OFF)
        return true;
    tzset(); /* reads a file, which dates in templates need later */
    hide_memory();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
        if (!begin_landlock(s, o, unlinks))
            return false;
        s->seccomp = syscalls_limit(unlinks && s->landlock > 0);
    }
    return report(s, o->sandbox.mode == SERVE_SANDBOX_REQUIRED);
}

void sandbox_write(const sandbox *s, bytes *to)
{
    bytes_format(to,
                 "# HELP weft_sandbox Parts of the sandbox: Landlock's version, 1 for seccomp; 0: "
                 "absent.\n# TYPE weft_sandbox gauge\nweft_sandbox{part=\"landlock\"} %d\n"
                 "weft_sandbox{part=\"seccomp\"} %d\n",
                 s->landlock, s->seccomp);
}
