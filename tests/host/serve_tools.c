/* serve_tools.c - tools and forms of answers through the server, in the words of three APIs.
 *
 *     host_serve_tools WEFT MODEL TEMPLATE OTHER
 *
 * TEMPLATE takes tools, OTHER does not. The clients' own packages are tried by tools/tools_check.py. */
#include "serve_client.h"

#include <signal.h>

#define SCHEMA                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"to\":{\"type\":\"string\",\"maxLength\":9},\"n\":{"    \
    "\"enum\":[1,2]}},\"required\":[\"to\",\"n\"],\"additionalProperties\":false}"
#define TALK "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define MORE ",\"temperature\":1,\"seed\":5,\"max_tokens\":120"

/* Marks that an answer must have, in this order. */
typedef struct exchange {
    const char *sentence, *path, *body;
    int status;
    const char *marks[10];
} exchange;

static const exchange exchanges[] = {
    { "chat: a call",
      "/v1/chat/completions",
      "{" TALK MORE ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"speak\","
      "\"parameters\":" SCHEMA "}}],\"tool_choice\":\"required\",\"parallel_tool_calls\":false}",
      200,
      { "\"content\":null", "\"tool_calls\":[{\"id\":\"call_", "\"name\":\"speak\"",
        "\"arguments\":\"{\\\"to\\\":", "\\\"n\\\":", "}\"", "\"finish_reason\":\"tool_calls\"" } },
    { "chat: a call in a stream",
      "/v1/chat/completions",
      "{" TALK MORE ",\"stream\":true,\"tools\":[{\"type\":\"function\",\"function\":{\"name\":"
      "\"speak\",\"parameters\":" SCHEMA "}}],\"tool_choice\":{\"type\":\"function\",\"function\":{"
      "\"name\":\"speak\"}},\"parallel_tool_calls\":false}",
      200,
      { "\"role\":\"assistant\"", "\"tool_calls\":[{\"index\":0,\"id\":\"call_",
        "\"name\":\"speak\"", "{\"index\":0,\"function\":{\"arguments\":\"{",
        "\"finish_reason\":\"tool_calls\"", "[DONE]" } },
    { "chat: a schema",
      "/v1/chat/completions",
      "{" TALK MORE
      ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"s\","
      "\"strict\":true,\"schema\":" SCHEMA "}}}",
      200,
      { "\"content\":\"{\\\"to\\\":", "\\\"n\\\":", "}\"", "\"finish_reason\":\"stop\"" } },
    { "completions: a choice",
      "/v1/completions",
      "{\"prompt\":\"a\",\"guided_choice\":[\"left \\\"\\\\\\n\"]}",
      200,
      { "\"text\":\"left \\\"\\\\\\n\"", "\"finish_reason\":\"stop\"" } },
    { "responses: a call",
      "/v1/responses",
      "{\"input\":\"hi\",\"instructions\":\"i\",\"temperature\":1,\"seed\":5,\"tools\":[{\"type\":"
      "\"function\",\"name\":\"speak\",\"parameters\":" SCHEMA "}],\"tool_choice\":\"required\","
      "\"parallel_tool_calls\":false}",
      200,
      { "\"object\":\"response\"", "\"status\":\"completed\"", "\"type\":\"function_call\"",
        "\"call_id\":\"call_", "\"name\":\"speak\"", "\"arguments\":\"{\\\"to\\\":", "}\"",
        "\"usage\":{\"input_tokens\"" } },
    { "responses: a stream of text after a result",
      "/v1/responses",
      "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"hi\"}]},{"
      "\"type\":"
      "\"reasoning\",\"summary\":[]},{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":"
      "\"speak\","
      "\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":"
      "\"ok\"},{"
      "\"role\":\"user\",\"content\":\"hi\"}],\"stream\":true,\"temperature\":0,\"max_output_"
      "tokens\":"
      "6}",
      200,
      { "event: response.created\n", "\"sequence_number\":0", "event: response.in_progress\n",
        "event: response.output_item.added\n", "event: response.content_part.added\n",
        "event: response.output_text.delta\n", "event: response.output_text.done\n",
        "event: response.output_item.done\n", "\"total_tokens\"" } },
    { "messages: a call",
      "/v1/messages",
      "{" TALK MORE ",\"system\":\"s\",\"tools\":[{\"name\":\"speak\",\"input_schema\":" SCHEMA
      "}],\"tool_choice\":{\"type\":\"any\",\"disable_parallel_tool_use\":true}}",
      200,
      { "\"type\":\"message\"", "\"type\":\"tool_use\",\"id\":\"toolu_", "\"name\":\"speak\"",
        "\"input\":{\"to\":", "\"stop_reason\":\"tool_use\"", "\"output_tokens\"" } },
    { "messages: a call in a stream after a result",
      "/v1/messages",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":[{"
      "\"type\":\"text\",\"text\":\"t\"},{\"type\":\"tool_use\",\"id\":\"u\",\"name\":\"speak\","
      "\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
      "\"u\","
      "\"content\":[{\"type\":\"text\",\"text\":\"ok\"}]}]}]" MORE
      ",\"stream\":true,\"tools\":[{\"name\":\"speak\",\"input_schema\":" SCHEMA
      "}],\"tool_choice\":{\"type\":\"tool\",\"name\":\"speak\",\"disable_parallel_tool_use\":true}"
      "}",
      200,
      { "event: message_start\n", "event: content_block_start\n", "\"type\":\"tool_use\"",
        "\"type\":\"input_json_delta\",\"partial_json\":\"{", "event: content_block_stop\n",
        "event: message_delta\n", "\"stop_reason\":\"tool_use\"", "event: message_stop\n" } },
    { "messages: a stop sequence",
      "/v1/messages",
      "{" TALK ",\"max_tokens\":40,\"temperature\":0,\"stop_sequences\":[\"e\",\"l\"]}",
      200,
      { "\"type\":\"text\"", "\"stop_reason\":\"stop_sequence\",\"stop_sequence\":" } },
    { "a keyword that is not supported",
      "/v1/completions",
      "{\"prompt\":\"a\",\"guided_json\":{\"type\":\"array\",\"uniqueItems\":true}}",
      400,
      { "guided_json", "/uniqueItems" } },
    { "an expression that is wrong",
      "/v1/completions",
      "{\"prompt\":\"a\",\"guided_regex\":\"(a\"}",
      400,
      { "guided_regex" } },
    { "an unknown tool",
      "/v1/chat/completions",
      "{" TALK
      ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"tool_choice\":{"
      "\"type\":\"function\",\"function\":{\"name\":\"g\"}}}",
      400,
      { "tool_choice: no tool is called g" } },
    { "a tool without a name",
      "/v1/chat/completions",
      "{" TALK ",\"tools\":[{\"type\":\"function\",\"function\":{}}]}",
      400,
      { "tools[0].function.name" } },
    { "an error of messages",
      "/v1/messages",
      "{\"messages\":[{\"role\":\"tool\",\"content\":\"a\"}]}",
      400,
      { "{\"type\":\"error\",\"error\":{", "messages[0].role" } },
};

