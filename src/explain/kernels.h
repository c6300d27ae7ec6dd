/* kernels.h - Nadaraya-Watson regression of some points: for each kernel its width, learned where it
 * has a slope, the curve, and the attention of every point to every other. */
#ifndef WEFT_EXPLAIN_KERNELS_H
#define WEFT_EXPLAIN_KERNELS_H

#include "explain/document.h"
#include "formats/points.h"

#define KERNEL_STEPS 200 /* of gradient descent on the logarithm of the width */
#define KERNEL_DRAWN 161 /* places of a curve */

typedef struct kernel_fit {
    const char *name, *formula;
    bool learns; /* otherwise the width is the best of some that are tried */
    double width;
    double rms_error; /* root mean square, of each point predicted from the others */
    int n_step;       /* of the two below: widths that were gone through, or tried */
    float path[KERNEL_STEPS], rms_errors[KERNEL_STEPS];
    float curve[KERNEL_DRAWN];
    float weights[POINTS_MOST * POINTS_MOST]; /* [n, n], with each point itself */
} kernel_fit;

enum { N_KERNEL_FIT = 4 };

typedef struct kernel_study {
    const points *points;
    const char *title;
    float at[KERNEL_DRAWN];
    kernel_fit fit[N_KERNEL_FIT];
} kernel_study;

/* The study is about a megabyte: not for the stack. */
weft_status kernels_study(kernel_study *s, const points *p, const char *title, host *h,
                          weft_error *err);

/* Writes it, as JSON or as a page. */
void kernels_write(const kernel_study *s, document *d);
void kernels_page(const kernel_study *s, document *d);

#endif
