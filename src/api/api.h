/* api.h - shared by the public functions. */
#ifndef WEFT_API_API_H
#define WEFT_API_API_H

#include "engine/session.h"
#include "models/stop_ids.h"
#include "text/sources/pieces.h"

/* Handles may be freed in any order: a child holds a reference to its parent, and the last release
 * frees it. A freed child calls the parent's own free function, as the caller does. */
typedef atomic_int holders; /* in addition to the caller, who counts as one until he frees it */

static inline void hold(holders *n)
{
    atomic_fetch_add(n, 1);
}

/* Drops a reference; true for the last one. */
static inline bool let_go(holders *n)
{
    return atomic_fetch_sub(n, 1) == 0;
}

struct weft_budget {
    mem mem;
    struct mem own;       /* the allocator of the budget itself */
    _Atomic size_t taken; /* from `mem`, by the host */
    holders holders;
};

struct weft_model {
    host host;
    model model;
    pieces pieces;
    stop_ids stop_ids;
    weft_budget *budget; /* referenced; or NULL */
    holders holders;
};

/* Who looks into the forwards of an engine or encoder. */
typedef struct watcher {
    weft_trace_fn *trace;
    void *trace_ud;
    weft_hook_fn *hook;
    void *hook_ud;
} watcher;

struct weft_engine {
    engine *inner;
    weft_model *model; /* referenced */
    watcher watcher;
    holders holders;
};

struct weft_encoder {
    struct encode_engine *inner;
    weft_model *model; /* referenced */
    watcher watcher;
};

struct weft_session {
    session *inner;
    weft_engine *engine; /* referenced */
};

/* An adapter of a model that changes nothing yet, for its maker to fill in. */
weft_adapter *adapter_new(weft_model *m, weft_error *err);
struct ready_adapter *adapter_ready(weft_adapter *a);

/* What an adapter changes; and is it for this model? */
lora_set *adapter_set(weft_adapter *a);
bool adapter_fits(const weft_adapter *a, const weft_model *m, weft_error *err);

/* The same for NULL, and with this strength: can sessions of an engine for ranks up to `rank` have
 * it? */
weft_status check_adapter(weft_adapter *a, double strength, const weft_model *m, int64_t rank,
                          weft_error *err);
adaption adaption_of(weft_adapter *a, double strength);

/* Every public function starts with this: clears the error, which is the caller's, or `unread` if
 * the caller passed NULL. */
static inline weft_error *begin_call(weft_error *err, weft_error *unread)
{
    err = err ? err : unread;
    *err = (weft_error){ 0 };
    return err;
}

/* A caller's option struct may be shorter than ours (an older header) but not longer (a newer
 * one). */
bool read_options(void *to, size_t size, const void *from, size_t from_size, const char *what,
                  weft_error *err);

/* Checks the caller's result struct before the work starts: it begins with its size, which must be
 * set. */
bool result_fits(const void *to, const char *what, weft_error *err);

/* Is this a valid way of loading? */
bool load_exists(weft_load load, weft_error *err);
bool compute_exists(weft_compute compute, weft_error *err);

/* Copies as much of a result struct as the caller knows; nothing if the caller did not set the
 * size. */
void copy_result(void *to, size_t to_size, void *from, size_t size);

/* A budget for one call, inside the caller's budget or NULL. */
void take_budget(weft_budget *to, size_t ram_max, weft_budget *within);

/* The same budget with a new reference; NULL for NULL. */
weft_budget *hold_budget(weft_budget *budget);

/* Sets an object's memory cap and, unless NULL, the budget that it also counts against. */
void take_memory(host *h, size_t ram_max, weft_budget *budget);

/* The bytes of a token in place, and their number; same contract as weft_tokenizer_piece. */
int64_t tokenizer_bytes(const weft_tokenizer *t, int32_t id, const char **bytes);

struct sampler *sampler_inside(const weft_sampler *s);

/* Copies options of a sampler for this model, or for n_vocab if it is NULL; false if they cannot be
 * read or do not fit it. */
bool read_sampler_options(weft_sampler_options *to, const weft_sampler_options *from,
                          const weft_model *m, weft_error *err);

/* The internal tokenizer of the handle. */
const struct tokenizer *tokenizer_inside(const weft_tokenizer *t);

/* Its vocabulary as a trie, made on the first call; NULL with err filled on failure. */
const struct token_trie *tokenizer_tokens(weft_tokenizer *t, weft_error *err);

/* A reference to a tokenizer, which weft_tokenizer_free drops, and its memory. */
void hold_tokenizer(weft_tokenizer *t);
struct mem *tokenizer_memory(weft_tokenizer *t);
const struct chat *template_inside(const weft_template *t);
struct mem *template_memory(const weft_template *t);

/* The internal constraint of the handle. */
struct constraint *constraint_inside(const weft_constraint *c);

/* NULL for the default; an error if there is no such type. */
bool take_kv_type(weft_kv_type from, const dtype **to, weft_error *err);

/* Checks that the options are valid; engine_resolve checks whether they fit the model. */
bool take_engine_options(const weft_engine_options *from, engine_options *to, weft_error *err);

/* Checks options of a generation, and fills in defaults. */
weft_status take_generate_options(weft_generate_options *o, const weft_model *m, weft_error *err);

/* Reads the options of a trace: `w` is the caller, and `to` the same with `at`, where w will be
 * kept, as user data. */
bool take_trace_options(weft_trace_fn *fn, void *ud, const weft_trace_options *options, watcher *at,
                        watcher *w, trace_spec *to, weft_error *err);

#endif