static void try(const child *s, const exchange *e)
{
    char *answer = ask(s, e->path, "", e->body);
    const char *at = body_of(answer);
    bool good = status_of(answer) == e->status;
    for (int i = 0; good && e->marks[i]; i++) {
        at = strstr(at, e->marks[i]);
        good = at != NULL;
        at += good ? strlen(e->marks[i]) : 0;
    }
    check(good, e->sentence, "%.900s", answer);
    free(answer);
}

/* The count is that of the prompt. */
static void counts(const child *s)
{
    long long counted = -1, used = -2;
    char *one = ask(s, "/v1/messages/count_tokens", "", "{" TALK "}");
    char *two = ask(s, "/v1/messages", "", "{" TALK ",\"max_tokens\":1}");
    const char *usage = strstr(two, "\"usage\":");
    sscanf(body_of(one), "{\"input_tokens\":%lld}", &counted);
    if (usage)
        sscanf(usage, "\"usage\":{\"input_tokens\":%lld", &used);
    check(counted > 0 && counted == used, "messages: tokens are counted", "%lld, not %lld", counted,
          used);
    free(one);
    free(two);
}

int main(int argc, char **argv)
{
    must(argc == 5, "serve_tools WEFT MODEL TEMPLATE OTHER", NULL);
    const char *const takes[] = { "--template", argv[3], "--no-log", "-c", "2048", argv[2], NULL };
    child s = server_start(argv[1], takes);
    counts(&s); /* before anything is cached */
    for (size_t i = 0; i < sizeof exchanges / sizeof *exchanges; i++)
        try(&s, &exchanges[i]);
    check(server_stop(&s, SIGTERM, 30) == 0, "serve: it ends after calls", "no");

    static const exchange refused = {
        "a template that does not take tools",
        "/v1/chat/completions",
        "{" TALK ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}",
        400,
        { "tools: this model's chat template does not take them" },
    };
    const char *const other[] = { "--template", argv[4], "--no-log", "-c", "2048", argv[2], NULL };
    s = server_start(argv[1], other);
    try(&s, &refused);
    check(server_stop(&s, SIGTERM, 30) == 0, "serve: it ends after a refusal", "no");
    return n_failed > 0;
}
