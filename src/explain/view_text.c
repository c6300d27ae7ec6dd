/* view_text.c - from text to what enters the first block: tokens, embeddings, positions. */
#include "explain/nearest.h"
#include "explain/sines.h"
#include "explain/views.h"
#include "ops/attention_tile.h"

#include <stdio.h>
#include <string.h>

/* ---- tokens ---------------------------------------------------------------------------------- */

static void put_hex(document *d, const char *key, const char *bytes, size_t n)
{
    char text[2 * 64 + 1] = "";
    n = n < 64 ? n : 64;
    for (size_t i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned)(unsigned char)bytes[i]);
    doc_text(d, key, text);
}

#define MOST_STEPS 1000 /* of a long text, those of its beginning */

typedef struct steps_shown {
    document *d;
    int n;
} steps_shown;

static const char *step_name(weft_step_kind kind)
{
    switch (kind) {
    case WEFT_STEP_NORMALIZED:
        return "normalized";
    case WEFT_STEP_ADDED:
        return "added";
    case WEFT_STEP_WORD:
        return "word";
    case WEFT_STEP_SYMBOLS:
        return "symbols";
    case WEFT_STEP_MERGE:
        return "merge";
    case WEFT_STEP_PATH:
        return "path";
    case WEFT_STEP_MATCH:
        return "match";
    case WEFT_STEP_PIECES:
        return "pieces";
    case WEFT_STEP_TOKENS:
        return "tokens";
    }
    return "";
}

static bool write_step(void *ud, const weft_tokenizer_step *t)
{
    steps_shown *to = ud;
    document *d = to->d;
    const bool one = t->kind == WEFT_STEP_MATCH || t->kind == WEFT_STEP_ADDED;
    if (t->kind == WEFT_STEP_TOKENS || to->n++ >= MOST_STEPS)
        return true;
    doc_object(d, NULL);
    doc_text(d, "kind", step_name(t->kind));
    if (t->kind <= WEFT_STEP_WORD)
        doc_bytes(d, "text", t->text, t->length);
    if (t->kind == WEFT_STEP_MERGE)
        doc_int(d, "rank", t->rank);
    if (t->kind == WEFT_STEP_PATH)
        doc_real(d, "score", t->score);
    doc_list(d, "pieces");
    for (size_t i = 0; i < (one ? 1 : t->n_piece); i++) {
        const weft_piece *p = one ? &t->piece : &t->pieces[i];
        doc_object(d, NULL);
        doc_int(d, "id", p->id);
        if (t->kind != WEFT_STEP_ADDED)
            doc_bytes(d, "text", t->text + p->from, p->to - p->from);
        if (t->kind == WEFT_STEP_PATH)
            doc_real(d, "score", p->score);
        doc_end(d);
    }
    doc_end(d);
    doc_end(d);
    return true;
}

static void write_steps(const subject *s, document *d)
{
    steps_shown to = { .d = d };
    doc_list(d, "steps");
    if (s->steps(s, write_step, &to, d->b->err) != WEFT_OK)
        d->b->failed = true;
    doc_end(d);
}

const char *no_tokens(const subject *s)
{
    return s->model->d_feature > 0 ? "A picture is cut into patches, not into tokens. See view 20."
                                   : NULL;
}

static void put_tokens(const subject *s, document *d)
{
    if (s->tokenizer) {
        doc_object(d, "tokenizer");
        doc_text(d, "model", s->tokenizer->model);
        doc_text(d, "source", s->tokenizer->source);
        doc_int(d, "n_vocab", s->tokenizer->n_vocab);
        doc_bool(d, "byte_level", s->tokenizer->byte_level);
        doc_end(d);
    }
    doc_bool(d, "spans", s->spans);
    doc_list(d, "pieces");
    for (int64_t i = 0; i < s->n_token; i++) {
        const subject_token *t = &s->token[i];
        doc_object(d, NULL);
        if (t->spelled)
            doc_bytes(d, "spelled", t->spelled, t->n_spelled);
        doc_bool(d, "special", t->special);
        if (s->spans) {
            doc_int(d, "from", t->span.from);
            doc_int(d, "to", t->span.to);
            put_hex(d, "bytes", s->text + t->span.from, t->span.to - t->span.from);
        }
        doc_end(d);
    }
    doc_end(d);
    if (s->spans)
        write_steps(s, d);
}

void view_tokens(const subject *s, document *d)
{
    put_tokens(s, d);
    if (!s->source)
        return;
    doc_object(d, "source");
    put_tokens(s->source, d);
    if (s->source->text)
        doc_bytes(d, "text", s->source->text, s->source->n_text);
    doc_end(d);
}

/* ---- embeddings ------------------------------------------------------------------------------ */

/* The beginning of the names of tensors that are about this text. */
static const char *side_of(const subject *s)
{
    return s->model->n_layer_src == 0 ? "" : s->source ? "dec." : "enc.";
}

