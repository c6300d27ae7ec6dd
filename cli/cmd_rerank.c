/* weft rerank - documents by how well they answer a query.
 *
 * A model that scores pairs (a cross-encoder: a head with one output) reads the query with each
 * document. Any other one that makes vectors reads them apart, and the score is the cosine. With
 * --yes-no, a model that generates text is asked (judge.h). */
#include "json.h"
#include "judge.h"

#include <stdlib.h>
#include <string.h>

static const char *positional[MAX_LIST]; /* MODEL, QUERY, DOCUMENT ... */
static load_options load;
static text_options lines = { .normalize = true };
static int64_t top;
static bool json, yes_no;
static const char *task = JUDGE_TASK;

static const option options[] = {
    OPTION_MODEL(load),
    { 'f', "file", OPT_TEXT, &lines.file, "FILE", 0, "read one document per line from FILE" },
    { 'k', "top", OPT_INT, &top, "N", 0, "show the N best documents (0: all)" },
    { 0, "yes-no", OPT_FLAG, &yes_no, NULL, 0,
      "ask a generative reranker (Qwen3-Reranker) for yes or no" },
    { 0, "instruct", OPT_TEXT, &task, "TEXT", RARE, "with --yes-no: what a good document does" },
    OPTION_TRUNCATE(lines),
    OPTION_TOKENIZER(load),
    OPTION_LORA(lines.lora),
    OPTION_POOLING(lines),
    OPTION_THREADS(lines.threads),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_NO_PACK(load.no_pack),
    OPTION_COMPUTE(load),
    OPTION_JSON(json, "print one JSON object per document"),
    { 0 },
};

static const char examples[] =
    "  weft rerank ms-marco-MiniLM-L-6-v2 \"how do plants eat?\" -f passages.txt --top 3\n"
    "  weft rerank all-MiniLM-L6-v2 \"a hot drink\" \"a cup of tea\" \"a red car\"\n";

static const char about[] =
    "Prints one line per document, best first: score, number, text. A reranker\n"
    "(cross-encoder) scores each pair of query and document; with an embedding model the\n"
    "score is the cosine similarity; with --yes-no it is the probability of \"yes\".\n";

typedef struct ranking {
    texts t;
    double *score; /* of line i; of line 0 too, where that is the query */
    bool *failed;
    float *query; /* its vector; NULL: the model scores pairs */
    int64_t width, first;
} ranking;

static double cosine(const ranking *r, const float *x)
{
    double sum = 0;
    for (int64_t k = 0; k < r->width; k++)
        sum += (double)r->query[k] * (double)x[k];
    return sum;
}

static int take(void *ud, int64_t i, const weft_tokens *tokens, const weft_input *in)
{
    ranking *r = ud;
    (void)tokens;
    r->failed[i] = !in;
    if (!in && i < r->first)
        fputs("weft: the query cannot be read, so nothing was ranked\n", stderr);
    if (!in)
        return i < r->first;
    if (i < r->first)
        memcpy(r->query, in->out, (size_t)r->width * sizeof *r->query);
    r->score[i] = r->query ? cosine(r, in->out) : (double)in->out[0];
    return 0;
}

static const ranking *sorted; /* by whose scores */

static int better(const void *a, const void *b)
{
    const int64_t i = *(const int64_t *)a, k = *(const int64_t *)b;
    const double x = sorted->score[i], y = sorted->score[k];
    return x > y ? -1 : x < y ? 1 : i < k ? -1 : 1; /* the earlier of equals */
}

static void print_document(const ranking *r, int64_t i)
{
    const text_line *l = &r->t.line[i];
    const char *tab = r->query ? NULL : memchr(l->at, '\t', l->n);
    const char *text = tab ? tab + 1 : l->at;
    const size_t n = l->n - (size_t)(text - l->at);
    if (json) {
        cli_json_object(NULL);
        cli_json_int("index", i - r->first);
        cli_json_real("score", r->score[i], 9);
        cli_json_text("document", text, n);
        cli_json_end();
        return;
    }
    printf("%.6f\t%lld\t%.*s\n", r->score[i], (long long)(i - r->first) + 1, (int)n, text);
}

static int print_ranking(const ranking *r)
{
    int64_t *order = cli_alloc((size_t)r->t.n + 1, sizeof *order, "documents"), n = 0;
    if (!order)
        return cli_no_memory();
    for (int64_t i = r->first; i < r->t.n; i++)
        if (!r->failed[i])
            order[n++] = i;
    sorted = r;
    qsort(order, (size_t)n, sizeof *order, better);
    for (int64_t i = 0; i < n && (top == 0 || i < top); i++)
        print_document(r, order[i]);
    cli_free(order);
    return 0;
}

/* ---- what is read
 * -------------------------------------------------------------------------------- */

/* A document is a line: of a pair its end would be the text's. */
static void add_line(char **to, const char *query, const char *document, size_t n)
{
    if (query)
        *to += sprintf(*to, "%s\t", query);
    memcpy(*to, document, n);
    for (char *s = *to; s < *to + n; s++)
        *s = *s == '\n' || *s == '\t' ? ' ' : *s;
    *to += n;
    *(*to)++ = '\n';
}

/* The documents as lines: query, tab, document if the model scores pairs; otherwise the query comes
 * first, on its own line. */
