/* Every public function with arguments out of range, one at a time and in pairs.
 * tools/hostile_api.py generates the calls from weft.h; this file has the objects, the values and
 * the checks: a value out of range is refused with a message, or with NULL, -1, 0 or false where
 * there is no error parameter. Nothing outside the arguments is read or written, and all objects
 * work as before. */
#include "support.h"
#include "weft.h"

#include <math.h>
#include <sys/stat.h>

#define CAP ((size_t)64 << 20) /* bounds the memory of accepted calls */

typedef struct objects {
    const char *name;            /* of the golden model */
    bool images, source, labels; /* takes images; has an encoder before its decoder; has labels */
    bool slow;                   /* also functions that train, measure or write files */
    bool alone;                  /* it is only a decoder */
    char path[512], gguf[512], vocabulary[512], learned[512], saved[512], ids_file[512];
    char run[512], page[512], text_file[512], table[512], pictures[512], picture[512], out[512];
    char jinja[512], adapter_path[512], points[512];
    const char *messages;
    const char *data_paths[1], *table_paths[1], *picture_paths[1], *strings[1];

    weft_model *model;
    weft_engine *engine; /* of models that generate */
    weft_session *session;
    weft_encoder *encoder; /* of models that do not */
    weft_tokenizer *tokenizer;
    weft_sampler *sampler;
    weft_decoder *decoder;
    weft_stop *stop;
    weft_grammar *grammar; /* any tokens */
    weft_constraint *constraint;
    weft_template *chat;
    weft_call_reader *calls;
    const char *tools;
    weft_data *data;
    weft_budget *budget;
    weft_image *image;
    weft_engine *queue; /* the scheduler's own */
    weft_scheduler *scheduler;
    weft_adapter *adapter; /* of the model that has one */

    int n_run;
    int64_t n_vocab, count;
    size_t size, picture_size;
    int32_t ids[8], id, at[2], ends[1];
    const char *word;
    char text[16], bytes[64], found[4096], *picture_bytes;
    float logits[128]; /* after the ids */
    float encoded[64 * 128], again[64 * 128];
    weft_logprob logprobs[128];
    weft_token_prob chances[128];
    weft_bias bias[1];
} objects;

/* ---- valid values ---------------------------------------------------------------------------- */

static void set_path(char *to, const char *name, const char *kind)
{
    char whole[64];
    snprintf(whole, sizeof whole, "%s-%s", kind, name);
    snprintf(to, 512, "%s", temp_path(whole));
}

/* A result struct: only its size is input. */
#define RESULT(type)                                                                               \
    static type valid_##type(const objects *f)                                                     \
    {                                                                                              \
        (void)f;                                                                                   \
        return (type){ .struct_size = sizeof(type) };                                              \
    }

RESULT(weft_model_info)
RESULT(weft_tensor_info)
RESULT(weft_convert_info)
RESULT(weft_tokenizer_info)
RESULT(weft_tokenizer_train_info)
RESULT(weft_engine_info)
RESULT(weft_adapter_info)
RESULT(weft_memory_plan)
RESULT(weft_model_cost)
RESULT(weft_speed)
RESULT(weft_score)
RESULT(weft_evaluation)
RESULT(weft_train_info)
RESULT(weft_data_info)
RESULT(weft_generation)
RESULT(weft_template_info)
RESULT(weft_report_info)

static weft_model_options valid_weft_model_options(const objects *f)
{
    (void)f;
    return (weft_model_options){ .struct_size = sizeof(weft_model_options), .ram_max = CAP };
}

static weft_find_options valid_weft_find_options(const objects *f)
{
    (void)f;
    return (weft_find_options){ .struct_size = sizeof(weft_find_options), .ram_max = CAP };
}

static weft_convert_options valid_weft_convert_options(const objects *f)
{
    (void)f;
    return (weft_convert_options){ .struct_size = sizeof(weft_convert_options),
                                   .type = "f32",
                                   .force = true,
                                   .ram_max = CAP,
                                   .n_thread = 1 };
}

static weft_tokenizer_options valid_weft_tokenizer_options(const objects *f)
{
    (void)f;
    return (weft_tokenizer_options){ .struct_size = sizeof(weft_tokenizer_options),
                                     .ram_max = CAP };
}

static weft_tokenize_options valid_weft_tokenize_options(const objects *f)
{
    (void)f;
    return (weft_tokenize_options){ .struct_size = sizeof(weft_tokenize_options), .spans = true };
}

static weft_tokenizer_train_options valid_weft_tokenizer_train_options(const objects *f)
{
    (void)f;
    return (weft_tokenizer_train_options){ .struct_size = sizeof(weft_tokenizer_train_options),
                                           .n_vocab = 300,
                                           .threads = 1,
                                           .ram_max = CAP };
}

static weft_engine_options valid_weft_engine_options(const objects *f)
{
    (void)f;
    return (weft_engine_options){ .struct_size = sizeof(weft_engine_options),
                                  .threads = 1,
                                  .n_session = 4,
                                  .n_batch = 16,
                                  .n_ctx = 16,
                                  .adapter_rank = 2 };
}

static weft_encoder_options valid_weft_encoder_options(const objects *f)
{
    (void)f;
    return (weft_encoder_options){ .struct_size = sizeof(weft_encoder_options), .threads = 1 };
}

