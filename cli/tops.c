/* tops.c - finds and prints tops.h's tokens. */
#include "tops.h"

#include "json.h"

#include <math.h>
#include <stdlib.h>

bool tops_new(tops *t, int64_t n_row, int64_t k)
{
    *t = (tops){ .k = k, .n_row = n_row };
    t->at = cli_zalloc((size_t)(n_row * k) + 1, sizeof *t->at, "the most probable tokens");
    t->has = cli_zalloc((size_t)n_row + 1, sizeof *t->has, "the most probable tokens");
    return t->at && t->has;
}

void tops_free(tops *t)
{
    cli_free(t->at);
    cli_free(t->has);
    *t = (tops){ 0 };
}

/* log sum exp, from the largest down so that nothing overflows */
static double log_sum(const float *logits, int64_t n)
{
    float max = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - (double)max);
    return (double)max + log(sum);
}

/* Inserts each id into the list of the best so far. */
void top_ids(const float *logits, int64_t n, int64_t k, weft_logprob *out)
{
    const double all = log_sum(logits, n);
    int64_t have = 0;
    for (int64_t id = 0; id < n; id++) {
        const double p = (double)logits[id] - all;
        int64_t at = have < k ? have++ : k;
        for (; at > 0 && (double)out[at - 1].logprob < p; at--)
            if (at < k)
                out[at] = out[at - 1];
        if (at < k)
            out[at] = (weft_logprob){ .id = (int32_t)id, .logprob = p };
    }
}

void tops_set(tops *t, int64_t row, const float *logits, int64_t n)
{
    if (row < 0 || row >= t->n_row || t->k > n)
        return;
    top_ids(logits, n, t->k, t->at + row * t->k);
    t->has[row] = true;
}

/* The bytes of an id; 0 if it has none, or more than there is room for. */
static size_t name_id(const id_names *by, int32_t id, char *bytes, size_t size)
{
    const char *label = by->labels ? weft_model_label(by->labels, id) : NULL;
    const int64_t n = label           ? snprintf(bytes, size, "%s", label)
                      : by->tokenizer ? weft_tokenizer_piece(by->tokenizer, id, bytes, size)
                                      : 0;
    return n > 0 && n <= (int64_t)size - (label != NULL) ? (size_t)n : 0;
}

static void print_id(const id_names *by, int32_t id)
{
    char bytes[128];
    const size_t n = name_id(by, id, bytes, sizeof bytes);
    printf(" %d", (int)id);
    if (n > 0)
        cli_print_bytes(bytes, n);
}

void top_print(const id_names *by, const weft_logprob *top, int64_t k)
{
    for (int64_t i = 0; i < k; i++) {
        print_id(by, top[i].id);
        printf(" %.1f %%%s", 100 * exp((double)top[i].logprob), i + 1 < k ? "," : "");
    }
    putchar('\n');
}

static void json_id(const id_names *by, int32_t id)
{
    char bytes[128];
    const size_t n = name_id(by, id, bytes, sizeof bytes);
    cli_json_int("id", id);
    if (n > 0)
        cli_json_text("token", bytes, n);
}

void top_json(const char *key, const id_names *by, const weft_logprob *top, int64_t k)
{
    cli_json_list(key);
    for (int64_t i = 0; i < k; i++) {
        cli_json_object(NULL);
        json_id(by, top[i].id);
        cli_json_real("probability", exp((double)top[i].logprob), 9);
        cli_json_end();
    }
    cli_json_end();
}

/* ---- before and after ------------------------------------------------------------------------ */

typedef struct outputs {
    const float *before, *after;
    double all_before, all_after; /* log of their sums */
} outputs;

static void print_change(const id_names *by, const outputs *o, int32_t id, bool json)
{
    const double p = exp((double)o->before[id] - o->all_before);
    const double q = exp((double)o->after[id] - o->all_after);
    if (!json) {
        printf("%7.1f %% %7.1f %% %+7.1f ", 100 * p, 100 * q, 100 * (q - p));
        print_id(by, id);
        putchar('\n');
        return;
    }
    cli_json_object(NULL);
    json_id(by, id);
    cli_json_real("before", p, 9);
    cli_json_real("after", q, 9);
    cli_json_end();
}

/* sum p ln(p / q) */
static double divergence(const outputs *o, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double p = (double)o->before[i] - o->all_before;
        const double q = (double)o->after[i] - o->all_after;
        sum += exp(p) * (p - q);
    }
    return sum > 0 ? sum : 0;
}

static bool has_id(const weft_logprob *top, int64_t k, int32_t id)
{
    for (int64_t i = 0; i < k; i++)
        if (top[i].id == id)
            return true;
    return false;
}

int tops_compare(const id_names *by, const float *before, const float *after, int64_t n, int64_t k,
                 bool json)
{
    const outputs o = { before, after, log_sum(before, n), log_sum(after, n) };
    tops t;
    const bool room = tops_new(&t, 2, k);
    if (room) {
        const double apart = divergence(&o, n);
        tops_set(&t, 0, before, n);
        tops_set(&t, 1, after, n);
        if (json) {
            cli_json_object(NULL);
            cli_json_real("divergence", apart, 9);
            cli_json_list("changed");
        } else {
            printf("\nchanged by %.3g nats\n%9s %9s %7s\n", apart, "before", "after", "change");
        }
        for (int64_t i = 0; i < k; i++)
            print_change(by, &o, t.at[i].id, json);
        for (int64_t i = k; i < 2 * k; i++)
            if (!has_id(t.at, k, t.at[i].id))
                print_change(by, &o, t.at[i].id, json);
        if (json) {
            cli_json_end();
            cli_json_end();
        }
    }
    tops_free(&t);
    return room ? 0 : cli_no_memory();
}
