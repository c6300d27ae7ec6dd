/* Vocabulary files: truncated anywhere, with hostile numbers, and with failing memory. */
#include "gguf_build.h"
#include "support.h"
#include "text/finish.h"
#include "text/sources/source.h"
#include "tokenizer_life.h"

static const char text[] = "low lower <s> \xC3\xA9\xF0\x9F\x99\x82 caf\xC3\xA9 \xFF 123";

/* ---- small files of every kind --------------------------------------------------------------- */

static bytes json_file(void)
{
    static const char json[] =
        "{\"version\":\"1.0\",\"truncation\":{\"direction\":\"Left\",\"max_length\":9,\"strategy\":"
        "\"LongestFirst\",\"stride\":0},\"padding\":{\"strategy\":{\"Fixed\":4},\"direction\":"
        "\"Left\","
        "\"pad_id\":0,\"pad_type_id\":1,\"pad_token\":\"u\",\"pad_to_multiple_of\":8},\"added_"
        "tokens\":["
        "{\"id\":9,\"content\":\"<s>\",\"lstrip\":true,\"rstrip\":true,\"single_word\":true,"
        "\"normalized\":true,\"special\":true}],\"normalizer\":{\"type\":\"Sequence\","
        "\"normalizers\":["
        "{\"type\":\"NFC\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" +\"},\"content\":\" "
        "\"}]},"
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
        "\"pattern\":"
        "{\"String\":\" \"},\"behavior\":\"MergedWithNext\",\"invert\":false},{\"type\":\"Digits\","
        "\"individual_digits\":true}]},\"post_processor\":{\"type\":\"TemplateProcessing\","
        "\"single\":["
        "{\"SpecialToken\":{\"id\":\"u\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}"
        "}],"
        "\"pair\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_"
        "id\":1}}],"
        "\"special_tokens\":{\"u\":{\"id\":\"u\",\"ids\":[0],\"tokens\":[\"u\"]}}},\"decoder\":{"
        "\"type\":"
        "\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},\"model\":{\"type\":\"BPE\",\"dropout\":"
        "null,"
        "\"unk_token\":\"u\",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_"
        "unk\":"
        "true,\"byte_fallback\":true,\"ignore_merges\":true,\"vocab\":{\"u\":0,\"l\":1,\"o\":2,"
        "\"w\":3,"
        "\"lo\":4,\"low\":5,\"e\":6,\"r\":7,\"er\":8},\"merges\":[\"l o\",[\"lo\",\"w\"],\"e "
        "r\"]}}";
    bytes b = { 0 };
    put(&b, json, sizeof json - 1);
    return b;
}

static void put_varint(bytes *b, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        put(b, &(uint8_t){ (uint8_t)(x | 0x80) }, 1);
    put(b, &(uint8_t){ (uint8_t)x }, 1);
}

static void put_piece(bytes *b, const char *s, float score, int type)
{
    const size_t n = strlen(s);
    put_varint(b, 1 << 3 | 2);
    put_varint(b, n + 9);
    put_varint(b, 1 << 3 | 2);
    put_varint(b, n);
    put(b, s, n);
    put_varint(b, 2 << 3 | 5);
    put(b, &score, 4);
    put_varint(b, 3 << 3 | 0);
    put_varint(b, (uint64_t)type);
}

static bytes model_file(int kind, bool fallback)
{
    bytes b = { 0 }, map = { 0 }, part = { 0 };
    static const char *const pieces[] = { "\xE2\x96\x81", "l", "o", "w",  "lo",
                                          "low",          "e", "r", "er", "\xE2\x96\x81low" };
    put_piece(&b, "<unk>", 0, PIECE_UNKNOWN);
    put_piece(&b, "<s>", 0, PIECE_CONTROL);
    put_piece(&b, "</s>", 0, PIECE_CONTROL);
    put_piece(&b, "caf", -1, PIECE_USER);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        put_piece(&b, pieces[i], -1 - (float)i, PIECE_NORMAL);
    for (unsigned i = 0; i < 256 && fallback; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        put_piece(&b, name, 0, PIECE_BYTE);
    }
    put_varint(&b, 2 << 3 | 2);
    put_varint(&b, 5);
    put_varint(&b, 3 << 3);
    put_varint(&b, (uint64_t)kind);
    put_varint(&b, 35 << 3); /* two bytes */
    put_varint(&b, fallback);
    put_u32(&map, 8); /* a trie of two units that lead nowhere */
    put_u32(&map, 1 << 10);
    put_u32(&map, 0);
    put(&map, "x", 2);
    put_varint(&part, 2 << 3 | 2);
    put_varint(&part, map.n);
    put(&part, map.at, map.n);
    put_varint(&b, 3 << 3 | 2);
    put_varint(&b, part.n);
    put(&b, part.at, part.n);
    free(map.at);
    free(part.at);
    return b;
}

static bytes tiktoken_file(void)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes b = { 0 };
    for (int i = 0; i < 256; i++) {
        char line[32];
        const int n = snprintf(line, sizeof line, "%c%c== %d\n", digits[i >> 2],
                               digits[i << 4 & 63], i);
        put(&b, line, (size_t)n);
    }
    put(&b, "bG8= 256\nbG93 257\n", 18); /* lo, low */
    return b;
}

static bytes bert_file(void)
{
    static const char lines[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nlow\n##er\r\ncaf\n##e\n123\n\n";
    bytes b = { 0 };
    put(&b, lines, sizeof lines - 1);
    return b;
}

static bytes llama2c_file(void)
{
    bytes b = { 0 };
    put_u32(&b, 8);
    for (unsigned i = 0; i < 264; i++) {
        static const char *const words[] = { "l", "o", "w", "lo", " low" };
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i - 3);
        const char *s = i == 0    ? "<unk>"
                        : i == 1  ? "\n<s>\n"
                        : i == 2  ? "\n</s>\n"
                        : i < 259 ? name
                                  : words[i - 259];
        const float score = -(float)i;
        put(&b, &score, 4);
        put_u32(&b, (uint32_t)strlen(s));
        put(&b, s, strlen(s));
    }
    return b;
}

static bytes letters_file(void)
{
    static const char lines[] = "<blank>\n<s>\n</s>\nl\no\r\n\xD8\xA2\nw\n \n";
    bytes b = { 0 };
    put(&b, lines, sizeof lines - 1);
    return b;
}

