/* fuzz_idx.c - bytes as an IDX file, and as the preprocessor_config.json of a model. */
#include "formats/idx.h"
#include "formats/image.h"
#include "hostile.h"

#include <jansson.h>

static void as_recipe(const uint8_t *data, size_t size)
{
    host h = { .io = io_system };
    image_recipe recipe;
    weft_error err = { 0 };
    mem_init(&h.mem, (size_t)16 << 20, NULL);
    container c;
    weft_status status = container_begin(&c, "json", "fuzz", &h, &err);
    if (status == WEFT_OK)
        status = config_parse(&c, data, size, &err);
    if (status == WEFT_OK)
        status = container_index(&c, &err);
    if (status == WEFT_OK)
        status = recipe_read(&recipe, &c, size % 2 ? 1 : 3, &err);
    container_close(&c);
    if (status == WEFT_OK) {
        holds(recipe.height > 0 && recipe.height <= IMAGE_MAX_SIDE, "a height is none");
        holds(recipe.crop_width > 0 && recipe.crop_width <= IMAGE_MAX_SIDE, "a width is none");
        holds(recipe.std[0] != 0, "a deviation is zero");
    } else {
        holds(err.message[0], "an error without a message");
    }
    holds(atomic_load(&h.mem.used) == 0, "memory is left");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    idx x;
    weft_error err = { 0 };
    json_object_seed(1); /* hashing is random by default, findings must repeat */
    if (size > 0 && data[0] == '{')
        as_recipe(data, size);
    else if (idx_parse(&x, data, size, "fuzz", &err) == WEFT_OK)
        holds(x.item + x.size[0] * x.item_bytes == data + size, "items do not fill the file");
    else
        holds(err.message[0], "an error without a message");
    return 0;
}
