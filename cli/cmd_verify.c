/* weft verify - are two models the same? Tokens, then every named tensor of a forward, then logits.
 *
 * Both models read the same tokens, a few at a time; what the first one's forward makes is kept
 * until the second has made it too. Tensors are paired by name, which do not depend on the form a
 * model is stored in. */
#include "cli.h"
#include "json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 16 /* tokens read at a time: their tensors are kept */

static const char *positional[2]; /* A, B */
static load_options load;
static int64_t given_threads;
static int threads;
static const char *prompt_text, *file_name, *ids_text;
static double tolerance = 1e-5;
static bool json, parse_special;

static const option options[] = {
    { 'p', "prompt", OPT_TEXT, &prompt_text, "TEXT", 0, "text to read (a built-in one)" },
    { 'f', "file", OPT_TEXT, &file_name, "FILE", 0, "read the text from here" },
    { 0, "ids", OPT_TEXT, &ids_text, "N,N,...", 0, "token ids to read instead of text" },
    { 0, "tolerance", OPT_REAL, &tolerance, "X", 0,
      "largest difference, of a tensor's largest (1e-5)" },
    OPTION_TOKENIZER(load),
    OPTION_THREADS(given_threads),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_NO_PACK(load.no_pack),
    OPTION_PARSE_SPECIAL(parse_special),
    OPTION_JSON(json, "print one JSON object"),
    { 0 },
};

static const char examples[] = "  weft verify ./model-directory model.gguf\n"
                               "  weft verify model-f32.gguf model-q8_0.gguf --tolerance 0.05\n"
                               "  weft verify a.gguf b.gguf -p \"Once upon a time\" --json\n";

static const char built_in[] =
    "The quick brown fox jumps over the lazy dog.\n\n  It cost 1,234.50 in 1999; isn't that "
    "(much)?\tNa\xC3\xAFve caf\xC3\xA9, \xE4\xBD\xA0\xE5\xA5\xBD, "
    "\xD0\xBF\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 \xF0\x9F\x8C\x8D!\n";

static int verify_main(void);

const command command_verify = {
    .name = "verify",
    .arguments = "A B",
    .summary = "tell whether two models compute the same",
    .examples = examples,
    .options = options,
    .n_positional = 2,
    .positional = positional,
    .main = verify_main,
};

/* ---- what is found --------------------------------------------------------------------------- */

/* One named tensor, over all tokens. */
typedef struct entry {
    char name[96];
    int64_t rows, cols; /* of this step's rows, and their numbers as A made them */
    float *data;
    double largest;     /* number of A, in size */
    double off, turned; /* largest difference, as they lie and with the pairs of heads reordered */
    bool in_a, in_b, same_shape;
} entry;

typedef struct finding {
    weft_model *a, *b;
    weft_model_info of_a, of_b;
    int32_t *ids;
    int64_t n;
    bool has_tokens[2];       /* A and B have a tokenizer */
    int64_t n_other;          /* tokens that B's tokenizer makes of the text */
    int64_t token;            /* the first that differs, or -1 */
    int32_t token_a, token_b; /* -1: that text has ended */
    entry *entry;
    int64_t n_entry, room;
    int64_t next; /* where B's next tensor is likely to be */
    bool no_memory;
    weft_evaluation logits;
} finding;

static entry *find_entry(finding *f, const char *name)
{
    for (int64_t i = 0; i < f->n_entry; i++) {
        const int64_t at = (f->next + i) % f->n_entry;
        if (strcmp(f->entry[at].name, name) == 0) {
            f->next = at + 1;
            return &f->entry[at];
        }
    }
    if (f->n_entry == f->room) {
        const int64_t room = f->room ? 2 * f->room : 256;
        entry *longer = cli_grow(f->entry, (size_t)room * sizeof *longer, "the list of tensors");
        f->no_memory = f->no_memory || !longer;
        if (!longer)
            return NULL;
        f->entry = longer;
        f->room = room;
    }
    entry *e = &f->entry[f->n_entry++];
    *e = (entry){ .same_shape = true };
    snprintf(e->name, sizeof e->name, "%s", name);
    f->next = f->n_entry;
    return e;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The larger of a difference so far and that of a and b; what is no number stays. */
static double farther(double so_far, float a, float b)
{
    const double d = a == b ? 0 : fabs((double)a - (double)b);
    return isnan(so_far) || d <= so_far ? so_far : d;
}

static void keep(void *ud, const weft_trace_tensor *t)
{
    finding *f = ud;
    entry *e = find_entry(f, t->name);
    const size_t n = (size_t)(t->rows * t->cols);
    if (!e)
        return;
    e->in_a = true;
    e->rows = t->rows;
    e->cols = t->cols;
    float *longer = cli_grow(e->data, (n ? n : 1) * sizeof *longer, t->name);
    f->no_memory = f->no_memory || !longer;
    if (!longer)
        return;
    e->data = longer;
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t k = 0; k < t->cols; k++) {
            const float x = t->data[i * t->stride + k];
            e->data[i * t->cols + k] = x;
            e->largest = isfinite(x) ? farther(e->largest, x, 0) : e->largest;
        }
}

