/* train_init.c - creates the parts that a new run lacks: a tokenizer trained on its data, an
 * untrained model, an untrained head. */
#include "api/train_init.h"
#include "api/train_options.h"
#include "base/cpu.h"
#include "text/sources/hf_write.h"
#include "text/sources/source.h"
#include "train/checkpoint.h"
#include "train/new_head.h"

#include <stdio.h>
#include <string.h>

weft_status learn_tokenizer(trained *made, train_options *t, const weft_train_options *o, host *h,
                            weft_error *err)
{
    int n_special;
    const char *const *special = init_model_special(o->arch ? o->arch : "", &n_special);
    *t = (train_options){ .wordpiece = o->arch && init_model_wordpiece(o->arch),
                          .characters = o->characters,
                          .n_vocab = (uint32_t)o->n_vocab,
                          .min_frequency = 2,
                          .special = special,
                          .n_special = n_special,
                          .n_thread = o->threads,
                          .load = o->load };
    if (t->wordpiece && o->characters)
        return weft_fail(err, WEFT_EINVAL, "%.40s models use WordPiece tokenizers, not characters",
                         o->arch);
    for (int i = 0; i < o->n_data; i++)
        if ((o->data_kind > WEFT_DATA_TEXT && o->data_kind < WEFT_DATA_TSV) ||
            (o->data_kind == WEFT_DATA_BY_NAME && kind_by_name(o->data[i]) == DATA_JSONL))
            return weft_fail(
                err, WEFT_EINVAL,
                "%s: not plain text, so no tokenizer can be trained on it; give a tokenizer",
                o->data[i]);
    return train_tokenizer(made, o->data, o->n_data, t, h, err);
}

static weft_status make_tokenizer(const weft_train_options *o, const char *path, host *h,
                                  weft_error *err)
{
    trained made;
    train_options t;
    weft_status status = learn_tokenizer(&made, &t, o, h, err);
    if (status != WEFT_OK)
        return status;
    status = trained_save(&made, &t, path, h, err);
    trained_free(&made);
    return status;
}

OWN_FRAME static weft_status copy_file(const char *from, const char *to, host *h, weft_error *err)
{
    file f;
    weft_status status = file_open(&f, from, WEFT_LOAD_COPY, h, err);
    if (status != WEFT_OK)
        return status;
    status = save_whole(to, f.data, f.size, h, err);
    file_close(&f, h);
    return status;
}

/* A run stores a tokenizer.json: a copy of the given one, or a conversion of any other file. */
static weft_status keep_tokenizer(const tokenizer *t, const char *path, host *h, weft_error *err)
{
    buffer b;
    if (strcmp(t->source, "tokenizer.json") == 0)
        return copy_file(t->path, path, h, err);
    buffer_begin(&b, &h->mem, err);
    weft_status status = tokenizer_write(t, &b, err);
    if (status == WEFT_OK)
        status = save_whole(path, b.at, b.n, h, err);
    buffer_end(&b);
    return status;
}

static weft_status keep_config(const tokenizer *t, const char *path, host *h, weft_error *err)
{
    buffer b;
    buffer_begin(&b, &h->mem, err);
    tokenizer_config(t, NULL, &b);
    const weft_status status = b.failed ? WEFT_ENOMEM : save_whole(path, b.at, b.n, h, err);
    buffer_end(&b);
    return status;
}

/* Copies the given tokenizer, and the file next to it that names the token that ends a text. */
OWN_FRAME static weft_status take_tokenizer(const char *from, const char *path, const char *config,
                                            host *h, weft_error *err)
{
    char beside[4096];
    const char *slash = strrchr(from, '/');
    const int n = path_is_directory(from, h) ? (int)strlen(from) : slash ? (int)(slash - from) : 0;
    if ((size_t)snprintf(beside, sizeof beside, "%.*s%stokenizer_config.json", n, from,
                         n > 0 ? "/" : "") >= sizeof beside)
        return weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", from);
    tokenizer *t = mem_zalloc(&h->mem, 1, sizeof *t, "tokenizer", err); /* a large struct */
    if (!t)
        return err->code;
    weft_status status = tokenizer_load(t, from, NULL, WEFT_LOAD_COPY, h, err);
    if (status == WEFT_OK) {
        const bool other = strcmp(t->source, "tokenizer.json") != 0;
        status = keep_tokenizer(t, path, h, err);
        if (status == WEFT_OK && path_exists(beside, h))
            status = copy_file(beside, config, h, err);
        else if (status == WEFT_OK && other)
            status = keep_config(t, config, h, err);
        tokenizer_free(t);
    }
    mem_free(&h->mem, t);
    return status;
}

