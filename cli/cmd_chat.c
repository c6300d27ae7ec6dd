/* weft chat - a conversation: what you write, in the form that the model was trained on, and its
 * answers. chat.h lists the files. */
#include "chat.h"
#include "messages.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *positional[1]; /* MODEL */
static load_options load;
static shape_options shape;
static chat talk = { .command = &command_chat, .n_predict = -1 };
static const char *system_text, *first, *date, *saved, *pre, *lora;
static bool interactive, no_history;

static const option options[] = {
    OPTION_MODEL(load),
    { 'p', "prompt", OPT_TEXT, &first, "TEXT", 0, "answer TEXT and exit" },
    { 'i', "interactive", OPT_FLAG, &interactive, NULL, RARE, "with -p: stay for more messages" },
    { 0, "system", OPT_TEXT, &system_text, "TEXT", SETTING, "system message" },
    { 0, "load", OPT_TEXT, &saved, "FILE", 0, "start from a conversation saved by /save" },
    { 'n', "predict", OPT_INT, &talk.n_predict, "N", SETTING,
      "maximum tokens of an answer (-1: until the model ends it)" },
    { 0, "stop", OPT_LIST, &talk.stops, "TEXT", SETTING | RARE,
      "stop before TEXT; may be repeated" },
    { 0, "think", OPT_CHOICE, &talk.think, "on|off|hide", SETTING,
      "thinking: shown dim, none, or hidden (the model's)" },
    { 0, "tools", OPT_TEXT, &talk.tools.file, "FILE", 0,
      "tools that the model may call: a JSON list in OpenAI's form" },
    { 0, "tool-choice", OPT_TEXT, &talk.tools.choice, "CHOICE", RARE,
      "auto, required, none, or the one tool to call (auto)" },
    { 0, "tool-run", OPT_TEXT, &talk.tools.run, "CMD", RARE,
      "run CMD NAME for each call, arguments on its stdin" },
    { 0, "timing", OPT_FLAG, &talk.timing, NULL, SETTING | RARE,
      "print tokens and speed after each answer" },
    { 0, "when-full", OPT_CHOICE, &talk.when_full, "stop|drop", SETTING | RARE,
      "full context: stop, or forget the oldest messages (stop)" },
    { 0, "template", OPT_TEXT, &talk.template_path, "FILE", RARE,
      "use this template (the model's)" },
    { 0, "date", OPT_TEXT, &date, "DATE", RARE, "date for the template, as 2026-12-31 (today)" },
    { 0, "no-history", OPT_FLAG, &no_history, NULL, SETTING | RARE,
      "do not read or keep the lines you type" },
    OPTION_CTX_SIZE(shape),
    OPTION_BATCH_SIZE(shape),
    OPTION_THREADS(shape.threads),
    OPTION_KV_TYPE(shape),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_NO_PACK(load.no_pack),
    OPTION_COMPUTE(load),
    OPTION_LORA(lora),
    OPTION_TOKENIZER(load),
    OPTION_PRE(pre),
    { 0 },
};

static const char examples[] =
    "  weft chat ./model-directory --system \"Answer in one sentence.\" --temp 0.7\n"
    "  weft chat model.gguf -p \"Why is the sky blue?\"\n";

/* ---- a turn ---------------------------------------------------------------------------------- */

static bool is_blank(const cli_text *t)
{
    return !t->at || strspn(t->at, " \t\n\r") == t->n;
}

static bool awaits_result(const chat *c)
{
    return conversation_pending(&c->talk, NULL, NULL) != NULL;
}

/* At a prompt, a turn that failed has said why, and the next may do better. */
static int take_turn(chat *c, const cli_text *t, bool may_command)
{
    if ((is_blank(t) && !awaits_result(c)) || (may_command && chat_command(c, t->at)))
        return 0;
    const int code = chat_say(c, t->at, t->n);
    return c->terminal && !cli_interrupted() && !ferror(stdout) ? 0 : code;
}

/* The results of all calls, from the command of --tool-run. One that fails leaves its call to the
 * user, if there is one. */
static int run_tools(chat *c)
{
    cli_text t = { 0 };
    int code = 0;
    while (!code && c->tools.run && awaits_result(c)) {
        code = chat_tools_run(c, &t);
        if (!code)
            code = chat_say(c, t.at, t.n);
    }
    cli_text_free(&t);
    if (code && c->terminal && cli_interrupted() && cli_forget_interrupt())
        return 0;
    return c->terminal && !cli_interrupted() && !ferror(stdout) ? 0 : code;
}

/* Until the end of standard input, /quit, a signal, or Ctrl-C twice; with `once`, until no call awaits
 * its result. */
