/* sampling.c - how the next token is chosen, in the words that llama.cpp's users know. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static weft_sampler_options given;
static double temperature = NAN; /* NAN: not set, greedy */
static int64_t seed = -1, mirostat = -1;
static text_list biases, breakers;

/* The steps whose names are options' too: see weft.h. */
const option sampling_options[] = {
    { 0, "temp", OPT_REAL, &temperature, "T", SETTING, "sampling temperature; 0 is greedy (0)" },
    { 0, "top-k", OPT_INT, &given.top_k, "N", SETTING,
      "sample from the N most probable tokens (all)" },
    { 0, "top-p", OPT_REAL, &given.top_p, "P", SETTING,
      "smallest set of tokens with total probability P (all)" },
    { 0, "min-p", OPT_REAL, &given.min_p, "P", SETTING | RARE,
      "tokens with at least P times the top probability (all)" },
    { 0, "repeat-penalty", OPT_REAL, &given.repetition, "X", SETTING,
      "divide the logits of repeated tokens by X (1)" },
    { 's', "seed", OPT_INT, &seed, "N", SETTING, "random seed (-1: a new one each run)" },
    { 0, "typical", OPT_REAL, &given.typical, "P", SETTING | RARE,
      "locally typical sampling with total probability P (all)" },
    { 0, "presence-penalty", OPT_REAL, &given.presence, "X", SETTING | RARE,
      "subtract X from the logits of repeated tokens (0)" },
    { 0, "frequency-penalty", OPT_REAL, &given.frequency, "X", SETTING | RARE,
      "subtract X for each occurrence (0)" },
    { 0, "repeat-last-n", OPT_INT, &given.penalty_last_n, "N", SETTING | RARE,
      "last N tokens that penalties look at (all)" },
    { 0, "dry-multiplier", OPT_REAL, &given.dry_multiplier, "X", SETTING | RARE,
      "DRY: penalty for extending a repetition (off)" },
    { 0, "dry-base", OPT_REAL, &given.dry_base, "X", SETTING | RARE,
      "DRY: growth per repeated token (1.75)" },
    { 0, "dry-allowed-length", OPT_INT, &given.dry_length, "N", SETTING | RARE,
      "DRY: repetitions shorter than N are free (2)" },
    { 0, "dry-penalty-last-n", OPT_INT, &given.dry_last_n, "N", SETTING | RARE,
      "DRY: last N tokens to search (4096)" },
    { 0, "dry-sequence-breaker", OPT_LIST, &breakers, "TEXT", SETTING | RARE,
      "DRY: ends repetitions; may be repeated (line end : \" *)" },
    { 0, "xtc-probability", OPT_REAL, &given.xtc_probability, "P", SETTING | RARE,
      "XTC: probability of removing the top tokens (0)" },
    { 0, "xtc-threshold", OPT_REAL, &given.xtc_threshold, "P", SETTING | RARE,
      "XTC: remove all but the last token above P (0.1)" },
    { 0, "mirostat", OPT_INT, &mirostat, "N", SETTING | RARE,
      "2: Mirostat 2.0 with a target of 5 bits; 0: off (0)" },
    { 0, "mirostat-ent", OPT_REAL, &given.mirostat_tau, "BITS", SETTING | RARE,
      "Mirostat 2.0: target surprise in bits (off)" },
    { 0, "mirostat-lr", OPT_REAL, &given.mirostat_eta, "X", SETTING | RARE,
      "Mirostat 2.0: learning rate (0.1)" },
    { 0, "logit-bias", OPT_LIST, &biases, "ID+X", SETTING | RARE,
      "add to a token's logit: 15043+1, 2-inf; may be repeated" },
    { 0, "samplers", OPT_TEXT, &given.chain, "A;B", SETTING | RARE,
      "order of the samplers; see docs/SAMPLING.md" },
    { 0, "schema", OPT_TEXT, &cli_form.schema, "FILE", SETTING | RARE,
      "JSON that fits the schema in FILE" },
    { 0, "grammar", OPT_TEXT, &cli_form.grammar, "FILE", SETTING | RARE,
      "text that fits the GBNF grammar in FILE" },
    { 0, "regex", OPT_TEXT, &cli_form.regex, "RE", SETTING | RARE,
      "text that matches the regular expression RE" },
    { 0 },
};

