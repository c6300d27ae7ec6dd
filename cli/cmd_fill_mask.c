/* weft fill-mask - which token belongs where the text has a mask. */
#include "json.h"
#include "texts.h"

#include <stdlib.h>

#define MAX_TOP 100

static const char *positional[2]; /* MODEL, TEXT */
static load_options load;
static text_options lines = { .parse_special = true };
static int64_t top = 5;
static bool json;

static const option options[] = {
    OPTION_MODEL(load),
    OPTION_LINES(lines),
    OPTION_TOKENIZER(load),
    OPTION_LORA(lines.lora),
    { 'k', "top", OPT_INT, &top, "N", 0, "show the N most probable tokens (5)" },
    OPTION_THREADS(lines.threads),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_JSON(json, "print one JSON object per text"),
    { 0 },
};

static const char examples[] =
    "  weft fill-mask bert-base-uncased \"The capital of France is [MASK].\"\n"
    "  weft fill-mask roberta-base \"The capital of France is <mask>.\" -k 1 --json\n";

static const char about[] =
    "Spell the mask as the model's tokenizer does, [MASK] or <mask>. Prints one line per\n"
    "candidate: probability, id, token. An empty line separates masks.\n";

typedef struct masks {
    texts t;
    int32_t id;
    double *p; /* [V] */
} masks;

static int64_t pick(void *ud, const weft_tokens *tokens, int32_t *at)
{
    const masks *m = ud;
    int64_t n = 0;
    for (int64_t k = 0; k < tokens->n; k++)
        if (tokens->ids[k] == m->id)
            at[n++] = (int32_t)k;
    return n;
}

static void show_token(const masks *m, int64_t id)
{
    size_t n = 0;
    const char *token = weft_tokenizer_token(m->t.tokenizer, (int32_t)id, &n);
    if (!json) {
        printf("%.6f\t%lld\t", m->p[id], (long long)id);
        cli_print_bytes(token ? token : "", n);
        putchar('\n');
        return;
    }
    cli_json_object(NULL);
    cli_json_real("p", m->p[id], 9);
    cli_json_int("id", id);
    cli_json_text("token", token, n);
    cli_json_end();
}

/* The best tokens for one mask: z has their logits, [V]. */
static void show_mask(masks *m, int32_t at, const float *z)
{
    int64_t best[MAX_TOP];
    const int64_t V = m->t.info.n_out;
    texts_softmax(z, V, m->p);
    const int64_t n = texts_best(m->p, V, top, best);
    if (json) {
        cli_json_object(NULL);
        cli_json_int("at", at);
        cli_json_list("tokens");
    }
    for (int64_t j = 0; j < n; j++)
        show_token(m, best[j]);
    if (json) {
        cli_json_end();
        cli_json_end();
    }
}

static int show(void *ud, int64_t i, const weft_tokens *tokens, const weft_input *in)
{
    masks *m = ud;
    (void)tokens;
    if (!in && json)
        texts_json_failed(&m->t, i);
    if (!in)
        return 0;
    if (in->n_at == 0) {
        size_t n = 0;
        const char *mask = weft_tokenizer_token(m->t.tokenizer, m->id, &n);
        fprintf(stderr, "weft: line %lld has no %.*s to fill\n", (long long)i + 1, (int)n, mask);
        return EXIT_USAGE;
    }
    if (json) {
        cli_json_object(NULL);
        cli_json_int("index", i);
        cli_json_list("masks");
    }
    for (int64_t k = 0; k < in->n_at; k++) {
        if (!json && (k > 0 || i > 0))
            putchar('\n');
        show_mask(m, in->at[k], in->out + k * m->t.info.n_out);
    }
    if (json) {
        cli_json_end();
        cli_json_end();
    }
    return 0;
}

static int32_t mask_id(const weft_tokenizer *t)
{
    weft_tokenizer_info info = { .struct_size = sizeof info };
    weft_tokenizer_get_info(t, &info);
    return info.mask_id;
}

static int fill_mask_main(void)
{
    masks m = { 0 };
    load.path = positional[0] ? positional[0] : load.path;
    if (top < 1 || top > MAX_TOP)
        return cli_usage(&command_fill_mask, "--top: %lld is not in 1 to %d", (long long)top,
                         MAX_TOP);
    cli_catch_interrupt();
    int code = texts_open(&m.t, &command_fill_mask, &load, &lines, positional[1],
                          1u << WEFT_TASK_FILL, WEFT_OUTPUT_HEAD);
    if (!code && (m.id = mask_id(m.t.tokenizer)) < 0) {
        fprintf(stderr, "weft: %s: the tokenizer has neither [MASK] nor <mask>\n", load.path);
        code = 1;
    }
    if (!code && !(m.p = cli_alloc((size_t)m.t.info.n_out, sizeof *m.p, "probabilities")))
        code = cli_no_memory();
    if (!code)
        code = texts_each(&m.t, &lines, pick, show, &m);
    cli_free(m.p);
    texts_close(&m.t);
    return code;
}

const command command_fill_mask = {
    .name = "fill-mask",
    .arguments = "MODEL [TEXT|-]",
    .summary = "predict the token in place of a mask",
    .examples = examples,
    .about = about,
    .options = options,
    .n_positional = 2,
    .positional = positional,
    .main = fill_mask_main,
};
