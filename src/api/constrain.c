/* constrain.c - the public functions of grammars and constraints: check, translate, delegate. */
#include "api/api.h"
#include "engine/sampler.h"
#include "text/constrain/constraint.h"
#include "text/constrain/grammar.h"
#include "text/constrain/tools.h"
#include "text/tokenizer.h"

#include <string.h>

#define GRAMMAR_BYTES ((size_t)64 << 20) /* with all that is kept to make masks fast */

struct weft_grammar {
    mem mem;
    constraint_set *set;
    weft_tokenizer *tokenizer; /* referenced */
    holders holders;
};

struct weft_constraint {
    constraint *inner;
    weft_grammar *grammar; /* referenced */
};

/* ---- grammars -------------------------------------------------------------------------------- */

static weft_status check_grammar_options(const weft_grammar_options *o, weft_error *err)
{
    if (o->n_end < 0 || o->n_end > WEFT_MAX_END || (o->n_end > 0 && !o->ends))
        return weft_fail(err, WEFT_EINVAL, "n_end is %d, expected 0 to %d%s", o->n_end,
                         WEFT_MAX_END, o->ends ? "" : ", and ends");
    if (o->think_begin && !o->think_end)
        return weft_fail(err, WEFT_EINVAL, "think_begin is set, but think_end is NULL");
    if (o->thinking && !o->think_end)
        return weft_fail(err, WEFT_EINVAL, "thinking is set, but think_end is NULL");
    return WEFT_OK;
}

/* What a grammar is made from: a text, or the tools of a template. */
typedef struct grammar_source {
    weft_grammar_kind kind;
    const char *text;
    size_t n;
    const chat *chat; /* or NULL */
    tool_rules rules;
} grammar_source;

static grammar *read_chat_tools(weft_grammar *g, const grammar_source *from, weft_error *err)
{
    tool_list list;
    if (tools_read(&list, from->text, from->n, &g->mem, err) != WEFT_OK)
        return NULL;
    grammar *made = tools_grammar(&list, &from->chat->calls, tokenizer_inside(g->tokenizer),
                                  &from->rules, &g->mem, err);
    tools_free(&list);
    return made;
}

static grammar *read_text(weft_grammar *g, const grammar_source *from,
                          const weft_grammar_options *o, weft_error *err)
{
    const weft_grammar_kind kind = from->kind;
    const char *text = from->text;
    const size_t n = from->n;
    const tokenizer *t = tokenizer_inside(g->tokenizer);
    const schema_options schema = { .lenient = o->ignored != NULL,
                                    .openai_strict = o->openai_strict,
                                    .indent = o->indent,
                                    .ignored = o->ignored,
                                    .user = o->ud };
    return kind == WEFT_GRAMMAR_REGEX  ? pattern_read(&g->mem, text, n, NULL, err)
           : kind == WEFT_GRAMMAR_GBNF ? gbnf_read(&g->mem, text, n, t, NULL, err)
                                       : schema_read(&g->mem, text, n, &schema, NULL, err);
}

static grammar *read_grammar(weft_grammar *g, const grammar_source *from,
                             const weft_grammar_options *o, weft_error *err)
{
    const tokenizer *t = tokenizer_inside(g->tokenizer);
    grammar *made = from->chat ? read_chat_tools(g, from, err) : read_text(g, from, o, err);
    if (!made || !o->think_end ||
        grammar_think(made, o->think_begin, o->think_end, o->thinking, t, err) == WEFT_OK)
        return made;
    grammar_free(made);
    return NULL;
}

static bool make_grammar(weft_grammar *g, grammar_source *from, const weft_grammar_options *o,
                         weft_error *err)
{
    const int32_t eos = tokenizer_inside(g->tokenizer)->eos;
    const int32_t *ends = o->model ? o->model->stop_ids.id : o->ends ? o->ends : &eos;
    const int n_end = o->model ? o->model->stop_ids.n : o->ends ? o->n_end : eos >= 0;
    const struct token_trie *tokens = tokenizer_tokens(g->tokenizer, err);
    from->rules.ends = ends;
    from->rules.n_end = n_end;
    grammar *made = tokens ? read_grammar(g, from, o, err) : NULL;
    g->set = made ? constraint_set_new(&g->mem, made, tokens, ends, n_end, err) : NULL;
    return g->set != NULL;
}

static weft_grammar *new_grammar(weft_tokenizer *t, grammar_source *from,
                                 const weft_grammar_options *options, weft_error *err)
{
    weft_grammar_options o;
    if (!read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_grammar_options", err) ||
        check_grammar_options(&o, err) != WEFT_OK)
        return NULL;
    weft_grammar *g = mem_zalloc(tokenizer_memory(t), 1, sizeof *g, "a grammar", err);
    if (!g)
        return NULL;
    mem_init(&g->mem, GRAMMAR_BYTES, &tokenizer_memory(t)->hooks);
    g->mem.within = tokenizer_memory(t);
    g->tokenizer = t;
    hold_tokenizer(t);
    if (make_grammar(g, from, &o, err))
        return g;
    weft_grammar_free(g);
    return NULL;
}

