/* documents.c - cuts a file into documents and encodes them in parallel. The ids are in the order
 * of the file, not in the order in which threads finish. */
#include "train/documents.h"

#include "base/cpu.h"
#include "base/utf8.h"
#include "formats/json.h"
#include "train/labelled.h"
#include "train/preference.h"

#include <string.h>

/* Text encoded in one round, unless one document is longer: enough for all threads, little compared
 * with the resulting ids. */
#define ROUND_BYTES ((size_t)8 << 20)
#define ROUND_JOBS  ((size_t)1 << 16)

/* ---- a round --------------------------------------------------------------------------------- */

/* Tokens without a loss: everything up to the last token that ends in the prompt. A token that
 * straddles the end of the prompt has a loss. */
static void find_prompt(job *j, const encoding *e)
{
    j->n_prompt = 0;
    for (size_t i = 0; i < e->n; i++) {
        if (e->to[i] > 0 && e->to[i] <= j->prompt)
            j->n_prompt = i + 1;
        j->straddles |= e->from[i] < j->prompt && e->to[i] > j->prompt;
    }
}

/* Appends the ids to those of the job, then the end-of-text token. */
static bool keep_ids(worker *w, job *j, const encoding *e, bool ends)
{
    const int32_t eos = ends ? w->documents->o->eos : -1;
    uint32_t *id = scratch_grow(&w->room, (w->n + e->n + 1) * sizeof *id, w->documents->mem,
                                &w->err);
    if (!id)
        return false;
    w->id = id;
    if (e->n > 0)
        memcpy(id + w->n, e->id, e->n * sizeof *id);
    j->at = j->n_id > 0 ? j->at : w->n;
    w->n += e->n;
    if (eos >= 0 && e->n > 0 && id[w->n - 1] != (uint32_t)eos)
        id[w->n++] = (uint32_t)eos;
    j->n_id = w->n - j->at;
    return true;
}

/* Source and target are separate texts; the source is encoded as in `weft translate`. A pair with
 * an empty side is dropped. */
static bool encode_pair(worker *w, job *j)
{
    const encode_options how = { .parse_special = w->documents->o->parse_special };
    const size_t n = j->prompt - j->gap;
    encoding e;
    if (n == 0 || j->n == j->prompt)
        return true;
    if (encoder_encode(w->encoder, j->text, n, NULL, 0, &how, &e, &w->err) != WEFT_OK ||
        !keep_ids(w, j, &e, false))
        return false;
    j->n_prompt = j->n_id;
    return encoder_encode(w->encoder, j->text + j->prompt, j->n - j->prompt, NULL, 0, &how, &e,
                          &w->err) == WEFT_OK &&
           keep_ids(w, j, &e, true);
}

/* One text or two, encoded as in `weft classify`. With two, the first is the prompt, so that the
 * second gets its own token types. */
static bool encode_labelled(worker *w, job *j)
{
    const encode_options how = { .parse_special = w->documents->o->parse_special };
    const size_t n = j->has_prompt ? j->prompt : j->n;
    encoding e;
    if (j->n == 0)
        return true;
    if (encoder_encode(w->encoder, j->text, n, j->has_prompt ? j->text + n : NULL, j->n - n, &how,
                       &e, &w->err) != WEFT_OK)
        return false;
    for (j->n_prompt = 0; e.type && j->n_prompt < e.n && e.type[j->n_prompt] == 0;)
        j->n_prompt++;
    j->n_prompt = j->n_prompt < e.n ? j->n_prompt : 0;
    return keep_ids(w, j, &e, false);
}

/* A conversation, encoded as in `weft chat`. */
static bool encode_chat(worker *w, job *j)
{
    const chat_reader *r = &w->documents->chat;
    encoding e;
    if (chat_data_encode(r, w->encoder, j->chat, &e, &w->err) != WEFT_OK ||
        !keep_ids(w, j, &e, false))
        return false;
    j->n_prompt = chat_data_mark(r, j->chat, &e, w->id + j->at, &j->n_endless);
    return true;
}

static bool encode_job(worker *w, job *j)
{
    const corpus_options *o = w->documents->o;
    const encode_options how = { .parse_special = o->parse_special, .spans = j->has_prompt };
    encoding e;
    if (j->chat)
        return encode_chat(w, j);
    if (o->labels)
        return encode_labelled(w, j);
    if (o->pairs && j->has_prompt)
        return encode_pair(w, j);
    if (j->n == 0)
        return true;
    if (encoder_encode(w->encoder, j->text, j->n, NULL, 0, &how, &e, &w->err) != WEFT_OK)
        return false;
    if (j->has_prompt)
        find_prompt(j, &e);
    return keep_ids(w, j, &e, true);
}

