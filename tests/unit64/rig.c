#define SET_UP
#include "rig.h"

#define STEP 1e-5

/* ---- leaves --------------------------------------------------------------------------------- */

static void *take(rig *g, size_t bytes)
{
    weft_error err = { 0 };
    void *p = arena_alloc(&g->leaves, bytes, &err);
    assert_non_null(p);
    return p;
}

tensor *leaf(rig *g, int64_t n_row, int64_t n_col)
{
    tensor *t = g->leaf[g->n_leaf];
    if (!t) {
        t = take(g, sizeof *t);
        *t = (tensor){
            .type = &dtype_real, .n_dim = 2, .shape = { n_row, n_col }, .stride = n_col
        };
        snprintf(t->name, sizeof t->name, "leaf%d", g->n_leaf);
        t->data = take(g, (size_t)(n_row * n_col) * sizeof(real));
        t->grad = take(g, (size_t)(n_row * n_col) * sizeof(real));
        t->needs_grad = t->is_param = t->grad_taken = true;
        t->born = -1;
        fill_normal(t->data, n_row * n_col, 31, (uint64_t)g->n_leaf, 1);
        g->leaf[g->n_leaf] = t;
    }
    g->n_leaf++;
    return t;
}

tensor *vector_leaf(rig *g, int64_t n)
{
    tensor *t = leaf(g, 1, n);
    t->n_dim = 1;
    t->shape[0] = n;
    return t;
}

int64_t numbers(const tensor *t)
{
    return t->n_dim > 1 ? rows(t) * cols(t) : cols(t);
}

