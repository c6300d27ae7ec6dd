/* How a text becomes tokens, step by step: every merge is the one that a plain second computation
 * picks from the tokenizer's own table, every unigram path has the largest sum, every WordPiece match
 * is the longest; and the tokens at the end are those of weft_tokenizer_encode. */
#include "support.h"
#include "text/encoder.h"
#include "text/sources/source.h"

#include <jansson.h>
#include <math.h>

enum { MOST = 4096 };

typedef struct walk {
    const weft_tokenizer *t;
    const tokenizer *inside;
    pair *pair; /* the table of merges, sorted */
    size_t n_pair;
    const char *name, *text;
    size_t length;

    weft_piece now[MOST]; /* the word's symbols */
    size_t n_now;
    char word[MOST];
    size_t n_word;
    bool in_word, merging;
    size_t matched; /* WordPiece: bytes so far */
    int32_t ids[1 << 16];
    size_t n_id;
    weft_span first_span;
    int n_step[WEFT_STEP_TOKENS + 1];
    int stop_after, n_seen;
} walk;

/* ---- BPE: the pair of lowest rank, the leftmost of equals ------------------------------------- */

static int by_symbols(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    return x->right != y->right ? (x->right < y->right ? -1 : 1) : 0;
}

static void sort_table(walk *w)
{
    const bpe *m = &w->inside->bpe;
    if (w->inside->kind != MODEL_BPE)
        return;
    w->pair = calloc(m->mask + 1, sizeof *w->pair);
    for (uint64_t i = 0; i <= m->mask; i++)
        if (m->pair[i].id != NO_ID)
            w->pair[w->n_pair++] = m->pair[i];
    qsort(w->pair, w->n_pair, sizeof *w->pair, by_symbols);
}

/* The number of a piece in the table: tokens, and characters that are part of tokens only. */
static uint32_t symbol(const walk *w, const weft_piece *p)
{
    const bpe *m = &w->inside->bpe;
    if (p->id >= 0)
        return (uint32_t)p->id;
    const char *text = w->word + p->from;
    uint32_t id = vocab_find(m->vocab, text, p->to - p->from); /* a piece that is not a token */
    if (id == NO_ID && m->extra.count > 0) {
        id = vocab_find(&m->extra, text, p->to - p->from);
        id = id == NO_ID ? NO_ID : id + m->vocab->n;
    }
    return id;
}

static const pair *best_pair(const walk *w, size_t *at)
{
    const pair *best = NULL;
    for (size_t i = 0; i + 1 < w->n_now; i++) {
        const pair key = { .left = symbol(w, &w->now[i]), .right = symbol(w, &w->now[i + 1]) };
        const pair *p = key.left == NO_ID || key.right == NO_ID
                            ? NULL
                            : bsearch(&key, w->pair, w->n_pair, sizeof key, by_symbols);
        if (p && (!best || p->rank < best->rank)) {
            best = p;
            *at = i;
        }
    }
    return best;
}

static bool same_piece(const weft_piece *a, const weft_piece *b)
{
    return a->id == b->id && a->from == b->from && a->to == b->to;
}

static void same_pieces(const walk *w, const weft_tokenizer_step *s)
{
    assert_int_equal(s->n_piece, w->n_now);
    for (size_t i = 0; i < w->n_now; i++)
        assert_that(same_piece(&s->pieces[i], &w->now[i]), "%s: piece %zu of \"%.60s\"", w->name, i,
                    w->text);
}

static void check_merge(walk *w, const weft_tokenizer_step *s)
{
    size_t at = 0;
    assert_true(w->merging);
    const pair *p = best_pair(w, &at);
    assert_that(p != NULL, "%s: a merge in \"%.60s\" that the table does not have", w->name,
                w->text);
    assert_that(same_piece(&s->left, &w->now[at]) && same_piece(&s->right, &w->now[at + 1]),
                "%s: \"%.60s\": merged at byte %u, expected %u", w->name, w->text, s->left.from,
                w->now[at].from);
    const int32_t id = p->id < w->inside->n_id ? (int32_t)p->id : -1;
    assert_true(s->piece.id == id && s->piece.from == s->left.from && s->piece.to == s->right.to);
    if (s->rank >= 0)
        assert_int_equal(s->rank, p->rank);
    else
        assert_int_equal(bpe_rank_of_score((float)s->score), p->rank);
    w->now[at] = s->piece;
    w->n_now--;
    memmove(w->now + at + 1, w->now + at + 2, (w->n_now - at - 1) * sizeof *w->now);
}

