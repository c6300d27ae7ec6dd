/* Images: pixels equal PIL's, byte by byte; broken files are refused and nothing is left behind. */
#include "golden.h"
#include "support.h"

#include "formats/image.h"
#include "hostile.h"

static const char *const pngs[] = {
    "grey1.png",     "grey2.png",      "grey4.png",          "grey8.png",
    "grey16.png",    "palette4.png",   "palette-trns.png",   "rgb16.png",
    "rgb-trns.png",  "grey-alpha.png", "rgb-interlaced.png", "grey1-interlaced.png",
    "one-pixel.png", "rgba.png",       "photo.png",
};
static const char *const jpegs[] = { "photo.jpg", "photo-444.jpg", "photo-progressive.jpg",
                                     "grey.jpg" };
#define COUNT(list) (sizeof(list) / sizeof *(list))

static const char *picture(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "golden/images/%s", name);
    return fixture(path);
}

static void expected(golden *g)
{
    golden_open(g, fixture("golden/images/expected.safetensors"), 0);
}

static void same_pixels(const golden *g, const char *name, const image *im)
{
    const stored *want = golden_tensor(g, name);
    assert_non_null(want);
    if (want->shape[0] != im->height || want->shape[1] != im->width ||
        want->shape[2] != im->channels)
        fail_msg("%s: %lld x %lld, %lld channels", name, (long long)im->width,
                 (long long)im->height, (long long)im->channels);
    for (uint64_t i = 0; i < want->bytes; i++)
        if (im->pixel[i] != want->data[i])
            fail_msg("%s: byte %llu is %d, PIL has %d", name, (unsigned long long)i, im->pixel[i],
                     want->data[i]);
}

