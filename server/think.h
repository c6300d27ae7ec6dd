/* think.h - separates a model's thinking from its answer while the text arrives.
 *
 *     \n <think> ... </think> \n\n the answer
 *
 * Thinking is fenced by two strings of the template, and comes first: blanks may precede it, and
 * those around it belong to neither part. A fence later in the answer is text: a model may
 * explain what <think> means. The pieces that arrive may cut a fence anywhere. */
#ifndef WEFT_SERVER_THINK_H
#define WEFT_SERVER_THINK_H

#include <stdbool.h>
#include <stddef.h>

/* A part of the text that is certain: of the thinking, or of the answer. */
typedef void think_fn(void *ud, bool thinking, const char *bytes, size_t n);

typedef struct thinking {
    const char *begin, *end; /* the fences; NULL: this model does not think */
    think_fn *fn;
    void *ud;
    int state;
    size_t matched;  /* bytes of a fence that the text has ended with so far */
    char before[64]; /* blanks before the first word, kept back */
    size_t n_before;
} thinking;

/* inside: the prompt itself ended with the first fence. */
void think_init(thinking *t, const char *begin, const char *end, bool inside);
void think_feed(thinking *t, const char *bytes, size_t n);

/* There is no more text: emits what was kept back. */
void think_end(thinking *t);

#endif
