/* weft completions - what shells need to complete commands, options and their values, from the
 * table. The scripts stand alone: a shell that completes does not start weft. */
#include "cli.h"

#include <string.h>

static const char *shell, *file_name;

static const option options[] = {
    { 'o', "out", OPT_TEXT, &file_name, "FILE", 0, "write it to FILE" },
    { 0 },
};

/* Words separated by | as a list separated by blanks. */
static void put_words(const char *words)
{
    for (const char *s = words; *s; s++)
        putchar(*s == '|' ? ' ' : *s);
}

static void put_commands(void)
{
    for (int i = 0; commands[i]; i++)
        printf("%s%s", i ? " " : "", commands[i]->name);
}

/* Positional arguments are words of ours with some commands; otherwise they are files. */
static bool takes_words(const command *c)
{
    return strstr(c->arguments, "COMMAND") || strncmp(c->arguments, "bash", 4) == 0;
}

static void put_arguments(const command *c)
{
    if (strstr(c->arguments, "COMMAND"))
        put_commands();
    else
        put_words(c->arguments);
}

/* ---- bash ------------------------------------------------------------------------------------ */

/* After an option with a value: its words, files, or nothing. */
static void bash_value(const command *c, const option *o)
{
    if (!o->value)
        return;
    printf("        %s:--%s", c->name, o->name);
    if (o->letter)
        printf("|%s:-%c", c->name, o->letter);
    fputs(") ", stdout);
    if (o->kind == OPT_CHOICE) {
        fputs("words='", stdout);
        put_words(o->value);
        fputs("'", stdout);
    } else {
        fputs(option_is_path(o) ? "files=1" : ":", stdout);
    }
    puts(" ;;");
}

static void bash_command(const command *c)
{
    printf("        %s) words='", c->name);
    for (const option *o = NULL; (o = option_next(c, o));)
        printf("--%s ", o->name);
    puts("--help' ;;");
}

static void bash(void)
{
    puts("# bash completion for weft; made by 'weft completions bash'\n"
         "_weft()\n"
         "{\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words= files=\n"
         "    COMPREPLY=()\n"
         "    if [ \"$COMP_CWORD\" -eq 1 ]; then");
    fputs("        COMPREPLY=($(compgen -W '", stdout);
    put_commands();
    puts(" --help --version' -- \"$cur\"))\n"
         "        return\n"
         "    fi\n"
         "    case ${COMP_WORDS[1]}:$prev in");
    for (int i = 0; commands[i]; i++)
        for (const option *o = NULL; (o = option_next(commands[i], o));)
            bash_value(commands[i], o);
    puts("        *)\n"
         "        case $cur in\n"
         "        -*)\n"
         "        case ${COMP_WORDS[1]} in");
    for (int i = 0; commands[i]; i++)
        bash_command(commands[i]);
    puts("        esac ;;\n"
         "        *)\n"
         "        case ${COMP_WORDS[1]} in");
    for (int i = 0; commands[i]; i++) {
        if (!takes_words(commands[i]))
            continue;
        printf("        %s) words='", commands[i]->name);
        put_arguments(commands[i]);
        puts("' ;;");
    }
    puts("        *) files=1 ;;\n"
         "        esac ;;\n"
         "        esac ;;\n"
         "    esac\n"
         "    if [ -n \"$files\" ]; then\n"
         "        compopt -o filenames 2>/dev/null\n"
         "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
         "    elif [ -n \"$words\" ]; then\n"
         "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "    fi\n"
         "}\n"
         "complete -F _weft weft");
}

/* ---- zsh ------------------------------------------------------------------------------------- */

/* In a single-quoted specification, where : and brackets have a meaning. */
static void zsh_text(const char *text)
{
    for (const char *s = text; *s; s++) {
        if (*s == '\'')
            fputs("'\\'", stdout);
        else if (strchr(":[]\\", *s))
            putchar('\\');
        putchar(*s);
    }
}

