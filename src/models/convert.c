/* convert.c - plans a conversion: which tensors and texts are written, and where. */
#include "models/convert.h"

#include "base/cpu.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- paths ----------------------------------------------------------------------------------- */

/* Unknown: it exists, but cannot be opened. */
typedef enum path_kind { PATH_ABSENT, PATH_FILE, PATH_DIRECTORY, PATH_UNKNOWN } path_kind;

static path_kind path_kind_of(const char *path, host *h)
{
    uint64_t size;
    const int fd = h->io.open(h->io.ud, path);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? PATH_ABSENT : PATH_UNKNOWN;
    errno = 0;
    const bool regular = h->io.size(h->io.ud, fd, &size) == 0;
    const int why = errno;
    h->io.close(h->io.ud, fd);
    return regular || why == ENOTSUP ? PATH_FILE : why == EISDIR ? PATH_DIRECTORY : PATH_UNKNOWN;
}

/* Does a name already contain the size, as "Llama-3.2-1B" does? */
static bool has_size(const char *name)
{
    for (const char *s = name; *s; s++)
        if (*s >= '0' && *s <= '9' && strchr("KMBTkmbt", s[1]) && s[1] &&
            (s[2] == '-' || s[2] == '_' || s[2] == '.' || !s[2]))
            return true;
    return false;
}

/* "stories-260K-F32.gguf": name, size and encoding, by the GGUF convention. */
static void conventional_name(const conversion *c, char *to, size_t size)
{
    char label[16], encoding[16];
    size_label(c->m.n_parameter, label, sizeof label);
    snprintf(encoding, sizeof encoding, "%s", convert_type_name(c->report));
    for (char *s = encoding; *s; s++)
        *s = *s >= 'a' && *s <= 'z' ? (char)(*s - 'a' + 'A') : *s;
    const bool sized = has_size(c->name);
    snprintf(to, size, "%.200s%s%s-%s.gguf", c->name, sized ? "" : "-", sized ? "" : label,
             encoding);
    for (char *s = to; *s; s++)
        *s = *s == ' ' ? '-' : *s;
}

/* The last component of a path, without the extension of a file; "model" if it has none. */
static void name_of_path(const char *path, char *to, size_t size)
{
    path_name(path, "model", to, size);
    const size_t n = strlen(to);
    if (n > 5 && strcmp(to + n - 5, ".gguf") == 0)
        to[n - 5] = '\0';
}

static weft_status refuse_existing(const conversion *c, const char *path)
{
    return weft_fail(c->err, WEFT_EIO, "%s: already exists; use --force to overwrite", path);
}

static weft_status place_gguf(conversion *c, const char *to, char *path, size_t size)
{
    char file_name[512];
    const path_kind kind = path_kind_of(to, c->host);
    conventional_name(c, file_name, sizeof file_name);
    if (kind != PATH_DIRECTORY && !text_ends_with(to, ".gguf"))
        return weft_fail(c->err, WEFT_EINVAL,
                         "%s: not a directory; the name of a GGUF file must end in .gguf", to);
    const bool fits = kind == PATH_DIRECTORY ? convert_join(path, size, to, file_name)
                                             : snprintf(path, size, "%s", to) < (int)size;
    if (!fits || !convert_part_name(c, path, 0, c->report->path, sizeof c->report->path))
        return weft_fail(c->err, WEFT_EINVAL, "%.200s...: the path is too long", to);
    if (!c->o->force && path_kind_of(c->report->path, c->host) != PATH_ABSENT)
        return refuse_existing(c, c->report->path);
    return WEFT_OK;
}

static weft_status place_hf(conversion *c, const char *to)
{
    static const char *const ours[] = { "config.json", "model.safetensors",
                                        "model.safetensors.index.json" };
    if (snprintf(c->report->path, sizeof c->report->path, "%s", to) >= (int)sizeof c->report->path)
        return weft_fail(c->err, WEFT_EINVAL, "%.200s...: the path is too long", to);
    if (path_kind_of(to, c->host) == PATH_FILE)
        return weft_fail(c->err, WEFT_EINVAL, "%s: a file; expected a directory", to);
    for (size_t i = 0; i < sizeof ours / sizeof *ours && !c->o->force; i++) {
        char path[4096];
        if (convert_join(path, sizeof path, to, ours[i]) &&
            path_kind_of(path, c->host) != PATH_ABSENT)
            return refuse_existing(c, path);
    }
    return WEFT_OK;
}

