/* new_head.c - edits a model's config.json for its new head and labels, and has init_model.c write the model:
 * the body copied, the head drawn. */
#include "train/new_head.h"

#include "formats/json.h"
#include "models/hf_form.h"

#include <string.h>

bool new_head_fits(const model *m)
{
    return m->arch->family->states && m->image.channels == 0 && m->n_layer_src == 0 &&
           m->task != WEFT_TASK_CLASSIFY && m->task != WEFT_TASK_GENERATE;
}

/* ---- config.json ----------------------------------------------------------------------------- */

/* "BertForSequenceClassification", from "BertModel" in the table. */
static json_t *class_name(const model *m)
{
    const char *table = m->arch->hf_class, *tail = strstr(table, "Model");
    const int n = (int)(tail ? (size_t)(tail - table) : strlen(table));
    return json_pack("[o]", json_sprintf("%.*sForSequenceClassification", n, table));
}

static int put_piece(const char *text, size_t n, void *ud)
{
    buffer_put(ud, text, n);
    return 0;
}

/* The labels as a JSON tree; NULL if out of memory. */
static json_t *read_labels(const char *const *label, int64_t n, mem *m, weft_error *err)
{
    buffer b;
    json_t *root = NULL;
    buffer_begin(&b, m, err);
    buffer_text(&b, "{");
    init_model_labels(&b, label, n);
    buffer_text(&b, "\"problem_type\": \"single_label_classification\" }");
    if (!b.failed)
        root = json_read(b.at, b.n, false, "labels", err);
    buffer_end(&b);
    return root;
}

/* The body's configuration with the class, labels and type of the new model. */
static weft_status edit_config(const small_text *t, const model *m, const char *const *label,
                               int64_t n, buffer *to, weft_error *err)
{
    json_section_begin(&m->host->mem);
    json_t *root = json_read((const uint8_t *)t->text, t->length, true, "config.json", err);
    json_t *more = root ? read_labels(label, n, &m->host->mem, err) : NULL;
    weft_status status = more ? WEFT_OK : err->code;
    if (status == WEFT_OK && (json_object_update(root, more) != 0 ||
                              json_object_set_new(root, "architectures", class_name(m)) != 0 ||
                              json_dump_callback(root, put_piece, to, JSON_INDENT(2)) != 0))
        status = weft_fail(err, WEFT_ENOMEM, "config.json: no memory to write it");
    json_section_end();
    return status == WEFT_OK && to->failed ? err->code : status;
}

/* ---- the directory --------------------------------------------------------------------------- */

static weft_status write_texts(const char *directory, const hf_form *f, host *h, weft_error *err)
{
    char path[4096];
    weft_status status = WEFT_OK;
    for (int i = 0; i < N_TEXT && status == WEFT_OK; i++) {
        if (i == TEXT_CONFIG || !f->text[i].text)
            continue;
        status = path_join(path, sizeof path, directory, text_files[i])
                     ? save_whole(path, f->text[i].text, f->text[i].length, h, err)
                     : weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", directory);
    }
    return status;
}

weft_status new_head_write(const char *directory, const char *from, const char *const *label,
                           int64_t n_label, const init_model_source *source, weft_load load,
                           host *h, weft_error *err)
{
    model body;
    hf_form form;
    buffer config;
    weft_status status = model_open(&body, from, load, h, err);
    if (status != WEFT_OK)
        return status;
    status = hf_form_init(&form, from, load, h, err);
    buffer_begin(&config, &h->mem, err);
    if (status == WEFT_OK)
        status = edit_config(&form.text[TEXT_CONFIG], &body, label, n_label, &config, err);
    init_model_source based = *source;
    based.base = &body;
    if (status == WEFT_OK)
        status = init_model_write(directory, (const char *)config.at, config.n, &based, h, err);
    if (status == WEFT_OK)
        status = write_texts(directory, &form, h, err);
    buffer_end(&config);
    hf_form_free(&form);
    model_close(&body);
    return status;
}