/* The run's tokenizer: the given one, or one trained for it. */
OWN_FRAME static weft_status prepare_tokenizer(const weft_train_options *o, const char *in, host *h,
                                               weft_error *err)
{
    static const char framed[] =
        "{\n  \"cls_token\": \"[CLS]\",\n  \"sep_token\": \"[SEP]\",\n"
        "  \"mask_token\": \"[MASK]\",\n  \"pad_token\": \"[PAD]\",\n"
        "  \"unk_token\": \"[UNK]\",\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n";
    static const char says[] = "{\n  \"bos_token\": \"" END_OF_TEXT
                               "\",\n  \"eos_token\": \"" END_OF_TEXT
                               "\",\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n";
    char path[4096], config[4096];
    if (!path_join(path, sizeof path, in, "tokenizer.json") ||
        !path_join(config, sizeof config, in, "tokenizer_config.json"))
        return weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", in);
    if (o->tokenizer)
        return take_tokenizer(o->tokenizer, path, config, h, err);
    const weft_status status = make_tokenizer(o, path, h, err);
    const char *text = o->arch && init_model_wordpiece(o->arch) ? framed : says;
    return status == WEFT_OK ? save_whole(config, text, strlen(text), h, err) : status;
}

weft_status train_shape(const weft_train_options *o, init_model_shape *s, weft_error *err)
{
    const init_model_shape over = { .arch = o->arch,
                                    .n_layer = o->n_layer,
                                    .d_model = o->d_model,
                                    .n_head = o->n_head,
                                    .n_head_kv = o->n_head_kv,
                                    .d_ff = o->d_ff,
                                    .n_ctx = o->n_ctx,
                                    .tied = o->tied,
                                    .design = { o->positions, o->norm, o->act },
                                    .attention = o->attention };
    return init_model_resolve(o->preset ? init_model_preset(o->preset) : NULL, &over, s, err);
}

/* ---- memory check ---------------------------------------------------------------------------- */

/* The context of creating a model. */
typedef struct maker {
    const weft_train_options *o;
    host *host;
    size_t before; /* bytes in use at the start; those allocated since are freed before training */
} maker;

static maker maker_of(const weft_train_options *o, host *h)
{
    return (maker){ o, h, atomic_load(&h->mem.used) };
}

weft_status train_largest_batch(batch *b, dataset *d, const weft_train_options *o, const model *m,
                                image_set *seen, host *h, weft_error *err)
{
    const bool sees = m->image.channels > 0;
    *d = (dataset){ .n_ctx = sees ? m->n_ctx : rows_of_sample(o, m->n_ctx),
                    .d_feature = m->d_feature,
                    .images = sees ? seen : NULL,
                    .make = m->n_layer_src > 0 ? &rows_paired : &rows_next,
                    .corpus = { .host = h },
                    .train = { .most_seq = 1 } };
    return data_room(b, d, o->n_sample, err);
}

/* Is there memory to train it? This only checks; the run allocates later. */
OWN_FRAME static weft_status check_size(void *ud, model *m, weft_error *err)
{
    const maker *by = ud;
    const weft_train_options *o = by->o;
    const learner_options l = learner_of(o, o->threads ? o->threads : cpu_count());
    image_set none;
    dataset d;
    batch b;
    uint64_t bytes = 0;
    weft_status status = train_largest_batch(&b, &d, o, m, &none, by->host, err);
    if (status != WEFT_OK)
        return status;
    status = learner_size(m, &l, &b, &bytes, err);
    const uint64_t own = atomic_load(&by->host->mem.used) - by->before;
    const uint64_t more = bytes > own ? bytes - own : 0;
    if (status == WEFT_OK)
        status = mem_reserve(&by->host->mem, more, "training a model of this size", err);
    if (status == WEFT_OK)
        mem_uncharge(&by->host->mem, more);
    data_room_free(&b, &d);
    return status;
}

