/* test_image_cost.c - what an image costs is known from its file, and no decodable file costs less than
 * its pixels (server/image_cost.c). */
#include "golden.h"
#include "support.h"

#include "image_cost.h"

#include <dirent.h>

#define MAX_FILE ((size_t)1 << 20)

static size_t load(const char *path, unsigned char *to)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(to, 1, MAX_FILE, f);
    fclose(f);
    return n;
}

/* The pixels that PIL finds in the file, or 0 if it is not among the references. They, and not what weft decodes,
 * because a build without libpng and libjpeg has the same costs. */
static uint64_t pixels_of(const golden *g, const char *name)
{
    const stored *t = golden_tensor(g, name);
    return t ? (uint64_t)(t->shape[0] * t->shape[1]) : 0;
}

/* The first n bytes, with nothing after them that a sanitizer would let be read. */
static uint64_t cost_of_first(const unsigned char *whole, size_t n)
{
    unsigned char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, whole, n);
    const uint64_t found = image_cost(copy, n);
    free(copy);
    return found;
}

static void of_files(void **state)
{
    (void)state;
    unsigned char *whole = malloc(MAX_FILE);
    golden g;
    golden_open(&g, fixture("golden/images/expected.safetensors"), 0);
    const char *path = fixture("golden/images");
    DIR *d = opendir(path);
    int n_image = 0;
    assert_true(whole && d);
    for (const struct dirent *e; (e = readdir(d));) {
        char full[4096];
        if (!strstr(e->d_name, ".png") && !strstr(e->d_name, ".jpg"))
            continue;
        snprintf(full, sizeof full, "%s/%s", path, e->d_name);
        const size_t n = load(full, whole);
        const uint64_t found = image_cost(whole, n), pixels = pixels_of(&g, e->d_name);
        const bool several = strstr(e->d_name, "progressive") != NULL;
        if (pixels > 0) {
            assert_that(several ? found > pixels : found == pixels, "%s: %llu for %llu pixels",
                        e->d_name, (unsigned long long)found, (unsigned long long)pixels);
            n_image++;
        }
        for (size_t k = 0; k <= n; k += k < 1024 ? 1 : 97)
            assert_true(cost_of_first(whole, k) <= found);
    }
    closedir(d);
    golden_close(&g);
    free(whole);
    assert_int_equal(n_image, 19);
}

typedef struct boundary {
    const char *what;
    unsigned char bytes[40];
    size_t n;
    uint64_t cost;
} boundary;

#define FRAME(kind, h, w) 0xff, kind, 0, 8, 8, (h) >> 8, (h)&255, (w) >> 8, (w)&255, 1
#define SCAN              0xff, 0xda, 0, 4, 0, 0

static const boundary boundaries[] = {
    { "nothing", { 0 }, 0, 0 },
    { "a JPEG's first bytes", { 0xff, 0xd8 }, 2, 0 },
    { "neither", { 'G', 'I', 'F' }, 40, 0 },
    { "a frame", { 0xff, 0xd8, FRAME(0xc0, 300, 500), SCAN }, 40, 150000 },
    { "the largest", { 0xff, 0xd8, FRAME(0xc2, 65535, 65535), SCAN }, 40, 4294836225 },
    { "three scans", { 0xff, 0xd8, FRAME(0xc2, 8, 8), SCAN, SCAN, SCAN }, 40, 64 + 2 * 8 },
    { "a table is no frame", { 0xff, 0xd8, FRAME(0xc4, 300, 500), SCAN }, 40, 0 },
    { "of two frames the larger", { 0xff, 0xd8, FRAME(0xc0, 9, 9), FRAME(0xc0, 2, 2) }, 40, 81 },
    { "fill bytes before it", { 0xff, 0xd8, 0xff, 0xff, 0xff, FRAME(0xc0, 3, 5) }, 40, 15 },
    { "a frame inside a comment", { 0xff, 0xd8, 0xff, 0xfe, 0, 12, FRAME(0xc0, 3, 5) }, 40, 0 },
    { "a frame after the end", { 0xff, 0xd8, 0xff, 0xd9, FRAME(0xc0, 3, 5) }, 40, 0 },
    { "an escaped FF in a scan", { 0xff, 0xd8, FRAME(0xc0, 4, 4), SCAN, 0xff, 0, SCAN }, 40, 18 },
};

static void at_boundaries(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof boundaries / sizeof *boundaries; i++) {
        const boundary *b = &boundaries[i];
        const uint64_t found = cost_of_first(b->bytes, b->n);
        assert_that(found == b->cost, "%s: found %llu, expected %llu", b->what,
                    (unsigned long long)found, (unsigned long long)b->cost);
        for (size_t n = 0; n < b->n; n++)
            assert_true(cost_of_first(b->bytes, n) <= b->cost);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("image cost: no file costs less than its pixels", of_files),
        TEST("image cost: markers, lengths and ends", at_boundaries),
    };
    return RUN(tests);
}
