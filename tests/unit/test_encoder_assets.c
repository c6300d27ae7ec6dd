/* Trained encoders of no supported family, built here from the ops as a reader of their papers
 * would write them. */
#include "golden.h"
#include "ops/ops.h"
#include "support.h"
#include "text/sources/source.h"
#include "text/tokenizer.h"

#include <jansson.h>

/* ---- weights --------------------------------------------------------------------------------- */

typedef struct shelf {
    host host;
    golden file; /* the model's */
    arena store;
    pool *pool;
    run run;
} shelf;

static void shelf_open(shelf *s, const char *path, size_t data)
{
    weft_error err = { 0 };
    host_plain(&s->host);
    golden_open(&s->file, path, 1e-5);
    assert_int_equal(arena_init(&s->store, ARENA_GROWING, &s->host.mem, 0, "", &err), WEFT_OK);
    assert_int_equal(run_init(&s->run, &s->host.mem, 1 << 20, data, 64 << 20, &err), WEFT_OK);
    s->pool = pool_new(2, &s->host.mem, &err);
    assert_non_null(s->pool);
    assert_int_equal(pool_ready(s->pool, &err), WEFT_OK);
    s->run.kern = kernels_select(&s->host.log);
    s->run.pool = s->pool;
}

static void shelf_close(shelf *s)
{
    pool_free(s->pool);
    run_free(&s->run);
    arena_free(&s->store);
    golden_close(&s->file);
    assert_int_equal(s->host.mem.used, 0);
}

static void *take(shelf *s, size_t bytes)
{
    weft_error err = { 0 };
    void *p = arena_alloc(&s->store, bytes, &err);
    assert_non_null(p);
    return memset(p, 0, bytes);
}

/* n_row 0: a vector. */
static tensor *made(shelf *s, const char *name, int64_t n_row, int64_t n_col)
{
    tensor *t = take(s, sizeof *t);
    *t = (tensor){ .type = &dtype_real, .n_dim = n_row ? 2 : 1, .stride = n_col };
    t->shape[0] = n_row ? n_row : n_col;
    t->shape[1] = n_row ? n_col : 0;
    snprintf(t->name, sizeof t->name, "%.70s", name);
    t->data = take(s, (size_t)((n_row ? n_row : 1) * n_col) * sizeof(real));
    return t;
}

/* `heads` blocks [I, O / heads] one after another, as in TransformerLens; or 0: [O, I]. */
static tensor *matrix(shelf *s, const char *name, int64_t O, int64_t I, int64_t heads)
{
    const stored *from = golden_tensor(&s->file, name);
    if (!from || from->bytes != (uint64_t)(O * I) * sizeof(float))
        fail_msg("%s is not [%lld, %lld]", name, (long long)O, (long long)I);
    const float *x = (const float *)from->data;
    const int64_t E = heads ? O / heads : O;
    tensor *t = made(s, name, O, I);
    for (int64_t o = 0; o < O; o++)
        for (int64_t i = 0; i < I; i++)
            row(t, o)[i] = heads ? x[(o / E * I + i) * E + o % E] : x[o * I + i];
    return t;
}

static tensor *vector(shelf *s, const char *name, int64_t n)
{
    const stored *from = golden_tensor(&s->file, name);
    if (!from || from->bytes != (uint64_t)n * sizeof(float))
        fail_msg("%s has not %lld numbers", name, (long long)n);
    tensor *t = made(s, name, 0, n);
    memcpy(t->data, from->data, (size_t)n * sizeof(float));
    return t;
}

static weight weight_of(shelf *s, const char *w, const char *b, int64_t O, int64_t I, int64_t heads)
{
    weight p = { .w = I ? matrix(s, w, O, I, heads) : vector(s, w, O), .b = vector(s, b, O) };
    p.name = p.w->name;
    return p;
}

/* ---- batches --------------------------------------------------------------------------------- */

#define MAX_ROW 4096
#define MAX_SEQ 256

typedef struct crowd {
    batch batch;
    batch_row row[MAX_ROW];
    sequence seq[MAX_SEQ];
} crowd;

static void crowd_begin(crowd *c)
{
    c->batch = (batch){ .row = c->row, .seq = c->seq };
}

