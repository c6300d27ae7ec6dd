/* weft eval - perplexity of a model, and KL divergence from another one. */
#include "eval_wholes.h"
#include "json.h"
#include "lora.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *positional[1 + MAX_LIST]; /* MODEL, FILE... */
static load_options load;
static shape_options shape;
static text_list files;
static const char *against, *pre, *lora;
static int64_t stride;
static bool json, lines, paragraphs, ids, parse_special;

static const option options[] = {
    OPTION_MODEL(load),
    { 'f', "file", OPT_LIST, &files, "FILE", 0,
      "the text; may be repeated; - is standard input (-)" },
    { 0, "against", OPT_TEXT, &against, "PATH", 0, "compare with this model, token by token" },
    { 0, "lines", OPT_FLAG, &lines, NULL, 0, "each line is a document" },
    { 0, "paragraphs", OPT_FLAG, &paragraphs, NULL, 0, "documents are separated by empty lines" },
    { 0, "ids", OPT_FLAG, &ids, NULL, 0, "each line is a document as token ids: 1,403,407" },
    { 0, "stride", OPT_INT, &stride, "N", 0, "stride of the sliding window (half the context)" },
    OPTION_CTX_SIZE(shape),
    OPTION_BATCH_SIZE(shape),
    OPTION_THREADS(shape.threads),
    OPTION_KV_TYPE_OR(shape, "f32"),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_NO_PACK(load.no_pack),
    OPTION_COMPUTE(load),
    OPTION_LORA(lora),
    OPTION_TOKENIZER(load),
    OPTION_PRE(pre),
    OPTION_PARSE_SPECIAL(parse_special),
    OPTION_JSON(json, "print one JSON object"),
    { 0 },
};

static const char examples[] =
    "  weft eval models/shakespeare.gguf README.md\n"
    "  weft eval model-q4_0.gguf text.txt --against model-f32.gguf\n"
    "  weft eval model.gguf part-1.txt.gz part-2.txt.gz\n"
    "  weft eval model.gguf stories.txt --paragraphs -c 512 --stride 256 --json\n"
    "  weft eval ./opus-mt-en-de pairs.tsv --against opus-f32.gguf\n"
    "  weft eval ./bert-base-uncased lines.txt\n";

static const char about[] =
    "Several files are evaluated together, each a document of its own. Files in gzip or\n"
    "zstd are decompressed.\n"
    "\n"
    "Masked language models read one text per line: each token is masked in turn, and\n"
    "the result is the pseudo-perplexity. Encoder-decoders read lines of source, tab and\n"
    "translation: the result is the perplexity of the translation, end token included.\n"
    "For classifiers, use weft classify.\n";

static int eval_main(void);

const command command_eval = {
    .name = "eval",
    .arguments = "MODEL [FILE...]",
    .summary = "evaluation: perplexity, and KL against another model",
    .examples = examples,
    .about = about,
    .options = options,
    .n_positional = 1 + MAX_LIST,
    .positional = positional,
    .main = eval_main,
};

/* ---- documents ------------------------------------------------------------------------------- */

/* The ids of all documents are concatenated; documents point into them once all have been read. */
typedef struct documents {
    weft_document *at;
    int64_t n, room;
    id_list ids;
    int64_t n_told; /* ids that belong to a document */
} documents;

/* The ids that have come since the last one are a document. */
static bool end_document(void *ud)
{
    documents *d = ud;
    if (d->n == d->room) {
        const int64_t room = d->room ? d->room + d->room / 2 : 64;
        weft_document *longer = cli_grow(d->at, (size_t)room * sizeof *longer, "documents");
        if (!longer)
            return false;
        d->at = longer;
        d->room = room;
    }
    d->at[d->n++] = (weft_document){ NULL, d->ids.n - d->n_told };
    d->n_told = d->ids.n;
    return true;
}

static void point(documents *d)
{
    const int32_t *from = d->ids.at;
    for (int64_t i = 0; i < d->n; from += d->at[i++].n)
        d->at[i].ids = from;
}

