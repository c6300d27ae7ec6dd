/* weft trace - every intermediate tensor of a forward: shapes, statistics, formulas, and what the
 * output becomes when some of them are changed.
 *
 * The whole prompt runs in one forward, so that every tensor is complete. With changes, a forward
 * without them comes first, to compare with. */
#include "changes.h"
#include "json.h"
#include "tops.h"
#include "trace_lines.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TOP     5 /* tokens that may come next */
#define MAX_TOP 1000

static const char *positional[2]; /* MODEL, TEXT */
static load_options load;
static shape_options shape;
static prompt_options prompt;
static text_list only, zero, scale, patch;
static target_options target;
static const char *npy;
static bool json, maps, open_ops, lens, all_logits;
static int64_t n_top = TOP;

static const option options[] = {
    OPTION_MODEL(load),
    OPTION_PROMPT(prompt),
    OPTION_FILE(prompt),
    OPTION_IDS(prompt),
    OPTION_TARGET(target),
    OPTION_TARGET_IDS(target),
    { 0, "only", OPT_LIST, &only, "GLOB", 0, "only tensors matching 'blk.0.*'; may be repeated" },
    { 0, "maps", OPT_FLAG, &maps, NULL, 0, "also print attention scores and probabilities" },
    { 0, "open", OPT_FLAG, &open_ops, NULL, RARE, "also print what fused ops compute on the way" },
    { 0, "lens", OPT_FLAG, &lens, NULL, 0, "print the most probable tokens after each layer" },
    { 0, "all-logits", OPT_FLAG, &all_logits, NULL, RARE,
      "output of every token, not of the last" },
    { 0, "top", OPT_INT, &n_top, "N", RARE, "number of probable tokens to print (5)" },
    { 0, "zero", OPT_LIST, &zero, "NAME", 0, "set a tensor, or blk.3.attn.head.2, to 0" },
    { 0, "scale", OPT_LIST, &scale, "NAME=X", RARE, "multiply a tensor or head by X" },
    { 0, "patch", OPT_LIST, &patch, "NAME=FILE", RARE, "replace a tensor or head by FILE.npy" },
    { 0, "npy", OPT_TEXT, &npy, "DIR", 0, "write each tensor to DIR/NAME.npy" },
    OPTION_THREADS(shape.threads),
    OPTION_KV_TYPE_OR(shape, "f32"),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_NO_PACK(load.no_pack),
    OPTION_COMPUTE(load),
    OPTION_TOKENIZER(load),
    OPTION_PRE(prompt.pre),
    OPTION_PARSE_SPECIAL(prompt.parse_special),
    OPTION_JSON(json, "print one JSON object per tensor"),
    { 0 },
};

static const char examples[] =
    "  weft trace models/shakespeare.gguf \"ROMEO:\"\n"
    "  weft trace model.gguf -p \"Once upon\" --only 'blk.0.*' --maps\n"
    "  weft trace model.gguf -p \"Once upon\" --zero blk.3.attn.head.2 --lens\n";

static const char about[] =
    "Rows are tokens, maps are [tokens, heads, positions]. For vision models, TEXT is the\n"
    "path of an image. A changed tensor is compared: probabilities before and after.\n";

/* ---- during the forward ---------------------------------------------------------------------- */

/* What one command sees of a model. */
typedef struct seen {
    weft_model *model;
    weft_model_info info;
    id_names names;               /* of the output */
    const weft_tokenizer *reader; /* of the text, or NULL */
    const weft_engine_options *options;
    int64_t n_row; /* rows that have an output, with --all-logits */
    changes changes;
    trace_lines lines;
    int64_t width; /* of the output */
    float *plain;  /* [width] the last row of the output without changes ... */
    float *out;    /* ... and with them */
    bool has_out;
    tops layers; /* after each layer, the last row */
    tops rows;   /* every row of the output */
} seen;

static bool wanted(const char *name)
{
    for (int i = 0; i < only.n; i++)
        if (fnmatch(only.at[i], name, 0) == 0)
            return true;
    return only.n == 0;
}

