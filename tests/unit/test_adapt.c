/* test_adapt.c - adapters: they compute what a merged model computes, a session's logits do not
 * depend on the adapters beside it, and no cached page is shared between adapters. */
#include "base/rng.h"
#include "small_model.h"

#include <math.h>
#include <string.h>

enum { V = 61, N_ADAPTER = 8, MOST_RANK = 8, LENGTH = 100 };

/* ---- adapters -------------------------------------------------------------------------------- */

/* A random adapter for all matrices of a model, or for some. */
typedef struct made {
    lora_set set;
    lora *item;
    tensor *tensor; /* two of each item */
    int64_t n;
    real *number;
} made;

enum { GAINS = 6, WHOLE = 7 }; /* the adapters that have these */

static int n_released;

static void count_release(lora_set *s)
{
    (void)s;
    n_released++;
}

static bool is_matrix(const tensor *w)
{
    return w->n_dim == 2;
}

static tensor *reals(tensor *to, real *at, int64_t n_row, int64_t n_col)
{
    *to = (tensor){
        .type = &dtype_real, .n_dim = 2, .shape = { n_row, n_col }, .stride = n_col, .data = at
    };
    return to;
}

static void fill(real *to, int64_t n, uint64_t key, real size)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = size * ((real)(draw(key, (uint64_t)i) % 2001) / 1000 - 1);
}

/* The same for the head, which shares the table. */
static const lora *transposed(lora *to, tensor *t, const lora *from, real *at)
{
    const int64_t rank = rows(from->a), I = cols(from->a), O = rows(from->b);
    *to = (lora){ .a = reals(&t[0], at, rank, O),
                  .b = reals(&t[1], at + rank * O, I, rank),
                  .scale = from->scale };
    for (int64_t k = 0; k < rank; k++) {
        for (int64_t o = 0; o < O; o++)
            row(to->a, k)[o] = row(from->b, o)[k];
        for (int64_t i = 0; i < I; i++)
            row(to->b, i)[k] = row(from->a, k)[i];
    }
    return to;
}

static void made_init(made *a, const model *m, int which)
{
    const int64_t n = m->n_param + 1, rank = 1 + which;
    const int64_t each = 2 * MOST_RANK * 1024 + 2 * 1024;
    *a = (made){ .set = { .rank = rank, .serial = (uint64_t)which + 1, .release = count_release } };
    a->set.matrix = calloc((size_t)n, sizeof *a->set.matrix);
    a->set.table = calloc((size_t)n, sizeof *a->set.table);
    a->set.whole = calloc((size_t)n, sizeof *a->set.whole);
    a->set.whole_table = calloc((size_t)n, sizeof *a->set.whole_table);
    a->item = calloc((size_t)n + 1, sizeof *a->item);
    a->tensor = calloc(2 * (size_t)n + 2, sizeof *a->tensor);
    a->number = calloc((size_t)(n * each), sizeof *a->number);
    atomic_store(&a->set.n_holder, 1);
    for (int64_t i = 0; i < m->n_param; i++) {
        const tensor *w = m->param[i];
        const bool table = strcmp(w->name, "token_embd.weight") == 0;
        real *at = a->number + i * each;
        if (!is_matrix(w) && which == WHOLE && strstr(w->name, "ffn_norm")) {
            tensor *own = malloc(sizeof *own);
            *own = *w;
            own->data = at;
            own->slot = 0;
            fill(at, cols(w), (uint64_t)i, 1);
            a->set.whole[w->slot] = own;
            a->set.replaces = true;
        }
        if (!is_matrix(w) || (which % 2 && i % 3 == 0) || (table && which == GAINS))
            continue;
        tensor *t = &a->tensor[2 * a->n];
        lora *l = &a->item[a->n++];
        const int64_t O = table ? cols(w) : rows(w), I = table ? rows(w) : cols(w);
        fill(at, rank * I, (uint64_t)(which * 1000 + i), (real)0.3);
        fill(at + rank * I, O * rank, (uint64_t)(which * 1000 + i + 500), (real)0.3);
        *l = (lora){ .a = reals(&t[0], at, rank, I),
                     .b = reals(&t[1], at + rank * I, O, rank),
                     .scale = (real)1.5 / (real)rank };
        if (which == GAINS) {
            real *gain = at + rank * (I + O);
            fill(gain, O, (uint64_t)i + 77, (real)0.25);
            for (int64_t o = 0; o < O; o++)
                gain[o] += 1;
            l->gain = gain;
            a->set.scales = true;
        }
        (table ? a->set.table : a->set.matrix)[w->slot] = l;
        if (table)
            a->set.matrix[w->slot] = transposed(&a->item[a->n++], t + 2, l, at + rank * (I + O));
    }
}

