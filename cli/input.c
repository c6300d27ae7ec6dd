/* input.c - what commands read: files, lists of ids, prompts; and what they open. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files and lists ------------------------------------------------------------------------- */

typedef struct input {
    FILE *f;
    const char *name; /* in messages */
    size_t most;      /* bytes that may be read; SIZE_MAX: as many as memory allows */
    size_t expected;  /* of a regular file, all that is left of it; 0: not known */
} input;

static int input_fail(const input *in)
{
    fprintf(stderr, "weft: %s: %s\n", in->name, strerror(errno));
    return 1;
}

static int input_open(input *in, const char *path, size_t most)
{
    const bool standard = strcmp(path, "-") == 0;
    struct stat s;
    *in = (input){ .f = standard ? stdin : fopen(path, "rb"),
                   .name = standard ? "standard input" : path,
                   .most = most == CLI_MAX_TEXT && cli_budget() ? SIZE_MAX : most };
    if (!in->f)
        return input_fail(in);
    const bool regular = fstat(fileno(in->f), &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0;
    in->expected = regular ? (size_t)s.st_size : 0;
    return 0;
}

static void input_close(input *in)
{
    if (in->f && in->f != stdin)
        fclose(in->f);
}

static int too_long(const input *in)
{
    char most[32];
    cli_bytes(in->most, most, sizeof most);
    fprintf(stderr,
            in->most == CLI_MAX_TEXT ? "weft: %s: more than %s; raise the limit with --ram-max\n"
                                     : "weft: %s: more than %s, the limit\n",
            in->name, most);
    return 1;
}

/* Room for what is read: of a file all at once, as its size is known; of a pipe by halves. */
static char *more_room(const input *in, char *text, size_t *room)
{
    const size_t part = (size_t)1 << 16;
    const size_t most = in->most < SIZE_MAX ? in->most + 1 : SIZE_MAX - part;
    *room = *room ? *room + *room / 2 : in->expected ? in->expected + 1 : part;
    *room = *room < most ? *room : most;
    return cli_grow(text, *room + 1, in->name);
}

static int slurp(input *in, char **text, size_t *n)
{
    size_t room = 0;
    if (in->expected > in->most)
        return too_long(in);
    for (*n = 0;;) {
        if (*n == room) {
            char *longer = more_room(in, *text, &room);
            if (!longer)
                return cli_no_memory();
            *text = longer;
        }
        errno = 0;
        *n += fread(*text + *n, 1, room - *n, in->f);
        if (*n > in->most)
            return too_long(in);
        if (cli_interrupted())
            return cli_stopped();
        if (ferror(in->f))
            return input_fail(in);
        if (*n < room)
            break;
    }
    (*text)[*n] = '\0';
    return 0;
}

/* Replaces compressed text by its content. */
static int decompress(const input *in, char **text, size_t *n)
{
    weft_error err = { 0 };
    size_t whole = 0;
    if (weft_decompress(in->name, *text, *n, NULL, &whole, cli_budget(), &err) != WEFT_OK)
        return cli_fail(&err);
    if (whole > in->most)
        return too_long(in);
    char *plain = cli_alloc(whole + 1, 1, in->name);
    if (!plain)
        return cli_no_memory();
    if (weft_decompress(in->name, *text, *n, plain, &whole, cli_budget(), &err) != WEFT_OK) {
        cli_free(plain);
        return cli_fail(&err);
    }
    plain[whole] = '\0';
    cli_free(*text);
    *text = plain;
    *n = whole;
    return 0;
}

int cli_read(const char *path, size_t most, char **text, size_t *n)
{
    input in;
    *text = NULL;
    int code = input_open(&in, path, most);
    if (!code)
        code = slurp(&in, text, n);
    if (!code && weft_is_compressed(*text, *n))
        code = decompress(&in, text, n);
    input_close(&in);
    if (code) {
        cli_free(*text);
        *text = NULL;
    }
    return code;
}

/* ---- lists of ids ---------------------------------------------------------------------------- */

bool cli_add_ids(id_list *to, const int32_t *ids, int64_t n)
{
    if (n > to->room - to->n) {
        const int64_t half = to->room + to->room / 2, least = to->n + n;
        const int64_t room = half < 64 ? 64 : half;
        const int64_t longer = room < least ? least : room;
        int32_t *at = cli_grow(to->at, (size_t)longer * sizeof *at, "ids");
        if (!at)
            return false;
        to->at = at;
        to->room = longer;
    }
    if (n > 0)
        memcpy(to->at + to->n, ids, (size_t)n * sizeof *ids);
    to->n += n;
    return true;
}

/* A list is read byte by byte: blanks, digits, blanks, a comma, and again. */
typedef struct id_reader {
    id_list *to;
    int64_t id; /* so far; -1: no digit yet */
    bool ended; /* the id is followed by a blank */
    bool full;  /* no memory */
    int64_t n;
} id_reader;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool end_id(id_reader *r)
{
    const int32_t id = (int32_t)r->id;
    r->full = r->id >= 0 && !cli_add_ids(r->to, &id, 1);
    const bool good = r->id >= 0 && !r->full;
    r->id = -1;
    r->ended = false;
    r->n++;
    return good;
}

/* False if it is not a list, or without memory. */
static bool next_byte(id_reader *r, char c)
{
    if (c == ',')
        return end_id(r);
    if (is_blank(c)) {
        r->ended = r->id >= 0;
        return true;
    }
    if (c < '0' || c > '9' || r->ended)
        return false;
    r->id = (r->id < 0 ? 0 : 10 * r->id) + (c - '0');
    return r->id <= INT32_MAX;
}

int cli_parse_ids(const command *c, const char *name, const char *text, int32_t **ids, int64_t *n)
{
    id_list list = { 0 };
    id_reader r = { .to = &list, .id = -1 };
    const char *s = text;
    while (*s && next_byte(&r, *s))
        s++;
    if (!*s && end_id(&r)) {
        *ids = list.at;
        *n = list.n;
        return 0;
    }
    cli_free(list.at);
    *ids = NULL;
    return r.full ? cli_no_memory()
                  : cli_usage(c, "%s: \"%s\" is not a list such as 1,403,407", name, text);
}

int32_t *cli_any_ids(int64_t n, int64_t n_vocab)
{
    uint64_t x = 1;
    int32_t *ids = cli_alloc((size_t)n, sizeof *ids, "ids");
    for (int64_t i = 0; ids && i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)((x >> 33) % (uint64_t)n_vocab);
    }
    return ids;
}

