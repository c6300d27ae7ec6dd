/* chat_data.c - reads conversations in the forms in which data sets have them, and finds what the
 * assistant wrote; see chat_data.h. */
#include "train/chat_data.h"

#include "formats/json.h"
#include "formats/shard.h"

#include <string.h>

/* ---- the forms of data sets ------------------------------------------------------------------ */

static const json_t *find_list(const json_t *line)
{
    const json_t *list = json_object_get(line, "messages");
    return list ? list : json_object_get(line, "conversations");
}

bool chat_data_is(const json_t *line)
{
    return find_list(line) || json_object_get(line, "instruction");
}

static bool is_text(const json_t *j, const char *text)
{
    return json_is_string(j) && json_string_length(j) == strlen(text) &&
           strcmp(json_string_value(j), text) == 0;
}

/* The role of a ShareGPT message; NULL if the name is unknown. */
static const char *role_of(const json_t *from)
{
    static const char *const names[][2] = {
        { "human", "user" },          { "user", "user" },      { "gpt", "assistant" },
        { "chatgpt", "assistant" },   { "bing", "assistant" }, { "bard", "assistant" },
        { "assistant", "assistant" }, { "system", "system" },  { "tool", "tool" },
        { "observation", "tool" },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_text(from, names[i][0]))
            return names[i][1];
    return NULL;
}

static json_t *no_room(weft_error *err)
{
    weft_fail(err, WEFT_ENOMEM, "no memory for a conversation");
    return NULL;
}

/* { "from", "value" } as { "role", "content" }. */
static json_t *shared_message(const json_t *one, size_t i, weft_error *err)
{
    const json_t *from = json_object_get(one, "from"), *value = json_object_get(one, "value");
    const json_t *weight = json_object_get(one, "weight");
    const char *role = role_of(from);
    if (!role || !json_is_string(value)) {
        weft_fail(err, WEFT_EFORMAT,
                  role ? "message %zu: \"value\" is not a text"
                       : "message %zu: from \"%.40s\"; expected human, gpt, system or tool",
                  i, json_is_string(from) ? json_string_value(from) : "");
        return NULL;
    }
    json_t *made = json_pack("{s:s,s:O}", "role", role, "content", value);
    if (made && weight && json_object_set(made, "weight", (json_t *)weight) != 0)
        made = NULL;
    return made ? made : no_room(err);
}

/* A message must have a text, or calls of tools; otherwise its text has a name that nobody reads. */
static bool check_message(const json_t *one, size_t i, weft_error *err)
{
    const json_t *content = json_object_get(one, "content");
    const json_t *weight = json_object_get(one, "weight");
    const double w = json_number_value(weight);
    if (!json_is_string(content) && !json_is_array(content) &&
        json_array_size(json_object_get(one, "tool_calls")) == 0)
        weft_fail(err, WEFT_EFORMAT, "message %zu: no \"content\"", i);
    else if (weight && (!json_is_number(weight) || (w != 0 && w != 1)))
        weft_fail(err, WEFT_EFORMAT, "message %zu: \"weight\" is neither 0 nor 1", i);
    else
        return true;
    return false;
}

static json_t *messages_of_list(const json_t *list, weft_error *err)
{
    json_t *messages = json_array();
    if (!json_is_array(list)) {
        weft_fail(err, WEFT_EFORMAT, "the messages are not a list");
        return NULL;
    }
    for (size_t i = 0; messages && i < json_array_size(list); i++) {
        json_t *one = json_array_get(list, i);
        json_t *message = json_object_get(one, "from") ? shared_message(one, i, err)
                                                       : json_incref(one);
        if (!message || !check_message(message, i, err))
            return NULL;
        if (json_array_append_new(messages, message) != 0)
            messages = NULL;
    }
    return messages ? messages : no_room(err);
}

