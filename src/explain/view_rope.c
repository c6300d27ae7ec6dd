/* view_rope.c - rotary positions: how fast each pair of columns rotates, and a query and a key before
 * and after.
 *
 * Layers may use different tables, and queries by another one than keys. */
#include "explain/views.h"

#include <assert.h>

#define MOST_TABLES 8

/* The n-th rotation of a layer, or NULL: queries come first, then keys. */
static const seen *rotation(const subject *s, int64_t layer, int n)
{
    for (int64_t i = 0; i < s->seen->n; i++) {
        const seen *t = &s->seen->at[i];
        if (t->rope && t->layer == layer && n-- == 0)
            return t;
    }
    return NULL;
}

const char *no_rope(const subject *s)
{
    for (int64_t l = 0; l < s->n_layer; l++)
        if (rotation(s, l, 0))
            return NULL;
    return "This model does not rotate queries and keys by their positions.";
}

/* The frequency that a pair had before scaling. */
static double plain_frequency(const rope_spec *r, int64_t k)
{
    return pow(r->theta, -2.0 * (double)k / (double)r->n_rot);
}

/* By how much the slowest pairs were slowed down. A file that stores divisors has no factor. */
static double stretch(const rope_spec *r, const double *frequency)
{
    double most = 1;
    for (int64_t k = 0; k < r->n_rot / 2; k++)
        most = fmax(most, plain_frequency(r, k) / frequency[k]);
    return most;
}

static const char *branch(double plain, double now, double most)
{
    const double by = plain / now;
    return fabs(by - 1) < 1e-6 ? "kept" : fabs(by / most - 1) < 1e-6 ? "divided" : "between";
}

static void put_table(const rope_spec *r, document *d)
{
    static const char *const scaling[] = { [ROPE_PLAIN] = "plain",
                                           [ROPE_LINEAR] = "linear",
                                           [ROPE_LLAMA3] = "llama3",
                                           [ROPE_YARN] = "yarn",
                                           [ROPE_LONG] = "longrope" };
    const struct {
        const char *name;
        double value;
    } number[] = {
        { "theta", r->theta },           { "n_rot", (double)r->n_rot },
        { "d_head", (double)r->d_head }, { "skip", (double)r->skip },
        { "low_freq", r->low_freq },     { "high_freq", r->high_freq },
        { "beta_fast", r->beta_fast },   { "beta_slow", r->beta_slow },
        { "old_ctx", r->old_ctx },       { "warmth", r->warmth },
        { "warm_ctx", r->warm_ctx },
    };
    double frequency[MAX_HEAD / 2];
    const double magnitude = rope_frequencies(r, frequency), most = stretch(r, frequency);
    doc_object(d, NULL);
    doc_text(d, "scaling",
             r->scaling == ROPE_PLAIN && r->divisor ? "divisors" : scaling[r->scaling]);
    doc_text(d, "pairing", r->pairing == ROPE_ADJACENT ? "adjacent" : "halves");
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        doc_real(d, number[i].name, number[i].value);
    doc_real(d, "stretch", most);
    doc_real(d, "magnitude", magnitude);
    doc_list(d, "pairs");
    for (int64_t k = 0; k < r->n_rot / 2; k++) {
        doc_object(d, NULL);
        doc_real(d, "plain", plain_frequency(r, k));
        doc_real(d, "frequency", frequency[k]);
        doc_text(d, "branch", branch(plain_frequency(r, k), frequency[k], most));
        doc_end(d);
    }
    doc_end(d);
    doc_end(d);
}

/* The index of a table among those found so far; a new one is appended. */
static int place_of(const rope_spec *r, const rope_spec **table, int *n)
{
    int i = 0;
    while (i < *n && table[i] != r)
        i++;
    assert(i < MOST_TABLES);
    if (i == *n)
        table[(*n)++] = r;
    return i;
}

static void put_turned(document *d, const char *before, const char *after, const subject *s,
                       const seen *t)
{
    doc_tensor(d, before, record_find(s->seen, t->input[0]));
    doc_tensor(d, after, t);
}

void view_rope(const subject *s, document *d)
{
    const rope_spec *table[MOST_TABLES];
    int n = 0;
    doc_list(d, "layers");
    for (int64_t l = 0; l < s->n_layer; l++) {
        const seen *q = rotation(s, l, 0), *k = rotation(s, l, 1);
        if (!q || !k)
            continue;
        doc_object(d, NULL);
        doc_int(d, "layer", l);
        doc_int(d, "q_table", place_of(q->rope, table, &n));
        doc_int(d, "k_table", place_of(k->rope, table, &n));
        put_turned(d, "q_before", "q", s, q);
        put_turned(d, "k_before", "k", s, k);
        doc_end(d);
    }
    doc_end(d);
    doc_list(d, "tables");
    for (int i = 0; i < n; i++)
        put_table(table[i], d);
    doc_end(d);
}
