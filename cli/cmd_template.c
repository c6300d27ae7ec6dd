/* weft template - what a model's chat template makes of a conversation: text, ids, and who wrote
 * which part. */
#include "cli.h"
#include "json.h"
#include "messages.h"

#include <string.h>
#include <unistd.h>

static const char *positional[2]; /* MODEL, FILE */
static load_options load;
static const char *text, *system_text, *tools, *variables, *file, *name, *date, *pre;
static bool json, ids, plain, source, no_generation_prompt, trust_all;

static const option options[] = {
    OPTION_MODEL(load),
    { 'p', "prompt", OPT_TEXT, &text, "TEXT", 0, "one message of the user, instead of FILE" },
    { 0, "system", OPT_TEXT, &system_text, "TEXT", SETTING, "with -p: the system message" },
    { 0, "tools", OPT_TEXT, &tools, "FILE", 0, "JSON list of tools" },
    { 0, "variables", OPT_TEXT, &variables, "JSON", SETTING,
      "further variables, such as '{\"enable_thinking\": false}'" },
    { 0, "ids", OPT_FLAG, &ids, NULL, 0, "print the token ids" },
    { 0, "plain", OPT_FLAG, &plain, NULL, 0, "no colours or marks: the exact text" },
    { 0, "source", OPT_FLAG, &source, NULL, 0, "print the template itself" },
    { 0, "no-generation-prompt", OPT_FLAG, &no_generation_prompt, NULL, 0,
      "do not end with the start of the assistant's turn" },
    { 0, "template", OPT_TEXT, &file, "FILE", RARE, "use this template (the model's)" },
    { 0, "name", OPT_TEXT, &name, "NAME", RARE, "which of several templates (default)" },
    { 0, "date", OPT_TEXT, &date, "DATE", RARE, "date for templates that write it (today)" },
    { 0, "trust-all", OPT_FLAG, &trust_all, NULL, RARE,
      "parse special tokens in messages too, as transformers does" },
    OPTION_TOKENIZER(load),
    OPTION_PRE(pre),
    OPTION_RAM_MAX,
    OPTION_JSON(json, "print one JSON object"),
    { 0 },
};

static const char examples[] =
    "  weft template ./model-directory -p \"Why is the sky blue?\"\n"
    "  weft template model.gguf messages.json --tools tools.json --ids\n";

/* ---- output ---------------------------------------------------------------------------------- */

/* Text of messages is green, or between brackets without colour; the rest is the template's. */
static void print_marked(const weft_rendered *r)
{
    const bool colour = cli_style(stdout, STYLE_GREEN)[0] != '\0';
    for (int64_t i = 0; i < r->n_origin; i++) {
        const weft_origin *o = &r->origins[i];
        const bool theirs = !o->trusted;
        fputs(!theirs ? "" : colour ? cli_style(stdout, STYLE_GREEN) : "\xE2\x9F\xA6", stdout);
        cli_put(stdout, r->text + o->from, o->to - o->from);
        fputs(!theirs ? "" : colour ? cli_style(stdout, STYLE_PLAIN) : "\xE2\x9F\xA7", stdout);
    }
    if (r->length > 0 && r->text[r->length - 1] != '\n')
        putchar('\n');
}

static void json_origins(const weft_rendered *r)
{
    cli_json_list("origins");
    for (int64_t i = 0; i < r->n_origin; i++) {
        const weft_origin *o = &r->origins[i];
        cli_json_object(NULL);
        cli_json_int("from", o->from);
        cli_json_int("to", o->to);
        if (o->message >= 0) {
            cli_json_int("message", o->message);
            cli_json_string("field", o->field);
        } else {
            cli_json_string("writer", o->message == -1 ? "template" : "variables");
        }
        cli_json_bool("trusted", o->trusted);
        cli_json_end();
    }
    cli_json_end();
}

static void print_json(const weft_rendered *r)
{
    cli_json_object(NULL);
    cli_json_text("text", r->text, r->length);
    if (r->tokens)
        cli_json_ids("ids", r->tokens->ids, r->tokens->n);
    json_origins(r);
    cli_json_end();
}