/* An instruction and its input, with an empty line between them. */
static json_t *join_instruction(const json_t *a, const json_t *b, mem *m, weft_error *err)
{
    buffer joined;
    buffer_begin(&joined, m, err);
    buffer_put(&joined, json_string_value(a), json_string_length(a));
    if (json_string_length(b) > 0) {
        buffer_put(&joined, "\n\n", 2);
        buffer_put(&joined, json_string_value(b), json_string_length(b));
    }
    json_t *text = joined.failed ? NULL
                                 : json_stringn(joined.n ? (const char *)joined.at : "", joined.n);
    buffer_end(&joined);
    return text;
}

/* An instruction, its input if it has one, and the answer. */
static json_t *messages_of_alpaca(const json_t *line, mem *m, weft_error *err)
{
    static const char *const names[] = { "instruction", "input", "output", "system" };
    const json_t *part[4];
    for (int i = 0; i < 4; i++) {
        part[i] = json_object_get(line, names[i]);
        if (i % 2 == 0 ? !json_is_string(part[i]) : part[i] && !json_is_string(part[i])) {
            weft_fail(err, WEFT_EFORMAT, "\"%s\" is not a text", names[i]);
            return NULL;
        }
    }
    if (json_array_size(json_object_get(line, "history")) > 0) {
        weft_fail(err, WEFT_EUNSUPPORTED,
                  "\"history\" beside an instruction is not read; write \"messages\"");
        return NULL;
    }
    json_t *list = json_pack("[{s:s,s:o},{s:s,s:O}]", "role", "user", "content",
                             join_instruction(part[0], part[1], m, err), "role", "assistant",
                             "content", part[2]);
    if (list && json_string_length(part[3]) > 0 &&
        json_array_insert_new(list, 0,
                              json_pack("{s:s,s:O}", "role", "system", "content", part[3])) != 0)
        list = NULL;
    return list ? list : no_room(err);
}

/* The line as { "messages", "tools" }. Data sets also have tools as JSON in a string. */
static json_t *conversation_of(const json_t *line, mem *m, weft_error *err)
{
    const json_t *list = find_list(line), *tools = json_object_get(line, "tools");
    json_t *messages = list ? messages_of_list(list, err) : messages_of_alpaca(line, m, err);
    json_t *made = messages ? json_pack("{s:o}", "messages", messages) : NULL;
    if (!made)
        return err->code ? NULL : no_room(err);
    if (json_is_string(tools) && json_string_length(tools) > 0 &&
        !(tools = json_read_root((const uint8_t *)json_string_value(tools),
                                 json_string_length(tools), false, true, "tools", err)))
        return NULL;
    if (json_is_array(tools) && json_object_set(made, "tools", (json_t *)tools) != 0)
        return no_room(err);
    return made;
}

/* ---- what the assistant wrote ---------------------------------------------------------------- */

typedef struct finder {
    const chat *chat;
    const chat_options *how;
    json_t *conversation;
    const json_t *list;
    chat_text full;
    chat_document *to;
    chat_counts *counts;
    weft_error *err;
} finder;

/* "weight": 0 */
static bool is_unlearned(const json_t *message)
{
    const json_t *weight = json_object_get(message, "weight");
    return weight && json_number_value(weight) == 0;
}

/* A stretch of text in which only the template and message i wrote. */
typedef struct stretch {
    size_t begin;    /* after what others wrote */
    size_t from, to; /* what the message wrote, its role apart, and all between */
} stretch;

/* The first stretch of message i after `after`, or its last if that is 0; to is 0 if there is none. */
static stretch find_stretch(const finder *f, int32_t i, size_t after)
{
    stretch s = { .begin = after };
    bool inside = false;
    size_t begin = after;
    for (size_t k = 0; k < f->full.out.n_run; k++) {
        const jinja_run *r = &f->full.out.run[k];
        const chat_origin who = chat_origin_of(&f->full, r->origin);
        if (who.trusted || r->begin == r->end || r->end <= after)
            continue;
        if (who.message != i) {
            inside = false;
            begin = r->end;
            continue;
        }
        if (!inside && s.to > 0 && after > 0)
            break;
        if (!inside)
            s = (stretch){ .begin = begin, .from = r->begin };
        s.to = r->end;
        inside = true;
    }
    return s;
}

