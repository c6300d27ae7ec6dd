/* Training data: every id once, in a deterministic order, and nothing that was not requested. */
#include "support.h"

#include "base/rng.h"
#include "gguf_build.h"
#include "text/sources/source.h"
#include "train/corpus_open.h"
#include "train/data.h"
#include "train/learner.h"

/* ---- a tokenizer ----------------------------------------------------------------------------- */

/* Printable characters by their code, line breaks, e with an accent (128), "ab" (129), and <eos>,
 * which is 0. */
enum { EOS = 0, ACCENT = 128, AB = 129, N_VOCAB = 130 };

static void put_vocab(char *to, size_t room)
{
    size_t n = (size_t)snprintf(to, room, "\"<eos>\": 0, \"\\n\": 10, \"\\r\": 13");
    for (int c = 32; c < 127; c++)
        n += (size_t)snprintf(to + n, room - n, ", \"%s%c\": %d", c == '"' || c == '\\' ? "\\" : "",
                              c, c);
    snprintf(to + n, room - n, ", \"\xC3\xA9\": %d, \"ab\": %d", ACCENT, AB);
}

static void tokenizer_open(tokenizer *t, host *h)
{
    char entries[4096], json[8192];
    weft_error err = { 0 };
    put_vocab(entries, sizeof entries);
    const int n = snprintf(
        json, sizeof json,
        "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 0, \"content\": \"<eos>\", "
        "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, "
        "\"special\": true}], \"normalizer\": null, \"pre_tokenizer\": null, "
        "\"post_processor\": null, \"decoder\": {\"type\": \"Fuse\"}, \"model\": {\"type\": "
        "\"BPE\", \"vocab\": {%s}, \"merges\": [[\"a\", \"b\"]]}}",
        entries);
    host_plain(h);
    if (tokenizer_load(t, temp_file("tokenizer.json", json, (size_t)n), NULL, WEFT_LOAD_COPY, h,
                       &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

/* A tokenizer, and data that are read with it. */
typedef struct lesson {
    host host, tokenizer_host;
    tokenizer tokenizer;
    dataset data;
    weft_error err;
} lesson;

static const data_options plain = { .corpus = { .eos = EOS, .n_thread = 1 }, .n_ctx = 8 };

static weft_status try_paths(lesson *l, const char *const *path, int n, data_options o)
{
    l->err = (weft_error){ 0 };
    tokenizer_open(&l->tokenizer, &l->tokenizer_host);
    host_plain(&l->host);
    o.corpus.tokenizer = &l->tokenizer;
    const weft_status status = data_open(&l->data, path, n, &o, &l->host, &l->err);
    if (status != WEFT_OK) {
        assert_int_equal(l->host.mem.used, 0);
        tokenizer_free(&l->tokenizer);
    }
    return status;
}

static weft_status try_text(lesson *l, const char *name, const char *text, size_t n, data_options o)
{
    const char *path = temp_file(name, text, n);
    return try_paths(l, &path, 1, o);
}

static void lesson_open(lesson *l, const char *name, const char *text, data_options o)
{
    if (try_text(l, name, text, strlen(text), o) != WEFT_OK)
        fail_msg("%s", l->err.message);
}

static void lesson_close(lesson *l)
{
    data_close(&l->data);
    tokenizer_free(&l->tokenizer);
    assert_int_equal(l->host.mem.used, 0);
    assert_int_equal(l->tokenizer_host.mem.used, 0);
}

/* ---- orders ---------------------------------------------------------------------------------- */

static void every_size(void **state)
{
    (void)state;
    static uint8_t seen[5000];
    for (uint64_t n = 1; n <= 5000; n += quick() ? 37 : 1) {
        memset(seen, 0, n);
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t k = rng_permute(7, n, n, i);
            assert_that(k < n && !seen[k]++, "a permutation of %llu takes %llu to %llu",
                        (unsigned long long)n, (unsigned long long)i, (unsigned long long)k);
        }
    }
}

/* Too many to count: distinct positions map to distinct positions. */
static void large_sizes(void **state)
{
    (void)state;
    static const uint64_t sizes[] = { 1000003, ((uint64_t)1 << 32) + 1, ((uint64_t)1 << 40) - 87,
                                      UINT64_MAX };
    enum { N = 1 << 16 };
    uint64_t *table = calloc(4 * N, sizeof *table);
    for (size_t s = 0; s < 4; s++) {
        const uint64_t n = sizes[s];
        memset(table, 0xFF, 4 * N * sizeof *table);
        double mean = 0;
        for (uint64_t i = 0; i < N; i++) {
            const uint64_t k = rng_permute(1, 2, n, i);
            assert_true(k < n);
            mean += (double)k / (double)n / N;
            uint64_t at = k % (4 * N);
            for (; table[at] != UINT64_MAX; at = (at + 1) % (4 * N))
                assert_true(table[at] != k);
            table[at] = k;
        }
        assert_true(mean > 0.49 && mean < 0.51);
    }
    free(table);
}

/* Neighbours are separated, and other keys give other orders. */
static void orders_differ(void **state)
{
    (void)state;
    int neighbours = 0, same = 0;
    for (uint64_t i = 0; i + 1 < 1000; i++) {
        const uint64_t a = rng_permute(3, 0, 1000, i), b = rng_permute(3, 0, 1000, i + 1);
        neighbours += a + 1 == b || b + 1 == a;
        same += a == rng_permute(4, 0, 1000, i) || a == rng_permute(3, 1, 1000, i);
    }
    assert_true(neighbours < 12 && same < 12); /* two of each are expected */
}

/* ---- windows --------------------------------------------------------------------------------- */

static const char alphabet[] = "cdefghijklmnopqrstuvwxyzCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

static void windows(void **state)
{
    (void)state;
    lesson l;
    batch b;
    data_options o = plain;
    o.validation = 0.2;
    lesson_open(&l, "a.txt", alphabet, o);
    const data_part *p = &l.data.train;
    const int64_t n = (int64_t)strlen(alphabet) + 1, n_train = (int64_t)((double)n * 0.8);
    assert_true(l.data.windows);
    assert_int_equal(p->n_sample, n_train - 8);
    assert_int_equal(data_room(&b, &l.data, 3, &l.err), WEFT_OK);
    uint64_t offsets = 0;
    for (int64_t i = 0; i < p->n_sample; i++) {
        assert_int_equal(data_fill(&b, p, 5, i, 3, &l.err), WEFT_OK);
        assert_true(b.n_seq == 3 && b.n_row == 24 && b.n_wanted == 24);
        for (int r = 0; r < 24; r++) {
            const batch_row *row = &b.row[r];
            assert_true(row->seq == r / 8 && row->pos == r % 8 && row->wanted && row->weight == 1);
            const char *at = strchr(alphabet, row->id);
            assert_int_equal(row->target, at[1]);
            assert_true(r % 8 == 0 || row->id == row[-1].target);
        }
        offsets |= (uint64_t)1 << (strchr(alphabet, b.row[0].id) - alphabet);
    }
    assert_int_equal(offsets, ((uint64_t)1 << p->n_sample) - 1); /* each position once per epoch */
    data_room_free(&b, &l.data);
    lesson_close(&l);
}

/* In order, every target of a part occurs once. */
static void in_order(void **state)
{
    (void)state;
    for (int64_t n_ctx = 1; n_ctx < 70; n_ctx++) {
        lesson l;
        batch b;
        data_options o = plain;
        o.n_ctx = n_ctx;
        o.validation = 0.5;
        lesson_open(&l, "a.txt", alphabet, o);
        const data_part *p = &l.data.validation;
        assert_int_equal(data_room(&b, &l.data, 1, &l.err), WEFT_OK);
        int64_t at = p->begin, n_target = 0;
        for (int64_t i = 0; i < p->n_in_order; i++) {
            assert_int_equal(data_fill_in_order(&b, p, i, 1, &l.err), WEFT_OK);
            n_target += b.n_wanted;
            for (int32_t r = 0; r < b.n_row; r++) {
                assert_int_equal(b.row[r].id, alphabet[at++]);
                assert_int_equal(b.row[r].target, at + 1 < p->end ? alphabet[at] : EOS);
            }
        }
        assert_int_equal(at + 1, p->end);
        assert_int_equal(n_target, p->counts.n_target);
        assert_int_equal(p->counts.n_eos, 1);
        data_room_free(&b, &l.data);
        lesson_close(&l);
    }
}

/* Any sample can be made at any time, alone or with others: there is no state. */
static void a_pure_function(void **state)
{
    (void)state;
    lesson l;
    batch many, one;
    data_options o = plain;
    o.corpus.separator = ",";
    o.style = DATA_DOCUMENTS;
    lesson_open(&l, "a.txt", "one,two,three,four,five,six,seven,eight,nine,ten,eleven,twelve", o);
    const data_part *p = &l.data.train;
    assert_int_equal(data_room(&many, &l.data, 40, &l.err), WEFT_OK);
    assert_int_equal(data_room(&one, &l.data, 1, &l.err), WEFT_OK);
    assert_int_equal(data_fill(&many, p, 11, 0, 40, &l.err), WEFT_OK);
    int32_t row = many.n_row;
    int64_t n_target = 0;
    for (int64_t i = 39; i >= 0; i--) {
        assert_int_equal(data_fill(&one, p, 11, i, 1, &l.err), WEFT_OK);
        row -= one.n_row;
        for (int32_t r = 0; r < one.n_row; r++) {
            assert_int_equal(one.row[r].id, many.row[row + r].id);
            assert_int_equal(one.row[r].target, many.row[row + r].target);
            assert_int_equal(one.row[r].pos, many.row[row + r].pos);
        }
        assert_int_equal(data_targets(p, 11, i, 1), one.n_wanted);
        n_target += one.n_wanted;
    }
    assert_int_equal(row, 0);
    assert_int_equal(data_targets(p, 11, 0, 40), n_target);
    data_room_free(&many, &l.data);
    data_room_free(&one, &l.data);
    lesson_close(&l);
}

/* nanoGPT's split of the same file by the same share. */
static void tinyshakespeare(void **state)
{
    (void)state;
    lesson l;
    data_options o = plain;
    o.corpus.eos = -1;
    o.n_ctx = 64;
    o.validation = 0.1;
    const char *path = asset("data/tinyshakespeare/input.txt");
    tokenizer_open(&l.tokenizer, &l.tokenizer_host);
    l.tokenizer.bpe.n_pair = 0;
    memset(l.tokenizer.bpe.pair, 0xFF, (l.tokenizer.bpe.mask + 1) * sizeof *l.tokenizer.bpe.pair);
    host_plain(&l.host);
    o.corpus.tokenizer = &l.tokenizer;
    if (data_open(&l.data, &path, 1, &o, &l.host, &l.err) != WEFT_OK)
        fail_msg("%s", l.err.message);
    assert_int_equal(l.data.train.end, 1003854);
    assert_int_equal(l.data.validation.end - l.data.validation.begin, 111540);
    assert_int_equal(l.data.validation.counts.n_target, 111539);
    lesson_close(&l);
}

/* ---- documents ------------------------------------------------------------------------------- */

/* The documents of a part, in order, as text with '|' after each and '$' for the end of a text;
 * only the targets in `learned`. */
static void write_down(const lesson *l, const data_part *p, char *all, char *learned)
{
    batch b;
    weft_error err = { 0 };
    assert_int_equal(data_room(&b, &l->data, 1, &err), WEFT_OK);
    for (int64_t i = 0; i < p->n_in_order; i++) {
        assert_int_equal(data_fill_in_order(&b, p, i, 1, &err), WEFT_OK);
        assert_true(b.n_row <= l->data.n_ctx);
        for (int32_t s = 0; s < b.n_seq; s++) {
            const batch_row *row = b.row + b.seq[s].first;
            for (int32_t r = 0; r < b.seq[s].n; r++) {
                assert_true(row[r].seq == s && row[r].pos == r);
                assert_int_equal(row[r].wanted, row[r].target != NO_TARGET);
                *all++ = row[r].id ? (char)row[r].id : '$';
                if (row[r].wanted)
                    *learned++ = row[r].target ? (char)row[r].target : '$';
            }
            const int32_t last = row[b.seq[s].n - 1].target;
            *all++ = last == NO_TARGET ? '?' : last ? (char)last : '$';
            *all++ = '|';
            *learned++ = '|';
        }
        *all++ = '\n';
        *learned++ = '\n';
    }
    *all = *learned = '\0';
    data_room_free(&b, &l->data);
}

static void expect_documents(const char *name, const char *text, data_options o, const char *all,
                             const char *learned)
{
    lesson l;
    char found[4096], targets[4096];
    o.style = DATA_DOCUMENTS;
    lesson_open(&l, name, text, o);
    write_down(&l, &l.data.train, found, targets);
    assert_string_equal(found, all);
    assert_string_equal(targets, learned);
    lesson_close(&l);
}

static void separators(void **state)
{
    (void)state;
    data_options o = plain;
    o.n_ctx = 40;
    expect_documents("a.txt", "one\n\ntwo\n", o, "one\n\ntwo\n$|\n", "ne\n\ntwo\n$|\n");
    o.corpus.separator = "<s>";
    expect_documents("a.txt", "one<s>two", o, "one$|two$|\n", "ne$|wo$|\n");
    expect_documents("a.txt", "one\n<s>\ntwo\n<s>\n", o, "one$|two$|\n", "ne$|wo$|\n");
    expect_documents("a.txt", "<s>one<s>", o, "one$|\n", "ne$|\n");
    o.corpus.separator = "";
    expect_documents("a.txt", "one\nline\n\n\n \t\r\ntwo\r\n\r\n", o, "one\nline$|two$|\n",
                     "ne\nline$|wo$|\n");
    o.corpus.eos = -1;
    expect_documents("a.txt", "one\n\ntwo", o, "one|two|\n", "ne|wo|\n");
}

static void empty_documents(void **state)
{
    (void)state;
    lesson l;
    data_options o = plain;
    o.corpus.separator = ",";
    o.corpus.eos = -1;
    o.style = DATA_DOCUMENTS;
    lesson_open(&l, "a.txt", "one,,x,\n,three,", o);
    assert_int_equal(l.data.corpus.n_empty, 2);
    assert_int_equal(l.data.train.counts.n_document, 3);
    assert_int_equal(l.data.train.counts.n_skipped, 1); /* x alone has no next */
    lesson_close(&l);
    assert_int_equal(try_text(&l, "a.txt", ",,", 2, o), WEFT_EFORMAT);
    assert_non_null(strstr(l.err.message, "no text in it"));
    assert_int_equal(try_text(&l, "a.txt", "", 0, o), WEFT_EFORMAT);
}

/* Long documents continue in the next piece; each target occurs once. */
static void cutting(void **state)
{
    (void)state;
    data_options o = plain;
    o.n_ctx = 4;
    o.corpus.separator = ",";
    expect_documents("a.txt", "0123,01234,012345678", o, "0123$|\n01234|\n4$|8$|\n01234|\n45678|\n",
                     "123$|\n1234|\n$|$|\n1234|\n5678|\n");
}

/* Samples are filled with short documents. */
static void packing(void **state)
{
    (void)state;
    lesson l;
    data_options o = plain;
    char *text = malloc(400000);
    size_t n = 0;
    for (uint64_t i = 0; i < 5000; i++) {
        const uint32_t length = 1 + rng_draw(9, 0, i).word[0] % 60;
        for (uint32_t k = 0; k < length; k++)
            text[n++] = (char)('c' + (i + k) % 20);
        text[n++] = ',';
    }
    text[n] = '\0';
    o.corpus.separator = ",";
    o.n_ctx = 64;
    lesson_open(&l, "a.txt", text, o);
    const data_counts *c = &l.data.train.counts;
    print_message("5000 documents in %lld samples, %.2f %% full, at most %d in one\n",
                  (long long)c->n_sample, 100.0 * (double)c->n_row / (double)(c->n_sample * 64),
                  l.data.train.most_seq);
    assert_true(c->n_row > c->n_sample * 64 * 98 / 100);
    assert_int_equal(c->n_target, n - 5000); /* every character but the first, and the end */
    assert_int_equal(c->n_eos, 5000);
    assert_int_equal(c->n_cut + c->n_truncated + c->n_skipped, 0);
    free(text);
    lesson_close(&l);
}

/* The share is exact to the document, independent of the seed, and no document is in both parts. */
static void the_split(void **state)
{
    (void)state;
    lesson l;
    data_options o = plain;
    char text[4096], train[8192], validation[8192], ignored[8192];
    size_t n = 0;
    for (int i = 0; i < 100; i++)
        n += (size_t)sprintf(text + n, "d%02d,", i);
    o.corpus.separator = ",";
    o.validation = 0.1;
    lesson_open(&l, "a.txt", text, o);
    assert_int_equal(l.data.validation.counts.n_document, 10);
    assert_int_equal(l.data.train.counts.n_document, 90);
    write_down(&l, &l.data.train, train, ignored);
    write_down(&l, &l.data.validation, validation, ignored);
    int both = 0, one = 0, spread = 0;
    for (int i = 0; i < 100; i++) {
        char name[16];
        sprintf(name, "d%02d$", i);
        const bool a = strstr(train, name), b = strstr(validation, name);
        both += a && b;
        one += a != b;
        spread += b && i < 50;
    }
    assert_true(both == 0 && one == 100);
    assert_true(spread > 0 && spread < 10);
    lesson_close(&l);
}

/* ---- prompts --------------------------------------------------------------------------------- */

static void prompts(void **state)
{
    (void)state;
    data_options o = plain;
    o.n_ctx = 12;
    expect_documents("a.jsonl",
                     "{\"prompt\": \"Q: x\", \"completion\": \"yes\"}\n"
                     "{\"text\": \"plain\"}\n"
                     "{\"prompt\": \"\", \"completion\": \"free\"}\n"
                     "{\"prompt\": \"quiet\", \"completion\": \"\"}\n",
                     o, "Q: xyes$|plain$|\nfree$|quiet$|\n", "yes$|lain$|\nree$|$|\n");
}

/* A prompt that leaves no room is skipped; a long completion is truncated; both are counted. */
static void truncated_prompts(void **state)
{
    (void)state;
    lesson l;
    char all[4096], learned[4096];
    lesson_open(&l, "a.jsonl",
                "{\"prompt\": \"123456789\", \"completion\": \"yes\"}\n"
                "{\"prompt\": \"1234567\", \"completion\": \"yes\"}\n"
                "{\"prompt\": \"12345678\", \"completion\": \"yes\"}\n",
                plain);
    write_down(&l, &l.data.train, all, learned);
    assert_string_equal(all, "1234567ye|\n12345678y|\n");
    assert_string_equal(learned, "ye|\ny|\n");
    const data_counts *c = &l.data.train.counts;
    assert_true(c->n_truncated == 2 && c->n_skipped == 1 && c->n_eos == 0 && c->n_target == 3);
    assert_int_equal(l.data.corpus.n_prompt, 3);
    lesson_close(&l);
}

/* A token across the border is a target, and counted: the prompt alone would have other ids. */
static void straddling_token_is_counted(void **state)
{
    (void)state;
    lesson l;
    batch b;
    lesson_open(&l, "a.jsonl", "{\"prompt\": \"xa\", \"completion\": \"by\"}", plain);
    assert_int_equal(l.data.corpus.n_straddling, 1);
    assert_int_equal(data_room(&b, &l.data, 1, &l.err), WEFT_OK);
    assert_int_equal(data_fill(&b, &l.data.train, 0, 0, 1, &l.err), WEFT_OK);
    assert_true(b.n_row == 3 && b.row[0].id == 'x' && b.row[0].target == AB);
    data_room_free(&b, &l.data);
    lesson_close(&l);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static data_options paired(weft_objective objective)
{
    data_options o = plain;
    o.n_ctx = 16;
    o.corpus.pairs = true;
    o.pairing = (pairing){
        .encodes = true, .objective = objective, .start = 99, .eos = EOS, .mask = -1
    };
    return o;
}

/* Source and target are separate texts: "ab" across the border is not a token. */
static void expect_pair(const char *name, const char *text)
{
    lesson l;
    batch b;
    lesson_open(&l, name, text, paired(WEFT_OBJECTIVE_BY_DATA));
    assert_int_equal(l.data.pairing.objective, WEFT_OBJECTIVE_PAIRS);
    assert_int_equal(data_room(&b, &l.data, 1, &l.err), WEFT_OK);
    assert_int_equal(b.src->n_row, 16); /* the largest */
    assert_int_equal(data_fill_in_order(&b, &l.data.train, 0, 1, &l.err), WEFT_OK);
    assert_true(b.n_seq == 2 && b.n_row == 5 && b.n_wanted == 5);
    const int32_t heard[] = { 'x', 'a', 'q' };
    const int32_t said[] = { 99, 'b', 'y', 99, ACCENT }, target[] = { 'b', 'y', EOS, ACCENT, EOS };
    assert_int_equal(b.src->n_row, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(b.src->row[i].id, heard[i]);
    for (int i = 0; i < 5; i++)
        assert_true(b.row[i].id == said[i] && b.row[i].target == target[i]);
    assert_true(b.seq[1].source == 1 && b.src->seq[1].n == 1);
    assert_int_equal(data_targets(&l.data.train, 0, 0, 1), 5);
    assert_true(l.data.train.counts.n_target == 5 && l.data.train.counts.n_eos == 2);
    data_room_free(&b, &l.data);
    lesson_close(&l);
}

static void parallel_text(void **state)
{
    (void)state;
    expect_pair("a.tsv", "xa\tby\n\r\n\nq\t\xC3\xA9\r\n");
    expect_pair("b.tsv", "\xEF\xBB\xBFxa\tby\nno target\t\n\tno source\nq\t\xC3\xA9");
    expect_pair("c.jsonl", "{\"prompt\": \"xa\", \"completion\": \"by\"}\n"
                           "{\"prompt\": \"q\", \"completion\": \"\xC3\xA9\"}\n");
}

static void wrong_pairs(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } wrong[] = {
        { "a\tb\nab\n", "a.tsv:2: expected a source, a tab and a target" },
        { "a\tb\nc\td\te\n", "a.tsv:2: expected a source" },
        { "a\tb\xFF\n", "is not UTF-8" },
        { "\n\n", "no text" },
    };
    lesson l;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (try_text(&l, "a.tsv", wrong[i].text, strlen(wrong[i].text),
                     paired(WEFT_OBJECTIVE_BY_DATA)) != WEFT_EFORMAT ||
            !strstr(l.err.message, wrong[i].says))
            fail_msg("%zu: \"%s\", expected \"%s\"", i, l.err.message, wrong[i].says);
    }
    const data_options other = paired(WEFT_OBJECTIVE_PAIRS), spans = paired(WEFT_OBJECTIVE_SPANS),
                       infill = paired(WEFT_OBJECTIVE_INFILL);
    data_options causal = plain;
    causal.pairing.objective = WEFT_OBJECTIVE_PAIRS;
    assert_int_equal(try_text(&l, "a.txt", "are not pairs", 8, other), WEFT_EINVAL);
    assert_int_equal(try_text(&l, "a.tsv", "a\tb", 3, spans), WEFT_EINVAL);
    assert_int_equal(try_text(&l, "a.txt", "no sentinels", 12, spans), WEFT_EINVAL);
    assert_int_equal(try_text(&l, "a.txt", "no mask here", 12, infill), WEFT_EINVAL);
    assert_int_equal(try_text(&l, "a.tsv", "a\tb", 3, causal), WEFT_EINVAL);
}

/* Truncated anywhere, it is a shorter file or an error that says where. */
static void cut_off_pairs(void **state)
{
    (void)state;
    static const char text[] = "\xEF\xBB\xBFone\ttwo\r\nq\t\xC3\xA9\n\nthree\tfour\n";
    for (size_t n = 0; n < sizeof text; n++) {
        lesson l;
        const weft_status status = try_text(&l, "a.tsv", text, n, paired(WEFT_OBJECTIVE_BY_DATA));
        assert_true(status == WEFT_OK || status == WEFT_EFORMAT);
        if (status == WEFT_OK)
            lesson_close(&l);
    }
}

/* ---- preferences ----------------------------------------------------------------------------- */

#define PAIR(p, a, b) "{\"prompt\": \"" p "\", \"chosen\": \"" a "\", \"rejected\": \"" b "\"}\n"

/* Both answers of a line are neighbours in one sample; one that is too long leaves with the other. */
static void preferred_pairs(void **state)
{
    (void)state;
    data_options o = plain;
    lesson l;
    batch b;
    o.n_ctx = 11;
    lesson_open(&l, "a.jsonl",
                PAIR("p", "x", "yy") PAIR("q", "0123456789", "z") PAIR("r", "uuu", "v")
                    PAIR("s", "w", "w2"),
                o);
    const data_part *t = &l.data.train;
    assert_true(l.data.make == &rows_preferred && l.data.corpus.n_preference == 4);
    assert_int_equal(t->counts.n_document, 8);
    assert_int_equal(t->counts.n_skipped, 2);
    assert_int_equal(t->n_sample, 2); /* 2 + 3 and 4 + 2 rows fill one */
    assert_int_equal(data_room(&b, &l.data, 2, &l.err), WEFT_OK);
    assert_int_equal(data_fill_in_order(&b, t, 0, 2, &l.err), WEFT_OK);
    static const int32_t number[] = { 0, 1, 4, 5, 6, 7 };
    static const char *const text[] = { "px", "pyy", "ruuu", "rv", "sw", "sw2" };
    assert_int_equal(b.n_seq, 6);
    for (int s = 0; s < 6; s++) {
        assert_int_equal(b.prefer->document[s], number[s]);
        assert_int_equal(b.seq[s].n, strlen(text[s]));
        for (int32_t i = 0; i < b.seq[s].n; i++) {
            const batch_row *row = &b.row[b.seq[s].first + i];
            assert_int_equal(row->id, text[s][i]);
            assert_int_equal(row->target, text[s][i + 1] ? text[s][i + 1] : EOS);
        }
    }
    assert_int_equal(data_targets(t, 3, 0, 2), 3); /* pairs */
    data_room_free(&b, &l.data);
    lesson_close(&l);
}

/* Validation has whole pairs, spread over the data or from a file. */
static void split_preferences(void **state)
{
    (void)state;
    char text[4000] = "";
    for (int i = 0; i < 40; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), PAIR("%d", "a", "b"), i);
    data_options o = plain;
    lesson l;
    o.n_ctx = 64;
    o.validation = 0.25;
    lesson_open(&l, "a.jsonl", text, o);
    assert_int_equal(l.data.validation.counts.n_document, 20);
    assert_int_equal(l.data.train.counts.n_document, 60);
    for (int part = 0; part < 2; part++) {
        const data_part *p = part ? &l.data.validation : &l.data.train;
        for (int64_t i = 0; i < p->first[p->n_sample]; i += 2)
            assert_true(p->piece[i].label % 2 == 0 &&
                        p->piece[i + 1].label == p->piece[i].label + 1);
    }
    lesson_close(&l);
    o.validation = 0;
    o.corpus.apart = temp_file("b.jsonl", PAIR("x", "a", "b"), strlen(PAIR("x", "a", "b")));
    lesson_open(&l, "a.jsonl", text, o);
    assert_int_equal(l.data.validation.counts.n_document, 2);
    assert_int_equal(l.data.validation.piece[0].label, 80);
    lesson_close(&l);
}

static void wrong_preferences(void **state)
{
    (void)state;
    static const char mixed[] = PAIR("p", "x", "y") "{\"text\": \"a\"}\n";
    static const char one[] = PAIR("p", "x", "y");
    lesson l;
    data_options masked = plain;
    masked.mask_id = 'm';
    assert_int_equal(try_text(&l, "a.jsonl", mixed, sizeof mixed - 1, plain), WEFT_EINVAL);
    assert_non_null(strstr(l.err.message, "1 pairs of chosen and rejected answers in 3 documents"));
    assert_int_equal(try_text(&l, "a.jsonl", one, sizeof one - 1, masked), WEFT_EINVAL);
    assert_non_null(strstr(l.err.message, "preferences train decoders"));
}

/* ---- JSONL ----------------------------------------------------------------------------------- */

static void jsonl_lines(void **state)
{
    (void)state;
    data_options o = plain;
    o.n_ctx = 40;
    expect_documents("a.jsonl",
                     "\xEF\xBB\xBF{\"text\": \"bom\"}\r\n"
                     "\r\n   \t\n\n"
                     "  {\"text\": \"sp\\u0061ce\", \"meta\": {\"text\": [1, {\"prompt\": 2}]}}  \n"
                     "{\"text\": \"big\", \"id\": 123456789012345678901234567890}\n"
                     "{\"text\": \"last\"}",
                     o, "bom$|space$|big$|last$|\n", "om$|pace$|ig$|ast$|\n");
}

static void jsonl_errors(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } wrong[] = {
        { "{\"text\": 5}", ":2: \"text\" is not a string" },
        { "{\"text\": null}", ":2: \"text\" is not a string" },
        { "{\"prompt\": \"a\", \"completion\": [\"b\"]}", ":2: \"completion\" is not a string" },
        { "{\"prompt\": \"a\"}", ":2: has neither \"text\" nor" },
        { "{\"completion\": \"a\"}", ":2: has neither \"text\" nor" },
        { "{\"message\": []}", ":2: has neither \"text\" nor" },
        { "{\"text\": \"a\", \"prompt\": \"b\"}", ":2: has both \"text\" and \"prompt\"" },
        { "{\"text\": \"a\", \"completion\": \"b\"}", ":2: has both \"text\" and \"completion\"" },
        { "{\"text\": \"a\", \"text\": \"b\"}", ":2: " },
        { "[\"text\"]", ":2: " },
        { "\"text\"", ":2: " },
        { "{\"text\": \"a\"", ":2: " },
        { "{\"text\": \"a\"} {\"text\": \"b\"}", ":2: " },
        { "{\"text\": \"\xFF\"}", ":2: " },
        { "{\"text\": \"\\ud800\"}", ":2: " },
        { "{\"text\": \"a\tb\"}", ":2: " },
        { "nonsense", ":2: " },
        { "\f", ":2: " },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[256];
        lesson l;
        const int n = snprintf(text, sizeof text, "{\"text\": \"good\"}\n%s\n", wrong[i].line);
        if (try_text(&l, "a.jsonl", text, (size_t)n, plain) != WEFT_EFORMAT ||
            !strstr(l.err.message, wrong[i].says))
            fail_msg("%s: \"%s\", expected \"%s\"", wrong[i].line, l.err.message, wrong[i].says);
    }
    lesson l; /* a zero byte is not JSON, but a string may contain one */
    assert_int_equal(try_text(&l, "a.jsonl", "{\"text\": \"a\0b\"}", 15, plain), WEFT_EFORMAT);
    expect_documents("a.jsonl", "{\"text\": \"a\\u0000c\"}", plain, "ac$|\n", "c$|\n");
}

