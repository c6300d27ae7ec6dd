/* What a step of training was made of, weight by weight: the gradients' norm is the one reported,
 * and moments and weights follow from them by AdamW's formula. */
#include "support.h"
#include "weft.h"

#include <math.h>

enum { N_STEP = 4, MAX_TENSOR = 64 };

/* The state of a weight after the last step. */
typedef struct held {
    char name[96];
    int64_t n;
    double *weight, *m, *v;
} held;

typedef struct observed {
    held at[MAX_TENSOR];
    int n_tensor;
    int64_t step;   /* of the tensors seen last */
    double squares; /* of its gradients */
    int n_compared, n_frozen, n_clipped, n_step;
    const weft_train_options *o;
} observed;

static held *held_of(observed *s, const weft_train_tensor *t)
{
    for (int i = 0; i < s->n_tensor; i++)
        if (strcmp(s->at[i].name, t->name) == 0)
            return &s->at[i];
    assert_true(s->n_tensor < MAX_TENSOR);
    held *h = &s->at[s->n_tensor++];
    snprintf(h->name, sizeof h->name, "%s", t->name);
    h->n = t->n;
    h->weight = calloc((size_t)t->n, sizeof *h->weight);
    h->m = calloc((size_t)t->n, sizeof *h->m);
    h->v = calloc((size_t)t->n, sizeof *h->v);
    return h;
}

static bool near(double a, double b, double scale)
{
    return fabs(a - b) <= 2e-6 * scale + 1e-12;
}

/* lr is that of the schedule, which is constant here after no warm-up. */
static void see_tensor(void *ud, const weft_train_tensor *t)
{
    observed *s = ud;
    const weft_train_options *o = s->o;
    if (t->step != s->step) {
        s->step = t->step;
        s->squares = 0;
        s->n_step++;
    }
    int64_t n = 1;
    for (int d = 0; d < t->n_dim; d++)
        n *= t->shape[d];
    assert_int_equal(n, t->n);
    held *h = held_of(s, t);
    if (!t->grad) {
        assert_null(t->m);
        assert_null(t->v);
        s->n_frozen++;
        return;
    }
    s->n_clipped += t->clip < 1;
    const double steps = (double)t->step, decay = t->n_dim > 1 ? o->weight_decay : 0;
    for (int64_t k = 0; k < t->n; k++) {
        const double g = (double)t->grad[k] * t->clip;
        const double m = o->beta1 * h->m[k] + (1 - o->beta1) * g;
        const double v = o->beta2 * h->v[k] + (1 - o->beta2) * g * g;
        assert_true(near((double)t->m[k], m, fabs(m) + fabs(g)));
        assert_true(near((double)t->v[k], v, v));
        const double change = o->lr * (m / (1 - pow(o->beta1, steps))) /
                              (sqrt(v / (1 - pow(o->beta2, steps))) + o->eps);
        const double w = h->weight[k] * (1 - o->lr * decay) - change;
        if (t->step > 1)
            assert_true(near((double)t->weight[k], w, fabs(w) + 10 * o->lr));
        s->squares += (double)t->grad[k] * (double)t->grad[k];
        s->n_compared++;
        h->weight[k] = (double)t->weight[k];
        h->m[k] = (double)t->m[k];
        h->v[k] = (double)t->v[k];
    }
}

static bool see_progress(void *ud, const weft_train_progress *p, weft_model *m)
{
    observed *s = ud;
    (void)m;
    if (isnan(p->lr))
        return true;
    assert_int_equal(p->step, s->step);
    assert_true(near(sqrt(s->squares), p->grad_norm, 100 * p->grad_norm));
    return true;
}

/* A new model, so that its first moments are 0. */
static void learn(const char *frozen, double clip, observed *s)
{
    weft_error err = { 0 };
    weft_train_options o;
    char words[4096];
    for (size_t i = 0; i < sizeof words; i++)
        words[i] = (char)('a' + (i * i + i / 7) % 11);
    const char *text = temp_file("words.txt", words, sizeof words);
    weft_train_defaults(&o, sizeof o);
    o.out = temp_path(frozen ? "frozen" : clip > 0 ? "clipped" : "whole");
    o.data = &text;
    o.n_data = 1;
    o.characters = true;
    o.n_layer = 2;
    o.d_model = 32;
    o.n_head = 2;
    o.n_ctx = 16;
    o.n_sample = 2;
    o.n_step = N_STEP;
    o.n_warmup = 0;
    o.schedule = WEFT_SCHEDULE_CONSTANT;
    o.lr = 1e-3;
    o.weight_decay = 0.1;
    o.clip = clip;
    o.threads = 1;
    o.frozen = &frozen;
    o.n_frozen = frozen != NULL;
    o.progress = see_progress;
    o.progress_ud = s;
    o.tensor = see_tensor;
    o.tensor_ud = s;
    *s = (observed){ .o = &o };
    if (weft_train(&o, NULL, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    for (int i = 0; i < s->n_tensor; i++) {
        free(s->at[i].weight);
        free(s->at[i].m);
        free(s->at[i].v);
    }
    assert_int_equal(s->n_step, N_STEP);
    assert_true(s->n_compared > 1000);
}

static void steps_add_up(void **state)
{
    (void)state;
    static observed s;
    learn(NULL, 0, &s);
    assert_int_equal(s.n_clipped, 0);
    assert_int_equal(s.n_frozen, 0);
}

static void clipping_is_shown(void **state)
{
    (void)state;
    static observed s;
    learn(NULL, 1e-2, &s);
    assert_true(s.n_clipped > 0);
}

static void frozen_weights_have_none(void **state)
{
    (void)state;
    static observed s;
    learn("blk.0.*", 0, &s);
    assert_true(s.n_frozen > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("train: weights and moments follow from the gradients shown", steps_add_up),
        TEST("train: the factor of clipping is shown", clipping_is_shown),
        TEST("train: frozen weights have no gradients", frozen_weights_have_none),
    };
    return RUN(tests);
}