static bytes gguf_file(const char *model)
{
    gguf_build g = { 0 };
    static const char *const tokens[] = { "<unk>", "<s>", "</s>",         "l",       "o", "w",
                                          "lo",    "low", "\xE2\x96\x81", "\xC4\xA0" };
    static const char *const merges[] = { "l o", "lo w" };
    static const int32_t types[] = { 2, 3, 3, 1, 1, 1, 1, 1, 1, 4 };
    gguf_text(&g, "tokenizer.ggml.model", model);
    gguf_text(&g, "tokenizer.ggml.pre", "gpt-2");
    gguf_texts(&g, "tokenizer.ggml.tokens", tokens, 10);
    gguf_texts(&g, "tokenizer.ggml.merges", merges, 2);
    gguf_i32s(&g, "tokenizer.ggml.token_type", types, 10);
    gguf_i32s(&g, "tokenizer.ggml.scores", types, 10);
    gguf_u32(&g, "tokenizer.ggml.bos_token_id", 1);
    gguf_u32(&g, "tokenizer.ggml.eos_token_id", 2);
    gguf_u32(&g, "tokenizer.ggml.unknown_token_id", 0);
    gguf_u32(&g, "tokenizer.ggml.cls_token_id", 1);
    gguf_u32(&g, "tokenizer.ggml.seperator_token_id", 2);
    gguf_bool(&g, "tokenizer.ggml.add_bos_token", true);
    return gguf_finish(&g);
}

static bytes merges_file(void)
{
    bytes b = { 0 };
    static const char table[] = "{\"l\":0,\"o\":1,\"w\":2,\"lo\":3,\"low\":4,\"<|endoftext|>\":5}";
    static const char merges[] = "#version: 0.2\nl o\nlo w\n";
    put(&b, table, sizeof table);
    put(&b, merges, sizeof merges - 1);
    return b;
}

typedef struct sample {
    const char *name;
    life_kind kind;
    bytes file;
} sample;

static bytes marian_file(int kind)
{
    static const char table[] = "{\"</s>\": 0, \"<unk>\": 1, \"lo\": 2, \">>fra<<\": 3, \"l\": 4, "
                                "\"w\": 5, \"ZZ\": 6, \"\xE2\x96\x81low\": 7, \"<pad>\": 8}";
    bytes b = { 0 }, model = model_file(kind, false);
    put(&b, table, sizeof table);
    put(&b, model.at, model.n);
    free(model.at);
    return b;
}

#define N_SAMPLE 16

static void make_samples(sample s[N_SAMPLE])
{
    const sample all[N_SAMPLE] = {
        { "json", LIFE_JSON, json_file() },
        { "unigram", LIFE_SENTENCEPIECE, model_file(1, false) },
        { "pieces", LIFE_SENTENCEPIECE, model_file(2, true) },
        { "tiktoken", LIFE_TIKTOKEN, tiktoken_file() },
        { "bert", LIFE_BERT, bert_file() },
        { "llama2c", LIFE_LLAMA2C, llama2c_file() },
        { "gguf-gpt2", LIFE_GGUF, gguf_file("gpt2") },
        { "gguf-llama", LIFE_GGUF, gguf_file("llama") },
        { "gguf-t5", LIFE_GGUF, gguf_file("t5") },
        { "gguf-bert", LIFE_GGUF, gguf_file("bert") },
        { "gguf-gemma4", LIFE_GGUF, gguf_file("gemma4") },
        { "merges", LIFE_MERGES, merges_file() },
        { "pieces-unk", LIFE_SENTENCEPIECE, model_file(2, false) },
        { "letters", LIFE_LETTERS, letters_file() },
        { "marian", LIFE_MARIAN, marian_file(1) },
        { "marian-pieces", LIFE_MARIAN, marian_file(2) },
    };
    memcpy(s, all, sizeof all);
}

