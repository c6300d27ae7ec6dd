/* checks.h - identities that a forward must satisfy, checked on its own numbers. Each names what is
 * equal, and how far from equal the worst pair of numbers is. */
#ifndef WEFT_EXPLAIN_CHECKS_H
#define WEFT_EXPLAIN_CHECKS_H

#include "explain/subject.h"

typedef struct identity {
    const char *name;    /* "rows" */
    const char *says;    /* "every row of probabilities sums to 1" */
    const char *why_not; /* it does not apply to this model; NULL: it does */
    double error;        /* the largest; relative where magnitudes differ */
    double tolerance;    /* 0: equal bit by bit */
    int64_t n;           /* numbers or rows compared */
    bool holds;
} identity;

#define MAX_IDENTITY 16

/* Returns their number. */
int checks_run(const subject *s, identity *to);

#endif
