/* checks.c - the identities of checks.h, each computed a second time in double precision from the
 * tensors that a page shows. */
#include "explain/checks.h"

#include <math.h>
#include <string.h>

#define ROUNDING 1e-5 /* of sums of f32 that are ordered in another way */

/* Notes one comparison; NaN is an infinite error. */
static void note(identity *i, double error)
{
    error = isnan(error) ? INFINITY : fabs(error);
    i->error = error > i->error ? error : i->error;
    i->n++;
}

/* Not fmax, whose maximum of many gcc 12 cannot compile for aarch64. */
static double larger(double a, double b)
{
    return a > b ? a : b;
}

static const layer_parts *layer_at(const subject *s)
{
    return &s->layer[s->at_layer];
}

/* ---- attention ------------------------------------------------------------------------------- */

static void check_rows(const subject *s, identity *i)
{
    for (int64_t l = 0; l < s->n_layer; l++) {
        const seen *p = s->layer[l].probs;
        if (p && p->attention.sink)
            i->why_not = "A sink takes a share of every row.";
        for (int64_t u = 0; p && u < p->n_kept; u++) {
            double sum = 0;
            for (int64_t j = 0; j < p->cols; j++)
                sum += (double)p->data[u * p->cols + j];
            note(i, sum - 1);
        }
    }
}

static void compare_softmax(const seen *scores, const seen *probs, identity *i)
{
    for (int64_t u = 0; u < scores->rows; u++) {
        const float *x = seen_row(scores, u), *p = seen_row(probs, u);
        double sum = 0, max = -INFINITY;
        for (int64_t j = 0; j < scores->cols; j++)
            max = larger(max, (double)x[j]);
        for (int64_t j = 0; j < scores->cols; j++)
            sum += exp((double)x[j] - max);
        for (int64_t j = 0; j < scores->cols; j++)
            note(i, exp((double)x[j] - max) / sum - (double)p[j]);
    }
}

/* Is it the layer that the page opens with, or of this number in another stack? */
static bool is_here(const subject *s, const layer_parts *l)
{
    return l->number == layer_at(s)->number;
}

/* p_j = exp(s_j) / sum exp(s). */
static void check_softmax(const subject *s, identity *i)
{
    for (int64_t k = 0; k < s->n_layer; k++) {
        const layer_parts *l = &s->layer[k];
        if (!is_here(s, l) || !l->scores || !l->scores->data)
            continue;
        if (l->scores->attention.sink)
            i->why_not = "A sink takes a share of every row.";
        else
            compare_softmax(l->scores, l->probs, i);
    }
}

/* The sum of a head's values by their shares, keys in the opposite order: [d_value]. */
static void pool_backwards(const layer_parts *l, int64_t row, int64_t head, double *y)
{
    const int64_t E = l->d_value, group = head * l->n_head_kv / l->n_head;
    const float *p = seen_row(l->probs, row * l->n_head + head);
    memset(y, 0, (size_t)E * sizeof *y);
    for (int64_t j = l->probs->cols; j-- > 0;)
        for (int64_t c = 0; c < E; c++)
            y[c] += (double)p[j] * (double)seen_row(l->v, j)[group * E + c];
}

static void compare_order(const layer_parts *l, identity *i)
{
    double y[MAX_HEAD], largest = 1e-30;
    if (!l->pooled || !l->v || !l->v->data || l->v->rows != l->probs->cols)
        return;
    for (int64_t k = 0; k < l->v->rows * l->v->cols; k++)
        largest = larger(largest, fabs((double)l->v->data[k]));
    for (int64_t row = 0; row < l->pooled->rows; row++)
        for (int64_t head = 0; head < l->n_head; head++) {
            pool_backwards(l, row, head, y);
            for (int64_t c = 0; c < l->d_value; c++)
                note(i, (y[c] - (double)seen_row(l->pooled, row)[head * l->d_value + c]) / largest);
        }
}

/* A sum has no order, so attention does not know that of its keys. */
static void check_order(const subject *s, identity *i)
{
    for (int64_t k = 0; k < s->n_layer; k++)
        if (is_here(s, &s->layer[k]))
            compare_order(&s->layer[k], i);
}

/* ---- rotary positions ------------------------------------------------------------------------ */

/* What rope made of a tensor, and how its heads lie. */
typedef struct turned {
    const seen *before, *after;
    int64_t d_head, skip, n_head;
} turned;