bool cli_next_number(const char **rest, int64_t least, int64_t most, int64_t *x)
{
    char *end;
    errno = 0;
    *x = strtoll(*rest, &end, 10);
    if (end == *rest || (*end && *end != ',') || errno || *x < least || *x > most)
        return false;
    *rest = *end ? end + 1 : NULL;
    return true;
}

static int bad_line(const input *in, const id_reader *r, int64_t line)
{
    if (r->full)
        return cli_no_memory();
    fprintf(stderr, "weft: %s: line %lld is not a list of ids such as 1,403,407\n", in->name,
            (long long)line);
    return EXIT_USAGE;
}

/* A blank line is not a list. */
static bool end_line(id_reader *r, cli_list_fn *end, void *ud)
{
    if (r->n == 0 && r->id < 0)
        return true;
    if (!end_id(r))
        return false;
    r->full = !end(ud);
    r->n = 0;
    return !r->full;
}

int cli_read_ids(const char *path, id_list *to, cli_list_fn *end, void *ud)
{
    input in;
    id_reader r = { .to = to, .id = -1 };
    char part[1 << 16];
    size_t n = 0;
    int64_t line = 1;
    int code = input_open(&in, path, CLI_MAX_TEXT);
    for (size_t all = 0; !code && (n = fread(part, 1, sizeof part, in.f)) > 0;) {
        if (all == 0 && weft_is_compressed(part, n)) {
            fprintf(stderr,
                    "weft: %s: a compressed file; expected lines of ids; decompress it first\n",
                    in.name);
            code = 1;
            break;
        }
        for (size_t i = 0; i < n && !code; line += part[i++] == '\n')
            if (!(part[i] == '\n' ? end_line(&r, end, ud) : next_byte(&r, part[i])))
                code = bad_line(&in, &r, line);
        all += n;
        if (!code && (all > in.most || cli_interrupted()))
            code = all > in.most ? too_long(&in) : cli_stopped();
    }
    if (!code && ferror(in.f))
        code = input_fail(&in);
    if (!code && !end_line(&r, end, ud))
        code = bad_line(&in, &r, line);
    input_close(&in);
    return code;
}

