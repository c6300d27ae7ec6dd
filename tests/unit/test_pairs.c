/* Sources and targets of encoder-decoders: no part of a text is lost between them, the key
 * determines the spans, their lengths are T5's, and rows never exceed their buffer. */
#include "support.h"

#include "base/rng.h"
#include "train/pairs.h"

#include <math.h>

enum { EOS = 1, START = 0, MASK = 2, FIRST = 200, TEXT = 10, MOST = 600 };

typedef struct sample {
    batch b, src;
    batch_row row[MOST], src_row[MOST];
    sequence seq[2], src_seq[2];
} sample;

static pairing pairing_for(weft_objective objective)
{
    pairing p = {
        .encodes = true, .objective = objective, .start = START, .eos = EOS, .mask = MASK
    };
    for (p.n_sentinel = 0; p.n_sentinel < 32; p.n_sentinel++)
        p.sentinel[p.n_sentinel] = FIRST + p.n_sentinel;
    return p;
}

/* Ids TEXT, TEXT + 1 ... of one piece. */
static void make(sample *s, const pairing *p, int64_t n, int64_t n_prompt, uint64_t number)
{
    pair_writer w;
    s->b = (batch){ .row = s->row, .seq = s->seq };
    s->src = (batch){ .row = s->src_row, .seq = s->src_seq };
    pair_begin(&w, p, &s->b, &s->src, n, n_prompt, 7, number);
    for (int64_t i = 0; i < n; i++)
        pair_add(&w, (int32_t)(TEXT + i));
    pair_end(&w);
}

/* A decoder's inputs are the targets, shifted by one. */
static void check_rows(const sample *s, const pairing *p, int64_t n, int64_t n_prompt)
{
    assert_int_equal(s->b.n_wanted, pair_targets(p, n, n_prompt));
    assert_int_equal(s->b.n_row, s->b.n_wanted);
    assert_true(s->b.n_row <= n - 1 && s->src.n_row <= n - 1);
    for (int32_t i = 0; i < s->b.n_row; i++) {
        assert_int_equal(s->row[i].id, i > 0 ? s->row[i - 1].target : START);
        assert_true(s->row[i].pos == i && s->row[i].wanted && s->row[i].weight == 1);
    }
    for (int32_t i = 0; i < s->src.n_row; i++)
        assert_int_equal(s->src_row[i].pos, i);
    assert_true(s->b.n_seq == 0 || (s->seq[0].n == s->b.n_row && s->seq[0].source == 0 &&
                                    s->src_seq[0].n == s->src.n_row));
}

static void pairs(void **state)
{
    (void)state;
    sample s;
    const pairing p = pairing_for(WEFT_OBJECTIVE_PAIRS);
    for (int n = 2; n < 12; n++)
        for (int n_prompt = 1; n_prompt < n; n_prompt++) {
            make(&s, &p, n, n_prompt, 0);
            check_rows(&s, &p, n, n_prompt);
            assert_int_equal(s.src.n_row, n_prompt);
            for (int i = 0; i < n; i++)
                assert_int_equal(i < n_prompt ? s.src_row[i].id : s.row[i - n_prompt].target,
                                 TEXT + i);
        }
    make(&s, &p, 5, 0, 0);
    assert_int_equal(s.b.n_seq, 0);
}

/* Rebuilds the text: each sentinel of the source is replaced by the text after it in the target. */
static int restore(const sample *s, int32_t *text, int *n_span)
{
    int n = 0;
    *n_span = 0;
    for (int32_t i = 0; i < s->src.n_row - 1; i++) {
        const int32_t id = s->src_row[i].id;
        if (id < FIRST) {
            text[n++] = id;
            continue;
        }
        assert_int_equal(id, FIRST + (*n_span)++);
        int32_t at = 0;
        while (s->row[at].target != id)
            at++;
        for (at++; at < s->b.n_row && s->row[at].target < FIRST && s->row[at].target != EOS; at++)
            text[n++] = s->row[at].target;
    }
    return n;
}

static void spans(void **state)
{
    (void)state;
    sample s;
    int32_t text[MOST];
    int64_t lost[128] = { 0 }, all = 0;
    const pairing p = pairing_for(WEFT_OBJECTIVE_SPANS);
    for (int n = 1; n <= 170; n++)
        for (uint64_t k = 0; k < 20; k++) {
            int n_span;
            make(&s, &p, n, 0, k);
            check_rows(&s, &p, n, 0);
            if (n < 4) {
                assert_int_equal(s.b.n_seq, 0);
                continue;
            }
            assert_int_equal(s.src_row[s.src.n_row - 1].id, EOS);
            assert_int_equal(s.row[s.b.n_row - 1].target, EOS);
            assert_int_equal(s.src_row[0].id, TEXT); /* never begins with a span */
            assert_int_equal(restore(&s, text, &n_span), n - 2);
            for (int i = 0; i < n - 2; i++)
                assert_int_equal(text[i], TEXT + i);
            const int64_t n_lost = s.b.n_row - n_span - 1;
            assert_true(n_span >= 1 && n_lost >= n_span);
            if (n > 30)
                assert_true(fabs((double)n_lost / (n - 2) - 0.15) < 0.02);
        }
    for (uint64_t k = 0; k < 4000;
         k++) { /* every position is dropped equally often, except the first */
        make(&s, &p, 102, 0, 100 + k);
        for (int32_t i = 0; i < s.b.n_row; i++)
            if (s.row[i].target >= TEXT && s.row[i].target < FIRST)
                lost[s.row[i].target - TEXT]++, all++;
    }
    assert_int_equal(all, 15 * 4000);
    for (int i = 10; i < 90; i++)
        assert_true(lost[i] > 400 && lost[i] < 800);
}