static bool turned_of(const subject *s, const seen *t, turned *to)
{
    const rope_spec *spec = &s->model->rope;
    if (!t->data || strcmp(t->op->name, "rope") != 0)
        return false;
    *to = (turned){ .before = record_find(s->seen, t->input[0]),
                    .after = t,
                    .d_head = spec->d_head,
                    .skip = spec->skip };
    if (record_in(s->seen, t->layer, "latent.join")) { /* one key for all heads, without content */
        to->d_head = t->cols == spec->n_rot ? spec->n_rot : t->cols / s->model->n_head;
        to->skip = to->d_head - spec->n_rot;
    }
    to->n_head = t->cols / to->d_head;
    return to->before && to->before->data;
}

static double length_of(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += (double)x[k] * (double)x[k];
    return sqrt(sum);
}

/* Layers with a window may rotate at frequencies of their own, which are not scaled. */
static double length_factor(const subject *s, int64_t layer, double scaled)
{
    const seen *scores = s->layer[layer].scores;
    const bool own = s->model->arch->local_rope && scores && scores->attention.window > 0;
    return own ? 1 : scaled;
}

/* Rotation changes no length; scaling by YaRN multiplies it by a constant. */
static void check_lengths(const subject *s, identity *i)
{
    const rope_spec *spec = &s->model->rope;
    double freq[MAX_HEAD / 2];
    turned t;
    if (spec->n_rot == 0 || spec->warmth != 0) {
        i->why_not = spec->n_rot ? "Lengths grow with the position." : "No rotary positions.";
        return;
    }
    const double scaled = rope_frequencies(spec, freq);
    for (int64_t k = 0; k < s->seen->n; k++) {
        if (!turned_of(s, &s->seen->at[k], &t))
            continue;
        const double by = length_factor(s, t.after->layer, scaled);
        for (int64_t row = 0; row < t.after->rows; row++)
            for (int64_t h = 0; h < t.n_head; h++) {
                const int64_t at = h * t.d_head + t.skip;
                const double was = length_of(seen_row(t.before, row) + at, spec->n_rot);
                const double is = length_of(seen_row(t.after, row) + at, spec->n_rot);
                note(i, (is / by - was) / fmax(was, 1e-30));
            }
    }
}

/* Pair k of a head's rotated columns. */
static void pair_of(const rope_spec *spec, int64_t k, int64_t *a, int64_t *b)
{
    const bool halves = spec->pairing == ROPE_HALVES;
    *a = halves ? k : 2 * k;
    *b = halves ? k + spec->n_rot / 2 : 2 * k + 1;
}

/* Rotations of all pairs over one distance. */
typedef struct rotation {
    const rope_spec *spec;
    double cosine[MAX_HEAD / 2], sine[MAX_HEAD / 2];
} rotation;

/* The product of q, rotated, with k, which is not. */
static double product_at(const rotation *r, const float *q, const float *k)
{
    double sum = 0;
    for (int64_t p = 0; p < r->spec->n_rot / 2; p++) {
        int64_t a, b;
        pair_of(r->spec, p, &a, &b);
        sum += ((double)q[a] * r->cosine[p] - (double)q[b] * r->sine[p]) * (double)k[a] +
               ((double)q[a] * r->sine[p] + (double)q[b] * r->cosine[p]) * (double)k[b];
    }
    return sum;
}

static double product(const float *x, const float *y, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += (double)x[k] * (double)y[k];
    return sum;
}

/* The first two tensors of a layer that were turned are q and k. */
static bool find_pair(const subject *s, turned *q, turned *k)
{
    int n = 0;
    for (int64_t i = 0; i < s->seen->n && n < 2; i++)
        if (s->seen->at[i].layer == s->at_layer)
            n += turned_of(s, &s->seen->at[i], n == 0 ? q : k);
    return n == 2;
}

static double compare_products(const rotation *r, const turned *q, const turned *k, int64_t m,
                               int64_t n, int64_t h, double by)
{
    const int64_t from = h * q->d_head + q->skip, width = r->spec->n_rot;
    const int64_t to = h * k->n_head / q->n_head * k->d_head + k->skip;
    const float *a = seen_row(q->before, m) + from, *b = seen_row(k->before, n) + to;
    const double is = product(seen_row(q->after, m) + from, seen_row(k->after, n) + to, width);
    return (is / (by * by) - product_at(r, a, b)) /
           fmax(length_of(a, width) * length_of(b, width), 1e-30);
}