/* ---- models ---------------------------------------------------------------------------------- */

weft_model *cli_open(const load_options *o, weft_error *err)
{
    const weft_model_options options = { .struct_size = sizeof options,
                                         .load = o->no_mmap ? WEFT_LOAD_COPY : WEFT_LOAD_MAP,
                                         .budget = cli_budget(),
                                         .no_pack = o->no_pack,
                                         .compute = o->compute == 2 ? WEFT_COMPUTE_BF16
                                                                    : WEFT_COMPUTE_DEFAULT,
                                         .log = cli_log };
    const char *path = cli_model_path(o->path, err);
    if (!path)
        return NULL;
    cli_progress_begin("loading", NULL);
    weft_model *model = weft_model_open(path, &options, err);
    cli_progress_end();
    return model;
}

int cli_wrong_task(const char *path, const weft_model_info *info)
{
    static const char *const made_for[] = {
        [WEFT_TASK_GENERATE] = "is a decoder; use weft run",
        [WEFT_TASK_FILL] = "fills masks; use weft fill-mask",
        [WEFT_TASK_CLASSIFY] = "is a classifier; use weft classify",
        [WEFT_TASK_TAG] = "labels tokens; use weft classify",
        [WEFT_TASK_ANSWER] = "answers questions from a text, which weft has no command for",
        [WEFT_TASK_EMBED] = "has no head; use weft embed",
    };
    fprintf(stderr, "weft: %s: this model %s\n", path,
            info->n_layer_src > 0 ? "is an encoder-decoder; use weft translate"
                                  : made_for[info->task]);
    return 1;
}

int cli_open_kind(const load_options *o, bool source, weft_model **model)
{
    weft_error err = { 0 };
    weft_model_info info = { .struct_size = sizeof info };
    *model = cli_open(o, &err);
    if (!*model)
        return cli_fail(&err);
    weft_model_get_info(*model, &info);
    const bool fits = source ? info.n_layer_src > 0
                             : info.n_layer_src == 0 && info.task == WEFT_TASK_GENERATE;
    return fits ? 0 : cli_wrong_task(o->path, &info);
}

weft_tokenizer *cli_tokenizer_of(const char *path, weft_side side, const char *pre, weft_error *err)
{
    const weft_tokenizer_options options = { .struct_size = sizeof options,
                                             .load = WEFT_LOAD_MAP,
                                             .budget = cli_budget(),
                                             .pre = pre,
                                             .side = side };
    path = cli_model_path(path, err);
    return path ? weft_tokenizer_load(path, &options, err) : NULL;
}