/* Spans of T5 and masks of BART have three ids on average, exactly where possible, and all
 * lengths. */
static void spans_of_three(void **state)
{
    (void)state;
    sample s;
    static const struct {
        int n, n_span, n_mask;
    } cases[] = { { 20, 1, 2 }, { 40, 2, 4 }, { 100, 5, 10 }, { 160, 8, 16 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n_span = 0, n_mask = 0, lengths = 0;
        pairing p = pairing_for(WEFT_OBJECTIVE_SPANS);
        for (uint64_t k = 0; k < 50; k++) {
            make(&s, &p, cases[i].n + 2, 0, k);
            for (int32_t r = 0, length = 0; r < s.b.n_row; r++) {
                const bool ends = s.row[r].target >= FIRST || s.row[r].target == EOS;
                n_span += s.row[r].target >= FIRST;
                lengths |= ends && length > 0 ? 1 << (length < 30 ? length : 30) : 0;
                length = ends ? 0 : length + 1;
            }
        }
        assert_int_equal(n_span, 50 * cases[i].n_span);
        assert_true(cases[i].n_span < 2 || (lengths & 1 << 1 && lengths & 1 << 3 && lengths >> 5));
        p = pairing_for(WEFT_OBJECTIVE_INFILL);
        make(&s, &p, cases[i].n + 2, 0, 1);
        for (int32_t r = 0; r < s.src.n_row; r++)
            n_mask += s.src_row[r].id == MASK;
        assert_int_equal(n_mask, cases[i].n_mask);
    }
}

static void sentinels_are_enough(void **state)
{
    (void)state;
    sample s;
    pairing p = pairing_for(WEFT_OBJECTIVE_SPANS);
    p.n_sentinel = 3;
    make(&s, &p, 170, 0, 1);
    check_rows(&s, &p, 170, 0);
    for (int32_t i = 0; i < s.b.n_row; i++)
        assert_true(s.row[i].target < FIRST + 3);
}

static void infill(void **state)
{
    (void)state;
    sample s;
    const pairing p = pairing_for(WEFT_OBJECTIVE_INFILL);
    for (int n = 4; n <= 170; n++) {
        int n_mask = 0, kept = 0;
        make(&s, &p, n, 0, (uint64_t)n);
        check_rows(&s, &p, n, 0);
        for (int i = 0; i < n - 2; i++)
            assert_int_equal(s.row[i].target, TEXT + i);
        for (int32_t i = 0, before = 0; i < s.src.n_row; before = s.src_row[i++].id) {
            n_mask += s.src_row[i].id == MASK;
            kept += s.src_row[i].id >= TEXT;
            assert_false(i > 0 && s.src_row[i].id == MASK && before == MASK);
        }
        if (n > 30)
            assert_true(fabs(1 - (double)kept / (n - 2) - 0.3) < 0.03);
        assert_true(n_mask >= 1 && n_mask + kept + 1 == s.src.n_row);
    }
}

/* The same number gives the same spans, another number others. */
static void a_pure_function(void **state)
{
    (void)state;
    static sample a, b;
    const pairing p = pairing_for(WEFT_OBJECTIVE_SPANS);
    int same = 0;
    for (uint64_t k = 0; k < 50; k++) {
        make(&a, &p, 100, 0, k);
        make(&b, &p, 100, 0, k);
        for (int32_t i = 0; i < a.b.n_row; i++)
            assert_int_equal(a.row[i].target, b.row[i].target);
        make(&b, &p, 100, 0, k + 1);
        bool equal = true;
        for (int32_t i = 0; i < a.b.n_row; i++)
            equal = equal && a.row[i].target == b.row[i].target;
        same += equal;
    }
    assert_int_equal(same, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("pairs: the prompt is the source, the completion the target", pairs),
        TEST("spans: source and target together are the text", spans),
        TEST("spans: of three ids on average, and of many lengths", spans_of_three),
        TEST("spans: no more than there are sentinels", sentinels_are_enough),
        TEST("infill: spans become one mask, the target is the text", infill),
        TEST("spans: a pure function of key and number", a_pure_function),
    };
    return RUN(tests);
}
