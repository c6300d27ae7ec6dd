/* encode.c - what an encoder answers: embeddings, scores, labels, tokens for masks. A few texts at a
 * time, so that generation goes on between them. */
#include "worker.h"

#include <math.h>
#include <string.h>

#define ROWS 512 /* tokens of texts that are computed at a time, but at least one text */
#define SOME 64  /* and at most so many texts */

/* A cross-encoder reads query and document together, and has a head of one output. */
static bool wants_head(const job *j)
{
    const endpoint e = j->endpoint;
    return e == ENDPOINT_CLASSIFY || e == ENDPOINT_FILL ||
           (e != ENDPOINT_EMBEDDINGS && serve_scores_pairs(&j->instance->model));
}

/* An encoder for texts of a context. */
static weft_encoder *encoder_of(const instance *i, bool head, encoders *e, weft_error *err)
{
    weft_encoder **to = head ? &e->head : &e->pooled;
    const weft_encoder_options o = { .struct_size = sizeof o,
                                     .threads = i->model.threads,
                                     .n_ctx = i->n_ctx,
                                     .output = head ? WEFT_OUTPUT_HEAD : WEFT_OUTPUT_POOLED,
                                     .normalize = !head,
                                     .adapter_rank = i->adapters.rank };
    if (!*to)
        *to = weft_encoder_new(i->model.model, &o, err);
    return *to;
}

/* Models that generate need none, until somebody asks for vectors; nor do encoder-decoders. */
bool encoders_begin(const instance *i, encoders *e, weft_error *err)
{
    const weft_task task = i->model.info.task;
    const bool head = task == WEFT_TASK_CLASSIFY || task == WEFT_TASK_TAG || task == WEFT_TASK_FILL;
    if (i->model.engine || i->model.source || encoder_of(i, head, e, err))
        return true;
    return err->code != WEFT_ENOMEM && err->code != WEFT_ELIMIT; /* a request reports the rest */
}

void encoders_free(encoders *e)
{
    weft_encoder_free(e->pooled);
    weft_encoder_free(e->head);
}

/* ---- room ------------------------------------------------------------------------------------ */

static bool no_memory(job *j)
{
    refusal why;
    refuse(&why, 503, "server_error", "no_memory", NULL, "no memory for the answer");
    job_refuse(j, &why);
    return false;
}

static int64_t rows_of(const job *j, int64_t i)
{
    const prompt *p = &j->prompts[i];
    if (j->endpoint == ENDPOINT_FILL)
        return p->n_mask;
    const bool each = wants_head(j) && j->instance->model.info.task == WEFT_TASK_TAG;
    return each ? p->n : 1;
}

/* Rows of masks are read as soon as they are there: each has the whole vocabulary. */
static bool begin(job *j, int64_t width)
{
    refusal why;
    store *s = &j->request.store;
    const bool fills = j->endpoint == ENDPOINT_FILL;
    if (j->request.dimensions && j->request.dimensions != width) {
        refuse(&why, 400, INVALID_REQUEST, "invalid_value", "dimensions",
               "dimensions: found %lld; expected %lld, which the model was trained for",
               (long long)j->request.dimensions, (long long)width);
        job_refuse(j, &why);
        return false;
    }
    j->row = store_take(s, (size_t)j->n_text + 1, sizeof *j->row);
    for (int64_t i = 0; i < j->n_text && j->row; i++)
        j->row[i + 1] = j->row[i] + rows_of(j, i);
    if (fills && j->row)
        j->fills = store_take(s, (size_t)(j->row[j->n_text] * j->request.top_k), sizeof *j->fills);
    const int64_t n = !j->row ? 0 : fills ? MAX_MASK : j->row[j->n_text];
    j->width = width;
    j->vectors = memory_take((size_t)n * (size_t)width * sizeof(float));
    return (j->row && j->vectors && (!fills || j->fills)) || no_memory(j);
}

/* ---- images ---------------------------------------------------------------------------------- */

/* As many as are computed at a time, no more: decoded ones take memory. */
bool worker_decodes(const job *j)
{
    int64_t n_row = 0;
    for (int64_t i = j->n_encoded; i < j->n_ready; i++)
        n_row += j->prompts[i].n;
    return j->n_ready < j->n_text && n_row < ROWS && j->n_ready - j->n_encoded < SOME;
}