/* ---- the small texts of the source ----------------------------------------------------------- */

static weft_status read_texts(conversion *c)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < N_TEXT && status == WEFT_OK; i++) {
        char path[4096];
        if (c->from_gguf) {
            const meta *m = container_meta(&c->m.file, text_keys[i]);
            if (m && m->type == META_TEXT)
                c->text[i] = (small_text){ m->text, (size_t)m->length };
            continue;
        }
        const bool other = i == TEXT_CONFIG && c->m.text_part; /* it is about pictures too */
        if (other || !convert_join(path, sizeof path, c->from, text_files[i]) ||
            path_kind_of(path, c->host) == PATH_ABSENT)
            continue;
        status = file_open(&c->text_file[i], path, WEFT_LOAD_COPY, c->host, c->err);
        c->text[i] = (small_text){ file_text(&c->text_file[i]), c->text_file[i].size };
    }
    if (status == WEFT_OK && !c->from_gguf)
        status = convert_plain_config(c);
    return status == WEFT_OK && c->o->head ? convert_untied_config(c) : status;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The type a tensor had in the original directory. A GGUF file records the type of most tensors,
 * and "NAME TYPE" for each of the others. */
static const dtype *type_before(const conversion *c, const char *name)
{
    const meta *most = container_meta(&c->m.file, DTYPE_KEY);
    const meta *others = container_meta(&c->m.file, DTYPES_KEY);
    const size_t n = strlen(name);
    const uint8_t *at = others && others->type == META_ARRAY && others->element == GGUF_STRING
                            ? others->at
                            : NULL;
    for (uint64_t i = 0; at && i < others->length; i++) {
        uint64_t length;
        const char *text = gguf_string(&at, &length);
        char type[16];
        if (length <= n + 1 || memcmp(text, name, n) != 0 || text[n] != ' ')
            continue;
        snprintf(type, sizeof type, "%.*s", (int)(length - n - 1 < 15 ? length - n - 1 : 15),
                 text + n + 1);
        return dtype_by_safetensors(type);
    }
    return most && most->type == META_TEXT ? dtype_by_safetensors(most->text) : NULL;
}

static bool is_tied(const model *m)
{
    for (int64_t i = 0; i < m->n_param; i++)
        if (strcmp(m->param[i]->name, "output.weight") == 0)
            return false;
    return true;
}

/* Readers of GGUF expect vectors and learned positions in f32, whatever they were. */
static const dtype *type_for_gguf(const conversion *c, const tensor *w, const param_origin *o,
                                  bool *instead)
{
    const quant_target *target = c->o->target;
    const model *m = &c->m;
    const int64_t gqa = m->n_head_kv > 0 ? m->n_head / m->n_head_kv : 0;
    const quant_tensor of = {
        o->whole ? o->whole : w->name, w->n_dim, cols(w), m->n_layer, is_tied(m), gqa,
        c->o->importance != NULL
    };
    const dtype *wanted = quant_stays_f32(&of) ? &dtype_f32
                          : target             ? quant_wanted(target, &of)
                                               : o->from->type;
    const dtype *type = w->n_dim == 1 ? wanted : quant_fitting(wanted, cols(w));
    *instead = type != wanted;
    if (*instead && !c->o->converted) /* with a `converted` callback the caller already knows */
        log_write(&c->host->log, WEFT_LOG_WARN,
                  "%s: rows of %lld values are not a multiple of the %s block; %s", w->name,
                  (long long)cols(w), wanted->name, type->name);
    return type;
}

static const dtype *type_for_hf(const conversion *c, const tensor *w, const stored *from)
{
    const dtype *before = c->o->target ? c->o->target->most : type_before(c, w->name);
    if (before && before->decode)
        return before;
    if (from->type == &dtype_mxfp4)
        return &dtype_bf16; /* without loss */
    return from->type->safetensors ? from->type : &dtype_f32;
}

