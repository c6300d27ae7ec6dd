/* train_result.h - how `weft train` prints the result of a run, and times and accuracies on the way. */
#ifndef WEFT_CLI_TRAIN_RESULT_H
#define WEFT_CLI_TRAIN_RESULT_H

#include "cli.h"

/* "1:02:03" */
const char *train_duration(double seconds, char *text, size_t size);

/* ", accuracy 88.12 %"; "" of a NaN. */
const char *train_accuracy(double share, char *text, size_t size);

/* What the library does not know of a run. */
typedef struct train_run {
    const char *out; /* its directory */
    size_t bytes;    /* memory, as planned before the first step */
    double took;     /* seconds */
} train_run;

/* Lines to read, or an object. */
void train_result_print(const weft_train_info *i, const train_run *r, bool json);

#endif
