/* Files of ids: what was written is read back, and any error is refused. */
#include "support.h"

#include "formats/shard.h"
#include "hostile.h"

#define N_ID 13

static const uint16_t narrow[N_ID] = { 5, 0, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9 };
static const uint32_t wide[N_ID] = { 5, 0, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8, 65536 };
static const document three[] = { { 4, 0 }, { 5, 1 }, { N_ID, 3 } };

/* A file of one or two parts, malloc'ed; ids of `width` bytes, twice if requested. */
static uint8_t *write_file(uint32_t width, int64_t n_part, size_t *size)
{
    const shard s = { .ids = width == 2 ? (const void *)narrow : wide,
                      .width = width,
                      .n_id = N_ID,
                      .n_document = 3,
                      .document = three };
    const shard *const part[] = { &s, &s };
    host h;
    weft_error err = { 0 };
    host_plain(&h);
    const char *path = temp_path("ids");
    if (shard_save(part, n_part, width == 2 ? 10 : 65537, path, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(h.mem.used, 0);
    return (uint8_t *)read_whole(path, size);
}

/* Marked ids of two parts, of which one has narrow ids without marks. */
static uint8_t *write_marked(size_t *size)
{
    uint32_t ids[N_ID];
    for (int i = 0; i < N_ID; i++)
        ids[i] = narrow[i] | (i % 3 ? SHARD_NO_LOSS : 0);
    const shard a = {
        .ids = ids, .width = 4, .marked = true, .n_id = N_ID, .n_document = 3, .document = three
    };
    const shard b = { .ids = narrow, .width = 2, .n_id = N_ID, .n_document = 3, .document = three };
    const shard *const part[] = { &b, &a };
    host h;
    weft_error err = { 0 };
    host_plain(&h);
    const char *path = temp_path("marked");
    if (shard_save(part, 2, 10, path, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    return (uint8_t *)read_whole(path, size);
}

/* Parses a copy of exact size, so that a sanitizer reports an overrun. */
static weft_status parse(const uint8_t *data, size_t size, weft_error *err)
{
    shard s;
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    *err = (weft_error){ 0 };
    const weft_status status = shard_parse(&s, copy, size, "ids", err);
    if (status == WEFT_OK) {
        uint64_t begin = 0;
        assert_int_equal(shard_find_unknown_id(&s, s.n_vocab), s.n_id);
        for (uint64_t i = 0; i < s.n_document; i++) {
            assert_true(s.document[i].end > begin && s.document[i].end <= s.n_id);
            begin = s.document[i].end;
        }
    } else {
        assert_true(err->code == status && strncmp(err->message, "ids: ", 5) == 0);
    }
    free(copy);
    return status;
}

/* Fixes the checksum after a change, so that it is not what refuses the file. */
static void sum_again(uint8_t *data, size_t size)
{
    const uint64_t sum = shard_sum(data, size);
    memcpy(data + 40, &sum, sizeof sum);
}

static void round_trip(void **state)
{
    (void)state;
    for (uint32_t width = 2; width <= 4; width += 2)
        for (int64_t n_part = 1; n_part <= 2; n_part++) {
            size_t size;
            uint8_t *data = write_file(width, n_part, &size);
            shard s;
            weft_error err = { 0 };
            if (shard_parse(&s, data, size, "ids", &err) != WEFT_OK)
                fail_msg("%s", err.message);
            assert_int_equal(s.n_id, N_ID * n_part);
            assert_int_equal(s.n_document, 3 * n_part);
            for (uint64_t i = 0; i < s.n_id; i++)
                assert_int_equal(shard_id(&s, i), width == 2 ? narrow[i % N_ID] : wide[i % N_ID]);
            for (uint64_t i = 0; i < s.n_document; i++) {
                assert_int_equal(s.document[i].end, three[i % 3].end + i / 3 * N_ID);
                assert_int_equal(s.document[i].n_prompt, three[i % 3].n_prompt);
            }
            assert_int_equal(shard_begin(&s, 2), 5);
            free(data);
        }
}

/* Marks stay, and are not part of the ids; a file with them is of version 2, of others not. */
static void marks(void **state)
{
    (void)state;
    size_t size;
    uint8_t *data = write_file(4, 1, &size);
    shard s;
    weft_error err = { 0 };
    assert_int_equal(data[8], 1);
    free(data);
    data = write_marked(&size);
    assert_int_equal(data[8], 2);
    if (shard_parse(&s, data, size, "ids", &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_true(s.marked && s.width == 4 && s.n_id == 2 * N_ID);
    for (uint64_t i = 0; i < s.n_id; i++) {
        assert_int_equal(shard_id(&s, i), narrow[i % N_ID]);
        assert_int_equal(shard_has_loss(&s, i), i < N_ID || i % N_ID % 3 == 0);
    }
    data[8] = 1; /* without marks such an id is unknown */
    sum_again(data, size);
    assert_int_equal(parse(data, size, &err), WEFT_EFORMAT);
    assert_non_null(strstr(err.message, "id 14 is 2147483648; the vocabulary has 10"));
    free(data);
}

static void truncate_file(uint8_t *data, size_t size)
{
    weft_error err;
    for (size_t n = 0; n < size; n++)
        assert_int_equal(parse(data, n, &err), WEFT_EFORMAT);
    for (size_t n = SHARD_HEAD; n < size; n++) { /* with the checksum of the rest */
        uint8_t *copy = malloc(n);
        memcpy(copy, data, n);
        sum_again(copy, n);
        assert_int_equal(parse(copy, n, &err), WEFT_EFORMAT);
        free(copy);
    }
    free(data);
}

static void truncation(void **state)
{
    (void)state;
    size_t size;
    uint8_t *data = write_file(2, 2, &size);
    truncate_file(data, size);
    data = write_marked(&size);
    truncate_file(data, size);
}

static void every_bit(void **state)
{
    (void)state;
    size_t size;
    uint8_t *data = write_file(2, 1, &size);
    weft_error err;
    for (size_t i = 0; i < size * 8; i++) {
        data[i / 8] ^= (uint8_t)(1u << i % 8);
        if (parse(data, size, &err) == WEFT_OK)
            fail_msg("bit %zu of byte %zu may change", i % 8, i / 8);
        data[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    assert_int_equal(parse(data, size, &err), WEFT_OK);
    free(data);
}

static void put_number(uint8_t *at, uint64_t x, int width)
{
    memcpy(at, &x, (size_t)width);
}

/* Every number of the file at every width at which arithmetic wraps, alone and in pairs, with a
 * correct checksum: no crash, and only consistent files are accepted. */
static void boundaries(void **state)
{
    (void)state;
    size_t size;
    uint8_t *data = write_file(2, 1, &size), *copy = malloc(size);
    field f[32] = { { 8, 4, 0, false },  { 12, 4, 0, false }, { 16, 4, 0, false },
                    { 20, 4, 0, false }, { 24, 8, 0, false }, { 32, 8, 0, false },
                    { 48, 8, 0, false } };
    int n = 7;
    for (size_t at = size - 3 * sizeof(document); at < size; at += 8)
        f[n++] = (field){ at, 8, 0, false };
    int64_t tried = 0, passed = 0;
    weft_error err;
    for (int i = 0; i < n; i++)
        for (int j = i; j < n; j++)
            for (int a = 0; a < N_HOSTILE; a++)
                for (int b = 0; b < (i == j ? 1 : N_HOSTILE); b++) {
                    memcpy(copy, data, size);
                    put_number(copy + f[j].at, hostile[b], f[j].width);
                    put_number(copy + f[i].at, hostile[a], f[i].width);
                    sum_again(copy, size);
                    passed += parse(copy, size, &err) == WEFT_OK;
                    tried++;
                }
    print_message("%lld files with hostile numbers, %lld hold together\n", (long long)tried,
                  (long long)passed);
    assert_true(passed > 0 && passed < tried / 4); /* a larger vocabulary, no prompt */
    free(copy);
    free(data);
}

static void sentences(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint32_t x;
        const char *says;
    } wrong[] = {
        { 0, 1, "does not begin with" },
        { 8, 3, "token file version 3, expected 1 to 2" },
        { 8, 0, "token file version 0, expected 1 to 2" },
        { 8, 2, "ids of 2 bytes, expected 4" },
        { 12, 3, "ids of 3 bytes" },
        { 16, 9, "id 2 is 9; the vocabulary has 9" },
        { 20, 1, "reserved header fields are not 0" },
        { 24, 12, "do not match 12 ids of 2 bytes and 3 documents" },
        { 24, 99, "do not match 99 ids of 2 bytes and 3 documents" },
        { 96, 0, "document 0 ends at id 0 of 13" },
        { 96, 14, "document 0 ends at id 14 of 13" },
        { 104, 5, "document 0 has 4 ids, but a prompt of 5" },
        { 128, 12, "documents end at id 12 of 13" },
    };
    size_t size;
    uint8_t *data = write_file(2, 1, &size), *copy = malloc(size);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_error err;
        memcpy(copy, data, size);
        memcpy(copy + wrong[i].at, &wrong[i].x, sizeof wrong[i].x);
        sum_again(copy, size);
        parse(copy, size, &err);
        if (!strstr(err.message, wrong[i].says))
            fail_msg("\"%s\", expected \"%s\"", err.message, wrong[i].says);
        assert_true(err.code != WEFT_OK);
    }
    free(copy);
    free(data);
}

/* Every call while writing fails once: an error, and nothing is left. */
static void faults_of_writing(void **state)
{
    (void)state;
    const shard s = { .ids = narrow, .width = 2, .n_id = N_ID, .n_document = 3, .document = three };
    const shard *const part[] = { &s };
    for (int files = 0; files < 2; files++)
        for (int64_t k = 1;; k++) {
            host h;
            faults memory = { 0 }, io = { 0 }, *chosen = files ? &io : &memory;
            weft_error err = { 0 };
            chosen->fail_at = k;
            host_faulty(&h, &memory, &io);
            const weft_status status = shard_save(part, 1, 10, temp_path("faulty"), &h, &err);
            assert_true(memory.live == 0 && io.live == 0 && h.mem.used == 0);
            if (chosen->calls < k)
                break;
            assert_true(status == WEFT_OK || err.message[0]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("ids: reads back what it wrote, in parts or whole", round_trip),
        TEST("ids: marks of ids without a loss are kept", marks),
        TEST("ids: a file that ends early is refused", truncation),
        TEST("ids: every bit matters", every_bit),
        TEST("ids: hostile numbers are refused", boundaries),
        TEST("ids: the message says what is wrong", sentences),
        TEST("ids: a failed call leaves nothing", faults_of_writing),
    };
    return RUN(tests);
}
