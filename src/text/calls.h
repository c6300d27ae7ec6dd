/* calls.h - how a template writes calls of tools, and how to find them in generated text.
 *
 * Every family has its own syntax, but nearly all are literals around names and arguments:
 *
 *     <tool_call>\n{"name": "  NAME  ", "arguments":  {...}  }\n</tool_call>\n<tool_call>\n{"name": "  NAME
 *     begin                          middle                  between
 *
 * So the literals are learned: calls with known names and values are rendered, and the text is cut
 * at these. Where the arguments come out as one JSON object, the form is CALLS_JSON; where each is
 * written by itself, between tags, it is CALLS_PAIRS:
 *
 *     <function=  NAME  >\n<parameter=  KEY  >\n  VALUE  \n</parameter>\n<parameter=  KEY
 *                        middle             value         next
 *
 * A template with any other form gets CALLS_NONE. A literal may have places that change from call
 * to call, CALL_ID and CALL_NUMBER. */
#ifndef WEFT_TEXT_CALLS_H
#define WEFT_TEXT_CALLS_H

#include "base/buffer.h"
#include "text/chat.h"

#define LONGEST_LITERAL 200 /* bytes */

/* Characters in a literal. */
#define CALL_ID     '\1' /* letters, digits, '_' and '-' */
#define CALL_NUMBER '\2' /* digits */

/* Finds out how c writes calls: fills c->calls. Only memory and limits are errors. */
weft_status calls_probe(chat *c, weft_error *err);

/* Bytes of text at which the literal matches: CALL_NO_MATCH, or CALL_MORE if the text ends before
 * that is certain. */
#define CALL_NO_MATCH SIZE_MAX
#define CALL_MORE     (SIZE_MAX - 1)

size_t call_match(const call_literal *l, const char *text, size_t n);

/* ---- reading ---------------------------------------------------------------------------------
 *
 * A reader gets text in pieces, special tokens spelled out, and tells what it is. Text that begins
 * like a call but goes on differently is text. */

typedef enum call_event {
    CALL_TEXT,      /* not of a call */
    CALL_BEGINS,    /* a name */
    CALL_ARGUMENTS, /* a piece of JSON */
    CALL_ENDS,
} call_event;

typedef void call_event_fn(void *ud, call_event e, const char *text, size_t n);

/* Is the argument `key` of this tool a string? Only CALLS_PAIRS asks, as it writes them bare. */
typedef bool call_string_fn(void *ud, const char *name, const char *key);

typedef enum call_place {
    PLACE_TEXT,
    PLACE_BEGIN, /* of a call, up to its arguments */
    PLACE_JSON,
    PLACE_KEY,
    PLACE_VALUE,
    PLACE_AFTER,
} call_place;

typedef struct call_reader {
    const call_syntax *syntax;
    call_event_fn *event;
    call_string_fn *is_string;
    void *ud;
    call_place place;
    bool last;                          /* no more text comes */
    buffer held;                        /* not told yet */
    size_t lead;                        /* PLACE_BEGIN: white space before it */
    const call_literal *opens, *begins; /* PLACE_BEGIN: what was found, and what must follow */
    char name[128], key[256];
    bool bare;            /* the value being read is a string without quotes */
    bool any;             /* the call has an argument */
    int depth;            /* of JSON */
    bool quoted, escaped; /* inside its strings */
} call_reader;

/* is_string may be NULL: a value that is not JSON is a string. The syntax is not CALLS_NONE. */
void calls_read_begin(call_reader *r, const call_syntax *s, call_event_fn *event,
                      call_string_fn *is_string, void *ud, mem *m, weft_error *err);

/* False without memory. */
bool calls_read(call_reader *r, const char *text, size_t n);

/* The end of the text: tells what was held. */
bool calls_read_end(call_reader *r);
void calls_read_free(call_reader *r);

#endif
