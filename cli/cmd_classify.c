/* weft classify - the labels of texts, of their tokens, or of pictures. */
#include "json.h"
#include "texts.h"

#include <stdlib.h>
#include <string.h>

static const char *positional[2]; /* MODEL, TEXT */
static load_options load;
static text_options lines;
static text_list data;
static const char *columns;
static int format; /* 0: by name */
static int64_t top = 1;
static bool json;

static const option options[] = {
    OPTION_MODEL(load),
    OPTION_LINES(lines),
    OPTION_PAIRS(lines),
    OPTION_TRUNCATE(lines),
    OPTION_TOKENIZER(load),
    OPTION_LORA(lines.lora),
    { 'd', "data", OPT_LIST, &data, "PATH", 0, "labelled texts or images: print the accuracy" },
    { 0, "columns", OPT_TEXT, &columns, "NAMES", RARE,
      "columns of a table: text, pair, label, - (text,label)" },
    { 0, "format", OPT_CHOICE, &format, "jsonl|tsv|csv", RARE, "format of --data (by file name)" },
    { 'k', "top", OPT_INT, &top, "N", 0, "show the N most probable labels (1; 0: all)" },
    OPTION_THREADS(lines.threads),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_NO_PACK(load.no_pack),
    OPTION_COMPUTE(load),
    OPTION_JSON(json, "print one JSON object per text"),
    { 0 },
};

static const char examples[] = "  weft classify model \"A gripping film.\"\n"
                               "  weft classify model -f reviews.txt --top 0 --json\n"
                               "  weft classify model --data dev.tsv\n"
                               "  weft classify vit --data images/\n";

static const char about[] =
    "Prints one line per text, or per token if the model labels tokens: labels and their\n"
    "probabilities, most probable first. Multi-label models give each label its own\n"
    "probability; a model with one output prints its value. For vision models, TEXT is\n"
    "the path of a PNG or JPEG file.\n";

typedef struct labels {
    texts t;
    int64_t n;     /* there are */
    double *p;     /* [n] */
    int64_t *best; /* [n] */
} labels;

static void weigh(labels *l, const float *z)
{
    if (l->t.info.labels == WEFT_LABELS_ONE)
        texts_softmax(z, l->n, l->p);
    for (int64_t k = 0; l->t.info.labels != WEFT_LABELS_ONE && k < l->n; k++)
        l->p[k] = l->t.info.labels == WEFT_LABELS_VALUE ? (double)z[k]
                                                        : 1 / (1 + exp(-(double)z[k]));
}

static const char *name_of(const labels *l, int64_t i, char *text, size_t size)
{
    const char *name = weft_model_label(l->t.model, i);
    if (name)
        return name;
    snprintf(text, size, "LABEL_%lld", (long long)i);
    return text;
}

/* "yes 0.71  no 0.29", or the same as a JSON list. */
static void show_labels(labels *l, const float *z)
{
    char made[32];
    weigh(l, z);
    const int64_t n = texts_best(l->p, l->n, top ? top : l->n, l->best);
    if (json)
        cli_json_list("labels");
    for (int64_t k = 0; k < n; k++) {
        const char *name = name_of(l, l->best[k], made, sizeof made);
        if (!json) {
            printf("%s%s\t%.6f", k ? "\t" : "", name, l->p[l->best[k]]);
            continue;
        }
        cli_json_object(NULL);
        cli_json_string("label", name);
        cli_json_real(l->t.info.labels == WEFT_LABELS_VALUE ? "value" : "p", l->p[l->best[k]], 9);
        cli_json_end();
    }
    if (json)
        cli_json_end();
}

/* A line that could not be read stays a line. */
static int show_failed(const labels *l, int64_t i)
{
    if (json)
        texts_json_failed(&l->t, i);
    else
        putchar('\n');
    return 0;
}

static int show_text(void *ud, int64_t i, const weft_tokens *tokens, const weft_input *in)
{
    (void)tokens;
    if (!in)
        return show_failed(ud, i);
    if (json) {
        cli_json_object(NULL);
        cli_json_int("index", i);
    }
    show_labels(ud, in->out);
    if (json)
        cli_json_end();
    else
        putchar('\n');
    return 0;
}

static void show_token(labels *l, int32_t id, const float *z)
{
    size_t n = 0;
    const char *token = weft_tokenizer_token(l->t.tokenizer, id, &n);
    if (json) {
        cli_json_object(NULL);
        cli_json_text("token", token, n);
        show_labels(l, z);
        cli_json_end();
        return;
    }
    cli_print_bytes(token ? token : "", n);
    putchar('\t');
    show_labels(l, z);
    putchar('\n');
}

