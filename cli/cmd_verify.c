/* weft verify - compares two models: tokens, every named tensor of a forward, and the output
 * (logits, labels or vectors). */
#include "json.h"
#include "verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *positional[2]; /* A, B */
static load_options load;
static int64_t given_threads;
static const char *prompt_text, *file_name, *ids_text;
static double tolerance = 1e-5;
static bool json, parse_special;

static const option options[] = {
    { 'p', "prompt", OPT_TEXT, &prompt_text, "TEXT", 0, "text to compare on (a built-in one)" },
    { 'f', "file", OPT_TEXT, &file_name, "FILE", 0, "read the text from FILE" },
    { 0, "ids", OPT_TEXT, &ids_text, "N,N,...", 0, "token ids instead of text" },
    { 0, "tolerance", OPT_REAL, &tolerance, "X", 0,
      "tolerance, relative to a tensor's largest value (1e-5)" },
    OPTION_TOKENIZER(load),
    OPTION_THREADS(given_threads),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_NO_PACK(load.no_pack),
    OPTION_COMPUTE(load),
    OPTION_PARSE_SPECIAL(parse_special),
    OPTION_JSON(json, "print one JSON object"),
    { 0 },
};

static const char examples[] = "  weft verify ./model-directory model.gguf\n"
                               "  weft verify model-f32.gguf model-q8_0.gguf --tolerance 0.05\n"
                               "  weft verify ./vit vit-q8_0.gguf --tolerance 0.05\n"
                               "  weft verify a.gguf b.gguf -p \"Once upon a time\" --json\n";

static const char built_in[] =
    "The quick brown fox jumps over the lazy dog.\n\n  It cost 1,234.50 in 1999; isn't that "
    "(much)?\tNa\xC3\xAFve caf\xC3\xA9, \xE4\xBD\xA0\xE5\xA5\xBD, "
    "\xD0\xBF\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 \xF0\x9F\x8C\x8D!\n";

static const char about[] =
    "Runs both models on the same text, or vision models on the same synthetic image:\n"
    "decoders as a prompt, encoders as one text, encoder-decoders as a source with the\n"
    "same target tokens. Compares every intermediate tensor and the output: KL divergence\n"
    "of logits, cosine of vectors.\n";

static int verify_main(void);

const command command_verify = {
    .name = "verify",
    .arguments = "A B",
    .summary = "check that two models compute the same",
    .examples = examples,
    .about = about,
    .options = options,
    .n_positional = 2,
    .positional = positional,
    .main = verify_main,
};

/* ---- tokens ---------------------------------------------------------------------------------- */

static weft_tokens *encode(const char *path, const char *text, size_t length, weft_error *err)
{
    weft_tokenizer *t = cli_tokenizer_of(load.tokenizer ? load.tokenizer : path, WEFT_SIDE_SOURCE,
                                         NULL, err);
    const weft_tokenize_options o = { .struct_size = sizeof o, .parse_special = parse_special };
    weft_tokens *k = t ? weft_tokenizer_encode(t, text, length, &o, err) : NULL;
    if (!k) {
        weft_tokenizer_free(t);
        return NULL;
    }
    weft_tokens *copy = cli_alloc(1, sizeof *copy + (size_t)k->n * sizeof *k->ids, "ids");
    if (copy) {
        int32_t *to = (int32_t *)(void *)(copy + 1);
        memcpy(to, k->ids, (size_t)k->n * sizeof *k->ids);
        *copy = (weft_tokens){ .n = k->n, .ids = to };
    } else {
        *err = cli_refusal();
    }
    weft_tokens_free(k);
    weft_tokenizer_free(t);
    return copy;
}

static void compare_tokens(finding *f, const weft_tokens *a, const weft_tokens *b)
{
    int64_t i = 0;
    while (i < a->n && i < b->n && a->ids[i] == b->ids[i])
        i++;
    f->n_other = b->n;
    if (i == a->n && i == b->n)
        return;
    f->token = i;
    f->token_a = i < a->n ? a->ids[i] : -1;
    f->token_b = i < b->n ? b->ids[i] : -1;
}

static int64_t shorter_context(const finding *f)
{
    return f->of_a.n_ctx < f->of_b.n_ctx ? f->of_a.n_ctx : f->of_b.n_ctx;
}

/* 32 tokens from all over the vocabulary, for models without a tokenizer. */
static int spread_ids(finding *f)
{
    const int64_t least = shorter_context(f);
    const int64_t vocab = f->of_a.n_layer_src > 0 ? f->of_a.n_vocab_src : f->of_a.n_vocab;
    f->n = least < 32 ? least : 32;
    f->ids = cli_alloc((size_t)f->n, sizeof *f->ids, "ids");
    if (!f->ids)
        return cli_no_memory();
    for (int64_t i = 0; i < f->n; i++)
        f->ids[i] = (int32_t)(i * 7919 % vocab);
    return 0;
}

