/* ollama.c - the manifest of a model in Ollama's store: an OCI manifest, of which we need one
 * layer.
 *
 *   { "layers": [ { "mediaType": "application/vnd.ollama.image.model", "digest": "sha256:..." }, ... ] }
 *
 * Other layers are a template, parameters, a licence, a projector for images: a text model runs
 * without them. An adapter changes the model's output, so a model with one is refused. */
#include "formats/json.h"
#include "formats/stores.h"

#include <stdio.h>
#include <string.h>

#define MAX_LAYER  1024
#define HEX_DIGITS 64

static const char model_type[] = "application/vnd.ollama.image.model";
static const char adapter_type[] = "application/vnd.ollama.image.adapter";
static const char tensor_type[] = "application/vnd.ollama.image.tensor";

typedef struct layers {
    const json_t *model; /* the only model layer */
    int64_t n_model, n_adapter, n_tensor;
} layers;

static bool is_type(const json_t *layer, const char *type)
{
    const json_t *t = json_object_get(layer, "mediaType");
    return json_is_string(t) && json_string_length(t) == strlen(type) &&
           memcmp(json_string_value(t), type, strlen(type)) == 0;
}

static weft_status sort_layers(layers *l, const json_t *list, const char *path, weft_error *err)
{
    if (!json_is_array(list) || json_array_size(list) > MAX_LAYER)
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: \"layers\" is missing, or not a list of at most %d", path, MAX_LAYER);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *layer = json_array_get(list, i);
        if (is_type(layer, model_type)) {
            l->model = layer;
            l->n_model++;
        }
        l->n_adapter += is_type(layer, adapter_type); /* bounded: MAX_LAYER */
        l->n_tensor += is_type(layer, tensor_type);   /* bounded: MAX_LAYER */
    }
    if (l->n_adapter > 0)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: has an adapter, which weft does not support",
                         path);
    if (l->n_model == 0 && l->n_tensor > 0)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: has one layer per tensor, which weft does not support", path);
    if (l->n_model != 1)
        return weft_fail(err, WEFT_EFORMAT, "%s: has %lld layers of type %s, expected 1", path,
                         (long long)l->n_model, model_type);
    return WEFT_OK;
}

/* A digest becomes a file name, so it must be hexadecimal digits only. */
static weft_status read_digest(const json_t *layer, const char *path, char to[STORE_DIGEST],
                               weft_error *err)
{
    const json_t *d = json_object_get(layer, "digest");
    const char *text = json_is_string(d) ? json_string_value(d) : "";
    const size_t n = json_is_string(d) ? json_string_length(d) : 0;
    if (n != 7 + HEX_DIGITS || memcmp(text, "sha256:", 7) != 0 || /* bounded: two constants */
        strspn(&text[7], "0123456789abcdef") != HEX_DIGITS)
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: the model's digest is not sha256: followed by %d hex digits", path,
                         HEX_DIGITS);
    snprintf(to, STORE_DIGEST, "sha256-%s", &text[7]);
    return WEFT_OK;
}

weft_status ollama_manifest(const uint8_t *data, uint64_t size, const char *path,
                            char digest[STORE_DIGEST], host *h, weft_error *err)
{
    layers l = { 0 };
    if (size > STORE_MAX_MANIFEST)
        return weft_fail(err, WEFT_EFORMAT, "%s: a manifest of %llu bytes; expected at most %u",
                         path, (unsigned long long)size, STORE_MAX_MANIFEST);
    json_section_begin(&h->mem);
    const json_t *root = json_read(data, size, true, path, err);
    weft_status status = root ? sort_layers(&l, json_object_get(root, "layers"), path, err)
                              : err->code;
    if (status == WEFT_OK)
        status = read_digest(l.model, path, digest, err);
    json_section_end();
    return status;
}