static void check_symbols(walk *w, const weft_tokenizer_step *s)
{
    assert_true(s->n_piece <= MOST && s->n_piece <= s->length);
    for (size_t i = 0; i < s->n_piece; i++)
        assert_true(s->pieces[i].from < s->pieces[i].to && s->pieces[i].to <= s->length &&
                    (i == 0 || s->pieces[i - 1].to == s->pieces[i].from));
    if (s->n_piece > 0)
        memcpy(w->now, s->pieces, s->n_piece * sizeof *w->now);
    w->n_now = s->n_piece;
    w->merging = true;
}

/* ---- Unigram: the largest sum ---------------------------------------------------------------- */

static double largest_sum(const walk *w)
{
    static double best[MOST + 1];
    const unigram *m = &w->inside->unigram;
    best[0] = 0;
    for (size_t i = 1; i <= w->n_word; i++)
        best[i] = -INFINITY;
    for (size_t at = 0; at < w->n_word; at++) {
        uint32_t node = 0, point;
        size_t step = utf8_decode(w->word + at, w->n_word - at, &point);
        if (best[at] == -INFINITY)
            continue;
        step = step ? step : 1;
        bool single = false;
        for (size_t i = at;
             i < w->n_word && (node = trie_step(&m->trie, node, (uint8_t)w->word[i])); i++) {
            const uint32_t id = m->trie.value[node];
            if (id == NO_ID)
                continue;
            const double user = 0.1 * (double)(i - at);
            const double score = m->user && m->user[id] ? user : m->score[id];
            best[i + 1] = fmax(best[i + 1], best[at] + score);
            single |= i + 1 - at == step;
        }
        if (!single)
            best[at + step] = fmax(best[at + step], best[at] + m->min_score - 10);
    }
    return best[w->n_word];
}

static void check_path(walk *w, const weft_tokenizer_step *s)
{
    const bool in_float = w->inside->unigram.in_float;
    double sum = 0;
    size_t at = 0;
    for (size_t i = 0; i < s->n_piece; i++) {
        assert_int_equal(s->pieces[i].from, at);
        at = s->pieces[i].to;
        sum = s->pieces[i].score + sum;
        sum = in_float ? (double)(float)sum : sum;
    }
    assert_int_equal(at, s->length);
    assert_true(sum == s->score); /* bit by bit, in the order of the search */
    const double best = largest_sum(w);
    assert_that(fabs(best - sum) <= 1e-5 * fmax(1, fabs(best)), "%s: \"%.60s\": %g, the best is %g",
                w->name, w->text, sum, best);
}

/* ---- WordPiece: the longest ------------------------------------------------------------------ */

static void check_match(walk *w, const weft_tokenizer_step *s)
{
    char spelled[MOST + 8];
    int32_t id = -1;
    assert_int_equal(s->piece.from, w->matched);
    uint32_t end = (uint32_t)w->n_word;
    for (; end > w->matched; end--) {
        const int n = snprintf(spelled, sizeof spelled, "%s%.*s", w->matched > 0 ? "##" : "",
                               (int)(end - w->matched), w->word + w->matched);
        id = weft_tokenizer_id(w->t, spelled, (size_t)n);
        if (id >= 0)
            break;
    }
    assert_int_equal(s->piece.id, id);
    if (id >= 0)
        assert_int_equal(s->piece.to, end);
    w->matched = s->piece.to;
}

/* ---- a text ---------------------------------------------------------------------------------- */