/* "blk.3.ffn_up_exps.7.weight" is part of "blk.3.ffn_up_exps.weight". */
static const char *gguf_name(conversion *c, int64_t i)
{
    const char *name = c->m.param[i]->name, *tail = strrchr(name, '.');
    char number[24], whole[NAME_BYTES];
    if (c->m.notes->origin[i].whole)
        return c->m.notes->origin[i].whole;
    if (c->m.notes->origin[i].expert < 0)
        return name;
    const int digits = snprintf(number, sizeof number, ".%lld",
                                (long long)c->m.notes->origin[i].expert);
    const int n = snprintf(whole, sizeof whole, "%.*s%s", (int)(tail - name) - digits, name, tail);
    return arena_text(&c->store, whole, (size_t)n, c->err);
}

/* A tensor that is not the file's: rows and columns are as the model has them, and gains are whole.
 * Where the file's was quantised and no type is requested, rounding again would lose much of what
 * was merged. */
static weft_status put_merged(conversion *c, const stored *merged, const param_origin *o,
                              outgoing *t)
{
    const bool gguf = c->report->to == WEFT_FORMAT_GGUF;
    if (o->stack || o->ways)
        return weft_fail(c->err, WEFT_EUNSUPPORTED, "tensor %s: experts cannot be merged", t->name);
    t->flip = o->flip && !gguf;
    t->shift = o->gain && !gguf ? -1 : 0;
    if (!c->o->target && t->type->block > 1)
        t->type = &dtype_f16;
    t->from = merged;
    return WEFT_OK;
}

static weft_status add_tensor(conversion *c, int64_t i, outgoing *t)
{
    const model *m = &c->m;
    const tensor *w = m->param[i];
    const param_origin *o = &m->notes->origin[i];
    const bool gguf = c->report->to == WEFT_FORMAT_GGUF;
    const rope_pairing before = c->from_gguf ? m->arch->gguf_pairing : ROPE_HALVES;
    const rope_pairing after = gguf ? m->arch->gguf_pairing : ROPE_HALVES;
    const bool flip = o->flip && c->from_gguf != gguf;
    *t = (outgoing){ .name = gguf ? gguf_name(c, i) : o->hf,
                     .from = o->from,
                     .n_dim = w->n_dim,
                     .shape = { w->shape[0], w->n_dim > 1 ? w->shape[1] : 0 },
                     .flip = flip,
                     .permuted_head = o->heads && before != after ? w->shape[0] / o->heads : 0,
                     .to_adjacent = after == ROPE_ADJACENT };
    t->hf_dim = export_shape(m, i, t->hf_shape);
    t->importance = gguf && i < c->o->n_importance ? c->o->importance[i] : NULL;
    t->whole_rows = o->whole_rows;
    t->ways = gguf ? 0 : o->ways;
    t->woven_in = t->ways && (o->way > 0 || o->expert > 0);
    t->follows = o->follows || t->woven_in;
    t->shift = o->gain && c->from_gguf != gguf ? (gguf ? 1 : -1) : 0;
    t->stack = o->stack;
    t->expert = o->stack ? o->expert : -1;
    t->type = gguf ? type_for_gguf(c, w, o, &t->instead) : type_for_hf(c, w, o->from);
    if (i < c->o->n_merged && c->o->merged[i] && put_merged(c, c->o->merged[i], o, t) != WEFT_OK)
        return c->err->code;
    if (outgoing_follows(c, t))
        t->type = t[-1].type; /* one tensor, one type */
    if (!gguf && o->flip) {
        t->shape[0] = w->shape[1];
        t->shape[1] = w->shape[0];
    }
    if (!t->name)
        return c->err->code;
    const size_t prefix = strlen(m->notes->hf_prefix);
    if (!gguf && c->bare && strncmp(t->name, m->notes->hf_prefix, prefix) == 0)
        t->name += prefix;
    const bool fits = t->ways ? stored_bytes(t->type, t->hf_dim, t->hf_shape, &t->bytes)
                              : stored_bytes(t->type, t->n_dim, t->shape, &t->bytes);
    t->bytes = t->woven_in ? 0 : t->bytes;
    if (!fits)
        return weft_fail(c->err, WEFT_EFORMAT, "tensor %s is too large", t->name);
    return WEFT_OK;
}

