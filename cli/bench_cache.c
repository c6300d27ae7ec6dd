/* bench_cache.c - what a cache saves, printed: a table for one more token, the curves through it,
 * and a table for whole texts, whose times are sums over those curves. */
#include "bench_cache.h"

#include "json.h"

#include <math.h>
#include <string.h>

static const char *const way_names[] = { "on", "off" };

/* ---- what to measure ------------------------------------------------------------------------- */

int bench_cache_ways(const command *c, const char *text, cache_work *w)
{
    for (const char *s = text; s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL) {
        const size_t n = strcspn(s, ",");
        const bool on = n == 2 && strncmp(s, "on", n) == 0;
        if (!on && !(n == 3 && strncmp(s, "off", n) == 0))
            return cli_usage(c, "--cache: \"%s\" is not on, off or on,off", text);
        w->way[on ? CACHE_ON : CACHE_OFF] = true;
    }
    return 0;
}

/* The longest that fits, up to 256; a half, a quarter and an eighth of it. */
static void usual_lengths(int64_t most, cache_work *w)
{
    const int64_t longest = most < 256 ? most : 256;
    for (int part = 8; part > 0; part /= 2)
        if (longest / part > 0)
            w->length[w->n_length++] = longest / part;
}

int bench_cache_lengths(const command *c, const char *path, const weft_model_info *info,
                        const char *text, cache_work *w)
{
    const int64_t room = info->n_ctx < CACHE_MAX_ROWS ? info->n_ctx : CACHE_MAX_ROWS;
    if (info->task != WEFT_TASK_GENERATE)
        return cli_usage(c,
                         "--cache: %s evaluates each input once and keeps nothing of it; expected "
                         "a model that generates",
                         path);
    if (info->n_layer_src > 0)
        return cli_usage(c,
                         "--cache: %s also reads a source, whose length counts too; expected a "
                         "decoder",
                         path);
    if (room < 2)
        return cli_usage(c, "--cache: %s has a context of 1; expected 2 or more", path);
    if (!text)
        usual_lengths(room - 1, w);
    for (const char *rest = text; rest; w->n_length++) {
        if (w->n_length == CACHE_LENGTHS)
            return cli_usage(c, "--lengths: more than %d lengths", CACHE_LENGTHS);
        if (!cli_next_number(&rest, 1, room - 1, &w->length[w->n_length]))
            return cli_usage(c,
                             "--lengths: \"%s\" is not a list of 1 to %lld: one more token has to "
                             "fit into %s of %lld",
                             text, (long long)room - 1,
                             room == info->n_ctx ? "the context" : "a forward", (long long)room);
    }
    return 0;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* One number for each way that was measured; their ratio if both were. */
typedef struct pair {
    double at[N_CACHE_WAY]; /* NAN: unknown */
} pair;

static bool both(const cache_work *w)
{
    return w->way[CACHE_ON] && w->way[CACHE_OFF];
}

static void put_ratio(const cache_work *w, const pair *p)
{
    const double ratio = p->at[CACHE_OFF] / p->at[CACHE_ON];
    if (both(w) && isfinite(ratio))
        printf(" %8.1f", ratio);
    else if (both(w))
        printf(" %8s", "-");
}

static void put_times(const cache_work *w, const pair *p)
{
    for (int way = 0; way < N_CACHE_WAY; way++)
        if (w->way[way] && isfinite(p->at[way]))
            printf(" %11.3f", 1e3 * p->at[way]);
        else if (w->way[way])
            printf(" %11s", "-");
    put_ratio(w, p);
}

static void put_flops(const cache_work *w, const pair *p)
{
    char text[32];
    for (int way = 0; way < N_CACHE_WAY; way++)
        if (w->way[way])
            printf(" %11s", cli_count(p->at[way], text, sizeof text));
    put_ratio(w, p);
}

static void put_rows(const cache_work *w, const cache_cost *c)
{
    for (int way = 0; way < N_CACHE_WAY; way++)
        if (w->way[way])
            printf(" %9lld", (long long)c[way].rows);
}

/* "t, ms on, ms off, ratio ...": the heads of the columns that are printed. */
static void put_heads(const cache_work *w, bool rows)
{
    static const char *const units[] = { "ms", "FLOPs", "rows" };
    char head[32];
    printf("%8s", "t");
    for (int unit = 0; unit < (rows ? 3 : 2); unit++) {
        for (int way = 0; way < N_CACHE_WAY; way++) {
            snprintf(head, sizeof head, "%s, %s", units[unit], way_names[way]);
            if (w->way[way])
                printf(" %*s", unit < 2 ? 11 : 9, head);
        }
        if (unit < 2 && both(w))
            printf(" %8s", "ratio");
    }
    putchar('\n');
}

static pair tokens_flops(const cache_cost *c)
{
    return (pair){ { c[CACHE_ON].flops, c[CACHE_OFF].flops } };
}

static pair texts_flops(const cache_cost *c)
{
    return (pair){ { c[CACHE_ON].text_flops, c[CACHE_OFF].text_flops } };
}

static double text_seconds(const cache_work *w, const cache_table *t, cache_way way, int i)
{
    return t->fits[way] ? polynomial_sum(&t->seconds[way], w->length[i]) : NAN;
}

static void print_tokens(const cache_work *w, const cache_table *t)
{
    printf("\none more token after t others, cache on and off\n");
    put_heads(w, true);
    for (int i = 0; i < w->n_length; i++) {
        const cache_cost *c = t->cost[i];
        const pair times = { { c[CACHE_ON].median, c[CACHE_OFF].median } };
        const pair flops = tokens_flops(c);
        printf("%8lld", (long long)w->length[i]);
        put_times(w, &times);
        put_flops(w, &flops);
        put_rows(w, c);
        putchar('\n');
    }
}

/* "1.48 M " and "384 ": what a t may follow. */
static const char *spaced_count(double x, char *text, size_t size)
{
    cli_count(x, text, size - 1);
    if (text[strlen(text) - 1] != ' ')
        strcat(text, " ");
    return text;
}

static void put_terms(const cache_table *t, cache_way way)
{
    const polynomial *s = &t->seconds[way], *f = &t->flops[way];
    char a[32], b[32], c[32];
    printf("%.4g ms + %.4g us t", 1e3 * s->at[0], 1e6 * s->at[1]);
    if (way == CACHE_OFF)
        printf(" + %.4g ns t^2", 1e9 * s->at[2]);
    printf("; R2 %.4f\n    FLOPs: %s+ %st", s->r2, spaced_count(f->at[0], a, sizeof a),
           spaced_count(f->at[1], b, sizeof b));
    if (way == CACHE_OFF)
        printf(" + %st^2", spaced_count(f->at[2], c, sizeof c));
    printf("; R2 %.4f\n", f->r2);
}

static void print_fit(const cache_work *w, const cache_table *t, cache_way way, const char *why)
{
    if (!w->way[way])
        return;
    printf("%-4s", way_names[way]);
    if (t->fits[way])
        put_terms(t, way);
    else
        printf("no curve: fewer than %d different lengths\n", way == CACHE_ON ? 3 : 4);
    printf("    %s\n", why);
}

static void print_fits(const cache_work *w, const cache_table *t)
{
    printf("\nleast squares, no coefficient below 0\n");
    print_fit(w, t, CACHE_ON,
              "O(t): 1 row. Only attention grows, over at most t + 1 keys; products do not.");
    print_fit(w, t, CACHE_OFF, "O(t^2): t + 1 rows. Products grow with t, attention with t^2.");
    if (t->window)
        printf("A layer whose sliding window is full has no more keys: orders are upper bounds.\n");
}

static void print_texts(const cache_work *w, const cache_table *t)
{
    printf("\na text of t tokens, one after the other; times are sums over the curves\n");
    put_heads(w, false);
    for (int i = 0; i < w->n_length; i++) {
        pair times;
        const pair flops = texts_flops(t->cost[i]);
        for (cache_way way = 0; way < N_CACHE_WAY; way++)
            times.at[way] = text_seconds(w, t, way, i);
        printf("%8lld", (long long)w->length[i]);
        put_times(w, &times);
        put_flops(w, &flops);
        putchar('\n');
    }
    if (w->way[CACHE_ON])
        printf("on  O(t^2), through attention only: products are O(t).\n");
    if (w->way[CACHE_OFF])
        printf("off O(t^3), through attention only: products are O(t^2).\n");
}

void bench_cache_text(const cache_work *w, const cache_table *t)
{
    print_tokens(w, t);
    print_fits(w, t);
    print_texts(w, t);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_cost(const cache_work *w, const cache_table *t, int i, cache_way way)
{
    const cache_cost *c = &t->cost[i][way];
    cli_json_object(way_names[way]);
    cli_json_real("ms", 1e3 * c->median, 6);
    cli_json_int("rows", c->rows);
    cli_json_fixed("flops", c->flops, 0);
    cli_json_real("text_ms", 1e3 * text_seconds(w, t, way, i), 6);
    cli_json_fixed("text_flops", c->text_flops, 0);
    cli_json_list("turns");
    for (int turn = 0; turn < w->n_turn; turn++)
        cli_json_real(NULL, 1e3 * c->seconds[turn], 6);
    cli_json_end();
    cli_json_end();
}

/* Coefficients from the constant on. */
static void json_curve(const char *key, const polynomial *p, double unit, cache_way way)
{
    cli_json_list(key);
    for (int k = 0; k <= (way == CACHE_ON ? 1 : 2); k++)
        cli_json_real(NULL, unit * p->at[k], 6);
    cli_json_end();
}

static void json_fit(const cache_table *t, cache_way way)
{
    if (!t->fits[way]) {
        cli_json_null(way_names[way]);
        return;
    }
    cli_json_object(way_names[way]);
    json_curve("ms", &t->seconds[way], 1e3, way);
    cli_json_real("ms_r2", t->seconds[way].r2, 6);
    json_curve("flops", &t->flops[way], 1, way);
    cli_json_real("flops_r2", t->flops[way].r2, 6);
    cli_json_end();
}

void bench_cache_json(const cache_work *w, const cache_table *t)
{
    cli_json_list("cache");
    for (int i = 0; i < w->n_length; i++) {
        cli_json_object(NULL);
        cli_json_int("t", w->length[i]);
        for (cache_way way = 0; way < N_CACHE_WAY; way++)
            if (w->way[way])
                json_cost(w, t, i, way);
        cli_json_end();
    }
    cli_json_end();
    cli_json_bool("window", t->window);
    cli_json_object("fit");
    for (cache_way way = 0; way < N_CACHE_WAY; way++)
        if (w->way[way])
            json_fit(t, way);
    cli_json_end();
}
