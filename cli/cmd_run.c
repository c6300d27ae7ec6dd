/* weft run - continue a prompt: text that comes as it is made, or one JSON object. */
#include "cli.h"
#include "json.h"
#include "lora.h"
#include "messages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_TOP 100 /* alternatives listed per token */

static const char *positional[2]; /* MODEL, TEXT */
static load_options load;
static shape_options shape;
static prompt_options prompt;
static text_list stops;
static const char *session_path, *lora;
static int64_t n_predict = 64, n_top, n_beam, n_best = 1;
static double length_penalty = 1;
static int when_full; /* 0 and 1: stop, 2: slide */
static bool json, ignore_eos, quiet;

static const option options[] = {
    OPTION_MODEL(load),
    OPTION_PROMPT(prompt),
    OPTION_FILE(prompt),
    OPTION_IDS(prompt),
    { 0, "chat", OPT_FLAG, &prompt.chat, NULL, SETTING,
      "the prompt is a message: put it into the model's chat template" },
    { 0, "system", OPT_TEXT, &prompt.system, "TEXT", SETTING, "with --chat: the system message" },
    { 0, "template", OPT_TEXT, &prompt.template, "FILE", RARE,
      "with --chat: use this template (the model's)" },
    { 0, "variables", OPT_TEXT, &prompt.variables, "JSON", SETTING | RARE,
      "with --chat: such as '{\"enable_thinking\": false}'" },
    { 'n', "predict", OPT_INT, &n_predict, "N", SETTING,
      "maximum tokens to generate; -1: until end of text (64)" },
    { 0, "stop", OPT_LIST, &stops, "TEXT", SETTING, "stop before TEXT; may be repeated" },
    { 0, "session", OPT_TEXT, &session_path, "FILE", 0,
      "resume from FILE if it exists, then save to it" },
    { 0, "when-full", OPT_CHOICE, &when_full, "stop|slide", SETTING | RARE,
      "full context: stop, or keep its later half (stop)" },
    OPTION_PARSE_SPECIAL(prompt.parse_special),
    OPTION_JSON(json, "print one JSON object at the end"),
    { 'q', "quiet", OPT_FLAG, &quiet, NULL, SETTING | RARE, "do not print speed, memory and seed" },
    { 0, "logprobs", OPT_INT, &n_top, "K", RARE,
      "with --json: log-probabilities, and of the top K tokens" },
    { 0, "beams", OPT_INT, &n_beam, "N", RARE, "beam search with N beams" },
    { 0, "n-best", OPT_INT, &n_best, "N", RARE, "with --beams: print the N best, with scores (1)" },
    { 0, "length-penalty", OPT_REAL, &length_penalty, "X", RARE,
      "with --beams: divide scores by length^X (1)" },
    { 0, "ignore-eos", OPT_FLAG, &ignore_eos, NULL, SETTING | RARE,
      "ignore the end-of-text token and continue" },
    OPTION_CTX_SIZE(shape),
    OPTION_BATCH_SIZE(shape),
    OPTION_THREADS(shape.threads),
    OPTION_KV_TYPE(shape),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_NO_PACK(load.no_pack),
    OPTION_COMPUTE(load),
    OPTION_LORA(lora),
    OPTION_TOKENIZER(load),
    OPTION_PRE(prompt.pre),
    { 0 },
};

static const char examples[] =
    "  weft run models/shakespeare.gguf \"ROMEO:\" -n 200\n"
    "  weft run ./model-directory -f prompt.txt --temp 0.8 --top-p 0.95 --seed 7\n";

typedef struct job {
    weft_model *model;
    weft_tokenizer *tokenizer; /* NULL where the prompt was ids */
    weft_engine *engine;
    weft_session *session;
    weft_sampler *sampler;
    weft_constraint *constraint; /* or NULL */
    lora_choice lora;
    int32_t *prompt;
    int64_t n_prompt;
    int64_t room; /* positions of the context */
    weft_generation made;
    struct output *output;
} job;

/* ---- what has been generated: printed as it comes, or kept for the JSON object --------------- */

typedef struct output {
    bool has_text; /* the model carries a vocabulary */
    int32_t *ids;
    int64_t n, room;
    char *text; /* the text printed so far, unchanged */
    size_t length;
    char *piece; /* bytes of the last token */
    size_t piece_room;
    weft_logprob *logprob; /* of each token, then n_top of its rivals; NULL: not asked for */
    int64_t n_slide;       /* how often the context slid */
    bool failed;           /* no memory, or no standard output */
} output;

