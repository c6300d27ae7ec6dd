/* manifest.h - manifest.json of a checkpoint: what there is, and by which sums it is known.
 *
 *     {
 *       "format": "weft checkpoint",
 *       "version": 1,
 *       "step": 200, "world_size": 1, "cursor": 2400, "n_backward": 200, "n_update": 200,
 *       "seed": "0000000000000539",
 *       "options": "...",
 *       "chunk": 4194304,
 *       "files": [ { "name": "model.safetensors", "bytes": 5242880, "xxh64": ["...", "..."] } ],
 *       "blocks": [ { "name": "adamw.m", "bytes": 2621440 } ],
 *       "xxh64": "0123456789abcdef"
 *     }
 *
 * Files have a sum for each chunk (checksum.h). The last sum is that of the text before its line.
 * Blocks lie in state.weft one behind the other. */
#ifndef WEFT_FORMATS_MANIFEST_H
#define WEFT_FORMATS_MANIFEST_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/checksum.h"
#include "base/host.h"

#define MANIFEST_VERSION 1
#define STATE_FILE       "state.weft"

/* No run takes more samples: random numbers are keyed by 40 bits of a sample's number. */
#define MAX_SAMPLE ((int64_t)1 << 40)

typedef struct manifest_counters {
    int64_t step;       /* steps taken, those that were skipped included */
    int64_t cursor;     /* samples of the data taken, one or more in a step; at most MAX_SAMPLE */
    int64_t n_backward; /* so far, of one or more samples: random numbers are keyed by it */
    int64_t n_update;   /* of the optimiser, at most one in a step */
    uint64_t seed;
} manifest_counters;

typedef struct manifest_file {
    const char *name;
    uint64_t bytes;
    const uint64_t *sum; /* [n_sum] */
    uint64_t n_sum;
} manifest_file;

typedef struct manifest_block {
    const char *name;
    uint64_t bytes, offset; /* in state.weft */
} manifest_block;

typedef struct manifest {
    manifest_counters counters;
    const char *options;
    manifest_file *file;
    int64_t n_file;
    manifest_block *block;
    int64_t n_block;
    arena store; /* where all of it lies, if it was parsed */
} manifest;

/* The text of a manifest. */
void manifest_text(const manifest *m, buffer *b);

/* Reads one, whose bytes need not outlive it; path is for errors. */
weft_status manifest_parse(manifest *m, const uint8_t *data, uint64_t size, const char *path,
                           host *h, weft_error *err);
void manifest_free(manifest *m);

const manifest_file *manifest_find(const manifest *m, const char *name);

#endif