static void print_ids(const weft_tokens *k)
{
    for (int64_t i = 0; i < k->n; i++)
        printf("%s%d", i ? "," : "", (int)k->ids[i]);
    putchar('\n');
}

static void print(const weft_rendered *r)
{
    if (json)
        print_json(r);
    else if (ids)
        print_ids(r->tokens);
    else if (plain)
        fwrite(r->text, 1, r->length, stdout);
    else
        print_marked(r);
}

/* ---- input ----------------------------------------------------------------------------------- */

static int take_messages(char **messages, size_t *n)
{
    if (!text)
        return cli_read(positional[1] ? positional[1] : "-", CLI_MAX_TEXT, messages, n);
    *messages = cli_messages(system_text, text, strlen(text));
    *n = *messages ? strlen(*messages) : 0;
    return *messages ? 0 : cli_no_memory();
}

static int render(const weft_template *t, const weft_tokenizer *words, weft_render_options *o)
{
    weft_error err = { 0 };
    char *messages = NULL, *tool_list = NULL;
    size_t n = 0, n_tool = 0;
    int code = take_messages(&messages, &n);
    if (!code && tools)
        code = cli_read(tools, CLI_MAX_TEXT, &tool_list, &n_tool);
    o->tools = tool_list;
    weft_rendered *r = code ? NULL : weft_template_render(t, words, messages, n, o, &err);
    if (r)
        print(r);
    else if (!code)
        code = cli_fail(&err);
    weft_rendered_free(r);
    cli_free(messages);
    cli_free(tool_list);
    return code;
}

static int check_options(weft_render_options *o)
{
    const command *c = &command_template;
    if (!load.path && !file)
        return cli_which_model(c);
    if (ids && !load.path && !load.tokenizer)
        return cli_usage(c, "--ids needs a model or --tokenizer");
    if (text && positional[1])
        return cli_usage(c, "both -p and a file; give one of them");
    if (system_text && !text)
        return cli_usage(c, "--system is for -p; a file has its own messages");
    if (!source && !text && !positional[1] && !cli_is_piped())
        return cli_usage(c, "no messages; give a JSON file, or -p TEXT");
    *o = (weft_render_options){ .struct_size = sizeof *o,
                                .variables = variables,
                                .no_generation_prompt = no_generation_prompt,
                                .trust_all = trust_all };
    if (!cli_date(date, &o->now))
        return cli_usage(c, "--date: \"%s\"; expected a date such as 2026-07-01", date);
    return 0;
}

static bool ends_with_json(const char *path)
{
    const size_t n = path ? strlen(path) : 0;
    return n > 5 && strcmp(path + n - 5, ".json") == 0;
}

static int template_main(void)
{
    weft_error err = { 0 };
    weft_render_options o;
    if (file && !positional[1] && ends_with_json(positional[0])) { /* no model is needed */
        positional[1] = positional[0];
        positional[0] = NULL;
    }
    load.path = positional[0] ? positional[0] : load.path;
    int code = check_options(&o);
    if (code)
        return code;
    weft_template *t = cli_template(load.path, file, name, &err);
    if (!t)
        return cli_fail(&err);
    weft_tokenizer *words = (ids || json) && (load.path || load.tokenizer)
                                ? cli_tokenizer(&load, pre, &err)
                                : NULL;
    weft_template_info info = { .struct_size = sizeof info };
    weft_template_get_info(t, &info);
    if (source)
        fwrite(info.source, 1, info.source_length, stdout);
    else if (ids && !words)
        code = cli_fail(&err);
    else
        code = render(t, words, &o);
    weft_tokenizer_free(words);
    weft_template_free(t);
    return code;
}

const command command_template = {
    .name = "template",
    .arguments = "MODEL [FILE]",
    .summary = "show what the chat template makes of messages",
    .examples = examples,
    .options = options,
    .n_positional = 2,
    .positional = positional,
    .main = template_main,
};