static weft_trace_options valid_weft_trace_options(const objects *f)
{
    (void)f;
    return (weft_trace_options){ .struct_size = sizeof(weft_trace_options), .open = true };
}

static weft_input valid_weft_input(const objects *f)
{
    return (weft_input){ .ids = f->images ? NULL : f->ids,
                         .features = f->images ? f->image->features : NULL,
                         .n = f->images ? f->image->n : 5,
                         .at = f->at,
                         .n_at = 2,
                         .out = (float *)f->again };
}

static weft_eval_request valid_weft_eval_request(const objects *f)
{
    return (weft_eval_request){ .session = f->session, .ids = f->ids, .n = 3 };
}

static weft_logprob valid_weft_logprob(const objects *f)
{
    (void)f;
    return (weft_logprob){ .id = 3 };
}

static weft_tool_options valid_weft_tool_options(const objects *f)
{
    (void)f;
    return (weft_tool_options){ .struct_size = sizeof(weft_tool_options) };
}

static weft_grammar_options valid_weft_grammar_options(const objects *f)
{
    (void)f;
    return (weft_grammar_options){ .struct_size = sizeof(weft_grammar_options) };
}

static weft_sampler_options valid_weft_sampler_options(const objects *f)
{
    return (weft_sampler_options){ .struct_size = sizeof(weft_sampler_options),
                                   .temperature = 0.8,
                                   .top_k = 20,
                                   .repetition = 1.1,
                                   .dry_multiplier = 0.5,
                                   .dry_last_n = 64,
                                   .bias = f->bias,
                                   .n_bias = 1,
                                   .breakers = f->ends,
                                   .n_breaker = 1,
                                   .n_vocab = f->n_vocab };
}

static weft_beam_options valid_weft_beam_options(const objects *f)
{
    return (weft_beam_options){ .struct_size = sizeof(weft_beam_options),
                                .n_beam = 2,
                                .n_best = 1,
                                .n_new = 3,
                                .ends = f->ends,
                                .n_end = 1,
                                .source = f->source ? f->ids : NULL,
                                .n_source = f->source ? 2 : 0 };
}

static weft_template_options valid_weft_template_options(const objects *f)
{
    (void)f;
    return (weft_template_options){ .struct_size = sizeof(weft_template_options), .ram_max = CAP };
}

static weft_render_options valid_weft_render_options(const objects *f)
{
    (void)f;
    return (weft_render_options){ .struct_size = sizeof(weft_render_options),
                                  .tools = "[]",
                                  .variables = "{}" };
}

static weft_generate_options valid_weft_generate_options(const objects *f)
{
    return (weft_generate_options){ .struct_size = sizeof(weft_generate_options),
                                    .prompt = f->ids,
                                    .n_prompt = 3,
                                    .n_new = 2,
                                    .ends = f->ends,
                                    .n_end = 1,
                                    .n_top = 2 };
}

static weft_scheduler_options valid_weft_scheduler_options(const objects *f)
{
    (void)f;
    return (weft_scheduler_options){ .struct_size = sizeof(weft_scheduler_options),
                                     .n_running = 2 };
}

static weft_scheduler_info valid_weft_scheduler_info(const objects *f)
{
    (void)f;
    return (weft_scheduler_info){ .struct_size = sizeof(weft_scheduler_info) };
}

static weft_request valid_weft_request(const objects *f)
{
    static weft_generate_options generate;
    generate = valid_weft_generate_options(f);
    return (weft_request){ .struct_size = sizeof(weft_request),
                           .generate = &generate,
                           .source = f->source ? f->ids : NULL,
                           .n_source = f->source ? 2 : 0,
                           .key = "somebody" };
}

static weft_document valid_weft_document(const objects *f)
{
    return (weft_document){ f->ids, 5 };
}

static weft_evaluate_options valid_weft_evaluate_options(const objects *f)
{
    (void)f;
    return (weft_evaluate_options){
        .struct_size = sizeof(weft_evaluate_options), .threads = 1, .n_batch = 4, .n_ctx = 4
    };
}

static weft_explain_options valid_weft_explain_options(const objects *f)
{
    (void)f;
    return (weft_explain_options){ .struct_size = sizeof(weft_explain_options), .token = -1 };
}

static weft_explain_kernels_options valid_weft_explain_kernels_options(const objects *f)
{
    (void)f;
    return (weft_explain_kernels_options){ .struct_size = sizeof(weft_explain_kernels_options),
                                           .ram_max = CAP };
}

static weft_alignment_options valid_weft_alignment_options(const objects *f)
{
    return (weft_alignment_options){
        .struct_size = sizeof(weft_alignment_options), .source = f->ids, .n_source = 2, .threads = 1
    };
}

static weft_report_options valid_weft_report_options(const objects *f)
{
    (void)f;
    return (weft_report_options){ .struct_size = sizeof(weft_report_options), .ram_max = CAP };
}

static bool stop_at_once(void *ud, const weft_train_progress *p, weft_model *m)
{
    (void)ud;
    (void)p;
    (void)m;
    return false;
}

static void see_weight(void *ud, const weft_train_tensor *t)
{
    (void)ud;
    (void)t;
}

