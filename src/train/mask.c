/* mask.c - chooses and masks tokens, with a counter-based generator instead of a stream of random
 * numbers. */
#include "train/mask.h"

#include "base/rng.h"

#define WHOLE 4294967296.0 /* 2^32 */

static bool is_special(const masking *m, int32_t id)
{
    const tokenizer *t = m->tokenizer;
    return (uint32_t)id < t->n_id && t->special[id];
}

bool mask_chooses(const masking *m, uint64_t key, uint64_t number, uint64_t i, int32_t id)
{
    return !is_special(m, id) && rng_draw(key, number, i).word[0] < m->share * WHOLE;
}

void mask_rows(batch *b, int32_t first, const masking *m, uint64_t key, uint64_t number)
{
    for (int32_t i = first; i < b->n_row; i++) {
        batch_row *row = &b->row[i];
        const uint64_t at = (uint64_t)(i - first);
        const rng_block draw = rng_draw(key, number, at);
        row->wanted = mask_chooses(m, key, number, at, row->id);
        row->target = row->wanted ? row->id : NO_TARGET;
        if (row->wanted && draw.word[1] < 0.8 * WHOLE)
            row->id = m->id;
        else if (row->wanted && draw.word[1] < 0.9 * WHOLE)
            row->id = (int32_t)(draw.word[2] % m->n_vocab);
        b->n_wanted += row->wanted;
    }
}