/* Rotary positions turn pairs of numbers of a head: neighbours in GGUF files of Llama, halves in
 * Hugging Face's. Column k of a GGUF file's query is this one of theirs. */
static int64_t turned(int64_t k, int64_t E)
{
    const int64_t in = k % E;
    return k - in + (in % 2 ? E / 2 : 0) + in / 2;
}

static void compare(void *ud, const weft_trace_tensor *t)
{
    finding *f = ud;
    entry *e = find_entry(f, t->name);
    if (!e)
        return;
    e->in_b = true;
    e->same_shape = e->same_shape && e->in_a && e->rows == t->rows && e->cols == t->cols;
    if (!e->same_shape || !e->data)
        return;
    const int64_t E = f->of_a.d_head;
    const bool heads = (strstr(t->name, ".attn_q") || strstr(t->name, ".attn_k")) &&
                       strcmp(f->of_a.format, f->of_b.format) != 0 && E % 2 == 0 &&
                       e->cols % E == 0;
    const bool a_gguf = strcmp(f->of_a.format, "gguf") == 0;
    for (int64_t i = 0; i < e->rows; i++) {
        const float *a = e->data + i * e->cols, *b = t->data + i * t->stride;
        for (int64_t k = 0; k < e->cols; k++) {
            const int64_t other = heads ? turned(k, E) : k;
            e->off = farther(e->off, a[k], b[k]);
            e->turned = a_gguf ? farther(e->turned, a[k], b[other])
                               : farther(e->turned, a[other], b[k]);
        }
    }
}

/* Largest difference, relative to the largest number; infinite where only one model has it. */
static double difference(const entry *e)
{
    const double off = fmin(e->off, e->turned);
    if (!e->in_a || !e->in_b || !e->same_shape)
        return INFINITY;
    return off == 0 ? 0 : off / e->largest;
}

typedef struct reader {
    weft_engine *engine;
    weft_session *session;
} reader;

static bool reader_open(reader *r, weft_model *m, const weft_engine_options *o, weft_trace_fn *fn,
                        finding *f, weft_error *err)
{
    r->engine = weft_engine_new(m, o, err);
    r->session = r->engine ? weft_session_new(r->engine, err) : NULL;
    return r->session && weft_engine_trace(r->engine, fn, f, false, err) == WEFT_OK;
}

static void reader_close(reader *r)
{
    weft_session_free(r->session);
    weft_engine_free(r->engine);
}

static int read_tensors(finding *f)
{
    weft_error err = { 0 };
    reader a = { 0 }, b = { 0 };
    /* f32: a coarser cache would make large differences of small ones, and hide others */
    const weft_engine_options o = { .struct_size = sizeof o,
                                    .threads = threads,
                                    .n_batch = ROWS,
                                    .n_ctx = f->n,
                                    .kv_type = WEFT_KV_F32 };
    bool good = reader_open(&a, f->a, &o, keep, f, &err) &&
                reader_open(&b, f->b, &o, compare, f, &err);
    for (int64_t at = 0, n; at < f->n && good && !f->no_memory && !cli_interrupted(); at += n) {
        n = f->n - at < ROWS ? f->n - at : ROWS;
        f->next = 0;
        good = weft_session_eval(a.session, f->ids + at, n, &err) == WEFT_OK;
        f->next = 0;
        good = good && weft_session_eval(b.session, f->ids + at, n, &err) == WEFT_OK;
    }
    reader_close(&b);
    reader_close(&a);
    return !good ? cli_fail(&err) : f->no_memory ? cli_no_memory() : 0;
}

static bool go_on(void *ud, const weft_evaluation *so_far)
{
    (void)ud;
    (void)so_far;
    return !cli_interrupted();
}

