/* grammars.c - compiles and keeps grammars; see grammars.h. */
#include "grammars.h"

#include <string.h>

static bool refuse_grammar(const request *r, const weft_error *err, refusal *why)
{
    const bool ours = err->code == WEFT_ENOMEM;
    const char *param = r->form.text ? r->form.param : "tools";
    return refuse(why, ours ? 503 : 400, ours ? "server_error" : INVALID_REQUEST, NULL, param,
                  "%s: %s", param, err->message);
}

/* Completions are plain text; in a conversation the model may think first. */
static bool may_think(const request *r, const grammar_place *at)
{
    return at->template && r->endpoint != ENDPOINT_COMPLETIONS;
}

/* All that decides what the grammar is. */
static bool write_key(const request *r, const grammar_place *at, bytes *b)
{
    bytes_format(b, "%d %d %d %d %d %d %s\n", r->form.text ? (int)r->form.kind : -1, r->form.strict,
                 may_think(r, at), at->inside, r->must_call, r->single_call,
                 r->only_tool ? r->only_tool : "");
    if (r->form.text)
        bytes_add(b, r->form.text, r->form.n);
    else
        bytes_add(b, r->tools, r->n_tools);
    return !b->failed;
}

static weft_grammar *compile(const request *r, const grammar_place *at, weft_error *err)
{
    weft_template_info info = { .struct_size = sizeof info };
    if (may_think(r, at))
        weft_template_get_info(at->template, &info);
    const weft_grammar_options o = { .struct_size = sizeof o,
                                     .model = at->model,
                                     .think_begin = info.think_begin,
                                     .think_end = info.think_end,
                                     .thinking = at->inside,
                                     .openai_strict = r->form.strict };
    if (r->form.text)
        return weft_grammar_new(at->tokenizer, r->form.kind, r->form.text, r->form.n, &o, err);
    const weft_tool_options tools = { .struct_size = sizeof tools,
                                      .required = r->must_call,
                                      .single = r->single_call,
                                      .only = r->only_tool };
    return weft_tool_grammar_new(at->tokenizer, at->template, r->tools, r->n_tools, &tools, &o,
                                 err);
}

static kept_grammar *find(grammars *g, const bytes *key)
{
    for (int i = 0; i < N_GRAMMAR; i++)
        if (g->at[i].grammar && g->at[i].n_key == key->n &&
            memcmp(g->at[i].key, key->at, key->n) == 0)
            return &g->at[i];
    return NULL;
}

static void forget(kept_grammar *k)
{
    memory_give(k->key);
    weft_grammar_free(k->grammar);
    *k = (kept_grammar){ 0 };
}

/* Takes the key's bytes. */
static kept_grammar *keep(grammars *g, bytes *key, weft_grammar *grammar)
{
    kept_grammar *oldest = &g->at[0];
    for (int i = 1; i < N_GRAMMAR; i++)
        if (g->at[i].used < oldest->used)
            oldest = &g->at[i];
    forget(oldest);
    *oldest = (kept_grammar){ .key = key->at, .n_key = key->n, .grammar = grammar };
    *key = (bytes){ 0 };
    return oldest;
}

weft_constraint *grammars_constraint(grammars *g, const request *r, const grammar_place *at,
                                     refusal *why)
{
    weft_error err;
    bytes key = { 0 };
    if (!write_key(r, at, &key)) {
        bytes_free(&key);
        refuse(why, 503, "server_error", "no_memory", NULL, "no memory for the request");
        return NULL;
    }
    kept_grammar *k = find(g, &key);
    if (!k) {
        weft_grammar *made = compile(r, at, &err);
        k = made ? keep(g, &key, made) : NULL;
    }
    bytes_free(&key);
    if (k)
        k->used = ++g->clock;
    weft_constraint *c = k ? weft_constraint_new(k->grammar, &err) : NULL;
    if (!c)
        refuse_grammar(r, &err, why);
    return c;
}

void grammars_free(grammars *g)
{
    for (int i = 0; i < N_GRAMMAR; i++)
        forget(&g->at[i]);
}
