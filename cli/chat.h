/* chat.h - what the files of `weft chat` share.
 *
 *     cmd_chat.c       options, and the loop: a message, its answer
 *     conversation.c   the messages; saved and loaded as JSON
 *     chat_answer.c    renders the conversation, generates, shows
 *     chat_tools.c     --tools: calls in answers, and their results
 *     server/think.c   separates thinking from the answer
 *     chat_line.c      a message from the terminal or a pipe: one line, or several
 *     chat_edit.c      the line editor: libedit
 *     chat_input.c     bytes of standard input, and signals
 *     chat_history.c   the file with the lines of earlier chats
 *     chat_commands.c  /help and the others */
#ifndef WEFT_CLI_CHAT_H
#define WEFT_CLI_CHAT_H

#include "cli.h"
#include "lora.h"

/* Bytes that become more; zeroed at the beginning. cli_free frees `at`, which always has a '\0'
 * after its n bytes. */
typedef struct cli_text {
    char *at;
    size_t n, room;
} cli_text;

/* False without memory. */
bool cli_text_add(cli_text *t, const char *bytes, size_t n);
void cli_text_free(cli_text *t);

/* ---- the conversation ------------------------------------------------------------------------ */

/* A call of a tool. Its result is a message with the same id. */
typedef struct call {
    cli_text id, name;
    cli_text arguments; /* JSON */
} call;

typedef struct call_list {
    call *at;
    int64_t n, room;
} call_list;

typedef struct message {
    const char *role; /* one of roles[] */
    cli_text content;
    cli_text reasoning; /* the thinking before an answer; may be empty */
    call_list calls;    /* of an answer */
    cli_text id, name;  /* of a result: the call that it belongs to */
} message;

typedef struct conversation {
    message *at;
    int64_t n, room;
} conversation;

/* An empty message at the end, or NULL without memory. role: "system", "user", "assistant" or
 * "tool". */
message *conversation_add(conversation *c, const char *role);

/* An empty call at the end of a list, or NULL without memory. */
call *call_list_add(call_list *list);
void call_list_cut(call_list *list, int64_t n); /* keeps the first n calls */
void call_list_free(call_list *list);

/* The first call that has no result yet, or NULL. Results follow the answer that calls; *nth: which
 * of its calls it is, from 0, and *of: how many these are. Both may be NULL. */
const call *conversation_pending(const conversation *c, int64_t *nth, int64_t *of);

/* The number for the id of the next call, "call00001": such ids satisfy all templates. */
int64_t conversation_next_call(const conversation *c);
void message_free(message *m);
void conversation_cut(conversation *c, int64_t n); /* keeps the first n messages */
void conversation_free(conversation *c);

/* The system message, or NULL. conversation_set_system makes, replaces or, with an empty text,
 * removes it; false without memory. */
message *conversation_system(const conversation *c);
bool conversation_set_system(conversation *c, const char *content, size_t n);

/* The place of the last message from the user, or -1. */
int64_t conversation_last_user(const conversation *c);

/* How many messages there are up to the one that was answered last: of the user, or the results of
 * calls. 0: there is none. */
int64_t conversation_asked(const conversation *c);

/* Removes the oldest message after the system message, and the answers to it. False if it is the
 * last one from the user, which must stay. */
bool conversation_drop_oldest(conversation *c);

/* The list of messages as weft_template_render takes it. False without memory. */
bool conversation_json(const conversation *c, cli_text *to);

/* Why a JSON text is too deep or has too many values to be read; or NULL. */
const char *conversation_too_much(const char *json, size_t n);

/* {"messages":[{"role":...,"content":...}]}, and back: such an object, or the list alone, replaces
 * the conversation, or leaves it as it is after an error. They return 0, or an exit code after
 * printing an error. */
#define CHAT_MAX_FILE ((size_t)16 << 20)
int conversation_save(const conversation *c, const char *path);
int conversation_load(conversation *c, const char *path);

/* ---- a chat ---------------------------------------------------------------------------------- */

enum { THINK_DEFAULT, THINK_ON, THINK_OFF, THINK_HIDE }; /* --think on|off|hide */
enum { FULL_DEFAULT, FULL_STOP, FULL_DROP };             /* --when-full stop|drop */

/* Tools that answers may call: --tools, --tool-choice, --tool-run. */
typedef struct chat_tools {
    const char *file, *choice, *run;
    char *list; /* the file, in OpenAI's form; NULL: none */
    size_t n;
    bool calls;       /* answers may call: the choice is not none */
    bool required;    /* those to a message of the user must */
    const char *only; /* the tool, if the choice names one */
    int n_run;        /* commands since the last message of the user */
} chat_tools;

typedef struct chat {
    const command *command; /* its options are what /set changes */
    /* options */
    int64_t n_predict; /* tokens of an answer; -1: until the model ends it */
    text_list stops;
    int think, when_full;
    bool timing;
    int64_t now; /* Unix time for the template; 0: now */

    const char *path;          /* of the model */
    const char *template_path; /* or NULL: the model's */
    weft_model *model;
    weft_tokenizer *tokenizer;
    weft_template *template;
    weft_template_info info;
    weft_engine *engine;
    weft_session *session;
    lora_choice lora;
    weft_sampler *sampler;
    weft_constraint *constraint; /* of answers; NULL: none, or not made yet */
    bool thinking;               /* made for answers that begin with thinking ... */
    bool must_call;              /* ... and for those that must call a tool */
    chat_tools tools;
    int64_t n_ctx;

    conversation talk;
    weft_generation made; /* the last answer; n_prompt is 0 before the first */
    bool terminal;        /* messages are typed: Ctrl-C stops an answer, not the program */
    bool leaving;
} chat;

