/* Classification: a pretrained body gets a new head and stays unchanged, a new model learns from
 * scratch, and other programs can load both. */
#include "support.h"

#include "models/arch.h"

#include <math.h>
#include <unistd.h>

/* ---- data ------------------------------------------------------------------------------------ */

/* BERT's special tokens around the letters of a text; texts with an "a" are good. */
static const char *tokenizer_path(void)
{
    char json[4096];
    size_t n = (size_t)snprintf(
        json, sizeof json,
        "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 1, \"content\": \"[MASK]\", "
        "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, "
        "\"special\": true}], \"normalizer\": null, \"pre_tokenizer\": null, \"post_processor\": "
        "{\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", 3], \"cls\": [\"[CLS]\", 2]}, "
        "\"decoder\": null, \"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {\"[PAD]\": "
        "0, "
        "\"[MASK]\": 1, \"[CLS]\": 2, \"[SEP]\": 3");
    for (int c = 'a'; c <= 'z'; c++)
        n += (size_t)snprintf(json + n, sizeof json - n, ", \"%c\": %d", c, c - 'a' + 4);
    n += (size_t)snprintf(json + n, sizeof json - n, "}}}");
    static char path[4096];
    snprintf(path, sizeof path, "%s", temp_file("tokenizer.json", json, n));
    return path;
}

static const char *table_path(const char *name, const char *good, const char *bad)
{
    static char path[4096];
    char text[64 * 16];
    size_t n = 0;
    for (int i = 0; i < 64; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%c%c%c\t%s\n", 'b' + i % 20,
                              i % 2 ? 'a' : 'c' + i % 7, 'd' + i % 11, i % 2 ? good : bad);
    snprintf(path, sizeof path, "%s", temp_file(name, text, n));
    return path;
}

static const char *run_path(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s", temp_path(name));
    return path;
}

/* A run that steps without learning, unless configured otherwise. */
static weft_train_options plain(const char *const *data, const char *out)
{
    weft_train_options o;
    weft_train_defaults(&o, sizeof o);
    o.tokenizer = tokenizer_path();
    o.data = data;
    o.n_data = 1;
    o.out = out;
    o.n_ctx = 16;
    o.n_step = 1;
    o.n_sample = 4;
    o.lr = 0;
    o.threads = 1;
    return o;
}

