/* lora_spec.c - parses the text of --lora. */
#include "train/lora_spec.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXPECTED "expected r=N, alpha=X, rslora, dora, dropout=P, targets=NAME+NAME or init=DIR"

static weft_status wrong(weft_error *err, const char *item)
{
    return weft_fail(err, WEFT_EINVAL, "lora: \"%.60s\"; " EXPECTED ", with commas between them",
                     item);
}

/* The number behind the "=" of an item, which lies in [lo, hi]. */
static weft_status read_number(const char *key, const char *text, double lo, double hi, double *to,
                               weft_error *err)
{
    char *end;
    errno = 0;
    *to = text ? strtod(text, &end) : NAN;
    if (text && *text && !*end && errno == 0 && *to >= lo && *to <= hi)
        return WEFT_OK;
    return weft_fail(err, WEFT_EINVAL, "lora: %s is \"%.40s\"; expected %g to %g", key,
                     text ? text : "", lo, hi);
}

static weft_status read_rank(lora_spec *s, const char *value, weft_error *err)
{
    double r;
    const weft_status status = read_number("r", value, 1, MAX_LORA_RANK, &r, err);
    if (status != WEFT_OK)
        return status;
    s->r = (int64_t)r;
    if ((double)s->r != r)
        return weft_fail(err, WEFT_EINVAL, "lora: r is %s; expected a whole number", value);
    return WEFT_OK;
}

static weft_status read_dropout(lora_spec *s, const char *value, weft_error *err)
{
    double p = 0;
    const weft_status status = read_number("dropout", value, 0, 0.99, &p, err);
    s->dropout = (real)p;
    return status;
}

static weft_status read_targets(lora_spec *s, char *value, weft_error *err)
{
    for (char *name = value, *next; name; name = next) {
        next = strchr(name, '+');
        if (next)
            *next++ = '\0';
        if (!*name)
            return weft_fail(err, WEFT_EINVAL, "lora: a target has no name; expected NAME+NAME");
        if (s->n_target == MAX_LORA_TARGET)
            return weft_fail(err, WEFT_EINVAL, "lora: more than %d targets; use patterns",
                             MAX_LORA_TARGET);
        s->target[s->n_target++] = name;
    }
    if (s->n_target == 1 && strcmp(s->target[0], "all-linear") == 0)
        s->n_target = 0;
    return WEFT_OK;
}

static weft_status read_flag(bool *to)
{
    *to = true;
    return WEFT_OK;
}

static weft_status read_item(lora_spec *s, char *item, weft_error *err)
{
    char *value = strchr(item, '=');
    if (value)
        *value++ = '\0';
    if (strcmp(item, "r") == 0)
        return read_rank(s, value, err);
    if (strcmp(item, "alpha") == 0)
        return read_number("alpha", value, 1e-6, 1e9, &s->alpha, err);
    if (strcmp(item, "dropout") == 0)
        return read_dropout(s, value, err);
    if (!value && strcmp(item, "rslora") == 0)
        return read_flag(&s->rslora);
    if (!value && strcmp(item, "dora") == 0)
        return read_flag(&s->dora);
    if (!value || !*value)
        return wrong(err, item);
    if (strcmp(item, "targets") == 0)
        return read_targets(s, value, err);
    if (strcmp(item, "init") != 0)
        return wrong(err, item);
    s->init = value;
    return WEFT_OK;
}

weft_status lora_spec_parse(lora_spec *s, const char *text, weft_error *err)
{
    *s = (lora_spec){ 0 };
    if (strlen(text) >= sizeof s->text)
        return weft_fail(err, WEFT_EINVAL, "lora: more than %zu bytes", sizeof s->text - 1);
    memcpy(s->text, text, strlen(text) + 1);
    weft_status status = WEFT_OK;
    for (char *item = s->text, *next; *item && status == WEFT_OK; item = next) {
        next = strchr(item, ',');
        if (next)
            *next++ = '\0';
        else
            next = item + strlen(item);
        status = read_item(s, item, err);
    }
    if (status == WEFT_OK && s->init &&
        (s->r || s->alpha > 0 || s->rslora || s->dora || s->n_target))
        return weft_fail(err, WEFT_EINVAL,
                         "lora: %.200s has a rank, a scale and targets; expected init and dropout "
                         "only",
                         s->init);
    if (status == WEFT_OK && s->dora && s->dropout > 0)
        return lora_spec_refuse_dropout(s, err);
    s->r = s->r ? s->r : 16;
    s->alpha = s->alpha > 0 ? s->alpha : 32;
    return status;
}

weft_status lora_spec_refuse_dropout(const lora_spec *s, weft_error *err)
{
    return weft_fail(err, WEFT_EUNSUPPORTED,
                     "lora: dropout=%g with gains (dora); expected dropout=0, because PEFT would "
                     "drop the input of the model's weights, too; leave out one of the two",
                     (double)s->dropout);
}

double lora_spec_scale(const lora_spec *s)
{
    return s->alpha / (s->rslora ? sqrt((double)s->r) : (double)s->r);
}

/* Is it the target, or does it end with a dot and the target? */
static bool ends_with(const char *name, const char *target)
{
    const size_t n = strlen(name), k = strlen(target);
    return k <= n && strcmp(name + (n - k), target) == 0 && (k == n || name[n - k - 1] == '.');
}

int lora_spec_target(const lora_spec *s, const char *name, const char *module)
{
    for (int i = 0; i < s->n_target; i++)
        if (ends_with(name, s->target[i]) || ends_with(module, s->target[i]) ||
            fnmatch(s->target[i], name, 0) == 0)
            return i;
    return -1;
}
