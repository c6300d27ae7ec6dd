/* lora.c - the adapter of --lora PATH[:STRENGTH]. */
#include "lora.h"

#include "lora_dir.h"

#include <math.h>
#include <string.h>

#define PATH_BYTES 4096

int lora_path(const command *c, const char *given, char *path, size_t size, double *strength)
{
    const size_t n = lora_split(given, strength);
    if (n == 0 || n >= size || !isfinite(*strength))
        return cli_usage(c, "--lora: \"%s\" is not PATH or PATH:STRENGTH", given);
    snprintf(path, size, "%.*s", (int)n, given);
    return 0;
}

int lora_open(const command *c, const char *given, weft_model *m, lora_choice *to, int64_t *rank)
{
    char path[PATH_BYTES];
    weft_error err = { 0 };
    *to = (lora_choice){ .strength = 1 };
    if (!given)
        return 0;
    const int code = lora_path(c, given, path, sizeof path, &to->strength);
    if (code)
        return code;
    to->adapter = weft_adapter_open(m, path, &err);
    if (!to->adapter)
        return cli_fail(&err);
    weft_adapter_info info = { .struct_size = sizeof info };
    weft_adapter_get_info(to->adapter, &info);
    if (rank)
        *rank = info.rank;
    return 0;
}

weft_session *lora_session(const lora_choice *of, weft_engine *e, const char *path, weft_error *err)
{
    if (path)
        return of->adapter ? weft_session_restore_adapted(e, path, of->adapter, of->strength, err)
                           : weft_session_restore(e, path, err);
    weft_session *s = weft_session_new(e, err);
    if (!s || !of->adapter || weft_session_adapt(s, of->adapter, of->strength, err) == WEFT_OK)
        return s;
    weft_session_free(s);
    return NULL;
}

void lora_check_template(const char *given, const weft_template *t)
{
    char path[PATH_BYTES], why[512];
    double strength;
    if (!given)
        return;
    snprintf(path, sizeof path, "%.*s", (int)lora_split(given, &strength), given);
    if (lora_template_differs(path, t, why, sizeof why))
        fprintf(stderr, "weft: warning: %s; --template gives another\n", why);
}
