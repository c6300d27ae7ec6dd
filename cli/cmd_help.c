/* weft help - one screen for a command, from its table; `weft help all` has everything. */
#include "cli.h"

#include <string.h>

static const char *positional[2];
static const option options[] = { { 0 } };

bool option_is_path(const option *o)
{
    return o->value && (strcmp(o->value, "PATH") == 0 || strcmp(o->value, "FILE") == 0 ||
                        strcmp(o->value, "DIR") == 0);
}

const char *help_option(const option *o, char *text, size_t size)
{
    snprintf(text, size, "%c%c%s --%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
             o->letter ? "," : " ", o->name, o->value ? " " : "", o->value ? o->value : "");
    return text;
}

#define LEFT 22 /* columns of what is typed */

/* An option too wide for its column has its help text on the next line. */
static void print_option(const option *o)
{
    char left[96];
    const bool wide = strlen(help_option(o, left, sizeof left)) > LEFT;
    printf("%c %s%-*s%s", o->marks & SETTING ? '*' : ' ', cli_style(stdout, STYLE_BOLD), LEFT, left,
           cli_style(stdout, STYLE_PLAIN));
    if (wide)
        printf("\n  %*s", LEFT, "");
    printf(" %s\n", o->help);
}

static void print_options(const command *c, bool all)
{
    bool settings = false, rare = false;
    puts("\nOptions (defaults in parentheses):");
    for (const option *o = NULL; (o = option_next(c, o));) {
        rare = rare || o->marks & RARE;
        if (!all && o->marks & RARE)
            continue;
        settings = settings || o->marks & SETTING;
        print_option(o);
    }
    if (settings)
        puts("\n* can also be set in the environment or a file: see 'weft help config'");
    if (rare && !all)
        printf("%s'weft help all %s' lists all options.\n", settings ? "" : "\n", c->name);
}

void help_command(const command *c, bool all)
{
    printf("weft %s - %s\n\nExamples:\n%s\nUsage: weft %s%s%s%s\n", c->name, c->summary,
           c->examples, c->name, *c->arguments ? " " : "", c->arguments,
           c->options->name ? " [options]" : "");
    if (c->about)
        printf("\n%s", c->about);
    if (c->options->name)
        print_options(c, all);
}

static void print_commands(bool all)
{
    puts("weft - transformers on CPUs\n\n"
         "Examples:\n"
         "  weft run models/shakespeare.gguf \"ROMEO:\" -n 64\n"
         "  weft inspect models/shakespeare.gguf\n"
         "  weft trace models/shakespeare.gguf \"ROMEO:\" --only 'blk.0.*'\n"
         "  weft convert models/shakespeare.gguf ./shakespeare\n"
         "  weft train --data README.md --out run --characters --steps 20\n\n"
         "Commands:");
    for (int i = 0; commands[i]; i++)
        if (all || !commands[i]->hidden)
            printf("  %s%-15s%s %s\n", cli_style(stdout, STYLE_BOLD), commands[i]->name,
                   cli_style(stdout, STYLE_PLAIN), commands[i]->summary);
    if (!all)
        puts("\n'weft help COMMAND' shows its options, 'weft help all' everything.");
}

static int help_main(void)
{
    const bool all = positional[0] && strcmp(positional[0], "all") == 0;
    const char *name = positional[all ? 1 : 0];
    const command *c = name ? command_find(name) : NULL;
    if (name && !c)
        return command_unknown(name);
    if (c) {
        help_command(c, all);
        return 0;
    }
    print_commands(all);
    for (int i = 0; all && commands[i]; i++) {
        putchar('\n');
        help_command(commands[i], true);
    }
    return 0;
}

const command command_help = {
    .name = "help",
    .arguments = "[all] [COMMAND]",
    .summary = "list commands and options",
    .examples = "  weft help run\n"
                "  weft help all\n",
    .options = options,
    .n_positional = 2,
    .positional = positional,
    .main = help_main,
    .hidden = true,
};