/* Options of a run that has not started, for every call. */
static weft_train_options valid_weft_train_options(objects *f)
{
    weft_train_options o;
    weft_train_defaults(&o, sizeof o);
    set_path(f->out, f->name, "out");
    snprintf(f->out + strlen(f->out), 8, "-%d", f->n_run++);
    o.out = f->out;
    o.model = f->labels ? NULL : f->path;
    o.tokenizer = f->images ? NULL : f->vocabulary;
    o.data = f->images ? f->picture_paths : f->labels ? f->table_paths : f->data_paths;
    o.validation = 0;
    o.n_data = 1;
    o.n_ctx = 8;
    o.n_sample = 1;
    o.n_step = 1;
    o.threads = 1;
    o.ram_max = CAP;
    o.progress = stop_at_once;
    o.tensor = see_weight;
    return o;
}

static weft_simulation_options valid_weft_simulation_options(const objects *f)
{
    static const weft_step step = { .struct_size = sizeof step, .n_row = 1, .seconds = 1e-3 };
    (void)f;
    return (weft_simulation_options){ .struct_size = sizeof(weft_simulation_options),
                                      .steps = &step,
                                      .n_steps = 1 };
}

static weft_load_request valid_weft_load_request(const objects *f)
{
    static const weft_load_part part = { 1, 3 };
    (void)f;
    return (weft_load_request){ .part = &part, .n_part = 1, .n_new = 2 };
}

static weft_simulation_info valid_weft_simulation_info(const objects *f)
{
    (void)f;
    return (weft_simulation_info){ .struct_size = sizeof(weft_simulation_info) };
}

static weft_train_network valid_weft_train_network(const objects *f)
{
    (void)f;
    return (weft_train_network){ .struct_size = sizeof(weft_train_network), .bandwidth = 1e9 };
}

static void see_cost(void *ud, const weft_train_cost *c)
{
    (void)ud;
    (void)c;
}

static void show_token(void *ud, const weft_data_token *t)
{
    (void)ud;
    (void)t;
}

static bool see_model(void *ud, const weft_model_entry *model)
{
    (void)ud;
    return model->name[0] != '\0';
}

static bool see_generated(void *ud, const weft_generated *token)
{
    (void)ud;
    return token->id >= -1;
}

static void see_call(void *ud, weft_call_event event, const char *text, size_t n)
{
    (void)ud, (void)event, (void)text, (void)n;
}

static bool see_page(void *ud, const char *bytes, size_t n, weft_error *err)
{
    (void)ud;
    (void)err;
    return bytes && n > 0;
}

static bool see_stage(void *ud, const weft_sampler_stage *stage)
{
    (void)ud;
    return stage->n_best <= stage->n;
}

static bool see_step(void *ud, const weft_tokenizer_step *step)
{
    (void)ud;
    return step->kind <= WEFT_STEP_TOKENS;
}

static void see_tensor(void *ud, const weft_trace_tensor *t)
{
    (void)ud;
    (void)t;
}

/* ---- hostile values -------------------------------------------------------------------------- */

#define VALUES(type, what)                                                                         \
    typedef type what##_type;                                                                      \
    static const struct {                                                                          \
        const char *name;                                                                          \
        type value;                                                                                \
        bool high;                                                                                 \
    } what##_values[]

#define TWO(n) ((int64_t)1 << (n))

VALUES(int, none) = { { "valid", 0, false } };
VALUES(void *, pointer) = { { "NULL", NULL, false } };
VALUES(const char *, text) = {
    { "NULL", NULL, false },
    { "\"\"", "", true },
    { "bytes", "none/such/\xFF\xFE\x01;:%n%s", true },
    { "5000 letters", (const char[5001]){ [0 ... 4999] = 'a' }, true },
};
VALUES(int, int) = { { "INT_MIN", INT32_MIN, false },
                     { "-5", -5, false },
                     { "-1", -1, false },
                     { "INT_MAX", INT32_MAX, true } };
VALUES(int, enum) = { { "INT_MIN", INT32_MIN, false },
                      { "-1", -1, false },
                      { "77", 77, true },
                      { "INT_MAX", INT32_MAX, true } };
VALUES(int32_t, int32) = { { "INT32_MIN", INT32_MIN, false },
                           { "-1", -1, false },
                           { "2^30", 1 << 30, true },
                           { "INT32_MAX", INT32_MAX, true } };
VALUES(int64_t, int64) = {
    { "INT64_MIN", INT64_MIN, false },
    { "-2^62", -TWO(62), false },
    { "-2^32 - 1", -TWO(32) - 1, false },
    { "-2^31", -TWO(31), false },
    { "-5", -5, false },
    { "-1", -1, false },
    { "2^31 - 1", TWO(31) - 1, true },
    { "2^31", TWO(31), true },
    { "2^32", TWO(32), true },
    { "2^32 + 3", TWO(32) + 3, true },
    { "2^61", TWO(61), true },
    { "2^62", TWO(62), true },
    { "INT64_MAX", INT64_MAX, true },
};
VALUES(size_t, size) = {
    { "0", 0, false },
    { "1", 1, false },
    { "7", 7, false },
    { "2^31", (size_t)TWO(31), true },
    { "2^32", (size_t)TWO(32), true },
    { "2^62", (size_t)TWO(62), true },
    { "SIZE_MAX", SIZE_MAX, true },
};
VALUES(uint64_t, uint64) = { { "0", 0, false },
                             { "1", 1, false },
                             { "2^63", (uint64_t)1 << 63, true },
                             { "UINT64_MAX", UINT64_MAX, true } };