static weft_train_info must_train(const weft_train_options *o)
{
    weft_error err = { 0 };
    weft_train_info info = { .struct_size = sizeof info };
    if (weft_train(o, &info, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    return info;
}

/* ---- heads ----------------------------------------------------------------------------------- */

static const tensor *find(const model *m, const char *name)
{
    for (int64_t i = 0; i < m->n_param; i++)
        if (strcmp(m->param[i]->name, name) == 0)
            return m->param[i];
    return NULL;
}

static bool is_head(const char *name)
{
    return strncmp(name, "cls", 3) == 0;
}

/* The body is unchanged, to the bit; the head is complete. */
static void compare(const model *before, const model *after)
{
    int n_head = 0;
    for (int64_t i = 0; i < after->n_param; i++) {
        const tensor *w = after->param[i], *old = find(before, w->name);
        n_head += is_head(w->name);
        if (is_head(w->name))
            continue;
        if (!old)
            fail_msg("%s is new", w->name);
        assert_int_equal(w->type->bytes, old->type->bytes);
        const int64_t n = w->shape[0] * (w->n_dim > 1 ? w->shape[1] : 1);
        if (memcmp(w->data, old->data, (size_t)n * (size_t)w->type->bytes) != 0)
            fail_msg("%s has changed", w->name);
    }
    assert_int_equal(n_head, 4); /* two matrices and their biases */
}

/* Normal, with a deviation of 0.02; biases are zero. */
static void check_head(const model *m)
{
    const tensor *w = find(m, "cls.output.weight"), *b = find(m, "cls.output.bias");
    double sum = 0;
    assert_true(w && b && rows(w) == 2 && cols(w) == m->d_model);
    for (int64_t k = 0; k < 2 * cols(w); k++)
        sum += pow((double)((const float *)w->data)[k], 2);
    const double deviation = sqrt(sum / (double)(2 * cols(w)));
    assert_true(deviation > 0.014 && deviation < 0.026);
    assert_true(((const real *)b->data)[0] == 0 && ((const real *)b->data)[1] == 0);
}

static void new_heads(void **state)
{
    (void)state;
    static const char *const bases[] = { "bert", "bert-fill", "bert-tag", "roberta-fill",
                                         "distilbert-fill" };
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        char base[64], name[64];
        snprintf(base, sizeof base, "golden/%s", bases[i]);
        snprintf(name, sizeof name, "head-%s", bases[i]);
        const char *data = table_path("train.tsv", "good", "bad"), *out = run_path(name);
        weft_train_options o = plain(&data, out);
        o.model = fixture(base);
        must_train(&o);
        host h;
        model before, after;
        weft_error err = { 0 };
        host_plain(&h);
        if (model_open(&before, fixture(base), WEFT_LOAD_COPY, &h, &err) != WEFT_OK ||
            model_open(&after, out, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        assert_int_equal(after.task, WEFT_TASK_CLASSIFY);
        assert_true(after.n_out == 2 && after.label);
        assert_string_equal(after.label[0], "bad");
        assert_string_equal(after.label[1], "good");
        compare(&before, &after);
        check_head(&after);
        model_close(&before);
        model_close(&after);
        char start[4096];
        snprintf(start, sizeof start, "%.4000s/start", out);
        assert_int_not_equal(access(start, F_OK), 0);
    }
}

/* A pooler in the file that its task does not use becomes part of the head. */
static void pooler_stays(void **state)
{
    (void)state;
    const char *data = table_path("train.tsv", "good", "bad"), *out = run_path("pooler");
    weft_train_options o = plain(&data, out);
    o.model = fixture("golden/bert");
    must_train(&o);
    host h;
    container c;
    model m;
    host_plain(&h);
    assert_int_equal(container_open(&c, fixture("golden/bert"), WEFT_LOAD_COPY, &h, NULL), WEFT_OK);
    assert_int_equal(model_open(&m, out, WEFT_LOAD_COPY, &h, NULL), WEFT_OK);
    const stored *old = container_tensor(&c, "pooler.dense.weight");
    const tensor *new = find(&m, "cls.weight");
    assert_true(old && new);
    assert_memory_equal(old->data, new->data, old->bytes);
    model_close(&m);
    container_close(&c);
}

/* ---- learning -------------------------------------------------------------------------------- */

static weft_score must_score(const char *path, const char *data)
{
    weft_error err = { 0 };
    weft_score s = { .struct_size = sizeof s };
    weft_train_options o;
    weft_train_defaults(&o, sizeof o);
    o.data = &data;
    o.n_data = 1;
    o.threads = 1;
    weft_model *m = weft_model_open(path, NULL, &err);
    weft_tokenizer *t = m ? weft_tokenizer_load(path, NULL, &err) : NULL;
    if (!t || weft_text_score(m, t, &o, &s, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    weft_tokenizer_free(t);
    weft_model_close(m);
    return s;
}

static weft_train_options beginner(const char *const *data, const char *out)
{
    weft_train_options o = plain(data, out);
    o.arch = "bert";
    o.n_layer = 1;
    o.d_model = 16;
    o.n_head = 2;
    o.n_step = 120;
    o.lr = 1e-2;
    o.eval_every = 0;
    return o;
}

static void from_nothing(void **state)
{
    (void)state;
    const char *data = table_path("train.tsv", "good", "bad"), *out = run_path("nothing");
    weft_train_options o = beginner(&data, out);
    const weft_train_info info = must_train(&o);
    assert_true(info.val_accuracy == 1);
    const weft_score s = must_score(out, data);
    assert_true(s.n == 64 && s.n_right == 64 && s.loss < 0.1);

    /* The last validation equals the model's own output on the same texts, read separately. */
    o.out = run_path("apart");
    o.validation_data = data;
    o.n_step = 5;
    const weft_train_info other = must_train(&o);
    const weft_score t = must_score(o.out, data);
    assert_true(fabs(other.val_accuracy - (double)t.n_right / 64) < 1e-9);
    assert_true(fabs(other.val_loss - t.loss) < 1e-5);

    /* One text is enough to validate. */
    o.out = run_path("one");
    o.validation_data = temp_file("one.tsv", "cad\tgood\n", 9);
    const weft_train_info one = must_train(&o);
    const weft_score u = must_score(o.out, o.validation_data);
    assert_true(u.n == 1 && one.val_accuracy == (double)u.n_right);
    assert_true(fabs(one.val_loss - u.loss) < 1e-5);
}

static void goes_on(void **state)
{
    (void)state;
    weft_error err = { 0 };
    char first[4096];
    const char *data = table_path("train.tsv", "good", "bad");
    snprintf(first, sizeof first, "%s", run_path("first"));
    weft_train_options o = beginner(&data, first);
    o.n_step = 8;
    must_train(&o);
    o.resume = true;
    o.n_step = 12;
    assert_int_equal(must_train(&o).from_step, 8);

    const char *others = table_path("others.tsv", "good", "worse");
    weft_train_options next = plain(&others, run_path("second"));
    next.tokenizer = NULL;
    next.model = first;
    assert_int_equal(weft_train(&next, NULL, &err), WEFT_EINVAL);
    assert_non_null(strstr(err.message, "unknown label \"worse\"; expected one of the model's 2"));
}

/* Texts without labels train a masked language model, with a tokenizer made for it. */
static void masks(void **state)
{
    (void)state;
    char text[4000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "the cat sat on the mat \n"[i % 24];
    char path[4096];
    snprintf(path, sizeof path, "%s", temp_file("text.txt", text, sizeof text));
    const char *data = path, *out = run_path("masks");
    weft_train_options o = beginner(&data, out);
    o.tokenizer = NULL;
    o.n_vocab = 64;
    o.separator = "\n";
    const weft_train_info info = must_train(&o);
    assert_true(info.smoothed < 2 && isnan(info.val_accuracy));
    weft_model_info m = { .struct_size = sizeof m };
    weft_model *made = weft_model_open(out, NULL, NULL);
    assert_non_null(made);
    weft_model_get_info(made, &m);
    assert_int_equal(m.task, WEFT_TASK_FILL);
    weft_model_close(made);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refuse(weft_train_options o, const char *what)
{
    weft_error err = { 0 };
    assert_int_not_equal(weft_train(&o, NULL, &err), WEFT_OK);
    if (!strstr(err.message, what))
        fail_msg("\"%s\" does not say \"%s\"", err.message, what);
}

static void refusals(void **state)
{
    (void)state;
    char table[4096], text[4096];
    snprintf(table, sizeof table, "%s", table_path("train.tsv", "good", "bad"));
    snprintf(text, sizeof text, "%s", temp_file("plain.txt", "abc", 3));
    const char *labelled = table, *unlabelled = text;
    weft_train_options o = beginner(&labelled, run_path("refused"));
    o.columns = "label";
    refuse(o, "expected a text and one label");
    o = beginner(&unlabelled, run_path("refused"));
    o.columns = "label,text";
    refuse(o, "columns are for tables");
    o = plain(&unlabelled, run_path("refused"));
    o.model = fixture("golden/bert-classify");
    refuse(o, "labels need TSV, CSV or JSONL");
    o = beginner(&labelled, run_path("refused"));
    o.tokenizer = NULL;
    o.characters = true;
    refuse(o, "models use WordPiece tokenizers");
    o = beginner(&labelled, run_path("refused"));
    o.data_kind = WEFT_DATA_IDS;
    refuse(o, "ids");
    o = beginner(&labelled, run_path("refused"));
    o.tokenizer = fixture("golden/marian-text/source.spm");
    refuse(o, "tokenizer.json cannot represent pieces that are not tokens");

    weft_error err = { 0 };
    o = beginner(&labelled, NULL);
    weft_data *d = weft_data_open(&o, &err);
    assert_non_null(d);
    assert_int_equal(weft_data_save(d, temp_path("ids"), &err), WEFT_EINVAL);
    weft_data_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("classify: a body keeps every bit and gets a new head", new_heads),
        TEST("classify: an existing pooler becomes part of the head", pooler_stays),
        TEST("classify: labels are learned from scratch, and accuracies agree", from_nothing),
        TEST("classify: a run resumes, with its own labels only", goes_on),
        TEST("classify: texts without labels train a masked language model", masks),
        TEST("classify: data that does not fit is refused", refusals),
    };
    return RUN(tests);
}
