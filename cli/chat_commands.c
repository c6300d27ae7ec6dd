/* chat_commands.c - /help and the other commands of a chat. What they print is no answer, so it
 * goes to stderr. */
#include "chat.h"

#include <limits.h>
#include <string.h>

typedef struct slash {
    const char *name;
    const char *argument; /* what help calls it; "": it takes none; "[...": it may be left out */
    const char *help;
    void (*run)(chat *c, const char *argument);
} slash;

/* ---- the conversation ------------------------------------------------------------------------ */

/* The old answer stays until there is a new one. */
static void regenerate(chat *c, const char *argument)
{
    (void)argument;
    const int64_t from = conversation_asked(&c->talk), n_old = c->talk.n - from;
    if (from == 0) {
        fputs("weft: /regen: there is no message yet\n", stderr);
        return;
    }
    message *old = cli_alloc((size_t)n_old + 1, sizeof *old, "the old answer");
    if (!old) {
        cli_no_memory();
        return;
    }
    memcpy(old, c->talk.at + from, (size_t)n_old * sizeof *old);
    c->talk.n = from;
    chat_answer(c);
    if (conversation_asked(&c->talk) == c->talk.n) {
        memcpy(c->talk.at + c->talk.n, old, (size_t)n_old * sizeof *old);
        c->talk.n += n_old;
    } else {
        for (int64_t i = 0; i < n_old; i++)
            message_free(&old[i]);
    }
    cli_free(old);
}

static void undo(chat *c, const char *argument)
{
    (void)argument;
    const int64_t last = conversation_last_user(&c->talk);
    if (last < 0) {
        fputs("weft: /undo: there is no message to take back\n", stderr);
        return;
    }
    conversation_cut(&c->talk, last);
    fprintf(stderr, "weft: the last message and its answer are gone; %lld left\n",
            (long long)c->talk.n);
}

static void clear(chat *c, const char *argument)
{
    (void)argument;
    conversation_cut(&c->talk, conversation_system(&c->talk) ? 1 : 0);
    fprintf(stderr, "weft: a new conversation%s\n",
            c->talk.n ? ", with the same system message" : "");
}

static void set_system(chat *c, const char *argument)
{
    const message *m = conversation_system(&c->talk);
    if (!*argument) {
        fputs(m ? "system: " : "weft: there is no system message", stderr);
        cli_put(stderr, m ? m->content.at : "", m ? m->content.n : 0);
        fputc('\n', stderr);
    } else if (!c->info.system) {
        fputs("weft: /system: this model's template takes no system message\n", stderr);
    } else if (!conversation_set_system(&c->talk, argument, strlen(argument))) {
        cli_no_memory();
    }
}

static void save(chat *c, const char *argument)
{
    if (conversation_save(&c->talk, argument) == 0)
        fprintf(stderr, "weft: %s: %lld messages\n", argument, (long long)c->talk.n);
}

static void load(chat *c, const char *argument)
{
    if (conversation_load(&c->talk, argument) != 0)
        return;
    fprintf(stderr, "weft: %s: %lld messages\n", argument, (long long)c->talk.n);
    if (c->talk.n && conversation_asked(&c->talk) == c->talk.n)
        fputs("weft: the last message has no answer; /regen makes one\n", stderr);
}

/* ---- settings -------------------------------------------------------------------------------- */

/* Numbers of sampling, and how long an answer may be. */
static bool can_set(const option *o)
{
    bool samples = strcmp(o->name, "predict") == 0;
    for (const option *s = sampling_options; s->name; s++)
        samples = samples || s == o;
    return samples && (o->kind == OPT_INT || o->kind == OPT_REAL);
}

static void list_settings(const chat *c)
{
    fputs("weft: /set takes a name and a value:", stderr);
    for (const option *o = NULL; (o = option_next(c->command, o));)
        if (can_set(o))
            fprintf(stderr, " %s", o->name);
    fputc('\n', stderr);
}

static void unknown_setting(const chat *c, const char *name)
{
    const char *best = NULL;
    int least = INT_MAX;
    for (const option *o = NULL; (o = option_next(c->command, o));)
        if (can_set(o) && cli_resembles(name, o->name, &least))
            best = o->name;
    fputs("weft: /set: no setting \"", stderr);
    cli_put(stderr, name, strlen(name));
    fprintf(stderr, best ? "\"; did you mean %s?\n" : "\"; /set alone lists them\n", best);
}