static void must_open(image *im, const char *name, host *h)
{
    weft_error err = { 0 };
    if (image_open(im, picture(name), h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static void as_pil(const char *const *names, size_t n)
{
    golden g;
    host h;
    expected(&g);
    host_plain(&h);
    for (size_t i = 0; i < n; i++) {
        image im;
        must_open(&im, names[i], &h);
        same_pixels(&g, names[i], &im);
        image_free(&im, &h);
    }
    assert_int_equal(h.mem.used, 0);
    golden_close(&g);
}

static void png_as_pil(void **state)
{
    (void)state;
    as_pil(pngs, COUNT(pngs));
}

static void jpeg_as_pil(void **state)
{
    (void)state;
    as_pil(jpegs, COUNT(jpegs));
}

/* ---- resizing, and a model's input ------------------------------------------------------------ */

/* The pixels of photo.png, which need no library. */
static void photo(image *im, const golden *g, host *h)
{
    const stored *t = golden_tensor(g, "photo.png");
    weft_error err = { 0 };
    assert_int_equal(image_take(im, (uint64_t)t->shape[0], (uint64_t)t->shape[1],
                                (uint64_t)t->shape[2], "photo", h, &err),
                     WEFT_OK);
    memcpy(im->pixel, t->data, t->bytes);
}

static void resize_as_pil(void **state)
{
    (void)state;
    static const char *const names[] = { NULL, "lanczos", "bilinear", "bicubic" };
    static const int64_t sizes[][2] = { { 24, 24 }, { 61, 40 }, { 70, 83 },
                                        { 64, 90 }, { 7, 120 }, { 1, 1 } };
    golden g;
    host h;
    image im;
    weft_error err = { 0 };
    expected(&g);
    host_plain(&h);
    for (int f = FILTER_LANCZOS; f <= FILTER_BICUBIC; f++)
        for (size_t i = 0; i < COUNT(sizes); i++) {
            char name[64];
            snprintf(name, sizeof name, "resize.%s.%dx%d", names[f], (int)sizes[i][0],
                     (int)sizes[i][1]);
            photo(&im, &g, &h);
            assert_int_equal(image_resize(&im, sizes[i][0], sizes[i][1], (image_filter)f, &h, &err),
                             WEFT_OK);
            same_pixels(&g, name, &im);
            image_free(&im, &h);
        }
    photo(&im, &g, &h);
    assert_int_equal(image_to_channels(&im, 1, &h, &err), WEFT_OK);
    same_pixels(&g, "grey", &im);
    assert_int_equal(image_resize(&im, 29, 31, FILTER_BILINEAR, &h, &err), WEFT_OK);
    same_pixels(&g, "resize.grey", &im);
    assert_int_equal(image_to_channels(&im, 3, &h, &err), WEFT_OK);
    for (int64_t i = 0; i < 29 * 31 * 3; i++)
        assert_int_equal(im.pixel[i], im.pixel[i / 3 * 3]);
    image_free(&im, &h);
    assert_int_equal(h.mem.used, 0);
    golden_close(&g);
}

/* The value at channel c, row y, column x, in rows of patches. */
static real patched(const real *rows, const stored *like, int64_t P, int64_t c, int64_t y,
                    int64_t x)
{
    const int64_t p = y / P * (like->shape[2] / P) + x / P;
    return rows[((p * like->shape[0] + c) * P + y % P) * P + x % P];
}

static weft_status parse_recipe(image_recipe *to, const char *text, size_t n, int64_t channels,
                                host *h, weft_error *err)
{
    container c;
    weft_status status = container_begin(&c, "json", "config", h, err);
    if (status == WEFT_OK)
        status = config_parse(&c, (const uint8_t *)text, n, err);
    if (status == WEFT_OK)
        status = container_index(&c, err);
    if (status == WEFT_OK)
        status = recipe_read(to, &c, channels, err);
    container_close(&c);
    return status;
}

static void one_processor(const golden *g, const char *name, host *h)
{
    char path[64];
    image im;
    image_recipe recipe;
    weft_error err = { 0 };
    size_t size;
    snprintf(path, sizeof path, "golden/images/%s/preprocessor_config.json", name);
    char *text = read_whole(fixture(path), &size);
    if (parse_recipe(&recipe, text, size, 3, h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    photo(&im, g, h);
    assert_int_equal(recipe_apply(&recipe, &im, 3, h, &err), WEFT_OK);
    const stored *want = golden_tensor(g, name); /* [3, H, W] */
    assert_true(im.height == want->shape[1] && im.width == want->shape[2]);
    real *rows = malloc((size_t)(im.height * im.width * 3) * sizeof *rows);
    recipe_patches(&recipe, &im, 8, rows);
    const float *w = (const float *)want->data;
    for (int64_t c = 0; c < 3; c++)
        for (int64_t y = 0; y < im.height; y++)
            for (int64_t x = 0; x < im.width; x++, w++)
                if ((float)patched(rows, want, 8, c, y, x) != *w)
                    fail_msg("%s: channel %d, row %d, column %d is %g, transformers has %g", name,
                             (int)c, (int)y, (int)x, (double)patched(rows, want, 8, c, y, x),
                             (double)*w);
    free(rows);
    free(text);
    image_free(&im, h);
}

static void processors(void **state)
{
    (void)state;
    golden g;
    host h;
    expected(&g);
    host_plain(&h);
    one_processor(&g, "vit", &h);
    one_processor(&g, "deit", &h);
    assert_int_equal(h.mem.used, 0);
    golden_close(&g);
}

static weft_status try_recipe(const char *text, size_t n, int64_t channels, weft_error *err)
{
    host h;
    image_recipe recipe;
    host_plain(&h);
    *err = (weft_error){ 0 };
    const weft_status status = parse_recipe(&recipe, text, n, channels, &h, err);
    assert_int_equal(h.mem.used, 0);
    assert_true(status == WEFT_OK || strncmp(err->message, "config: ", 8) == 0);
    return status;
}

static void recipes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t channels;
        weft_status status;
    } all[] = {
        { "{\"image_processor_type\": \"ViTFeatureExtractor\", \"size\": 224}", 3, WEFT_OK },
        { "{\"feature_extractor_type\": \"DeiTFeatureExtractor\"}", 3, WEFT_OK },
        { "{\"image_processor_type\": \"ViTImageProcessor\", \"image_mean\": [0.1307], "
          "\"image_std\": [0.3081]}",
          1, WEFT_OK },
        { "{\"image_processor_type\": \"ViTImageProcessor\", \"image_mean\": 0.5}", 3, WEFT_OK },
        { "{\"image_processor_type\": \"ViTImageProcessor\", \"image_mean\": [0.5, 0.5, 0.5]}", 1,
          WEFT_EFORMAT },
        { "{\"image_processor_type\": \"ViTImageProcessor\", \"image_mean\": [0.5]}", 3,
          WEFT_EFORMAT },
        { "{\"image_processor_type\": \"ViTImageProcessor\", \"image_std\": [1, 0, 1]}", 3,
          WEFT_EFORMAT },
        { "{\"image_processor_type\": \"ViTImageProcessor\", \"size\": 0}", 3, WEFT_EFORMAT },
        { "{\"image_processor_type\": \"ViTImageProcessor\", \"size\": 65536}", 3, WEFT_EFORMAT },
        { "{\"image_processor_type\": \"ViTImageProcessor\", \"size\": 1.5}", 3, WEFT_EFORMAT },
        { "{\"image_processor_type\": \"ViTImageProcessor\", \"size\": \"224\"}", 3, WEFT_EFORMAT },
        { "{\"image_processor_type\": \"ViTImageProcessor\", \"size\": {\"shortest_edge\": 224}}",
          3, WEFT_EUNSUPPORTED },
        { "{\"image_processor_type\": \"ViTImageProcessor\", \"resample\": 0}", 3,
          WEFT_EUNSUPPORTED },
        { "{\"image_processor_type\": \"ViTImageProcessor\", \"do_pad\": true}", 3,
          WEFT_EUNSUPPORTED },
        { "{\"image_processor_type\": \"ViTImageProcessor\", \"do_resize\": 1}", 3, WEFT_EFORMAT },
        { "{\"image_processor_type\": \"CLIPImageProcessor\"}", 3, WEFT_EUNSUPPORTED },
        { "{\"image_processor_type\": 5}", 3, WEFT_EUNSUPPORTED },
        { "{}", 3, WEFT_EUNSUPPORTED },
    };
    weft_error err;
    for (size_t i = 0; i < COUNT(all); i++)
        if (try_recipe(all[i].text, strlen(all[i].text), all[i].channels, &err) != all[i].status)
            fail_msg("%s: %s", all[i].text, err.message);
    for (size_t n = 0; n < strlen(all[2].text); n++)
        assert_int_not_equal(try_recipe(all[2].text, n, 1, &err), WEFT_OK);
}

/* Sides and pixel counts at their limits, and one beyond; allowed sizes are refused by the cap
 * only. */
static void limits(void **state)
{
    (void)state;
    static const struct {
        uint64_t height, width;
        weft_status status;
    } all[] = {
        { 1, 1, WEFT_OK },
        { 0, 1, WEFT_EUNSUPPORTED },
        { 1, 0, WEFT_EUNSUPPORTED },
        { IMAGE_MAX_SIDE, 1, WEFT_OK },
        { IMAGE_MAX_SIDE + 1, 1, WEFT_EUNSUPPORTED },
        { 1, IMAGE_MAX_SIDE + 1, WEFT_EUNSUPPORTED },
        { UINT64_MAX, UINT64_MAX, WEFT_EUNSUPPORTED },
        { 8192, 8192, WEFT_ELIMIT },
        { 8193, 8192, WEFT_EUNSUPPORTED },
        { IMAGE_MAX_SIDE, IMAGE_MAX_SIDE, WEFT_EUNSUPPORTED },
    };
    host h;
    image im = { 0 };
    weft_error err = { 0 };
    host_plain(&h);
    h.mem.cap = 1 << 20;
    for (size_t i = 0; i < COUNT(all); i++) {
        if (image_take(&im, all[i].height, all[i].width, 3, "picture", &h, &err) != all[i].status)
            fail_msg("size %d: %s", (int)i, err.message);
        if (all[i].status == WEFT_OK)
            image_free(&im, &h);
        assert_int_equal(h.mem.used, 0);
    }
}

static void crops(void **state)
{
    (void)state;
    golden g;
    host h;
    image im;
    weft_error err = { 0 };
    expected(&g);
    host_plain(&h);
    photo(&im, &g, &h);
    assert_int_equal(image_crop(&im, 62, 83, &h, &err), WEFT_EUNSUPPORTED);
    assert_int_equal(image_crop(&im, 61, 84, &h, &err), WEFT_EUNSUPPORTED);
    assert_int_equal(image_crop(&im, 61, 83, &h, &err), WEFT_OK);
    const uint8_t corner = im.pixel[(30 * 83 + 41) * 3];
    assert_int_equal(image_crop(&im, 1, 1, &h, &err), WEFT_OK);
    assert_int_equal(im.pixel[0], corner);
    image_free(&im, &h);
    assert_int_equal(h.mem.used, 0);
    golden_close(&g);
}

/* ---- what is broken --------------------------------------------------------------------------- */

/* Parses a copy of exact size, so that a sanitizer reports an overrun. */
static weft_status parse(const uint8_t *data, size_t size, weft_error *err)
{
    host h;
    image im;
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    host_plain(&h);
    *err = (weft_error){ 0 };
    const weft_status status = image_parse(&im, copy, size, "picture", &h, err);
    if (status == WEFT_OK)
        assert_true(im.height > 0 && im.width > 0 && (im.channels == 1 || im.channels == 3));
    else
        assert_true(!im.pixel && err->code == status && strncmp(err->message, "picture: ", 9) == 0);
    image_free(&im, &h);
    assert_int_equal(h.mem.used, 0);
    free(copy);
    return status;
}

static void truncated(const char *const *names, size_t n)
{
    weft_error err;
    for (size_t i = 0; i < n; i++) {
        size_t size;
        uint8_t *data = (uint8_t *)read_whole(picture(names[i]), &size);
        assert_int_equal(parse(data, size, &err), WEFT_OK);
        for (size_t m = 0; m < size; m++)
            if (parse(data, m, &err) != WEFT_EFORMAT)
                fail_msg("%s: %zu of %zu bytes are taken for a picture: %s", names[i], m, size,
                         err.message);
        free(data);
    }
}

static void png_truncated(void **state)
{
    (void)state;
    truncated(pngs, COUNT(pngs) - 1);
}

static void jpeg_truncated(void **state)
{
    (void)state;
    truncated(jpegs, COUNT(jpegs));
}

/* Changes every byte of a file: no crash, no leak, and in a PNG the checksum of a chunk fails. */
static int64_t changed(const char *name)
{
    size_t size;
    int64_t passed = 0;
    weft_error err;
    uint8_t *data = (uint8_t *)read_whole(picture(name), &size);
    for (size_t i = 0; i < size; i++) {
        const uint8_t was = data[i];
        for (int bit = 0; bit < 8; bit += quick() ? 4 : 1) {
            data[i] = (uint8_t)(was ^ 1 << bit);
            passed += parse(data, size, &err) == WEFT_OK;
        }
        data[i] = was;
    }
    free(data);
    return passed;
}

static void png_changed(void **state)
{
    (void)state;
    assert_int_equal(changed("palette-trns.png"), 0);
    assert_int_equal(changed("rgb-interlaced.png"), 0);
}

static void jpeg_changed(void **state)
{
    (void)state;
    print_message("%lld of the changed files are still pictures\n", (long long)changed("grey.jpg"));
}

static void put_big(uint8_t *at, uint64_t x)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(x >> (24 - 8 * i));
}

/* Sizes at which arithmetic wraps, with a correct checksum, under a cap: only those with enough
 * pixels are accepted. */
static void png_sizes(void **state)
{
    (void)state;
    size_t size;
    uint8_t *data = (uint8_t *)read_whole(picture("rgba.png"), &size);
    for (int i = 0; i < N_HOSTILE; i++)
        for (int j = 0; j < N_HOSTILE; j++)
            for (uint8_t colour = 0; colour < 8; colour++) {
                host h;
                image im;
                weft_error err = { 0 };
                put_big(data + 16, hostile[i]);
                put_big(data + 20, hostile[j]);
                data[25] = colour;
                put_big(data + 29, crc32_of(data + 12, 17));
                host_plain(&h);
                h.mem.cap = (size_t)1 << 20;
                if (image_parse(&im, data, size, "picture", &h, &err) == WEFT_OK)
                    assert_true(im.height <= 13 && im.width <= 13 * 11 * 4 * 8);
                image_free(&im, &h);
                assert_true(h.mem.used == 0 && h.mem.peak <= h.mem.cap);
            }
    free(data);
}

/* Bits of a deflate stream, lowest first; codes are written highest bit first. */
typedef struct bits {
    uint8_t *at;
    size_t n; /* bits */
} bits;

static void put_code(bits *b, unsigned code, int n)
{
    for (int i = n - 1; i >= 0; i--, b->n++) {
        if (b->n % 8 == 0)
            b->at[b->n / 8] = 0;
        b->at[b->n / 8] |= (uint8_t)((code >> i & 1) << b->n % 8);
    }
}

/* n zeros, compressed with the fixed codes: one literal, then runs of 258 repeats. */
static size_t pack_zeros(uint8_t *to, uint64_t n)
{
    bits b = { to, 0 };
    put_code(&b, 0x1E80, 16); /* 78 01, each byte from its lowest bit */
    put_code(&b, 6, 3);       /* the last block, of fixed codes */
    put_code(&b, 0x30, 8);
    for (n--; n >= 258; n -= 258)
        put_code(&b, 0xC5 << 5, 13);
    for (; n > 0; n--)
        put_code(&b, 0x30, 8);
    put_code(&b, 0, 7);
    return (b.n + 7) / 8;
}

static size_t put_chunk(uint8_t *to, const char *name, size_t n)
{
    put_big(to, n);
    memcpy(to + 4, name, 4);
    put_big(to + 8 + n, crc32_of(to + 4, n + 4));
    return n + 12;
}

/* A black image of one bit per pixel; the caller frees it. */
static uint8_t *black(uint64_t width, uint64_t height, size_t *size)
{
    const uint64_t n = height * (width / 8 + 1);
    uint8_t *png = malloc(n / 128 + 4096), *at = png + 8;
    assert_non_null(png);
    memcpy(png, "\x89PNG\r\n\x1A\n", 8);
    put_big(at + 8, width);
    put_big(at + 12, height);
    memcpy(at + 16, "\1\0\0\0\0", 5); /* one bit, grey, deflate, filtered, not interlaced */
    at += put_chunk(at, "IHDR", 13);
    const size_t packed = pack_zeros(at + 8, n);
    put_big(at + 8 + packed, (n % 65521) << 16 | 1); /* Adler's sum of zeros */
    at += put_chunk(at, "IDAT", packed + 4);
    at += put_chunk(at, "IEND", 0);
    *size = (size_t)(at - png);
    return png;
}

/* Decodes it for a model of 224 x 224 colour pixels; returns the peak memory. */
static size_t seen(uint64_t width, uint64_t height, weft_status expected)
{
    static const image_recipe to_224 = {
        .resize = true, .height = 224, .width = 224, .filter = FILTER_BILINEAR
    };
    host h;
    image im;
    size_t size;
    weft_error err = { 0 };
    uint8_t *data = black(width, height, &size);
    host_plain(&h);
    weft_status status = image_parse(&im, data, size, "picture", &h, &err);
    if (status == WEFT_OK)
        status = recipe_apply(&to_224, &im, 3, &h, &err);
    if (status != expected)
        fail_msg("%llu x %llu in %zu bytes: %d, %s", (unsigned long long)width,
                 (unsigned long long)height, size, (int)status, err.message);
    image_free(&im, &h);
    free(data);
    return h.mem.peak;
}

static void png_bomb(void **state)
{
    (void)state;
    const uint64_t side = quick() ? 2048 : 8192;
    assert_true(seen(32768, 4096, WEFT_EUNSUPPORTED) < 1 << 20);
    const size_t peak = seen(side, side, WEFT_OK);
    if (peak > side * side + (8 << 20))
        fail_msg("%zu bytes for a picture of %llu grey pixels", peak,
                 (unsigned long long)(side * side));
}

/* Where the sides of a JPEG are: in its start of frame. */
static uint8_t *jpeg_sides(uint8_t *data)
{
    size_t at = 2;
    while (data[at + 1] != 0xC0 && data[at + 1] != 0xC2)
        at += 2 + (size_t)(data[at + 2] << 8 | data[at + 3]);
    return data + at + 5;
}

/* Coefficients of all blocks are kept until the last scan. */
static void jpeg_bomb(void **state)
{
    (void)state;
    host h;
    image im;
    size_t size;
    weft_error err = { 0 };
    uint8_t *data = (uint8_t *)read_whole(picture("photo-progressive.jpg"), &size);
    memcpy(jpeg_sides(data), "\x20\0\x20\0", 4); /* 8192 x 8192 */
    host_plain(&h);
    assert_int_equal(image_parse(&im, data, size, "picture", &h, &err), WEFT_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "bytes to decode"));
    assert_true(h.mem.peak < 4 << 20);
    free(data);
}

static void jpeg_sizes(void **state)
{
    (void)state;
    static const char *const names[] = { "photo.jpg", "photo-progressive.jpg" };
    for (int n = 0; n < 2; n++) {
        size_t size;
        uint8_t *data = (uint8_t *)read_whole(picture(names[n]), &size), *at = jpeg_sides(data);
        for (int i = 0; i < N_HOSTILE; i++)
            for (int j = 0; j < N_HOSTILE; j++) {
                host h;
                image im;
                weft_error err = { 0 };
                for (int k = 0; k < 2; k++) {
                    at[k] = (uint8_t)(hostile[i] >> (8 - 8 * k));
                    at[2 + k] = (uint8_t)(hostile[j] >> (8 - 8 * k));
                }
                host_plain(&h);
                h.mem.cap = (size_t)2 << 20;
                if (image_parse(&im, data, size, "picture", &h, &err) != WEFT_OK)
                    assert_true(err.message[0]);
                image_free(&im, &h);
                assert_true(h.mem.used == 0 && h.mem.peak <= h.mem.cap);
            }
        free(data);
    }
}

static void append(uint8_t *to, size_t *n, const void *bytes, size_t size)
{
    memcpy(to + *n, bytes, size);
    *n += size;
}

/* A progressive JPEG of one grey block, in N scans. */
static weft_status scans(int n_scan, weft_error *err)
{
    static const uint8_t sof[] = { 0xFF, 0xC2, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0 };
    static const uint8_t dht[] = { 0xFF, 0xC4, 0, 20, 0, 1, 0, 0, 0, 0, 0,
                                   0,    0,    0, 0,  0, 0, 0, 0, 0, 0, 0 };
    static const uint8_t scan[] = { 0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 0, 0, 0x7F };
    static uint8_t data[4096];
    uint8_t dqt[69] = { 0xFF, 0xDB, 0, 67, 0 };
    size_t n = 0;
    memset(dqt + 5, 1, 64);
    append(data, &n, "\xFF\xD8", 2);
    append(data, &n, dqt, sizeof dqt);
    append(data, &n, sof, sizeof sof);
    append(data, &n, dht, sizeof dht);
    for (int i = 0; i < n_scan; i++)
        append(data, &n, scan, sizeof scan);
    append(data, &n, "\xFF\xD9", 2);
    return parse(data, n, err);
}

static void many_scans(void **state)
{
    (void)state;
    weft_error err;
    if (scans(1, &err) != WEFT_OK || scans(100, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(scans(101, &err), WEFT_EUNSUPPORTED);
}

static void unsupported(void **state)
{
    (void)state;
    size_t size;
    weft_error err;
    uint8_t *data = (uint8_t *)read_whole(picture("cmyk.jpg"), &size);
    assert_int_equal(parse(data, size, &err), WEFT_EUNSUPPORTED);
    free(data);
    assert_int_equal(parse((const uint8_t *)"GIF89a", 6, &err), WEFT_EFORMAT);
    assert_int_equal(parse((const uint8_t *)"", 0, &err), WEFT_EFORMAT);
}

/* Memory and file calls fail, one after the other: an error, and nothing is left. */
static void faults_of(const char *name)
{
    for (int64_t k = 1;; k++) {
        faults memory = { .fail_at = k }, io = { 0 };
        host h;
        image im;
        weft_error err = { 0 };
        host_faulty(&h, &memory, &io);
        weft_status status = image_open(&im, picture(name), &h, &err);
        if (status == WEFT_OK)
            status = recipe_apply(&(image_recipe){ .resize = true,
                                                   .height = 30,
                                                   .width = 40,
                                                   .filter = FILTER_BICUBIC,
                                                   .crop = true,
                                                   .crop_height = 20,
                                                   .crop_width = 20 },
                                  &im, im.channels == 1 ? 3 : 1, &h, &err);
        assert_true(status == WEFT_OK || err.message[0]);
        image_free(&im, &h);
        assert_true(memory.live == 0 && io.live == 0 && h.mem.used == 0);
        if (memory.calls < k) {
            assert_int_equal(status, WEFT_OK);
            break;
        }
        assert_int_not_equal(status, WEFT_OK);
    }
    for (int64_t k = 1; k <= 3; k++) {
        faults io = { .fail_at = k };
        host h;
        image im;
        weft_error err = { 0 };
        host_faulty(&h, NULL, &io);
        assert_int_equal(image_open(&im, picture(name), &h, &err), WEFT_EIO);
        assert_int_equal(h.mem.used, 0);
    }
}

static void png_faults(void **state)
{
    (void)state;
    faults_of("photo.png");
    faults_of("grey1-interlaced.png");
}

static void jpeg_faults(void **state)
{
    (void)state;
    faults_of("photo.jpg");
}

static void names(void **state)
{
    (void)state;
    assert_true(image_is_name("a.png") && image_is_name("dir/B.JPG") && image_is_name("c.jpeg"));
    assert_false(image_is_name(".png") || image_is_name("png") || image_is_name("a.png.txt"));
}

/* A build without a library names it. */
static void without(const char *name, const char *library)
{
    host h;
    image im;
    weft_error err = { 0 };
    host_plain(&h);
    assert_int_equal(image_open(&im, picture(name), &h, &err), WEFT_EUNSUPPORTED);
    assert_non_null(strstr(err.message, library));
    assert_int_equal(h.mem.used, 0);
}

static void without_png(void **state)
{
    (void)state;
    without("photo.png", "built without libpng");
}

static void without_jpeg(void **state)
{
    (void)state;
    without("photo.jpg", "built without libjpeg");
}

int main(void)
{
    const struct CMUnitTest always[] = {
        TEST("image: resizes as PIL does, bit by bit", resize_as_pil),
        TEST("image: patches equal those of transformers' processors, bit for bit", processors),
        TEST("image: an unknown or invalid processor is refused", recipes),
        TEST("image: sizes have limits, which are checked before memory is allocated", limits),
        TEST("image: a crop is centred", crops),
        TEST("image: file names", names),
    };
    const struct CMUnitTest png[] = {
        TEST("png: pixels are PIL's, whatever the kind", png_as_pil),
        TEST("png: truncated at any byte it is refused", png_truncated),
        TEST("png: any changed bit is detected", png_changed),
        TEST("png: sizes that wrap are stopped by the cap", png_sizes),
        TEST("png: a small file of a huge image takes little memory", png_bomb),
        TEST("png: no fault leaves anything behind", png_faults),
    };
    const struct CMUnitTest jpeg[] = {
        TEST("jpeg: pixels are PIL's, whatever the kind", jpeg_as_pil),
        TEST("jpeg: truncated at any byte it is refused", jpeg_truncated),
        TEST("jpeg: a changed bit does no harm", jpeg_changed),
        TEST("jpeg: sizes that wrap are stopped by the cap", jpeg_sizes),
        TEST("jpeg: a small file of a huge image takes little memory", jpeg_bomb),
        TEST("jpeg: at most a hundred scans are read", many_scans),
        TEST("jpeg: no fault leaves anything behind", jpeg_faults),
        TEST("image: other formats, and CMYK, are refused", unsupported),
    };
    const struct CMUnitTest no_png[] = { TEST("png: a build without it says so", without_png) };
    const struct CMUnitTest no_jpeg[] = { TEST("jpeg: a build without it says so", without_jpeg) };
    const char *parts = weft_build_parts();
    const bool has_png = strstr(parts, " png"), has_jpeg = strstr(parts, " jpeg");
    return RUN(always) + (has_png ? RUN(png) : RUN(no_png)) + (has_jpeg ? RUN(jpeg) : RUN(no_jpeg));
}
