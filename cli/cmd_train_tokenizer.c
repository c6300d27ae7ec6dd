/* weft train-tokenizer - a tokenizer.json from text. */
#include "cli.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FILE    256
#define MAX_SPECIAL 256

static const char *positional[MAX_FILE];
static const char *out, *special, *pattern;
enum { BPE = 1, WORDPIECE };
static int model = BPE, ties = 1;
static int64_t n_vocab = 8192, min_frequency = 2, threads;
static bool lines, cased, json, no_mmap;

static const option options[] = {
    { 'o', "out", OPT_TEXT, &out, "FILE", 0, "output file (tokenizer.json)" },
    { 0, "model", OPT_CHOICE, &model, "bpe|wordpiece|characters", 0,
      "algorithm (bpe, byte-level)" },
    { 'v', "vocab-size", OPT_INT, &n_vocab, "N", 0,
      "vocabulary size, special tokens included (8192)" },
    { 0, "min-frequency", OPT_INT, &min_frequency, "N", 0, "minimum count of a merged pair (2)" },
    { 0, "special", OPT_TEXT, &special, "A,B", 0,
      "special tokens, first ids (<|endoftext|>, or BERT's five)" },
    { 0, "ties", OPT_CHOICE, &ties, "ids|bytes", 0,
      "tie-breaking: smallest ids or greatest bytes (ids)" },
    { 0, "lines", OPT_FLAG, &lines, NULL, 0, "each line is a text (each file is one)" },
    { 0, "cased", OPT_FLAG, &cased, NULL, 0, "wordpiece: keep case and accents" },
    { 0, "pattern", OPT_TEXT, &pattern, "REGEX", 0,
      "bpe: regex that splits text into words (GPT-2's)" },
    OPTION_THREADS(threads),
    OPTION_NO_MMAP(no_mmap),
    OPTION_RAM_MAX,
    OPTION_JSON(json, "print one JSON object"),
    { 0 },
};

static const char examples[] =
    "  weft train-tokenizer input.txt --vocab-size 8192 -o tokenizer.json\n"
    "  weft train-tokenizer a.txt b.txt --model wordpiece --lines --cased\n"
    "  weft train-tokenizer input.txt --model characters --special \"\"\n";

static int train_tokenizer_main(void);

const command command_train_tokenizer = {
    .name = "train-tokenizer",
    .arguments = "FILE...",
    .summary = "train a tokenizer on text",
    .examples = examples,
    .options = options,
    .n_positional = MAX_FILE,
    .positional = positional,
    .main = train_tokenizer_main,
};

/* Cuts a list at its commas; how many there are, or -1 for too many. */
static int cut_list(char *list, const char **to)
{
    int n = 0;
    for (char *comma; list && *list; list = comma ? comma + 1 : NULL) {
        comma = strchr(list, ',');
        if (comma)
            *comma = '\0';
        if (n == MAX_SPECIAL)
            return -1;
        to[n++] = list;
    }
    return n;
}

static void print_info(const weft_tokenizer_train_info *i, const char *path)
{
    if (json) {
        cli_json_object(NULL);
        cli_json_string("path", path);
        cli_json_int("n_vocab", i->n_vocab);
        cli_json_int("n_merge", i->n_merge);
        cli_json_int("n_word", i->n_word);
        cli_json_int("n_occurrence", i->n_occurrence);
        cli_json_int("bytes_peak", i->bytes_peak);
        cli_json_end();
        return;
    }
    printf("%s: %d tokens, %lld merges, from %lld words, %lld different\n", path, i->n_vocab,
           (long long)i->n_merge, (long long)i->n_occurrence, (long long)i->n_word);
}

static int train_with(char *list)
{
    const char *given[MAX_SPECIAL];
    int n_path = 0;
    while (n_path < MAX_FILE && positional[n_path])
        n_path++;
    weft_tokenizer_train_options o = {
        .struct_size = sizeof o,
        .model = (weft_token_model)(model - 1),
        .ties = (weft_ties)(ties - 1),
        .n_vocab = (int32_t)n_vocab,
        .min_frequency = min_frequency,
        .lines = lines,
        .cased = cased,
        .pattern = pattern,
        .special = given,
        .n_special = cut_list(list, given),
        .load = no_mmap ? WEFT_LOAD_COPY : WEFT_LOAD_MAP,
        .budget = cli_budget(),
    };
    if (o.n_special < 0)
        return cli_usage(&command_train_tokenizer, "--special: more than %d tokens", MAX_SPECIAL);
    const int code = cli_threads(&command_train_tokenizer, threads, &o.threads);
    if (code)
        return code;
    weft_tokenizer_train_info info = { .struct_size = sizeof info };
    weft_error err = { 0 };
    cli_progress_begin("training", NULL);
    const weft_status status = weft_tokenizer_train(positional, n_path, out, &o, &info, &err);
    cli_progress_end();
    if (status != WEFT_OK)
        return cli_fail(&err);
    print_info(&info, out);
    return 0;
}

static int train_tokenizer_main(void)
{
    const command *c = &command_train_tokenizer;
    out = out ? out : "tokenizer.json";
    if (!positional[0])
        return cli_usage(c, "no text; give one or more files");
    if (n_vocab < 1 || n_vocab > 1 << 24)
        return cli_usage(c, "--vocab-size: %lld is not in 1 to %d", (long long)n_vocab, 1 << 24);
    if (min_frequency < 1)
        return cli_usage(c, "--min-frequency: %lld is below 1", (long long)min_frequency);
    if (cased && model != WORDPIECE)
        return cli_usage(c, "--cased is for wordpiece; the others always keep case");
    if (pattern && model != BPE)
        return cli_usage(c, "--pattern is for bpe");
    const char *all = special              ? special
                      : model != WORDPIECE ? "<|endoftext|>"
                                           : "[PAD],[UNK],[CLS],[SEP],[MASK]";
    char *list = malloc(strlen(all) + 1);
    if (!list)
        return cli_no_memory();
    memcpy(list, all, strlen(all) + 1);
    const int code = train_with(list);
    free(list);
    return code;
}
