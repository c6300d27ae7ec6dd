/* tables.h - the properties a pattern may name, each stored in two forms. */
#ifndef WEFT_TEXT_REGEX_TABLES_H
#define WEFT_TEXT_REGEX_TABLES_H

#include <stdint.h>

typedef struct regex_property {
    const char *name;      /* lower case, without '_', '-' and ' ' */
    const char *items;     /* as items of a PCRE2 class, */
    uint16_t first, n;     /* plus these ranges of regex_extra */
    uint32_t categories;   /* or: code points of these categories, as bits, */
    uint8_t script;        /* of this script, */
    uint16_t rest, n_rest; /* plus these ranges of regex_extra */
} regex_property;

extern const regex_property regex_properties[]; /* sorted by name */
extern const int n_regex_properties;
extern const uint32_t regex_extra[][2];

/* Where the category or the script changes: code point << 8 | its number from there on. No script
 * has number 0. */
extern const uint32_t regex_categories[], regex_scripts[];
extern const int n_regex_categories, n_regex_scripts;

#endif