/* Did message i write something in [from, to)? */
static bool wrote_in(const finder *f, int32_t i, size_t from, size_t to)
{
    for (size_t k = 0; k < f->full.out.n_run; k++) {
        const jinja_run *r = &f->full.out.run[k];
        const chat_origin who = chat_origin_of(&f->full, r->origin);
        if (who.message == i && !who.trusted && r->begin < to && r->end > from)
            return true;
    }
    return false;
}

/* The length of the conversation up to message i with its generation prompt, if the whole text
 * begins with it; otherwise 0. Only memory and limits are errors: a template may refuse a part of a
 * conversation. */
static weft_status prompt_length(const finder *f, size_t i, size_t *n)
{
    chat_options o = *f->how;
    chat_text part;
    weft_error why = { 0 };
    json_t *some = json_array(), *shorter = json_copy(f->conversation);
    bool good = some && shorter;
    *n = 0;
    for (size_t k = 0; good && k < i; k++)
        good = json_array_append(some, json_array_get(f->list, k)) == 0;
    if (!good || json_object_set_new(shorter, "messages", some) != 0)
        return no_room(f->err), f->err->code;
    o.no_generation_prompt = false;
    const weft_status status = chat_tree_render(f->chat, shorter, &o, &part, &why);
    const jinja_output *out = &part.out, *full = &f->full.out;
    if (status == WEFT_OK && out->n <= full->n && memcmp(out->text, full->text, out->n) == 0)
        *n = out->n;
    chat_text_free(&part);
    if (status != WEFT_ENOMEM && status != WEFT_ELIMIT)
        return WEFT_OK;
    *f->err = why;
    return status;
}

/* Where the next text begins that the template did not write; or the end. */
static size_t next_writer(const finder *f, size_t to)
{
    const jinja_output *out = &f->full.out;
    for (size_t k = 0; k < out->n_run; k++)
        if (out->run[k].begin >= to && out->run[k].begin < out->run[k].end &&
            !chat_origin_of(&f->full, out->run[k].origin).trusted)
            return out->run[k].begin;
    return out->n;
}

static weft_status find_answers(finder *f)
{
    for (size_t i = 0; i < json_array_size(f->list); i++) {
        size_t prompt;
        stretch s = find_stretch(f, (int32_t)i, 0);
        const json_t *message = json_array_get(f->list, i);
        if (!is_text(json_object_get(message, "role"), "assistant") || is_unlearned(message) ||
            s.to == 0)
            continue;
        if (prompt_length(f, i, &prompt) != WEFT_OK)
            return f->err->code;
        const stretch after = find_stretch(f, (int32_t)i, prompt);
        const bool prompted = prompt > 0 && after.to > 0;
        s = prompted ? after : s;
        f->counts->n_answer++;
        f->counts->n_unprompted += !prompted;
        f->to->learned[f->to->n_learned++] = (chat_learned){
            .from = (uint32_t)(prompted ? s.begin : s.from),
            .to = (uint32_t)s.to,
            .until = (uint32_t)next_writer(f, s.to)
        };
    }
    return WEFT_OK;
}

/* What {% generation %} blocks wrote, except for messages that are not to be learned. */
static void take_generated(finder *f)
{
    const jinja_output *out = &f->full.out;
    for (size_t k = 0; k < out->n_generated; k++) {
        const uint32_t from = (uint32_t)out->generated[k].begin;
        const uint32_t to = (uint32_t)out->generated[k].end;
        bool learned = from < to;
        for (size_t i = 0; i < json_array_size(f->list) && learned; i++)
            learned = !is_unlearned(json_array_get(f->list, i)) ||
                      !wrote_in(f, (int32_t)i, from, to);
        if (!learned)
            continue;
        f->counts->n_answer++;
        f->to->learned[f->to->n_learned++] = (chat_learned){ from, to, to };
    }
}

