/* Handles are freed in any order: what was made from one keeps it alive. */
#include "small_model.h"

#include <weft.h>

enum { BUDGET, MODEL, ENGINE, SESSION, FORK, SAMPLER, BEAMS, TOKENIZER, TOKENS, DECODER, N_HANDLE };

typedef struct handles {
    weft_budget *budget;
    weft_model *model;
    weft_engine *engine;
    weft_session *session, *fork;
    weft_sampler *sampler;
    weft_beams *beams;
    weft_tokenizer *tokenizer;
    weft_tokens *tokens;
    weft_decoder *decoder;
} handles;

static void open_all(handles *h)
{
    static const int32_t ids[] = { 1, 2, 3 };
    weft_error err;
    memset(h, 0, sizeof *h);
    h->budget = weft_budget_new((size_t)64 << 20, &err);
    assert_non_null(h->budget);
    const weft_model_options m = { .struct_size = sizeof m, .budget = h->budget };
    const weft_tokenizer_options t = { .struct_size = sizeof t, .budget = h->budget };
    const weft_engine_options e = { .struct_size = sizeof e, .threads = 1, .n_session = 4 };
    const weft_beam_options b = { .struct_size = sizeof b, .n_beam = 2, .n_new = 3 };
    h->model = weft_model_open(fixture("golden/llama-gqa"), &m, &err);
    h->engine = weft_engine_new(h->model, &e, &err);
    h->session = weft_session_new(h->engine, &err);
    assert_int_equal(weft_session_eval(h->session, ids, 3, &err), WEFT_OK);
    h->fork = weft_session_fork(h->session, &err);
    h->sampler = weft_sampler_new(h->model, NULL, &err);
    h->beams = weft_beam_search(h->engine, ids, 3, &b, &err);
    h->tokenizer = weft_tokenizer_load(fixture("golden/gpt2-slice"), &t, &err);
    h->tokens = weft_tokenizer_encode(h->tokenizer, "The cat", 7, NULL, &err);
    h->decoder = weft_decoder_new(h->tokenizer, false, &err);
    if (!h->fork || !h->sampler || !h->beams || !h->tokens || !h->decoder)
        fail_msg("%s", err.message);
}

static void free_one(handles *h, int which)
{
    switch (which) {
    case BUDGET:
        weft_budget_free(h->budget);
        break;
    case MODEL:
        weft_model_close(h->model);
        break;
    case ENGINE:
        weft_engine_free(h->engine);
        break;
    case SESSION:
        weft_session_free(h->session);
        break;
    case FORK:
        weft_session_free(h->fork);
        break;
    case SAMPLER:
        weft_sampler_free(h->sampler);
        break;
    case BEAMS:
        weft_beams_free(h->beams);
        break;
    case TOKENIZER:
        weft_tokenizer_free(h->tokenizer);
        break;
    case TOKENS:
        weft_tokens_free(h->tokens);
        break;
    case DECODER:
        weft_decoder_free(h->decoder);
        break;
    default:
        break;
    }
}

/* Random orders by seed. The heap detects errors; in the last round the budget checks that
 * everything was freed. */
static void any_order(void **state)
{
    (void)state;
    const int rounds = quick() ? 40 : 400;
    for (int round = 0; round < rounds; round++) {
        handles h;
        int order[N_HANDLE];
        open_all(&h);
        for (int i = 0; i < N_HANDLE; i++)
            order[i] = i;
        for (int i = N_HANDLE - 1; i > 0; i--) {
            const int k = (int)(draw((uint64_t)round, (uint64_t)i) % (unsigned)(i + 1));
            const int swap = order[i];
            order[i] = order[k];
            order[k] = swap;
        }
        for (int i = 0; i < N_HANDLE; i++)
            if (order[i] != BUDGET)
                free_one(&h, order[i]);
            else if (round % 2)
                free_one(&h, BUDGET);
        if (round % 2 == 0) {
            assert_int_equal(weft_budget_used(h.budget), 0);
            weft_budget_free(h.budget);
        }
    }
}

/* The remaining handles give the same bits after their parents were freed. */
static void orphans_work(void **state)
{
    (void)state;
    handles h;
    weft_error err;
    const int32_t id = 4;
    open_all(&h);
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(h.model, &info);
    float *before = malloc((size_t)info.n_vocab * sizeof *before);
    assert_non_null(before);
    assert_int_equal(weft_session_eval(h.fork, &id, 1, &err), WEFT_OK);
    memcpy(before, weft_session_logits(h.fork), (size_t)info.n_vocab * sizeof *before);
    for (int i = BUDGET; i <= ENGINE; i++)
        free_one(&h, i);
    free_one(&h, FORK);
    free_one(&h, TOKENIZER);

    assert_int_equal(weft_session_eval(h.session, &id, 1, &err), WEFT_OK);
    assert_memory_equal(before, weft_session_logits(h.session),
                        (size_t)info.n_vocab * sizeof *before);
    const char *out;
    size_t n, all = 0;
    for (int64_t i = 0; i < h.tokens->n; i++, all += n)
        assert_int_equal(weft_decoder_push(h.decoder, h.tokens->ids[i], &out, &n, &err), WEFT_OK);
    weft_decoder_flush(h.decoder, &out, &n);
    assert_int_equal(all + n, 7);
    assert_int_equal(h.beams->n, 1);
    free(before);
    for (int i = SESSION; i < N_HANDLE; i++)
        if (i != FORK && i != TOKENIZER)
            free_one(&h, i);
}

/* The same for an encoder and an image. */
static void encoders_and_pictures(void **state)
{
    (void)state;
    for (int round = 0; round < 6; round++) {
        weft_error err;
        weft_model *m = weft_model_open(fixture("golden/vit"), NULL, &err);
        weft_encoder *e = weft_encoder_new(m, NULL, &err);
        weft_image *im = weft_image_open(m, fixture("golden/images/photo.png"), &err);
        if (!e || !im)
            fail_msg("%s", err.message);
        float out[64];
        const weft_input in = { .features = im->features, .n = im->n, .out = out };
        for (int i = 0; i < 3; i++) {
            const int which = (round / 2 + (round % 2 ? 3 - i : i)) % 3;
            if (which == 0)
                weft_model_close(m);
            else if (which == 1)
                weft_encoder_free(e);
            else
                weft_image_free(im);
            if (i == 0 && which == 0) {
                assert_true(weft_encoder_width(e) <= 64);
                assert_int_equal(weft_encoder_eval(e, &in, 1, &err), WEFT_OK);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("handles: freed in any order, all memory is freed", any_order),
        TEST("handles: a session, tokens and a decoder work after their parents were freed",
             orphans_work),
    };
    const struct CMUnitTest pngs[] = {
        TEST("handles: an encoder and an image outlive their model", encoders_and_pictures),
    };
    return RUN(tests) + (strstr(weft_build_parts(), " png") ? RUN(pngs) : 0);
}
