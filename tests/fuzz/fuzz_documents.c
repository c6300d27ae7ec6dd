/* fuzz_documents.c - bytes as JSONL, also with conversations, TSV, text between separators (the first
 * byte chooses) or texts with labels. */
#include "hostile.h"
#include "text/finish.h"
#include "text/sources/source.h"
#include "train/documents.h"
#include "train/labelled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Letters of ASCII are known, all others are <unk>. */
static const char opening[] =
    "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 0, \"content\": \"<unk>\", "
    "\"single_word\": "
    "false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": true}], "
    "\"normalizer\": null, \"pre_tokenizer\": null, \"post_processor\": null, \"decoder\": "
    "{\"type\": \"Fuse\"}, \"model\": {\"type\": \"BPE\", \"unk_token\": \"<unk>\", \"merges\": "
    "[[\"a\", \"b\"]], \"vocab\": {\"<unk>\": 0, \"ab\": 1, \"\\n\": 2";

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

/* Made once; lives as long as the process. */
static const tokenizer *letters(void)
{
    static tokenizer t;
    static host h;
    static bool made;
    char json[4096];
    if (made)
        return &t;
    size_t n = (size_t)snprintf(json, sizeof json, "%s", opening);
    for (int c = 'A'; c <= 'z'; c++)
        if (c != '\\')
            n += (size_t)snprintf(json + n, sizeof json - n, ", \"%c\": %d", c, c);
    n += (size_t)snprintf(json + n, sizeof json - n, "}}}");
    h = (host){ .io = io_system };
    mem_init(&h.mem, 0, NULL);
    if (tokenizer_begin(&t, "letters", "tokenizer.json", &h, NULL) != WEFT_OK ||
        source_json(&t, (const uint8_t *)json, n, NULL) != WEFT_OK ||
        tokenizer_finish(&t, NULL) != WEFT_OK)
        fail("the tokenizer is wrong");
    made = true;
    return &t;
}

/* A template for conversations, made once: one that marks what the assistant writes, and one that does
 * not. */
static const chat *talk(int choice)
{
    static const char *const sources[2] = {
        "{% for m in messages %}<unk>{{ m.role }}: {{ m.thinking }}{{ m.content }}"
        "{% for c in m.tool_calls %}{{ c | tojson }}{% endfor %}<unk>\n{% endfor %}"
        "{% if add_generation_prompt %}<unk>assistant: {% endif %}",
        "{% for m in messages %}{{ m.role }}{% if m.role == 'assistant' %}{% generation %}"
        "{{ m.content }}\n{% endgeneration %}{% else %}{{ m.content[::-1] }}{% endif %}{% endfor "
        "%}",
    };
    static chat c[2];
    static host h;
    if (!h.io.open) {
        h = (host){ .io = io_system };
        mem_init(&h.mem, 0, NULL);
    }
    if (!c[choice].program) {
        c[choice] = (chat){ .path = "talk", .source = sources[choice] };
        c[choice].n = strlen(sources[choice]);
        if (chat_open(&c[choice], &h.mem, &(weft_error){ 0 }) != WEFT_OK)
            fail("the template is wrong");
    }
    return &c[choice];
}

/* Columns of tables with labels. */
static const columns *table_columns(uint8_t choice)
{
    static const char *const names[] = { NULL, "label,text,text", "text,pair,label",
                                         "-,label,text" };
    static columns c;
    if (columns_parse(&c, names[choice % 4], NULL) != WEFT_OK)
        fail("the columns are wrong");
    return &c;
}

/* Every label is one that was found before. */
static void check_labels(const corpus *c, const label_set *l)
{
    for (int64_t k = 0; k < c->n_source; k++)
        for (uint64_t i = 0; i < c->source[k].shard.n_document; i++)
            if (c->source[k].label[i] < 0 || c->source[k].label[i] >= l->n)
                fail("a label of nobody");
    for (int64_t i = 1; i < l->n; i++)
        if (strcmp(l->name[i - 1], l->name[i]) >= 0)
            fail("labels are not sorted, or there twice");
}

