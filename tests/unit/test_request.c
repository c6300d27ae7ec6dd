/* test_request.c - bodies of requests: every field at its bounds and with hostile values, cut at
 * every byte, without memory (server/request.c). */
#include "support.h"

#include "body.h"
#include "request.h"

static const char *const endpoint_names[] = { "completions", "chat",       "embeddings",
                                              "tokenize",    "detokenize", "apply-template",
                                              "responses",   "messages",   "count_tokens",
                                              "score",       "rerank",     "classify",
                                              "fill-mask",   "translate" };

/* The smallest good body of each endpoint, without its closing bracket. */
static const char *const least[] = {
    "{\"prompt\":\"a\"",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]",
    "{\"input\":\"a\"",
    "{\"prompt\":\"a\"",
    "{\"tokens\":[1]",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]",
    "{\"input\":\"a\"",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]",
    "{\"text_1\":\"a\",\"text_2\":\"b\"",
    "{\"query\":\"a\",\"documents\":[\"b\"]",
    "{\"input\":\"a\"",
    "{\"input\":\"a\"",
    "{\"input\":\"a\"",
};

/* In memory of its exact size, so that a sanitizer reports an overrun. */
static bool parse(request *r, endpoint e, const char *body, size_t n, bool lenient, refusal *why)
{
    char *exact = malloc(n ? n : 1);
    assert_non_null(exact);
    memcpy(exact, body, n);
    body_init();
    const bool good = request_parse(r, e, exact, n, lenient, why);
    free(exact);
    assert_that(good || (why->status >= 400 && why->type && why->message[0]),
                "refused without a reason: %.60s", body);
    return good;
}

static bool try(endpoint e, const char *body, refusal *why)
{
    request r;
    const bool good = parse(&r, e, body, strlen(body), false, why);
    request_free(&r);
    assert_int_equal(atomic_load(&memory_used), 0);
    return good;
}

/* ---- what is understood ---------------------------------------------------------------------- */

static void four_forms(void **state)
{
    (void)state;
    static const struct {
        const char *prompt;
        int64_t n_input, n; /* n: ids of the last, or -1: a text */
    } forms[] = { { "\"a b\"", 1, -1 },    { "[\"a\",\"b\"]", 2, -1 }, { "[1,2,2147483647]", 1, 3 },
                  { "[[1],[2,3]]", 2, 2 }, { "\"\"", 1, -1 },          { "\"\\u0000x\"", 1, -1 } };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char body[128];
        request r;
        refusal why;
        const int n = snprintf(body, sizeof body, "{\"prompt\":%s}", forms[i].prompt);
        if (!parse(&r, ENDPOINT_COMPLETIONS, body, (size_t)n, false, &why))
            fail_msg("%s: %s", body, why.message);
        assert_int_equal(r.n_input, forms[i].n_input);
        const input *last = &r.inputs[r.n_input - 1];
        assert_int_equal(last->text ? -1 : last->n, forms[i].n);
        if (last->ids)
            assert_int_equal(last->ids[last->n - 1], forms[i].n == 3 ? INT32_MAX : 3);
        request_free(&r);
    }
}

static void zero_bytes_stay(void **state)
{
    (void)state;
    request r;
    refusal why;
    const char body[] = "{\"prompt\":\"a\\u0000b\"}";
    assert_true(parse(&r, ENDPOINT_COMPLETIONS, body, strlen(body), false, &why));
    assert_int_equal(r.inputs->length, 3);
    assert_memory_equal(r.inputs->text, "a\0b", 3);
    request_free(&r);
}

static const char everything[] =
    "{\"model\":\"m\",\"prompt\":[[5,6]],\"max_tokens\":7,\"temperature\":0.5,\"top_p\":0.25,"
    "\"top_k\":40,\"min_p\":0.125,\"repetition_penalty\":1.5,\"frequency_penalty\":-2,"
    "\"presence_penalty\":2,\"n\":3,\"best_of\":3,\"stop\":[\"x\",\"\\n\"],\"stop_token_ids\":[9],"
    "\"seed\":-9223372036854775808,\"logit_bias\":{\"50256\":-100,\"7\":1.5},\"logprobs\":5,"
    "\"echo\":true,\"stream\":true,\"stream_options\":{\"include_usage\":true},"
    "\"ignore_eos\":true,\"priority\":-3,\"min_tokens\":2,\"user\":\"u\"}";

static void every_field(void **state)
{
    (void)state;
    request r;
    refusal why;
    if (!parse(&r, ENDPOINT_COMPLETIONS, everything, strlen(everything), false, &why))
        fail_msg("%s", why.message);
    assert_string_equal(r.model, "m");
    assert_int_equal(r.max_tokens, 7);
    assert_int_equal(r.min_tokens, 2);
    assert_true(r.temperature == 0.5 && r.top_p == 0.25 && r.min_p == 0.125);
    assert_true(r.repetition == 1.5 && r.frequency == -2 && r.presence == 2);
    assert_int_equal(r.top_k, 40);
    assert_int_equal(r.n, 3);
    assert_int_equal(r.n_stop, 2);
    assert_string_equal(r.stop[1], "\n");
    assert_int_equal(r.n_stop_id, 1);
    assert_int_equal(r.stop_ids[0], 9);
    assert_true(r.has_seed && r.seed == INT64_MIN);
    assert_int_equal(r.n_bias, 2);
    assert_int_equal(r.bias[0].id, 50256);
    assert_true(r.bias[0].bias == -100 && r.bias[1].bias == 1.5f);
    assert_true(r.wants_logprobs && r.n_top == 5);
    assert_true(r.echo && r.stream && r.include_usage && r.ignore_eos);
    assert_int_equal(r.priority, -3);
    request_free(&r);
}

static void defaults(void **state)
{
    (void)state;
    request r;
    refusal why;
    const char body[] = "{\"prompt\":\"a\",\"logprobs\":null,\"max_tokens\":null,\"n\":null,"
                        "\"temperature\":null,\"stop\":null,\"seed\":null,\"stream\":null}";
    assert_true(parse(&r, ENDPOINT_COMPLETIONS, body, strlen(body), false, &why));
    assert_true(r.max_tokens == -1 && r.n == 1 && r.temperature == 1 && r.top_p == 1);
    assert_false(r.wants_logprobs || r.stream || r.has_seed || r.echo || r.ignore_eos);
    assert_true(r.n_stop == 0 && r.n_bias == 0 && !r.model);
    request_free(&r);
}

static void conversation(void **state)
{
    (void)state;
    request r;
    refusal why;
    const char body[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"s\"}]},"
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[]},"
        "{\"role\":\"user\",\"content\":\"\\u00e9\\\"\"}],\"reasoning_effort\":\"low\","
        "\"chat_template_kwargs\":{\"enable_thinking\":false},\"max_completion_tokens\":4,"
        "\"logprobs\":true,\"top_logprobs\":20,\"response_format\":{\"type\":\"text\"},"
        "\"tool_choice\":\"none\",\"store\":false,\"service_tier\":\"auto\","
        "\"add_generation_prompt\":false}";
    if (!parse(&r, ENDPOINT_CHAT, body, strlen(body), false, &why))
        fail_msg("%s", why.message);
    assert_string_equal(r.messages,
                        "[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"s\"}]},"
                        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[]},"
                        "{\"role\":\"user\",\"content\":\"\xc3\xa9\\\"\"}]");
    assert_int_equal(r.n_messages, strlen(r.messages));
    assert_string_equal(r.variables, "{\"reasoning_effort\":\"low\",\"enable_thinking\":false}");
    assert_true(r.max_tokens == 4 && r.wants_logprobs && r.n_top == 20 && r.no_generation_prompt);
    request_free(&r);
}