/* A thread's work: takes jobs until none is left. */
static void encode_jobs(void *arg, int64_t i)
{
    documents *d = arg;
    worker *w = &d->worker[i];
    w->n = 0;
    for (size_t k; !w->failed && (k = atomic_fetch_add(&d->next, 1)) < d->n_job;) {
        d->job[k].worker = (int)i;
        w->failed = !encode_job(w, &d->job[k]);
    }
}

static bool new_ids(source *s, uint64_t n_id, uint64_t n_document, bool labels, mem *m,
                    weft_error *err)
{
    s->ids = mem_alloc(m, n_id * s->shard.width, "ids", err);
    s->document = s->ids ? mem_alloc(m, n_document * sizeof *s->document, "documents", err) : NULL;
    if (labels && s->document)
        s->label = mem_alloc(m, n_document * sizeof *s->label, "labels", err);
    s->shard.ids = s->ids;
    s->shard.document = s->document;
    return s->document && (s->label || !labels);
}

/* Collects the ids of all jobs in the order of the text, whichever thread encoded them. */
static weft_status gather_document(const documents *d, source *s, weft_error *err)
{
    for (size_t k = 0; k < d->n_job; k++) {
        const job *j = &d->job[k];
        const uint32_t *id = d->worker[j->worker].id + j->at;
        if (j->n_id == 0)
            continue;
        for (size_t i = 0; i < j->n_id; i++) {
            if ((id[i] & ~SHARD_NO_LOSS) >= s->shard.n_vocab)
                return weft_fail(err, WEFT_EINVAL, "%s: the text has id %u; the vocabulary has %u",
                                 d->path, id[i] & ~SHARD_NO_LOSS, s->shard.n_vocab);
            if (s->shard.width == 2)
                ((uint16_t *)s->ids)[s->shard.n_id++] = (uint16_t)id[i];
            else
                ((uint32_t *)s->ids)[s->shard.n_id++] = id[i];
        }
        if (s->label)
            s->label[s->shard.n_document] = j->label;
        s->document[s->shard.n_document++] = (document){ s->shard.n_id, j->n_prompt };
    }
    return WEFT_OK;
}

static void count_jobs(const documents *d, shard *s, uint64_t *n_id, uint64_t *n_document)
{
    *n_id = *n_document = 0;
    for (size_t k = 0; k < d->n_job; k++) {
        const job *j = &d->job[k];
        s->marked |= j->chat != NULL;
        *n_id += j->n_id;
        *n_document += j->n_id > 0;
        d->corpus->n_empty += j->n_id == 0;
        d->corpus->n_prompt += j->n_id > 0 && j->has_prompt;
        d->corpus->n_straddling += j->straddles;
        d->corpus->chat.n_endless += j->n_endless;
    }
}

/* Encodes the pending texts as a new source. */
static weft_status encode_round(documents *d, weft_error *err)
{
    atomic_store(&d->next, 0);
    pool_run(d->pool, d->n_worker, encode_jobs, d);
    for (int i = 0; i < d->n_worker; i++)
        if (d->worker[i].failed) {
            *err = d->worker[i].err;
            return err->code;
        }
    uint64_t n_id, n_document;
    source s = { .shard = { .n_vocab = d->corpus->n_vocab } };
    count_jobs(d, &s.shard, &n_id, &n_document);
    s.shard.width = s.shard.n_vocab <= 65536 && !s.shard.marked ? 2 : 4;
    weft_status status = WEFT_OK;
    if (n_document > 0) {
        status = new_ids(&s, n_id, n_document, d->o->labels, d->mem, err)
                     ? gather_document(d, &s, err)
                     : err->code;
        if (status == WEFT_OK)
            return corpus_add(d->corpus, &s, err);
        mem_free(d->mem, s.ids);
        mem_free(d->mem, s.document);
        mem_free(d->mem, s.label);
    }
    return status;
}

static weft_status end_round(documents *d, weft_error *err)
{
    const weft_status status = d->n_job > 0 ? encode_round(d, err) : WEFT_OK;
    d->n_job = d->bytes = 0;
    arena_reset(&d->store, d->empty);
    return status;
}

/* `done`: bytes of this file already processed. */
static weft_status report_progress(const documents *d, uint64_t done, weft_error *err)
{
    if (d->o->progress && !d->o->progress(d->o->progress_ud, d->done + done, d->total))
        return weft_fail(err, WEFT_ESTOPPED, "stopped while reading %s", d->path);
    return WEFT_OK;
}

