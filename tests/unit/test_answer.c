/* test_answer.c - answers are OpenAI's objects, byte for byte as in tests/golden/serve
 * (server/answer.c). UPDATE=1 records them. */
#include "support.h"

#include "answer.h"

#include <jansson.h>
#include <math.h>
#include <sys/stat.h>

static weft_tokenizer *tokenizer;

static int load(void **state)
{
    (void)state;
    weft_error err;
    tokenizer = weft_tokenizer_load(fixture("../models/shakespeare.gguf"), NULL, &err);
    return tokenizer ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    weft_tokenizer_free(tokenizer);
    return 0;
}

/* The ids of the small tokenizer that the tests use. */
enum { H = 40, ELL = 409, O = 79, THERE = 503, C3 = 128, A9 = 103 };

/* ---- comparing ------------------------------------------------------------------------------- */

/* Every line is JSON, or an event that has JSON. */
static void must_parse(const char *text, size_t n)
{
    for (const char *line = text, *end; line < text + n; line = end + 1) {
        json_error_t why;
        end = memchr(line, '\n', (size_t)(text + n - line));
        end = end ? end : text + n;
        const char *from = strncmp(line, "data: ", 6) == 0 ? line + 6 : line;
        if (end == line || strncmp(from, "[DONE]", 6) == 0 || strncmp(from, "event: ", 7) == 0)
            continue;
        json_t *tree = json_loadb(from, (size_t)(end - from),
                                  JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
        assert_that(tree != NULL, "%s in: %.*s", why.text, (int)(end - from), from);
        json_decref(tree);
    }
}

static void compare(const char *name, const bytes *got)
{
    char relative[128];
    size_t n;
    assert_false(got->failed);
    must_parse(got->at, got->n);
    snprintf(relative, sizeof relative, "golden/serve/%s", name);
    if (getenv("UPDATE")) {
        mkdir(fixture("golden/serve"), 0777);
        FILE *f = fopen(fixture(relative), "wb");
        assert_non_null(f);
        fwrite(got->at, 1, got->n, f);
        fclose(f);
    }
    char *want = read_whole(fixture(relative), &n);
    assert_that(n == got->n && memcmp(want, got->at, n) == 0, "%s: found\n%s\nexpected\n%.*s", name,
                got->at, (int)n, want);
    free(want);
}

static answer begin(endpoint e, choice *choices, int n)
{
    answer a = { .endpoint = e,
                 .created = 1700000000,
                 .model = "small",
                 .tokenizer = tokenizer,
                 .choices = choices,
                 .n_choice = n,
                 .n_prompt = 7,
                 .n_cached = 5,
                 .queue_s = 0.5,
                 .prompt_s = 0.25,
                 .generate_s = 2 };
    static const char *const ids[N_ENDPOINT] = { [ENDPOINT_COMPLETIONS] = "cmpl-1",
                                                 [ENDPOINT_CHAT] = "chatcmpl-1",
                                                 [ENDPOINT_RESPONSES] = "resp_1",
                                                 [ENDPOINT_MESSAGES] = "msg_1" };
    strcpy(a.id, ids[e]);
    for (int i = 0; i < n; i++)
        choices[i].index = i;
    return a;
}

static void end(answer *a, bytes *to)
{
    for (int i = 0; i < a->n_choice; i++)
        choice_free(&a->choices[i]);
    bytes_free(to);
    assert_int_equal(atomic_load(&memory_used), 0);
}

/* ---- whole answers --------------------------------------------------------------------------- */

static void chat_whole(void **state)
{
    (void)state;
    choice c[2] = { 0 };
    bytes to = { 0 };
    answer a = begin(ENDPOINT_CHAT, c, 2);
    answer_text(&a, &c[0], "Hello \"\\\n\t\x01\x7f\xc3\xa9 there", 20);
    answer_thought(&a, &c[0], "Hm", 2);
    answer_text(&a, &c[1], "cut \xc3", 5); /* not UTF-8: replaced */
    c[0].finish = "stop";
    c[1].finish = "length";
    c[0].n_new = 4, c[1].n_new = 9, c[0].n_thought = 1;
    answer_whole(&a, &to);
    compare("chat.json", &to);
    end(&a, &to);
}

static const weft_logprob probs[] = { { H, -0.5 }, { O, -0.25 }, { H, -0.5 } };

static void chat_logprobs(void **state)
{
    (void)state;
    choice c[1] = { 0 };
    bytes to = { 0 };
    answer a = begin(ENDPOINT_CHAT, c, 1);
    const weft_logprob cut[] = { { C3, -INFINITY }, { A9, -1e-9 }, { -1, 0 } };
    a.wants_logprobs = true;
    a.n_top = 2;
    answer_text(&a, &c[0], "H\xc3\xa9", 3);
    answer_token(&a, &c[0], H, probs);
    answer_token(&a, &c[0], C3, cut);
    c[0].finish = "stop";
    c[0].n_new = 2;
    answer_whole(&a, &to);
    compare("chat-logprobs.json", &to);
    end(&a, &to);
}

/* An echoed prompt: the first token has no log-probability. */
static void completion_logprobs(void **state)
{
    (void)state;
    choice c[1] = { 0 };
    bytes to = { 0 };
    answer a = begin(ENDPOINT_COMPLETIONS, c, 1);
    const weft_logprob ell[] = { { ELL, -2.5 }, { O, -0.125 }, { ELL, -2.5 } };
    const weft_logprob cut[] = { { C3, -3 }, { THERE, -0.0625 }, { -1, 0 } };
    a.wants_logprobs = true;
    a.n_top = 2;
    answer_text(&a, &c[0], "Hell\xc3\xa9o", 7);
    answer_token(&a, &c[0], H, NULL);
    answer_token(&a, &c[0], ELL, ell);
    answer_token(&a, &c[0], C3, cut);
    answer_token(&a, &c[0], A9, cut);
    answer_token(&a, &c[0], O, ell);
    c[0].finish = "length";
    answer_whole(&a, &to);
    compare("completion-logprobs.json", &to);
    end(&a, &to);
}

static void completion_plain(void **state)
{
    (void)state;
    choice c[2] = { 0 };
    bytes to = { 0 };
    answer a = begin(ENDPOINT_COMPLETIONS, c, 2);
    answer_text(&a, &c[0], "one", 3);
    answer_token(&a, &c[0], H, probs); /* not wanted: nothing is kept */
    c[0].finish = "stop";
    c[1].finish = "length";
    answer_whole(&a, &to);
    compare("completion.json", &to);
    end(&a, &to);
}

/* ---- streams --------------------------------------------------------------------------------- */

static void chat_stream(void **state)
{
    (void)state;
    choice c[2] = { 0 };
    bytes to = { 0 };
    answer a = begin(ENDPOINT_CHAT, c, 2);
    a.stream = a.include_usage = true;
    answer_thought(&a, &c[0], "Hm", 2);
    answer_chunk(&a, &c[0], &to);
    answer_chunk(&a, &c[1], &to); /* only its role */
    answer_chunk(&a, &c[1], &to); /* nothing */
    answer_text(&a, &c[0], "\xf0\x9f\x98\x80", 4);
    answer_chunk(&a, &c[0], &to);
    c[0].finish = "stop";
    answer_chunk(&a, &c[0], &to);
    answer_text(&a, &c[1], "b", 1);
    c[1].finish = "length";
    answer_chunk(&a, &c[1], &to);
    c[0].n_new = 3, c[1].n_new = 1, c[0].n_thought = 1;
    answer_stream_end(&a, &to);
    compare("chat-stream.txt", &to);
    assert_null(strstr(to.at, "\"finish_reason\":\"\""));
    end(&a, &to);
}

static void completion_stream(void **state)
{
    (void)state;
    choice c[1] = { 0 };
    bytes to = { 0 };
    answer a = begin(ENDPOINT_COMPLETIONS, c, 1);
    a.stream = a.wants_logprobs = true;
    answer_token(&a, &c[0], H, probs); /* its text is held back */
    answer_chunk(&a, &c[0], &to);
    answer_token(&a, &c[0], O, probs);
    answer_text(&a, &c[0], "Ho", 2);
    answer_chunk(&a, &c[0], &to);
    c[0].finish = "length";
    answer_chunk(&a, &c[0], &to);
    answer_stream_end(&a, &to);
    compare("completion-stream.txt", &to);
    end(&a, &to);
}

/* ---- calls and blocks ------------------------------------------------------------------------ */

/* What a model says: its thinking, a text, a call, a text with a quote, a call without arguments,
 * and one that ends too early in all three ways. */
static const struct said {
    int event; /* -1: thinking */
    const char *text;
} said[] = {
    { -1, "H" },
    { -1, "m" },
    { WEFT_CALL_TEXT, "Hi" },
    { WEFT_CALL_BEGINS, "add" },
    { WEFT_CALL_ARGUMENTS, "{\"x\":[1," },
    { WEFT_CALL_ARGUMENTS, "\"}\\\"\"]}" },
    { WEFT_CALL_ENDS, "" },
    { WEFT_CALL_TEXT, "" },
    { WEFT_CALL_TEXT, "\"so\"" },
    { WEFT_CALL_BEGINS, "now" },
    { WEFT_CALL_ENDS, "" },
    { WEFT_CALL_BEGINS, "cut" },
    { WEFT_CALL_ARGUMENTS, "{\"a\":{}" },
    { WEFT_CALL_ENDS, "" },
    { WEFT_CALL_BEGINS, "cut" },
    { WEFT_CALL_ARGUMENTS, "{}\"" },
    { WEFT_CALL_ENDS, "" },
};

static void say(answer *a, choice *c, const char *finish, const char *stopped_by, bytes *to)
{
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        const size_t n = strlen(said[i].text);
        if (said[i].event < 0)
            answer_thought(a, c, said[i].text, n);
        else
            answer_call(a, c, (weft_call_event)said[i].event, said[i].text, n);
        if (a->stream)
            answer_chunk(a, c, to);
    }
    if (strcmp(finish, "tool_calls") != 0)
        answer_text(a, c, "end", 3);
    c->finish = finish;
    c->stopped_by = stopped_by;
    c->n_new = 9, c->n_thought = 2;
    if (a->stream) {
        answer_chunk(a, c, to);
        answer_stream_end(a, to);
    } else
        answer_whole(a, to);
}