/* A sequence from position 0, whose first row is wanted. */
static void crowd_add(crowd *c, const uint32_t *id, size_t n)
{
    batch *b = &c->batch;
    assert_true(b->n_row + (int)n <= MAX_ROW && b->n_seq < MAX_SEQ);
    b->seq[b->n_seq] = (sequence){ .first = b->n_row, .n = (int32_t)n, .source = -1 };
    for (size_t i = 0; i < n; i++)
        b->row[b->n_row++] = (batch_row){
            .id = (int32_t)id[i], .seq = b->n_seq, .pos = (int32_t)i, .wanted = i == 0
        };
    b->n_seq++;
    b->n_wanted++;
}

/* ---- brackets: is it balanced? --------------------------------------------------------------- */

typedef struct lens_layer {
    weight ln1, q, k, v, o, ln2, up, down;
} lens_layer;

typedef struct lens {
    tensor *token_embd, *position_embd;
    lens_layer layer[3];
    weight ln_final, unembed;
    attn attn;
} lens;

static tensor *lens_block(run *r, const void *self, int l, tensor *x)
{
    const lens *m = self;
    const lens_layer *w = &m->layer[l];
    tensor *h = layernorm(r, x, &w->ln1, 1e-5f);
    tensor *q = linear(r, h, &w->q);
    tensor *k = linear(r, h, &w->k);
    tensor *v = linear(r, h, &w->v);
    h = attention(r, q, k, v, &m->attn, l);
    h = linear(r, h, &w->o);
    residual(r, &x, h);
    h = layernorm(r, x, &w->ln2, 1e-5f);
    h = linear(r, h, &w->up);
    h = act(r, h, ACT_RELU);
    h = linear(r, h, &w->down);
    residual(r, &x, h);
    return x;
}

static tensor *lens_forward(run *r, const lens *m)
{
    tensor *x = embed(r, m->token_embd, EMBED_TOKEN);
    tensor *p = embed(r, m->position_embd, EMBED_POSITION);
    residual(r, &x, p);
    for (int l = 0; l < 3; l++)
        x = run_block(r, lens_block, m, l, x);
    x = take_rows(r, x);
    x = layernorm(r, x, &m->ln_final, 1e-5f);
    return linear(r, x, &m->unembed);
}

static weight of_layer(shelf *s, int l, const char *w, const char *b, int64_t O, int64_t I,
                       int64_t heads)
{
    char w_name[64], b_name[64];
    snprintf(w_name, sizeof w_name, "blocks.%d.%s", l, w);
    snprintf(b_name, sizeof b_name, "blocks.%d.%s", l, b);
    return weight_of(s, w_name, b_name, O, I, heads);
}

static void lens_load(shelf *s, lens *m)
{
    enum { D = 56, H = 2 };
    m->attn = (attn){ ATTN_FULL, H, H, D / H, D / H, 1 / sqrtf(D / H), 0, { 0 }, 0, NULL };
    m->token_embd = matrix(s, "embed.W_E", 5, D, 0);
    m->position_embd = matrix(s, "pos_embed.W_pos", 42, D, 0);
    m->ln_final = weight_of(s, "ln_final.w", "ln_final.b", D, 0, 0);
    m->unembed = weight_of(s, "unembed.W_U", "unembed.b_U", 2, D, 1);
    for (int l = 0; l < 3; l++)
        m->layer[l] = (lens_layer){
            .ln1 = of_layer(s, l, "ln1.w", "ln1.b", D, 0, 0),
            .q = of_layer(s, l, "attn.W_Q", "attn.b_Q", D, D, H),
            .k = of_layer(s, l, "attn.W_K", "attn.b_K", D, D, H),
            .v = of_layer(s, l, "attn.W_V", "attn.b_V", D, D, H),
            .o = of_layer(s, l, "attn.W_O", "attn.b_O", D, D, 1),
            .ln2 = of_layer(s, l, "ln2.w", "ln2.b", D, 0, 0),
            .up = of_layer(s, l, "mlp.W_in", "mlp.b_in", D, D, 1),
            .down = of_layer(s, l, "mlp.W_out", "mlp.b_out", D, D, 1),
        };
}

