/* container.h - a model file, whatever its format: named tensors and named metadata.
 *
 * GGUF files and Hugging Face directories both become this. Parsing knows nothing about models. It
 * checks that every tensor lies inside its file, has the size that its shape implies, and overlaps
 * no other. */
#ifndef WEFT_FORMATS_CONTAINER_H
#define WEFT_FORMATS_CONTAINER_H

#include "base/arena.h"
#include "base/host.h"
#include "tensor/tensor.h"

typedef enum meta_type { META_BOOL, META_INT, META_REAL, META_TEXT, META_ARRAY } meta_type;

/* One entry of metadata. Objects and lists of a config.json are flattened: "rope_scaling.factor",
 * "architectures.0". An array is GGUF's and stays in the mapped file; its strings have been
 * checked. */
typedef struct meta {
    const char *key;
    meta_type type;
    bool flag;          /* META_BOOL */
    int64_t integer;    /* META_INT */
    double number;      /* META_INT and META_REAL */
    const char *text;   /* META_TEXT: terminated, and may contain NUL before the end */
    uint64_t length;    /* META_TEXT: bytes; META_ARRAY: elements */
    uint32_t element;   /* META_ARRAY: GGUF type of the elements */
    const uint8_t *at;  /* META_ARRAY: the first element */
    const uint8_t *raw; /* GGUF: type and value as stored */
    uint64_t raw_bytes;
} meta;

typedef struct stored stored;

/* How the rows of a matrix are put together whose file stores them in another way. */
typedef struct stored_spread {
    void (*row)(const stored *t, int64_t i, int64_t n, uint8_t *to); /* row i, n numbers */
    const uint8_t *data;                                             /* of the first row */
    const uint8_t *scale;                                            /* of its blocks, or ... */
    const float *factor;        /* ... of blocks of several rows; or NULL */
    int64_t row_step, col_step; /* from number to number; of rows, for blocks */
    int64_t block[2];           /* rows and columns that share a factor */
    int64_t factor_cols;
    int64_t row0; /* the first row, for factors */
} stored_spread;

/* A tensor as stored in the file. */
struct stored {
    const char *name;
    const dtype *type;
    int n_dim;
    int64_t shape[MAX_DIM]; /* outermost first */
    const uint8_t *data;
    uint64_t bytes;
    const char *path;            /* the file that holds it */
    const stored_spread *spread; /* NULL: its rows are at `data`, one after the other */
};

/* Where the index says a tensor is. */
typedef struct placed {
    const char *tensor, *file; /* the file's name, without directory */
} placed;

typedef struct container {
    const char *format;    /* "gguf" or "safetensors" */
    const char *path;      /* the file that holds the tensors, or the index of such files */
    const char *meta_path; /* the file that holds the metadata: the same, or config.json */
    file *file;            /* all files; see container_file */
    int n_file;
    stored *tensor;
    int64_t n_tensor;
    uint64_t room; /* allocated tensors */
    meta *entry;
    int64_t n_entry;
    stored **by_name; /* sorted */
    meta **by_key;    /* sorted: the entries that existed when they were sorted */
    int64_t n_key;
    placed **place; /* the entries of the directory's index, or NULL */
    int64_t n_place;
    arena *store; /* for names and lists: `memory`, or that of the whole if this is a part */
    arena memory;
    host *host;
} container; /* points into itself: do not copy */

#define MAX_TENSOR 65536 /* over all files */

/* Opens a GGUF file, the first of a split one, or a Hugging Face directory. */
weft_status container_open(container *c, const char *path, weft_load load, host *h,
                           weft_error *err);
void container_close(container *c);
void container_release_pages(const container *c); /* see file_release_pages */

/* NULL if there is no such tensor. */
const stored *container_tensor(const container *c, const char *name);
const meta *container_meta(const container *c, const char *key);

/* For a model in several files: begins a container for one of them, which allocates from the whole
 * and is not closed; and appends its tensors to those of the whole. */
void container_part(container *part, container *whole, const char *path);
weft_status container_append(container *whole, const container *part, weft_error *err);

/* For the parsers: an empty container; a slot for one more file, or room for n more tensors,
 * zeroed; and the finish that sorts names and refuses duplicates. */
weft_status container_begin(container *c, const char *format, const char *path, host *h,
                            weft_error *err);
file *container_file(container *c, weft_error *err);
weft_status container_room(container *c, uint64_t n, weft_error *err);
weft_status container_index(container *c, weft_error *err);

/* Bytes of a tensor: false if its row is not a multiple of the block size or the product exceeds 64
 * bits. */
bool stored_bytes(const dtype *t, int n_dim, const int64_t *shape, uint64_t *bytes);

/* "[2, 48]", for messages. */
void shape_text(char *text, size_t size, int n_dim, const int64_t *shape);

/* Row i of rows of `cols` elements each, which may begin at any address; not of a spread tensor. */
const uint8_t *stored_row(const stored *t, int64_t i, int64_t cols);

/* The same as a copy, of any tensor. */
void stored_copy_row(const stored *t, int64_t i, int64_t cols, uint8_t *to);

/* The same tensor in other memory. */
static inline stored stored_over(const stored *t, const void *memory)
{
    stored s = *t;
    s.data = memory;
    return s;
}

/* The parsers. `data` must outlive the container, which is empty on entry. */
weft_status gguf_parse(container *c, const uint8_t *data, uint64_t size, weft_error *err);
weft_status safetensors_parse(container *c, const uint8_t *data, uint64_t size, weft_error *err);
weft_status config_parse(container *c, const uint8_t *data, uint64_t size, weft_error *err);

/* The same if the root may be an array; its elements get the keys 0, 1 ... */
weft_status config_parse_list(container *c, const uint8_t *data, uint64_t size, weft_error *err);

/* Reads the JSON file `name` in the directory of `path`; a missing file is not an error. Close the
 * container either way. */
weft_status config_beside(container *c, const char *path, const char *name, bool *there, host *h,
                          weft_error *err);
weft_status index_parse(container *c, const uint8_t *data, uint64_t size, weft_error *err);

/* Checks that every tensor is in the file that the index names, and that the index lists every
 * tensor. Call after container_index. */
weft_status index_check(container *c, weft_error *err);

/* Walks an array of GGUF strings: returns the string at *at with its length, and advances *at. */
const char *gguf_string(const uint8_t **at, uint64_t *length);

/* Element i of a GGUF array of numbers. */
double gguf_number(const meta *array, uint64_t i);

#define GGUF_STRING   8u
#define GGUF_MAX_TEXT (16u << 20) /* bytes of a string or a token */

#endif