/* The value is stored, and taken back if no sampler can be made with it. */
static void store(chat *c, const option *o, const char *value)
{
    union {
        int64_t integer;
        double real;
    } old;
    int code = 0;
    memcpy(&old, o->to, sizeof old);
    const bool good = option_store(o, value, true) &&
                      (o->to != &c->n_predict || c->n_predict == -1 || c->n_predict > 0);
    weft_sampler *s = good ? cli_sampler(c->command, c->model, c->tokenizer, &code) : NULL;
    if (good && !code) {
        weft_sampler_free(c->sampler);
        c->sampler = s;
        return;
    }
    memcpy(o->to, &old, sizeof old);
    if (!good) {
        fprintf(stderr, "weft: /set %s: \"", o->name);
        cli_put(stderr, value, strlen(value));
        fprintf(stderr, "\"; expected %s\n",
                o->to == &c->n_predict ? "-1, or a number of tokens"
                : o->kind == OPT_REAL  ? "a number"
                                       : "an integer");
    }
}

static void set(chat *c, const char *argument)
{
    char name[64];
    const size_t n = strcspn(argument, " \t=");
    const char *value = argument + n + strspn(argument + n, " \t=");
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), argument);
    const option *o = option_named(c->command, name, strlen(name));
    if (!*name)
        list_settings(c);
    else if (!o || !can_set(o))
        unknown_setting(c, name);
    else if (!*value)
        fprintf(stderr, "weft: /set %s: no value; expected /set %s %s\n", name, name, o->value);
    else
        store(c, o, value);
}

static void set_think(chat *c, const char *argument)
{
    static const char *const words[] = { [THINK_ON] = "on", "off", "hide" };
    int i = THINK_ON;
    while (i <= THINK_HIDE && strcmp(argument, words[i]) != 0)
        i++;
    if (i > THINK_HIDE)
        fputs("weft: /think: expected on, off or hide\n", stderr);
    else if (i == THINK_OFF && !c->info.thinking)
        fputs("weft: /think off: this model's template has no switch for thinking; hide hides it\n",
              stderr);
    else
        c->think = i;
}

/* ---- the state ------------------------------------------------------------------------------- */

static void show(chat *c, const char *argument)
{
    static const char *const thinking[] = { "the template's default, shown", "on", "off",
                                            "hidden" };
    (void)argument;
    weft_error err = { 0 };
    weft_rendered *r = c->talk.n ? chat_render(c, false, &err) : NULL;
    fprintf(stderr, "model     %s\n", c->path);
    fprintf(stderr, "messages  %lld", (long long)c->talk.n);
    if (r)
        fprintf(stderr, ", %lld tokens of %lld", (long long)r->tokens->n, (long long)c->n_ctx);
    fprintf(stderr, "\nsampling  %s\n", weft_sampler_describe(c->sampler));
    fprintf(stderr, c->n_predict < 0 ? "predict   until the model ends\n" : "predict   %lld\n",
            (long long)c->n_predict);
    if (c->info.think_begin)
        fprintf(stderr, "thinking  %s\n", thinking[c->think]);
    if (c->tools.file)
        fprintf(stderr, "tools     %s, %s\n", c->tools.file,
                c->tools.choice ? c->tools.choice : "auto");
    const message *system = conversation_system(&c->talk);
    if (system) {
        fputs("system    ", stderr);
        cli_put(stderr, system->content.at, system->content.n);
        fputc('\n', stderr);
    }
    if (c->made.n_prompt)
        chat_print_timing(c);
    weft_rendered_free(r);
}

/* As `weft tokenize --pieces`: a token per line. */
static void print_token(const chat *c, const weft_rendered *r, int64_t i)
{
    const weft_span s = r->tokens->spans[i];
    fprintf(stderr, "%d\t", (int)r->tokens->ids[i]);
    for (size_t at = s.from, n; at < s.to; at += n) {
        const char *p = r->text + at;
        n = cli_utf8(p, s.to - at);
        n = n ? n : 1;
        if (*p == '\n' || *p == '\t')
            fputs(*p == '\n' ? "\\n" : "\\t", stderr);
        else
            cli_put(stderr, p, n);
    }
    fputs(weft_tokenizer_is_special(c->tokenizer, r->tokens->ids[i]) ? "\tspecial\n" : "\n",
          stderr);
}

