/* weft translate - one text in, another out: what an encoder-decoder makes of a source. */
#include "cli.h"
#include "json.h"
#include "lora.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *positional[2]; /* MODEL, TEXT */
static load_options load;
static shape_options shape;
static prompt_options prompt;
static const char *source_vocabulary, *target_vocabulary, *begin_ids;
static const char *attention, *lora;
static int64_t n_beam = 1, n_best = 1, n_new = 256, attention_layer;
static double length_penalty = 1;
static bool json, lines;

static const option options[] = {
    OPTION_MODEL(load),
    OPTION_PROMPT(prompt),
    OPTION_FILE(prompt),
    { 0, "lines", OPT_FLAG, &lines, NULL, 0, "translate line by line" },
    OPTION_IDS(prompt),
    { 'n', "predict", OPT_INT, &n_new, "N", SETTING,
      "maximum tokens to generate; -1: until end of text (256)" },
    { 0, "beams", OPT_INT, &n_beam, "N", 0, "beam search with N beams (1: greedy)" },
    { 0, "n-best", OPT_INT, &n_best, "N", 0, "with --beams: print the N best, with scores (1)" },
    { 0, "length-penalty", OPT_REAL, &length_penalty, "X", RARE,
      "with --beams: divide scores by length^X (1)" },
    { 0, "begin", OPT_TEXT, &begin_ids, "N,N,...", 0,
      "first ids of the output: the language token of M2M-100" },
    { 0, "attention", OPT_TEXT, &attention, "FILE", 0, "draw the cross-attention as an SVG image" },
    { 0, "attention-layer", OPT_INT, &attention_layer, "N", RARE,
      "decoder layer to draw, from 1 (0: mean of all)" },
    OPTION_JSON(json, "print one JSON object per text"),
    { 0, "source-vocabulary", OPT_TEXT, &source_vocabulary, "FILE", RARE,
      "source tokenizer (the model's)" },
    { 0, "target-vocabulary", OPT_TEXT, &target_vocabulary, "FILE", RARE,
      "target tokenizer (the model's)" },
    OPTION_CTX_SIZE(shape),
    OPTION_THREADS(shape.threads),
    OPTION_KV_TYPE(shape),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_NO_PACK(load.no_pack),
    OPTION_COMPUTE(load),
    OPTION_TOKENIZER(load),
    OPTION_LORA(lora),
    OPTION_PRE(prompt.pre),
    { 0 },
};

static const char examples[] = "  weft translate ./opus-mt-en-de -p \"Good morning.\" --beams 4\n"
                               "  weft translate ./opus-mt-en-de --lines -f news.en > news.de\n"
                               "  weft translate ./flan-t5-small -p \"summarize: ...\" -n 60\n"
                               "  weft translate ./opus-mt-en-de -p \"Good morning.\" "
                               "--attention morning.svg\n";

static const char about[] =
    "The tokenizer adds the special tokens that the model expects around the source. It\n"
    "is read from the model, from source_vocabulary.txt and target_vocabulary.txt in its\n"
    "directory, or from Marian's source.spm, target.spm and vocab.json. Of\n"
    "generation_config.json only the end-of-text tokens are used: give a forced first\n"
    "token, such as the target language of M2M-100, with --begin.\n";

typedef struct job {
    weft_model *model;
    weft_engine *engine;
    lora_choice lora;
    weft_tokenizer *source, *target; /* source: NULL where ids were given */
    int32_t *ids, *begin;            /* of the source; of the text, the start first */
    int64_t n, n_begin;
} job;

/* ---- tokenizers ------------------------------------------------------------------------------ */

/* What was given for this side, or for both, or the model's. */
static const char *vocabulary(const char *given)
{
    return given ? given : load.tokenizer ? load.tokenizer : load.path;
}

/* Lines are read one by one, later. */
static int read_source(job *j)
{
    weft_error err = { 0 };
    const load_options from = { .path = vocabulary(source_vocabulary) };
    prompt.side = WEFT_SIDE_SOURCE;
    if (!lines)
        return cli_prompt(&command_translate, &prompt, &from, &j->source, &j->ids, &j->n);
    j->source = cli_tokenizer_of(from.path, WEFT_SIDE_SOURCE, prompt.pre, &err);
    return j->source ? 0 : cli_fail(&err);
}

static int open_target(job *j)
{
    weft_error err = { 0 };
    if (prompt.ids && !target_vocabulary && !load.tokenizer)
        return 0; /* ids in, ids out */
    j->target = cli_tokenizer_of(vocabulary(target_vocabulary), WEFT_SIDE_TARGET, prompt.pre, &err);
    return j->target ? 0 : cli_fail(&err);
}

/* The model's start, then what the text is to begin with. */
static int make_beginning(job *j, int32_t start)
{
    int32_t *more = NULL;
    int64_t n = 0;
    const int code = begin_ids ? cli_parse_ids(&command_translate, "--begin", begin_ids, &more, &n)
                               : 0;
    if (code)
        return code;
    j->begin = cli_alloc((size_t)(n + 1), sizeof *j->begin, "ids");
    if (j->begin) {
        j->begin[0] = start;
        if (n)
            memcpy(j->begin + 1, more, (size_t)n * sizeof *more);
        j->n_begin = n + 1;
    }
    cli_free(more);
    return j->begin ? 0 : cli_no_memory();
}

