/* settings.c - settings from the environment and the config file, and `weft config`, which lists them.
 *
 *
 * An option that is marked as a setting has one name everywhere: --ctx-size, WEFT_CTX_SIZE, and a
 * line of the config file,
 *
 *     # for every command that has it
 *     ctx-size = 8192
 *
 *     [run]
 *     temp = 0.7
 *
 * The command line overrides the environment, which overrides the command's own section of the file,
 * which overrides the lines above all sections. The file is $WEFT_CONFIG, or
 * weft/config in $XDG_CONFIG_HOME or ~/.config. */
#include "cli.h"
#include "json.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the file -------------------------------------------------------------------------------- */

#define MAX_LINE   256               /* settings of a file */
#define MAX_CONFIG ((size_t)1 << 20) /* bytes of it */

typedef struct setting {
    const command *section; /* NULL: for all */
    const char *key, *value;
    int line;
} setting;

/* One for the process: options point into its text. */
static struct {
    char path[4096];
    char *text; /* NULL: there is no file */
    setting at[MAX_LINE];
    int n;
} config;

/* False where no place is known. */
static bool config_path(char *path, size_t size)
{
    const char *given = getenv("WEFT_CONFIG"), *xdg = getenv("XDG_CONFIG_HOME"),
               *home = getenv("HOME");
    int n = -1;
    if (given)
        n = snprintf(path, size, "%s", given);
    else if (xdg && *xdg)
        n = snprintf(path, size, "%s/weft/config", xdg);
    else if (home && *home)
        n = snprintf(path, size, "%s/.config/weft/config", home);
    return n > 0 && (size_t)n < size;
}

static int bad_line(int line, const char *why, const char *what, const char *near)
{
    fprintf(stderr, "weft: %s:%d: %s \"%s\"", config.path, line, why, what);
    if (near)
        fprintf(stderr, "; did you mean %s?", near);
    fputs("\n", stderr);
    return EXIT_USAGE;
}

/* Cuts blanks off both ends. */
static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r", text[n - 1]))
        text[--n] = '\0';
    return text;
}

static bool takes_setting(const command *c, const char *key)
{
    const option *o = option_named(c, key, strlen(key));
    return o && o->marks & SETTING;
}

static const char *near_setting(const command *only, const char *key)
{
    const char *best = NULL;
    int least = INT_MAX;
    for (int i = 0; commands[i]; i++)
        for (const option *o = NULL; (o = option_next(commands[i], o));)
            if ((!only || only == commands[i]) && o->marks & SETTING &&
                cli_resembles(key, o->name, &least))
                best = o->name;
    return best;
}

static bool is_setting(const command *section, const char *key)
{
    bool found = section && takes_setting(section, key);
    for (int i = 0; commands[i] && !section && !found; i++)
        found = takes_setting(commands[i], key);
    return found;
}

/* "key = value" */
static int take_pair(const command *section, char *text, int line)
{
    char *equals = strchr(text, '=');
    if (!equals)
        return bad_line(line, "expected \"key = value\", found", text, NULL);
    *equals = '\0';
    const char *key = trim(text), *value = trim(equals + 1);
    if (!is_setting(section, key))
        return bad_line(line, "no setting", key, near_setting(section, key));
    if (config.n == MAX_LINE)
        return bad_line(line, "too many settings before", key, NULL);
    config.at[config.n++] = (setting){ section, key, value, line };
    return 0;
}

/* "[run]" */
static int take_section(const command **section, char *text, int line)
{
    char *end = strchr(text, ']');
    if (!end || end[1])
        return bad_line(line, "expected \"[command]\", found", text, NULL);
    *end = '\0';
    const char *name = trim(text + 1);
    *section = command_find(name);
    return *section ? 0 : bad_line(line, "no command", name, command_near(name));
}

static int read_lines(void)
{
    const command *section = NULL;
    int line = 1, code = 0;
    for (char *at = config.text, *next; at && !code; at = next, line++) {
        next = strchr(at, '\n');
        if (next)
            *next++ = '\0';
        char *text = trim(at);
        if (*text == '[')
            code = take_section(&section, text, line);
        else if (*text && *text != '#')
            code = take_pair(section, text, line);
    }
    return code;
}

/* A missing file is not an error, unless WEFT_CONFIG names it. */
static int config_read(void)
{
    size_t n;
    if (config.text || !config_path(config.path, sizeof config.path) || !*config.path)
        return 0;
    FILE *f = fopen(config.path, "rb");
    if (!f && errno == ENOENT && !getenv("WEFT_CONFIG"))
        return 0;
    if (f)
        fclose(f);
    const int code = cli_read(config.path, MAX_CONFIG, &config.text, &n);
    if (code)
        return code;
    if (memchr(config.text, '\0', n)) {
        fprintf(stderr, "weft: %s: not a text\n", config.path);
        return EXIT_USAGE;
    }
    return read_lines();
}

/* ---- what is in force ------------------------------------------------------------------------ */

const char *setting_variable(const option *o, char *text, size_t size)
{
    snprintf(text, size, "WEFT_%s", o->name);
    for (char *s = text; *s; s++)
        *s = *s == '-' ? '_' : (char)toupper((unsigned char)*s);
    return text;
}

static const setting *line_for(const command *section, const char *key)
{
    const setting *last = NULL;
    for (int i = 0; i < config.n; i++)
        if (config.at[i].section == section && strcmp(config.at[i].key, key) == 0)
            last = &config.at[i];
    return last;
}

/* The value of a setting for a command, and its origin: "WEFT_THREADS" or "path:3". NULL if it is
 * not set. */