VALUES(double, double) = { { "NaN", NAN, false },       { "-inf", -INFINITY, false },
                           { "-1e300", -1e300, false }, { "-1000.5", -1000.5, false },
                           { "1e300", 1e300, true },    { "inf", INFINITY, true } };

/* ---- calls ----------------------------------------------------------------------------------- */

typedef enum fate {
    SKIP,
    ACCEPT, /* it may be */
    REFUSE, /* it must be */
    PASS,   /* must be accepted: the control */
} fate;

/* Values that are too low or too high. */
#define MODE_RR REFUSE, REFUSE
#define MODE_RA REFUSE, ACCEPT
#define MODE_AR ACCEPT, REFUSE
#define MODE_AA ACCEPT, ACCEPT
#define MODE_R_ REFUSE, SKIP
#define MODE_A_ ACCEPT, SKIP
#define MODE_VV PASS, PASS

typedef struct trial {
    objects *f;
    const char *fn, *what;
    const char *value, *other; /* their names */
    size_t i, n;
    fate fate;
    weft_error err, *e;
    bool said; /* the call has an error parameter */
} trial;

static struct {
    int64_t calls, rows, refused;
} total;

static void restore(objects *f);
static void check_intact(objects *f, const trial *t);

static trial begin(objects *f, const char *fn, const char *what, size_t n)
{
    total.rows++;
    return (trial){ .f = f, .fn = fn, .what = what, .other = "", .n = n };
}

static void next(trial *t)
{
    if (++t->i == t->n)
        check_intact(t->f, t);
}

/* A call that measures the machine for a fraction of a second: one acceptable value is enough. */
static bool is_dear(const char *fn)
{
    return strcmp(fn, "weft_engine_estimate") == 0;
}

/* Is this value tried? */
static bool choose(trial *t, const char *name, bool high, fate low_fate, fate high_fate)
{
    t->value = name;
    t->fate = high ? high_fate : low_fate;
    t->said = t->i % 2 == 0;
    t->e = t->said ? &t->err : NULL;
    memset(&t->err, 0x5A, sizeof t->err);
    t->err.message[sizeof t->err.message - 1] = 0;
    if (t->fate == SKIP || (t->fate == ACCEPT && t->i > 0 && is_dear(t->fn)))
        return false;
    restore(t->f);
    total.calls++;
    return true;
}

