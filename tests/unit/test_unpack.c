/* gzip and zstd: the original text, or an error message. tests/golden/packed was made by gzip 1.12 and
 * zstd 1.5.4; packed_text() below makes data of any length without either. */
#include "support.h"

#include "formats/unpack.h"
#include "hostile.h"

#include <string.h>
#include <sys/mman.h>

#define PART ((size_t)64 << 10) /* of unpack.c: bytes counted at a time */

static bool has(const char *kind)
{
    return strstr(weft_build_parts(), kind) != NULL;
}

/* One file of tests/golden/packed, malloc'ed. */
static uint8_t *golden_bytes(const char *name, size_t *n)
{
    char path[128];
    snprintf(path, sizeof path, "golden/packed/%s", name);
    return (uint8_t *)read_whole(fixture(path), n);
}

/* Unpacks a copy of exact size, as file_open_unpacked would, without a file. */
static weft_status unpack_copy(const uint8_t *data, size_t size, host *h, uint8_t **to, uint64_t *n,
                               weft_error *err)
{
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    *err = (weft_error){ 0 };
    *to = NULL;
    *n = 0;
    weft_status status = unpack_count("data", copy, size, "text", &h->mem, n, err);
    if (status == WEFT_OK) {
        uint64_t again = *n;
        *to = malloc(*n ? (size_t)*n : 1);
        assert_int_equal(unpack_into("data", copy, size, *to, &again, &h->mem, err), WEFT_OK);
        assert_int_equal(again, *n);
    } else {
        assert_int_equal(err->code, status);
    }
    assert_int_equal(h->mem.used, 0);
    free(copy);
    return status;
}

/* Sets the status; false if the output is not `text`. */
static bool gives(const uint8_t *data, size_t size, const uint8_t *text, size_t n_text,
                  weft_status *status, weft_error *err)
{
    host h;
    uint8_t *to;
    uint64_t n;
    host_plain(&h);
    *status = unpack_copy(data, size, &h, &to, &n, err);
    const bool good = *status != WEFT_OK ||
                      (n == n_text && (n == 0 || memcmp(to, text, n_text) == 0));
    free(to);
    return good;
}

/* ---- data of any length ----------------------------------------------------------------------- */

static uint8_t *put(uint8_t *at, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        *at++ = (uint8_t)(value >> 8 * i);
    return at;
}

/* A member of stored blocks (RFC 1952, 1951). */
static uint8_t *put_gzip(uint8_t *at, const uint8_t *text, size_t n)
{
    static const uint8_t head[] = { 0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3 };
    memcpy(at, head, sizeof head);
    at += sizeof head;
    for (size_t done = 0, part; done < n || n == 0; done += part) {
        part = n - done < 65535 ? n - done : 65535;
        *at++ = done + part == n;
        at = put(put(at, part, 2), ~part, 2);
        memcpy(at, text + done, part);
        at += part;
        if (n == 0)
            break;
    }
    return put(put(at, crc32_of(text, n), 4), n, 4);
}

/* A frame of raw blocks, without size and checksum (RFC 8878). */
static uint8_t *put_zstd(uint8_t *at, const uint8_t *text, size_t n, uint8_t window)
{
    at = put(put(at, 0xFD2FB528u, 4), 0, 1);
    *at++ = window;
    size_t done = 0;
    do {
        const size_t part = n - done < 1024 ? n - done : 1024;
        at = put(at, part << 3 | (done + part == n), 3);
        memcpy(at, text + done, part);
        at += part;
        done += part;
    } while (done < n);
    return at;
}

static uint8_t *packed_text(bool gzip, const uint8_t *text, size_t n, size_t *size)
{
    uint8_t *data = malloc(n + n / 128 + 64);
    *size = (size_t)((gzip ? put_gzip(data, text, n) : put_zstd(data, text, n, 0)) - data);
    return data;
}

/* ---- tests ------------------------------------------------------------------------------------ */

static const char *const kinds[] = { " gzip", " zstd" };
static const char *const files[] = { "text.txt.gz", "members.gz", "text.txt.zst",
                                     "stream.zst",  "frames.zst", NULL };

static bool readable(const char *name)
{
    return has(strstr(name, ".gz") ? " gzip" : " zstd");
}

static void real_files(void **state)
{
    (void)state;
    size_t n_text, n;
    weft_status status;
    weft_error err;
    uint8_t *text = golden_bytes("text.txt", &n_text);
    for (int i = 0; files[i]; i++) {
        uint8_t *data = golden_bytes(files[i], &n);
        assert_true(is_packed(data, n));
        assert_that(gives(data, n, text, n_text, &status, &err), "%s gives another text", files[i]);
        assert_int_equal(status, readable(files[i]) ? WEFT_OK : WEFT_EUNSUPPORTED);
        if (!readable(files[i]))
            assert_non_null(strstr(err.message, "built without"));
        free(data);
    }
    free(text);
}

