/* options.c - reads a command line by a command's table. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- values ---------------------------------------------------------------------------------- */

/* "512M" -> bytes; K, M, G, T are powers of 1024. */
static bool parse_size(const char *text, size_t *size)
{
    char *end;
    errno = 0;
    const double n = strtod(text, &end);
    static const char units[] = "KMGT";
    const char *unit = *end ? strchr(units, *end & ~0x20) : NULL;
    double scale = 1;
    for (ptrdiff_t i = unit ? unit - units + 1 : 0; i > 0; i--)
        scale *= 1024;
    if (unit && *unit)
        end++;
    if (strcasecmp(end, "iB") == 0)
        end += 2;
    else if (strcasecmp(end, "B") == 0)
        end++;
    if (end == text || *end || errno || !(n >= 0) || n * scale >= 0x1p63)
        return false;
    *size = (size_t)(n * scale);
    return true;
}

static bool parse_choice(const char *words, const char *text, int *to)
{
    const size_t n = strlen(text);
    int i = 1;
    for (const char *word = words;; word++, i++) {
        const size_t length = strcspn(word, "|");
        if (length == n && memcmp(word, text, n) == 0) {
            *to = i;
            return true;
        }
        word += length;
        if (!*word)
            return false;
    }
}

static bool add_to(text_list *list, const char *text, bool flag)
{
    if (list->flagged != flag)
        list->n = 0;
    list->flagged = flag;
    if (list->n == MAX_LIST)
        return false;
    list->at[list->n++] = text;
    return true;
}

bool option_store(const option *o, const char *text, bool flag)
{
    char *end;
    errno = 0;
    switch (o->kind) {
    case OPT_FLAG:
        *(bool *)o->to = text[0] == '1';
        return (text[0] == '0' || text[0] == '1') && !text[1];
    case OPT_INT:
        *(int64_t *)o->to = strtoll(text, &end, 10);
        return end != text && !*end && !errno;
    case OPT_REAL:
        *(double *)o->to = strtod(text, &end);
        return end != text && !*end && !errno;
    case OPT_SIZE:
        return parse_size(text, o->to);
    case OPT_CHOICE:
        return parse_choice(o->value, text, o->to);
    case OPT_TEXT:
        *(const char **)o->to = text;
        return true;
    case OPT_LIST:
        return add_to(o->to, text, flag);
    }
    return false;
}

/* ---- who has named an option ------------------------------------------------------------------
 */

#define MAX_GIVEN 128

static struct {
    const option *option;
    bool kept; /* a run has */
} named[MAX_GIVEN];
static int n_named;

static int place_of(const option *o)
{
    int i = 0;
    while (i < n_named && named[i].option != o)
        i++;
    return i;
}

static void note(const option *o, bool kept)
{
    const int i = place_of(o);
    if (i == n_named && n_named < MAX_GIVEN) {
        named[i].option = o;
        named[i].kept = kept;
        n_named++;
    }
}

bool option_given(const option *o)
{
    return place_of(o) < n_named;
}

bool option_kept(const option *o)
{
    const int i = place_of(o);
    return i < n_named && named[i].kept;
}

bool option_give(const option *o, const char *text)
{
    note(o, false);
    return option_store(o, text, true);
}

bool option_keep(const option *o, const char *text)
{
    note(o, true);
    return option_store(o, text, true);
}

/* ---- messages about options --------------------------------------------------------------------
 */

/* "f32|f16" -> "one of f32, f16" */
static void list_choices(const char *words, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "one of ");
    for (const char *s = words; *s && n + 3 < size; s++) {
        text[n++] = *s == '|' ? ',' : *s;
        if (*s == '|')
            text[n++] = ' ';
    }
    text[n] = '\0';
}

const char *option_takes(const option *o, char *text, size_t size)
{
    static const char *const kinds[] = { "0 or 1", "an integer", "a number", "text",
                                         "a size such as 512M" };
    if (o->kind == OPT_CHOICE)
        list_choices(o->value, text, size);
    else if (o->kind == OPT_LIST)
        snprintf(text, size, "accepted: the limit is %d values", MAX_LIST);
    else
        return kinds[o->kind];
    return text;
}

/* ---- names ----------------------------------------------------------------------------------- */

const option *option_next(const command *c, const option *o)
{
    const option *end = c->options, *next = o ? o + 1 : c->options;
    while (end->name)
        end++;
    if (next == end)
        next = c->more;
    return next && next->name ? next : NULL;
}

const option *option_named(const command *c, const char *name, size_t length)
{
    for (const option *o = NULL; (o = option_next(c, o));)
        if (strlen(o->name) == length && memcmp(o->name, name, length) == 0)
            return o;
    return NULL;
}

