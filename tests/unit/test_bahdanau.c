/* The origins of attention: Nadaraya-Watson pooling as in torch; Bahdanau's state as a row of the
 * cache; and a model that learns to reverse words by attending to them from the end. */
#include "golden.h"
#include "small_model.h"
#include "tensor/tape.h"

#include <math.h>

/* ---- Nadaraya-Watson ------------------------------------------------------------------------- */

enum { N = 7, M = 11, E = 2, D = 3 };

typedef struct regression {
    host host;
    run run;
    tape tape;
    batch nobody;
    tensor q, k, v, s;
    real number[4][64], grad[4][64], dy[N * D];
    const float *target;
} regression;

static tensor given(regression *g, int i, const float *from, int64_t n_row, int64_t n_col)
{
    for (int64_t k = 0; k < n_row * n_col; k++)
        g->number[i][k] = from ? (real)from[k] : 0;
    return (tensor){ .type = &dtype_real,
                     .n_dim = 2,
                     .shape = { n_row, n_col },
                     .stride = n_col,
                     .data = g->number[i],
                     .grad = g->grad[i],
                     .needs_grad = true,
                     .is_param = true,
                     .grad_taken = true };
}

static const float *numbers(const golden *g, const char *name)
{
    const stored *s = golden_tensor(g, name);
    assert_non_null(s);
    return (const float *)(const void *)s->data;
}

/* The mean squared error, and its slopes. */
static double regress(regression *g, kernel_kind kind, tensor **y)
{
    double loss = 0;
    tensor *all[] = { &g->q, &g->k, &g->v, &g->s };
    for (int i = 0; i < 4; i++)
        all[i]->grad_written = false;
    run_begin(&g->run, &g->nobody);
    tape_begin(&g->run, &g->tape);
    *y = kernel_pool(&g->run, &g->q, &g->k, &g->v, &g->s, kind, false);
    for (int i = 0; i < N * D; i++) {
        const real off = row(*y, 0)[i] - (real)g->target[i];
        g->dy[i] = 2 * off / (N * D);
        loss += (double)(off * off) / (N * D);
    }
    tape_backward(&g->run, *y, g->dy);
    return loss;
}

static void check_kernel(regression *g, golden *ref, kernel_kind kind, const char *name)
{
    char what[32];
    tensor *y;
    g->number[3][0] = (real)0.3;
    regress(g, kind, &y);
    const struct {
        const char *part;
        const real *at;
        int64_t n_row, n_col;
    } parts[] = { { "y", row(y, 0), N, D },
                  { "dq", g->grad[0], N, E },
                  { "dk", g->grad[1], M, E },
                  { "dv", g->grad[2], M, D } };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(what, sizeof what, "%s.%s", name, parts[i].part);
        golden_check(ref, what, parts[i].at, parts[i].n_col, numbers(ref, what), parts[i].n_row,
                     parts[i].n_col);
    }
    snprintf(what, sizeof what, "%s.s", name);
    const float *width = numbers(ref, what);
    snprintf(what, sizeof what, "%s.loss", name);
    const float *loss = numbers(ref, what);
    for (int step = 0; step < 10; step++) {
        assert_true(fabs((double)g->number[3][0] - (double)width[step]) < 1e-5);
        assert_true(fabs(regress(g, kind, &y) - (double)loss[step]) < 1e-5);
        g->number[3][0] -= (real)0.2 * g->grad[3][0];
    }
}

static void kernels_are_torchs(void **state)
{
    (void)state;
    static regression g;
    golden ref;
    weft_error err = { 0 };
    host_plain(&g.host);
    assert_int_equal(run_init(&g.run, &g.host.mem, 1 << 16, 1 << 16, 64, &err), WEFT_OK);
    g.run.kern = kernels_select(&g.host.log);
    golden_open(&ref, fixture("golden/kernel_pool.safetensors"), 1e-5);
    g.q = given(&g, 0, numbers(&ref, "q"), N, E);
    g.k = given(&g, 1, numbers(&ref, "k"), M, E);
    g.v = given(&g, 2, numbers(&ref, "v"), M, D);
    g.s = given(&g, 3, NULL, 1, 1);
    g.target = numbers(&ref, "target");
    check_kernel(&g, &ref, KERNEL_GAUSSIAN, "gaussian");
    check_kernel(&g, &ref, KERNEL_BOXCAR, "boxcar");
    check_kernel(&g, &ref, KERNEL_EPANECHNIKOV, "epanechnikov");
    print_message("%d tensors, worst %.1e in %s; ten steps of three widths\n", ref.compared,
                  ref.worst, ref.worst_name);
    assert_string_equal(ref.first, "");
    assert_int_equal(ref.compared, 12);
    golden_close(&ref);
    run_free(&g.run);
    assert_int_equal(g.host.mem.used, 0);
}