static void other_endpoints(void **state)
{
    (void)state;
    request r;
    refusal why;
    const char embed[] =
        "{\"input\":[\"a\",\"b\"],\"encoding_format\":\"base64\",\"dimensions\":8}";
    assert_true(parse(&r, ENDPOINT_EMBEDDINGS, embed, strlen(embed), false, &why));
    assert_true(r.base64 && r.dimensions == 8 && r.n_input == 2);
    request_free(&r);
    const char text[] = "{\"prompt\":\"a\",\"add_special_tokens\":false,\"parse_special\":true}";
    assert_true(parse(&r, ENDPOINT_TOKENIZE, text, strlen(text), false, &why));
    assert_true(r.no_special && r.parse_special && r.inputs->length == 1);
    request_free(&r);
    const char ids[] = "{\"tokens\":[]}";
    assert_true(parse(&r, ENDPOINT_DETOKENIZE, ids, strlen(ids), false, &why));
    assert_true(r.inputs->ids && r.inputs->n == 0);
    request_free(&r);
}

static void encoders(void **state)
{
    (void)state;
    request r;
    refusal why;
    const char ranks[] = "{\"query\":\"q\",\"documents\":[\"a\",{\"text\":\"bc\"}],\"top_n\":1,"
                         "\"return_documents\":false,\"use_activation\":false}";
    assert_true(parse(&r, ENDPOINT_RERANK, ranks, strlen(ranks), false, &why));
    assert_true(r.n_input == 1 && r.n_second == 2 && r.top_n == 1 && r.no_documents &&
                r.no_activation);
    assert_true(r.seconds[1].length == 2 && memcmp(r.seconds[1].text, "bc", 2) == 0);
    request_free(&r);
    const char score[] = "{\"text_1\":[\"a\",\"b\"],\"text_2\":[\"c\",\"d\"]}";
    assert_true(parse(&r, ENDPOINT_SCORE, score, strlen(score), false, &why));
    assert_true(r.n_input == 2 && r.n_second == 2 && !r.no_activation);
    request_free(&r);
    const char mask[] = "{\"input\":\"[MASK]\"}";
    assert_true(parse(&r, ENDPOINT_FILL, mask, strlen(mask), false, &why));
    assert_true(r.parse_special && r.top_k == 5);
    request_free(&r);
    assert_true(parse(&r, ENDPOINT_TRANSLATE, mask, strlen(mask), false, &why));
    assert_true(!r.parse_special && r.top_k == 0 && r.temperature == 0 && r.forced_bos == -1);
    request_free(&r);
}

static void number_of_documents(void **state)
{
    (void)state;
    static char body[32768];
    refusal why = { 0 };
    for (int n = MAX_EMBED; n <= MAX_EMBED + 1; n++) {
        char *to = body + sprintf(body, "{\"query\":\"a\",\"documents\":[");
        for (int i = 0; i < n; i++)
            to += sprintf(to, "\"a\"%s", i + 1 < n ? "," : "]}");
        assert_int_equal(try(ENDPOINT_RERANK, body, &why), n == MAX_EMBED);
    }
    assert_string_equal(why.param, "documents");
}

/* ---- what is refused ------------------------------------------------------------------------- */

typedef struct bound {
    endpoint e;
    const char *more;  /* after `least` */
    const char *param; /* NULL: it is good */
} bound;

#define C ENDPOINT_COMPLETIONS
#define H ENDPOINT_CHAT
#define R ENDPOINT_RESPONSES
#define M ENDPOINT_MESSAGES
#define E ENDPOINT_EMBEDDINGS