static bool go_on(void *ud)
{
    const weft_train_options *o = ((const maker *)ud)->o;
    return o->waiting(o->waiting_ud);
}

static init_model_source source_of(maker *by)
{
    return (init_model_source){
        .seed = by->o->seed, .check = check_size, .waiting = by->o->waiting ? go_on : NULL, .ud = by
    };
}

/* Could it be trained with the special tokens alone? Training a tokenizer takes time, which is
 * wasted if the model is too large even without a vocabulary. */
OWN_FRAME static weft_status check_shape(const weft_train_options *o, const init_model_shape *s,
                                         host *h, weft_error *err)
{
    int n_special;
    model m;
    buffer config;
    maker by = maker_of(o, h);
    init_model_shape smallest = *s;
    init_model_special(s->arch, &n_special);
    smallest.n_vocab = n_special + 1;
    smallest.eos_id = -1;
    buffer_begin(&config, &h->mem, err);
    init_model_config(&config, &smallest);
    weft_status status = config.failed
                             ? err->code
                             : model_design(&m, (const char *)config.at, config.n, h, err);
    buffer_end(&config);
    if (status != WEFT_OK)
        return status;
    status = check_size(&by, &m, err);
    model_close(&m);
    return status;
}

/* ---- the model ------------------------------------------------------------------------------- */

OWN_FRAME static weft_status write_new_model(const weft_train_options *o, const char *in,
                                             const init_model_shape *s, host *h, weft_error *err)
{
    buffer config;
    maker by = maker_of(o, h);
    const init_model_source from = source_of(&by);
    buffer_begin(&config, &h->mem, err);
    init_model_config(&config, s);
    const weft_status status = config.failed ? WEFT_ENOMEM
                                             : init_model_write(in, (const char *)config.at,
                                                                config.n, &from, h, err);
    buffer_end(&config);
    return status;
}

weft_status refuse_quantised(const model *m, weft_error *err)
{
    for (int64_t i = 0; i < m->n_param; i++)
        if (m->param[i]->type->block > 1)
            return weft_fail(err, WEFT_EUNSUPPORTED,
                             "%s: %s is %s; expected f32, f16 or bf16 weights to train; convert "
                             "the model to f32, or train an adapter with --lora r=16",
                             m->file.path, m->param[i]->name, m->param[i]->type->name);
    return WEFT_OK;
}

weft_status make_directory(const char *path, host *h, weft_error *err)
{
    if (path_is_directory(path, h) || h->io.mkdir(h->io.ud, path) == 0)
        return WEFT_OK;
    return weft_fail(err, WEFT_EIO, "%s: cannot be created", path);
}

static const char sees[] = "vit"; /* the architecture for images */

/* The shape of a new image model, from its images. */
static void shape_images(const weft_train_options *o, const image_set *p, init_model_shape *s)
{
    image_shape *i = &s->image;
    i->channels = p->channels ? p->channels : 3;
    i->height = o->image_size ? o->image_size : p->height ? p->height : 224;
    i->width = o->image_size ? o->image_size : p->width ? p->width : 224;
    const int64_t seventh = i->height / 7 < 1 ? 1 : i->height / 7;
    i->patch = o->patch_size ? o->patch_size : seventh < 16 ? seventh : 16;
    s->label = p->class_name;
    s->n_label = p->n_class;
}

OWN_FRAME static weft_status write_preprocessor(const char *in, const init_model_shape *s, host *h,
                                                weft_error *err)
{
    char path[4096];
    buffer b;
    weft_status status = WEFT_ENOMEM;
    if (!path_join(path, sizeof path, in, "preprocessor_config.json"))
        return weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", in);
    buffer_begin(&b, &h->mem, err);
    init_model_preprocessor(&b, &s->image);
    if (!b.failed)
        status = save_whole(path, b.at, b.n, h, err);
    buffer_end(&b);
    return status;
}

