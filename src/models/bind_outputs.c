/* bind_outputs.c - a model's outputs as its file describes them: whether the head shares the
 * embedding, the names of labels, how a text is pooled into one vector. */
#include "formats/kept.h"
#include "models/bind.h"

#include <stdio.h>
#include <string.h>

/* ---- head ------------------------------------------------------------------------------------ */

/* Models that sentence-transformers saved for their vectors, such as Qwen3-Embedding, have no head,
 * whatever their configuration says. */
bool bind_ties_head(bind *b, bool otherwise)
{
    static const char key[] = "tie_word_embeddings";
    if (!b->gguf_keys)
        return bind_flag(b, NULL, key, otherwise) ||
               (!b->is_new && !bind_has(b, "output") && bind_has_modules(b));
    const bool tied = !bind_has(b, "output");
    bind_implied(b, key, tied);
    return tied;
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* Label i in config.json, or NULL. */
static const char *hf_label(const bind *b, int64_t i)
{
    char key[40];
    snprintf(key, sizeof key, "id2label.%lld", (long long)i);
    const meta *m = container_meta(b->m->config, key);
    return m && m->type == META_TEXT ? m->text : NULL;
}

/* The labels of a GGUF file, if it has n. */
static bool gguf_labels(bind *b, const char **label, int64_t n)
{
    char key[128];
    snprintf(key, sizeof key, "%s.classifier.output_labels", b->m->name);
    const meta *m = container_meta(b->m->config, key);
    if (!m || m->type != META_ARRAY || m->element != GGUF_STRING || m->length != (uint64_t)n)
        return false;
    const uint8_t *at = m->at;
    for (int64_t i = 0; i < n; i++) {
        uint64_t length;
        const char *text = gguf_string(&at, &length);
        label[i] = arena_text(&b->m->store, text, length, b->err);
        if (!label[i])
            b->status = WEFT_ENOMEM;
    }
    return true;
}

int64_t bind_labels(bind *b, const char *stem)
{
    int64_t n = bind_rows_of(b, stem);
    while (b->is_new && hf_label(b, n))
        n++;
    if (n < 1) {
        bind_fail(b, WEFT_EFORMAT, "no labels: %s is missing", stem);
        return 1;
    }
    const char **label = bind_alloc(b, n, sizeof *label);
    bool named = label != NULL;
    if (label && b->gguf_keys)
        named = gguf_labels(b, label, n);
    for (int64_t i = 0; label && !b->gguf_keys && i < n; i++) {
        label[i] = hf_label(b, i);
        named = named && label[i];
    }
    b->m->label = named ? label : NULL;
    return n;
}

/* ---- pooling --------------------------------------------------------------------------------- */

/* GGUF's values. */
enum { GGUF_NONE, GGUF_MEAN, GGUF_CLS, GGUF_LAST, GGUF_RANK };

static const char *text_of(const container *c, const char *key)
{
    const meta *m = container_meta(c, key);
    return m && m->type == META_TEXT ? m->text : NULL;
}

/* Exactly one of sentence-transformers' pooling modes must be on. */
static void read_mode(bind *b, const container *c, pooling *p)
{
    static const struct {
        const char *flag, *word;
        int kind; /* -1: unsupported */
    } modes[] = {
        { "pooling_mode_mean_tokens", "mean", POOL_MEAN },
        { "pooling_mode_cls_token", "cls", POOL_FIRST },
        { "pooling_mode_max_tokens", "max", POOL_MAX },
        { "pooling_mode_lasttoken", "lasttoken", POOL_LAST },
        { "pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", -1 },
        { "pooling_mode_weightedmean_tokens", "weightedmean", -1 },
    };
    const char *word = text_of(c, "pooling_mode");
    int n = 0, kind = -1;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        const meta *flag = container_meta(c, modes[i].flag);
        if ((flag && flag->type == META_BOOL && flag->flag) ||
            (word && strcmp(word, modes[i].word) == 0)) {
            n++;
            kind = modes[i].kind;
        }
    }
    if (n != 1 || kind < 0)
        bind_fail(b, WEFT_EUNSUPPORTED,
                  "%s: expected exactly one of mean, max, first or last token pooling", c->path);
    else
        p->kind = (pool_kind)kind;
}