/* B measured against A. */
static int read_logits(finding *f)
{
    weft_error err = { 0 };
    f->logits.struct_size = sizeof f->logits;
    const weft_document d = { f->ids, f->n };
    const weft_evaluate_options o = { .struct_size = sizeof o,
                                      .threads = threads,
                                      .n_ctx = f->n,
                                      .stride = f->n,
                                      .progress = go_on };
    return weft_evaluate(f->b, f->a, &d, 1, &o, &f->logits, &err) == WEFT_OK ? 0 : cli_fail(&err);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static weft_tokens *encode(const char *path, const char *text, size_t length, weft_error *err)
{
    const load_options from = { .path = path, .tokenizer = load.tokenizer };
    weft_tokenizer *t = cli_tokenizer(&from, NULL, err);
    const weft_encode_options o = { .struct_size = sizeof o, .parse_special = parse_special };
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
    if (f->of_a.n_vocab == 0) {
        fprintf(stderr, "weft: %s takes no tokens, by which models are compared\n", positional[0]);
        return 1;
    }
    f->n = least < 32 ? least : 32;
    f->ids = cli_alloc((size_t)f->n, sizeof *f->ids, "ids");
    if (!f->ids)
        return cli_no_memory();
    for (int64_t i = 0; i < f->n; i++)
        f->ids[i] = (int32_t)(i * 7919 % f->of_a.n_vocab);
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
        code = cli_usage(&command_verify, "the text gives no tokens");
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
    if (ids_text)
        return cli_parse_ids(&command_verify, ids_text, &f->ids, &f->n);
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
        worst = fmax(worst, difference(x));
    }
    return worst;
}

static const entry *first_beyond(const finding *f)
{
    for (const entry *e = f->entry; e < f->entry + f->n_entry; e++)
        if (difference(e) > tolerance)
            return e;
    return NULL;
}

static const char *missing(const entry *e)
{
    return !e->in_b ? "only A has it" : !e->in_a ? "only B has it" : "the shapes differ";
}

static void print_text(const finding *f, const entry *first)
{
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
    printf("tensors       %lld compared\n", (long long)f->n_entry);
    for (const entry *e = f->entry; e < f->entry + f->n_entry; e++) {
        const double worst = worst_of_kind(f, e);
        if (worst >= 0)
            printf("  %-24s %.2e\n", kind_of(e->name), worst);
    }
    if (!first)
        printf("first         none differs by more than %g\n", tolerance);
    else if (isinf(difference(first)))
        printf("first         %s: %s\n", first->name, missing(first));
    else
        printf("first         %s differs by %.2e\n", first->name, difference(first));
    if (f->logits.n_token > 0)
        printf("divergence    mean %.2e, p99 %.2e, max %.2e\n"
               "same top      %.2f %%\n",
               f->logits.kl_mean, f->logits.kl_p99, f->logits.kl_max, 100 * f->logits.same_top);
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
    cli_json_real("difference", difference(first), 3);
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
    cli_json_end();
}

/* ---- the command ----------------------------------------------------------------------------- */

static int verify(finding *f)
{
    if (f->of_a.n_vocab != f->of_b.n_vocab) {
        fprintf(stderr, "weft: A has %lld tokens, B %lld: not the same model\n",
                (long long)f->of_a.n_vocab, (long long)f->of_b.n_vocab);
        return 1;
    }
    int code = choose_tokens(f);
    if (code)
        return code;
    if (f->n > shorter_context(f))
        return cli_usage(&command_verify, "%lld tokens do not fit into a context of %lld",
                         (long long)f->n, (long long)shorter_context(f));
    cli_progress_begin("comparing", NULL);
    code = read_tensors(f);
    if (!code && f->n > 1)
        code = read_logits(f);
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
        return cli_usage(&command_verify, "which models? Give two of them");
    if ((prompt_text != NULL) + (file_name != NULL) + (ids_text != NULL) > 1)
        return cli_usage(&command_verify, "--prompt, --file and --ids: give one of them");
    if (!(tolerance >= 0))
        return cli_usage(&command_verify, "--tolerance: %g is out of range", tolerance);
    int code = cli_threads(&command_verify, given_threads, &threads);
    if (code)
        return code;
    cli_catch_interrupt();
    finding f = { .of_a = { .struct_size = sizeof f.of_a },
                  .of_b = { .struct_size = sizeof f.of_b } };
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
