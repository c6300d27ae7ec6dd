/* chat.h - a conversation as the text and the ids that its model was trained on.
 *
 *     messages (JSON) -> the forms that the template wants -> jinja -> text, and who wrote it
 *
 * Forms differ: some templates take content as a string and some as a list of parts, some take the
 * arguments of a tool call as an object and some as JSON in a string. chat_open finds out by
 * rendering small conversations, not by the name of the model. */
#ifndef WEFT_TEXT_CHAT_H
#define WEFT_TEXT_CHAT_H

#include "base/arena.h"
#include "base/host.h"
#include "text/jinja/jinja.h"
#include "text/tokenizer.h"

#define CHAT_VARIABLES 16

/* A variable that every rendering has, such as bos_token. */
typedef struct chat_variable {
    const char *name, *text;
} chat_variable;

/* How it writes calls of tools: see text/calls.h. */
typedef enum call_form { CALLS_NONE, CALLS_JSON, CALLS_PAIRS } call_form;

typedef struct call_literal {
    const char *at;
    size_t n;
} call_literal;

typedef struct call_syntax {
    call_form form;
    bool several;          /* one message may have several calls; otherwise `between` is empty */
    call_literal begin;    /* before the first name */
    call_literal start;    /* the first part of `begin`, which no other text has */
    call_literal middle;   /* from a name to its arguments, or to the first key */
    call_literal between;  /* from the arguments to the next name */
    call_literal end;      /* after the last arguments */
    call_literal value[2]; /* PAIRS: from a key to its value; [0] a string, [1] anything else */
    call_literal next;     /* PAIRS: from a value to the next key */
    call_literal close;    /* PAIRS: what ends a value, the common part of next, between and end */
    call_literal none_between, none_end; /* PAIRS: from the name, if there are no arguments */
} call_syntax;

typedef struct chat {
    mem *mem;
    const char *path; /* for messages */
    const char *source;
    size_t n;
    jinja_template *program;
    chat_variable variable[CHAT_VARIABLES];
    int n_variable;
    /* what it accepts, learned by chat_open */
    bool system, tools, thinking;
    bool strings, parts;                 /* content as a string, as a list of parts */
    bool arguments, argument_strings;    /* arguments of tool calls as an object, as a string */
    bool generation;                     /* it marks what the assistant writes */
    const char *think_begin, *think_end; /* or NULL */
    call_syntax calls;
    arena literals; /* of calls */
} chat;

/* Compiles c->source, and fills in what it accepts. path, source, n and the variables are set; they
 * must outlive c. */
weft_status chat_open(chat *c, mem *m, weft_error *err);
void chat_close(chat *c);

/* ---- rendering ------------------------------------------------------------------------------- */

typedef struct chat_options {
    const char *tools, *variables; /* JSON, or NULL */
    bool no_generation_prompt;
    int64_t now;           /* Unix time; 0: now */
    const char *bos, *eos; /* for templates whose files do not say, not terminated; or NULL */
    size_t n_bos, n_eos;
    bool as_given; /* no conversion of messages: for finding out what it accepts */
} chat_options;

/* Who wrote something: see weft_origin. */
typedef struct chat_origin {
    int32_t message;
    const char *field;
    bool trusted;
} chat_origin;

/* A rendering, and all its memory. */
typedef struct chat_text {
    mem *mem;
    arena store; /* fields' names */
    jinja_input *input;
    chat_origin *origin; /* [n_origin]: of the runs' origins, from 1 on; 0 is the template */
    uint32_t n_origin, room;
    size_t n_message;
    jinja_output out;
} chat_text;

weft_status chat_text_render(const chat *c, const char *messages, size_t n, const chat_options *o,
                             chat_text *to, weft_error *err);

/* The same for a tree of jansson, inside a section of the caller's, which must outlive `to`. Messages
 * are changed to the forms that the template wants. */
weft_status chat_tree_render(const chat *c, json_t *root, const chat_options *o, chat_text *to,
                             weft_error *err);
void chat_text_free(chat_text *t);

/* Who wrote a run. */
chat_origin chat_origin_of(const chat_text *t, uint32_t origin);

/* Cuts the text behind the content of the last message; false if the template did not write it. */
bool chat_text_cut(chat_text *t);

/* The spans that the template wrote, in span[n_run + 1] at most; returns their number. */
size_t chat_trusted(const chat_text *t, weft_span *span);

/* The added tokens that the template writes although they are not special, in list[n]: text of
 * others must not become them. False without memory. */
bool chat_gated(const chat *c, const tokenizer *t, scratch *list, size_t *n, mem *m,
                weft_error *err);

#endif
