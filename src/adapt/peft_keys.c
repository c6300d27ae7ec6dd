/* peft_keys.c - every key that PEFT writes into an adapter_config.json, and what weft does with it.
 *
 * A key counts as set unless it is null, false, or an empty list or object. Those that say how
 * training began or went on do not matter to a finished adapter, with one exception: some ways to
 * begin change the base model as well, and their A and B mean nothing without that change. */
#include "adapt/peft_keys.h"

#include <string.h>

typedef enum key_use { READ, NO_MATTER, REFUSED } key_use;

static const struct known_key {
    const char *name;
    key_use use;
} known_keys[] = {
    { "peft_type", READ },
    { "base_model_name_or_path", READ },
    { "task_type", READ },
    { "r", READ },
    { "lora_alpha", READ },
    { "use_rslora", READ },
    { "use_dora", READ },
    { "lora_bias", READ },
    { "bias", READ },
    { "fan_in_fan_out", READ },
    { "target_modules", READ },
    { "exclude_modules", READ },
    { "modules_to_save", READ },
    { "layers_to_transform", READ },
    { "layers_pattern", READ },
    { "rank_pattern", READ },
    { "alpha_pattern", READ },
    { "init_lora_weights", READ },
    { "ensure_weight_tying", READ },

    { "auto_mapping", NO_MATTER },      /* the class of the base */
    { "revision", NO_MATTER },          /* of the base */
    { "peft_version", NO_MATTER },      /* that wrote the file */
    { "inference_mode", NO_MATTER },    /* nothing is trained when it is read */
    { "lora_dropout", NO_MATTER },      /* only in training */
    { "loftq_config", NO_MATTER },      /* how A and B began: init_lora_weights decides */
    { "eva_config", NO_MATTER },        /* likewise: ranks and scales are in the patterns */
    { "corda_config", NO_MATTER },      /* likewise */
    { "lora_ga_config", NO_MATTER },    /* likewise */
    { "megatron_core", NO_MATTER },     /* the name of a Python module, always there */
    { "qalora_group_size", NO_MATTER }, /* of use_qalora */
    { "runtime_config", NO_MATTER },    /* where PEFT computes */

    { "layer_replication", REFUSED },
    { "alora_invocation_tokens", REFUSED },
    { "target_parameters", REFUSED },
    { "trainable_token_indices", REFUSED },
    { "megatron_config", REFUSED },
    { "use_qalora", REFUSED },
    { "use_bdlora", REFUSED },
    { "velora_config", REFUSED },
    { "monteclora_config", REFUSED },
    { "arrow_config", REFUSED },
    { "kasa_config", REFUSED },
};

/* The entry "loftq_config.loftq_bits" belongs to the key "loftq_config". */
static const struct known_key *find_key(const char *entry)
{
    const size_t n = strcspn(entry, ".");
    for (size_t i = 0; i < sizeof known_keys / sizeof *known_keys; i++)
        if (strlen(known_keys[i].name) == n && strncmp(known_keys[i].name, entry, n) == 0)
            return &known_keys[i];
    return NULL;
}

static weft_status check_entry(const container *c, const meta *m, weft_error *err)
{
    const struct known_key *k = find_key(m->key);
    const int n = (int)strcspn(m->key, ".");
    if (m->type == META_BOOL && !m->flag)
        return WEFT_OK;
    if (k && k->use == REFUSED)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: %s is set; expected LoRA, rsLoRA or DoRA without it; merge the "
                         "adapter into its base with PEFT and open the result",
                         c->path, k->name);
    const bool harmless = !m->key[n] && m->type != META_BOOL;
    if (!k && !harmless)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: the key %.*s is set, which weft does not know; expected those of "
                         "PEFT 0.21; merge the adapter into its base with PEFT and open the result",
                         c->path, n < 100 ? n : 100, m->key);
    if (!k)
        log_write(&c->host->log, WEFT_LOG_WARN, "%s: the unknown key %.100s is ignored", c->path,
                  m->key);
    return WEFT_OK;
}

/* NULL if it is no text. */
static const char *text_of(const container *c, const char *key)
{
    const meta *m = container_meta(c, key);
    return m && m->type == META_TEXT ? m->text : NULL;
}

static weft_status check_bias(const container *c, weft_error *err)
{
    const char *bias = text_of(c, "bias");
    const bool known = bias && (strcmp(bias, "none") == 0 || strcmp(bias, "all") == 0 ||
                                strcmp(bias, "lora_only") == 0);
    if (known || !container_meta(c, "bias"))
        return WEFT_OK;
    return weft_fail(err, WEFT_EUNSUPPORTED,
                     "%s: bias is %.40s; expected none, all or lora_only; save the adapter again "
                     "with PEFT",
                     c->path, bias ? bias : "not a text");
}

static weft_status check_init(const container *c, weft_error *err)
{
    static const char *const plain[] = { "gaussian", "eva", "orthogonal", "mica" };
    const meta *m = container_meta(c, "init_lora_weights");
    if (!m || m->type == META_BOOL)
        return WEFT_OK;
    const char *how = m->type == META_TEXT ? m->text : "not a text";
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(how, plain[i]) == 0)
            return WEFT_OK;
    return weft_fail(err, WEFT_EUNSUPPORTED,
                     "%s: init_lora_weights is %.40s, which changes the base model too; expected "
                     "true, false, gaussian, eva, orthogonal or mica; save the adapter with "
                     "path_initial_model_for_weight_conversion",
                     c->path, how);
}

weft_status peft_keys_check(const container *c, weft_error *err)
{
    const char *type = text_of(c, "peft_type");
    if (!type || strcmp(type, "LORA") != 0)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: peft_type is %.40s; expected LORA; merge the adapter into its base "
                         "with PEFT and open the result",
                         c->path, type ? type : "missing");
    weft_status status = WEFT_OK;
    for (int64_t i = 0; status == WEFT_OK && i < c->n_entry; i++)
        status = check_entry(c, &c->entry[i], err);
    if (status == WEFT_OK)
        status = check_bias(c, err);
    return status == WEFT_OK ? check_init(c, err) : status;
}
