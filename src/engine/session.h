/* session.h - one sequence of tokens: the tokens, their cache pages, and the logits after the last
 * one.
 *
 * Sessions of an engine share pages. A fork references all pages of its parent; session_match
 * references the full pages of another session's common prefix; a write to a shared page copies it
 * first. Rows of a page depend only on the tokens before them, so sharing is invisible.
 *
 * If the model has an encoder, a session also references the pages of its source. Nothing writes to
 * those, so forks and beams share them all. Rows of the session's own pages then depend on the
 * source too. */
#ifndef WEFT_ENGINE_SESSION_H
#define WEFT_ENGINE_SESSION_H

#include "engine/engine.h"

#include <stdatomic.h>

typedef struct session session;

struct session {
    engine *engine;
    session *next, *before; /* list of the engine's sessions */
    cache cache;            /* n_page always matches `length` */
    cache source;           /* with an encoder: input of cross-attention; length 0: no source yet */
    int32_t *ids;           /* [n_ctx], the first `length` are set */
    float *logits;          /* [V] after the last token */
    bool has_logits;
    adaption adapted;      /* its set is held */
    atomic_bool cancelled; /* set by any thread; cleared by the step that sees it */
    int64_t planned;       /* rows that the running eval has yet to compute for it */
    bool poisoned;         /* its logits of this step are not finite */
    row_fn *read;          /* receives the logits of all its rows, or NULL; needs all_rows */
    void *read_ud;
    char failure[sizeof((weft_error *)0)->message]; /* error of its last failed work */
};

session *session_new(engine *e, weft_error *err);
void session_free(session *s);

/* From now on the session computes with this adapter, or with none: set NULL. It loses its tokens
 * and its source, which were computed without it. */
weft_status session_adapt(session *s, lora_set *set, real strength, weft_error *err);

/* The session has none any more, and loses its tokens and source. */
void session_drop_adapter(session *s);

/* The adapter, if it has weights in place of the model's; or NULL. */
static inline const lora_set *session_whole(const session *s)
{
    return adaption_whole(s->adapted);
}

/* Creates a session with the same tokens and logits; allocates no page. */
session *session_fork(const session *s, weft_error *err);

/* The same, into an existing session of the same engine, which loses its tokens. Cannot fail. */
void session_copy(session *to, const session *from);

weft_status session_rewind(session *s, int64_t length, weft_error *err);

/* Makes the session hold the longest cached prefix of ids: its own, or the full pages of another
 * session that has more. Returns the length of that prefix; at most n - 1, unless the session has
 * the logits after all n. */
int64_t session_match(session *s, const int32_t *ids, int64_t n);

/* The same, then evaluates the rest. On error the session keeps the reused prefix. */
weft_status session_sync(session *s, const int32_t *ids, int64_t n, int64_t *reused,
                         weft_error *err);

/* Saves to a file and loads it, in the format of docs/SESSIONS.md: tokens, logits, cache rows. A
 * file only fits engines of the same model with the same format of keys and values, and the adapter
 * that it was saved with. */
weft_status session_save(const session *s, const char *path, weft_error *err);
session *session_restore(engine *e, const char *path, adaption a, weft_error *err);

/* Releases everything after `length`, which must not exceed the current length. */
void session_cut(session *s, int64_t length);

/* Releases its source, and with it its tokens. */
void session_forget_source(session *s);

int32_t session_greedy(const session *s);

#endif
