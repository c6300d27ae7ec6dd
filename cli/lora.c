/* lora.c - the adapter of --lora PATH[:STRENGTH]. */
#include "lora.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Splits off a strength: the number after the last colon. Returns the length of the path. */
static size_t split_strength(const char *given, double *strength)
{
    const char *colon = strrchr(given, ':');
    char *end = NULL;
    const double x = colon && colon[1] ? strtod(colon + 1, &end) : 1;
    *strength = end && !*end ? x : 1;
    return end && !*end ? (size_t)(colon - given) : strlen(given);
}

int lora_open(const command *c, const char *given, weft_model *m, lora_choice *to,
              weft_engine_options *engine)
{
    char path[4096];
    weft_error err = { 0 };
    *to = (lora_choice){ .strength = 1 };
    if (!given)
        return 0;
    const size_t n = split_strength(given, &to->strength);
    if (n == 0 || n >= sizeof path || !isfinite(to->strength))
        return cli_usage(c, "--lora: \"%s\" is not PATH or PATH:STRENGTH", given);
    snprintf(path, sizeof path, "%.*s", (int)n, given);
    to->adapter = weft_adapter_open(m, path, &err);
    if (!to->adapter)
        return cli_fail(&err);
    weft_adapter_info info = { .struct_size = sizeof info };
    weft_adapter_get_info(to->adapter, &info);
    if (engine)
        engine->adapter_rank = info.rank;
    return 0;
}

bool lora_apply(const lora_choice *of, weft_session *s, weft_error *err)
{
    return !of->adapter || weft_session_adapt(s, of->adapter, of->strength, err) == WEFT_OK;
}
