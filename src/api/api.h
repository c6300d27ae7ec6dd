/* api.h - what the public functions share. */
#ifndef WEFT_API_API_H
#define WEFT_API_API_H

#include "engine/session.h"
#include "models/ends.h"
#include "text/sources/pieces.h"

/* Handles may be freed in any order: what was made from one holds it, and the last to let go frees it.
 * A child that goes calls the parent's own free, as the caller does. */
typedef atomic_int holders; /* beside the caller, who is one until he frees it */

static inline void hold(holders *n)
{
    atomic_fetch_add(n, 1);
}

/* True for the last one. */
static inline bool let_go(holders *n)
{
    return atomic_fetch_sub(n, 1) == 0;
}

struct weft_budget {
    mem mem;
    struct mem own;       /* from which it was taken itself */
    _Atomic size_t taken; /* of `mem`, by the host */
    holders holders;
};

struct weft_model {
    host host;
    model model;
    pieces pieces;
    ends ends;
    weft_budget *budget; /* held; or NULL */
    holders holders;
};

struct weft_engine {
    engine *inner;
    weft_model *model; /* held */
    weft_trace_fn *trace;
    void *trace_ud;
    holders holders;
};

struct weft_session {
    session *inner;
    weft_engine *engine; /* held */
};

/* How a public function begins: its error is clear, and is the caller's or one that nobody reads. */
static inline weft_error *begin_call(weft_error *err, weft_error *unread)
{
    err = err ? err : unread;
    *err = (weft_error){ 0 };
    return err;
}

/* A caller's option struct may be shorter than ours (an older header) but not longer (a newer
 * one). */
bool take_options(void *to, size_t size, const void *from, size_t from_size, const char *what,
                  weft_error *err);

/* A caller's place for a result: a struct that begins with its size, which was set. Checked before
 * the work is done. */
bool result_fits(const void *to, const char *what, weft_error *err);

/* Is there such a way of loading? */
bool load_exists(weft_load load, weft_error *err);

/* Gives a caller as much of a result struct as it knows; nothing where it did not set the size. */
void give(void *to, size_t to_size, void *from, size_t size);

/* A budget of a call, within the caller's or NULL. */
void take_budget(weft_budget *to, size_t ram_max, weft_budget *within);

/* The same budget, held; NULL for NULL. */
weft_budget *hold_budget(weft_budget *budget);

/* The memory of an object under its own cap and, unless NULL, a budget's. */
void take_memory(host *h, size_t ram_max, weft_budget *budget);

/* The bytes of a token where they lie, and how many: as weft_tokenizer_piece. */
int64_t tokenizer_bytes(const weft_tokenizer *t, int32_t id, const char **bytes);

/* What it is made of. */
const struct tokenizer *tokenizer_inside(const weft_tokenizer *t);

/* NULL for the default; an error where there is no such type. */
bool take_kv_type(weft_kv_type from, const dtype **to, weft_error *err);

/* Checks that the options exist; whether they fit the model is engine_resolve's business. */
bool take_engine_options(const weft_engine_options *from, engine_options *to, weft_error *err);

/* A tensor as a caller sees it. */
void trace_show(weft_trace_fn *fn, void *ud, const tensor *t, const op *by);

#endif
