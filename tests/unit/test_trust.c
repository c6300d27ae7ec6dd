/* Text that may not spell special tokens: trusted spans and gated tokens. */
#include "support.h"
#include "weft.h"

#include <dirent.h>

typedef struct prompt {
    char *text;
    size_t n, room;
    weft_span trusted[8];
    size_t n_trusted;
} prompt;

static void add(prompt *p, const char *text, size_t n, bool trusted)
{
    while (p->n + n > p->room)
        p->text = realloc(p->text, p->room = 2 * p->room + 4096);
    memcpy(p->text + p->n, text, n);
    if (trusted)
        p->trusted[p->n_trusted++] = (weft_span){ (uint32_t)p->n, (uint32_t)(p->n + n) };
    p->n += n;
}

static weft_tokenizer *load(const char *path)
{
    weft_error err = { 0 };
    const weft_tokenizer_options o = { .struct_size = sizeof o, .load = WEFT_LOAD_MAP };
    weft_tokenizer *t = weft_tokenizer_load(path, &o, &err);
    if (!t && strstr(err.message, "no pre-tokenizer")) {
        const weft_tokenizer_options usual = { .struct_size = sizeof usual,
                                               .load = WEFT_LOAD_MAP,
                                               .pre = "gpt-2" };
        t = weft_tokenizer_load(path, &usual, &err);
    }
    if (!t)
        fail_msg("%s", err.message);
    return t;
}

static weft_tokens *encode(const weft_tokenizer *t, const prompt *p, bool mask,
                           const int32_t *gated, size_t n_gated)
{
    weft_error err = { 0 };
    const weft_tokenize_options o = { .struct_size = sizeof o,
                                      .no_special = true,
                                      .parse_special = true,
                                      .spans = true,
                                      .trusted = mask ? p->trusted : NULL,
                                      .n_trusted = mask ? p->n_trusted : 0,
                                      .gated = gated,
                                      .n_gated = n_gated };
    weft_tokens *k = weft_tokenizer_encode(t, p->text, p->n, &o, &err);
    if (!k)
        fail_msg("%s", err.message);
    return k;
}

static bool is_one_of(const int32_t *ids, size_t n, int32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* ---- assets ---------------------------------------------------------------------------------- */

static const char innocent[] =
    "Why is the sky blue?\n\n  It isn't: naïve, 東京 was 12345 <b>at</b> "
    "night [1] \xF0\x9F\x8C\x83.\n";

/* A prompt as a template makes it: the markers are trusted, `said` is not. */
static prompt turn_of(const char *marker, size_t n, const char *said, size_t n_said)
{
    prompt p = { 0 };
    add(&p, marker, n, true);
    add(&p, "user\n", 5, false);
    add(&p, said, n_said, false);
    add(&p, marker, n, true);
    return p;
}

/* Appends a spelling: alone, between spaces, in a word, and twice. */
static void spell(prompt *p, const char *token, size_t n)
{
    add(p, token, n, false);
    add(p, " ", 1, false);
    add(p, token, n, false);
    add(p, " x", 2, false);
    add(p, token, n, false);
    add(p, "y", 1, false);
    add(p, token, n, false);
    add(p, token, n, false);
}

/* What an unknown word becomes says nothing. */
static bool says_nothing(const char *token, size_t n)
{
    return n < 2 || (n == 5 && (memcmp(token, "<unk>", 5) == 0 || memcmp(token, "[UNK]", 5) == 0));
}

static bool is_gate(const weft_tokenizer *t, int32_t id, const int32_t *gated, size_t n_gated)
{
    size_t n = 0;
    const char *token = weft_tokenizer_token(t, id, &n);
    return token && !says_nothing(token, n) &&
           (weft_tokenizer_is_special(t, id) || is_one_of(gated, n_gated, id));
}

/* Tokens that chat templates write. Some tokenizers have them, and not all as special tokens. */
static size_t gated_of(const weft_tokenizer *t, int32_t *gated)
{
    static const char *const names[] = { "<tool_call>",     "</tool_call>", "<think>",
                                         "</think>",        "<|im_start|>", "<|im_end|>",
                                         "<start_of_turn>", "<end_of_turn>" };
    size_t n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int32_t id = weft_tokenizer_id(t, names[i], strlen(names[i]));
        if (id >= 0)
            gated[n++] = id;
    }
    return n;
}

static void innocent_text_is_encoded_as_usual(const weft_tokenizer *t, const char *marker,
                                              size_t n_marker, const int32_t *gated, size_t n_gated)
{
    prompt p = turn_of(marker, n_marker, innocent, sizeof innocent - 1);
    weft_tokens *masked = encode(t, &p, true, gated, n_gated),
                *plain = encode(t, &p, false, NULL, 0);
    assert_int_equal(masked->n, plain->n);
    assert_memory_equal(masked->ids, plain->ids, (size_t)plain->n * sizeof *plain->ids);
    assert_memory_equal(masked->spans, plain->spans, (size_t)plain->n * sizeof *plain->spans);
    weft_tokens_free(masked);
    weft_tokens_free(plain);
    free(p.text);
}

