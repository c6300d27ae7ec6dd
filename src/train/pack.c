/* pack.c - best-fit packing of pieces into samples. */
#include "train/pack.h"

#include <string.h>

void packer_begin(packer *k, data_part *part, mem *m)
{
    *k = (packer){ .part = part, .mem = m };
}

/* The open sample with the least sufficient room, or a new one. */
static open_sample *choose_sample(packer *k, int64_t n_row)
{
    open_sample *best = NULL, *fullest = k->open;
    for (int i = 0; i < k->n_open; i++) {
        open_sample *o = &k->open[i];
        if (o->left >= n_row && (!best || o->left < best->left))
            best = o;
        if (o->left < fullest->left)
            fullest = o;
    }
    if (best)
        return best;
    open_sample *o = k->n_open < PACK_OPEN ? &k->open[k->n_open++] : fullest;
    *o = (open_sample){ k->part->n_sample++, k->part->set->n_ctx };
    return o;
}

/* Puts pieces into one sample. */
static bool place_all(packer *k, const data_piece *p, int64_t n, weft_error *err)
{
    packed *all = scratch_grow(&k->room, (size_t)(k->n + n) * sizeof *all, k->mem, err);
    int64_t n_row = 0;
    if (!all)
        return false;
    for (int64_t i = 0; i < n; i++)
        n_row += p[i].n - k->part->set->make->ahead;
    open_sample *o = choose_sample(k, n_row);
    k->placed = all;
    for (int64_t i = 0; i < n; i++)
        all[k->n++] = (packed){ p[i], o->sample };
    o->left -= n_row;
    return true;
}

static bool place(packer *k, data_piece p, weft_error *err)
{
    return place_all(k, &p, 1, err);
}

/* A labelled text that is too long loses ids before its last one. */
static bool add_labelled(packer *k, int64_t at, int64_t n, int64_t n_prompt, int32_t label,
                         weft_error *err)
{
    const int64_t T = k->part->set->n_ctx, left_out = n > T ? n - T : 0;
    data_counts *c = &k->part->counts;
    c->n_document++;
    c->n_truncated += left_out > 0;
    return place(k,
                 (data_piece){ .at = at,
                               .n = (int32_t)(n - left_out),
                               .n_prompt = n_prompt < T ? (int32_t)n_prompt : 0,
                               .label = label,
                               .left_out = (int32_t)left_out },
                 err);
}

bool packer_add(packer *k, int64_t at, int64_t n, int64_t n_prompt, int32_t label, weft_error *err)
{
    if (label >= 0)
        return add_labelled(k, at, n, n_prompt, label, err);
    const int64_t T = k->part->set->n_ctx, ahead = k->part->set->make->ahead;
    data_counts *c = &k->part->counts;
    const bool cut = n - ahead > T, prompt = n_prompt > 0;
    c->n_document++;
    if (cut && prompt)
        n = T + ahead;
    if (n <= ahead || n_prompt >= n) {
        c->n_skipped++;
        return true;
    }
    c->n_truncated += cut && prompt;
    c->n_cut += cut && !prompt;
    for (; n > ahead; at += T, n -= T) {
        const int32_t size = (int32_t)(n > T ? T + ahead : n);
        if (!place(k, (data_piece){ at, size, (int32_t)n_prompt, -1, 0 }, err))
            return false;
    }
    return true;
}

bool packer_add_pair(packer *k, const data_piece both[2], weft_error *err)
{
    data_counts *c = &k->part->counts;
    c->n_document += 2;
    for (int i = 0; i < 2; i++)
        if (both[i].n < 2 || both[i].n_prompt >= both[i].n ||
            both[i].n - 1 > k->part->set->n_ctx - (both[!i].n - 1)) {
            c->n_skipped += 2;
            return true;
        }
    return place_all(k, both, 2, err);
}

/* Sorts pieces by sample, and within a sample by document. */
bool packer_finish(packer *k, weft_error *err)
{
    data_part *p = k->part;
    if (k->n == 0)
        return true;
    p->first = mem_zalloc(k->mem, (size_t)p->n_sample + 2, sizeof *p->first, "samples", err);
    p->piece = p->first ? mem_alloc(k->mem, (size_t)k->n * sizeof *p->piece, "samples", err) : NULL;
    if (!p->piece)
        return false;
    int64_t *next = p->first + 1; /* next free place of each sample */
    for (int64_t i = 0; i < k->n; i++)
        next[k->placed[i].sample + 1]++;
    for (int64_t s = 0; s < p->n_sample; s++)
        next[s + 1] += next[s];
    for (int64_t i = 0; i < k->n; i++)
        p->piece[next[k->placed[i].sample]++] = k->placed[i].piece;
    return true;
}

void packer_end(packer *k)
{
    scratch_free(&k->room, k->mem);
}
