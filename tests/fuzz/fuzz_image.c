/* fuzz_image.c - bytes as an image, under a memory cap. Three of four mutations fix the checksums
 * of a PNG's chunks; otherwise hardly any input would pass them. */
#include "formats/image.h"
#include "hostile.h"
#include "image_cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop(const char *why)
{
    fprintf(stderr, "%s\n", why);
    abort();
}

/* Reads every pixel, so that a sanitizer reports uninitialised ones. */
static void look(image *im, host *h)
{
    weft_error err = { 0 };
    const image_recipe recipe = { .resize = true,
                                  .height = 8,
                                  .width = 8,
                                  .filter = FILTER_BICUBIC,
                                  .rescale = true,
                                  .factor = 1 / 255.0 };
    real rows[3 * 8 * 8];
    if (recipe_apply(&recipe, im, 3, h, &err) != WEFT_OK) {
        if (err.code != WEFT_ELIMIT)
            stop("a picture cannot be resized");
        return;
    }
    recipe_patches(&recipe, im, 4, rows);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!(rows[i] >= 0 && rows[i] <= 1))
            stop("a number is not between 0 and 1");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    host h = { .io = io_system };
    image im;
    weft_error err = { 0 };
    mem_init(&h.mem, (size_t)16 << 20, NULL);
    const uint64_t cost = image_cost(data, size); /* also of what is no image */
    if (image_parse(&im, data, size, "fuzz", &h, &err) == WEFT_OK) {
        if (cost < (uint64_t)im.width * (uint64_t)im.height)
            stop("it has more pixels than its cost");
        look(&im, &h);
    } else if (!err.message[0] || im.pixel)
        stop("an error without a message, or with a picture");
    image_free(&im, &h);
    if (atomic_load(&h.mem.used) != 0)
        stop("memory is left");
    return 0;
}

static uint32_t crc_of(const uint8_t *data, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, room);
    if (size < 8 || data[0] != 0x89 || seed % 4 == 0)
        return size;
    for (size_t at = 8; at + 12 <= size;) {
        const size_t n = (size_t)data[at] << 24 | (size_t)data[at + 1] << 16 |
                         (size_t)data[at + 2] << 8 | data[at + 3];
        if (n > size - at - 12)
            break;
        const uint32_t crc = crc_of(data + at + 4, n + 4);
        for (size_t i = 0; i < 4; i++)
            data[at + 8 + n + i] = (uint8_t)(crc >> (24 - 8 * i));
        at += n + 12;
    }
    return size;
}