static char *make_lines(const char *query, const char *file, size_t n_file, bool pairs)
{
    const size_t q = strlen(query) + 1;
    size_t room = q + 2 + n_file + 2, count = 1;
    for (size_t i = 0; i < n_file; i++)
        count += file[i] == '\n';
    for (int i = 2; i < MAX_LIST && positional[i]; i++, count++)
        room += strlen(positional[i]) + 2;
    char *text = cli_alloc(room + (pairs ? count * (q + 1) : 0), 1, "documents"), *to = text;
    if (!text)
        return NULL;
    if (!pairs)
        add_line(&to, NULL, query, q - 1);
    for (int i = 2; i < MAX_LIST && positional[i]; i++)
        add_line(&to, pairs ? query : NULL, positional[i], strlen(positional[i]));
    for (size_t at = 0; at < n_file;) {
        const char *end = memchr(file + at, '\n', n_file - at);
        const size_t n = end ? (size_t)(end - file) - at : n_file - at;
        const bool cr = n > 0 && file[at + n - 1] == '\r';
        add_line(&to, pairs ? query : NULL, file + at, n - cr);
        at += n + 1;
    }
    *to = '\0';
    return text;
}

/* Does the model score pairs? */
static int look_at(bool *pairs)
{
    weft_error err = { 0 };
    weft_model_info info = { .struct_size = sizeof info };
    weft_model *m = cli_open(&load, &err);
    if (!m)
        return cli_fail(&err);
    weft_model_get_info(m, &info);
    const bool judges = judge_has_rows(m, &info);
    weft_model_close(m);
    yes_no = yes_no || judges;
    *pairs = info.task == WEFT_TASK_CLASSIFY && !info.images && !judges;
    if (*pairs && info.n_out != 1)
        return cli_usage(&command_rerank,
                         "%s has %lld labels; expected one output, as rerankers have", load.path,
                         (long long)info.n_out);
    return 0;
}

/* Scores every line, in one way or another. */
static int score_lines(ranking *r, const text_options *o)
{
    int threads;
    if (!yes_no)
        return texts_each(&r->t, o, NULL, take, r);
    const int code = cli_threads(&command_rerank, lines.threads, &threads);
    return code ? code : judge_lines(&r->t, task, threads, r->score, r->failed);
}

static int rank(char *text, bool pairs)
{
    ranking r = { .first = !pairs };
    text_options o = lines;
    o.file = NULL;
    o.pairs = pairs;
    o.normalize = true;
    int code = texts_open_lines(&r.t, &command_rerank, &load, &o, text,
                                pairs ? WEFT_OUTPUT_HEAD : WEFT_OUTPUT_POOLED);
    r.t.n_before = r.first;
    if (!code) {
        r.width = weft_encoder_width(r.t.encoder);
        r.score = cli_zalloc((size_t)r.t.n + 1, sizeof *r.score, "scores");
        r.failed = cli_zalloc((size_t)r.t.n + 1, sizeof *r.failed, "scores");
        r.query = pairs ? NULL : cli_zalloc((size_t)r.width, sizeof *r.query, "a vector");
        code = r.score && r.failed && (pairs || r.query) ? 0 : cli_no_memory();
    }
    if (!code)
        code = score_lines(&r, &o);
    if (r.score && r.failed && (!code || (r.t.n_failed && !r.failed[0]))) {
        const int printed = print_ranking(&r);
        code = code ? code : printed;
    }
    cli_free(r.score);
    cli_free(r.failed);
    cli_free(r.query);
    texts_close(&r.t);
    return code;
}

static int rerank_main(void)
{
    const command *c = &command_rerank;
    const bool piped = !lines.file && !positional[2] && cli_is_piped();
    char *file = NULL;
    size_t n = 0;
    bool pairs = false;
    load.path = positional[0] ? positional[0] : load.path;
    if (!load.path)
        return cli_which_model(c);
    if (!positional[1])
        return cli_usage(c, "no query; give it after the model");
    if (!positional[2] && !lines.file && !piped)
        return cli_usage(c, "no documents; give them after the query, or -f FILE");
    if (top < 0)
        return cli_usage(c, "--top: %lld is less than 0", (long long)top);
    cli_catch_interrupt();
    int code = look_at(&pairs);
    if (!code && yes_no && lines.lora)
        code = cli_usage(c, "--yes-no and --lora do not go together");
    if (!code && yes_no && lines.truncate)
        code = cli_usage(c, "--yes-no and --truncate do not go together");
    if (!code && !yes_no && strcmp(task, JUDGE_TASK) != 0)
        code = cli_usage(c, "--instruct needs --yes-no");
    if (!code && (lines.file || piped))
        code = cli_read(piped ? "-" : lines.file, CLI_MAX_TEXT, &file, &n);
    if (!code && n == 0 && (lines.file || piped))
        code = cli_usage(c, "%s: empty; expected one document per line",
                         piped ? "standard input" : lines.file);
    char *text = code ? NULL : make_lines(positional[1], file, n, pairs);
    if (!code)
        code = text ? rank(text, pairs) : cli_no_memory();
    cli_free(file);
    return code;
}

const command command_rerank = {
    .name = "rerank",
    .arguments = "MODEL QUERY [DOCUMENT...]",
    .summary = "sort documents by relevance to a query",
    .examples = examples,
    .about = about,
    .options = options,
    .n_positional = MAX_LIST,
    .positional = positional,
    .main = rerank_main,
};
