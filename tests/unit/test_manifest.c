/* manifest.json: what was written is read back, and errors are refused by name. */
#include "support.h"

#include "formats/manifest.h"

#include <inttypes.h>

static const uint64_t sums[] = { 1, UINT64_MAX, 0x0123456789abcdef };
static manifest_file files[] = {
    { "model.safetensors", 2 * CHUNK_BYTES + 1, sums, 3 },
    { "state.weft", 300, sums, 1 },
    { "empty", 0, NULL, 0 },
};
static manifest_block blocks[] = { { "adamw.m", 100, 0 },
                                   { "adamw.v", 200, 100 },
                                   { "x", 0, 300 } };
static const manifest sample = {
    .counters = { 200, MAX_SAMPLE, MAX_SAMPLE, 0, UINT64_MAX },
    .options = "{\"lr\": 1e-3,\t\"text\": \"\xc3\xa9\\\"\"}\n",
    .file = files,
    .n_file = 3,
    .block = blocks,
    .n_block = 3,
};

static void begin_text(buffer *b, host *h)
{
    host_plain(h);
    buffer_begin(b, &h->mem, NULL);
}

/* In memory of its exact size, so that a sanitizer reports an overrun. */
static weft_status parse(manifest *m, const void *text, size_t n, host *h, weft_error *err)
{
    uint8_t *exact = malloc(n ? n : 1);
    assert_non_null(exact);
    memcpy(exact, text, n);
    *err = (weft_error){ 0 };
    const weft_status status = manifest_parse(m, exact, n, "manifest.json", h, err);
    free(exact);
    if (status != WEFT_OK && (err->code != status || !err->message[0]))
        fail_msg("status %d, but the error says %d \"%s\"", (int)status, (int)err->code,
                 err->message);
    return status;
}

static void round_trip(void **state)
{
    (void)state;
    host h;
    buffer b;
    manifest m;
    weft_error err;
    begin_text(&b, &h);
    manifest_text(&sample, &b);
    if (parse(&m, b.at, b.n, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_memory_equal(&m.counters, &sample.counters, sizeof m.counters);
    assert_string_equal(m.options, sample.options);
    assert_int_equal(m.n_file, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(m.file[i].name, files[i].name);
        assert_int_equal(m.file[i].bytes, files[i].bytes);
        assert_int_equal(m.file[i].n_sum, files[i].n_sum);
        for (uint64_t k = 0; k < m.file[i].n_sum; k++)
            assert_true(m.file[i].sum[k] == sums[k]);
        assert_string_equal(m.block[i].name, blocks[i].name);
        assert_int_equal(m.block[i].bytes, blocks[i].bytes);
        assert_int_equal(m.block[i].offset, blocks[i].offset);
    }
    assert_ptr_equal(manifest_find(&m, "state.weft"), &m.file[1]);
    assert_null(manifest_find(&m, "state"));
    manifest_free(&m);
    buffer_end(&b);
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

/* Every byte matters. */
static void truncated_and_flipped(void **state)
{
    (void)state;
    host h;
    buffer b;
    manifest m;
    weft_error err;
    begin_text(&b, &h);
    manifest_text(&sample, &b);
    for (size_t n = 0; n < b.n; n++)
        assert_that(parse(&m, b.at, n, &h, &err) == WEFT_EFORMAT, "%zu of %zu bytes: %d", n, b.n,
                    (int)err.code);
    for (size_t bit = 0; bit < 8 * b.n; bit++) {
        b.at[bit / 8] = (uint8_t)(b.at[bit / 8] ^ 1u << bit % 8);
        assert_that(parse(&m, b.at, b.n, &h, &err) == WEFT_EFORMAT, "bit %zu: %d", bit,
                    (int)err.code);
        b.at[bit / 8] = (uint8_t)(b.at[bit / 8] ^ 1u << bit % 8);
    }
    print_message("%zu truncations, %zu flipped bits\n", b.n, 8 * b.n);
    buffer_end(&b);
}

/* ---- texts with the right sum and the wrong words -------------------------------------------- */

/* A manifest of these fields; appends the last line. */
static weft_status parse_fields(const char *fields, host *h, weft_error *err)
{
    buffer b;
    manifest m;
    buffer_begin(&b, &h->mem, NULL);
    buffer_text(&b, fields);
    buffer_format(&b, "  \"xxh64\": \"%016" PRIx64 "\"\n}\n", xxh64_of(b.at, b.n));
    const weft_status status = parse(&m, b.at, b.n, h, err);
    if (status == WEFT_OK)
        manifest_free(&m);
    buffer_end(&b);
    assert_int_equal(atomic_load(&h->mem.used), 0);
    return status;
}

static const char good[] =
    "{\n\"format\": \"weft checkpoint\",\n\"version\": 1,\n\"step\": 2,\n\"world_size\": 1,\n"
    "\"cursor\": 6,\n\"n_backward\": 4,\n\"n_update\": 1,\n\"seed\": \"0000000000000006\",\n"
    "\"options\": \"o\",\n\"chunk\": 4194304,\n"
    "\"files\": [{\"name\": \"state.weft\", \"bytes\": 8, \"xxh64\": [\"0000000000000007\"]}],\n"
    "\"blocks\": [{\"name\": \"m\", \"bytes\": 8}],\n";

/* `good` with one part replaced. */
static weft_status parse_changed(const char *old, const char *new, weft_error *err)
{
    char text[2048];
    host h;
    const char *at = strstr(good, old);
    assert_non_null(at);
    host_plain(&h);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, new, at + strlen(old));
    return parse_fields(text, &h, err);
}

/* Every counter at its limits and beyond: 6 samples in 2 steps. */
static void counters_have_limits(void **state)
{
    (void)state;
    static const struct {
        const char *name, *old;
        int64_t min, max; /* given the others */
    } counters[] = {
        { "cursor", "\"cursor\": 6", 4, MAX_SAMPLE },
        { "step", "\"step\": 2", 1, 6 },
        { "n_backward", "\"n_backward\": 4", 0, 6 },
        { "n_update", "\"n_update\": 1", 0, 2 },
    };
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        const int64_t lo = counters[i].min, hi = counters[i].max;
        const int64_t values[] = { INT64_MIN,     -1,       lo - 1, lo,        lo + 1,
                                   hi - 1,        hi,       hi + 1, INT32_MAX, (int64_t)1 << 62,
                                   INT64_MAX - 1, INT64_MAX };
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            char new[64];
            weft_error err;
            const int64_t n = values[k];
            snprintf(new, sizeof new, "\"%s\": %" PRId64, counters[i].name, n);
            const weft_status status = parse_changed(counters[i].old, new, &err);
            if (status != (n >= lo && n <= hi ? WEFT_OK : WEFT_EFORMAT))
                fail_msg("%s: %d \"%s\"", new, (int)status, err.message);
        }
    }
}

