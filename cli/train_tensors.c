/* train_tensors.c - keeps and prints train_tensors.h's lines. */
#include "train_tensors.h"

#include "json.h"

#include <math.h>
#include <string.h>

static const char *const parts[N_PART] = { "weight", "grad", "m", "v" };

/* ---- after a step ---------------------------------------------------------------------------- */

static part_stats measure(const float *x, int64_t n)
{
    part_stats s = { .there = x != NULL, .min = INFINITY, .max = -INFINITY };
    double sum = 0, squares = 0;
    for (int64_t i = 0; x && i < n; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
        s.min = fmin(s.min, x[i]);
        s.max = fmax(s.max, x[i]);
    }
    s.mean = sum / (double)n;
    s.rms = sqrt(squares / (double)n);
    return s;
}

static weight_line *add_line(train_tensors *s)
{
    if (s->n == s->room) {
        const int64_t room = s->room ? 2 * s->room : 64;
        weight_line *longer = cli_grow(s->at, (size_t)room * sizeof *longer, "the weights' lines");
        s->no_memory = !longer;
        if (!longer)
            return NULL;
        s->at = longer;
        s->room = room;
    }
    return &s->at[s->n++];
}

void train_tensors_add(void *ud, const weft_train_tensor *t)
{
    train_tensors *s = ud;
    weight_line *l = t->step == s->step && !s->no_memory ? add_line(s) : NULL;
    if (!l)
        return;
    const float *const numbers[N_PART] = { t->weight, t->grad, t->m, t->v };
    s->clip = t->clip;
    *l = (weight_line){ .n_dim = t->n_dim };
    snprintf(l->name, sizeof l->name, "%s", t->name);
    memcpy(l->shape, t->shape, sizeof l->shape);
    for (int i = 0; i < N_PART; i++)
        l->part[i] = measure(numbers[i], t->n);
}

/* ---- for reading ----------------------------------------------------------------------------- */

static void print_line(const weight_line *l, int name, int shape)
{
    char text[100];
    for (int i = 0; i < N_PART; i++) {
        const part_stats *p = &l->part[i];
        if (!p->there)
            continue;
        printf("%s%-*s%s %*s %-6s", cli_style(stdout, STYLE_BOLD), name, i ? "" : l->name,
               cli_style(stdout, STYLE_PLAIN), shape,
               i ? "" : cli_shape(l->shape, l->n_dim, text, sizeof text), parts[i]);
        cli_print_number(p->mean);
        cli_print_number(p->rms);
        cli_print_number(p->min);
        cli_print_number(p->max);
        putchar('\n');
    }
}

static void print_table(const train_tensors *s)
{
    int name = 4, shape = 5;
    char text[100];
    for (const weight_line *l = s->at; l < s->at + s->n; l++) {
        const int letters = (int)strlen(l->name),
                  dims = (int)strlen(cli_shape(l->shape, l->n_dim, text, sizeof text));
        name = letters > name ? letters : name;
        shape = dims > shape ? dims : shape;
    }
    printf("after step %lld; gradients before clipping, which multiplied them by %.4g\n",
           (long long)s->step, s->clip);
    printf("%s%-*s %*s %-6s %*s %*s %*s %*s%s\n", cli_style(stdout, STYLE_PALE), name, "name",
           shape, "shape", "", CLI_NUMBER, "mean", CLI_NUMBER, "rms", CLI_NUMBER, "min", CLI_NUMBER,
           "max", cli_style(stdout, STYLE_PLAIN));
    for (const weight_line *l = s->at; l < s->at + s->n; l++)
        print_line(l, name, shape);
    putchar('\n');
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void json_line(const train_tensors *s, const weight_line *l)
{
    cli_json_object(NULL);
    cli_json_int("step", s->step);
    cli_json_string("name", l->name);
    cli_json_list("shape");
    for (int d = 0; d < l->n_dim; d++)
        cli_json_int(NULL, l->shape[d]);
    cli_json_end();
    cli_json_real("clip", s->clip, 9);
    for (int i = 0; i < N_PART; i++) {
        const part_stats *p = &l->part[i];
        if (!p->there) {
            cli_json_null(parts[i]);
            continue;
        }
        cli_json_object(parts[i]);
        cli_json_real("mean", p->mean, 9);
        cli_json_real("rms", p->rms, 9);
        cli_json_real("min", p->min, 9);
        cli_json_real("max", p->max, 9);
        cli_json_end();
    }
    cli_json_end();
}

void train_tensors_print(train_tensors *s, bool json)
{
    if (s->n == 0 || s->printed || s->no_memory)
        return;
    s->printed = true;
    for (const weight_line *l = s->at; json && l < s->at + s->n; l++)
        json_line(s, l);
    if (!json)
        print_table(s);
    fflush(stdout);
}
