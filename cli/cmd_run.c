/* weft run - generate from a prompt. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static load_options load;
static shape_options shape;
static const char *ids_text, *prompt_text, *pre;
static int64_t n_predict = 64;
static double temperature;
static bool json, ignore_eos;

static const option options[] = {
    { 'm', "model", OPT_TEXT, &load.path, "PATH", "WEFT_MODEL",
      "GGUF file or Hugging Face directory" },
    { 'p', "prompt", OPT_TEXT, &prompt_text, "TEXT", NULL, "text to continue" },
    { 0, "ids", OPT_TEXT, &ids_text, "N,N,...", NULL, "prompt as token ids" },
    { 0, "pre", OPT_TEXT, &pre, "NAME", NULL, "how text is split, where the file does not say" },
    { 'n', "predict", OPT_INT, &n_predict, "N", NULL, "most tokens to generate (64)" },
    { 0, "temp", OPT_REAL, &temperature, "T", NULL, "0 is greedy, and the only one so far (0)" },
    { 0, "ignore-eos", OPT_FLAG, &ignore_eos, NULL, NULL,
      "go on after the token that ends a text" },
    { 'c', "ctx-size", OPT_INT, &shape.n_ctx, "N", "WEFT_CTX_SIZE",
      "positions (the model's, up to 4096)" },
    { 'b', "batch-size", OPT_INT, &shape.n_batch, "N", "WEFT_BATCH_SIZE",
      "most rows in one forward (256)" },
    { 't', "threads", OPT_INT, &shape.threads, "N", "WEFT_THREADS", "threads (one per processor)" },
    { 0, "kv-type", OPT_TEXT, &shape.kv_type, "TYPE", "WEFT_KV_TYPE",
      "cache: f32, f16, bf16, q8_0 (f16)" },
    { 0, "ram-max", OPT_SIZE, &load.ram_max, "SIZE", "WEFT_RAM_MAX",
      "take no more memory than this (0: no cap)" },
    { 0, "no-mmap", OPT_FLAG, &load.no_mmap, NULL, NULL, "copy the weights, do not map the file" },
    { 0, "json", OPT_FLAG, &json, NULL, NULL, "print one JSON object at the end" },
    { 0 },
};

static const char examples[] = "  weft run stories.gguf -p \"Once upon a time\" -n 200\n"
                               "  weft run ./model-directory --ids 1,403,407 --json\n";

/* ---- what has been generated: printed as it comes, or kept for the JSON object --------------- */

typedef struct output {
    const weft_model *model;
    const weft_tokenizer *tokenizer; /* NULL where the prompt was ids */
    bool has_text;                   /* the model carries a vocabulary */
    int32_t *ids;
    int64_t n;
    char *text; /* the pieces' bytes, one after the other; no space is added or taken away */
    size_t length;
} output;

static int64_t piece_of(const output *o, int32_t id, char *bytes, size_t size)
{
    return o->tokenizer ? weft_tokenizer_piece(o->tokenizer, id, bytes, size)
                        : weft_model_piece(o->model, id, bytes, size);
}

static bool output_add(output *o, int32_t id)
{
    const int64_t n = o->has_text ? piece_of(o, id, NULL, 0) : 0;
    o->ids[o->n++] = id;
    if (n <= 0)
        return true;
    char *longer = realloc(o->text, o->length + (size_t)n);
    if (!longer)
        return false;
    piece_of(o, id, longer + o->length, (size_t)n);
    o->text = longer;
    o->length += (size_t)n;
    return true;
}

/* Prints what came after the first `shown` bytes of text, or the last id. False if it cannot. */
static bool output_show(const output *o, size_t shown)
{
    if (json)
        return true;
    if (o->has_text)
        fwrite(o->text + shown, 1, o->length - shown, stdout);
    else
        printf("%s%d", o->n > 1 ? "," : "", (int)o->ids[o->n - 1]);
    return fflush(stdout) == 0;
}

static void output_end(const output *o, const char *stop)
{
    if (!json) {
        putchar('\n');
        return;
    }
    printf("{\"ids\":[");
    for (int64_t i = 0; i < o->n; i++)
        printf("%s%d", i ? "," : "", (int)o->ids[i]);
    putchar(']');
    if (o->has_text) {
        fputs(",\"text\":", stdout);
        cli_json_text(o->text ? o->text : "", o->length);
    }
    printf(",\"finish_reason\":\"%s\"}\n", stop);
}

static const char *tokens(int64_t n)
{
    return n == 1 ? "token" : "tokens";
}