static bool is_of(const subject *s, const seen *t)
{
    const char *side = side_of(s);
    return strncmp(t->name, side, strlen(side)) == 0;
}

/* The first tensor that looks up rows of a table of this name, such as "position_embd". */
static const seen *looked_up(const subject *s, const char *stem)
{
    for (int64_t i = 0; i < s->seen->n; i++) {
        const seen *t = &s->seen->at[i];
        if (t->table && is_of(s, t) && strstr(t->name, stem))
            return t;
    }
    return NULL;
}

static const tensor *table_of(const seen *t)
{
    return t ? t->table : NULL;
}

static void put_table(document *d, const tensor *w)
{
    doc_object(d, "table");
    doc_text(d, "name", w->name);
    doc_text(d, "type", w->type->name);
    doc_int(d, "rows", rows(w));
    doc_int(d, "cols", cols(w));
    doc_end(d);
}

/* What happens before the first block, in order. A decoder makes keys of its source before. */
static void put_steps(const subject *s, document *d)
{
    int64_t i = 0;
    while (i < s->seen->n && (!is_of(s, &s->seen->at[i]) || s->seen->at[i].layer >= 0))
        i++;
    doc_list(d, "steps");
    for (; i < s->seen->n && s->seen->at[i].layer < 0; i++) {
        const seen *t = &s->seen->at[i];
        doc_object(d, NULL);
        doc_text(d, "name", t->name);
        doc_text(d, "op", t->op->name);
        doc_text(d, "formula", t->op->formula);
        doc_list(d, "reads");
        for (int k = 0; k < t->n_input; k++)
            doc_text(d, NULL, t->input[k]);
        doc_end(d);
        doc_tensor(d, "tensor", t);
        doc_end(d);
    }
    doc_end(d);
}

/* The distinct tokens of the text, the one that the page opens with first. */
static void ask(const subject *s, int64_t n_row, nearest *q)
{
    for (int64_t i = -1; i < s->n_token && q->n < MOST_ASKED; i++) {
        const int64_t id = s->token[i < 0 ? s->at_token : i].id;
        int k = 0;
        while (k < q->n && q->asked[k] != id)
            k++;
        if (k == q->n && id >= 0 && id < n_row)
            q->asked[q->n++] = id;
    }
}

static void put_nearest(const subject *s, const nearest *q, document *d)
{
    doc_list(d, "nearest");
    for (int a = 0; a < q->n; a++) {
        doc_object(d, NULL);
        doc_int(d, "id", q->asked[a]);
        doc_list(d, "tokens");
        for (int i = 0; i < q->n_best[a]; i++) {
            char name[64];
            const int64_t id = q->best[a][i].row;
            doc_object(d, NULL);
            doc_int(d, "id", id);
            doc_bytes(d, "text", name, s->spell(s->speller, (int32_t)id, name, sizeof name));
            doc_real(d, "cosine", (double)q->best[a][i].cosine);
            doc_end(d);
        }
        doc_end(d);
        doc_end(d);
    }
    doc_end(d);
}

static void put_embeddings(const subject *s, document *d)
{
    const tensor *w = table_of(looked_up(s, "token_embd"));
    nearest q = { 0 };
    put_steps(s, d);
    if (!w)
        return;
    put_table(d, w);
    ask(s, rows(w), &q);
    if (nearest_find(&q, w, s->model->kern, s->pool, d->b->mem, d->b->err) != WEFT_OK)
        d->b->failed = true;
    put_nearest(s, &q, d);
}

void view_embeddings(const subject *s, document *d)
{
    put_embeddings(s, d);
    if (s->source) {
        doc_object(d, "source");
        put_embeddings(s->source, d);
        doc_end(d);
    }
}

/* ---- positions ------------------------------------------------------------------------------- */

/* The first layer that reads this text adds a number for the distance to each score; or NULL. */
static const attn_bias *relative_of(const subject *s)
{
    const seen *scores = s->layer[s->source ? s->model->n_layer_src : 0].scores;
    return scores && scores->attention.bias.table ? &scores->attention.bias : NULL;
}

const char *no_position_table(const subject *s)
{
    if (table_of(looked_up(s, "position_embd")) || relative_of(s))
        return NULL;
    return s->model->rope.n_rot > 0
               ? "No table of positions is added to the embeddings: this model rotates queries and "
                 "keys by their positions instead, in each layer. See view 5."
               : "This model adds no table of positions to the embeddings.";
}

#define MOST_SHOWN  128 /* rows and columns of a table that a page draws */
#define MOST_TESTED 512 /* rows that are tested for sines */

/* Evenly spread indices of n, at most MOST_SHOWN; returns their number. */
static int64_t spread(int64_t n, int64_t *index)
{
    const int64_t shown = n < MOST_SHOWN ? n : MOST_SHOWN;
    for (int64_t i = 0; i < shown; i++)
        index[i] = i * n / shown;
    return shown;
}

