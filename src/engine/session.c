/* session.c - a session's tokens and pages: fork, rewind, and switching to another text by reusing
 * the longest prefix that some session has cached. */
#include "engine/session.h"

#include <assert.h>
#include <math.h>
#include <string.h>

session *session_new(engine *e, weft_error *err)
{
    mem *from = &e->model->host->mem;
    session *s = mem_zalloc(from, 1, sizeof *s, "session", err);
    if (!s)
        return NULL;
    s->engine = e;
    s->next = e->first;
    if (s->next)
        s->next->before = s;
    e->first = s;
    s->cache.layout = &e->pages.layout;
    s->cache.page = mem_zalloc(from, (size_t)pages_for(e->opt.n_ctx), sizeof *s->cache.page,
                               "session", err);
    s->ids = mem_zalloc(from, (size_t)e->opt.n_ctx, sizeof *s->ids, "session", err);
    if (model_has_source(e->model))
        s->source.page = mem_zalloc(from, (size_t)pages_for(e->opt.n_ctx), sizeof *s->source.page,
                                    "session", err);
    s->logits = mem_zalloc(from, (size_t)e->model->n_vocab, sizeof *s->logits, "logits", err);
    s->source.layout = s->cache.layout;
    if (s->cache.page && s->ids && s->logits && (s->source.page || !model_has_source(e->model)))
        return s;
    session_free(s);
    return NULL;
}

void session_free(session *s)
{
    if (!s)
        return;
    mem *from = &s->engine->model->host->mem;
    session_forget_source(s);
    lora_set_drop(s->adapted.set);
    *(s->before ? &s->before->next : &s->engine->first) = s->next;
    if (s->next)
        s->next->before = s->before;
    mem_free(from, s->cache.page);
    mem_free(from, s->source.page);
    mem_free(from, s->ids);
    mem_free(from, s->logits);
    mem_free(from, s);
}

void session_cut(session *s, int64_t length)
{
    s->cache.length = length;
    while (s->cache.n_page > pages_for(length))
        pages_drop(&s->engine->pages, s->cache.page[--s->cache.n_page]);
}

static void drop_source(session *s)
{
    s->source.length = 0;
    while (s->source.n_page > 0)
        pages_drop(&s->engine->pages, s->source.page[--s->source.n_page]);
}

void session_forget_source(session *s)
{
    session_cut(s, 0);
    s->has_logits = false;
    drop_source(s);
}

static void take_adaption(session *s, adaption a)
{
    lora_set_hold(a.set);
    lora_set_drop(s->adapted.set);
    s->adapted = a;
}

weft_status session_adapt(session *s, lora_set *set, real strength, weft_error *err)
{
    const weft_status status = adaption_check((adaption){ set, strength }, s->engine->opt.rank,
                                              err);
    if (status != WEFT_OK)
        return status;
    session_forget_source(s);
    take_adaption(s, (adaption){ set, set ? strength : 0 });
    return WEFT_OK;
}

void session_drop_adapter(session *s)
{
    session_forget_source(s);
    take_adaption(s, (adaption){ 0 });
}

weft_status session_rewind(session *s, int64_t length, weft_error *err)
{
    if (length < 0 || length > s->cache.length)
        return weft_fail(err, WEFT_EINVAL, "cannot rewind to %lld: the session has %lld tokens",
                         (long long)length, (long long)s->cache.length);
    s->has_logits = false;
    session_cut(s, length);
    return WEFT_OK;
}

/* Shares the pages of the first `length` tokens of another session, starting after its own
 * pages. */
static void share(session *s, const session *from, int64_t length)
{
    cache *c = &s->cache;
    assert(c->length % PAGE_ROWS == 0 && length >= c->length);
    for (; c->n_page < pages_for(length); c->n_page++) {
        c->page[c->n_page] = from->cache.page[c->n_page];
        pages_hold(&s->engine->pages, c->page[c->n_page]);
    }
    memcpy(s->ids + c->length, from->ids + c->length,
           (size_t)(length - c->length) * sizeof *s->ids);
    c->length = length;
}

static bool same_source(const session *a, const session *b)
{
    return a->source.length == b->source.length &&
           (a->source.length == 0 || a->source.page[0] == b->source.page[0]);
}

static void share_source(session *to, const session *from)
{
    if (same_source(to, from))
        return;
    drop_source(to);
    for (int64_t i = 0; i < from->source.n_page; i++) {
        to->source.page[to->source.n_page++] = from->source.page[i];
        pages_hold(&to->engine->pages, from->source.page[i]);
    }
    to->source.length = from->source.length;
}

void session_copy(session *to, const session *from)
{
    assert(to->engine == from->engine);
    if (to == from)
        return;
    session_cut(to, 0);
    take_adaption(to, from->adapted);
    share_source(to, from);
    share(to, from, from->cache.length);
    to->has_logits = from->has_logits;
    if (from->has_logits)
        memcpy(to->logits, from->logits, (size_t)to->engine->model->n_vocab * sizeof *to->logits);
}

session *session_fork(const session *s, weft_error *err)
{
    session *fork = session_new(s->engine, err);
    if (fork)
        session_copy(fork, s);
    return fork;
}

/* ---- prefix reuse ---------------------------------------------------------------------------- */

static int64_t common(const session *s, const int32_t *ids, int64_t n)
{
    int64_t k = 0;
    while (k < n && k < s->cache.length && s->ids[k] == ids[k])
        k++;
    return k;
}

int64_t session_match(session *s, const int32_t *ids, int64_t n)
{
    const int64_t own = common(s, ids, n);
    if (own == n && s->cache.length == n && s->has_logits)
        return n;
    const session *giver = NULL;
    int64_t most = own;
    for (const session *other = s->engine->first; other; other = other->next) {
        const int64_t whole = common(other, ids, n) / PAGE_ROWS * PAGE_ROWS;
        if (whole > most && same_source(s, other) && same_adaption(s->adapted, other->adapted)) {
            giver = other;
            most = whole;
        }
    }
    s->has_logits = false;
    session_cut(s, giver ? own / PAGE_ROWS * PAGE_ROWS : own);
    if (giver)
        share(s, giver, most);
    if (most == n && n > 0) /* the last one is evaluated again for its logits */
        session_cut(s, --most);
    return most;
}

int32_t session_greedy(const session *s)
{
    if (!s->has_logits)
        return -1;
    int32_t best = 0;
    for (int32_t i = 1; i < (int32_t)s->engine->model->n_vocab; i++)
        if (s->logits[i] > s->logits[best])
            best = i;
    return best;
}