static const bound bounds[] = {
    { C, "\"max_tokens\":0", NULL },
    { C, "\"max_tokens\":1048576", NULL },
    { C, "\"max_tokens\":1048577", "max_tokens" },
    { C, "\"max_tokens\":-1", "max_tokens" },
    { C, "\"max_tokens\":1.0", "max_tokens" },
    { C, "\"max_tokens\":true", "max_tokens" },
    { C, "\"temperature\":2", NULL },
    { C, "\"temperature\":2.0000001", "temperature" },
    { C, "\"temperature\":-0.0000001", "temperature" },
    { C, "\"temperature\":\"1\"", "temperature" },
    { C, "\"top_p\":1", NULL },
    { C, "\"top_p\":1.1", "top_p" },
    { C, "\"top_k\":-1", NULL },
    { C, "\"top_k\":-2", "top_k" },
    { C, "\"top_k\":16777216", NULL },
    { C, "\"top_k\":16777217", "top_k" },
    { C, "\"repetition_penalty\":0.01", NULL },
    { C, "\"repetition_penalty\":0", "repetition_penalty" },
    { C, "\"presence_penalty\":2.1", "presence_penalty" },
    { C, "\"frequency_penalty\":-2.1", "frequency_penalty" },
    { C, "\"n\":8", NULL },
    { C, "\"n\":9", "n" },
    { C, "\"n\":0", "n" },
    { C, "\"best_of\":2", "best_of" },
    { C, "\"best_of\":2,\"n\":2", NULL },
    { C, "\"logprobs\":5", NULL },
    { C, "\"logprobs\":6", "logprobs" },
    { C, "\"logprobs\":true", "logprobs" },
    { C, "\"stop\":\"\"", "stop" },
    { C, "\"stop\":\"a\\u0000\"", "stop" },
    { C, "\"stop\":[\"a\",3]", "stop" },
    { C, "\"stop\":[]", NULL },
    { C,
      "\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"a\",\"b\",\"c\",\"d\","
      "\"e\","
      "\"f\",\"g\"]",
      NULL },
    { C,
      "\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"a\",\"b\",\"c\",\"d\","
      "\"e\","
      "\"f\",\"g\",\"h\"]",
      "stop" },
    { C, "\"logit_bias\":{\"0\":100}", NULL },
    { C, "\"logit_bias\":{\"0\":100.5}", "logit_bias.0" },
    { C, "\"logit_bias\":{\"0\":-100.5}", "logit_bias.0" },
    { C, "\"logit_bias\":{\"2147483647\":1}", NULL },
    { C, "\"logit_bias\":{\"2147483648\":1}", "logit_bias.2147483648" },
    { C, "\"logit_bias\":{\"-1\":1}", "logit_bias.-1" },
    { C, "\"logit_bias\":{\"+1\":1}", "logit_bias.+1" },
    { C, "\"logit_bias\":{\"\":1}", "logit_bias." },
    { C, "\"logit_bias\":{\"1\":\"x\"}", "logit_bias.1" },
    { C, "\"logit_bias\":[]", "logit_bias" },
    { C, "\"stop_token_ids\":[-1]", "stop_token_ids[0]" },
    { C, "\"stop_token_ids\":5", "stop_token_ids" },
    { C, "\"seed\":1.5", "seed" },
    { C, "\"stream_options\":{\"include_usage\":true}", "stream_options" },
    { C, "\"stream\":true,\"stream_options\":{\"include_usage\":1}", "stream_options" },
    { C, "\"stream\":true,\"stream_options\":{\"more\":true}", "stream_options" },
    { C, "\"stream\":true,\"stream_options\":{}", NULL },
    { C, "\"suffix\":\"x\"", "suffix" },
    { C, "\"suffix\":null", NULL },
    { C, "\"messages\":[]", "messages" },
    { C, "\"response_format\":{\"type\":\"json_object\"}", NULL },
    { C, "\"response_format\":{\"type\":\"xml\"}", "response_format.type" },
    { C, "\"response_format\":{\"type\":\"json_schema\"}", "response_format.json_schema" },
    { C, "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{}}}", NULL },
    { C, "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":3}}",
      "response_format.json_schema.schema" },
    { C, "\"guided_json\":{\"type\":\"string\"}", NULL },
    { C, "\"guided_json\":\"{}\"", NULL },
    { C, "\"guided_json\":[]", "guided_json" },
    { C, "\"guided_regex\":\"a+\"", NULL },
    { C, "\"guided_regex\":1", "guided_regex" },
    { C, "\"guided_grammar\":\"root ::= \\\"a\\\"\"", NULL },
    { C, "\"guided_choice\":[\"a\",\"b\"]", NULL },
    { C, "\"guided_choice\":[]", "guided_choice" },
    { C, "\"guided_choice\":[1]", "guided_choice" },
    { C, "\"guided_regex\":\"a\",\"guided_json\":{}", "guided_json" },
    { C, "\"structured_outputs\":{\"regex\":\"a\"}", NULL },
    { C, "\"structured_outputs\":{\"json_object\":true}", NULL },
    { C, "\"structured_outputs\":{}", "structured_outputs" },
    { C, "\"structured_outputs\":{\"regex\":\"a\",\"choice\":[\"a\"]}", "structured_outputs" },
    { H, "\"tools\":[],\"tool_choice\":\"required\"", "tool_choice" },
    { H, "\"tools\":[{}],\"tool_choice\":\"required\"", NULL },
    { H, "\"tools\":[{}],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
      NULL },
    { H, "\"tools\":[{}],\"tool_choice\":{\"type\":\"function\"}", "tool_choice" },
    { H, "\"tools\":[{}],\"guided_regex\":\"a\"", "guided_regex" },
    { H, "\"tools\":[{}],\"tool_choice\":\"none\",\"guided_regex\":\"a\"", NULL },
    { H, "\"tools\":{}", "tools" },
    { H, "\"functions\":[]", "functions" },
    { R, "\"instructions\":\"b\",\"store\":false", NULL },
    { R, "\"store\":true", "store" },
    { R, "\"previous_response_id\":\"r\"", "previous_response_id" },
    { R, "\"text\":{\"format\":{\"type\":\"json_schema\",\"schema\":{}}}", NULL },
    { R, "\"text\":{\"format\":{\"type\":\"json_schema\"}}", "text.format.schema" },
    { R, "\"tools\":[{\"type\":\"function\",\"name\":\"f\"}],\"tool_choice\":\"required\"", NULL },
    { R, "\"tools\":[{\"type\":\"web_search\"}]", "tools[0]" },
    { R,
      "\"tools\":[{\"type\":\"function\",\"name\":\"f\"}],\"tool_choice\":{\"type\":\"function\","
      "\"name\":\"f\"}",
      NULL },
    { R, "\"max_output_tokens\":0", "max_output_tokens" },
    { R, "\"truncation\":\"auto\"", "truncation" },
    { R, "\"reasoning\":{\"effort\":\"low\"}", NULL },
    { R, "\"reasoning\":{\"effort\":null}", NULL },
    { R, "\"reasoning\":{\"effort\":\"much\"}", "reasoning.effort" },
    { R, "\"reasoning\":\"low\"", "reasoning" },
    { R, "\"truncation\":\"disabled\"", NULL },
    { R, "\"truncation\":\"auto\"", "truncation" },
    { R, "\"include\":[]", NULL },
    { R, "\"include\":{}", "include" },
    { R, "\"metadata\":{}", NULL },
    { R, "\"metadata\":[]", "metadata" },
    { R, "\"background\":true", "background" },
    { M, "\"system\":[{\"type\":\"text\",\"text\":\"s\"}],\"stop_sequences\":[\"x\"]", NULL },
    { M, "\"system\":3", "system" },
    { M, "\"system\":[{\"type\":\"text\",\"text\":\"s\"},{\"type\":\"image\"}]", "system[1]" },
    { M, "\"tools\":[{\"name\":\"f\",\"input_schema\":{}}],\"tool_choice\":{\"type\":\"any\"}",
      NULL },
    { M, "\"tools\":[{\"type\":\"bash_20250124\",\"name\":\"bash\"}]", "tools[0]" },
    { M, "\"tool_choice\":{\"type\":\"tool\"}", "tool_choice.name" },
    { M, "\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024}", NULL },
    { M, "\"thinking\":{\"type\":\"loud\"}", "thinking.type" },
    { M, "\"n\":2", "n" },
    { C, "\"model\":\"a\\u0000\"", "model" },
    { C, "\"model\":5", "model" },
    { C, "\"priority\":1001", "priority" },
    { C, "\"minTokens\":1", "minTokens" },
    { H, "\"tools\":[]", NULL },
    { H, "\"tools\":null", NULL },
    { H, "\"tool_choice\":\"auto\"", NULL },
    { H, "\"tool_choice\":\"some\"", "tool_choice" },
    { H, "\"store\":true", "store" },
    { H, "\"service_tier\":\"flex\"", "service_tier" },
    { H, "\"reasoning_effort\":\"much\"", "reasoning_effort" },
    { H, "\"chat_template_kwargs\":[]", "chat_template_kwargs" },
    { H, "\"top_logprobs\":1", "top_logprobs" },
    { H, "\"top_logprobs\":0", NULL },
    { H, "\"logprobs\":true,\"top_logprobs\":21", "top_logprobs" },
    { H, "\"logprobs\":1", "logprobs" },
    { H, "\"max_tokens\":1,\"max_completion_tokens\":2", "max_tokens" },
    { H, "\"max_tokens\":2,\"max_completion_tokens\":2", NULL },
    { H, "\"prompt\":\"x\"", "prompt" },
    { E, "\"encoding_format\":\"f64\"", "encoding_format" },
    { E, "\"encoding_format\":\"float\"", NULL },
    { E, "\"dimensions\":0", "dimensions" },
    { E, "\"temperature\":1", "temperature" },
    { ENDPOINT_SCORE, "\"use_activation\":0", "use_activation" },
    { ENDPOINT_SCORE, "\"top_n\":1", "top_n" },
    { ENDPOINT_RERANK, "\"top_n\":0", NULL },
    { ENDPOINT_RERANK, "\"top_n\":2048", NULL },
    { ENDPOINT_RERANK, "\"top_n\":2049", "top_n" },
    { ENDPOINT_RERANK, "\"return_documents\":true", NULL },
    { ENDPOINT_CLASSIFY, "\"use_activation\":true,\"user\":\"u\"", NULL },
    { ENDPOINT_CLASSIFY, "\"temperature\":1", "temperature" },
    { ENDPOINT_FILL, "\"top_k\":1", NULL },
    { ENDPOINT_FILL, "\"top_k\":100", NULL },
    { ENDPOINT_FILL, "\"top_k\":0", "top_k" },
    { ENDPOINT_FILL, "\"top_k\":101", "top_k" },
    { ENDPOINT_TRANSLATE, "\"temperature\":1,\"top_p\":0.9,\"seed\":3,\"stream\":true", NULL },
    { ENDPOINT_TRANSLATE, "\"forced_bos_token_id\":0", NULL },
    { ENDPOINT_TRANSLATE, "\"forced_bos_token_id\":-1", "forced_bos_token_id" },
    { ENDPOINT_TRANSLATE, "\"stop\":\"a\"", "stop" },
    { ENDPOINT_TRANSLATE, "\"n\":2", "n" },
    { ENDPOINT_TOKENIZE, "\"content\":\"b\"", "content" }, /* beside prompt */
    { ENDPOINT_TOKENIZE, "\"add_special\":0", "add_special" },
    { ENDPOINT_DETOKENIZE, "\"model\":\"m\"", NULL },
    { ENDPOINT_TEMPLATE, "\"stream\":true", "stream" },
};