/* ---- output ---------------------------------------------------------------------------------- */

static bool print_text(const job *j, const weft_beam *b, int64_t n, weft_error *err)
{
    weft_decoder *d = weft_decoder_new(j->target, false, err);
    const char *bytes;
    size_t length, all = 0;
    char *text = NULL;
    bool good = d != NULL;
    for (int64_t i = 0; i <= n && good; i++) {
        if (i == n)
            weft_decoder_flush(d, &bytes, &length);
        else
            good = weft_decoder_push(d, b->ids[i], &bytes, &length, err) == WEFT_OK;
        char *longer = good ? cli_grow(text, all + length + 1, "the text") : NULL;
        good = longer != NULL;
        if (!good)
            break;
        text = longer;
        memcpy(text + all, bytes, length);
        all += length;
    }
    for (size_t i = 0; lines && !json && i < all; i++)
        text[i] = text[i] == '\n' ? ' ' : text[i]; /* a line gives a line */
    if (good && json)
        cli_json_text("text", text, all);
    else if (good)
        fwrite(text, 1, all, stdout);
    cli_free(text);
    weft_decoder_free(d);
    return good;
}

static void print_ids(const weft_beam *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        printf("%s%d", i ? "," : "", (int)b->ids[i]);
}

/* Without the token that ended it. */
static bool print_beam(const job *j, const weft_beam *b, weft_error *err)
{
    const int64_t n = b->ended ? b->n - 1 : b->n;
    bool good = true;
    if (json) {
        cli_json_object(NULL);
        cli_json_ids("ids", b->ids, n);
    } else if (n_best > 1) {
        printf("%.6f ", b->score);
    }
    if (j->target)
        good = print_text(j, b, n, err);
    else if (!json)
        print_ids(b, n);
    if (json) {
        cli_json_fixed("score", b->score, 6);
        cli_json_string("finish_reason", b->ended ? "stop" : "length");
        cli_json_end();
    } else {
        putchar('\n');
    }
    return good;
}

static bool print_beams(const job *j, const weft_beams *found, weft_error *err)
{
    bool good = true;
    if (json) {
        cli_json_object(NULL);
        cli_json_list("texts");
    }
    for (int i = 0; good && i < found->n; i++)
        good = print_beam(j, &found->beam[i], err);
    if (json) {
        cli_json_end();
        cli_json_end();
    }
    return good;
}

static bool write_picture(void *ud, const char *bytes, size_t n, weft_error *err)
{
    (void)err;
    int *code = ud;
    out_file o;
    if (!out_begin(&o, attention)) {
        *code = cli_cannot_write(attention);
        return false;
    }
    const bool good = fwrite(bytes, 1, n, o.f) == n;
    *code = out_end(&o, good) ? 0 : cli_cannot_write(attention);
    return *code == 0;
}

static int draw_attention(const job *j, const weft_engine_options *e, const weft_beam *b)
{
    weft_error err = { 0 };
    int32_t *text = cli_alloc((size_t)(j->n_begin + b->n), sizeof *text, "ids");
    if (!text)
        return cli_no_memory();
    memcpy(text, j->begin, (size_t)j->n_begin * sizeof *text);
    memcpy(text + j->n_begin, b->ids, (size_t)b->n * sizeof *text);
    const weft_alignment_options o = { .struct_size = sizeof o,
                                       .source = j->ids,
                                       .n_source = j->n,
                                       .n_begin = j->n_begin,
                                       .layer = attention_layer,
                                       .source_tokenizer = j->source,
                                       .target_tokenizer = j->target,
                                       .threads = e->threads,
                                       .kv_type = e->kv_type };
    int written = 0, code = 0;
    if (weft_alignment(j->model, text, j->n_begin + b->n, &o, write_picture, &written, &err) !=
        WEFT_OK)
        code = written ? written : cli_fail(&err);
    cli_free(text);
    return code;
}

static int translate(const job *j, const weft_engine_options *engine_options)
{
    weft_error err = { 0 };
    const weft_beam_options o = {
        .struct_size = sizeof o,
        .n_beam = (int)n_beam,
        .n_best = (int)n_best,
        .n_new = n_new < 0 ? 0 : n_new,
        .length_penalty = length_penalty,
        .stop = n_beam == 1 ? WEFT_BEAM_STOP_FULL
                            : WEFT_BEAM_STOP_GUESS, /* greedy: the first end it is */
        .source = j->ids,
        .n_source = j->n,
        .adapter = j->lora.adapter,
        .strength = j->lora.strength,
    };
    cli_progress_begin("translating", NULL);
    weft_beams *found = weft_beam_search(j->engine, j->begin, j->n_begin, &o, &err);
    cli_progress_end();
    const bool good = found && print_beams(j, found, &err);
    int code = good ? 0 : err.code ? cli_fail(&err) : cli_no_memory();
    if (good)
        code = fflush(stdout) == 0 ? 0 : 1;
    if (!code && attention)
        code = draw_attention(j, engine_options, &found->beam[0]);
    weft_beams_free(found);
    return code;
}