static void lengths(void **state)
{
    (void)state;
    static const size_t n[] = { 0,    1,        1023,     1024,   1025,   65534,    65535,
                                PART, PART + 1, 2 * PART, 131071, 131072, 3 * PART, 3 * PART + 1 };
    uint8_t *text = malloc(4 * PART);
    for (size_t i = 0; i < 4 * PART; i++)
        text[i] = (uint8_t)(i * 2654435761u >> 13);
    text[0] = 'x'; /* not recognised */
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        for (int k = 0; k < 2; k++) {
            size_t size;
            weft_status status;
            weft_error err;
            uint8_t *data = packed_text(k == 0, text, n[i], &size);
            if (has(kinds[k])) {
                assert_that(gives(data, size, text, n[i], &status, &err), "%zu bytes:%s", n[i],
                            kinds[k]);
                assert_int_equal(status, WEFT_OK);
            }
            free(data);
        }
    free(text);
}

/* Where a file of two members may be truncated. */
static bool is_boundary(const char *name, size_t at, const uint8_t *data, size_t n)
{
    return (strcmp(name, "members.gz") == 0 || strcmp(name, "frames.zst") == 0) &&
           is_packed(data + at, n - at);
}

static void truncation(void **state)
{
    (void)state;
    weft_status status;
    weft_error err;
    size_t n;
    for (int i = 0; files[i]; i++) {
        uint8_t *data = golden_bytes(files[i], &n);
        int n_boundary = 0;
        for (size_t at = 0; at < n && readable(files[i]); at++) {
            const bool whole = at > 0 && is_boundary(files[i], at, data, n);
            n_boundary += whole;
            gives(data, at, NULL, 0, &status, &err);
            assert_that((status == WEFT_OK) == whole && (whole || status == WEFT_EFORMAT),
                        "%s, cut at %zu: %d", files[i], at, (int)status);
            assert_true(whole || strncmp(err.message, "data: ", 6) == 0);
        }
        if (readable(files[i])) /* gzip: between members; zstd: on both sides of a skipped frame */
            assert_int_equal(n_boundary, i == 1 ? 1 : i == 4 ? 2 : 0);
        free(data);
    }
}

/* With checksums, no changed byte gives another text; without, nothing breaks. */
static void changed_bytes(void **state)
{
    (void)state;
    static const uint8_t change[] = { 0x01, 0x80, 0x20, 0xFF, 0x55 };
    const size_t n_change = quick() ? 1 : sizeof change;
    weft_status status;
    weft_error err;
    size_t n_text, n;
    uint8_t *text = golden_bytes("text.txt", &n_text);
    for (int i = 0; files[i]; i++) {
        uint8_t *data = golden_bytes(files[i], &n);
        const bool checked = strcmp(files[i], "stream.zst") != 0;
        for (size_t at = 0; at < n && readable(files[i]); at++)
            for (size_t c = 0; c < n_change; c++) {
                data[at] ^= change[c];
                const bool same = gives(data, n, text, n_text, &status, &err);
                assert_that(same || !checked, "%s: byte %zu ^ %02x gives another text", files[i],
                            at, change[c]);
                data[at] ^= change[c];
            }
        free(data);
    }
    free(text);
}