static void at_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const bound *b = &bounds[i];
        char body[512];
        refusal why = { 0 };
        snprintf(body, sizeof body, "%s,%s}", least[b->e], b->more);
        const bool good = try(b->e, body, &why);
        assert_that(good == !b->param, "%s: %s", body, good ? "is good" : why.message);
        if (!good) {
            assert_int_equal(why.status, 400);
            assert_string_equal(why.param, b->param);
            assert_non_null(strstr(why.message, b->param));
        }
    }
}

/* ---- conversations of other APIs ------------------------------------------------------------- */

static const struct {
    endpoint e;
    const char *body, *messages, *tools; /* as chat completions have them; tools NULL: none */
} talks[] = {
    { R, "{\"input\":\"a\",\"instructions\":\"i\"}",
      "[{\"role\":\"system\",\"content\":\"i\"},{\"role\":\"user\",\"content\":\"a\"}]", NULL },
    { R,
      "{\"input\":[{\"role\":\"developer\",\"content\":\"d\"},{\"type\":\"message\",\"role\":"
      "\"user\","
      "\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},{\"type\":\"input_text\",\"text\":"
      "\"b\"}]}]}",
      "[{\"role\":\"developer\",\"content\":\"d\"},{\"role\":\"user\",\"content\":\"ab\"}]", NULL },
    { R,
      "{\"input\":[{\"type\":\"reasoning\",\"summary\":[]},{\"role\":\"assistant\",\"content\":"
      "\"s\"},{"
      "\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"},{\"type\":"
      "\"function_call\",\"call_id\":\"d\",\"name\":\"g\",\"arguments\":\"{}\"},{\"type\":"
      "\"function_call_output\",\"call_id\":\"c\",\"output\":\"o\"}]}",
      "[{\"role\":\"assistant\",\"content\":\"s\",\"tool_calls\":[{\"id\":\"c\",\"type\":"
      "\"function\","
      "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},{\"id\":\"d\",\"type\":\"function\","
      "\"function\":{"
      "\"name\":\"g\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c\","
      "\"content\":\"o\"}]",
      NULL },
    { R,
      "{\"input\":[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}"
      "\"}],"
      "\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"description\":\"d\",\"strict\":true,"
      "\"parameters\":"
      "{\"type\":\"object\"}}]}",
      "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"c\",\"type\":"
      "\"function\","
      "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}]",
      "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"strict\":true,"
      "\"parameters\":{\"type\":\"object\"}}}]" },
    { M,
      "{\"system\":[{\"type\":\"text\",\"text\":\"s\"}],\"messages\":[{\"role\":\"user\","
      "\"content\":\"a\"},{"
      "\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"t\"},{\"type\":"
      "\"text\","
      "\"text\":\"b\"},{\"type\":\"tool_use\",\"id\":\"u\",\"name\":\"f\",\"input\":{\"x\":1}}]},{"
      "\"role\":"
      "\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"u\",\"content\":\"r\"},{"
      "\"type\":"
      "\"text\",\"text\":\"c\"}]}]}",
      "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"a\"},{\"role\":"
      "\"assistant\","
      "\"content\":\"b\",\"tool_calls\":[{\"id\":\"u\",\"type\":\"function\",\"function\":{"
      "\"name\":\"f\","
      "\"arguments\":{\"x\":1}}}]},{\"role\":\"tool\",\"tool_call_id\":\"u\",\"content\":\"r\"},{"
      "\"role\":\"user\","
      "\"content\":\"c\"}]",
      NULL },
    { M,
      "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
      "\"u\"}]}],"
      "\"tools\":[{\"name\":\"f\",\"input_schema\":{}}]}",
      "[{\"role\":\"tool\",\"tool_call_id\":\"u\",\"content\":\"\"}]",
      "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]" },
    { R,
      "{\"input\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":"
      "\"s\"}]}]}",
      "[{\"role\":\"assistant\",\"content\":\"s\"}]", NULL },
    { M,
      "{\"messages\":[{\"role\":\"user\",\"content\":[]}],\"tools\":[{\"type\":\"custom\",\"name\":"
      "\"f\"}]}",
      "[{\"role\":\"user\",\"content\":\"\"}]",
      "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]" },
};

static void translated(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof talks / sizeof *talks; i++) {
        request r;
        refusal why = { 0 };
        const bool good = parse(&r, talks[i].e, talks[i].body, strlen(talks[i].body), false, &why);
        assert_that(good, "%s: %s", talks[i].body, why.message);
        assert_string_equal(r.messages, talks[i].messages);
        assert_int_equal(r.n_messages, strlen(talks[i].messages));
        if (talks[i].tools)
            assert_string_equal(r.tools, talks[i].tools);
        else
            assert_null(r.tools);
        request_free(&r);
    }
}

