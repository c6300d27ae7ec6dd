/* Derivatives of attention where keys fill many pages of 64 rows, and a source's more than one block
 * of 256: test_grad.c has only a few rows, which never leave the first page. */
#include "rig.h"

static const grad_case cases[] = {
    { "attention", "attention, grouped heads", build_attention },
    { "attention", "attention, window", build_window },
    { "attention", "attention, values in keys", build_in_keys },
    { "attention", "attention, both ways", build_full },
    { "attention", "attention, bias table", build_bias },
    { "attention", "attention, cross", build_cross },
    { "attention", "attention, capped scores", build_cap },
    { "attention", "attention, sinks and window", build_sink },
    { "additive", "additive", build_additive },
};
#define N_CASE (sizeof cases / sizeof *cases)

/* A window wider than a page, and a bias that distinguishes distances beyond one. */
static const rig_size size = { { 150, 70 }, { 40, 260 }, 90, 200, PAGE_ROWS };
static const rig_size coarse = { { 150, 70 }, { 40, 260 }, 90, 200, MAX_ROW };

static void every_derivative(void **state)
{
    (void)state;
    assert_true(check_cases(quick() ? &coarse : &size, cases, N_CASE));
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    check_threads(&size, cases, N_CASE);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void make_dry(rig *g)
{
    weft_error err = { 0 };
    run_free(&g->run);
    assert_int_equal(run_init_dry(&g->run, &g->host.mem, 1, &err), WEFT_OK);
    g->run.kern = &kernels_scalar;
}

/* Memory of a forward and, with `back`, its backward: planned by a dry run, or actual. */
static size_t bytes_taken(const rig_size *rows_of, build_fn *build, bool back, bool dry)
{
    rig g;
    rig_init(&g, rows_of, 1);
    if (dry)
        make_dry(&g);
    run_begin(&g.run, &g.batch);
    g.run.at.block = 1;
    if (back)
        tape_begin(&g.run, &g.tape);
    tensor *y = build(&g);
    g.dy = calloc((size_t)(rows(y) * cols(y)), sizeof *g.dy);
    if (back)
        tape_backward(&g.run, y, g.dy);
    const size_t taken = g.run.meta.peak + g.run.data.peak + g.run.scratch_peak;
    rig_free(&g);
    return taken;
}

/* n, 2 n and 4 n rows: no tensor is n x n, not even for one head. */
static void memory_is_linear(void **state)
{
    (void)state;
    static const rig_size one = { { 40, 20 }, { 20, 40 }, 30, 50, 0 };
    static const rig_size two = { { 80, 40 }, { 40, 80 }, 30, 50, 0 };
    static const rig_size four = { { 160, 80 }, { 80, 160 }, 30, 50, 0 };
    for (size_t i = 0; i < N_CASE; i++)
        for (int back = 0; back < 2; back++)
            for (int dry = 0; dry < 2; dry++) {
                char name[80];
                build_fn *build = cases[i].build;
                snprintf(name, sizeof name, "%s, %s, %s", cases[i].name,
                         back ? "both directions" : "forward", dry ? "planned" : "taken");
                assert_linear(name, bytes_taken(&one, build, back, dry),
                              bytes_taken(&two, build, back, dry),
                              bytes_taken(&four, build, back, dry));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("gradients: attention over many pages equals central differences", every_derivative),
        TEST("gradients: attention over many pages has the same bits on 1, 2 and 4 threads",
             threads_do_not_matter),
        TEST("memory: attention is linear in rows, both directions, planned and actual",
             memory_is_linear),
    };
    return RUN(tests);
}
