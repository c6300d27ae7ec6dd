/* chat_answer.c - an answer: the conversation rendered, tokens generated, text shown as it comes.
 *
 * Every turn renders the whole conversation, because a template may write older turns in another
 * way than the last one (thinking is dropped). The session computes only what differs from the
 * turn before. */
#include "chat.h"
#include "think.h"

#include <string.h>

void chat_print_timing(const chat *c)
{
    const weft_generation *g = &c->made;
    const int64_t n_computed = g->n_prompt - g->n_reused;
    fprintf(stderr, "weft: prompt %lld tokens: %lld reused, %lld computed", (long long)g->n_prompt,
            (long long)g->n_reused, (long long)n_computed);
    if (n_computed > 0 && g->prompt_seconds > 0)
        fprintf(stderr, ", %.1f tok/s", (double)n_computed / g->prompt_seconds);
    fprintf(stderr, "; generated %lld", (long long)g->n_new);
    if (g->n_new > 0 && g->generate_seconds > 0)
        fprintf(stderr, ", %.1f tok/s", (double)g->n_new / g->generate_seconds);
    fputc('\n', stderr);
}

/* ---- the prompt ------------------------------------------------------------------------------ */

weft_rendered *chat_render(const chat *c, bool answering, weft_error *err)
{
    cli_text messages = { 0 };
    const weft_render_options o = {
        .struct_size = sizeof o,
        .tools = c->tools.list,
        .variables = !c->info.thinking       ? NULL
                     : c->think == THINK_ON  ? "{\"enable_thinking\": true}"
                     : c->think == THINK_OFF ? "{\"enable_thinking\": false}"
                                             : NULL,
        .no_generation_prompt = !answering,
        .now = c->now,
    };
    weft_rendered *r = NULL;
    if (conversation_json(&c->talk, &messages))
        r = weft_template_render(c->template, c->tokenizer, messages.at, messages.n, &o, err);
    else
        *err = cli_refusal();
    cli_text_free(&messages);
    return r;
}

/* Says that the conversation does not fit, and what to do. */
static int full(const chat *c, int64_t n)
{
    fprintf(stderr, "weft: the conversation has %lld tokens; the context holds %lld\n",
            (long long)n, (long long)c->n_ctx);
    fputs(c->terminal ? "/undo takes back the last message and its answer, /clear starts again; "
                        "--when-full drop forgets the oldest, -c sets the size.\n"
                      : "Use a larger --ctx-size, up to the model's, or --when-full drop.\n",
          stderr);
    return 1;
}

/* Renders what fits. Where the oldest messages may go, a quarter of the context is for the
 * answer. */
static int make_prompt(chat *c, weft_rendered **prompt)
{
    weft_error err = { 0 };
    const bool drops = c->when_full == FULL_DROP;
    int64_t n_dropped = 0;
    for (;;) {
        *prompt = chat_render(c, true, &err);
        if (!*prompt)
            return cli_fail(&err);
        const int64_t n = (*prompt)->tokens->n, n_before = c->talk.n;
        const bool fits = n + (drops ? c->n_ctx / 4 : 1) <= c->n_ctx;
        if (fits || !drops || !conversation_drop_oldest(&c->talk)) {
            if (n_dropped)
                fprintf(stderr,
                        "weft: the context of %lld tokens is full: forgotten: the oldest %lld "
                        "message%s\n",
                        (long long)c->n_ctx, (long long)n_dropped, n_dropped == 1 ? "" : "s");
            return n < c->n_ctx ? 0 : full(c, n);
        }
        n_dropped += n_before - c->talk.n;
        weft_rendered_free(*prompt);
    }
}

/* Does the prompt end inside the thinking? Blanks may follow the fence. */
static bool begins_thinking(const weft_rendered *r, const char *fence)
{
    size_t n = r->length;
    const size_t length = fence ? strlen(fence) : 0;
    while (n > 0 && (r->text[n - 1] == '\n' || r->text[n - 1] == ' '))
        n--;
    return length && n >= length && memcmp(r->text + n - length, fence, length) == 0;
}

/* ---- the answer ------------------------------------------------------------------------------ */

typedef struct answer {
    const chat *chat;
    thinking thinking;
    bool thinks; /* the last text was thinking */
    call_finder calls;
    cli_text content, reasoning;
    bool pale;       /* the screen shows thinking ... */
    bool line_ended; /* ... up to the end of a line */
    bool failed;     /* no memory, or no standard output */
} answer;

