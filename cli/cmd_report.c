/* weft report - what a run has learned so far, as a page to look at. */
#include "cli.h"
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *run, *out, *title;
static bool json;

static const option options[] = {
    { 'o', "out", OPT_TEXT, &out, "FILE", 0,
      "write to FILE; - is standard output (RUN/report.html)" },
    { 0, "title", OPT_TEXT, &title, "TEXT", 0, "title of the page (the run's name)" },
    OPTION_JSON(json, "print one JSON object"),
    OPTION_RAM_MAX,
    { 0 },
};

/* For standard output the page is made in a temporary file first. */
static int print_page(const weft_report_options *o)
{
    const char *tmp = getenv("TMPDIR");
    char path[4096], *text = NULL;
    weft_error err = { 0 };
    size_t n = 0;
    const int length = snprintf(path, sizeof path, "%s/weft-report-XXXXXX",
                                tmp && *tmp ? tmp : "/tmp");
    const int fd = length < (int)sizeof path ? mkstemp(path) : -1;
    if (fd < 0)
        return cli_cannot_write(path);
    close(fd);
    int code = weft_report(run, path, o, NULL, &err) == WEFT_OK
                   ? cli_read(path, CLI_MAX_TEXT, &text, &n)
                   : cli_fail(&err);
    unlink(path);
    if (!code && fwrite(text, 1, n, stdout) != n)
        code = 1;
    cli_free(text);
    return code;
}

static int report_main(void)
{
    const weft_report_options o = { .struct_size = sizeof o,
                                    .title = title,
                                    .budget = cli_budget() };
    weft_report_info i = { .struct_size = sizeof i };
    weft_error err = { 0 };
    if (!run)
        return cli_usage(&command_report, "which run? Give the directory written by weft train");
    if (out && strcmp(out, "-") == 0)
        return print_page(&o);
    if (weft_report(run, out, &o, &i, &err) != WEFT_OK)
        return cli_fail(&err);
    if (!json) {
        printf("%s: %lld steps, %lld samples\n", i.path, (long long)i.step, (long long)i.n_sample);
        return 0;
    }
    cli_json_object(NULL);
    cli_json_string("path", i.path);
    cli_json_int("step", i.step);
    cli_json_int("n_point", i.n_point);
    cli_json_int("n_sample", i.n_sample);
    cli_json_int("bytes", i.bytes);
    cli_json_end();
    return 0;
}

const command command_report = {
    .name = "report",
    .arguments = "RUN",
    .summary = "make an HTML report of a training run",
    .examples = "  weft report shakespeare\n"
                "  weft report shakespeare -o shakespeare.html --title \"Forty plays\"\n",
    .options = options,
    .n_positional = 1,
    .positional = &run,
    .main = report_main,
};
