/* chat.h - what the files of `weft chat` share.
 *
 *     cmd_chat.c       options, and the loop: a message, its answer
 *     conversation.c   the messages; saved and loaded as JSON
 *     chat_answer.c    renders the conversation, generates, shows
 *     server/think.c   separates thinking from the answer
 *     chat_line.c      a message from the terminal or a pipe: one line, or several
 *     chat_edit.c      the line editor: libedit
 *     chat_input.c     bytes of standard input, and signals
 *     chat_history.c   the file with the lines of earlier chats
 *     chat_commands.c  /help and the others */
#ifndef WEFT_CLI_CHAT_H
#define WEFT_CLI_CHAT_H

#include "cli.h"

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

typedef struct message {
    const char *role; /* one of roles[] */
    cli_text content;
    cli_text reasoning; /* the thinking before an answer; may be empty */
} message;

typedef struct conversation {
    message *at;
    int64_t n, room;
} conversation;

/* An empty message at the end, or NULL without memory. role: "system", "user" or "assistant". */
message *conversation_add(conversation *c, const char *role);
void message_free(message *m);
void conversation_cut(conversation *c, int64_t n); /* keeps the first n messages */
void conversation_free(conversation *c);

/* The system message, or NULL. conversation_set_system makes, replaces or, with an empty text,
 * removes it; false without memory. */
message *conversation_system(const conversation *c);
bool conversation_set_system(conversation *c, const char *content, size_t n);

/* The place of the last message from the user, or -1. */
int64_t conversation_last_user(const conversation *c);

/* Removes the oldest message after the system message, and the answers to it. False if it is the
 * last one from the user, which must stay. */
bool conversation_drop_oldest(conversation *c);

/* The list of messages as weft_template_render takes it. False without memory. */
bool conversation_json(const conversation *c, cli_text *to);

/* {"messages":[{"role":...,"content":...}]}, and back: such an object, or the list alone, replaces
 * the conversation, or leaves it as it is after an error. They return 0, or an exit code after
 * printing an error. */
#define CHAT_MAX_FILE ((size_t)16 << 20)
int conversation_save(const conversation *c, const char *path);
int conversation_load(conversation *c, const char *path);

/* ---- a chat ---------------------------------------------------------------------------------- */

enum { THINK_DEFAULT, THINK_ON, THINK_OFF, THINK_HIDE }; /* --think on|off|hide */
enum { FULL_DEFAULT, FULL_STOP, FULL_DROP };             /* --when-full stop|drop */

typedef struct chat {
    const command *command; /* its options are what /set changes */
    /* options */
    int64_t n_predict; /* tokens of an answer; -1: until the model ends it */
    text_list stops;
    int think, when_full;
    bool timing;
    int64_t now; /* Unix time for the template; 0: now */

    const char *path; /* of the model */
    weft_model *model;
    weft_tokenizer *tokenizer;
    weft_template *template;
    weft_template_info info;
    weft_engine *engine;
    weft_session *session;
    weft_sampler *sampler;
    weft_constraint *constraint; /* of answers; NULL: none, or not made yet */
    bool thinking;               /* made for answers that begin with thinking */
    int64_t n_ctx;

    conversation talk;
    weft_generation made; /* the last answer; n_prompt is 0 before the first */
    bool terminal;        /* messages are typed: Ctrl-C stops an answer, not the program */
    bool leaving;
} chat;

/* Answers the last message, and keeps the answer. Returns 0, or an exit code after printing an
 * error or at a signal, and then there is no answer. */
int chat_answer(chat *c);

/* Adds a message from the user and answers it. If that fails, the message is taken back. */
int chat_say(chat *c, const char *content, size_t n);

/* "prompt 45 tokens: 30 reused ..." of the last answer, on stderr. */
void chat_print_timing(const chat *c);

/* The conversation in the form of the template; answering: up to where the answer begins. NULL with err
 * filled on failure. */
weft_rendered *chat_render(const chat *c, bool answering, weft_error *err);

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

/* The next message: a line, or several that belong together. */
line_end chat_line_message(cli_text *to);
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
