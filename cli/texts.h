/* texts.h - shared by the commands for encoders: embed, fill-mask, classify. For vision models, a
 * text is the path of an image. */
#ifndef WEFT_CLI_TEXTS_H
#define WEFT_CLI_TEXTS_H

#include "lora.h"

#include <math.h>

#define TEXTS_AT_ONCE    256 /* lines per batch */
#define PICTURES_AT_ONCE 16  /* an image may have a megabyte of rows */

typedef struct text_options {
    const char *file;
    bool pairs;         /* two texts in a line */
    bool truncate;      /* a text that is too long loses its end */
    bool parse_special; /* special tokens spelled in a text are meant */
    int64_t threads;
    int pooling;      /* of vectors, in the order of weft_pooling */
    bool normalize;   /* them */
    const char *lora; /* PATH or PATH:STRENGTH, or NULL */
} text_options;

#define OPTION_LINES(o)                                                                            \
    {                                                                                              \
        'f', "file", OPT_TEXT, &(o).file, "FILE", 0, "read one text per line from FILE"            \
    }
#define OPTION_PAIRS(o)                                                                            \
    {                                                                                              \
        0, "pairs", OPT_FLAG, &(o).pairs, NULL, 0, "each line is two texts separated by a tab"     \
    }
#define OPTION_TRUNCATE(o)                                                                         \
    {                                                                                              \
        0, "truncate", OPT_FLAG, &(o).truncate, NULL, 0,                                           \
            "truncate texts that exceed the model's context"                                       \
    }

#define OPTION_POOLING(o)                                                                          \
    {                                                                                              \
        0, "pooling", OPT_CHOICE, &(o).pooling, "mean|max|first|last", RARE,                       \
            "pooling of token vectors (the model's; decoders: last)"                               \
    }

typedef struct text_line {
    const char *at;
    size_t n;
} text_line;

/* The texts of a command and all it needs to read them. */
typedef struct texts {
    const char *path; /* of the model */
    weft_model *model;
    weft_model_info info;
    weft_tokenizer *tokenizer;
    lora_choice lora;
    weft_encoder *encoder;
    int64_t n_ctx;         /* most tokens of a text */
    const char *read_from; /* NULL: one text was given */
    char *text;
    text_line *line;
    int64_t n;
    int64_t n_before; /* lines that the command put before those of the file */
    int64_t n_failed; /* lines that failed so far */
    const char *why;
} texts;

/* tasks: bits of those that the command can do. Returns 0, or an exit code after printing an
 * error. To be closed either way. */
int texts_open(texts *t, const command *c, const load_options *load, const text_options *o,
               const char *given, unsigned tasks, weft_encoder_output what);

/* The same of lines that the command has made, which go with t. */
int texts_open_lines(texts *t, const command *c, const load_options *load, const text_options *o,
                     char *text, weft_encoder_output what);
void texts_close(texts *t);

/* The tokens of line i, in the model's length. */
weft_tokens *texts_encode(const texts *t, int64_t i, const text_options *o, weft_error *err);

/* Chooses the rows of a text to output; returns how many. */
typedef int64_t texts_pick_fn(void *ud, const weft_tokens *tokens, int32_t *at);

/* Line i, and what came out of it; a picture has no tokens. `in` is NULL where the line, one of
 * many, could not be read, which has been told. Returns 0, or an exit code that ends it all. */
typedef int texts_show_fn(void *ud, int64_t i, const weft_tokens *tokens, const weft_input *in);

/* Reads all texts, many at a time, and shows them in order. pick NULL: all rows. Returns 1 where
 * some of many lines could not be read. */
int texts_each(texts *t, const text_options *o, texts_pick_fn *pick, texts_show_fn *show, void *ud);

/* A line that could not be read, as a JSON object. */
void texts_json_failed(const texts *t, int64_t i);

/* Logits as probabilities. */
void texts_softmax(const float *z, int64_t n, double *p);

/* The `most` largest of n, largest first, the lower index among equals; returns how many. */
int64_t texts_best(const double *p, int64_t n, int64_t most, int64_t *best);

#endif