static void wrong_words(void **state)
{
    (void)state;
    static const struct {
        const char *old, *new, *says;
    } cases[] = {
        { "weft checkpoint", "weft", "not the manifest of a checkpoint" },
        { "\"weft checkpoint\"", "1", "not the manifest of a checkpoint" },
        { "\"format\"", "\"was\"", "not the manifest of a checkpoint" },
        { "\"version\": 1", "\"version\": \"1\"", "version is missing, or not an integer" },
        { "\"step\": 2", "\"step\": -1", "step is missing, or not an integer" },
        { "\"step\": 2", "\"step\": 2.0", "step is missing, or not an integer" },
        { "\"step\": 2", "\"step\": 9223372036854775808", "too big integer" },
        { "\"cursor\": 6", "\"cursor\": null", "cursor is missing" },
        { "\"n_backward\"", "\"n\"", "n_backward is missing" },
        { "\"n_update\"", "\"n\"", "n_update is missing" },
        { "\"world_size\": 1", "\"world_size\": 2", "world_size is not 1" },
        { "4194304", "4194303", "chunk is not 4194304" },
        { "\"0000000000000006\"", "6", "16 digits" },
        { "0000000000000006", "000000000000006", "16 digits" },
        { "0000000000000006", "00000000000000006", "16 digits" },
        { "0000000000000006", "000000000000000G", "16 digits" },
        { "0000000000000006", "000000000000000\\u0000", "16 digits" },
        { "\"0000000000000007\"", "7", "16 digits" },
        { "\"o\"", "1", "options are missing" },
        { "\"o\"", "\"a\\u0000b\"", "options are missing" },
        { "\"files\"", "\"file\"", "files, blocks or sums are missing" },
        { "[{\"name\": \"m\"", "{\"a\": [{\"name\": \"m\"", "line " },
        { "\"blocks\"", "\"block\"", "files, blocks or sums are missing" },
        { "\"state.weft\"", "\"\"", "a file or block has no valid name" },
        { "\"state.weft\"", "\"../x\"", "a file or block has no valid name" },
        { "\"state.weft\"", "\"a/b\"", "a file or block has no valid name" },
        { "\"state.weft\"", "1", "a file or block has no valid name" },
        { "\"m\"", "\".\"", "a file or block has no valid name" },
        { "\"m\"", "\"m\\u0000\"", "a file or block has no valid name" },
        { "{\"name\": \"m\", \"bytes\": 8}", "7", "a file or block has no valid name" },
        { "\"bytes\": 8, \"xxh64\"", "\"bytes\": -8, \"xxh64\"", "bytes is missing" },
        { "\"bytes\": 8, \"xxh64\"", "\"bytes\": 0, \"xxh64\"",
          "the number of checksums does not match the number of chunks" },
        { "\"bytes\": 8, \"xxh64\"", "\"bytes\": 4194305, \"xxh64\"",
          "the number of checksums does not match the number of chunks" },
        { "\"bytes\": 8, \"xxh64\"", "\"bytes\": 9223372036854775807, \"xxh64\"",
          "the number of checksums does not match the number of chunks" },
        { "[\"0000000000000007\"]", "{}", "files, blocks or sums are missing" },
        { "\"bytes\": 8}]", "\"bytes\": 7}]", "blocks do not fill state.weft" },
        { "\"bytes\": 8}]", "\"bytes\": 9}]", "blocks do not fill state.weft" },
        { "\"state.weft\"", "\"state\"", "blocks do not fill state.weft" },
        { "{\"name\": \"m\", \"bytes\": 8}",
          "{\"name\": \"m\", \"bytes\": 9223372036854775807},"
          "{\"name\": \"m\", \"bytes\": 9223372036854775807},"
          "{\"name\": \"m\", \"bytes\": 10}",
          "blocks are larger than any file" },
        { "\"step\": 2", "\"step\": 2, \"step\": 2", "duplicate object key" },
    };
    host h;
    weft_error err;
    host_plain(&h);
    assert_int_equal(parse_fields(good, &h, &err), WEFT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (parse_changed(cases[i].old, cases[i].new, &err) != WEFT_EFORMAT ||
            !strstr(err.message, cases[i].says))
            fail_msg("%s instead of %s: %d \"%s\"", cases[i].new, cases[i].old, (int)err.code,
                     err.message);
    assert_int_equal(parse_changed("\"version\": 1", "\"version\": 2", &err), WEFT_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "version 2; this weft reads versions up to 1"));
    assert_int_equal(parse_changed("\"version\": 1", "\"version\": 0", &err), WEFT_EUNSUPPORTED);
    assert_int_equal(parse_changed("\"step\": 2", "\"later\": [1], \"step\": 2", &err), WEFT_OK);
}

