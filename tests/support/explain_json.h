/* explain_json.h - what weft_explain writes, as JSON. */
#ifndef WEFT_TESTS_EXPLAIN_JSON_H
#define WEFT_TESTS_EXPLAIN_JSON_H

#include "support.h"
#include "weft.h"

#include <jansson.h>

typedef struct text {
    char *at;
    size_t n;
} text;

static inline bool take_text(void *ud, const char *bytes, size_t n, weft_error *err)
{
    text *to = ud;
    (void)err;
    to->at = malloc(n + 1);
    memcpy(to->at, bytes, n);
    to->at[n] = '\0';
    to->n = n;
    return true;
}

static inline json_t *explain_json(weft_model *m, const int32_t *ids, int64_t n,
                                   const weft_explain_options *o)
{
    weft_error err = { 0 };
    json_error_t why;
    text t = { 0 };
    if (weft_explain(m, ids, n, o, take_text, &t, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    json_t *root = json_loadb(t.at, t.n, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        fail_msg("%s, byte %d", why.text, why.position);
    free(t.at);
    return root;
}

#endif