/* <R_m q, R_n k> = <R_(m - n) q, k>, for every query and every key before it. */
static void check_distance(const subject *s, identity *i)
{
    const rope_spec *spec = &s->model->rope;
    double freq[MAX_HEAD / 2];
    turned q, k;
    if (spec->n_rot == 0 || spec->warmth != 0 || s->model->arch->local_rope ||
        !find_pair(s, &q, &k)) {
        i->why_not = spec->n_rot ? "Layers rotate in several ways." : "No rotary positions.";
        return;
    }
    const double by = rope_frequencies(spec, freq);
    rotation r = { .spec = spec };
    for (int64_t far = 0; far < q.after->rows; far++) {
        for (int64_t p = 0; p < spec->n_rot / 2; p++) {
            r.cosine[p] = cos((double)far * freq[p]);
            r.sine[p] = sin((double)far * freq[p]);
        }
        for (int64_t m = far; m < q.after->rows; m++)
            for (int64_t h = 0; h < q.n_head; h++)
                note(i, compare_products(&r, &q, &k, m, m - far, h, by));
    }
}

/* ---- latent attention ------------------------------------------------------------------------ */

/* Scores by latents are those by the keys that were made of them. */
static void check_absorbed(const subject *s, identity *i)
{
    const layer_parts *l = layer_at(s);
    const seen *k = record_in(s->seen, s->at_layer, "attn_k.join");
    const seen *q = record_in(s->seen, s->at_layer, "attn_q_b.rope");
    q = q ? q : record_in(s->seen, s->at_layer, "attn_q.rope");
    q = q ? q : record_in(s->seen, s->at_layer, "attn_q");
    if (!k || !q || !k->data || !q->data || k->cols != q->cols) {
        i->why_not = "No latent attention.";
        return;
    }
    const int64_t H = l->n_head, E = k->cols / H;
    for (int64_t m = 0; m < q->rows; m++)
        for (int64_t n = 0; n <= m; n++)
            for (int64_t h = 0; h < H; h++) {
                const float *a = seen_row(q, m) + h * E, *b = seen_row(k, n) + h * E;
                const double naive = (double)l->scores->attention.scale * product(a, b, E);
                const double size = (double)l->scores->attention.scale * length_of(a, E) *
                                    length_of(b, E);
                note(i, (naive - (double)seen_row(l->scores, m * H + h)[n]) / fmax(size, 1e-30));
            }
}

/* ---- recurrent encoder and decoder ------------------------------------------------------------ */

/* What Bahdanau's decoder made of each step; false: the model is another one. */
typedef struct aligned {
    const seen *memory, *states, *gates, *context, *scores, *probs;
} aligned;

static bool find_aligned(const subject *s, aligned *a, identity *i)
{
    const int64_t l = s->model->n_layer_src;
    *a = (aligned){ .memory = record_in(s->seen, 0, "gru"),
                    .states = record_in(s->seen, l, "gru_attend"),
                    .gates = record_in(s->seen, l, "gru.gates"),
                    .context = record_in(s->seen, l, "gru.context"),
                    .scores = record_in(s->seen, l, "cross_attention.scores"),
                    .probs = record_in(s->seen, l, "cross_attention.probs") };
    const bool found = a->memory && a->states && a->gates && a->context && a->scores && a->probs;
    if (!found)
        i->why_not = "No additive attention.";
    return found && a->memory->data && a->states->data;
}

static void check_alignment(const subject *s, identity *i)
{
    aligned a;
    if (!find_aligned(s, &a, i))
        return;
    compare_softmax(a.scores, a.probs, i);
    for (int64_t t = 0; t < a.probs->rows; t++) {
        double sum = 0;
        for (int64_t j = 0; j < a.probs->cols; j++)
            sum += (double)seen_row(a.probs, t)[j];
        note(i, sum - 1);
    }
}

/* c_t = sum_j p_j h_j */
static void check_context(const subject *s, identity *i)
{
    aligned a;
    if (!find_aligned(s, &a, i))
        return;
    for (int64_t t = 0; t < a.context->rows; t++)
        for (int64_t d = 0; d < a.context->cols; d++) {
            double c = 0;
            for (int64_t j = 0; j < a.memory->rows; j++)
                c += (double)seen_row(a.probs, t)[j] * (double)seen_row(a.memory, j)[d];
            note(i, c - (double)seen_row(a.context, t)[d]);
        }
}