static void check_pieces(walk *w, const weft_tokenizer_step *s)
{
    size_t at = 0, ignored;
    if (w->merging)
        assert_null(best_pair(w, &ignored));
    for (size_t i = 0; i < s->n_piece; i++) {
        assert_true(s->pieces[i].from >= at && s->pieces[i].to <= s->length);
        at = s->pieces[i].from;
        assert_true(w->n_id < sizeof w->ids / sizeof *w->ids);
        w->ids[w->n_id++] = s->pieces[i].id;
    }
    if (w->merging && s->n_piece == w->n_now) /* otherwise some were unknown */
        for (size_t i = 0; i < w->n_now; i++)
            assert_true(w->now[i].id == -1 || w->now[i].id == s->pieces[i].id);
    w->in_word = w->merging = false;
}

static void begin_word(walk *w, const weft_tokenizer_step *s)
{
    assert_false(w->in_word);
    assert_true(s->length > 0 && s->length <= MOST && s->span.from <= s->span.to);
    assert_true(s->span.to <= w->length);
    memcpy(w->word, s->text, s->length);
    w->n_word = s->length;
    w->in_word = true;
    w->merging = false;
    w->matched = 0;
}

static bool see(void *ud, const weft_tokenizer_step *s)
{
    walk *w = ud;
    assert_int_equal(s->struct_size, sizeof *s);
    w->n_step[s->kind]++;
    const bool of_word = s->kind > WEFT_STEP_WORD && s->kind < WEFT_STEP_TOKENS;
    if (of_word)
        assert_true(w->in_word && s->length == w->n_word &&
                    memcmp(s->text, w->word, w->n_word) == 0);
    if (s->kind == WEFT_STEP_ADDED)
        w->ids[w->n_id++] = s->piece.id;
    if (s->kind == WEFT_STEP_WORD)
        begin_word(w, s);
    if (s->kind == WEFT_STEP_SYMBOLS)
        check_symbols(w, s);
    if (s->kind == WEFT_STEP_MERGE) {
        check_merge(w, s);
        if (s->n_piece > 0 || w->n_word <= 512)
            same_pieces(w, s);
    }
    if (s->kind == WEFT_STEP_PATH)
        check_path(w, s);
    if (s->kind == WEFT_STEP_MATCH)
        check_match(w, s);
    if (s->kind == WEFT_STEP_PIECES)
        check_pieces(w, s);
    if (s->kind == WEFT_STEP_TOKENS) {
        assert_false(w->in_word);
        assert_int_equal(s->tokens->n, w->n_id);
        assert_memory_equal(s->tokens->ids, w->ids, w->n_id * sizeof *w->ids);
    }
    return ++w->n_seen != w->stop_after;
}

typedef struct copy {
    const weft_tokens *expected;
    int n_tokens;
} copy;

static bool see_end(void *ud, const weft_tokenizer_step *s)
{
    copy *c = ud;
    if (s->kind != WEFT_STEP_TOKENS)
        return true;
    c->n_tokens++;
    assert_int_equal(s->tokens->n, c->expected->n);
    const size_t n = (size_t)c->expected->n;
    assert_memory_equal(s->tokens->ids, c->expected->ids, n * sizeof *c->expected->ids);
    assert_memory_equal(s->tokens->spans, c->expected->spans, n * sizeof *c->expected->spans);
    assert_int_equal(!s->tokens->types, !c->expected->types);
    return true;
}

/* With and without special tokens; the same tokens as weft_tokenizer_encode, with spans and without. */
static void check_text(walk *w, const char *text, size_t n)
{
    for (int way = 0; way < 4; way++) {
        weft_error err = { 0 };
        const weft_tokenize_options o = {
            .struct_size = sizeof o, .no_special = way < 2, .parse_special = way % 2, .spans = true
        };
        weft_tokenize_options plain = o;
        plain.spans = false;
        weft_tokens *k = weft_tokenizer_encode(w->t, text, n, &o, &err),
                    *bare = weft_tokenizer_encode(w->t, text, n, &plain, &err);
        if (!k || !bare)
            fail_msg("%s", err.message);
        assert_int_equal(k->n, bare->n);
        assert_memory_equal(k->ids, bare->ids, (size_t)k->n * sizeof *k->ids);
        copy c = { k, 0 };
        w->text = text;
        w->length = n;
        w->n_id = 0;
        w->in_word = false;
        if (o.no_special && weft_tokenizer_steps(w->t, text, n, &plain, see, w, &err) != WEFT_OK)
            fail_msg("%s: %s", w->name, err.message);
        if (weft_tokenizer_steps(w->t, text, n, &plain, see_end, &c, &err) != WEFT_OK)
            fail_msg("%s: %s", w->name, err.message);
        assert_int_equal(c.n_tokens, 1);
        weft_tokens_free(k);
        weft_tokens_free(bare);
    }
}

