/* regex_tables.h - the properties a pattern may name. */
#ifndef WEFT_TEXT_REGEX_TABLES_H
#define WEFT_TEXT_REGEX_TABLES_H

#include <stdint.h>

typedef struct regex_property {
    const char *name;  /* lower case, without '_', '-' and ' ' */
    const char *items; /* what it is inside a class of PCRE2 */
    uint16_t first, n; /* and the ranges of regex_extra that belong to it */
} regex_property;

extern const regex_property regex_properties[]; /* sorted by name */
extern const int n_regex_properties;
extern const uint32_t regex_extra[][2];

#endif