/* A line without text gives one without. */
static int translate_line(job *j, const weft_engine_options *o, const char *text, size_t n)
{
    size_t spaces = 0;
    while (spaces < n && (text[spaces] == ' ' || text[spaces] == '\t'))
        spaces++;
    if (spaces == n) {
        const weft_beams none = { 0 };
        if (json)
            print_beams(j, &none, NULL);
        else
            putchar('\n');
        return 0;
    }
    int code = cli_encode(&command_translate, j->source, text, n, NULL, &j->ids, &j->n);
    if (!code)
        code = translate(j, o);
    cli_free(j->ids);
    j->ids = NULL;
    return code;
}

static int translate_lines(job *j, const weft_engine_options *o)
{
    char *text = NULL;
    size_t n = 0, next;
    long long number = 1;
    int code = cli_read(prompt.file ? prompt.file : "-", CLI_MAX_TEXT, &text, &n);
    for (size_t at = 0; !code && at < n; at = next, number++) {
        const char *end = memchr(text + at, '\n', n - at);
        const size_t length = end ? (size_t)(end - text) - at : n - at;
        const bool crlf = length > 0 && text[at + length - 1] == '\r';
        next = at + length + 1;
        code = translate_line(j, o, text + at, length - crlf);
        if (code)
            fprintf(stderr, "weft: in line %lld\n", number);
    }
    cli_free(text);
    return code;
}

/* ---- before it ------------------------------------------------------------------------------- */

static int run_model(job *j, weft_engine_options *o)
{
    weft_error err = { 0 };
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(j->model, &info);
    if (attention_layer < 0 || attention_layer > info.n_layer)
        return cli_usage(&command_translate, "--attention-layer: %lld is not in 1 to %lld",
                         (long long)attention_layer, (long long)info.n_layer);
    int code = make_beginning(j, info.start_id);
    if (code)
        return code;
    weft_engine_info made = { .struct_size = sizeof made };
    o->n_session = (int)n_beam;
    j->engine = weft_engine_new(j->model, o, &err);
    if (!j->engine)
        return cli_fail(&err);
    weft_engine_get_info(j->engine, &made);
    const int64_t room = made.n_ctx - j->n_begin + 1; /* the last token is not evaluated */
    n_new = n_new < room ? n_new : room;
    return lines ? translate_lines(j, o) : translate(j, o);
}

static int check_options(void)
{
    const command *c = &command_translate;
    if (!load.path)
        return cli_which_model(c);
    if (n_new < -1 || n_new == 0)
        return cli_usage(c, "--predict: %lld is out of range", (long long)n_new);
    if (n_beam < 1 || n_beam > WEFT_MAX_BEAM)
        return cli_usage(c, "--beams: %lld is not in 1 to %d", (long long)n_beam, WEFT_MAX_BEAM);
    if (n_best < 1 || n_best > n_beam)
        return cli_usage(c, "--n-best: %lld is not in 1 to --beams", (long long)n_best);
    if (lines && (prompt.text || prompt.ids || attention))
        return cli_usage(c, "--lines is for --file and piped input%s",
                         attention ? "; a map shows one text" : "");
    if (lines && n_best > 1 && !json)
        return cli_usage(c, "--lines gives a line for each text; with --n-best use --json");
    if (lora && attention)
        return cli_usage(c, "--lora and --attention do not go together");
    if (attention_layer != 0 && !attention)
        return cli_usage(c, "--attention-layer is for --attention");
    return 0;
}

static int translate_main(void)
{
    weft_engine_options engine_options;
    job j = { 0 };
    load.path = positional[0] ? positional[0] : load.path;
    int code = cli_take_prompt(&command_translate, &prompt, positional[1]);
    if (!code)
        code = check_options();
    if (!code)
        code = cli_engine_options(&command_translate, &shape, &engine_options);
    if (!code && !lines)
        code = cli_check_prompt(&command_translate, &prompt);
    if (!code && lines && !cli_has_prompt(&prompt))
        code = cli_usage(&command_translate, "no texts; give a file: -f texts.en");
    if (!code)
        code = cli_open_kind(&load, true, &j.model);
    if (!code)
        code = lora_open(&command_translate, lora, j.model, &j.lora, &engine_options.adapter_rank);
    if (!code)
        code = read_source(&j);
    if (!code)
        code = open_target(&j);
    if (!code)
        code = run_model(&j, &engine_options);
    weft_engine_free(j.engine);
    weft_adapter_close(j.lora.adapter);
    weft_model_close(j.model);
    weft_tokenizer_free(j.source);
    weft_tokenizer_free(j.target);
    cli_free(j.ids);
    cli_free(j.begin);
    return code;
}

const command command_translate = {
    .name = "translate",
    .arguments = "MODEL [TEXT|-]",
    .summary = "translate or summarise with an encoder-decoder",
    .examples = examples,
    .about = about,
    .options = options,
    .n_positional = 2,
    .positional = positional,
    .main = translate_main,
};
