/* constrain.c - --grammar, --regex and --schema: the form that a text must have. */
#include "cli.h"

#include <string.h>

#define MOST_GRAMMAR ((size_t)1 << 20) /* the library allows less, and says so */

form_options cli_form;

bool cli_has_form(void)
{
    return cli_form.grammar || cli_form.regex || cli_form.schema;
}

/* The file or text that an option names, and the kind of grammar that it is. */
static int read_form(const command *c, weft_grammar_kind *kind, char **text, size_t *n)
{
    const char *file = cli_form.grammar ? cli_form.grammar : cli_form.schema;
    if (!!cli_form.grammar + !!cli_form.regex + !!cli_form.schema > 1)
        return cli_usage(c, "--grammar, --regex and --schema exclude each other");
    *kind = cli_form.grammar  ? WEFT_GRAMMAR_GBNF
            : cli_form.schema ? WEFT_GRAMMAR_SCHEMA
                              : WEFT_GRAMMAR_REGEX;
    *text = NULL;
    *n = cli_form.regex ? strlen(cli_form.regex) : 0;
    return file ? cli_read(file, MOST_GRAMMAR, text, n) : 0;
}

static int print_wrong(const weft_error *err)
{
    const char *what = cli_form.grammar  ? cli_form.grammar
                       : cli_form.schema ? cli_form.schema
                                         : "--regex";
    weft_error named = { .code = err->code };
    snprintf(named.message, sizeof named.message, "%.200s: %.300s", what, err->message);
    return cli_fail(&named);
}

int cli_constraint(const command *c, const weft_grammar_options *with, weft_tokenizer *tokenizer,
                   weft_constraint **to)
{
    weft_error err = { 0 };
    weft_grammar_kind kind = WEFT_GRAMMAR_REGEX;
    char *text;
    size_t n;
    *to = NULL;
    if (!cli_has_form())
        return 0;
    if (!tokenizer)
        return cli_usage(c, "--grammar, --regex and --schema need a tokenizer; see --tokenizer");
    int code = read_form(c, &kind, &text, &n);
    if (code)
        return code;
    weft_grammar *g = weft_grammar_new(tokenizer, kind, text ? text : cli_form.regex, n, with,
                                       &err);
    cli_free(text);
    *to = g ? weft_constraint_new(g, &err) : NULL;
    weft_grammar_free(g);
    return *to ? 0 : print_wrong(&err);
}
