/* constant.c - which expressions jinja2 computes when it compiles: there, some errors are none. */
#include "text/jinja/tree.h"

/* jinja2 computes constants when it compiles, and inside them a slice of something that has none is
 * undefined instead of an error. These filters need the rendering. */
static bool needs_rendering(const jstr *name)
{
    static const char *const word[] = { "map", "select", "reject", "selectattr", "rejectattr" };
    for (int i = 0; i < 5; i++)
        if (jstr_is(name, word[i]))
            return true;
    return false;
}

/* A chain of postfixes knows it already (flag). */
bool jis_constant(const jnode *n)
{
    if (!n || n->kind == N_POSTFIX)
        return !n || n->flag;
    if (n->kind == N_NAME || n->kind == N_CALL || (n->kind == N_FILTER && needs_rendering(n->name)))
        return false;
    for (uint32_t i = 0; i < n->n; i++)
        if (!jis_constant(n->kid[i]))
            return false;
    return true;
}

bool jis_slice(const jnode *step)
{
    return step->kind == N_ITEM && step->kid[0]->kind == N_SLICE;
}

/* The whole of an output is a constant: so are all slices in it. */
static void mark_slices(jnode *n)
{
    for (uint32_t i = 0; n && i < n->n; i++) {
        mark_slices(n->kid[i]);
        if (n->kind == N_POSTFIX && i > 0 && jis_slice(n->kid[i]))
            n->kid[i]->flag = true;
    }
}

void jmark_constant(jnode *n)
{
    if (n && jis_constant(n))
        mark_slices(n);
}