static const char *const texts[] = {
    "The cat sat on",
    "",
    " ",
    "Attention is all you need: the Transformer has 65 million parameters.",
    "  two  spaces\tand a\n\nline\r\n",
    "na\xC3\xAFve caf\xC3\xA9 \xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E \xF0\x9F\x99\x82 \xCE\xA9",
    "unaffable, antidisestablishmentarianism don't DON'T 1234567890",
    "<unk> <s> </s> <|endoftext|> [MASK] [CLS] <0x41> \xE2\x96\x81",
    "broken \xFF\xC3 bytes \x80",
    "\xEF\xAC\x81\xEF\xBC\xA1 ligature and wide",
    "ababababababababababababababababababababababababababababababababababababab",
};

/* A word of n letters: the heap merges it, and above 512 symbols its pieces are not shown. */
static void check_long_words(walk *w)
{
    static char text[MOST];
    for (size_t n = 30; n < 1300; n = n * 3 + 1) {
        for (size_t i = 0; i < n; i++)
            text[i] = (char)('a' + (i * i / 7 + i) % 5);
        check_text(w, text, n);
    }
}

static void open_walk(walk *w, const char *path, tokenizer *inside, host *h, weft_tokenizer **t)
{
    weft_error err = { 0 };
    const weft_tokenizer_options o = { .struct_size = sizeof o, .load = WEFT_LOAD_MAP };
    host_plain(h);
    *w = (walk){ .inside = inside, .name = path };
    *t = weft_tokenizer_load(path, &o, &err);
    if (!*t || tokenizer_load(inside, path, NULL, WEFT_LOAD_MAP, h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    w->t = *t;
    sort_table(w);
}

static void close_walk(walk *w, tokenizer *inside, weft_tokenizer *t)
{
    free(w->pair);
    tokenizer_free(inside);
    weft_tokenizer_free(t);
}

static void check_file(walk *w, const char *path, bool long_words)
{
    tokenizer inside;
    host h;
    weft_tokenizer *t;
    open_walk(w, path, &inside, &h, &t);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_text(w, texts[i], strlen(texts[i]));
    if (long_words)
        check_long_words(w);
    assert_true(w->n_step[WEFT_STEP_WORD] > 0 && w->n_step[WEFT_STEP_PIECES] > 0);
    assert_int_equal(w->n_step[WEFT_STEP_MERGE] > 0, inside.kind == MODEL_BPE);
    assert_int_equal(w->n_step[WEFT_STEP_PATH] > 0, inside.kind == MODEL_UNIGRAM);
    assert_int_equal(w->n_step[WEFT_STEP_MATCH] > 0, inside.kind == MODEL_WORDPIECE);
    close_walk(w, &inside, t);
}

static void files_of_the_tree(void **state)
{
    (void)state;
    static walk w;
    check_file(&w, fixture("golden/gpt2-slice"), false);
    check_file(&w, fixture("../models/shakespeare.gguf"), true);
    check_file(&w, fixture("golden/spaces/vocab.gguf"), true);
    check_file(&w, fixture("golden/marian-text/source.spm"), true);
}

/* Pieces that are not tokens, as in Marian's files: the word's tokens are unknown. */
static void silent_pieces(void **state)
{
    (void)state;
    static walk w;
    static const char few[] = "{\"</s>\":0,\"<unk>\":1,\"\xE2\x96\x81the\":2,\"e\":3}";
    size_t n;
    char *bytes = read_whole(fixture("golden/marian-text/source.spm"), &n), path[256];
    snprintf(path, sizeof path, "%s", temp_file("source.spm", bytes, n));
    temp_file("vocab.json", few, sizeof few - 1);
    check_file(&w, path, false);
    free(bytes);
}

static void files_of_the_world(void **state)
{
    (void)state;
    static walk w;
    static const char *const files[] = {
        "bert-uncased",
        "bert-uncased/vocab.txt",
        "gemma/tokenizer.model",
        "gpt2",
        "llama2/tokenizer.model",
        "llama2/tokenizer.bin",
        "llama3",
        "mistral/tokenizer.model",
        "qwen2.5",
        "sentencepiece-test/test_model.model",
        "sentencepiece-test/test_ja_model.model",
        "t5/tokenizer.json",
        "t5/spiece.model",
        "tiktoken/r50k_base.tiktoken",
        "tiktoken/p50k_base.tiktoken",
        "tiktoken/cl100k_base.tiktoken",
        "tiktoken/o200k_base.tiktoken",
        "llama.cpp-vocab/ggml-vocab-bert-bge.gguf",
        "llama.cpp-vocab/ggml-vocab-command-r.gguf",
        "llama.cpp-vocab/ggml-vocab-deepseek-coder.gguf",
        "llama.cpp-vocab/ggml-vocab-deepseek-llm.gguf",
        "llama.cpp-vocab/ggml-vocab-falcon.gguf",
        "llama.cpp-vocab/ggml-vocab-gemma-4.gguf",
        "llama.cpp-vocab/ggml-vocab-gpt-2.gguf",
        "llama.cpp-vocab/ggml-vocab-llama-bpe.gguf",
        "llama.cpp-vocab/ggml-vocab-llama-spm.gguf",
        "llama.cpp-vocab/ggml-vocab-mpt.gguf",
        "llama.cpp-vocab/ggml-vocab-nomic-bert-moe.gguf",
        "llama.cpp-vocab/ggml-vocab-phi-3.gguf",
        "llama.cpp-vocab/ggml-vocab-qwen2.gguf",
        "llama.cpp-vocab/ggml-vocab-qwen35.gguf",
        "llama.cpp-vocab/ggml-vocab-refact.gguf",
        "llama.cpp-vocab/ggml-vocab-starcoder.gguf",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128];
        snprintf(path, sizeof path, "tokenizers/%s", files[i]);
        check_file(&w, asset(path), false);
    }
}

/* Every step that Hugging Face has, with its texts. */
static void every_kind(void **state)
{
    (void)state;
    static walk w;
    json_error_t why;
    json_t *root = json_load_file(fixture("golden/text/steps.json"), JSON_ALLOW_NUL, &why);
    assert_non_null(root);
    const json_t *list = json_object_get(root, "tokenizers");
    assert_true(json_array_size(list) > 60);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i);
        char *text = json_dumps(json_object_get(x, "tokenizer"), 0);
        tokenizer inside;
        host h;
        weft_tokenizer *t;
        open_walk(&w, temp_file("tokenizer.json", text, strlen(text)), &inside, &h, &t);
        w.name = json_string_value(json_object_get(x, "name"));
        const json_t *cases = json_object_get(x, "cases");
        for (size_t c = 0; c < json_array_size(cases); c++) {
            const json_t *of = json_object_get(json_array_get(cases, c), "text");
            if (json_string_length(of) < MOST)
                check_text(&w, json_string_value(of), json_string_length(of));
        }
        close_walk(&w, &inside, t);
        free(text);
    }
    json_decref(root);
}