/* The last tensor that is as wide as the output is the output: of the model, or of a lens. */
static void look_at_output(seen *s, const weft_trace_tensor *t)
{
    int layer;
    if (t->cols != s->width || strstr(t->name, "blk."))
        return;
    if (sscanf(t->name, "lens.%d.", &layer) == 1)
        tops_set(&s->layers, layer, t->data + (t->rows - 1) * t->stride, t->cols);
    else
        for (int64_t i = 0; i < t->rows; i++)
            tops_set(&s->rows, i, t->data + i * t->stride, t->cols);
}

static void look(void *ud, const weft_trace_tensor *t)
{
    seen *s = ud;
    changes_look(&s->changes, t->name);
    look_at_output(s, t);
    if (wanted(t->name))
        trace_lines_add(&s->lines, t);
}

/* ---- the forward ----------------------------------------------------------------------------- */

static weft_trace_options trace_options(seen *s)
{
    const bool some = s->changes.n > 0;
    return (weft_trace_options){ .struct_size = sizeof(weft_trace_options),
                                 .hook = some ? changes_apply : NULL,
                                 .hook_ud = &s->changes,
                                 .attention_maps = maps,
                                 .open = open_ops,
                                 .lens = lens,
                                 .all_logits = all_logits };
}

/* The ids are what is evaluated; or, with an encoder, the source, and the decoder reads `then`. */
typedef struct texts {
    const int32_t *ids, *then;
    int64_t n, n_then;
} texts;

static weft_status evaluate(const seen *s, weft_session *session, const texts *x, weft_error *err)
{
    if (s->info.n_layer_src == 0)
        return weft_session_eval(session, x->ids, x->n, err);
    const weft_status status = weft_session_source(session, x->ids, x->n, err);
    return status == WEFT_OK ? weft_session_eval(session, x->then, x->n_then, err) : status;
}

/* The last row of the output goes to out [width]. */
static weft_status forward(seen *s, const texts *x, bool plain, weft_error *err)
{
    weft_engine *engine = weft_engine_new(s->model, s->options, err);
    weft_session *session = engine ? weft_session_new(engine, err) : NULL;
    const weft_trace_options o = trace_options(s);
    weft_status status = !session ? err->code
                         : plain  ? WEFT_OK
                                  : weft_engine_trace_with(engine, look, s, &o, err);
    cli_progress_begin("tracing", NULL);
    if (status == WEFT_OK)
        status = evaluate(s, session, x, err);
    cli_progress_end();
    if (status == WEFT_OK)
        memcpy(plain ? s->plain : s->out, weft_session_logits(session),
               (size_t)s->width * sizeof *s->out);
    s->has_out = status == WEFT_OK;
    weft_session_free(session);
    weft_engine_free(engine);
    return status;
}

/* The same for an encoder, whose output is one of labels or of tokens, or a vector, which has no
 * probabilities. */
static weft_status forward_whole(seen *s, weft_input in, bool plain, weft_error *err)
{
    const weft_encoder_options e = { .struct_size = sizeof e,
                                     .threads = s->options->threads,
                                     .n_ctx = in.n };
    const weft_trace_options o = trace_options(s);
    weft_encoder *encoder = weft_encoder_new(s->model, &e, err);
    weft_status status = !encoder ? err->code
                         : plain  ? WEFT_OK
                                  : weft_encoder_trace_with(encoder, look, s, &o, err);
    const int64_t n = status == WEFT_OK ? weft_encoder_rows(encoder, &in) : 0;
    const int64_t width = status == WEFT_OK ? weft_encoder_width(encoder) : 0;
    if (status == WEFT_OK)
        in.out = cli_zalloc((size_t)(n * width), sizeof *in.out, "the output");
    s->lines.no_memory = status == WEFT_OK && !in.out;
    if (in.out)
        status = weft_encoder_eval(encoder, &in, 1, err);
    s->has_out = status == WEFT_OK && in.out && n > 0 && width == s->width &&
                 s->info.task != WEFT_TASK_EMBED && s->info.task != WEFT_TASK_ANSWER && width > 1;
    if (s->has_out)
        memcpy(plain ? s->plain : s->out, in.out + (n - 1) * width, (size_t)width * sizeof *in.out);
    cli_free(in.out);
    weft_encoder_free(encoder);
    return status;
}

/* ---- what is printed ------------------------------------------------------------------------- */

#define SHOWN 32 /* tokens of a prompt */

