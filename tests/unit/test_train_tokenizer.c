/* Tokenizers trained on a text, compared with those of other programs on the same text. */
#include "support.h"

#include "base/utf8.h"
#include "text/normalize.h"
#include "text/sources/source.h"
#include "text/train/train.h"

static const char *const end_of_text[] = { "<|endoftext|>" };
static const char *const bert[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" };

static void train(trained *t, const char *path, const train_options *o, host *h)
{
    weft_error err = { 0 };
    host_plain(h);
    if (train_tokenizer(t, &path, 1, o, h, &err) != WEFT_OK)
        fail_msg("%s: %s", path, err.message);
}

static void done(trained *t, host *h)
{
    trained_free(t);
    assert_int_equal(h->mem.used, 0);
}

/* A token of bytes, each as its printable stand-in. */
static size_t spell(const trained *t, uint32_t id, char *to)
{
    size_t n, out = 0;
    const char *bytes = tokens_get(&t->merger.tokens, id, &n);
    for (size_t i = 0; i < n; i++)
        out += utf8_encode(byte_stand_in((uint8_t)bytes[i]), to + out);
    return out;
}

/* Merges as lines of "left right". */
static void compare_merges(const trained *t, const char *path)
{
    size_t size;
    char *text = read_whole(path, &size), *line = text;
    for (size_t i = 0; i < t->merger.n_merge; i++) {
        char expected[1024];
        size_t n = spell(t, t->merger.merges[i].a, expected);
        expected[n++] = ' ';
        n += spell(t, t->merger.merges[i].b, expected + n);
        expected[n++] = '\n';
        if ((size_t)(text + size - line) < n || memcmp(line, expected, n) != 0)
            fail_msg("%s: merge %zu is %.*s", path, i, (int)n - 1, expected);
        line += n;
    }
    assert_ptr_equal(line, text + size);
    free(text);
}

static void the_fixture(void **state)
{
    (void)state;
    const char *path = asset("data/bpe-train-fixture/corpus.en");
    const train_options o = {
        .n_vocab = 500, .min_frequency = 1, .by_bytes = true, .special = end_of_text, .n_special = 1
    };
    host h;
    trained t;
    train(&t, path, &o, &h);
    compare_merges(&t, asset("data/bpe-train-fixture/train-bpe-reference-merges.txt"));
    assert_int_equal(t.merger.tokens.n, 500);
    done(&t, &h);
}

static void goldens_of_bytes(void **state)
{
    (void)state;
    const char *path = fixture("golden/train-tokenizer/corpus.txt");
    for (int lines = 0; lines < 2; lines++) {
        const train_options o = { .n_vocab = 900,
                                  .min_frequency = 2,
                                  .lines = lines,
                                  .special = end_of_text,
                                  .n_special = 1 };
        host h;
        trained t;
        train(&t, path, &o, &h);
        compare_merges(&t, fixture(lines ? "golden/train-tokenizer/bpe-lines.txt"
                                         : "golden/train-tokenizer/bpe-files.txt"));
        done(&t, &h);
    }
}

/* The ids of single code points are taken from the golden, because they differ from run to run. */
static void golden_of_words(void **state)
{
    (void)state;
    size_t size, n = 0, n_first = 0;
    char *text = read_whole(fixture("golden/train-tokenizer/wordpiece.txt"), &size);
    const char *token[1000];
    for (char *line = text, *end; line < text + size; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + size - line));
        *end = 0;
        token[n++] = line;
    }
    for (n_first = 5; n_first < n; n_first++) {
        const char *s = token[n_first] + (strncmp(token[n_first], "##", 2) == 0 ? 2 : 0);
        uint32_t c;
        if (utf8_decode(s, strlen(s), &c) != strlen(s))
            break;
    }
    const train_options o = { .wordpiece = true,
                              .n_vocab = 500,
                              .min_frequency = 2,
                              .lines = true,
                              .special = bert,
                              .n_special = 5,
                              .first = token + 5,
                              .n_first = (int)n_first - 5 };
    host h;
    trained t;
    train(&t, fixture("golden/train-tokenizer/corpus.txt"), &o, &h);
    assert_int_equal(t.merger.tokens.n, n);
    for (uint32_t i = 0; i < n; i++) {
        size_t length;
        const char *s = tokens_get(&t.merger.tokens, i, &length);
        if (length != strlen(token[i]) || memcmp(s, token[i], length) != 0)
            fail_msg("token %u is %.*s, expected %s", i, (int)length, s, token[i]);
    }
    free(text);
    done(&t, &h);
}