/* Bodies that are refused, and where. */
static const struct {
    endpoint e;
    const char *body, *param;
} bad_talks[] = {
    { R, "{\"input\":[]}", "input" },
    { R, "{\"input\":3}", "input" },
    { R, "{\"input\":[3]}", "input[0]" },
    { R, "{\"input\":[{\"type\":\"item_reference\",\"id\":\"i\"}]}", "input[0]" },
    { R, "{\"input\":[{\"role\":\"tool\",\"content\":\"a\"}]}", "input[0]" },
    { R, "{\"input\":[{\"role\":\"user\"}]}", "input[0].content" },
    { R, "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}",
      "input[0].content" },
    { R, "{\"input\":[{\"type\":\"function_call\",\"name\":\"f\",\"arguments\":\"{}\"}]}",
      "input[0]" },
    { R, "{\"input\":[{\"type\":\"function_call\",\"call_id\":\"c\",\"arguments\":\"{}\"}]}",
      "input[0]" },
    { R, "{\"input\":[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\"}]}",
      "input[0]" },
    { R, "{\"input\":[{\"type\":\"function_call_output\",\"output\":\"o\"}]}", "input[0]" },
    { R, "{\"input\":[{\"role\":\"assistant\",\"content\":3},{\"type\":\"function_call\"}]}",
      "input[0].content" },
    { R,
      "{\"input\":[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":"
      "\"{}\"},{\"type\":\"function_call\"},{\"type\":\"function_call\"}]}",
      "input[1]" },
    { M, "{\"messages\":[]}", "messages" },
    { M, "{\"messages\":[{\"role\":\"system\",\"content\":\"a\"}]}", "messages[0].role" },
    { M, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}",
      "messages[0].content" },
    { M,
      "{\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"u\"}]}]"
      "}",
      "messages[0]" },
    { M, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\"}]}]}",
      "messages[0]" },
    { M,
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":[{"
      "\"type\":\"tool_use\"},{\"type\":\"tool_use\",\"id\":\"u\",\"name\":\"f\",\"input\":{}}]}]}",
      "messages[1]" },
    { M, "{\"system\":[{\"type\":\"image\"}],\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
      "system[0]" },
};

static void not_translated(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_talks / sizeof *bad_talks; i++) {
        refusal why = { 0 };
        assert_that(!try(bad_talks[i].e, bad_talks[i].body, &why), "%s is good", bad_talks[i].body);
        assert_int_equal(why.status, 400);
        assert_string_equal(why.param, bad_talks[i].param);
    }
}

/* Lists of messages at their bound. */
static void number_of_messages(void **state)
{
    (void)state;
    static const struct {
        endpoint e;
        const char *name, *expected;
    } lists[] = { { H, "messages", "a list of 1 to 4096 messages" },
                  { R, "input", "a string or a list of 1 to 4096 items" },
                  { M, "messages", "a list of 1 to 4096 messages" } };
    static const char one[] = "{\"role\":\"user\",\"content\":\"a\"}";
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (int n = MAX_MESSAGE; n <= MAX_MESSAGE + 1; n++) {
            refusal why = { 0 };
            char message[128], *body = malloc(32 + (size_t)n * sizeof one), *to = body;
            assert_non_null(body);
            to += sprintf(to, "{\"%s\":[", lists[i].name);
            for (int k = 0; k < n; k++)
                to += sprintf(to, "%s%s", k ? "," : "", one);
            strcpy(to, "]}");
            assert_int_equal(try(lists[i].e, body, &why), n == MAX_MESSAGE);
            free(body);
            snprintf(message, sizeof message, "%s: found a list of 4097; expected %s",
                     lists[i].name, lists[i].expected);
            assert_string_equal(why.message, n == MAX_MESSAGE ? "" : message);
        }
}

/* What a template gets, whichever field comes first. */
static void variables(void **state)
{
    (void)state;
    static const struct {
        endpoint e;
        const char *more, *variables;
    } fields[] = {
        { M, "\"thinking\":{\"type\":\"enabled\"}", "{\"enable_thinking\":true}" },
        { M, "\"thinking\":{\"type\":\"adaptive\"}", "{\"enable_thinking\":true}" },
        { M, "\"thinking\":{\"type\":\"disabled\"}", "{\"enable_thinking\":false}" },
        { M, "\"chat_template_kwargs\":{\"a\":1},\"thinking\":{\"type\":\"disabled\"}",
          "{\"a\":1,\"enable_thinking\":false}" },
        { M, "\"thinking\":{\"type\":\"disabled\"},\"chat_template_kwargs\":{\"a\":1}",
          "{\"enable_thinking\":false,\"a\":1}" },
        { R, "\"chat_template_kwargs\":{\"a\":1},\"reasoning\":{\"effort\":\"low\"}",
          "{\"a\":1,\"reasoning_effort\":\"low\"}" },
        { H, "\"chat_template_kwargs\":{},\"reasoning_effort\":\"low\"",
          "{\"reasoning_effort\":\"low\"}" },
        { H, "\"reasoning_effort\":\"low\",\"chat_template_kwargs\":{}",
          "{\"reasoning_effort\":\"low\"}" },
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char body[256];
        request r;
        refusal why = { 0 };
        const int n = snprintf(body, sizeof body, "%s,%s}", least[fields[i].e], fields[i].more);
        assert_that(parse(&r, fields[i].e, body, (size_t)n, false, &why), "%s: %s", body,
                    why.message);
        assert_string_equal(r.variables, fields[i].variables);
        request_free(&r);
    }
}

/* ---- the form of an answer ------------------------------------------------------------------- */

static void forms(void **state)
{
    (void)state;
    static const struct {
        endpoint e;
        const char *more, *param;
        weft_grammar_kind kind;
        const char *text;
        bool strict;
    } made[] = {
        { H, "\"response_format\":{\"type\":\"json_object\"}", "response_format",
          WEFT_GRAMMAR_SCHEMA, "{\"type\":\"object\"}", false },
        { H,
          "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\","
          "\"schema\":{\"type\":\"null\"},\"strict\":true}}",
          "response_format", WEFT_GRAMMAR_SCHEMA, "{\"type\":\"null\"}", true },
        { R, "\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":true}}",
          "text.format", WEFT_GRAMMAR_SCHEMA, "true", false },
        { C, "\"structured_outputs\":{\"json\":{\"type\":\"string\"}}", "structured_outputs",
          WEFT_GRAMMAR_SCHEMA, "{\"type\":\"string\"}", false },
        { C, "\"structured_outputs\":{\"json\":\"{ }\"}", "structured_outputs", WEFT_GRAMMAR_SCHEMA,
          "{ }", false },
        { C, "\"structured_outputs\":{\"regex\":\"a+\"}", "structured_outputs", WEFT_GRAMMAR_REGEX,
          "a+", false },
        { C, "\"structured_outputs\":{\"grammar\":\"root ::= [a]\"}", "structured_outputs",
          WEFT_GRAMMAR_GBNF, "root ::= [a]", false },
        { C, "\"structured_outputs\":{\"choice\":[\"a\",\"\"]}", "structured_outputs",
          WEFT_GRAMMAR_GBNF, "root ::= \"a\" | \"\"", false },
        { C, "\"structured_outputs\":{\"json_object\":true}", "structured_outputs",
          WEFT_GRAMMAR_SCHEMA, "{\"type\":\"object\"}", false },
        { C, "\"guided_json\":{}", "guided_json", WEFT_GRAMMAR_SCHEMA, "{}", false },
        { C, "\"guided_regex\":\"b\"", "guided_regex", WEFT_GRAMMAR_REGEX, "b", false },
        { C, "\"guided_grammar\":\"root ::= [b]\"", "guided_grammar", WEFT_GRAMMAR_GBNF,
          "root ::= [b]", false },
        { C, "\"guided_choice\":[\"\\\"\\\\\\n\\u001f \\u007f\xc3\xa9\"]", "guided_choice",
          WEFT_GRAMMAR_GBNF, "root ::= \"\\x22\\x5C\\x0A\\x1F \\x7F\xc3\xa9\"", false },
    };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        char body[256];
        request r;
        refusal why = { 0 };
        const int n = snprintf(body, sizeof body, "%s,%s}", least[made[i].e], made[i].more);
        assert_that(parse(&r, made[i].e, body, (size_t)n, false, &why), "%s: %s", body,
                    why.message);
        assert_int_equal(r.form.kind, made[i].kind);
        assert_int_equal(r.form.n, strlen(made[i].text));
        assert_memory_equal(r.form.text, made[i].text, r.form.n);
        assert_string_equal(r.form.param, made[i].param);
        assert_int_equal(r.form.strict, made[i].strict);
        request_free(&r);
    }
}

