/* tree.h - a parsed template: nodes, scopes and functions.
 *
 * Chains of operators and of postfixes are one node with many kids, so that the height of a tree is
 * bounded by the nesting of its source.
 *
 *     a + b - c          N_CHAIN   kids a, b, c      op[] "+-"
 *     x.a[0](y)|f        N_POSTFIX kids x, step, step, ...
 *
 * Variables are found once, when the template is compiled, by the rules of jinja2: a block such as
 * the body of a loop is a scope, a macro is a function with its own frame. */
#ifndef WEFT_TEXT_JINJA_TREE_H
#define WEFT_TEXT_JINJA_TREE_H

#include "text/jinja/value.h"

typedef enum jnode_kind {
    N_CONST,
    N_NAME,
    N_TUPLE,
    N_LIST,
    N_DICT, /* key, value, ... */
    N_COND, /* test, then, else or nothing */
    N_NOT,
    N_AND,
    N_OR,
    N_COMPARE, /* kids with op between them: = ! < > l g i n */
    N_CHAIN,   /* + - * / | % ^ */
    N_CONCAT,
    N_NEGATIVE,
    N_POSITIVE,
    N_POSTFIX,
    N_SLICE, /* start, stop, step; NULL where absent */
    /* steps of a postfix: kids are the arguments */
    N_ATTRIBUTE,
    N_ITEM,
    N_CALL,
    N_FILTER,
    N_TEST, /* flag: negated */
    /* one argument of a call: kid */
    N_KEYWORD, /* name */
    N_STAR,    /* *x */
    N_STARS,   /* **x */
    /* statements */
    N_BODY,
    N_DATA,
    N_OUTPUT,      /* one expression */
    N_SET,         /* target, value */
    N_SETBLOCK,    /* target, body, step... */
    N_NSREF,       /* name.attribute as a target; kid: the attribute, a constant */
    N_IF,          /* test, body, test, body, ..., [body] */
    N_FOR,         /* target, over, test or NULL, body, else or NULL; flag: recursive */
    N_MACRO,       /* body, parameter..., then n_default defaults */
    N_FILTERBLOCK, /* body, step... */
    N_GENERATION,  /* body */
    N_BREAK,
    N_CONTINUE
} jnode_kind;

/* A variable: `up` functions out from the one that runs, place `slot` of its frame. */
typedef struct jplace {
    uint16_t up, slot;
} jplace;

typedef enum jload_kind {
    LOAD_NONE,
    LOAD_PARAMETER,
    LOAD_RESOLVE,
    LOAD_ALIAS,
    LOAD_MISSING
} jload_kind;

/* What entering a scope does to one of its variables. */
typedef struct jload {
    const jstr *name;
    jplace place, from; /* place.up is 0 */
    uint8_t kind;
} jload;

typedef struct jscope {
    uint32_t n;
    jload *load;
} jscope;

typedef struct jnode jnode;

/* What only loops, macros and blocks have. */
typedef struct jblock {
    bool uses_loop, uses_varargs, uses_kwargs, uses_caller;
    jplace loop, varargs, kwargs, caller;
    jscope *scope, *else_scope, *test_scope; /* test_scope: in a function of its own */
    uint32_t n_slot, n_test_slot;            /* of the function that this is, or the test's */
    jnode *test_target;
} jblock;

struct jnode {
    uint8_t kind;
    bool flag;
    uint16_t n_default;
    uint32_t at; /* in the source */
    uint32_t n;
    jplace place; /* N_NAME, N_NSREF; a macro's own variable */
    jnode **kid;
    char *op; /* [n - 1] */
    const jstr *name;
    jval value;          /* N_CONST; N_DATA */
    const jfilter *what; /* N_FILTER, N_TEST; NULL: unknown, an error when it runs */
    jblock *block;
};

struct jinja_template {
    jpool pool;
    jnode *body;
    jscope *scope;
    uint32_t n_slot;
    const char *name;
    char *source; /* with normal newlines */
    size_t n_source;
};

/* ---- tokens ---------------------------------------------------------------------------------- */

typedef enum jtoken_kind {
    T_END,
    T_DATA,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_VARIABLE_BEGIN,
    T_VARIABLE_END,
    T_NAME,
    T_STRING,
    T_INT,
    T_FLOAT,
    T_OPERATOR
} jtoken_kind;

typedef struct jtoken {
    uint8_t kind;
    char op[3];       /* T_OPERATOR */
    uint32_t at, end; /* in the source; of data, what is left after stripping */
    jval value;       /* T_STRING, T_INT, T_FLOAT */
} jtoken;

/* Reads all tokens into a pool of their own. The source has normal newlines already. */
jtoken *jinja_lex(jrender *r, jpool *tokens, uint32_t *n);

/* Reads the tree, and finds the variables. */
jnode *jinja_parse(jrender *r, const jtoken *token, uint32_t n);
bool jinja_resolve(jrender *r, jinja_template *t);

/* ---- parsing, shared by expressions and statements ------------------------------------------- */

typedef struct jparser {
    jrender *r;
    const jtoken *token;
    uint32_t at, n;
    int depth;
    bool failed;
} jparser;

jnode *jparse_expression(jparser *p, bool with_condition);
jnode *jparse_tuple(jparser *p, bool with_condition, const char *stop, bool parentheses);
bool jis_constant(const jnode *n);
bool jis_slice(const jnode *step);
void jmark_constant(jnode *n); /* the expression of an output */
jnode *jparse_target(jparser *p, const char *stop, bool with_namespace);
bool jparse_filters(jparser *p, jnode *to, bool inline_first);
jnode *jnode_new(jparser *p, jnode_kind kind);
bool jnode_add(jparser *p, jnode *n, jnode *kid);
const jtoken *jpeek(const jparser *p);
void jadvance(jparser *p);
bool jtoken_is_name(const jparser *p, const jtoken *t, const char *name);
jnode *jparse_unexpected(jparser *p, const char *expected); /* names what stands here */
bool jis_name(const jparser *p, const char *name);
bool jis_operator(const jparser *p, const char *op);
bool jskip_name(jparser *p, const char *name);
bool jskip_operator(jparser *p, const char *op);
bool jexpect_operator(jparser *p, const char *op);
const jstr *jexpect_name(jparser *p);
jnode *jparse_fail(jparser *p, weft_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool jparse_enter(jparser *p);

#endif