/* "(())\t1": ids with a start and an end around them, and the label. */
static size_t read_brackets(const char *line, uint32_t *id, int *label)
{
    size_t n = 0;
    id[n++] = 0;
    for (; *line == '(' || *line == ')'; line++)
        id[n++] = *line == '(' ? 3 : 4;
    id[n++] = 2;
    *label = line[1] - '0';
    return n;
}

/* Compares the first 64 with their authors' logits, all with their labels. The reference pads to 42
 * and masks; weft does not pad. */
static void brackets(void **state)
{
    (void)state;
    static lens m;
    static crowd c;
    shelf s;
    golden ref;
    char line[128];
    int label[MAX_SEQ], right = 0, n = 0;
    const int wanted = quick() ? 640 : 5000;
    shelf_open(&s, asset("encoder-brackets/model.safetensors"), 64 << 20);
    lens_load(&s, &m);
    golden_open(&ref, asset("encoder-brackets/ref_logits_first64.safetensors"), 1e-5);
    FILE *f = fopen(asset("encoder-brackets/brackets_data_first5000.tsv"), "r");
    assert_non_null(f);
    for (bool more = true; more && n < wanted;) {
        crowd_begin(&c);
        while (c.batch.n_seq < 64 && (more = fgets(line, sizeof line, f) != NULL)) {
            uint32_t id[64];
            const size_t length = read_brackets(line, id, &label[c.batch.n_seq]);
            crowd_add(&c, id, length);
        }
        if (c.batch.n_seq == 0)
            break;
        run_begin(&s.run, &c.batch);
        const tensor *z = lens_forward(&s.run, &m);
        if (n == 0)
            golden_check(&ref, "logits", row(z, 0), z->stride,
                         (const float *)golden_tensor(&ref, "logits")->data, 64, 2);
        for (int i = 0; i < c.batch.n_seq; i++)
            right += (row(z, i)[1] > row(z, i)[0]) == label[i];
        n += c.batch.n_seq;
    }
    fclose(f);
    print_message("brackets: %d of %d right; logits off by %.1e of the largest\n", right, n,
                  ref.worst);
    assert_int_equal(n, wanted);
    assert_int_equal(right, wanted);
    assert_true(ref.worst <= 1e-5);
    golden_close(&ref);
    shelf_close(&s);
}

/* ---- sentences: Universal Sentence Encoder Lite ---------------------------------------------- */

typedef struct use_layer {
    int64_t D;
    weight attn_norm, qkv, o, widen, ffn_norm, up, down;
    attn attn;
} use_layer;

typedef struct use {
    tensor *token_embd, *position_embd;
    use_layer layer[2];
    weight pooler;
} use;

/* The first layer maps 256 values to 512, and so must its residual. */
static tensor *use_block(run *r, const void *self, int l, tensor *x)
{
    const use_layer *w = &((const use *)self)->layer[l];
    tensor *h = layernorm(r, x, &w->attn_norm, 1e-6f);
    tensor *qkv = linear(r, h, &w->qkv);
    tensor *q = slice(r, qkv, "attn_q", 0, w->D);
    tensor *k = slice(r, qkv, "attn_k", w->D, w->D);
    tensor *v = slice(r, qkv, "attn_v", 2 * w->D, w->D);
    h = attention(r, q, k, v, &w->attn, l);
    h = linear(r, h, &w->o);
    if (w->widen.w)
        x = linear(r, x, &w->widen);
    residual(r, &x, h);
    h = layernorm(r, x, &w->ffn_norm, 1e-6f);
    h = linear(r, h, &w->up);
    h = act(r, h, ACT_RELU);
    h = linear(r, h, &w->down);
    residual(r, &x, h);
    return x;
}

/* A block keeps its output in the place of x, so a block that grows is called directly. */
static tensor *use_forward(run *r, const use *m)
{
    tensor *x = embed(r, m->token_embd, EMBED_TOKEN);
    tensor *p = embed(r, m->position_embd, EMBED_POSITION);
    residual(r, &x, p);
    x = use_block(r, m, 0, x);
    x = use_block(r, m, 1, x);
    x = pool_rows(r, x, POOL_MEAN);
    x = linear(r, x, &m->pooler);
    x = act(r, x, ACT_TANH);
    return l2norm(r, x);
}