static weft_status run(const sample *s, const uint8_t *data, size_t size, weft_error *err)
{
    host h;
    const char *wrong;
    host_plain(&h);
    uint8_t *exact = malloc(size ? size : 1); /* a sanitizer reports an overrun */
    if (size)
        memcpy(exact, data, size);
    const weft_status status = tokenizer_life(s->kind, exact, size, text, sizeof text - 1, &h,
                                              &wrong, err);
    free(exact);
    assert_that(!wrong, "%s: %s (%s)", s->name, wrong, err->message);
    if (atomic_load(&h.mem.used))
        fail_msg("%s: %zu bytes are left", s->name, (size_t)atomic_load(&h.mem.used));
    return status;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void all_load(void **state)
{
    (void)state;
    sample s[N_SAMPLE];
    weft_error err;
    make_samples(s);
    const char *seeds = getenv("WEFT_WRITE_SEEDS"); /* for the fuzzer's corpus */
    for (int i = 0; i < N_SAMPLE; i++) {
        assert_that(run(&s[i], s[i].file.at, s[i].file.n, &err) == WEFT_OK, "%s: %s", s[i].name,
                    err.message);
        if (seeds) {
            char path[512];
            snprintf(path, sizeof path, "%s/%s", seeds, s[i].name);
            FILE *f = fopen(path, "wb");
            assert_non_null(f);
            fputc((int)s[i].kind, f);
            fputc((int)sizeof text - 1, f);
            fwrite(text, 1, sizeof text - 1, f);
            fwrite(s[i].file.at, 1, s[i].file.n, f);
            fclose(f);
        }
        free(s[i].file.at);
    }
}

static void cut_anywhere(void **state)
{
    (void)state;
    sample s[N_SAMPLE];
    weft_error err;
    make_samples(s);
    for (int i = 0; i < N_SAMPLE; i++) {
        const size_t step = quick() && s[i].file.n > 2000 ? 17 : 1;
        for (size_t n = 0; n < s[i].file.n; n += step)
            run(&s[i], s[i].file.at, n, &err);
        free(s[i].file.at);
    }
}

/* Every position gets every width of hostile number. */
static void hostile_numbers(void **state)
{
    (void)state;
    static const uint64_t values[] = { 0,
                                       1,
                                       0x7F,
                                       0x80,
                                       0xFF,
                                       0x7FFFFFFF,
                                       0x80000000u,
                                       0xFFFFFFFFu,
                                       0x7FFFFFFFFFFFFFFFu,
                                       0xFFFFFFFFFFFFFFFFu };
    static const size_t widths[] = { 1, 4, 8 };
    sample s[N_SAMPLE];
    weft_error err;
    make_samples(s);
    for (int i = 0; i < N_SAMPLE; i++) {
        bytes *b = &s[i].file;
        const size_t step = b->n > 2000 ? (quick() ? 97 : 13) : quick() ? 7 : 1;
        for (size_t at = 0; at < b->n; at += step)
            for (size_t v = 0; v < sizeof values / sizeof *values; v++)
                for (size_t w = 0; w < 3; w++) {
                    uint8_t saved[8];
                    const size_t n = b->n - at < widths[w] ? b->n - at : widths[w];
                    memcpy(saved, b->at + at, n);
                    memcpy(b->at + at, &values[v], n);
                    run(&s[i], b->at, b->n, &err);
                    memcpy(b->at + at, saved, n);
                }
        free(b->at);
    }
}

static void memory_fails(void **state)
{
    (void)state;
    sample s[N_SAMPLE];
    make_samples(s);
    for (int i = 0; i < N_SAMPLE; i++) {
        for (int64_t k = 1;; k++) {
            faults memory = { .fail_at = k };
            host h;
            weft_error err;
            const char *wrong;
            host_faulty(&h, &memory, NULL);
            const weft_status status = tokenizer_life(s[i].kind, s[i].file.at, s[i].file.n, text,
                                                      sizeof text - 1, &h, &wrong, &err);
            assert_that(!wrong && (status == WEFT_OK || status == WEFT_ENOMEM),
                        "%s, allocation %lld: %d %s %s", s[i].name, (long long)k, (int)status,
                        wrong ? wrong : "", err.message);
            if (memory.live || atomic_load(&h.mem.used))
                fail_msg("%s, allocation %lld: %lld blocks and %zu bytes are left", s[i].name,
                         (long long)k, (long long)memory.live, (size_t)atomic_load(&h.mem.used));
            if (memory.calls < k)
                break;
            if (quick() && k > 40)
                k += 6;
        }
        free(s[i].file.at);
    }
}

/* Loads a file of this name, as the program would; returns the detected kind, or the error. */
static const char *taken_for(const char *name, const bytes *b, const char *pre, weft_error *err)
{
    host h;
    tokenizer t;
    *err = (weft_error){ 0 };
    host_plain(&h);
    const char *path = temp_file(name, b->at, b->n);
    const weft_status status = tokenizer_load(&t, path, pre, WEFT_LOAD_MAP, &h, err);
    const char *source = status == WEFT_OK ? t.source : err->message;
    if (status == WEFT_OK)
        tokenizer_free(&t);
    assert_int_equal(atomic_load(&h.mem.used), 0);
    return source;
}

static void told_apart(void **state)
{
    (void)state;
    sample s[N_SAMPLE];
    weft_error err;
    make_samples(s);
    const bytes ranks = s[3].file, merges = s[11].file;
    const size_t table = strlen((const char *)merges.at);
    const bytes first = { merges.at, table, 0 };
    const bytes second = { merges.at + table + 1, merges.n - table - 1, 0 };
    assert_string_equal(taken_for("a.json", &s[0].file, NULL, &err), "tokenizer.json");
    assert_string_equal(taken_for("a.model", &s[1].file, NULL, &err), "sentencepiece");
    assert_string_equal(taken_for("a.tiktoken", &ranks, "cl100k", &err), "tiktoken");
    assert_string_equal(taken_for("tokenizer.model", &ranks, "llama-bpe", &err), "tiktoken");
    assert_string_equal(taken_for("cl100k_base.tiktoken", &ranks, NULL, &err), "tiktoken");
    assert_non_null(
        strstr(taken_for("b.tiktoken", &ranks, NULL, &err),
               "no pre-tokenizer in the file, and its name is not r50k_base, p50k_base, "
               "cl100k_base or o200k_base; give one with --pre (cl100k, llama-bpe, ...)"));
    assert_non_null(strstr(taken_for("a.tiktoken", &ranks, "magic", &err), "\"magic\""));
    assert_string_equal(taken_for("vocab.txt", &s[4].file, NULL, &err), "vocab.txt");
    assert_string_equal(taken_for("vocab.txt", &s[4].file, "bert-cased", &err), "vocab.txt");
    assert_non_null(strstr(taken_for("vocab.txt", &s[4].file, "gpt-2", &err), "bert-uncased"));
    assert_string_equal(taken_for("a.bin", &s[5].file, NULL, &err), "llama2.c");
    for (int i = 6; i < 11; i++)
        assert_string_equal(taken_for("a.gguf", &s[i].file, NULL, &err), "gguf");
    assert_non_null(strstr(taken_for("vocab.json", &first, NULL, &err), "merges.txt"));
    temp_file("merges.txt", second.at, second.n);
    assert_string_equal(taken_for("vocab.json", &first, NULL, &err), "vocab.json");
    assert_non_null(
        strstr(taken_for("a.model", &(bytes){ (uint8_t *)"\xFF\xFF", 2, 0 }, NULL, &err),
               "not a SentencePiece model"));
    for (int i = 0; i < N_SAMPLE; i++)
        free(s[i].file.at);
}

/* Test vectors in a GGUF file. */
static void stored_in_gguf(void **state)
{
    (void)state;
    static const char *const values[] = {
        "{\"vectors\":[{\"text\":\"low\",\"ids\":[7]}]}",
        "{\"vectors\":[{\"text\":\"low\",\"ids\":[7,7]}]}",
        "{\"vectors\":[{\"text\":5}]}",
        "{\"vectors\":5}",
        "[",
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        weft_error err;
        gguf_build g = { 0 };
        static const char *const tokens[] = { "<unk>", "<s>", "</s>", "l", "o", "w", "lo", "low" };
        static const char *const merges[] = { "l o", "lo w" };
        gguf_text(&g, "tokenizer.ggml.model", "gpt2");
        gguf_text(&g, "tokenizer.ggml.pre", "gpt-2");
        gguf_texts(&g, "tokenizer.ggml.tokens", tokens, 8);
        gguf_texts(&g, "tokenizer.ggml.merges", merges, 2);
        gguf_text(&g, "weft.tokenizer.selftest", values[i]);
        bytes b = gguf_finish(&g);
        const char *said = taken_for("a.gguf", &b, NULL, &err);
        if ((i == 0) != (strcmp(said, "gguf") == 0))
            fail_msg("%s: %s", values[i], said);
        free(b.at);
    }
}

/* ---- SentencePiece: what a model says, and what is wrong with it ------------------------------- */

static void put_field(bytes *b, uint32_t number, uint64_t value)
{
    put_varint(b, number << 3);
    put_varint(b, value);
}

static void put_part(bytes *b, uint32_t number, const void *data, size_t n)
{
    put_varint(b, number << 3 | 2);
    put_varint(b, n);
    put(b, data, n);
}

/* The ids of a text, "1.2.3"; or the error. */
static const char *ids_of(life_kind kind, const bytes *model, const char *words, weft_error *err)
{
    static char list[256];
    host h;
    tokenizer t = { 0 };
    encoding k = { 0 };
    *err = (weft_error){ 0 };
    host_plain(&h);
    weft_status status = tokenizer_begin(&t, "input", "sentencepiece", &h, err);
    const size_t n_table = strlen((const char *)model->at) + 1; /* of Marian */
    if (status == WEFT_OK)
        status = kind == LIFE_MARIAN ? source_marian(&t, model->at + n_table, model->n - n_table,
                                                     model->at, n_table - 1, "vocab.json", err)
                                     : source_sentencepiece(&t, model->at, model->n, err);
    if (status == WEFT_OK)
        status = tokenizer_finish(&t, err);
    encoder *e = status == WEFT_OK ? encoder_new(&t, &h.mem, err) : NULL;
    if (e)
        encoder_encode(e, words, strlen(words), NULL, 0, &(encode_options){ .spans = true }, &k,
                       err);
    int n = snprintf(list, sizeof list, "%s", err->message);
    for (size_t i = 0; i < k.n; i++)
        n += snprintf(list + n, sizeof list - (size_t)n, "%s%u", i ? "." : "", k.id[i]);
    encoder_free(e);
    tokenizer_free(&t);
    assert_int_equal(atomic_load(&h.mem.used), 0);
    return list;
}

static const char *piece_ids(const bytes *model, const char *words, weft_error *err)
{
    return ids_of(LIFE_SENTENCEPIECE, model, words, err);
}

/* Unknown letters may be a token of the other side ("ZZ"), but never a special one; pieces without
 * an id ("er") are unknown; a language token counts at the start of the text. */
static void marian_pieces(void **state)
{
    (void)state;
    static const char *const texts[] = { "l", "ZZ", "ZZZ", "</s>", "ler", ">>fra<<l", "l>>fra<<" };
    static const char *const wanted[] = { "1.4.0",   "1.6.0",   "1.1.0",      "1.1.0",
                                          "1.4.1.0", "3.1.4.0", "1.4.1.1.1.0" };
    for (int kind = 1; kind <= 2; kind++) {
        bytes model = marian_file(kind);
        weft_error err;
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            assert_string_equal(ids_of(LIFE_MARIAN, &model, texts[i], &err), wanted[i]);
        free(model.at);
    }
}

/* All treatments of spaces, as in SentencePiece 0.2.2. */
static void spaces_of_pieces(void **state)
{
    (void)state;
    static const char *const texts[] = { "a b", "  a   b ", "auserb",    " user a",
                                         "   ", "",         "q\303\251a" };
    static const char *const pieces[] = { "\342\226\201",  "a", "b", "ab", "\342\226\201a",
                                          "a\342\226\201", " ", "x" };
    static const struct {
        int kind, prefix, squeeze, escape, suffix;
        const char *want[7];
    } ways[] = {
        { 1, 1, 1, 1, 0, { "4.5.4.6", "4.5.4.6", "4.5.3.6", "4.3.4.5", "", "", "4.0.5" } },
        { 1, 1, 1, 1, 1, { "5.4.6.4", "5.4.6.4", "5.3.6.4", "3.4.5.4", "", "", "0.5.4" } },
        { 1, 1, 1, 0, 0, { "10.5.10.6", "10.5.10.6", "10.5.3.6", "10.3.10.5", "", "", "10.0.5" } },
        { 1, 1, 1, 0, 1, { "5.10.6.10", "5.10.6.10", "5.3.6.10", "3.10.5.10", "", "", "0.5.10" } },
        { 1,
          1,
          0,
          1,
          0,
          { "4.5.4.6", "4.4.4.5.4.4.4.6.4", "4.5.3.6", "4.4.3.4.5", "4.4.4.4", "", "4.0.5" } },
        { 1,
          1,
          0,
          1,
          1,
          { "5.4.6.4", "4.4.5.4.4.4.6.4.4", "5.3.6.4", "4.3.4.5.4", "4.4.4.4", "", "0.5.4" } },
        { 1,
          1,
          0,
          0,
          0,
          { "10.5.10.6", "10.10.10.5.10.10.10.6.10", "10.5.3.6", "10.10.3.10.5", "10.10.10.10", "",
            "10.0.5" } },
        { 1,
          1,
          0,
          0,
          1,
          { "5.10.6.10", "10.10.5.10.10.10.6.10.10", "5.3.6.10", "10.3.10.5.10", "10.10.10.10", "",
            "0.5.10" } },
        { 1, 0, 1, 1, 0, { "5.4.6", "5.4.6", "5.3.6", "3.4.5", "", "", "0.5" } },
        { 1, 0, 1, 1, 1, { "5.4.6", "5.4.6", "5.3.6", "3.4.5", "", "", "0.5" } },
        { 1, 0, 1, 0, 0, { "5.10.6", "5.10.6", "5.3.6", "3.10.5", "", "", "0.5" } },
        { 1, 0, 1, 0, 1, { "5.10.6", "5.10.6", "5.3.6", "3.10.5", "", "", "0.5" } },
        { 1, 0, 0, 1, 0, { "5.4.6", "4.4.5.4.4.4.6.4", "5.3.6", "4.3.4.5", "4.4.4", "", "0.5" } },
        { 1, 0, 0, 1, 1, { "5.4.6", "4.4.5.4.4.4.6.4", "5.3.6", "4.3.4.5", "4.4.4", "", "0.5" } },
        { 1,
          0,
          0,
          0,
          0,
          { "5.10.6", "10.10.5.10.10.10.6.10", "5.3.6", "10.3.10.5", "10.10.10", "", "0.5" } },
        { 1,
          0,
          0,
          0,
          1,
          { "5.10.6", "10.10.5.10.10.10.6.10", "5.3.6", "10.3.10.5", "10.10.10", "", "0.5" } },
        { 2, 1, 1, 1, 0, { "8.4.6", "8.4.6", "8.3.6", "4.3.8", "", "", "4.0.5" } },
        { 2, 1, 1, 1, 1, { "9.6.4", "9.6.4", "5.3.6.4", "3.8.4", "", "", "0.9" } },
        { 2, 1, 1, 0, 0, { "10.5.10.6", "10.5.10.6", "10.5.3.6", "10.3.10.5", "", "", "10.0.5" } },
        { 2, 1, 1, 0, 1, { "5.10.6.10", "5.10.6.10", "5.3.6.10", "3.10.5.10", "", "", "0.5.10" } },
        { 2,
          1,
          0,
          1,
          0,
          { "8.4.6", "4.4.8.4.4.4.6.4", "8.3.6", "4.4.3.8", "4.4.4.4", "", "4.0.5" } },
        { 2,
          1,
          0,
          1,
          1,
          { "9.6.4", "4.8.4.4.4.6.4.4", "5.3.6.4", "4.3.8.4", "4.4.4.4", "", "0.9" } },
        { 2,
          1,
          0,
          0,
          0,
          { "10.5.10.6", "10.10.10.5.10.10.10.6.10", "10.5.3.6", "10.10.3.10.5", "10.10.10.10", "",
            "10.0.5" } },
        { 2,
          1,
          0,
          0,
          1,
          { "5.10.6.10", "10.10.5.10.10.10.6.10.10", "5.3.6.10", "10.3.10.5.10", "10.10.10.10", "",
            "0.5.10" } },
        { 2, 0, 1, 1, 0, { "9.6", "9.6", "5.3.6", "3.8", "", "", "0.5" } },
        { 2, 0, 1, 1, 1, { "9.6", "9.6", "5.3.6", "3.8", "", "", "0.5" } },
        { 2, 0, 1, 0, 0, { "5.10.6", "5.10.6", "5.3.6", "3.10.5", "", "", "0.5" } },
        { 2, 0, 1, 0, 1, { "5.10.6", "5.10.6", "5.3.6", "3.10.5", "", "", "0.5" } },
        { 2, 0, 0, 1, 0, { "9.6", "4.8.4.4.4.6.4", "5.3.6", "4.3.8", "4.4.4", "", "0.5" } },
        { 2, 0, 0, 1, 1, { "9.6", "4.8.4.4.4.6.4", "5.3.6", "4.3.8", "4.4.4", "", "0.5" } },
        { 2,
          0,
          0,
          0,
          0,
          { "5.10.6", "10.10.5.10.10.10.6.10", "5.3.6", "10.3.10.5", "10.10.10", "", "0.5" } },
        { 2,
          0,
          0,
          0,
          1,
          { "5.10.6", "10.10.5.10.10.10.6.10", "5.3.6", "10.3.10.5", "10.10.10", "", "0.5" } },
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        bytes b = { 0 }, trainer = { 0 }, rules = { 0 };
        put_piece(&b, "<unk>", 0, PIECE_UNKNOWN);
        put_piece(&b, "<s>", 0, PIECE_CONTROL);
        put_piece(&b, "</s>", 0, PIECE_CONTROL);
        put_piece(&b, "user", 0, PIECE_USER);
        for (size_t k = 0; k < 8; k++)
            put_piece(&b, pieces[k], -1 - (float)k, PIECE_NORMAL);
        put_field(&trainer, 3, (uint64_t)ways[i].kind);
        put_field(&trainer, 24, (uint64_t)ways[i].suffix);
        put_part(&b, 2, trainer.at, trainer.n);
        put_part(&rules, 2, "", 0);
        put_field(&rules, 3, (uint64_t)ways[i].prefix);
        put_field(&rules, 4, (uint64_t)ways[i].squeeze);
        put_field(&rules, 5, (uint64_t)ways[i].escape);
        put_part(&b, 3, rules.at, rules.n);
        for (size_t k = 0; k < 7; k++) {
            weft_error err;
            const char *got = piece_ids(&b, texts[k], &err);
            if (strcmp(got, ways[i].want[k]) != 0)
                fail_msg("way %zu, \"%s\": got %s, expected %s", i, texts[k], got, ways[i].want[k]);
        }
        free(b.at);
        free(trainer.at);
        free(rules.at);
    }
}

/* A model with one more field after its two pieces. */
static const char *with_field(uint32_t number, const char *data, size_t n, weft_error *err)
{
    bytes b = { 0 };
    put_piece(&b, "<unk>", 0, PIECE_UNKNOWN);
    put_piece(&b, "a", 0, PIECE_NORMAL);
    put_part(&b, number, data, n);
    const char *got = piece_ids(&b, "a", err);
    free(b.at);
    return got;
}

static void wrong_pieces(void **state)
{
    (void)state;
    static const struct {
        uint32_t number;
        const char *data;
        size_t n;
        const char *says;
    } cases[] = {
        { 1, "\x08\x01", 2, "field 1 of piece 2 has a wrong type or value" },
        { 1, "\x10\x01", 2, "field 2 of piece 2 has a wrong type or value" },
        { 1, "\x1A\x01x", 3, "field 3 of piece 2 has a wrong type or value" },
        { 1, "\x18\x00", 2, "field 3 of piece 2 has a wrong type or value" },
        { 1, "\x18\x07", 2, "field 3 of piece 2 has a wrong type or value" },
        { 1, "\x0A\x01z\x20\x05", 5, "0.1" }, /* field 4 is nobody's */
        { 1, "\x0A\x01", 2, "a piece is truncated at byte 2" },
        { 1, "\x15\x00\x00\x00", 4, "a piece is truncated at byte 1" },
        { 1, "\x11\x00\x00\x00", 4, "a piece is truncated at byte 1" },
        { 1, "\x0B", 1, "a piece is truncated at byte 1" },
        { 1, "\x00\x01", 2, "a piece is truncated at byte 1" },
        { 1, "\x80", 1, "a piece is truncated at byte 1" },
        { 1, "", 0, "piece 2 is empty or not UTF-8" },
        { 1, "\x0A\x01\xFF", 3, "piece 2 is empty or not UTF-8" },
        { 1, "\x0A\x01z\x15\x00\x00\xC0\x7F", 8, "the score of piece 2 is not finite" },
        { 1, "\12\1a", 3, "piece 2 \"a\" occurs twice" },
        { 2, "\x18\x03", 2,
          "unsupported SentencePiece model type 3; expected unigram (1) or BPE (2)" },
        { 2, "\x18", 1, "trainer_spec is truncated at byte 1" },
        { 2, "\x0A\x01x\xC8\x02\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 15, "0.1" }, /* bos -1 */
        { 2, "\xD0\x02\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", 12,
          "_spec is truncated at byte 12" },
        { 2, "\xC8\x02\x01\xD0\x02\x00", 6, "0.1" }, /* neither is a control piece */
        { 2, "\x98\x02\x01", 3, "falls back to bytes, but has pieces for 0 of 256" },
        { 3, "\x10\x01\x1A\x01x\x22\x01x\x2A\x01x\x30\x01", 13,
          "0.1" }, /* of other types: skipped */
        { 3, "\x12\x02x", 3, "normalizer_spec is truncated at byte 2" },
        { 3, "\x12\x02xx", 4, "precompiled_charsmap of 2 bytes" },
        { 4, "x", 1, "0.1" },
    };
    weft_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = with_field(cases[i].number, cases[i].data, cases[i].n, &err);
        if (!strstr(got, cases[i].says))
            fail_msg("case %zu: got \"%s\", expected \"%s\"", i, got, cases[i].says);
    }
    bytes b = { 0 };
    put_piece(&b, "a", 0, PIECE_NORMAL);
    assert_non_null(strstr(piece_ids(&b, "", &err), "no unknown piece"));
    put_piece(&b, "<unk>", 0, PIECE_UNKNOWN);
    put_varint(&b, 7 << 3);
    put_varint(&b, 1); /* a number is not part of a model, and skipped */
    assert_string_equal(piece_ids(&b, "a", &err), "1.0");
    put_varint(&b, 1 << 3 | 3);
    assert_non_null(strstr(piece_ids(&b, "", &err), "the file is truncated"));
    b.n = 0;
    put_piece(&b, "<unk>", 0, PIECE_UNKNOWN);
    put_piece(&b, "a", 0, PIECE_UNUSED);
    put_part(&b, 2, "\x18\x02", 2);
    assert_non_null(strstr(piece_ids(&b, "", &err),
                           "piece 1 is marked unused, which BPE models do not support"));
    b.n = 0;
    for (size_t i = 0; i <= VOCAB_MAX; i++)
        put(&b, "\x0A", 2);
    assert_non_null(strstr(piece_ids(&b, "", &err), "16777217 pieces"));
    free(b.at);
}

/* ---- plain files ------------------------------------------------------------------------------- */

static void plain_files(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *pre, *says;
    } cases[] = {
        { "x.tiktoken", "YQ== 0\nYg== 1\n\n", "cl100k", "tiktoken" },
        { "x.tiktoken", "YQ== 0\n\nYg== 1\n", "cl100k", "line 2 is not base64 and a rank" },
        { "x.tiktoken", " 0\n", "cl100k", "line 1 is not base64 and a rank" },
        { "x.tiktoken", "==== 0\n", "cl100k", "line 1 is not base64 and a rank" },
        { "x.tiktoken", "A 0\n", "cl100k", "line 1 is not base64 and a rank" },
        { "x.tiktoken", "Y*== 0\n", "cl100k", "line 1 is not base64 and a rank" },
        { "x.tiktoken", "YQ==\n", "cl100k", "line 1 is not base64 and a rank" },
        { "x.tiktoken", "YQ== \n", "cl100k", "line 1 is not base64 and a rank" },
        { "x.tiktoken", "YQ== 1x\n", "cl100k", "line 1 is not base64 and a rank" },
        { "x.tiktoken", "YQ== 16777216\n", "cl100k", "line 1 is not base64 and a rank" },
        { "x.tiktoken", "YQ== 99999999999999999999\n", "cl100k",
          "line 1 is not base64 and a rank" },
        { "x.tiktoken", "YQ== 0\nYQ== 1\n", "cl100k", "rank 1 or its bytes occur twice" },
        { "o200k_base.tiktoken", "YQ== 0\n", NULL, "tiktoken" },
        { "r50k_base.tiktoken", "YQ== 50256\n", NULL, "tiktoken" },
        { "r50k_base.tiktoken", "YQ== 50257\n", NULL, "tiktoken" },
        { "vocab.txt", "[MASK]\n[UNK]\n[CLS]\n[SEP]\na\n", "bert-uncased", "vocab.txt" },
        { "vocab.txt", "[UNK]\na\nb\xFF\n", NULL, "line 3 is not UTF-8" },
        { "vocab.txt", "a\na\n", NULL, "piece 1 \"a\" occurs twice" },
        { "x.bin", "\1\1\1\1\1", NULL, "not a llama2.c tokenizer: token 0 is truncated at byte 4" },
        { "a_vocabulary.txt", "<blank>\n<s>\n</s>\na\nb\n", NULL, "vocabulary.txt" },
        { "a_vocabulary.txt", "<blank>\n<s>\n", NULL, "2 lines are not a vocabulary" },
        { "a_vocabulary.txt", "<blank>\n<s>\na\n", NULL, "line 3 is not </s>" },
        { "a_vocabulary.txt", "<blank>\n<s>\n</s>\na\nbc\n", NULL,
          "line 5 is not one letter, and the file does not say how to split text into such "
          "tokens" },
        { "a_vocabulary.txt", "<blank>\n<s>\n</s>\n\xFF\n", NULL,
          "line 4 is not one letter, and the file does not say how to split text into such "
          "tokens" },
        { "a_vocabulary.txt", "<blank>\n<s>\n</s>\n\na\n", NULL,
          "line 4 is not one letter, and the file does not say how to split text into such "
          "tokens" },
        { "a_vocabulary.txt", "<blank>\n<s>\n</s>\na\na\n", NULL, "piece 4 \"a\" occurs twice" },
        { "x.bin", "\1\1\1\1", NULL, "not a llama2.c tokenizer: 0 tokens" },
        { "x.bin", "\1\1\1\1\1\1\1\1\xFF\xFF\xFF\xFF", NULL,
          "not a llama2.c tokenizer: token 0 is truncated at byte 4" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_error err;
        const bytes b = { (uint8_t *)cases[i].text, strlen(cases[i].text), 0 };
        const char *got = taken_for(cases[i].name, &b, cases[i].pre, &err);
        if (!strstr(got, cases[i].says))
            fail_msg("case %zu: got \"%s\", expected \"%s\"", i, got, cases[i].says);
    }
}

static const char *with_merges(const char *table, const char *merges, const char *pre)
{
    static weft_error err;
    const bytes b = { (uint8_t *)table, strlen(table), 0 };
    temp_file("merges.txt", merges, strlen(merges));
    return taken_for("vocab.json", &b, pre, &err);
}

static void merges_and_tables(void **state)
{
    (void)state;
    static const char table[] = "{\"a\":0,\"b\":1,\"ab\":2}";
    assert_string_equal(with_merges(table, "#version: 0.2\na b\n\n", NULL), "vocab.json");
    assert_string_equal(with_merges(table, "a b", "qwen2"), "vocab.json");
    assert_string_equal(with_merges(table, "#version: 0.2", NULL), "vocab.json");
    assert_non_null(strstr(with_merges(table, "a b\n\nb a\n", NULL),
                           "merge 1 is not two tokens separated by a space"));
    assert_non_null(strstr(with_merges(table, "#vers b\n", NULL), "merge 0 joins \"#vers\""));
    assert_non_null(
        strstr(with_merges(table, "a\n", NULL), "merge 0 is not two tokens separated by a space"));
    assert_non_null(
        strstr(with_merges(table, "a \n", NULL), "merge 0 is not two tokens separated by a space"));
    assert_non_null(strstr(with_merges(table, "a b b\n", NULL),
                           "merge 0 is not two tokens separated by a space"));
    assert_non_null(strstr(with_merges(table, "a b\n", "magic"), "\"magic\""));
    assert_non_null(strstr(with_merges("{\"a\":\"b\"}", "a b", NULL), "vocab[\"a\"] is not an id"));
}

/* Files without a template are identified by the configuration next to them. */
static void told_by_configuration(void **state)
{
    (void)state;
    static const struct {
        const char *config, *ids;
    } cases[] = {
        { "{}", "8" },
        { "{\"add_bos_token\":true}", "1.8" },
        { "{\"add_eos_token\":true,\"add_bos_token\":false}", "8.2" },
        { "{\"add_bos_token\":true,\"bos_token\":\"lo\"}", "8.8" },
        { "{\"add_bos_token\":true,\"bos_token\":{\"content\":\"none\"},\"eos_token\":5}", "1.8" },
    };
    bytes b = model_file(2, true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        host h;
        tokenizer t;
        weft_error err = { 0 };
        encoding k;
        char list[64] = "";
        host_plain(&h);
        temp_file("tokenizer_config.json", cases[i].config, strlen(cases[i].config));
        const char *path = temp_file("a.model", b.at, b.n);
        if (tokenizer_load(&t, path, NULL, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        t.normalizer.step[0].prefix = false;
        encoder *e = encoder_new(&t, &h.mem, &err);
        assert_int_equal(encoder_encode(e, "lo", 2, NULL, 0, &(encode_options){ 0 }, &k, &err),
                         WEFT_OK);
        for (size_t j = 0; j < k.n; j++)
            sprintf(list + strlen(list), "%s%u", j ? "." : "", k.id[j]);
        assert_string_equal(list, cases[i].ids);
        encoder_free(e);
        tokenizer_free(&t);
    }
    free(b.at);
    weft_error err;
    bytes words = bert_file();
    assert_string_equal(taken_for("vocab.txt", &words, NULL, &err), "vocab.txt"); /* has its own */
    temp_file("tokenizer_config.json", "[", 1);
    assert_non_null(strstr(taken_for("vocab.txt", &words, NULL, &err), "tokenizer_config.json"));
    temp_file("tokenizer_config.json", "{}", 2);
    free(words.at);
}

/* ---- every step of tokenizer.json -------------------------------------------------------------- */

static json_t *steps(void)
{
    json_error_t why;
    json_t *root = json_load_file(fixture("golden/text/steps.json"), JSON_ALLOW_NUL, &why);
    if (!root)
        fail_msg("%s", why.text);
    return root;
}

/* Loading, encoding and decoding, with the k-th allocation refused, for each k. */
static void steps_without_memory(void **state)
{
    (void)state;
    json_t *root = steps();
    const json_t *list = json_object_get(root, "tokenizers");
    for (size_t i = 0; i < json_array_size(list); i += quick() ? 5 : 1) {
        const json_t *x = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(x, "name"));
        char *json = json_dumps(json_object_get(x, "tokenizer"), 0);
        const size_t n = strlen(json);
        for (int64_t k = 1;; k += n > 4000 ? 1 + k / 16 : 1) {
            faults memory = { .fail_at = k };
            host h;
            weft_error err;
            const char *wrong;
            host_faulty(&h, &memory, NULL);
            const weft_status status = tokenizer_life(LIFE_JSON, (uint8_t *)json, n, text,
                                                      sizeof text - 1, &h, &wrong, &err);
            assert_that(!wrong && (status == WEFT_OK || status == WEFT_ENOMEM),
                        "%s, allocation %lld: %d %s %s", name, (long long)k, (int)status,
                        wrong ? wrong : "", err.message);
            if (memory.live || atomic_load(&h.mem.used))
                fail_msg("%s, allocation %lld: %lld blocks are left", name, (long long)k,
                         (long long)memory.live);
            if (memory.calls < k)
                break;
        }
        free(json);
    }
    json_decref(root);
}

/* A word without a token ends the encoding wherever it is, whichever model found it. */
static void steps_without_words(void **state)
{
    (void)state;
    static const char *const texts[] = { "a",   "b", "a b",    "b a", "a.b",
                                         "a1b", "1", " a  b ", "aab", "a\316\261b" };
    json_t *root = steps();
    json_t *model = json_pack("{s:s,s:{s:i,s:i}}", "type", "WordLevel", "vocab", "a", 0,
                              "\xE2\x96\x81"
                              "a",
                              1);
    const json_t *list = json_object_get(root, "tokenizers");
    int refused = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *t = json_pack("{s:O}", "model", model);
        json_t *cutting = json_object_get(json_object_get(json_array_get(list, i), "tokenizer"),
                                          "pre_tokenizer");
        json_object_set(t, "pre_tokenizer", cutting);
        char *json = json_dumps(t, 0);
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
            host h;
            tokenizer z = { 0 };
            encoding out;
            weft_error err = { 0 };
            host_plain(&h);
            assert_int_equal(tokenizer_begin(&z, "input", "", &h, &err), WEFT_OK);
            assert_int_equal(source_json(&z, (uint8_t *)json, strlen(json), &err), WEFT_OK);
            assert_int_equal(tokenizer_finish(&z, &err), WEFT_OK);
            encoder *e = encoder_new(&z, &h.mem, &err);
            const weft_status status = encoder_encode(e, texts[k], strlen(texts[k]), NULL, 0,
                                                      &(encode_options){ 0 }, &out, &err);
            if (status != WEFT_OK)
                assert_non_null(strstr(err.message, "a word outside the vocabulary"));
            refused += status != WEFT_OK;
            encoder_free(e);
            tokenizer_free(&z);
        }
        free(json);
        json_decref(t);
    }
    assert_true(refused > 100);
    json_decref(model);
    json_decref(root);
}