static void what_follows(void **state)
{
    (void)state;
    static const char *const tails[] = { "\n", "\0\0\0", "hello", "\x1F", "\x28\xB5\x2F", "GGUF" };
    static const size_t n_tail[] = { 1, 3, 5, 1, 3, 4 };
    weft_status status;
    weft_error err;
    for (int k = 0; k < 2; k++) {
        if (!has(kinds[k]))
            continue;
        for (size_t i = 0; i < sizeof n_tail / sizeof *n_tail; i++) {
            size_t n;
            uint8_t data[4096], *first = golden_bytes(k ? "text.txt.zst" : "text.txt.gz", &n);
            memcpy(data, first, n);
            memcpy(data + n, tails[i], n_tail[i]);
            gives(data, n + n_tail[i], NULL, 0, &status, &err);
            assert_int_equal(status, WEFT_EFORMAT);
            assert_non_null(strstr(err.message, "after the end of its"));
            free(first);
        }
    }
    /* So many zeros that zlib gets the file in parts. */
    const size_t huge = ((size_t)1 << 30) + 4096;
    uint8_t *zeros = mmap(NULL, huge, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(zeros != MAP_FAILED);
    for (int k = 0; k < 2; k++) {
        size_t n;
        uint64_t made;
        host h;
        uint8_t *first = golden_bytes(k ? "text.txt.zst" : "text.txt.gz", &n);
        memcpy(zeros, first, n);
        host_plain(&h);
        status = unpack_count("data", zeros, huge, "text", &h.mem, &made, &err);
        assert_int_equal(status, has(kinds[k]) ? WEFT_EFORMAT : WEFT_EUNSUPPORTED);
        free(first);
    }
    munmap(zeros, huge);

    /* The other kind counts as foreign data too. */
    size_t n, more;
    uint8_t data[8192], *gz = golden_bytes("text.txt.gz", &n),
                        *zst = golden_bytes("text.txt.zst", &more);
    memcpy(data, gz, n);
    memcpy(data + n, zst, more);
    gives(data, n + more, NULL, 0, &status, &err);
    assert_int_equal(status, has(" gzip") ? WEFT_EFORMAT : WEFT_EUNSUPPORTED);
    free(gz);
    free(zst);
}

/* Every window size that a frame may request. */
static void windows(void **state)
{
    (void)state;
    const uint8_t text[] = "a text in a raw block";
    uint8_t data[64], *to;
    uint64_t n;
    weft_error err;
    const size_t cap = (size_t)4 << 20;
    for (int w = 0; w < 256; w++) {
        const uint64_t base = (uint64_t)1 << (10 + (w >> 3)), window = base + base / 8 * (w & 7);
        const size_t size = (size_t)(put_zstd(data, text, sizeof text, (uint8_t)w) - data);
        host h;
        host_plain(&h);
        const bool fits = window <= (uint64_t)1 << UNPACK_WINDOW_LOG;
        if (!quick() || window < cap || !fits) {
            const weft_status status = unpack_copy(data, size, &h, &to, &n, &err);
            assert_int_equal(status, fits ? WEFT_OK : WEFT_EFORMAT);
            assert_true(!fits || (h.mem.peak >= window && memcmp(to, text, sizeof text) == 0));
            free(to);
        }
        mem_init(&h.mem, cap, NULL);
        const weft_status status = unpack_copy(data, size, &h, &to, &n, &err);
        assert_that(status == (!fits                                       ? WEFT_EFORMAT
                               : window + ((size_t)600 << 10) < cap        ? WEFT_OK
                               : window + ((size_t)512 << 10) > cap - PART ? WEFT_ELIMIT
                                                                           : status),
                    "window %d: %d", w, (int)status);
        assert_true(h.mem.peak <= cap);
        free(to);
    }
}

/* Copies of a file of zeros, concatenated, as in a decompression bomb. */
static uint8_t *copies(const char *name, size_t n_copy, size_t *size)
{
    size_t n;
    uint8_t *one = golden_bytes(name, &n), *all = malloc(n * n_copy);
    for (size_t i = 0; i < n_copy; i++)
        memcpy(all + i * n, one, n);
    free(one);
    *size = n * n_copy;
    return all;
}

static void bombs(void **state)
{
    (void)state;
    static const char *const name[] = { "zeros.gz", "zeros.zst" };
    for (int k = 0; k < 2; k++) {
        if (!has(kinds[k]))
            continue;
        size_t size;
        uint64_t n = 0;
        host h;
        weft_error err = { 0 };
        uint8_t *data = copies(name[k], 65, &size); /* of 1 MiB each */
        host_plain(&h);
        assert_int_equal(unpack_count("data", data, size / 65 * 64, "text", &h.mem, &n, &err),
                         WEFT_OK);
        assert_int_equal(n, UNPACK_FREE);
        assert_int_equal(unpack_count("data", data, size, "text", &h.mem, &n, &err), WEFT_EFORMAT);
        assert_non_null(strstr(err.message, "256 times its size; expected "));
        assert_true(h.mem.used == 0 && h.mem.peak < (size_t)4 << 20);

        mem_init(&h.mem, (size_t)8 << 20, NULL);
        assert_int_equal(unpack_count("data", data, size, "text", &h.mem, &n, &err), WEFT_ELIMIT);
        assert_true(n < (uint64_t)9 << 20); /* it stops there, not later */
        assert_non_null(strstr(err.message, "memory cap; expected less; raise the cap"));
        assert_true(h.mem.used == 0 && h.mem.peak <= h.mem.cap);
        free(data);
    }
}

static void archives(void **state)
{
    (void)state;
    weft_status status;
    weft_error err;
    size_t n;
    uint8_t *tar = golden_bytes("archive.tar.gz", &n);
    gives(tar, n, NULL, 0, &status, &err);
    assert_int_equal(status, WEFT_EUNSUPPORTED);
    assert_string_equal(err.message,
                        "data: a tar archive; expected text; extract it and give the files in it");
    free(tar);

    uint8_t *inner = golden_bytes("text.txt.gz", &n);
    size_t size;
    uint8_t *twice = packed_text(true, inner, n, &size);
    gives(twice, size, NULL, 0, &status, &err);
    assert_int_equal(status, WEFT_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "a compressed file; expected text; decompress it first"));
    free(inner);
    free(twice);
}

