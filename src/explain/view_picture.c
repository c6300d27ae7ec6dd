/* view_picture.c - a picture as a model takes it: patches, what the projection makes of one, where
 * the class token looks, and the classes. */
#include "explain/hand.h"
#include "explain/views.h"

const char *no_picture(const subject *s)
{
    return s->model->image.channels > 0 ? NULL : "This model reads no pictures.";
}

static void write_maps(const subject *s, document *d)
{
    doc_list(d, "maps");
    for (int64_t l = 0; l < s->n_layer; l++) {
        doc_object(d, NULL);
        doc_int(d, "layer", l);
        doc_int(d, "n_head", s->layer[l].n_head);
        doc_tensor(d, "probs", s->layer[l].probs);
        doc_end(d);
    }
    doc_end(d);
}

/* The columns of a patch are its channels, each row by row. */
void view_picture(const subject *s, document *d)
{
    const image_shape *p = &s->model->image;
    const seen *patches = record_find(s->seen, "patch_embd"), *out = output_of(s);
    doc_int(d, "channels", p->channels);
    doc_int(d, "height", p->height);
    doc_int(d, "width", p->width);
    doc_int(d, "patch", p->patch);
    doc_int(d, "n_lead", p->n_lead);
    doc_tensor(d, "features", record_find(s->seen, "features"));
    doc_tensor(d, "patches", patches);
    doc_tensor(d, "class", record_find(s->seen, "class_embd"));
    doc_tensor(d, "positions", record_find(s->seen, "position_embd"));
    doc_tensor(d, "stream", record_find(s->seen, "position_embd.residual"));
    put_product(s, d, "project", patches, NULL, (columns){ .n = 1 });
    write_maps(s, d);
    if (out && s->model->task == WEFT_TASK_CLASSIFY)
        write_best(s, d, "classes", seen_row(out, out->rows - 1), out->cols, 10);
}
