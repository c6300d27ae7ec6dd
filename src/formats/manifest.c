/* manifest.c - writes and reads manifest.json. Reading is strict: a checkpoint with a doubtful
 * manifest is not a checkpoint. */
#include "formats/manifest.h"

#include "base/checked.h"
#include "formats/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_NAME 255
#define MAX_LIST 65536 /* maximum of files, and of blocks */
#define SUM_SIZE 16    /* hexadecimal digits */

static const char format_name[] = "weft checkpoint";

/* The last line and the closing bracket. */
static const char tail_before[] = "  \"xxh64\": \"", tail_after[] = "\"\n}\n";
#define TAIL                                                                                       \
    (sizeof tail_before - 1 + SUM_SIZE + sizeof tail_after - 1) /* bounded: three literals */

/* ---- writing --------------------------------------------------------------------------------- */

static void put_file(const manifest_file *f, buffer *b)
{
    buffer_text(b, "    { \"name\": ");
    buffer_quote(b, f->name, strlen(f->name));
    buffer_format(b, ", \"bytes\": %" PRIu64 ", \"xxh64\": [", f->bytes);
    for (uint64_t i = 0; i < f->n_sum; i++)
        buffer_format(b, "%s\"%016" PRIx64 "\"", i ? ", " : "", f->sum[i]);
    buffer_text(b, "] }");
}