static void made_free(made *a, const model *m)
{
    assert_int_equal(atomic_load(&a->set.n_holder), 1);
    lora_set_drop(&a->set);
    for (int64_t i = 0; i <= m->n_param; i++)
        free(a->set.whole[i]);
    free(a->set.matrix);
    free(a->set.table);
    free(a->set.whole);
    free(a->set.whole_table);
    free(a->item);
    free(a->tensor);
    free(a->number);
}

static void must_adapt(session *s, lora_set *set, real strength)
{
    weft_error err = { 0 };
    assert_int_equal(session_adapt(s, set, strength, &err), WEFT_OK);
}

/* ---- the arithmetic -------------------------------------------------------------------------- */

/* Writes W + s B A, times the gain, over the weights of an f32 model. */
static void merge(model *m, const made *a, double strength)
{
    for (int64_t i = 0; i < m->n_param; i++) {
        tensor *w = m->param[i];
        const bool table = a->set.table[w->slot] != NULL;
        const lora *l = table ? a->set.table[w->slot] : a->set.matrix[w->slot];
        if (a->set.whole[w->slot])
            memcpy(w->data, a->set.whole[w->slot]->data, (size_t)cols(w) * sizeof(real));
        for (int64_t o = 0; l && o < rows(w); o++)
            for (int64_t c = 0; c < cols(w); c++) {
                const int64_t out = table ? c : o, in = table ? o : c;
                double sum = (double)row(w, o)[c];
                for (int64_t k = 0; k < rows(l->a); k++)
                    sum += strength * (double)l->scale * (double)row(l->b, out)[k] *
                           (double)row(l->a, k)[in];
                row(w, o)[c] = (real)(sum * (double)(l->gain ? l->gain[out] : 1));
            }
    }
}

static double farthest(const float *a, const float *b)
{
    double most = 0;
    for (int i = 0; i < V; i++)
        most = fmax(most, fabs((double)(a[i] - b[i])));
    return most;
}

static void adapted_is_merged(void **state)
{
    (void)state;
    int32_t ids[LENGTH];
    story(ids, LENGTH, 5);
    for (int which = 0; which < N_ADAPTER; which++) {
        const real strength = which == GAINS || which == WHOLE ? 1 : (real)0.75;
        fixture_model f, other;
        made a;
        open_typed(&f, &dtype_f32);
        open_typed(&other, &dtype_f32);
        made_init(&a, &f.model, which);
        engine *e = make_engine(&f, (engine_options){ .n_thread = 2, .rank = MOST_RANK });
        session *s = make_session(e);
        float want[V], base[V];
        recompute(&f.model, f.model.kern, NULL, 0, ids, LENGTH, base);
        must_adapt(s, &a.set, 0);
        must_feed(s, ids, LENGTH);
        assert_memory_equal(s->logits, base, sizeof base);
        must_adapt(s, &a.set, strength);
        assert_int_equal(s->cache.length, 0);
        must_feed(s, ids, LENGTH);
        merge(&other.model, &a, (double)strength);
        recompute(&other.model, other.model.kern, NULL, 0, ids, LENGTH, want);
        print_message("adapter %d: %.2g from the merged model, %.2g from the base\n", which,
                      farthest(s->logits, want), farthest(s->logits, base));
        assert_true(farthest(s->logits, want) < 1e-4 && farthest(s->logits, base) > 1e-2);
        session_free(s);
        engine_free(e);
        made_free(&a, &f.model);
        close_llama(&other);
        close_llama(&f);
    }
}

/* ---- company --------------------------------------------------------------------------------- */

/* Sessions with all adapters and one without, which get their texts in random parts together. */
typedef struct company {
    fixture_model f;
    made adapter[N_ADAPTER];
    engine *e;
    session *s[N_ADAPTER + 1];
    int32_t ids[N_ADAPTER + 1][LENGTH];
    float alone[N_ADAPTER + 1][V];
} company;