static int64_t piece_of(const job *j, int32_t id, char *bytes, size_t size)
{
    return j->tokenizer ? weft_tokenizer_piece(j->tokenizer, id, bytes, size)
                        : weft_model_piece(j->model, id, bytes, size);
}

/* The bytes of a token are in o->piece. Returns how many, or -1 without memory. */
static int64_t take_piece(const job *j, output *o, int32_t id)
{
    int64_t n = piece_of(j, id, o->piece, o->piece_room);
    if (n > (int64_t)o->piece_room) {
        char *longer = cli_grow(o->piece, (size_t)n, "a token");
        if (!longer)
            return -1;
        o->piece = longer;
        o->piece_room = (size_t)n;
        n = piece_of(j, id, o->piece, o->piece_room);
    }
    return n > 0 ? n : 0;
}

/* Prints bytes. False without memory, or if standard output fails. */
static bool put_text(output *o, const char *bytes, size_t n)
{
    char *longer = n ? cli_grow(o->text, o->length + n, "the text") : o->text;
    if (n && !longer)
        return false;
    o->text = longer;
    if (n)
        memcpy(o->text + o->length, bytes, n);
    o->length += n;
    if (json)
        return true;
    fwrite(bytes, 1, n, stdout);
    return fflush(stdout) == 0;
}

/* Room for one more token and its log-probabilities. */
static bool make_room(output *o)
{
    if (o->n < o->room)
        return true;
    const int64_t room = o->room ? o->room + o->room / 2 : 256;
    int32_t *ids = cli_grow(o->ids, (size_t)room * sizeof *ids, "ids");
    o->ids = ids ? ids : o->ids;
    weft_logprob *l = n_top ? cli_grow(o->logprob, (size_t)(room * (1 + n_top)) * sizeof *l,
                                       "probabilities")
                            : NULL;
    o->logprob = l ? l : o->logprob;
    if (!ids || (n_top && !l))
        return false;
    o->room = room;
    return true;
}

/* Adds a token. Without a vocabulary its number is the text. */
static bool put_id(output *o, int32_t id)
{
    o->ids[o->n++] = id;
    if (o->has_text || json)
        return true;
    printf("%s%d", o->n > 1 ? "," : "", (int)id);
    return fflush(stdout) == 0;
}

/* The text of a token of a beam. */
static bool put_piece(const job *j, output *o, int32_t id)
{
    const int64_t n = o->has_text ? take_piece(j, o, id) : 0;
    return n == 0 || (n > 0 && put_text(o, o->piece, (size_t)n));
}

static bool has_text(const job *j)
{
    return piece_of(j, 0, NULL, 0) >= 0;
}

/* ---- the JSON object ------------------------------------------------------------------------- */

/* The members of an object that the caller begins and ends. */
static void json_logprob(const job *j, output *o, const weft_logprob *l)
{
    const int64_t n = o->has_text ? take_piece(j, o, l->id) : 0;
    cli_json_int("id", l->id);
    if (o->has_text)
        cli_json_text("token", o->piece, n > 0 ? (size_t)n : 0);
    cli_json_fixed("logprob", l->logprob, 6);
}

static void json_logprobs(const job *j, output *o)
{
    cli_json_list("logprobs");
    for (int64_t i = 0; i < o->n; i++) {
        const weft_logprob *l = o->logprob + i * (1 + n_top);
        cli_json_object(NULL);
        json_logprob(j, o, l);
        cli_json_list("top");
        for (int64_t k = 1; k <= n_top && l[k].id >= 0; k++) {
            cli_json_object(NULL);
            json_logprob(j, o, l + k);
            cli_json_end();
        }
        cli_json_end();
        cli_json_end();
    }
    cli_json_end();
}

/* The members of an object, to which a beam adds its score. */
static void json_result(const job *j, output *o, const char *why)
{
    cli_json_ids("ids", o->ids, o->n);
    if (o->has_text)
        cli_json_text("text", o->text, o->length);
    if (o->logprob)
        json_logprobs(j, o);
    cli_json_string("finish_reason", why);
}

static void json_cost(const job *j)
{
    if (cli_seed() >= 0)
        cli_json_int("seed", cli_seed());
    cli_json_int("n_prompt", j->n_prompt);
    cli_json_fixed("prompt_seconds", j->made.prompt_seconds, 6);
    cli_json_fixed("generate_seconds", j->made.generate_seconds, 6);
    cli_json_int("memory_bytes", (int64_t)cli_peak_memory());
}

static void print_end(const job *j, output *o, const char *why)
{
    if (!json) {
        putchar('\n');
        return;
    }
    cli_json_object(NULL);
    json_result(j, o, why);
    json_cost(j);
    cli_json_end();
}

