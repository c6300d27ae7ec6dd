/* explain_kernels.c - the public function that makes a page of kernel regression: check, read,
 * delegate. */
#include "api/api.h"
#include "explain/kernels.h"

#include <string.h>

_Static_assert(WEFT_EXPLAIN_POINTS == POINTS_MOST, "the public limit is the parser's");

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static weft_status write_out(const kernel_study *s, bool json, weft_page_fn *fn, void *ud, host *h,
                             weft_error *err)
{
    buffer b;
    document d = { .b = &b, .page = !json };
    buffer_begin(&b, &h->mem, err);
    (json ? kernels_write : kernels_page)(s, &d);
    if (json)
        buffer_text(&b, "\n");
    if (!b.failed && !fn(ud, (const char *)b.at, b.n, err) && err->code == WEFT_OK)
        weft_fail(err, WEFT_EIO, "the page could not be written");
    buffer_end(&b);
    return err->code;
}

static weft_status read_points(points *p, const char *path, host *h, weft_error *err)
{
    file f;
    weft_status status = file_open(&f, path, WEFT_LOAD_COPY, h, err);
    if (status != WEFT_OK)
        return status;
    status = points_parse(p, (const char *)f.data, (size_t)f.size, path, err);
    file_close(&f, h);
    return status;
}

weft_status weft_explain_kernels(const char *path, const weft_explain_kernels_options *options,
                                 weft_page_fn *fn, void *ud, weft_error *err)
{
    weft_explain_kernels_options o;
    weft_error local;
    err = begin_call(err, &local);
    if (!path || !fn)
        return weft_fail(err, WEFT_EINVAL, path ? "nobody to give the page to" : "no file given");
    if (!read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_explain_kernels_options", err))
        return err->code;
    host h = { .io = io_system };
    take_memory(&h, o.ram_max, o.budget);
    points *p = mem_zalloc(&h.mem, 1, sizeof *p, "points", err);
    kernel_study *s = p ? mem_zalloc(&h.mem, 1, sizeof *s, "kernels", err) : NULL;
    weft_status status = s ? read_points(p, path, &h, err) : err->code;
    if (status == WEFT_OK)
        status = kernels_study(s, p, o.title ? o.title : name_of(path), &h, err);
    if (status == WEFT_OK)
        status = write_out(s, o.json, fn, ud, &h, err);
    mem_free(&h.mem, s);
    mem_free(&h.mem, p);
    return status;
}
