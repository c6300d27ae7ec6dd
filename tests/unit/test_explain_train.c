/* Views 21 to 23: every number is that of a run of weft_train with the same text, or of the tape, bit by
 * bit; what attention has on its way is derived again in double precision. */
#include "explain_json.h"
#include "models/arch.h"
#include "ops/attention_tile.h"
#include "ops/cross_entropy.h"
#include "tensor/tape.h"
#include "train/learner.h"

#include <math.h>

enum { N = 9, STEPS = 3, MAX_WEIGHT = 96 };

static const int32_t text_ids[N] = { 1, 5, 7, 2, 9, 4, 3, 5, 7 };

/* ---- the page's JSON ------------------------------------------------------------------------- */

static const weft_explain_options plain = {
    .struct_size = sizeof plain, .token = -1, .json = true, .train = STEPS, .threads = 2
};

static json_t *lesson_of(weft_model *m, const int32_t *ids, int64_t n, weft_explain_options o)
{
    o.only = "objective,backward,update";
    return explain_json(m, ids, n, &o);
}

static const json_t *view_at(const json_t *root, int i)
{
    return json_array_get(json_object_get(root, "views"), (size_t)i);
}

static const json_t *objective(const json_t *root)
{
    return view_at(root, 0);
}

static const json_t *backward(const json_t *root)
{
    return view_at(root, 1);
}

static const json_t *update(const json_t *root)
{
    return view_at(root, 2);
}

static double real_of(const json_t *o, const char *key)
{
    const json_t *x = json_object_get(o, key);
    assert_that(json_is_number(x), "no number %s", key);
    return json_number_value(x);
}

static bool same_float(double got, float want)
{
    const float x = (float)got;
    return memcmp(&x, &want, sizeof x) == 0 && (double)x == got;
}

static bool same_double(double got, double want)
{
    return memcmp(&got, &want, sizeof got) == 0;
}

/* ---- the update is a run's ------------------------------------------------------------------- */

/* What a run shows of its weights; a page follows one number of each. */
typedef struct followed {
    char name[96];
    int64_t n;
    float *grad[STEPS], *m[STEPS], *v[STEPS], *weight[STEPS];
    double clip[STEPS];
} followed;

typedef struct observed_run {
    followed at[MAX_WEIGHT];
    int n;
    double loss[STEPS], norm[STEPS], lr[STEPS];
} observed_run;

static float *copy_of(const float *x, int64_t n)
{
    float *copy = malloc((size_t)n * sizeof *copy);
    memcpy(copy, x, (size_t)n * sizeof *copy);
    return copy;
}

static void see_tensor(void *ud, const weft_train_tensor *t)
{
    observed_run *s = ud;
    int i = 0;
    while (i < s->n && strcmp(s->at[i].name, t->name) != 0)
        i++;
    assert_true(i < MAX_WEIGHT && t->step <= STEPS);
    followed *f = &s->at[i];
    const int64_t k = t->step - 1;
    s->n = i < s->n ? s->n : i + 1;
    snprintf(f->name, sizeof f->name, "%s", t->name);
    f->n = t->n;
    f->grad[k] = copy_of(t->grad, t->n);
    f->m[k] = copy_of(t->m, t->n);
    f->v[k] = copy_of(t->v, t->n);
    f->weight[k] = copy_of(t->weight, t->n);
    f->clip[k] = t->clip;
}

static bool see_progress(void *ud, const weft_train_progress *p, weft_model *m)
{
    observed_run *s = ud;
    (void)m;
    if (p->step > 0) {
        s->loss[p->step - 1] = p->loss;
        s->norm[p->step - 1] = p->grad_norm;
        s->lr[p->step - 1] = p->lr;
    }
    return p->step < STEPS;
}

static void forget(observed_run *s)
{
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < STEPS; k++) {
            free(s->at[i].grad[k]);
            free(s->at[i].m[k]);
            free(s->at[i].v[k]);
            free(s->at[i].weight[k]);
        }
    s->n = 0;
}

