/* steps.c - fills in one public step after the other and passes it to the caller. */
#include "text/steps.h"

#include <string.h>

void steps_free(step_watch *w)
{
    scratch_free(&w->room, w->mem);
}

static weft_piece piece_of(const step_watch *w, uint32_t id, size_t from, size_t to)
{
    return (weft_piece){ id < w->n_id ? (int32_t)id : -1, (uint32_t)from, (uint32_t)to, 0 };
}

/* Only the word stays for the steps that follow. */
void steps_show(step_watch *w, weft_step_kind kind)
{
    weft_tokenizer_step *s = &w->next;
    s->struct_size = sizeof *s;
    s->kind = kind;
    s->pieces = s->n_piece > 0 ? w->room.data : NULL;
    if (!w->failed && !w->fn(w->ud, s)) {
        w->failed = true;
        weft_fail(w->err, WEFT_ESTOPPED, "stopped by the caller");
    }
    *s = (weft_tokenizer_step){
        .type = s->type, .span = s->span, .text = s->text, .length = s->length
    };
}

void steps_piece(step_watch *w, uint32_t id, size_t from, size_t to, double score)
{
    const size_t n = w->next.n_piece;
    weft_piece *p = w->failed ? NULL : scratch_grow(&w->room, (n + 1) * sizeof *p, w->mem, w->err);
    w->failed = !p;
    if (!p)
        return;
    p[n] = piece_of(w, id, from, to);
    p[n].score = score;
    w->next.n_piece = n + 1;
}

static void about(step_watch *w, const piece *input, const char *text, size_t length)
{
    w->next.span = (weft_span){ piece_from(input, 0), piece_to(input, input->n - 1) };
    w->next.text = text;
    w->next.length = length;
}

void steps_normalized(step_watch *w, const piece *input, const piece *text)
{
    about(w, input, text->s, text->n);
    steps_show(w, WEFT_STEP_NORMALIZED);
}

void steps_added(step_watch *w, const piece *p, size_t begin, size_t end, uint32_t id)
{
    const piece cut = piece_cut(p, begin, end);
    about(w, &cut, cut.s, cut.n);
    w->next.piece = piece_of(w, id, 0, cut.n);
    steps_show(w, WEFT_STEP_ADDED);
}

void steps_word(step_watch *w, const piece *p)
{
    about(w, p, p->s, p->n);
    steps_show(w, WEFT_STEP_WORD);
}

void steps_pair(step_watch *w, const uint32_t id[2], const uint32_t at[3], uint32_t rank,
                uint32_t to)
{
    weft_tokenizer_step *s = &w->next;
    s->left = piece_of(w, id[0], at[0], at[1]);
    s->right = piece_of(w, id[1], at[1], at[2]);
    s->piece = piece_of(w, to, at[0], at[2]);
    s->rank = w->score ? -1 : (int64_t)rank;
    s->score = w->score ? (double)w->score[to] : 0;
}

void steps_path(step_watch *w, double sum)
{
    w->next.score = sum;
    steps_show(w, WEFT_STEP_PATH);
}

void steps_match(step_watch *w, uint32_t id, size_t from, size_t to)
{
    w->next.piece = piece_of(w, id, from, to);
    steps_show(w, WEFT_STEP_MATCH);
}

void steps_tokens(step_watch *w, const weft_tokens *tokens)
{
    w->next = (weft_tokenizer_step){ .tokens = tokens };
    steps_show(w, WEFT_STEP_TOKENS);
}