#define ONE_TOOL  "\"tools\":[{\"type\":\"function\",\"name\":\"f\"}],"
#define THIS_TOOL "\"tools\":[{\"name\":\"f\"}],"

/* Who may call what. */
static void choices_of_tools(void **state)
{
    (void)state;
    static const struct {
        endpoint e;
        const char *more;
        bool none, must, single;
        const char *only;
    } choices[] = {
        { R, ONE_TOOL "\"tool_choice\":\"auto\"", false, false, false, NULL },
        { R, ONE_TOOL "\"tool_choice\":\"none\"", true, false, false, NULL },
        { R, ONE_TOOL "\"tool_choice\":\"required\"", false, true, false, NULL },
        { R, ONE_TOOL "\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"}", false, true, false,
          "f" },
        { R, ONE_TOOL "\"parallel_tool_calls\":false", false, false, true, NULL },
        { M, THIS_TOOL "\"tool_choice\":{\"type\":\"auto\"}", false, false, false, NULL },
        { M, THIS_TOOL "\"tool_choice\":{\"type\":\"none\"}", true, false, false, NULL },
        { M, THIS_TOOL "\"tool_choice\":{\"type\":\"any\",\"disable_parallel_tool_use\":true}",
          false, true, true, NULL },
        { M, THIS_TOOL "\"tool_choice\":{\"type\":\"tool\",\"name\":\"f\"}", false, true, false,
          "f" },
        { H, THIS_TOOL "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
          false, true, false, "f" },
    };
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        char body[256];
        request r;
        refusal why = { 0 };
        const int n = snprintf(body, sizeof body, "%s,%s}", least[choices[i].e], choices[i].more);
        assert_that(parse(&r, choices[i].e, body, (size_t)n, false, &why), "%s: %s", body,
                    why.message);
        assert_int_equal(r.no_calls, choices[i].none);
        assert_int_equal(r.must_call, choices[i].must);
        assert_int_equal(r.single_call, choices[i].single);
        assert_string_equal(r.only_tool ? r.only_tool : "any",
                            choices[i].only ? choices[i].only : "any");
        request_free(&r);
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

static const struct {
    endpoint e;
    const char *body, *param, *says;
} refusals[] = {
    { C, "", "", "not JSON" },
    { C, "[]", "", "expected an object" },
    { C, "{}", "prompt", "missing" },
    { H, "{}", "messages", "missing" },
    { E, "{}", "input", "missing" },
    { ENDPOINT_TOKENIZE, "{}", "prompt", "missing" },
    { ENDPOINT_DETOKENIZE, "{}", "tokens", "missing" },
    { ENDPOINT_TEMPLATE, "{}", "messages", "missing" },
    { C, "{\"prompt\":null}", "prompt", "missing" },
    { C, "{\"prompt\":\"a\",\"prompt\":\"b\"}", "", "duplicate" },
    { C, "{\"prompt\":\"a\"} x", "", "end of file" },
    { C, "{\"prompt\":\"\xff\"}", "", "decode byte" },
    { C, "{\"prompt\":\"\xed\xa0\x80\"}", "", "decode byte" },
    { C, "{\"prompt\":\"\\ud800\"}", "", "invalid Unicode" },
    { C, "{\"prompt\":\"a\",\"seed\":9223372036854775808}", "", "too big" },
    { C, "{\"prompt\":\"a\",\"top_p\":1e999}", "", "overflow" },
    { C, "{\"prompt\":\"a\",\"top_p\":NaN}", "", "not JSON" },
    { C, "{\"prompt\":[]}", "prompt", "a list of 0" },
    { C, "{\"prompt\":[[]]}", "prompt[0]", "a list of 0" },
    { C, "{\"prompt\":[1,\"a\"]}", "prompt[1]", "token id" },
    { C, "{\"prompt\":[\"a\",1]}", "prompt[1]", "same kind" },
    { C, "{\"prompt\":[[1],\"a\"]}", "prompt[1]", "same kind" },
    { C, "{\"prompt\":[[1],[2,-3]]}", "prompt[1][1]", "found -3" },
    { C, "{\"prompt\":[2147483648]}", "prompt[0]", "token id" },
    { C, "{\"prompt\":{}}", "prompt", "an object" },
    { C, "{\"prompt\":7}", "prompt", "found 7" },
    { C, "{\"prompt\":\"a\",\"min_tokens\":3,\"max_tokens\":2}", "min_tokens", "which is 2" },
    { E, "{\"input\":true}", "input", "found true" },
    { ENDPOINT_DETOKENIZE, "{\"tokens\":\"a\"}", "tokens", "a string of 1" },
    { ENDPOINT_DETOKENIZE, "{\"tokens\":[0.5]}", "tokens[0]", "found 0.5" },
    { ENDPOINT_TOKENIZE, "{\"content\":[\"a\"]}", "content", "expected a string" },
    { H, "{\"messages\":{}}", "messages", "an object" },
    { H, "{\"messages\":[]}", "messages", "a list of 0" },
    { H, "{\"messages\":[1]}", "messages[0]", "found 1" },
    { H, "{\"messages\":[{}]}", "messages[0].role", "found nothing" },
    { H, "{\"messages\":[{\"role\":\"x\"}]}", "messages[0].role", "expected system" },
    { H, "{\"messages\":[{\"role\":\"user\\u0000\",\"content\":\"a\"}]}", "messages[0].role",
      "expected" },
    { H, "{\"messages\":[{\"role\":\"user\"}]}", "messages[0].content", "found nothing" },
    { H, "{\"messages\":[{\"role\":\"user\",\"content\":null}]}", "messages[0].content",
      "found null" },
    { H, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"x\":1}]}", "messages[0].x",
      "no such field" },
    { H, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
      "messages[0].content[0]", "\"type\": \"text\"" },
    { H,
      "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\",\"x\":1}]}]"
      "}",
      "messages[0].content[0]", "\"type\": \"text\"" },
    { H, "{\"messages\":[{\"role\":\"user\",\"content\":[\"a\"]}]}", "messages[0].content[0]",
      "\"type\": \"text\"" },
};

static void by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        refusal why = { 0 };
        assert_that(!try(refusals[i].e, refusals[i].body, &why), "%s is good", refusals[i].body);
        assert_int_equal(why.status, 400);
        assert_string_equal(why.param, refusals[i].param);
        assert_that(strstr(why.message, refusals[i].says) != NULL, "%s: %s; expected %s",
                    refusals[i].body, why.message, refusals[i].says);
    }
}

