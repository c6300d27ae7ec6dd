/* Preferences (DPO): loss, log-probabilities, those of the reference and all gradients are what TRL
 * computes for the same model and adapter (tools/make_dpo.py). */
#include "golden.h"
#include "golden_adapters.h"
#include "lora_pupil.h"

#include <math.h>

enum { N_PAIR = 20, N_SIDE = 2 * N_PAIR };

static double reference[N_SIDE], logp[N_SIDE], slope[N_SIDE];
static preference pairs = { .reference = reference, .logp = logp, .slope = slope };

static const void *numbers_of(const golden *g, const char *name)
{
    const stored *t = golden_tensor(g, name);
    assert_non_null(t);
    return t->data;
}

/* A row's target is the next id, if that belongs to the answer. */
static void fill_pairs(lora_pupil *p, const golden *g)
{
    const int32_t *ids = numbers_of(g, "ids"), *n_prompt = numbers_of(g, "n_prompt");
    const int64_t width = golden_tensor(g, "ids")->shape[1];
    p->batch = (batch){ .row = p->row, .seq = p->seq, .n_seq = N_SIDE, .prefer = &pairs };
    pairs.beta = (real) * (const float *)numbers_of(g, "beta");
    for (int s = 0; s < N_SIDE; s++) {
        sequence *q = &p->seq[s];
        *q = (sequence){ .first = p->batch.n_row, .source = -1 };
        for (; q->n < width && ids[s * width + q->n] >= 0; q->n++) {
            const bool last = q->n + 1 == width || ids[s * width + q->n + 1] < 0;
            const bool wanted = !last && q->n + 1 >= n_prompt[s / 2];
            assert_true(p->batch.n_row < PUPIL_ROWS);
            p->row[p->batch.n_row++] = (batch_row){
                .id = ids[s * width + q->n],
                .seq = s,
                .pos = q->n,
                .target = wanted ? ids[s * width + q->n + 1] : NO_TARGET,
                .weight = 1,
                .wanted = wanted,
            };
            p->batch.n_wanted += wanted;
        }
    }
}

/* Relative to the larger ones: sums of eight floats near 15 are rounded to 8e-6. */
static double farthest(const double *a, const float *b, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(a[i] - (double)b[i]) / fmax(1, fabs((double)b[i])));
    return most;
}

static void equals_trl(void **state)
{
    (void)state;
    static lora_pupil p;
    golden g;
    int n_gradient = 0;
    double worst = 0;
    golden_open(&g, fixture("golden/dpo.safetensors"), 0);
    open_golden(&p.f, "llama-gqa");
    fill_pairs(&p, &g);
    pupil_begin(&p, "", adapter_path("llama-lora"), (learner_options){ .n_thread = 2 });
    learner_refer(&p.l, &p.batch);
    memcpy(reference, logp, sizeof reference);
    const double ref_error = farthest(reference, numbers_of(&g, "reference"), N_SIDE);
    assert_int_equal(learner_begin(&p.l, NULL), WEFT_OK);
    const double loss = (double)learner_backward(&p.l, &p.batch);
    const double logp_error = farthest(logp, numbers_of(&g, "logp"), N_SIDE);
    const double loss_error = fabs(loss - (double)*(const float *)numbers_of(&g, "loss"));
    for (int64_t i = 0; i < p.own.n_tensor; i++) {
        const tensor *t = p.own.list[i];
        const float *want = numbers_of(&g, t->name);
        for (int64_t k = 0; k < rows(t) * cols(t); k++)
            worst = fmax(worst, fabs((double)t->grad[k] - (double)want[k]));
        n_gradient++;
    }
    print_message("loss %.6f; errors: loss %.1e, log p %.1e, reference %.1e, %d gradients %.1e\n",
                  loss, loss_error, logp_error, ref_error, n_gradient, worst);
    assert_int_equal(n_gradient, 28);
    assert_true(loss_error < 1e-5 && logp_error < 1e-5 && ref_error < 1e-5 &&
                worst < float_bound(1e-5));
    pupil_end(&p);
    golden_close(&g);
}

/* A step raises the margin; the reference stays as it is, because the base does. */
static void steps_raise_the_margin(void **state)
{
    (void)state;
    static lora_pupil p;
    golden g;
    double before[N_SIDE];
    golden_open(&g, fixture("golden/dpo.safetensors"), 0);
    open_golden(&p.f, "llama-gqa");
    fill_pairs(&p, &g);
    pupil_begin(&p, "r=4", NULL,
                (learner_options){ .n_thread = 1, .adamw = { 0.9, 0.99, 1e-8, 0, 1 } });
    learner_refer(&p.l, &p.batch);
    memcpy(reference, logp, sizeof reference);
    const double first = (double)pupil_step(&p, 5e-3);
    assert_true(fabs(first - log(2)) < 1e-6); /* the adapter changes nothing yet */
    assert_memory_equal(logp, reference, sizeof logp);
    for (int i = 0; i < 20; i++)
        pupil_step(&p, 5e-3);
    const double last = (double)learner_loss(&p.l, &p.batch);
    memcpy(before, reference, sizeof before);
    learner_refer(&p.l, &p.batch);
    assert_memory_equal(logp, before, sizeof before);
    assert_true(last < 0.5 * first);
    pupil_end(&p);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("preferences: loss and gradients are TRL's", equals_trl),
        TEST("preferences: steps lower the loss, the reference stays", steps_raise_the_margin),
    };
    return RUN(tests);
}
