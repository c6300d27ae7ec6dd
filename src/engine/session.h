/* session.h - one timeline of tokens: the tokens, the pages that remember them, and the logits after
 * the last one.
 *
 * Sessions of an engine share pages. A fork holds all pages of the session it came from, a session
 * that is told to become a text holds the whole pages in which another has its beginning, and who
 * writes into a shared page gets a copy of it first. Rows of a page depend on the tokens before
 * them only, so that nobody can tell.
 *
 * Of a model with an encoder a session also holds the pages of its source, which no one writes into:
 * forks and beams share them all. Rows of its own pages then depend on the source too. */
#ifndef WEFT_ENGINE_SESSION_H
#define WEFT_ENGINE_SESSION_H

#include "engine/engine.h"

#include <stdatomic.h>

typedef struct session session;

struct session {
    engine *engine;
    session *next, *before; /* of the engine's sessions */
    cache cache;            /* n_page is always what `length` needs */
    cache source;           /* with an encoder: what cross-attention reads; length 0: nothing yet */
    int32_t *ids;           /* [n_ctx], `length` of them are there */
    float *logits;          /* [V] after the last token */
    bool has_logits;
    atomic_bool cancelled; /* by any thread; the step that sees it takes it back */
    int64_t planned;       /* rows that the running eval still owes it */
    bool poisoned;         /* its logits of this step are not finite */
    char failure[sizeof((weft_error *)0)->message]; /* why its last work failed */
};

session *session_new(engine *e, weft_error *err);
void session_free(session *s);

/* Another session with the same tokens and logits; takes no page. */
session *session_fork(const session *s, weft_error *err);

/* The same, into a session of the same engine whose own timeline is forgotten. Cannot fail. */
void session_copy(session *to, const session *from);

weft_status session_rewind(session *s, int64_t length, weft_error *err);

/* The timeline becomes one that begins with ids, as far as there is something to be had: what the
 * session has of them itself, or the whole pages in which another session of the engine has more.
 * Returns how many of the ids it then holds; one less than n at most, unless it has the logits after
 * all of them. */
int64_t session_match(session *s, const int32_t *ids, int64_t n);

/* The same, and the rest is evaluated. On error the session has what was reused. */
weft_status session_sync(session *s, const int32_t *ids, int64_t n, int64_t *reused,
                         weft_error *err);

/* To a file and back, as docs/SESSIONS.md draws it: tokens, logits, the rows of the cache. It fits
 * engines of the same model with the same format of keys and values only. */
weft_status session_save(const session *s, const char *path, weft_error *err);
session *session_restore(engine *e, const char *path, weft_error *err);

/* Gives back what lies behind `length`, which is no more than there is. */
void session_cut(session *s, int64_t length);

/* Gives back its source, and with it its tokens. */
void session_forget_source(session *s);

int32_t session_greedy(const session *s);

#endif