static int take_tokens(finding *f, const char *text, size_t length, bool asked)
{
    weft_error no_a = { 0 }, no_b = { 0 };
    weft_tokens *a = encode(positional[0], text, length, &no_a);
    weft_tokens *b = encode(positional[1], text, length, &no_b);
    const weft_tokens *one = a ? a : b;
    int code = 0;
    f->has_tokens[0] = a != NULL;
    f->has_tokens[1] = b != NULL;
    if (a && b)
        compare_tokens(f, a, b);
    if (one && one->n > 0) {
        f->n = one->n;
        f->ids = cli_alloc((size_t)f->n, sizeof *f->ids, "ids");
        if (f->ids)
            memcpy(f->ids, one->ids, (size_t)f->n * sizeof *f->ids);
        else
            code = cli_no_memory();
    } else if (one) {
        code = cli_usage(&command_verify, "the text has no tokens");
    } else {
        code = asked ? cli_fail(&no_a) : spread_ids(f);
    }
    cli_free(b);
    cli_free(a);
    return code;
}

static int choose_tokens(finding *f)
{
    char *text = NULL;
    size_t length = 0;
    f->token = -1;
    if (f->of_a.images)
        return prompt_text || file_name || ids_text
                   ? cli_usage(&command_verify,
                               "%s takes images: --prompt, --file and --ids are for text models",
                               positional[0])
                   : 0;
    if (ids_text)
        return cli_parse_ids(&command_verify, "--ids", ids_text, &f->ids, &f->n);
    if (file_name) {
        int code = cli_read(file_name, CLI_MAX_PROMPT, &text, &length);
        if (!code)
            code = take_tokens(f, text, length, true);
        cli_free(text);
        return code;
    }
    const char *given = prompt_text ? prompt_text : built_in;
    return take_tokens(f, given, strlen(given), prompt_text != NULL);
}

/* ---- the report ------------------------------------------------------------------------------ */

/* The name without its layer: "attn_q.rope". */
static const char *kind_of(const char *name)
{
    if (strncmp(name, "blk.", 4) != 0)
        return name;
    const char *dot = strchr(name + 4, '.');
    return dot ? dot + 1 : name;
}

/* The worst of the tensors of e's kind, if e is the first of them; otherwise -1. */
static double worst_of_kind(const finding *f, const entry *e)
{
    double worst = 0;
    for (const entry *x = f->entry; x < f->entry + f->n_entry; x++) {
        if (strcmp(kind_of(x->name), kind_of(e->name)) != 0)
            continue;
        if (x < e)
            return -1;
        worst = fmax(worst, verify_difference(x));
    }
    return worst;
}

static const entry *first_beyond(const finding *f)
{
    for (const entry *e = f->entry; e < f->entry + f->n_entry; e++)
        if (verify_difference(e) > tolerance)
            return e;
    return NULL;
}

static const char *missing(const entry *e)
{
    return !e->in_b ? "only in A" : !e->in_a ? "only in B" : "shapes differ";
}

static void print_tokens(const finding *f)
{
    if (f->of_a.images) {
        printf("image         %lld rows of %lld values, synthetic\n", (long long)f->of_a.n_ctx,
               (long long)f->of_a.n_feature);
        return;
    }
    printf("tokens        %lld, ", (long long)f->n);
    if (f->token >= 0)
        printf("differ from token %lld on: A %d, B %d\n", (long long)f->token, (int)f->token_a,
               (int)f->token_b);
    else if (f->has_tokens[0] && f->has_tokens[1])
        puts("the same from both tokenizers");
    else if (f->has_tokens[0] || f->has_tokens[1])
        printf("%s has no tokenizer\n", f->has_tokens[0] ? "B" : "A");
    else
        puts(ids_text ? "as given" : "neither has a tokenizer");
}

static void print_text(const finding *f, const entry *first)
{
    print_tokens(f);
    printf("tensors       %lld compared\n", (long long)f->n_entry);
    for (const entry *e = f->entry; e < f->entry + f->n_entry; e++) {
        const double worst = worst_of_kind(f, e);
        if (worst >= 0)
            printf("  %-24s %.2e\n", kind_of(e->name), worst);
    }
    if (!first)
        printf("first         no tensor differs by more than %g\n", tolerance);
    else if (isinf(verify_difference(first)))
        printf("first         %s: %s\n", first->name, missing(first));
    else
        printf("first         %s differs by %.2e\n", first->name, verify_difference(first));
    if (f->logits.n_token > 0)
        printf("divergence    mean %.2e, p99 %.2e, max %.2e\n"
               "same top      %.2f %%\n",
               f->logits.kl_mean, f->logits.kl_p99, f->logits.kl_max, 100 * f->logits.same_top);
    if (f->cosine <= 1.5)
        printf("cosine        %.6f\n", f->cosine);
    puts(first || f->token >= 0 ? "A and B differ" : "A and B are the same");
}