static void print_tokens(const weft_tokenizer *t, const int32_t *ids, int64_t n)
{
    fputs("tokens", stdout);
    for (int64_t i = 0; i < n && i < SHOWN; i++) {
        char bytes[64];
        printf(" %d", (int)ids[i]);
        const int64_t length = t ? weft_tokenizer_piece(t, ids[i], bytes, sizeof bytes) : 0;
        if (length > 0 && length <= (int64_t)sizeof bytes)
            cli_print_bytes(bytes, (size_t)length);
    }
    if (n > SHOWN)
        printf(" ... %lld in all", (long long)n);
    fputs("\n\n", stdout);
}

/* After each layer or each row; a name is "lens 3" or "row 3". */
static void show_tops(const char *what, const id_names *names, const tops *t)
{
    for (int64_t i = 0; i < t->n_row; i++) {
        const weft_logprob *top = t->at + i * t->k;
        if (!t->has[i])
            continue;
        if (json) {
            cli_json_object(NULL);
            cli_json_int(what, i);
            top_json("next", names, top, t->k);
            cli_json_end();
        } else {
            printf("%s%s %lld", i == 0 ? "\n" : "", what, (long long)i);
            top_print(names, top, t->k);
        }
    }
}

/* In JSON only with --top, because other lines are tensors. */
static void show_next(const seen *s, int64_t k)
{
    tops t;
    if (!tops_new(&t, 1, k)) {
        tops_free(&t);
        return;
    }
    tops_set(&t, 0, s->out, s->width);
    if (!json) {
        fputs(s->info.task == WEFT_TASK_GENERATE ? "\nnext" : "\noutput", stdout);
        top_print(&s->names, t.at, k);
    } else if (option_given(option_named(&command_trace, "top", 3))) {
        cli_json_object(NULL);
        top_json("next", &s->names, t.at, k);
        cli_json_end();
    }
    tops_free(&t);
}

