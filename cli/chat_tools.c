/* chat_tools.c - tools in a chat: --tools, the calls in an answer, and --tool-run.
 *
 * The template gets the tools, and a grammar holds the model to their names and schemas. A call is
 * shown as one line on standard output, in place of the model's own syntax:
 *
 *     call get_weather {"city": "Paris"}
 *
 * Its result is the next message that is typed, or line that is read, or what the command of
 * --tool-run prints. Without that option nothing is ever run. */
#include "chat.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_FILE   ((size_t)1 << 20) /* as much as the library takes */
#define MAX_RESULT ((size_t)1 << 20)
#define MAX_RUN    32 /* commands for one message of the user: a model may call for ever */

/* ---- the tools ------------------------------------------------------------------------------- */

static int fail_in_file(const chat *c, const weft_error *err)
{
    weft_error named = { .code = err->code };
    snprintf(named.message, sizeof named.message, "%.200s: %.300s", c->tools.file, err->message);
    return cli_fail(&named);
}

static int check_template(const chat *c)
{
    weft_error err = { .code = WEFT_EUNSUPPORTED };
    if (c->info.tools && c->info.calls)
        return 0;
    snprintf(err.message, sizeof err.message,
             c->info.tools ? "%.300s: the syntax in which this template calls tools is not known"
                           : "%.300s: this template does not take tools",
             c->template_path ? c->template_path : c->path);
    cli_detail(c->info.tools
                   ? "--template FILE gives another; --tool-choice none tells the model of "
                     "the tools, and shows its answers as they are.\n"
                   : "--template FILE gives another.\n");
    return cli_fail(&err);
}

int chat_tools_check(chat *c)
{
    chat_tools *t = &c->tools;
    const char *choice = t->choice ? t->choice : "auto";
    if (!t->file && (t->choice || t->run))
        return cli_usage(c->command, "--tool-%s: found without --tools; expected both",
                         t->choice ? "choice" : "run");
    t->calls = t->file && strcmp(choice, "none") != 0;
    t->required = t->calls && strcmp(choice, "auto") != 0;
    t->only = t->required && strcmp(choice, "required") != 0 ? choice : NULL;
    if (t->calls && cli_has_form())
        return cli_usage(c->command, "--tools excludes --grammar, --regex and --schema, unless "
                                     "--tool-choice is none");
    return 0;
}

int chat_tools_constraint(const chat *c, const weft_grammar_options *form, bool must_call,
                          weft_constraint **to)
{
    weft_error err = { 0 };
    const weft_tool_options o = { .struct_size = sizeof o,
                                  .required = must_call,
                                  .only = c->tools.only };
    weft_grammar *g = weft_tool_grammar_new(c->tokenizer, c->template, c->tools.list, c->tools.n,
                                            &o, form, &err);
    *to = g ? weft_constraint_new(g, &err) : NULL;
    weft_grammar_free(g);
    return *to ? 0 : fail_in_file(c, &err);
}

/* The list is compiled once now, so that its errors come before the first message. */
int chat_tools_open(chat *c)
{
    chat_tools *t = &c->tools;
    const weft_grammar_options form = { .struct_size = sizeof form, .model = c->model };
    int code = t->file ? cli_read(t->file, MAX_FILE, &t->list, &t->n) : 0;
    if (!code && t->calls)
        code = check_template(c);
    if (!code && t->calls) {
        weft_constraint *made;
        code = chat_tools_constraint(c, &form, true, &made);
        weft_constraint_free(made);
    }
    return code;
}

const char *chat_prompt(const chat *c, char text[CHAT_MAX_PROMPT])
{
    int64_t nth, of;
    const call *k = conversation_pending(&c->talk, &nth, &of);
    if (!k)
        return "> ";
    if (of > 1)
        snprintf(text, CHAT_MAX_PROMPT, "result of %.80s (%lld of %lld)> ", k->name.at,
                 (long long)nth + 1, (long long)of);
    else
        snprintf(text, CHAT_MAX_PROMPT, "result of %.80s> ", k->name.at);
    for (char *s = text; *s; s++)
        *s = (char)(*s < ' ' || *s > '~' ? '?' : *s);
    return text;
}

/* ---- calls in an answer ---------------------------------------------------------------------- */

static bool begin_call(call_finder *f, const char *name, size_t n)
{
    char id[16];
    call *k = call_list_add(&f->made);
    snprintf(id, sizeof id, "call%05lld", (long long)(f->next++ % 100000));
    return k && cli_text_add(&k->id, id, strlen(id)) && cli_text_add(&k->name, name, n) &&
           cli_text_add(&k->arguments, "", 0);
}

/* A call that was cut has no complete object. */
static bool is_object(const cli_text *t)
{
    json_t *value = conversation_too_much(t->at, t->n) ? NULL : json_loadb(t->at, t->n, 0, NULL);
    const bool good = json_is_object(value);
    json_decref(value);
    return good;
}

/* One line, whatever white space the arguments have between their values. */
static void print_call(call_finder *f, call *k)
{
    for (size_t i = 0; i < k->arguments.n; i++)
        if (strchr("\n\r\t", k->arguments.at[i]))
            k->arguments.at[i] = ' ';
    printf("%s%scall%s ", f->line_ended ? "" : "\n", cli_style(stdout, STYLE_BOLD),
           cli_style(stdout, STYLE_PLAIN));
    cli_put(stdout, k->name.at, k->name.n);
    putchar(' ');
    cli_put(stdout, k->arguments.at, k->arguments.n);
    putchar('\n');
    f->line_ended = true;
}

