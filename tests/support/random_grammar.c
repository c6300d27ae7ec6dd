/* random_grammar.c - see random_grammar.h. */
#include "random_grammar.h"

#include "base/rng.h"

#include <stdio.h>
#include <string.h>

#define OPEN ((uint64_t)1 << 63) /* the text may end inside, or be over before it began */

uint32_t random_grammar_draw(random_grammar *g, uint32_t n)
{
    return rng_draw(g->key, 77, g->draws++).word[0] % n;
}

/* ---- making ---------------------------------------------------------------------------------- */

static int make_node(random_grammar *g, int depth);

static void make_children(random_grammar *g, grammar_node *n, int depth)
{
    n->n = n->kind == REPEAT ? 1 : 1 + (int)random_grammar_draw(g, 3);
    for (int i = 0; i < n->n; i++)
        n->child[i] = make_node(g, depth + 1);
    n->min = (int)random_grammar_draw(g, 3);
    n->max = random_grammar_draw(g, 2) ? -1 : n->min + (int)random_grammar_draw(g, 3);
}

static int make_node(random_grammar *g, int depth)
{
    const int at = g->n_node++;
    const bool leaf = depth > 3 || g->n_node > GRAMMAR_NODES - 24;
    grammar_node n = { .kind = leaf ? (int)random_grammar_draw(g, 3)
                                    : (int)random_grammar_draw(g, 6) };
    const size_t n_letter = strlen(g->letters);
    const int length = n.kind == CLASS ? 1 + (int)random_grammar_draw(g, 3)
                                       : (int)random_grammar_draw(g, 4);
    for (int i = 0; i < length; i++)
        n.text[i] = g->letters[random_grammar_draw(g, (uint32_t)n_letter)];
    n.negated = random_grammar_draw(g, 6) == 0;
    n.rule = (int)random_grammar_draw(g, GRAMMAR_RULES);
    if (n.kind >= SEQUENCE)
        make_children(g, &n, depth);
    g->node[at] = n;
    return at;
}

/* ---- meaning --------------------------------------------------------------------------------- */

static bool finishes(const random_grammar *g, int at)
{
    const grammar_node *n = &g->node[at];
    bool any = false, all = true;
    for (int i = 0; i < n->n; i++) {
        const bool f = finishes(g, n->child[i]);
        any = any || f;
        all = all && f;
    }
    switch (n->kind) {
    case RULE:
        return g->finishes[n->rule];
    case SEQUENCE:
        return all;
    case CHOICE:
        return any;
    case REPEAT:
        return n->min == 0 || all;
    default:
        return true;
    }
}

static uint64_t ends_of(const random_grammar *g, int at, const char *s, int n, int from);

static uint64_t ends_after(const random_grammar *g, int at, const char *s, int n, uint64_t places)
{
    uint64_t all = 0;
    for (int i = 0; i <= n; i++)
        if (places >> i & 1)
            all |= ends_of(g, at, s, n, i);
    return all;
}

static uint64_t leaf_ends(const grammar_node *x, const char *s, int n, int from)
{
    if (x->kind == CLASS) {
        if (from == n)
            return OPEN;
        return (strchr(x->text, s[from]) != NULL) != x->negated
                   ? (uint64_t)1 << (from + 1) | (from + 1 == n ? OPEN : 0)
                   : 0;
    }
    const int length = (int)strlen(x->text), left = n - from;
    if (strncmp(x->text, s + from, (size_t)(length < left ? length : left)) != 0)
        return 0;
    return length <= left ? (uint64_t)1 << (from + length) | (length == left ? OPEN : 0) : OPEN;
}

static uint64_t repeat_ends(const random_grammar *g, const grammar_node *x, const char *s, int n,
                            int from)
{
    uint64_t places = (uint64_t)1 << from, all = x->min == 0 ? places : 0;
    const int most = x->max < 0 ? x->min + n + 2 : x->max;
    const bool whole = finishes(g, x->child[0]);
    if (x->min == 0 && from == n)
        all |= OPEN;
    for (int i = 1; i <= most; i++) {
        const uint64_t next = ends_after(g, x->child[0], s, n, places);
        all |= i >= x->min || whole ? next & OPEN : 0;
        places = next & ~OPEN;
        all |= i >= x->min ? places : 0;
    }
    return all | (all >> n & 1 ? OPEN : 0);
}

