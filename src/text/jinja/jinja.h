/* jinja.h - chat templates: the part of Jinja that they use, with the meaning that it has in
 * transformers.
 *
 *     jinja_compile   source to template, once
 *     jinja_input_*   the variables of one rendering: messages, tools, ...
 *     jinja_render    text, and for every byte of it who wrote it
 *
 * The reference is jinja2 3.1.6 in the environment of transformers (sandboxed and immutable,
 * trim_blocks, lstrip_blocks, break and continue, `generation`, Python's json.dumps as tojson). What
 * raises an exception there is an error here, with row and column. docs/TEXT.md has the language, the
 * limits, and what is refused.
 *
 * Every string that a caller passes in has an origin, a number that the caller chooses. 0 is the
 * template. All operations on strings keep the origins byte by byte, so that the output tells text
 * which a user wrote from text which the template wrote, however it was cut and joined on the way. */
#ifndef WEFT_TEXT_JINJA_JINJA_H
#define WEFT_TEXT_JINJA_JINJA_H

#include "base/mem.h"

#include <jansson.h>
#include <time.h>

#define JINJA_SOURCE    ((size_t)256 << 10) /* bytes of a template */
#define JINJA_TOKENS    65536               /* names, numbers, operators, ... of a template */
#define JINJA_DEPTH     64                  /* of nested blocks, brackets and values */
#define JINJA_STEPS     1000000             /* of one rendering */
#define JINJA_OUTPUT    ((size_t)1 << 20)   /* bytes beyond those of the input */
#define JINJA_VALUES    ((size_t)16 << 20)  /* bytes of memory for one rendering */
#define JINJA_TIMES     16                  /* and more bytes for each byte of the input ... */
#define JINJA_INPUT     ((size_t)64 << 20)  /* ... whose texts have at most this many */
#define JINJA_RANGE     100000              /* items of a range */
#define JINJA_RECURSION 100 /* of evaluations inside each other: macros, deep values */

typedef struct jinja_template jinja_template;

/* `name` stands in front of messages: a path, or what the template belongs to. The source is copied.
 * NULL with err filled: WEFT_EFORMAT for what jinja2 refuses too, WEFT_EUNSUPPORTED for parts of
 * Jinja that no chat template uses, WEFT_ELIMIT. `m` must outlive the template. A template never
 * changes and may be used by many threads. */
jinja_template *jinja_compile(const char *source, size_t n, const char *name, mem *m,
                              weft_error *err);
void jinja_free(jinja_template *t);

/* ---- variables ------------------------------------------------------------------------------- */

/* The variables of one rendering, and all memory that it needs. */
typedef struct jinja_input jinja_input;

jinja_input *jinja_input_new(mem *m, weft_error *err);
void jinja_input_free(jinja_input *in);

/* A value is built from these calls, a list or dict between begin and end, and ends with
 * jinja_set. In a dict every value comes after its key. Bytes are borrowed until the input is
 * freed. Errors stick: jinja_set and jinja_render report the first. */
void jinja_put_null(jinja_input *in);
void jinja_put_bool(jinja_input *in, bool b);
void jinja_put_int(jinja_input *in, int64_t i);
void jinja_put_float(jinja_input *in, double f);
void jinja_put_text(jinja_input *in, const char *bytes, size_t n, uint32_t origin);
void jinja_put_key(jinja_input *in, const char *bytes, size_t n, uint32_t origin);
void jinja_begin_list(jinja_input *in);
void jinja_begin_dict(jinja_input *in);
void jinja_end(jinja_input *in);

/* Says where the text of a JSON tree comes from: `path` has the keys (index < 0) and indices from
 * the root to it. `is_key`: the text is the last key itself. */
typedef struct jinja_step {
    const char *key;
    int64_t index;
} jinja_step;
typedef uint32_t jinja_origin_fn(void *ud, const jinja_step *path, int n_path, bool is_key);

/* A whole tree, whose memory stays the caller's. NULL for `origin` makes it the template's. */
void jinja_put_json(jinja_input *in, const json_t *value, jinja_origin_fn *origin, void *ud);

/* Gives the value that was built to a variable. `name` is borrowed. */
weft_status jinja_set(jinja_input *in, const char *name, weft_error *err);

/* ---- rendering ------------------------------------------------------------------------------- */

typedef struct jinja_options {
    const struct tm *now; /* for strftime_now; NULL: local time */
    int64_t steps;        /* 0: JINJA_STEPS */
} jinja_options;

typedef struct jinja_run {
    size_t begin, end;
    uint32_t origin;
} jinja_run;

typedef struct jinja_range {
    size_t begin, end;
} jinja_range;

/* Lives in the input. */
typedef struct jinja_output {
    const char *text; /* [n], valid UTF-8, terminated */
    size_t n;
    const jinja_run *run; /* in order, cover the text */
    size_t n_run;
    const jinja_range *generated; /* what {% generation %} blocks wrote */
    size_t n_generated;
} jinja_output;

/* options may be NULL. WEFT_EINVAL where the template raised an exception, as it does for
 * conversations that it does not want; WEFT_ELIMIT beyond the limits above. */
weft_status jinja_render(const jinja_template *t, jinja_input *in, const jinja_options *options,
                         jinja_output *out, weft_error *err);

#endif