static void calls(void **state)
{
    (void)state;
    static const struct {
        endpoint e;
        bool stream;
        const char *finish, *stopped_by, *file;
        request asked;
    } answers[] = {
        { ENDPOINT_CHAT, false, "tool_calls", NULL, "chat-calls.json", { 0 } },
        { ENDPOINT_CHAT, true, "tool_calls", NULL, "chat-calls-stream.txt", { 0 } },
        { ENDPOINT_RESPONSES, false, "tool_calls", NULL, "responses.json", { .must_call = true } },
        { ENDPOINT_RESPONSES, true, "stop", NULL, "responses-stream.txt", { .no_calls = true } },
        { ENDPOINT_RESPONSES, false, "length", NULL, "responses-cut.json", { .top_p = 0.5 } },
        { ENDPOINT_RESPONSES, true, "length", NULL, "responses-cut-stream.txt", { 0 } },
        { ENDPOINT_MESSAGES, false, "tool_calls", NULL, "messages.json", { 0 } },
        { ENDPOINT_MESSAGES, true, "stop", "x", "messages-stream.txt", { 0 } },
        { ENDPOINT_MESSAGES, false, "length", NULL, "messages-cut.json", { 0 } },
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        choice c[1] = { 0 };
        bytes to = { 0 };
        answer a = begin(answers[i].e, c, 1);
        a.stream = answers[i].stream;
        a.asked = &answers[i].asked;
        say(&a, c, answers[i].finish, answers[i].stopped_by, &to);
        compare(answers[i].file, &to);
        end(&a, &to);
    }
}

