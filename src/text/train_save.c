/* train_save.c - what was learned as a tokenizer.json, in the words of Hugging Face's
 * tokenizers. */
#include "base/utf8.h"
#include "text/normalize.h"
#include "text/split.h"
#include "text/train.h"

#include <stdio.h>
#include <string.h>

typedef struct sink {
    scratch room;
    char *text;
    size_t n;
    mem *mem;
    weft_error *err;
    bool failed;
} sink;

static void put(sink *s, const char *text, size_t n)
{
    char *to = s->failed ? NULL : scratch_grow(&s->room, s->n + n, s->mem, s->err);
    if (!to) {
        s->failed = true;
        return;
    }
    s->text = to;
    memcpy(to + s->n, text, n);
    s->n += n;
}

static void puts_to(sink *s, const char *text)
{
    put(s, text, strlen(text));
}

static void put_number(sink *s, uint32_t n)
{
    char text[16];
    put(s, text, (size_t)snprintf(text, sizeof text, "%u", n));
}

/* UTF-8 in quotes. */
static void put_text(sink *s, const char *text, size_t n)
{
    put(s, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        const uint8_t c = (uint8_t)text[i];
        char escape[8];
        if (c == '"' || c == '\\')
            put(s, (char[]){ '\\', (char)c }, 2);
        else if (c < 0x20)
            put(s, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", c));
        else
            put(s, text + i, 1);
    }
    put(s, "\"", 1);
}

/* A token as its file spells it: bytes by their stand-ins, but not in special tokens. */
static void put_token(sink *s, const trained *t, const train_options *o, uint32_t id)
{
    size_t n;
    const char *bytes = tokens_get(&t->merger.tokens, id, &n);
    if (o->wordpiece || id < (uint32_t)o->n_special) {
        put_text(s, bytes, n);
        return;
    }
    put(s, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        char spelled[4];
        const uint32_t c = byte_stand_in((uint8_t)bytes[i]);
        if (c == '"' || c == '\\')
            put(s, "\\", 1);
        put(s, spelled, utf8_encode(c, spelled));
    }
    put(s, "\"", 1);
}

static void put_special(sink *s, const train_options *o)
{
    puts_to(s, "  \"added_tokens\": [");
    for (int i = 0; i < o->n_special; i++) {
        puts_to(s, i ? ",\n    { \"id\": " : "\n    { \"id\": ");
        put_number(s, (uint32_t)i);
        puts_to(s, ", \"content\": ");
        put_text(s, o->special[i], strlen(o->special[i]));
        puts_to(s, ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false,"
                   " \"normalized\": false, \"special\": true }");
    }
    puts_to(s, o->n_special ? "\n  ],\n" : "],\n");
}

static void put_vocab(sink *s, const trained *t, const train_options *o)
{
    puts_to(s, "    \"vocab\": {");
    for (uint32_t id = 0; id < t->merger.tokens.n; id++) {
        puts_to(s, id ? ",\n      " : "\n      ");
        put_token(s, t, o, id);
        puts_to(s, ": ");
        put_number(s, id);
    }
    puts_to(s, "\n    }");
}

static void put_bpe(sink *s, const trained *t, const train_options *o)
{
    puts_to(s, "  \"normalizer\": null,\n");
    if (o->pattern && strcmp(o->pattern, pattern_gpt2) != 0) {
        puts_to(s, "  \"pre_tokenizer\": { \"type\": \"Sequence\", \"pretokenizers\": [\n"
                   "    { \"type\": \"Split\", \"pattern\": { \"Regex\": ");
        put_text(s, o->pattern, strlen(o->pattern));
        puts_to(s, " }, \"behavior\": \"Isolated\", \"invert\": false },\n"
                   "    { \"type\": \"ByteLevel\", \"add_prefix_space\": false,"
                   " \"trim_offsets\": true, \"use_regex\": false } ] },\n");
    } else {
        puts_to(s, "  \"pre_tokenizer\": { \"type\": \"ByteLevel\", \"add_prefix_space\": false,"
                   " \"trim_offsets\": true, \"use_regex\": true },\n");
    }
    puts_to(s, "  \"post_processor\": null,\n"
               "  \"decoder\": { \"type\": \"ByteLevel\", \"add_prefix_space\": true,"
               " \"trim_offsets\": true, \"use_regex\": true },\n"
               "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
               "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
               "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
               "    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n");
    put_vocab(s, t, o);
    puts_to(s, ",\n    \"merges\": [");
    for (size_t i = 0; i < t->merger.n_merge; i++) {
        puts_to(s, i ? ",\n      [" : "\n      [");
        put_token(s, t, o, t->merger.merges[i].a);
        puts_to(s, ", ");
        put_token(s, t, o, t->merger.merges[i].b);
        puts_to(s, "]");
    }
    puts_to(s, t->merger.n_merge ? "\n    ]\n  }\n}\n" : "]\n  }\n}\n");
}

static int special_id(const train_options *o, const char *name)
{
    for (int i = 0; i < o->n_special; i++)
        if (strcmp(o->special[i], name) == 0)
            return i;
    return -1;
}

/* BERT's frame where both of its tokens are there. */
static void put_frame(sink *s, const train_options *o)
{
    const int cls = special_id(o, "[CLS]"), sep = special_id(o, "[SEP]");
    if (cls < 0 || sep < 0) {
        puts_to(s, "  \"post_processor\": null,\n");
        return;
    }
    puts_to(s, "  \"post_processor\": { \"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", ");
    put_number(s, (uint32_t)sep);
    puts_to(s, "], \"cls\": [\"[CLS]\", ");
    put_number(s, (uint32_t)cls);
    puts_to(s, "] },\n");
}

static void put_wordpiece(sink *s, const trained *t, const train_options *o)
{
    puts_to(s, "  \"normalizer\": { \"type\": \"BertNormalizer\", \"clean_text\": true,"
               " \"handle_chinese_chars\": true, \"strip_accents\": null, \"lowercase\": ");
    puts_to(s, o->cased ? "false },\n" : "true },\n");
    puts_to(s, "  \"pre_tokenizer\": { \"type\": \"BertPreTokenizer\" },\n");
    put_frame(s, o);
    puts_to(s, "  \"decoder\": { \"type\": \"WordPiece\", \"prefix\": \"##\","
               " \"cleanup\": true },\n"
               "  \"model\": {\n    \"type\": \"WordPiece\",\n    \"unk_token\": \"[UNK]\",\n"
               "    \"continuing_subword_prefix\": \"##\",\n"
               "    \"max_input_chars_per_word\": 100,\n");
    put_vocab(s, t, o);
    puts_to(s, "\n  }\n}\n");
}

weft_status trained_save(const trained *t, const train_options *o, const char *path,
                         weft_error *err)
{
    sink s = { .mem = t->merger.mem, .err = err };
    puts_to(&s, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
    put_special(&s, o);
    if (o->wordpiece)
        put_wordpiece(&s, t, o);
    else
        put_bpe(&s, t, o);
    const weft_status status = s.failed ? err->code : file_write(path, s.text, s.n, err);
    scratch_free(&s.room, s.mem);
    return status;
}
