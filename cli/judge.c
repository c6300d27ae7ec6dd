/* judge.c - asks a generative model about each document in the words of Qwen3-Reranker's card.
 *
 *     system: Judge whether ...        user: <Instruct>: task  <Query>: ...  <Document>: ...
 *     assistant: an empty thought, and then the next token is "yes" or "no"
 *
 * All prompts begin alike, so the session computes the common tokens once. Special tokens count
 * only in the words around the texts, never inside of them. */
#include "judge.h"

#include <stdlib.h>
#include <string.h>

static const char before[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n<Instruct>: ";
static const char after[] = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

/* The tokens of the question about line i. */
static weft_tokens *ask(const texts *t, const char *task, int64_t i, weft_error *err)
{
    const text_line *q = &t->line[0], *d = &t->line[i];
    const size_t room = sizeof before + strlen(task) + q->n + d->n + sizeof after + 40;
    char *text = cli_alloc(room, 1, "a question");
    if (!text) {
        *err = (weft_error){ .code = WEFT_ENOMEM, .message = "no memory for a question" };
        return NULL;
    }
    const size_t n = (size_t)snprintf(text, room, "%s%s\n<Query>: %.*s\n<Document>: %.*s%s", before,
                                      task, (int)q->n, q->at, (int)d->n, d->at, after);
    const weft_span trusted[] = { { 0, sizeof before - 1 },
                                  { (uint32_t)(n - (sizeof after - 1)), (uint32_t)n } };
    const weft_tokenize_options o = { .struct_size = sizeof o,
                                      .no_special = true,
                                      .parse_special = true,
                                      .trusted = trusted,
                                      .n_trusted = 2 };
    weft_tokens *tokens = weft_tokenizer_encode(t->tokenizer, text, n, &o, err);
    cli_free(text);
    return tokens;
}

typedef struct judge {
    texts *t;
    weft_engine *engine;
    weft_session *session;
    weft_encoder *encoder; /* instead of these, if the head has two rows */
    int32_t yes, no;
} judge;

/* A context for the longest question; longer ones than the model's fail later, by name. */
static int64_t longest(const texts *t, const char *task, weft_error *err)
{
    int64_t most = 1;
    for (int64_t i = 1; i < t->n; i++) {
        weft_tokens *tokens = ask(t, task, i, err);
        if (!tokens)
            return -1;
        most = tokens->n > most && tokens->n <= t->info.n_ctx ? tokens->n : most;
        weft_tokens_free(tokens);
    }
    return most;
}

static bool judge_begin(judge *j, const char *task, int threads, weft_error *err)
{
    const int64_t n_ctx = longest(j->t, task, err);
    if (n_ctx > 0 && j->t->info.task == WEFT_TASK_CLASSIFY) {
        const weft_encoder_options rows = { .struct_size = sizeof rows,
                                            .threads = threads,
                                            .n_ctx = n_ctx,
                                            .output = WEFT_OUTPUT_HEAD };
        j->encoder = weft_encoder_new(j->t->model, &rows, err);
        return j->encoder != NULL;
    }
    const weft_engine_options o = {
        .struct_size = sizeof o, .threads = threads, .n_ctx = n_ctx, .kv_type = WEFT_KV_F32
    };
    j->engine = n_ctx > 0 ? weft_engine_new(j->t->model, &o, err) : NULL;
    j->session = j->engine ? weft_session_new(j->engine, err) : NULL;
    return j->session != NULL;
}

/* The probability of yes, if the answer is one of the two. */
static weft_status judge_one(const judge *j, const weft_tokens *tokens, double *score,
                             weft_error *err)
{
    float both[2];
    const weft_input in = { .ids = tokens->ids, .n = tokens->n, .out = both };
    const weft_status status = j->encoder ? weft_encoder_eval(j->encoder, &in, 1, err)
                                          : weft_session_sync(j->session, tokens->ids, tokens->n,
                                                              NULL, err);
    if (status != WEFT_OK)
        return status;
    const float *z = j->encoder ? both : weft_session_logits(j->session);
    *score = 1 / (1 + exp((double)z[j->no] - (double)z[j->yes]));
    return WEFT_OK;
}

static int judge_all(judge *j, const char *task, double *score, bool *failed, weft_error *err)
{
    texts *t = j->t;
    for (int64_t i = 1; i < t->n; i++) {
        weft_tokens *tokens = ask(t, task, i, err);
        if (!tokens)
            return cli_fail(err);
        const int64_t n = tokens->n;
        const weft_status status = n > t->info.n_ctx ? WEFT_ECONTEXT
                                                     : judge_one(j, tokens, &score[i], err);
        weft_tokens_free(tokens);
        failed[i] = status == WEFT_ECONTEXT;
        if (failed[i])
            fprintf(stderr, "weft: line %lld has %lld tokens; the model's context is %lld\n",
                    (long long)i, (long long)n, (long long)t->info.n_ctx);
        else if (status != WEFT_OK)
            return cli_fail(err);
        t->n_failed += failed[i];
    }
    if (t->n_failed > 0)
        fprintf(stderr, "weft: %lld of %lld lines failed\n", (long long)t->n_failed,
                (long long)t->n - 1);
    return t->n_failed > 0;
}

bool judge_has_rows(const weft_model *m, const weft_model_info *info)
{
    const char *first = weft_model_label(m, 0), *second = weft_model_label(m, 1);
    return info->task == WEFT_TASK_CLASSIFY && info->n_out == 2 && first && second &&
           strcmp(first, "yes") == 0 && strcmp(second, "no") == 0;
}

int judge_lines(texts *t, const char *task, int threads, double *score, bool *failed)
{
    weft_error err = { 0 };
    judge j = { .t = t };
    const bool rows = judge_has_rows(t->model, &t->info);
    j.yes = rows ? 0 : weft_tokenizer_id(t->tokenizer, "yes", 3);
    j.no = rows ? 1 : weft_tokenizer_id(t->tokenizer, "no", 2);
    if (j.yes < 0 || j.no < 0 || (!rows && t->info.task != WEFT_TASK_GENERATE)) {
        fprintf(stderr, "weft: %s %s; expected a model such as Qwen3-Reranker\n", t->path,
                t->info.task != WEFT_TASK_GENERATE ? "does not generate text"
                                                   : "has no tokens \"yes\" and \"no\"");
        return 1;
    }
    const int code = judge_begin(&j, task, threads, &err) ? judge_all(&j, task, score, failed, &err)
                                                          : cli_fail(&err);
    weft_encoder_free(j.encoder);
    weft_session_free(j.session);
    weft_engine_free(j.engine);
    return code;
}
