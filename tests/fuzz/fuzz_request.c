/* fuzz_request.c - bytes as the body of a request. The first byte chooses the endpoint, whether
 * unknown fields are ignored, and which allocation fails. */
#include "body.h"
#include "hostile.h"
#include "request.h"

#include <stdlib.h>
#include <string.h>

static bool is_text(const char *text, size_t most)
{
    return memchr(text, '\0', most) != NULL;
}

/* What later parts rely on. */
static void check_good(const request *r)
{
    const bool talks = endpoint_talks(r->endpoint) || r->endpoint == ENDPOINT_TEMPLATE ||
                       r->endpoint == ENDPOINT_COUNT;
    const bool pairs = r->endpoint == ENDPOINT_SCORE || r->endpoint == ENDPOINT_RERANK;
    holds(talks ? r->messages != NULL : r->n_input > 0, "a request without input");
    holds(r->n >= 1 && r->n <= MAX_CHOICE && r->n_input * r->n <= MAX_EMBED, "too many choices");
    holds(pairs == (r->n_second > 0), "pairs without second texts");
    holds(!pairs || r->n_input == 1 || r->n_input == r->n_second, "texts without a partner");
    for (int64_t i = 0; i < r->n_second; i++)
        holds(r->seconds[i].text != NULL, "a second text");
    holds(r->endpoint != ENDPOINT_FILL || (r->top_k >= 1 && r->top_k <= MAX_FILL),
          "tokens for masks");
    holds(r->max_tokens >= -1 && r->max_tokens <= MAX_TOKENS, "too many tokens");
    holds(r->temperature >= 0 && r->temperature <= 2, "temperature");
    holds(r->top_p >= 0 && r->top_p <= 1 && r->min_p >= 0 && r->min_p <= 1, "a probability");
    holds(r->n_stop >= 0 && r->n_stop <= MAX_STOP, "too many stop strings");
    for (int i = 0; i < r->n_stop; i++)
        holds(*r->stop[i] && strlen(r->stop[i]) <= MAX_STOP_BYTES, "a stop string");
    for (int64_t i = 0; i < r->n_bias; i++)
        holds(r->bias[i].id >= 0 && r->bias[i].bias >= -100 && r->bias[i].bias <= 100, "a bias");
    for (int64_t i = 0; i < r->n_input; i++)
        for (int64_t k = 0; !r->inputs[i].text && k < r->inputs[i].n; k++)
            holds(r->inputs[i].ids[k] >= 0, "an id");
    holds(is_text(r->ignored, sizeof r->ignored), "the list of ignored fields");
    if (r->variables)
        holds(r->variables[0] == '{' && r->variables[strlen(r->variables) - 1] == '}',
              "variables are not an object");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    request r;
    refusal why;
    if (size < 1)
        return 0;
    json_object_seed(1); /* hashing is random by default, findings must repeat */
    body_init();
    const int fail_at = data[0] / 32;
    const bool ignores = data[0] & 16;
    atomic_store(&memory_fail_at, fail_at);
    const bool good = request_parse(&r, (endpoint)(data[0] % 16 % N_ENDPOINT),
                                    (const char *)data + 1, size - 1, ignores, &why);
    atomic_store(&memory_fail_at, 0);
    if (good)
        check_good(&r);
    else
        holds((why.status == 400 || (why.status == 503 && fail_at)) && why.message[0] &&
                  is_text(why.message, sizeof why.message) && is_text(why.param, sizeof why.param),
              "a refusal without a reason");
    request_free(&r);
    holds(atomic_load(&memory_used) == 0, "memory is left");
    return 0;
}
