/* schema_decimal.h - a number as its digits, so that bounds are exact. */
#ifndef WEFT_TEXT_CONSTRAIN_SCHEMA_DECIMAL_H
#define WEFT_TEXT_CONSTRAIN_SCHEMA_DECIMAL_H

#include "formats/json.h"

#define DECIMAL_DIGITS 40 /* before and after the point */

typedef struct decimal {
    bool negative;
    bool huge;                  /* more digits before the point than fit */
    int n_whole, n_part;        /* digits before the point (0: none) and after it */
    char whole[DECIMAL_DIGITS]; /* without leading zeros */
    char part[DECIMAL_DIGITS];  /* without trailing zeros */
} decimal;

/* The shortest digits that are read as this number again. False if it has more than DECIMAL_DIGITS
 * after the point. */
bool decimal_read(const json_t *number, decimal *d);

/* -1, 0 or 1. */
int decimal_compare(const decimal *a, const decimal *b);

bool decimal_is_zero(const decimal *d);

#endif