/* ---- the state is a row of the cache --------------------------------------------------------- */

static void words_of(int32_t *ids, int n, uint64_t who)
{
    for (int i = 0; i < n; i++)
        ids[i] = (int32_t)(3 + draw(700 + who, (uint64_t)i) % 56);
}

/* A text of 30 tokens in pieces of this size, and its last logits; rewinds to the given length in
 * between. */
static void say(engine *e, session *s, const int32_t *source, const int32_t *ids, int piece,
                int back, float *logits)
{
    weft_error err = { 0 };
    assert_int_equal(engine_encode(e, &(source_text){ s, source, 11 }, 1, &err), WEFT_OK);
    for (int at = 0; at < 30; at += piece)
        must_feed(s, ids + at, at + piece < 30 ? piece : 30 - at);
    if (back > 0) {
        assert_int_equal(session_rewind(s, back, &err), WEFT_OK);
        must_feed(s, ids + back, 30 - back);
    }
    memcpy(logits, s->logits, (size_t)e->model->n_vocab * sizeof *logits);
}

/* In the cache's own format: one by one, in pieces and after a rewind, the bits are the same.
 * Another format gives other bits, so the comparison can fail. */
static void state_is_a_row(void **state)
{
    (void)state;
    int32_t source[11], ids[30];
    float want[64], got[64], exact[64];
    words_of(source, 11, 1);
    words_of(ids, 30, 2);
    fixture_model f;
    open_golden(&f, "bahdanau");
    const size_t size = (size_t)f.model.n_vocab * sizeof *want;
    engine *e = make_engine(&f, (engine_options){ .n_thread = 2 });
    session *s = make_session(e);
    say(e, s, source, ids, 30, 0, exact);
    session_free(s);
    engine_free(e);
    e = make_engine(&f, (engine_options){ .n_thread = 2, .n_session = 2, .kv = &dtype_f16 });
    const cache_layout *l = &e->pages.layout;
    assert_int_equal(l->n_layer * l->n_stream, 2);
    assert_int_equal(l->stream[0].row_bytes + l->stream[1].row_bytes, 2 * (20 + 13));
    s = make_session(e);
    say(e, s, source, ids, 1, 0, want);
    assert_true(memcmp(want, exact, size) != 0);
    const int pieces[][2] = { { 30, 0 }, { 7, 0 }, { 4, 13 }, { 30, 1 } };
    for (int i = 0; i < 4; i++) {
        say(e, s, source, ids, pieces[i][0], pieces[i][1], got);
        assert_memory_equal(got, want, size);
    }
    session *fork = session_fork(s, NULL);
    assert_int_equal(session_rewind(fork, 29, NULL), WEFT_OK);
    must_feed(fork, ids + 29, 1);
    assert_memory_equal(fork->logits, want, size);
    session_free(fork);
    session_free(s);
    engine_free(e);
    close_llama(&f);
}

/* ---- reversed words -------------------------------------------------------------------------- */

/* Short words of few letters, learned within a second, so that emulators can run this too. */
enum { SHORTEST = 2, LETTERS = 6 };

static int longest(void)
{
    return quick() ? 3 : 4;
}

static int make_word(uint64_t i, char *word, char *reversed)
{
    const int n = SHORTEST + (int)(draw(800, i) % (longest() - SHORTEST + 1));
    for (int k = 0; k < n; k++)
        reversed[n - 1 - k] = word[k] = (char)('a' + draw(801 + i, (uint64_t)k) % LETTERS);
    word[n] = reversed[n] = '\0';
    return n;
}

static const char *write_words(uint64_t n_word)
{
    static char text[256 << 10];
    size_t n = 0;
    for (uint64_t i = 0; i < n_word; i++) {
        char word[16], reversed[16];
        make_word(i, word, reversed);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\t%s\n", word, reversed);
    }
    return temp_file("reverse.tsv", text, n);
}

typedef struct score {
    int64_t words, right, letters, same;
    int64_t near;  /* letters generated while attending to their position or one next to it */
    int64_t place; /* of the letter being generated */
} score;

