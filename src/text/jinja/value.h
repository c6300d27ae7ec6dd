/* value.h - the values of a running template: Python's, with an origin for each byte of text.
 *
 *     jval    kind and a number, or a pointer into the pool
 *     jstr    bytes, which may be shared with other strings, and their origins
 *     jbuild  a string that grows
 *
 * Everything lives in the pool of one render and is freed with it. A value never changes after it
 * is made, except a namespace and a generator. A function that fails reports to the render's error
 * and returns V_FAIL, NULL or false; all callers pass that on. */
#ifndef WEFT_TEXT_JINJA_VALUE_H
#define WEFT_TEXT_JINJA_VALUE_H

#include "text/jinja/jinja.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct jchunk jchunk;

/* Bump memory with 8-byte alignment; the newest block may grow in place. */
typedef struct jpool {
    mem mem; /* its own budget, inside the host's */
    jchunk *chunk;
    size_t least; /* size of the next chunk */
} jpool;

void jpool_init(jpool *p, mem *within, size_t cap);
void jpool_free(jpool *p);
void *jpool_alloc(jpool *p, size_t size, weft_error *err); /* size: far below SIZE_MAX */

/* Adds `more` bytes, a multiple of 8, to the newest block, which ends at `end`; false if it cannot
 * grow there. */
bool jpool_grow(jpool *p, const char *end, size_t more);

/* ---- values ---------------------------------------------------------------------------------- */

typedef enum jkind {
    V_FAIL,    /* an error was reported */
    V_MISSING, /* a variable without a value */
    V_UNDEFINED,
    V_NONE,
    V_BOOL,
    V_INT,
    V_FLOAT,
    V_STR,
    V_LIST,
    V_TUPLE,
    V_DICT,
    V_VIEW, /* items, keys or values of a dict */
    V_RANGE,
    V_GENERATOR,
    V_NAMESPACE,
    V_LOOP,
    V_MACRO,
    V_METHOD,
    V_FUNCTION,
    V_SLICE /* only as a subscript */
} jkind;

typedef struct jrender jrender;
typedef struct jstr jstr;
typedef struct jlist jlist;
typedef struct jdict jdict;
typedef struct jrange jrange;
typedef struct jgen jgen;
typedef struct jloop jloop;
typedef struct jmacro jmacro;
typedef struct jmethod jmethod;
typedef struct jslice jslice;

typedef struct jval {
    uint8_t kind;
    uint8_t view; /* V_VIEW: 'i', 'k' or 'v' */
    bool safe;    /* V_STR: markup, which escapes what is added to it */
    union {
        bool b;
        int64_t i;
        double f;
        const jstr *s;
        const jlist *list;
        jdict *dict;
        const jrange *range;
        jgen *gen;
        jloop *loop;
        const jmacro *macro;
        const jmethod *method;
        const struct jfunction *function;
        const jslice *slice;
        const jstr *why; /* V_UNDEFINED: the name that has no value, or NULL */
    };
} jval;

/* Bytes [previous end, end) came from `origin`, inside generation block `block` (0: none). */
typedef struct jrun {
    uint32_t end, origin, block;
} jrun;

struct jstr {
    const char *at;
    uint32_t n;      /* bytes, valid UTF-8 */
    uint32_t points; /* code points */
    uint32_t n_run;  /* at least 1 */
    uint32_t skip;   /* the runs count from this many bytes before `at` */
    const jrun *run; /* the first run that ends after `skip` */
    jrun one;        /* run points here when there is one only */
};

struct jlist { /* also tuples */
    uint32_t n, height;
    jval item[];
};

typedef struct jpair {
    jval key, value;
} jpair;

struct jdict { /* also the attributes of a namespace */
    uint32_t n, room, height;
    jpair *pair;
};

struct jrange {
    int64_t start, stop, step;
    uint32_t n;
};

struct jslice {
    jval part[3]; /* start, stop, step; V_NONE where absent */
};

struct jmethod {
    jval self;
    const char *name; /* of the table of methods */
};

/* The evaluator's; the first is what others need of it. */
struct jloop {
    jval (*attribute)(jrender *r, jloop *l, const jstr *name); /* V_MISSING if there is none */
    jval (*text)(jrender *r, jloop *l);
};

struct jmacro {
    const jstr *name;
};

/* An iterator: `next` gives V_MISSING at the end. */
typedef struct jiter {
    jval over;
    uint32_t at; /* items, or bytes of a string */
} jiter;

/* What runs: budget, memory, error. The evaluator adds its own to the end of it. */
struct jrender {
    jpool *pool;
    weft_error *err;
    const struct tm *now; /* for strftime_now; NULL: the clock's */
    const char *name;     /* of the template, for messages */
    const char *source;   /* of the template, for row and column */
    size_t n_source;
    uint32_t where; /* the byte of the source that runs */
    int64_t steps;  /* left */
    int depth;      /* of nested evaluations */
    const struct jfilter *(*find_filter)(const char *name, size_t n); /* for those called by name */
};