/* The first steps of a run on these ids alone, with the defaults. */
static void train_on(const char *path, const int32_t *ids, int n, int n_row, observed_run *s)
{
    weft_error err = { 0 };
    weft_train_options o;
    uint16_t raw[64];
    char out[4096];
    for (int i = 0; i < n; i++)
        raw[i] = (uint16_t)ids[i];
    const char *data = temp_file("ids.bin", raw, (size_t)n * sizeof *raw);
    weft_train_defaults(&o, sizeof o);
    o.model = path;
    snprintf(out, sizeof out, "%s", temp_path(path[strlen(path) - 1] == 't' ? "run-bert" : "run"));
    o.out = out;
    o.data = &data;
    o.n_data = 1;
    o.data_kind = WEFT_DATA_RAW16;
    o.validation = 0;
    o.n_ctx = n_row;
    o.n_sample = 1;
    o.threads = 1;
    o.progress = see_progress;
    o.tensor = see_tensor;
    o.progress_ud = o.tensor_ud = s;
    if (weft_train(&o, NULL, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static void compare_weight(const json_t *w, const observed_run *s, int n_step)
{
    const char *name = json_string_value(json_object_get(w, "name"));
    const json_t *steps = json_object_get(w, "steps");
    const int64_t at = json_integer_value(json_object_get(w, "at"));
    int i = 0;
    while (i < s->n && strcmp(s->at[i].name, name) != 0)
        i++;
    assert_that(i < s->n, "a run has no %s", name);
    const followed *f = &s->at[i];
    for (int64_t k = 0; k < f->n; k++)
        assert_true(fabsf(f->grad[0][k]) <= fabsf(f->grad[0][at]));
    for (int k = 0; k < n_step; k++) {
        const json_t *x = json_array_get(steps, (size_t)k);
        assert_that(same_float(real_of(x, "grad"), f->grad[k][at]) &&
                        same_float(real_of(x, "m"), f->m[k][at]) &&
                        same_float(real_of(x, "v"), f->v[k][at]) &&
                        same_float(real_of(x, "weight"), f->weight[k][at]),
                    "%s, step %d: not a run's", name, k + 1);
    }
}

/* By the formulas of adamw.h from one step to the next, in double. */
static void compare_formula(const json_t *u, const json_t *w)
{
    const double b1 = real_of(u, "beta1"), b2 = real_of(u, "beta2"), eps = real_of(u, "eps");
    const bool decays = json_is_true(json_object_get(w, "decays"));
    double m = 0, v = 0, x0 = real_of(w, "weight");
    size_t i;
    const json_t *x;
    json_array_foreach(json_object_get(w, "steps"), i, x)
    {
        const json_t *s = json_array_get(json_object_get(u, "steps"), i);
        const double t = (double)i + 1, lr = real_of(s, "lr");
        const double g = real_of(x, "grad") * real_of(s, "clip");
        m = b1 * m + (1 - b1) * g;
        v = b2 * v + (1 - b2) * g * g;
        x0 = x0 * (1 - (decays ? lr * real_of(u, "decay") : 0)) -
             lr * (m / (1 - pow(b1, t))) / (sqrt(v / (1 - pow(b2, t))) + eps);
        assert_true(fabs(real_of(x, "m") - m) <= 1e-5 * fabs(m) + 1e-30);
        assert_true(fabs(real_of(x, "v") - v) <= 1e-5 * v + 1e-30);
        assert_true(fabs(real_of(x, "weight") - x0) <= 1e-6 * (fabs(x0) + lr));
    }
}

static void compare_run(const json_t *root, const observed_run *s, int n_step)
{
    const json_t *u = update(root), *w;
    size_t i;
    for (int k = 0; k < n_step; k++) {
        const json_t *x = json_array_get(json_object_get(u, "steps"), (size_t)k);
        assert_true(same_double(real_of(x, "loss"), s->loss[k]));
        assert_true(same_double(real_of(x, "norm"), s->norm[k]));
        assert_true(same_double(real_of(x, "lr"), s->lr[k]));
        assert_true(same_double(real_of(x, "clip"), s->at[0].clip[k]));
    }
    assert_int_equal(json_array_size(json_object_get(u, "weights")), s->n);
    json_array_foreach(json_object_get(u, "weights"), i, w)
    {
        compare_weight(w, s, n_step);
        compare_formula(u, w);
    }
}

/* Of each weight the norm of its gradient; all squares add up to the square of the run's. */
static void compare_norms(const json_t *root, const observed_run *s)
{
    const json_t *w;
    double all = 0;
    size_t i;
    json_array_foreach(json_object_get(backward(root), "weights"), i, w)
    {
        double squares = 0;
        for (int64_t k = 0; k < s->at[i].n; k++)
            squares += (double)s->at[i].grad[0][k] * (double)s->at[i].grad[0][k];
        assert_string_equal(json_string_value(json_object_get(w, "name")), s->at[i].name);
        assert_true(same_double(real_of(w, "norm"), sqrt(squares)));
        all += squares;
    }
    assert_true(fabs(sqrt(all) / s->norm[0] - 1) <= 1e-12);
}

static weft_model *open_model(const char *path)
{
    weft_error err = { 0 };
    weft_model *m = weft_model_open(path, NULL, &err);
    if (!m)
        fail_msg("%s", err.message);
    return m;
}

/* The model of this repository with weights that can be trained. */
static const char *shakespeare(void)
{
    weft_error err = { 0 };
    const weft_convert_options o = { .struct_size = sizeof o, .type = "f32" };
    const char *to = temp_path("f32.gguf");
    if (weft_convert(fixture("../models/shakespeare.gguf"), to, &o, NULL, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    return to;
}

static void decoder_learns_as_a_run(void **state)
{
    (void)state;
    static observed_run s;
    char path[4096];
    snprintf(path, sizeof path, "%s", shakespeare());
    weft_model *m = open_model(path);
    size_t n_before = 0, n_after = 0;
    char *before = read_whole(path, &n_before);
    json_t *root = lesson_of(m, text_ids, N, plain);
    train_on(path, text_ids, N, N - 1, &s);
    compare_run(root, &s, STEPS);
    compare_norms(root, &s);
    assert_true(real_of(objective(root), "loss_after") < real_of(objective(root), "loss"));
    char *after = read_whole(path, &n_after);
    assert_int_equal(n_before, n_after);
    assert_memory_equal(before, after, n_before);
    free(before);
    free(after);
    json_decref(root);
    forget(&s);
    weft_model_close(m);
    remove(path);
}

/* A small BERT with a tokenizer, in `at`. */
static void make_bert(const char *at)
{
    weft_error err = { 0 };
    weft_train_options o;
    char words[2048];
    for (size_t i = 0; i < sizeof words; i++)
        words[i] = i % 6 == 5 ? ' ' : (char)('a' + (i * i + i / 7) % 11);
    const char *data = temp_file("words.txt", words, sizeof words);
    weft_train_defaults(&o, sizeof o);
    o.arch = "bert";
    o.out = at;
    o.data = &data;
    o.n_data = 1;
    o.n_vocab = 48;
    o.n_layer = 2;
    o.d_model = 32;
    o.n_head = 2;
    o.n_ctx = 32;
    o.n_sample = 2;
    o.n_step = 1;
    o.validation = 0;
    o.threads = 1;
    if (weft_train(&o, NULL, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static weft_tokenizer *tokenizer_of(const char *path)
{
    weft_error err = { 0 };
    weft_tokenizer *t = weft_tokenizer_load(path, NULL, &err);
    if (!t)
        fail_msg("%s", err.message);
    return t;
}

/* A run masks its first sample as the page does. */
static void masks_are_a_runs(void **state)
{
    (void)state;
    static observed_run s;
    char path[4096];
    int32_t ids[24];
    snprintf(path, sizeof path, "%s", temp_path("bert"));
    make_bert(path);
    weft_model *m = open_model(path);
    weft_tokenizer *t = tokenizer_of(path);
    weft_tokenizer_info info = { .struct_size = sizeof info };
    weft_tokenizer_get_info(t, &info);
    for (int i = 0; i < 24; i++)
        ids[i] = info.n_vocab - 1 - i % 8; /* no special ones */
    weft_explain_options o = plain;
    o.tokenizer = t;
    o.train = 1;
    json_t *root = lesson_of(m, ids, 24, o);
    train_on(path, ids, 24, 24, &s);
    compare_run(root, &s, 1);
    size_t i;
    const json_t *row;
    int n_target = 0, n_mask = 0;
    json_array_foreach(json_object_get(objective(root), "rows"), i, row)
    {
        const int64_t target = json_integer_value(json_object_get(row, "target"));
        assert_true(target == -100 || target == ids[i]);
        n_target += target != -100;
        n_mask += json_integer_value(json_object_get(row, "id")) == info.mask_id;
    }
    assert_true(n_target > 0 && n_mask <= n_target);
    assert_int_equal(n_target, json_integer_value(json_object_get(objective(root), "n_target")));
    json_decref(root);
    forget(&s);

    ids[3] = ids[7] = info.mask_id; /* masks in the text have the targets that are given */
    const int32_t wanted[] = { ids[0], ids[1] };
    o.target = wanted;
    o.n_target = 2;
    root = lesson_of(m, ids, 24, o);
    json_array_foreach(json_object_get(objective(root), "rows"), i, row)
        assert_int_equal(json_integer_value(json_object_get(row, "target")), i == 3   ? wanted[0]
                                                                             : i == 7 ? wanted[1]
                                                                                      : -100);
    json_decref(root);
    weft_tokenizer_free(t);
    weft_model_close(m);
}

/* ---- gradients are the tape's ---------------------------------------------------------------- */

enum { MAX_PART = 64 };

/* Gradients of a step as the test's own observer copies them off the tape. */
typedef struct part {
    char name[96];
    int64_t rows, cols;
    float *data;
} part;

typedef struct taped {
    part at[MAX_PART];
    int n;
    float *states, *states_grad, *head_grad, *head; /* of the loss: x, dx, dW and W */
    int64_t n_state, width, n_out;
} taped;

static void copy_part(taped *to, const char *name, const char *end, const real *x,
                      const tensor *like)
{
    part *p = &to->at[to->n++];
    assert_true(to->n < MAX_PART);
    snprintf(p->name, sizeof p->name, "%s%s", name, end);
    p->rows = rows(like);
    p->cols = cols(like);
    p->data = malloc((size_t)(p->rows * p->cols) * sizeof *p->data);
    for (int64_t i = 0; i < p->rows; i++)
        memcpy(p->data + i * p->cols, x + i * like->stride, (size_t)p->cols * sizeof *p->data);
}

static void see_back(void *ud, struct run *r, const node *n)
{
    taped *to = ud;
    (void)r;
    if (n->op == &linear_cross_entropy_op) {
        const tensor *x = n->in[0], *w = n->in[1];
        to->n_state = rows(x);
        to->width = cols(x);
        to->n_out = rows(w);
        to->states = copy_of(x->data, rows(x) * cols(x));
        to->states_grad = copy_of(x->grad, rows(x) * cols(x));
        to->head = copy_of(w->data, rows(w) * cols(w));
        to->head_grad = copy_of(w->grad, rows(w) * cols(w));
    }
    if (strcmp(n->op->name, "attention") != 0)
        return;
    copy_part(to, n->out->name, "", n->out->grad, n->out);
    copy_part(to, n->out->name, ".y", n->out->data, n->out);
    copy_part(to, n->out->name, ".q", n->in[Q]->data, n->in[Q]);
    copy_part(to, n->out->name, ".k", n->in[K]->data, n->in[K]);
    copy_part(to, n->out->name, ".v", n->in[V]->data, n->in[V]);
    copy_part(to, n->out->name, ".dq", n->in[Q]->grad, n->in[Q]);
    copy_part(to, n->out->name, ".dk", n->in[K]->grad, n->in[K]);
    copy_part(to, n->out->name, ".dv", n->in[V]->grad, n->in[V]);
}

/* One backward of the ids, shifted; only the last row has a target if `last_only`. */
static void tape_of(const char *name, bool last_only, bool masked, taped *to)
{
    host h;
    model m;
    learner l;
    batch b;
    weft_error err = { 0 };
    const int n_row = masked ? N : N - 1;
    host_plain(&h);
    assert_int_equal(model_open(&m, fixture(name), WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    assert_int_equal(batch_init(&b, N, 1, &h.mem, &err), WEFT_OK);
    b.n_row = n_row;
    b.n_seq = 1;
    b.seq[0] = (sequence){ .n = n_row, .source = -1 };
    for (int i = 0; i < n_row; i++) {
        const bool wanted = !(last_only || masked) || i == n_row - 1;
        b.row[i] = (batch_row){ .id = text_ids[i],
                                .pos = i,
                                .weight = 1,
                                .wanted = wanted,
                                .target = !wanted  ? NO_TARGET
                                          : masked ? 11
                                                   : text_ids[i + 1] };
        b.n_wanted += wanted;
    }
    const learner_options o = { .n_thread = 1, .adamw = { 0.9, 0.99, 1e-8, 0, 1 } };
    if (learner_init(&l, &m, &o, &b, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    *to = (taped){ 0 };
    l.tape.observer = see_back;
    l.tape.observer_ud = to;
    assert_int_equal(learner_begin(&l, NULL), WEFT_OK);
    learner_backward(&l, &b);
    learner_free(&l);
    batch_free(&b, &h.mem);
    model_close(&m);
    assert_int_equal(h.mem.used, 0);
}

static void drop(taped *t)
{
    for (int i = 0; i < t->n; i++)
        free(t->at[i].data);
    free(t->states);
    free(t->states_grad);
    free(t->head);
    free(t->head_grad);
}

static const part *find(const taped *t, int64_t layer, const char *end)
{
    char name[96];
    snprintf(name, sizeof name, "blk.%lld.attention%s", (long long)layer, end);
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->at[i].name, name) == 0)
            return &t->at[i];
    fail_msg("the tape has no %s", name);
    return NULL;
}

static double cell(const json_t *t, int64_t i, int64_t k)
{
    return json_number_value(
        json_array_get(json_array_get(json_object_get(t, "data"), (size_t)i), (size_t)k));
}

static void compare_part(const json_t *layer, const char *key, const part *p)
{
    const json_t *t = json_object_get(layer, key);
    assert_int_equal(json_array_size(json_object_get(t, "data")), p->rows);
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t k = 0; k < p->cols; k++)
            assert_that(same_float((double)(float)cell(t, i, k), p->data[i * p->cols + k]),
                        "%s: %s [%lld, %lld] is not the tape's", p->name, key, (long long)i,
                        (long long)k);
}

static void near_to(double got, double want, double scale, const char *what)
{
    assert_that(fabs(got - want) <= 2e-5 * scale + 1e-9, "%s: %.9g, expected %.9g", what, got,
                want);
}

/* What derive_attention adds up over all queries. */
typedef struct derived {
    double *dk, *dv;
} derived;

typedef struct shape {
    int64_t n_head, n_head_kv, width;
    bool causal;
    double scale;
} shape;

/* One query of a head in double: p, dP and dS are the page's, dq is the tape's. */
static void derive_query(const json_t *l, const taped *t, int64_t layer, shape a, int64_t i,
                         int64_t h, derived *to)
{
    const part *q = find(t, layer, ".q"), *k = find(t, layer, ".k"), *v = find(t, layer, ".v"),
               *dy = find(t, layer, ""), *dq = find(t, layer, ".dq");
    const int64_t g = h * a.n_head_kv / a.n_head, seen = a.causal ? i + 1 : q->rows, E = a.width;
    const float *q_i = q->data + i * q->cols + h * E, *dy_i = dy->data + i * dy->cols + h * E;
    double p[N], dp[N], all = 0, delta = 0;
    for (int64_t j = 0; j < seen; j++) {
        const float *k_j = k->data + j * k->cols + g * E, *v_j = v->data + j * v->cols + g * E;
        p[j] = dp[j] = 0;
        for (int64_t e = 0; e < E; e++) {
            p[j] += (double)q_i[e] * (double)k_j[e] * a.scale;
            dp[j] += (double)dy_i[e] * (double)v_j[e];
        }
        p[j] = exp(p[j]);
        all += p[j];
    }
    for (int64_t j = 0; j < seen; j++) {
        p[j] /= all;
        delta += p[j] * dp[j];
    }
    double dq_i[64] = { 0 };
    for (int64_t j = 0; j < seen; j++) {
        const double ds = p[j] * (dp[j] - delta);
        const int64_t row = i * a.n_head + h;
        near_to(cell(json_object_get(l, "p"), row, j), p[j], 1, "p");
        near_to(cell(json_object_get(l, "dp"), row, j), dp[j], 1, "dP");
        near_to(cell(json_object_get(l, "ds"), row, j), ds, fabs(dp[j]) + fabs(delta), "dS");
        for (int64_t e = 0; e < E; e++) {
            dq_i[e] += a.scale * ds * (double)k->data[j * k->cols + g * E + e];
            to->dk[j * k->cols + g * E + e] += a.scale * ds * (double)q_i[e];
            to->dv[j * v->cols + g * E + e] += p[j] * (double)dy_i[e];
        }
    }
    for (int64_t e = 0; e < E; e++)
        near_to((double)dq->data[i * dq->cols + h * E + e], dq_i[e], 1, "dQ");
}

static void derive_attention(const json_t *l, const taped *t)
{
    const int64_t layer = json_integer_value(json_object_get(l, "layer"));
    const shape a = { json_integer_value(json_object_get(l, "n_head")),
                      json_integer_value(json_object_get(l, "n_head_kv")),
                      json_integer_value(json_object_get(l, "d_key")),
                      json_is_true(json_object_get(l, "causal")), real_of(l, "scale") };
    const part *dk = find(t, layer, ".dk"), *dv = find(t, layer, ".dv");
    derived sums = { calloc((size_t)(dk->rows * dk->cols), sizeof(double)),
                     calloc((size_t)(dv->rows * dv->cols), sizeof(double)) };
    for (int64_t i = 0; i < dk->rows; i++)
        for (int64_t h = 0; h < a.n_head; h++)
            derive_query(l, t, layer, a, i, h, &sums);
    for (int64_t i = 0; i < dk->rows * dk->cols; i++)
        near_to((double)dk->data[i], sums.dk[i], 1, "dK");
    for (int64_t i = 0; i < dv->rows * dv->cols; i++)
        near_to((double)dv->data[i], sums.dv[i], 1, "dV");
    free(sums.dk);
    free(sums.dv);
}

static void compare_attention(const json_t *root, const taped *t)
{
    static const char *const keys[] = { "q", "k", "v", "dq", "dk", "dv" };
    const json_t *l;
    size_t i;
    assert_true(json_is_true(json_object_get(backward(root), "as_tape")));
    assert_int_equal(json_array_size(json_object_get(backward(root), "layers")), 2);
    json_array_foreach(json_object_get(backward(root), "layers"), i, l)
    {
        for (int k = 0; k < 6; k++) {
            char end[8];
            snprintf(end, sizeof end, ".%s", keys[k]);
            compare_part(l, keys[k], find(t, (int64_t)i, end));
        }
        compare_part(l, "dy", find(t, (int64_t)i, ""));
        derive_attention(l, t);
    }
}

/* p - y of every target in double; they sum to 0, and times W they give the tape's gradient of x. */
static void compare_slopes(const json_t *root, const taped *t)
{
    const json_t *list = json_object_get(backward(root), "slopes"), *one;
    size_t i;
    assert_int_equal(json_array_size(list), t->n_state);
    json_array_foreach(list, i, one)
    {
        const json_t *slope = json_object_get(one, "slope");
        const int64_t target = json_integer_value(json_object_get(one, "target"));
        const float *x = t->states + (int64_t)i * t->width;
        double z[256], all = 0, most = -INFINITY, back[256] = { 0 };
        assert_true(t->n_out <= 256 && t->width <= 256);
        for (int64_t k = 0; k < t->n_out; k++) {
            z[k] = 0;
            for (int64_t c = 0; c < t->width; c++)
                z[k] += (double)x[c] * (double)t->head[k * t->width + c];
            most = fmax(most, z[k]);
        }
        for (int64_t k = 0; k < t->n_out; k++)
            all += exp(z[k] - most);
        for (int64_t k = 0; k < t->n_out; k++) {
            const double got = json_number_value(json_array_get(slope, (size_t)k));
            const double want = (exp(z[k] - most) / all - (k == target)) / (double)t->n_state;
            near_to(got, want, 1, "p - y");
            for (int64_t c = 0; c < t->width; c++)
                back[c] += got * (double)t->head[k * t->width + c];
        }
        for (int64_t c = 0; c < t->width; c++)
            near_to((double)t->states_grad[(int64_t)i * t->width + c], back[c], 1, "dx");
    }
}

/* Of one target, dW is (p - y) xT: each number a product of two, rounded once. */
static void compare_head(const json_t *root, const taped *t)
{
    const json_t *slope = json_object_get(
        json_array_get(json_object_get(backward(root), "slopes"), 0), "slope");
    assert_int_equal(t->n_state, 1);
    for (int64_t k = 0; k < t->n_out; k++) {
        const float dz = (float)json_number_value(json_array_get(slope, (size_t)k));
        for (int64_t c = 0; c < t->width; c++) {
            const float want = dz * t->states[c];
            assert_memory_equal(&want, &t->head_grad[k * t->width + c], sizeof want);
        }
    }
}

static const char *const decoders[] = { "golden/llama-gqa", "golden/gpt2" };

static void gradients_are_the_tapes(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        taped t;
        weft_model *m = open_model(fixture(decoders[i]));
        json_t *root = lesson_of(m, text_ids, N, plain);
        tape_of(decoders[i], false, false, &t);
        compare_attention(root, &t);
        compare_slopes(root, &t);
        json_decref(root);
        drop(&t);
        weft_model_close(m);
    }
}

static void one_target_is_the_heads_gradient(void **state)
{
    (void)state;
    taped t;
    weft_explain_options o = plain;
    weft_model *m = open_model(fixture("golden/llama-gqa"));
    o.target = &text_ids[N - 1];
    o.n_target = 1;
    json_t *root = lesson_of(m, text_ids, N - 1, o);
    tape_of("golden/llama-gqa", true, false, &t);
    compare_attention(root, &t);
    compare_slopes(root, &t);
    compare_head(root, &t);
    json_decref(root);
    drop(&t);
    weft_model_close(m);
}

static void masked_model_is_the_tapes(void **state)
{
    (void)state;
    taped t;
    const int32_t target = 11;
    weft_explain_options o = plain;
    weft_model *m = open_model(fixture("golden/bert-fill"));
    o.target = &target;
    o.n_target = 1;
    json_t *root = lesson_of(m, text_ids, N, o);
    tape_of("golden/bert-fill", false, true, &t);
    compare_attention(root, &t);
    json_decref(root);
    drop(&t);
    weft_model_close(m);
}

/* ---- what rows predict ----------------------------------------------------------------- */

static void expect_rows(const json_t *root, const int32_t *ids, const int32_t *targets, int n)
{
    const json_t *rows_of = json_object_get(objective(root), "rows"), *row;
    double sum = 0;
    int n_target = 0;
    size_t i;
    assert_int_equal(json_array_size(rows_of), n);
    json_array_foreach(rows_of, i, row)
    {
        assert_int_equal(json_integer_value(json_object_get(row, "id")), ids[i]);
        assert_int_equal(json_integer_value(json_object_get(row, "target")), targets[i]);
        if (targets[i] == -100)
            continue;
        sum += real_of(row, "loss");
        n_target++;
    }
    assert_true(fabs(sum / n_target / real_of(objective(root), "loss") - 1) <= 1e-6);
}

static void targets_are_shifted(void **state)
{
    (void)state;
    weft_model *m = open_model(fixture("golden/llama-gqa"));
    weft_explain_options o = plain;
    static const int32_t more[] = { 8, 6 };
    json_t *root = lesson_of(m, text_ids, 4, o);
    expect_rows(root, text_ids, (int32_t[]){ 5, 7, 2 }, 3);
    json_decref(root);
    o.target = more;
    o.n_target = 1;
    root = lesson_of(m, text_ids, 4, o);
    expect_rows(root, text_ids, (int32_t[]){ -100, -100, -100, 8 }, 4);
    json_decref(root);
    o.n_target = 2;
    root = lesson_of(m, text_ids, 4, o);
    expect_rows(root, (int32_t[]){ 1, 5, 7, 2, 8 }, (int32_t[]){ -100, -100, -100, 8, 6 }, 5);
    json_decref(root);
    weft_model_close(m);
    m = open_model(fixture("golden/bert-fill"));
    o.n_target = 1;
    o.token = 2;
    root = lesson_of(m, text_ids, 4, o);
    expect_rows(root, text_ids, (int32_t[]){ -100, -100, 8, -100 }, 4);
    json_decref(root);
    weft_model_close(m);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static bool ignore_page(void *ud, const char *bytes, size_t n, weft_error *err)
{
    (void)ud, (void)bytes, (void)n, (void)err;
    return true;
}

static void refuse(weft_model *m, int64_t n, weft_explain_options o, weft_status status,
                   const char *says)
{
    weft_error err = { 0 };
    assert_int_equal((int)weft_explain(m, text_ids, n, &o, ignore_page, NULL, &err), (int)status);
    assert_that(strstr(err.message, says), "\"%s\" does not say \"%s\"", err.message, says);
}

static void refusals_say_why(void **state)
{
    (void)state;
    weft_explain_options o = plain;
    const int32_t bad = 1 << 20;
    weft_model *m = open_model(fixture("../models/shakespeare.gguf"));
    refuse(m, N, o, WEFT_EUNSUPPORTED, "expected f32, f16 or bf16 weights to train; convert");
    weft_model_close(m);
    m = open_model(fixture("golden/bert-classify"));
    refuse(m, N, o, WEFT_EUNSUPPORTED, "expected a decoder or a masked language model");
    weft_model_close(m);
    m = open_model(fixture("golden/gpt2"));
    refuse(m, 1, o, WEFT_EINVAL, "1 token and no target");
    o.train = WEFT_EXPLAIN_STEPS + 1;
    refuse(m, N, o, WEFT_EINVAL, "expected 0 to 8");
    o = plain;
    o.target = &bad;
    o.n_target = 1;
    refuse(m, N, o, WEFT_EINVAL, "target 0 is 1048576");
    weft_model_close(m);
}

/* Under every cap there is a page, or an error that says what memory was for; never more than the cap, and
 * nothing is left. */
static void memory_has_a_cap(void **state)
{
    (void)state;
    int n_refused = 0;
    weft_status status = WEFT_ENOMEM;
    for (size_t cap = 256 << 10; status != WEFT_OK; cap += 128 << 10) {
        weft_error err = { 0 };
        const weft_model_options o = { .struct_size = sizeof o, .ram_max = cap };
        weft_model_info before = { .struct_size = sizeof before }, after = before;
        weft_model *m = weft_model_open(fixture("golden/gpt2"), &o, &err);
        if (!m)
            continue;
        weft_explain_options o_page = plain; /* the first page packs weights, which stay */
        o_page.train = 0;
        status = weft_explain(m, text_ids, N, &o_page, ignore_page, NULL, &err);
        weft_model_get_info(m, &before);
        if (status == WEFT_OK)
            status = weft_explain(m, text_ids, N, &plain, ignore_page, NULL, &err);
        weft_model_get_info(m, &after);
        assert_that(status == WEFT_OK || status == WEFT_ENOMEM || status == WEFT_ELIMIT,
                    "a cap of %zu bytes: status %d, \"%s\"", cap, (int)status, err.message);
        assert_int_equal(before.bytes_anonymous, after.bytes_anonymous);
        n_refused += status != WEFT_OK;
        weft_model_close(m);
    }
    assert_int_equal(status, WEFT_OK);
    assert_true(n_refused > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("explain: a decoder's update is a training run's, bit by bit",
             decoder_learns_as_a_run),
        TEST("explain: a masked language model's too, with the same masks", masks_are_a_runs),
        TEST("explain: gradients are the tape's, and follow from each other",
             gradients_are_the_tapes),
        TEST("explain: p - y times x is the gradient of the head, bit by bit",
             one_target_is_the_heads_gradient),
        TEST("explain: gradients of a masked language model are the tape's",
             masked_model_is_the_tapes),
        TEST("explain: targets are the text shifted, or the target", targets_are_shifted),
        TEST("explain: what cannot be trained is refused in one line", refusals_say_why),
        TEST("explain: training stays under the model's cap and leaves nothing", memory_has_a_cap),
    };
    return RUN(tests);
}