void manifest_text(const manifest *m, buffer *b)
{
    const manifest_counters *c = &m->counters;
    buffer_format(b,
                  "{\n  \"format\": \"%s\",\n  \"version\": %d,\n  \"step\": %" PRId64
                  ",\n  \"world_size\": 1,\n  \"cursor\": %" PRId64 ",\n  \"n_backward\": %" PRId64
                  ",\n  \"n_update\": %" PRId64 ",\n  \"seed\": \"%016" PRIx64 "\",\n",
                  format_name, MANIFEST_VERSION, c->step, c->cursor, c->n_backward, c->n_update,
                  c->seed);
    buffer_text(b, "  \"options\": ");
    buffer_quote(b, m->options, strlen(m->options));
    buffer_format(b, ",\n  \"chunk\": %zu,\n  \"files\": [\n", CHUNK_BYTES);
    for (int64_t i = 0; i < m->n_file; i++) {
        put_file(&m->file[i], b);
        buffer_text(b, i < m->n_file - 1 ? ",\n" : "\n");
    }
    buffer_text(b, "  ],\n  \"blocks\": [");
    for (int64_t i = 0; i < m->n_block; i++) {
        buffer_text(b, i ? ",\n    { \"name\": " : "\n    { \"name\": ");
        buffer_quote(b, m->block[i].name, strlen(m->block[i].name));
        buffer_format(b, ", \"bytes\": %" PRIu64 " }", m->block[i].bytes);
    }
    buffer_text(b, m->n_block ? "\n  ],\n" : "],\n");
    const uint64_t sum = xxh64_of(b->at, b->n);
    buffer_format(b, "%s%016" PRIx64 "%s", tail_before, sum, tail_after);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Errors stick, so that fields can be read one after the other. */
typedef struct parse {
    manifest *m;
    const char *path;
    weft_status status;
    weft_error *err;
} parse;

static void manifest_wrong(parse *r, const char *what)
{
    if (r->status == WEFT_OK)
        r->status = weft_fail(r->err, WEFT_EFORMAT, "%s: %s", r->path, what);
}

static void *manifest_keep(parse *r, void *block)
{
    if (!block && r->status == WEFT_OK)
        r->status = WEFT_ENOMEM;
    return block;
}

/* An integer from 0 on. */
static int64_t read_count(parse *r, const json_t *in, const char *key)
{
    const json_t *v = json_object_get(in, key);
    char what[64];
    if (json_is_integer(v) && json_integer_value(v) >= 0)
        return json_integer_value(v);
    snprintf(what, sizeof what, "%s is missing, or not an integer", key);
    manifest_wrong(r, what);
    return 0;
}

/* An integer from 0 to `most`, which is another field's value. */
static int64_t read_counter(parse *r, const json_t *in, const char *key, int64_t most,
                            const char *name)
{
    const int64_t n = read_count(r, in, key);
    char what[128];
    snprintf(what, sizeof what, "%s is %" PRId64 "; expected at most %" PRId64 "%s", key, n, most,
             name);
    if (n > most)
        manifest_wrong(r, what);
    return n;
}

static bool hex_of(const char *text, size_t length, uint64_t *to)
{
    *to = 0;
    if (length != SUM_SIZE)
        return false;
    for (size_t i = 0; i < length; i++) {
        const char *at = memchr("0123456789abcdef", text[i], 16);
        if (!at)
            return false;
        *to = *to << 4 | (uint64_t)(at - "0123456789abcdef");
    }
    return true;
}

static uint64_t read_sum(parse *r, const json_t *v)
{
    uint64_t sum = 0;
    if (!json_is_string(v) || !hex_of(json_string_value(v), json_string_length(v), &sum))
        manifest_wrong(r, "a sum or the seed is not 16 digits");
    return sum;
}

/* A text without NUL. */
static const char *read_manifest_text(parse *r, const json_t *v, const char *what)
{
    const char *text = json_string_value(v);
    const size_t n = json_string_length(v);
    if (text && strlen(text) == n)
        return manifest_keep(r, arena_text(&r->m->store, text, n, r->err));
    manifest_wrong(r, what);
    return NULL;
}

/* The name of a file in the same directory, or of a block: never a path. */
static const char *read_name(parse *r, const json_t *in)
{
    static const char what[] = "a file or block has no valid name";
    const char *name = read_manifest_text(r, json_object_get(in, "name"), what);
    if (name && (!name[0] || name[0] == '.' || strchr(name, '/') || strlen(name) > MAX_NAME))
        manifest_wrong(r, what);
    return name;
}

/* A list of objects, and an array for their parsed form. */
static void *read_entries(parse *r, const json_t *list, size_t size, int64_t *n)
{
    *n = (int64_t)json_array_size(list);
    if (!json_is_array(list) || *n > MAX_LIST) {
        manifest_wrong(r, "files, blocks or sums are missing, or too many");
        *n = 0;
    }
    if (*n == 0 || r->status != WEFT_OK)
        return NULL;
    return manifest_keep(
        r, arena_alloc(&r->m->store, (size_t)*n * size, r->err)); /* bounded: MAX_LIST */
}

static uint64_t chunk_count(uint64_t bytes)
{
    return bytes / CHUNK_BYTES + (bytes % CHUNK_BYTES > 0); /* bounded: less than bytes */
}

static void read_file(parse *r, const json_t *from, manifest_file *to)
{
    const json_t *list = json_object_get(from, "xxh64");
    int64_t n = 0;
    to->name = read_name(r, from);
    to->bytes = (uint64_t)read_count(r, from, "bytes");
    uint64_t *sum = read_entries(r, list, sizeof *sum, &n);
    if (chunk_count(to->bytes) != (uint64_t)n)
        manifest_wrong(r, "the number of checksums does not match the number of chunks");
    for (int64_t i = 0; i < n && r->status == WEFT_OK; i++)
        sum[i] = read_sum(r, json_array_get(list, (size_t)i));
    to->sum = sum;
    to->n_sum = (uint64_t)n;
}

static void read_files(parse *r, const json_t *root)
{
    const json_t *list = json_object_get(root, "files");
    manifest *m = r->m;
    m->file = read_entries(r, list, sizeof *m->file, &m->n_file);
    for (int64_t i = 0; i < m->n_file && r->status == WEFT_OK; i++)
        read_file(r, json_array_get(list, (size_t)i), &m->file[i]);
}

/* The blocks must fill state.weft, if there is one. */
static void read_blocks(parse *r, const json_t *root)
{
    const json_t *list = json_object_get(root, "blocks");
    manifest *m = r->m;
    uint64_t at = 0;
    m->block = read_entries(r, list, sizeof *m->block, &m->n_block);
    for (int64_t i = 0; i < m->n_block && r->status == WEFT_OK; i++) {
        const json_t *from = json_array_get(list, (size_t)i);
        m->block[i] = (manifest_block){ .name = read_name(r, from),
                                        .bytes = (uint64_t)read_count(r, from, "bytes"),
                                        .offset = at };
        if (!checked_add(at, m->block[i].bytes, &at))
            manifest_wrong(r, "blocks are larger than any file");
    }
    if (r->status != WEFT_OK)
        return;
    const manifest_file *state = manifest_find(m, STATE_FILE);
    if (at != (state ? state->bytes : 0))
        manifest_wrong(r, "blocks do not fill " STATE_FILE);
}

static void read_manifest_fields(parse *r, const json_t *root)
{
    manifest_counters *c = &r->m->counters;
    const char *format = json_string_value(json_object_get(root, "format"));
    if (!format || strcmp(format, format_name) != 0)
        manifest_wrong(r, "not the manifest of a checkpoint");
    const int64_t version = read_count(r, root, "version");
    if (r->status == WEFT_OK && (version < 1 || version > MANIFEST_VERSION))
        r->status = weft_fail(r->err, WEFT_EUNSUPPORTED,
                              "%s: version %" PRId64 "; this weft reads versions up to %d", r->path,
                              version, MANIFEST_VERSION);
    c->cursor = read_counter(r, root, "cursor", MAX_SAMPLE, "");
    c->step = read_counter(r, root, "step", c->cursor, ", the cursor");
    c->n_backward = read_counter(r, root, "n_backward", c->cursor, ", the cursor");
    c->n_update = read_counter(r, root, "n_update", c->step, ", the step");
    c->seed = read_sum(r, json_object_get(root, "seed"));
    if (read_count(r, root, "world_size") != 1)
        manifest_wrong(r, "world_size is not 1");
    if (read_count(r, root, "chunk") != (int64_t)CHUNK_BYTES)
        manifest_wrong(r, "chunk is not 4194304");
    r->m->options = read_manifest_text(r, json_object_get(root, "options"), "options are missing");
    read_files(r, root);
    read_blocks(r, root);
}

static bool sum_fits(const uint8_t *data, uint64_t size)
{
    uint64_t sum;
    const char *tail = size >= TAIL ? (const char *)&data[size - TAIL] : NULL;
    return tail && memcmp(tail, tail_before, sizeof tail_before - 1) == 0 &&
           hex_of(&tail[sizeof tail_before - 1], SUM_SIZE, &sum) &&
           sum == xxh64_of(data, (size_t)(size - TAIL));
}

weft_status manifest_parse(manifest *m, const uint8_t *data, uint64_t size, const char *path,
                           host *h, weft_error *err)
{
    *m = (manifest){ 0 };
    parse r = { m, path, WEFT_OK, err };
    if (!sum_fits(data, size))
        return weft_fail(err, WEFT_EFORMAT, "%s: damaged: checksum mismatch", path);
    r.status = arena_init(&m->store, ARENA_GROWING, &h->mem, 0, "a manifest", err);
    if (r.status != WEFT_OK)
        return r.status;
    json_section_begin(&h->mem);
    weft_error why = { 0 };
    const json_t *root = json_read(data, size, false, path, &why);
    if (root)
        read_manifest_fields(&r, root);
    else
        r.status = weft_fail(err, why.code, "%s", why.message);
    json_section_end();
    if (r.status != WEFT_OK)
        manifest_free(m);
    return r.status;
}

void manifest_free(manifest *m)
{
    if (m->store.mem)
        arena_free(&m->store);
    *m = (manifest){ 0 };
}

const manifest_file *manifest_find(const manifest *m, const char *name)
{
    for (int64_t i = 0; i < m->n_file; i++)
        if (strcmp(m->file[i].name, name) == 0)
            return &m->file[i];
    return NULL;
}