/* Answers the last message, and keeps the answer. Returns 0, or an exit code after printing an
 * error or at a signal, and then there is no answer. */
int chat_answer(chat *c);

/* Adds a message from the user, or the result of the call that awaits one, and answers it unless
 * another call awaits its result. If that fails, the message is taken back. */
int chat_say(chat *c, const char *content, size_t n);

/* "prompt 45 tokens: 30 reused ..." of the last answer, on stderr. */
void chat_print_timing(const chat *c);

/* The conversation in the form of the template; answering: up to where the answer begins. NULL with err
 * filled on failure. */
weft_rendered *chat_render(const chat *c, bool answering, weft_error *err);

/* ---- tools ----------------------------------------------------------------------------------- */

/* Do the options fit together? Returns 0, or EXIT_USAGE after printing an error. */
int chat_tools_check(chat *c);

/* After the template is open: reads --tools, and checks that the template can take them. Returns 0,
 * or an exit code after printing an error. */
int chat_tools_open(chat *c);

/* Holds an answer to calls that fit the tools; must_call: it is one. Returns 0, or an exit code after
 * printing an error. */
int chat_tools_constraint(const chat *c, const weft_grammar_options *form, bool must_call,
                          weft_constraint **to);

/* Runs --tool-run for the call that awaits a result. Returns 0 with *to filled, or an exit code after
 * printing an error. */
int chat_tools_run(chat *c, cli_text *to);

/* "result of get_weather (2 of 3)> ", or "> " if no call awaits a result. */
#define CHAT_MAX_PROMPT 160
const char *chat_prompt(const chat *c, char text[CHAT_MAX_PROMPT]);

/* Finds calls in the text of an answer. What is no call goes to `text`; a call is printed on
 * standard output when it is complete, and kept in `made`. */
typedef struct call_finder {
    weft_call_reader *reader; /* NULL: answers cannot call, and all is text */
    void (*text)(void *ud, const char *bytes, size_t n);
    void *ud;
    call_list made;
    int64_t next;    /* number of the next call */
    bool line_ended; /* standard output is at the start of a line */
    bool failed;     /* no memory */
} call_finder;

/* text and ud are set. Returns 0, or an exit code after printing an error. */
int call_finder_begin(call_finder *f, const chat *c);
void call_finder_push(call_finder *f, const char *bytes, size_t n);

/* No more text comes. A call that was cut is dropped, and stderr says so. */
void call_finder_end(call_finder *f);
void call_finder_free(call_finder *f);

/* ---- commands -------------------------------------------------------------------------------- */

/* "/undo": runs a command; false if the text is none. */
bool chat_command(chat *c, const char *line);

/* ---- messages from the user ------------------------------------------------------------------ */

typedef enum line_end {
    LINE_TEXT,    /* there is one */
    LINE_MESSAGE, /* there is one, which is no command, whatever it begins with */
    LINE_CLEARED, /* Ctrl-C */
    LINE_END,     /* Ctrl-D, or the end of standard input */
    LINE_FAILED,  /* a signal other than Ctrl-C, no memory or an error, which has been printed;
                     chat_line_code has the exit code */
} line_end;

/* terminal: shows prompts and edits lines. history: whether lines are kept in a file. */
void chat_line_open(bool terminal, bool history);
void chat_line_close(void);

/* The next message: a line, or several that belong together. prompt: shown on a terminal. */
line_end chat_line_message(const char *prompt, cli_text *to);
int chat_line_code(void);

/* A message that is written in $VISUAL or $EDITOR. False after printing an error. */
bool chat_line_compose(cli_text *to);

/* ---- standard input -------------------------------------------------------------------------- */

void chat_input_open(bool terminal);
void chat_input_forget(void); /* what was read or typed ahead */

/* Signals come only while standard input is waited for, so that none is missed between asking and
 * waiting, and none finds the terminal in another state. chat_input_wait: false if one came. */
void chat_input_hold_signals(void);
void chat_input_release_signals(void);
bool chat_input_wait(void);

/* Takes what was typed before the editor set the terminal's state, which has just happened. Until
 * then Enter became a line feed, which is Ctrl-J to the editor, and Ctrl-D a zero. */
void chat_input_take_ahead(void);

/* A byte of standard input: 1, 0 at its end, or -1 at a signal or an error. */
int chat_input_byte(char *to);

/* ---- the line editor, which only a build with libedit has ------------------------------------ */

/* chat_edit_open: false if there is none here. */
#ifdef WEFT_EDIT
#define CHAT_EDIT_PART " libedit" /* in `weft --version` */
#else
#define CHAT_EDIT_PART ""
#endif
bool chat_edit_open(void);
void chat_edit_close(void);
line_end chat_edit_line(const char *prompt, cli_text *to);
void chat_edit_remember(const char *line); /* what the up arrow brings back */

/* The lines of earlier chats, oldest first, and one more. */
typedef void history_fn(const char *line);
void chat_history_open(history_fn *fn);
void chat_history_add(const char *line, size_t n);
void chat_history_close(void);

#endif
