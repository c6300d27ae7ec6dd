#include "lora_pupil.h"

#include "base/rng.h"

static void keep(lora_set *s)
{
    (void)s; /* its owner frees it */
}

void pupil_fill(lora_pupil *p, const int32_t *ids, int n_seq, int length)
{
    assert_true(n_seq <= PUPIL_SEQ && n_seq * length <= PUPIL_ROWS);
    p->batch = (batch){ .n_row = n_seq * length, .n_seq = n_seq, .row = p->row, .seq = p->seq };
    for (int s = 0; s < n_seq; s++)
        p->seq[s] = (sequence){ .first = s * length, .n = length, .source = -1 };
    for (int i = 0; i < p->batch.n_row; i++) {
        const bool last = i % length == length - 1;
        p->row[i] = (batch_row){ .id = ids[i],
                                 .seq = i / length,
                                 .pos = i % length,
                                 .target = last ? NO_TARGET : ids[i + 1],
                                 .weight = 1,
                                 .wanted = !last };
        p->batch.n_wanted += !last;
    }
}

void pupil_draw(lora_pupil *p, int n_seq, int length, uint64_t seed, int n_vocab)
{
    int32_t ids[PUPIL_ROWS];
    for (int i = 0; i < n_seq * length; i++)
        ids[i] = (int32_t)(rng_draw(17, seed, (uint64_t)i).word[0] % (uint32_t)n_vocab);
    pupil_fill(p, ids, n_seq, length);
}

void pupil_begin(lora_pupil *p, const char *spec, const char *directory, learner_options o)
{
    weft_error err = { 0 };
    p->ready = (ready_adapter){ .set = { .release = keep } };
    p->own = (lora_params){ 0 };
    if (lora_spec_parse(&p->own.spec, spec, &err) != WEFT_OK ||
        lora_params_make(&p->own, &p->ready, &p->f.model, directory, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    lora_set_hold(&p->ready.set);
    o.lora = &p->own;
    if (learner_init(&p->l, &p->f.model, &o, &p->batch, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

void pupil_end(lora_pupil *p)
{
    learner_free(&p->l);
    lora_params_free(&p->own);
    ready_close(&p->ready);
    close_llama(&p->f);
}

real pupil_step(lora_pupil *p, double lr)
{
    assert_int_equal(learner_begin(&p->l, NULL), WEFT_OK);
    const real loss = learner_backward(&p->l, &p->batch);
    learner_group_end(&p->l);
    learner_update(&p->l, lr);
    return loss;
}