static weight of_use(shelf *s, int l, const char *stem, int64_t O, int64_t I)
{
    char w[64], b[64];
    snprintf(w, sizeof w, "layers.%d.%s.weight", l, stem);
    snprintf(b, sizeof b, "layers.%d.%s.bias", l, stem);
    return weight_of(s, w, b, O, I, 0);
}

static void use_load(shelf *s, use *m)
{
    enum { D = 256, WIDE = 512, F = 1536, T = 128 };
    m->token_embd = matrix(s, "embeddings.weight", 8002, D, 0);
    for (int64_t i = 0; i < 8002 * D; i++)
        ((real *)m->token_embd->data)[i] *= 2;
    m->position_embd = made(s, "position_embd.weight", T, D);
    const real *timescale = values(vector(s, "timing.inv_timescales", D / 2));
    for (int t = 0; t < T; t++)
        for (int k = 0; k < D / 2; k++) {
            row(m->position_embd, t)[k] = sinf((float)t * timescale[k]);
            row(m->position_embd, t)[k + D / 2] = cosf((float)t * timescale[k]);
        }
    for (int l = 0; l < 2; l++) {
        const int64_t n = l ? WIDE : D, E = n / 4;
        m->layer[l] = (use_layer){
            .D = n,
            .attn_norm = of_use(s, l, "attn_norm", n, 0),
            .qkv = of_use(s, l, "attn.qkv", 3 * n, n),
            .o = of_use(s, l, "attn.out", WIDE, n),
            .ffn_norm = of_use(s, l, "ffn_norm", WIDE, 0),
            .up = of_use(s, l, "ffn.fc1", F, WIDE),
            .down = of_use(s, l, "ffn.fc2", WIDE, F),
            .attn = { ATTN_FULL, 4, 4, E, E, 1 / sqrtf((float)E), 0, { 0 }, 0, NULL },
        };
    }
    m->layer[0].widen = of_use(s, 0, "residual_proj", WIDE, D);
    m->pooler = weight_of(s, "pooler.dense.weight", "pooler.dense.bias", WIDE, WIDE, 0);
}

/* Its vocabulary as a Hugging Face tokenizer.json. Five pieces with a colon have null as their
 * score, which JavaScript, for which it was made, reads as 0. */
static const char *use_tokenizer(void)
{
    json_t *words = json_load_file(asset("encoder-use-lite/vocab.json"), 0, NULL);
    assert_non_null(words);
    for (size_t i = 0; i < json_array_size(words); i++)
        if (json_is_null(json_array_get(json_array_get(words, i), 1)))
            json_array_set_new(json_array_get(words, i), 1, json_integer(0));
    json_t *root = json_pack("{s:{s:s,s:i,s:o},s:{s:s,s:[{s:s},{s:s,s:s},{s:s,s:{s:s},s:s}]}}",
                             "model", "type", "Unigram", "unk_id", 0, "vocab", words, "normalizer",
                             "type", "Sequence", "normalizers", "type", "NFKC", "type", "Prepend",
                             "prepend", "\xE2\x96\x81", "type", "Replace", "pattern", "String", " ",
                             "content", "\xE2\x96\x81");
    assert_non_null(root);
    char *text = json_dumps(root, 0);
    const char *path = temp_file("tokenizer.json", text, strlen(text));
    free(text);
    json_decref(root);
    return path;
}

typedef struct sentences {
    shelf s;
    use m;
    tokenizer t;
    encoder *e;
    crowd c;
} sentences;

