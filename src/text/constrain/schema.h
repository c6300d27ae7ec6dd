/* schema.h - inside the reader of JSON Schema.
 *
 * What an instance must obey at one place is a set of schemas, all of which hold: a schema, what its
 * $ref and allOf lead to, what several "properties" say of one key. A set becomes one rule of the
 * grammar, once; rules that others ask for wait in a queue, so that nothing recurses into a schema.
 *
 *     schema.c           the queue: set -> rule
 *     schema_set.c       sets, and what a set says: members, and choices of anyOf and oneOf
 *     schema_place.c     pointers: $ref in, messages out
 *     schema_facts.c     keywords of one kind, read from all members together
 *     schema_number.c    numbers: bounds and steps digit by digit
 *     schema_string.c    strings: lengths, patterns, formats
 *     schema_list.c      arrays
 *     schema_object.c    objects
 *     schema_value.c     constants
 *     schema_check.c     does a constant obey a set?
 *     schema_apart.c     can no instance obey two sets? */
#ifndef WEFT_TEXT_CONSTRAIN_SCHEMA_H
#define WEFT_TEXT_CONSTRAIN_SCHEMA_H

#include "base/arena.h"
#include "formats/json.h"
#include "text/constrain/grammar.h"

#define SCHEMA_DEPTH   64    /* of $ref and allOf inside each other */
#define SCHEMA_MEMBERS 256   /* schemas that hold at one place */
#define SCHEMA_CHOICES 1024  /* alternatives of one place, all anyOf and oneOf multiplied */
#define SCHEMA_SETS    20000 /* places */

/* Schemas that all hold, in the order in which they were met, none of them `true`. */
typedef struct schema_set {
    size_t n, room;
    bool never;   /* one of them is `false` */
    bool settled; /* only members: their $ref, allOf, anyOf and oneOf are done with */
    const json_t **at;
} schema_set;

/* An anyOf or oneOf. */
typedef struct schema_choice {
    const json_t *owner, *list;
    bool exclusive;
} schema_choice;

/* A set with its $ref and allOf followed. */
typedef struct schema_view {
    schema_set set; /* of objects */
    schema_choice choice[SCHEMA_MEMBERS];
    size_t n_choice;
} schema_view;

enum {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_NUMBER = 8, /* that is no integer */
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_ANY = 127
};

typedef struct schema_made {
    schema_set set;
    symbol rule;
    struct schema_made *next;  /* in its slot of the table */
    struct schema_made *later; /* in the queue */
} schema_made;

#define SCHEMA_SLOTS 1024

/* The expression of a set that was made last; the constants of an enum ask for it again and again. */
typedef struct schema_recent {
    const json_t *at[8];
    size_t n; /* 0: none */
    rx made;
} schema_recent;

rx schema_recall(const schema_recent *r, const schema_set *set);
rx schema_remember(schema_recent *r, const schema_set *set, rx made);

typedef struct schema {
    mem *mem;
    grammar *grammar;
    rx_pool *pool;
    arena arena;
    const json_t *root;
    const schema_options *options;
    weft_error *err;
    bool failed;

    schema_made *made[SCHEMA_SLOTS], *first, *last;
    size_t n_made;
    schema_recent string, number, integer;
    uint64_t effort; /* of checks and comparisons */
    symbol comma;    /* with the blank that may follow */
    symbol open_list, close_list, open_object, close_object;
    rx colon, after_comma, after_open, before_close;
} schema;

/* ---- places ---------------------------------------------------------------------------------- */

/* Fails with the pointer of `keyword` in the schema `at`; NULL: the schema itself. Returns false. */
bool schema_refuse(schema *s, weft_status code, const json_t *at, const char *keyword,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Refuses what is not supported, or lists it if the options are lenient: true to go on. */
bool schema_unsupported(schema *s, const json_t *at, const char *keyword, const char *why);

/* The schema that a $ref of `at` names; NULL if it was refused. */
const json_t *schema_target(schema *s, const json_t *at, const char *ref);

/* ---- sets ------------------------------------------------------------------------------------ */

void *schema_alloc(schema *s, size_t size);
bool schema_add_to(schema *s, schema_set *set, const json_t *one);

/* Follows $ref and allOf. */
bool schema_look(schema *s, const schema_set *set, schema_view *v);

/* The rule of a set, now or later. */
symbol schema_rule(schema *s, const schema_set *set);

/* Spends some effort; false, with the error, when it was too much. */
bool schema_spend(schema *s, uint64_t effort);

/* ---- facts: keywords of all members of a settled set --------------------------------------------- */

typedef struct schema_count {
    uint32_t min, max;
} schema_count;

bool schema_types(schema *s, const schema_set *set, unsigned *types);

/* minItems and maxItems, minLength and ..., minProperties and ...: the strictest. */
bool schema_counts(schema *s, const schema_set *set, const char *min, const char *max,
                   schema_count *c);

/* The enum or const that comes first; *list NULL if there is none. A const is a list of one. */
bool schema_enum(schema *s, const schema_set *set, const json_t *const **list, size_t *n);

/* ---- kinds of values --------------------------------------------------------------------------- */

/* Integers, or all numbers. */
rx schema_number(schema *s, const schema_set *set, bool integer);

/* Strings with their quotes. */
rx schema_string(schema *s, const schema_set *set);

/* A text as a JSON string spells it, without quotes. */
rx schema_text(schema *s, const char *text, size_t n);

/* Whether a pattern of JSON Schema is found in a text; false also on failure. */
bool schema_finds(schema *s, const json_t *at, const char *keyword, const char *pattern,
                  const char *text, size_t n);
rx schema_pattern(schema *s, const json_t *at, const char *keyword, const char *pattern, size_t n);

void schema_list(schema *s, const schema_set *set, symbol to);
bool schema_item(schema *s, const schema_set *set, size_t index, schema_set *item);
size_t schema_prefix(const schema_set *set);

void schema_object(schema *s, const schema_set *set, symbol to);
/* What holds for the value of a key. */
bool schema_property(schema *s, const schema_set *set, const char *key, schema_set *value);
bool schema_requires(const schema_set *set, const char *key);

/* A constant in all its spellings; `whole`: if it is a number, without a point. */
rx schema_constant(schema *s, const json_t *value, bool whole);

/* The bit of its type. */
unsigned schema_type_of(const json_t *value);

/* Has any member one of these keywords? The list ends with NULL. */
bool schema_has(const schema_set *set, const char *const *keywords);

extern const char *const schema_number_keywords[], *const schema_string_keywords[];

/* ---- judging ------------------------------------------------------------------------------------ */

/* 1 if the value obeys the set, 0 if not, -1 on failure. `listed`: it is known to be in their enum. */
int schema_obeys(schema *s, const json_t *value, const schema_set *set, bool listed);

/* 1 if no value can obey both, 0 if that could not be shown, -1 on failure. */
int schema_apart(schema *s, const schema_set *a, const schema_set *b);

#endif