/* The head that shared the embedding gets a tensor of its own, of the same type. */
static weft_status add_head(conversion *c, outgoing *t)
{
    const tied_head *tied = &c->m.notes->tied;
    const bool gguf = c->report->to == WEFT_FORMAT_GGUF;
    int64_t i = 0;
    while (i < c->m.n_param && c->m.param[i] != tied->table)
        i++;
    if (i == c->m.n_param || !tied->hf)
        return weft_fail(c->err, WEFT_EUNSUPPORTED, "%s: the head has no name of its own",
                         c->m.file.path);
    *t = c->tensor[i];
    t->from = c->o->head;
    t->name = gguf ? "output.weight" : tied->hf;
    if (!c->o->target && c->m.notes->origin[i].from->type->block > 1)
        t->type = &dtype_f16;
    if (!stored_bytes(t->type, t->n_dim, t->shape, &t->bytes))
        return weft_fail(c->err, WEFT_EFORMAT, "tensor %s is too large", t->name);
    return WEFT_OK;
}

/* A table of GGUF that a directory has as numbers of its configuration. */
static outgoing divisors(const conversion *c, const char *name, const float *made)
{
    const int64_t n = c->m.rope.n_rot / 2;
    return (outgoing){ .name = name,
                       .from = c->from_gguf ? container_tensor(&c->m.file, name) : NULL,
                       .made = c->from_gguf ? NULL : made,
                       .type = &dtype_f32,
                       .n_dim = 1,
                       .shape = { n },
                       .bytes = (uint64_t)n * sizeof(float) };
}

/* GGUF stores llama3's scaling as divisors of the frequencies. */
static weft_status add_rope_freqs(conversion *c, outgoing *t)
{
    const int64_t n = c->m.rope.n_rot / 2;
    *t = divisors(c, "rope_freqs.weight", NULL);
    if (t->from)
        return WEFT_OK;
    double plain[MAX_HEAD / 2], scaled[MAX_HEAD / 2];
    rope_spec s = c->m.rope;
    rope_frequencies(&s, scaled);
    s.scaling = ROPE_PLAIN;
    rope_frequencies(&s, plain);
    float *made = arena_alloc(&c->store, (size_t)n * sizeof *made, c->err);
    for (int64_t k = 0; made && k < n; k++)
        made[k] = (float)(plain[k] / scaled[k]);
    t->made = made;
    return made ? WEFT_OK : WEFT_ENOMEM;
}

/* Cuts the list into files of at most max_shard bytes. */
static void place_parts(conversion *c)
{
    uint64_t in_part = 0;
    for (int64_t i = 0; i < c->n_tensor; i++) {
        outgoing *t = &c->tensor[i];
        if (c->o->max_shard && in_part > 0 && !outgoing_follows(c, t) &&
            t->bytes > c->o->max_shard - in_part) {
            c->n_part++;
            in_part = 0;
        }
        t->part = c->n_part;
        c->n_written += !outgoing_follows(c, t);
        in_part = t->bytes > UINT64_MAX - in_part ? UINT64_MAX : in_part + t->bytes;
        if (c->o->max_shard && in_part > c->o->max_shard)
            in_part = c->o->max_shard;
        c->bytes += t->bytes;
    }
    c->n_part++;
}

static weft_status list_tensors(conversion *c)
{
    const model *m = &c->m;
    weft_status status = WEFT_OK;
    c->tensor = arena_alloc(&c->store, (size_t)(m->n_param + 3) * sizeof *c->tensor, c->err);
    if (!c->tensor)
        return WEFT_ENOMEM;
    for (int64_t i = 0; i < m->n_param && status == WEFT_OK; i++)
        status = add_tensor(c, i, &c->tensor[c->n_tensor++]);
    if (status == WEFT_OK && c->o->head)
        status = add_head(c, &c->tensor[c->n_tensor++]);
    const bool tables = status == WEFT_OK && c->report->to == WEFT_FORMAT_GGUF && !c->own;
    const bool far = m->rope.scaling == ROPE_LONG;
    const bool freqs = c->from_gguf ? m->rope.divisor && !far : m->rope.scaling == ROPE_LLAMA3;
    if (tables && freqs)
        status = add_rope_freqs(c, &c->tensor[c->n_tensor++]);
    if (tables && far) {
        c->tensor[c->n_tensor++] = divisors(c, "rope_factors_long.weight", m->rope.far_divisor);
        c->tensor[c->n_tensor++] = divisors(c, "rope_factors_short.weight", m->rope.divisor);
    }
    place_parts(c);
    if (c->n_part > 65535)
        return weft_fail(c->err, WEFT_EINVAL,
                         "files of at most %llu bytes would make %d files; the limit is 65535",
                         (unsigned long long)c->o->max_shard, c->n_part);
    return status;
}