static void put_indices(document *d, const char *key, const int64_t *index, int64_t n)
{
    doc_list(d, key);
    for (int64_t i = 0; i < n; i++)
        doc_int(d, NULL, index[i]);
    doc_end(d);
}

static void put_samples(const tensor *w, real *row_of, float *shown, document *d)
{
    int64_t at[MOST_SHOWN], column[MOST_SHOWN];
    const int64_t n = spread(rows(w), at), n_column = spread(cols(w), column);
    for (int64_t i = 0; i < n; i++) {
        weight_row(w, at[i], row_of);
        for (int64_t k = 0; k < n_column; k++)
            shown[i * n_column + k] = (float)row_of[column[k]];
    }
    put_indices(d, "positions", at, n);
    put_indices(d, "columns", column, n_column);
    doc_floats(d, "numbers", shown, n * n_column);
}

/* The layout that fits best, and its residuals when moved by 1, 2, 4, 8. */
static void put_sines(const tensor *w, real *table, document *d)
{
    static const char *const names[N_SINES] = { "interleaved", "halves", "fairseq" };
    const int64_t T = rows(w) < MOST_TESTED ? rows(w) : MOST_TESTED;
    sine_layout best = SINES_INTERLEAVED;
    for (int64_t i = 0; i < T; i++)
        weight_row(w, i, table + i * cols(w));
    for (sine_layout l = best; l < N_SINES; l++)
        if (sine_residual(table, T, cols(w), l, 1) < sine_residual(table, T, cols(w), best, 1))
            best = l;
    doc_object(d, "sines");
    doc_text(d, "layout", names[best]);
    doc_int(d, "tested", T);
    doc_list(d, "residual");
    for (int64_t k = 1; k <= 8; k *= 2)
        doc_real(d, NULL, sine_residual(table, T, cols(w), best, k));
    doc_end(d);
    doc_end(d);
}

static void put_positions(const subject *s, document *d)
{
    const seen *t = looked_up(s, "position_embd");
    const tensor *w = table_of(t);
    mem *m = d->b->mem;
    real *table = mem_zalloc(m, MOST_TESTED, (size_t)cols(w) * sizeof *table, "positions",
                             d->b->err);
    float *shown = mem_zalloc(m, MOST_SHOWN * MOST_SHOWN, sizeof *shown, "positions", d->b->err);
    put_table(d, w);
    doc_tensor(d, "text", t);
    d->b->failed = d->b->failed || !table || !shown;
    if (table && shown) {
        put_samples(w, table, shown, d);
        put_sines(w, table, d);
    }
    mem_free(m, table);
    mem_free(m, shown);
}

#define MOST_DISTANCES 160 /* to each side of a query */

/* T5's numbers of all heads, for every distance j - i. */
static void put_relative(const attn_bias *b, document *d)
{
    const int64_t far = b->max_distance < MOST_DISTANCES ? b->max_distance + 1 : MOST_DISTANCES;
    const int64_t last = b->two_sided ? far : 0, H = cols(b->table);
    mem *m = d->b->mem;
    real *row_of = mem_zalloc(m, (size_t)H, sizeof *row_of, "positions", d->b->err);
    float *all = mem_zalloc(m, (size_t)((far + last + 1) * H), sizeof *all, "positions", d->b->err);
    d->b->failed = d->b->failed || !row_of || !all;
    doc_object(d, "relative");
    doc_text(d, "name", b->table->name);
    doc_int(d, "n_bucket", rows(b->table));
    doc_int(d, "n_head", H);
    doc_bool(d, "two_sided", b->two_sided);
    doc_int(d, "max_distance", b->max_distance);
    doc_int(d, "first", -far);
    doc_list(d, "bucket");
    for (int64_t i = -far; i <= last && row_of && all; i++) {
        const int64_t at = bias_bucket(i, rows(b->table), b);
        weight_row(b->table, at, row_of);
        for (int64_t h = 0; h < H; h++)
            all[(i + far) * H + h] = (float)row_of[h];
        doc_int(d, NULL, at);
    }
    doc_end(d);
    if (all)
        doc_floats(d, "numbers", all, (far + last + 1) * H);
    doc_end(d);
    mem_free(m, row_of);
    mem_free(m, all);
}

static void put_all_positions(const subject *s, document *d)
{
    if (table_of(looked_up(s, "position_embd")))
        put_positions(s, d);
    if (relative_of(s))
        put_relative(relative_of(s), d);
}

void view_positions(const subject *s, document *d)
{
    put_all_positions(s, d);
    if (s->source && !no_position_table(s->source)) {
        doc_object(d, "source");
        put_all_positions(s->source, d);
        doc_end(d);
    }
}
