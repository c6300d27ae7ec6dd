/* rig.h - derivatives against central differences, in double:
 *
 *     |a - n| <= 1e-6 max(|a|, |n|, 1e-3 max|g|)
 *
 * A case is a function that builds a small expression from leaves; its output is weighted with fixed
 * random numbers to make a scalar. */
#ifndef WEFT_TESTS_RIG_H
#define WEFT_TESTS_RIG_H

#include "support.h"

#include "ops/ops.h"
#include "tensor/tape.h"

_Static_assert(sizeof(real) == 8, "gradients are checked in double");

#define TOLERANCE 1e-6
#define MAX_LEAF  24
#define MAX_ROW   512

/* Two sequences and their two sources: rows of each. */
typedef struct rig_size {
    int length[2], source[2];
    int64_t window;       /* of attention that has one */
    int64_t max_distance; /* of the bias table's buckets */
    int64_t rows_at_once; /* rows that a direction of the derivative spans; 0: one value */
} rig_size;

typedef struct rig {
    host host;
    run run;
    tape tape;
    const rig_size *size;
    batch batch, src;
    batch_row row[MAX_ROW], src_row[MAX_ROW];
    sequence seq[2], src_seq[2];
    pool *pool;
    arena leaves; /* live longer than a step */
    tensor *leaf[MAX_LEAF];
    int n_leaf;
    const rope_table *rope, *rope_behind;
    real *dy;
} rig;

typedef tensor *build_fn(rig *g);

typedef struct grad_case {
    const char *op, *name;
    build_fn *build;
} grad_case;

void rig_init(rig *g, const rig_size *size, int threads);
void rig_free(rig *g);

/* A rig in which a case has been built and differentiated once; `break_it` plants a wrong sign. */
void rig_case(rig *g, const rig_size *size, int threads, build_fn *build, bool break_it);

/* The next leaf, an input or a weight with a gradient of its own: made at the first build, found
 * again at the later ones. */
tensor *leaf(rig *g, int64_t n_row, int64_t n_col);
tensor *vector_leaf(rig *g, int64_t n);
int64_t numbers(const tensor *t);

/* A weight [3, 32] in Q8_0, which has no gradient. */
tensor *frozen_q8_0(void);

/* Gives rows of the loss targets below n_vocab. */
void spread_targets(rig *g, int n_vocab);

/* Gives each of the two sequences the other's source to read. */
void sources_of(rig *g);

/* Worst relative error over all leaves. */
double check_case(const rig_size *size, build_fn *build, bool break_it, int *n_checked);

/* Checks all cases and prints a line for each; false if one is wrong. */
bool check_cases(const rig_size *size, const grad_case *cases, size_t n);

/* Fails unless every case has the same gradients, bit by bit, on 1, 2 and 4 threads. */
void check_threads(const rig_size *size, const grad_case *cases, size_t n);

/* Fails unless a second backward onto the same gradients doubles them: later writers add. */
void check_twice(const rig_size *size, const grad_case *cases, size_t n);

/* Attention in all its forms, at any size: attention_cases.c. */
build_fn build_attention, build_window, build_in_keys, build_full, build_bias, build_cross,
    build_additive, build_cap, build_sink;

#endif
