/* encoded.c - the objects that answer requests for an encoder: embeddings as OpenAI's; scores, ranks and
 * labels as vLLM's; and tokens for masks. */
#include "worker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put_usage(const job *j, wire *w)
{
    wire_object(w, "usage");
    wire_int(w, "prompt_tokens", j->n_prompt);
    wire_int(w, "total_tokens", j->n_prompt);
    wire_end(w);
}

/* Up to the list of results. */
static void begin_list(const job *j, const char *prefix, wire *w)
{
    char id[48];
    snprintf(id, sizeof id, "%s%s", prefix, j->made);
    wire_object(w, NULL);
    wire_string(w, "id", id);
    wire_string(w, "object", "list");
    wire_int(w, "created", (int64_t)time(NULL));
    wire_string(w, "model", job_model(j));
    wire_list(w, "data");
}

static void end_list(const job *j, wire *w)
{
    wire_end(w);
    put_usage(j, w);
    wire_end(w);
}

/* ---- scores ---------------------------------------------------------------------------------- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double cosine(const job *j, int64_t a, int64_t b)
{
    const float *x = j->vectors + a * j->width, *y = j->vectors + b * j->width;
    double sum = 0;
    for (int64_t k = 0; k < j->width; k++)
        sum += (double)x[k] * (double)y[k];
    return sum;
}

/* Of the second text i: what the model says of the pair, or how alike their vectors are. */
static double score(const job *j, int64_t i)
{
    const request *r = &j->request;
    if (!serve_scores_pairs(&j->instance->model))
        return cosine(j, r->n_input == 1 ? 0 : i, r->n_input + i);
    const double z = (double)j->vectors[i];
    return r->no_activation ? z : sigmoid(z);
}

static void put_scores(const job *j, wire *w)
{
    begin_list(j, "score-", w);
    for (int64_t i = 0; i < j->request.n_second; i++) {
        wire_object(w, NULL);
        wire_int(w, "index", i);
        wire_string(w, "object", "score");
        wire_real(w, "score", score(j, i));
        wire_end(w);
    }
    end_list(j, w);
}

typedef struct ranked {
    int64_t index;
    double score;
} ranked;

