/* Texts with labels: reading, samples, and clean-up whatever fails. */
#include "support.h"

#include "text/sources/source.h"
#include "train/data.h"
#include "train/labelled.h"

/* ---- a tokenizer ----------------------------------------------------------------------------- */

/* BERT's special tokens around letters: [PAD] 0, [CLS] 1, [SEP] 2, a 3, b 4 ... */
enum { CLS = 1, SEP = 2, A = 3, N_VOCAB = 29 };

static const char *tokenizer_path(void)
{
    char json[4096];
    size_t n = (size_t)snprintf(
        json, sizeof json,
        "{\"version\": \"1.0\", \"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": "
        "null, "
        "\"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", 2], \"cls\": "
        "[\"[CLS]\", 1]}, \"decoder\": null, \"model\": {\"type\": \"BPE\", \"merges\": [], "
        "\"vocab\": {\"[PAD]\": 0, \"[CLS]\": 1, \"[SEP]\": 2");
    for (int c = 'a'; c <= 'z'; c++)
        n += (size_t)snprintf(json + n, sizeof json - n, ", \"%c\": %d", c, c - 'a' + A);
    n += (size_t)snprintf(json + n, sizeof json - n, "}}}");
    return temp_file("tokenizer.json", json, n);
}

/* Data and everything it is made from. */
typedef struct lesson {
    host host;
    tokenizer tokenizer;
    columns columns;
    label_set labels;
    dataset data;
    weft_error err;
} lesson;

typedef struct given {
    const char *name, *text, *columns, *apart;
    double validation;
    int64_t n_ctx;
} given;

static weft_status open_parts(lesson *l, const given *g, const char *path, const char *tokens)
{
    l->err = (weft_error){ 0 };
    weft_status status = tokenizer_load(&l->tokenizer, tokens, NULL, WEFT_LOAD_COPY, &l->host,
                                        &l->err);
    if (status != WEFT_OK)
        return status;
    status = columns_parse(&l->columns, g->columns, &l->err);
    if (status == WEFT_OK)
        status = labels_list(&l->labels, &path, 1, DATA_BY_NAME, &l->columns, WEFT_LOAD_COPY,
                             &l->host, &l->err);
    if (status == WEFT_OK) {
        const data_options o = { .corpus = { .tokenizer = &l->tokenizer,
                                             .labels = &l->labels,
                                             .columns = &l->columns,
                                             .apart = g->apart,
                                             .eos = -1,
                                             .n_thread = 1 },
                                 .validation = g->validation,
                                 .n_ctx = g->n_ctx ? g->n_ctx : 8 };
        status = data_open(&l->data, &path, 1, &o, &l->host, &l->err);
        if (status != WEFT_OK)
            labels_free(&l->labels);
    }
    if (status != WEFT_OK)
        tokenizer_free(&l->tokenizer);
    return status;
}

static weft_status try_lesson(lesson *l, given g)
{
    host_plain(&l->host);
    return open_parts(l, &g, temp_file(g.name, g.text, strlen(g.text)), tokenizer_path());
}

static void lesson_open(lesson *l, given g)
{
    if (try_lesson(l, g) != WEFT_OK)
        fail_msg("%s", l->err.message);
}

static void lesson_close(lesson *l)
{
    data_close(&l->data);
    labels_free(&l->labels);
    tokenizer_free(&l->tokenizer);
    assert_int_equal(l->host.mem.used, 0);
}

static void refuse(given g, const char *what)
{
    lesson l;
    assert_int_not_equal(try_lesson(&l, g), WEFT_OK);
    if (!strstr(l.err.message, what))
        fail_msg("\"%s\" does not say \"%s\"", l.err.message, what);
    assert_int_equal(l.host.mem.used, 0);
}

/* All of a part as "abc=label" or "abc/de=label", in the order of samples. */
static const char *texts_of(lesson *l, const data_part *p)
{
    static char text[1024];
    size_t at = 0;
    batch b;
    assert_int_equal(data_room(&b, &l->data, 1, NULL), WEFT_OK);
    for (int64_t i = 0; i < p->n_in_order; i++) {
        assert_int_equal(data_fill_in_order(&b, p, i, 1, NULL), WEFT_OK);
        assert_int_equal(b.n_wanted, b.n_seq);
        for (int32_t s = 0; s < b.n_seq; s++) {
            const batch_row *row = b.row + b.seq[s].first;
            const int32_t n = b.seq[s].n;
            assert_true(row[0].id == CLS && row[n - 1].id == SEP && row[0].wanted);
            at += (size_t)snprintf(text + at, sizeof text - at, "%s", at ? " " : "");
            for (int32_t k = 1; k < n - 1; k++) {
                assert_true(row[k].pos == k && !row[k].wanted && row[k].target == NO_TARGET);
                assert_int_equal(row[k].type,
                                 row[k].id == SEP ? 0 : row[k - 1].id == SEP || row[k - 1].type);
                at += (size_t)snprintf(text + at, sizeof text - at, "%c",
                                       row[k].id == SEP ? '/' : 'a' + row[k].id - A);
            }
            at += (size_t)snprintf(text + at, sizeof text - at, "=%s",
                                   l->labels.name[row[0].target]);
        }
    }
    data_room_free(&b, &l->data);
    return text;
}

