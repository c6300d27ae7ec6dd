/* merges.c - turns a table of pairs back into a list, and tokens back into letters. */
#include "text/sources/merges.h"

#include "base/sort.h"
#include "base/utf8.h"
#include "text/sources/source.h"

void token_spelling(const tokenizer *t, uint32_t id, buffer *to)
{
    const char *s = vocab_text(&t->vocab, id);
    const size_t n = t->vocab.length[id];
    const bool bytes = t->bpe.bytes && t->bytes.pool == t->vocab.pool && !t->special[id];
    to->n = 0;
    if (!bytes)
        buffer_put(to, s, n);
    for (size_t i = 0; bytes && i < n; i++) {
        char letter[4];
        buffer_put(to, letter, utf8_encode(byte_stand_in((uint8_t)s[i]), letter));
    }
}

static int compare_ids(uint32_t a, uint32_t b)
{
    return a < b ? -1 : a > b;
}

/* Equal ranks (several cuts of one token) sort as in Hugging Face's own converter. */
static int compare(const void *a, const void *b)
{
    const pair *p = a, *q = b;
    int way = compare_ids(p->rank, q->rank);
    way = way ? way : compare_ids(p->id, q->id);
    way = way ? way : compare_ids(p->left, q->left);
    return way ? way : compare_ids(p->right, q->right);
}

static bool is_user(const tokenizer *t, uint32_t id)
{
    return t->type && id < t->vocab.n && t->type[id] == PIECE_USER;
}

weft_status merges_begin(merge_list *l, const tokenizer *t, mem *m, weft_error *err)
{
    const bpe *b = &t->bpe;
    *l = (merge_list){ .mem = m };
    l->at = mem_alloc(m, (size_t)(b->n_pair + 1) * sizeof *l->at, "a list of merges", err);
    if (!l->at)
        return WEFT_ENOMEM;
    for (uint64_t i = 0; i <= b->mask && b->pair; i++) {
        const pair *p = &b->pair[i];
        if (p->id == NO_ID || is_user(t, p->id) || is_user(t, p->left) || is_user(t, p->right))
            continue;
        if (p->left >= t->vocab.n || p->right >= t->vocab.n)
            return weft_fail(
                err, WEFT_EUNSUPPORTED,
                "%s: piece %u has a letter that is not a piece, so no merges produce it", t->path,
                p->id);
        l->at[l->n++] = p;
    }
    sort_pointers((void **)l->at, (int64_t)l->n, compare);
    for (size_t i = 1; i < l->n; i++)
        l->tied |= l->at[i - 1]->rank == l->at[i]->rank && l->at[i - 1]->id != l->at[i]->id;
    return WEFT_OK;
}

void merges_end(merge_list *l)
{
    mem_free(l->mem, l->at);
    *l = (merge_list){ 0 };
}

/* Whether text is a token, but not one that is cut out of texts first. */
static bool is_symbol(const tokenizer *t, const char *text, size_t n)
{
    return vocab_find(&t->vocab, text, n) != NO_ID && vocab_find(&t->contents, text, n) == NO_ID;
}

/* Cuts of a token into two others. */
static size_t cuts_of(const tokenizer *t, uint32_t id)
{
    const vocab *v = &t->vocab;
    const char *text = vocab_text(v, id);
    const size_t n = v->length[id];
    size_t count = 0;
    for (size_t cut = 1; cut < n; cut++)
        if (((uint8_t)text[cut] & 0xC0) != 0x80)
            count += is_symbol(t, text, cut) && is_symbol(t, text + cut, n - cut);
    return count;
}

bool merges_are_scores(const merge_list *l, const tokenizer *t)
{
    size_t run = 0;
    for (size_t i = 0; i < l->n; i++) {
        run++;
        if (i + 1 < l->n && l->at[i + 1]->id == l->at[i]->id)
            continue;
        if (run != cuts_of(t, l->at[i]->id)) /* some merges are elsewhere in the list, or missing */
            return false;
        run = 0;
    }
    return true;
}
