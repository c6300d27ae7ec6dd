/* unigram.c - the Viterbi pass of unigram.h, forward over the text and back along the best path. */
#include "text/unigram.h"

#include "base/utf8.h"
#include "text/steps.h"

#define UNK_PENALTY 10.0
#define RESET       100000.0f

/* The best path that ends before a byte: its score, its last piece and where that begins. */
typedef struct node {
    double sum;
    uint32_t id, begin; /* begin NO_ID: none yet */
} node;

static void offer(const unigram *m, node *end, double sum, uint32_t id, size_t begin)
{
    sum = m->in_float ? (double)(float)sum : sum;
    if (end->begin == NO_ID || sum > end->sum)
        *end = (node){ sum, id, (uint32_t)begin };
}

static double score_of(const unigram *m, uint32_t id, size_t length)
{
    if (m->user && m->user[id]) /* above all others, so that such a piece always wins */
        return (double)(float)(0.1 * (double)(length - 1));
    return m->score[id];
}

static double unknown_score(const unigram *m)
{
    return m->in_float ? (double)((float)m->min_score - (float)UNK_PENALTY)
                       : m->min_score - UNK_PENALTY;
}

/* Float sums lose small digits as they grow, so SentencePiece rebases them: scores of nodes up to
 * `reach` are counted from here on. */
static void rebase(node *best, size_t at, size_t reach)
{
    const float here = (float)best[at].sum;
    if (here >= -RESET && here <= RESET)
        return;
    for (size_t i = at; i <= reach; i++)
        if (i == at || best[i].begin != NO_ID)
            best[i].sum = (double)((float)best[i].sum - here);
    best[at].sum = 0;
}

static void offer_pieces(const unigram *m, node *best, const char *word, size_t n, size_t at,
                         size_t step, size_t *reach)
{
    if (m->in_float)
        rebase(best, at, *reach);
    const double here = best[at].sum;
    bool single = false;
    uint32_t walk = 0;
    for (size_t i = at; i < n; i++) {
        walk = trie_step(&m->trie, walk, (uint8_t)word[i]);
        if (!walk)
            break;
        const uint32_t id = m->trie.value[walk];
        if (id == NO_ID)
            continue;
        offer(m, &best[i + 1], score_of(m, id, i + 1 - at) + here, id, at);
        *reach = i + 1 > *reach ? i + 1 : *reach;
        single |= i + 1 - at == step;
    }
    if (!single) {
        const double unk = unknown_score(m);
        const double sum = m->in_float ? (double)((float)unk + (float)here) : unk + here;
        offer(m, &best[at + step], sum, m->unk, at);
        *reach = at + step > *reach ? at + step : *reach;
    }
}

static bool put_piece(const unigram *m, const char *word, uint32_t id, size_t begin, size_t end,
                      ids *out, weft_error *err)
{
    const bool bytes = id == m->unk && m->fallback;
    if (!bytes && id == NO_ID) {
        weft_fail(err, WEFT_EINVAL,
                  "the text has a character outside the vocabulary, and the vocabulary has no "
                  "unknown token");
        return false;
    }
    if (!ids_reserve(out, bytes ? end - begin : 1, err))
        return false;
    if (!bytes && id == m->unk)
        id = vocab_find_or(m->names, word + begin, end - begin, id);
    if (!bytes)
        ids_put(out, id, end);
    for (size_t i = begin; bytes && i < end; i++)
        ids_put(out, m->spell[(uint8_t)word[i]], m->in_float ? i + 1 : end);
    return true;
}

/* Reverses the links of the best path, so that it can be walked from the left. */
static void reverse_links(node *best, size_t n)
{
    size_t at = n, later = n;
    uint32_t id = NO_ID;
    while (at > 0) {
        const size_t begin = best[at].begin;
        const uint32_t own = best[at].id;
        best[at].begin = (uint32_t)later;
        best[at].id = id;
        later = at;
        id = own;
        at = begin;
    }
    best[0].begin = (uint32_t)later;
    best[0].id = id;
}

/* The best path, once its links are reversed. Unknown characters are not fused yet. */
static void show_path(const unigram *m, const node *best, size_t n, step_watch *w)
{
    for (size_t at = 0, end; at < n; at = end) {
        const uint32_t id = best[at].id;
        end = best[at].begin;
        steps_piece(w, id, at, end, id == m->unk ? unknown_score(m) : score_of(m, id, end - at));
    }
    steps_path(w, best[n].sum);
}

bool unigram_encode(const unigram *m, unigram_scratch *s, const char *word, size_t n, ids *out,
                    weft_error *err)
{
    if (n >= UINT32_MAX / sizeof(node)) {
        weft_fail(err, WEFT_ELIMIT, "a text of %zu bytes is too long", n);
        return false;
    }
    node *best = scratch_grow(&s->nodes, (n + 1) * sizeof *best, out->mem, err);
    if (!best)
        return false;
    for (size_t i = 0; i <= n; i++)
        best[i] = (node){ 0, NO_ID, NO_ID };
    for (size_t at = 0, step, reach = 0; at < n; at += step) {
        uint32_t point;
        step = utf8_decode(word + at, n - at, &point);
        step = step ? step : 1;
        offer_pieces(m, best, word, n, at, step, &reach);
    }
    reverse_links(best, n);
    if (out->steps)
        show_path(m, best, n, out->steps);
    for (size_t at = 0; at < n;) {
        const uint32_t id = best[at].id;
        size_t end = best[at].begin;
        while (id == m->unk && end < n && best[end].id == m->unk)
            end = best[end].begin; /* a run of unknown characters is one token */
        if (!put_piece(m, word, id, at, end, out, err))
            return false;
        at = end;
    }
    return true;
}
