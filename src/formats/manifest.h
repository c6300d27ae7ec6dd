/* manifest.h - manifest.json of a checkpoint: its files and their checksums.
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
 * Files have a checksum for each chunk (checksum.h). The last checksum covers the text before its
 * line. Blocks are stored in state.weft one after the other. */
#ifndef WEFT_FORMATS_MANIFEST_H
#define WEFT_FORMATS_MANIFEST_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/checksum.h"
#include "base/host.h"

#define MANIFEST_VERSION 1
#define STATE_FILE       "state.weft"

/* No run uses more samples: random numbers are keyed by 40 bits of a sample's number. */
#define MAX_SAMPLE ((int64_t)1 << 40)

typedef struct manifest_counters {
    int64_t step;       /* steps done, skipped ones included */
    int64_t cursor;     /* samples of the data used, one or more per step; at most MAX_SAMPLE */
    int64_t n_backward; /* so far, each over one or more samples; keys random numbers */
    int64_t n_update;   /* of the optimiser, at most one per step */
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
    arena store; /* owns all of it, if it was parsed */
} manifest;

/* Writes the text of a manifest. */
void manifest_text(const manifest *m, buffer *b);

/* Parses one; `data` need not outlive it; path is for errors. */
weft_status manifest_parse(manifest *m, const uint8_t *data, uint64_t size, const char *path,
                           host *h, weft_error *err);
void manifest_free(manifest *m);

const manifest_file *manifest_find(const manifest *m, const char *name);

#endif