/* Nested deeper than the stack should go. */
static void jsonl_depth(void **state)
{
    (void)state;
    char *text = malloc(300000);
    size_t n = (size_t)sprintf(text, "{\"text\": \"a\", \"x\": ");
    memset(text + n, '[', 100000);
    memset(text + n + 100000, ']', 100000);
    text[n + 200000] = '}';
    lesson l;
    assert_int_equal(try_text(&l, "a.jsonl", text, n + 200001, plain), WEFT_EFORMAT);
    assert_non_null(strstr(l.err.message, "nested deeper"));
    free(text);
}

static void not_utf8(void **state)
{
    (void)state;
    lesson l;
    assert_int_equal(try_text(&l, "a.txt", "good \xC3( bad", 12, plain), WEFT_EFORMAT);
    assert_non_null(strstr(l.err.message, "byte 5 is not UTF-8"));
    data_options o = plain;
    o.n_ctx = 3;
    expect_documents("a.txt", "\xEF\xBB\xBFone", o, "one$|\n", "ne$|\n");
}

/* ---- ids ------------------------------------------------------------------------------------- */

/* Saved ids give the same samples. */
static void saved_ids(void **state)
{
    (void)state;
    static const char text[] = "{\"prompt\": \"Q: x\", \"completion\": \"yes\"}\n"
                               "{\"text\": \"some longer text that is cut\"}\n"
                               "{\"text\": \"more\"}\n";
    lesson l;
    char before[2][4096], after[2][4096];
    lesson_open(&l, "a.jsonl", text, plain);
    write_down(&l, &l.data.train, before[0], before[1]);
    const char *path = temp_path("a.ids");
    assert_int_equal(corpus_save(&l.data.corpus, path, &l.err), WEFT_OK);
    lesson_close(&l);
    for (int load = WEFT_LOAD_COPY; load <= WEFT_LOAD_MAP; load++) {
        data_options o = plain;
        o.corpus.load = (weft_load)load;
        if (try_paths(&l, &path, 1, o) != WEFT_OK)
            fail_msg("%s", l.err.message);
        write_down(&l, &l.data.train, after[0], after[1]);
        assert_string_equal(before[0], after[0]);
        assert_string_equal(before[1], after[1]);
        assert_int_equal(l.data.corpus.n_prompt, 1);
        lesson_close(&l);
    }
    data_options o = plain;
    o.corpus.n_vocab = 100;
    assert_int_equal(try_paths(&l, &path, 1, o), WEFT_EINVAL);
    assert_non_null(
        strstr(l.err.message, "token ids for a vocabulary of 130, expected at most 100"));
}