/* ---- files ------------------------------------------------------------------------------------ */

static weft_status open_golden(file *f, const char *name, weft_load load, host *h, weft_error *err)
{
    char path[128];
    snprintf(path, sizeof path, "golden/packed/%s", name);
    return file_open_unpacked(f, fixture(path), "text", load, h, err);
}

static void opened(void **state)
{
    (void)state;
    size_t n_text, n;
    uint8_t *text = golden_bytes("text.txt", &n_text);
    for (int i = 0; files[i]; i++) {
        uint8_t *data = golden_bytes(files[i], &n);
        for (int load = 0; load < 2 && readable(files[i]); load++) {
            file f;
            host h;
            weft_error err = { 0 };
            host_plain(&h);
            assert_int_equal(
                open_golden(&f, files[i], load ? WEFT_LOAD_MAP : WEFT_LOAD_COPY, &h, &err),
                WEFT_OK);
            assert_true(f.size == n_text && memcmp(f.data, text, n_text) == 0);
            assert_true(!f.mapped && f.packed == n && strstr(f.path, files[i]));
            file_close(&f, &h);
            assert_int_equal(h.mem.used, 0);
        }
        free(data);
    }
    file f;
    host h;
    weft_error err = { 0 };
    host_plain(&h);
    assert_int_equal(open_golden(&f, "text.txt", WEFT_LOAD_MAP, &h, &err), WEFT_OK);
    assert_true(f.mapped && f.packed == 0 && f.size == n_text);
    file_close(&f, &h);
    free(text);
}

static void nothing_inside(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        size_t size;
        uint8_t *data = packed_text(k == 0, (const uint8_t *)"", 0, &size);
        file f;
        host h;
        weft_error err = { 0 };
        host_plain(&h);
        const weft_status status = file_open_unpacked(&f, temp_file("empty", data, size), "text",
                                                      WEFT_LOAD_COPY, &h, &err);
        assert_int_equal(status, has(kinds[k]) ? WEFT_EFORMAT : WEFT_EUNSUPPORTED);
        assert_non_null(
            strstr(err.message, has(kinds[k]) ? "decompressed file is empty" : "built without"));
        assert_int_equal(h.mem.used, 0);
        free(data);
    }
}

/* Every allocation, then every file call, fails once. */
static void faults_everywhere(void **state)
{
    (void)state;
    for (int i = 0; files[i]; i++)
        for (int io = 0; io < 2 && readable(files[i]); io++) {
            int64_t k = 1;
            for (bool failed = true; failed; k++) {
                faults of[2] = { { 0 }, { 0 } };
                of[io].fail_at = k;
                host h;
                file f;
                weft_error err = { 0 };
                host_faulty(&h, &of[0], &of[1]);
                const weft_status status = open_golden(&f, files[i], WEFT_LOAD_COPY, &h, &err);
                failed = of[io].calls >= k;
                assert_that(failed == (status != WEFT_OK), "%s: call %lld", files[i], (long long)k);
                if (failed)
                    assert_true(err.code == (io ? WEFT_EIO : WEFT_ENOMEM) && err.message[0]);
                else
                    file_close(&f, &h);
                assert_true(of[0].live == 0 && of[1].live == 0 && h.mem.used == 0);
            }
            assert_in_range(k, io ? 4 : 5, 40); /* more than the file's own memory */
        }
}

/* Caps from 4 KiB up to enough: an error, or success within the cap. */
static void caps(void **state)
{
    (void)state;
    static const char *const name[] = { "zeros.gz", "zeros.zst", "stream.zst" };
    for (int i = 0; i < 3; i++) {
        if (!readable(name[i]))
            continue;
        int n_refused = 0;
        weft_status status = WEFT_ELIMIT;
        for (size_t cap = 4096; status != WEFT_OK; cap += cap / 8) {
            host h;
            file f;
            weft_error err = { 0 };
            host_plain(&h);
            mem_init(&h.mem, cap, NULL);
            status = open_golden(&f, name[i], WEFT_LOAD_COPY, &h, &err);
            assert_true(status == WEFT_OK || status == WEFT_ELIMIT);
            assert_true(h.mem.peak <= cap);
            n_refused += status != WEFT_OK;
            if (status == WEFT_OK)
                file_close(&f, &h);
            assert_int_equal(h.mem.used, 0);
        }
        assert_in_range(n_refused, 10, 100);
    }
}

