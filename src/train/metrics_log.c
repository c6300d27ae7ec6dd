/* metrics_log.c - appends lines to RUN/metrics.jsonl, each whole or not at all.
 *
 * A full disk must not end training. A line is one write; the remains of a partial write are cut
 * off before the next one. */
#include "train/metrics_log.h"

#include "base/buffer.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

static weft_status metrics_path(char *path, size_t size, const char *run, weft_error *err)
{
    if (!path_join(path, size, run, METRICS_FILE))
        return weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", run);
    return WEFT_OK;
}

weft_status metrics_log_check(const char *run, host *h, weft_error *err)
{
    char path[4096];
    uint64_t size;
    const weft_status status = metrics_path(path, sizeof path, run, err);
    if (status != WEFT_OK)
        return status;
    const int fd = h->io.open(h->io.ud, path);
    if (fd < 0)
        return WEFT_OK; /* missing, or an error that open() will report */
    const bool regular = h->io.size(h->io.ud, fd, &size) == 0;
    h->io.close(h->io.ud, fd);
    return regular ? WEFT_OK
                   : weft_fail(err, WEFT_EIO,
                               "%s: not a regular file; move it away, or give the run another "
                               "directory",
                               path);
}

/* ---- lines that stay ------------------------------------------------------------------------- */

static bool add_digit(line_scan *s, uint8_t c)
{
    if (s->step > (INT64_MAX - 9) / 10)
        return false;
    s->step = (s->step < 0 ? 0 : s->step) * 10 + (c - '0');
    return true;
}

bool line_scan_add(line_scan *s, const uint8_t *bytes, size_t n)
{
    static const char prefix[] = "{\"step\":";
    for (size_t i = 0; i < n; i++) {
        const uint8_t c = bytes[i];
        s->seen++;
        if (prefix[s->n_prefix]) {
            if (c != (uint8_t)prefix[s->n_prefix++])
                return false;
            continue;
        }
        if (!s->past && c >= '0' && c <= '9') {
            if (!add_digit(s, c))
                return false;
            continue;
        }
        if (!s->past && (s->step < 0 || s->step > s->limit))
            return false;
        s->past = true;
        if (c == '\n')
            *s = (line_scan){ .limit = s->limit, .kept = s->seen, .seen = s->seen, .step = -1 };
    }
    return true;
}

static weft_status count_kept(const char *path, int64_t step, uint64_t *kept, host *h,
                              weft_error *err)
{
    uint8_t part[4096];
    line_scan s = { .limit = step, .step = -1 };
    reader r;
    weft_status status = reader_open(&r, path, h, err);
    if (status != WEFT_OK)
        return status;
    while (r.left > 0) {
        const size_t n = r.left < sizeof part ? (size_t)r.left : sizeof part;
        status = reader_get(&r, part, n, err);
        if (status != WEFT_OK || !line_scan_add(&s, part, n))
            break;
    }
    reader_close(&r);
    *kept = s.kept;
    return status;
}

weft_status metrics_log_open(metrics_log *m, const char *run, int64_t step, host *h,
                             weft_error *err)
{
    *m = (metrics_log){ .host = h, .fd = -1 };
    weft_status status = metrics_path(m->path, sizeof m->path, run, err);
    if (status == WEFT_OK && step > 0 && path_exists(m->path, h))
        status = count_kept(m->path, step, &m->written, h, err);
    if (status != WEFT_OK)
        return status;
    m->fd = h->io.append(h->io.ud, m->path);
    if (m->fd >= 0 && h->io.truncate(h->io.ud, m->fd, m->written) == 0)
        return WEFT_OK;
    status = weft_fail(err, WEFT_EIO, "%s: cannot write: %s", m->path, strerror(errno));
    metrics_log_close(m);
    return status;
}

void metrics_log_close(metrics_log *m)
{
    if (!m->host || m->fd < 0)
        return;
    if (m->n_lost > 0)
        log_write(&m->host->log, WEFT_LOG_WARN, "%s: %lld lines are missing", m->path,
                  (long long)m->n_lost);
    m->host->io.close(m->host->io.ud, m->fd);
    m->fd = -1;
}

/* ---- one more -------------------------------------------------------------------------------- */

static void put_number(buffer *b, const char *key, double x)
{
    if (isfinite(x))
        buffer_format(b, ",\"%s\":%.9g", key, x);
}

static void format_line(buffer *b, const weft_train_progress *p, const char *sample,
                        size_t n_sample)
{
    buffer_format(b, "{\"step\":%lld", (long long)p->step);
    put_number(b, "loss", p->loss);
    put_number(b, "smoothed", p->smoothed);
    put_number(b, "lr", p->lr);
    put_number(b, "grad_norm", p->grad_norm);
    buffer_format(b, ",\"tokens\":%lld", (long long)p->n_token);
    put_number(b, "tokens_per_second", p->tokens_per_second);
    put_number(b, "share", p->share);
    put_number(b, "expert_least", p->expert_least);
    put_number(b, "expert_most", p->expert_most);
    put_number(b, "margin", p->margin);
    put_number(b, "right", p->right);
    put_number(b, "logp_chosen", p->logp_chosen);
    put_number(b, "logp_rejected", p->logp_rejected);
    put_number(b, "val_loss", p->val_loss);
    put_number(b, "val_accuracy", p->val_accuracy);
    if (p->skipped)
        buffer_text(b, ",\"skipped\":true");
    if (sample && n_sample > 0) {
        buffer_text(b, ",\"sample\":");
        buffer_quote_any(b, sample, n_sample);
    }
    buffer_text(b, "}\n");
}

/* Returns false with errno set. */
static bool write_metrics(metrics_log *m, const uint8_t *bytes, size_t n)
{
    const io_hooks *io = &m->host->io;
    for (size_t at = 0; at < n;) {
        const ssize_t done = io->write(io->ud, m->fd, bytes + at, n - at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done == 0)
            errno = ENOSPC;
        if (done <= 0)
            return false;
        at += (size_t)done;
    }
    return true;
}

/* Returns false with errno set while half a line remains in the file. */
static bool cut_torn(metrics_log *m)
{
    const io_hooks *io = &m->host->io;
    m->torn = m->torn && io->truncate(io->ud, m->fd, m->written) != 0;
    return !m->torn;
}

static void lose_line(metrics_log *m, const char *why)
{
    if (m->n_lost++ == 0)
        log_write(&m->host->log, WEFT_LOG_WARN, "%s: %s; training continues without it", m->path,
                  why);
}

void metrics_log_put(metrics_log *m, const weft_train_progress *p, const char *sample,
                     size_t n_sample)
{
    buffer b;
    weft_error err = { 0 };
    assert(m->fd >= 0);
    buffer_begin(&b, &m->host->mem, &err);
    format_line(&b, p, sample, n_sample);
    if (b.failed) {
        lose_line(m, err.message);
    } else if (!cut_torn(m)) {
        lose_line(m, strerror(errno));
    } else if (!write_metrics(m, b.at, b.n)) {
        lose_line(m, strerror(errno));
        m->torn = true;
        cut_torn(m);
    } else {
        m->written += b.n;
    }
    buffer_end(&b);
}