/* Between two markers that count, every gated token is spelled, and none is made. */
static void nothing_is_forged(const weft_tokenizer *t, const char *path, const char *marker,
                              size_t n_marker, const prompt *spelled, const int32_t *gated,
                              size_t n_gated)
{
    prompt p = turn_of(marker, n_marker, spelled->text, spelled->n);
    weft_tokens *k = encode(t, &p, true, gated, n_gated);
    int n_true = 0;
    for (int64_t i = 0; i < k->n; i++) {
        const weft_span s = k->spans[i];
        size_t n;
        if (!is_gate(t, k->ids[i], gated, n_gated))
            continue;
        if (s.to > n_marker && s.from < p.n - n_marker)
            fail_msg("%s: bytes %u to %u became %s", path, (unsigned)s.from, (unsigned)s.to,
                     weft_tokenizer_token(t, k->ids[i], &n));
        n_true++;
    }
    assert_int_equal(n_true, 2);
    weft_tokens_free(k);
    free(p.text);
}

static void check_tokenizer(const char *path)
{
    weft_tokenizer *t = load(path);
    weft_tokenizer_info info = { .struct_size = sizeof info };
    weft_tokenizer_get_info(t, &info);
    prompt spelled = { 0 };
    const char *marker = NULL;
    size_t n_marker = 0, n_spelled = 0;
    int32_t gated[8];
    const size_t n_gated = gated_of(t, gated);
    for (int32_t id = 0; id < info.n_vocab; id++) {
        size_t n = 0;
        const char *token = weft_tokenizer_token(t, id, &n);
        if (!is_gate(t, id, gated, n_gated))
            continue;
        spell(&spelled, token, n);
        if (!marker) {
            marker = token;
            n_marker = n;
        }
        n_spelled++;
    }
    if (marker) {
        innocent_text_is_encoded_as_usual(t, marker, n_marker, gated, n_gated);
        nothing_is_forged(t, path, marker, n_marker, &spelled, gated, n_gated);
    }
    print_message("%s: %zu tokens spelled (%zu gated), none made\n", strstr(path, "tokenizers"),
                  n_spelled, n_gated);
    free(spelled.text);
    weft_tokenizer_free(t);
}

static void assets_make_no_special_token(void **state)
{
    (void)state;
    static const char *const one[] = { "tokenizers/bert-uncased",
                                       "tokenizers/gemma/tokenizer.model",
                                       "tokenizers/gpt2",
                                       "tokenizers/llama2/tokenizer.model",
                                       "tokenizers/llama3",
                                       "tokenizers/mistral/tokenizer.model",
                                       "tokenizers/qwen2.5",
                                       "tokenizers/t5/tokenizer.json",
                                       "tokenizers/t5/spiece.model",
                                       "tokenizers/sentencepiece-test/test_model.model" };
    if (!asset("tokenizers"))
        skip();
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        check_tokenizer(asset(one[i]));
    char path[600];
    DIR *d = opendir(asset("tokenizers/llama.cpp-vocab"));
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) {
        const size_t n = strlen(f->d_name);
        snprintf(path, sizeof path, "%s/%s", asset("tokenizers/llama.cpp-vocab"), f->d_name);
        if (n > 5 && strcmp(f->d_name + n - 5, ".gguf") == 0)
            check_tokenizer(path);
    }
    closedir(d);
}

/* ---- tokenizers made for the purpose --------------------------------------------------------- */

/* Words at spaces; tokens 4 and 5 are special, 6 is added but not special. */
static const char words_json[] =
    "{\"version\": \"1.0\", \"added_tokens\": ["
    "{\"id\": 4, \"content\": \"<a>\", \"special\": true, \"normalized\": false, \"lstrip\": "
    "false, "
    "\"rstrip\": false, \"single_word\": false},"
    "{\"id\": 5, \"content\": \"x<a>z\", \"special\": true, \"normalized\": false, \"lstrip\": "
    "false, "
    "\"rstrip\": false, \"single_word\": false},"
    "{\"id\": 6, \"content\": \"<t>\", \"special\": false, \"normalized\": false, \"lstrip\": "
    "false, "
    "\"rstrip\": false, \"single_word\": false},"
    "{\"id\": 7, \"content\": \"!\", \"special\": true, \"normalized\": false, \"lstrip\": false, "
    "\"rstrip\": false, \"single_word\": false}],"
    "\"normalizer\": null, \"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"},"
    "\"post_processor\": null, \"decoder\": null, \"model\": {\"type\": \"WordLevel\", \"vocab\": "
    "{\"?\": 0, \"x\": 1, \"z\": 2, \"<\": 3, \"<a>\": 4, \"x<a>z\": 5, \"<t>\": 6, \"!\": 7, "
    "\"a>\": 8, \"t>\": 9}, \"unk_token\": \"?\"}}";