/* Same as begin_new_model, for images. */
OWN_FRAME static weft_status begin_new_image_model(const weft_train_options *o, const char *in,
                                                   bool *made, host *h, weft_error *err)
{
    init_model_shape shape;
    image_set p;
    weft_train_options seeing = *o;
    seeing.arch = sees;
    if (o->arch && strcmp(o->arch, sees) != 0)
        return weft_fail(err, WEFT_EINVAL, "%s: images; %.40s models train on text", o->data[0],
                         o->arch);
    if (train_shape(&seeing, &shape, err) != WEFT_OK)
        return err->code;
    checkpoint_remove(in, h);
    weft_status status = image_set_list(&p, o->data, o->n_data, o->load, h, err);
    if (status != WEFT_OK)
        return status;
    shape_images(o, &p, &shape);
    status = check_shape(&seeing, &shape, h, err);
    *made = status == WEFT_OK;
    if (status == WEFT_OK)
        status = make_directory(o->out, h, err);
    if (status == WEFT_OK)
        status = make_directory(in, h, err);
    if (status == WEFT_OK)
        status = write_preprocessor(in, &shape, h, err);
    if (status == WEFT_OK)
        status = write_new_model(o, in, &shape, h, err);
    image_set_close(&p);
    return status;
}

weft_status read_vocabulary(init_model_shape *s, const char *in, host *h, weft_error *err)
{
    tokenizer *t = mem_zalloc(&h->mem, 1, sizeof *t, "tokenizer", err); /* a large struct */
    if (!t)
        return err->code;
    const weft_status status = tokenizer_load(t, in, NULL, WEFT_LOAD_COPY, h, err);
    if (status == WEFT_OK) {
        s->n_vocab = (int64_t)t->n_id;
        s->eos_id = t->eos;
        tokenizer_free(t);
    }
    mem_free(&h->mem, t);
    return status;
}

weft_status begin_new_model(const weft_train_options *o, const char *in, bool *made, host *h,
                            weft_error *err)
{
    init_model_shape shape;
    run_labels l;
    if (is_image_set(o->data[0], h))
        return begin_new_image_model(o, in, made, h, err);
    if (o->arch && strcmp(o->arch, sees) == 0)
        return weft_fail(err, WEFT_EINVAL,
                         "%s: no images; %s models train on a directory of images, or on IDX files",
                         o->data[0], sees);
    if (train_shape(o, &shape, err) != WEFT_OK)
        return err->code;
    checkpoint_remove(in, h);
    weft_status status = take_labels(&l, o, NULL, h, err);
    if (status != WEFT_OK)
        return status;
    shape.label = l.set.name;
    shape.n_label = l.set.n;
    status = check_shape(o, &shape, h, err);
    *made = status == WEFT_OK;
    if (status == WEFT_OK)
        status = make_directory(o->out, h, err);
    if (status == WEFT_OK)
        status = make_directory(in, h, err);
    if (status == WEFT_OK)
        status = prepare_tokenizer(o, in, h, err);
    if (status == WEFT_OK)
        status = read_vocabulary(&shape, in, h, err);
    if (status == WEFT_OK)
        status = write_new_model(o, in, &shape, h, err);
    drop_labels(&l);
    return status;
}

weft_status begin_new_head(const weft_train_options *o, const char *in, bool *made, host *h,
                           weft_error *err)
{
    model m;
    run_labels l;
    *made = false;
    weft_status status = model_plan(&m, o->model, o->load, h, err);
    if (status != WEFT_OK)
        return status;
    if (!new_head_fits(&m)) {
        model_close(&m);
        return WEFT_OK;
    }
    status = take_labels(&l, o, &m, h, err);
    model_close(&m);
    *made = l.used;
    if (!l.used)
        return status;
    maker by = maker_of(o, h);
    const init_model_source from = source_of(&by);
    checkpoint_remove(in, h);
    status = make_directory(o->out, h, err);
    if (status == WEFT_OK)
        status = new_head_write(in, o->model, l.set.name, l.set.n, &from, o->load, h, err);
    drop_labels(&l);
    return status;
}