/* A window continues from one file into the next. */
static void raw_ids(void **state)
{
    (void)state;
    static const uint16_t a[] = { 40, 41, 42 }, b[] = { 43, 44, 45, 46, 47, 48, 49 };
    const char *const path[] = { temp_file("a.bin", a, sizeof a), temp_file("b.bin", b, sizeof b) };
    lesson l;
    batch x;
    data_options o = plain;
    o.corpus.kind = DATA_RAW16;
    if (try_paths(&l, path, 2, o) != WEFT_OK)
        fail_msg("%s", l.err.message);
    assert_int_equal(l.data.train.n_sample, 2);
    assert_int_equal(data_room(&x, &l.data, 2, &l.err), WEFT_OK);
    assert_int_equal(data_fill(&x, &l.data.train, 0, 0, 2, &l.err), WEFT_OK);
    assert_int_equal(x.row[0].id + x.row[8].id, 40 + 41);
    for (int r = 0; r < 16; r++)
        assert_int_equal(x.row[r].target, x.row[r].id + 1);
    data_room_free(&x, &l.data);
    lesson_close(&l);
    o.corpus.n_vocab = 49;
    assert_int_equal(try_paths(&l, path, 2, o), WEFT_EFORMAT);
    assert_non_null(strstr(l.err.message, "b.bin: id 6 is 49; the vocabulary has 49"));
    const char *odd = temp_file("odd.bin", a, 5);
    assert_int_equal(try_paths(&l, &odd, 1, o), WEFT_EFORMAT);
}

