/* Every number of a configuration that binding reads, at its limits and far beyond: it is refused
 * by name, or the model runs. The keys are those that binding records (config_value), so new ones
 * are covered without being listed. */
#include "support.h"

#include "models/export.h"

#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const models[] = {
    "bert",         "bahdanau",    "bart",         "deepseek-v2",  "deepseek-v3",    "gpt2",
    "gpt2-rope",    "llama-gqa",   "m2m",          "llama-yarn",   "mistral-window", "qwen3",
    "t5",           "flan-t5",     "llama-linear", "vit",          "deit",           "marian",
    "roberta-fill", "gemma2",      "gemma3",       "granite",      "smollm3",        "olmo3",
    "phi3",         "phi3-long",   "exaone4",      "glm4",         "ministral3",     "qwen3-moe",
    "mixtral",      "xlm-roberta", "mpnet",        "electra-fill", "nomic",          "gpt-oss",
    "glm4-moe-lite"
};
#define N_MODEL (sizeof models / sizeof *models)

/* Values that no number of a configuration can have. */
static const char *const never[] = { "-5",     "-1",    "-1e-30",
                                     "-1e308", "1e308", "9223372036854775807",
                                     "\"12\"", "true",  "[1]" };

/* Values that some can have. */
static const char *const perhaps[] = { "0", "1", "2", "3", "1e-30", "0.25", "65536", "2147483647" };
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- a directory with another config.json ---------------------------------------------------- */

static void link_all(const char *from, const char *to)
{
    static const char *const files[] = { "model.safetensors", "preprocessor_config.json",
                                         "modules.json", "1_Pooling" };
    char old[8192], new[8192];
    for (size_t i = 0; i < COUNT(files); i++) {
        snprintf(old, sizeof old, "%s/%s", from, files[i]);
        snprintf(new, sizeof new, "%s/%s", to, files[i]);
        if (access(old, F_OK) == 0 && symlink(old, new) != 0)
            fail_msg("%s: no link", new);
    }
}

/* Sets a value under "a", "a.b" or "a.b.c"; the old value is restored. */
static void put(json_t *root, const char *key, const char *value)
{
    json_t *in = root;
    for (const char *dot = strchr(key, '.'); dot; key = dot + 1, dot = strchr(key, '.')) {
        json_t *inner = json_object_getn(in, key, (size_t)(dot - key));
        if (!inner) {
            inner = json_object();
            json_object_setn_new(in, key, (size_t)(dot - key), inner);
        }
        in = inner;
    }
    json_t *v = json_loads(value, JSON_DECODE_ANY, NULL);
    assert_non_null(v);
    assert_int_equal(json_object_set_new(in, key, v), 0);
}

static void write_config(const json_t *root, const char *directory)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/config.json", directory);
    assert_int_equal(json_dump_file(root, path, JSON_INDENT(1)), 0);
}

/* ---- one token ------------------------------------------------------------------------------- */

/* Memory is capped: a context of 2^24 must not allocate gigabytes. */
#define CAP ((size_t)256 << 20)

static void generate(weft_model *m, const char *what)
{
    weft_error err = { 0 };
    const int32_t id = 1;
    const weft_engine_options o = { .struct_size = sizeof o, .threads = 1, .n_ctx = 1 };
    weft_engine *e = weft_engine_new(m, &o, &err);
    weft_session *s = e ? weft_session_new(e, &err) : NULL;
    if (s && weft_session_eval(s, &id, 1, &err) != WEFT_OK && err.code != WEFT_ENUMERIC &&
        err.code != WEFT_EINVAL)
        fail_msg("%s: %s", what, err.message);
    if (!s && err.code != WEFT_ELIMIT && err.code != WEFT_EINVAL)
        fail_msg("%s: %s", what, err.message);
    weft_session_free(s);
    weft_engine_free(e);
}

static void encode(weft_model *m, const char *what)
{
    weft_error err = { 0 };
    const int32_t id = 1;
    const weft_encoder_options o = { .struct_size = sizeof o, .threads = 1, .n_ctx = 1 };
    weft_encoder *e = weft_encoder_new(m, &o, &err);
    weft_input in = { .ids = &id, .n = 1 };
    if (e) {
        in.out = calloc((size_t)(weft_encoder_rows(e, &in) * weft_encoder_width(e)) + 1,
                        sizeof *in.out);
        assert_non_null(in.out);
        if (weft_encoder_eval(e, &in, 1, &err) != WEFT_OK && err.code != WEFT_ENUMERIC &&
            err.code != WEFT_EINVAL)
            fail_msg("%s: %s", what, err.message);
        free(in.out);
    }
    weft_encoder_free(e);
}

