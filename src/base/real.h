/* real.h - the number activations are made of.
 *
 * float in every build that ships. Built with WEFT_REAL_DOUBLE, the whole core (kernels, ops,
 * models) computes in double: that build is the oracle for long positions and for gradient checks,
 * where float is too blunt to catch a mistake. */
#ifndef WEFT_BASE_REAL_H
#define WEFT_BASE_REAL_H

#include <tgmath.h>
#undef I /* the imaginary unit comes along; here I is the width of an input */

#ifdef WEFT_REAL_DOUBLE
typedef double real;
#else
typedef float real;
#endif

#endif