/* ---- how long it took ------------------------------------------------------------------------ */

static void report(const job *j, const weft_engine_options *o, int64_t n)
{
    const double rate = j->made.generate_seconds > 0 ? (double)n / j->made.generate_seconds : 0,
                 share = cli_share_of_bandwidth(j->model, o, rate, j->made.generate_seconds);
    char memory[32];
    const int64_t n_read = j->n_prompt - j->made.n_reused;
    fprintf(stderr, "weft: prompt %lld token%s", (long long)j->n_prompt,
            j->n_prompt == 1 ? "" : "s");
    if (j->made.n_reused)
        fprintf(stderr, " (%lld reused)", (long long)j->made.n_reused);
    if (n_read > 0 && j->made.prompt_seconds > 0)
        fprintf(stderr, ", %.1f tok/s", (double)n_read / j->made.prompt_seconds);
    fprintf(stderr, "; generated %lld, %.1f tok/s", (long long)n, rate);
    if (share > 0)
        fprintf(stderr, ", %.0f %% of bandwidth", 100 * share);
    fprintf(stderr, "; memory %s\n", cli_bytes(cli_peak_memory(), memory, sizeof memory));
}

/* ---- the run --------------------------------------------------------------------------------- */

static bool still_reading(void *ud, uint64_t done, uint64_t total)
{
    (void)ud;
    cli_progress_set(done, total);
    return !cli_interrupted();
}

static void note_slide(const output *o, int64_t room)
{
    if (o->n_slide == 0 && !quiet)
        fprintf(stderr,
                "\nweft: the context of %lld tokens is full; continuing from its later half\n",
                (long long)room);
}

/* A token of weft_generate: prints its text, or keeps it. */
static bool take_token(void *ud, const weft_generated *token)
{
    const job *j = ud;
    output *o = j->output;
    cli_progress_end();
    if (cli_interrupted())
        return false;
    if (token->n_slide > o->n_slide) {
        note_slide(o, j->room);
        o->n_slide = token->n_slide;
    }
    if (token->id >= 0) {
        o->failed = !make_room(o);
        if (!o->failed && n_top)
            memcpy(o->logprob + o->n * (1 + n_top), token->logprobs,
                   (size_t)(1 + n_top) * sizeof *o->logprob);
        o->failed = o->failed || !put_id(o, token->id);
    }
    o->failed = o->failed || (o->has_text && !put_text(o, token->text, token->length));
    return !o->failed;
}

static const char *reason(weft_finish finish)
{
    switch (finish) {
    case WEFT_FINISH_END:
    case WEFT_FINISH_STOP:
        return "stop";
    case WEFT_FINISH_CALLER:
        return "interrupted";
    default:
        return "length";
    }
}

/* -n counts tokens, and -1 is without a limit; in weft.h that is 0, and -1 is none. */
static int64_t most_tokens(void)
{
    return n_predict < 0 ? 0 : n_predict == 0 ? -1 : n_predict;
}

static void output_free(output *o)
{
    cli_free(o->text);
    cli_free(o->ids);
    cli_free(o->piece);
    cli_free(o->logprob);
}

static int run_session(job *j, const weft_engine_options *engine_options, output *o)
{
    weft_error err = { 0 };
    const weft_generate_options how = { .struct_size = sizeof how,
                                        .prompt = j->prompt,
                                        .n_prompt = j->n_prompt,
                                        .n_new = most_tokens(),
                                        .stop = stops.at,
                                        .n_stop = stops.n,
                                        .ignore_end = ignore_eos,
                                        .slide = when_full == 2,
                                        .eval_last = session_path != NULL,
                                        .n_top = n_top,
                                        .progress = still_reading,
                                        .constraint = j->constraint };
    j->output = o;
    j->made.struct_size = sizeof j->made;
    cli_progress_begin("prompt", "tokens");
    const weft_status status = weft_generate(j->session, j->sampler, j->tokenizer, &how, take_token,
                                             j, &j->made, &err);
    cli_progress_end();
    if (status != WEFT_OK || o->failed)
        return err.code ? cli_fail(&err) : ferror(stdout) ? 1 : cli_no_memory();
    print_end(j, o, reason(j->made.finish));
    fflush(stdout);
    if (!quiet && strncmp(weft_sampler_describe(j->sampler), "greedy", 6) != 0)
        fprintf(stderr, "weft: %s\n", weft_sampler_describe(j->sampler));
    if (!quiet)
        report(j, engine_options, o->n);
    if (j->made.finish == WEFT_FINISH_CONTEXT)
        fprintf(stderr, "weft: stopped: the context of %lld tokens is full\n", (long long)j->room);
    if (session_path && weft_session_save(j->session, session_path, &err) != WEFT_OK)
        return cli_fail(&err);
    return j->made.finish == WEFT_FINISH_CALLER ? cli_stopped() : 0;
}