/* Thinking that is in the data but not in the text: most templates keep only the last. */
static void count_thoughts(const finder *f)
{
    static const char *const names[] = { "reasoning_content", "thinking", "reasoning" };
    for (size_t i = 0; i < json_array_size(f->list); i++) {
        const json_t *message = json_array_get(f->list, i);
        bool has = false, shown = false;
        for (int k = 0; k < 3; k++)
            has |= json_string_length(json_object_get(message, names[k])) > 0;
        for (size_t r = 0; has && r < f->full.out.n_run; r++) {
            const chat_origin who = chat_origin_of(&f->full, f->full.out.run[r].origin);
            for (int k = 0; k < 3; k++)
                shown |= who.message == (int32_t)i && strcmp(who.field, names[k]) == 0;
        }
        f->counts->n_thought_dropped += has && !shown;
    }
}

/* ---- a document ------------------------------------------------------------------------------ */

static weft_status describe_text(finder *f, arena *store)
{
    chat_document *d = f->to;
    const jinja_output *out = &f->full.out;
    const size_t most = out->n_generated + json_array_size(f->list) + 1;
    weft_span *trusted = arena_alloc(store, (out->n_run + 1) * sizeof *trusted, f->err);
    d->text = trusted ? arena_text(store, out->text, out->n, f->err) : NULL;
    d->learned = d->text ? arena_alloc(store, most * sizeof *d->learned, f->err) : NULL;
    if (!d->learned)
        return f->err->code;
    d->n = out->n;
    d->n_trusted = chat_trusted(&f->full, trusted);
    d->trusted = trusted;
    f->counts->n_conversation++;
    count_thoughts(f);
    if (!f->chat->generation)
        return find_answers(f);
    take_generated(f);
    return WEFT_OK;
}

weft_status chat_data_read(const chat_reader *r, const json_t *line, chat_document *to,
                           arena *store, chat_counts *counts, weft_error *err)
{
    const json_t *variables = json_object_get(line, "chat_template_kwargs");
    chat_options how = r->how;
    finder f = { .chat = r->chat, .how = &how, .to = to, .counts = counts, .err = err };
    *to = (chat_document){ 0 };
    f.conversation = conversation_of(line, r->mem, err);
    if (!f.conversation)
        return err->code;
    if (json_is_object(variables) &&
        !(how.variables = json_write(variables, 0, "chat_template_kwargs", err)))
        return err->code;
    f.list = json_object_get(f.conversation, "messages");
    weft_status status = chat_tree_render(r->chat, f.conversation, &how, &f.full, err);
    if (status == WEFT_OK)
        status = describe_text(&f, store);
    chat_text_free(&f.full);
    return status;
}

weft_status chat_data_encode(const chat_reader *r, encoder *e, const chat_document *d,
                             encoding *out, weft_error *err)
{
    const encode_options how = { .no_template = true,
                                 .parse_special = true,
                                 .spans = true,
                                 .trusted = d->trusted,
                                 .n_trusted = d->n_trusted,
                                 .gated = r->gated.data,
                                 .n_gated = r->n_gated };
    return encoder_encode(e, d->text, d->n, NULL, 0, &how, out, err);
}

/* ---- marks ----------------------------------------------------------------------------------- */

static bool is_gated(const chat_reader *r, uint32_t id)
{
    const int32_t *gated = r->gated.data;
    for (size_t i = 0; i < r->n_gated; i++)
        if ((uint32_t)gated[i] == id)
            return true;
    return false;
}

static bool is_special(const chat_reader *r, uint32_t id)
{
    return id < r->tokenizer->vocab.n && r->tokenizer->special[id];
}

/* The token that ends a turn, at or after `at`: the one that ends all turns; else the first special
 * one; else the first added one that only the template writes, though calls of tools may end in such
 * a token too. e->n if there is none. */