/* The type that most elements of the matrices have. */
static const dtype *most_type(const conversion *c)
{
    struct {
        const dtype *type;
        uint64_t bytes;
    } seen[32] = { { &dtype_f32, 0 } };
    size_t n = 1, best = 0;
    for (int64_t i = 0; i < c->n_tensor; i++) {
        const outgoing *t = &c->tensor[i];
        size_t k = 0;
        while (k < n && seen[k].type != t->type)
            k++;
        if (k == n && n < sizeof seen / sizeof *seen)
            seen[n++].type = t->type;
        if (k < n && t->n_dim > 1)
            seen[k].bytes += t->bytes;
        if (k < n && seen[k].bytes > seen[best].bytes)
            best = k;
    }
    return seen[best].type;
}

/* ---- planning -------------------------------------------------------------------------------- */

static weft_status check_target(const conversion *c)
{
    const model *m = &c->m;
    const dtype *type = c->o->target ? c->o->target->most : NULL;
    const bool gguf = c->report->to == WEFT_FORMAT_GGUF;
    if (type && !gguf && !type->safetensors)
        return weft_fail(c->err, WEFT_EINVAL,
                         "%s: not a safetensors type; expected f32, f16 or bf16",
                         c->o->target->name);
    if (gguf && m->text_part && (!m->arch->gguf || m->notes->not_convertible))
        return weft_fail(c->err, WEFT_EUNSUPPORTED,
                         "%s: GGUF has no key for %s; convert the text part to a directory first",
                         m->file.meta_path,
                         m->arch->gguf ? m->notes->not_convertible : m->arch->hf);
    if (!gguf && c->from_gguf && !c->own && m->notes->not_convertible)
        return weft_fail(c->err, WEFT_EUNSUPPORTED,
                         "%s: config.json has no key for %s, which differs from its default",
                         m->file.meta_path, m->notes->not_convertible);
    if (!gguf && m->rope.n_rot != 0 && m->rope.n_rot != m->rope.d_head && !m->arch->hf_partial)
        return weft_fail(
            c->err, WEFT_EUNSUPPORTED,
            "%s: %lld of %lld rotary dimensions per head; config.json has no key for that",
            m->file.meta_path, (long long)m->rope.n_rot, (long long)m->rope.d_head);
    return WEFT_OK;
}

/* A directory that GGUF's own keys cannot describe becomes a file that only weft reads (kept.h). */
static void choose_keys(conversion *c)
{
    const model *m = &c->m;
    if (c->from_gguf || c->report->to != WEFT_FORMAT_GGUF)
        return;
    c->own = !m->arch->gguf || m->notes->not_convertible;
    if (!c->own)
        return;
    if (m->arch->gguf)
        log_write(&c->host->log, WEFT_LOG_WARN,
                  "%s: GGUF has no key for %s; written as " OWN_ARCH
                  "%s, which weft reads and other "
                  "programs do not",
                  m->file.meta_path, m->notes->not_convertible, m->arch->hf);
    else
        log_write(&c->host->log, WEFT_LOG_WARN,
                  "%s: GGUF defines no architecture for %s; written as " OWN_ARCH
                  "%s, which weft reads and other programs do not",
                  m->file.meta_path, m->name, m->arch->hf);
}

