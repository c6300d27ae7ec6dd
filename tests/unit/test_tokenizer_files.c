/* Vocabularies as files: cut off anywhere, with hostile numbers, and under memory that fails. */
#include "gguf_build.h"
#include "support.h"
#include "text/source.h"
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

#define N_SAMPLE 13

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
    };
    memcpy(s, all, sizeof all);
}

static weft_status run(const sample *s, const uint8_t *data, size_t size, weft_error *err)
{
    host h;
    const char *wrong;
    host_plain(&h);
    uint8_t *exact = malloc(size ? size : 1); /* a sanitizer sees one byte too many */
    if (size)
        memcpy(exact, data, size);
    const weft_status status = tokenizer_life(s->kind, exact, size, text, sizeof text - 1, &h,
                                              &wrong, err);
    free(exact);
    if (wrong)
        fail_msg("%s: %s (%s)", s->name, wrong, err->message);
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
        if (run(&s[i], s[i].file.at, s[i].file.n, &err) != WEFT_OK)
            fail_msg("%s: %s", s[i].name, err.message);
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

/* Every place gets every width of hostile number. */
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
            if (wrong || (status != WEFT_OK && status != WEFT_ENOMEM))
                fail_msg("%s, allocation %lld: %d %s %s", s[i].name, (long long)k, (int)status,
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

/* Loads a file of this name, as the program would; what it was taken for, or the error. */
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
    assert_non_null(strstr(taken_for("b.tiktoken", &ranks, NULL, &err), "without a splitting"));
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

/* The vectors that a GGUF file carries. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("vocabularies: every kind of file loads and is used", all_load),
        TEST("vocabularies: files are told apart", told_apart),
        TEST("vocabularies: vectors stored in GGUF are checked", stored_in_gguf),
        TEST("vocabularies: a file cut off anywhere ends in an error or a smaller vocabulary",
             cut_anywhere),
        TEST("vocabularies: hostile numbers anywhere do no harm", hostile_numbers),
        TEST("vocabularies: memory that fails at any point leaves nothing behind", memory_fails),
    };
    return RUN(tests);
}
