/* kernel_reversal FILE.svg < WORDS - reverses words by Nadaraya-Watson pooling with given positions.
 * Each line of WORDS starts with a lower-case word, as tools/reversal.sh writes them.
 *
 * Letter t of the answer is at position n - 1 - t of the word. With that position as the query and
 * positions as keys, only the width of the kernel must be learned: it follows the slope of the
 * squared error over the first words, on the tape. With t as the query, the kernel copies the word.
 * Prints how many of the other words are right with either query and draws the weights of one
 * answer; fails unless all words are right with the position as the query. */
#include "base/host.h"
#include "ops/ops.h"
#include "tensor/tape.h"

#include <stdio.h>
#include <string.h>

enum { LETTERS = 26, LONGEST = 20, LEARNED = 20 };
#define WIDEST 4.0 /* where the width begins */
#define CELL   24

typedef struct task {
    run run;
    batch nobody;
    char word[LONGEST + 1];
    int64_t n; /* its letters */
    tensor key, query, value, width;
    real places[LONGEST], asked[LONGEST], letters[LONGEST * LETTERS], log_width[1], slope[1];
} task;

static tensor matrix_of(real *data, int64_t n_row, int64_t n_col)
{
    return (tensor){ .type = &dtype_real,
                     .n_dim = 2,
                     .shape = { n_row, n_col },
                     .stride = n_col,
                     .data = data,
                     .born = -1 };
}

/* Values are letters or, without `spelled`, positions: the output is then the weights. */
static void set_word(task *k, const char *word, size_t n, bool told, bool spelled)
{
    const int64_t n_col = spelled ? LETTERS : (int64_t)n;
    k->n = (int64_t)n;
    snprintf(k->word, sizeof k->word, "%.*s", (int)n, word);
    memset(k->letters, 0, sizeof k->letters);
    for (int64_t i = 0; i < k->n; i++) {
        k->places[i] = (real)i;
        k->asked[i] = (real)(told ? k->n - 1 - i : i);
        k->letters[i * n_col + (spelled ? word[i] - 'a' : i)] = 1;
    }
    k->key = matrix_of(k->places, k->n, 1);
    k->query = matrix_of(k->asked, k->n, 1);
    k->value = matrix_of(k->letters, k->n, n_col);
}

static tensor *reverse(task *k)
{
    return kernel_pool(&k->run, &k->query, &k->key, &k->value, &k->width, KERNEL_GAUSSIAN, false);
}

/* One step of the width. */
static void learn(task *k)
{
    tape t = { 0 };
    real dy[LONGEST * LETTERS];
    run_begin(&k->run, &k->nobody);
    tape_begin(&k->run, &t);
    tensor *y = reverse(k);
    for (int64_t i = 0; i < k->n; i++)
        for (int64_t c = 0; c < LETTERS; c++)
            dy[i * LETTERS + c] = row(y, i)[c] - row(&k->value, k->n - 1 - i)[c];
    k->width.grad_written = false;
    tape_backward(&k->run, y, dy);
    k->log_width[0] -= (real)0.1 * k->slope[0];
}

static bool is_right(task *k)
{
    run_begin(&k->run, &k->nobody);
    const tensor *y = reverse(k);
    for (int64_t i = 0; i < k->n; i++) {
        int best = 0;
        for (int c = 1; c < LETTERS; c++)
            best = row(y, i)[c] > row(y, i)[best] ? c : best;
        if ('a' + best != k->word[k->n - 1 - i])
            return false;
    }
    return true;
}

/* Rows are letters of the answer, columns those of the word. */
static void draw(task *k, FILE *f)
{
    const long long side = CELL * (k->n + 2);
    run_begin(&k->run, &k->nobody);
    const tensor *y = reverse(k);
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%lld\" height=\"%lld\" "
            "font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            side, side);
    for (int64_t i = 0; i < k->n; i++) {
        const long long at = CELL * (i + 1);
        fprintf(f, "<text x=\"%lld\" y=\"16\">%c</text><text x=\"8\" y=\"%lld\">%c</text>\n",
                at + 8, k->word[i], at + 16, k->word[k->n - 1 - i]);
        for (int64_t j = 0; j < k->n; j++)
            fprintf(f,
                    "<rect x=\"%lld\" y=\"%lld\" width=\"23\" height=\"23\" fill=\"#2563c9\" "
                    "fill-opacity=\"%.3f\"/>\n",
                    (long long)(CELL * (j + 1)), at, (double)row(y, i)[j]);
    }
    fputs("</svg>\n", f);
}

/* Learns from the first words and counts the others. */
static void read_words(task *k, int *n_word, int *n_told, int *n_untold)
{
    char line[256];
    for (int number = 0; fgets(line, sizeof line, stdin); number++) {
        const size_t n = strspn(line, "abcdefghijklmnopqrstuvwxyz");
        if (n == 0 || n > LONGEST)
            continue;
        set_word(k, line, n, true, true);
        if (number < LEARNED) {
            learn(k);
            continue;
        }
        ++*n_word;
        *n_told += is_right(k);
        set_word(k, line, n, false, true);
        *n_untold += is_right(k);
    }
}

int main(int argc, char **argv)
{
    static task k;
    host h = { .io = io_system };
    weft_error err = { 0 };
    int n_word = 0, n_told = 0, n_untold = 0;
    FILE *f = argc == 2 ? fopen(argv[1], "w") : NULL;
    if (!f) {
        fprintf(stderr, "kernel_reversal FILE.svg < WORDS\n");
        return 2;
    }
    mem_init(&h.mem, 0, NULL);
    if (run_init(&k.run, &h.mem, 1 << 16, 1 << 16, 64, &err) != WEFT_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    k.run.kern = kernels_select(&h.log);
    k.log_width[0] = (real)log(WIDEST);
    k.width = matrix_of(k.log_width, 1, 1);
    k.width.grad = k.slope;
    k.width.needs_grad = k.width.is_param = k.width.grad_taken = true;
    read_words(&k, &n_word, &n_told, &n_untold);
    printf("width %.2f after %d words; of %d others %d right, %d where t is asked\n",
           exp((double)k.log_width[0]), LEARNED, n_word, n_told, n_untold);
    set_word(&k, "alignmentmap", 12, true, false);
    draw(&k, f);
    run_free(&k.run);
    return fclose(f) == 0 && n_word > 0 && n_told == n_word ? 0 : 1;
}
