/* input.c - what commands read: files, lists of ids, prompts; and what they open. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files and lists ------------------------------------------------------------------------- */

static bool slurp(FILE *f, char **text, size_t *n)
{
    size_t room = 1 << 16;
    *n = 0;
    *text = malloc(room);
    while (*text) {
        *n += fread(*text + *n, 1, room - *n, f);
        if (*n < room)
            return !ferror(f);
        char *longer = realloc(*text, room *= 2);
        if (!longer)
            free(*text);
        *text = longer;
    }
    return false;
}

int cli_read(const char *path, char **text, size_t *n)
{
    const bool standard = strcmp(path, "-") == 0;
    FILE *f = standard ? stdin : fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "weft: %s: %s\n", path, strerror(errno));
        return 1;
    }
    const bool got = slurp(f, text, n);
    const int why = errno;
    if (!standard)
        fclose(f);
    if (got)
        return 0;
    fprintf(stderr, "weft: %s: %s\n", standard ? "standard input" : path, strerror(why));
    free(*text);
    *text = NULL;
    return 1;
}

/* One id of a list, up to the comma or the end; NULL if there is none. */
static const char *parse_id(const char *text, int32_t *id)
{
    char *end;
    errno = 0;
    const long n = strtol(text, &end, 10);
    *id = (int32_t)n;
    return end != text && !errno && n >= 0 && n <= INT32_MAX && (!*end || *end == ',') ? end : NULL;
}

int cli_parse_ids(const command *c, const char *text, int32_t **ids, int64_t *n)
{
    size_t room = 1;
    for (const char *s = text; *s; s++)
        room += *s == ',';
    *ids = malloc(room * sizeof **ids);
    if (!*ids)
        return cli_no_memory();
    *n = 0;
    const char *s = text;
    do {
        s = parse_id(*n ? s + 1 : s, &(*ids)[*n]);
        ++*n;
    } while (s && *s);
    if (s)
        return 0;
    free(*ids);
    *ids = NULL;
    return cli_usage(c, "--ids: \"%s\" is not a list such as 1,403,407", text);
}

/* ---- models ---------------------------------------------------------------------------------- */

weft_model *cli_open(const load_options *o, weft_error *err)
{
    const weft_model_options options = { .struct_size = sizeof options,
                                         .load = o->no_mmap ? WEFT_LOAD_COPY : WEFT_LOAD_MAP,
                                         .ram_max = o->ram_max,
                                         .log = cli_log };
    cli_progress_begin("loading", NULL);
    weft_model *model = weft_model_open(o->path, &options, err);
    cli_progress_end();
    return model;
}

weft_tokenizer *cli_tokenizer(const char *path, const load_options *o, const char *pre,
                              weft_error *err)
{
    const weft_tokenizer_options options = {
        .struct_size = sizeof options, .load = WEFT_LOAD_MAP, .ram_max = o->ram_max, .pre = pre
    };
    return weft_tokenizer_load(path, &options, err);
}

/* Without an option or a setting, OMP_NUM_THREADS says how many; it may be a list, for nested
 * regions, of which the first counts. */
int cli_threads(const command *c, int64_t given, int *threads)
{
    const char *usual = getenv("OMP_NUM_THREADS");
    const long n = given == 0 && usual ? strtol(usual, NULL, 10) : 0;
    if (given < 0 || given > 1024)
        return cli_usage(c, "--threads: %lld is not in 0 to 1024", (long long)given);
    *threads = given ? (int)given : n > 0 && n <= 1024 ? (int)n : 0;
    return 0;
}

/* What the library checks against the model is left to it; here only what does not fit its
 * types. */
int cli_engine_options(const command *c, const shape_options *from, weft_engine_options *to)
{
    *to = (weft_engine_options){ .struct_size = sizeof *to,
                                 .n_ctx = from->n_ctx,
                                 .kv_type = (weft_kv_type)from->kv_type };
    if (from->n_batch < 0 || from->n_batch > INT_MAX)
        return cli_usage(c, "--batch-size: %lld is out of range", (long long)from->n_batch);
    to->n_batch = (int)from->n_batch;
    return cli_threads(c, from->threads, &to->threads);
}

/* Of experts those are read that are chosen: as many as there are operations with. */
static double read_share(const weft_part *p)
{
    const double all = 2 * (double)p->n_parameter;
    return p->flops < all ? p->flops / all : 1;
}

/* A head that is tied to the embedding has no bytes of its own, and reads that. */
bool cli_weight_bytes(weft_model *model, double *bytes)
{
    weft_model_cost cost = { .struct_size = sizeof cost };
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(model, &info);
    if (weft_model_get_cost(model, 1, &cost, NULL) != WEFT_OK)
        return false;
    const bool tied = cost.head.n_parameter < info.n_vocab;
    *bytes = (double)(cost.attention.bytes + cost.head.bytes + (tied ? cost.embedding.bytes : 0)) +
             (double)cost.feed_forward.bytes * read_share(&cost.feed_forward);
    return true;
}

/* ---- prompts --------------------------------------------------------------------------------- */

/* Something comes in that is not the terminal, and not nothing. */
static bool is_piped(void)
{
    struct stat s;
    return fstat(STDIN_FILENO, &s) == 0 && (S_ISFIFO(s.st_mode) || S_ISREG(s.st_mode));
}

bool cli_has_prompt(const prompt_options *p)
{
    return p->text || p->file || p->ids || is_piped();
}

int cli_encode(const command *c, const weft_tokenizer *t, const char *text, size_t length,
               int32_t **ids, int64_t *n)
{
    weft_error err = { 0 };
    weft_tokens *k = weft_tokenizer_encode(t, text, length, NULL, &err);
    if (!k)
        return cli_fail(&err);
    int code = 0;
    *n = k->n;
    *ids = malloc((size_t)(k->n ? k->n : 1) * sizeof **ids);
    if (!*ids)
        code = cli_no_memory();
    else if (k->n == 0)
        code = cli_usage(c, "the text gives no tokens, and nothing to go on from");
    else
        memcpy(*ids, k->ids, (size_t)k->n * sizeof **ids);
    weft_tokens_free(k);
    return code;
}

/* The text of a file ends before its last line end, which editors and echo put there. */
static int encode_file(const command *c, const weft_tokenizer *t, const char *path, int32_t **ids,
                       int64_t *n)
{
    char *text = NULL;
    size_t length = 0;
    int code = cli_read(path, &text, &length);
    if (!code && length > 0 && text[length - 1] == '\n')
        length--;
    if (!code)
        code = cli_encode(c, t, text, length, ids, n);
    free(text);
    return code;
}

int cli_prompt(const command *c, const prompt_options *p, const load_options *load,
               weft_tokenizer **tokenizer, int32_t **ids, int64_t *n)
{
    weft_error err = { 0 };
    if ((p->text != NULL) + (p->file != NULL) + (p->ids != NULL) > 1)
        return cli_usage(c, "--prompt, --file and --ids: give one of them");
    if (!cli_has_prompt(p))
        return cli_usage(c, "which text? Give it: -p \"Once upon a time\"");
    if (p->ids)
        return cli_parse_ids(c, p->ids, ids, n);
    *tokenizer = cli_tokenizer(load->path, load, p->pre, &err);
    if (!*tokenizer)
        return cli_fail(&err);
    return p->text ? cli_encode(c, *tokenizer, p->text, strlen(p->text), ids, n)
                   : encode_file(c, *tokenizer, p->file ? p->file : "-", ids, n);
}