static void report(int64_t n_prompt, double prompt, int64_t n, double generate)
{
    fprintf(stderr, "weft: prompt %lld %s, %.1f tok/s; generated %lld %s, %.1f tok/s\n",
            (long long)n_prompt, tokens(n_prompt), prompt > 0 ? (double)n_prompt / prompt : 0,
            (long long)n, tokens(n), generate > 0 ? (double)n / generate : 0);
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Generates into o and returns why it stopped; NULL on an error, which err names unless it is that
 * memory or standard output gave out. */
static const char *generate(weft_session *s, output *o, int64_t most, weft_error *err)
{
    while (o->n < most) {
        const int32_t id = weft_session_greedy(s);
        const size_t shown = o->length;
        if (cli_interrupted())
            return "interrupted";
        if (!ignore_eos && weft_model_is_end(o->model, id))
            return "stop";
        if (!output_add(o, id) || !output_show(o, shown))
            return NULL;
        if (o->n < most && weft_session_eval(s, &id, 1, err) != WEFT_OK)
            return err->code == WEFT_ECONTEXT ? "length" : NULL;
    }
    return "length";
}

/* In pieces, so that Ctrl-C does not wait for a long prompt: the bits are the same. A prompt that
 * cannot fit goes whole, for an error with its true length. */
static weft_status read_prompt(weft_session *s, const int32_t *ids, int64_t n, int64_t room,
                               weft_error *err)
{
    const int64_t piece = n > room ? n : 256;
    weft_status status = WEFT_OK;
    for (int64_t at = 0; at < n && status == WEFT_OK && !cli_interrupted(); at += piece)
        status = weft_session_eval(s, ids + at, n - at < piece ? n - at : piece, err);
    return status;
}

static int run_session(output *o, weft_session *s, const int32_t *ids, int64_t n, int64_t room)
{
    weft_error err = { 0 };
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(o->model, &info);
    const int64_t most = n_predict <= info.n_ctx ? n_predict
                                                 : info.n_ctx + 1; /* full before that */
    o->ids = malloc((size_t)(most + 1) * sizeof *o->ids);
    if (!o->ids)
        return cli_no_memory();

    const double start = cli_now();
    if (read_prompt(s, ids, n, room, &err) != WEFT_OK)
        return cli_fail(&err);
    const double ready = cli_now();
    const char *stop = cli_interrupted() ? "interrupted" : generate(s, o, most, &err);
    if (!stop)
        return err.code ? cli_fail(&err) : ferror(stdout) ? 1 : cli_no_memory();
    output_end(o, stop);
    fflush(stdout);
    report(n, ready - start, o->n, cli_now() - ready);
    if (err.code)
        fprintf(stderr, "weft: stopped: %s\n", err.message);
    return strcmp(stop, "interrupted") == 0 ? EXIT_INTERRUPTED : 0;
}

static int run_model(const weft_engine_options *engine_options, const weft_tokenizer *tokenizer,
                     const int32_t *ids, int64_t n)
{
    weft_error err = { 0 };
    weft_model *model = cli_open(&load, &err);
    weft_engine *engine = model ? weft_engine_new(model, engine_options, &err) : NULL;
    weft_session *session = engine ? weft_session_new(engine, &err) : NULL;
    output o = { .model = model, .tokenizer = tokenizer };
    o.has_text = session && piece_of(&o, 0, NULL, 0) >= 0;
    weft_memory_plan plan = { .struct_size = sizeof plan };
    const bool ready = session && weft_engine_plan(model, engine_options, &plan, &err) == WEFT_OK;
    const int code = ready ? run_session(&o, session, ids, n, plan.n_ctx) : cli_fail(&err);
    free(o.text);
    free(o.ids);
    weft_session_free(session);
    weft_engine_free(engine);
    weft_model_close(model);
    return code;
}

/* The model's own tokenizer turns the text into ids; it is the only one who puts BOS before. */
static int run_prompt(const weft_engine_options *engine_options)
{
    weft_error err = { 0 };
    const weft_tokenizer_options o = {
        .struct_size = sizeof o, .load = WEFT_LOAD_MAP, .ram_max = load.ram_max, .pre = pre
    };
    weft_tokenizer *t = weft_tokenizer_load(load.path, &o, &err);
    weft_tokens *k = t ? weft_tokenizer_encode(t, prompt_text, strlen(prompt_text), NULL, &err)
                       : NULL;
    int code;
    if (!k)
        code = cli_fail(&err);
    else if (k->n == 0)
        code = cli_usage(&command_run,
                         "--prompt: the text gives no tokens, and nothing to go on from");
    else
        code = run_model(engine_options, t, k->ids, k->n);
    weft_tokens_free(k);
    weft_tokenizer_free(t);
    return code;
}

static int run_ids(const weft_engine_options *engine_options)
{
    int32_t *ids = NULL;
    int64_t n = 0;
    int code = cli_parse_ids(&command_run, ids_text, &ids, &n);
    if (!code)
        code = run_model(engine_options, NULL, ids, n);
    free(ids);
    return code;
}

static int run_main(void)
{
    weft_engine_options engine_options;
    if (!load.path)
        return cli_usage(&command_run, "which model? Give a GGUF file or a Hugging Face directory");
    if (!ids_text && !prompt_text)
        return cli_usage(&command_run, "what to continue? Give a text: -p \"Once upon a time\"");
    if (ids_text && prompt_text)
        return cli_usage(&command_run, "--prompt and --ids: give one of them");
    if (temperature != 0)
        return cli_usage(&command_run, "--temp %g: only greedy (0) exists so far", temperature);
    if (n_predict < 0)
        return cli_usage(&command_run, "--predict: %lld is out of range", (long long)n_predict);
    const int code = cli_engine_options(&command_run, &shape, &engine_options);
    if (code)
        return code;
    cli_catch_interrupt();
    return prompt_text ? run_prompt(&engine_options) : run_ids(&engine_options);
}

const command command_run = {
    .name = "run",
    .arguments = "MODEL",
    .summary = "continue a prompt",
    .examples = examples,
    .options = options,
    .n_positional = 1,
    .positional = &load.path,
    .main = run_main,
};