static lora_set *set_of(company *c, int i)
{
    return i < N_ADAPTER ? &c->adapter[i].set : NULL;
}

/* A decoder whose queries, keys and values have biases. */
static void open_biased(fixture_model *f)
{
    open_decoder(f, "\"architectures\": [\"Qwen2ForCausalLM\"], \"model_type\": \"qwen2\"");
    for (int64_t i = 0; i < f->model.n_param; i++)
        if (strstr(f->model.param[i]->name, ".bias"))
            fill(f->model.param[i]->data, cols(f->model.param[i]), (uint64_t)i, 1);
}

/* type NULL: floats with biases. */
static void company_init(company *c, const dtype *type, bool bf16, int n_thread)
{
    if (type)
        open_typed(&c->f, type);
    else
        open_biased(&c->f);
    if (bf16)
        model_compute_bf16(&c->f.model);
    c->e = make_engine(&c->f, (engine_options){ .n_thread = n_thread,
                                                .n_session = N_ADAPTER + 1,
                                                .n_batch = 64,
                                                .rank = MOST_RANK });
    for (int i = 0; i < N_ADAPTER; i++)
        made_init(&c->adapter[i], &c->f.model, i);
    for (int i = 0; i <= N_ADAPTER; i++) {
        story(c->ids[i], LENGTH, (uint64_t)i);
        c->s[i] = make_session(c->e);
        must_adapt(c->s[i], set_of(c, i), 1);
        must_feed(c->s[i], c->ids[i], LENGTH);
        memcpy(c->alone[i], c->s[i]->logits, sizeof c->alone[i]);
    }
}

static void company_free(company *c)
{
    for (int i = 0; i <= N_ADAPTER; i++)
        session_free(c->s[i]);
    engine_free(c->e);
    for (int i = 0; i < N_ADAPTER; i++)
        made_free(&c->adapter[i], &c->f.model);
    close_llama(&c->f);
}

/* All sessions in random parts; returns how many have the logits that they have alone. */
static int mingled(company *c, uint64_t seed)
{
    weft_error err = { 0 };
    int n_same = 0;
    for (int i = 0; i <= N_ADAPTER; i++)
        assert_int_equal(session_rewind(c->s[i], 0, &err), WEFT_OK);
    for (int step = 0;; step++) {
        work w[N_ADAPTER + 1];
        int n = 0;
        bool all = true;
        for (int i = 0; i <= N_ADAPTER; i++) {
            const int who = (int)(((unsigned)i * 4 + draw(seed, (uint64_t)step)) % (N_ADAPTER + 1));
            const int64_t at = c->s[who]->cache.length, left = LENGTH - at;
            const int64_t take = draw(seed, (uint64_t)(step * 16 + i)) % 24;
            all = all && left == 0;
            if (left > 0 && take > 0)
                w[n++] = (work){ .session = c->s[who],
                                 .ids = c->ids[who] + at,
                                 .n = take < left ? take : left };
        }
        if (all)
            break;
        if (n > 0)
            must_eval(c->e, w, n);
    }
    for (int i = 0; i <= N_ADAPTER; i++)
        n_same += memcmp(c->s[i]->logits, c->alone[i], sizeof c->alone[i]) == 0;
    return n_same;
}

static void company_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        const dtype *type;
        bool bf16;
    } kinds[] = {
        { &dtype_f32, false }, { &dtype_q8_0, false }, { &dtype_bf16, true },
        { &dtype_q4_0, true }, { NULL, false },
    };
    const int rounds = quick() ? 3 : 24;
    int n = 0;
    for (int k = 0; k < 5; k++)
        for (int n_thread = 1; n_thread <= 2; n_thread++) {
            static company c;
            company_init(&c, kinds[k].type, kinds[k].bf16, n_thread);
            for (int i = 0; i < rounds; i++) {
                assert_int_equal(mingled(&c, (uint64_t)(1000 * k + i)), N_ADAPTER + 1);
                n += N_ADAPTER + 1;
            }
            company_free(&c);
        }
    print_message("%d sessions in random company: the logits they have alone\n", n);
}