static void free_documents(documents *d)
{
    cli_free(d->ids.at);
    cli_free(d->at);
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Where the document that begins at text ends: at the end of its line, before an empty line, or
 * never. */
static size_t document_length(const char *text, size_t n)
{
    const char *end = text;
    if (!lines && !paragraphs)
        return n;
    while ((end = memchr(end, '\n', n - (size_t)(end - text))) != NULL) {
        const char *next = end + 1;
        while (paragraphs && next < text + n && blank(*next) && *next != '\n')
            next++;
        if (!paragraphs || next == text + n || *next == '\n')
            return (size_t)(end - text);
        end++;
    }
    return n;
}

static int add_text(documents *d, const weft_tokenizer *t, const char *text, size_t n)
{
    weft_error err = { 0 };
    const weft_tokenize_options o = { .struct_size = sizeof o, .parse_special = parse_special };
    weft_tokens *k = weft_tokenizer_encode(t, text, n, &o, &err);
    if (!k)
        return cli_fail(&err);
    const bool added = cli_add_ids(&d->ids, k->ids, k->n) && end_document(d);
    weft_tokens_free(k);
    return added ? 0 : cli_no_memory();
}

/* Cuts the text into documents; parts lose the space around them, a whole file does not. */
static int split(documents *d, const weft_tokenizer *t, const char *text, size_t n)
{
    const bool parts = lines || paragraphs;
    int code = 0;
    for (size_t at = 0, length; at < n && !code; at += length + 1) {
        length = document_length(text + at, n - at);
        const char *from = text + at, *to = from + length;
        while (parts && from < to && blank(*from))
            from++;
        while (parts && from < to && blank(to[-1]))
            to--;
        if (from < to)
            code = add_text(d, t, from, (size_t)(to - from));
    }
    return code;
}

/* The tokenizer is opened after the first file, so that errors of the file come first. */
static int read_text(documents *d, const char *path, weft_tokenizer **t)
{
    weft_error err = { 0 };
    char *text = NULL;
    size_t n = 0;
    int code = cli_read(path, CLI_MAX_TEXT, &text, &n);
    if (code)
        return code;
    *t = *t ? *t : cli_tokenizer(&load, pre, &err);
    code = *t ? split(d, *t, text, n) : cli_fail(&err);
    cli_free(text);
    return code;
}

static int read_documents(documents *d)
{
    weft_tokenizer *t = NULL;
    int code = 0;
    for (int i = 0; i < files.n && !code; i++) {
        const int64_t before = d->n;
        code = ids ? cli_read_ids(files.at[i], &d->ids, end_document, d)
                   : read_text(d, files.at[i], &t);
        if (!code && d->n == before)
            code = cli_usage(&command_eval, "%s: no text", files.at[i]);
    }
    weft_tokenizer_free(t);
    point(d);
    return code;
}

/* ---- the result ------------------------------------------------------------------------------ */

static void print_text(const weft_evaluation *e, int64_t n_document)
{
    printf("tokens        %lld in %lld %s\n", (long long)e->n_token, (long long)n_document,
           n_document == 1 ? "document" : "documents");
    printf("NLL           %.6f per token\n", e->nll);
    printf("perplexity    %.4f\n", e->perplexity);
    if (!against)
        return;
    printf("against       NLL %.6f, perplexity %.4f\n", e->against_nll, e->against_perplexity);
    printf("ratio         %.5f (perplexity)\n", e->perplexity / e->against_perplexity);
    printf("divergence    mean %.6f, p99 %.5f, max %.4f\n", e->kl_mean, e->kl_p99, e->kl_max);
    printf("same top      %.2f %%\n", 100 * e->same_top);
}

static void json_against(const weft_evaluation *e)
{
    cli_json_object("against");
    cli_json_real("nll", e->against_nll, 9);
    cli_json_real("perplexity", e->against_perplexity, 9);
    cli_json_real("ratio", e->perplexity / e->against_perplexity, 9);
    cli_json_real("kl_mean", e->kl_mean, 9);
    cli_json_real("kl_p99", e->kl_p99, 9);
    cli_json_real("kl_max", e->kl_max, 9);
    cli_json_real("same_top", e->same_top, 9);
    cli_json_end();
}

static void print_json(const weft_evaluation *e, int64_t n_document)
{
    cli_json_object(NULL);
    cli_json_int("n_document", n_document);
    cli_json_int("n_token", e->n_token);
    cli_json_int("n_total", e->n_total);
    cli_json_bool("stopped", e->stopped);
    cli_json_real("nll", e->nll, 9);
    cli_json_real("perplexity", e->perplexity, 9);
    if (against)
        json_against(e);
    cli_json_end();
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool show(void *ud, const weft_evaluation *so_far)
{
    (void)ud;
    cli_progress_set((uint64_t)so_far->n_token, (uint64_t)so_far->n_total);
    return !cli_interrupted();
}

static int evaluate(const documents *d, weft_model *model, weft_model *other,
                    const weft_engine_options *e)
{
    weft_error err = { 0 };
    weft_evaluation result = { .struct_size = sizeof result };
    lora_choice adapted;
    const int code = lora_open(&command_eval, lora, model, &adapted, NULL);
    if (code)
        return code;
    const weft_evaluate_options o = { .struct_size = sizeof o,
                                      .threads = e->threads,
                                      .n_batch = e->n_batch,
                                      .n_ctx = e->n_ctx,
                                      .kv_type = e->kv_type,
                                      .stride = stride,
                                      .progress = show,
                                      .adapter = adapted.adapter,
                                      .strength = adapted.strength };
    cli_progress_begin("eval", "tokens");
    const weft_status status = weft_evaluate(model, other, d->at, d->n, &o, &result, &err);
    cli_progress_end();
    weft_adapter_close(adapted.adapter);
    if (status != WEFT_OK)
        return cli_fail(&err);
    (json ? print_json : print_text)(&result, d->n);
    if (!result.stopped)
        return 0;
    fprintf(stderr, "weft: stopped after %lld of %lld tokens\n", (long long)result.n_token,
            (long long)result.n_total);
    return cli_stopped();
}

/* Masked language models and encoder-decoders. */
static int evaluate_wholes(const whole_eval *e)
{
    weft_evaluation result = { .struct_size = sizeof result };
    int64_t n_line = 0;
    const bool pairs = e->info.n_layer_src > 0;
    if (!pairs && e->info.task != WEFT_TASK_FILL) {
        fprintf(stderr, "weft: %s: outputs %s, not tokens; use weft %s\n", e->path,
                e->info.task == WEFT_TASK_EMBED ? "vectors" : "labels",
                e->info.task == WEFT_TASK_CLASSIFY ? "classify MODEL --data FILE"
                                                   : "verify A B to compare two models");
        return 1;
    }
    if (lines + paragraphs + ids || stride || lora)
        return cli_usage(
            &command_eval,
            "%s: each line is a %s; --lines, --paragraphs, --ids, --stride and --lora are for "
            "decoders",
            e->path, pairs ? "pair" : "text");
    cli_progress_begin("eval", NULL);
    const int code = (pairs ? eval_pairs : eval_masks)(e, &result, &n_line);
    cli_progress_end();
    if (code)
        return code;
    (json ? print_json : print_text)(&result, n_line);
    return cli_interrupted() ? cli_stopped() : 0;
}

static int evaluate_texts(weft_model *model, weft_model *other, const weft_engine_options *e)
{
    documents d = { 0 };
    int code = read_documents(&d);
    if (!code)
        code = evaluate(&d, model, other, e);
    free_documents(&d);
    return code;
}

/* Only models that give as many numbers compare. */
static int with_models(const weft_engine_options *e)
{
    weft_error err = { 0 };
    load_options other_load = load;
    other_load.path = against;
    weft_model_info info = { .struct_size = sizeof info }, of_other = info;
    weft_model *model = cli_open(&load, &err);
    weft_model *other = model && against ? cli_open(&other_load, &err) : NULL;
    int code = model && (other || !against) ? 0 : cli_fail(&err);
    if (model)
        weft_model_get_info(model, &info);
    if (other)
        weft_model_get_info(other, &of_other);
    const bool decoder = info.task == WEFT_TASK_GENERATE && info.n_layer_src == 0;
    if (!code && other && !decoder &&
        (info.task != of_other.task || info.n_out != of_other.n_out ||
         (info.n_layer_src == 0) != (of_other.n_layer_src == 0))) {
        fprintf(stderr,
                "weft: %s has %lld outputs, %s %lld; expected two models with the same outputs\n",
                load.path, (long long)info.n_out, against, (long long)of_other.n_out);
        code = 1;
    }
    const whole_eval wholes = { model,      other,
                                info,       load.path,
                                pre,        &files,
                                e->threads, load.tokenizer ? load.tokenizer : load.path };
    if (!code)
        code = decoder ? evaluate_texts(model, other, e) : evaluate_wholes(&wholes);
    weft_model_close(other);
    weft_model_close(model);
    return code;
}

static int eval_main(void)
{
    const command *c = &command_eval;
    weft_engine_options engine;
    load.path = positional[0] ? positional[0] : load.path;
    if (positional[1] && files.n > 0)
        return cli_usage(c, "both --file and \"%s\"; give one of them", positional[1]);
    for (int i = 1; i <= MAX_LIST && positional[i]; i++)
        files.at[files.n++] = positional[i];
    if (!load.path)
        return cli_which_model(c);
    if (files.n == 0 && isatty(STDIN_FILENO))
        return cli_usage(c, "no text; give a file, or - for standard input");
    if (lines + paragraphs + ids > 1)
        return cli_usage(c, "--lines, --paragraphs and --ids exclude each other");
    if (stride < 0)
        return cli_usage(c, "--stride: %lld is out of range", (long long)stride);
    if (files.n == 0)
        files.at[files.n++] = "-";
    int code = cli_engine_options(c, &shape, &engine);
    if (code)
        return code;
    cli_catch_interrupt();
    return with_models(&engine);
}