static const option *by_letter(const command *c, char letter)
{
    for (const option *o = NULL; (o = option_next(c, o));)
        if (o->letter == letter)
            return o;
    return NULL;
}

/* What other programs call options of ours. */
static const char *const aliases[][2] = {
    { "n-predict", "predict" },
    { "max-tokens", "predict" },
    { "max-new-tokens", "predict" },
    { "temperature", "temp" },
    { "repetition-penalty", "repeat-penalty" },
    { "typical-p", "typical" },
    { "sampling-seq", "samplers" },
    { "reverse-prompt", "stop" },
    { "n-ctx", "ctx-size" },
    { "cache-type-k", "kv-type" },
    { "ctk", "kv-type" },
    { "cache-type-v", "kv-type" },
    { "ctv", "kv-type" },
    { "mem", "ram-max" },
    { "tokens", "ids" },
    { "sys", "system" },
    { "system-prompt", "system" },
    { "chat-template-file", "template" },
    { "hf-repo", "hf" },
    { "hfr", "hf" },
};

/* Options of other programs that change nothing in weft, or that it does not support, with a
 * reason. */
static const struct foreign {
    const char *name;
    bool fails;
    enum { ALONE, VALUE, SWITCH } takes; /* SWITCH: perhaps on, off or auto */
    const char *why;
} foreign[] = {
    { "ngl", false, VALUE, "weft runs on the CPU only" },
    { "n-gpu-layers", false, VALUE, "weft runs on the CPU only" },
    { "gpu-layers", false, VALUE, "weft runs on the CPU only" },
    { "fa", false, SWITCH, "attention is always computed in tiles" },
    { "flash-attn", false, SWITCH, "attention is always computed in tiles" },
    { "mlock", false, ALONE, "packed weights are in memory already" },
    { "v", false, ALONE, "there is no verbose output" },
    { "verbose", false, ALONE, "there is no verbose output" },
    { "no-warmup", false, ALONE, "there is no warm-up run" },
    { "no-cnv", false, ALONE, "weft run continues the prompt as it is" },
    { "no-conversation", false, ALONE, "weft run continues the prompt as it is" },
    { "no-display-prompt", false, ALONE, "the prompt is never printed" },
    { "cnv", true, ALONE, "for a conversation: weft chat MODEL" },
    { "conversation", true, ALONE, "for a conversation: weft chat MODEL" },
    { "jinja", false, ALONE, "templates are always executed as Jinja" },
    { "lora", true, VALUE,
      "weft run, chat, serve, convert, eval, train, translate and those for encoders take "
      "adapters" },
};

static const struct foreign *foreign_named(const char *name)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (strcmp(name, foreign[i].name) == 0)
            return &foreign[i];
    return NULL;
}

/* "--top_k=5" -> "top-k" */
static void stem_of(const char *arg, char stem[64])
{
    const char *name = arg + strspn(arg, "-");
    snprintf(stem, 64, "%.*s", (int)strcspn(name, "="), name);
    for (char *s = stem; *s; s++)
        *s = *s == '_' ? '-' : *s;
}

static const option *by_name(const command *c, const char *stem)
{
    const option *own = option_named(c, stem, strlen(stem));
    for (size_t i = 0; !own && i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(stem, aliases[i][0]) == 0)
            stem = aliases[i][1];
    return own ? own : option_named(c, stem, strlen(stem));
}

static int unknown(const command *c, const char *given)
{
    const char *best = NULL;
    const int length = (int)strcspn(given, "=");
    char stem[64];
    stem_of(given, stem);
    int least = INT_MAX;
    for (const option *o = NULL; (o = option_next(c, o));)
        if (cli_resembles(stem, o->name, &least))
            best = o->name;
    if (given[1] == '-' && stem[0] && !stem[1] && by_letter(c, stem[0]))
        return cli_usage(c, "unknown option %.*s; did you mean -%s?", length, given, stem);
    if (best)
        return cli_usage(c, "unknown option %.*s; did you mean --%s?", length, given, best);
    return cli_usage(c, "unknown option %.*s", length, given);
}

/* ---- the command line ------------------------------------------------------------------------ */

/* "-ctk": one dash and several letters. */
static bool is_word(const char *arg)
{
    return arg[1] != '-' && arg[1] && (arg[2] == '-' || (arg[2] >= 'a' && arg[2] <= 'z'));
}

/* The option that an argument names: "--predict", "--n_predict=5", "-n", "-n5", "-ctk". */
static const option *option_of(const command *c, const char *arg, const char *stem)
{
    const option *o = arg[1] == '-' || is_word(arg) ? by_name(c, stem) : by_letter(c, arg[1]);
    const bool attached = arg[1] != '-' && arg[2] && !is_word(arg);
    return attached && (o && (o->kind == OPT_FLAG || o->kind == OPT_TEXT)) ? NULL : o;
}