static int show(const seen *s, const int32_t *ids, int64_t n)
{
    const trace_lines *l = &s->lines;
    if (l->failed[0]) {
        fprintf(stderr, "weft: %s\n", l->failed);
        return 1;
    }
    if (l->no_memory)
        return cli_no_memory();
    if (l->n == 0)
        return cli_usage(&command_trace, "--only %s: no tensor matches", only.at[0]);
    const int code = changes_check(&command_trace, &s->changes);
    if (code)
        return code;
    if (json) {
        trace_lines_json(l);
    } else {
        if (ids)
            print_tokens(s->reader, ids, n);
        trace_lines_print(l);
    }
    const int64_t k = n_top < s->width ? n_top : s->width;
    show_tops("lens", &s->names, &s->layers);
    if (all_logits)
        show_tops("row", &s->names, &s->rows);
    if (s->has_out)
        show_next(s, k);
    return s->has_out && s->changes.n > 0
               ? tops_compare(&s->names, s->plain, s->out, s->width, k, json)
               : 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Room for the output, which is as wide as the model says. */
static int seen_begin(seen *s)
{
    const int64_t k = n_top < s->width ? n_top : s->width;
    s->plain = cli_zalloc((size_t)s->width, sizeof *s->plain, "the output");
    s->out = cli_zalloc((size_t)s->width, sizeof *s->out, "the output");
    const bool room = s->plain && s->out && tops_new(&s->layers, lens ? s->info.n_layer : 0, k) &&
                      tops_new(&s->rows, all_logits ? s->n_row : 0, k);
    return room ? 0 : cli_no_memory();
}

static int trace_picture(seen *s)
{
    weft_error err = { 0 };
    if (!prompt.text)
        return cli_usage(&command_trace, "%s takes images; give the path of one, digit.png",
                         load.path);
    weft_image *image = weft_image_open(s->model, prompt.text, &err);
    if (!image)
        return cli_fail(&err);
    const weft_input in = { .features = image->features, .n = image->n };
    s->n_row = image->n;
    int code = seen_begin(s);
    if (!code && s->changes.n > 0)
        code = forward_whole(s, in, true, &err) == WEFT_OK ? 0 : cli_fail(&err);
    if (!code)
        code = forward_whole(s, in, false, &err) == WEFT_OK ? show(s, NULL, 0) : cli_fail(&err);
    weft_image_free(image);
    return code;
}

static int trace_ids(seen *s, weft_engine_options *o, const texts *x)
{
    weft_error err = { 0 };
    const int64_t most = x->n > x->n_then ? x->n : x->n_then;
    const bool generates = s->info.task == WEFT_TASK_GENERATE;
    const weft_input in = { .ids = x->ids, .n = x->n };
    if (o->kv_type == 0)
        o->kv_type = WEFT_KV_F32; /* numbers as others show them, who keep no cache */
    o->n_ctx = most;
    o->n_batch = most < INT_MAX ? (int)most : INT_MAX;
    s->options = o;
    s->n_row = s->info.n_layer_src > 0 ? x->n_then : x->n;
    int code = seen_begin(s);
    for (int plain = s->changes.n > 0; plain >= 0 && !code; plain--) {
        const weft_status status = generates ? forward(s, x, plain, &err)
                                             : forward_whole(s, in, plain, &err);
        code = status == WEFT_OK ? 0 : cli_fail(&err);
    }
    return code ? code : show(s, x->ids, x->n);
}

static int trace_text(seen *s, weft_engine_options *o)
{
    weft_tokenizer *t = NULL, *target_tokenizer = NULL;
    int32_t *ids = NULL;
    id_list then = { 0 };
    texts x = { 0 };
    int code = cli_check_target(&command_trace, &target, &load, &s->info);
    prompt.side = s->info.n_layer_src > 0 ? WEFT_SIDE_SOURCE : WEFT_SIDE_ANY;
    if (!code)
        code = cli_check_prompt(&command_trace, &prompt);
    if (!code)
        code = cli_prompt(&command_trace, &prompt, &load, &t, &ids, &x.n);
    if (!code && s->info.n_layer_src > 0)
        code = cli_target(&command_trace, &target, &prompt, &load, s->info.start_id, &then,
                          &target_tokenizer);
    s->reader = t;
    s->names.tokenizer = target_tokenizer ? target_tokenizer : t;
    x = (texts){ ids, then.at, x.n, then.n };
    if (!code)
        code = trace_ids(s, o, &x);
    cli_free(ids);
    cli_free(then.at);
    weft_tokenizer_free(target_tokenizer);
    weft_tokenizer_free(t);
    return code;
}

static int trace_model(seen *s, weft_engine_options *o)
{
    int code = changes_read(&command_trace, &zero, &scale, &patch, s->info.n_head, &s->changes);
    if (!code && npy && mkdir(npy, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "weft: %s: %s\n", npy, strerror(errno));
        code = 1;
    }
    if (!code)
        code = s->info.images ? trace_picture(s) : trace_text(s, o);
    changes_free(&s->changes);
    tops_free(&s->layers);
    tops_free(&s->rows);
    cli_free(s->plain);
    cli_free(s->out);
    cli_free(s->lines.at);
    return code;
}

static int trace_main(void)
{
    const command *c = &command_trace;
    weft_engine_options o;
    weft_error err = { 0 };
    load.path = positional[0] ? positional[0] : load.path;
    if (!load.path)
        return cli_which_model(c);
    int code = cli_take_prompt(c, &prompt, positional[1]);
    if (!code && (n_top < 1 || n_top > MAX_TOP))
        code = cli_usage(c, "--top: %lld is not in 1 to %d", (long long)n_top, MAX_TOP);
    if (!code)
        code = cli_engine_options(c, &shape, &o);
    if (code)
        return code;
    seen s = { .model = cli_open(&load, &err),
               .info.struct_size = sizeof s.info,
               .lines.npy = npy,
               .options = &o };
    if (!s.model)
        return cli_fail(&err);
    weft_model_get_info(s.model, &s.info);
    s.lines.n_head = s.info.n_head;
    s.width = s.info.n_out;
    s.names.labels = s.info.task == WEFT_TASK_CLASSIFY || s.info.task == WEFT_TASK_TAG ? s.model
                                                                                       : NULL;
    all_logits = all_logits || target.text || target.ids;
    code = trace_model(&s, &o);
    weft_model_close(s.model);
    return code;
}

const command command_trace = {
    .name = "trace",
    .arguments = "MODEL [TEXT|-]",
    .summary = "print every intermediate tensor of a forward pass",
    .examples = examples,
    .about = about,
    .options = options,
    .n_positional = 2,
    .positional = positional,
    .main = trace_main,
};