/* ---- SentencePiece's compiled map -------------------------------------------------------------- */

/* A double array built by hand: x is A, xy is BC, v is a space, z has no text, w points outside. */
static bytes compiled_map(void)
{
    enum { ROOT = 256, VALUE = 1 << 8 };
    uint32_t unit[512] = { (uint32_t)ROOT << 10 };
    const uint32_t x = ROOT ^ 'x', z = ROOT ^ 'z', w = ROOT ^ 'w', v = ROOT ^ 'v', xy = 511 ^ 'y';
    unit[x] = (x ^ 511) << 10 | VALUE | 'x';
    unit[511] = 1u << 31 | 0;
    unit[xy] = (xy ^ 510) << 10 | VALUE | 'y';
    unit[510] = 1u << 31 | 2;
    unit[z] = (z ^ 509) << 10 | VALUE | 'z';
    unit[509] = 1u << 31 | 99;
    unit[w] = (w ^ 1000) << 10 | VALUE | 'w';
    unit[v] = (v ^ 508) << 10 | VALUE | 'v';
    unit[508] = 1u << 31 | 5;
    bytes b = { 0 };
    put_u32(&b, sizeof unit);
    put(&b, unit, sizeof unit);
    put(&b, "A\0BC\0 \0", 7);
    return b;
}

