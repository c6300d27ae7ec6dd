/* metrics.c - the lines of a run: see metrics.h. */
#include "metrics.h"

#include <errno.h>
#include <math.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void path_of(const char *run, char *path, size_t size)
{
    snprintf(path, size, "%s/metrics.jsonl", run);
}

bool metrics_possible(const char *run)
{
    char path[4096];
    struct stat st;
    path_of(run, path, sizeof path);
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode))
        return true;
    fprintf(stderr, "weft: %s: not a regular file; move it away, or give another --out\n", path);
    return false;
}

/* ---- lines that stay ------------------------------------------------------------------------- */

/* The step that the line at the file's position begins with; -1 where it begins otherwise. */
static int64_t read_step(FILE *f)
{
    int64_t step = -1;
    for (const char *at = "{\"step\":"; *at; at++)
        if (getc(f) != *at)
            return -1;
    for (int c; (c = getc(f)) >= '0' && c <= '9';) {
        if (step > (INT64_MAX - 9) / 10)
            return -1;
        step = (step < 0 ? 0 : step) * 10 + (c - '0');
    }
    return step;
}

static bool skip_line(FILE *f)
{
    int c;
    while ((c = getc(f)) != EOF && c != '\n')
        ;
    return c == '\n';
}

long metrics_kept(FILE *f, int64_t step)
{
    long kept = 0;
    rewind(f);
    for (;;) {
        const int64_t next = read_step(f);
        if (next < 0 || next > step || fseek(f, -1, SEEK_CUR) != 0 || !skip_line(f))
            return kept;
        kept = ftell(f);
    }
}

bool metrics_open(metrics *m, const char *run, int64_t step)
{
    char path[4096];
    path_of(run, path, sizeof path);
    *m = (metrics){ .run = run, .f = fopen(path, step > 0 ? "r+" : "w") };
    if (!m->f && errno == ENOENT)
        m->f = fopen(path, "w");
    if (m->f && step > 0)
        m->written = metrics_kept(m->f, step);
    if (m->f && fseek(m->f, m->written, SEEK_SET) == 0 && ftruncate(fileno(m->f), m->written) == 0)
        return true;
    fprintf(stderr, "weft: %s: %s\n", path, strerror(errno));
    if (m->f)
        fclose(m->f);
    m->f = NULL;
    return false;
}

/* ---- one more -------------------------------------------------------------------------------- */

static void put_number(FILE *f, const char *key, double x)
{
    if (isfinite(x))
        fprintf(f, ",\"%s\":%.9g", key, x);
}

static void put_line(FILE *f, const weft_train_progress *p, const char *sample, size_t n_sample)
{
    fprintf(f, "{\"step\":%lld", (long long)p->step);
    put_number(f, "loss", p->loss);
    put_number(f, "smoothed", p->smoothed);
    put_number(f, "lr", p->lr);
    put_number(f, "grad_norm", p->grad_norm);
    fprintf(f, ",\"tokens\":%lld", (long long)p->n_token);
    put_number(f, "tokens_per_second", p->tokens_per_second);
    put_number(f, "share", p->share);
    put_number(f, "expert_least", p->expert_least);
    put_number(f, "expert_most", p->expert_most);
    put_number(f, "val_loss", p->val_loss);
    put_number(f, "val_accuracy", p->val_accuracy);
    if (p->skipped)
        fputs(",\"skipped\":true", f);
    if (n_sample > 0 && isfinite(p->val_loss)) {
        fputs(",\"sample\":", f);
        cli_json_put(f, sample, n_sample);
    }
    fputs("}\n", f);
}

static void take_back(metrics *m)
{
    const int why = errno;
    __fpurge(m->f); /* or the next flush would write the rest of the line */
    clearerr(m->f);
    if (ftruncate(fileno(m->f), m->written) == 0)
        fseek(m->f, m->written, SEEK_SET);
    if (m->n_lost++ > 0)
        return;
    m->why = why;
    fprintf(stderr, "weft: warning: %s/metrics.jsonl: %s; training continues without it\n", m->run,
            strerror(why));
}

void metrics_put(metrics *m, const weft_train_progress *p, const char *sample, size_t n_sample)
{
    put_line(m->f, p, sample, n_sample);
    if (fflush(m->f) == 0 && !ferror(m->f))
        m->written = ftell(m->f);
    else
        take_back(m);
}

int metrics_close(metrics *m)
{
    if (m->f && fclose(m->f) != 0 && m->n_lost++ == 0)
        m->why = errno;
    if (m->n_lost == 0)
        return 0;
    fprintf(stderr, "weft: %s/metrics.jsonl: %lld lines are missing: %s\n", m->run,
            (long long)m->n_lost, strerror(m->why));
    return 1;
}