/* True if the model opens; then it runs, if one token is enough for it. */
static bool lives(const char *directory, const char *what, weft_error *err)
{
    const weft_model_options o = { .struct_size = sizeof o, .ram_max = CAP };
    weft_model_info info = { .struct_size = sizeof info };
    weft_model *m = weft_model_open(directory, &o, err);
    if (!m)
        return false;
    weft_model_get_info(m, &info);
    if (info.task == WEFT_TASK_GENERATE && info.n_layer_src == 0)
        generate(m, what);
    else if (!info.images && info.n_layer_src == 0)
        encode(m, what);
    weft_model_close(m);
    return true;
}

/* ---- all keys -------------------------------------------------------------------------------- */

typedef struct tally {
    int n_refused, n_lived;
} tally;

/* The last word of "rope_scaling.factor" is in every message about it. */
static const char *last_word(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

static void try_value(const char *directory, const json_t *config, const char *key,
                      const char *value, bool must_refuse, tally *t)
{
    weft_error err = { 0 };
    char what[512];
    json_t *changed = json_deep_copy(config);
    assert_non_null(changed);
    put(changed, key, value);
    write_config(changed, directory);
    json_decref(changed);
    snprintf(what, sizeof what, "%s: %s = %s", directory, key, value);
    const bool lived = lives(directory, what, &err);
    t->n_lived += lived;
    t->n_refused += !lived;
    if (lived && must_refuse)
        fail_msg("%s is accepted", what);
    if (!lived && !err.message[0])
        fail_msg("%s is refused without a word", what);
    if (!lived && must_refuse && !strstr(err.message, last_word(key)))
        fail_msg("%s: the error is about something else: %s", what, err.message);
}

static void try_key(const char *directory, const json_t *config, const char *key, tally *t)
{
    for (size_t i = 0; i < COUNT(never); i++)
        try_value(directory, config, key, never[i], true, t);
    for (size_t i = 0; i < COUNT(perhaps); i++)
        try_value(directory, config, key, perhaps[i], false, t);
}

/* Where the file has its rotary settings; and the key of a list there. */
static const char *place_of(const json_t *config, const char *key, char *room, size_t size)
{
    const char *of_list = strstr(key, "_size."); /* of height and width, instead of a number */
    if (of_list) {
        snprintf(room, size, "%.*s", (int)(of_list - key) + 5, key);
        return room;
    }
    const json_t *rope = json_object_get(config, "rope_parameters");
    const bool scaling = strncmp(key, "rope_scaling.", 13) == 0,
               local = strcmp(key, "rope_local_base_freq") == 0;
    if (!rope ||
        (!scaling && !local && strcmp(key, "rope_theta") != 0 && !json_object_get(rope, key)))
        return key;
    const char *kind = !json_object_get(rope, "full_attention") ? ""
                       : local                                  ? "sliding_attention."
                                                                : "full_attention.";
    snprintf(room, size, "rope_parameters.%s%s", kind,
             local     ? "rope_theta"
             : scaling ? key + 13
                       : key);
    return room;
}

static void try_model(const char *name, tally *t)
{
    char golden_name[64], source[4096], path[4200], directory[4096], room[128];
    host h;
    model m;
    weft_error err = { 0 };
    snprintf(golden_name, sizeof golden_name, "golden/%s", name);
    snprintf(source, sizeof source, "%s", fixture(golden_name));
    snprintf(path, sizeof path, "%s/config.json", source);
    snprintf(directory, sizeof directory, "%s", temp_path(name));
    assert_int_equal(mkdir(directory, 0777), 0);
    link_all(source, directory);
    json_t *config = json_load_file(path, 0, NULL);
    assert_non_null(config);
    write_config(config, directory);
    if (!lives(directory, name, &err))
        fail_msg("%s as it is: %s", name, err.message);

    host_plain(&h);
    if (model_plan(&m, source, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    int n_key = 0;
    for (int i = 0; i < m.notes->n_value; i++) {
        const config_value *f = &m.notes->value[i];
        if (!f->hf || (f->value.type != META_INT && f->value.type != META_REAL))
            continue;
        try_key(directory, config, place_of(config, f->hf, room, sizeof room), t);
        n_key++;
    }
    assert_true(n_key >= 4);
    if (strcmp(m.arch->hf, "llama") == 0 || strcmp(m.arch->hf, "qwen3") == 0)
        try_key(directory, config, "sliding_window", t); /* has no effect there */
    model_close(&m);
    json_decref(config);
}

static void every_number_has_a_range(void **state)
{
    (void)state;
    tally t = { 0 };
    for (size_t i = 0; i < N_MODEL; i += quick() ? 4 : 1)
        try_model(models[i], &t);
    print_message("%d values refused, %d models lived\n", t.n_refused, t.n_lived);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("config: an impossible number is refused by name, all others run",
             every_number_has_a_range),
    };
    return RUN(tests);
}
