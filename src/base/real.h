/* real.h - the scalar type of activations.
 *
 * float in every build that ships. Built with WEFT_REAL_DOUBLE, the whole core (kernels, ops,
 * models) computes in double: that build is the oracle for long positions and for gradient checks,
 * where float is too coarse to reveal a mistake. */
#ifndef WEFT_BASE_REAL_H
#define WEFT_BASE_REAL_H

#include <tgmath.h>
#undef I /* defines I as the imaginary unit; here I is an input width */

#ifdef WEFT_REAL_DOUBLE
typedef double real;
#else
typedef float real;
#endif

#endif