/* An answer of nothing has no blocks; a call alone has no text. */
static void empty_blocks(void **state)
{
    (void)state;
    static const endpoint all[] = { ENDPOINT_RESPONSES, ENDPOINT_MESSAGES, ENDPOINT_CHAT };
    static const request asked;
    bytes to = { 0 };
    for (int i = 0; i < 6; i++) {
        choice c[1] = { 0 };
        answer a = begin(all[i / 2], c, 1);
        a.stream = i % 2;
        a.asked = &asked;
        c->finish = "stop";
        if (all[i / 2] == ENDPOINT_CHAT) {
            answer_call(&a, c, WEFT_CALL_BEGINS, "f", 1);
            answer_call(&a, c, WEFT_CALL_ENDS, "", 0);
        }
        if (a.stream) {
            answer_chunk(&a, c, &to);
            answer_stream_end(&a, &to);
        } else {
            answer_whole(&a, &to);
            bytes_text(&to, "\n");
        }
        choice_free(c);
    }
    compare("empty.txt", &to);
    bytes_free(&to);
}

/* ---- the others ------------------------------------------------------------------------------ */

static void others(void **state)
{
    (void)state;
    bytes to = { 0 };
    refusal why;
    const char *const paths[] = { "/tokenize", "/v1/score", NULL };
    const served models[] = { { "a\"b", "a", NULL, 1700000000, 256, paths, true },
                              { "c:d", "./d", "c", 1, 4096, NULL, false } };
    const float vectors[] = { 1, -0.5f, 3.14159274f, 0, 1e-30f, 65504 };
    const int32_t ids[] = { 1, 0, INT32_MAX };
    refuse(&why, 400, INVALID_REQUEST, "invalid_value", "n", "n: found %d; \xff \"q\"", 9);
    answer_error(ENDPOINT_CHAT, &why, &to);
    bytes_text(&to, "\n");
    refuse(&why, 503, "server_error", NULL, NULL, "stopped");
    answer_error_event(ENDPOINT_CHAT, &why, &to);
    answer_error_event(ENDPOINT_RESPONSES, &why, &to);
    answer_error_event(ENDPOINT_MESSAGES, &why, &to);
    answer_error(ENDPOINT_COUNT, &why, &to);
    bytes_text(&to, "\n");
    answer_count(INT64_MAX, &to);
    bytes_text(&to, "\n");
    for (int i = 0; i < 2; i++) {
        wire w = wire_to(&to);
        answer_model(&models[i], &w);
        bytes_text(&to, "\n");
    }
    answer_embeddings("m", vectors, 2, 3, false, 12, &to);
    bytes_text(&to, "\n");
    answer_embeddings("m", vectors, 2, 3, true, 12, &to);
    bytes_text(&to, "\n");
    answer_embeddings("m", vectors, 1, 1, true, 1, &to);
    bytes_text(&to, "\n");
    answer_embeddings("m", vectors, 1, 2, true, 1, &to);
    bytes_text(&to, "\n");
    answer_ids(ids, 3, 256, &to);
    bytes_text(&to, "\n");
    answer_ids(NULL, 0, 256, &to);
    bytes_text(&to, "\n");
    answer_plain("prompt", "a\0b\xe2\x82", 5, &to);
    bytes_text(&to, "\n");
    compare("others.txt", &to);
    bytes_free(&to);
}

