/* weft train-tokenizer - a tokenizer.json from text. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE    256
#define MAX_SPECIAL 256

static const char *positional[MAX_FILE];
static const char *out, *model = "bpe", *ties = "ids", *special, *pattern;
static int64_t n_vocab = 8192, min_frequency = 2, threads;
static bool lines, cased, json, no_mmap;
static size_t ram_max;

static const option options[] = {
    { 'o', "out", OPT_TEXT, &out, "PATH", NULL, "write here (tokenizer.json)" },
    { 0, "model", OPT_TEXT, &model, "KIND", NULL, "bpe (of bytes), wordpiece or characters (bpe)" },
    { 'v', "vocab-size", OPT_INT, &n_vocab, "N", NULL,
      "tokens to have, special ones included (8192)" },
    { 0, "min-frequency", OPT_INT, &min_frequency, "N", NULL,
      "merge no pair that occurs less often (2)" },
    { 0, "special", OPT_TEXT, &special, "A,B", NULL,
      "special tokens, which get the first ids (<|endoftext|>, or BERT's five)" },
    { 0, "ties", OPT_TEXT, &ties, "RULE", NULL,
      "of equally frequent pairs: ids (smallest) or bytes (greatest) (ids)" },
    { 0, "lines", OPT_FLAG, &lines, NULL, NULL, "each line is a text, otherwise each file" },
    { 0, "cased", OPT_FLAG, &cased, NULL, NULL, "wordpiece: keep case and accents" },
    { 0, "pattern", OPT_TEXT, &pattern, "REGEX", NULL, "bpe: what splits text (GPT-2's)" },
    { 't', "threads", OPT_INT, &threads, "N", "WEFT_THREADS", "threads (one per processor)" },
    { 0, "no-mmap", OPT_FLAG, &no_mmap, NULL, NULL, "copy the text instead of mapping it" },
    { 0, "ram-max", OPT_SIZE, &ram_max, "SIZE", "WEFT_RAM_MAX",
      "take no more memory than this (0: no cap)" },
    { 0, "json", OPT_FLAG, &json, NULL, NULL, "print one JSON object" },
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
    .summary = "make a tokenizer from text",
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

/* One of two words; 0 or 1, or -1. */
static int either(const char *word, const char *first, const char *second)
{
    return strcmp(word, first) == 0 ? 0 : strcmp(word, second) == 0 ? 1 : -1;
}

static int model_number(void)
{
    const int k = either(model, "bpe", "wordpiece");
    return k < 0 && strcmp(model, "characters") == 0 ? WEFT_TOKENS_CHARACTERS : k;
}

static void print_info(const weft_tokenizer_train_info *i, const char *path)
{
    if (json) {
        printf("{\"path\": ");
        cli_json_text(path, strlen(path));
        printf(", \"n_vocab\": %d, \"n_merge\": %lld, \"n_word\": %lld, \"n_occurrence\": %lld, "
               "\"bytes_peak\": %zu}\n",
               i->n_vocab, (long long)i->n_merge, (long long)i->n_word, (long long)i->n_occurrence,
               i->bytes_peak);
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
        .model = (weft_token_model)model_number(),
        .ties = (weft_ties)either(ties, "ids", "bytes"),
        .n_vocab = (int32_t)n_vocab,
        .min_frequency = min_frequency,
        .lines = lines,
        .cased = cased,
        .pattern = pattern,
        .special = given,
        .n_special = cut_list(list, given),
        .threads = (int)threads,
        .load = no_mmap ? WEFT_LOAD_COPY : WEFT_LOAD_MAP,
        .ram_max = ram_max,
    };
    if (o.n_special < 0)
        return cli_usage(&command_train_tokenizer, "--special: more than %d tokens", MAX_SPECIAL);
    weft_tokenizer_train_info info = { .struct_size = sizeof info };
    weft_error err = { 0 };
    if (weft_tokenizer_train(positional, n_path, out, &o, &info, &err) != WEFT_OK)
        return cli_fail(&err);
    print_info(&info, out);
    return 0;
}

static int train_tokenizer_main(void)
{
    const command *c = &command_train_tokenizer;
    out = out ? out : "tokenizer.json";
    if (!positional[0])
        return cli_usage(c, "no text given");
    if (model_number() < 0)
        return cli_usage(c, "--model: \"%s\" is neither bpe nor wordpiece nor characters", model);
    if (either(ties, "ids", "bytes") < 0)
        return cli_usage(c, "--ties: \"%s\" is neither ids nor bytes", ties);
    if (n_vocab < 1 || n_vocab > 1 << 24)
        return cli_usage(c, "--vocab-size: %lld is not in 1 to %d", (long long)n_vocab, 1 << 24);
    if (min_frequency < 1)
        return cli_usage(c, "--min-frequency: %lld is below 1", (long long)min_frequency);
    if (threads < 0 || threads > 1024)
        return cli_usage(c, "--threads: %lld is not in 0 to 1024", (long long)threads);
    if (cased && strcmp(model, "wordpiece") != 0)
        return cli_usage(c, "--cased is for wordpiece; %s always keeps case", model);
    if (pattern && strcmp(model, "bpe") != 0)
        return cli_usage(c, "--pattern is for bpe");
    const char *all = special                           ? special
                      : strcmp(model, "wordpiece") != 0 ? "<|endoftext|>"
                                                        : "[PAD],[UNK],[CLS],[SEP],[MASK]";
    char *list = malloc(strlen(all) + 1);
    if (!list)
        return cli_no_memory();
    memcpy(list, all, strlen(all) + 1);
    const int code = train_with(list);
    free(list);
    return code;
}
