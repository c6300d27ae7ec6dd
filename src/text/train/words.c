/* words.c - a hash table of word counts. It returns words sorted by their bytes, so that training
 * does not depend on the table. */
#include "text/train/words.h"

#include "base/sort.h"
#include "text/hash.h"

/* The slot that holds s, or the one it would go into. */
static word *find(const words *w, const char *s, size_t n)
{
    for (uint64_t i = hash_text(&w->secret, s, n) & (w->size - 1);; i = (i + 1) & (w->size - 1)) {
        word *slot = &w->slot[i];
        if (slot->n == 0 || (slot->n == n && memcmp(w->text + slot->at, s, n) == 0))
            return slot;
    }
}

/* Doubles the slots. */
static bool rehash(words *w, weft_error *err)
{
    const words old = *w;
    const uint64_t size = w->size ? w->size * 2 : 4096;
    word *slot = mem_zalloc(w->mem, size, sizeof *slot, "words", err);
    if (!slot)
        return false;
    w->slot = slot;
    w->size = size;
    w->secret = hash_secret_draw();
    for (uint64_t i = 0; i < old.size; i++)
        if (old.slot[i].n > 0)
            *find(w, w->text + old.slot[i].at, old.slot[i].n) = old.slot[i];
    mem_free(w->mem, old.slot);
    return true;
}

bool words_add(words *w, const char *s, size_t n, uint64_t count, weft_error *err)
{
    if (w->n >= w->size / 2 && !rehash(w, err))
        return false;
    word *slot = find(w, s, n);
    if (slot->n == 0) {
        char *text = scratch_grow(&w->text_room, w->n_text + n, w->mem, err);
        if (!text)
            return false;
        w->text = text;
        memcpy(text + w->n_text, s, n);
        *slot = (word){ w->n_text, n, 0 };
        w->n_text += n;
        w->n++;
    }
    slot->count += count;
    return true;
}

bool words_unite(words *w, const words *other, weft_error *err)
{
    for (uint64_t i = 0; i < other->size; i++) {
        const word *x = &other->slot[i];
        if (x->n > 0 && !words_add(w, other->text + x->at, x->n, x->count, err))
            return false;
    }
    return true;
}

void words_free(words *w)
{
    scratch_free(&w->text_room, w->mem);
    mem_free(w->mem, w->slot);
    *w = (words){ .mem = w->mem };
}

/* sort_pointers has no argument for the text that the words point into, so it sorts these. */
typedef struct spelled {
    const char *s;
    word *w;
} spelled;

static int by_bytes(const void *a, const void *b)
{
    const spelled *x = a, *y = b;
    const size_t n = x->w->n < y->w->n ? x->w->n : y->w->n;
    const int order = memcmp(x->s, y->s, n);
    return order ? order : (x->w->n > y->w->n) - (x->w->n < y->w->n);
}

word **words_sorted(const words *w, weft_error *err)
{
    const size_t n = w->n ? (size_t)w->n : 1;
    spelled *text = mem_zalloc(w->mem, n, sizeof *text, "words in order", err);
    void **sorted = text ? mem_zalloc(w->mem, n, sizeof *sorted, "words in order", err) : NULL;
    if (sorted) {
        size_t k = 0;
        for (uint64_t i = 0; i < w->size; i++)
            if (w->slot[i].n > 0) {
                text[k] = (spelled){ w->text + w->slot[i].at, &w->slot[i] };
                sorted[k] = &text[k];
                k++;
            }
        sort_pointers(sorted, (int64_t)k, by_bytes);
        for (size_t i = 0; i < k; i++)
            sorted[i] = ((spelled *)sorted[i])->w;
    }
    mem_free(w->mem, text);
    return (word **)sorted;
}