/* ---- the matrix ------------------------------------------------------------------------------ */

static const char *const hostile[] = {
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1",
    "2147483647",
    "-0.0",
    "1e308",
    "-1e308",
    "0.1",
    "\"\"",
    "\"a\"",
    "9223372036854775807",
    "[]",
    "[[]]",
    "{}",
    "[0]",
    "[null]",
    "[\"\"]",
    "-9223372036854775808",
    "5e-324",
    "{\"\":0}",
    "\"\\u0000\"",
    "[{}]",
    "[[0]]",
    "[1,2]",
    "\"none\"",
    "65536",
    "{\"a\":[]}",
    "[-1]",
    "[\"\\ud83d\\ude00\"]",
};

/* The smallest good body of an endpoint with another value of a field, or with the field. */
static void body_with(char *to, size_t size, endpoint e, const char *name, const char *value)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *at = strstr(least[e], quoted);
    const char *rest = at && (e == ENDPOINT_SCORE || e == ENDPOINT_RERANK) ? strstr(at, ",\"")
                                                                           : NULL;
    if (at)
        snprintf(to, size, "%.*s%s%s%s}", (int)(at - least[e]), least[e], quoted, value,
                 rest ? rest : "");
    else
        snprintf(to, size, "%s,%s%s}", least[e], quoted, value);
}

/* Each value is good, or is refused with 400 by the name of the field. */
static void every_field_hostile(void **state)
{
    (void)state;
    int64_t n = 0, n_good = 0;
    for (int e = 0; e < N_ENDPOINT; e++)
        for (int f = 0; request_field_name((endpoint)e, f); f++)
            for (size_t k = 0; k < sizeof hostile / sizeof *hostile; k++) {
                const char *name = request_field_name((endpoint)e, f);
                char body[256];
                refusal why = { 0 };
                body_with(body, sizeof body, (endpoint)e, name, hostile[k]);
                const bool good = try((endpoint)e, body, &why);
                n++;
                n_good += good;
                assert_that(good ||
                                (why.status == 400 && strncmp(why.param, name, strlen(name)) == 0),
                            "%s: %s: %d, \"%s\": %s", endpoint_names[e], body, why.status,
                            why.param, why.message);
            }
    print_message("%lld bodies, of which %lld are good\n", (long long)n, (long long)n_good);
    assert_true(n > 2000 && n_good > n / 20);
}

