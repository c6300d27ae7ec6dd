/* names.c - models by name. If the argument is not an existing path, the library searches the
 * models that other programs have downloaded. */
#include "cli.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *cli_hf;

#define MAX_KEPT 4 /* names in one command; verify takes two */

/* Names that were looked up: a model and its tokenizer are opened by the same one. */
typedef struct kept {
    char name[256], path[4096];
} kept;

static kept found[MAX_KEPT];
static int n_found;

/* A broken link counts as a path, so that the error is about the link. */
static bool is_path(const char *given)
{
    struct stat s;
    return lstat(given, &s) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* "./x", "../x", "/x", "~/x", "x/": nobody calls a model so. */
static bool looks_like_path(const char *given)
{
    const size_t n = strlen(given);
    if (strncmp(given, "hf.co/", 6) == 0) /* -hf */
        return false;
    return n == 0 || n >= sizeof found->name || strchr("./~", given[0]) || given[n - 1] == '/' ||
           strpbrk(given, " \t\r\n\\");
}

/* "x.gguf" that does not exist here or in WEFT_MODELS: report a missing file, not a missing model.
 */
static bool looks_like_file(const char *given)
{
    const char *tail = strrchr(given, '.');
    return tail && (strcmp(tail, ".gguf") == 0 || strcmp(tail, ".safetensors") == 0 ||
                    strcmp(tail, ".json") == 0 || strcmp(tail, ".txt") == 0);
}

static void add_place(void *ud, const char *place, const char *path, const char *result)
{
    (void)ud;
    cli_detail("  %-19s %s: %s\n", place, path, result);
}

static const char *look_up(const char *given, weft_error *err)
{
    const weft_find_options o = { .struct_size = sizeof o,
                                  .budget = cli_budget(),
                                  .searched = add_place };
    kept *k = &found[n_found];
    if (weft_model_find(given, &o, k->path, sizeof k->path, err) != WEFT_OK) {
        if (!looks_like_file(given))
            return NULL;
        cli_no_details();
        return given;
    }
    snprintf(k->name, sizeof k->name, "%s", given);
    n_found++;
    fprintf(stderr, "weft: %s: %s\n", given, k->path);
    return k->path;
}

const char *cli_model_path(const char *given, weft_error *err)
{
    for (int i = 0; i < n_found; i++)
        if (strcmp(found[i].name, given) == 0)
            return found[i].path;
    if (looks_like_path(given) || is_path(given) || n_found == MAX_KEPT)
        return given;
    return look_up(given, err);
}