/* "15043+1", "2-inf" */
static bool parse_bias(const char *text, weft_bias *to)
{
    char *sign, *end;
    errno = 0;
    const long id = strtol(text, &sign, 10);
    if (sign == text || (*sign != '+' && *sign != '-') || errno || id < 0 || id > INT32_MAX)
        return false;
    to->id = (int32_t)id;
    to->bias = strtof(sign, &end);
    return end != sign && !*end && !isnan(to->bias);
}

/* An option that greedy decoding would silently ignore. */
static const char *without_effect(void)
{
    return given.top_k != 0             ? "top-k"
           : given.top_p != 0           ? "top-p"
           : given.min_p != 0           ? "min-p"
           : given.typical != 0         ? "typical"
           : given.xtc_probability != 0 ? "xtc-probability"
           : given.mirostat_tau != 0    ? "mirostat-ent"
                                        : NULL;
}

bool cli_samples(void)
{
    return without_effect() || (!isnan(temperature) && temperature != 0) || biases.n ||
           given.repetition != 0 || given.presence != 0 || given.frequency != 0 ||
           given.dry_multiplier != 0;
}

/* Mirostat 2 with the defaults of llama.cpp. */
static bool take_mirostat(void)
{
    if (mirostat == 2 && given.mirostat_tau == 0)
        given.mirostat_tau = 5;
    if (mirostat == 0)
        given.mirostat_tau = 0;
    return mirostat == -1 || mirostat == 0 || mirostat == 2;
}

/* A number that nobody chose, short enough to be typed again. */
static int64_t random_seed(void)
{
    uint32_t bits = 0;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != sizeof bits)
        bits = (uint32_t)(cli_now() * 1e9);
    return bits;
}

int64_t cli_seed(void)
{
    return given.temperature > 0 ? seed : -1;
}

static int check(const command *c, weft_bias *bias)
{
    if (!take_mirostat())
        return cli_usage(c, "--mirostat: %lld is not 0 or 2", (long long)mirostat);
    if (seed < -1)
        return cli_usage(c, "--seed: %lld is not -1 or more", (long long)seed);
    if (isnan(temperature) && without_effect())
        return cli_usage(c, "--%s needs a temperature above 0, such as --temp 0.8",
                         without_effect());
    for (int i = 0; i < biases.n; i++)
        if (!parse_bias(biases.at[i], &bias[i]))
            return cli_usage(c, "--logit-bias: \"%s\"; expected ID+X or ID-X, as 15043+1 or 2-inf",
                             biases.at[i]);
    return 0;
}

/* Strings that end a repetition; by default those of other programs. */
static weft_status set_breakers(weft_sampler *s, const weft_tokenizer *t, weft_error *err)
{
    static const char *const usual[] = { "\n", ":", "\"", "*" };
    if (!t || given.dry_multiplier == 0)
        return WEFT_OK;
    return breakers.n ? weft_sampler_break(s, t, breakers.at, breakers.n, err)
                      : weft_sampler_break(s, t, usual, 4, err);
}

weft_sampler *cli_sampler(const command *c, weft_model *model, const weft_tokenizer *tokenizer,
                          int *code)
{
    weft_error err = { 0 };
    weft_bias bias[MAX_LIST];
    *code = check(c, bias);
    if (*code)
        return NULL;
    given.struct_size = sizeof given;
    given.temperature = isnan(temperature) ? 0 : temperature;
    if (given.temperature > 0 && seed < 0)
        seed = random_seed();
    given.seed = seed > 0 ? (uint64_t)seed : 0;
    given.bias = bias;
    given.n_bias = biases.n;
    weft_sampler *s = weft_sampler_new(model, &given, &err);
    if (s && set_breakers(s, tokenizer, &err) == WEFT_OK)
        return s;
    weft_sampler_free(s);
    *code = cli_fail(&err);
    return NULL;
}