static int converse(chat *c, bool once)
{
    cli_text t = { 0 };
    char prompt[CHAT_MAX_PROMPT];
    int code = run_tools(c), n_cleared = 0;
    while (!code && !c->leaving && (!once || awaits_result(c))) {
        const line_end end = chat_line_message(chat_prompt(c, prompt), &t);
        if (end == LINE_END)
            break;
        if (end == LINE_FAILED)
            code = chat_line_code();
        else if (end == LINE_CLEARED && ++n_cleared == 2)
            code = EXIT_SIGNAL + 2;
        else if (end == LINE_CLEARED)
            fputs("(Ctrl-C again leaves, as does Ctrl-D)\n", stderr);
        else {
            n_cleared = 0;
            code = take_turn(c, &t, end == LINE_TEXT);
            code = code ? code : run_tools(c);
            if (cli_interrupted() && !code)
                code = cli_stopped();
        }
    }
    cli_text_free(&t);
    return code;
}

static int talk_to(chat *c)
{
    int code = first ? chat_say(c, first, strlen(first)) : 0;
    const bool once = first && !interactive;
    if ((once && !awaits_result(c)) || (code && !c->terminal))
        return code;
    chat_line_open(isatty(STDIN_FILENO), !no_history);
    if (c->terminal)
        fprintf(stderr, "weft: %s; /help lists commands, Ctrl-D leaves\n", c->path);
    code = cli_interrupted() ? cli_stopped() : converse(c, once);
    chat_line_close();
    return code;
}

/* ---- before it ------------------------------------------------------------------------------- */

static int check_options(void)
{
    const command *c = &command_chat;
    if (!load.path)
        return cli_which_model(c);
    if (talk.n_predict != -1 && talk.n_predict < 1)
        return cli_usage(c, "--predict: %lld is not -1 or a number of tokens",
                         (long long)talk.n_predict);
    if (first && !*first)
        return cli_usage(c, "--prompt: an empty text; expected a message");
    if (!cli_date(date, &talk.now))
        return cli_usage(c, "--date: \"%s\"; expected a date such as 2026-12-31", date);
    return chat_tools_check(&talk);
}

/* The template of --template, or of the model. */
static int open_template(chat *c)
{
    weft_error err = { 0 };
    c->template = cli_template(load.path, c->template_path, NULL, &err);
    if (!c->template) {
        if (err.code == WEFT_EUNSUPPORTED && !c->template_path)
            cli_detail("--template FILE gives one; weft run continues a text without it.\n");
        return cli_fail(&err);
    }
    c->info.struct_size = sizeof c->info;
    weft_template_get_info(c->template, &c->info);
    lora_check_template(lora, c->template);
    if (system_text && *system_text && !c->info.system)
        return cli_usage(&command_chat, "--system: this model's template takes no system message");
    if (c->think == THINK_OFF && !c->info.thinking)
        return cli_usage(&command_chat, "--think off: this model's template has no switch for "
                                        "thinking; --think hide hides it");
    return 0;
}

static int open_session(chat *c, const weft_engine_options *o)
{
    weft_error err = { 0 };
    weft_engine_info info = { .struct_size = sizeof info };
    int code = 0;
    c->engine = weft_engine_new(c->model, o, &err);
    if (c->engine)
        c->session = lora_session(&c->lora, c->engine, NULL, &err);
    if (!c->session)
        return cli_fail(&err);
    weft_engine_get_info(c->engine, &info);
    c->n_ctx = info.n_ctx;
    c->sampler = cli_sampler(&command_chat, c->model, c->tokenizer, &code);
    return code;
}

static int begin_conversation(chat *c)
{
    int code = saved ? conversation_load(&c->talk, saved) : 0;
    if (!code && system_text &&
        !conversation_set_system(&c->talk, system_text, strlen(system_text)))
        code = cli_no_memory();
    return code;
}

static void chat_free(chat *c)
{
    conversation_free(&c->talk);
    cli_free(c->tools.list);
    weft_sampler_free(c->sampler);
    weft_constraint_free(c->constraint);
    weft_session_free(c->session);
    weft_engine_free(c->engine);
    weft_adapter_close(c->lora.adapter);
    weft_template_free(c->template);
    weft_tokenizer_free(c->tokenizer);
    weft_model_close(c->model);
}

static int chat_main(void)
{
    weft_engine_options engine_options;
    weft_error err = { 0 };
    chat *c = &talk;
    load.path = positional[0] ? positional[0] : load.path;
    int code = check_options();
    if (!code)
        code = cli_engine_options(&command_chat, &shape, &engine_options);
    if (!code)
        code = begin_conversation(c);
    if (code)
        return code;
    c->path = load.path;
    c->terminal = isatty(STDIN_FILENO) && (!first || interactive);
    cli_catch_interrupt();
    code = cli_open_kind(&load, false, &c->model);
    if (!code)
        code = lora_open(&command_chat, lora, c->model, &c->lora, &engine_options.adapter_rank);
    if (!code && !(c->tokenizer = cli_tokenizer(&load, pre, &err)))
        code = cli_fail(&err);
    if (!code)
        code = open_template(c);
    if (!code)
        code = chat_tools_open(c);
    if (!code)
        code = open_session(c, &engine_options);
    if (!code)
        code = talk_to(c);
    chat_free(c);
    return code;
}

const command command_chat = {
    .name = "chat",
    .arguments = "MODEL",
    .summary = "talk with a model; /help lists commands",
    .examples = examples,
    .options = options,
    .more = sampling_options,
    .n_positional = 1,
    .positional = positional,
    .main = chat_main,
};