static void end_thinking(answer *a)
{
    if (a->pale)
        fprintf(stderr, "%s%s\n", cli_style(stderr, STYLE_PLAIN), a->line_ended ? "" : "\n");
    a->pale = false;
}

static void show_thinking(answer *a, const char *bytes, size_t n)
{
    if (a->chat->think == THINK_HIDE)
        return;
    if (!a->pale)
        fputs(cli_style(stderr, STYLE_PALE), stderr);
    a->pale = true;
    a->line_ended = bytes[n - 1] == '\n';
    cli_put(stderr, bytes, n);
}

static void take_content(void *ud, const char *bytes, size_t n)
{
    answer *a = ud;
    a->failed = !cli_text_add(&a->content, bytes, n) || a->failed;
    cli_put(stdout, bytes, n);
    a->failed = fflush(stdout) != 0 || a->failed;
}

static void take_part(void *ud, bool thinks, const char *bytes, size_t n)
{
    answer *a = ud;
    if (a->failed)
        return;
    a->thinks = thinks;
    if (thinks) {
        a->failed = !cli_text_add(&a->reasoning, bytes, n);
        show_thinking(a, bytes, n);
        return;
    }
    end_thinking(a);
    call_finder_push(&a->calls, bytes, n);
}

/* Calls may be marked by special tokens, which are no text. */
static void take_special(answer *a, int32_t id)
{
    const weft_tokenizer *t = a->chat->tokenizer;
    size_t n = 0;
    if (id < 0 || !a->calls.reader || a->thinks || !weft_tokenizer_is_special(t, id))
        return;
    const char *spelled = weft_tokenizer_token(t, id, &n);
    if (spelled) {
        end_thinking(a);
        call_finder_push(&a->calls, spelled, n);
    }
}

static bool take_token(void *ud, const weft_generated *token)
{
    answer *a = ud;
    cli_progress_end();
    think_feed(&a->thinking, token->text, token->length);
    take_special(a, token->id);
    a->failed = a->failed || a->calls.failed;
    return !a->failed && !cli_interrupted();
}

static bool still_reading(void *ud, uint64_t done, uint64_t total)
{
    (void)ud;
    cli_progress_set(done, total);
    return !cli_interrupted();
}

static void trim(cli_text *t)
{
    size_t from = 0;
    while (t->n > 0 && strchr(" \n\t\r", t->at[t->n - 1]))
        t->at[--t->n] = '\0';
    while (from < t->n && strchr(" \n\t\r", t->at[from]))
        from++;
    if (from)
        memmove(t->at, t->at + from, t->n + 1 - from);
    t->n -= from;
}

/* The answer becomes a message, which owns its text. */
static bool keep(chat *c, answer *a)
{
    message *m = conversation_add(&c->talk, "assistant");
    if (!m)
        return false;
    trim(&a->reasoning);
    if (a->content.at) {
        cli_text_free(&m->content);
        m->content = a->content;
    }
    m->reasoning = a->reasoning;
    m->calls = a->calls.made;
    a->content = a->reasoning = (cli_text){ 0 };
    a->calls.made = (call_list){ 0 };
    return true;
}

/* Why it ended, unless the model ended it. */
static void print_end_reason(const chat *c)
{
    if (c->made.finish == WEFT_FINISH_LENGTH)
        fprintf(stderr, "weft: the answer was cut after %lld token%s: --predict\n",
                (long long)c->made.n_new, c->made.n_new == 1 ? "" : "s");
    else if (c->made.finish == WEFT_FINISH_CONTEXT)
        fprintf(stderr, "weft: the answer was cut: the context of %lld tokens is full\n",
                (long long)c->n_ctx);
    else if (c->made.finish == WEFT_FINISH_CALLER && c->terminal)
        fputs("weft: stopped; the part above is kept\n", stderr);
}

/* The form of the answer, or its calls, begin after the thinking. */
static int compile(chat *c)
{
    const weft_grammar_options form = { .struct_size = sizeof form,
                                        .model = c->model,
                                        .think_begin = c->info.think_begin,
                                        .think_end = c->info.think_end,
                                        .thinking = c->thinking };
    return c->tools.calls ? chat_tools_constraint(c, &form, c->must_call, &c->constraint)
                          : cli_constraint(c->command, &form, c->tokenizer, &c->constraint);
}