static void cut_at_every_byte(void **state)
{
    (void)state;
    request r;
    refusal why;
    for (size_t n = 0; n < sizeof everything - 1; n++) {
        assert_that(!parse(&r, C, everything, n, false, &why), "%zu bytes are good", n);
        assert_int_equal(why.status, 400);
        request_free(&r);
    }
    assert_int_equal(atomic_load(&memory_used), 0);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* {"prompt":[[[...]]]} with so many brackets in all. */
static bool try_depth(int depth, refusal *why)
{
    char body[4096] = "{\"prompt\":";
    size_t n = strlen(body);
    for (int i = 1; i < depth; i++)
        body[n++] = '[';
    for (int i = 1; i < depth; i++)
        body[n++] = ']';
    body[n++] = '}';
    body[n] = '\0';
    return try(C, body, why);
}

static void depth(void **state)
{
    (void)state;
    refusal why;
    assert_false(try_depth(BODY_MAX_DEPTH, &why));
    assert_non_null(strstr(why.message, "prompt"));
    assert_false(try_depth(BODY_MAX_DEPTH + 1, &why));
    assert_string_equal(why.message, "body: JSON is nested 65 deep; expected at most 64");
    assert_false(try_depth(1000, &why));
    assert_false(try(C, "{\"prompt\":\"[[[[{{{{\\\"[[[\"", &why)); /* brackets in a text are text */
    assert_null(strstr(why.message, "nested"));
}

/* A prompt of n ids. */
static bool try_ids(size_t n, refusal *why)
{
    char *body = malloc(16 + 2 * n), *to = body;
    assert_non_null(body);
    to += sprintf(to, "{\"prompt\":[");
    for (size_t i = 0; i < n; i++) {
        *to++ = '1';
        *to++ = i + 1 < n ? ',' : ']';
    }
    strcpy(to, "}");
    const bool good = try(C, body, why);
    free(body);
    return good;
}

static void number_of_values(void **state)
{
    (void)state;
    refusal why = { 0 };
    assert_that(try_ids(BODY_MAX_VALUES - 2, &why), "%s", why.message); /* and :, {, [ */
    assert_false(try_ids(BODY_MAX_VALUES - 1, &why));
    assert_string_equal(why.message, "body: JSON has 262145 values; expected at most 262144");
}

/* {"prompt":"aaa..."} of n bytes. */
static bool try_length(size_t n, refusal *why)
{
    char *body = malloc(n + 1);
    assert_non_null(body);
    memset(body, 'a', n);
    memcpy(body, "{\"prompt\":\"", 11);
    strcpy(body + n - 2, "\"}");
    const bool good = try(C, body, why);
    free(body);
    return good;
}

static void length(void **state)
{
    (void)state;
    refusal why = { 0 };
    assert_that(try_length(BODY_MAX_BYTES, &why), "%s", why.message);
    assert_false(try_length(BODY_MAX_BYTES + 1, &why));
    assert_non_null(strstr(why.message, "a body of 4194305 bytes"));
}

static void number_of_prompts(void **state)
{
    (void)state;
    refusal why = { 0 };
    for (int n = MAX_INPUT; n <= MAX_INPUT + 1; n++) {
        char body[4096], *to = body + sprintf(body, "{\"prompt\":[");
        for (int i = 0; i < n; i++)
            to += sprintf(to, "\"a\"%s", i + 1 < n ? "," : "]}");
        assert_int_equal(try(C, body, &why), n == MAX_INPUT);
        strcpy(to - 1, ",\"n\":2}");
        assert_false(try(C, body, &why));
    }
    assert_string_equal(why.param, "prompt");
}

static void lenient(void **state)
{
    (void)state;
    request r;
    refusal why;
    const char body[] =
        "{\"prompt\":\"a\",\"foo\":1,\"suffix\":\"x\",\"bad, name\":1,\"bar\":null}";
    assert_true(parse(&r, C, body, strlen(body), true, &why));
    assert_string_equal(r.ignored, "foo, suffix, bar");
    request_free(&r);
    assert_false(parse(&r, C, body, strlen(body), false, &why));
    request_free(&r);
    const char wrong[] = "{\"prompt\":\"a\",\"n\":0}"; /* known fields are checked all the same */
    assert_false(parse(&r, C, wrong, strlen(wrong), true, &why));
    request_free(&r);
    char many[8192], *to = many + sprintf(many, "{\"prompt\":\"a\"");
    for (int i = 0; i < 500; i++)
        to += sprintf(to, ",\"field%d\":1", i);
    strcpy(to, "}");
    assert_true(parse(&r, C, many, strlen(many), true, &why));
    assert_true(strlen(r.ignored) < sizeof r.ignored && strlen(r.ignored) > 400);
    assert_true(strchr("0123456789", r.ignored[strlen(r.ignored) - 1]) != NULL);
    request_free(&r);
}

/* Every allocation fails once; returns how many did. */
static int try_without_memory(endpoint e, const char *body)
{
    int k = 1, n_refused = 0;
    for (bool good = false; !good; k++) {
        request r;
        refusal why;
        atomic_store(&memory_fail_at, k);
        good = parse(&r, e, body, strlen(body), false, &why);
        atomic_store(&memory_fail_at, 0);
        assert_that(good || why.status == 503, "allocation %d: %s", k, why.message);
        n_refused += !good;
        request_free(&r);
        assert_int_equal(atomic_load(&memory_used), 0);
        assert_true(k < 1000);
    }
    return n_refused;
}

static void without_memory(void **state)
{
    (void)state;
    static const char chat[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}],"
        "\"chat_template_kwargs\":{\"a\":1},\"reasoning_effort\":\"low\",\"logit_bias\":{\"1\":1}}";
    static const char formed[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":["
                                 "{}],\"tool_choice\":\"none\","
                                 "\"guided_choice\":[\"a\",\"b\"]}";
    assert_true(try_without_memory(H, chat) >= 3);
    assert_true(try_without_memory(H, formed) >= 3);
    assert_true(try_without_memory(ENDPOINT_RERANK, "{\"query\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaa\","
                                                    "\"documents\":[\"a\",\"b\"]}") > 0);
    for (size_t i = 0; i < sizeof talks / sizeof *talks; i++)
        assert_true(try_without_memory(talks[i].e, talks[i].body) > 0);
}

/* A list of n values, or a text of n letters, in place of the %s of a body. */
static char *large_body(const char *layout, const char *one, int n)
{
    char *value = calloc((size_t)n + 1, strlen(one)), *body;
    assert_non_null(value);
    for (int i = 0; i < n; i++)
        memcpy(value + (size_t)i * strlen(one), one, strlen(one));
    body = calloc(strlen(layout) + strlen(value) + 1, 1);
    assert_non_null(body);
    const char *at = strchr(layout, '%');
    sprintf(body, "%.*s%s%s", (int)(at - layout), layout, value, at + 1);
    free(value);
    return body;
}

/* Bodies of which each part needs a block of its own. */
static void large_without_memory(void **state)
{
    (void)state;
    static const struct {
        endpoint e;
        const char *layout, *one;
        int n;
    } large[] = {
        { C, "{\"prompt\":[%1]}", "1,", 12000 },
        { C, "{\"prompt\":[%\"a\"]}", "\"a\",", 255 },
        { ENDPOINT_RERANK, "{\"query\":\"a\",\"documents\":[%\"a\"]}", "\"a\",", 2047 },
        { ENDPOINT_DETOKENIZE, "{\"tokens\":[%1]}", "1,", 12000 },
        { C, "{\"prompt\":\"%\",\"stop_token_ids\":[1],\"logit_bias\":{\"1\":1}}", "a", 16320 },
        { C, "{\"prompt\":\"%\",\"logit_bias\":{\"1\":1}}", "a", 16000 },
        { H, "{\"messages\":[{\"role\":\"user\",\"content\":\"%\"}]}", "a", 20000 },
        { H,
          "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"reasoning_effort\":\"low\","
          "\"chat_template_kwargs\":{\"a\":\"%\"}}",
          "a", 20000 },
        { H,
          "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"chat_template_kwargs\":{\"a\":"
          "\"%\"},\"reasoning_effort\":\"low\"}",
          "a", 20000 },
        { H,
          "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{\"x\":\"%\"}],"
          "\"tool_choice\":{\"function\":{\"name\":\"f\"}}}",
          "a", 20000 },
        { H,
          "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{}],\"tool_choice\":{"
          "\"function\":{\"name\":\"%\"}}}",
          "a", 20000 },
        { R, "{\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"name\":\"%\"}]}", "a", 20000 },
        { R,
          "{\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"name\":\"f\"}],\"tool_choice\":{"
          "\"type\":\"function\",\"name\":\"%\"}}",
          "a", 20000 },
        { R,
          "{\"input\":[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":"
          "\"%\"}]}",
          "a", 20000 },
        { R, "{\"input\":\"%\"}", "a", 20000 },
        { C, "{\"prompt\":\"a\",\"guided_choice\":[\"%\"]}", "a", 20000 },
    };
    int n_refused = 0;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        char *body = large_body(large[i].layout, large[i].one, large[i].n);
        bool good = false;
        for (int k = 1; !good; k++) {
            request r;
            refusal why;
            atomic_store(&memory_fail_at, k);
            good = parse(&r, large[i].e, body, strlen(body), false, &why);
            atomic_store(&memory_fail_at, 0);
            assert_that(good || why.status == 503, "body %zu, allocation %d: %s", i, k,
                        why.message);
            n_refused += !good;
            request_free(&r);
            assert_int_equal(atomic_load(&memory_used), 0);
        }
        free(body);
    }
    assert_true(n_refused > 20);
}

/* A budget that is too small refuses, and is given back in full. */
static void within_a_budget(void **state)
{
    (void)state;
    refusal why;
    weft_error err;
    memory_budget = weft_budget_new((size_t)64 << 10, &err);
    assert_non_null(memory_budget);
    assert_true(try(C, "{\"prompt\":\"a\"}", &why));
    assert_false(try_length((size_t)1 << 20, &why));
    assert_int_equal(why.status, 503);
    assert_int_equal(weft_budget_used(memory_budget), 0);
    weft_budget_free(memory_budget);
    memory_budget = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("request: a prompt in four forms", four_forms),
        TEST("request: zero bytes of a prompt stay", zero_bytes_stay),
        TEST("request: every field of completions", every_field),
        TEST("request: null is as if absent", defaults),
        TEST("request: a conversation", conversation),
        TEST("request: embeddings, tokenize, detokenize", other_endpoints),
        TEST("request: scores, ranks, masks, translations", encoders),
        TEST("request: the number of documents is limited", number_of_documents),
        TEST("request: fields at their bounds", at_bounds),
        TEST("request: conversations of responses and messages become those of chat", translated),
        TEST("request: a conversation that is wrong says where", not_translated),
        TEST("request: the number of messages is limited", number_of_messages),
        TEST("request: variables of a template are those of all fields", variables),
        TEST("request: the form of an answer", forms),
        TEST("request: who may call which tool", choices_of_tools),
        TEST("request: refusals name the place", by_name),
        TEST("request: every field with hostile values", every_field_hostile),
        TEST("request: a body cut at every byte is refused", cut_at_every_byte),
        TEST("request: depth is limited", depth),
        TEST("request: the number of values is limited", number_of_values),
        TEST("request: the length is limited", length),
        TEST("request: the number of prompts is limited", number_of_prompts),
        TEST("request: lenient lists what it ignores", lenient),
        TEST("request: without memory it is refused and nothing is left", without_memory),
        TEST("request: large ones without memory are refused too", large_without_memory),
        TEST("request: within a budget", within_a_budget),
    };
    return RUN(tests);
}
