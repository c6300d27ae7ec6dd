/* embed.c - embeddings, a few texts at a time so that generation goes on between them. */
#include "worker.h"

#include <string.h>

#define ROWS 512 /* tokens of texts that are computed at a time, but at least one text */

/* An encoder for texts of a context, made for the first request: models that only generate need
 * none. */
static weft_encoder *encoder_of(const server *s, weft_error *err)
{
    const weft_encoder_options o = { .struct_size = sizeof o,
                                     .threads = s->model.threads,
                                     .n_ctx = s->n_ctx,
                                     .output = WEFT_OUTPUT_POOLED,
                                     .normalize = true,
                                     .adapter_rank = s->adapters.rank };
    return weft_encoder_new(s->model.model, &o, err);
}

static void finish(job *j, int64_t width)
{
    int64_t n_token = 0;
    refusal why;
    for (int64_t i = 0; i < j->request.n_input; i++)
        n_token += j->prompts[i].n;
    bytes *out = job_begin_write(j);
    answer_embeddings(job_model(j), j->vectors, j->request.n_input, width, j->request.base64,
                      n_token, out);
    const bool good = !out->failed;
    if (good)
        job_answer(j, true);
    job_end_write(j);
    atomic_fetch_add(&j->server->metrics.n_prompt, n_token);
    if (!good) {
        refuse(&why, 503, "server_error", "no_memory", NULL, "no memory for the answer");
        job_refuse(j, &why);
    }
}

/* With the adapter of the job, which the encoder does not keep. */
static bool encode(const job *j, weft_encoder *encoder, const weft_input *some, int64_t n,
                   weft_error *err)
{
    weft_adapter *a = j->adapter ? j->adapter->adapter : NULL;
    const bool good = weft_encoder_adapt(encoder, a, a ? j->adapter->strength : 0, err) ==
                          WEFT_OK &&
                      weft_encoder_eval(encoder, some, n, err) == WEFT_OK;
    weft_encoder_adapt(encoder, NULL, 0, NULL);
    return good;
}

/* The next texts; false after an error. */
static bool compute(job *j, weft_encoder *encoder, weft_error *err)
{
    weft_input some[64] = { { 0 } };
    const int64_t width = weft_encoder_width(encoder);
    int64_t n = 0, rows = 0;
    while (n < 64 && j->n_embedded + n < j->request.n_input) {
        const prompt *p = &j->prompts[j->n_embedded + n];
        if (n > 0 && rows + p->n > ROWS)
            break;
        some[n] = (weft_input){ .ids = p->ids,
                                .n = p->n,
                                .types = p->tokens ? p->tokens->types : NULL,
                                .out = j->vectors + (j->n_embedded + n) * width };
        rows += p->n;
        n++;
    }
    if (!encode(j, encoder, some, n, err))
        return false;
    j->n_embedded += n;
    return true;
}

static bool begin(job *j, const weft_encoder *encoder)
{
    refusal why;
    const int64_t width = weft_encoder_width(encoder);
    if (j->request.dimensions && j->request.dimensions != width) {
        refuse(&why, 400, INVALID_REQUEST, "invalid_value", "dimensions",
               "dimensions: found %lld; expected %lld, which the model was trained for",
               (long long)j->request.dimensions, (long long)width);
        job_refuse(j, &why);
        return false;
    }
    j->vectors = memory_take((size_t)j->request.n_input * (size_t)width * sizeof(float));
    if (!j->vectors) {
        refuse(&why, 503, "server_error", "no_memory", NULL, "no memory for the vectors");
        job_refuse(j, &why);
    }
    return j->vectors;
}

bool worker_embed(job *j, weft_encoder **encoder)
{
    weft_error err;
    if (!*encoder && !(*encoder = encoder_of(j->server, &err))) {
        job_refuse_error(j, &err);
        return true;
    }
    if (!j->vectors && !begin(j, *encoder))
        return true;
    if (!compute(j, *encoder, &err)) {
        job_refuse_error(j, &err);
        return true;
    }
    if (j->n_embedded < j->request.n_input)
        return false;
    finish(j, weft_encoder_width(*encoder));
    return true;
}
