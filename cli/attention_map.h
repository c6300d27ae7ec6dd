/* attention_map.h - where a decoder looked in its source while it made a text, as a picture. */
#ifndef WEFT_CLI_ATTENTION_MAP_H
#define WEFT_CLI_ATTENTION_MAP_H

#include "cli.h"

/* The text is made once more, all of its tokens at a time, and the probabilities of attention to
 * the source are kept. */
typedef struct attention_map {
    weft_model *model;
    weft_engine_options options;           /* of the engine that made the text */
    const weft_tokenizer *source, *target; /* NULL: ids are shown */
    const int32_t *source_ids;
    int64_t n_source;
    const int32_t *begin, *ids; /* what the decoder began with, and said */
    int64_t n_begin, n;
    int64_t layer; /* from 1 on; 0: the mean over all */
} attention_map;

/* An SVG: a row for each token of the text, a column for each of the source. Returns 0, or an exit
 * code after printing an error. */
int attention_map_write(const command *c, const char *path, const attention_map *m);

#endif
