/* Training images: listing, samples, and clean-up after faults. */
#include "support.h"

#include "train/data.h"

#include <sys/stat.h>

enum { N = 20, SIDE = 4 };

/* ---- data -------------------------------------------------------------------------------------- */

/* N images of 4 x 4; all pixels of image i are i; labels are i % 3. */
static void write_idx(const char *path[2])
{
    uint8_t images[16 + N * SIDE * SIDE] = { 0, 0, 8, 3, 0, 0, 0, N, 0, 0, 0, SIDE, 0, 0, 0, SIDE };
    uint8_t labels[8 + N] = { 0, 0, 8, 1, 0, 0, 0, N };
    for (int i = 0; i < N; i++) {
        memset(images + 16 + i * SIDE * SIDE, i, SIDE * SIDE);
        labels[8 + i] = (uint8_t)(i % 3);
    }
    static char kept[2][4096]; /* a path is valid until some more are requested */
    snprintf(kept[0], sizeof kept[0], "%s", temp_file("images", images, sizeof images));
    snprintf(kept[1], sizeof kept[1], "%s", temp_file("labels", labels, sizeof labels));
    path[0] = kept[0];
    path[1] = kept[1];
}

/* A directory with classes b and a of three and two images, and other files. */
static const char *write_zoo(void)
{
    size_t size;
    char *png = read_whole(fixture("golden/images/photo.png"), &size);
    static char zoo[4096];
    snprintf(zoo, sizeof zoo, "%s", temp_path("zoo"));
    mkdir(zoo, 0777);
    mkdir(temp_path("zoo/b"), 0777);
    mkdir(temp_path("zoo/a"), 0777);
    mkdir(temp_path("zoo/none"), 0777);
    temp_file("zoo/b/1.png", png, size);
    temp_file("zoo/b/3.PNG", png, size);
    temp_file("zoo/b/2.png", png, size);
    temp_file("zoo/a/x.png", png, size);
    temp_file("zoo/a/y.png", png, size);
    temp_file("zoo/a/.hidden.png", "", 0);
    temp_file("zoo/a/notes.txt", "", 0);
    temp_file("zoo/notes.txt", "", 0);
    free(png);
    return zoo;
}

/* The image part of a model: grey, patches of 2, three classes. */
static void open_model(model *m, host *h)
{
    static const char preprocessor[] =
        "{\"image_processor_type\": \"ViTImageProcessor\", \"size\": 4, \"do_normalize\": false, "
        "\"rescale_factor\": 1}";
    temp_file("preprocessor_config.json", preprocessor, sizeof preprocessor - 1);
    *m = (model){ .host = h,
                  .name = "vit",
                  .image = { 1, SIDE, SIDE, 2, 1 },
                  .n_ctx = 5,
                  .d_feature = 4,
                  .n_out = 3 };
    m->config = &m->file;
    m->file.format = "safetensors";
    m->file.host = h;
    m->file.meta_path = temp_path("config.json");
}

typedef struct open_set {
    host host;
    model model;
    image_set images;
    dataset data;
    batch batch;
} open_set;

