/* changes.c - reads, applies and checks changes.h's changes. */
#include "changes.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- from the command line ------------------------------------------------------------------- */

static const char *const option_of[] = { "--zero", "--scale", "--patch" };

/* "blk.3.attn.head.2" is head 2 of "blk.3.attention". */
static bool take_head(change *x, const char *by, const char *tensor)
{
    char *at = strstr(x->name, by), *end;
    if (!at)
        return false;
    const char *number = at + strlen(by);
    const long long head = strtoll(number, &end, 10);
    if (*number < '0' || *number > '9' || *end || head > INT32_MAX)
        return false;
    x->head = head;
    snprintf(at, sizeof x->name - (size_t)(at - x->name), "%s", tensor);
    return true;
}

static int read_value(const command *c, change *x, const char *value)
{
    char *end;
    if (x->kind == CHANGE_PATCH) {
        x->path = value;
        return npy_read(value, &x->with);
    }
    x->by = strtod(value, &end);
    if (end == value || *end || !isfinite(x->by))
        return cli_usage(
            c, "--scale %s: expected a number, found \"%s\"; give NAME=X, such as blk.0.glu=0.5",
            x->given, value);
    return 0;
}

static int read_change(const command *c, change_kind kind, const char *given, change *x)
{
    const char *equals = strchr(given, '=');
    const size_t length = kind == CHANGE_ZERO || !equals ? strlen(given) : (size_t)(equals - given);
    *x = (change){ .kind = kind, .given = given, .head = -1 };
    if (kind != CHANGE_ZERO && !equals)
        return cli_usage(c, "%s %s: no \"=\"; give %s", option_of[kind], given,
                         kind == CHANGE_SCALE ? "NAME=X" : "NAME=FILE.npy");
    if (length == 0 || length >= sizeof x->name)
        return cli_usage(c, "%s %s: no name of a tensor; 'weft trace MODEL -p TEXT' lists them",
                         option_of[kind], given);
    memcpy(x->name, given, length);
    if (!take_head(x, ".cross_attn.head.", ".cross_attention"))
        take_head(x, ".attn.head.", ".attention");
    return kind == CHANGE_ZERO ? 0 : read_value(c, x, equals + 1);
}

int changes_read(const command *c, const text_list *zero, const text_list *scale,
                 const text_list *patch, int64_t n_head, changes *to)
{
    const text_list *const lists[] = { zero, scale, patch };
    *to = (changes){ .n_head = n_head };
    const int most = zero->n + scale->n + patch->n;
    if (most == 0)
        return 0;
    to->at = cli_zalloc((size_t)most, sizeof *to->at, "the changes");
    int code = to->at ? 0 : cli_no_memory();
    for (int kind = CHANGE_ZERO; kind <= CHANGE_PATCH; kind++)
        for (int i = 0; i < lists[kind]->n && !code; i++)
            code = read_change(c, (change_kind)kind, lists[kind]->at[i], &to->at[to->n++]);
    return code;
}

void changes_free(changes *x)
{
    for (int i = 0; i < x->n; i++)
        cli_free(x->at[i].with.at);
    cli_free(x->at);
    *x = (changes){ 0 };
}

/* ---- during the forward ---------------------------------------------------------------------- */

/* The columns that are meant; false, with the reason kept, if there are none. */
static bool columns(change *x, const weft_trace_tensor *t, int64_t n_head, int64_t *from,
                    int64_t *n)
{
    *from = 0;
    *n = t->cols;
    if (x->head < 0)
        return true;
    *n = n_head > 0 ? t->cols / n_head : 0;
    *from = x->head * *n;
    if (x->head < n_head)
        return true;
    snprintf(x->misfit, sizeof x->misfit, "%s has heads 0 to %lld", t->name, (long long)n_head - 1);
    return false;
}

/* A patch has the tensor's shape, or one row that is put into all of its rows. */
static bool patch_fits(change *x, const weft_trace_tensor *t, int64_t n)
{
    const npy_array *a = &x->with;
    const int64_t width = a->n_dim > 0 ? a->shape[a->n_dim - 1] : 0;
    const int64_t n_row = width > 0 ? a->n / width : 0;
    if (a->n_dim > 0 && width == n && (n_row == t->rows || n_row == 1))
        return true;
    snprintf(x->misfit, sizeof x->misfit, "%.100s has %lld rows of %lld numbers, %s %lld of %lld",
             x->path, (long long)n_row, (long long)width, t->name, (long long)t->rows,
             (long long)n);
    return false;
}

static void change_rows(const change *x, const weft_trace_tensor *t, float *data, int64_t from,
                        int64_t n)
{
    const bool one_row = x->with.n == n;
    for (int64_t i = 0; i < t->rows; i++) {
        float *to = data + i * t->stride + from;
        if (x->kind == CHANGE_ZERO)
            memset(to, 0, (size_t)n * sizeof *to);
        if (x->kind == CHANGE_PATCH)
            memcpy(to, x->with.at + (one_row ? 0 : i * n), (size_t)n * sizeof *to);
        for (int64_t k = 0; x->kind == CHANGE_SCALE && k < n; k++)
            to[k] *= (float)x->by;
    }
}

void changes_apply(void *ud, const weft_trace_tensor *t, float *data)
{
    changes *all = ud;
    for (int i = 0; i < all->n; i++) {
        change *x = &all->at[i];
        int64_t from, n;
        if (fnmatch(x->name, t->name, 0) != 0 || !columns(x, t, all->n_head, &from, &n) ||
            (x->kind == CHANGE_PATCH && !patch_fits(x, t, n)))
            continue;
        change_rows(x, t, data, from, n);
        x->n_done++;
    }
}

void changes_look(changes *x, const char *name)
{
    for (int i = 0; i < x->n; i++)
        x->at[i].only_shown = x->at[i].only_shown || fnmatch(x->at[i].name, name, 0) == 0;
}

/* ---- after it -------------------------------------------------------------------------------- */

int changes_check(const command *c, const changes *all)
{
    for (const change *x = all->at; x < all->at + all->n; x++) {
        const char *by = option_of[x->kind];
        if (x->misfit[0])
            return cli_usage(c, "%s %s: %s", by, x->given, x->misfit);
        if (x->n_done == 0 && x->only_shown)
            return cli_usage(c, "%s %s: the tensor is only shown, no op reads it", by, x->given);
        if (x->n_done == 0)
            return cli_usage(c,
                             "%s %s: no tensor matches; 'weft trace MODEL -p TEXT' lists them, "
                             "--open also what fused ops hide",
                             by, x->given);
    }
    return 0;
}