static void json_first_token(const finding *f)
{
    if (f->token < 0) {
        cli_json_null("first_token");
        return;
    }
    cli_json_object("first_token");
    cli_json_int("at", f->token);
    cli_json_int("a", f->token_a);
    cli_json_int("b", f->token_b);
    cli_json_end();
}

static void json_first_tensor(const entry *first)
{
    if (!first) {
        cli_json_null("first_tensor");
        return;
    }
    cli_json_object("first_tensor");
    cli_json_string("name", first->name);
    cli_json_real("difference", verify_difference(first), 3);
    cli_json_end();
}

static void json_kinds(const finding *f)
{
    cli_json_object("kinds");
    for (const entry *e = f->entry; e < f->entry + f->n_entry; e++) {
        const double worst = worst_of_kind(f, e);
        if (worst >= 0)
            cli_json_real(kind_of(e->name), worst, 3);
    }
    cli_json_end();
}

static void print_json(const finding *f, const entry *first)
{
    cli_json_object(NULL);
    cli_json_bool("same", !first && f->token < 0);
    cli_json_int("n_token", f->n);
    cli_json_list("tokenizers");
    cli_json_bool(NULL, f->has_tokens[0]);
    cli_json_bool(NULL, f->has_tokens[1]);
    cli_json_end();
    json_first_token(f);
    cli_json_real("tolerance", tolerance, 6);
    json_first_tensor(first);
    cli_json_int("n_tensor", f->n_entry);
    json_kinds(f);
    if (f->logits.n_token > 0) {
        cli_json_real("kl_mean", f->logits.kl_mean, 3);
        cli_json_real("kl_p99", f->logits.kl_p99, 3);
        cli_json_real("kl_max", f->logits.kl_max, 3);
        cli_json_real("same_top", f->logits.same_top, 9);
    }
    if (f->cosine <= 1.5)
        cli_json_real("cosine", f->cosine, 9);
    cli_json_end();
}

/* ---- the command ----------------------------------------------------------------------------- */

/* May they be compared at all? */
static bool is_pair(const finding *f)
{
    const weft_model_info *a = &f->of_a, *b = &f->of_b;
    if (a->n_vocab != b->n_vocab || a->n_vocab_src != b->n_vocab_src) {
        const bool source = a->n_vocab == b->n_vocab;
        fprintf(stderr, "weft: A has a vocabulary of %lld, B of %lld; expected the same\n",
                (long long)(source ? a->n_vocab_src : a->n_vocab),
                (long long)(source ? b->n_vocab_src : b->n_vocab));
        return false;
    }
    if (a->task != b->task || a->n_out != b->n_out || a->n_feature != b->n_feature ||
        (a->images && a->n_ctx != b->n_ctx)) {
        fprintf(stderr,
                "weft: A has %lld outputs, B %lld, or their tasks differ; expected the same\n",
                (long long)a->n_out, (long long)b->n_out);
        return false;
    }
    return true;
}

static int verify(finding *f)
{
    if (!is_pair(f))
        return 1;
    int code = choose_tokens(f);
    if (code)
        return code;
    if (f->n > shorter_context(f))
        return cli_usage(&command_verify, "%lld tokens do not fit into a context of %lld",
                         (long long)f->n, (long long)shorter_context(f));
    cli_progress_begin("comparing", NULL);
    code = verify_read(f);
    cli_progress_end();
    if (!code && cli_interrupted())
        code = cli_stopped();
    if (code)
        return code;
    const entry *first = first_beyond(f);
    (json ? print_json : print_text)(f, first);
    return first || f->token >= 0 ? 1 : 0;
}

static int verify_main(void)
{
    weft_error err = { 0 };
    if (!positional[0] || !positional[1])
        return cli_usage(&command_verify, "expected two models, A and B");
    if ((prompt_text != NULL) + (file_name != NULL) + (ids_text != NULL) > 1)
        return cli_usage(&command_verify, "--prompt, --file and --ids exclude each other");
    if (!(tolerance >= 0))
        return cli_usage(&command_verify, "--tolerance: %g is out of range", tolerance);
    finding f = { .of_a = { .struct_size = sizeof f.of_a },
                  .of_b = { .struct_size = sizeof f.of_b },
                  .logits = { .struct_size = sizeof f.logits },
                  .cosine = 2 };
    int code = cli_threads(&command_verify, given_threads, &f.threads);
    if (code)
        return code;
    cli_catch_interrupt();
    load.path = positional[0];
    f.a = cli_open(&load, &err);
    load.path = positional[1];
    f.b = f.a ? cli_open(&load, &err) : NULL;
    if (f.b) {
        weft_model_get_info(f.a, &f.of_a);
        weft_model_get_info(f.b, &f.of_b);
        code = verify(&f);
    } else {
        code = cli_fail(&err);
    }
    for (int64_t i = 0; i < f.n_entry; i++)
        cli_free(f.entry[i].data);
    cli_free(f.entry);
    cli_free(f.ids);
    weft_model_close(f.b);
    weft_model_close(f.a);
    return code;
}