static void open_data(open_set *s, double validation, int64_t shift, int32_t room)
{
    const char *path[2];
    weft_error err = { 0 };
    write_idx(path);
    host_plain(&s->host);
    open_model(&s->model, &s->host);
    if (image_set_list(&s->images, path, 2, WEFT_LOAD_COPY, &s->host, &err) != WEFT_OK ||
        image_set_load(&s->images, &s->model, &err) != WEFT_OK ||
        data_open_images(&s->data, &s->images, &s->model, validation, &err) != WEFT_OK ||
        data_room(&s->batch, &s->data, room, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    s->images.shift = shift;
}

static void close_data(open_set *s)
{
    data_room_free(&s->batch, &s->data);
    data_close(&s->data);
    image_set_close(&s->images);
    assert_int_equal(s->host.mem.used, 0);
}

/* ---- lists ------------------------------------------------------------------------------------- */

static void lists(void **state)
{
    (void)state;
    static const char *const order[] = { "zoo/a/x.png", "zoo/a/y.png", "zoo/b/1.png", "zoo/b/2.png",
                                         "zoo/b/3.PNG" };
    host h;
    image_set p;
    weft_error err = { 0 };
    const char *path[2] = { write_zoo(), NULL };
    host_plain(&h);
    assert_true(is_image_set(path[0], &h));
    if (image_set_list(&p, path, 1, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_true(p.n == 5 && p.n_class == 2);
    assert_string_equal(p.class_name[0], "a");
    assert_string_equal(p.class_name[1], "b");
    for (int i = 0; i < 5; i++) {
        assert_string_equal(p.file[i]->path, temp_path(order[i]));
        assert_int_equal(p.file[i]->label, i >= 2);
    }
    image_set_close(&p);
    write_idx(path);
    assert_true(is_image_set(path[0], &h) && !is_image_set(fixture("CMakeLists.txt"), &h));
    assert_int_equal(image_set_list(&p, path, 2, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    assert_true(p.n == N && p.n_class == 3 && p.height == SIDE && p.channels == 1);
    assert_string_equal(p.class_name[2], "2");
    image_set_close(&p);
    assert_int_equal(h.mem.used, 0);
}

/* ---- samples ----------------------------------------------------------------------------------- */

static void samples(void **state)
{
    (void)state;
    open_set s;
    bool seen[N] = { false };
    weft_error err = { 0 };
    open_data(&s, 0.25, 0, 15);
    assert_true(s.data.train.n_sample == 15 && s.data.validation.n_sample == 5);
    assert_int_equal(data_fill(&s.batch, &s.data.train, 7, 0, 15, &err), WEFT_OK);
    assert_true(s.batch.n_row == 75 && s.batch.n_seq == 15 && s.batch.n_wanted == 15);
    for (int k = 0; k < 15; k++) {
        const batch_row *row = s.batch.row + 5 * k;
        const real *f = s.batch.features + 5 * k * 4;
        const int i = (int)f[4];
        assert_true(i >= 0 && i < N && !seen[i]);
        seen[i] = true;
        assert_true(row[0].target == i % 3 && row[0].wanted && row[4].pos == 4);
        assert_true(row[1].target == NO_TARGET && !row[1].wanted && row[4].seq == k);
        for (int c = 0; c < 20; c++)
            assert_true(f[c] == (real)(c < 4 ? 0 : i)); /* the first row has the target */
    }
    assert_int_equal(data_fill_in_order(&s.batch, &s.data.validation, 0, 5, &err), WEFT_OK);
    for (int k = 0; k < 5; k++) {
        const int i = (int)s.batch.features[5 * k * 4 + 4];
        assert_true(!seen[i]);
        seen[i] = true;
    }
    assert_int_equal(data_targets(&s.data.train, 7, 3, 9), 9);
    close_data(&s);
}

/* Pixels encode their position; in a shifted image all are shifted alike, and its edges are
 * repeated. */
static void shifts(void **state)
{
    (void)state;
    open_set s;
    bool seen[3][3] = { { false } };
    weft_error err = { 0 };
    open_data(&s, 0, 1, N);
    for (int i = 0; i < N * SIDE * SIDE; i++)
        s.images.pixel[i] = (uint8_t)(i % (SIDE * SIDE));
    for (int64_t at = 0; at < 100; at += N) {
        assert_int_equal(data_fill(&s.batch, &s.data.train, 3, at, N, &err), WEFT_OK);
        for (int k = 0; k < N; k++) {
            const real *f = s.batch.features + 5 * k * 4 + 4;
            const int inner = (int)f[3]; /* the pixel at row 1, column 1 */
            const int down = 1 - inner / SIDE, right = 1 - inner % SIDE;
            assert_true(abs(down) <= 1 && abs(right) <= 1);
            seen[down + 1][right + 1] = true;
            const int y = -down < 0 ? 0 : -down, x = -right < 0 ? 0 : -right;
            assert_true((int)f[0] == y * SIDE + x);
        }
    }
    for (int i = 0; i < 9; i++)
        assert_true(seen[i / 3][i % 3]);
    assert_int_equal(data_fill_in_order(&s.batch, &s.data.train, 0, N, &err), WEFT_OK);
    for (int k = 0; k < N; k++)
        assert_true(s.batch.features[5 * k * 4 + 4] == 0); /* evaluated, not trained on */
    close_data(&s);
}

/* ---- faults ------------------------------------------------------------------------------------ */

static weft_status everything(const char *const *path, int n_path, model *m, host *h,
                              weft_error *err)
{
    image_set p;
    dataset d;
    weft_status status = image_set_list(&p, path, n_path, WEFT_LOAD_COPY, h, err);
    if (status != WEFT_OK)
        return status;
    m->n_out = p.n_class;
    status = image_set_load(&p, m, err);
    if (status == WEFT_OK) {
        status = data_open_images(&d, &p, m, 0.25, err);
        if (status == WEFT_OK)
            data_close(&d);
    }
    image_set_close(&p);
    return status;
}

/* Every allocation and every call to the system fails once. */
static void fail_each(const char *const *path, int n_path, bool memory_fails)
{
    for (int64_t k = 1;; k++) {
        faults memory = { .fail_at = memory_fails ? k : 0 },
               io = { .fail_at = memory_fails ? 0 : k };
        host h;
        model m;
        weft_error err = { 0 };
        host_faulty(&h, &memory, &io);
        open_model(&m, &h);
        const weft_status status = everything(path, n_path, &m, &h, &err);
        assert_true(memory.live == 0 && io.live == 0 && h.mem.used == 0);
        assert_true(status == WEFT_OK || err.message[0]);
        if ((memory_fails ? memory.calls : io.calls) < k) {
            assert_int_equal(status, WEFT_OK);
            return;
        }
    }
}

static void no_fault_leaves_anything(void **state)
{
    (void)state;
    const char *path[2] = { write_zoo(), NULL };
    if (strstr(weft_build_parts(), " png")) {
        fail_each(path, 1, true);
        fail_each(path, 1, false);
    }
    write_idx(path);
    fail_each(path, 2, true);
    fail_each(path, 2, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("images: directories are classes, in order; IDX files come in pairs", lists),
        TEST("images: each is a sample once per epoch, or held out", samples),
        TEST("images: shifted in training, not in evaluation", shifts),
        TEST("images: no fault leaves anything behind", no_fault_leaves_anything),
    };
    return RUN(tests);
}
