/* Marian's pair of SentencePiece models: ids as in transformers, and errors. */
#include "support.h"
#include "weft.h"

/* ---- golden texts ---------------------------------------------------------------------------- */

static char *field(char **rest, char end)
{
    char *begin = *rest, *stop = strchr(begin, end);
    assert_non_null(stop);
    *stop = '\0';
    *rest = stop + 1;
    return begin;
}

static void check_ids(const weft_tokens *k, char *want, const char *text)
{
    char got[1024] = "";
    for (int64_t i = 0; i < k->n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", i ? " " : "", (int)k->ids[i]);
    if (strcmp(got, want) != 0)
        fail_msg("\"%s\": %s, not %s", text, got, want);
}

/* As transformers prints it: without spaces at either end. */
static void check_back(const weft_tokenizer *t, const weft_tokens *k, const char *want)
{
    char got[1024] = "";
    weft_error err = { 0 };
    weft_decoder *d = weft_decoder_new(t, false, &err);
    assert_non_null(d);
    for (int64_t i = 0; i <= k->n; i++) {
        const char *bytes;
        size_t n;
        if (i == k->n)
            weft_decoder_flush(d, &bytes, &n);
        else
            assert_int_equal(weft_decoder_push(d, k->ids[i], &bytes, &n, &err), WEFT_OK);
        strncat(got, bytes, n);
    }
    weft_decoder_free(d);
    size_t n = strlen(got);
    while (n > 0 && got[n - 1] == ' ')
        got[--n] = '\0';
    assert_string_equal(got + strspn(got, " "), want);
}

static void as_transformers(void **state)
{
    (void)state;
    weft_error err = { 0 };
    weft_tokenizer *side[2] = { weft_tokenizer_load(fixture("golden/marian-text"), NULL, &err),
                                weft_tokenizer_load(fixture("golden/marian-text/target.spm"), NULL,
                                                    &err) };
    const weft_tokenize_options o = { .struct_size = sizeof o, .parse_special = true };
    char line[4096];
    int n = 0;
    FILE *f = fopen(fixture("golden/marian-text/texts.txt"), "r");
    assert_true(f && side[0] && side[1]);
    for (; fgets(line, sizeof line, f); n++) {
        char *rest = line;
        const weft_tokenizer *t = side[*field(&rest, '\t') == 't'];
        char *ids = field(&rest, '\t'), *text = field(&rest, '\t'), *back = field(&rest, '\n');
        weft_tokens *k = weft_tokenizer_encode(t, text, strlen(text), &o, &err);
        assert_non_null(k);
        check_ids(k, ids, text);
        if (!strstr(text, ">>") && !strstr(text, "</s>"))
            check_back(t, k, back);
        weft_tokens_free(k);
    }
    assert_true(n >= 28);
    fclose(f);
    weft_tokenizer_free(side[0]);
    weft_tokenizer_free(side[1]);
}

/* Every id has a text, those of the other side too, and no other number has. */
static void numbers_and_texts(void **state)
{
    (void)state;
    static const char *const files[] = { "golden/marian-text/source.spm",
                                         "golden/marian-text/target.spm" };
    for (int i = 0; i < 2; i++) {
        weft_error err = { 0 };
        weft_tokenizer *t = weft_tokenizer_load(fixture(files[i]), NULL, &err);
        weft_tokenizer_info info = { .struct_size = sizeof info };
        weft_decoder *d = weft_decoder_new(t, false, &err);
        size_t n;
        const char *bytes;
        assert_true(t && d);
        weft_tokenizer_get_info(t, &info);
        for (int32_t id = 0; id < info.n_vocab; id++) {
            const char *text = weft_tokenizer_token(t, id, &n);
            assert_non_null(text);
            assert_int_equal(weft_tokenizer_id(t, text, n), id);
        }
        assert_null(weft_tokenizer_token(t, info.n_vocab, &n));
        assert_int_equal(weft_tokenizer_piece(t, info.n_vocab, NULL, 0), -1);
        assert_int_equal(weft_decoder_push(d, info.n_vocab, &bytes, &n, &err), WEFT_EINVAL);
        weft_decoder_free(d);
        weft_tokenizer_free(t);
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refuse(const char *vocabulary, const char *why)
{
    weft_error err = { 0 };
    char model[4096];
    size_t n;
    char *bytes = read_whole(fixture("golden/marian-text/source.spm"), &n);
    snprintf(model, sizeof model, "%s", temp_file("source.spm", bytes, n));
    free(bytes);
    remove(temp_path("vocab.json"));
    if (vocabulary)
        temp_file("vocab.json", vocabulary, strlen(vocabulary));
    assert_null(weft_tokenizer_load(model, NULL, &err));
    if (!strstr(err.message, why))
        fail_msg("\"%s\" does not say \"%s\"", err.message, why);
}

static void refusals(void **state)
{
    (void)state;
    refuse("{\"</s>\": 0, \"a\": 1}", "vocab.json: has no <unk>");
    refuse("{\"<unk>\": 0, \"a\": 1}", "vocab.json: has no </s>");
    refuse("{\"</s>\": 0, \"<unk>\": 2}", "vocab.json: id 1 has no piece");
    refuse("{\"</s>\": 0, \"<unk>\": 1, \"\": 2}", "vocab.json: id 2 has no piece");
    refuse("{\"</s>\": 0, \"<unk>\": 0}", "id 0");
    refuse("{\"</s>\": 0, \"<unk>\": -1}", "is not an id from 0");
    refuse("{\"</s>\": 0, \"<unk>\": 1", "vocab.json: line 1");
    refuse("[[\"</s>\", 0], [\"<unk>\", 1]]", "vocab.json: JSON is not an object");
    refuse(NULL, "source.spm: no vocab.json beside it");
}

/* A single tokenizer would be used for both sides. */
static void no_training(void **state)
{
    (void)state;
    weft_error err = { 0 };
    weft_train_options o;
    const char *data = temp_file("pairs.tsv", "a dog\tein Hund\n", 15);
    weft_train_defaults(&o, sizeof o);
    o.model = fixture("golden/marian");
    o.tokenizer = fixture("golden/marian-text");
    o.data = &data;
    o.n_data = 1;
    o.out = temp_path("run");
    assert_int_equal(weft_train(&o, NULL, &err), WEFT_EUNSUPPORTED);
    assert_non_null(
        strstr(err.message,
               "separate source and target vocabularies; training needs one shared tokenizer"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("marian: texts have the ids of transformers", as_transformers),
        TEST("marian: every id has a text, and no other number has", numbers_and_texts),
        TEST("marian: vocabularies without ids are refused", refusals),
        TEST("marian: a model with two tokenizers is not trained", no_training),
    };
    return RUN(tests);
}
