/* image.c - the public functions for images: check, translate, delegate. */
#include "api/api.h"

#include "engine/encode.h"
#include "train/image_set.h"
#include "train/learner.h"

typedef struct image_block {
    weft_model *model; /* referenced */
    weft_image image;
    float features[];
} image_block;

static weft_image *make(weft_model *w, image *im, const char *path, weft_error *err)
{
    const model *m = &w->model;
    image_recipe recipe;
    image_block *b = NULL;
    if (image_input_recipe(&recipe, m, err) == WEFT_OK &&
        image_input_fit(im, &recipe, &m->image, path, &w->host, err) == WEFT_OK)
        b = mem_alloc(&w->host.mem,
                      sizeof *b + (size_t)(m->n_ctx * m->d_feature) * sizeof *b->features,
                      "rows of an image", err);
    if (b) {
        b->model = w;
        hold(&w->holders);
        b->image = (weft_image){ m->n_ctx, b->features };
        image_input_rows(im, &recipe, &m->image, b->features);
    }
    image_free(im, &w->host);
    return b ? &b->image : NULL;
}

weft_image *weft_image_open(weft_model *m, const char *path, weft_error *err)
{
    image im;
    weft_error local;
    err = begin_call(err, &local);
    if (!m || !path) {
        weft_fail(err, WEFT_EINVAL, m ? "no path given" : "no model given");
        return NULL;
    }
    return image_open(&im, path, &m->host, err) == WEFT_OK ? make(m, &im, path, err) : NULL;
}

weft_image *weft_image_decode(weft_model *m, const void *data, size_t size, weft_error *err)
{
    image im;
    weft_error local;
    err = begin_call(err, &local);
    if (!m || !data) {
        weft_fail(err, WEFT_EINVAL, m ? "no image given" : "no model given");
        return NULL;
    }
    return image_parse(&im, data, size, "picture", &m->host, err) == WEFT_OK
               ? make(m, &im, "picture", err)
               : NULL;
}

void weft_image_free(weft_image *im)
{
    if (!im)
        return;
    image_block *b = (image_block *)((char *)im - offsetof(image_block, image));
    weft_model *m = b->model;
    mem_free(&m->host.mem, b);
    weft_model_close(m);
}

/* ---- accuracy -------------------------------------------------------------------------------- */

#define AT_ONCE 64

typedef struct scoring {
    const model *model;
    encode_engine *engine;
    image_set images;
    float *rows; /* [AT_ONCE, n_ctx, d_feature] */
    float *out;  /* [AT_ONCE, n_out] */
    weft_score score;
} scoring;

/* Scores images [i, i + n). */
static weft_status score_some(scoring *s, int64_t i, int64_t n, weft_error *err)
{
    const model *m = s->model;
    const image_set *p = &s->images;
    const int64_t one = m->image.height * m->image.width * m->image.channels;
    weft_input in[AT_ONCE];
    for (int64_t k = 0; k < n; k++) {
        float *to = s->rows + k * m->n_ctx * m->d_feature;
        const image im = { m->image.height, m->image.width, m->image.channels,
                           p->pixel + (i + k) * one };
        image_input_rows(&im, &p->recipe, &m->image, to);
        in[k] = (weft_input){ .features = to, .n = m->n_ctx, .out = s->out + k * m->n_out };
    }
    const weft_status status = encode_engine_eval(s->engine, in, n, err);
    for (int64_t k = 0; k < n && status == WEFT_OK; k++) {
        s->score.n_right += logits_score(in[k].out, m->n_out, p->label[i + k], &s->score.loss);
        s->score.n++;
    }
    return status;
}

static weft_status score_all(scoring *s, weft_error *err)
{
    const model *m = s->model;
    mem *from = &m->host->mem;
    const int64_t n = s->images.n;
    weft_status status = image_set_load(&s->images, m, err);
    if (status != WEFT_OK)
        return status;
    s->rows = mem_zalloc(from, AT_ONCE, (size_t)(m->n_ctx * m->d_feature) * sizeof *s->rows,
                         "rows of images", err);
    s->out = s->rows ? mem_zalloc(from, AT_ONCE, (size_t)m->n_out * sizeof *s->out, "logits", err)
                     : NULL;
    if (!s->out)
        return err->code;
    for (int64_t i = 0; i < n && status == WEFT_OK; i += AT_ONCE)
        status = score_some(s, i, n - i < AT_ONCE ? n - i : AT_ONCE, err);
    s->score.loss /= (double)n;
    return status;
}

weft_status weft_image_score(weft_model *w, const char *const *data, int n_data, int threads,
                             weft_score *score, weft_error *err)
{
    const encode_engine_options o = { .n_thread = threads };
    weft_error local;
    err = begin_call(err, &local);
    if (!w || !data || n_data < 1)
        return weft_fail(err, WEFT_EINVAL, w ? "no images given" : "no model given");
    for (int i = 0; i < n_data; i++)
        if (!data[i])
            return weft_fail(err, WEFT_EINVAL, "path %d is NULL", i);
    if (!result_fits(score, "weft_score", err))
        return err->code;
    scoring s = { .model = &w->model };
    if (s.model->image.channels == 0 || s.model->task != WEFT_TASK_CLASSIFY)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: does not classify images",
                         s.model->file.path);
    weft_status status = image_set_list(&s.images, data, n_data, WEFT_LOAD_COPY, &w->host, err);
    if (status != WEFT_OK)
        return status;
    s.engine = encode_engine_new(s.model, &o, err);
    status = s.engine ? score_all(&s, err) : err->code;
    if (status == WEFT_OK)
        copy_result(score, score->struct_size, &s.score, sizeof s.score);
    encode_engine_free(s.engine);
    mem_free(&w->host.mem, s.rows);
    mem_free(&w->host.mem, s.out);
    image_set_close(&s.images);
    return status;
}