/* Every pair of bytes becomes valid UTF-8, and valid ones stay. */
static void any_bytes(void **state)
{
    (void)state;
    int64_t n_good = 0;
    for (unsigned i = 0; i < 1u << 16; i++) {
        bytes to = { 0 };
        const char text[] = { (char)(i >> 8), (char)i, 'x' };
        wire_quote(&to, text, sizeof text);
        json_t *back = json_loadb(to.at, to.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_that(back != NULL, "bytes %04x become %s", i, to.at);
        const bool same = json_string_length(back) == sizeof text &&
                          memcmp(json_string_value(back), text, sizeof text) == 0;
        assert_that(same == wire_is_utf8(text, sizeof text), "bytes %04x become %s", i, to.at);
        n_good += same;
        json_decref(back);
        bytes_free(&to);
    }
    assert_int_equal(n_good, 128 * 128 + 30 * 64);
}

/* The code points at the edges of UTF-8. */
static void edges_of_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
    } edges[] = { { "\x7f", 1 },
                  { "\xc2\x80", 2 },
                  { "\xc1\xbf", 0 },
                  { "\xdf\xbf", 2 },
                  { "\xe0\xa0\x80", 3 },
                  { "\xe0\x9f\xbf", 0 },
                  { "\xed\x9f\xbf", 3 },
                  { "\xed\xa0\x80", 0 },
                  { "\xee\x80\x80", 3 },
                  { "\xef\xbf\xbf", 3 },
                  { "\xf0\x90\x80\x80", 4 },
                  { "\xf0\x8f\xbf\xbf", 0 },
                  { "\xf4\x8f\xbf\xbf", 4 },
                  { "\xf4\x90\x80\x80", 0 },
                  { "\xf5\x80\x80\x80", 0 },
                  { "\x80", 0 },
                  { "\xe2\x82", 0 },
                  { "\xf0\x9f\x98", 0 },
                  { "\xf0\x9f\x98x", 0 },
                  { "\xe2\x82x", 0 },
                  { "\xc3x", 0 } };
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        assert_int_equal(wire_utf8(edges[i].text, strlen(edges[i].text)), edges[i].n);
}