/* Warns that quantised weights are about to be quantised again. */
static void warn_requantised(const conversion *c)
{
    int64_t n = 0;
    const dtype *from = NULL;
    for (int64_t i = 0; i < c->n_tensor; i++) {
        const outgoing *t = &c->tensor[i];
        if (!t->from || t->from->type->block == 1 || t->type->block == 1 ||
            t->from->type == t->type)
            continue;
        from = from ? from : t->from->type;
        n++;
    }
    if (n > 0)
        log_write(
            &c->host->log, WEFT_LOG_WARN,
            "%s: %lld tensors are quantised already (%s), and their errors add up; quantise the "
            "f32, f16 or bf16 model instead",
            c->from, (long long)n, from->name);
}

static weft_status write_files(conversion *c, const char *to)
{
    char path[4096];
    weft_status status = c->report->to == WEFT_FORMAT_GGUF ? place_gguf(c, to, path, sizeof path)
                                                           : place_hf(c, to);
    if (status != WEFT_OK)
        return status;
    save_begin(&c->save, c->host, c->err);
    if (c->report->to == WEFT_FORMAT_GGUF)
        convert_to_gguf(c, path);
    else
        convert_to_hf(c, to);
    c->report->bytes = c->save.total;
    return save_commit(&c->save);
}

weft_status conversion_begin(conversion *c, const char *from)
{
    const weft_status status = model_plan(&c->m, from, c->o->load, c->host, c->err);
    if (status != WEFT_OK)
        return status;
    c->from = from;
    c->from_gguf = strcmp(c->m.file.format, "gguf") == 0;
    c->own = c->m.config == &c->m.own;
    const meta *bare = container_meta(&c->m.file, BARE_KEY);
    c->bare = c->from_gguf ? bare && bare->type == META_BOOL && bare->flag : c->m.notes->hf_bare;
    name_of_path(from, c->name, sizeof c->name);
    return WEFT_OK;
}

weft_status conversion_list(conversion *c)
{
    weft_status status = arena_init(&c->store, ARENA_GROWING, &c->host->mem, 0, "", c->err);
    if (status == WEFT_OK)
        status = check_target(c);
    if (status == WEFT_OK)
        choose_keys(c);
    if (status == WEFT_OK)
        status = read_texts(c);
    if (status == WEFT_OK)
        status = list_tensors(c);
    if (status == WEFT_OK)
        c->report->type = most_type(c);
    return status;
}

void conversion_end(conversion *c)
{
    for (int i = 0; i < N_TEXT; i++)
        if (c->text_file[i].path)
            file_close(&c->text_file[i], c->host);
    pool_free(c->pool);
    arena_free(&c->store);
    model_close(&c->m);
}

static weft_status convert(conversion *c, const char *to)
{
    weft_status status = conversion_list(c);
    const int n_thread = c->o->n_thread ? c->o->n_thread : cpu_count();
    if (status == WEFT_OK && !(c->pool = pool_new(n_thread, &c->host->mem, c->err)))
        status = c->err->code;
    if (status == WEFT_OK)
        status = pool_ready(c->pool, c->err);
    if (status != WEFT_OK)
        return status;
    c->report->mix = c->o->target ? c->o->target : quant_target_by_name(c->report->type->name);
    c->report->n_tensor = c->n_written;
    c->report->n_left_out = c->m.n_left_out;
    snprintf(c->report->architecture, sizeof c->report->architecture, "%s", c->m.name);
    warn_requantised(c);
    return write_files(c, to);
}

static weft_format target_of(const conversion *c, const char *to)
{
    if (text_ends_with(to, ".gguf") && path_kind_of(to, c->host) != PATH_DIRECTORY)
        return WEFT_FORMAT_GGUF;
    if (c->o->to != WEFT_FORMAT_OTHER)
        return c->o->to;
    return c->from_gguf ? WEFT_FORMAT_HF : WEFT_FORMAT_GGUF;
}

weft_status convert_model(const char *from, const char *to, const convert_options *o,
                          convert_report *report, host *h, weft_error *err)
{
    conversion c = { .o = o, .host = h, .report = report, .err = err };
    *report = (convert_report){ 0 };
    weft_status status = conversion_begin(&c, from);
    if (status != WEFT_OK)
        return status;
    report->to = target_of(&c, to);
    status = convert(&c, to);
    conversion_end(&c);
    return status;
}