weft_tokenizer *cli_tokenizer(const load_options *o, const char *pre, weft_error *err)
{
    return cli_tokenizer_of(o->tokenizer ? o->tokenizer : o->path, WEFT_SIDE_ANY, pre, err);
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

#define LONG_RUN 2 /* seconds of generating after which the machine is measured, too */

/* Which share of the rate at which this machine can read the model's weights was reached? Measuring
 * that takes part of a second, which is not felt after some. 0 where it is not known. */
double cli_share_of_bandwidth(weft_model *model, const weft_engine_options *o, double rate,
                              double seconds)
{
    double bytes;
    weft_speed speed = { .struct_size = sizeof speed };
    if (seconds < LONG_RUN || !cli_weight_bytes(model, &bytes) || cli_interrupted() ||
        weft_engine_estimate(model, o, &speed, NULL) != WEFT_OK)
        return 0;
    return rate * bytes / speed.read_rate;
}

/* ---- prompts --------------------------------------------------------------------------------- */

bool cli_is_piped(void)
{
    struct stat s;
    return fstat(STDIN_FILENO, &s) == 0 && (S_ISFIFO(s.st_mode) || S_ISREG(s.st_mode));
}

bool cli_has_prompt(const prompt_options *p)
{
    return p->text || p->file || p->ids || cli_is_piped();
}

int cli_take_prompt(const command *c, prompt_options *p, const char *given)
{
    if (given && p->text)
        return cli_usage(c, "both \"%s\" and --prompt; give one of them", given);
    if (given && strcmp(given, "-") == 0)
        p->file = "-";
    else if (given)
        p->text = given;
    return 0;
}

int cli_encode(const command *c, const weft_tokenizer *t, const char *text, size_t length,
               const weft_tokenize_options *o, int32_t **ids, int64_t *n)
{
    weft_error err = { 0 };
    weft_tokens *k = weft_tokenizer_encode(t, text, length, o, &err);
    if (!k)
        return cli_fail(&err);
    int code = 0;
    *n = k->n;
    *ids = cli_alloc((size_t)(k->n ? k->n : 1), sizeof **ids, "ids");
    if (!*ids)
        code = cli_no_memory();
    else if (k->n == 0)
        code = cli_usage(c, "the prompt has no tokens; expected at least one");
    else
        memcpy(*ids, k->ids, (size_t)k->n * sizeof **ids);
    weft_tokens_free(k);
    return code;
}

/* What the prompt is read from beside -p: a file, or what is piped in, or NULL. */
static const char *read_from(const prompt_options *p)
{
    return p->file ? p->file : cli_is_piped() ? "-" : NULL;
}

int cli_prompt_text(const command *c, const prompt_options *p, char **text, size_t *n)
{
    char *file = NULL;
    size_t n_file = 0;
    const char *path = read_from(p);
    const int code = path ? cli_read(path, CLI_MAX_PROMPT, &file, &n_file) : 0;
    if (code)
        return code;
    if (n_file == 0 && !p->text) {
        cli_free(file);
        return cli_usage(c, "%s is empty; expected text",
                         strcmp(path, "-") == 0 ? "standard input" : path);
    }
    n_file -= n_file > 0 && file[n_file - 1] == '\n';
    const size_t first = p->text ? strlen(p->text) : 0, line = first > 0 && n_file > 0;
    *n = first + line + n_file;
    *text = cli_alloc(*n + 1, 1, "the prompt");
    if (!*text) {
        cli_free(file);
        return cli_no_memory();
    }
    memcpy(*text, p->text ? p->text : "", first);
    memset(*text + first, '\n', line);
    if (n_file > 0)
        memcpy(*text + first + line, file, n_file);
    cli_free(file);
    return 0;
}

int cli_check_prompt(const command *c, const prompt_options *p)
{
    if (p->ids && (p->text || p->file))
        return cli_usage(c, "both --ids and a text; give one of them");
    if (!cli_has_prompt(p))
        return cli_usage(c, "no prompt; give one: -p \"Once upon a time\"");
    return 0;
}

int cli_prompt(const command *c, const prompt_options *p, const load_options *load,
               weft_tokenizer **tokenizer, int32_t **ids, int64_t *n)
{
    weft_error err = { 0 };
    const weft_tokenize_options o = { .struct_size = sizeof o,
                                      .parse_special = p->parse_special,
                                      .no_special = p->goes_on };
    char *text = NULL;
    size_t length = 0;
    if (!p->ids || load->tokenizer) {
        *tokenizer = cli_tokenizer_of(load->tokenizer ? load->tokenizer : load->path, p->side,
                                      p->pre, &err);
        if (!*tokenizer)
            return cli_fail(&err);
    }
    if (p->ids)
        return cli_parse_ids(c, "--ids", p->ids, ids, n);
    int code = cli_prompt_text(c, p, &text, &length);
    if (!code)
        code = cli_encode(c, *tokenizer, text, length, &o, ids, n);
    cli_free(text);
    return code;
}