static void heads_and_names(void **state)
{
    (void)state;
    host h;
    size_t n;
    uint8_t head[5] = { 0 };
    host_plain(&h);
    for (int i = 0; files[i]; i++) {
        uint8_t *data = golden_bytes(files[i], &n);
        const size_t got = unpack_head(data, n, head, 4, &h.mem);
        assert_int_equal(got, readable(files[i]) ? 4 : 0);
        assert_true(got == 0 || memcmp(head, "# Wh", 4) == 0);
        assert_int_equal(unpack_head(data, 12, head, 4, &h.mem), 0);
        assert_true(h.mem.used == 0 && head[4] == 0);
        free(data);
    }
    assert_int_equal(unpack_head((const uint8_t *)"ab", 2, head, 4, &h.mem), 2);
    assert_memory_equal(head, "ab", 2);

    assert_int_equal(unpacked_name("a.jsonl.gz"), 7);
    assert_int_equal(unpacked_name("a.tsv.zst"), 5);
    assert_int_equal(unpacked_name("a.csv.zstd"), 5);
    assert_int_equal(unpacked_name("a.txt"), 5);
    assert_int_equal(unpacked_name("gz"), 2);
}

/* ---- the public functions --------------------------------------------------------------------- */

static void from_outside(void **state)
{
    (void)state;
    weft_error err;
    size_t n_text, n, made = 0;
    uint8_t *text = golden_bytes("text.txt", &n_text);
    char *to = malloc(n_text + 1);
    for (int i = 0; files[i]; i++) {
        uint8_t *data = golden_bytes(files[i], &n);
        assert_true(weft_is_compressed(data, n));
        if (readable(files[i])) {
            assert_int_equal(weft_decompress(files[i], data, n, NULL, &made, NULL, &err), WEFT_OK);
            assert_int_equal(made, n_text);
            for (size_t room = n_text - 1; room <= n_text + 1; room++) {
                made = room;
                const weft_status status = weft_decompress(NULL, data, n, to, &made, NULL, &err);
                assert_int_equal(status, room < n_text ? WEFT_EINVAL : WEFT_OK);
                assert_true(status != WEFT_OK || made == n_text);
                assert_true(status != WEFT_OK || memcmp(to, text, n_text) == 0);
            }
        }
        free(data);
    }
    made = n_text;
    assert_false(weft_is_compressed(text, n_text) || weft_is_compressed(NULL, 9));
    assert_int_equal(weft_decompress("text", text, n_text, to, &made, NULL, &err), WEFT_OK);
    assert_memory_equal(to, text, n_text);
    made = n_text - 1;
    assert_int_equal(weft_decompress("text", text, n_text, to, &made, NULL, &err), WEFT_EINVAL);
    free(text);
    free(to);
}

/* A build without a library runs only the tests of its error. */
int main(void)
{
    const struct CMUnitTest always[] = {
        TEST("unpack: files of gzip and zstd give their text", real_files),
        TEST("unpack: trailing data is refused", what_follows),
        TEST("unpack: files, mapped and copied", opened),
        TEST("unpack: an empty file is refused", nothing_inside),
        TEST("unpack: first bytes, and names", heads_and_names),
        TEST("unpack: data that a host has read", from_outside),
    };
    const struct CMUnitTest with_one[] = {
        TEST("unpack: lengths around every buffer size", lengths),
        TEST("unpack: truncated at any byte, data is refused", truncation),
        TEST("unpack: no changed byte gives another text", changed_bytes),
        TEST("unpack: bombs stop at the ratio and at the cap, and take no memory", bombs),
        TEST("unpack: every allocation and file call may fail", faults_everywhere),
        TEST("unpack: no cap is exceeded", caps),
    };
    const struct CMUnitTest with_gzip[] = {
        TEST("unpack: archives and doubly compressed files are named", archives),
    };
    const struct CMUnitTest with_zstd[] = {
        TEST("unpack: zstd's windows are counted before allocation, up to 128 MiB", windows),
    };
    int failed = RUN(always);
    if (has(" gzip") || has(" zstd"))
        failed += RUN(with_one);
    if (has(" gzip"))
        failed += RUN(with_gzip);
    if (has(" zstd"))
        failed += RUN(with_zstd);
    return failed;
}