void worker_decode(job *j)
{
    refusal why;
    prompt *p = &j->prompts[j->n_ready];
    p->image = picture_decode(&p->picture, j->n_ready, j->instance->model.model, &why);
    if (!p->image) {
        job_refuse(j, &why);
        return;
    }
    p->n = p->image->n;
    j->n_ready++;
    pthread_mutex_lock(&j->lock);
    j->n_prompt += p->n;
    pthread_mutex_unlock(&j->lock);
}

static void free_images(job *j, int64_t from)
{
    for (int64_t i = from; i < j->n_encoded; i++) {
        weft_image_free(j->prompts[i].image);
        j->prompts[i].image = NULL;
    }
}

/* ---- computing ------------------------------------------------------------------------------- */

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

/* The k most probable tokens, best first; of equals the first. */
static void fill(const float *z, int64_t n, filling *to, int64_t k)
{
    double largest = -INFINITY, sum = 0;
    int64_t n_best = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, (double)z[i]);
    for (int64_t i = 0; i < n; i++) {
        sum += exp((double)z[i] - largest);
        if (n_best == k && (double)z[i] <= to[k - 1].p)
            continue;
        int64_t at = n_best < k ? n_best++ : k - 1;
        for (; at > 0 && (double)z[i] > to[at - 1].p; at--)
            to[at] = to[at - 1];
        to[at] = (filling){ (int32_t)i, (double)z[i] };
    }
    for (int64_t i = 0; i < n_best; i++)
        to[i].p = exp(to[i].p - largest) / sum;
}

static bool is_full(const job *j, int64_t n, int64_t n_row, const prompt *next)
{
    const int64_t *row = j->row + j->n_encoded;
    return n == SOME || j->n_encoded + n == j->n_ready || (n > 0 && n_row + next->n > ROWS) ||
           (j->endpoint == ENDPOINT_FILL && row[n + 1] - row[0] > MAX_MASK);
}

/* The next texts or images; false after an error. */
static bool compute(job *j, weft_encoder *encoder, weft_error *err)
{
    weft_input some[SOME] = { { 0 } };
    const bool fills = j->endpoint == ENDPOINT_FILL;
    const int64_t from = j->n_encoded, before = fills ? j->row[from] : 0;
    int64_t n = 0, n_row = 0;
    for (; !is_full(j, n, n_row, &j->prompts[from + n]); n++) {
        const prompt *p = &j->prompts[from + n];
        some[n] = (weft_input){ .ids = p->ids,
                                .features = p->image ? p->image->features : NULL,
                                .n = p->n,
                                .types = p->tokens ? p->tokens->types : NULL,
                                .at = p->mask,
                                .n_at = p->n_mask,
                                .out = j->vectors + (j->row[from + n] - before) * j->width };
        n_row += p->n;
    }
    if (!encode(j, encoder, some, n, err))
        return false;
    j->n_encoded += n;
    free_images(j, from);
    const int64_t k = j->request.top_k;
    for (int64_t i = before; fills && i < j->row[j->n_encoded]; i++)
        fill(j->vectors + (i - before) * j->width, j->width, j->fills + i * k, k);
    return true;
}

static void finish(job *j)
{
    bytes *out = job_begin_write(j);
    encoded_write(j, out);
    const bool good = !out->failed;
    if (good)
        job_answer(j, true);
    job_end_write(j);
    atomic_fetch_add(&j->instance->service->metrics.n_prompt, j->n_prompt);
    if (!good)
        no_memory(j);
}

bool worker_encode(job *j, encoders *e)
{
    weft_error err;
    weft_encoder *encoder = encoder_of(j->instance, wants_head(j), e, &err);
    if (!encoder) {
        job_refuse_error(j, &err);
        return true;
    }
    if (!j->vectors && !begin(j, weft_encoder_width(encoder)))
        return true;
    if (!compute(j, encoder, &err)) {
        job_refuse_error(j, &err);
        return true;
    }
    if (j->n_encoded < j->n_text)
        return false;
    finish(j);
    return true;
}