static bool go_on(void *ud, uint64_t done, uint64_t total)
{
    (void)ud, (void)done, (void)total;
    return true;
}

/* Ids need no tokenizer, only the size of the vocabulary; text needs one. */
static void without_a_tokenizer(void **state)
{
    (void)state;
    static const uint16_t three[] = { 40, 41, 42 };
    const char *const raw = temp_file("a.bin", three, sizeof three),
                      *text = temp_file("a.txt", "ab", 2);
    const char *const none[] = { raw, temp_path("missing") };
    corpus_options o = { .eos = EOS, .n_thread = 1, .kind = DATA_RAW16 };
    weft_error err = { 0 };
    corpus c;
    host h;
    host_plain(&h);
    assert_int_equal(corpus_open(&c, &raw, 1, &o, &h, &err), WEFT_EINVAL);
    o.n_vocab = 100;
    assert_int_equal(corpus_open(&c, &raw, 1, &o, &h, &err), WEFT_OK);
    assert_int_equal(c.n_id, 3);
    corpus_close(&c);
    o.progress = go_on;
    assert_int_equal(corpus_open(&c, none, 2, &o, &h, &err), WEFT_EIO);
    assert_non_null(strstr(err.message, "missing"));
    o.kind = DATA_BY_NAME;
    assert_int_equal(corpus_open(&c, &text, 1, &o, &h, &err), WEFT_EINVAL);
    assert_non_null(strstr(err.message, "text needs a tokenizer"));
    assert_int_equal(h.mem.used, 0);
}

