/* Text about which a constraint leaves no choice skips the model: the same tokens alone and in a
 * scheduler, together and one by one, in fewer forwards; limits and stop strings count inside it. */
#include "support.h"

#include "weft.h"

#define KEYS                                                                                       \
    "{\"type\":\"object\",\"properties\":{\"first_and_last_name\":{\"type\":\"string\","           \
    "\"maxLength\":5},\"kind_of_greeting\":{\"enum\":[\"short\",\"long\"]},\"count_of_words\":{"   \
    "\"type\":\"integer\",\"minimum\":1,\"maximum\":9}},\"required\":[\"first_and_last_name\","    \
    "\"kind_of_greeting\",\"count_of_words\"],\"additionalProperties\":false}"

typedef struct table {
    weft_model *model;
    weft_tokenizer *tokenizer;
    weft_engine *engine;
    weft_grammar *grammar;
    weft_tokens *prompt;
    weft_error err;
} table;

typedef struct text {
    char bytes[1024];
    size_t n;
    int32_t ids[512];
    int64_t n_id;
    int64_t n_most; /* the callback stops after so many; 0: never */
    weft_generation made;
} text;

static void open_model(table *b, const char *path, weft_grammar_kind kind, const char *grammar,
                       int64_t n_ctx)
{
    *b = (table){ 0 };
    const weft_engine_options o = {
        .struct_size = sizeof o, .n_ctx = n_ctx, .n_session = 4, .threads = 1
    };
    b->model = weft_model_open(path, NULL, &b->err);
    b->tokenizer = b->model ? weft_tokenizer_load(path, NULL, &b->err) : NULL;
    b->engine = b->tokenizer ? weft_engine_new(b->model, &o, &b->err) : NULL;
    const weft_grammar_options with = { .struct_size = sizeof with, .model = b->model };
    if (b->engine)
        b->grammar = weft_grammar_new(b->tokenizer, kind, grammar, strlen(grammar), &with, &b->err);
    if (b->grammar)
        b->prompt = weft_tokenizer_encode(b->tokenizer, "hi there", 8, NULL, &b->err);
    if (!b->prompt)
        fail_msg("%s", b->err.message);
}

static void open_table(table *b, weft_grammar_kind kind, const char *grammar, int64_t n_ctx)
{
    open_model(b, fixture("golden/chat/chat.gguf"), kind, grammar, n_ctx);
}

static void close_table(table *b)
{
    weft_tokens_free(b->prompt);
    weft_grammar_free(b->grammar);
    weft_engine_free(b->engine);
    weft_tokenizer_free(b->tokenizer);
    weft_model_close(b->model);
}

static bool take(void *ud, const weft_generated *t)
{
    text *to = ud;
    assert_true(to->n + t->length < sizeof to->bytes);
    memcpy(to->bytes + to->n, t->text, t->length);
    to->n += t->length;
    to->bytes[to->n] = '\0';
    if (t->id >= 0)
        to->ids[to->n_id++] = t->id;
    return to->n_most == 0 || to->n_id < to->n_most;
}

static weft_generate_options options(const table *b, weft_constraint *c)
{
    return (weft_generate_options){ .struct_size = sizeof(weft_generate_options),
                                    .prompt = b->prompt->ids,
                                    .n_prompt = b->prompt->n,
                                    .n_new = 300,
                                    .constraint = c };
}

static const weft_sampler_options *seeded(uint64_t seed)
{
    static weft_sampler_options o;
    o = (weft_sampler_options){ .struct_size = sizeof o, .temperature = 1.2, .seed = seed };
    return &o;
}

/* In a session of its own; its tokens are checked against those that were passed on. */
static void alone(table *b, const weft_generate_options *o, const weft_sampler_options *z, text *to)
{
    weft_sampler *s = weft_sampler_new(b->model, z, &b->err);
    weft_session *session = weft_session_new(b->engine, &b->err);
    assert_true(s && session);
    to->made = (weft_generation){ .struct_size = sizeof to->made };
    weft_constraint_reset(o->constraint);
    if (weft_generate(session, s, b->tokenizer, o, take, to, &to->made, &b->err) != WEFT_OK)
        fail_msg("%s", b->err.message);
    assert_int_equal(to->made.n_new, to->n_id);
    int64_t n = 0;
    const int32_t *ids = weft_session_tokens(session, &n);
    const int64_t last = to->made.end_id < 0 && !o->eval_last; /* it is not evaluated */
    assert_int_equal(n, o->n_prompt + to->n_id - last);
    assert_memory_equal(ids + o->n_prompt, to->ids, (size_t)(to->n_id - last) * sizeof *ids);
    weft_session_free(session);
    weft_sampler_free(s);
}