/* A generator is read once. Whoever makes it adds fields after these. */
struct jgen {
    jval (*next)(jrender *r, jgen *g);
    bool begun, done;
};

/* Arguments of a call. */
typedef struct jargs {
    uint32_t n, n_key, room, room_key;
    jval *arg;
    const jstr **key; /* [n_key] */
    jval *named;
} jargs;

/* ---- errors and budget ----------------------------------------------------------------------- */

/* Reports `name: row R, column C: ...` and returns V_FAIL. */
jval jfail(jrender *r, weft_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
jval jfail_undefined(jrender *r, jval v);
void jinja_place(const char *source, size_t at, int *row, int *column);

/* Takes steps; false, with the error, when there are none left. */
bool jcost(jrender *r, uint64_t steps);

/* Work on n bytes or n items. */
bool jcost_bytes(jrender *r, uint64_t n);

void *jalloc(jrender *r, uint64_t n, size_t size);
const char *jkind_name(jval v);

/* ---- constructors ---------------------------------------------------------------------------- */

static inline jval jnone(void)
{
    return (jval){ .kind = V_NONE };
}
static inline jval jmissing(void)
{
    return (jval){ .kind = V_MISSING };
}
static inline jval jundefined(const jstr *why)
{
    return (jval){ .kind = V_UNDEFINED, .why = why };
}
static inline jval jbool(bool b)
{
    return (jval){ .kind = V_BOOL, .b = b };
}
static inline jval jint(int64_t i)
{
    return (jval){ .kind = V_INT, .i = i };
}
static inline jval jfloat(double f)
{
    return (jval){ .kind = V_FLOAT, .f = f };
}
static inline bool jbad(jval v)
{
    return v.kind == V_FAIL;
}
static inline jval jstr_value(const jstr *s) /* NULL: the error was reported */
{
    return s ? (jval){ .kind = V_STR, .s = s } : (jval){ .kind = V_FAIL };
}
static inline jval jsafe(jval v, bool safe)
{
    v.safe = safe;
    return v;
}
static inline bool jis_str(jval v)
{
    return v.kind == V_STR;
}

/* Lists and tuples: the items are filled in before anybody else sees it; then jlist_value. */
jlist *jlist_new(jrender *r, uint64_t n);
jval jlist_value(jrender *r, jlist *l, jkind kind);
jval jpair_value(jrender *r, jval a, jval b);
jdict *jdict_new(jrender *r, uint64_t room);
bool jdict_put(jrender *r, jdict *d, jval key, jval value);
jval jdict_get(jrender *r, const jdict *d, jval key); /* V_MISSING if it is not there */
jval jdict_get_text(const jdict *d, const char *key, size_t n);

/* A list that grows. */
typedef struct jmany {
    uint32_t n, room;
    jlist *list;
} jmany;
bool jmany_add(jrender *r, jmany *m, jval v);
jval jmany_end(jrender *r, jmany *m, jkind kind);

/* ---- strings --------------------------------------------------------------------------------- */

/* Borrows the bytes. */
const jstr *jstr_new(jrender *r, const char *at, size_t n, uint32_t origin);
jval jtext(jrender *r, const char *text); /* written by the template */
const jstr *jstr_slice(jrender *r, const jstr *s, uint32_t begin, uint32_t end);
bool jstr_is(const jstr *s, const char *text);
bool jstr_same(const jstr *a, const jstr *b);
int jstr_compare(const jstr *a, const jstr *b);
uint32_t jstr_offset(const jstr *s, uint32_t point);              /* byte of a code point */
uint32_t jstr_point(const jstr *s, uint32_t at, uint32_t *point); /* bytes it takes */

/* Where `part` begins in bytes [from, to) of s, or UINT32_MAX. */
uint32_t jstr_find(const jstr *s, const jstr *part, uint32_t from, uint32_t to);
uint32_t jstr_rfind(const jstr *s, const jstr *part, uint32_t from, uint32_t to);

/* The origin of the byte at `at`, or of the last one for at == n. */
jrun jstr_run_at(const jstr *s, uint32_t at);

typedef struct jbuild {
    jrender *r;
    char *at;
    uint32_t n, room;
    jrun *run;
    uint32_t n_run, room_run;
    uint64_t most; /* bytes allowed; 0: as many as the pool gives */
    bool failed;
} jbuild;

void jbuild_begin(jbuild *b, jrender *r);
void jbuild_put(jbuild *b, const char *bytes, size_t n, uint32_t origin, uint32_t block);
void jbuild_text(jbuild *b, const char *text);
void jbuild_str(jbuild *b, const jstr *s);
void jbuild_part(jbuild *b, const jstr *s, uint32_t begin, uint32_t end);
void jbuild_as(jbuild *b, const char *bytes, size_t n, jrun like); /* replaces bytes of that run */
void jbuild_point(jbuild *b, uint32_t point, jrun like);
const jstr *jbuild_end(jbuild *b); /* NULL if it failed */
jval jbuild_value(jbuild *b);

/* ---- meaning --------------------------------------------------------------------------------- */

bool jtruth(jval v);
bool jequal(jrender *r, jval a, jval b, bool *equal);

/* -1, 0, 1, or 2 if the kinds have no order, or 3 when the error was reported. */
int jcompare(jrender *r, jval a, jval b);
bool jhashable(jval v);
bool jsame(jval a, jval b);                      /* Python's `is` */
bool jnumber(jval v, double *f);                 /* bool, int or float */
bool jinteger(jval v, int64_t *i);               /* bool or int */
jval jlength(jval v);                            /* V_MISSING if it has none */
jval jmath(jrender *r, char op, jval a, jval b); /* + - * / % ** (as ^) // (as |) */
jval jint_math(jrender *r, char op, int64_t a, int64_t b);
jval jfloat_math(jrender *r, char op, double a, double b);
jval jnegate(jrender *r, jval v);
jval jcompare_op(jrender *r, char op, jval a, jval b); /* = ! < > l g i n */
jval jadd_str(jrender *r, jval a, jval b);
const jstr *jescape(jrender *r, jval v); /* HTML; markup stays as it is */

/* ---- text of values -------------------------------------------------------------------------- */

const jstr *jto_str(jrender *r, jval v); /* Python's str() */
void jput_str(jbuild *b, jval v);
void jput_repr(jbuild *b, jval v);
int jfloat_text(double f, char to[32]);
bool jfloat_parse(const char *text, size_t n, double *f); /* digits, point, exponent; C locale */
bool jint_parse(const char *text, size_t n, int base, int64_t *i);

typedef struct jjson_style {
    bool ascii, sort, has_indent;
    const jstr *indent; /* one level */
    const jstr *comma, *colon;
} jjson_style;

jval jto_json(jrender *r, jval v, const jjson_style *style);

/* ---- access ---------------------------------------------------------------------------------- */

jval jattribute(jrender *r, jval v, const jstr *name); /* x.name */
jval jitem(jrender *r, jval v, jval key);              /* x[key] */
jval jslice_of(jrender *r, jval v, jval slice);        /* x[a:b:c] */
bool jcan_slice(jval v, jval slice);
uint32_t jslice_bounds(const int64_t part[3], const bool has[3], uint32_t n, int64_t *start,
                       int64_t *stop);

bool jiter_begin(jrender *r, jiter *it, jval v);
bool jiterable(jval v);
jval jiter_next(jrender *r, jiter *it);
jval jto_list(jrender *r, jval v, jkind kind);

/* ---- calls ----------------------------------------------------------------------------------- */

/* Puts arguments into their places: `names` are the parameters, separated by blanks; a name with ?
 * may be absent (V_MISSING), and those before a / have no name. */
bool jbind(jrender *r, const char *what, const char *names, const jargs *a, jval *to);
bool jargs_add(jrender *r, jargs *a, jval v);
bool jargs_name(jrender *r, jargs *a, const jstr *key, jval v);

jval jcall_method(jrender *r, const jmethod *m, const jargs *a);
jval jformat_percent(jrender *r, jval format, jval args);
jval jformat_braces(jrender *r, jval format, const jargs *a);

/* Cases and classes of strings. */
typedef enum jcasing { CASE_LOWER, CASE_UPPER, CASE_TITLE, CASE_CAPITAL, CASE_SWAP } jcasing;
const jstr *jstr_case(jrender *r, const jstr *s, jcasing how);
bool jstr_all(const jstr *s, int bits); /* every code point has one of the bits; not empty */
bool jstr_is_case(const jstr *s, int wanted, int unwanted);
const jstr *jstr_strip(jrender *r, const jstr *s, const jstr *chars, bool left, bool right);
const jstr *jstr_replace(jrender *r, const jstr *s, const jstr *old, const jstr *with,
                         int64_t most);

typedef struct jfilter jfilter;
typedef jval jfilter_fn(jrender *r, jval v, const jargs *a);
struct jfilter {
    const char *name;
    jfilter_fn *run; /* NULL: jinja2 has it, weft does not */
};
const jfilter *jfilter_find(const char *name, size_t n);
const jfilter *jtest_find(const char *name, size_t n);

typedef struct jfunction {
    const char *name;
    jval (*run)(jrender *r, const jargs *a); /* NULL: not implemented */
} jfunction;
const jfunction *jfunction_find(const char *name, size_t n);

#endif
