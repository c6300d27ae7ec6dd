/* weft man - manual pages, in the language of man(7), from the table. */
#include "cli.h"

#include <string.h>

static const char *of_command, *directory;

static const option options[] = {
    { 'o', "out", OPT_TEXT, &directory, "DIR", 0, "write all pages to DIR: weft.1 and so on" },
    { 0 },
};

/* Text as it is: a hyphen that is typed, a backslash, and no line that begins a request. */
static void put(const char *text)
{
    bool begins = true;
    for (const char *s = text; *s; s++) {
        if (begins && (*s == '.' || *s == '\''))
            fputs("\\&", stdout);
        begins = *s == '\n';
        if (*s == '-')
            fputs("\\-", stdout);
        else if (*s == '\\')
            fputs("\\e", stdout);
        else
            putchar(*s);
    }
}

static void begin(const char *title, const char *summary)
{
    printf(".TH %s 1 \"\" \"weft %s\" \"weft manual\"\n.SH NAME\n", title, weft_version());
    char page[64];
    size_t i = 0;
    for (; title[i] && i + 1 < sizeof page; i++)
        page[i] = (char)(title[i] >= 'A' && title[i] <= 'Z' ? title[i] + 32 : title[i]);
    page[i] = '\0';
    put(page);
    fputs(" \\- ", stdout);
    put(summary);
    putchar('\n');
}

static void put_option(const option *o)
{
    char variable[64];
    puts(".TP");
    fputs("\\fB", stdout);
    if (o->letter)
        printf("\\-%c\\fR, \\fB", o->letter);
    fputs("\\-\\-", stdout);
    put(o->name);
    fputs("\\fR", stdout);
    if (o->value) {
        fputs(" \\fI", stdout);
        put(o->value);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    put(o->help);
    if (o->marks & SETTING) {
        fputs("; variable \\fB", stdout);
        put(setting_variable(o, variable, sizeof variable));
        fputs("\\fR", stdout);
    }
    putchar('\n');
}

static void put_lines(const char *heading, const char *lines)
{
    printf(".SH %s\n.nf\n", heading);
    put(lines);
    puts(".fi");
}

/* Sections shared by all pages. */
static void end(void)
{
    puts(".SH FILES\n"
         ".TP\n"
         "\\fI~/.config/weft/config\\fR\n"
         "Settings, one per line: \\fBctx\\-size = 8192\\fR;\n"
         "those below \\fB[run]\\fR are for that command only.\n"
         "\\fBXDG_CONFIG_HOME\\fR moves it, \\fBWEFT_CONFIG\\fR names another file.\n"
         "The command line overrides the environment, which overrides the file.\n"
         ".SH EXIT STATUS\n"
         "0 on success, 1 on failure, 2 on wrong usage, 128 plus the signal number when stopped\n"
         "by a signal: 130 for Ctrl\\-C.");
}

static void page_of_command(const command *c)
{
    char title[64];
    size_t i = (size_t)snprintf(title, sizeof title, "WEFT-%s", c->name);
    while (i-- > 0)
        title[i] = (char)(title[i] >= 'a' && title[i] <= 'z' ? title[i] - 32 : title[i]);
    begin(title, c->summary);
    fputs(".SH SYNOPSIS\n\\fBweft ", stdout);
    put(c->name);
    fputs(*c->arguments ? "\\fR " : "\\fR", stdout);
    put(c->arguments);
    puts(c->options->name ? " [options]" : "");
    if (c->about) {
        puts(".SH DESCRIPTION");
        put(c->about);
    }
    if (c->options->name)
        puts(".SH OPTIONS");
    for (const option *o = NULL; (o = option_next(c, o));)
        put_option(o);
    put_lines("EXAMPLES", c->examples);
    end();
    puts(".SH SEE ALSO\n\\fBweft\\fR(1)");
}

static void page_of_all(void)
{
    begin("WEFT", "transformers on CPUs");
    puts(".SH SYNOPSIS\n\\fBweft\\fR COMMAND [arguments] [options]\n"
         ".SH DESCRIPTION\n"
         "Runs, inspects, measures and converts transformer models on processors.\n"
         "Standard output is data, standard error is everything else.\n"
         ".SH COMMANDS");
    for (int i = 0; commands[i]; i++) {
        fputs(".TP\n\\fB", stdout);
        put(commands[i]->name);
        fputs(*commands[i]->arguments ? "\\fR " : "\\fR", stdout);
        put(commands[i]->arguments);
        putchar('\n');
        put(commands[i]->summary);
        putchar('\n');
    }
    puts(".SH ENVIRONMENT\n"
         ".TP\n\\fBNO_COLOR\\fR\nno bold or dim text on terminals\n"
         ".TP\n\\fBOMP_NUM_THREADS\\fR\nnumber of threads, unless another setting says\n"
         ".TP\n\\fBWEFT_MODELS\\fR\ndirectories with models, separated by colons\n"
         ".TP\n\\fBWEFT_ISA\\fR\nkernels to use instead of the best: scalar, avx2 ...\n"
         ".TP\n\\fBWEFT_CONFIG\\fR\nthe config file; empty: none\n"
         ".TP\n\\fBWEFT_\\fINAME\\fR\nsets the option of that name");
    end();
    puts(".SH SEE ALSO");
    for (int i = 0; commands[i]; i++) {
        fputs("\\fBweft\\-", stdout);
        put(commands[i]->name);
        puts(commands[i + 1] ? "\\fR(1)," : "\\fR(1)");
    }
}

static void print_page(const command *c)
{
    if (c)
        page_of_command(c);
    else
        page_of_all();
}

/* Standard output becomes one page after the other. */
static int write_pages(void)
{
    for (int i = -1; i < 0 || commands[i]; i++) {
        const command *c = i < 0 ? NULL : commands[i];
        char path[4096];
        snprintf(path, sizeof path, "%s/weft%s%s.1", directory, c ? "-" : "", c ? c->name : "");
        if (!cli_write_to(path))
            return 1;
        print_page(c);
    }
    return 0;
}

static int man_main(void)
{
    const command *c = of_command ? command_find(of_command) : NULL;
    if (of_command && !c)
        return command_unknown(of_command);
    if (directory)
        return write_pages();
    print_page(c);
    return 0;
}

const command command_man = {
    .name = "man",
    .arguments = "[COMMAND]",
    .summary = "print a manual page",
    .examples = "  weft man run | man -l -\n",
    .options = options,
    .n_positional = 1,
    .positional = &of_command,
    .main = man_main,
    .hidden = true,
};