/* Called before adding a text of n bytes: ends the round if the text would not fit. */
static weft_status make_room(documents *d, size_t n, uint64_t done, weft_error *err)
{
    if (d->n_job == 0 || (d->bytes + n <= ROUND_BYTES && d->n_job < ROUND_JOBS))
        return WEFT_OK;
    const weft_status status = end_round(d, err);
    return status == WEFT_OK ? report_progress(d, done, err) : status;
}

static weft_status add_job(documents *d, const job *j, weft_error *err)
{
    job *jobs = scratch_grow(&d->job_room, (d->n_job + 1) * sizeof *jobs, d->mem, err);
    if (!jobs)
        return err->code;
    d->job = jobs;
    jobs[d->n_job++] = *j;
    d->bytes += j->n;
    return WEFT_OK;
}

static weft_status end_file(documents *d, const file *f, weft_error *err)
{
    weft_status status = end_round(d, err);
    if (status == WEFT_OK)
        status = report_progress(d, f->size, err);
    d->done += f->size;
    return status;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Length of a UTF-8 byte order mark, which is not part of the text. */
static size_t mark_length(const file *f)
{
    return f->size >= 3 && memcmp(f->data, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

static weft_status check_utf8(const file *f, weft_error *err)
{
    const size_t at = utf8_find_wrong(file_text(f), f->size);
    if (at < f->size)
        return weft_fail(err, WEFT_EFORMAT, "%s: byte %zu is not UTF-8", f->path, at);
    return WEFT_OK;
}

static bool is_break(char c)
{
    return c == '\n' || c == '\r';
}

/* The next empty line, and its length including the preceding line break; s + n if there is
 * none. */
static const char *find_empty_line(const char *s, size_t n, size_t *length)
{
    const char *end = s + n, *at = memchr(s, '\n', n);
    for (; at; at = memchr(at + 1, '\n', (size_t)(end - at - 1))) {
        const char *next = at + 1;
        while (next < end && (*next == ' ' || *next == '\t' || *next == '\r'))
            next++;
        if (next < end && *next == '\n') {
            *length = (size_t)(next - at);
            return at;
        }
    }
    *length = 0;
    return end;
}

static const char *find_separator(const char *separator, const char *s, size_t n, size_t *length)
{
    if (!separator[0])
        return find_empty_line(s, n, length);
    *length = strlen(separator);
    const char *at = memmem(s, n, separator, *length);
    *length = at ? *length : 0;
    return at ? at : s + n;
}

/* Cuts documents at separators, and strips line breaks at their ends. An empty rest after the last
 * separator is not a document; between empty lines a document is never empty. */
static weft_status cut_text(documents *d, const file *f, size_t at, weft_error *err)
{
    const char *s = file_text(f) + at, *end = file_text(f) + f->size;
    while (s < end) {
        size_t length;
        const char *stop = find_separator(d->o->separator, s, (size_t)(end - s), &length);
        const char *next = stop + length;
        while (s < stop && is_break(*s))
            s++;
        while (stop > s && is_break(stop[-1]))
            stop--;
        const job j = { .text = s, .n = (size_t)(stop - s) };
        const bool skip = j.n == 0 && (next == end || !d->o->separator[0]);
        const uint64_t done = (uint64_t)(s - file_text(f));
        if (!skip && (make_room(d, j.n, done, err) != WEFT_OK || add_job(d, &j, err) != WEFT_OK))
            return err->code;
        s = next;
    }
    return WEFT_OK;
}

weft_status documents_text(documents *d, const file *f, weft_error *err)
{
    const size_t at = mark_length(f);
    d->path = f->path;
    weft_status status = check_utf8(f, err);
    if (status == WEFT_OK && d->o->separator)
        status = cut_text(d, f, at, err);
    else if (status == WEFT_OK)
        status = add_job(d, &(job){ .text = file_text(f) + at, .n = f->size - at }, err);
    return status == WEFT_OK ? end_file(d, f, err) : status;
}

/* ---- TSV ------------------------------------------------------------------------------------- */

/* "source <tab> target": if both are one text, the tab belongs to the source. */
static weft_status add_pair(documents *d, const char *s, size_t n, int64_t number, uint64_t done,
                            weft_error *err)
{
    const char *tab = memchr(s, '\t', n);
    n -= n > 0 && s[n - 1] == '\r';
    if (!tab || memchr(tab + 1, '\t', (size_t)(s + n - tab - 1)))
        return weft_fail(err, WEFT_EFORMAT, "%s:%lld: expected a source, a tab and a target",
                         d->path, (long long)number);
    const job j = {
        .text = s, .n = n, .prompt = (size_t)(tab - s) + 1, .has_prompt = true, .gap = 1
    };
    const weft_status status = make_room(d, n, done, err);
    return status == WEFT_OK ? add_job(d, &j, err) : status;
}

weft_status documents_tsv(documents *d, const file *f, weft_error *err)
{
    d->path = f->path;
    if (check_utf8(f, err) != WEFT_OK)
        return err->code;
    int64_t number = 1;
    for (size_t at = mark_length(f), n; at < f->size; at += n + 1, number++) {
        const char *s = file_text(f) + at, *line_end = memchr(s, '\n', f->size - at);
        n = line_end ? (size_t)(line_end - s) : f->size - at;
        if (n > 0 && !(n == 1 && *s == '\r') && add_pair(d, s, n, number, at, err) != WEFT_OK)
            return err->code;
    }
    return end_file(d, f, err);
}

/* ---- JSONL ----------------------------------------------------------------------------------- */

/* One line: its position and content. */
typedef struct entry {
    const char *place; /* "data.jsonl:17" */
    const json_t *text, *prompt, *completion;
} entry;

static weft_status check_entry(const entry *e, weft_error *err)
{
    static const char *const name[] = { "text", "prompt", "completion" };
    const json_t *const value[] = { e->text, e->prompt, e->completion };
    for (int i = 0; i < 3; i++)
        if (value[i] && !json_is_string(value[i]))
            return weft_fail(err, WEFT_EFORMAT, "%s: \"%s\" is not a string", e->place, name[i]);
    if (e->text && (e->prompt || e->completion))
        return weft_fail(err, WEFT_EFORMAT, "%s: has both \"text\" and \"%s\"", e->place,
                         e->prompt ? "prompt" : "completion");
    if (!e->text && !(e->prompt && e->completion))
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: has neither \"text\" nor \"prompt\" and \"completion\" nor "
                         "\"messages\" nor \"chosen\" and \"rejected\"",
                         e->place);
    return WEFT_OK;
}

/* Adds two texts as one. */
static weft_status add_joined(documents *d, const char *a, size_t na, const char *b, size_t nb,
                              job j, weft_error *err)
{
    char *to = arena_alloc(&d->store, na + nb + 1, err);
    if (!to)
        return err->code;
    if (na > 0)
        memcpy(to, a, na);
    if (nb > 0)
        memcpy(to + na, b, nb);
    j.text = to;
    j.n = na + nb;
    return add_job(d, &j, err);
}

/* Renders a conversation. The error names its line. */
static weft_status add_chat(documents *d, const json_t *root, const char *place, weft_error *err)
{
    const corpus_options *o = d->o;
    weft_error why = { 0 };
    chat_document *c = arena_alloc(&d->store, sizeof *c, err);
    if (!c)
        return err->code;
    if (!o->chat)
        return weft_fail(err, o->no_chat ? o->no_chat->code : WEFT_EINVAL,
                         "%s: a conversation needs a chat template: %s", place,
                         o->no_chat ? o->no_chat->message : "none was given");
    if (chat_data_read(&d->chat, root, c, &d->store, &d->corpus->chat, &why) != WEFT_OK)
        return weft_fail(err, why.code, "%s: %s", place, why.message);
    return add_job(d, &(job){ .text = c->text, .n = c->n, .has_prompt = true, .chat = c }, err);
}

/* A document that is no conversation. */
static weft_status add_entry(documents *d, const json_t *root, const char *place, weft_error *err)
{
    const entry e = { .place = place,
                      .text = json_object_get(root, "text"),
                      .prompt = json_object_get(root, "prompt"),
                      .completion = json_object_get(root, "completion") };
    const weft_status status = check_entry(&e, err);
    if (status != WEFT_OK)
        return status;
    const json_t *a = e.text ? e.text : e.prompt, *b = e.completion;
    return add_joined(
        d, json_string_value(a), json_string_length(a), json_string_value(b), json_string_length(b),
        (job){ .prompt = b ? json_string_length(a) : 0, .has_prompt = b != NULL }, err);
}

static weft_status add_object(documents *d, const json_t *root, const char *place, weft_error *err)
{
    return chat_data_is(root) ? add_chat(d, root, place, err) : add_entry(d, root, place, err);
}

/* Two documents. */
static weft_status add_preference(documents *d, const json_t *root, const char *place,
                                  weft_error *err)
{
    weft_error why = { 0 };
    for (int side = 0; side < 2; side++) {
        const json_t *one = preference_side(root, side, &why);
        if (!one)
            return weft_fail(err, why.code, "%s: %s", place, why.message);
        if (add_object(d, one, place, err) != WEFT_OK)
            return err->code;
    }
    d->corpus->n_preference++;
    return WEFT_OK;
}

static weft_status read_document_line(documents *d, const char *s, size_t n, int64_t number,
                                      weft_error *err)
{
    char place[600];
    snprintf(place, sizeof place, "%.500s:%lld", d->path, (long long)number);
    const json_t *root = json_read((const uint8_t *)s, n, true, place, err);
    if (!root)
        return err->code;
    return preference_is(root) ? add_preference(d, root, place, err)
                               : add_object(d, root, place, err);
}

static bool is_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r')
            return false;
    return true;
}

static weft_status add_line(documents *d, const char *s, size_t n, int64_t number, uint64_t done,
                            weft_error *err)
{
    weft_status status = make_room(d, n, done, err);
    if (status != WEFT_OK)
        return status;
    json_section_begin(d->mem);
    status = read_document_line(d, s, n, number, err);
    json_section_end();
    return status;
}

weft_status documents_jsonl(documents *d, const file *f, weft_error *err)
{
    d->path = f->path;
    int64_t number = 1;
    for (size_t at = mark_length(f), n; at < f->size; at += n + 1, number++) {
        const char *s = file_text(f) + at, *line_end = memchr(s, '\n', f->size - at);
        n = line_end ? (size_t)(line_end - s) : f->size - at;
        if (!is_blank(s, n) && add_line(d, s, n, number, at, err) != WEFT_OK)
            return err->code;
    }
    return end_file(d, f, err);
}

/* ---- labels ---------------------------------------------------------------------------------- */

static weft_status add_labelled(void *ud, const labelled *one, weft_error *err)
{
    documents *d = ud;
    const int32_t label = labels_find(d->o->labels, one->label, one->n_label);
    if (label < 0)
        return weft_fail(
            err, WEFT_EINVAL, "%s:%lld: unknown label \"%.*s\"; expected one of the model's %lld",
            d->path, (long long)one->line, (int)(one->n_label < 60 ? one->n_label : 60), one->label,
            (long long)d->o->labels->n);
    const weft_status status = make_room(d, one->n + one->n_pair, one->at, err);
    if (status != WEFT_OK)
        return status;
    return add_joined(d, one->text, one->n, one->pair, one->n_pair,
                      (job){ .prompt = one->n, .has_prompt = one->pair, .label = label }, err);
}

weft_status documents_labelled(documents *d, const file *f, data_kind kind, weft_error *err)
{
    d->path = f->path;
    const weft_status status = labelled_each(f, kind, d->o->columns, add_labelled, d, d->mem, err);
    return status == WEFT_OK ? end_file(d, f, err) : status;
}

/* ---- a team ---------------------------------------------------------------------------------- */

weft_status documents_begin(documents *d, corpus *c, const corpus_options *o, uint64_t total,
                            weft_error *err)
{
    *d = (documents){ .corpus = c, .o = o, .mem = &c->host->mem, .total = total };
    const int n = o->n_thread > 0 ? o->n_thread : cpu_count();
    d->pool = pool_new(n, d->mem, err);
    d->worker = d->pool ? mem_zalloc(d->mem, (size_t)n, sizeof *d->worker, "encoders", err) : NULL;
    d->n_worker = d->worker ? n : 0;
    bool good = d->worker &&
                arena_init(&d->store, ARENA_GROWING, d->mem, 0, "texts", err) == WEFT_OK;
    d->empty = arena_at(&d->store);
    for (int i = 0; i < n && good; i++) {
        d->worker[i].documents = d;
        d->worker[i].encoder = encoder_new(o->tokenizer, d->mem, err);
        good = d->worker[i].encoder;
    }
    if (good && o->chat)
        good = chat_reader_begin(&d->chat, o->chat, o->tokenizer, d->worker[0].encoder, d->mem,
                                 err) == WEFT_OK;
    if (good)
        return WEFT_OK;
    documents_end(d);
    return err->code;
}

void documents_end(documents *d)
{
    for (int i = 0; i < d->n_worker; i++) {
        encoder_free(d->worker[i].encoder);
        scratch_free(&d->worker[i].room, d->mem);
    }
    mem_free(d->mem, d->worker);
    pool_free(d->pool);
    scratch_free(&d->job_room, d->mem);
    if (d->chat.chat)
        chat_reader_end(&d->chat);
    arena_free(&d->store);
    *d = (documents){ .mem = d->mem };
}