/* s_t = (1 - z) n + z s_(t-1); before the first step s is the encoder's last state. */
static void check_state(const subject *s, identity *i)
{
    aligned a;
    if (!find_aligned(s, &a, i))
        return;
    const int64_t D = a.states->cols;
    const float *before = seen_row(a.memory, a.memory->rows - 1);
    for (int64_t t = 0; t < a.states->rows; t++) {
        const float *z = seen_row(a.gates, t) + D, *n = z + D, *now = seen_row(a.states, t);
        for (int64_t d = 0; d < D; d++) {
            const double stays = (double)z[d] * (double)before[d];
            note(i, (1 - (double)z[d]) * (double)n[d] + stays - (double)now[d]);
        }
        before = now;
    }
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* The rows of a picture are learned ones, then the patches' projections. */
static void check_patches(const subject *s, identity *i)
{
    const seen *p = record_find(s->seen, "patch_embd"), *x = record_find(s->seen, "class_embd");
    const seen *second = record_find(s->seen, "distill_embd");
    const tensor *w = weight_named(s->model, x ? x->input[1] : "");
    real first[MAX_HEAD];
    if (!p || !x || !w || !p->data) {
        i->why_not = "No picture.";
        return;
    }
    x = second ? second : x;
    for (int64_t row = s->model->image.n_lead; row < x->rows; row++)
        for (int64_t c = 0; c < x->cols; c++)
            note(i, (double)seen_row(x, row)[c] - (double)seen_row(p, row)[c]);
    if (cols(w) > MAX_HEAD)
        return;
    weight_row(w, 0, first);
    for (int64_t c = 0; c < x->cols; c++)
        note(i, (double)seen_row(x, 0)[c] - (double)(float)first[c]);
}

/* ---- the stream, and the output -------------------------------------------------------------- */

static void check_sums(const subject *s, identity *i)
{
    for (int64_t k = 0; k < s->seen->n; k++) {
        const seen *t = &s->seen->at[k];
        const bool sum = strcmp(t->op->name, "residual") == 0 && t->data;
        const seen *h = sum ? record_find(s->seen, t->input[0]) : NULL;
        const seen *x = sum ? record_find(s->seen, t->input[1]) : NULL;
        if (!h || !x || !h->data || !x->data)
            continue;
        for (int64_t c = 0; c < t->rows * t->cols; c++) {
            const float want = h->data[c] + x->data[c];
            note(i, (double)want - (double)t->data[c]);
        }
    }
}

static void compare_logits(const subject *s, identity *i, const float *other)
{
    for (int64_t k = 0; k < s->model->n_out; k++)
        note(i, memcmp(&s->logits[k], &other[k], sizeof *other) == 0
                    ? 0
                    : fmax(fabs((double)s->logits[k] - (double)other[k]), 1e-30));
}

static void check_lens(const subject *s, identity *i)
{
    if (s->logits && s->lens)
        compare_logits(s, i, s->lens + (s->model->n_layer - 1) * s->model->n_out);
    else
        i->why_not = "The output is not one row of logits.";
}

static void check_cache(const subject *s, identity *i)
{
    if (s->logits && s->cached)
        compare_logits(s, i, s->cached);
    else
        i->why_not = s->logits ? "One token needs no cache." : "No cache: every token sees all.";
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *says;
    double tolerance;
    void (*check)(const subject *s, identity *i);
} checks[] = {
    { "rows", "every row of probabilities sums to 1, in every head of each layer of the page",
      ROUNDING, check_rows },
    { "softmax", "probabilities are exp(score) over the sum of exp(scores)", ROUNDING,
      check_softmax },
    { "order", "attention is a sum: keys and values in the opposite order give the same", ROUNDING,
      check_order },
    { "lengths", "rotary positions keep the length of every query and key", ROUNDING,
      check_lengths },
    { "distance", "a rotated query times a rotated key depends on m - n only", ROUNDING,
      check_distance },
    { "absorbed", "scores by latents are the scores by keys", 1e-4, check_absorbed },
    { "alignment", "every row of the alignment sums to 1, and is the softmax of its scores",
      ROUNDING, check_alignment },
    { "context", "the context is the sum of the encoder's states by the alignment", ROUNDING,
      check_context },
    { "state", "the state is (1 - z) n + z times the state before it", ROUNDING, check_state },
    { "patches", "the rows of a picture are the learned row and the projections of its patches", 0,
      check_patches },
    { "sums", "the stream after a branch is the stream before it plus the branch", 0, check_sums },
    { "lens", "the lens of the last layer is the output", 0, check_lens },
    { "cache", "the last token, computed with cached keys, has the same logits", 0, check_cache },
};

int checks_run(const subject *s, identity *to)
{
    const int n = sizeof checks / sizeof *checks;
    for (int k = 0; k < n; k++) {
        to[k] = (identity){ .name = checks[k].name,
                            .says = checks[k].says,
                            .tolerance = checks[k].tolerance };
        checks[k].check(s, &to[k]);
        if (!to[k].why_not && to[k].n == 0)
            to[k].why_not = "The layer has none.";
        to[k].holds = to[k].why_not || to[k].error <= to[k].tolerance;
    }
    return n;
}
