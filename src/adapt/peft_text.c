/* peft_text.c - writes an adapter_config.json.
 *
 * Modules are named by the shortest end of their names that matches no other module, of one or two
 * components, or in full: "q_proj", "attn.c_proj", "model.layers.1.mlp.up_proj". Most modules have
 * the rank and alpha of the first; rank_pattern and alpha_pattern name the others. scale = alpha / r,
 * so alpha is found from it, and rsLoRA needs no flag. */
#include "adapt/peft_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a list has one entry for. */
typedef enum entry_kind { TARGET, SAVED, RANK, ALPHA } entry_kind;

/* The alpha for which alpha / r is the scale: where rounding allows it, exactly. */
static double alpha_of(const peft_text_module *m)
{
    const double r = (double)m->r, alpha = m->scale * r;
    const double near[] = { alpha, nextafter(alpha, INFINITY), nextafter(alpha, -INFINITY) };
    for (int i = 0; i < 3; i++)
        if (near[i] / r == m->scale)
            return near[i];
    return alpha;
}

/* The value that a list gives to a module. Those of equal value may share an entry. */
static double value_of(const peft_text_module *m, entry_kind kind)
{
    return kind == TARGET  ? m->targeted
           : kind == SAVED ? m->saved
           : kind == RANK  ? (double)m->r
                           : alpha_of(m);
}

/* PEFT matches the end of a name, of saved modules at any byte, of others after a dot. */
static bool ends_with(const char *name, const char *entry, entry_kind kind)
{
    const size_t n = strlen(name), k = strlen(entry);
    if (k > n || strcmp(name + (n - k), entry) != 0) /* bounded: k <= n */
        return false;
    return k == n || kind == SAVED || name[n - k - 1] == '.';
}

/* Does every module that the entry matches have the value of module m? Patterns matter to targeted
 * modules only. */
static bool is_exact(const peft_text *t, const peft_text_module *m, const char *entry,
                     entry_kind kind)
{
    for (int64_t i = 0; i < t->n; i++) {
        const peft_text_module *other = &t->module[i];
        const bool concerned = kind <= SAVED || other->targeted;
        if (concerned && value_of(other, kind) != value_of(m, kind) &&
            ends_with(other->name, entry, kind))
            return false;
    }
    return true;
}

/* The shortest entry for a module: the end of its name. */
static const char *entry_for(const peft_text *t, const peft_text_module *m, entry_kind kind)
{
    const char *entry = strrchr(m->name, '.');
    for (int components = 0; entry && components < 2; components++) {
        if (is_exact(t, m, entry + 1, kind))
            return entry + 1;
        do
            entry = entry == m->name ? NULL : entry - 1;
        while (entry && *entry != '.');
    }
    return m->name;
}

/* ---- lists ----------------------------------------------------------------------------------- */

typedef struct entries {
    const char **at; /* [n of the text's modules] */
    int64_t n;
} entries;

static bool has_entry(const entries *e, const char *name, entry_kind kind)
{
    for (int64_t i = 0; i < e->n; i++)
        if (ends_with(name, e->at[i], kind))
            return true;
    return false;
}

/* The shortest decimal that reads back as x. */
static void put_number(buffer *b, double x)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    buffer_text(b, text);
}

/* A pattern is a regular expression, in which a dot is any character. */
static void put_pattern(buffer *b, const char *entry, double value)
{
    buffer_text(b, "\"");
    for (const char *c = entry; *c; c++)
        buffer_format(b, *c == '.' ? "\\\\." : "%c", *c);
    buffer_text(b, "\": ");
    put_number(b, value);
}

/* The entries for modules whose value is not `usual`; `room` is for a pointer for each module. */
static void put_entries(const peft_text *t, entry_kind kind, double usual, const char **room,
                        buffer *b)
{
    entries e = { room, 0 };
    for (int64_t i = 0; i < t->n; i++) {
        const peft_text_module *m = &t->module[i];
        const bool concerned = kind <= SAVED || m->targeted;
        if (!concerned || value_of(m, kind) == usual || has_entry(&e, m->name, kind))
            continue;
        const char *entry = entry_for(t, m, kind);
        buffer_text(b, e.n ? ",\n    " : "\n    ");
        if (kind <= SAVED)
            buffer_quote(b, entry, strlen(entry));
        else
            put_pattern(b, entry, value_of(m, kind));
        e.at[e.n++] = entry; /* bounded: once for each module */
    }
    buffer_text(b, e.n ? "\n  " : "");
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void text_or_null(buffer *b, const char *key, const char *text)
{
    buffer_format(b, "  \"%s\": ", key);
    if (text)
        buffer_quote(b, text, strlen(text));
    else
        buffer_text(b, "null");
    buffer_text(b, ",\n");
}

static void put_flag(buffer *b, const char *key, bool flag)
{
    buffer_format(b, "  \"%s\": %s,\n", key, flag ? "true" : "false");
}

static const peft_text_module *first_targeted(const peft_text *t)
{
    int64_t i = 0;
    while (!t->module[i].targeted)
        i++;
    return &t->module[i];
}

static void put_lists(const peft_text *t, const char **room, buffer *b)
{
    const peft_text_module *first = first_targeted(t);
    bool saves = false;
    for (int64_t i = 0; i < t->n; i++)
        saves |= t->module[i].saved;
    buffer_text(b, "  \"target_modules\": [");
    put_entries(t, TARGET, false, room, b);
    buffer_text(b, "],\n  \"modules_to_save\": ");
    buffer_text(b, saves ? "[" : "null");
    put_entries(t, SAVED, false, room, b);
    buffer_text(b, saves ? "],\n" : ",\n");
    buffer_format(b, "  \"r\": %lld,\n  \"lora_alpha\": ", (long long)first->r);
    put_number(b, alpha_of(first));
    buffer_text(b, ",\n  \"rank_pattern\": {");
    put_entries(t, RANK, (double)first->r, room, b);
    buffer_text(b, "},\n  \"alpha_pattern\": {");
    put_entries(t, ALPHA, alpha_of(first), room, b);
    buffer_text(b, "},\n");
}

void peft_text_put(const peft_text *t, buffer *b)
{
    const char **room = mem_zalloc(b->mem, (size_t)t->n, sizeof *room, "an adapter", b->err);
    if (!room) {
        b->failed = true;
        return;
    }
    buffer_text(b, "{\n  \"peft_type\": \"LORA\",\n");
    text_or_null(b, "base_model_name_or_path", t->base);
    text_or_null(b, "task_type", t->task);
    put_lists(t, room, b);
    put_flag(b, "use_rslora", false);
    put_flag(b, "use_dora", t->dora);
    if (t->lora_bias) /* older versions of PEFT do not know it */
        put_flag(b, "lora_bias", true);
    put_flag(b, "fan_in_fan_out", t->fan_in_fan_out);
    text_or_null(b, "bias", t->bias);
    put_flag(b, "inference_mode", true);
    buffer_text(b, "  \"init_lora_weights\": true,\n  \"lora_dropout\": 0.0\n}\n");
    mem_free(b->mem, room);
}
