/* hf_write_config.c - tokenizer_config.json: the settings that transformers reads next to a
 * tokenizer.json. */
#include "text/sources/hf_write.h"

#include <string.h>

static void put_name(buffer *b, const tokenizer *t, const char *field, int64_t id)
{
    if (id < 0 || id >= t->vocab.n || !tokenizer_has(t, (uint32_t)id))
        return;
    buffer_format(b, ",\n  \"%s\": ", field);
    buffer_quote(b, vocab_text(&t->vocab, (uint32_t)id), t->vocab.length[id]);
}

static int64_t number(const container *c, const char *key)
{
    const meta *m = c ? container_meta(c, key) : NULL;
    return m && m->type == META_INT ? m->integer : -1;
}

static int64_t unknown(const tokenizer *t)
{
    const uint32_t id = tokenizer_unknown(t);
    return id == NO_ID ? -1 : (int64_t)id;
}

/* Does the template put this token before (or after) the text? */
static bool in_template(const tokenizer *t, bool before, int32_t id)
{
    const template *m = &t->single;
    const slot *s = before ? &m->slot[0] : &m->slot[m->n - 1];
    return s->kind == SLOT_TOKEN && (int64_t)s->id == id;
}

void tokenizer_config(const tokenizer *t, const container *c, buffer *to)
{
    static const char *const more[][2] = {
        { "tokenizer.ggml.padding_token_id", "pad_token" },
        { "tokenizer.ggml.cls_token_id", "cls_token" },
        { "tokenizer.ggml.seperator_token_id", "sep_token" }, /* GGUF's spelling */
        { "tokenizer.ggml.mask_token_id", "mask_token" },
    };
    const meta *chat = c ? container_meta(c, "tokenizer.chat_template") : NULL;
    buffer_text(to, "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\","
                    "\n  \"clean_up_tokenization_spaces\": false");
    put_name(to, t, "bos_token", t->bos);
    put_name(to, t, "eos_token", t->eos);
    put_name(to, t, "unk_token", unknown(t));
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        put_name(to, t, more[i][1], number(c, more[i][0]));
    if (t->kind != MODEL_WORDPIECE)
        buffer_format(to, ",\n  \"add_bos_token\": %s,\n  \"add_eos_token\": %s",
                      in_template(t, true, t->bos) ? "true" : "false",
                      in_template(t, false, t->eos) ? "true" : "false");
    if (chat && chat->type == META_TEXT) {
        buffer_text(to, ",\n  \"chat_template\": ");
        buffer_quote(to, chat->text, chat->length);
    }
    buffer_text(to, "\n}\n");
}
