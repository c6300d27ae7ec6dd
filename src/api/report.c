/* report.c - the public function that writes the report page of a run: check, read, delegate. */
#include "explain/report.h"
#include "api/api.h"
#include "base/save.h"
#include "models/conversion.h"

#include <stdio.h>
#include <string.h>

static weft_status read_metrics(metrics *m, const char *directory, host *h, weft_error *err)
{
    char path[4096];
    file f;
    if (!convert_join(path, sizeof path, directory, "metrics.jsonl"))
        return weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", directory);
    weft_status status = file_open(&f, path, WEFT_LOAD_COPY, h, err);
    if (status != WEFT_OK)
        return status;
    status = metrics_parse(m, f.data, f.size, path, h, err);
    if (status == WEFT_OK && m->n == 0) {
        metrics_free(m);
        status = weft_fail(err, WEFT_EFORMAT, "%s: no step has been written yet", path);
    }
    file_close(&f, h);
    return status;
}

/* RUN/options, which the program writes. Runs of other programs have no such file; the page then
 * shows no options. */
static bool open_options(file *f, const char *directory, host *h)
{
    char path[4096];
    if (!convert_join(path, sizeof path, directory, "options") || !path_exists(path, h) ||
        file_open(f, path, WEFT_LOAD_COPY, h, NULL) != WEFT_OK)
        return false;
    if (f->size <= 1 << 16)
        return true;
    file_close(f, h);
    return false;
}

static weft_status write_page(const char *directory, const metrics *m, const weft_report_options *o,
                              weft_report_info *i, host *h, weft_error *err)
{
    char name[256], words[512];
    buffer b;
    file options;
    const bool begun = open_options(&options, directory, h);
    path_name(directory, "run", name, sizeof name);
    const report_facts f = { .title = o->title ? o->title : name,
                             .model = report_describe(directory, h, words, sizeof words) ? words
                                                                                         : NULL,
                             .options = begun ? (const char *)options.data : NULL,
                             .n_options = begun ? (size_t)options.size : 0 };
    buffer_begin(&b, &h->mem, err);
    report_html(&f, m, &b);
    if (!b.failed)
        save_whole(i->path, b.at, b.n, h, err);
    i->bytes = b.n;
    buffer_end(&b);
    if (begun)
        file_close(&options, h);
    return err->code;
}

weft_status weft_report(const char *directory, const char *to, const weft_report_options *options,
                        weft_report_info *info, weft_error *err)
{
    weft_report_options o;
    weft_report_info i = { 0 };
    metrics m;
    weft_error local;
    err = begin_call(err, &local);
    if (!directory || !*directory)
        return weft_fail(err, WEFT_EINVAL, "no run given");
    if ((info && !result_fits(info, "weft_report_info", err)) ||
        !read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_report_options", err))
        return WEFT_EINVAL;
    if (to ? snprintf(i.path, sizeof i.path, "%s", to) >= (int)sizeof i.path
           : !convert_join(i.path, sizeof i.path, directory, "report.html"))
        return weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", to ? to : directory);
    host h = { .io = io_system };
    take_memory(&h, o.ram_max, o.budget);
    if (read_metrics(&m, directory, &h, err) != WEFT_OK)
        return err->code;
    i.step = (int64_t)m.at[m.n - 1].step;
    i.n_point = m.n;
    for (int64_t k = 0; k < m.n; k++)
        i.n_sample += m.at[k].sample != NULL;
    const weft_status status = write_page(directory, &m, &o, &i, &h, err);
    metrics_free(&m);
    if (info && status == WEFT_OK)
        copy_result(info, info->struct_size, &i, sizeof i);
    return status;
}