static const char *mapped(const charsmap *c, const char *s, size_t n, bool longest)
{
    static char out[32];
    const char *to = "";
    size_t length = 0;
    const size_t taken = longest ? charsmap_longest(c, s, n, &to, &length)
                                 : charsmap_shortest(c, s, n, &to, &length);
    snprintf(out, sizeof out, "%zu:%.*s", taken, (int)length, to);
    return out;
}

static void compiled_maps(void **state)
{
    (void)state;
    host h;
    arena store;
    charsmap c;
    weft_error err = { 0 };
    bytes b = compiled_map();
    host_plain(&h);
    arena_init(&store, ARENA_GROWING, &h.mem, 0, "", &err);
    assert_int_equal(charsmap_init(&c, &store, b.at, b.n, &err), WEFT_OK);
    assert_string_equal(mapped(&c, "xyz", 3, true), "2:BC");
    assert_string_equal(mapped(&c, "xyz", 3, false), "1:A");
    assert_string_equal(mapped(&c, "x", 1, true), "1:A");
    assert_string_equal(mapped(&c, "xa", 2, true), "1:A");
    assert_string_equal(mapped(&c, "z", 1, true), "1:"); /* its text is past the end */
    assert_string_equal(mapped(&c, "w", 1, true), "0:");
    assert_string_equal(mapped(&c, "q", 1, true), "0:");
    assert_string_equal(mapped(&c, "", 1, true), "0:");
    for (size_t n = 0; n < 4; n++)
        assert_int_equal(charsmap_init(&c, &store, b.at, n, &err), WEFT_EFORMAT);
    assert_non_null(strstr(err.message, "of 3 bytes that announces a trie of 0"));
    static const uint8_t odd[] = { 3, 0, 0, 0, 0, 0, 0 }, none[] = { 0, 0, 0, 0 };
    assert_int_equal(charsmap_init(&c, &store, odd, sizeof odd, &err), WEFT_EFORMAT);
    assert_int_equal(charsmap_init(&c, &store, none, sizeof none, &err), WEFT_EFORMAT);
    assert_non_null(
        strstr(err.message, "a precompiled_charsmap of 4 bytes that announces a trie of 0"));
    arena_free(&store);

    bytes model = { 0 }, rules = { 0 };
    put_piece(&model, "<unk>", 0, PIECE_UNKNOWN);
    static const char *const pieces[] = { "A", "BC", "\342\226\201", "a" };
    for (int i = 0; i < 4; i++)
        put_piece(&model, pieces[i], -1, PIECE_NORMAL);
    put_part(&rules, 2, b.at, b.n);
    put_field(&rules, 3, 0);
    put_part(&model, 3, rules.at, rules.n);
    assert_string_equal(piece_ids(&model, "xxya", &err), "1.2.4");
    assert_string_equal(piece_ids(&model, "vv xv va zv", &err), "1.3.4");
    assert_string_equal(piece_ids(&model, "vv", &err), "");
    assert_string_equal(piece_ids(&model, "zz", &err), "");
    free(model.at);
    free(rules.at);
    free(b.at);
}