static void same(const text *a, const text *b)
{
    assert_int_equal(a->n_id, b->n_id);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n_id * sizeof *a->ids);
    assert_string_equal(a->bytes, b->bytes);
    assert_int_equal(a->made.finish, b->made.finish);
}

static void end(void *ud, const weft_generation *info, const weft_error *err)
{
    text *to = ud;
    assert_int_equal(err->code, WEFT_OK);
    to->made = *info;
}

/* In a scheduler; returns its forwards. */
static int64_t scheduled(table *b, const weft_generate_options *o, const weft_sampler_options *z,
                         text *to)
{
    weft_scheduler_info info = { .struct_size = sizeof info };
    weft_scheduler *s = weft_scheduler_new(b->engine, NULL, &b->err);
    const weft_request r = { .struct_size = sizeof r,
                             .generate = o,
                             .sampler = z,
                             .tokenizer = b->tokenizer,
                             .fn = take,
                             .done = end,
                             .ud = to };
    weft_constraint_reset(o->constraint);
    if (!s || weft_scheduler_submit(s, &r, &b->err) == 0)
        fail_msg("%s", b->err.message);
    for (bool more = true; more;)
        assert_int_equal(weft_scheduler_step(s, &more, &b->err), WEFT_OK);
    weft_scheduler_get_info(s, &info);
    assert_int_equal(info.n_new, to->n_id);
    weft_scheduler_free(s);
    return info.n_step;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Every seed gives another text. */
static void compare(const char *path)
{
    table b;
    open_model(&b, path, WEFT_GRAMMAR_SCHEMA, KEYS, 512);
    weft_constraint *c = weft_constraint_new(b.grammar, &b.err);
    int64_t n_forward = 0, n_new = 0, n_drawn = 0;
    for (uint64_t seed = 1; seed < 13; seed++) {
        text one = { 0 }, logged = { 0 }, many = { 0 }, drawn = { 0 }, biased = { 0 };
        weft_generate_options o = options(&b, c);
        alone(&b, &o, seeded(seed), &one);
        assert_int_equal(one.made.finish, WEFT_FINISH_END);
        assert_true(weft_constraint_may_end(c) && strstr(one.bytes, "\"first_and_last_name\":"));
        n_forward += scheduled(&b, &o, seeded(seed), &many);
        n_new += many.n_id;
        same(&one, &many);
        o.n_top = 1;
        assert_int_equal(scheduled(&b, &o, seeded(seed), &logged), one.n_id);
        same(&one, &logged);
        o.n_top = 0;
        o.draw_all = true;
        const int64_t n_step = scheduled(&b, &o, seeded(seed), &drawn);
        assert_int_equal(n_step, drawn.n_id);
        n_drawn += drawn.n_id;
        o.draw_all = false;
        weft_sampler_options z = *seeded(seed);
        z.bias = &(weft_bias){ .id = 0 };
        z.n_bias = 1;
        alone(&b, &o, &z, &biased);
        same(&drawn, &biased);
    }
    print_message("%lld tokens in %lld forwards; %lld drawn\n", (long long)n_new,
                  (long long)n_forward, (long long)n_drawn);
    assert_true(3 * n_forward < 2 * n_new);
    weft_constraint_free(c);
    close_table(&b);
}

static void same_everywhere(void **state)
{
    (void)state;
    compare(fixture("golden/chat/chat.gguf"));
}

static void sentencepiece(void **state)
{
    (void)state;
    compare(asset("llama-stories260K/stories260K-f32.gguf"));
}

/* The tokenizer's tokens follow the drawn one, and its last is held back. */
static void canonical(void **state)
{
    (void)state;
    static const char all[] = "(a|b) think of all that is counted here(!|\\?)";
    table b;
    open_table(&b, WEFT_GRAMMAR_REGEX, all, 128);
    weft_constraint *c = weft_constraint_new(b.grammar, &b.err);
    text t = { 0 };
    const weft_generate_options o = options(&b, c);
    const weft_tokenize_options plain = { .struct_size = sizeof plain, .no_special = true };
    alone(&b, &o, seeded(3), &t);
    weft_tokens *k = weft_tokenizer_encode(b.tokenizer, t.bytes + 1, t.n - 2, &plain, &b.err);
    assert_non_null(k);
    assert_true(k->n > 3 && t.n_id >= k->n);
    assert_memory_equal(t.ids + 1, k->ids, (size_t)(k->n - 1) * sizeof *k->ids);
    text many = { 0 };
    assert_int_equal(scheduled(&b, &o, seeded(3), &many), t.n_id - (k->n - 1)); /* the draws */
    same(&t, &many);
    weft_tokens_free(k);
    weft_constraint_free(c);
    close_table(&b);
}

/* Each limit, at every place of a text. */
static void limits(void **state)
{
    (void)state;
    table b;
    open_table(&b, WEFT_GRAMMAR_SCHEMA, KEYS, 512);
    weft_constraint *c = weft_constraint_new(b.grammar, &b.err);
    text whole = { 0 };
    weft_generate_options o = options(&b, c);
    alone(&b, &o, seeded(1), &whole);
    for (int64_t n = 1; n < whole.n_id; n++) {
        text cut = { 0 }, more = { 0 }, stopped = { .n_most = n }, many = { .n_most = n };
        o.n_new = n;
        alone(&b, &o, seeded(1), &cut);
        assert_int_equal(cut.made.finish, WEFT_FINISH_LENGTH);
        assert_int_equal(cut.n_id, n);
        assert_memory_equal(cut.ids, whole.ids, (size_t)n * sizeof *cut.ids);
        o.eval_last = true;
        alone(&b, &o, seeded(1), &more);
        same(&cut, &more);
        o = options(&b, c);
        alone(&b, &o, seeded(1), &stopped);
        assert_int_equal(stopped.made.finish, WEFT_FINISH_CALLER);
        assert_int_equal(stopped.n_id, n);
        scheduled(&b, &o, seeded(1), &many);
        assert_int_equal(many.n_id, n);
    }
    for (const char *at = whole.bytes + 1; at[4]; at++) {
        char word[5] = { 0 };
        const char *const stop[] = { word };
        text cut = { 0 }, many = { 0 };
        memcpy(word, at, 4);
        o.stop = stop;
        o.n_stop = 1;
        alone(&b, &o, seeded(1), &cut);
        assert_int_equal(cut.made.finish, WEFT_FINISH_STOP);
        assert_int_equal(cut.n, (size_t)(strstr(whole.bytes, word) - whole.bytes));
        scheduled(&b, &o, seeded(1), &many);
        same(&cut, &many);
    }
    weft_constraint_free(c);
    close_table(&b);
}

/* A context that ends inside forced text. */
static void small_contexts(void **state)
{
    (void)state;
    for (int64_t n_ctx = 20; n_ctx < 60; n_ctx++) {
        table b;
        open_table(&b, WEFT_GRAMMAR_SCHEMA, KEYS, n_ctx);
        weft_constraint *c = weft_constraint_new(b.grammar, &b.err);
        text one = { 0 }, logged = { 0 }, many = { 0 };
        weft_generate_options o = options(&b, c);
        alone(&b, &o, seeded(1), &one);
        assert_int_equal(one.made.finish, WEFT_FINISH_CONTEXT);
        assert_int_equal(one.n_id, n_ctx - o.n_prompt + 1);
        scheduled(&b, &o, seeded(1), &many);
        same(&one, &many);
        o.n_top = 1;
        alone(&b, &o, seeded(1), &logged);
        same(&one, &logged);
        weft_constraint_free(c);
        close_table(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("forced: the same tokens everywhere, in fewer forwards", same_everywhere),
        TEST("forced: the same with a tokenizer that puts a blank before a text", sentencepiece),
        TEST("forced: tokens are the tokenizer's, and the last is held back", canonical),
        TEST("forced: limits, stop strings and callers end a text inside it", limits),
        TEST("forced: a context may end inside it", small_contexts),
    };
    return RUN(tests);
}
