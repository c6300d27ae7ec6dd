/* peft_match.c - whether an adapter has a part for a module of the model, and of what rank and
 * scale. The rules are in peft_config.h. */
#include "adapt/peft_config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one pattern ----------------------------------------------------------------------------- */

/* Is it the entry, or does it end with "." and the entry? In a regular expression of plain
 * characters, a dot is any character. */
static bool ends_with(const char *name, const char *entry, bool any_dot)
{
    const size_t n = strlen(name), k = strlen(entry);
    if (k > n || (k < n && name[n - k - 1] != '.'))
        return false;
    const char *tail = name + (n - k); /* bounded: k <= n */
    for (size_t i = 0; i < k; i++)
        if (tail[i] != entry[i] && !(any_dot && entry[i] == '.'))
            return false;
    return true;
}

/* Is the entry one component of the name, or several in a row? */
static bool contains(const char *name, const char *entry)
{
    const size_t k = strlen(entry);
    for (const char *at = name; (at = strstr(at, entry)); at++)
        if ((at == name || at[-1] == '.') && (!at[k] || at[k] == '.'))
            return true;
    return false;
}

/* 1 if it matches, 0 if not, with the end of the match; negative with err filled if nobody can
 * tell. */
static int search(const peft_config *c, const regex *re, const char *name, size_t *end,
                  weft_error *err)
{
    size_t start;
    const size_t n = strlen(name);
    weft_error why = { 0 };
    regex_begin(c->scratch, n);
    const int found = regex_find(re, c->scratch, name, n, 0, &start, end, &why);
    if (found < 0)
        weft_fail(err, why.code,
                  "%s: %s for the module %s; expected a simpler pattern; list the "
                  "modules instead",
                  c->path, why.message, name);
    return found;
}

/* The same for any of the names or the one regular expression of a list. */
static int listed(const peft_config *c, const peft_patterns *list, const char *name,
                  weft_error *err)
{
    size_t end;
    for (int64_t i = 0; i < list->n; i++) {
        const peft_pattern *p = &list->at[i];
        const int found = p->re ? search(c, p->re, name, &end, err)
                                : ends_with(name, p->text, false);
        if (found)
            return found;
    }
    return 0;
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* The first number between dots that has two components before it: "model.layers.3.mlp". -1: none. */
static int64_t first_number(const char *name)
{
    int before = 0;
    for (const char *at = name, *dot; (dot = strchr(at, '.')); at = &dot[1], before++) {
        const size_t digits = strspn(at, "0123456789");
        if (before >= 2 && digits && digits < 10 && at[digits] == '.')
            return atoi(at);
    }
    return -1;
}

/* The number that ends a match of "layers.3.". */
static int64_t number_before(const char *name, size_t end)
{
    size_t from = end - 1; /* bounded: the match ends with a digit and a dot */
    while (from > 0 && name[from - 1] >= '0' && name[from - 1] <= '9')
        from--;
    return end - 1 - from < 10 ? atoi(name + from) : -1; /* bounded: from < end */
}

/* Is its layer one of layers_to_transform? As search. */
static int in_layers(const peft_config *c, const char *name, weft_error *err)
{
    int64_t number = c->layer_lists.n ? -1 : first_number(name);
    for (int64_t i = 0; i < c->layer_lists.n && number < 0; i++) {
        size_t end = 0;
        const int found = search(c, c->layer_lists.at[i].re, name, &end, err);
        if (found < 0)
            return found;
        number = found ? number_before(name, end) : -1;
    }
    for (int64_t i = 0; number >= 0 && i < c->layers.n; i++)
        if (c->layers.at[i].number == (double)number)
            return 1;
    return 0;
}

/* A name that is written in full is targeted in any layer. */
static bool is_entry(const peft_patterns *list, const char *name)
{
    for (int64_t i = 0; i < list->n; i++)
        if (!list->at[i].re && strcmp(list->at[i].text, name) == 0)
            return true;
    return false;
}

/* ---- one module ------------------------------------------------------------------------------ */

static int targeted(const peft_config *c, const peft_module *m, weft_error *err)
{
    const int excluded = listed(c, &c->exclude, m->name, err);
    if (excluded)
        return excluded < 0 ? excluded : 0;
    if (c->all_linear)
        return !m->table && !m->head;
    const int found = listed(c, &c->target, m->name, err);
    if (found <= 0 || c->layers.n == 0 || is_entry(&c->target, m->name))
        return found;
    return in_layers(c, m->name, err);
}

/* The number of the first pattern that matches the end of the name. */
static weft_status pattern_number(const peft_config *c, const peft_patterns *list, const char *name,
                                  double *number, weft_error *err)
{
    size_t end;
    for (int64_t i = 0; i < list->n; i++) {
        const peft_pattern *p = &list->at[i];
        const int found = p->re ? search(c, p->re, name, &end, err)
                                : ends_with(name, p->text, true);
        if (found < 0)
            return err->code;
        if (found) {
            *number = p->number;
            return WEFT_OK;
        }
    }
    return WEFT_OK;
}

weft_status peft_config_match(const peft_config *c, const peft_module *m, peft_match *match,
                              weft_error *err)
{
    *match = (peft_match){ 0 };
    for (int64_t i = 0; i < c->saved.n && !match->saved; i++)
        match->saved = contains(m->name, c->saved.at[i].text);
    const int found = match->saved ? 0 : targeted(c, m, err);
    if (found < 0)
        return err->code;
    match->targeted = found > 0;
    if (!match->targeted)
        return WEFT_OK;
    double r = (double)c->r, alpha = c->alpha;
    weft_status status = pattern_number(c, &c->ranks, m->name, &r, err);
    if (status == WEFT_OK)
        status = pattern_number(c, &c->alphas, m->name, &alpha, err);
    match->r = (int64_t)r;
    match->scale = alpha / (c->rslora ? sqrt(r) : r);
    return status;
}
