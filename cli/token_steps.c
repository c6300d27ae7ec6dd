/* token_steps.c - prints the steps of weft_tokenizer_steps.
 *
 *     word        " cat"  3-7
 *       symbols   " " "c" "a" "t"
 *       merge     "a" "t"  rank 8: " " "c" "at"
 *       tokens    3797 " cat" */
#include "token_steps.h"

#include "json.h"

static const char *const names[] = { "normalized", "added", "word",   "symbols", "merge",
                                     "path",       "match", "pieces", "tokens" };

/* ---- lines ----------------------------------------------------------------------------------- */

static void print_bytes_of(const weft_tokenizer_step *s, const weft_piece *p)
{
    cli_print_bytes(s->text + p->from, p->to - p->from);
}

/* A token as the file spells it. */
static void print_token(const weft_tokenizer *t, int32_t id)
{
    size_t n = 0;
    const char *token = weft_tokenizer_token(t, id, &n);
    if (!token) {
        fputs("none", stdout);
        return;
    }
    printf("%d ", (int)id);
    cli_print_bytes(token, n);
}

static void print_all(const weft_tokenizer_step *s)
{
    for (size_t i = 0; i < s->n_piece; i++) {
        putchar(' ');
        print_bytes_of(s, &s->pieces[i]);
    }
}

static void print_merge(const weft_tokenizer_step *s)
{
    putchar(' ');
    print_bytes_of(s, &s->left);
    putchar(' ');
    print_bytes_of(s, &s->right);
    if (s->rank >= 0)
        printf("  rank %lld", (long long)s->rank);
    else
        printf("  score %g", s->score);
    if (s->n_piece > 0) {
        putchar(':');
        print_all(s);
    }
}

static void print_path(const weft_tokenizer_step *s)
{
    for (size_t i = 0; i < s->n_piece; i++) {
        fputs(i > 0 ? "  " : " ", stdout);
        print_bytes_of(s, &s->pieces[i]);
        printf(" %g", s->pieces[i].score);
    }
    printf("  sum %g", s->score);
}

static void print_match(const weft_tokenizer *t, const weft_tokenizer_step *s)
{
    putchar(' ');
    print_bytes_of(s, &s->piece);
    fputs(": ", stdout);
    print_token(t, s->piece.id);
}

/* The tokens of a word, or of the whole text. */
static void print_tokens(const weft_tokenizer *t, const weft_tokenizer_step *s)
{
    for (size_t i = 0; i < s->n_piece; i++) {
        fputs(i > 0 ? "  " : " ", stdout);
        print_token(t, s->pieces[i].id);
    }
    for (int64_t i = 0; s->tokens && i < s->tokens->n; i++)
        printf("%c%d", i > 0 ? ',' : ' ', (int)s->tokens->ids[i]);
}

static bool print_step(void *ud, const weft_tokenizer_step *s)
{
    const weft_tokenizer *t = ud;
    const bool inner = s->kind > WEFT_STEP_WORD && s->kind < WEFT_STEP_TOKENS;
    const char *name = s->kind == WEFT_STEP_PIECES ? "tokens" : names[s->kind];
    printf("%s%-*s", inner ? "  " : "", inner ? 9 : 11, s->tokens ? "ids" : name);
    if (s->kind <= WEFT_STEP_WORD) {
        putchar(' ');
        cli_print_bytes(s->text, s->length);
        printf("  %u-%u", s->span.from, s->span.to);
    }
    if (s->kind == WEFT_STEP_ADDED) {
        fputs(": ", stdout);
        print_token(t, s->piece.id);
    }
    if (s->kind == WEFT_STEP_SYMBOLS)
        print_all(s);
    if (s->kind == WEFT_STEP_MERGE)
        print_merge(s);
    if (s->kind == WEFT_STEP_PATH)
        print_path(s);
    if (s->kind == WEFT_STEP_MATCH)
        print_match(t, s);
    if (s->kind >= WEFT_STEP_PIECES)
        print_tokens(t, s);
    putchar('\n');
    return true;
}

weft_status token_steps_print(const weft_tokenizer *t, const char *text, size_t n,
                              const weft_tokenize_options *o, weft_error *err)
{
    return weft_tokenizer_steps(t, text, n, o, print_step, (void *)t, err);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_span(uint32_t from, uint32_t to)
{
    cli_json_list("span");
    cli_json_int(NULL, from);
    cli_json_int(NULL, to);
    cli_json_end();
}

/* Its span is in the word. */
static void json_piece(const char *key, const weft_tokenizer_step *s, const weft_piece *p)
{
    cli_json_object(key);
    if (p->id >= 0)
        cli_json_int("id", p->id);
    else
        cli_json_null("id");
    cli_json_text("text", s->text + p->from, p->to - p->from);
    json_span(p->from, p->to);
    if (s->kind == WEFT_STEP_PATH)
        cli_json_real("score", p->score, 9);
    cli_json_end();
}

static void json_merge(const weft_tokenizer_step *s)
{
    json_piece("left", s, &s->left);
    json_piece("right", s, &s->right);
    json_piece("piece", s, &s->piece);
    if (s->rank >= 0)
        cli_json_int("rank", s->rank);
    else
        cli_json_real("score", s->score, 9);
}

static void json_tokens(const weft_tokens *k)
{
    cli_json_end(); /* of the steps */
    cli_json_int("n", k->n);
    cli_json_ids("ids", k->ids, k->n);
    cli_json_spans("offsets", k->spans, k->n);
    cli_json_end();
}

static bool json_step(void *ud, const weft_tokenizer_step *s)
{
    (void)ud;
    if (s->kind == WEFT_STEP_TOKENS) {
        json_tokens(s->tokens);
        return true;
    }
    cli_json_object(NULL);
    cli_json_string("step", names[s->kind]);
    if (s->type == 1)
        cli_json_int("type", 1);
    if (s->kind <= WEFT_STEP_WORD) {
        cli_json_text("text", s->text, s->length);
        cli_json_hex("bytes", s->text, s->length);
        json_span(s->span.from, s->span.to);
    }
    if (s->kind == WEFT_STEP_ADDED)
        cli_json_int("id", s->piece.id);
    if (s->kind == WEFT_STEP_MERGE)
        json_merge(s);
    if (s->kind == WEFT_STEP_PATH)
        cli_json_real("score", s->score, 9);
    if (s->kind == WEFT_STEP_MATCH)
        json_piece("piece", s, &s->piece);
    if (s->n_piece > 0) {
        cli_json_list("pieces");
        for (size_t i = 0; i < s->n_piece; i++)
            json_piece(NULL, s, &s->pieces[i]);
        cli_json_end();
    }
    cli_json_end();
    return true;
}

static bool nothing(void *ud, const weft_tokenizer_step *s)
{
    (void)ud, (void)s;
    return true;
}

weft_status token_steps_json(const weft_tokenizer *t, const char *text, size_t n,
                             const weft_tokenize_options *o, weft_error *err)
{
    const weft_status status = weft_tokenizer_steps(t, text, n, o, nothing, NULL, err);
    if (status != WEFT_OK)
        return status;
    cli_json_object(NULL);
    cli_json_list("steps");
    return weft_tokenizer_steps(t, text, n, o, json_step, NULL, err);
}