static void sentences_open(sentences *u)
{
    weft_error err = { 0 };
    shelf_open(&u->s, asset("encoder-use-lite/model.safetensors"), 256 << 20);
    use_load(&u->s, &u->m);
    if (tokenizer_load(&u->t, use_tokenizer(), NULL, WEFT_LOAD_COPY, &u->s.host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    u->e = encoder_new(&u->t, &u->s.host.mem, &err);
    assert_non_null(u->e);
}

static void sentences_close(sentences *u)
{
    encoder_free(u->e);
    tokenizer_free(&u->t);
    shelf_close(&u->s);
}

static encoding tokens_of(sentences *u, const char *text, size_t n)
{
    weft_error err = { 0 };
    encoding k;
    const encode_options o = { 0 };
    if (encoder_encode(u->e, text, n, NULL, 0, &o, &k, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    return k;
}

static const tensor *encode_all(sentences *u)
{
    run_begin(&u->s.run, &u->c.batch);
    return use_forward(&u->s.run, &u->m);
}

static void use_equals_reference(void **state)
{
    (void)state;
    static sentences u;
    sentences_open(&u);
    json_t *root = json_load_file(asset("encoder-use-lite/ref.json"), 0, NULL);
    json_t *texts = json_object_get(root, "sentences"), *id = json_object_get(root, "ids");
    json_t *vectors = json_object_get(root, "embeddings_tfjs");
    double worst = 0;
    crowd_begin(&u.c);
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i), *want = json_array_get(id, i);
        const encoding k = tokens_of(&u, json_string_value(text), json_string_length(text));
        assert_int_equal(k.n, json_array_size(want));
        for (size_t j = 0; j < k.n; j++)
            assert_int_equal(k.id[j], json_integer_value(json_array_get(want, j)));
        crowd_add(&u.c, k.id, k.n);
    }
    const tensor *y = encode_all(&u);
    for (int64_t i = 0; i < rows(y); i++)
        for (int64_t k = 0; k < cols(y); k++) {
            const json_t *want = json_array_get(json_array_get(vectors, (size_t)i), (size_t)k);
            worst = fmax(worst, fabs((double)row(y, i)[k] - json_number_value(want)));
        }
    print_message("use-lite: %lld sentences, no number off by more than %.1e\n", (long long)rows(y),
                  worst);
    assert_true(worst <= 1e-5);
    json_decref(root);
    sentences_close(&u);
}

/* A field of a CSV line, without quotes; advances the line. */
static size_t csv_field(const char **at, char *to)
{
    const char *s = *at;
    const bool quoted = *s == '"';
    size_t n = 0;
    s += quoted;
    while (*s && *s != '\n' && *s != '\r' && (quoted || *s != ',')) {
        if (quoted && *s == '"' && *++s != '"')
            break;
        to[n++] = *s++;
    }
    to[n] = '\0';
    *at = s + (*s == ',');
    return n;
}

static double cosine(const real *a, const real *b, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += (double)a[k] * (double)b[k];
    return sum;
}

static double pearson(const double *x, const double *y, int n)
{
    double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
    for (int i = 0; i < n; i++) {
        mx += x[i] / n;
        my += y[i] / n;
    }
    for (int i = 0; i < n; i++) {
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
        xy += (x[i] - mx) * (y[i] - my);
    }
    return xy / sqrt(xx * yy);
}

static void use_on_sts(void **state)
{
    (void)state;
    static sentences u;
    static double score[2048], found[2048];
    char line[2048], field[2048];
    int n = 0;
    const int wanted = quick() ? 96 : 1379; /* of the first 96, what the whole run has for them */
    sentences_open(&u);
    FILE *f = fopen(asset("data/stsb-en/test.csv"), "r");
    assert_non_null(f);
    for (bool more = true; more && n < wanted;) {
        crowd_begin(&u.c);
        const int first = n;
        while (u.c.batch.n_seq < 64 && (more = fgets(line, sizeof line, f) != NULL)) {
            const char *at = line;
            for (int side = 0; side < 2; side++) {
                const size_t length = csv_field(&at, field);
                const encoding k = tokens_of(&u, field, length);
                crowd_add(&u.c, k.id, k.n);
            }
            csv_field(&at, field);
            score[n++] = strtod(field, NULL);
        }
        if (u.c.batch.n_seq == 0)
            break;
        const tensor *y = encode_all(&u);
        for (int i = first; i < n; i++)
            found[i] = cosine(row(y, 2 * (i - first)), row(y, 2 * (i - first) + 1), cols(y));
    }
    fclose(f);
    const double r = pearson(found, score, n);
    print_message("use-lite: STS-B test, %d pairs, Pearson %.4f\n", n, r);
    assert_int_equal(n, wanted);
    assert_true(fabs(r - (quick() ? 0.8652 : 0.7385)) <= 0.0005);
    sentences_close(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("brackets: 5000 of 5000 are classified as their authors' model does", brackets),
        TEST("use-lite: embeddings are TensorFlow's", use_equals_reference),
        TEST("use-lite: STS-B agrees with people as much as the reference", use_on_sts),
    };
    return RUN(tests);
}