/* ":ctx-size:_files", what follows an option. */
static void zsh_value(const option *o)
{
    printf(":%s:", o->name);
    if (o->kind == OPT_CHOICE) {
        putchar('(');
        put_words(o->value);
        putchar(')');
    } else if (option_is_path(o)) {
        fputs("_files", stdout);
    }
}

static void zsh_option(const option *o)
{
    const char *star = o->kind == OPT_LIST ? "*" : "";
    for (int form = o->letter ? 0 : 1; form < 2; form++) {
        fputs("            '", stdout);
        if (form == 0)
            printf("%s-%c[", star, o->letter);
        else
            printf("%s--%s%s[", star, o->name, o->value ? "=" : "");
        zsh_text(o->help);
        putchar(']');
        if (o->value)
            zsh_value(o);
        puts("' \\");
    }
}

static void zsh(void)
{
    puts("#compdef weft\n"
         "# zsh completion for weft; made by 'weft completions zsh'\n"
         "local -a verbs\n"
         "verbs=(");
    for (int i = 0; commands[i]; i++) {
        printf("    '%s:", commands[i]->name);
        zsh_text(commands[i]->summary);
        puts("'");
    }
    puts(")\n"
         "if (( CURRENT == 2 )); then\n"
         "    _describe command verbs\n"
         "    return\n"
         "fi\n"
         "local verb=$words[2]\n"
         "shift words\n"
         "(( CURRENT-- ))\n"
         "case $verb in");
    for (int i = 0; commands[i]; i++) {
        printf("    %s)\n        _arguments -s \\\n", commands[i]->name);
        for (const option *o = NULL; (o = option_next(commands[i], o));)
            zsh_option(o);
        fputs("            '--help[show the options]' '*:argument:", stdout);
        if (takes_words(commands[i])) {
            putchar('(');
            put_arguments(commands[i]);
            puts(")' ;;");
        } else {
            puts("_files' ;;");
        }
    }
    puts("esac");
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void fish_text(const char *text)
{
    putchar('\'');
    for (const char *s = text; *s; s++) {
        if (*s == '\'' || *s == '\\')
            putchar('\\');
        putchar(*s);
    }
    putchar('\'');
}

static void fish_option(const command *c, const option *o)
{
    printf("complete -c weft -n '__fish_seen_subcommand_from %s' -l %s", c->name, o->name);
    if (o->letter)
        printf(" -s %c", o->letter);
    if (option_is_path(o))
        fputs(" -r -F", stdout);
    else if (o->value)
        fputs(" -x", stdout);
    if (o->kind == OPT_CHOICE) {
        fputs(" -a '", stdout);
        put_words(o->value);
        putchar('\'');
    }
    fputs(" -d ", stdout);
    fish_text(o->help);
    putchar('\n');
}

static void fish(void)
{
    puts("# fish completion for weft; made by 'weft completions fish'");
    for (int i = 0; commands[i]; i++) {
        const command *c = commands[i];
        printf("complete -c weft -n __fish_use_subcommand -f -a %s -d ", c->name);
        fish_text(c->summary);
        putchar('\n');
        for (const option *o = NULL; (o = option_next(c, o));)
            fish_option(c, o);
        if (!takes_words(c))
            continue;
        printf("complete -c weft -n '__fish_seen_subcommand_from %s' -f -a '", c->name);
        put_arguments(c);
        puts("'");
    }
}

static int completions_main(void)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };
    for (size_t i = 0; shell && i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(shell, shells[i].name) != 0)
            continue;
        if (file_name && !cli_write_to(file_name))
            return 1;
        shells[i].print();
        return 0;
    }
    return cli_usage(&command_completions, "which shell? Give bash, zsh or fish");
}

const command command_completions = {
    .name = "completions",
    .arguments = "bash|zsh|fish",
    .summary = "print a shell completion script",
    .examples = "  source <(weft completions bash)\n"
                "  weft completions fish > ~/.config/fish/completions/weft.fish\n",
    .options = options,
    .n_positional = 1,
    .positional = &shell,
    .main = completions_main,
    .hidden = true,
};
