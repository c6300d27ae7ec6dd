/* gguf_mutate.c - mutations that know where the numbers of a GGUF file are. Half of them give a
 * field an extreme value, a neighbour of its value, or the value of another field; the others are
 * libFuzzer's own. */
#include "hostile.h"

#include <string.h>

static uint32_t draw(uint32_t *state)
{
    *state = (uint32_t)((*state * 6364136223846793005u + 1442695040888963407u) >> 16);
    return *state >> 4;
}

static uint64_t get(const uint8_t *data, const field *f)
{
    uint64_t x = 0;
    memcpy(&x, data + f->at, (size_t)f->width);
    return x;
}

static uint64_t new_value(const uint8_t *data, const fields *all, const field *f, uint32_t *state)
{
    const uint64_t old = get(data, f);
    const uint32_t which = draw(state);
    switch (draw(state) % 6) {
    case 0:
        return hostile[which % N_HOSTILE];
    case 1:
        return f->limit + which % 2;
    case 2:
        return old + which % 7 - 3;
    case 3:
        return which % 2 ? old << which % 8 : old >> which % 8;
    case 4:
        return which % 64;
    default:
        return get(data, &all->field[which % (uint32_t)all->n]);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    fields all;
    uint32_t state = seed;
    gguf_fields(&all, data, size);
    if (all.n == 0 || data[0] != 'G' || draw(&state) % 2)
        return LLVMFuzzerMutate(data, size, room);
    for (uint32_t n = 1 + draw(&state) % 3; n > 0; n--) {
        const field *f = &all.field[draw(&state) % (uint32_t)all.n];
        const uint64_t x = new_value(data, &all, f, &state);
        memcpy(data + f->at, &x, (size_t)f->width);
    }
    return size;
}