/* ---- beam search ----------------------------------------------------------------------------- */

/* Without the token that ended it, as in a run. */
static bool print_beam(const job *j, const weft_beam *b)
{
    const int64_t n = b->ended ? b->n - 1 : b->n;
    output o = { .has_text = has_text(j) };
    bool good = true;
    if (good && !json && n_best > 1)
        printf("%.6f ", b->score);
    for (int64_t i = 0; i < n && good; i++)
        good = make_room(&o) && put_id(&o, b->ids[i]) && put_piece(j, &o, b->ids[i]);
    if (good && json) {
        cli_json_object(NULL);
        json_result(j, &o, b->ended ? "stop" : "length");
        cli_json_fixed("score", b->score, 6);
        cli_json_end();
    }
    fputs(good && !json ? "\n" : "", stdout);
    output_free(&o);
    return good;
}

static bool print_beams(const job *j, const weft_beams *found)
{
    bool good = true;
    if (json) {
        cli_json_object(NULL);
        cli_json_list("beams");
    }
    for (int i = 0; i < found->n && good; i++)
        good = print_beam(j, &found->beam[i]);
    if (json) {
        cli_json_end();
        cli_json_end();
    }
    return good;
}

static int run_beams(job *j)
{
    weft_error err = { 0 };
    const weft_beam_options o = { .struct_size = sizeof o,
                                  .n_beam = (int)n_beam,
                                  .n_best = (int)n_best,
                                  .n_new = n_predict < 0 ? 0 : n_predict,
                                  .length_penalty = length_penalty,
                                  .adapter = j->lora.adapter,
                                  .strength = j->lora.strength };
    const double start = cli_now();
    cli_progress_begin("searching", NULL);
    weft_beams *found = weft_beam_search(j->engine, j->prompt, j->n_prompt, &o, &err);
    cli_progress_end();
    if (!found)
        return cli_fail(&err);
    const bool good = print_beams(j, found);
    fflush(stdout);
    if (!quiet)
        fprintf(stderr, "weft: prompt %lld tokens; %lld beams in %.2f s\n", (long long)j->n_prompt,
                (long long)n_beam, cli_now() - start);
    weft_beams_free(found);
    return good ? 0 : ferror(stdout) ? 1 : cli_no_memory();
}

/* ---- before it ------------------------------------------------------------------------------- */

static bool session_exists(void)
{
    return session_path && access(session_path, F_OK) == 0;
}

/* Checks before generating that the session can be saved afterwards. */
static int check_session(void)
{
    char directory[4096] = ".";
    const char *slash = session_path ? strrchr(session_path, '/') : NULL;
    if (slash)
        snprintf(directory, sizeof directory, "%.*s.", (int)(slash - session_path) + 1,
                 session_path);
    if (!session_path || access(directory, W_OK | X_OK) == 0)
        return 0;
    fprintf(stderr, "weft: %s: %s\n", session_path, strerror(errno));
    return 1;
}

/* A saved session continues with the tokens of the prompt appended. */
static int prompt_of_session(job *j)
{
    int64_t n;
    id_list all = { 0 };
    const int32_t *kept = weft_session_tokens(j->session, &n);
    if (n + j->n_prompt == 0)
        return cli_usage(&command_run, "%s: the session is empty; give a prompt", session_path);
    if (!cli_add_ids(&all, kept, n) || !cli_add_ids(&all, j->prompt, j->n_prompt)) {
        cli_free(all.at);
        return cli_no_memory();
    }
    cli_free(j->prompt);
    j->prompt = all.at;
    j->n_prompt = all.n;
    return 0;
}

static bool open_session(job *j, const weft_engine_options *o, weft_error *err)
{
    weft_engine_info info = { .struct_size = sizeof info };
    j->engine = weft_engine_new(j->model, o, err);
    if (!j->engine)
        return false;
    weft_engine_get_info(j->engine, &info);
    j->room = info.n_ctx;
    j->session = lora_session(&j->lora, j->engine, session_exists() ? session_path : NULL, err);
    return j->session;
}

static int sample(job *j, const weft_engine_options *engine_options)
{
    int code = 0;
    output o = { .has_text = has_text(j) };
    if (stops.n && !o.has_text)
        return cli_usage(&command_run,
                         "--stop: the model has no vocabulary, so it prints ids, not text");
    const weft_grammar_options form = { .struct_size = sizeof form, .model = j->model };
    j->sampler = cli_sampler(&command_run, j->model, j->tokenizer, &code);
    if (!code)
        code = cli_constraint(&command_run, &form, j->tokenizer, &j->constraint);
    if (code)
        return code;
    code = run_session(j, engine_options, &o);
    output_free(&o);
    return code;
}

