/* Epochs: each visits every sample once, in its own order, a function of the seed. */
#include "support.h"

#include "train/data.h"

enum { IDS = 60, CTX = 8, SAMPLES = IDS - CTX, EPOCHS = 4 };

typedef int32_t epoch_order[SAMPLES]; /* first ids of the samples, which identify them */

static void data_of_ids(dataset *d, host *h)
{
    uint16_t id[IDS];
    weft_error err = { 0 };
    const data_options o = {
        .corpus = { .eos = -1, .n_thread = 1, .kind = DATA_RAW16, .n_vocab = IDS }, .n_ctx = CTX
    };
    for (int i = 0; i < IDS; i++)
        id[i] = (uint16_t)i;
    const char *path = temp_file("ids.bin", id, sizeof id);
    host_plain(h);
    if (data_open(d, &path, 1, &o, h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(d->train.n_sample, SAMPLES);
}

static void read_epoch(const dataset *d, uint64_t seed, int64_t epoch, epoch_order order)
{
    batch b;
    weft_error err = { 0 };
    assert_int_equal(data_room(&b, d, 1, &err), WEFT_OK);
    for (int64_t i = 0; i < SAMPLES; i++) {
        assert_int_equal(data_fill(&b, &d->train, seed, epoch * SAMPLES + i, 1, &err), WEFT_OK);
        order[i] = b.row[0].id;
    }
    data_room_free(&b, d);
}

static void assert_permutation(const epoch_order order)
{
    bool met[IDS] = { false };
    for (int i = 0; i < SAMPLES; i++) {
        assert_in_range(order[i], 0, SAMPLES - 1);
        assert_false(met[order[i]]);
        met[order[i]] = true;
    }
}

/* Positions that two orders have in common; one is expected by chance. */
static int in_common(const epoch_order a, const epoch_order b)
{
    int n = 0;
    for (int i = 0; i < SAMPLES; i++)
        n += a[i] == b[i];
    return n;
}

static void epochs_differ(void **state)
{
    (void)state;
    dataset d;
    host h;
    epoch_order order[2 * EPOCHS];
    data_of_ids(&d, &h);
    for (int i = 0; i < 2 * EPOCHS; i++) {
        read_epoch(&d, i < EPOCHS ? 5 : 6, i % EPOCHS, order[i]);
        assert_permutation(order[i]);
        for (int k = 0; k < i; k++)
            assert_true(in_common(order[k], order[i]) < SAMPLES / 4);
    }
    epoch_order again;
    read_epoch(&d, 5, 1, again);
    assert_memory_equal(again, order[1], sizeof again);
    data_close(&d);
    assert_int_equal(h.mem.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("epochs: each has every sample once, in its own order", epochs_differ),
    };
    return RUN(tests);
}
