/* tools.h - the grammar of an answer that may call tools, in the syntax of its template.
 *
 *     text without the start of a call  [ begin NAME middle ARGUMENTS (between NAME ...)* end ]
 *
 * Names are those of the tools, and arguments match their schemas. */
#ifndef WEFT_TEXT_CONSTRAIN_TOOLS_H
#define WEFT_TEXT_CONSTRAIN_TOOLS_H

#include "text/calls.h"
#include "text/constrain/grammar.h"

#define MAX_TOOL       256
#define MAX_TOOLS_TEXT ((size_t)1 << 20)
#define MAX_TOOL_NAME  128

/* An argument, for templates that write each by itself. */
typedef struct tool_argument {
    const char *key, *schema;
    size_t n_schema;
    bool string, required;
    call_literal *values; /* of a string that is one of n_value; 0: any */
    size_t n_value;
} tool_argument;

typedef struct tool {
    const char *name, *schema; /* of its arguments */
    size_t n_schema;
    bool strict; /* a keyword that is not supported is an error; otherwise it is ignored */
    tool_argument *argument;
    size_t n_argument;
} tool;

/* OpenAI's list of tools. */
typedef struct tool_list {
    arena store;
    tool *tool;
    size_t n;
} tool_list;

/* Reads n bytes of JSON. Errors say where: "tools[2].function.name: ...". */
weft_status tools_read(tool_list *list, const char *text, size_t n, mem *m, weft_error *err);
void tools_free(tool_list *list);

/* Is this argument a string? */
bool tools_is_string(const tool_list *list, const char *name, const char *key);

typedef struct tool_rules {
    bool required;       /* there must be a call */
    bool single;         /* and no second one */
    const char *only;    /* of this tool; NULL: any */
    const int32_t *ends; /* [n_end] tokens that end a text: never part of a call */
    int n_end;
} tool_rules;

/* NULL with err filled: WEFT_EUNSUPPORTED if the template's syntax is not known. */
grammar *tools_grammar(const tool_list *list, const call_syntax *s, const tokenizer *t,
                       const tool_rules *o, mem *m, weft_error *err);

#endif