/* Keys and values are cached in one type. */
static bool same_type(const char *stem, const char *value)
{
    static const char *given[2];
    const size_t n = strlen(stem);
    const bool keys = stem[n - 1] == 'k';
    if (strcmp(stem, "kv-type") == 0)
        return true;
    given[keys] = value;
    return !given[!keys] || strcmp(value, given[!keys]) == 0;
}

/* Says what an option of another program is worth here, and passes over its value. */
static int take_foreign(const command *c, const struct foreign *f, int argc, char **argv, int *i)
{
    static const char *const switches[] = { "on", "off", "auto", "0", "1" };
    const char *arg = argv[*i], *next = *i + 1 < argc ? argv[*i + 1] : "";
    if (f->fails)
        return cli_usage(c, "%s: %s", arg, f->why);
    fprintf(stderr, "weft: %.*s is ignored: %s\n", (int)strcspn(arg, "="), arg, f->why);
    if (strchr(arg, '='))
        return 0;
    *i += f->takes == VALUE && *next;
    for (size_t k = 0; f->takes == SWITCH && k < sizeof switches / sizeof *switches; k++)
        *i += strcmp(next, switches[k]) == 0;
    return 0;
}

/* Takes the option at argv[*i] and, if it has one, its value. */
static int take_option(const command *c, int argc, char **argv, int *i)
{
    const char *arg = argv[*i], *equals = arg[1] == '-' || is_word(arg) ? strchr(arg, '=') : NULL;
    char stem[64], takes[128];
    stem_of(arg, stem);
    const option *o = option_of(c, arg, stem);
    const struct foreign *f = o ? NULL : foreign_named(stem);
    if (f)
        return take_foreign(c, f, argc, argv, i);
    if (!o)
        return unknown(c, arg);
    const char *value = equals                                     ? equals + 1
                        : arg[1] != '-' && arg[2] && !is_word(arg) ? arg + 2
                        : o->kind == OPT_FLAG                      ? "1"
                        : *i + 1 < argc                            ? argv[++*i]
                                                                   : NULL;
    if (!value)
        return cli_usage(c, "%s needs a value: %s", arg, o->value);
    if (strcmp(o->name, "kv-type") == 0 && !same_type(stem, value))
        return cli_usage(c, "%s: the KV cache has one type; give both the same", arg);
    if (o->kind == OPT_TEXT && strcmp(o->name, "file") == 0 && option_given(o))
        return cli_usage(c, "%s %s: a second file; this command reads one", arg, value);
    if (!option_store(o, value, true))
        return cli_usage(c, "--%s: \"%s\" is not %s", o->name, value,
                         option_takes(o, takes, sizeof takes));
    note(o, false);
    return 0;
}

/* With -m, what stands alone are texts or files: the model's place is taken. */
static int make_place(const command *c, int n)
{
    const option *m = by_letter(c, 'm');
    if (!m || !option_given(m) || c->n_positional < 2 || n == 0)
        return 0;
    if (n == c->n_positional)
        return cli_usage(c, "unexpected argument \"%s\": -m has named the model",
                         c->positional[n - 1]);
    memmove(c->positional + 1, c->positional, (size_t)n * sizeof *c->positional);
    c->positional[0] = *(const char **)m->to;
    return 0;
}

/* The model that -hf names is the first argument, before those that were given. */
static int place_model(const command *c, int n)
{
    static char name[512];
    if (!cli_hf)
        return 0;
    if (n == c->n_positional)
        return cli_usage(c, "both -hf %s and \"%s\"; expected one model", cli_hf,
                         c->positional[n - 1]);
    if ((size_t)snprintf(name, sizeof name, "hf.co/%s", cli_hf) >= sizeof name)
        return cli_usage(c, "-hf: a name of %zu bytes is too long", strlen(cli_hf));
    memmove(c->positional + 1, c->positional, (size_t)n * sizeof *c->positional);
    c->positional[0] = name;
    return 0;
}

int options_parse(const command *c, int argc, char **argv)
{
    int n_positional = 0, bad = 0;
    bool only_positional = false;
    for (int i = 0; i < argc && !bad; i++) {
        const char *arg = argv[i];
        if (!only_positional && strcmp(arg, "--") == 0)
            only_positional = true;
        else if (!only_positional && arg[0] == '-' && arg[1])
            bad = take_option(c, argc, argv, &i);
        else if (n_positional < c->n_positional)
            c->positional[n_positional++] = arg;
        else
            bad = cli_usage(c, "unexpected argument \"%s\"%s", arg,
                            by_letter(c, 'p') ? "; quote a text of several words" : "");
    }
    return bad ? bad : cli_hf ? place_model(c, n_positional) : make_place(c, n_positional);
}
