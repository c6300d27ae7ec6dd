/* bind_names.c - the names of a model's tensors in files of both formats, finding them there, and
 * comparing their shapes.
 *
 *     want { "attn_q", layer 3 } -> "blk.3.attn_q.weight", "model.layers.3.self_attn.q_proj.weight" */
#include "models/bind.h"

#include <stdio.h>
#include <string.h>

#define SUFFIX_BYTES sizeof ".weight_scale_inv"

const char *bind_suffix(const want *w)
{
    return w->suffix ? w->suffix : ".weight";
}

/* "blk.3.attn_q", "enc.blk.3.attn_q" */
void bind_stem(const bind *b, const char *stem, char name[NAME_BYTES])
{
    if (b->layer >= 0)
        snprintf(name, NAME_BYTES, "%sblk.%d.%s", b->prefix, b->layer, stem);
    else
        snprintf(name, NAME_BYTES, "%s%s", b->prefix, stem);
}

/* Hugging Face's name in a table; NULL if it has none. */
static const char *hf_stem(const bind_name *n, const char *stem)
{
    while (n && n->stem && strcmp(n->stem, stem) != 0)
        n++;
    return n ? n->hf : NULL;
}

/* The stem under which the file has it. */
static const char *stored_stem(const want *w)
{
    return w->whole ? w->whole : w->stem;
}

/* The name in a Hugging Face file, with this suffix (".weight"); false if it has none. */
bool bind_hf_name(const bind *b, const want *w, const char *suffix, char name[FILE_NAME_BYTES])
{
    const char *s = hf_stem(b->m->arch->hf_names, stored_stem(w));
    s = s ? s : hf_stem(b->names, stored_stem(w));
    if (!s)
        return false;
    char *to = name; /* bounded: names in the program are short */
    while (*s && *s != '=' && *s != '~')
        if (*s == '%') {
            to += snprintf(to, 24, "%lld", s[1] == 'e' ? (long long)w->part - 1 : b->layer);
            s += 2;
        } else {
            *to++ = *s++;
        }
    const bool whole = *s == '=' || (*s == '~' && strcmp(suffix, ".weight") == 0);
    snprintf(to, SUFFIX_BYTES, "%s", whole ? "" : suffix);
    if (*s == '~' && *to == '.')
        *to = '_';
    return true;
}

/* The text part of a model with pictures: "model.layers.0" is "model.language_model.layers.0" or,
 * in older files, "language_model.model.layers.0". */
static const stored *in_text_part(bind *b, const char *name)
{
    char other[FILE_NAME_BYTES + 24];
    const size_t n = strlen(b->hf_prefix);
    const bool inner = strncmp(name, b->hf_prefix, n) == 0;
    snprintf(other, sizeof other, "%slanguage_model.%s", inner ? b->hf_prefix : "",
             inner ? name + n : name);
    const stored *t = container_tensor(&b->m->file, other);
    snprintf(other, sizeof other, "language_model.%s", name);
    return t ? t : container_tensor(&b->m->file, other);
}

/* Looks up a tensor of a directory by name, with or without the prefix. */
static const stored *in_directory(bind *b, const char *name)
{
    const stored *t = container_tensor(&b->m->file, name);
    const size_t n = strlen(b->hf_prefix);
    if (!t && b->m->text_part)
        return in_text_part(b, name);
    if (t || strncmp(name, b->hf_prefix, n) != 0)
        return t;
    t = container_tensor(&b->m->file, name + n);
    if (t && b->m->notes)
        b->m->notes->hf_bare = true;
    return t;
}

const stored *bind_look_beside(bind *b, const want *w, const char *suffix,
                               char name[FILE_NAME_BYTES])
{
    return !b->gguf && bind_hf_name(b, w, suffix, name) ? in_directory(b, name) : NULL;
}

/* The file's tensor, and its expected name. Norms in BERT's first files have TensorFlow's names for
 * their gains and biases. */
const stored *bind_look_up(bind *b, const want *w, char file_name[FILE_NAME_BYTES])
{
    const char *suffix = bind_suffix(w);
    if (b->gguf) {
        char name[NAME_BYTES];
        bind_stem(b, stored_stem(w), name);
        snprintf(file_name, FILE_NAME_BYTES, "%s%s", name, suffix);
        return container_tensor(&b->m->file, file_name);
    }
    if (!bind_hf_name(b, w, suffix, file_name))
        return NULL;
    const stored *t = in_directory(b, file_name);
    char old[FILE_NAME_BYTES];
    if (t || !bind_hf_name(b, w, strcmp(suffix, ".bias") == 0 ? ".beta" : ".gamma", old))
        return t;
    return in_directory(b, old);
}

bool bind_shape_is(bind *b, const stored *t, const char *name, int n_dim, const int64_t *expected)
{
    bool same = t->n_dim == n_dim;
    for (int d = 0; same && d < n_dim; d++)
        same = t->shape[d] == expected[d];
    if (!same) {
        char got[96], text[96];
        shape_text(got, sizeof got, t->n_dim, t->shape);
        shape_text(text, sizeof text, n_dim, expected);
        bind_misfit(b, t, WEFT_EFORMAT, "tensor %s is %s %s, expected %s", name, t->type->name, got,
                    text);
    }
    return same;
}