/* Every allocation fails once. */
static void without_memory(void **state)
{
    (void)state;
    int n_failed = 0;
    for (bool failed = true; failed;) {
        choice c[1] = { 0 };
        bytes to = { 0 };
        answer a = begin(ENDPOINT_COMPLETIONS, c, 1);
        a.wants_logprobs = true;
        a.n_top = 2;
        atomic_store(&memory_fail_at, n_failed + 1);
        answer_text(&a, &c[0], "Ho", 2);
        answer_token(&a, &c[0], H, probs);
        answer_whole(&a, &to);
        failed = atomic_exchange(&memory_fail_at, 0) == -1;
        assert_that(to.failed == failed, "allocation %d is refused, but the answer is %s",
                    n_failed + 1, to.failed ? "not good" : "good");
        n_failed += failed;
        end(&a, &to);
    }
    assert_true(n_failed > 5);
}

/* Arguments too long for memory, or a reader of calls without it: the answer is not good, though
 * nothing comes after. */
static void cut_by_memory(void **state)
{
    (void)state;
    static const endpoint all[] = { ENDPOINT_RESPONSES, ENDPOINT_MESSAGES, ENDPOINT_CHAT };
    static const request asked;
    static char arguments[1 << 16];
    memset(arguments, ' ', sizeof arguments);
    memcpy(arguments, "{}", 2);
    for (int i = 0; i < 12; i++) {
        choice c[1] = { 0 };
        bytes to = { 0 };
        answer a = begin(all[i / 4], c, 1);
        a.stream = i % 2;
        a.asked = &asked;
        answer_call(&a, c, WEFT_CALL_BEGINS, "f", 1);
        answer_call(&a, c, WEFT_CALL_ARGUMENTS, "{}", 2);
        if (i % 4 < 2)
            c->text.failed = true;
        else
            atomic_store(&memory_fail_at, 1);
        answer_call(&a, c, WEFT_CALL_ARGUMENTS, arguments, sizeof arguments);
        atomic_store(&memory_fail_at, 0);
        answer_call(&a, c, WEFT_CALL_ENDS, "", 0);
        c->finish = "tool_calls";
        if (a.stream)
            answer_chunk(&a, c, &to);
        else
            answer_whole(&a, &to);
        assert_that(to.failed, "answer %d is good", i);
        end(&a, &to);
    }
}

/* Likewise of calls and blocks, in every API, whole and as a stream. */
static void calls_without_memory(void **state)
{
    (void)state;
    static const endpoint all[] = { ENDPOINT_RESPONSES, ENDPOINT_MESSAGES, ENDPOINT_CHAT };
    static const request asked;
    for (int i = 0; i < 12; i++) {
        int n_failed = 0;
        for (bool failed = true; failed;) {
            choice c[1] = { 0 };
            bytes to = { 0 };
            answer a = begin(all[i / 4], c, 1);
            a.stream = i % 2;
            a.asked = &asked;
            atomic_store(&memory_fail_at, n_failed + 1);
            say(&a, c, i % 4 < 2 ? "stop" : "tool_calls", NULL, &to);
            failed = atomic_exchange(&memory_fail_at, 0) == -1;
            assert_that(to.failed == failed, "answer %d, allocation %d is refused: it is %s", i,
                        n_failed + 1, to.failed ? "not good" : "good");
            n_failed += failed;
            end(&a, &to);
        }
        assert_true(n_failed > 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("answer: a chat completion", chat_whole),
        TEST("answer: a chat completion with log-probabilities", chat_logprobs),
        TEST("answer: a completion", completion_plain),
        TEST("answer: a completion with echo and log-probabilities", completion_logprobs),
        TEST("answer: a stream of chat chunks", chat_stream),
        TEST("answer: a stream of completion chunks", completion_stream),
        TEST("answer: calls and blocks of every API", calls),
        TEST("answer: blocks of nothing", empty_blocks),
        TEST("answer: errors, models, embeddings, tokens", others),
        TEST("answer: any bytes become valid JSON", any_bytes),
        TEST("answer: the edges of UTF-8", edges_of_utf8),
        TEST("answer: without memory it says so and nothing is left", without_memory),
        TEST("answer: calls without memory", calls_without_memory),
        TEST("answer: a last call that memory cuts is not good", cut_by_memory),
    };
    return cmocka_run_group_tests_name(__FILE__, tests, load, unload);
}