static void expect(given g, const char *want)
{
    lesson l;
    lesson_open(&l, g);
    assert_string_equal(texts_of(&l, &l.data.train), want);
    lesson_close(&l);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void tables(void **state)
{
    (void)state;
    expect((given){ .name = "t.tsv", .text = "ab\tyes\nc\tno\r\n\nd\tyes" }, "ab=yes c=no d=yes");
    expect((given){ .name = "t.tsv", .text = "text\tlabel\nab\tyes\nc\tno\n" }, "ab=yes c=no");
    expect((given){ .name = "t.csv",
                    .text = "\"2\",\"a\",\"b\"\n\"1\",\"c\",\"\"\"d\"\n",
                    .columns = "label,text,-" },
           "a=2 c=1");
    expect((given){ .name = "t.csv", .text = "a,b,x\ncd,e,y\n", .columns = "text,pair,label" },
           "a/b=x cd/e=y");
    expect((given){ .name = "t.tsv", .text = "\tx\na\ty\n" }, "a=y"); /* nothing is no text */
}

static void objects(void **state)
{
    (void)state;
    expect((given){ .name = "t.jsonl",
                    .text = "{\"text\": \"ab\", \"label\": \"no\"}\n\n"
                            "{\"label\": \"yes\", \"text\": \"c\", \"text_pair\": \"d\"}" },
           "ab=no c/d=yes");
    expect(
        (given){ .name = "t.jsonl",
                 .text = "{\"text\": \"ab\", \"label\": 10}\n{\"text\": \"c\", \"label\": -9}\n" },
        "ab=10 c=-9");
}

static void refusals(void **state)
{
    (void)state;
    refuse((given){ .name = "t.tsv", .text = "a\tx\nb\n" },
           "t.tsv:2: 1 fields; expected 2 columns");
    refuse((given){ .name = "t.tsv", .text = "a\tx\nb\tc\td\n" },
           "t.tsv:2: 3 fields; expected 2 columns");
    refuse((given){ .name = "t.tsv", .text = "a\tx\nb\t\n" }, "t.tsv:2: a label of 0 bytes");
    refuse((given){ .name = "t.tsv", .text = "a\tx\nb\tx\n" }, "one label only");
    refuse((given){ .name = "t.tsv", .text = "\n" }, "no labels");
    refuse((given){ .name = "t.tsv", .text = "\xFF\tx\n" }, "byte 0 is not UTF-8");
    refuse((given){ .name = "t.txt", .text = "a\tx\n" }, "labels need TSV, CSV or JSONL");
    refuse((given){ .name = "t.csv", .text = "\"a,x\n" }, "t.csv:1: unterminated quoted field");
    refuse((given){ .name = "t.jsonl", .text = "{\"text\": \"a\"}" }, "\"label\" is missing");
    refuse((given){ .name = "t.jsonl", .text = "{\"text\": 1, \"label\": 1}" },
           "\"text\" is missing");
    refuse((given){ .name = "t.jsonl", .text = "{\"text\": \"a\", \"label\": 1.5}" }, "an integer");
    refuse(
        (given){ .name = "t.jsonl", .text = "{\"text\": \"a\", \"text_pair\": 1, \"label\": 1}" },
        "\"text_pair\" is missing, or not a string");
    refuse((given){ .name = "t.jsonl", .text = "{\"text\": \"a\", \"label\": \"x\\u0000\"}" },
           "none of them 0");
    refuse((given){ .name = "t.tsv", .text = "a\tx\nb\ty\n", .columns = "text" },
           "expected a text and one label");
    refuse((given){ .name = "t.tsv", .text = "a\tx\nb\ty\n", .columns = "text,name" },
           "unknown column \"name\"; expected text, pair, label or -");
    refuse((given){ .name = "t.tsv", .text = "a\tx\nb\ty\n", .columns = "text,label," },
           "unknown column \"\"");
}

/* The limits on the bytes of a label and on the number of labels. */
static void limits(void **state)
{
    (void)state;
    char text[512], name[202];
    memset(name, 'x', sizeof name - 1);
    name[201] = '\0';
    snprintf(text, sizeof text, "a\t%.200s\nb\ty\n", name);
    lesson l;
    lesson_open(&l, (given){ .name = "t.tsv", .text = text });
    assert_int_equal(strlen(l.labels.name[0]), 200);
    lesson_close(&l);
    snprintf(text, sizeof text, "a\t%s\nb\ty\n", name);
    refuse((given){ .name = "t.tsv", .text = text }, "a label of 201 bytes, expected 1 to 200");

    for (int n = 10000; n <= 10001; n++) {
        char *many = malloc((size_t)n * 16), *at = many;
        for (int i = 0; i < n; i++)
            at += sprintf(at, "a\t%d\n", i);
        if (n == 10000) {
            lesson_open(&l, (given){ .name = "t.tsv", .text = many });
            assert_int_equal(l.labels.n, 10000);
            assert_string_equal(l.labels.name[2], "10");
            lesson_close(&l);
        } else {
            refuse((given){ .name = "t.tsv", .text = many }, "more than 10000 labels");
        }
        free(many);
    }
}

/* ---- samples --------------------------------------------------------------------------------- */

/* [CLS] a b c d e f [SEP] has 8 rows; a longer text keeps its last token. */
static void long_texts(void **state)
{
    (void)state;
    lesson l;
    lesson_open(&l, (given){ .name = "t.tsv", .text = "abcdef\tx\nabcdefgh\ty\nabcdefghi\tx\n" });
    assert_string_equal(texts_of(&l, &l.data.train), "abcdef=x abcdef=y abcdef=x");
    assert_int_equal(l.data.train.counts.n_truncated, 2);
    assert_int_equal(l.data.train.counts.n_target, 3);
    lesson_close(&l);
}

static void kept_apart(void **state)
{
    (void)state;
    lesson l;
    char apart[4096];
    snprintf(apart, sizeof apart, "%s", temp_file("dev.tsv", "z\tx\ny\ty\n", 8));
    lesson_open(&l, (given){ .name = "t.tsv", .text = "a\tx\nb\ty\n", .apart = apart });
    assert_string_equal(texts_of(&l, &l.data.train), "a=x b=y");
    assert_string_equal(texts_of(&l, &l.data.validation), "z=x y=y");
    lesson_close(&l);
    temp_file("dev.tsv", "z\tq\n", 4);
    refuse((given){ .name = "t.tsv", .text = "a\tx\nb\ty\n", .apart = apart },
           "dev.tsv:1: unknown label \"q\"; expected one of the model's 2");
}

/* A share of the texts is held out for validation, and no text is in both parts. */
static void share(void **state)
{
    (void)state;
    lesson l;
    lesson_open(&l, (given){ .name = "t.tsv",
                             .text = "a\tx\nb\ty\nc\tx\nd\ty\ne\tx\nf\ty\ng\tx\nh\ty\n",
                             .validation = 0.25 });
    char train[256];
    snprintf(train, sizeof train, "%s", texts_of(&l, &l.data.train));
    const char *validation = texts_of(&l, &l.data.validation);
    assert_int_equal(strlen(train), 6 * 4 - 1);
    assert_int_equal(strlen(validation), 2 * 4 - 1);
    for (int c = 'a'; c <= 'h'; c++) {
        const char one[] = { (char)c, '=', '\0' };
        assert_true(!strstr(train, one) == !!strstr(validation, one));
    }
    lesson_close(&l);
}

static void names(void **state)
{
    (void)state;
    static const char *const known[] = { "good", "bad", "ba" };
    host h;
    label_set l;
    host_plain(&h);
    model m = { .host = &h, .n_out = 3, .label = known };
    assert_int_equal(labels_of_model(&l, &m, NULL), WEFT_OK);
    assert_int_equal(labels_find(&l, "goodbye", 4), 0);
    assert_int_equal(labels_find(&l, "bad", 3), 1);
    assert_int_equal(labels_find(&l, "bad", 2), 2);
    assert_int_equal(labels_find(&l, "b", 1), -1);
    assert_int_equal(labels_find(&l, "0", 1), -1);
    labels_free(&l);
    m.label = NULL;
    assert_int_equal(labels_of_model(&l, &m, NULL), WEFT_OK);
    assert_int_equal(labels_find(&l, "2", 1), 2);
    assert_int_equal(labels_find(&l, "LABEL_1", 7), 1);
    assert_int_equal(labels_find(&l, "3", 1), -1);
    labels_free(&l);
    assert_int_equal(h.mem.used, 0);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* Whatever call fails, there is a message and nothing is left. */
static void faults_everywhere(void **state)
{
    (void)state;
    static const given all[] = {
        { .name = "f.tsv", .text = "ab\tx\nc\ty\n" },
        { .name = "f.csv", .text = "x,\"a\"\"b\"\ny,c\n", .columns = "label,-" },
        { .name = "f.csv", .text = "x,\"ab\"\ny,c\n", .columns = "label,text" },
        { .name = "f.jsonl",
          .text = "{\"text\":\"a\",\"label\":1}\n{\"text\":\"b\",\"label\":2}\n" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char path[4096], tokens[4096];
        snprintf(path, sizeof path, "%s", temp_file(all[i].name, all[i].text, strlen(all[i].text)));
        snprintf(tokens, sizeof tokens, "%s", tokenizer_path());
        for (int io = 0; io < 2; io++)
            for (int64_t k = 1;; k++) {
                faults f = { .fail_at = k };
                lesson l;
                host_faulty(&l.host, io ? NULL : &f, io ? &f : NULL);
                const weft_status status = open_parts(&l, &all[i], path, tokens);
                if (status == WEFT_OK)
                    lesson_close(&l);
                else
                    assert_true(l.err.message[0]);
                assert_int_equal(f.live, 0);
                if (f.calls < k)
                    break;
                assert_true(k < 10000);
            }
    }
}

/* The JSON tree of a line counts as memory, unused fields included. */
static void trees_are_counted(void **state)
{
    (void)state;
    enum { NUMBERS = 50000 };
    char *text = malloc(2 * NUMBERS + 100), *at = text;
    at += sprintf(at, "{\"text\":\"a\",\"label\":1,\"more\":[1");
    for (int i = 1; i < NUMBERS; i++)
        at += sprintf(at, ",1");
    sprintf(at, "]}\n{\"text\":\"b\",\"label\":2}\n");
    const char *path = temp_file("tree.jsonl", text, strlen(text));
    free(text);
    for (int most = 1; most <= 8; most += 7) { /* MiB */
        columns c;
        label_set l;
        host h;
        weft_error err = { 0 };
        host_plain(&h);
        h.mem.cap = (size_t)most << 20;
        assert_int_equal(columns_parse(&c, NULL, &err), WEFT_OK);
        const weft_status status = labels_list(&l, &path, 1, DATA_BY_NAME, &c, WEFT_LOAD_COPY, &h,
                                               &err);
        assert_int_equal(status, most == 1 ? WEFT_ELIMIT : WEFT_OK);
        if (status == WEFT_OK)
            labels_free(&l);
        assert_int_equal(h.mem.used, 0);
    }
}

/* Tables are recognised by file name; JSONL has labels if its first line does. */
static void where_labels_are(void **state)
{
    (void)state;
    static const char with[] = "{\"text\": \"a\", \"label\": 1}\n",
                      without[] = "{\"text\": \"a\"}\n";
    host h;
    host_plain(&h);
    assert_true(labelled_is_here("data.tsv", DATA_BY_NAME, &h));
    assert_true(labelled_is_here("data", DATA_CSV, &h));
    assert_false(labelled_is_here("data.txt", DATA_BY_NAME, &h));
    assert_false(labelled_is_here("nowhere.jsonl", DATA_BY_NAME, &h));
    assert_true(labelled_is_here(temp_file("with.jsonl", with, sizeof with - 1), DATA_BY_NAME, &h));
    assert_false(labelled_is_here(temp_file("without.jsonl", without, sizeof without - 1),
                                  DATA_BY_NAME, &h));
    assert_int_equal(h.mem.used, 0);
}

static void many_columns(void **state)
{
    (void)state;
    columns c;
    weft_error err = { 0 };
    char names[2 * TABLE_FIELDS + 32] = "text,label";
    for (int i = 2; i < TABLE_FIELDS; i++)
        strcat(names, ",-");
    assert_int_equal(columns_parse(&c, names, &err), WEFT_OK);
    assert_int_equal(columns_parse(&c, strcat(names, ",-"), &err), WEFT_EINVAL);
    assert_non_null(strstr(err.message, "more than 64 columns"));
    assert_int_equal(columns_parse(&c, "text,label,", &err), WEFT_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("labelled: tables give texts and labels", tables),
        TEST("labelled: objects give texts and labels", objects),
        TEST("labelled: invalid records are refused by line", refusals),
        TEST("labelled: label length and number have limits", limits),
        TEST("labelled: a text that is too long keeps its last token", long_texts),
        TEST("labelled: a file is held out, with the same labels", kept_apart),
        TEST("labelled: a share is held out", share),
        TEST("labelled: names match whole, and numbers stand for missing names", names),
        TEST("labelled: detects whether a file has labels", where_labels_are),
        TEST("labelled: the number of columns is limited", many_columns),
        TEST("labelled: the tree of a line counts as memory", trees_are_counted),
        TEST("labelled: faults of memory and files leave nothing behind", faults_everywhere),
    };
    return RUN(tests);
}