/* Skips tokens without text. */
static int show_tokens(void *ud, int64_t i, const weft_tokens *tokens, const weft_input *in)
{
    labels *l = ud;
    if (!in)
        return show_failed(l, i);
    if (json) {
        cli_json_object(NULL);
        cli_json_int("index", i);
        cli_json_list("tokens");
    } else if (i > 0) {
        putchar('\n');
    }
    for (int64_t k = 0; k < tokens->n; k++)
        if (!weft_tokenizer_is_special(l->t.tokenizer, tokens->ids[k]))
            show_token(l, tokens->ids[k], in->out + k * l->n);
    if (json) {
        cli_json_end();
        cli_json_end();
    }
    return 0;
}

/* Texts whose labels are known. */
static void score_texts(weft_model *m, int n_thread, weft_score *s, weft_error *err)
{
    static const weft_data_kind kinds[] = { WEFT_DATA_BY_NAME, WEFT_DATA_JSONL, WEFT_DATA_TSV,
                                            WEFT_DATA_CSV };
    weft_train_options o;
    weft_train_defaults(&o, sizeof o);
    o.data = data.at;
    o.n_data = data.n;
    o.data_kind = kinds[format];
    o.columns = columns;
    o.threads = n_thread;
    o.budget = cli_budget();
    o.load = load.no_mmap ? WEFT_LOAD_COPY : WEFT_LOAD_MAP;
    weft_tokenizer *t = cli_tokenizer(&load, NULL, err);
    if (t)
        weft_text_score(m, t, &o, s, err);
    weft_tokenizer_free(t);
}

static void print_score(const weft_score *s)
{
    const double share = (double)s->n_right / (double)s->n;
    if (!json) {
        printf("accuracy      %.2f %% (%lld of %lld)\nloss          %.6f\n", 100 * share,
               (long long)s->n_right, (long long)s->n, s->loss);
        return;
    }
    cli_json_object(NULL);
    cli_json_int("n", s->n);
    cli_json_int("right", s->n_right);
    cli_json_real("accuracy", share, 9);
    cli_json_real("loss", s->loss, 9);
    cli_json_end();
}

/* Pictures or texts whose classes are known. */
static int score(void)
{
    weft_model_info info = { .struct_size = sizeof info };
    weft_error err = { 0 };
    weft_score s = { .struct_size = sizeof s };
    int n_thread = 0;
    const int code = cli_threads(&command_classify, lines.threads, &n_thread);
    if (code)
        return code;
    weft_model *m = cli_open(&load, &err);
    if (m)
        weft_model_get_info(m, &info);
    if (m && info.images)
        weft_image_score(m, data.at, data.n, n_thread, &s, &err);
    else if (m)
        score_texts(m, n_thread, &s, &err);
    weft_model_close(m);
    if (err.code)
        return cli_fail(&err);
    print_score(&s);
    return 0;
}

static int classify_main(void)
{
    labels l = { 0 };
    load.path = positional[0] ? positional[0] : load.path;
    if (data.n > 0 && lines.lora)
        return cli_usage(&command_classify, "--lora and --data do not go together");
    if (data.n > 0 && load.path && !positional[1])
        return score();
    if (data.n > 0)
        return load.path ? cli_usage(&command_classify, "both a text and --data; give one of them")
                         : cli_which_model(&command_classify);
    if (top < 0)
        return cli_usage(&command_classify, "--top: %lld is less than 0", (long long)top);
    cli_catch_interrupt();
    int code = texts_open(&l.t, &command_classify, &load, &lines, positional[1],
                          1u << WEFT_TASK_CLASSIFY | 1u << WEFT_TASK_TAG, WEFT_OUTPUT_HEAD);
    if (!code) {
        l.n = l.t.info.n_out;
        l.p = cli_alloc((size_t)l.n, sizeof *l.p, "probabilities");
        l.best = cli_alloc((size_t)(l.n + 1), sizeof *l.best, "labels");
        code = l.p && l.best ? 0 : cli_no_memory();
    }
    if (!code)
        code = texts_each(&l.t, &lines, NULL,
                          l.t.info.task == WEFT_TASK_TAG ? show_tokens : show_text, &l);
    cli_free(l.best);
    cli_free(l.p);
    texts_close(&l.t);
    return code;
}

const command command_classify = {
    .name = "classify",
    .arguments = "MODEL [TEXT|-]",
    .summary = "classify texts, tokens or images",
    .examples = examples,
    .about = about,
    .options = options,
    .n_positional = 2,
    .positional = positional,
    .main = classify_main,
};