weft_grammar *weft_grammar_new(weft_tokenizer *t, weft_grammar_kind kind, const char *text,
                               size_t n, const weft_grammar_options *options, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!t || !text || (unsigned)kind > WEFT_GRAMMAR_SCHEMA) {
        weft_fail(err, WEFT_EINVAL,
                  !t      ? "no tokenizer given"
                  : !text ? "no text given"
                          : "no such kind of grammar");
        return NULL;
    }
    return new_grammar(t, &(grammar_source){ .kind = kind, .text = text, .n = n }, options, err);
}

weft_grammar *weft_tool_grammar_new(weft_tokenizer *t, const weft_template *chat_template,
                                    const char *tools, size_t n, const weft_tool_options *options,
                                    const weft_grammar_options *grammar_options, weft_error *err)
{
    weft_tool_options o;
    weft_error local;
    err = begin_call(err, &local);
    if (!t || !chat_template || !tools) {
        weft_fail(err, WEFT_EINVAL, "no %s given",
                  !t               ? "tokenizer"
                  : !chat_template ? "template"
                                   : "tools");
        return NULL;
    }
    if (!read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_tool_options", err))
        return NULL;
    grammar_source from = { .text = tools,
                            .n = n,
                            .chat = template_inside(chat_template),
                            .rules = {
                                .required = o.required, .single = o.single, .only = o.only } };
    return new_grammar(t, &from, grammar_options, err);
}

void weft_grammar_free(weft_grammar *g)
{
    if (!g || !let_go(&g->holders))
        return;
    weft_tokenizer *t = g->tokenizer;
    constraint_set_free(g->set);
    mem_free(tokenizer_memory(t), g);
    weft_tokenizer_free(t);
}

/* ---- constraints ----------------------------------------------------------------------------- */

/* Takes the inner constraint, or frees it. */
static weft_constraint *wrap(constraint *inner, weft_grammar *g, weft_error *err)
{
    weft_constraint *c = inner ? mem_zalloc(&g->mem, 1, sizeof *c, "a constraint", err) : NULL;
    if (!c) {
        constraint_free(inner);
        return NULL;
    }
    *c = (weft_constraint){ inner, g };
    hold(&g->holders);
    return c;
}

weft_constraint *weft_constraint_new(weft_grammar *g, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!g) {
        weft_fail(err, WEFT_EINVAL, "no grammar given");
        return NULL;
    }
    return wrap(constraint_new(g->set, err), g, err);
}

weft_constraint *weft_constraint_clone(const weft_constraint *c, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!c) {
        weft_fail(err, WEFT_EINVAL, "no constraint given");
        return NULL;
    }
    return wrap(constraint_clone(c->inner, err), c->grammar, err);
}

void weft_constraint_free(weft_constraint *c)
{
    if (!c)
        return;
    weft_grammar *g = c->grammar;
    constraint_free(c->inner);
    mem_free(&g->mem, c);
    weft_grammar_free(g);
}

constraint *constraint_inside(const weft_constraint *c)
{
    return c->inner;
}

bool weft_constraint_allows(weft_constraint *c, int32_t id)
{
    weft_error err = { 0 };
    return c && constraint_allows(c->inner, id, &err);
}

weft_status weft_constraint_mask(weft_constraint *c, uint64_t *bits, int64_t n_vocab,
                                 weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!c || !bits || n_vocab < 1 || n_vocab > INT32_MAX)
        return weft_fail(err, WEFT_EINVAL, "no %s given",
                         !c      ? "constraint"
                         : !bits ? "place for the mask"
                                 : "tokens");
    return constraint_mask(c->inner, bits, n_vocab, err);
}

weft_status weft_constraint_accept(weft_constraint *c, int32_t id, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    return c ? constraint_accept(c->inner, id, err)
             : weft_fail(err, WEFT_EINVAL, "no constraint given");
}

int64_t weft_constraint_mark(const weft_constraint *c)
{
    return c ? constraint_length(c->inner) : -1;
}

weft_status weft_constraint_rewind(weft_constraint *c, int64_t mark, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!c || mark < 0 || mark > constraint_length(c->inner))
        return weft_fail(err, WEFT_EINVAL,
                         c ? "mark %lld is not among the %lld tokens" : "no constraint given",
                         (long long)mark, c ? (long long)constraint_length(c->inner) : 0);
    constraint_rewind(c->inner, mark);
    return WEFT_OK;
}

void weft_constraint_reset(weft_constraint *c)
{
    if (c)
        constraint_rewind(c->inner, 0);
}

size_t weft_constraint_forced(weft_constraint *c, char *bytes, size_t size)
{
    weft_error err = { 0 };
    return c && bytes ? constraint_forced(c->inner, bytes, size, &err) : 0;
}

bool weft_constraint_may_end(const weft_constraint *c)
{
    return c && constraint_may_end(c->inner);
}

bool weft_constraint_done(const weft_constraint *c)
{
    return c && constraint_done(c->inner);
}

weft_status weft_sampler_constrain(weft_sampler *s, weft_constraint *c, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!s)
        return weft_fail(err, WEFT_EINVAL, "no sampler given");
    sampler_inside(s)->constraint = c ? c->inner : NULL;
    return WEFT_OK;
}