/* Ids of two and of four bytes can be trained on together; saved together they have four. */
static void two_widths(void **state)
{
    (void)state;
    static const uint16_t narrow[] = { 40, 41, 42 };
    static const uint32_t wide[] = { 50, 70000, 52 };
    static const document all = { 3, 0 };
    const shard of = {
        .ids = wide, .width = 4, .n_id = 3, .n_document = 1, .document = &all, .n_vocab = 80000
    };
    const shard *const parts[] = { &of };
    const char *const path[] = { temp_path("wide.ids"), temp_path("narrow.ids") };
    weft_error err = { 0 };
    corpus c;
    host h;
    host_plain(&h);
    shard small = of;
    small.ids = narrow;
    small.width = 2;
    small.n_vocab = 60;
    const shard *const small_parts[] = { &small };
    assert_int_equal(shard_save(parts, 1, 80000, path[0], &h, &err), WEFT_OK);
    assert_int_equal(shard_save(small_parts, 1, 60, path[1], &h, &err), WEFT_OK);
    const corpus_options o = { .eos = EOS, .n_thread = 1, .n_vocab = 80000 };
    if (corpus_open(&c, path, 2, &o, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(c.n_id, 6);
    const char *both = temp_path("both.ids");
    assert_int_equal(corpus_save(&c, both, &err), WEFT_OK);
    corpus again;
    assert_int_equal(corpus_open(&again, &both, 1, &o, &h, &err), WEFT_OK);
    static const uint32_t all_ids[] = { 50, 70000, 52, 40, 41, 42 };
    assert_int_equal(again.n_id, 6);
    for (uint64_t i = 0; i < 6; i++)
        assert_int_equal(shard_id(&again.source[0].shard, i), all_ids[i]);
    assert_false(again.source[0].shard.marked);
    corpus_close(&again);
    h.mem.cap = h.mem.used; /* nothing more is given */
    assert_int_equal(corpus_save(&c, temp_path("both.ids"), &err), WEFT_ELIMIT);
    corpus_close(&c);
    assert_int_equal(h.mem.used, 0);
}

/* ---- threads, faults, stopping --------------------------------------------------------------- */

/* More documents than one round takes, on one to four threads: the same bytes. */
static void threads_change_nothing(void **state)
{
    (void)state;
    const int n_document = 70000; /* a round has fewer */
    char *text = malloc((size_t)n_document * 64);
    size_t n = 0, size[2];
    for (int i = 0; i < n_document; i++)
        n += (size_t)sprintf(text + n, "{\"prompt\": \"%d ab\", \"completion\": \"%.*s\"}\n", i,
                             i % 19, "abcabcabcabcabcabcab");
    char *one = NULL;
    for (int threads = 1; threads <= 4; threads++) {
        lesson l;
        data_options o = plain;
        o.corpus.n_thread = threads;
        if (try_text(&l, "a.jsonl", text, n, o) != WEFT_OK)
            fail_msg("%s", l.err.message);
        assert_true(l.data.corpus.n_source > 1);
        assert_int_equal(l.data.corpus.n_document, n_document);
        const char *path = temp_path("a.ids");
        assert_int_equal(corpus_save(&l.data.corpus, path, &l.err), WEFT_OK);
        char *stored_ids = read_whole(path, &size[threads > 1]);
        if (threads > 1) {
            assert_int_equal(size[0], size[1]);
            assert_memory_equal(one, stored_ids, size[0]);
            free(stored_ids);
        } else {
            one = stored_ids;
        }
        lesson_close(&l);
    }
    free(one);
    free(text);
}

static weft_status life(const char *const *path, int n, data_options o, host *h, weft_error *err)
{
    dataset d;
    batch b;
    *err = (weft_error){ 0 };
    weft_status status = data_open(&d, path, n, &o, h, err);
    if (status != WEFT_OK)
        return status;
    status = data_room(&b, &d, 2, err);
    if (status == WEFT_OK)
        status = data_fill(&b, &d.train, 1, 0, 2, err);
    data_room_free(&b, &d);
    data_close(&d);
    return status;
}

/* Each allocation and each file call fails in turn: an error that says so, and nothing is left. */
static void every_fault(void **state)
{
    (void)state;
    lesson l;
    lesson_open(&l, "b.jsonl", "{\"text\": \"some ids\"}\n{\"text\": \"more of them\"}", plain);
    assert_int_equal(corpus_save(&l.data.corpus, temp_path("c.ids"), &l.err), WEFT_OK);
    const char *const path[] = { temp_file("a.txt", "text, and more text", 19),
                                 temp_path("b.jsonl"), temp_path("c.ids") };
    data_options o = plain;
    o.corpus.tokenizer = &l.tokenizer;
    o.corpus.separator = ",";
    int64_t points = 0, survived = 0;
    for (int load = WEFT_LOAD_COPY; load <= WEFT_LOAD_MAP; load++)
        for (int kind = 0; kind < 4; kind++) /* memory or files, once or permanently */
            for (int64_t k = 1;; k++) {
                host h;
                faults memory = { 0 }, io = { 0 }, *chosen = kind & 1 ? &io : &memory;
                weft_error err;
                *chosen = (faults){ .fail_at = k, .sticky = kind & 2 };
                host_faulty(&h, &memory, &io);
                o.corpus.load = (weft_load)load;
                const weft_status status = life(path, 3, o, &h, &err);
                const weft_status want = kind & 1 ? WEFT_EIO : WEFT_ENOMEM;
                if (memory.live || io.live || h.mem.used)
                    fail_msg("call %lld failed: %lld blocks and %lld files are left", (long long)k,
                             (long long)memory.live, (long long)io.live);
                if (chosen->calls < k)
                    break;
                if (status != WEFT_OK && (status != want || !err.message[0]))
                    fail_msg("call %lld failed: got %d \"%s\"", (long long)k, (int)status,
                             err.message);
                points++;
                survived += status == WEFT_OK;
            }
    print_message("%lld fault points, %lld survived\n", (long long)points, (long long)survived);
    assert_true(points > 50 && survived < points / 4);
    lesson_close(&l);
}

static void the_cap(void **state)
{
    (void)state;
    lesson l;
    lesson_open(&l, "a.txt", alphabet, plain);
    const char *path = temp_path("a.txt");
    data_options o = plain;
    o.corpus.tokenizer = &l.tokenizer;
    host h;
    weft_error err;
    host_plain(&h);
    assert_int_equal(life(&path, 1, o, &h, &err), WEFT_OK);
    const size_t peak = atomic_load(&h.mem.peak);
    for (size_t cap = 64; cap < peak; cap += peak / 50) {
        mem_init(&h.mem, cap, NULL);
        assert_true(life(&path, 1, o, &h, &err) != WEFT_OK);
        assert_int_equal(err.code, WEFT_ELIMIT);
        assert_true(h.mem.used == 0 && h.mem.peak <= cap);
    }
    lesson_close(&l);
}

static bool stop(void *ud, uint64_t done, uint64_t total)
{
    *(uint64_t *)ud = total;
    return done == 0;
}

static void stopping(void **state)
{
    (void)state;
    lesson l;
    uint64_t total = 0;
    data_options o = plain;
    o.corpus.progress = stop;
    o.corpus.progress_ud = &total;
    assert_int_equal(try_text(&l, "a.txt", alphabet, strlen(alphabet), o), WEFT_ESTOPPED);
    assert_int_equal(total, strlen(alphabet));
}

/* gzip -9n of "text, and more text", and of two lines of JSONL. */
static const uint8_t packed_text[] = { 0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03,
                                       0x2b, 0x49, 0xad, 0x28, 0xd1, 0x51, 0x48, 0xcc, 0x4b, 0x51,
                                       0xc8, 0xcd, 0x2f, 0x4a, 0x55, 0x28, 0x01, 0x72, 0x01, 0xaa,
                                       0xdb, 0x49, 0x20, 0x13, 0x00, 0x00, 0x00 };
static const uint8_t packed_lines[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xab, 0x56, 0x2a, 0x49, 0xad,
    0x28, 0x51, 0xb2, 0x52, 0x50, 0x4a, 0x4c, 0x52, 0xaa, 0xe5, 0xaa, 0x56, 0x2a, 0x28, 0xca,
    0xcf, 0x2d, 0x80, 0x08, 0x28, 0xe9, 0x28, 0x28, 0x25, 0x03, 0x79, 0x39, 0xa9, 0x25, 0x99,
    0xf9, 0x79, 0x20, 0x21, 0x90, 0x12, 0x00, 0xf8, 0x25, 0x92, 0x3e, 0x32, 0x00, 0x00, 0x00
};

typedef struct told {
    uint64_t done, total;
} told;

static bool note_told(void *ud, uint64_t done, uint64_t total)
{
    *(told *)ud = (told){ done, total };
    return done <= total;
}

/* The same ids; progress counts unpacked bytes; the kind follows from the name without .gz. */
static void packed_data(void **state)
{
    (void)state;
    lesson a, b;
    told t = { 0 };
    data_options o = plain;
    if (!strstr(weft_build_parts(), " gzip")) {
        const char *text = (const char *)packed_text;
        assert_int_equal(try_text(&b, "a.gz", text, sizeof packed_text, o), WEFT_EUNSUPPORTED);
        assert_non_null(strstr(b.err.message, "built without zlib; expected an uncompressed file"));
        return;
    }
    o.corpus.progress = note_told;
    o.corpus.progress_ud = &t;
    lesson_open(&a, "a.txt", "text, and more text", o);
    const char *const two[] = { temp_file("b.txt.gz", packed_text, sizeof packed_text),
                                temp_file("c.txt", "text, and more text", 19) };
    assert_int_equal(try_paths(&b, two, 2, o), WEFT_OK);
    assert_true(t.done == 38 && t.total == 38);
    assert_true(a.data.corpus.n_id == 20 && b.data.corpus.n_id == 40);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(b.data.corpus.source[i].ids, a.data.corpus.source[0].ids, 40);
    lesson_close(&a);
    lesson_close(&b);

    assert_int_equal(try_text(&b, "d.jsonl.gz", (const char *)packed_lines, sizeof packed_lines, o),
                     WEFT_OK);
    assert_true(b.data.corpus.n_document == 2 && b.data.corpus.n_prompt == 1);
    lesson_close(&b);
    assert_int_equal(try_text(&b, "e.txt", (const char *)packed_text, sizeof packed_text - 1, o),
                     WEFT_EFORMAT);
    assert_non_null(strstr(b.err.message, "e.txt: truncated gzip data; expected the whole file"));
}

/* Their first id may equal gzip's magic number. */
static void raw_is_not_packed(void **state)
{
    (void)state;
    static const uint16_t like_gzip[] = { 0x8B1F, 8, 7 };
    const char *const path = temp_file("g.bin", like_gzip, sizeof like_gzip);
    corpus_options o = { .eos = EOS, .n_thread = 1, .kind = DATA_RAW16, .n_vocab = 65536 };
    weft_error err = { 0 };
    corpus c;
    host h;
    host_plain(&h);
    assert_int_equal(corpus_open(&c, &path, 1, &o, &h, &err), WEFT_OK);
    assert_int_equal(c.n_id, 3);
    corpus_close(&c);

    assert_int_equal(kind_by_name("a.tsv.gz"), DATA_TSV);
    assert_int_equal(kind_by_name("a.csv.zst"), DATA_CSV);
    assert_int_equal(kind_by_name("a.jsonl.zstd"), DATA_JSONL);
    assert_int_equal(kind_by_name(".gz"), DATA_TEXT);
}

static void wrong_options(void **state)
{
    (void)state;
    lesson l;
    data_options o = plain;
    o.n_ctx = 0;
    assert_int_equal(try_text(&l, "a.txt", "text", 4, o), WEFT_EINVAL);
    assert_string_equal(l.err.message, "sequences of 0 tokens");
    o.n_ctx = INT32_MAX / 2 + 1;
    assert_int_equal(try_text(&l, "a.txt", "text", 4, o), WEFT_EINVAL);
    assert_string_equal(l.err.message, "sequences of 1073741824 tokens");
    o.n_ctx = INT32_MAX / 2;
    lesson_open(&l, "a.txt", "text", o);
    lesson_close(&l);
    o = plain;
    o.validation = 1;
    assert_int_equal(try_text(&l, "a.txt", "text", 4, o), WEFT_EINVAL);
    o.validation = 0.5;
    assert_int_equal(try_text(&l, "a.txt", "x", 1, o), WEFT_EINVAL);
    o = plain;
    o.style = DATA_WINDOWS;
    static const char prompt[] = "{\"prompt\": \"a\", \"completion\": \"b\"}";
    assert_int_equal(try_text(&l, "a.jsonl", prompt, strlen(prompt), o), WEFT_EINVAL);
    o = plain;
    o.corpus.n_vocab = 50;
    assert_int_equal(try_text(&l, "a.txt", "text", 4, o), WEFT_EINVAL);
    assert_non_null(strstr(l.err.message, "the text has id 116; the vocabulary has 50"));
    const char *path = "/nonexistent";
    assert_int_equal(try_paths(&l, &path, 1, plain), WEFT_EIO);
}

/* ---- what models make of it ------------------------------------------------------------------ */

static const char *small_model(void)
{
    static const llama_shape shape = { .n_layer = 2,
                                       .d_model = 32,
                                       .n_head = 4,
                                       .n_head_kv = 2,
                                       .d_ff = 64,
                                       .n_vocab = N_VOCAB,
                                       .n_ctx = 64,
                                       .type = &dtype_f32 };
    const bytes b = gguf_llama(&shape);
    const char *path = temp_file("model.gguf", b.at, b.n);
    free(b.at);
    return path;
}

static real loss_of(const batch *b, const batch *largest)
{
    host h;
    model m;
    learner k;
    weft_error err = { 0 };
    host_plain(&h);
    const learner_options o = { .n_thread = 1, .adamw = { 0.9, 0.95, 1e-8, 0, 0 } };
    if (model_open(&m, small_model(), WEFT_LOAD_COPY, &h, &err) != WEFT_OK ||
        learner_init(&k, &m, &o, largest, &err) != WEFT_OK || learner_begin(&k, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    const real loss = learner_backward(&k, b);
    learner_free(&k);
    model_close(&m);
    return loss;
}

/* In a packed sample with targets only in sequence s, the loss equals that of the sequence alone,
 * to the bit. As one sequence, which packing must not be, it differs. */
static void none_sees_another(void **state)
{
    (void)state;
    lesson l;
    batch b, alone, largest;
    data_options o = plain;
    o.n_ctx = 24;
    o.corpus.separator = ",";
    lesson_open(&l, "a.txt", "#$%&!,!\"#$%&,\"\"!!,%&#,&&&&", o);
    assert_int_equal(data_room(&b, &l.data, 1, &l.err), WEFT_OK);
    assert_int_equal(data_room(&alone, &l.data, 1, &l.err), WEFT_OK);
    assert_int_equal(data_room(&largest, &l.data, 1, &l.err), WEFT_OK);
    assert_int_equal(data_fill(&b, &l.data.train, 0, 0, 1, &l.err), WEFT_OK);
    assert_true(b.n_seq > 3);
    for (int32_t s = 0; s < b.n_seq; s++) {
        batch_row *row = b.row + b.seq[s].first;
        alone = (batch){ .row = alone.row, .seq = alone.seq, .n_row = b.seq[s].n, .n_seq = 1 };
        alone.seq[0] = (sequence){ .n = b.seq[s].n, .source = -1 };
        for (int32_t r = 0; r < alone.n_row; r++) {
            alone.row[r] = row[r];
            alone.row[r].seq = 0;
            alone.row[r].wanted = true;
        }
        alone.n_wanted = alone.n_row;
        b.n_wanted = alone.n_row;
        for (int32_t r = 0; r < b.n_row; r++)
            b.row[r].wanted = b.row[r].seq == s;
        const real packed = loss_of(&b, &largest), one = loss_of(&alone, &largest);
        if (memcmp(&packed, &one, sizeof one) != 0)
            fail_msg("sequence %d has a loss of %.9g, alone %.9g", s, (double)packed, (double)one);
        if (s == 0)
            continue;
        alone.n_row = 0;
        for (int32_t r = 0; r < b.n_row; r++) {
            alone.row[alone.n_row] = b.row[r];
            alone.row[alone.n_row].seq = 0;
            alone.row[alone.n_row].pos = alone.n_row;
            alone.n_row++;
        }
        alone.seq[0].n = alone.n_row;
        const real mixed = loss_of(&alone, &largest);
        assert_true(memcmp(&mixed, &one, sizeof one) != 0);
    }
    data_room_free(&b, &l.data);
    data_room_free(&alone, &l.data);
    data_room_free(&largest, &l.data);
    lesson_close(&l);
}

typedef struct shown {
    char text[1024];
    size_t n;
} shown;

static void show(void *ud, const data_token *t)
{
    shown *s = ud;
    s->n += (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, "%s%.*s%s%s",
                             t->target ? "[" : "", (int)t->length, t->text, t->target ? "]" : "",
                             t->special ? "*" : "");
}

static void eyes(void **state)
{
    (void)state;
    lesson l;
    batch b;
    shown s = { 0 };
    data_options o = plain;
    o.n_ctx = 12;
    lesson_open(&l, "a.jsonl",
                "{\"prompt\": \"Q\\n\", \"completion\": \"ab\xC3\xA9\"}\n{\"text\": \"xy\"}", o);
    assert_int_equal(data_room(&b, &l.data, 1, &l.err), WEFT_OK);
    assert_int_equal(data_fill(&b, &l.data.train, 0, 0, 1, &l.err), WEFT_OK);
    assert_int_equal(data_show(&b, &l.data, &l.tokenizer, show, &s, &l.err), WEFT_OK);
    assert_string_equal(s.text, "Q\n[ab][\xC3\xA9][<eos>]*x[y][<eos>]*");
    data_room_free(&b, &l.data);
    lesson_close(&l);
}

/* ---- masks ----------------------------------------------------------------------------------- */

#define MASK '~' /* no letter of the texts */

static data_options masked(int64_t n_ctx)
{
    data_options o = plain;
    o.n_ctx = n_ctx;
    o.mask_id = MASK;
    return o;
}

/* Letters without "ab", and an end in every line where there are documents. */
static char *letters(size_t n)
{
    char *text = malloc(n + 1);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)('c' + rng_draw(5, 5, i).word[0] % 20);
    text[n] = '\0';
    return text;
}

/* 15 % of all rows are targets; of those 80 % are the mask, 10 % any token, 10 % unchanged. The
 * other rows are unchanged. */
static void masks_by_chance(void **state)
{
    (void)state;
    enum { N = 40000, T = 40 };
    lesson l;
    batch b;
    char *text = letters(N);
    lesson_open(&l, "masks.txt", text, masked(T));
    assert_int_equal(data_room(&b, &l.data, 4, &l.err), WEFT_OK);
    assert_int_equal(l.data.train.n_in_order, (N + T) / T); /* with the end */
    int64_t n_row = 0, n_chosen = 0, n_masked = 0, n_same = 0, n_end = 0;
    for (int64_t i = 0; i + 4 <= l.data.train.n_in_order; i += 4) {
        assert_int_equal(data_fill_in_order(&b, &l.data.train, i, 4, &l.err), WEFT_OK);
        int32_t wanted = 0;
        for (int32_t k = 0; k < b.n_row; k++, n_row++) {
            const batch_row *r = &b.row[k];
            const int32_t was = n_row < N ? text[n_row] : EOS;
            assert_int_equal(r->wanted, r->target != NO_TARGET);
            assert_int_equal(r->wanted ? r->target : r->id, was);
            n_end += r->wanted && was == EOS;
            n_chosen += r->wanted;
            wanted += r->wanted;
            n_masked += r->wanted && r->id == MASK;
            n_same += r->wanted && r->id == was;
        }
        assert_int_equal(b.n_wanted, wanted);
    }
    const double all = (double)n_chosen;
    print_message("masks: %.2f %% of rows; of them %.1f %% masks, %.1f %% as they were\n",
                  100 * all / (double)n_row, 100 * (double)n_masked / all,
                  100 * (double)n_same / all);
    assert_true(fabs(all / (double)n_row - 0.15) < 0.006);
    assert_true(fabs((double)n_masked / all - 0.8) < 0.02);
    assert_true(fabs((double)n_same / all - 0.1) < 0.015);
    assert_int_equal(n_end, 0);
    data_room_free(&b, &l.data);
    lesson_close(&l);
    free(text);
}

/* Masks are a function of the seed and the sample's number, not of its neighbours. */
static void masks_are_a_function(void **state)
{
    (void)state;
    lesson l;
    batch one, four;
    char *text = letters(3000);
    lesson_open(&l, "masks.txt", text, masked(37));
    assert_int_equal(data_room(&one, &l.data, 1, &l.err), WEFT_OK);
    assert_int_equal(data_room(&four, &l.data, 4, &l.err), WEFT_OK);
    assert_int_equal(data_fill(&four, &l.data.train, 7, 90, 4, &l.err), WEFT_OK);
    assert_int_equal(data_targets(&l.data.train, 7, 90, 4), four.n_wanted);
    int differ = 0;
    for (int i = 0, at = 0; i < 4; i++) {
        assert_int_equal(data_fill(&one, &l.data.train, 7, 90 + i, 1, &l.err), WEFT_OK);
        assert_int_equal(data_targets(&l.data.train, 7, 90 + i, 1), one.n_wanted);
        for (int k = 0; k < one.n_row; k++, at++) {
            assert_int_equal(one.row[k].id, four.row[at].id);
            assert_int_equal(one.row[k].target, four.row[at].target);
        }
    }
    assert_int_equal(data_fill(&one, &l.data.train, 8, 93, 1, &l.err), WEFT_OK);
    for (int k = 0; k < one.n_row; k++)
        differ += one.row[k].wanted != four.row[3 * 37 + k].wanted;
    assert_true(differ > 0);
    data_room_free(&one, &l.data);
    data_room_free(&four, &l.data);
    lesson_close(&l);
    free(text);
}

/* Every id of every document is a row, its last one too. */
static void masks_lose_nothing(void **state)
{
    (void)state;
    lesson l;
    batch b;
    lesson_open(&l, "masks.jsonl",
                "{\"text\": \"cdefghijk\"}\n{\"text\": \"c\"}\n{\"text\": \"lmnop\"}", masked(4));
    assert_int_equal(l.data.train.counts.n_row, 9 + 1 + 5 + 3);
    assert_int_equal(data_room(&b, &l.data, 1, &l.err), WEFT_OK);
    int64_t n_row = 0;
    for (int64_t i = 0; i < l.data.train.n_in_order; i++) {
        assert_int_equal(data_fill_in_order(&b, &l.data.train, i, 1, &l.err), WEFT_OK);
        assert_true(b.n_row <= 4);
        for (int32_t s = 0; s < b.n_seq; s++)
            assert_int_equal(b.row[b.seq[s].first].pos, 0);
        n_row += b.n_row;
    }
    assert_int_equal(n_row, 18);
    data_room_free(&b, &l.data);
    lesson_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("order: a permutation of every size", every_size),
        TEST("order: large sizes", large_sizes),
        TEST("order: keys and neighbours differ", orders_differ),
        TEST("windows: every position once per epoch, the next id is the target", windows),
        TEST("windows: in order every target occurs once", in_order),
        TEST("windows: tinyshakespeare is split as nanoGPT splits it", tinyshakespeare),
        TEST("samples: a pure function of seed and number", a_pure_function),
        TEST("documents: separators", separators),
        TEST("documents: empty ones are counted", empty_documents),
        TEST("documents: long ones continue in the next sample", cutting),
        TEST("documents: samples are full", packing),
        TEST("documents: the split is by documents", the_split),
        TEST("prompts: only the completion has a loss", prompts),
        TEST("prompts: those that do not fit are counted", truncated_prompts),
        TEST("prompts: a token across the border is counted", straddling_token_is_counted),
        TEST("pairs: both parts are separate texts", parallel_text),
        TEST("pairs: invalid pairs are reported", wrong_pairs),
        TEST("pairs: truncated files", cut_off_pairs),
        TEST("preferences: both answers are in one sample", preferred_pairs),
        TEST("preferences: the split is by pairs", split_preferences),
        TEST("preferences: only pairs, only for decoders", wrong_preferences),
        TEST("jsonl: lines of all kinds", jsonl_lines),
        TEST("jsonl: wrong lines are reported", jsonl_errors),
        TEST("jsonl: depth is limited", jsonl_depth),
        TEST("text: bytes that are not text are reported", not_utf8),
        TEST("ids: saved ids give the same samples", saved_ids),
        TEST("ids: raw files are one stream", raw_ids),
        TEST("data: ids need no tokenizer, text does", without_a_tokenizer),
        TEST("data: ids of two widths are saved as the wider", two_widths),
        TEST("threads: the result does not depend on them", threads_change_nothing),
        TEST("faults: each is an error and leaves nothing", every_fault),
        TEST("memory: the cap is kept", the_cap),
        TEST("progress: the callback can stop it", stopping),
        TEST("compressed: a file gives the ids of its text", packed_data),
        TEST("compressed: raw ids are never unpacked; names give kinds", raw_is_not_packed),
        TEST("options: errors name what is wrong", wrong_options),
        TEST("packing: no document sees another", none_sees_another),
        TEST("show: targets are marked", eyes),
        TEST("masks: 15 of 100 tokens, and 80, 10, 10 of those; never special ones",
             masks_by_chance),
        TEST("masks: a function of seed and sample only", masks_are_a_function),
        TEST("masks: every token of a document is read", masks_lose_nothing),
    };
    return RUN(tests);
}