/* ---- the example of a book ------------------------------------------------------------------- */

typedef struct story {
    char line[4096];
    size_t n;
} story;

static bool tell(void *ud, const weft_tokenizer_step *s)
{
    story *y = ud;
    const char *of = s->text;
    const size_t room = sizeof y->line - y->n;
    int n = 0;
    if (s->kind == WEFT_STEP_WORD)
        n = snprintf(y->line + y->n, room, "[%.*s %u-%u]", (int)s->length, of, s->span.from,
                     s->span.to);
    if (s->kind == WEFT_STEP_MERGE)
        n = snprintf(y->line + y->n, room, " %.*s+%.*s/%lld", (int)(s->left.to - s->left.from),
                     of + s->left.from, (int)(s->right.to - s->right.from), of + s->right.from,
                     (long long)s->rank);
    if (s->kind == WEFT_STEP_PIECES)
        n = snprintf(y->line + y->n, room, "=%d ", s->pieces[0].id);
    y->n += (size_t)n;
    return true;
}

static void the_cat_sat_on(void **state)
{
    (void)state;
    weft_error err = { 0 };
    story y = { .n = 0 };
    weft_tokenizer *t = weft_tokenizer_load(fixture("golden/gpt2-slice"), NULL, &err);
    if (weft_tokenizer_steps(t, "The cat sat on", 14, NULL, tell, &y, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_string_equal(y.line,
                        "[The 0-3] h+e/2 T+he/65=464 [ cat 3-7] a+t/8  +c/12  c+at/145=3797 "
                        "[ sat 7-11]  +s/7 a+t/8  s+at/141=3332 [ on 11-14] o+n/4  "
                        "+on/42=319 ");
    weft_tokenizer_free(t);
}

/* ---- pairs, refusals and faults --------------------------------------------------------------- */

static bool see_type(void *ud, const weft_tokenizer_step *s)
{
    int *n = ud;
    if (s->kind == WEFT_STEP_WORD)
        n[s->type]++;
    return true;
}

static void pairs_and_refusals(void **state)
{
    (void)state;
    static const char json[] =
        "{\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"model\":{\"type\":\"WordPiece\","
        "\"unk_token\":\"u\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":9,"
        "\"vocab\":{\"u\":0,\"a\":1,\"ab\":2,\"##c\":3}},\"post_processor\":{\"type\":"
        "\"BertProcessing\",\"sep\":[\"u\",0],\"cls\":[\"u\",0]}}";
    static walk w;
    weft_error err = { 0 };
    weft_tokenizer *t = weft_tokenizer_load(temp_file("tokenizer.json", json, sizeof json - 1),
                                            NULL, &err);
    if (!t)
        fail_msg("%s", err.message);
    const weft_tokenize_options o = { .struct_size = sizeof o,
                                      .pair = "a ab abc",
                                      .pair_length = 8 };
    int n[2] = { 0, 0 };
    assert_int_equal(weft_tokenizer_steps(t, "ab x", 4, &o, see_type, n, &err), WEFT_OK);
    assert_true(n[0] == 2 && n[1] == 3);
    weft_tokenizer_info info = { .struct_size = sizeof info }, after = info;
    weft_tokenizer_get_info(t, &info);
    w = (walk){ .t = t, .name = "a small one", .text = "abc abx", .length = 7, .stop_after = 3 };
    assert_int_equal(weft_tokenizer_steps(t, "abc abx", 7, NULL, see, &w, &err), WEFT_ESTOPPED);
    assert_int_equal(w.n_seen, 3);
    assert_int_equal(weft_tokenizer_steps(t, NULL, 1, NULL, see, &w, &err), WEFT_EINVAL);
    assert_int_equal(weft_tokenizer_steps(NULL, "a", 1, NULL, see, &w, &err), WEFT_EINVAL);
    assert_int_equal(weft_tokenizer_steps(t, "a", 1, NULL, NULL, &w, &err), WEFT_EINVAL);
    weft_tokenizer_get_info(t, &after);
    assert_int_equal(info.bytes_anonymous, after.bytes_anonymous);
    weft_tokenizer_free(t);
}

static bool see_all(void *ud, const weft_tokenizer_step *s)
{
    (void)s;
    ++*(int *)ud;
    return true;
}

/* A text that may not become a special token is shown whole, and then in its parts. */
static void untrusted_words(void **state)
{
    (void)state;
    static const char json[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
                               "\"merges\":[\"a b\"]}}";
    weft_error err = { 0 };
    weft_tokenizer *t = weft_tokenizer_load(temp_file("tokenizer.json", json, sizeof json - 1),
                                            NULL, &err);
    const weft_span none = { 0, 1 };
    const int32_t gated = 2;
    const weft_tokenize_options o = {
        .struct_size = sizeof o, .trusted = &none, .n_trusted = 1, .gated = &gated, .n_gated = 1
    };
    weft_tokens *k = weft_tokenizer_encode(t, "bab", 3, &o, &err);
    assert_non_null(k);
    assert_int_equal(k->n, 3);
    int n[2] = { 0, 0 };
    assert_int_equal(weft_tokenizer_steps(t, "bab", 3, &o, see_type, n, &err), WEFT_OK);
    assert_int_equal(n[0], 3); /* bab, ba, b */
    weft_tokens_free(k);
    weft_tokenizer_free(t);
}

static bool stop_at_pieces(void *ud, const weft_tokenizer_step *s)
{
    ++*(int *)ud;
    return s->kind != WEFT_STEP_PIECES;
}

/* Stopped after the first word: the encoder fails, though it has nothing more to do, and does not
 * encode the words that follow. */
static void stops_at_once(void **state)
{
    (void)state;
    static const char *const words[] = { "The", "The cat sat on the mat, and the dog" };
    tokenizer t;
    host h;
    weft_error err = { 0 };
    host_plain(&h);
    assert_int_equal(
        tokenizer_load(&t, fixture("golden/gpt2-slice"), NULL, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        int seen = 0;
        encoder *e = encoder_new(&t, &h.mem, &err);
        step_watch w = { stop_at_pieces, &seen, .n_id = t.n_id, .mem = &h.mem, .err = &err };
        encoding out;
        const encode_options o = { .steps = &w };
        assert_int_equal(encoder_encode(e, words[i], strlen(words[i]), NULL, 0, &o, &out, &err),
                         WEFT_ESTOPPED);
        assert_int_equal(seen, 6); /* normalized, word, symbols, two merges, pieces */
        assert_true(e->ids.n <= 2);
        steps_free(&w);
        encoder_free(e);
    }
    tokenizer_free(&t);
}

/* Every k-th allocation fails: an error, and nothing is left behind. */
static void memory_faults(void **state)
{
    (void)state;
    tokenizer t;
    host h;
    weft_error err = { 0 };
    host_plain(&h);
    assert_int_equal(
        tokenizer_load(&t, fixture("golden/gpt2-slice"), NULL, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    for (int64_t k = 1;; k++) {
        host faulty;
        faults f = { .fail_at = k };
        int seen = 0;
        err = (weft_error){ 0 };
        host_faulty(&faulty, &f, NULL);
        encoder *e = encoder_new(&t, &faulty.mem, &err);
        step_watch w = { see_all, &seen, .n_id = t.n_id, .mem = &faulty.mem, .err = &err };
        encoding out;
        const encode_options o = { .steps = &w };
        const weft_status status = e ? encoder_encode(e, "The cat sat on", 14, NULL, 0, &o, &out,
                                                      &err)
                                     : err.code;
        steps_free(&w);
        encoder_free(e);
        assert_int_equal(f.live, 0);
        if (status == WEFT_OK)
            break;
        assert_int_equal(status, WEFT_ENOMEM);
        assert_true(k < 100);
    }
    tokenizer_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("steps: The cat sat on, as GPT-2 merges it", the_cat_sat_on),
        TEST("steps: every merge, path and match of the tree's tokenizers", files_of_the_tree),
        TEST("steps: pieces that are not tokens", silent_pieces),
        TEST("steps: every kind of tokenizer.json", every_kind),
        TEST("steps: every merge, path and match of published tokenizers", files_of_the_world),
        TEST("steps: pairs; a callback stops; bad arguments are refused", pairs_and_refusals),
        TEST("steps: a word that spells a gated token is shown in its parts", untrusted_words),
        TEST("steps: a text that is stopped ends there", stops_at_once),
        TEST("steps: a failed allocation leaves nothing behind", memory_faults),
    };
    return RUN(tests);
}
