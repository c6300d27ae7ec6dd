/* fuzz_shard.c - bytes as a file of ids. Three of four mutations fix the checksum; otherwise hardly
 * any input would pass it. */
#include "formats/shard.h"
#include "hostile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    shard s;
    weft_error err = { 0 };
    if (shard_parse(&s, data, size, "fuzz", &err) != WEFT_OK) {
        holds(err.code != WEFT_OK && err.message[0], "no: there is no sentence");
        return 0;
    }
    uint64_t begin = 0;
    holds(shard_find_unknown_id(&s, s.n_vocab) == s.n_id, "an id is not in the vocabulary");
    for (uint64_t i = 0; i < s.n_document; i++) {
        holds(shard_begin(&s, i) == begin && s.document[i].end > begin, "a document is empty");
        holds(s.document[i].n_prompt <= s.document[i].end - begin, "a prompt is too long");
        begin = s.document[i].end;
    }
    holds(begin == s.n_id, "ids are left over");
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, room);
    if (size >= SHARD_HEAD && seed % 4) {
        const uint64_t sum = shard_sum(data, size);
        memcpy(data + 40, &sum, sizeof sum);
    }
    return size;
}