static void a_mix_up_is_seen(void **state)
{
    (void)state;
    static company c;
    company_init(&c, &dtype_f32, false, 1);
    must_adapt(c.s[0], set_of(&c, 2), 1);
    must_adapt(c.s[2], set_of(&c, 0), 1);
    assert_int_equal(mingled(&c, 3), N_ADAPTER - 1);
    must_adapt(c.s[0], set_of(&c, 0), (real)0.999);
    must_adapt(c.s[2], set_of(&c, 2), 1);
    assert_int_equal(mingled(&c, 3), N_ADAPTER);
    company_free(&c);
}

/* ---- cached pages ---------------------------------------------------------------------------- */

enum { N_TEXT = 4, N_WAY = 5, N_SESSION = 4, LONG = 150 };

/* Texts that differ after 140, 128 and 64 tokens. */
static void related_texts(int32_t ids[N_TEXT][LONG])
{
    static const int same[N_TEXT] = { LONG, 140, 128, 64 };
    for (int t = 0; t < N_TEXT; t++) {
        story(ids[t], LONG, 40);
        for (int i = same[t]; i < LONG; i++)
            ids[t][i] = (ids[0][i] + t) % V;
    }
}

static void pages_do_not_cross(void **state)
{
    (void)state;
    static int32_t ids[N_TEXT][LONG];
    static float want[N_WAY][N_TEXT][V];
    const int rounds = quick() ? 300 : 10000;
    fixture_model f;
    made a[3];
    session *s[N_SESSION];
    weft_error err = { 0 };
    int64_t reused, all = 0;
    related_texts(ids);
    open_typed(&f, &dtype_f32);
    for (int i = 0; i < 3; i++)
        made_init(&a[i], &f.model, i == 2 ? WHOLE : 2 * i);
    lora_set *const set[N_WAY] = { NULL, &a[0].set, &a[0].set, &a[1].set, &a[2].set };
    static const real strength[N_WAY] = { 1, 1, (real)0.5, 1, 1 };
    engine *e = make_engine(
        &f, (engine_options){
                .n_thread = 1, .n_session = N_SESSION, .n_ctx = LONG, .rank = MOST_RANK });
    for (int i = 0; i < N_SESSION; i++)
        s[i] = make_session(e);
    for (int way = 0; way < N_WAY; way++)
        for (int t = 0; t < N_TEXT; t++) {
            must_adapt(s[0], set[way], strength[way]);
            must_feed(s[0], ids[t], LONG);
            memcpy(want[way][t], s[0]->logits, sizeof want[way][t]);
        }
    int way[N_SESSION] = { 0 };
    for (int i = 0; i < N_SESSION; i++)
        must_adapt(s[i], NULL, 0);
    for (int round = 0; round < rounds; round++) {
        const uint32_t x = draw(9, (uint64_t)round);
        const int i = (int)(x % N_SESSION), t = (int)(x / 8 % N_TEXT);
        if (x / 64 % 3 == 0) {
            way[i] = (int)(x / 1024 % N_WAY);
            must_adapt(s[i], set[way[i]], strength[way[i]]);
        }
        assert_int_equal(session_sync(s[i], ids[t], LONG, &reused, &err), WEFT_OK);
        assert_memory_equal(s[i]->logits, want[way[i]][t], sizeof want[way[i]][t]);
        all += reused;
    }
    print_message("%d texts; %.0f %% of their tokens came from pages\n", rounds,
                  100.0 * (double)all / ((double)rounds * LONG));
    assert_true(all > rounds * LONG / 4);
    for (int i = 0; i < N_SESSION; i++)
        session_free(s[i]);
    engine_free(e);
    for (int i = 0; i < 3; i++)
        made_free(&a[i], &f.model);
    close_llama(&f);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused(session *s, lora_set *set, real strength, const char *says)
{
    weft_error err = { 0 };
    assert_int_equal(session_adapt(s, set, strength, &err), WEFT_EINVAL);
    if (!strstr(err.message, says))
        fail_msg("%s", err.message);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    weft_error err = { 0 };
    fixture_model f;
    made gains, large;
    open_typed(&f, &dtype_f32);
    made_init(&gains, &f.model, GAINS);
    made_init(&large, &f.model, WHOLE);
    engine_options o = { .n_thread = 1, .rank = MOST_RANK - 1 };
    engine *e = make_engine(&f, o);
    session *s = make_session(e);
    refused(s, &large.set, 1, "an adapter of rank 8; the engine was made for ranks up to 7");
    refused(s, &gains.set, (real)0.5, "has strength 0 or 1, not 0.5");
    refused(s, &gains.set, NAN, "must be finite");
    o.rank = 4097;
    assert_int_equal(engine_resolve(&f.model, &o, &err), WEFT_EINVAL);
    o.rank = -1;
    assert_int_equal(engine_resolve(&f.model, &o, &err), WEFT_EINVAL);

    must_adapt(s, &gains.set, 1);
    session *fork = session_fork(s, &err);
    assert_non_null(fork);
    assert_int_equal(atomic_load(&gains.set.n_holder), 3);
    session_free(s);
    session_free(fork);
    const int before = n_released;
    engine_free(e);
    made_free(&gains, &f.model);
    made_free(&large, &f.model);
    assert_int_equal(n_released - before, 2);
    close_llama(&f);
}

/* ---- the public functions -------------------------------------------------------------------- */

static void logits_of(weft_session *s, const int32_t *ids, int64_t n, float *to)
{
    weft_error err = { 0 };
    assert_int_equal(weft_session_eval(s, ids, n, &err), WEFT_OK);
    memcpy(to, weft_session_logits(s), 67 * sizeof *to);
}

/* Handles may be closed in any order; an adapter lives as long as a session has it. */
static void handles_in_any_order(void **state)
{
    (void)state;
    static const int32_t ids[] = { 1, 5, 7, 11 };
    float base[67], adapted[67], again[67];
    weft_error err = { 0 };
    weft_model *m = weft_model_open(fixture("golden/llama-gqa"), NULL, &err);
    weft_model *other = weft_model_open(fixture("golden/llama-gqa"), NULL, &err);
    weft_adapter *a = weft_adapter_open(m, fixture("golden/adapters/llama-lora"), &err);
    weft_adapter *foreign = weft_adapter_open(other, fixture("golden/adapters/llama-lora"), &err);
    assert_true(m && other && a && foreign);
    weft_adapter_info info = { .struct_size = sizeof info };
    weft_adapter_get_info(a, &info);
    assert_int_equal(info.rank, 2);
    assert_true(info.n_weight == 14 && info.n_whole == 0 && !info.gains && info.bytes > 0);
    const weft_engine_options o = { .struct_size = sizeof o, .adapter_rank = info.rank };
    weft_engine *e = weft_engine_new(m, &o, &err);
    weft_session *s = weft_session_new(e, &err);
    assert_non_null(s);
    logits_of(s, ids, 4, base);
    assert_int_equal(weft_session_adapt(s, foreign, 1, &err), WEFT_EINVAL);
    assert_string_equal(err.message, "the adapter belongs to another model");
    assert_int_equal(weft_session_adapt(NULL, a, 1, &err), WEFT_EINVAL);
    assert_int_equal(weft_session_adapt(s, a, 1, &err), WEFT_OK);
    logits_of(s, ids, 4, adapted);
    assert_memory_not_equal(base, adapted, sizeof base);
    weft_adapter_close(a);
    weft_model_close(m);
    weft_engine_free(e);
    weft_session *fork = weft_session_fork(s, &err);
    weft_session_free(s);
    assert_int_equal(weft_session_rewind(fork, 0, &err), WEFT_OK);
    logits_of(fork, ids, 4, again);
    assert_memory_equal(adapted, again, sizeof again);
    assert_int_equal(weft_session_adapt(fork, NULL, 0, &err), WEFT_OK);
    logits_of(fork, ids, 4, again);
    assert_memory_equal(base, again, sizeof again);
    weft_session_free(fork);
    weft_model_close(other);
    weft_adapter_close(foreign);
    assert_null(weft_adapter_open(NULL, "x", &err));
    assert_int_equal(err.code, WEFT_EINVAL);
    weft_adapter_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("adapters: adapted logits are those of the merged model", adapted_is_merged),
        TEST("adapters: other adapters in a batch do not change a bit", company_changes_nothing),
        TEST("adapters: a mix-up of two, or a strength of 0.999, is seen", a_mix_up_is_seen),
        TEST("adapters: no cached page crosses from one to another", pages_do_not_cross),
        TEST("adapters: what does not fit is refused; the last holder releases",
             what_does_not_fit_is_refused),
        TEST("adapters: handles may be closed in any order", handles_in_any_order),
    };
    return RUN(tests);
}