static int run_model(job *j, weft_engine_options *engine_options)
{
    weft_error err = { 0 };
    int code = 0;
    engine_options->n_session = n_beam ? (int)n_beam : 1;
    if (!open_session(j, engine_options, &err))
        return cli_fail(&err);
    if (prompt.goes_on)
        code = prompt_of_session(j);
    return code ? code : n_beam ? run_beams(j) : sample(j, engine_options);
}

static int check_options(void)
{
    const command *c = &command_run;
    if (!load.path)
        return cli_which_model(c);
    if (n_predict < -1)
        return cli_usage(c, "--predict: %lld is out of range", (long long)n_predict);
    if (n_top < 0 || n_top > MAX_TOP)
        return cli_usage(c, "--logprobs: %lld is not in 0 to %d", (long long)n_top, MAX_TOP);
    if (n_top && !json)
        return cli_usage(c, "--logprobs is for --json");
    if (n_beam < 0 || n_beam > WEFT_MAX_BEAM)
        return cli_usage(c, "--beams: %lld is not in 0 to %d", (long long)n_beam, WEFT_MAX_BEAM);
    if (n_best < 1 || n_best > (n_beam ? n_beam : 1))
        return cli_usage(c, "--n-best: %lld is not in 1 to --beams", (long long)n_best);
    if (!prompt.chat && (prompt.system || prompt.template || prompt.variables))
        return cli_usage(c, "--%s is for --chat",
                         prompt.system     ? "system"
                         : prompt.template ? "template"
                                           : "variables");
    if (prompt.chat && (prompt.ids || prompt.parse_special || session_path))
        return cli_usage(c, "--chat excludes --ids, --parse-special and --session");
    if (n_beam && n_predict == 0)
        return cli_usage(c, "--predict: 0; expected at least 1 with --beams");
    if (n_beam && (n_top || stops.n || session_path || ignore_eos || cli_samples()))
        return cli_usage(
            c, "--beams excludes sampling, --stop, --session, --logprobs and --ignore-eos");
    if (cli_has_form() && (n_beam || when_full == 2))
        return cli_usage(c,
                         "--grammar, --regex and --schema exclude --beams and --when-full slide");
    return check_session();
}

static int run_main(void)
{
    const command *c = &command_run;
    weft_engine_options engine_options;
    weft_error err = { 0 };
    job j = { 0 };
    load.path = positional[0] ? positional[0] : load.path;
    int code = cli_take_prompt(c, &prompt, positional[1]);
    if (!code)
        code = check_options();
    if (!code)
        code = cli_engine_options(c, &shape, &engine_options);
    prompt.goes_on = session_exists();
    const bool resumes = prompt.goes_on && !cli_has_prompt(&prompt);
    if (!code && !resumes)
        code = cli_check_prompt(c, &prompt);
    if (code)
        return code;
    if (!n_beam) /* a search cannot be stopped half way: Ctrl-C ends the program */
        cli_catch_interrupt();
    code = cli_open_kind(&load, false, &j.model);
    if (!code)
        code = lora_open(c, lora, j.model, &j.lora, &engine_options.adapter_rank);
    if (!code && resumes)
        j.tokenizer = cli_tokenizer(&load, prompt.pre, &err); /* NULL: ids are shown */
    else if (!code)
        code = prompt.chat
                   ? cli_chat_prompt(c, &prompt, &load, &j.tokenizer, &j.prompt, &j.n_prompt)
                   : cli_prompt(c, &prompt, &load, &j.tokenizer, &j.prompt, &j.n_prompt);
    if (!code && load.tokenizer && !j.tokenizer)
        code = cli_fail(&err);
    if (!code)
        code = run_model(&j, &engine_options);
    weft_sampler_free(j.sampler);
    weft_constraint_free(j.constraint);
    weft_session_free(j.session);
    weft_engine_free(j.engine);
    weft_adapter_close(j.lora.adapter);
    weft_model_close(j.model);
    cli_free(j.prompt);
    weft_tokenizer_free(j.tokenizer);
    return code;
}

const command command_run = {
    .name = "run",
    .arguments = "MODEL [TEXT|-]",
    .summary = "generate text from a prompt",
    .examples = examples,
    .options = options,
    .more = sampling_options,
    .n_positional = 2,
    .positional = positional,
    .main = run_main,
};
