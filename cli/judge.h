/* judge.h - a model that generates text as a reranker: asked whether a document answers a query, it
 * says yes or no. The score is the probability of "yes" among the two.
 * Or such a model whose head has only these two rows, labelled "yes" and "no", as llama.cpp writes
 * Qwen3-Reranker. */
#ifndef WEFT_CLI_JUDGE_H
#define WEFT_CLI_JUDGE_H

#include "texts.h"

/* What Qwen3-Reranker is asked to judge by, unless told otherwise. */
#define JUDGE_TASK "Given a web search query, retrieve relevant passages that answer the query"

/* Is this such a model with two rows? */
bool judge_has_rows(const weft_model *m, const weft_model_info *info);

/* Scores the lines after the first, which is the query. A line that is too long is named and
 * counted as failed. Returns 0, 1 if lines failed, or an exit code after printing an error. */
int judge_lines(texts *t, const char *task, int threads, double *score, bool *failed);

#endif
