/* explained.h - a page's JSON beside a trace: every tensor of it must be the trace's, bit by bit. */
#ifndef WEFT_TESTS_EXPLAINED_H
#define WEFT_TESTS_EXPLAINED_H

#include "explain_json.h"

#include <math.h>

enum { MAX_SEEN = 4096 };

typedef struct kept {
    char name[96];
    char second[96]; /* its second input: the weight of a product */
    int64_t rows, cols;
    float *data;
} kept;

typedef struct traced {
    kept at[MAX_SEEN];
    int n;
} traced;

static inline void keep(void *ud, const weft_trace_tensor *t)
{
    traced *to = ud;
    assert_true(to->n < MAX_SEEN);
    kept *k = &to->at[to->n++];
    snprintf(k->name, sizeof k->name, "%s", t->name);
    snprintf(k->second, sizeof k->second, "%s", t->n_input > 1 ? t->inputs[1] : "");
    k->rows = t->rows;
    k->cols = t->cols;
    k->data = calloc((size_t)(t->rows * t->cols) + 1, sizeof *k->data);
    for (int64_t i = 0; i < t->rows; i++)
        memcpy(k->data + i * t->cols, t->data + i * t->stride, (size_t)t->cols * sizeof *k->data);
}

static inline void forget(traced *t)
{
    for (int i = 0; i < t->n; i++)
        free(t->at[i].data);
    t->n = 0;
}

static inline const kept *find(const traced *t, const char *name)
{
    for (int i = t->n; i-- > 0;)
        if (strcmp(t->at[i].name, name) == 0)
            return &t->at[i];
    return NULL;
}

static inline void compare_tensor(const json_t *t, const traced *seen, const char *model)
{
    const char *name = json_string_value(json_object_get(t, "name"));
    const json_t *data = json_object_get(t, "data");
    const int64_t first = json_integer_value(json_object_get(t, "first"));
    const kept *k = find(seen, name);
    if (!k)
        fail_msg("%s: a trace has no %s", model, name);
    assert_int_equal(json_integer_value(json_object_get(t, "rows")), k->rows);
    assert_int_equal(json_integer_value(json_object_get(t, "cols")), k->cols);
    const int64_t end = first + (int64_t)json_array_size(data);
    assert_true(end > first && end <= k->rows);
    for (int64_t i = first; i < end; i++) {
        const json_t *row = json_array_get(data, (size_t)(i - first));
        const int64_t n = (int64_t)json_array_size(row);
        for (int64_t c = 0; c < k->cols; c++) {
            const float want = k->data[i * k->cols + c];
            const json_t *x = json_array_get(row, (size_t)c);
            const float got = c >= n            ? 0
                              : json_is_null(x) ? -INFINITY
                                                : (float)json_number_value(x);
            if (c >= n ? want != 0 && want != -INFINITY : memcmp(&got, &want, sizeof got) != 0)
                fail_msg("%s: %s [%lld, %lld] is %.9g, in a trace %.9g", model, name, (long long)i,
                         (long long)c, (double)got, (double)want);
        }
    }
}

/* Compares every tensor below a value; returns their number. */
static inline int compare_below(const json_t *at, const traced *seen, const char *model)
{
    int n = 0;
    const char *key;
    const json_t *value;
    size_t i;
    if (json_is_object(at) && json_object_get(at, "data") && json_object_get(at, "cols")) {
        compare_tensor(at, seen, model);
        return 1;
    }
    if (json_is_object(at))
        json_object_foreach((json_t *)at, key, value) n += compare_below(value, seen, model);
    json_array_foreach(at, i, value) n += compare_below(value, seen, model);
    return n;
}

/* Within a tolerance of 1, or of the number if it is larger. */
static inline void assert_near(double got, double want, double tolerance)
{
    assert_that(fabs(got - want) <= tolerance * fmax(1, fabs(want)), "%.9g, expected %.9g", got,
                want);
}

static inline const json_t *part(const json_t *at, const char *key)
{
    const json_t *x = json_object_get(at, key);
    if (!x)
        fail_msg("no \"%s\"", key);
    return x;
}

static inline const json_t *first_view(const json_t *root)
{
    return json_array_get(part(root, "views"), 0);
}

static inline double number(const json_t *list, int64_t i)
{
    return json_number_value(json_array_get(list, (size_t)i));
}

static inline double value(const json_t *at, const char *key)
{
    return json_number_value(part(at, key));
}

static inline const char *word(const json_t *at, const char *key)
{
    return json_string_value(part(at, key));
}

/* Row i of a tensor. */
static inline const json_t *row_of(const json_t *t, int64_t i)
{
    return json_array_get(part(t, "data"), (size_t)i);
}

#endif
