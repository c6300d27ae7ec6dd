/* judge.h - a model that generates text as a reranker: asked whether a document answers a query, it
 * says yes or no. The score is the probability of "yes" among the two. */
#ifndef WEFT_CLI_JUDGE_H
#define WEFT_CLI_JUDGE_H

#include "texts.h"

/* What Qwen3-Reranker is asked to judge by, unless told otherwise. */
#define JUDGE_TASK "Given a web search query, retrieve relevant passages that answer the query"

/* Scores the lines after the first, which is the query. A line that is too long is named and
 * counted as failed. Returns 0, 1 if lines failed, or an exit code after printing an error. */
int judge_lines(texts *t, const char *task, int threads, double *score, bool *failed);

#endif
