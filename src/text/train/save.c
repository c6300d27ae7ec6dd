/* save.c - writes a trained tokenizer as a Hugging Face tokenizer.json. */
#include "base/save.h"
#include "base/buffer.h"
#include "base/utf8.h"
#include "text/normalize.h"
#include "text/split.h"
#include "text/train/train.h"

#include <string.h>

/* Writes a token as the file spells it: bytes as their stand-ins, except in special tokens. */
static void put_token(buffer *s, const trained *t, const train_options *o, uint32_t id)
{
    size_t n;
    const char *bytes = tokens_get(&t->merger.tokens, id, &n);
    if (o->wordpiece || o->characters || id < (uint32_t)o->n_special) {
        buffer_quote(s, bytes, n);
        return;
    }
    buffer_put(s, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        char spelled[4];
        const uint32_t c = byte_stand_in((uint8_t)bytes[i]);
        if (c == '"' || c == '\\')
            buffer_put(s, "\\", 1);
        buffer_put(s, spelled, utf8_encode(c, spelled));
    }
    buffer_put(s, "\"", 1);
}

static void put_special(buffer *s, const train_options *o)
{
    buffer_text(s, "  \"added_tokens\": [");
    for (int i = 0; i < o->n_special; i++) {
        buffer_text(s, i ? ",\n    { \"id\": " : "\n    { \"id\": ");
        buffer_format(s, "%u", (uint32_t)i);
        buffer_text(s, ", \"content\": ");
        buffer_quote(s, o->special[i], strlen(o->special[i]));
        buffer_text(s, ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false,"
                       " \"normalized\": false, \"special\": true }");
    }
    buffer_text(s, o->n_special ? "\n  ],\n" : "],\n");
}

static void put_vocab(buffer *s, const trained *t, const train_options *o)
{
    buffer_text(s, "    \"vocab\": {");
    for (uint32_t id = 0; id < t->merger.tokens.n; id++) {
        buffer_text(s, id ? ",\n      " : "\n      ");
        put_token(s, t, o, id);
        buffer_text(s, ": ");
        buffer_format(s, "%u", id);
    }
    buffer_text(s, "\n    }");
}

static void put_bpe(buffer *s, const trained *t, const train_options *o)
{
    buffer_text(s, "  \"normalizer\": null,\n");
    if (o->pattern && strcmp(o->pattern, pattern_gpt2) != 0) {
        buffer_text(s, "  \"pre_tokenizer\": { \"type\": \"Sequence\", \"pretokenizers\": [\n"
                       "    { \"type\": \"Split\", \"pattern\": { \"Regex\": ");
        buffer_quote(s, o->pattern, strlen(o->pattern));
        buffer_text(s, " }, \"behavior\": \"Isolated\", \"invert\": false },\n"
                       "    { \"type\": \"ByteLevel\", \"add_prefix_space\": false,"
                       " \"trim_offsets\": true, \"use_regex\": false } ] },\n");
    } else {
        buffer_text(s,
                    "  \"pre_tokenizer\": { \"type\": \"ByteLevel\", \"add_prefix_space\": false,"
                    " \"trim_offsets\": true, \"use_regex\": true },\n");
    }
    buffer_text(s, "  \"post_processor\": null,\n"
                   "  \"decoder\": { \"type\": \"ByteLevel\", \"add_prefix_space\": true,"
                   " \"trim_offsets\": true, \"use_regex\": true },\n"
                   "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                   "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
                   "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
                   "    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n");
    put_vocab(s, t, o);
    buffer_text(s, ",\n    \"merges\": [");
    for (size_t i = 0; i < t->merger.n_merge; i++) {
        buffer_text(s, i ? ",\n      [" : "\n      [");
        put_token(s, t, o, t->merger.merges[i].a);
        buffer_text(s, ", ");
        put_token(s, t, o, t->merger.merges[i].b);
        buffer_text(s, "]");
    }
    buffer_text(s, t->merger.n_merge ? "\n    ]\n  }\n}\n" : "]\n  }\n}\n");
}

static int special_id(const train_options *o, const char *name)
{
    for (int i = 0; i < o->n_special; i++)
        if (strcmp(o->special[i], name) == 0)
            return i;
    return -1;
}

/* Byte pair encoding without pairs. A character that the training text lacked encodes as <unk>, if
 * that is one of the special tokens, and is dropped otherwise. */
static void put_characters(buffer *s, const trained *t, const train_options *o)
{
    buffer_text(s, "  \"normalizer\": null,\n  \"pre_tokenizer\": null,\n"
                   "  \"post_processor\": null,\n  \"decoder\": { \"type\": \"Fuse\" },\n"
                   "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                   "    \"unk_token\": ");
    buffer_text(s, special_id(o, "<unk>") >= 0 ? "\"<unk>\"" : "null");
    buffer_text(s, ",\n    \"continuing_subword_prefix\": null,\n"
                   "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
                   "    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n");
    put_vocab(s, t, o);
    buffer_text(s, ",\n    \"merges\": []\n  }\n}\n");
}

/* Adds BERT's template if both of its tokens exist. */
static void put_frame(buffer *s, const train_options *o)
{
    const int cls = special_id(o, "[CLS]"), sep = special_id(o, "[SEP]");
    if (cls < 0 || sep < 0) {
        buffer_text(s, "  \"post_processor\": null,\n");
        return;
    }
    buffer_text(s, "  \"post_processor\": { \"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", ");
    buffer_format(s, "%u", (uint32_t)sep);
    buffer_text(s, "], \"cls\": [\"[CLS]\", ");
    buffer_format(s, "%u", (uint32_t)cls);
    buffer_text(s, "] },\n");
}

static void put_wordpiece(buffer *s, const trained *t, const train_options *o)
{
    buffer_text(s, "  \"normalizer\": { \"type\": \"BertNormalizer\", \"clean_text\": true,"
                   " \"handle_chinese_chars\": true, \"strip_accents\": null, \"lowercase\": ");
    buffer_text(s, o->cased ? "false },\n" : "true },\n");
    buffer_text(s, "  \"pre_tokenizer\": { \"type\": \"BertPreTokenizer\" },\n");
    put_frame(s, o);
    buffer_text(s, "  \"decoder\": { \"type\": \"WordPiece\", \"prefix\": \"##\","
                   " \"cleanup\": true },\n"
                   "  \"model\": {\n    \"type\": \"WordPiece\",\n    \"unk_token\": \"[UNK]\",\n"
                   "    \"continuing_subword_prefix\": \"##\",\n"
                   "    \"max_input_chars_per_word\": 100,\n");
    put_vocab(s, t, o);
    buffer_text(s, "\n  }\n}\n");
}

void trained_put(const trained *t, const train_options *o, buffer *to)
{
    buffer_text(to, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
    put_special(to, o);
    if (o->wordpiece)
        put_wordpiece(to, t, o);
    else if (o->characters)
        put_characters(to, t, o);
    else
        put_bpe(to, t, o);
}

weft_status trained_save(const trained *t, const train_options *o, const char *path, host *h,
                         weft_error *err)
{
    buffer s;
    buffer_begin(&s, t->merger.mem, err);
    trained_put(t, o, &s);
    const weft_status status = s.failed ? WEFT_ENOMEM : save_whole(path, s.at, s.n, h, err);
    buffer_end(&s);
    return status;
}