static weft_status keep_name(void *ud, const labelled *one, weft_error *err)
{
    label_set *l = ud;
    return labels_add(l, one->label, one->n_label, err);
}

/* The bytes as a file of texts with labels: names first, then texts. */
static void read_labelled(const file *f, uint8_t choice, host *h)
{
    static const data_kind kinds[] = { DATA_TSV, DATA_CSV, DATA_JSONL };
    const data_kind kind = kinds[choice % 3];
    label_set l;
    weft_error err = { 0 };
    if (labels_begin(&l, &h->mem, &err) != WEFT_OK)
        fail("no memory");
    const corpus_options o = { .tokenizer = letters(),
                               .labels = &l,
                               .columns = table_columns(choice / 3),
                               .eos = -1,
                               .n_thread = 1 };
    corpus c = { .host = h, .n_vocab = o.tokenizer->n_id, .eos = -1 };
    documents d;
    weft_status status = labelled_each(f, kind, o.columns, keep_name, &l, &h->mem, &err);
    labels_number(&l);
    if (documents_begin(&d, &c, &o, f->size, &err) != WEFT_OK)
        fail("no memory");
    if (status == WEFT_OK && documents_labelled(&d, f, kind, &err) != WEFT_OK)
        fail("what could be read once cannot be read again");
    documents_end(&d);
    if (status != WEFT_OK && !err.message[0])
        fail("an error without a sentence");
    if (status == WEFT_OK)
        check_labels(&c, &l);
    corpus_close(&c);
    labels_free(&l);
}

/* Its prompt ends at the first id that has a loss, if some have none. */
static void check_document(const shard *s, uint64_t i)
{
    const uint64_t begin = shard_begin(s, i), end = s->document[i].end;
    if (end <= begin || s->document[i].n_prompt > end - begin)
        fail("a document is empty, or its prompt too long");
    for (uint64_t k = begin; s->marked && k < begin + s->document[i].n_prompt; k++)
        if (shard_has_loss(s, k) && !shard_has_loss(s, begin))
            fail("an id of a prompt has a loss");
}

static void check(const corpus *c)
{
    int64_t n_id = 0;
    for (int64_t k = 0; k < c->n_source; k++) {
        const shard *s = &c->source[k].shard;
        if (c->source[k].first_id != n_id || shard_find_unknown_id(s, c->n_vocab) != s->n_id)
            fail("a source has ids of others");
        for (uint64_t i = 0; i < s->n_document; i++)
            check_document(s, i);
        n_id += (int64_t)s->n_id;
    }
    if (n_id != c->n_id)
        fail("ids are lost");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const separators[] = { NULL, "", "<s>" };
    if (size < 2)
        return 0;
    host h = { .io = io_system };
    json_object_seed(1); /* hashing is random by default, findings must repeat */
    mem_init(&h.mem, (size_t)256 << 20, NULL);
    const file f = { .data = data + 1, .size = size - 1, .path = "fuzz" };
    if (data[0] & 128) {
        read_labelled(&f, data[0] & 127, &h);
        if (h.mem.used != 0)
            fail("memory was kept");
        return 0;
    }
    const corpus_options o = { .tokenizer = letters(),
                               .separator = separators[data[0] % 3],
                               .eos = data[0] & 8 ? 2 : -1,
                               .parse_special = data[0] & 16,
                               .pairs = data[0] & 32,
                               .chat = data[0] & 3 ? talk(data[0] & 1) : NULL,
                               .n_thread = 1 };
    corpus c = { .host = &h, .n_vocab = o.tokenizer->n_id, .eos = o.eos };
    documents d;
    weft_error err = { 0 };
    if (documents_begin(&d, &c, &o, f.size, &err) != WEFT_OK)
        fail("no memory");
    const weft_status status = data[0] & 4    ? documents_jsonl(&d, &f, &err)
                               : data[0] & 64 ? documents_tsv(&d, &f, &err)
                                              : documents_text(&d, &f, &err);
    documents_end(&d);
    if (status != WEFT_OK && !err.message[0])
        fail("an error without a sentence");
    check(&c);
    corpus_close(&c);
    if (h.mem.used != 0)
        fail("memory was kept");
    return 0;
}