static uint64_t ends_of(const random_grammar *g, int at, const char *s, int n, int from)
{
    const grammar_node *x = &g->node[at];
    if (x->kind <= CLASS)
        return leaf_ends(x, s, n, from);
    if (x->kind == RULE)
        return g->ends[x->rule][from];
    if (x->kind == REPEAT)
        return repeat_ends(g, x, s, n, from);
    uint64_t all = 0, places = (uint64_t)1 << from;
    for (int i = 0; i < x->n && x->kind == CHOICE; i++)
        all |= ends_of(g, x->child[i], s, n, from);
    if (x->kind == CHOICE)
        return all;
    for (int i = 0; i < x->n; i++) {
        const uint64_t next = ends_after(g, x->child[i], s, n, places);
        bool rest = true;
        for (int k = i + 1; k < x->n; k++)
            rest = rest && finishes(g, x->child[k]);
        all |= rest ? next & OPEN : 0;
        places = next & ~OPEN;
    }
    return all | places | (places >> n & 1 ? OPEN : 0);
}

bool random_grammar_matches(random_grammar *g, const char *text, int n, bool *open)
{
    memset(g->ends, 0, sizeof g->ends);
    for (bool changed = true; changed;) {
        changed = false;
        for (int r = 0; r < GRAMMAR_RULES; r++)
            for (int from = n; from >= 0; from--) {
                uint64_t ends = ends_of(g, g->rule[r], text, n, from);
                ends |= from == n && g->finishes[r] ? OPEN : 0;
                changed = changed || ends != g->ends[r][from];
                g->ends[r][from] = ends;
            }
    }
    *open = g->ends[0][0] & OPEN;
    return g->ends[0][0] >> n & 1;
}

void random_grammar_make(random_grammar *g, uint64_t key, const char *letters)
{
    *g = (random_grammar){ .key = key, .letters = letters };
    for (int r = 0; r < GRAMMAR_RULES; r++)
        g->rule[r] = make_node(g, 0);
    for (int i = 0; i <= GRAMMAR_RULES; i++)
        for (int r = 0; r < GRAMMAR_RULES; r++)
            g->finishes[r] = finishes(g, g->rule[r]);
}

/* ---- writing --------------------------------------------------------------------------------- */

static const char *const names[GRAMMAR_RULES] = { "root", "rule-b", "rule-c", "d", "e5" };

static size_t write_node(const random_grammar *g, int at, char *to, size_t size);

static size_t put(char *to, size_t size, size_t n, const char *text)
{
    return n + (size_t)snprintf(to + (n < size ? n : size), n < size ? size - n : 0, "%s", text);
}

static size_t write_quoted(const char *text, char *to, size_t size, size_t n)
{
    for (; *text; text++) {
        char escaped[16];
        snprintf(escaped, sizeof escaped,
                 *text == '"' || *text == '\\' ? "\\%c"
                 : *text == '\n'               ? "\\n"
                                               : "%c",
                 *text);
        n = put(to, size, n, escaped);
    }
    return n;
}

static size_t write_children(const random_grammar *g, const grammar_node *x, char *to, size_t size)
{
    size_t n = put(to, size, 0, "(");
    for (int i = 0; i < x->n; i++) {
        n = put(to, size, n, i == 0 ? "" : x->kind == CHOICE ? " |\n " : " ");
        n += write_node(g, x->child[i], to + n, size - n);
    }
    return put(to, size, n, ")");
}

static size_t write_node(const random_grammar *g, int at, char *to, size_t size)
{
    const grammar_node *x = &g->node[at];
    if (x->kind == RULE)
        return put(to, size, 0, names[x->rule]);
    if (x->kind <= CLASS) {
        size_t n = put(to, size, 0, x->kind == LITERAL ? "\"" : x->negated ? "[^" : "[");
        n = write_quoted(x->text, to, size, n);
        return put(to, size, n, x->kind == LITERAL ? "\"" : "]");
    }
    size_t n = write_children(g, x, to, size);
    char counts[48] = "";
    if (x->kind == REPEAT && x->max < 0)
        snprintf(counts, sizeof counts, x->min == 0 ? "*" : x->min == 1 ? "+" : "{%d,}", x->min);
    else if (x->kind == REPEAT)
        snprintf(counts, sizeof counts, "{%d,%d}", x->min, x->max);
    return put(to, size, n, counts);
}

void random_grammar_write(const random_grammar *g, char *to, size_t size)
{
    size_t n = 0;
    for (int r = 0; r < GRAMMAR_RULES; r++) {
        n = put(to, size, n, names[r]);
        n = put(to, size, n, " ::= ");
        n += write_node(g, g->rule[r], to + n, size - n);
        n = put(to, size, n, "\n");
    }
}
