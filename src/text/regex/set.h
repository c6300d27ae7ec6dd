/* set.h - sets of code points, one bit each. */
#ifndef WEFT_TEXT_REGEX_SET_H
#define WEFT_TEXT_REGEX_SET_H

#include "text/regex/translate.h"

/* An empty set; mem_free frees it. */
uint64_t *points_new(mem *m, weft_error *err);

void points_add(uint64_t *set, uint32_t first, uint32_t last);
void points_add_property(uint64_t *set, const regex_property *p);

/* Adds another set, or its complement. */
void points_unite(uint64_t *set, const uint64_t *other, bool negated);

/* Intersects with the other set. */
void points_keep(uint64_t *set, const uint64_t *other);

/* Writes its ranges, without surrogates, as items of a class. */
void points_put(const uint64_t *set, regex_text *items);

#endif
