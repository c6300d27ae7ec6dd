/* train_result.c - prints train_result.h's result. */
#include "train_result.h"

#include "json.h"

#include <math.h>

const char *train_duration(double seconds, char *text, size_t size)
{
    const int64_t s = seconds < 1e9 ? (int64_t)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(text, size, "%lld:%02lld:%02lld", (long long)(s / 3600), (long long)(s / 60 % 60),
                 (long long)(s % 60));
    else
        snprintf(text, size, "%lld:%02lld", (long long)(s / 60), (long long)(s % 60));
    return text;
}

const char *train_accuracy(double share, char *text, size_t size)
{
    text[0] = '\0';
    if (isfinite(share))
        snprintf(text, size, ", accuracy %.2f %%", 100 * share);
    return text;
}

static void print_json(const weft_train_info *i, double took)
{
    cli_json_object(NULL);
    cli_json_int("step", i->step);
    cli_json_int("from_step", i->from_step);
    cli_json_int("parameters", i->n_parameter);
    cli_json_int("tokens", i->n_token);
    cli_json_real("loss", i->loss, 9);
    cli_json_real("smoothed", i->smoothed, 9);
    cli_json_real("val_loss", i->val_loss, 9);
    cli_json_real("val_accuracy", i->val_accuracy, 9);
    cli_json_real("best_val_loss", i->best_val_loss, 9);
    cli_json_int("best_step", i->best_step);
    cli_json_int("skipped", i->n_skipped);
    cli_json_bool("stopped", i->stopped);
    cli_json_int("bytes_peak", (int64_t)i->bytes_peak);
    cli_json_fixed("seconds", took, 3);
    cli_json_end();
}

static void print_text(const weft_train_info *i, const train_run *r)
{
    char a[32], b[32];
    if (i->step == i->from_step && !i->stopped) {
        printf("%s: the run is finished: %lld steps; use --steps N to train up to step N\n", r->out,
               (long long)i->step);
        return;
    }
    printf("steps         %lld, a model of %lld parameters, %lld tokens\n", (long long)i->step,
           (long long)i->n_parameter, (long long)i->n_token);
    printf("loss          %.4f, recent average %.4f\n", i->loss, i->smoothed);
    if (isfinite(i->val_loss))
        printf("validation    %.4f%s, best %.4f at step %lld\n", i->val_loss,
               train_accuracy(i->val_accuracy, a, sizeof a), i->best_val_loss,
               (long long)i->best_step);
    if (i->n_skipped > 0)
        printf("skipped       %lld steps with non-finite gradients\n", (long long)i->n_skipped);
    printf("memory        %s peak, %s planned\n", cli_bytes(i->bytes_peak, a, sizeof a),
           cli_bytes(r->bytes, b, sizeof b));
    printf("time          %s", train_duration(r->took, a, sizeof a));
    if (!i->stopped)
        printf(", %s predicted", train_duration(i->seconds, b, sizeof b));
    printf("\n");
}

void train_result_print(const weft_train_info *i, const train_run *r, bool json)
{
    if (json)
        print_json(i, r->took);
    else
        print_text(i, r);
}