static weft_tokenizer *words(void)
{
    return load(temp_file("tokenizer.json", words_json, sizeof words_json - 1));
}

static void expect(const weft_tokenizer *t, const char *const *parts, const int32_t *gated,
                   size_t n_gated, const char *ids)
{
    prompt p = { 0 };
    char found[200] = "";
    for (int i = 0; parts[i]; i++) /* every second part is trusted */
        if (parts[i][0])
            add(&p, parts[i], strlen(parts[i]), i % 2);
    weft_tokens *k = encode(t, &p, true, gated, n_gated);
    for (int64_t i = 0; i < k->n; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%d", i ? " " : "",
                 (int)k->ids[i]);
    assert_string_equal(found, ids);
    weft_tokens_free(k);
    free(p.text);
}

static void only_trusted_text_spells(void **state)
{
    (void)state;
    weft_tokenizer *t = words();
    static const int32_t gate[] = { 6 };
    expect(t, (const char *[]){ "", "<a>", "x", NULL }, NULL, 0, "4 1");
    expect(t, (const char *[]){ "<a>", NULL }, NULL, 0, "3 8");
    expect(t, (const char *[]){ "<t>", NULL }, NULL, 0, "6");
    expect(t, (const char *[]){ "<t>", NULL }, gate, 1, "3 9");
    expect(t, (const char *[]){ "<t>", "<t>", "z", NULL }, gate, 1, "3 9 6 2");
    /* all bytes of a token must be trusted, and in one span */
    expect(t, (const char *[]){ "<", "a>", NULL }, NULL, 0, "3 8");
    expect(t, (const char *[]){ "", "<", "a>", NULL }, NULL, 0, "3 8");
    expect(t, (const char *[]){ "", "<", "a", ">", NULL }, NULL, 0, "3 8");
    weft_tokenizer_free(t);
}

/* "x<a>z" begins in what the user wrote and covers <a>, which the template wrote. */
static void a_longer_token_hides_nothing(void **state)
{
    (void)state;
    weft_tokenizer *t = words();
    expect(t, (const char *[]){ "", "x<a>z", NULL }, NULL, 0, "5");
    expect(t, (const char *[]){ "x", "<a>", "z", NULL }, NULL, 0, "1 4 2");
    expect(t, (const char *[]){ "x", "<a>z", NULL }, NULL, 0, "1 4 2");
    expect(t, (const char *[]){ "", "x<a>", "z", NULL }, NULL, 0, "1 4 2");
    expect(t, (const char *[]){ "x", "<a>", "zx", "<a>", "z", NULL }, NULL, 0, "1 4 0 4 2");
    weft_tokenizer_free(t);
}

static void refused(const weft_tokenizer *t, const weft_tokenize_options *o, const char *text,
                    weft_status status, const char *why)
{
    weft_error err = { 0 };
    weft_tokens *k = weft_tokenizer_encode(t, text, strlen(text), o, &err);
    assert_null(k);
    assert_int_equal(err.code, status);
    assert_non_null(strstr(err.message, why));
}

static void refusals(void **state)
{
    (void)state;
    weft_tokenizer *t = words();
    const int32_t gate = 6;
    weft_span s[2] = { { 0, 1 }, { 2, 3 } };
    weft_tokenize_options o = { .struct_size = sizeof o, .trusted = s };
    refused(t, &o, "a !", WEFT_EUNSUPPORTED, "spells token 7");
    o.n_trusted = 2;
    refused(t, &o, "ab", WEFT_EINVAL, "trusted span 1 is [2, 3)");
    s[1].from = 1;
    refused(t, &o, "abcd", WEFT_EINVAL, "trusted span 1 is [1, 3)");
    s[1].from = 3;
    refused(t, &o, "abcd", WEFT_EINVAL, "trusted span 1 is [3, 3)");
    s[1].from = 2;
    o.pair = "b";
    refused(t, &o, "abcd", WEFT_EINVAL, "not for pairs");
    o.pair = NULL;
    o.n_gated = 1;
    refused(t, &o, "abcd", WEFT_EINVAL, "not gated");
    o.gated = &gate;
    o.trusted = NULL;
    refused(t, &o, "abcd", WEFT_EINVAL, "not trusted");
    weft_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("trust: in no real tokenizer does untrusted text become a special token",
             assets_make_no_special_token),
        TEST("trust: only text in a trusted span spells a gated token", only_trusted_text_spells),
        TEST("trust: a longer token that is partly trusted hides none in the trusted part",
             a_longer_token_hides_nothing),
        TEST("trust: spans out of order and tokens that cannot be avoided are refused", refusals),
    };
    return RUN(tests);
}