static void tokens(chat *c, const char *argument)
{
    (void)argument;
    weft_error err = { 0 };
    weft_rendered *r = chat_render(c, false, &err);
    if (!r) {
        cli_fail(&err);
        return;
    }
    for (int64_t i = 0; i < r->tokens->n; i++)
        print_token(c, r, i);
    fprintf(stderr, "weft: %lld tokens\n", (long long)r->tokens->n);
    weft_rendered_free(r);
}

static void compose(chat *c, const char *argument)
{
    (void)argument;
    cli_text t = { 0 };
    if (chat_line_compose(&t) && t.n) {
        cli_put(stderr, t.at, t.n);
        fputc('\n', stderr);
        chat_say(c, t.at, t.n);
    }
    cli_text_free(&t);
}

static void quit(chat *c, const char *argument)
{
    (void)argument;
    c->leaving = true;
}

static void help(chat *c, const char *argument);

static const slash all[] = {
    { "help", "", "this list", help },
    { "regen", "", "answer the last message again", regenerate },
    { "undo", "", "take back the last message and its answer", undo },
    { "clear", "", "start again, with the same system message", clear },
    { "system", "[TEXT]", "set the system message, or show it", set_system },
    { "set", "[NAME VALUE]", "change temp, top-p, seed, predict ...; list them", set },
    { "think", "on|off|hide", "show thinking, switch it off, or hide it", set_think },
    { "show", "", "model, size of the conversation, settings, speed", show },
    { "tokens", "", "the conversation as tokens, with ids", tokens },
    { "edit", "", "write a message in $VISUAL or $EDITOR", compose },
    { "save", "FILE", "write the conversation as JSON", save },
    { "load", "FILE", "replace the conversation by a saved one", load },
    { "quit", "", "leave, as Ctrl-D does", quit },
};
#define N_SLASH (sizeof all / sizeof *all)

static void help(chat *c, const char *argument)
{
    (void)c, (void)argument;
    for (size_t i = 0; i < N_SLASH; i++) {
        char left[64];
        snprintf(left, sizeof left, "/%s %s", all[i].name, all[i].argument);
        fprintf(stderr, "  %-20s %s\n", left, all[i].help);
    }
    fputs("\n"
          "  Ctrl-J               another line; so do \\ at the end of a line, and \"\"\" around "
          "them\n"
          "  Ctrl-C               stop the answer and keep the part; clear the line; twice: leave\n"
          "  Ctrl-D               leave\n"
          "  A message that begins with / needs a blank before it.\n",
          stderr);
}

/* ---- which one ------------------------------------------------------------------------------- */

static void unknown(const char *name)
{
    const char *best = NULL;
    int least = INT_MAX;
    for (size_t i = 0; i < N_SLASH; i++)
        if (cli_resembles(name, all[i].name, &least))
            best = all[i].name;
    fprintf(stderr, "weft: no command /%s; ", name);
    if (best)
        fprintf(stderr, "did you mean /%s?\n", best);
    else
        fputs("/help lists them\n", stderr);
}

/* "/save file" -> "save", and what follows. False for "/usr/bin", "/" and other texts. */
static bool split(const char *line, char name[32], const char **argument)
{
    const size_t n = line[0] == '/' ? strspn(line + 1, "abcdefghijklmnopqrstuvwxyz-") : 0;
    const char *end = line + 1 + n;
    if (n == 0 || n > 31 || (*end && *end != ' ' && *end != '\t'))
        return false;
    memcpy(name, line + 1, n);
    name[n] = '\0';
    *argument = end + strspn(end, " \t");
    return true;
}

bool chat_command(chat *c, const char *line)
{
    char name[32];
    const char *argument;
    if (!split(line, name, &argument))
        return false;
    for (size_t i = 0; i < N_SLASH; i++) {
        if (strcmp(name, all[i].name) != 0)
            continue;
        if (*all[i].argument && *all[i].argument != '[' && !*argument)
            fprintf(stderr, "weft: /%s: expected /%s %s\n", name, name, all[i].argument);
        else if (!*all[i].argument && *argument)
            fprintf(stderr, "weft: /%s takes nothing after it\n", name);
        else
            all[i].run(c, argument);
        return true;
    }
    unknown(name);
    return true;
}