/* Compiled for the first answer, and again only if a prompt ends differently. A call is demanded of
 * the answer to a message of the user: if results demanded one too, there would be no end. */
static int constrain(chat *c, bool inside)
{
    const bool must_call = c->tools.required && conversation_last_user(&c->talk) == c->talk.n - 1;
    if (c->constraint && c->thinking == inside && c->must_call == must_call) {
        weft_constraint_reset(c->constraint);
        return 0;
    }
    weft_constraint_free(c->constraint);
    c->constraint = NULL;
    c->thinking = inside;
    c->must_call = must_call;
    return compile(c);
}

static int generate(chat *c, answer *a, const weft_rendered *prompt)
{
    weft_error err = { 0 };
    const weft_generate_options how = {
        .struct_size = sizeof how,
        .prompt = prompt->tokens->ids,
        .n_prompt = prompt->tokens->n,
        .n_new = c->n_predict < 0 ? 0 : c->n_predict,
        .stop = c->stops.at,
        .n_stop = c->stops.n,
        .progress = still_reading,
        .constraint = c->constraint,
    };
    c->made = (weft_generation){ .struct_size = sizeof c->made };
    cli_progress_begin("prompt", "tokens");
    const weft_status status = weft_generate(c->session, c->sampler, c->tokenizer, &how, take_token,
                                             a, &c->made, &err);
    cli_progress_end();
    think_end(&a->thinking);
    end_thinking(a);
    call_finder_end(&a->calls);
    a->failed = a->failed || a->calls.failed;
    if (status != WEFT_OK)
        return cli_fail(&err);
    return a->failed ? ferror(stdout) ? 1 : cli_no_memory() : 0;
}

/* After the last token: why it ended, the timing; keeps the answer. */
static int finish(chat *c, answer *a)
{
    const bool stopped = c->made.finish == WEFT_FINISH_CALLER;
    if (stopped && c->made.n_new == 0 && c->terminal) {
        fputs("\nweft: stopped before the answer\n", stderr);
        return cli_forget_interrupt() ? 1 : cli_stopped();
    }
    if (!(a->calls.made.n && a->calls.line_ended))
        putchar('\n');
    if (fflush(stdout) != 0)
        return 1;
    print_end_reason(c);
    if (c->timing)
        chat_print_timing(c);
    if (c->terminal)
        fputc('\n', stderr);
    if (!keep(c, a))
        return cli_no_memory();
    return stopped && !(c->terminal && cli_forget_interrupt()) ? cli_stopped() : 0;
}

int chat_answer(chat *c)
{
    weft_rendered *prompt = NULL;
    answer a = { .chat = c, .thinking = { .fn = take_part }, .calls = { .text = take_content } };
    a.thinking.ud = a.calls.ud = &a;
    int code = make_prompt(c, &prompt);
    if (!code) {
        const bool inside = begins_thinking(prompt, c->info.think_begin);
        think_init(&a.thinking, c->info.think_begin, c->info.think_end, inside);
        a.thinks = inside;
        code = constrain(c, inside);
        if (!code)
            code = call_finder_begin(&a.calls, c);
        if (!code)
            code = generate(c, &a, prompt);
    }
    if (!code)
        code = finish(c, &a);
    weft_rendered_free(prompt);
    cli_text_free(&a.content);
    cli_text_free(&a.reasoning);
    call_finder_free(&a.calls);
    return code;
}

/* The message of the user, or the result of a call. */
static bool add_message(chat *c, const char *content, size_t n)
{
    const call *k = conversation_pending(&c->talk, NULL, NULL);
    message *m = conversation_add(&c->talk, k ? "tool" : "user");
    if (!k)
        c->tools.n_run = 0;
    return m && cli_text_add(&m->content, content, n) &&
           (!k || (cli_text_add(&m->id, k->id.at, k->id.n) &&
                   cli_text_add(&m->name, k->name.at, k->name.n)));
}

int chat_say(chat *c, const char *content, size_t n)
{
    const int64_t before = c->talk.n;
    if (!add_message(c, content, n)) {
        conversation_cut(&c->talk, before);
        return cli_no_memory();
    }
    if (conversation_pending(&c->talk, NULL, NULL))
        return 0;
    const int code = chat_answer(c);
    if (code && conversation_asked(&c->talk) == c->talk.n)
        conversation_cut(&c->talk, c->talk.n - 1);
    return code;
}