/* ---- characters ------------------------------------------------------------------------------ */

static void expect_ids(const tokenizer *t, const char *text, const uint32_t *want, size_t n)
{
    weft_error err = { 0 };
    encoding e;
    encoder *k = encoder_new(t, &t->host->mem, &err);
    const encode_options o = { .parse_special = true };
    assert_int_equal(encoder_encode(k, text, strlen(text), NULL, 0, &o, &e, &err), WEFT_OK);
    assert_int_equal(e.n, n);
    assert_memory_equal(e.id, want, n * sizeof *want);
    encoder_free(k);
}

/* Ids in the order of code points, as in nanoGPT; special tokens come first and are not trained
 * on. */
static void characters(void **state)
{
    (void)state;
    static const char text[] = "b\xC3\xA9"
                               "a\n\"b<|endoftext|>\\\xF0\x9F\x98\x80";
    static const char *const special[] = { "<|endoftext|>", "<unk>" };
    const char *path = temp_file("text.txt", text, strlen(text));
    for (int n_special = 1; n_special <= 2; n_special++) {
        const train_options o = {
            .characters = true, .n_vocab = 10, .special = special, .n_special = n_special
        };
        const uint32_t s = (uint32_t)n_special;
        const uint32_t want[] = { s + 4, s + 5, s + 3, s, s + 1, s + 4, 0, s + 2, s + 6 };
        weft_error err = { 0 };
        host h;
        trained t;
        tokenizer made;
        train(&t, path, &o, &h);
        assert_int_equal(t.merger.tokens.n, s + 7);
        assert_int_equal(t.n_occurrence, 8);
        const char *json = temp_path("characters.json");
        assert_int_equal(trained_save(&t, &o, json, &h, &err), WEFT_OK);
        done(&t, &h);
        if (tokenizer_load(&made, json, NULL, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        expect_ids(&made, text, want, 9);
        expect_ids(&made, "axb", n_special == 2 ? (uint32_t[]){ 5, 1, 6 } : (uint32_t[]){ 4, 5 },
                   n_special == 2 ? 3 : 2); /* x was not in the text */
        tokenizer_free(&made);
        assert_int_equal(h.mem.used, 0);
    }
}

static void too_many_characters(void **state)
{
    (void)state;
    const train_options o = {
        .characters = true, .n_vocab = 2, .special = end_of_text, .n_special = 1
    };
    const char *path = temp_file("text.txt", "ab", 2);
    weft_error err = { 0 };
    host h;
    trained t;
    host_plain(&h);
    assert_int_equal(train_tokenizer(&t, &path, 1, &o, &h, &err), WEFT_EINVAL);
    assert_non_null(strstr(err.message, "2 characters and 1 special tokens in a vocabulary of 2"));
    assert_int_equal(h.mem.used, 0);
}

/* ---- the same for every number of threads ---------------------------------------------------- */

static char *saved(const trained *t, const train_options *o, size_t *size)
{
    weft_error err = { 0 };
    host h;
    const char *path = temp_file("tokenizer.json", "", 0);
    host_plain(&h);
    assert_int_equal(trained_save(t, o, path, &h, &err), WEFT_OK);
    return read_whole(path, size);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    size_t n, size[2];
    char *one = read_whole(fixture("golden/train-tokenizer/corpus.txt"), &n);
    const size_t copies = quick() ? 60 : 200;
    char *many = malloc(copies * (n + 16));
    size_t total = 0;
    for (size_t i = 0; i < copies; i++) {
        memcpy(many + total, one, n);
        total += n;
        total += (size_t)sprintf(many + total, i % 3 ? "w%zu\n" : "<|endoftext|>%zu", i * i);
    }
    const char *path = temp_file("many.txt", many, total);
    for (int kind = 0; kind < 3; kind++) {
        char *json[2];
        for (int k = 0; k < 2; k++) {
            const train_options o = { .wordpiece = kind == 2,
                                      .lines = kind == 1,
                                      .n_vocab = 700,
                                      .min_frequency = 2,
                                      .special = end_of_text,
                                      .n_special = 1,
                                      .n_thread = k ? 7 : 1,
                                      .load = k ? WEFT_LOAD_MAP : WEFT_LOAD_COPY };
            host h;
            trained t;
            train(&t, path, &o, &h);
            json[k] = saved(&t, &o, &size[k]);
            done(&t, &h);
        }
        assert_int_equal(size[0], size[1]);
        assert_memory_equal(json[0], json[1], size[0]);
        free(json[0]);
        free(json[1]);
    }
    free(one);
    free(many);
}

/* ---- options --------------------------------------------------------------------------------- */

static void special_tokens_are_not_learned_from(void **state)
{
    (void)state;
    static const char text[] = "ab<s>cd<s>ab<s>cd<s><s>abcd <|end|>";
    static const char *const special[] = { "<s>", "<|end|>" };
    const train_options o = {
        .n_vocab = 400, .min_frequency = 1, .special = special, .n_special = 2
    };
    host h;
    trained t;
    train(&t, temp_file("special.txt", text, sizeof text - 1), &o, &h);
    assert_int_equal(t.n_occurrence, 6); /* ab cd ab cd abcd and a space */
    assert_int_equal(tokens_find(&t.merger.tokens, "<s>", 3), 0);
    assert_int_equal(tokens_find(&t.merger.tokens, "<|end|>", 7), 1);
    assert_int_equal(tokens_find(&t.merger.tokens, "<s", 2), UINT32_MAX);
    assert_int_equal(t.merger.n_merge, 3);
    done(&t, &h);
}

static void frequency_and_size_are_kept(void **state)
{
    (void)state;
    const char *path = fixture("golden/train-tokenizer/corpus.txt");
    for (uint32_t n = 256; n < 1200; n += 97)
        for (uint64_t min_frequency = 1; min_frequency < 200; min_frequency *= 5) {
            const train_options o = { .n_vocab = n, .min_frequency = min_frequency };
            host h;
            trained t;
            train(&t, path, &o, &h);
            assert_true(t.merger.tokens.n <= n || t.merger.tokens.n == 256);
            assert_true(t.merger.n_merge + 256 >= t.merger.tokens.n);
            done(&t, &h);
        }
}

static void overlapping_pairs(void **state)
{
    (void)state;
    const train_options o = { .n_vocab = 300, .min_frequency = 1, .n_special = 0 };
    host h;
    trained t;
    train(&t, temp_file("a.txt", "aaaaaaa", 7), &o, &h);
    static const char *const expected[] = { "aa", "aaaa", "aaa", "aaaaaaa" };
    assert_int_equal(t.merger.n_merge, 4);
    for (size_t i = 0; i < 4; i++) {
        size_t n;
        const char *s = tokens_get(&t.merger.tokens, t.merger.merges[i].made, &n);
        assert_int_equal(n, strlen(expected[i]));
        assert_memory_equal(s, expected[i], n);
    }
    done(&t, &h);
}

/* ---- what is written can be read ------------------------------------------------------------- */

static void the_file_loads(void **state)
{
    (void)state;
    static const char text[] = "\351\xAA\x9E \"quoted\\\" \303\251 Baker, 1234  \n\tx";
    for (int kind = 0; kind < 3; kind++) {
        const train_options o = { .wordpiece = kind == 1,
                                  .n_vocab = 600,
                                  .min_frequency = 2,
                                  .pattern = kind == 2 ? "\\p{L}+|\"\\\\|[^\\p{L}]" : NULL,
                                  .special = kind == 1 ? bert : end_of_text,
                                  .n_special = kind == 1 ? 5 : 1 };
        host h, g;
        trained t;
        train(&t, fixture("golden/train-tokenizer/corpus.txt"), &o, &h);
        weft_error err = { 0 };
        const char *path = temp_file("tokenizer.json", "", 0);
        assert_int_equal(trained_save(&t, &o, path, &h, &err), WEFT_OK);
        host_plain(&g);
        tokenizer loaded;
        if (tokenizer_load(&loaded, path, NULL, WEFT_LOAD_COPY, &g, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        assert_int_equal(loaded.n_id, t.merger.tokens.n);
        encoder *e = encoder_new(&loaded, &g.mem, &err);
        encoding out;
        const encode_options plain = { .no_template = true };
        assert_int_equal(encoder_encode(e, text, sizeof text - 1, NULL, 0, &plain, &out, &err),
                         WEFT_OK);
        size_t at = 0;
        for (size_t i = 0; kind != 1 && i < out.n; i++) {
            const char *bytes;
            const int64_t n = tokenizer_piece(&loaded, out.id[i], &bytes);
            assert_memory_equal(bytes, text + at, (size_t)n);
            at += (size_t)n;
        }
        assert_true(kind == 1 ? out.n > 3 : at == sizeof text - 1);
        encoder_free(e);
        tokenizer_free(&loaded);
        done(&t, &h);
        assert_int_equal(g.mem.used, 0);
    }
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

static void refused(const char *path, const train_options *o, weft_status code, const char *says)
{
    host h;
    host_plain(&h);
    weft_error err = { 0 };
    trained t;
    const weft_status status = train_tokenizer(&t, &path, 1, o, &h, &err);
    if (status != code || err.code != code || !strstr(err.message, says))
        fail_msg("%s (%d), expected %s (%d)", err.message, status, says, code);
    assert_int_equal(h.mem.used, 0);
}

static void errors_have_names(void **state)
{
    (void)state;
    static const char *const twice[] = { "<s>", "<s>" }, *const empty[] = { "" },
                             *const bad[] = { "\377" };
    const char *good = temp_file("good.txt", "a b c", 5);
    refused("/nonexistent/text", &(train_options){ .n_vocab = 300 }, WEFT_EIO, "No such file");
    refused(temp_file("bad.txt", "abc\377d", 5), &(train_options){ .n_vocab = 300 }, WEFT_EFORMAT,
            "byte 3 is not UTF-8");
    refused(good, &(train_options){ 0 }, WEFT_EINVAL, "a vocabulary of 0 tokens");
    refused(good, &(train_options){ .n_vocab = 300, .special = twice, .n_special = 2 }, WEFT_EINVAL,
            "<s> is given twice");
    refused(good, &(train_options){ .n_vocab = 300, .special = empty, .n_special = 1 }, WEFT_EINVAL,
            "special token 0 is empty");
    refused(good, &(train_options){ .n_vocab = 300, .special = bad, .n_special = 1 }, WEFT_EINVAL,
            "special token 0 is not UTF-8");
    refused(good, &(train_options){ .n_vocab = 300, .pattern = "[a" }, WEFT_EFORMAT,
            "a class without its ']'");
    refused(good, &(train_options){ .n_vocab = 300, .pattern = "\\p{Klingon}" }, WEFT_EUNSUPPORTED,
            "unknown property");

    const train_options o = { .n_vocab = 300, .min_frequency = 1 };
    host h;
    trained t;
    weft_error err = { 0 };
    train(&t, good, &o, &h);
    assert_int_equal(trained_save(&t, &o, "/nonexistent/tokenizer.json", &h, &err), WEFT_EIO);
    done(&t, &h);
}

static void the_public_call_checks(void **state)
{
    (void)state;
    weft_error err = { 0 };
    const char *good = temp_file("good.txt", "a b c a b", 9), *none = NULL;
    const char *to = temp_file("out.json", "", 0);
    weft_tokenizer_train_options o = { .struct_size = sizeof o, .n_vocab = 260 };
    weft_tokenizer_train_info info = { .struct_size = sizeof info };
    assert_int_equal(weft_tokenizer_train(NULL, 0, to, &o, NULL, &err), WEFT_EINVAL);
    assert_int_equal(weft_tokenizer_train(&good, 1, NULL, &o, NULL, &err), WEFT_EINVAL);
    assert_int_equal(weft_tokenizer_train(&none, 1, to, &o, NULL, &err), WEFT_EINVAL);
    o.struct_size = 10000;
    assert_int_equal(weft_tokenizer_train(&good, 1, to, &o, NULL, &err), WEFT_EINVAL);
    o = (weft_tokenizer_train_options){ .struct_size = sizeof o, .n_special = 1 };
    assert_int_equal(weft_tokenizer_train(&good, 1, to, &o, NULL, &err), WEFT_EINVAL);
    o = (weft_tokenizer_train_options){ .struct_size = sizeof o, .ties = (weft_ties)7 };
    assert_int_equal(weft_tokenizer_train(&good, 1, to, &o, NULL, &err), WEFT_EINVAL);
    o = (weft_tokenizer_train_options){ .struct_size = sizeof o, .min_frequency = -1 };
    assert_int_equal(weft_tokenizer_train(&good, 1, to, &o, NULL, &err), WEFT_EINVAL);
    o = (weft_tokenizer_train_options){ .struct_size = sizeof o, .ram_max = 4096 };
    assert_int_equal(weft_tokenizer_train(&good, 1, to, &o, NULL, &err), WEFT_ELIMIT);
    o = (weft_tokenizer_train_options){ .struct_size = sizeof o };
    assert_int_equal(weft_tokenizer_train(&good, 1, to, &o, &info, &err), WEFT_OK);
    assert_int_equal(info.n_vocab, 257);
    assert_int_equal(info.n_occurrence, 5);
    assert_int_equal(weft_tokenizer_train(&good, 1, to, NULL, NULL, NULL), WEFT_OK);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const char *path = temp_file("small.txt", "low lower lowest  wider \303\251t\303\251\n", 30);
    for (int kind = 0; kind < 2; kind++)
        for (int64_t k = 1;; k++) {
            const train_options o = { .wordpiece = kind,
                                      .n_vocab = 400,
                                      .min_frequency = 1,
                                      .special = bert,
                                      .n_special = 5,
                                      .n_thread = 1 };
            faults f = { .fail_at = k };
            host h;
            host_faulty(&h, &f, NULL);
            weft_error err = { 0 };
            trained t;
            const weft_status status = train_tokenizer(&t, &path, 1, &o, &h, &err);
            if (status == WEFT_OK) {
                trained_free(&t);
            } else {
                assert_int_equal(status, WEFT_ENOMEM);
                assert_int_equal(err.code, WEFT_ENOMEM);
            }
            assert_int_equal(f.live, 0);
            assert_int_equal(h.mem.used, 0);
            if (f.calls < k)
                break;
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("train-tokenizer: the fixture's merges, ties by bytes", the_fixture),
        TEST("train-tokenizer: bytes are merged as Hugging Face does", goldens_of_bytes),
        TEST("train-tokenizer: word pieces are those of Hugging Face", golden_of_words),
        TEST("train-tokenizer: the result does not depend on threads", threads_change_nothing),
        TEST("train-tokenizer: special tokens are not trained on",
             special_tokens_are_not_learned_from),
        TEST("train-tokenizer: frequency and size are kept", frequency_and_size_are_kept),
        TEST("train-tokenizer: pairs that overlap are merged from the left", overlapping_pairs),
        TEST("train-tokenizer: its files can be loaded", the_file_loads),
        TEST("train-tokenizer: errors name the fault", errors_have_names),
        TEST("train-tokenizer: the public call checks its arguments", the_public_call_checks),
        TEST("train-tokenizer: every allocation may fail", every_allocation_may_fail),
        TEST("characters: ids in the order of code points", characters),
        TEST("characters: more than the vocabulary allows", too_many_characters),
    };
    return RUN(tests);
}