/* A character file without an unknown token gets one; text becomes it where special tokens are
 * parsed. */
static void letters_get_an_unknown(void **state)
{
    (void)state;
    weft_error err = { 0 };
    const bytes b = letters_file();
    weft_tokenizer *t = weft_tokenizer_load(temp_file("a_vocabulary.txt", b.at, b.n), NULL, &err);
    assert_that(t, "%s", err.message);
    const weft_tokenize_options o = { .struct_size = sizeof o, .parse_special = true };
    weft_tokens *k = weft_tokenizer_encode(t, "l<unk>?", 7, &o, &err);
    const int32_t want[] = { 3, 8, 8 };
    assert_non_null(k);
    assert_int_equal(k->n, 3);
    assert_memory_equal(k->ids, want, sizeof want);
    weft_tokens_free(k);
    weft_tokenizer_free(t);
    free(b.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("vocabularies: every kind of file loads and is used", all_load),
        TEST("vocabularies: files are identified", told_apart),
        TEST("SentencePiece: every treatment of spaces", spaces_of_pieces),
        TEST("SentencePiece: errors name the fault in a model", wrong_pieces),
        TEST("Marian: a piece without an id is unknown, and none becomes special", marian_pieces),
        TEST("vocabularies: errors name the fault in a plain file", plain_files),
        TEST("vocabularies: merges next to a table", merges_and_tables),
        TEST("vocabularies: BOS and EOS follow the configuration", told_by_configuration),
        TEST("SentencePiece: a compiled map replaces", compiled_maps),
        TEST("tokenizer.json: memory failing at any point of any step leaves nothing behind",
             steps_without_memory),
        TEST("tokenizer.json: a word without a token ends the encoding", steps_without_words),
        TEST("vocabularies: vectors stored in GGUF are checked", stored_in_gguf),
        TEST("vocabularies: a file truncated anywhere gives an error or a smaller vocabulary",
             cut_anywhere),
        TEST("vocabularies: hostile numbers anywhere do no harm", hostile_numbers),
        TEST("vocabularies: memory failing at any point leaves nothing behind", memory_fails),
        TEST("letters: any other character is <unk>, in text too", letters_get_an_unknown),
    };
    return RUN(tests);
}
