/* commands.c - commands by their names, and the one that may have been meant. main.c has the list.
 */
#include "cli.h"

#include <limits.h>
#include <string.h>

const command *const *commands;

bool cli_is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

const command *command_find(const char *name)
{
    name = strcmp(name, "--version") == 0 ? "version" : cli_is_help(name) ? "help" : name;
    for (int i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

const char *command_near(const char *name)
{
    const char *best = NULL;
    int least = INT_MAX;
    for (int i = 0; commands[i]; i++)
        if (cli_resembles(name, commands[i]->name, &least))
            best = commands[i]->name;
    return best;
}

int command_unknown(const char *name)
{
    const char *best = command_near(name);
    if (best)
        fprintf(stderr, "weft: no command \"%s\"; did you mean %s?\n", name, best);
    else if (strpbrk(name, "./"))
        fprintf(stderr, "weft: no command \"%s\"; to run it: weft run %s -p TEXT\n", name, name);
    else if (name[0] == '-')
        fprintf(stderr, "weft: %s before a command; expected weft COMMAND, as in weft run %s ...\n",
                name, name);
    else
        fprintf(stderr, "weft: no command \"%s\"\n", name);
    fputs("Try 'weft help'.\n", stderr);
    return EXIT_USAGE;
}
