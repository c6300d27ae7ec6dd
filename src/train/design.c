/* design.c - the table of what can be chosen for a new decoder. models/gpt2.c reads the keys. */
#include "train/design.h"

#include "ops/ops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORD 6

enum { ACT, POSITIONS, NORM, N_PART };

/* A word, the lines of config.json that it becomes, and whether transformers' GPT-2 lacks it. The
 * first word of a part is the default. */
static const struct part {
    const char *name;
    struct {
        const char *word, *keys;
        bool own;
    } at[MAX_WORD];
} parts[N_PART] = {
    [ACT] = { "act",
              { { "gelu-tanh", "  \"activation_function\": \"gelu_new\",\n", false },
                { "gelu", "  \"activation_function\": \"gelu\",\n", false },
                { "relu", "  \"activation_function\": \"relu\",\n", false },
                { "silu", "  \"activation_function\": \"silu\",\n", false },
                { "swiglu", "  \"activation_function\": \"swiglu\",\n", true },
                { "geglu", "  \"activation_function\": \"geglu\",\n", true } } },
    [POSITIONS] = { "positions",
                    { { "learned", "", false },
                      { "rope",
                        "  \"position_embedding_type\": \"rope\",\n  \"rope_theta\": 10000.0,\n",
                        false },
                      { "sinusoidal", "  \"position_embedding_type\": \"sinusoidal\",\n", true },
                      { "none", "  \"position_embedding_type\": \"none\",\n", true } } },
    [NORM] = { "norm",
               { { "pre", "", false },
                 { "post", "  \"norm_placement\": \"post\",\n", true },
                 { "pre-rms", "  \"norm_kind\": \"rmsnorm\",\n", true },
                 { "post-rms", "  \"norm_placement\": \"post\",\n  \"norm_kind\": \"rmsnorm\",\n",
                   true } } },
};

/* What was asked of a part; NULL: its default. Positions are a number. */
static const char *word_of(const design_words *d, int part)
{
    return part == ACT ? d->act : part == NORM ? d->norm : NULL;
}

/* The place of the word in its part; -1: unknown. */
static int place_of(const design_words *d, int part)
{
    const char *word = word_of(d, part);
    if (part == POSITIONS)
        return d->positions > 0 ? (int)d->positions - 1 : 0;
    for (int i = 0; i < MAX_WORD && parts[part].at[i].word; i++)
        if (!word || strcmp(word, parts[part].at[i].word) == 0)
            return i;
    return -1;
}

weft_status design_check(const design_words *d, weft_error *err)
{
    for (int p = 0; p < N_PART; p++) {
        char known[96] = "";
        if (place_of(d, p) >= 0)
            continue;
        for (int i = 0; i < MAX_WORD && parts[p].at[i].word; i++) {
            const size_t at = strlen(known);
            snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", parts[p].at[i].word);
        }
        return weft_fail(err, WEFT_EINVAL, "unknown %s \"%.40s\"; expected one of %s",
                         parts[p].name, word_of(d, p), known);
    }
    return WEFT_OK;
}

bool design_is_chosen(const design_words *d)
{
    return d->positions != WEFT_POSITIONS_OF_ARCH || d->norm || d->act;
}

bool design_is_own(const design_words *d)
{
    bool own = false;
    for (int p = 0; p < N_PART; p++)
        own = own || parts[p].at[place_of(d, p)].own;
    return own;
}

bool design_is_gated(const design_words *d)
{
    return d->act && strlen(d->act) > 3 && strcmp(d->act + strlen(d->act) - 3, "glu") == 0;
}

void design_config(buffer *b, const design_words *d)
{
    for (int p = 0; p < N_PART; p++)
        buffer_text(b, parts[p].at[place_of(d, p)].keys);
}

/* ---- heads ----------------------------------------------------------------------------------- */

void design_latent(design_heads *h, int64_t d_head)
{
    h->d_latent = 2 * d_head;
    h->d_shared = d_head < 4 ? 2 : d_head / 4 * 2;
}

/* The number after the colon; 0: it is none. */
static int64_t number_after(const char *colon)
{
    char *end;
    errno = 0;
    const long n = colon[1] >= '1' && colon[1] <= '9' ? strtol(colon + 1, &end, 10) : 0;
    return n > 0 && errno == 0 && *end == '\0' && n <= INT32_MAX ? n : 0;
}

weft_status design_read_heads(const char *word, int64_t n_head, int64_t d_head, design_heads *to,
                              weft_error *err)
{
    const char *colon = strchr(word, ':');
    const int64_t n = colon ? number_after(colon) : 0;
    *to = (design_heads){ .n_head_kv = n_head };
    if (strcmp(word, "mha") == 0)
        return WEFT_OK;
    if (strcmp(word, "mqa") == 0 || (strncmp(word, "gqa:", 4) == 0 && n > 0)) {
        to->n_head_kv = colon ? n : 1;
        return n_head % to->n_head_kv == 0
                   ? WEFT_OK
                   : weft_fail(err, WEFT_EINVAL,
                               "attention \"%.40s\": %lld heads cannot share %lld key-value heads",
                               word, (long long)n_head, (long long)to->n_head_kv);
    }
    design_latent(to, d_head);
    if (strcmp(word, "mla") == 0)
        return WEFT_OK;
    to->d_latent = n;
    if (strncmp(word, "mla:", 4) == 0 && n > 0 && n <= MAX_HEAD / 2)
        return WEFT_OK;
    return weft_fail(err, WEFT_EINVAL,
                     "unknown attention \"%.40s\"; expected mha, mqa, gqa:HEADS, mla or mla:WIDTH "
                     "of at most %d",
                     word, MAX_HEAD / 2);
}