static const char *in_force(const command *c, const option *o, char *from, size_t size)
{
    const char *value = getenv(setting_variable(o, from, size));
    if (value && *value)
        return value;
    const setting *s = line_for(c, o->name);
    s = s ? s : line_for(NULL, o->name);
    if (!s)
        return NULL;
    snprintf(from, size, "%s:%d", config.path, s->line);
    return s->value;
}

/* A variable of ours that is nearly a setting was meant to be one. */
static void warn_of_variables(void)
{
    for (char **e = environ; *e; e++) {
        char name[64];
        const size_t n = strcspn(*e, "=");
        if (strncmp(*e, "WEFT_", 5) != 0 || n - 5 >= sizeof name ||
            strncmp(*e, "WEFT_MODELS=", 12) ==
                0) /* the library's: where models are found by name */
            continue;
        for (size_t i = 5; i <= n; i++)
            name[i - 5] = (char)(i == n           ? 0
                                 : (*e)[i] == '_' ? '-'
                                                  : tolower((unsigned char)(*e)[i]));
        const char *meant = is_setting(NULL, name) ? NULL : near_setting(NULL, name);
        if (meant)
            fprintf(stderr, "weft: warning: %.*s is not a setting; did you mean that of --%s?\n",
                    (int)n, *e, meant);
    }
}

static bool has_settings(const command *c)
{
    for (const option *o = NULL; (o = option_next(c, o));)
        if (o->marks & SETTING)
            return true;
    return false;
}

int settings_apply(const command *c)
{
    char from[sizeof config.path + 16], takes[128];
    if (!has_settings(c))
        return 0;
    warn_of_variables();
    int code = config_read();
    for (const option *o = NULL; !code && (o = option_next(c, o));) {
        const char *value = o->marks & SETTING ? in_force(c, o, from, sizeof from) : NULL;
        if (value && !option_store(o, value, false))
            code = cli_usage(c, "%s: \"%s\" is not %s", from, value,
                             option_takes(o, takes, sizeof takes));
    }
    return code;
}

/* ---- weft config ----------------------------------------------------------------------------- */

static const char *of_command;
static bool json;

static const option options[] = {
    OPTION_JSON(json, "print one JSON object"),
    { 0 },
};

static const char about[] =
    "Options marked with * are settings. The command line overrides the environment\n"
    "(--ctx-size is WEFT_CTX_SIZE), which overrides the config file. The file has lines\n"
    "such as \"ctx-size = 8192\"; lines below \"[run]\" apply to that command only and\n"
    "override the others. It is weft/config in XDG_CONFIG_HOME or in ~/.config, or the\n"
    "file named by WEFT_CONFIG; an empty WEFT_CONFIG means none.\n";

/* What help has in its last parentheses; a flag is off. */
static const char *default_of(const option *o, char *text, size_t size)
{
    const char *open = strrchr(o->help, '(');
    if (open)
        snprintf(text, size, "%.*s", (int)strcspn(open + 1, ")"), open + 1);
    else
        snprintf(text, size, "%s", o->kind == OPT_FLAG ? "0" : "-");
    return text;
}

typedef struct row {
    const char *section; /* "run.", or "" for what holds for all */
    const char *name, *value, *from;
} row;

static void print_row(const row *r)
{
    if (!json) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", r->section, *r->section ? "." : "", r->name);
        printf("%-24s %-24s %s\n", left, r->value, r->from);
        return;
    }
    cli_json_object(NULL);
    if (*r->section)
        cli_json_string("command", r->section);
    else
        cli_json_null("command");
    cli_json_string("name", r->name);
    cli_json_string("value", r->value);
    cli_json_string("from", r->from);
    cli_json_end();
}

/* Has a command before this one the same setting? */
static bool shown_before(int command_index, const char *name)
{
    for (int i = 0; i < command_index; i++)
        if (takes_setting(commands[i], name))
            return true;
    return false;
}

/* All settings of one command, or of all commands those that are set. */
static void print_settings(const command *only)
{
    char from[sizeof config.path + 16], value[64];
    int64_t n = 0;
    for (int i = 0; commands[i]; i++) {
        const command *c = commands[i];
        for (const option *o = NULL; (o = option_next(c, o));) {
            if (!(o->marks & SETTING) || (only && c != only))
                continue;
            const char *text = in_force(c, o, from, sizeof from);
            const bool own = !only && text && line_for(c, o->name) && strchr(from, ':');
            if (!only && (!text || (!own && shown_before(i, o->name))))
                continue;
            const row r = { own ? c->name : "", o->name,
                            text ? text : default_of(o, value, sizeof value),
                            text ? from : "default" };
            print_row(&r);
            n++;
        }
    }
    if (n == 0 && !json)
        puts("nothing is set; 'weft config COMMAND' lists its settings");
}

static int config_main(void)
{
    const command *only = of_command ? command_find(of_command) : NULL;
    if (of_command && !only)
        return command_unknown(of_command);
    const int code = config_read();
    if (code)
        return code;
    if (json) {
        cli_json_object(NULL);
        cli_json_string("file", config.path);
        cli_json_bool("exists", config.text);
        cli_json_list("settings");
    } else {
        printf("%-24s %s%s\n", "file", *config.path ? config.path : "none",
               config.text || !*config.path ? "" : " (not there)");
    }
    print_settings(only);
    if (json) {
        cli_json_end();
        cli_json_end();
    }
    return 0;
}

const command command_config = {
    .name = "config",
    .arguments = "[COMMAND]",
    .summary = "show settings and where they come from",
    .examples = "  weft config\n"
                "  weft config run\n",
    .about = about,
    .options = options,
    .n_positional = 1,
    .positional = &of_command,
    .main = config_main,
};
