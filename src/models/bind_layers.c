/* bind_layers.c - what differs from layer to layer: which have a window, and which rotate.
 *
 * Files say it as a list with an element for each layer, as a period (of every p layers the last is
 * the other kind), or not at all; then the architecture's row knows. */
#include "models/bind.h"

#include <stdio.h>
#include <string.h>

enum { GGUF_U32 = 4, GGUF_I32 = 5, GGUF_BOOL = 7 };

/* Element i of a list of flags or numbers. */
static bool flag_at(const meta *list, uint64_t i)
{
    uint32_t word;
    if (list->element == GGUF_BOOL)
        return list->at[i] != 0;
    memcpy(&word, list->at + 4 * i, sizeof word);
    return word != 0;
}

/* Fills flags from GGUF's list; false if the file has none. */
static bool read_flags(bind *b, const char *key, bool *flags)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", b->m->name, key);
    const meta *m = b->gguf_keys ? container_meta(b->m->config, name) : NULL;
    if (!m || m->type != META_ARRAY)
        return false;
    const bool flat = m->element == GGUF_BOOL || m->element == GGUF_U32 || m->element == GGUF_I32;
    if (!flat || m->length < (uint64_t)b->m->n_layer)
        bind_fail(b, WEFT_EFORMAT, "%s has %llu elements of type %u; expected a flag per layer",
                  name, (unsigned long long)m->length, m->element);
    for (int64_t l = 0; b->status == WEFT_OK && l < b->m->n_layer; l++)
        flags[l] = flag_at(m, (uint64_t)l);
    return true;
}

/* Of every p layers, all but the last. */
static void all_but_every(bool *flags, int64_t n, int64_t p)
{
    for (int64_t l = 0; l < n; l++)
        flags[l] = p <= 1 || (l + 1) % p != 0;
}

static bool is_all_but_every(const bool *flags, int64_t n, int64_t p)
{
    for (int64_t l = 0; l < n; l++)
        if (flags[l] != (p <= 1 || (l + 1) % p != 0))
            return false;
    return true;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* layer_types: a word for each layer. */
static bool read_layer_types(bind *b, bool *flags)
{
    char key[40];
    if (!bind_entry(b, "layer_types.0"))
        return false;
    for (int64_t l = 0; l < b->m->n_layer; l++) {
        snprintf(key, sizeof key, "layer_types.%lld", (long long)l);
        const char *kind = bind_peek_text(b, NULL, key);
        flags[l] = kind && strcmp(kind, "sliding_attention") == 0;
        if (!flags[l] && (!kind || strcmp(kind, "full_attention") != 0)) {
            bind_fail(b, WEFT_EUNSUPPORTED,
                      "%s is \"%.40s\"; expected full_attention or sliding_attention", key,
                      kind ? kind : "missing");
            return true;
        }
    }
    return true;
}

/* The period that a file gives: a number, or EXAONE's "LLLG". */
static int64_t read_period(bind *b)
{
    static const char key[] = "sliding_window_pattern";
    const int64_t own = b->m->arch->window_period;
    const meta *m = bind_entry(b, key);
    if (m && m->type == META_TEXT && m->length > 0)
        return strspn(m->text, "L") == m->length - 1 && m->text[m->length - 1] == 'G'
                   ? (int64_t)m->length
                   : bind_fail(b, WEFT_EUNSUPPORTED,
                               "%s is \"%.40s\"; expected some L and then one G", key, m->text);
    const double p = bind_peek_real(b, "attention.sliding_window_pattern", key, (double)own, 0,
                                    1 << 20);
    return (int64_t)p;
}

const bool *bind_windows(bind *b, int64_t window)
{
    const int64_t n = b->m->n_layer;
    bool *flags = bind_alloc(b, n, sizeof *flags);
    if (!flags || window == 0)
        return flags;
    if (!read_layer_types(b, flags) && !read_flags(b, "attention.sliding_window_pattern", flags))
        all_but_every(flags, n, read_period(b));
    if (b->m->notes && !is_all_but_every(flags, n, 1))
        b->m->notes->windowed = flags;
    return flags;
}

/* ---- rotation -------------------------------------------------------------------------------- */

/* no_rope_layers: 1 for each layer that rotates, whatever its name says. */
static bool read_no_rope(bind *b, bool *flags)
{
    char key[40];
    if (!bind_entry(b, "no_rope_layers.0"))
        return false;
    for (int64_t l = 0; l < b->m->n_layer; l++) {
        snprintf(key, sizeof key, "no_rope_layers.%lld", (long long)l);
        flags[l] = bind_peek_real(b, NULL, key, 1, 0, 1) != 0;
    }
    return true;
}

const bool *bind_turns(bind *b, const bool *windowed, int64_t window)
{
    const int64_t n = b->m->n_layer, period = b->m->arch->bare_period;
    bool *flags = bind_alloc(b, n, sizeof *flags);
    if (!flags || !windowed)
        return NULL;
    if (b->m->arch->window_rope && window > 0)
        memcpy(flags, windowed, (size_t)n * sizeof *flags);
    else if (!period)
        all_but_every(flags, n, 1);
    else if (!read_no_rope(b, flags) && !read_flags(b, "attention.rope_pattern", flags))
        all_but_every(
            flags, n,
            (int64_t)bind_peek_real(b, NULL, "no_rope_layer_interval", (double)period, 2, 1 << 20));
    if (period && !is_all_but_every(flags, n, period))
        bind_not_convertible(b, "no_rope_layers");
    return flags;
}