tensor *frozen_q8_0(void)
{
    static uint8_t blocks[3][34];
    static tensor frozen = { .name = "w.weight", .n_dim = 2, .shape = { 3, 32 }, .stride = 32 };
    real x[32];
    for (int o = 0; o < 3; o++) {
        fill_normal(x, 32, 33, (uint64_t)o, 1);
        dtype_q8_0.encode(blocks[o], x, 32);
    }
    frozen.type = &dtype_q8_0;
    frozen.data = blocks;
    return &frozen;
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define FIRST_POS 2

static void rows_of(rig *g)
{
    int at = 0;
    g->batch = (batch){ .n_seq = 2, .row = g->row, .seq = g->seq };
    for (int s = 0; s < 2; s++) {
        g->seq[s] = (sequence){ .first = at, .n = g->size->length[s], .source = -1 };
        for (int i = 0; i < g->size->length[s]; i++, at++)
            g->row[at] = (batch_row){ .seq = s,
                                      .pos = FIRST_POS + i,
                                      .id = (at * 3) % 5,
                                      .type = at % 2,
                                      .wanted = at % 3 != 1,
                                      .target = at % 4 == 3 ? NO_TARGET : at % 6,
                                      .weight = (real)(0.5 + at % 3) };
    }
    g->batch.n_row = at;
    for (int i = 0; i < at; i++)
        g->batch.n_wanted += g->row[i].wanted;
}

void sources_of(rig *g)
{
    const int *length = g->size->source;
    int at = 0;
    g->src = (batch){ .n_seq = 2, .row = g->src_row, .seq = g->src_seq };
    for (int s = 0; s < 2; s++) {
        g->src_seq[s] = (sequence){ .first = at, .n = length[s], .source = -1 };
        for (int i = 0; i < length[s]; i++)
            g->src_row[at++] = (batch_row){ .seq = s, .pos = i };
        g->seq[s].source = 1 - s;
    }
    g->src.n_row = at;
    g->run.at.src = &g->src;
}

void spread_targets(rig *g, int n_vocab)
{
    for (int i = 0; i < g->batch.n_row; i++)
        if (g->row[i].target != NO_TARGET)
            g->row[i].target = 53 * i % n_vocab;
}

/* ---- the check ------------------------------------------------------------------------------- */

void rig_init(rig *g, const rig_size *size, int threads)
{
    weft_error err = { 0 };
    *g = (rig){ .size = size };
    host_plain(&g->host);
    assert_int_equal(run_init(&g->run, &g->host.mem, 1 << 20, 1 << 20, 64 << 20, &err), WEFT_OK);
    assert_int_equal(arena_init(&g->leaves, ARENA_GROWING, &g->host.mem, 0, "", &err), WEFT_OK);
    g->run.kern = &kernels_scalar;
    g->pool = pool_new(threads, &g->host.mem, &err);
    g->run.pool = g->pool;
    g->run.fork_cost = 0;
    assert_true(size->length[0] + size->length[1] <= MAX_ROW);
    assert_true(size->source[0] + size->source[1] <= MAX_ROW);
    rows_of(g);
    const rope_spec s = { .pairing = ROPE_HALVES, .n_rot = 8, .d_head = 10, .theta = 100 };
    g->rope = rope_new(&s, 16, &g->leaves, &err);
    const rope_spec behind = { .n_rot = 4, .d_head = 10, .skip = 5, .theta = 100 };
    g->rope_behind = rope_new(&behind, 16, &g->leaves, &err);
}

void rig_free(rig *g)
{
    run_free(&g->run);
    arena_free(&g->leaves);
    pool_free(g->pool);
    free(g->dy);
    assert_int_equal(g->host.mem.used, 0);
}

static tensor *build_again(rig *g, build_fn *build)
{
    run_begin(&g->run, &g->batch);
    g->run.at.block = 1; /* leaves are not of this block: residual does not change them */
    g->n_leaf = 0;
    return build(g);
}

static double scalar(rig *g, build_fn *build)
{
    const tensor *y = build_again(g, build);
    double sum = 0;
    for (int64_t i = 0; i < rows(y); i++)
        for (int64_t k = 0; k < cols(y); k++)
            sum += g->dy[i * cols(y) + k] * row(y, i)[k];
    return sum;
}

/* A defective op: the derivative of the first input has the wrong sign. */
static const op *broken_of;

static void broken_backward(run *r, const node *n)
{
    broken_of->backward(r, n);
    for (int64_t i = 0; i < rows(n->in[0]); i++)
        for (int64_t k = 0; k < cols(n->in[0]); k++)
            grad_row(n->in[0], i)[k] *= -1;
}

static void backward_once(rig *g, build_fn *build, bool break_it)
{
    op broken = { .name = "broken", .backward = broken_backward };
    run_begin(&g->run, &g->batch);
    tape_begin(&g->run, &g->tape);
    g->run.at.block = 1;
    g->n_leaf = 0;
    tensor *y = build(g);
    if (break_it) {
        broken_of = g->tape.last->op;
        g->tape.last->op = &broken;
    }
    tape_backward(&g->run, y, g->dy);
}

static void differentiate(rig *g, build_fn *build, bool break_it)
{
    for (int i = 0; i < MAX_LEAF; i++)
        if (g->leaf[i])
            g->leaf[i]->grad_written = false;
    backward_once(g, build, break_it);
}

void rig_case(rig *g, const rig_size *size, int threads, build_fn *build, bool break_it)
{
    rig_init(g, size, threads);
    const tensor *y = build_again(g, build);
    g->dy = malloc((size_t)(rows(y) * cols(y)) * sizeof *g->dy);
    fill_normal(g->dy, rows(y) * cols(y), 32, 0, 1);
    differentiate(g, build, break_it);
}

static void move(real *x, const real *way, int64_t n, double step)
{
    for (int64_t k = 0; k < n; k++)
        x[k] += step * way[k];
}

/* Derivative of values [k0, k0 + n) of leaf t along a random direction, numeric and analytic: their
 * relative error. For one value the direction is its axis. */
static double error_of(rig *g, build_fn *build, const tensor *t, int64_t k0, int64_t n,
                       double largest)
{
    real *x = (real *)t->data + k0, *way = malloc((size_t)n * sizeof *way);
    real *kept = malloc((size_t)n * sizeof *kept);
    memcpy(kept, x, (size_t)n * sizeof *kept);
    fill_normal(way, n, 33, (uint64_t)k0, 1);
    way[0] = n == 1 ? 1 : way[0];
    double a = 0;
    for (int64_t k = 0; k < n; k++)
        a += t->grad[k0 + k] * way[k];
    move(x, way, n, STEP);
    const double up = scalar(g, build);
    memcpy(x, kept, (size_t)n * sizeof *kept);
    move(x, way, n, -STEP);
    const double down = scalar(g, build);
    memcpy(x, kept, (size_t)n * sizeof *kept);
    free(way);
    free(kept);
    const double numeric = (up - down) / (2 * STEP);
    const double scale = fmax(fmax(fabs(a), fabs(numeric)), 1e-3 * largest);
    return fabs(a - numeric) / fmax(scale, 1e-30);
}

double check_case(const rig_size *size, build_fn *build, bool break_it, int *n_checked)
{
    rig g;
    rig_case(&g, size, 2, build, break_it);
    double worst = 0;
    for (int l = 0; g.leaf[l]; l++) {
        const tensor *t = g.leaf[l];
        const int64_t n = numbers(t),
                      together = size->rows_at_once ? size->rows_at_once * cols(t) : 1;
        double largest = 0;
        for (int64_t k = 0; k < n; k++)
            largest = fmax(largest, fabs(t->grad[k]));
        for (int64_t k = 0; k < n; k += together, (*n_checked)++) {
            const int64_t left = n - k;
            const double error = error_of(&g, build, t, k, left < together ? left : together,
                                          largest);
            worst = error <= worst ? worst : error;
        }
        assert_int_equal(t->uses, 0);
    }
    rig_free(&g);
    return worst;
}

bool check_cases(const rig_size *size, const grad_case *cases, size_t n)
{
    bool right = true;
    print_message("%-34s %12s %10s\n", "case", "derivatives", "worst");
    for (size_t i = 0; i < n; i++) {
        int checked = 0;
        const double worst = check_case(size, cases[i].build, false, &checked);
        print_message("%-34s %12d %10.1e%s\n", cases[i].name, checked, worst,
                      worst <= TOLERANCE ? "" : "  WRONG");
        right = right && worst <= TOLERANCE;
    }
    return right;
}

/* Split by output, never by reduction. */
static void same_gradients(const rig *a, const rig *b)
{
    for (int l = 0; a->leaf[l]; l++) {
        count_assertion();
        assert_memory_equal(a->leaf[l]->grad, b->leaf[l]->grad,
                            (size_t)numbers(a->leaf[l]) * sizeof(real));
    }
}

void check_threads(const rig_size *size, const grad_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        rig one, many;
        rig_case(&one, size, 1, cases[i].build, false);
        for (int threads = 2; threads <= 4; threads *= 2) {
            rig_case(&many, size, threads, cases[i].build, false);
            same_gradients(&one, &many);
            rig_free(&many);
        }
        rig_free(&one);
    }
}

void check_twice(const rig_size *size, const grad_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        rig once, twice;
        if (strcmp(cases[i].op, "cross_entropy") == 0)
            continue; /* is the only reader of its logits */
        rig_case(&once, size, 2, cases[i].build, false);
        rig_case(&twice, size, 2, cases[i].build, false);
        backward_once(&twice, cases[i].build, false);
        for (int l = 0; once.leaf[l]; l++) {
            const int64_t n_value = numbers(once.leaf[l]);
            for (int64_t k = 0; k < n_value; k++)
                once.leaf[l]->grad[k] *= 2;
            assert_close(cases[i].name, twice.leaf[l]->grad, once.leaf[l]->grad, n_value, 1e-13);
        }
        rig_free(&once);
        rig_free(&twice);
    }
}