static void look(void *ud, const weft_trace_tensor *t)
{
    score *s = ud;
    int64_t best = 0;
    if (strcmp(t->name, "dec.blk.0.cross_attention.probs") != 0 || t->rows != 1)
        return;
    for (int64_t j = 1; j < t->cols; j++)
        best = t->data[j] > t->data[best] ? j : best;
    s->near += llabs(best - s->place) <= 1;
}

static void reverse_word(weft_engine *e, const weft_tokenizer *t, int32_t start, uint64_t i,
                         score *s)
{
    weft_error err = { 0 };
    char word[16], reversed[16], letters[64] = { 0 };
    size_t at = 0;
    const int n = make_word(i, word, reversed);
    weft_tokens *source = weft_tokenizer_encode(t, word, strlen(word), NULL, &err);
    weft_session *says = weft_session_new(e, &err);
    assert_non_null(source);
    assert_int_equal(weft_session_source(says, source->ids, source->n, &err), WEFT_OK);
    int32_t id = start;
    for (int k = 0; k < n; k++) {
        s->place = n - 1 - k;
        assert_int_equal(weft_session_eval(says, &id, 1, &err), WEFT_OK);
        id = weft_session_greedy(says);
        at += (size_t)weft_tokenizer_piece(t, id, letters + at, sizeof letters - at);
        s->same += letters[k] == reversed[k];
    }
    s->letters += n;
    s->words++;
    s->right += strcmp(letters, reversed) == 0;
    weft_session_free(says);
    weft_tokens_free(source);
}

static void train(const char *out, const char *text)
{
    weft_error err = { 0 };
    weft_train_options o;
    weft_train_defaults(&o, sizeof o);
    o.out = out;
    o.data = &text;
    o.n_data = 1;
    o.characters = true;
    o.arch = "bahdanau";
    o.d_model = 32;
    o.n_ctx = 16;
    o.n_sample = quick() ? 8 : 16;
    o.n_step = 120;
    o.lr = 1e-2;
    o.weight_decay = 0.01;
    o.eval_every = o.save_every = 0;
    o.threads = 1;
    if (weft_train(&o, NULL, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static void there_is_one_layer(void **state)
{
    (void)state;
    weft_error err = { 0 };
    const char *text = write_words(10);
    weft_train_options o;
    weft_train_defaults(&o, sizeof o);
    o.out = temp_path("none");
    o.data = &text;
    o.n_data = 1;
    o.arch = "bahdanau";
    o.n_layer = 2;
    assert_int_equal(weft_train(&o, NULL, &err), WEFT_EINVAL);
    assert_non_null(strstr(err.message, "one layer"));
}

/* docs/ATTENTION.md does it with longer words. The tested words are not in the training data. */
static void words_are_turned(void **state)
{
    (void)state;
    const uint64_t n_word = 3000;
    const char *out = temp_path("reversed");
    weft_error err = { 0 };
    score s = { 0 };
    train(out, write_words(n_word));
    weft_model *m = weft_model_open(out, NULL, &err);
    weft_tokenizer *t = weft_tokenizer_load(out, NULL, &err);
    weft_engine *e = m && t ? weft_engine_new(m, NULL, &err) : NULL;
    if (!e || weft_engine_trace(e, look, &s, true, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(m, &info);
    assert_int_equal(info.n_ctx, 16);
    for (uint64_t i = 0; i < 100; i++)
        reverse_word(e, t, info.start_id, n_word + i, &s);
    print_message("%lld words of %d to %d letters: %.1f %% right, %.2f %% of the letters; "
                  "%.2f %% of attention on the place in question or one beside it\n",
                  (long long)s.words, SHORTEST, longest(), 100 * (double)s.right / (double)s.words,
                  100 * (double)s.same / (double)s.letters,
                  100 * (double)s.near / (double)s.letters);
    assert_int_equal(s.words, 100);
    assert_true(s.right >= 90 && s.near * 100 >= s.letters * 90);
    weft_engine_free(e);
    weft_tokenizer_free(t);
    weft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("bahdanau: kernels pool and learn as torch's", kernels_are_torchs),
        TEST("bahdanau: a state is a row of the cache, in its format", state_is_a_row),
        TEST("bahdanau: a second layer is refused", there_is_one_layer),
        TEST("bahdanau: learns to reverse words", words_are_turned),
    };
    return RUN(tests);
}
