/* process_peak.c - the peak memory of a process is as planned: weights, cache, step, and at most 32
 * MiB for everything else. A request that does not fit under ram_max is refused before it is
 * allocated.
 *
 * Each case runs in its own process, since a peak hides all lower ones. With WEFT_ASSETS the model
 * is a trained one (llama-stories260K), otherwise a golden one. */
#include "say.h"

#define SLACK ((size_t)32 << 20)

static const char *model_path(void)
{
    static char path[4096];
    const char *assets = getenv("WEFT_ASSETS");
    if (!assets || !*assets)
        return golden("llama-gqa");
    snprintf(path, sizeof path, "%s/llama-stories260K", assets);
    return path;
}

static double mib(size_t n)
{
    return (double)n / (1 << 20);
}

/* A cap under which neither the model nor many contexts fit. */
static void refuses(void)
{
    weft_error err = { 0 };
    weft_model_options o = { .struct_size = sizeof o, .ram_max = 32 << 10 };
    const size_t start = status_bytes("VmHWM");
    weft_model *model = weft_model_open(model_path(), &o, &err);
    check(!model && err.code == WEFT_ELIMIT,
          "memory: a model larger than ram_max is refused with WEFT_ELIMIT", "%s, code %d: %s",
          model ? "opened" : "refused", (int)err.code, err.message);
    weft_model_close(model);

    o.ram_max = 16 << 20;
    model = weft_model_open(model_path(), &o, &err);
    must(model, "memory: the model opens under a larger cap", &err);
    const weft_engine_options many = { .struct_size = sizeof many,
                                       .n_session = 1024,
                                       .threads = 2 };
    weft_memory_plan plan = { .struct_size = sizeof plan };
    must(weft_engine_plan(model, &many, &plan, &err) == WEFT_OK,
         "memory: 1024 contexts are planned", &err);
    must(plan.kv_bytes > o.ram_max, "memory: 1024 contexts need more than the cap", NULL);
    const size_t before = status_bytes("VmHWM");
    weft_engine *engine = weft_engine_new(model, &many, &err);
    const size_t after = status_bytes("VmHWM");
    check(!engine && err.code == WEFT_ELIMIT,
          "memory: contexts larger than ram_max are refused with WEFT_ELIMIT", "%s, code %d: %s",
          engine ? "made" : "refused", (int)err.code, err.message);
    printf("memory: %.1f MiB of contexts under a cap of %.0f MiB: peak %.2f MiB before the "
           "refusal, %.2f after\n",
           mib(plan.kv_bytes), mib(o.ram_max), mib(before), mib(after));
    check(after - before <= 1 << 20 && before - start <= 8 << 20,
          "memory: a refusal takes no memory first", "the peak rose by %zu KiB",
          (after - before) >> 10);
    weft_engine_free(engine);
    weft_model_close(model);
}

/* Two objects and the host share one cap, which has space for one object. */
static void shares(void)
{
    weft_error err = { 0 };
    weft_model_options o = { .struct_size = sizeof o, .load = WEFT_LOAD_COPY };
    o.budget = weft_budget_new(0, &err);
    must(o.budget, "memory: a budget that only counts is made", &err);
    weft_model *model = weft_model_open(model_path(), &o, &err);
    must(model, "memory: the model opens", &err);
    const size_t one = weft_budget_used(o.budget);
    weft_model_close(model);
    check(one > 0 && weft_budget_used(o.budget) == 0,
          "memory: a budget counts what a model takes, and what it gives back",
          "%zu bytes, then %zu", one, weft_budget_used(o.budget));
    weft_budget_free(o.budget);

    o.budget = weft_budget_new(2 * one - 1, &err);
    must(o.budget, "memory: a budget is made", &err);
    model = weft_model_open(model_path(), &o, &err);
    must(model, "memory: one model fits", &err);
    weft_model *other = weft_model_open(model_path(), &o, &err);
    check(!other && err.code == WEFT_ELIMIT && weft_budget_used(o.budget) == one,
          "memory: a second model under the same budget is refused", "%s, %zu bytes of %zu",
          other ? "opened" : err.message, weft_budget_used(o.budget), one);
    check(weft_budget_take(o.budget, 2 * one, "the host", &err) == WEFT_ELIMIT &&
              weft_budget_take(o.budget, one / 2, "the host", &err) == WEFT_OK,
          "memory: the host takes from the same budget", "%s", err.message);
    weft_budget_give(o.budget, one / 2);
    weft_model_close(other);
    weft_model_close(model);
    weft_budget_free(o.budget);
}