/* The earlier of equals comes first. */
static int better(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static void put_ranking(const job *j, wire *w)
{
    const request *r = &j->request;
    char id[48];
    ranked *all = memory_take((size_t)r->n_second * sizeof *all);
    w->to->failed |= !all;
    for (int64_t i = 0; i < r->n_second && all; i++)
        all[i] = (ranked){ i, score(j, i) };
    if (all)
        qsort(all, (size_t)r->n_second, sizeof *all, better);
    const int64_t n = r->top_n > 0 && r->top_n < r->n_second ? r->top_n : r->n_second;
    snprintf(id, sizeof id, "rerank-%s", j->made);
    wire_object(w, NULL);
    wire_string(w, "id", id);
    wire_string(w, "model", job_model(j));
    wire_list(w, "results");
    for (int64_t i = 0; i < n && all; i++) {
        wire_object(w, NULL);
        wire_int(w, "index", all[i].index);
        if (!r->no_documents) {
            wire_object(w, "document");
            wire_text(w, "text", r->seconds[all[i].index].text, r->seconds[all[i].index].length);
            wire_end(w);
        }
        wire_real(w, "relevance_score", all[i].score);
        wire_end(w);
    }
    end_list(j, w);
    memory_give(all);
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* The labels of a text or a token: the best, and what makes its number a probability. */
typedef struct labels {
    const float *z;
    weft_labels kind;
    int64_t best;
    double sum; /* of exp(z - z[best]) */
} labels;

static labels read_labels(const float *z, int64_t n, weft_labels kind)
{
    labels l = { .z = z, .kind = kind };
    for (int64_t k = 1; k < n; k++)
        l.best = z[k] > z[l.best] ? k : l.best;
    for (int64_t k = 0; k < n && kind == WEFT_LABELS_ONE; k++)
        l.sum += exp((double)z[k] - (double)z[l.best]);
    return l;
}

static double value_of(const labels *l, int64_t k)
{
    const double x = (double)l->z[k];
    if (l->kind == WEFT_LABELS_ONE)
        return exp(x - (double)l->z[l->best]) / l->sum;
    return l->kind == WEFT_LABELS_VALUE ? x : sigmoid(x);
}

/* key: NULL in a list. */
static void put_label(const job *j, int64_t k, const char *key, wire *w)
{
    char made[32];
    const char *name = weft_model_label(j->instance->model.model, k);
    snprintf(made, sizeof made, "LABEL_%lld", (long long)k);
    wire_string(w, key, name ? name : made);
}

/* What the probabilities are of, once for all texts. */
static void put_label_names(const job *j, wire *w)
{
    wire_list(w, "labels");
    for (int64_t k = 0; k < j->width; k++)
        put_label(j, k, NULL, w);
    wire_end(w);
}

static void put_classes(const job *j, wire *w)
{
    const weft_labels kind = j->request.no_activation ? WEFT_LABELS_VALUE
                                                      : j->instance->model.info.labels;
    const int64_t n = j->width;
    begin_list(j, "classify-", w);
    for (int64_t i = 0; i < j->n_text; i++) {
        const labels l = read_labels(j->vectors + i * n, n, kind);
        wire_object(w, NULL);
        wire_int(w, "index", i);
        put_label(j, l.best, "label", w);
        wire_list(w, "probs");
        for (int64_t k = 0; k < n; k++)
            wire_real(w, NULL, value_of(&l, k));
        wire_end(w);
        wire_int(w, "num_classes", n);
        wire_end(w);
    }
    wire_end(w);
    put_label_names(j, w);
    put_usage(j, w);
    wire_end(w);
}

static void put_token(const job *j, int32_t id, wire *w)
{
    size_t n = 0;
    const char *token = weft_tokenizer_token(j->instance->model.tokenizer, id, &n);
    wire_text(w, "token", token ? token : "", n);
}

/* A label for each token that is not special. */
static void put_tags(const job *j, wire *w)
{
    begin_list(j, "classify-", w);
    for (int64_t i = 0; i < j->n_text; i++) {
        wire_object(w, NULL);
        wire_int(w, "index", i);
        wire_list(w, "tokens");
        for (int64_t k = 0; k < j->prompts[i].n; k++) {
            if (weft_tokenizer_is_special(j->instance->model.tokenizer, j->prompts[i].ids[k]))
                continue;
            const labels l = read_labels(j->vectors + (j->row[i] + k) * j->width, j->width,
                                         WEFT_LABELS_ONE);
            wire_object(w, NULL);
            put_token(j, j->prompts[i].ids[k], w);
            put_label(j, l.best, "label", w);
            wire_real(w, "prob", value_of(&l, l.best));
            wire_end(w);
        }
        wire_end(w);
        wire_int(w, "num_classes", j->width);
        wire_end(w);
    }
    end_list(j, w);
}

/* ---- masks ----------------------------------------------------------------------------------- */

static void put_filling(const job *j, const filling *f, wire *w)
{
    wire_object(w, NULL);
    wire_int(w, "id", f->id);
    put_token(j, f->id, w);
    wire_real(w, "prob", f->p);
    wire_end(w);
}

static void put_masks(const job *j, wire *w)
{
    const int64_t V = j->width, k = j->request.top_k, n = k < V ? k : V;
    begin_list(j, "fill-", w);
    for (int64_t i = 0; i < j->n_text; i++) {
        wire_object(w, NULL);
        wire_int(w, "index", i);
        wire_list(w, "masks");
        for (int64_t m = 0; m < j->prompts[i].n_mask; m++) {
            wire_object(w, NULL);
            wire_int(w, "position", j->prompts[i].mask[m]);
            wire_list(w, "tokens");
            for (int64_t t = 0; t < n; t++)
                put_filling(j, j->fills + (j->row[i] + m) * k + t, w);
            wire_end(w);
            wire_end(w);
        }
        wire_end(w);
        wire_end(w);
    }
    end_list(j, w);
}

/* ---- all of them ----------------------------------------------------------------------------- */

void encoded_write(const job *j, bytes *to)
{
    wire w = wire_to(to);
    switch (j->endpoint) {
    case ENDPOINT_SCORE:
        put_scores(j, &w);
        break;
    case ENDPOINT_RERANK:
        put_ranking(j, &w);
        break;
    case ENDPOINT_CLASSIFY:
        if (j->instance->model.info.task == WEFT_TASK_TAG)
            put_tags(j, &w);
        else
            put_classes(j, &w);
        break;
    case ENDPOINT_FILL:
        put_masks(j, &w);
        break;
    default:
        answer_embeddings(job_model(j), j->vectors, j->n_text, j->width, j->request.base64,
                          j->n_prompt, to);
    }
}
