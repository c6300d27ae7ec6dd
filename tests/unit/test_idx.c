/* IDX: sizes match the file, or it is refused. */
#include "support.h"

#include "formats/idx.h"
#include "hostile.h"

/* Two pictures of 2 x 3. */
static const uint8_t two[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,  0,  0,
                               0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
static const uint8_t labels[] = { 0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1 };

static weft_status parse(const uint8_t *data, size_t size, idx *to, weft_error *err)
{
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    *err = (weft_error){ 0 };
    const weft_status status = idx_parse(to, copy, size, "idx", err);
    if (status == WEFT_OK)
        assert_true(to->item + to->size[0] * to->item_bytes == copy + size);
    else
        assert_true(err->code == status && strncmp(err->message, "idx: ", 5) == 0);
    free(copy);
    return status;
}

static void reads(void **state)
{
    (void)state;
    idx x;
    weft_error err;
    assert_int_equal(parse(two, sizeof two, &x, &err), WEFT_OK);
    assert_true(x.n_dim == 3 && x.size[0] == 2 && x.size[1] == 2 && x.size[2] == 3);
    assert_int_equal(x.item_bytes, 6);
    assert_int_equal(parse(labels, sizeof labels, &x, &err), WEFT_OK);
    assert_true(x.n_dim == 1 && x.size[0] == 3 && x.item_bytes == 1);
}

static void truncation(void **state)
{
    (void)state;
    idx x;
    weft_error err;
    uint8_t longer[sizeof two + 1] = { 0 };
    for (size_t n = 0; n < sizeof two; n++)
        assert_int_equal(parse(two, n, &x, &err), WEFT_EFORMAT);
    memcpy(longer, two, sizeof two);
    assert_int_equal(parse(longer, sizeof longer, &x, &err), WEFT_EFORMAT);
}

static void boundaries(void **state)
{
    (void)state;
    idx x;
    weft_error err;
    uint8_t data[sizeof two];
    for (size_t at = 0; at < 16; at += 4)
        for (size_t with = 4; with < 16; with += 4)
            for (int a = 0; a < N_HOSTILE; a++)
                for (int b = 0; b < N_HOSTILE; b++) {
                    memcpy(data, two, sizeof two);
                    for (size_t i = 0; i < 4; i++) {
                        data[with + i] = (uint8_t)(hostile[b] >> (24 - 8 * i));
                        data[at + i] = (uint8_t)(hostile[a] >> (24 - 8 * i));
                    }
                    if (parse(data, sizeof data, &x, &err) == WEFT_OK)
                        assert_int_equal(x.size[0] * x.item_bytes,
                                         (int64_t)sizeof data - 4 - 4 * x.n_dim);
                }
}

static void refused(void **state)
{
    (void)state;
    idx x;
    weft_error err;
    const uint8_t floats[] = { 0, 0, 13, 1, 0, 0, 0, 0 };
    const uint8_t none[] = { 0, 0, 8, 0 }, five[] = { 0, 0, 8, 5 };
    assert_int_equal(parse(floats, sizeof floats, &x, &err), WEFT_EUNSUPPORTED);
    assert_int_equal(parse(none, sizeof none, &x, &err), WEFT_EUNSUPPORTED);
    assert_int_equal(parse(five, sizeof five, &x, &err), WEFT_EUNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("idx: images and labels", reads),
        TEST("idx: truncated at any byte, or too long, it is refused", truncation),
        TEST("idx: sizes that wrap are refused", boundaries),
        TEST("idx: refuses types other than bytes, and no dimensions", refused),
    };
    return RUN(tests);
}
