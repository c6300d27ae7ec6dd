/* eval.h - what runs a template: expressions (eval.c), loops (loop.c), statements (run.c). */
#ifndef WEFT_TEXT_JINJA_EVAL_H
#define WEFT_TEXT_JINJA_EVAL_H

#include "text/jinja/tree.h"

/* The variables of a function that runs. */
typedef struct jframe {
    struct jframe *outer;
    jval slot[];
} jframe;

typedef struct jeval jeval;

struct jeval {
    jrender r; /* first: a jrender is a jeval */
    const jdict *variables;
    jframe *frame;
    jbuild *out;
    uint32_t n_block; /* generation blocks so far */
    jval (*call_macro)(jeval *e, const jmacro *m, const jargs *a);
};

jval jeval_node(jeval *e, const jnode *n);
bool jeval_assign(jeval *e, const jnode *target, jval v);
jval jeval_steps(jeval *e, const jnode *n, uint32_t first, jval v); /* kids from `first` on */
bool jeval_enter(jeval *e, const jscope *s);
void jeval_leave(jeval *e, const jscope *s);
jframe *jframe_new(jeval *e, uint32_t n, jframe *outer);
jval *jeval_slot(const jeval *e, jplace at);

/* One level deeper; false, with the error, when that is too deep. */
bool jeval_deeper(jeval *e);

/* `loop`, while a loop runs. */
typedef struct jloop_state {
    jloop base;
    jiter it;
    jval over, before, now, after;
    int64_t index0;
    bool peeked; /* `after` is the next item, or V_MISSING at the end */
    jval changed;
} jloop_state;

void jloop_begin(jloop_state *l, jiter it);
jval jloop_next(jrender *r, jloop_state *l);
jval jloop_call(jrender *r, jloop_state *l, const char *name, const jargs *a);

weft_status jinja_run_template(const jinja_template *t, jpool *pool, const jdict *variables,
                               uint64_t input_bytes, const jinja_options *options,
                               jinja_output *out, weft_error *err);

#endif