static void read_pooling_module(bind *b, const char *path, pooling *p)
{
    char name[256];
    container c;
    bool there;
    if (!path || strchr(path, '/') || path[0] == '.') {
        bind_fail(b, WEFT_EFORMAT, "modules.json: the path of Pooling is not a name");
        return;
    }
    snprintf(name, sizeof name, "%.200s/config.json", path);
    const weft_status status = kept_config(&c, &b->m->file, name, &there, b->err);
    if (status != WEFT_OK)
        b->status = status;
    else if (!there)
        bind_fail(b, WEFT_EFORMAT, "%s, named by modules.json, is missing", name);
    else
        read_mode(b, &c, p);
    if (there && b->m->notes)
        b->m->notes->pooling_file = arena_text(&b->m->store, name, strlen(name), b->err);
    container_close(&c);
}

/* "sentence_transformers.models.Pooling" and similar: the last component counts. */
static void read_modules(bind *b, const container *c, pooling *p)
{
    p->normalize = false;
    for (int i = 0; b->status == WEFT_OK; i++) {
        char type_key[32], path_key[32];
        snprintf(type_key, sizeof type_key, "%d.type", i);
        snprintf(path_key, sizeof path_key, "%d.path", i);
        const char *type = text_of(c, type_key);
        if (!type)
            return;
        const char *dot = strrchr(type, '.'), *name = dot ? dot + 1 : type;
        if (strcmp(name, "Pooling") == 0)
            read_pooling_module(b, text_of(c, path_key), p);
        else if (strcmp(name, "Normalize") == 0)
            p->normalize = true;
        else if (strcmp(name, "Transformer") != 0)
            bind_fail(b, WEFT_EUNSUPPORTED, "modules.json: unsupported module \"%.60s\"", type);
    }
}

bool bind_has_modules(bind *b)
{
    container c;
    bool there = false;
    if (b->is_new || b->status != WEFT_OK)
        return false;
    const weft_status status = kept_config(&c, &b->m->file, "modules.json", &there, b->err);
    if (status != WEFT_OK)
        b->status = status;
    container_close(&c);
    return there;
}

static pooling hf_pooling(bind *b)
{
    pooling p = { POOL_MEAN, false };
    container c;
    bool there;
    if (b->is_new || b->status != WEFT_OK)
        return p;
    const weft_status status = kept_config(&c, &b->m->file, "modules.json", &there, b->err);
    if (status != WEFT_OK)
        b->status = status;
    else if (there)
        read_modules(b, &c, &p);
    container_close(&c);
    return p;
}

/* llama.cpp's files do not say whether vectors have length 1; its programs normalise them. */
pooling bind_pooling(bind *b)
{
    static const int numbers[] = { [POOL_MEAN] = GGUF_MEAN,
                                   [POOL_MAX] = GGUF_NONE,
                                   [POOL_FIRST] = GGUF_CLS,
                                   [POOL_LAST] = GGUF_LAST };
    static const pool_kind kinds[] = { [GGUF_NONE] = POOL_MEAN,
                                       [GGUF_MEAN] = POOL_MEAN,
                                       [GGUF_CLS] = POOL_FIRST,
                                       [GGUF_LAST] = POOL_LAST,
                                       [GGUF_RANK] = POOL_FIRST };
    pooling p = b->gguf_keys ? (pooling){ POOL_MEAN, true } : hf_pooling(b);
    const bool ranks = b->m->task == WEFT_TASK_CLASSIFY;
    const int64_t number = bind_int(b, "pooling_type", NULL, ranks ? GGUF_RANK : numbers[p.kind],
                                    GGUF_NONE, GGUF_RANK);
    if (b->gguf_keys)
        p.kind = kinds[number];
    else if (p.kind == POOL_MAX)
        bind_not_convertible(b, "max pooling");
    if (b->gguf_keys)
        p.normalize = bind_flag(b, "pooling_normalize", NULL, p.normalize);
    else
        bind_export_flag(b, "pooling_normalize", NULL, p.normalize);
    return p;
}

/* By default a decoder gives the state of its last token, which has seen all others. */
pooling bind_decoder_pooling(bind *b)
{
    const pooling last = { POOL_LAST, false };
    container c;
    char key[96];
    bool there = false;
    if (b->is_new || b->status != WEFT_OK)
        return last;
    if (b->gguf) {
        snprintf(key, sizeof key, "%s.pooling_type", b->m->arch->gguf);
        return container_meta(&b->m->file, key) ? bind_pooling(b) : last;
    }
    const weft_status status = config_beside(&c, b->m->file.meta_path, "modules.json", &there,
                                             b->m->host, b->err);
    if (status != WEFT_OK)
        b->status = status;
    container_close(&c);
    return there ? bind_pooling(b) : last;
}
