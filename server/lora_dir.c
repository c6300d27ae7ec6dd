/* lora_dir.c - names and templates of adapters; see lora_dir.h. */
#include "lora_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t lora_split(const char *given, double *strength)
{
    const char *colon = strrchr(given, ':');
    char *end = NULL;
    const double x = colon && colon[1] ? strtod(colon + 1, &end) : 1;
    *strength = end && !*end ? x : 1;
    return end && !*end ? (size_t)(colon - given) : strlen(given);
}

/* The length of a template without the white space at its end. */
static size_t trimmed(const weft_template_info *t)
{
    size_t n = t->source_length;
    while (n > 0 && strchr(" \t\r\n", t->source[n - 1]))
        n--;
    return n;
}

static bool same_text(const weft_template *a, const weft_template *b)
{
    weft_template_info of_a = { .struct_size = sizeof of_a }, of_b = { .struct_size = sizeof of_b };
    weft_template_get_info(a, &of_a);
    weft_template_get_info(b, &of_b);
    const size_t n = trimmed(&of_a);
    return n == trimmed(&of_b) && memcmp(of_a.source, of_b.source, n) == 0;
}

bool lora_template_differs(const char *path, const weft_template *of_model, char *why, size_t room)
{
    weft_error err = { 0 };
    weft_template *own = weft_template_load(path, NULL, &err);
    if (!own && err.code == WEFT_EUNSUPPORTED)
        return false; /* it carries none */
    const bool same = own && of_model && same_text(own, of_model);
    if (!own)
        snprintf(why, room, "%s", err.message);
    else if (!same)
        snprintf(why, room, "%s: its chat template %s", path,
                 of_model ? "is not the one of the model: the adapter was trained with another"
                          : "was used to train it, but the model has none");
    weft_template_free(own);
    return !same;
}