static void limits(void **state)
{
    (void)state;
    weft_error err;
    char name[300];
    snprintf(name, sizeof name, "\"%0255d\"", 0);
    assert_int_equal(parse_changed("\"m\"", name, &err), WEFT_OK);
    snprintf(name, sizeof name, "\"%0256d\"", 0);
    assert_int_equal(parse_changed("\"m\"", name, &err), WEFT_EFORMAT);

    host h;
    buffer b;
    for (int n = 65536; n <= 65537; n++) {
        begin_text(&b, &h);
        buffer_put(&b, good, (size_t)(strstr(good, "\"blocks\"") - good));
        buffer_text(&b, "\"blocks\": [{\"name\": \"m\", \"bytes\": 8}");
        for (int i = 1; i < n; i++)
            buffer_text(&b, ",{\"name\": \"m\", \"bytes\": 0}");
        buffer_put(&b, "],\n", 4);
        char *text = malloc(b.n);
        assert_non_null(text);
        memcpy(text, b.at, b.n);
        buffer_end(&b);
        assert_int_equal(parse_fields(text, &h, &err), n == 65536 ? WEFT_OK : WEFT_EFORMAT);
        free(text);
    }
}

static void no_memory(void **state)
{
    (void)state;
    host h;
    buffer b;
    begin_text(&b, &h);
    manifest_text(&sample, &b);
    for (int64_t k = 1;; k++) {
        host faulty;
        manifest m;
        weft_error err;
        faults memory = { .fail_at = k };
        host_faulty(&faulty, &memory, NULL);
        const weft_status status = parse(&m, b.at, b.n, &faulty, &err);
        if (status == WEFT_OK)
            manifest_free(&m);
        assert_int_equal(memory.live, 0);
        if (memory.calls < k) {
            assert_int_equal(status, WEFT_OK);
            break;
        }
        assert_int_equal(status, WEFT_ENOMEM);
    }
    buffer_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("manifest: reads what it wrote", round_trip),
        TEST("manifest: a truncated one, or one with a wrong bit, is refused",
             truncated_and_flipped),
        TEST("manifest: every counter has limits", counters_have_limits),
        TEST("manifest: wrong words are refused by name, whatever the checksum", wrong_words),
        TEST("manifest: names and lists have limits", limits),
        TEST("manifest: any allocation may fail", no_memory),
    };
    return RUN(tests);
}