#define SESSIONS 64 /* large enough that an empty plan would fail */

/* Fills all contexts in one forward, the largest possible. */
static void fill_contexts(weft_engine *engine, weft_session **s, int64_t n_ctx, int64_t n_vocab)
{
    weft_error err = { 0 };
    weft_eval_request work[SESSIONS];
    int32_t *ids = malloc((size_t)n_ctx * sizeof *ids);
    must(ids != NULL, "memory: the host has some of its own", NULL);
    for (int64_t i = 0; i < n_ctx; i++)
        ids[i] = (int32_t)(3 * i % n_vocab);
    for (int i = 0; i < SESSIONS; i++)
        work[i] = (weft_eval_request){ .session = s[i], .ids = ids, .n = n_ctx };
    must(weft_engine_eval(engine, work, SESSIONS, &err) == WEFT_OK,
         "memory: 64 full contexts are evaluated", &err);
    free(ids);
}

static void keeps_to_plan(void)
{
    weft_error err = { 0 };
    const size_t start = status_bytes("VmHWM");
    const weft_model_options copy = { .struct_size = sizeof copy, .load = WEFT_LOAD_COPY };
    weft_model *model = weft_model_open(model_path(), &copy, &err);
    must(model, "memory: the model opens", &err);
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(model, &info);
    const weft_engine_options o = { .struct_size = sizeof o,
                                    .n_ctx = info.n_ctx,
                                    .n_session = SESSIONS,
                                    .n_batch = (int)(SESSIONS * info.n_ctx) };
    weft_memory_plan plan = { .struct_size = sizeof plan };
    must(weft_engine_plan(model, &o, &plan, &err) == WEFT_OK, "memory: the engine is planned",
         &err);
    weft_engine *engine = weft_engine_new(model, &o, &err);
    must(engine, "memory: the engine is made", &err);
    weft_session *session[SESSIONS];
    for (int i = 0; i < SESSIONS; i++)
        must((session[i] = weft_session_new(engine, &err)) != NULL, "memory: sessions are made",
             &err);
    fill_contexts(engine, session, info.n_ctx, info.n_vocab);
    const size_t taken = status_bytes("VmHWM") - start;

    weft_model_info full = { .struct_size = sizeof full };
    weft_model_get_info(model, &full);
    const size_t planned = info.bytes_anonymous + plan.kv_bytes + plan.step_bytes;
    printf(
        "memory: peak %.2f MiB above the start; planned %.2f: model %.2f, cache %.2f, step %.2f\n",
        mib(taken), mib(planned), mib(info.bytes_anonymous), mib(plan.kv_bytes),
        mib(plan.step_bytes));
    check(taken <= planned + SLACK,
          "memory: the peak of a process is what was planned, within 32 MiB",
          "%zu bytes taken, %zu planned", taken, planned);
    printf("memory: counted %.2f MiB, %zu bytes beside the plan\n", mib(full.bytes_anonymous),
           full.bytes_anonymous - planned);
    check(planned > 2 * SLACK, "memory: the plan is not lost in what is allowed beside it",
          "only %zu bytes are planned", planned);
    for (int i = 0; i < SESSIONS; i++)
        weft_session_free(session[i]);
    weft_engine_free(engine);
    weft_model_close(model);
}

int main(int argc, char **argv)
{
    must(argc == 2, "memory: told what to do", NULL);
    if (strcmp(argv[1], "refuse") == 0)
        refuses();
    else if (strcmp(argv[1], "share") == 0)
        shares();
    else
        keeps_to_plan();
    return n_failed > 0;
}