static void end_call(call_finder *f)
{
    call *k = &f->made.at[f->made.n - 1];
    if (is_object(&k->arguments)) {
        print_call(f, k);
        f->failed = fflush(stdout) != 0 || f->failed;
        return;
    }
    fputs("weft: a call of ", stderr);
    cli_put(stderr, k->name.at, k->name.n);
    fputs(" was cut; it is dropped\n", stderr);
    call_list_cut(&f->made, f->made.n - 1);
}

static void take_event(void *ud, weft_call_event event, const char *text, size_t n)
{
    call_finder *f = ud;
    if (f->failed)
        return;
    if (event == WEFT_CALL_BEGINS)
        f->failed = !begin_call(f, text, n);
    else if (event == WEFT_CALL_ARGUMENTS)
        f->failed = !cli_text_add(&f->made.at[f->made.n - 1].arguments, text, n);
    else if (event == WEFT_CALL_ENDS)
        end_call(f);
    else if (n > 0) {
        f->line_ended = text[n - 1] == '\n';
        f->text(f->ud, text, n);
    }
}

int call_finder_begin(call_finder *f, const chat *c)
{
    weft_error err = { 0 };
    f->line_ended = true;
    f->next = conversation_next_call(&c->talk);
    if (!c->tools.calls)
        return 0;
    f->reader = weft_call_reader_new(c->template, c->tools.list, c->tools.n, take_event, f, &err);
    return f->reader ? 0 : fail_in_file(c, &err);
}

void call_finder_push(call_finder *f, const char *bytes, size_t n)
{
    if (!f->reader)
        f->text(f->ud, bytes, n);
    else if (weft_call_reader_push(f->reader, bytes, n, NULL) != WEFT_OK)
        f->failed = true;
}

void call_finder_end(call_finder *f)
{
    if (f->reader && weft_call_reader_finish(f->reader, NULL) != WEFT_OK)
        f->failed = true;
}

void call_finder_free(call_finder *f)
{
    weft_call_reader_free(f->reader);
    call_list_free(&f->made);
}

/* ---- --tool-run ------------------------------------------------------------------------------ */

/* As $VISUAL: a command with arguments, and the name of the tool is one more. */
static void run_command(const char *line, const char *name, int in, int out)
{
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    execl("/bin/sh", "sh", "-c", line, "sh", name, (char *)NULL);
    _exit(127);
}

/* Everything that the command prints. False if that is too much, or without memory. */
static bool take_output(int from, pid_t child, cli_text *to)
{
    char bytes[4096];
    for (;;) {
        const ssize_t n = read(from, bytes, sizeof bytes);
        if (n == 0)
            return true;
        if (n < 0 && errno == EINTR) {
            if (cli_interrupted())
                kill(child, SIGTERM);
            continue;
        }
        if (n < 0 || to->n + (size_t)n > MAX_RESULT || !cli_text_add(to, bytes, (size_t)n)) {
            kill(child, SIGTERM);
            return false;
        }
    }
}

/* The exit status of the command, or -1. */
static int run(const char *line, const call *k, cli_text *to)
{
    int ends[2], status = -1;
    FILE *in = tmpfile(); /* not a pipe, which a command that does not read it would block */
    if (!in)
        return -1;
    fwrite(k->arguments.at, 1, k->arguments.n, in);
    if (fflush(in) != 0 || lseek(fileno(in), 0, SEEK_SET) != 0 || pipe2(ends, O_CLOEXEC) != 0) {
        fclose(in);
        return -1;
    }
    const pid_t child = fork();
    if (child == 0)
        run_command(line, k->name.at, fileno(in), ends[1]);
    fclose(in);
    close(ends[1]);
    const bool good = child > 0 && take_output(ends[0], child, to);
    close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return good && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run_failed(const chat *c, const char *why)
{
    fprintf(stderr, "weft: --tool-run: %s: %s\n", c->tools.run, why);
    return 1;
}

int chat_tools_run(chat *c, cli_text *to)
{
    const call *k = conversation_pending(&c->talk, NULL, NULL);
    cli_text line = { 0 };
    char why[64];
    if (c->tools.n_run == MAX_RUN)
        return run_failed(c, "32 calls for one message, the limit");
    c->tools.n_run++;
    to->n = 0;
    if (!cli_text_add(to, "", 0) || !cli_text_add(&line, c->tools.run, strlen(c->tools.run)) ||
        !cli_text_add(&line, " \"$1\"", 5)) {
        cli_text_free(&line);
        return cli_no_memory();
    }
    const int status = run(line.at, k, to);
    cli_text_free(&line);
    if (cli_interrupted())
        return cli_stopped();
    if (status < 0)
        return run_failed(c, "it could not be run, was stopped, or printed more than 1 MiB");
    snprintf(why, sizeof why, "its exit status is %d; expected 0", status);
    if (status > 0)
        return run_failed(c, why);
    while (to->n > 0 && to->at[to->n - 1] == '\n')
        to->at[--to->n] = '\0';
    return 0;
}