static size_t find_turn_end(const chat_reader *r, const encoding *e, size_t at, uint32_t until)
{
    size_t special = e->n, gated = e->n;
    for (size_t i = at; i < e->n && e->from[i] < until; i++) {
        if (r->turn_end >= 0 && e->id[i] == (uint32_t)r->turn_end)
            return i;
        if (special == e->n && is_special(r, e->id[i]))
            special = i;
        if (gated == e->n && is_gated(r, e->id[i]))
            gated = i;
    }
    return special < e->n ? special : gated;
}

size_t chat_data_mark(const chat_reader *r, const chat_document *d, const encoding *e, uint32_t *id,
                      int64_t *n_endless)
{
    size_t first = e->n, i = 0;
    for (size_t k = 0; k < e->n; k++)
        id[k] |= SHARD_NO_LOSS;
    for (size_t k = 0; k < d->n_learned; k++) {
        const chat_learned *l = &d->learned[k];
        if (k > 0 && l->from < d->learned[k - 1].from) /* templates may reorder messages */
            i = 0;
        while (i < e->n && e->to[i] <= l->from)
            i++;
        size_t end = i;
        while (end < e->n && e->from[end] < l->to)
            end++;
        const size_t last = find_turn_end(r, e, end, l->until);
        end = last < e->n ? last + 1 : end;
        *n_endless += end > 0 && !is_special(r, e->id[end - 1]) && !is_gated(r, e->id[end - 1]);
        first = end > i && i < first ? i : first;
        for (; i < end; i++)
            id[i] &= ~SHARD_NO_LOSS;
    }
    return first;
}

/* ---- the end of a turn ----------------------------------------------------------------------- */

/* Renders and encodes an exchange. A template may refuse it: the end of its turns is then unknown. */
static weft_status probe_turn_end(chat_reader *r, encoder *e, arena *store, weft_error *err)
{
    static const char exchange[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
                                   "{\"role\":\"assistant\",\"content\":\"b\"}]}";
    chat_document d;
    encoding out;
    weft_error why = { 0 };
    json_section_begin(r->mem);
    const json_t *line = json_read((const uint8_t *)exchange, sizeof exchange - 1, false,
                                   "exchange", &why);
    weft_status status = line ? chat_data_read(r, line, &d, store, &(chat_counts){ 0 }, &why)
                              : why.code;
    json_section_end();
    if (status == WEFT_OK)
        status = chat_data_encode(r, e, &d, &out, &why);
    if (status == WEFT_ENOMEM || status == WEFT_ELIMIT) {
        *err = why;
        return status;
    }
    if (status != WEFT_OK || d.n_learned == 0)
        return WEFT_OK;
    const chat_learned *l = &d.learned[d.n_learned - 1];
    size_t at = 0;
    while (at < out.n && out.from[at] < l->to)
        at++;
    at = find_turn_end(r, &out, at, l->until);
    r->turn_end = at < out.n ? (int32_t)out.id[at] : -1;
    return WEFT_OK;
}

weft_status chat_reader_begin(chat_reader *r, const chat *c, const tokenizer *t, encoder *e, mem *m,
                              weft_error *err)
{
    arena store;
    *r = (chat_reader){ .chat = c, .tokenizer = t, .mem = m, .turn_end = -1 };
    r->how = (chat_options){ .no_generation_prompt = true, .now = CHAT_DATA_NOW };
    if (t->bos >= 0) {
        r->how.bos = vocab_text(&t->vocab, (uint32_t)t->bos);
        r->how.n_bos = t->vocab.length[t->bos];
    }
    if (t->eos >= 0) {
        r->how.eos = vocab_text(&t->vocab, (uint32_t)t->eos);
        r->how.n_eos = t->vocab.length[t->eos];
    }
    if (!chat_gated(c, t, &r->gated, &r->n_gated, m, err))
        return err->code;
    weft_status status = arena_init(&store, ARENA_GROWING, m, 0, "a conversation", err);
    if (status == WEFT_OK)
        status = probe_turn_end(r, e, &store, err);
    arena_free(&store);
    return status;
}

void chat_reader_end(chat_reader *r)
{
    scratch_free(&r->gated, r->mem);
}