/* Two values: refused if either alone would be, unless one is 0 and leaves nothing to check. */
static bool choose_two(trial *t, const char *a, bool a_high, fate a_low_fate, fate a_high_fate,
                       const char *b, bool b_high, fate b_low_fate, fate b_high_fate)
{
    const fate of_a = a_high ? a_high_fate : a_low_fate, of_b = b_high ? b_high_fate : b_low_fate;
    const bool nothing = strcmp(a, "0") == 0 || strcmp(b, "0") == 0;
    const fate both = of_a == SKIP || of_b == SKIP       ? SKIP
                      : nothing                          ? ACCEPT
                      : of_a == REFUSE || of_b == REFUSE ? REFUSE
                                                         : ACCEPT;
    t->other = b;
    return choose(t, a, false, both, both);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Every value twice: with and without an error struct. */
#define EACH(list, fn, what, ...)                                                                  \
    for (trial t = begin(f, fn, what, 2 * COUNT(list##_values)); t.i < t.n; next(&t))              \
        if (choose(&t, list##_values[t.i / 2].name, list##_values[t.i / 2].high, __VA_ARGS__))     \
            for (list##_type x = list##_values[t.i / 2].value, *use = &x; use; use = NULL)

#define FIRST(list)        list##_values[t.i / 2 % COUNT(list##_values)]
#define SECOND(list, with) with##_values[t.i / 2 / COUNT(list##_values)]

#define PAIR(list, with, mode, fn, what, ...)                                                      \
    for (trial t = begin(f, fn, what, 2 * COUNT(list##_values) * COUNT(with##_values)); t.i < t.n; \
         next(&t))                                                                                 \
        if (choose_two(&t, FIRST(list).name, FIRST(list).high, mode, SECOND(list, with).name,      \
                       SECOND(list, with).high, __VA_ARGS__))                                      \
            for (list##_type x = FIRST(list).value, *use = &x; use; use = NULL)                    \
                for (with##_type y = SECOND(list, with).value, *use_y = &y; use_y; use_y = NULL)

static void complain(const trial *t, const char *why)
{
    fail_msg("%s: %s(%s = %s%s%s%s): %s", t->f->name, t->fn, t->what, t->value,
             *t->other ? ", " : "", t->other, t->said ? "" : ", no place for an error", why);
}

static void judge(trial *t, bool accepted)
{
    total.refused += !accepted;
    if (accepted && t->fate == REFUSE)
        complain(t, "accepted");
    if (!accepted && t->fate == PASS)
        complain(t, t->said && t->err.code > 0 && t->err.code <= WEFT_EBUSY ? t->err.message
                                                                            : "refused");
}

/* An error has the status as its code, and a message. */
static void judge_error(trial *t, weft_status status, bool has_place)
{
    judge(t, status == WEFT_OK);
    if (status < WEFT_OK || status > WEFT_EBUSY)
        complain(t, "no status");
    if (status != WEFT_OK && has_place && t->said && (t->err.code != status || !*t->err.message))
        complain(t, "the error is not filled");
    if (status != WEFT_OK && has_place && t->said && !strchr(t->err.message, ' '))
        complain(t, t->err.message);
}

#define VOID(call)    call
#define STATUS(call)  judge_error(&t, call, true)
#define PLAIN(call)   judge_error(&t, call, false)
#define BOOL(call)    judge(&t, call)
#define INTEGER(call) judge(&t, (call) > 0)
#define POINTER(call) judge(&t, (call) != NULL)
#define NUMBER(call)  judge_error(&t, (call) ? WEFT_OK : t.said ? t.err.code : WEFT_EINVAL, true)
#define HANDLE(release, call)                                                                      \
    do {                                                                                           \
        __auto_type made = call;                                                                   \
        judge_error(&t, made ? WEFT_OK : t.said ? t.err.code : WEFT_EINVAL, true);                 \
        release(made);                                                                             \
    } while (0)

#include "hostile_calls.inc"

/* ---- objects --------------------------------------------------------------------------------- */

static void must(bool done, const weft_error *err)
{
    if (!done)
        fail_msg("%s", err->message);
}

static void copy_to(const char *directory, const char *name, const char *bytes, size_t size)
{
    char path[2048];
    mkdir(directory, 0777);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *to = fopen(path, "wb");
    assert_non_null(to);
    assert_int_equal(fwrite(bytes, 1, size, to), size);
    fclose(to);
}

/* A text, a table, points, a run's metrics, images of three classes, and output paths. */
static void make_files(objects *f)
{
    static const char line[] = "the cat sat on a mat, and a dog had it all.\n",
                      letters[] = "abcdefgh";
    static const char metrics[] = "{\"step\": 1, \"loss\": 3.5}\n{\"step\": 2, \"loss\": 3.25}\n";
    static const char points[] = "x,y\n0,1\n1,2\n2,1\n3,0\n";
    static const char rows[] = "the cat\tyes\na dog\tno\nthe mat\tperhaps\n";
    static const char *const classes[] = { "cat", "dog", "neither" };
    char text[20 * sizeof line] = "", directory[1024];
    for (int i = 0; i < 20; i++)
        strcat(text, line);
    static const char chat[] = "{{ tools | tojson if tools }}{% for m in messages %}{{ m.content "
                               "}}{% for c in m.tool_calls "
                               "or [] %}<call>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
                               "{{ c.function.arguments | "
                               "tojson }}}</call>{% endfor %}<end>{% endfor %}";
    memcpy(f->text, letters, sizeof letters);
    snprintf(f->jinja, sizeof f->jinja, "%s", temp_file("own.jinja", chat, sizeof chat - 1));
    f->messages = "[{\"role\": \"user\", \"content\": \"a cat\"}]";
    snprintf(f->path, sizeof f->path, "%s/golden/%s", WEFT_TESTS_DIR, f->name);
    snprintf(f->adapter_path, sizeof f->adapter_path, "%s/golden/adapters/llama-lora",
             WEFT_TESTS_DIR);
    snprintf(f->picture, sizeof f->picture, "%s/golden/images/photo.png", WEFT_TESTS_DIR);
    snprintf(f->text_file, sizeof f->text_file, "%s", temp_file("text.txt", text, strlen(text)));
    snprintf(f->table, sizeof f->table, "%s", temp_file("table.tsv", rows, sizeof rows - 1));
    snprintf(f->points, sizeof f->points, "%s", temp_file("points.csv", points, sizeof points - 1));
    set_path(f->gguf, f->name, "model.gguf");
    strcat(f->gguf, ".gguf");
    set_path(f->vocabulary, f->name, "vocabulary.json");
    set_path(f->learned, f->name, "learned.json");
    set_path(f->saved, f->name, "session");
    set_path(f->ids_file, f->name, "ids");
    set_path(f->page, f->name, "page.html");
    set_path(f->run, f->name, "run");
    copy_to(f->run, "metrics.jsonl", metrics, sizeof metrics - 1);
    f->picture_bytes = read_whole(f->picture, &f->picture_size);
    set_path(f->pictures, f->name, "pictures");
    mkdir(f->pictures, 0777);
    for (int i = 0; i < 3; i++) {
        snprintf(directory, sizeof directory, "%s/%s", f->pictures, classes[i]);
        copy_to(directory, "photo.png", f->picture_bytes, f->picture_size);
    }
    f->data_paths[0] = f->text_file;
    f->table_paths[0] = f->table;
    f->picture_paths[0] = f->pictures;
    f->strings[0] = "cat";
}

static void make_text(objects *f, weft_error *err)
{
    static const char *const special[] = { "<|endoftext|>", "[MASK]" };
    weft_tokenizer_train_options o = valid_weft_tokenizer_train_options(f);
    weft_tokenizer_options load = valid_weft_tokenizer_options(f);
    o.model = WEFT_TOKENS_CHARACTERS;
    o.special = special;
    o.n_special = 2;
    must(weft_tokenizer_train(f->data_paths, 1, f->vocabulary, &o, NULL, err) == WEFT_OK, err);
    f->tokenizer = weft_tokenizer_load(f->vocabulary, &load, err);
    must(f->tokenizer, err);
    f->decoder = weft_decoder_new(f->tokenizer, false, err);
    must(f->decoder, err);
    f->stop = weft_stop_new(f->strings, 1, err);
    must(f->stop, err);
    static const char any[] = "root ::= !<[0]>*";
    f->grammar = weft_grammar_new(f->tokenizer, WEFT_GRAMMAR_GBNF, any, strlen(any), NULL, err);
    must(f->grammar, err);
    f->constraint = weft_constraint_new(f->grammar, err);
    must(f->constraint, err);
    f->chat = weft_template_load(f->jinja, NULL, err);
    must(f->chat, err);
    f->tools = "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]";
    f->calls = weft_call_reader_new(f->chat, f->tools, strlen(f->tools), see_call, NULL, err);
    must(f->calls, err);
    f->budget = weft_budget_new(CAP, err);
    must(f->budget, err);
}

static void source_and_eval(objects *f)
{
    weft_error err;
    must(weft_session_adapt(f->session, NULL, 0, &err) == WEFT_OK, &err);
    must(weft_session_rewind(f->session, 0, &err) == WEFT_OK, &err);
    if (f->source)
        must(weft_session_source(f->session, f->ids, 2, &err) == WEFT_OK, &err);
    must(weft_session_eval(f->session, f->ids, 3, &err) == WEFT_OK, &err);
}

/* The encoder's output for the ids or the image. */
static void encode(objects *f, float *out)
{
    weft_error err;
    weft_input in = valid_weft_input(f);
    in.at = NULL;
    in.n_at = 0;
    in.out = out;
    assert_true(weft_encoder_rows(f->encoder, &in) * weft_encoder_width(f->encoder) <= 64 * 128);
    must(weft_encoder_eval(f->encoder, &in, 1, &err) == WEFT_OK, &err);
}

static void make_picture(objects *f, weft_error *err)
{
    f->image = weft_image_open(f->model, f->picture, err);
    must(f->image, err);
}

static void make(objects *f)
{
    weft_error err;
    make_files(f);
    make_text(f, &err);
    weft_model_options how = valid_weft_model_options(f);
    weft_model_info info = valid_weft_model_info(f);
    f->model = weft_model_open(f->path, &how, &err);
    must(f->model, &err);
    weft_model_get_info(f->model, &info);
    f->n_vocab = info.n_vocab;
    for (int i = 0; i < 8; i++)
        f->ids[i] = 3 + 5 * i;
    f->at[0] = 1;
    f->at[1] = 3;
    f->ends[0] = 2;
    f->bias[0] = (weft_bias){ 4, 0.5f };
    if (f->images)
        make_picture(f, &err);
    if (info.task == WEFT_TASK_GENERATE) {
        const weft_engine_options o = valid_weft_engine_options(f);
        const weft_sampler_options s = valid_weft_sampler_options(f);
        f->engine = weft_engine_new(f->model, &o, &err);
        must(f->engine, &err);
        f->session = weft_session_new(f->engine, &err);
        must(f->session, &err);
        f->sampler = weft_sampler_new(f->model, &s, &err);
        must(f->sampler, &err);
        f->adapter = weft_adapter_open(f->model, f->adapter_path, NULL);
        f->queue = weft_engine_new(f->model, &o, &err);
        must(f->queue, &err);
        f->scheduler = weft_scheduler_new(f->queue, NULL, &err);
        must(f->scheduler, &err);
        source_and_eval(f);
        memcpy(f->logits, weft_session_logits(f->session), (size_t)f->n_vocab * sizeof(float));
        f->alone = !f->source;
        if (f->alone)
            must(weft_session_save(f->session, f->saved, &err) == WEFT_OK, &err);
    }
    if (info.task != WEFT_TASK_GENERATE || f->adapter) { /* decoders have states, too */
        const weft_encoder_options o = valid_weft_encoder_options(f);
        f->encoder = weft_encoder_new(f->model, &o, &err);
        must(f->encoder, &err);
        encode(f, f->encoded);
    }
    if (f->slow) {
        const weft_train_options o = valid_weft_train_options(f);
        f->data = weft_data_open(&o, &err);
        must(f->data, &err);
    }
}

static void unmake(objects *f)
{
    weft_data_close(f->data);
    weft_stop_free(f->stop);
    weft_grammar_free(f->grammar);
    weft_call_reader_free(f->calls);
    weft_template_free(f->chat);
    weft_decoder_free(f->decoder);
    weft_sampler_free(f->sampler);
    weft_constraint_free(f->constraint);
    weft_encoder_free(f->encoder);
    weft_image_free(f->image);
    weft_session_free(f->session);
    weft_engine_free(f->engine);
    weft_scheduler_free(f->scheduler);
    weft_engine_free(f->queue);
    weft_adapter_close(f->adapter);
    weft_model_close(f->model);
    weft_tokenizer_free(f->tokenizer);
    weft_budget_free(f->budget);
    free(f->picture_bytes);
}

/* Before a call: the session has three tokens and their logits, and no request waits. */
static void restore(objects *f)
{
    weft_scheduler_info i = { .struct_size = sizeof i };
    weft_scheduler_get_info(f->scheduler, &i);
    if (i.n_waiting > 0) {
        weft_scheduler_free(f->scheduler);
        f->scheduler = weft_scheduler_new(f->queue, NULL, NULL);
    }
    if (f->session && (weft_session_length(f->session) != 3 || !weft_session_logits(f->session)))
        source_and_eval(f);
}

/* After the calls of a row: all objects work as before. */
static void check_intact(objects *f, const trial *t)
{
    weft_error err;
    if (f->session) {
        source_and_eval(f);
        if (memcmp(weft_session_logits(f->session), f->logits, (size_t)f->n_vocab * sizeof(float)))
            complain(t, "the session gives other logits afterwards");
        int32_t id;
        must(weft_sampler_next(f->sampler, f->session, &id, &err) == WEFT_OK, &err);
    }
    if (f->encoder) {
        memset(f->again, 0, sizeof f->again);
        encode(f, f->again);
        if (memcmp(f->again, f->encoded, sizeof f->encoded))
            complain(t, "the encoder gives other numbers afterwards");
    }
    weft_tokens *k = weft_tokenizer_encode(f->tokenizer, "cat", 3, NULL, &err);
    must(k, &err);
    if (k->n != 3)
        complain(t, "the tokenizer gives other tokens afterwards");
    weft_tokens_free(k);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void run_all(objects *f)
{
    make(f);
    for (size_t i = 0; i < COUNT(hostile_functions); i++)
        hostile_functions[i].run(f);
    unmake(f);
}

#define KIND(test, model, ...)                                                                     \
    static void test(void **state)                                                                 \
    {                                                                                              \
        static objects f = { .name = model, __VA_ARGS__ };                                         \
        (void)state;                                                                               \
        run_all(&f);                                                                               \
    }

KIND(decoder, "llama-gqa", .slow = true)
KIND(latents, "deepseek-v2")
KIND(encoder_decoder, "bart", .source = true)
KIND(filler, "bert-fill")
KIND(classifier, "bert-classify", .labels = true)
KIND(states, "bert")
KIND(pictures, "vit", .images = true)

/* ---- what lies inside arrays, and what calls leave behind ------------------------------------- */

static objects *open_kind(objects *f)
{
    make(f);
    return f;
}

/* A NULL among strings, an id that does not exist among ids. */
static void elements(void **state)
{
    (void)state;
    static objects kind = { .name = "llama-gqa" }, whole = { .name = "bert-fill" };
    objects *f = open_kind(&kind);
    weft_error err;
    const char *const strings[] = { "cat", NULL };
    assert_null(weft_stop_new(strings, 2, &err));
    assert_int_equal(weft_sampler_break(f->sampler, f->tokenizer, strings, 2, &err), WEFT_EINVAL);
    assert_int_equal(weft_tokenizer_train(strings, 2, f->learned, NULL, NULL, &err), WEFT_EINVAL);
    weft_tokenizer_train_options t = valid_weft_tokenizer_train_options(f);
    t.special = strings;
    t.n_special = 2;
    assert_int_equal(weft_tokenizer_train(f->data_paths, 1, f->learned, &t, NULL, &err),
                     WEFT_EINVAL);
    weft_train_options o = valid_weft_train_options(f);
    o.frozen = strings;
    o.n_frozen = 2;
    assert_null(weft_data_open(&o, &err));
    assert_string_equal(err.message, "pattern 1 is NULL");
    o.n_frozen = 0;
    o.data = strings;
    o.n_data = 2;
    assert_null(weft_data_open(&o, &err));
    assert_string_equal(err.message, "path 1 is NULL");
    const int32_t wrong[] = { INT32_MIN, -1, (int32_t)f->n_vocab, INT32_MAX };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        const int32_t ids[] = { 3, wrong[i] };
        const weft_bias bias = { wrong[i], 1 };
        weft_sampler_options s = valid_weft_sampler_options(f);
        assert_int_equal(weft_session_eval(f->session, ids, 2, &err), WEFT_EINVAL);
        assert_null(weft_beam_search(f->engine, ids, 2, NULL, &err));
        assert_int_equal(weft_evaluate(f->model, NULL, &(weft_document){ ids, 2 }, 1, NULL,
                                       &(weft_evaluation){ .struct_size = sizeof(weft_evaluation) },
                                       &err),
                         WEFT_EINVAL);
        assert_int_equal(weft_sampler_pick(f->sampler, f->logits, f->n_vocab, ids, 2, &f->id, &err),
                         WEFT_EINVAL);
        s.bias = &bias;
        assert_null(weft_sampler_new(f->model, &s, &err));
        s = valid_weft_sampler_options(f);
        s.breakers = &wrong[i];
        assert_null(weft_sampler_new(f->model, &s, &err));
    }
    check_intact(f, &(trial){ .f = f, .fn = "elements", .what = "", .value = "", .other = "" });
    unmake(f);

    f = open_kind(&whole);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        weft_input in = valid_weft_input(f);
        in.at = &wrong[i];
        in.n_at = 1;
        assert_int_equal(weft_encoder_eval(f->encoder, &in, 1, &err), WEFT_EINVAL);
    }
    unmake(f);
}

static int64_t n_asked(objects *f, const int32_t *ids, int64_t n)
{
    weft_error err;
    weft_session_source(f->session, ids, n, &err);
    const int32_t start = 2;
    return weft_session_eval(f->session, &start, 1, &err) == WEFT_OK;
}

/* A refused source leaves none, so a caller that ignores the error does not continue with the
 * previous source. */
static void sources_are_gone(void **state)
{
    (void)state;
    static objects kind = { .name = "bart", .source = true };
    objects *f = open_kind(&kind);
    const int32_t beyond[] = { 3, 4000 };
    const struct {
        const int32_t *ids;
        int64_t n;
    } refused[] = { { NULL, 2 }, { f->ids, 0 }, { f->ids, -3 }, { f->ids, 17 }, { beyond, 2 } };
    for (size_t i = 0; i < COUNT(refused); i++) {
        assert_true(n_asked(f, f->ids, 2));
        assert_false(n_asked(f, refused[i].ids, refused[i].n));
        assert_int_equal(weft_session_length(f->session), 0);
        assert_null(weft_session_logits(f->session));
    }
    check_intact(f, &(trial){ .f = f, .fn = "sources", .what = "", .value = "", .other = "" });
    unmake(f);
}

/* Refused tokens leave a session unchanged. */
static void sessions_are_left_alone(void **state)
{
    (void)state;
    static objects kind = { .name = "llama-gqa" };
    objects *f = open_kind(&kind);
    weft_error err;
    const int64_t wrong[] = { -1, -3, INT64_MIN };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(weft_session_match(f->session, f->ids, wrong[i]), -1);
        assert_int_equal(weft_session_match(f->session, NULL, 3), -1);
        assert_int_equal(weft_session_sync(f->session, f->ids, wrong[i], NULL, &err), WEFT_EINVAL);
        assert_int_equal(weft_session_rewind(f->session, wrong[i], &err), WEFT_EINVAL);
        assert_int_equal(weft_session_source(f->session, f->ids, 2, &err), WEFT_EINVAL);
        assert_int_equal(weft_session_length(f->session), 3);
        assert_memory_equal(weft_session_logits(f->session), f->logits,
                            (size_t)f->n_vocab * sizeof(float));
    }
    assert_int_equal(weft_session_match(f->session, NULL, 0), 0);
    assert_int_equal(weft_session_length(f->session), 0);
    unmake(f);
}

/* A host cannot release more than it took; memory of objects stays counted. */
static void budgets_do_not_wrap(void **state)
{
    (void)state;
    weft_error err = { 0 };
    weft_budget *b = weft_budget_new(1000, &err);
    must(b, &err);
    weft_budget_give(b, SIZE_MAX);
    assert_int_equal(weft_budget_used(b), 0);
    assert_int_equal(weft_budget_take(b, 600, "a", &err), WEFT_OK);
    assert_int_equal(weft_budget_take(b, 600, "b", &err), WEFT_ELIMIT);
    assert_int_equal(weft_budget_take(b, SIZE_MAX, "c", &err), WEFT_ELIMIT);
    assert_int_equal(weft_budget_used(b), 600);
    weft_budget_give(b, 601);
    assert_int_equal(weft_budget_used(b), 0);
    assert_int_equal(weft_budget_take(b, 1001, "d", &err), WEFT_ELIMIT);
    weft_budget_free(b);
}

/* A result struct larger than ours keeps its end; a smaller one is not overrun. */
static void result_structs(void **state)
{
    (void)state;
    static objects kind = { .name = "llama-gqa" };
    objects *f = open_kind(&kind);
    struct {
        weft_model_info info;
        char more[64];
    } larger;
    memset(&larger, 0x55, sizeof larger);
    larger.info.struct_size = sizeof larger;
    weft_model_get_info(f->model, &larger.info);
    assert_int_equal(larger.info.n_vocab, f->n_vocab);
    assert_int_equal(larger.info.struct_size, sizeof larger);
    for (size_t i = 0; i < sizeof larger.more; i++)
        assert_int_equal(larger.more[i], 0x55);
    for (size_t size = 0; size <= sizeof(weft_model_info); size += size < 8 ? 1 : 8) {
        memset(&larger, 0x55, sizeof larger);
        larger.info.struct_size = size;
        weft_model_get_info(size % 16 ? f->model : NULL, &larger.info);
        for (size_t i = size < sizeof size ? sizeof size : size; i < sizeof larger; i++)
            assert_int_equal(((char *)&larger)[i], 0x55);
    }
    unmake(f);
}

static void print_total(void **state)
{
    (void)state;
    print_message(
        "%zu functions, %d parameters, %lld rows, %lld calls, of which %lld were refused\n",
        COUNT(hostile_functions), N_PARAMETER, (long long)total.rows, (long long)total.calls,
        (long long)total.refused);
    assert_true(total.refused > 0 && total.refused < total.calls);
}

int main(void)
{
    setenv("WEFT_MODELS", WEFT_TESTS_DIR "/golden", 1); /* the only store of models */
    setenv("HOME", "/nonexistent", 1);
    for (int i = 0; i < 5; i++)
        unsetenv((const char *[]){ "XDG_CACHE_HOME", "HF_HUB_CACHE", "HF_HOME", "LLAMA_CACHE",
                                   "OLLAMA_MODELS" }[i]);
    const struct CMUnitTest tests[] = {
        TEST("hostile arguments: a decoder, and all functions that train and write", decoder),
        TEST("hostile arguments: a decoder with latents and experts", latents),
        TEST("hostile arguments: an encoder-decoder", encoder_decoder),
        TEST("hostile arguments: a masked language model", filler),
        TEST("hostile arguments: a classifier", classifier),
        TEST("hostile arguments: an encoder without a head", states),
        TEST("hostile arguments: an image model", pictures),
        TEST("hostile arguments: elements of arrays", elements),
        TEST("source: a refused one leaves the session without any", sources_are_gone),
        TEST("session: refused tokens leave it unchanged", sessions_are_left_alone),
        TEST("budget: no more is released than was taken", budgets_do_not_wrap),
        TEST("result structs: none is overrun, whatever its size", result_structs),
        TEST("hostile arguments: number of calls", print_total),
    };
    return RUN(tests);
}
