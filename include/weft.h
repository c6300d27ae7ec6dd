/* weft.h - transformers on CPUs. The only header of libweft.
 *
 * A complete program that generates a hundred tokens greedily:
 *
 *     #include <stdio.h>
 *     #include <string.h>
 *     #include <weft.h>
 *
 *     int main(int argc, char **argv)
 *     {
 *         weft_error err;
 *         const char *path = argc > 1 ? argv[1] : "model.gguf", *text = argc > 2 ? argv[2] : "Once";
 *         weft_model *model = weft_model_open(path, NULL, &err);
 *         weft_tokenizer *tokenizer = model ? weft_tokenizer_load(path, NULL, &err) : NULL;
 *         weft_engine *engine = tokenizer ? weft_engine_new(model, NULL, &err) : NULL;
 *         weft_session *session = engine ? weft_session_new(engine, &err) : NULL;
 *         weft_tokens *prompt = session ? weft_tokenizer_encode(tokenizer, text, strlen(text), NULL, &err)
 *                                       : NULL;
 *         if (prompt)
 *             weft_session_eval(session, prompt->ids, prompt->n, &err);
 *         for (int i = 0; !err.code && i < 100; i++) {
 *             char piece[256];
 *             const int32_t id = weft_session_greedy(session);
 *             const int64_t n = weft_tokenizer_piece(tokenizer, id, piece, sizeof piece);
 *             if (weft_model_is_end(model, id))
 *                 break;
 *             printf("%.*s", n > 0 && n <= (int64_t)sizeof piece ? (int)n : 0, piece);
 *             weft_session_eval(session, &id, 1, &err);
 *         }
 *         fprintf(err.code ? stderr : stdout, "%s\n", err.code ? err.message : "");
 *         weft_tokens_free(prompt);
 *         weft_session_free(session);
 *         weft_engine_free(engine);
 *         weft_tokenizer_free(tokenizer);
 *         weft_model_close(model);
 *         return err.code != WEFT_OK;
 *     }
 *
 * Rules that hold everywhere:
 *   - The library never prints, exits or aborts on input. It reports bad files, bad arguments and
 *     lack of memory as a status and a weft_error; the error pointer is always last and may be NULL.
 *   - A model is immutable, and threads may share it. Use an engine and its sessions from one thread
 *     at a time. Free handles in any order: a session keeps its engine alive, an engine its model.
 *     Do not use a handle after you freed it. Every free accepts NULL.
 *   - All memory but file mappings counts against the model's `ram_max` before it is allocated. A
 *     weft_budget puts several objects, and the host's own memory, under one limit.
 *   - A call needs at most 64 KiB of the calling thread's stack (generation 21 KiB, training 52 KiB),
 *     not counting callbacks. Large buffers are in the engine; threads of the library have 1 MiB.
 *   - The logits of a token depend only on the model and on the tokens before it in its session:
 *     not on other sessions of the batch, chunking or the number of threads. They have the same bits
 *     on every processor with fused multiply-add.
 *   - Option structs begin with their size, so that a program built against an older header keeps
 *     working: `weft_engine_options o = { .struct_size = sizeof o };`. Zero means the default, and
 *     NULL all defaults, except in weft_train_options, which weft_train_defaults fills in first. A
 *     struct_size of 0 (forgotten) or larger than the library's (a newer header) is WEFT_EINVAL.
 *   - Result structs begin with their size too. If it is larger than the library's, the library
 *     fills the fields it knows and leaves the rest unchanged. A struct_size below sizeof(size_t) is
 *     WEFT_EINVAL before any work is done; functions without a status leave such a struct unchanged.
 *   - Arguments are checked before anything changes. A required pointer that is NULL, a negative or
 *     too large count, an index or enum value out of range, or a count without its array is
 *     WEFT_EINVAL with a message (too many tokens: WEFT_ECONTEXT), and all objects stay unchanged.
 *     Functions without a status then return NULL, -1, 0 or false. The library cannot check that a
 *     buffer is as large as its count says, or that a handle is alive. */
#ifndef WEFT_H
#define WEFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(WEFT_BUILD)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

/* ---- errors ---------------------------------------------------------------------------------- */

typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_EINVAL,       /* an argument is invalid or out of range */
    WEFT_EIO,          /* a file was not found, or could not be opened, read or written */
    WEFT_EFORMAT,      /* the file is malformed */
    WEFT_EUNSUPPORTED, /* the file is valid, but weft does not support it */
    WEFT_ENOMEM,       /* the system refused memory */
    WEFT_ELIMIT,       /* the memory limit would be exceeded */
    WEFT_ECONTEXT,     /* the context or the KV cache is full */
    WEFT_ESYSTEM,      /* the system refused a thread or another service */
    WEFT_ENUMERIC,     /* non-finite values, or values that do not fit the type */
    WEFT_ESTOPPED,     /* stopped by the caller: a callback, or a cancelled session or request */
    WEFT_EBUSY,        /* the queue of a scheduler is full: try again later */
} weft_status;

/* Every call that takes a weft_error clears it first: code is WEFT_OK after success. */
typedef struct weft_error {
    weft_status code;
    char message[508];
} weft_error;

/* ---- library --------------------------------------------------------------------------------- */

#define WEFT_VERSION     "0.1.0"
#define WEFT_ABI_VERSION 1

WEFT_API const char *weft_version(void);
WEFT_API int weft_abi_version(void);

/* Features of this build in one line, the kernels in use, and the number of usable processors. */
WEFT_API const char *weft_build_parts(void);
WEFT_API const char *weft_kernels_name(void);
WEFT_API int weft_cpu_count(void);

typedef enum weft_log_level { WEFT_LOG_INFO, WEFT_LOG_WARN } weft_log_level;
typedef void weft_log_fn(void *ud, weft_log_level level, const char *line);

/* ---- memory ---------------------------------------------------------------------------------- */

/* A memory limit shared by several objects and the host itself. Objects opened with a budget count
 * against it and against their own ram_max; either may refuse with WEFT_ELIMIT before memory is
 * allocated. Threads may share a budget. */
typedef struct weft_budget weft_budget;

/* The memory limit of this process's control groups (memory.max of cgroup v2), as containers set
 * it, in bytes; 0: none. A host may pass it as ram_max. */
WEFT_API size_t weft_memory_limit(void);

/* ram_max: bytes; 0: no limit, only accounting. */
WEFT_API weft_budget *weft_budget_new(size_t ram_max, weft_error *err);
WEFT_API void weft_budget_free(weft_budget *budget);

/* Accounts for memory that the host is about to allocate (`what` names it in errors), and for
 * memory it has freed. Giving back more than was taken is clamped. A NULL budget accepts
 * everything. */
WEFT_API weft_status weft_budget_take(weft_budget *budget, size_t bytes, const char *what,
                                      weft_error *err);
WEFT_API void weft_budget_give(weft_budget *budget, size_t bytes);

/* Bytes in use; 0 if NULL. */
WEFT_API size_t weft_budget_used(const weft_budget *budget);

/* ---- model ----------------------------------------------------------------------------------- */

typedef struct weft_model weft_model;

/* A copy, the default, is safe against changes of the file. A mapping, which the program weft
 * uses, is shared with other processes and loads on first use; but if the file shrinks, the
 * process dies of SIGBUS. */
typedef enum weft_load { WEFT_LOAD_COPY, WEFT_LOAD_MAP } weft_load;

/* The arithmetic of matrix products (docs/NUMERICS.md). The default depends on each weight's type,
 * never on the processor: i8 for block formats such as q8_0 and q4_k, f32 for others. With bf16 both
 * sides are rounded to bf16 and sums are f32: faster for prompts and batches on processors with AMX,
 * slower elsewhere and for single tokens of block formats. Neither depends on the number of rows. */
typedef enum weft_compute { WEFT_COMPUTE_DEFAULT, WEFT_COMPUTE_BF16 } weft_compute;

typedef struct weft_model_options {
    size_t struct_size;
    weft_load load;
    size_t ram_max; /* limit for the model and everything made from it; 0: none */
    weft_log_fn *log;
    void *log_ud;
    weft_budget *budget; /* also counted there, or NULL */
    bool no_pack; /* use the mapped weights, which processes share. Otherwise the first engine or
                     encoder packs a copy in the order the kernels read, if ram_max has room.
                     Results are bit-identical */
    weft_compute compute;
} weft_model_options;

/* path: a GGUF file (of a split model the first part), or a Hugging Face directory with
 * config.json and model.safetensors, or model.safetensors.index.json and the files it names. */
WEFT_API weft_model *weft_model_open(const char *path, const weft_model_options *options,
                                     weft_error *err);
WEFT_API void weft_model_close(weft_model *model);

/* What a model computes. */
typedef enum weft_task {
    WEFT_TASK_GENERATE, /* logits of the next token, at each token */
    WEFT_TASK_FILL,     /* logits of the token itself: masked language models */
    WEFT_TASK_CLASSIFY, /* logits of labels, for the whole text or image */
    WEFT_TASK_TAG,      /* logits of labels, for each token */
    WEFT_TASK_ANSWER,   /* for each token: is it the start of the answer, is it the end */
    WEFT_TASK_EMBED,    /* vectors; the model has no head */
} weft_task;

/* What the outputs of WEFT_TASK_CLASSIFY are. */
typedef enum weft_labels {
    WEFT_LABELS_ONE,     /* logits of labels of which one holds: softmax */
    WEFT_LABELS_SEVERAL, /* logits of labels of which each may hold: the logistic function */
    WEFT_LABELS_VALUE,   /* values as they are: regression */
} weft_labels;

typedef struct weft_model_info {
    size_t struct_size;
    const char *architecture; /* "llama" */
    const char *format;       /* "gguf" or "safetensors" */
    int64_t n_layer, n_head, n_head_kv, d_model, d_head, d_ff, n_vocab, n_ctx;
    int64_t n_tensor, n_metadata;
    int64_t n_parameter;    /* tied weights count once */
    size_t bytes_mapped;    /* weights mapped from files */
    size_t bytes_anonymous; /* memory in use, counted against ram_max */
    int32_t eos_id;         /* the first end-of-text token, -1 if the file names none */
    weft_task task;
    int64_t n_out;       /* width of the output: n_vocab, labels or d_model */
    bool images;         /* it takes images, not text */
    int64_t n_layer_src; /* layers of the encoder of an encoder-decoder; 0: none */
    int64_t n_vocab_src; /* vocabulary of the source */
    int32_t start_id;    /* the token that starts the decoder; -1: none */
    int64_t n_feature;   /* width of an input row of models that take images; 0: it takes tokens */
    int64_t n_left_out;  /* tensors of the file that weft does not use, such as a vision tower */
    weft_compute compute;
    weft_labels labels;
} weft_model_info;

WEFT_API void weft_model_get_info(const weft_model *model, weft_model_info *info);

/* Is this an end-of-text token? Chat models have several, listed in generation_config.json. */
WEFT_API bool weft_model_is_end(const weft_model *model, int32_t id);

/* The label of output i of n_out; NULL if the file has none. */
WEFT_API const char *weft_model_label(const weft_model *model, int64_t i);

typedef struct weft_tensor_info {
    size_t struct_size;
    const char *name; /* as in GGUF: "blk.0.attn_q.weight" */
    const char *type; /* "f32", "bf16", "q8_0" ... */
    int n_dim;
    int64_t shape[4]; /* outermost first */
    size_t bytes;
} weft_tensor_info;

/* Weight i of n_tensor. */
WEFT_API weft_status weft_model_get_tensor(const weft_model *model, int64_t i,
                                           weft_tensor_info *info);

/* The number of the weight of this name, for weft_model_get_tensor and weft_model_get_rows; -1: the
 * model has none. A tied output matrix has the name of the embedding. */
WEFT_API int64_t weft_model_find_tensor(const weft_model *model, const char *name);

/* Rows [row, row + n) of weight i as floats, one after the other: a row has as many as the last
 * dimension of the shape, and a weight of one dimension is one row. Quantised weights are expanded.
 * size: floats that `out` has room for, at least all of these. */
WEFT_API weft_status weft_model_get_rows(const weft_model *model, int64_t i, int64_t row, int64_t n,
                                         float *out, size_t size, weft_error *err);

/* Metadata entry i of n_metadata as text; value is truncated to `size` bytes, terminator included,
 * and may be NULL if size is 0. */
WEFT_API weft_status weft_model_get_metadata(const weft_model *model, int64_t i, const char **key,
                                             char *value, size_t size);

/* The exact bytes of a token in running text, without terminator. Returns their number, or -1 if
 * the model has no vocabulary or no such token. If `size` is too small, `bytes` is not written; it
 * may be NULL. Control tokens have 0 bytes. */
WEFT_API int64_t weft_model_piece(const weft_model *model, int32_t id, char *bytes, size_t size);

/* ---- models by name -------------------------------------------------------------------------- */

/* Finds models that other programs have downloaded. Read-only; nothing is downloaded. Search order:
 *   WEFT_MODELS          directories, separated by colons: NAME.gguf, NAME/, ORG/NAME/
 *   Hugging Face cache   $HF_HUB_CACHE, $HF_HOME/hub, or huggingface/hub in $XDG_CACHE_HOME or ~/.cache
 *   llama.cpp cache      $LLAMA_CACHE, or llama.cpp in $XDG_CACHE_HOME or ~/.cache
 *   Ollama               $OLLAMA_MODELS or ~/.ollama/models; /usr/share/ollama/.ollama/models */

/* Called for each place searched if no model was found; result is "no model of this name" or "no
 * such directory". weft_model_list calls it for missing places. */
typedef void weft_searched_fn(void *ud, const char *place, const char *path, const char *result);

typedef struct weft_find_options {
    size_t struct_size;
    size_t ram_max;      /* memory limit of the search; 0: none */
    weft_budget *budget; /* also counted there, or NULL */
    weft_searched_fn *searched;
    void *searched_ud;
} weft_find_options;

/* Resolves a name to a path for weft_model_open and weft_tokenizer_load. A name is NAME, ORG/NAME
 * or hf.co/ORG/NAME, followed by :TAG (a type such as Q4_K_M, or Ollama's tag) if there are
 * several. The first place with a model of that name wins. WEFT_EINVAL: ambiguous, or not a name;
 * WEFT_EIO: not found, or incomplete. */
WEFT_API weft_status weft_model_find(const char *name, const weft_find_options *options, char *path,
                                     size_t size, weft_error *err);

/* A model that was found; the strings are valid during the call. */
typedef struct weft_model_entry {
    size_t struct_size;
    const char *store;   /* "directory", "huggingface", "llama.cpp" or "ollama" */
    const char *name;    /* for weft_model_find */
    const char *path;    /* NULL if there is a problem */
    const char *problem; /* NULL, or why it cannot be opened: "its file is a broken link" */
} weft_model_entry;

/* Return false to stop with WEFT_ESTOPPED. */
typedef bool weft_model_entry_fn(void *ud, const weft_model_entry *model);

/* Calls fn for each model in all places. */
WEFT_API weft_status weft_model_list(weft_model_entry_fn *fn, void *ud,
                                     const weft_find_options *options, weft_error *err);

/* ---- conversion and quantisation ------------------------------------------------------------- */

typedef enum weft_format {
    WEFT_FORMAT_OTHER, /* the format that the source does not have */
    WEFT_FORMAT_GGUF,
    WEFT_FORMAT_HF, /* a Hugging Face directory */
} weft_format;

/* Bytes so far, and in total: weights written, or data read. Return false to stop. */
typedef bool weft_progress_fn(void *ud, uint64_t done, uint64_t total);

/* A tensor that has been written. */
typedef struct weft_converted_tensor {
    const char *name, *from, *to; /* the types: "bf16", "q4_k" */
    uint64_t numbers, bytes;
    double error; /* RMS error relative to the RMS of the values */
    bool instead; /* a fallback type: rows are not a multiple of the block of the type wanted */
} weft_converted_tensor;

typedef void weft_converted_tensor_fn(void *ud, const weft_converted_tensor *tensor);

typedef struct weft_convert_options {
    size_t struct_size;
    weft_format to;   /* ignored for a path that ends in .gguf */
    const char *type; /* of the matrices: "f32", "f16", "bf16"; in GGUF also "q8_0", "q4_0", "q4_1",
                           "q5_0", "q5_1", "q6_k", "mxfp4" and the mixes "q5_k_m", "q4_k_m",
                           "iq4_nl", "iq4_xs", "mxfp4_moe", "q3_k_l", "q3_k_m", "q3_k_s",
                           "q2_k"; NULL: unchanged, or as in the directory that the GGUF file was
                           made from */
    uint64_t max_shard; /* maximum bytes of weights per file; 0: one file */
    bool force;         /* overwrite existing files, even the source */
    weft_load load;
    size_t ram_max;
    weft_progress_fn *progress;
    void *progress_ud;
    weft_log_fn *log;
    void *log_ud;
    int n_thread;                        /* 0: one per processor */
    weft_converted_tensor_fn *converted; /* called after each tensor, or NULL */
    void *converted_ud;
    weft_budget *budget;    /* also counted there, or NULL */
    const char *importance; /* a text file: errors count by the mean squares of the columns' inputs
                               over it, where a quantised type searches its codes; or NULL */
    const char *adapter;    /* its changes are merged into the weights: a path as of
                               weft_adapter_open; or NULL */
    double strength;        /* of that adapter, as in weft_session_adapt; usually 1 */
    const char *base;       /* `from` is an adapter of this model; or NULL */
} weft_convert_options;

typedef struct weft_convert_info {
    size_t struct_size;
    weft_format format;
    int64_t n_tensor, n_file;
    int64_t n_left_out; /* unused tensors of the source */
    uint64_t bytes;     /* total size of the files */
    size_t bytes_peak;  /* peak memory */
    char architecture[64];
    char type[16];   /* the type asked for, or the most common one */
    char path[4096]; /* the output: a file, the first of several, or a directory */
} weft_convert_info;

/* Writes the model at `from` to `to`: a .gguf file, or a directory. In a directory, a GGUF file
 * gets a name made from its contents. Existing files are replaced atomically, after the new ones
 * have reached the disk. The GGUF file embeds the configuration, tokenizer and types of a
 * directory, so that converting back gives the same bytes of weights. info may be NULL.
 *
 * With an adapter, what is written is W + s B A in place of W, in the file's type; in f16 where
 * that is quantised and no type is given. A head that shares the embedding gets a matrix of its own
 * if the adapter changes one of the two. With a base, the adapter at `from` is written as a GGUF
 * file if `to` ends in .gguf, and otherwise as a PEFT directory: with the same bytes of A, and of B
 * unless weights differ in alpha, of which GGUF has one for all. What GGUF has no form for (DoRA,
 * whole weights, biases) is an error. */
WEFT_API weft_status weft_convert(const char *from, const char *to,
                                  const weft_convert_options *options, weft_convert_info *info,
                                  weft_error *err);

/* ---- tokenizer: text to ids and back --------------------------------------------------------- */

/* Follows the tokenizer file exactly. A step that weft does not support is an error that names it,
 * never an approximation. Immutable; threads may share it. */
typedef struct weft_tokenizer weft_tokenizer;

/* Encoder-decoders may have one tokenizer per language: source_vocabulary.txt and
 * target_vocabulary.txt, or Marian's source.spm and target.spm. */
typedef enum weft_side { WEFT_SIDE_ANY, WEFT_SIDE_SOURCE, WEFT_SIDE_TARGET } weft_side;

typedef struct weft_tokenizer_options {
    size_t struct_size;
    weft_load load;
    size_t ram_max;  /* memory limit, encoded tokens included; 0: none, but loading takes at most
                        256 MiB plus 64 bytes per byte of the file */
    const char *pre; /* pre-tokenizer for files that name none: "llama-bpe", "qwen2" ... */
    weft_budget *budget; /* also counted there, or NULL */
    weft_side side;      /* which tokenizer, if the model has two */
} weft_tokenizer_options;

/* path: a GGUF file, a tokenizer.json, a SentencePiece .model, a tiktoken file, BERT's vocab.txt,
 * a vocab.json with merges.txt beside it, llama2.c's tokenizer.bin, or a directory with one of
 * them; or an OpenNMT vocabulary of letters (..._vocabulary.txt). Test vectors stored in the file
 * (weft.tokenizer.selftest) are checked. */
WEFT_API weft_tokenizer *
weft_tokenizer_load(const char *path, const weft_tokenizer_options *options, weft_error *err);
WEFT_API void weft_tokenizer_free(weft_tokenizer *tokenizer);

typedef struct weft_tokenizer_info {
    size_t struct_size;
    const char *source;     /* "tokenizer.json", "gguf", "sentencepiece" ... */
    const char *model;      /* "BPE", "Unigram", "WordPiece" or "WordLevel" */
    int32_t n_vocab;        /* ids are below this; some may be unused */
    int32_t bos_id, eos_id; /* -1 if the file names none */
    bool byte_level;        /* any bytes can be encoded, and decode to themselves */
    size_t bytes_anonymous; /* memory in use */
    int32_t mask_id; /* the token that stands for a missing one, [MASK] or <mask>; -1: none */
} weft_tokenizer_info;

WEFT_API void weft_tokenizer_get_info(const weft_tokenizer *tokenizer, weft_tokenizer_info *info);

/* The bytes [from, to) of the text, or of the pair's second text if the type is 1. */
typedef struct weft_span {
    uint32_t from, to;
} weft_span;

typedef struct weft_tokenize_options {
    size_t struct_size;
    bool no_special;    /* do not add BOS, EOS or other special tokens */
    bool parse_special; /* parse special tokens spelled in the text; without it they are ordinary
                           text, as they must be for untrusted input */
    bool spans;         /* fill weft_tokens.spans */
    bool fit;           /* truncate and pad as the file says; otherwise neither */
    const char *pair;   /* second text of a pair */
    size_t pair_length;
    /* Not NULL: parse_special holds only for tokens that lie in one of these spans, which are in
     * order and do not touch. Other text never becomes a special or a gated token, whatever it
     * spells, and is otherwise encoded as usual. */
    const weft_span *trusted;
    size_t n_trusted;
    const int32_t *gated; /* tokens that are not special, but count only in trusted spans */
    size_t n_gated;
} weft_tokenize_options;

typedef struct weft_tokens {
    int64_t n;
    const int32_t *ids;
    const weft_span *spans; /* both 0 for tokens without text; NULL unless requested */
    const uint8_t *types;   /* 0 or 1, for pairs; NULL if all are 0 */
} weft_tokens;

/* Adds the special tokens that the tokenizer's file puts around a text (BOS, EOS, [CLS] ...),
 * unless no_special; no other function adds any. Invalid UTF-8 is accepted: byte-level tokenizers
 * encode the bytes, others replace each bad byte by U+FFFD. Texts of 2^30 bytes or more are
 * WEFT_ELIMIT. Returns NULL on failure. */
WEFT_API weft_tokens *weft_tokenizer_encode(const weft_tokenizer *tokenizer, const char *text,
                                            size_t length, const weft_tokenize_options *options,
                                            weft_error *err);
WEFT_API void weft_tokens_free(weft_tokens *tokens);

/* How a text becomes tokens, step by step:
 *
 *     NORMALIZED  a stretch of the text, as the normalizer rewrites it
 *     ADDED       a token that is cut out of the text before anything else happens to it
 *     WORD        a word, as the pre-tokenizer cuts it; the steps up to PIECES are about it
 *       SYMBOLS   BPE: the letters or bytes that it begins as
 *       MERGE     BPE: two neighbours become one piece: the pair of lowest rank, the leftmost of equals
 *       PATH      Unigram: the pieces with the largest sum of scores
 *       MATCH     WordPiece: the longest piece that fits next; id -1: none does, so the word is unknown
 *     PIECES      the tokens of the word
 *     TOKENS      all tokens of the text
 *
 * A word that is a token by itself may need no steps. One that spells a token it may not become is shown
 * twice: whole, without PIECES, then as the words it is cut into. */
typedef enum weft_step_kind {
    WEFT_STEP_NORMALIZED,
    WEFT_STEP_ADDED,
    WEFT_STEP_WORD,
    WEFT_STEP_SYMBOLS,
    WEFT_STEP_MERGE,
    WEFT_STEP_PATH,
    WEFT_STEP_MATCH,
    WEFT_STEP_PIECES,
    WEFT_STEP_TOKENS,
} weft_step_kind;

/* The bytes [from, to) of a word. */
typedef struct weft_piece {
    int32_t id; /* -1: not a token */
    uint32_t from, to;
    double score; /* PATH: of the piece; otherwise 0 */
} weft_piece;

/* Valid during the call. Fields that a kind does not name are 0. */
typedef struct weft_tokenizer_step {
    size_t struct_size;
    weft_step_kind kind;
    int type;         /* 1: about the second text of a pair */
    weft_span span;   /* what it is about, in the text; not TOKENS */
    const char *text; /* [length] the normalised text, the added token in the text, or the word */
    size_t length;
    weft_piece piece;       /* ADDED: its id; MERGE: the new piece; MATCH */
    weft_piece left, right; /* MERGE: the pair */
    int64_t rank; /* MERGE: line of the merge, or rank of the token; -1: the file has scores */
    double score; /* MERGE by scores: of the new piece. PATH: the sum, which SentencePiece's float
                     arithmetic counts anew where it passes 100000 */
    const weft_piece *pieces; /* [n_piece] SYMBOLS, PATH, PIECES: in order. MERGE: after it; none in
                                 words that begin as more than 512 symbols */
    size_t n_piece;
    const weft_tokens *tokens; /* TOKENS */
} weft_tokenizer_step;

/* Return false to stop with WEFT_ESTOPPED. */
typedef bool weft_tokenizer_step_fn(void *ud, const weft_tokenizer_step *step);

/* Encodes as weft_tokenizer_encode does, and calls fn for each step of it. The last step has the
 * tokens that weft_tokenizer_encode returns, with spans. */
WEFT_API weft_status weft_tokenizer_steps(const weft_tokenizer *tokenizer, const char *text,
                                          size_t length, const weft_tokenize_options *options,
                                          weft_tokenizer_step_fn *fn, void *ud, weft_error *err);

/* The exact bytes of a token in running text; as weft_model_piece. */
WEFT_API int64_t weft_tokenizer_piece(const weft_tokenizer *tokenizer, int32_t id, char *bytes,
                                      size_t size);

/* A token as the file spells it ("\xC4\xA0world", "##ing", "<s>"), not terminated; NULL if there
 * is none. `length` may be NULL. And the id of a spelling, or -1. */
WEFT_API const char *weft_tokenizer_token(const weft_tokenizer *tokenizer, int32_t id,
                                          size_t *length);
WEFT_API int32_t weft_tokenizer_id(const weft_tokenizer *tokenizer, const char *token,
                                   size_t length);

/* Special tokens have no text. */
WEFT_API bool weft_tokenizer_is_special(const weft_tokenizer *tokenizer, int32_t id);

/* Streaming decoder: returns complete code points only. Skips special tokens unless keep_special.
 * Use from one thread at a time. */
typedef struct weft_decoder weft_decoder;

WEFT_API weft_decoder *weft_decoder_new(const weft_tokenizer *tokenizer, bool keep_special,
                                        weft_error *err);
WEFT_API void weft_decoder_free(weft_decoder *decoder);

/* *bytes, *length: the new text, valid until the next call; may be empty. */
WEFT_API weft_status weft_decoder_push(weft_decoder *decoder, int32_t id, const char **bytes,
                                       size_t *length, weft_error *err);

/* Call at the end: returns the bytes of an incomplete code point. Either pointer may be NULL. */
WEFT_API void weft_decoder_flush(weft_decoder *decoder, const char **bytes, size_t *length);

/* ---- chat templates -------------------------------------------------------------------------- */

/* A chat model was trained on conversations in one exact form. Its template, a Jinja program in the
 * model's files, writes that form. weft executes it as transformers does, byte for byte, and refuses
 * what transformers refuses. It also knows who wrote each byte, so that a user who types <|im_end|>
 * cannot end a turn. */
typedef struct weft_template weft_template;

typedef struct weft_template_options {
    size_t struct_size;
    const char *name; /* one of several templates, such as "tool_use"; NULL: "default" */
    size_t ram_max;   /* memory limit; 0: none */
    weft_budget *budget;
} weft_template_options;

/* path: a model (GGUF file or Hugging Face directory), a tokenizer_config.json, or a file with the
 * template alone. Without a template in it: WEFT_EUNSUPPORTED; weft does not guess one. Returns NULL
 * on failure. May be shared between threads. */
WEFT_API weft_template *weft_template_load(const char *path, const weft_template_options *options,
                                           weft_error *err);
WEFT_API void weft_template_free(weft_template *chat);

typedef struct weft_template_info {
    size_t struct_size;
    const char *name;   /* "default" */
    const char *source; /* the template itself */
    size_t source_length;
    bool system;   /* accepts a system message */
    bool tools;    /* writes the tools it is given */
    bool thinking; /* has a switch for thinking: the variable enable_thinking */
    const char *think_begin, *think_end; /* strings around the model's thinking, or NULL */
    bool calls;   /* weft knows how it writes calls of tools: see weft_call_reader_new */
    bool several; /* of which one message may have several */
} weft_template_info;

WEFT_API void weft_template_get_info(const weft_template *chat, weft_template_info *info);

typedef struct weft_render_options {
    size_t struct_size;
    const char *tools;     /* JSON list of tools, or NULL */
    const char *variables; /* JSON object: further variables, such as {"enable_thinking": false};
                                  or NULL */
    bool no_generation_prompt; /* do not end with the start of the assistant's turn */
    bool trust_all;     /* special tokens count wherever they are spelled, as in transformers:
                                  not for untrusted input */
    int64_t now;        /* Unix time for templates that write the date; 0: now */
    bool continue_last; /* end with the content of the last message, so that a model continues it;
                                  implies no_generation_prompt */
} weft_render_options;

/* Who wrote the bytes [from, to): field `field` of message `message`, or the template (-1) or the
 * tools and variables (-2). In trusted bytes, special tokens count. */
typedef struct weft_origin {
    uint32_t from, to;
    int32_t message;
    const char *field; /* "content", "tool_calls" ...; NULL unless message is 0 or more */
    bool trusted;
} weft_origin;

typedef struct weft_rendered {
    const char *text; /* terminated */
    size_t length;
    const weft_origin *origins; /* in order, cover the text */
    int64_t n_origin;
    const weft_span *generated; /* what {% generation %} blocks wrote */
    int64_t n_generated;
    const weft_tokens *tokens; /* with spans; NULL without a tokenizer */
} weft_rendered;

/* messages: a JSON list, or an object with this list as "messages" and maybe "tools". A message
 * is an object with a role (system, developer, user, assistant or tool) and
 * content, as the OpenAI API has them: content is a string or a list of text parts, arguments of
 * tool calls are objects or strings. Where a template wants another of these forms, weft converts.
 * tokenizer: encodes the text, without adding tokens; NULL: text only. Returns NULL on failure:
 * WEFT_EINVAL if the template raises an exception, with its message. */
WEFT_API weft_rendered *weft_template_render(const weft_template *chat,
                                             const weft_tokenizer *tokenizer, const char *messages,
                                             size_t length, const weft_render_options *options,
                                             weft_error *err);
WEFT_API void weft_rendered_free(weft_rendered *rendered);

/* ---- compressed text: gzip and zstd ---------------------------------------------------------- */

/* Data files that are given by path may be compressed: they are decompressed into counted memory.
 * These two functions are for text that the host has read itself. weft_build_parts lists gzip and
 * zstd if this build has them. */

/* True if the data starts like gzip or zstd data. */
WEFT_API bool weft_is_compressed(const void *data, size_t size);

/* Decompresses all members or frames and verifies their checksums; data that is not compressed is
 * copied. `to` NULL: only counts the bytes. *n: on entry the size of `to`, on return the number of
 * bytes. It is an error if the data is truncated, damaged, followed by anything else, a tar
 * archive, or grows to more than 64 MiB and 256 times its size. name: of the data, in errors, or
 * NULL. */
WEFT_API weft_status weft_decompress(const char *name, const void *data, size_t size, char *to,
                                     size_t *n, weft_budget *budget, weft_error *err);

/* ---- training a tokenizer -------------------------------------------------------------------- */

typedef enum weft_token_model {
    WEFT_TOKENS_BPE,
    WEFT_TOKENS_WORDPIECE,
    WEFT_TOKENS_CHARACTERS, /* one token per code point, no merges */
} weft_token_model;

/* Tie-breaking between equally frequent pairs: smallest ids first, as in Hugging Face's trainers,
 * or greatest bytes first. */
typedef enum weft_ties { WEFT_TIES_IDS, WEFT_TIES_BYTES } weft_ties;

typedef struct weft_tokenizer_train_options {
    size_t struct_size;
    weft_token_model model; /* byte-level BPE, BERT's WordPiece, or characters */
    weft_ties ties;
    int32_t n_vocab;       /* tokens, special ones included; 0: 8192 */
    int64_t min_frequency; /* minimum count of a merged pair; 0: 2 */
    bool lines;            /* each line is a text, as in Hugging Face's trainers; otherwise each
                              file. Special tokens also end a text and are not trained on */
    bool cased;            /* WordPiece: keep case and accents */
    const char *pattern;   /* BPE: regex that splits text into words; NULL: GPT-2's */
    const char *const *special; /* tokens that get the first ids */
    int n_special;
    int threads;         /* 0: one per processor of this process */
    weft_load load;      /* of the text */
    size_t ram_max;      /* memory limit; 0: none */
    weft_budget *budget; /* also counted there, or NULL */
} weft_tokenizer_train_options;

typedef struct weft_tokenizer_train_info {
    size_t struct_size;
    int32_t n_vocab; /* may be fewer than requested if nothing is left to merge */
    int64_t n_merge;
    int64_t n_word; /* distinct words, and all words */
    int64_t n_occurrence;
    size_t bytes_peak; /* peak memory */
} weft_tokenizer_train_info;

/* Trains a tokenizer on UTF-8 files and writes a tokenizer.json to `to`. The result depends on the
 * text and the options, not on threads. info may be NULL. */
WEFT_API weft_status weft_tokenizer_train(const char *const *paths, int n_path, const char *to,
                                          const weft_tokenizer_train_options *options,
                                          weft_tokenizer_train_info *info, weft_error *err);

/* ---- adapters -------------------------------------------------------------------------------- */

/* An adapter (LoRA, rsLoRA, DoRA) for one model: what it adds to weights, and weights and biases in
 * place of the model's. path: a directory as PEFT saves it, with adapter_config.json and
 * adapter_model.safetensors, or a GGUF file of type "adapter". Its numbers are copied, so its files
 * may change afterwards; their memory is counted by the model. It is never changed, and any thread may open, use and close it. */
typedef struct weft_adapter weft_adapter;

WEFT_API weft_adapter *weft_adapter_open(weft_model *model, const char *path, weft_error *err);

/* Sessions, encoders and requests that have it keep it until they are freed, done, or have another. */
WEFT_API void weft_adapter_close(weft_adapter *adapter);

typedef struct weft_adapter_info {
    size_t struct_size;
    int64_t rank;     /* the largest of its weights: what weft_engine_options.adapter_rank needs */
    int64_t n_weight; /* weights that it adds to */
    int64_t n_whole;  /* weights and biases in place of the model's */
    bool gains;       /* DoRA */
    uint64_t bytes;   /* of its tensors */
} weft_adapter_info;

/* All 0 if adapter is NULL. */
WEFT_API void weft_adapter_get_info(const weft_adapter *adapter, weft_adapter_info *info);

/* ---- engine: threads, KV cache and buffers of forward passes --------------------------------- */

typedef struct weft_engine weft_engine;

typedef enum weft_kv_type {
    WEFT_KV_DEFAULT,
    WEFT_KV_F32,
    WEFT_KV_F16,
    WEFT_KV_BF16,
    WEFT_KV_Q8_0,
} weft_kv_type;

typedef struct weft_engine_options {
    size_t struct_size;
    int threads;          /* 0: one per processor of this process */
    int n_session;        /* sessions per forward, and contexts in the cache; 0: 1 */
    int n_batch;          /* maximum rows per forward; 0: 256 */
    int64_t n_ctx;        /* positions per session; 0: the model's own, at most 4096 */
    weft_kv_type kv_type; /* type of the KV cache; default f16 */
    int64_t n_cache; /* positions in the cache, shared pages count once; 0: n_session contexts */
    bool all_logits; /* room for the logits of every row of a forward, not only of each session's
                        last: log-probabilities of prompts need it (weft_request.prompt_fn) */
    int64_t adapter_rank; /* the largest rank of adapters that its sessions may have; 0: none */
} weft_engine_options;

WEFT_API weft_engine *weft_engine_new(weft_model *model, const weft_engine_options *options,
                                      weft_error *err);
WEFT_API void weft_engine_free(weft_engine *engine);

/* The options of an engine, defaults filled in, and the free part of its cache. */
typedef struct weft_engine_info {
    size_t struct_size;
    int threads, n_session, n_batch;
    int64_t n_ctx;
    const char *kv_type;  /* "f16" */
    int64_t n_cache;      /* positions, in whole pages */
    int64_t n_cache_free; /* positions in free pages, and in those that only a scheduler's cached
                             prefixes use */
} weft_engine_info;

/* All 0 if engine is NULL. */
WEFT_API void weft_engine_get_info(const weft_engine *engine, weft_engine_info *info);

/* Memory that an engine with these options will need, found by a dry run. */
typedef struct weft_memory_plan {
    size_t struct_size;
    size_t kv_bytes;       /* KV cache */
    size_t step_bytes;     /* activations and scratch of a forward, exact */
    int64_t n_ctx;         /* positions per session, defaults filled in */
    size_t session_bytes;  /* one session without its pages: tokens, logits */
    size_t total_bytes;    /* engine and n_session sessions: the maximum, unless attention maps are
                             traced */
    size_t position_bytes; /* KV cache per position, all layers */
    size_t panel_bytes; /* part of total_bytes: packed weights. They belong to the model; its first
                             engine or encoder makes them, if the limit has room */
} weft_memory_plan;

WEFT_API weft_status weft_engine_plan(weft_model *model, const weft_engine_options *options,
                                      weft_memory_plan *plan, weft_error *err);

/* Parameters, size and FLOPs per token of a part of a model. A tied head has FLOPs but no
 * parameters. */
typedef struct weft_part {
    int64_t n_parameter;
    size_t bytes;
    double flops;
} weft_part;

typedef struct weft_model_cost {
    size_t struct_size;
    weft_part embedding, attention, feed_forward, head;
} weft_model_cost;

/* FLOPs of the last token of a context of n_ctx tokens; 0: the engine's default. */
WEFT_API weft_status weft_model_get_cost(weft_model *model, int64_t n_ctx, weft_model_cost *cost,
                                         weft_error *err);

typedef struct weft_speed {
    size_t struct_size;
    int64_t n_prompt;    /* prompt length: 512, or the context */
    double prompt;       /* tokens per second of a prompt */
    double generate;     /* tokens per second of generation, at the start of a context */
    double read_rate;    /* bytes of weights per second, one row */
    double product_rate; /* FLOP/s, many rows */
    double seconds;      /* duration of the measurement */
} weft_speed;

/* Predicts the speed of an engine with these options. Measures this machine for part of a second
 * with synthetic weights of the model's types; the model's own weights are not read. */
WEFT_API weft_status weft_engine_estimate(weft_model *model, const weft_engine_options *options,
                                          weft_speed *speed, weft_error *err);

/* Called for every named tensor of a forward that has rows, in the order of computation, on the
 * thread that evaluates; the data is valid during the call. With `attention_maps`, also for
 * attention scores and probabilities, which need rows x keys of memory. */
typedef struct weft_trace_tensor {
    size_t struct_size;
    const char *name;           /* "blk.3.attn_q.rope" */
    const char *op;             /* "rope" */
    int64_t rows, cols, stride; /* in floats; rows are `stride` apart */
    const float *data;
    const char *formula;       /* of the op: "y = x W^T + b" */
    const char *const *inputs; /* [n_input] what the op reads: tensors shown before, and weights:
                                  "blk.3.attn_q", "blk.3.attn_q_norm.weight" */
    int n_input;
    double flops; /* of the op */
} weft_trace_tensor;

typedef void weft_trace_fn(void *ud, const weft_trace_tensor *tensor);

WEFT_API weft_status weft_engine_trace(weft_engine *engine, weft_trace_fn *fn, void *ud,
                                       bool attention_maps, weft_error *err);

/* A hook changes what a model computes: it sees a tensor after its op and before any other op, on
 * the thread that evaluates, and may write its rows to `data`, which is tensor->data: rows x cols
 * floats, rows `stride` apart. The trace shows what the hook has written. Tensors that are only
 * shown (attention scores and probabilities, the lens, experts) have no hook, because no op reads
 * them. `blk.N.attention` is what the output projection of layer N reads; head h has its columns
 * from h cols / n_head on. A hook that writes the values that are there changes no bit of any
 * logits. Keys and values that were computed under a hook stay in the cache until their tokens are
 * rewound. */
typedef void weft_hook_fn(void *ud, const weft_trace_tensor *tensor, float *data);

/* What a trace shows besides the outputs of all ops, each at the cost of memory and time. None of
 * it changes a bit of the logits. */
typedef struct weft_trace_options {
    size_t struct_size;
    weft_hook_fn *hook; /* NULL: none */
    void *hook_ud;
    bool attention_maps; /* scores and probabilities of attention */
    bool open;       /* the inside of fused ops: gate, activation and up of a feed forward, which a
                        hook may write; scores, choices and outputs of experts; keys and values of
                        latent attention; gates of recurrent units */
    bool lens;       /* after layer N, the model's output as if it were the last layer: lens.N.* */
    bool all_logits; /* the output of every row, not only of the last, in one tensor */
} weft_trace_options;

/* As weft_engine_trace, with options; NULL means none. fn may be NULL if there is a hook. Without
 * both, the engine is as it was made. */
WEFT_API weft_status weft_engine_trace_with(weft_engine *engine, weft_trace_fn *fn, void *ud,
                                            const weft_trace_options *options, weft_error *err);

/* ---- encoder: embeddings, labels, masks, images ---------------------------------------------- */

/* Encodes texts or images. Many run in one batch without padding, and each gets the same bits as
 * alone. All memory is allocated by weft_encoder_new. Use from one thread at a time. */
typedef struct weft_encoder weft_encoder;

typedef enum weft_encoder_output {
    WEFT_OUTPUT_HEAD,   /* the output of the head: logits of tokens or labels */
    WEFT_OUTPUT_STATES, /* hidden state of every token, before the head */
    WEFT_OUTPUT_POOLED, /* one vector per input, pooled and normalised as the model's files say */
} weft_encoder_output;

/* How hidden states become one vector. Decoders whose files do not say use the last. */
typedef enum weft_pooling {
    WEFT_POOLING_MODEL, /* as the model's files say */
    WEFT_POOLING_MEAN,
    WEFT_POOLING_MAX,
    WEFT_POOLING_FIRST,
    WEFT_POOLING_LAST,
} weft_pooling;

typedef struct weft_encoder_options {
    size_t struct_size;
    int threads;   /* 0: one per processor of this process */
    int n_batch;   /* maximum rows per forward, at least n_ctx; 0: n_ctx, at least 256 */
    int64_t n_ctx; /* maximum rows of one input; 0: the model's, at most 65536 */
    weft_encoder_output output;
    weft_pooling pooling; /* for WEFT_OUTPUT_POOLED */
    bool normalize;       /* scale vectors to length 1, whatever the model says */
    int64_t adapter_rank; /* the largest rank of adapters that it may have; 0: none */
} weft_encoder_options;

WEFT_API weft_encoder *weft_encoder_new(weft_model *model, const weft_encoder_options *options,
                                        weft_error *err);
WEFT_API void weft_encoder_free(weft_encoder *encoder);

/* Memory that an encoder with these options will need; kv_bytes, session_bytes and position_bytes
 * are 0. */
WEFT_API weft_status weft_encoder_plan(weft_model *model, const weft_encoder_options *options,
                                       weft_memory_plan *plan, weft_error *err);

/* From now on the encoder computes with the adapter, as in weft_session_adapt; NULL: without one. */
WEFT_API weft_status weft_encoder_adapt(weft_encoder *encoder, weft_adapter *adapter,
                                        double strength, weft_error *err);

/* One text or image, and the buffer for its output. */
typedef struct weft_input {
    const int32_t *ids;    /* [n], for models that take tokens */
    const float *features; /* [n, n_feature], for models that take images */
    const uint8_t *types;  /* [n], as in weft_tokens; NULL: all 0 */
    int64_t n;
    const int32_t *at; /* the rows to output, ascending; NULL: all */
    int64_t n_at;      /* 0 to n; 0 if `at` is NULL */
    float *out;        /* [weft_encoder_rows, weft_encoder_width] */
} weft_input;

/* Width and number of output rows of an input; 0 rows if eval would refuse it. */
WEFT_API int64_t weft_encoder_width(const weft_encoder *encoder);
WEFT_API int64_t weft_encoder_rows(const weft_encoder *encoder, const weft_input *input);

/* Fills `out` of all inputs. If one is too long, returns WEFT_ECONTEXT before computing anything.
 */
WEFT_API weft_status weft_encoder_eval(weft_encoder *encoder, const weft_input *inputs, int64_t n,
                                       weft_error *err);

/* As weft_engine_trace and weft_engine_trace_with; the rows of the output are those that the input
 * asks for, whatever all_logits says. */
WEFT_API weft_status weft_encoder_trace(weft_encoder *encoder, weft_trace_fn *fn, void *ud,
                                        bool attention_maps, weft_error *err);
WEFT_API weft_status weft_encoder_trace_with(weft_encoder *encoder, weft_trace_fn *fn, void *ud,
                                             const weft_trace_options *options, weft_error *err);

/* ---- images ---------------------------------------------------------------------------------- */

/* A preprocessed image, the input of an encoder. */
typedef struct weft_image {
    int64_t n; /* rows: patches and learned tokens */
    const float *features;
} weft_image;

/* Reads a PNG or JPEG from a file or from memory and preprocesses it (resize, crop, rescale,
 * normalise) as the model's preprocessor_config.json says, or its config.json if that has
 * image_mean, like transformers. Returns NULL on failure. weft_build_parts lists png and jpeg if
 * this build has them. */
WEFT_API weft_image *weft_image_open(weft_model *model, const char *path, weft_error *err);
WEFT_API weft_image *weft_image_decode(weft_model *model, const void *data, size_t size,
                                       weft_error *err);
WEFT_API void weft_image_free(weft_image *image);

/* Accuracy and loss of a classifier. */
typedef struct weft_score {
    size_t struct_size;
    int64_t n, n_right;
    double loss; /* mean of -log p of the correct class */
} weft_score;

/* data: [n_data] paths of labelled images, as for weft_train. */
WEFT_API weft_status weft_image_score(weft_model *model, const char *const *data, int n_data,
                                      int threads, weft_score *score, weft_error *err);

/* ---- kernel regression: where attention came from ---------------------------------------------
 */

typedef enum weft_kernel {
    WEFT_KERNEL_GAUSSIAN,     /* K(t) = e^(-t/2),  t = |q - k|^2 / width^2 */
    WEFT_KERNEL_BOXCAR,       /* 1 where t <= 1 */
    WEFT_KERNEL_EPANECHNIKOV, /* max(0, 1 - t) */
    WEFT_KERNEL_CONSTANT,     /* 1: every key counts the same, whatever the width */
} weft_kernel;

/* Nadaraya and Watson, 1964: for each query the mean of the values, weighted by how close their
 * keys are (width: the bandwidth): out[i] = sum_j K(t_ij) values[j] / sum_j K(t_ij). A query
 * without a key in reach gets 0. queries, out: [n_query]; keys, values: [n_key]. */
WEFT_API weft_status weft_kernel_pool(weft_kernel kernel, double width, const float *queries,
                                      int64_t n_query, const float *keys, const float *values,
                                      int64_t n_key, float *out, weft_error *err);

/* ---- session: one sequence of tokens and its KV cache ---------------------------------------- */

/* Sessions of an engine share cache pages copy-on-write: a fork needs none until it diverges, and
 * a page is freed when the last session drops it. */
typedef struct weft_session weft_session;

WEFT_API weft_session *weft_session_new(weft_engine *engine, weft_error *err);
WEFT_API void weft_session_free(weft_session *session);

/* A second session with the same tokens and logits. The two are independent from then on. */
WEFT_API weft_session *weft_session_fork(const weft_session *session, weft_error *err);

/* From now on the session computes with the adapter; NULL: without one. Drops the session's tokens
 * and its source, which were computed otherwise. strength multiplies what the adapter adds: 0 is
 * the model itself, bit by bit; an adapter with gains or whole weights takes 0 and 1 only. Sessions
 * with different adapters may be evaluated in one call; none changes another's logits by a bit.
 * Forks have the adapter too. */
WEFT_API weft_status weft_session_adapt(weft_session *session, weft_adapter *adapter,
                                        double strength, weft_error *err);

/* For encoder-decoders: encodes a source and drops the session's tokens. The decoder's tokens
 * begin with start_id. Keys and values of the source are computed once, and forks share them.
 * After an error, even for a bad argument, the session has neither source nor tokens, so it never
 * continues an old source. Other models return WEFT_EINVAL and keep their tokens. */
WEFT_API weft_status weft_session_source(weft_session *session, const int32_t *ids, int64_t n,
                                         weft_error *err);

/* Appends n tokens and computes the logits after the last. On error the session keeps the tokens
 * it had before. If the context or the cache is too small, returns WEFT_ECONTEXT before computing
 * anything. */
WEFT_API weft_status weft_session_eval(weft_session *session, const int32_t *ids, int64_t n,
                                       weft_error *err);

/* Sets the session's tokens to ids and computes only the new ones. Reuses the longest cached
 * prefix: its own, or whole pages of 64 tokens of another session of the engine, which both then
 * share. Always computes the last token, unless the session already ends there with logits.
 * *reused (may be NULL): tokens not computed. On error the session has the reused prefix; after a
 * bad argument it is unchanged. */
WEFT_API weft_status weft_session_sync(weft_session *session, const int32_t *ids, int64_t n,
                                       int64_t *reused, weft_error *err);

/* The first half of weft_session_sync: keeps or shares the cached prefix and returns its length,
 * so that the rest can be evaluated in a batch with other sessions. Returns -1 for a bad argument.
 */
WEFT_API int64_t weft_session_match(weft_session *session, const int32_t *ids, int64_t n);

/* Drops all tokens from position `length` on. */
WEFT_API weft_status weft_session_rewind(weft_session *session, int64_t length, weft_error *err);
WEFT_API int64_t weft_session_length(const weft_session *session);

/* The tokens, valid until the next call that changes them; n may be NULL. */
WEFT_API const int32_t *weft_session_tokens(const weft_session *session, int64_t *n);

/* n_vocab logits, valid until the next eval or rewind; NULL before the first eval and after a
 * rewind. */
WEFT_API const float *weft_session_logits(const weft_session *session);

/* The most probable next token (the lowest id on ties), or -1 without logits. */
WEFT_API int32_t weft_session_greedy(const weft_session *session);

/* May be called from any thread. Stops the session's eval before its next forward, so within one
 * forward at most, and restores the tokens it had before. If the eval is already in its last
 * forward, it completes, and the next eval is stopped instead. */
WEFT_API void weft_session_cancel(weft_session *session);

/* Writes tokens, logits and KV cache of the session to a file, atomically. */
WEFT_API weft_status weft_session_save(const weft_session *session, const char *path,
                                       weft_error *err);

/* Restores a saved session, which continues with the same bits. The model must have the same
 * weights in the same types and the engine the same kv_type (WEFT_EINVAL otherwise), and the
 * tokens must fit the context (WEFT_ECONTEXT). A damaged file is WEFT_EFORMAT. Logs a warning if
 * other kernels computed it: between the scalar kernels and the others, the last bits differ. */
WEFT_API weft_session *weft_session_restore(weft_engine *engine, const char *path, weft_error *err);

/* The same for a session that was saved with an adapter, which must have the same numbers and the
 * same strength (WEFT_EINVAL otherwise). weft_session_restore refuses such a file. */
WEFT_API weft_session *weft_session_restore_adapted(weft_engine *engine, const char *path,
                                                    weft_adapter *adapter, double strength,
                                                    weft_error *err);

/* Tokens to append to a session. A call takes at most 1024 requests for sessions of one engine. */
typedef struct weft_eval_request {
    weft_session *session;
    const int32_t *ids;
    int64_t n;           /* 1 or more */
    int64_t done;        /* tokens appended so far: 0 to n */
    weft_status status;  /* WEFT_OK; WEFT_ESTOPPED: cancelled; WEFT_ECONTEXT: no room in the context
                           or the cache; WEFT_ENUMERIC: non-finite logits */
    const char *message; /* of a failure; valid until the session is evaluated again or freed */
} weft_eval_request;

/* Runs forwards until every request is done or has failed. A failed request does not affect the
 * others: its session keeps the tokens it had before, the others finish with the bits they would
 * get without it, and the call returns the first failure. Bad arguments fail the call before
 * anything happens. */
WEFT_API weft_status weft_engine_eval(weft_engine *engine, weft_eval_request *work, int n,
                                      weft_error *err);

/* Runs one forward of at most n_batch rows for at most n_session requests, for servers whose
 * requests come and go between forwards. Requests with one token left go first, so that long
 * prompts do not delay generation; the others share the remaining rows. Skips requests that are
 * done or have a status: their sessions keep the tokens appended so far. Returns the first failure
 * of this forward; cancellation is not a failure. Start with done and status 0. */
WEFT_API weft_status weft_engine_step(weft_engine *engine, weft_eval_request *work, int n,
                                      weft_error *err);

/* Log-probability of a next token in nats, over the whole vocabulary, without temperature. */
typedef struct weft_logprob {
    int32_t id;
    double logprob;
} weft_logprob;

/* The k most probable tokens, best first, the lower id first on ties. Returns how many were
 * written: at most the vocabulary, 0 without logits or if k is below 1. */
WEFT_API int64_t weft_session_top(const weft_session *session, int64_t k, weft_logprob *out);

/* For the n tokens in out[i].id. */
WEFT_API weft_status weft_session_logprobs(const weft_session *session, weft_logprob *out,
                                           int64_t n, weft_error *err);

/* ---- sampling -------------------------------------------------------------------------------- */

/* A sampler is a chain of steps. The first steps change the scores, which start as the logits; the others
 * remove tokens. Then one of the remaining tokens is drawn by its probability among them.
 *
 *     bias         score += bias                                         of the tokens listed
 *     penalties    score = score < 0 ? score * repetition : score / repetition, then
 *                  score -= frequency * times + presence                 of tokens in the history
 *     dry          score -= multiplier * base^(length - dry_length)      of tokens that would extend
 *                  a repetition of the last `length` tokens
 *     temperature  score /= temperature; 0 keeps only the best token
 *     top_k        keeps the k best tokens, and ties with the last
 *     top_p        keeps the smallest set of best tokens with total probability p
 *     min_p        keeps tokens with at least p times the probability of the best
 *     typical      keeps the tokens whose surprise is closest to the entropy, with total
 *                  probability p
 *     xtc          with a given probability, removes all tokens above the threshold but the least
 *                  probable one
 *     mirostat     keeps tokens with a surprise of at most mu bits; mu starts at 2 tau and, after
 *                  the draw, mu -= eta * (surprise of the token - tau)
 *
 * That is the default chain. top_k, top_p, min_p, typical and penalties keep the same tokens as
 * transformers' processors. Tokens are ordered by score, then by lower id.
 *
 * The caller passes the history: all tokens of a session, prompt included. A draw depends on the seed,
 * the length of the history and the scores, not on earlier draws, except for mirostat, which remembers
 * mu. Use from one thread at a time. */
typedef struct weft_sampler weft_sampler;

typedef struct weft_bias {
    int32_t id;
    float bias; /* -INFINITY forbids the token */
} weft_bias;

/* All zero: greedy. A step whose option is 0 does nothing. */
typedef struct weft_sampler_options {
    size_t struct_size;
    const char *chain;      /* names separated by ';'; NULL: "bias;penalties;dry;temperature;
                                 top_k;top_p;min_p;typical;xtc;mirostat". bias, penalties and dry
                                 must come first */
    uint64_t seed;          /* 0 is an ordinary seed */
    double temperature;     /* 0: greedy */
    int64_t top_k;          /* 0: all */
    double top_p;           /* 0 or 1: all */
    double min_p;           /* 0: all */
    double typical;         /* 0 or 1: all */
    double repetition;      /* 0 or 1: none; 0.01 to 100 */
    double frequency;       /* per occurrence; -100 to 100 */
    double presence;        /* -100 to 100 */
    int64_t penalty_last_n; /* last tokens that penalties look at; 0: all */
    double dry_multiplier;  /* 0: off; at most 100 */
    double dry_base;        /* 0: 1.75; 1 to 10 */
    int64_t dry_length;     /* shorter repetitions are free; 0: 2 */
    int64_t dry_last_n;     /* last tokens that dry looks at; 0: 4096 */
    double xtc_probability; /* 0: off */
    double xtc_threshold;   /* 0: 0.1; at most 0.5 */
    double mirostat_tau;    /* bits; 0: off */
    double mirostat_eta;    /* 0: 0.1; at most 1 */
    const weft_bias *bias;  /* [n_bias] */
    int64_t n_bias;
    const int32_t *breakers; /* [n_breaker]: tokens that end a repetition for dry */
    int64_t n_breaker;
    int64_t n_vocab; /* if model is NULL; at most 2^24 */
} weft_sampler_options;

/* model: for its vocabulary and memory limit, or NULL with n_vocab set. It is an error if an
 * option is out of range, or set although its step is not in the chain. */
WEFT_API weft_sampler *weft_sampler_new(weft_model *model, const weft_sampler_options *options,
                                        weft_error *err);
WEFT_API void weft_sampler_free(weft_sampler *sampler);

/* Every token whose bytes contain one of these strings ends a repetition for dry. Common choices:
 * "\n", ":", "\"" and "*". */
WEFT_API weft_status weft_sampler_break(weft_sampler *sampler, const weft_tokenizer *tokenizer,
                                        const char *const *strings, int n, weft_error *err);

/* The active steps in order, valid as long as the sampler: "temperature 0.8; top_k 40; top_p 0.95;
 * seed 7". */
WEFT_API const char *weft_sampler_describe(const weft_sampler *sampler);

/* Draws the next token from logits [n_vocab] and a history of n tokens, at most 2^31 - 1. NaN or
 * +inf logits are an error, and so are logits that are all -inf. Allocates nothing. */
WEFT_API weft_status weft_sampler_pick(weft_sampler *sampler, const float *logits, int64_t n_vocab,
                                       const int32_t *ids, int64_t n, int32_t *id, weft_error *err);

/* Draws from a session's logits with all its tokens as history. Does not evaluate the token. */
WEFT_API weft_status weft_sampler_next(weft_sampler *sampler, const weft_session *session,
                                       int32_t *id, weft_error *err);

/* The candidates of the last draw, best first, with their probabilities. Writes at most k and
 * returns their number; out may be NULL. */
typedef struct weft_token_prob {
    int32_t id;
    double p;
} weft_token_prob;

WEFT_API int64_t weft_sampler_kept(weft_sampler *sampler, int64_t k, weft_token_prob *out);

/* A token that remains after a stage. */
typedef struct weft_candidate {
    int32_t id;
    double score; /* as the stage left it: divided by the temperature, once that has run */
    double p;     /* among the tokens that remain */
} weft_candidate;

/* What a stage of a draw left; valid during the call. */
typedef struct weft_sampler_stage {
    size_t struct_size;
    const char *name; /* "logits"; each active step as in weft_sampler_describe: "top_k 40"; after
                         those that change scores, "constraint"; last "draw" */
    int64_t n;        /* tokens that remain */
    const weft_candidate *best; /* [n_best] of them, best first */
    int64_t n_best;
    double u;   /* the random number in [0, 1) that xtc or the draw compared; -1: none was needed */
    int32_t id; /* the token drawn; -1 before "draw" */
} weft_sampler_stage;

/* Return false to stop with WEFT_ESTOPPED. */
typedef bool weft_sampler_stage_fn(void *ud, const weft_sampler_stage *stage);

/* Calls fn after each stage of the draw that weft_sampler_pick would make now, with the best k
 * tokens. It is that draw, so the last stage is what weft_sampler_kept then reports, bit by bit, and
 * its token is the one that weft_sampler_pick returns. What the sampler draws next does not change. */
WEFT_API weft_status weft_sampler_stages(weft_sampler *sampler, const float *logits,
                                         int64_t n_vocab, const int32_t *ids, int64_t n, int64_t k,
                                         weft_sampler_stage_fn *fn, void *ud, weft_error *err);

/* Call before a new text: resets mirostat. */
WEFT_API void weft_sampler_reset(weft_sampler *sampler);

/* ---- constraints: text of a given form ------------------------------------------------------- */

/* A grammar says which texts may be generated. It is compiled for one tokenizer, and keeps what it
 * learns about its vocabulary, so compile it once: any number of texts and threads may use it. */
typedef struct weft_grammar weft_grammar;

typedef enum weft_grammar_kind {
    WEFT_GRAMMAR_REGEX,  /* ECMA-262; the whole text must match */
    WEFT_GRAMMAR_GBNF,   /* llama.cpp's rules, from `root` on */
    WEFT_GRAMMAR_SCHEMA, /* JSON Schema 2020-12 */
} weft_grammar_kind;

/* A keyword of a schema that weft does not support, and where it is, as a JSON pointer. */
typedef void weft_ignored_fn(void *ud, const char *pointer, const char *keyword);

typedef struct weft_grammar_options {
    size_t struct_size;
    const weft_model *model; /* its end-of-text tokens end a text; NULL: */
    const int32_t *ends;     /* [n_end] these; NULL: the tokenizer's */
    int n_end;
    const char *think_begin;  /* a text may first think: between these two strings, blanks around */
    const char *think_end;    /* them, the grammar holds for what follows; NULL: no thinking */
    bool thinking;            /* the prompt ended with think_begin, so thinking must end first */
    bool indent;              /* schema: allow line ends and up to 8 blanks between tokens */
    bool openai_strict;       /* schema: additionalProperties must be false, all required */
    weft_ignored_fn *ignored; /* schema: called for what is not supported, which is then ignored;
                                 NULL: it is an error */
    void *ud;
} weft_grammar_options;

/* Compiles n bytes. WEFT_EFORMAT: it is malformed; WEFT_EUNSUPPORTED: weft does not support it;
 * WEFT_ELIMIT: it is too large; WEFT_EINVAL: it matches no text. */
WEFT_API weft_grammar *weft_grammar_new(weft_tokenizer *tokenizer, weft_grammar_kind kind,
                                        const char *text, size_t n,
                                        const weft_grammar_options *options, weft_error *err);
WEFT_API void weft_grammar_free(weft_grammar *grammar);

/* One text under a grammar: its tokens so far. Use from one thread at a time. */
typedef struct weft_constraint weft_constraint;

WEFT_API weft_constraint *weft_constraint_new(weft_grammar *grammar, weft_error *err);
WEFT_API weft_constraint *weft_constraint_clone(const weft_constraint *constraint, weft_error *err);
WEFT_API void weft_constraint_free(weft_constraint *constraint);

/* May this token come next? An end-of-text token may where the text may end. */
WEFT_API bool weft_constraint_allows(weft_constraint *constraint, int32_t id);

/* The same for all tokens below n_vocab: bit id % 64 of bits[id / 64], (n_vocab + 63) / 64 words. */
WEFT_API weft_status weft_constraint_mask(weft_constraint *constraint, uint64_t *bits,
                                          int64_t n_vocab, weft_error *err);

/* Appends a token. One that is not allowed is WEFT_EINVAL, and nothing changes. */
WEFT_API weft_status weft_constraint_accept(weft_constraint *constraint, int32_t id,
                                            weft_error *err);

/* The number of tokens so far, to which weft_constraint_rewind can go back. */
WEFT_API int64_t weft_constraint_mark(const weft_constraint *constraint);
WEFT_API weft_status weft_constraint_rewind(weft_constraint *constraint, int64_t mark,
                                            weft_error *err);
WEFT_API void weft_constraint_reset(weft_constraint *constraint);

/* The bytes that every continuation begins with. Writes at most `size` and returns how many. */
WEFT_API size_t weft_constraint_forced(weft_constraint *constraint, char *bytes, size_t size);

/* may_end: the text is complete as it is. done: it is, and nothing can follow. */
WEFT_API bool weft_constraint_may_end(const weft_constraint *constraint);
WEFT_API bool weft_constraint_done(const weft_constraint *constraint);

/* The sampler draws only tokens that the constraint allows; NULL: all. It looks at the best ones
 * first, and at the whole vocabulary only if a step of the chain needs that. The caller passes the
 * drawn token to weft_constraint_accept, and keeps the constraint alive. weft_generate does both for
 * the constraint in its options. */
WEFT_API weft_status weft_sampler_constrain(weft_sampler *sampler, weft_constraint *constraint,
                                            weft_error *err);

/* ---- tools ----------------------------------------------------------------------------------- */

/* Every family of models calls tools in a syntax of its own. weft learns it from the template, by
 * rendering calls with it. `tools` is a JSON list as the OpenAI API has it:
 *
 *     [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", ...}}}]
 */
typedef struct weft_tool_options {
    size_t struct_size;
    bool required;    /* the answer is a call; otherwise it may also be text, or text and calls */
    bool single;      /* at most one call */
    const char *only; /* the name of the tool that may be called; NULL: any */
} weft_tool_options;

/* The grammar of answers that call tools: their names, and arguments that match their parameters.
 * Of a function with "strict": true every keyword must be supported; of others what is not supported
 * is ignored. options may be NULL; grammar_options as for weft_grammar_new. WEFT_EUNSUPPORTED: weft
 * does not know the syntax of this template. */
WEFT_API weft_grammar *weft_tool_grammar_new(weft_tokenizer *tokenizer,
                                             const weft_template *chat_template, const char *tools,
                                             size_t n, const weft_tool_options *options,
                                             const weft_grammar_options *grammar_options,
                                             weft_error *err);

/* Finds calls in an answer while it is generated. */
typedef struct weft_call_reader weft_call_reader;

typedef enum weft_call_event {
    WEFT_CALL_TEXT,      /* text that is not of a call */
    WEFT_CALL_BEGINS,    /* a call begins: its name, in one piece */
    WEFT_CALL_ARGUMENTS, /* a piece of its arguments, in JSON */
    WEFT_CALL_ENDS,
} weft_call_event;

/* text has n bytes, without terminator. */
typedef void weft_call_fn(void *ud, weft_call_event event, const char *text, size_t n);

/* tools: as above; NULL: a value that could be a number is one, where the template writes values
 * without quotes. Both may be freed afterwards, the template not before the reader. */
WEFT_API weft_call_reader *weft_call_reader_new(const weft_template *chat_template,
                                                const char *tools, size_t n, weft_call_fn *fn,
                                                void *ud, weft_error *err);
WEFT_API void weft_call_reader_free(weft_call_reader *reader);

/* Text that was generated, in pieces of any length. Special tokens must be in it as they are
 * spelled. What begins like a call, but is none, is text. */
WEFT_API weft_status weft_call_reader_push(weft_call_reader *reader, const char *text, size_t n,
                                           weft_error *err);

/* The end of the text: what was held back. A call that is not complete ends here, too. */
WEFT_API weft_status weft_call_reader_finish(weft_call_reader *reader, weft_error *err);

/* ---- stop strings ---------------------------------------------------------------------------- */

/* Ends a text at the first stop string, however the text is split into tokens. Of strings that end
 * at the same byte, the longest counts. */
typedef struct weft_stop weft_stop;

WEFT_API weft_stop *weft_stop_new(const char *const *strings, int n, weft_error *err);
WEFT_API void weft_stop_free(weft_stop *stop);

/* *out, *out_length: text that can be printed now, valid until the next call. Text that may be the
 * start of a stop string is held back. The stop string and the text after it are never returned. */
WEFT_API weft_status weft_stop_push(weft_stop *stop, const char *bytes, size_t length,
                                    const char **out, size_t *out_length, weft_error *err);

/* The index of the string that ended the text, or -1. */
WEFT_API int weft_stop_hit(const weft_stop *stop);

/* Call at the end: returns the text held back and resets for a new text. Either pointer may be
 * NULL. */
WEFT_API void weft_stop_flush(weft_stop *stop, const char **out, size_t *out_length);

/* ---- generation in one call ------------------------------------------------------------------ */

#define WEFT_MAX_END 256

typedef enum weft_finish {
    WEFT_FINISH_NONE,    /* generation failed */
    WEFT_FINISH_END,     /* the model ended the text */
    WEFT_FINISH_STOP,    /* a stop string */
    WEFT_FINISH_LENGTH,  /* n_new tokens */
    WEFT_FINISH_CONTEXT, /* the context is full */
    WEFT_FINISH_CALLER,  /* a callback returned false */
} weft_finish;

/* A new token, and text that can be shown now: whole code points, and nothing that may be the start
 * of a stop string. So text can be empty, and come later than its token. Text that is still held
 * back at the end comes in a last call with id -1. */
typedef struct weft_generated {
    int32_t id;
    const char *text;
    size_t length;
    const weft_logprob
        *logprobs;   /* [1 + n_top]: of this token, then of the most probable ones, best
                                     first (id -1: no more); NULL unless n_top is set */
    int64_t n_slide; /* how often the context slid so far */
} weft_generated;

/* Return false to stop. */
typedef bool weft_generate_fn(void *ud, const weft_generated *token);

typedef struct weft_generate_options {
    size_t struct_size;
    const int32_t *prompt; /* the whole text so far, of which the session reuses the longest cached
                              prefix; NULL: continue after the session's own tokens */
    int64_t n_prompt;
    int64_t n_new; /* maximum new tokens; 0: until the end of text or of the context; -1: none,
                      which only evaluates the prompt */
    const char *const *stop; /* strings that end the text; they are not part of it */
    int n_stop;
    const int32_t *ends; /* end-of-text tokens; NULL: the model's */
    int n_end;
    bool ignore_end; /* treat them as any other token */
    bool slide;      /* full context: keep its first token, if that is special, and its later half,
                        evaluate those again, and continue; otherwise stop */
    bool eval_last;  /* evaluate the last token too, so that the session can continue after it */
    int64_t n_top;   /* log-probabilities of each token and the n_top most probable; 0: none */
    weft_progress_fn *progress; /* tokens of the prompt, before each piece of it; or NULL */
    void *progress_ud;
    int64_t n_min; /* before this many new tokens, no token that ends the text is drawn, and no stop
                      string counts; 0: none */
    const int32_t *stop_ids; /* [n_stop_id] more tokens that end the text, even with ignore_end */
    int n_stop_id;
    weft_constraint *constraint; /* what may be generated, or NULL; new tokens are appended to it.
                                    When nothing can follow, the text ends, with end_id -1. It must
                                    stay alive until the end */
    bool draw_all; /* draw every token. Otherwise, where the constraint leaves one text only, such
                      as a key of a schema, its tokens are the tokenizer's, without a draw, and are
                      evaluated together: faster. Needs a tokenizer, and no bias in the sampler */
} weft_generate_options;

typedef struct weft_generation {
    size_t struct_size;
    weft_finish finish;
    int stop;                   /* which stop string, or -1 */
    int32_t end_id;             /* which token ended the text, or -1 */
    int64_t n_prompt, n_reused; /* tokens of the prompt, and how many of them were cached */
    int64_t n_new;              /* tokens generated, without the one that ended the text */
    int64_t n_slide;
    double prompt_seconds, generate_seconds;
    double queue_seconds; /* of a scheduler's request: before its first forward */
    int64_t n_preempted;  /* how often it gave its pages back and computed them again */
} weft_generation;

/* Evaluates the prompt, then draws tokens and calls fn for each until something ends the text.
 * sampler NULL: greedy. tokenizer NULL: text from the vocabulary in the model's file, if it has
 * one. fn and info may be NULL. A cancelled session is WEFT_ESTOPPED; on every error, info has what
 * was done until then, and the session keeps it. */
WEFT_API weft_status weft_generate(weft_session *session, weft_sampler *sampler,
                                   const weft_tokenizer *tokenizer,
                                   const weft_generate_options *options, weft_generate_fn *fn,
                                   void *ud, weft_generation *info, weft_error *err);

/* ---- scheduler: many requests, one engine ----------------------------------------------------- */

/* Runs many generations at once, a forward at a time, for servers. Every request gets the text and
 * the log-probabilities that weft_generate would give it alone, byte for byte: batching, cached
 * prefixes and preemption do not change a bit.
 *
 *   - A forward has one row of each request that generates, and as many rows of prompts as keep it
 *     within step_ms.
 *   - Requests have keys, which name who sends them. The key that was served least goes first;
 *     within a key, by priority, then in order of arrival.
 *   - A request starts when the cache has room for its prompt and its next 256 tokens. If the cache
 *     is full later, the request that has computed least gives its pages back and continues when
 *     there is room, computing them again.
 *   - Pages of 64 tokens stay in the cache after a request, until their room is needed. A later
 *     prompt of the same key, or of any with share_prefixes, does not compute that prefix again.
 *
 * weft_scheduler_step and weft_scheduler_free are for one thread; callbacks run in them. The other
 * functions may be called from any thread, and from callbacks. Use the engine for nothing else while
 * it has a scheduler. */
typedef struct weft_scheduler weft_scheduler;

/* A forward that a scheduler has run, and how long it took. */
typedef struct weft_step {
    size_t struct_size;
    int64_t n_row;         /* of prompts and new tokens */
    int64_t n_draw;        /* tokens that were drawn after it */
    double prompt_context; /* sums over its rows of the tokens that each attends to: of rows of
                              prompts, */
    double new_context;    /* and of single rows */
    double seconds;        /* of the forward and the draws */
    double before;         /* since the end of the forward before; -1: no request remained then */
} weft_step;

typedef void weft_step_fn(void *ud, const weft_step *step);

typedef struct weft_scheduler_options {
    size_t struct_size;
    double step_ms; /* target for the duration of a forward while some request generates; 0: 200 */
    int n_running;  /* requests that run at a time, at most the engine's n_session and n_batch, and
                       1024; 0: as many as possible */
    int n_waiting;  /* requests that wait; 0: 128 */
    int64_t n_waiting_tokens; /* tokens of their prompts and sources; 0: four contexts, or as
                                 many as the cache holds. An empty queue takes any prompt */
    bool share_prefixes; /* all keys share cached prefixes. Then anyone can find out by the time it
                            takes what others have sent */
    weft_step_fn *step_fn; /* after each forward, or NULL */
    void *step_ud;
} weft_scheduler_options;

/* Allocates a session for each request that can run. The scheduler keeps the engine alive. */
WEFT_API weft_scheduler *weft_scheduler_new(weft_engine *engine,
                                            const weft_scheduler_options *options, weft_error *err);

/* Requests that are not done get their last call with WEFT_ESTOPPED first. */
WEFT_API void weft_scheduler_free(weft_scheduler *scheduler);

/* Token i of a prompt, with its log-probability after the tokens before it: [1 + n_top], as in
 * weft_generated, also if n_top is 0; NULL for the first token. Called in order, before the first
 * new token. */
typedef void weft_prompt_fn(void *ud, int64_t i, int32_t id, const weft_logprob *logprobs);

/* The last call of a request. err->code: WEFT_OK, WEFT_ESTOPPED (cancelled), or the failure. info
 * has what was done until then. */
typedef void weft_done_fn(void *ud, const weft_generation *info, const weft_error *err);

#define WEFT_MAX_TOP 20 /* n_top of a request */

/* What to generate, for whom. */
typedef struct weft_request {
    size_t struct_size;
    const weft_generate_options *generate; /* with a prompt, and without slide, eval_last and
                                              progress */
    const weft_sampler_options *sampler;   /* NULL: greedy */
    const weft_tokenizer *tokenizer;       /* NULL: text from the model's file. It must stay alive
                                              until the request is done */
    const int32_t *source;                 /* [n_source] for encoder-decoders */
    int64_t n_source;
    const char *key;           /* at most 255 bytes; NULL: "" */
    int priority;              /* higher first, among the requests of the key */
    weft_generate_fn *fn;      /* for each new token, or NULL; return false to stop */
    weft_prompt_fn *prompt_fn; /* for each token of the prompt, or NULL. Needs an engine with
                                  all_logits; the whole prompt is computed, even if it is cached */
    weft_done_fn *done;        /* once for each request, or NULL */
    void *ud;
    weft_adapter *adapter; /* as in weft_session_adapt, or NULL. It may be closed at once: it lives
                              until the request is done */
    double strength;       /* of the adapter; 0: the model itself */
} weft_request;

/* Copies the request and appends it to the queue. Returns its number, which is never used again, or
 * 0 on failure: WEFT_EBUSY if the queue is full, WEFT_ECONTEXT if the prompt can never fit. */
WEFT_API uint64_t weft_scheduler_submit(weft_scheduler *scheduler, const weft_request *request,
                                        weft_error *err);

/* The request takes no part in the next forward and gets its last call from the next step. False
 * if there is no such request (any more). */
WEFT_API bool weft_scheduler_cancel(weft_scheduler *scheduler, uint64_t request);

/* One forward, then the callbacks of its requests. *more (may be NULL): requests remain, so call it
 * again; otherwise wait until one is submitted. A request that fails does so alone, through its
 * callback. After an error (the system refused threads) no request is lost: call it again. */
WEFT_API weft_status weft_scheduler_step(weft_scheduler *scheduler, bool *more, weft_error *err);

/* State, and totals since the scheduler was made. */
typedef struct weft_scheduler_info {
    size_t struct_size;
    int64_t n_running, n_waiting;
    int64_t n_waiting_tokens; /* tokens of prompts and sources that wait */
    int64_t n_page;           /* pages of the cache */
    int64_t n_page_used;      /* those in use by requests, */
    int64_t n_page_idle;      /* and those that only keep prefixes; the others are free */
    int64_t n_done;           /* requests that ended, failed and cancelled ones too */
    int64_t n_preempted;
    int64_t n_prompt, n_new;     /* tokens: of prompts that began, and generated */
    int64_t n_queried, n_reused; /* tokens of prompts looked up in cached prefixes, and found */
    int64_t n_step;
    double step_seconds; /* of all steps */
} weft_scheduler_info;

WEFT_API void weft_scheduler_get_info(const weft_scheduler *scheduler, weft_scheduler_info *info);

/* ---- capacity: what a scheduler would do under a load ------------------------------------------- */

/* Tokens of a prompt: the same seed gives the same tokens, so that prompts which begin with equal
 * parts share their pages in the cache. Token i is weft_load_token(seed, i). */
typedef struct weft_load_part {
    uint64_t seed;
    int64_t n;
} weft_load_part;

/* A number that is below n_vocab, 1 or more. */
WEFT_API int32_t weft_load_token(uint64_t seed, int64_t i, int32_t n_vocab);

/* A request of a load. */
typedef struct weft_load_request {
    double at;                  /* seconds since the start; not before those in front of it */
    const weft_load_part *part; /* [n_part] the prompt */
    int n_part;
    int64_t n_new;   /* tokens to generate, 1 or more */
    const char *key; /* as in weft_request; NULL: "" */
} weft_load_request;

/* What became of it: the HTTP status that weft serve answers with, 200, 400, 429 or 503, and of those
 * with 200, what the client sees. */
typedef struct weft_load_result {
    int status;
    double first, last; /* seconds since the start: its first new token, and its last */
    int64_t n_prompt, n_reused, n_new;
} weft_load_result;

typedef struct weft_simulation_options {
    size_t struct_size;
    const weft_step *steps; /* [n_steps] recorded on the machine, in their order (step_fn) */
    int64_t n_steps;
    int n_running, n_waiting; /* as of weft serve; 0: 32, 128 */
    int n_batch;              /* rows of a forward; 0: 256, or n_running */
    int64_t n_ctx, n_cache;   /* 0: 4096; 0: four contexts */
    double step_ms;           /* 0: 200 */
    bool share_prefixes;
    double arrive_seconds;  /* from a client to the queue: of a request, ... */
    double token_seconds;   /* ... and of each token of its prompt */
    double deliver_seconds; /* from the end of a forward to a client */
    uint64_t seed;          /* of the spread of step times */
    bool replay;            /* the steps are from a run of this very load: the machine is as fast or
                               slow as it was then; otherwise as at any moment of the record */
    weft_budget *budget;    /* memory counts there, or NULL */
    weft_step_fn *step_fn;  /* after each simulated forward, or NULL */
    void *step_ud;
} weft_simulation_options;

#define WEFT_MAX_KNOT 18

typedef struct weft_simulation_info {
    size_t struct_size;
    double seconds;      /* until the last token */
    double busy_seconds; /* with forwards, and what is done between them */
    double running;      /* requests that run, mean over seconds */
    double waiting;      /* requests that wait */
    double cached;       /* positions of the cache that requests hold, mean; and the most: */
    int64_t most_cached;
    int64_t n_step, n_preempted, n_prompt, n_new, n_reused;
    int64_t n_page_left; /* pages that requests still hold at the end: 0 */

    /* The fit to the recorded times: T0, linear between n_knot numbers of rows, and seconds for each
     * draw and each position that a row attends to. */
    int n_knot;
    double knot_rows[WEFT_MAX_KNOT], knot_seconds[WEFT_MAX_KNOT];
    double draw_seconds, prompt_position_seconds, new_position_seconds;
    double step_variance; /* share of the variance of recorded times that it explains */
} weft_simulation_info;

/* Runs the scheduler itself on n requests, with a clock of its own and forwards that compute nothing:
 * each takes the time that a recorded one of its shape took. One thread; the same options give the
 * same results. result: [n]; info may be NULL. docs/SCALE.md says how close it comes. */
WEFT_API weft_status weft_simulate(const weft_simulation_options *options,
                                   const weft_load_request *request, int64_t n,
                                   weft_load_result *result, weft_simulation_info *info,
                                   weft_error *err);

/* ---- beam search ----------------------------------------------------------------------------- */

#define WEFT_MAX_BEAM 256

/* When to stop after n_beam finished texts; as early_stopping in transformers. */
typedef enum weft_beam_stop {
    WEFT_BEAM_STOP_GUESS, /* false: if no live beam would beat the worst finished one by ending now */
    WEFT_BEAM_STOP_FULL,  /* true: immediately */
    WEFT_BEAM_STOP_NEVER, /* "never": if no live beam can still beat the worst finished one */
} weft_beam_stop;

/* A token that a search kept after a step: a live beam of the next step, or the end of a text. */
typedef struct weft_beam_node {
    size_t struct_size;
    int64_t step; /* 0: the first new token */
    int parent;   /* the live beam of the step before, which it continues; 0 in step 0 */
    int beam;     /* the live beam that it becomes, best first from 0; -1: it ends a text */
    int32_t id;
    double sum;   /* of the log-probabilities of its text's new tokens up to it */
    double score; /* at the end of a text: sum / length^length_penalty; otherwise the sum */
    bool ended;   /* the text ends with it, an end token, and not by n_new */
} weft_beam_node;

/* Return false to stop the search with WEFT_ESTOPPED. */
typedef bool weft_beam_node_fn(void *ud, const weft_beam_node *node);

typedef struct weft_beam_options {
    size_t struct_size;
    int n_beam;            /* number of beams; 0: 4 */
    int n_best;            /* texts to return, at most n_beam; 0: 1 */
    int64_t n_new;         /* maximum new tokens; 0: as many as fit the context */
    double length_penalty; /* score = sum(log p) / length^length_penalty; -10 to 10; 0: the sum */
    weft_beam_stop stop;
    const int32_t *ends; /* [n_end] end-of-text tokens; NULL: the model's */
    int n_end;
    const int32_t *source; /* [n_source] source of an encoder-decoder, shared by all beams */
    int64_t n_source;
    weft_beam_node_fn *fn; /* called for each node of the tree that the search keeps; or NULL */
    void *ud;
    const weft_session *session; /* of this engine, which holds the prompt: the search shares its
                                    cache instead of evaluating it again; NULL: none */
    weft_adapter *adapter;       /* as in weft_session_adapt, or NULL: that of `session`, or none */
    double strength;             /* of the adapter */
} weft_beam_options;

typedef struct weft_beam {
    const int32_t *ids; /* after the prompt, end token included */
    int64_t n;
    double score;
    bool ended; /* by an end token, not by n_new */
} weft_beam;

typedef struct weft_beams {
    int n;
    const weft_beam *beam; /* best first */
} weft_beams;

/* With length_penalty 1, transformers' default, gives the texts and scores of its
 * generate(num_beams=n_beam, do_sample=False). Beams share the cache pages of their common prefix
 * and run in one forward per step; the engine needs cache for n_beam sessions that diverge after the
 * prompt. Returns NULL on failure. */
WEFT_API weft_beams *weft_beam_search(weft_engine *engine, const int32_t *ids, int64_t n,
                                      const weft_beam_options *options, weft_error *err);
WEFT_API void weft_beams_free(weft_beams *beams);

/* ---- evaluation: perplexity and KL divergence ------------------------------------------------ */

typedef struct weft_document {
    const int32_t *ids;
    int64_t n;
} weft_document;

typedef struct weft_evaluation {
    size_t struct_size;
    int64_t n_token;   /* tokens scored: all but the first of each document */
    int64_t n_total;   /* tokens to score */
    bool stopped;      /* by the caller */
    double nll;        /* mean of -log p(token), in nats */
    double perplexity; /* exp(nll) */
    double against_nll, against_perplexity;
    double kl_mean, kl_max; /* of KL(against || model) over the tokens */
    double kl_p99;          /* 99th percentile; 0 during progress */
    double same_top;        /* share of tokens where both models have the same top token */
} weft_evaluation;

/* Called after every forward; return false to stop. */
typedef bool weft_evaluate_fn(void *ud, const weft_evaluation *so_far);

typedef struct weft_evaluate_options {
    size_t struct_size;
    int threads;                /* 0: one per processor of this process */
    int n_batch;                /* maximum rows per forward; 0: 256 */
    int64_t n_ctx;              /* window length; 0: the model's context, at most 4096 */
    int64_t stride;             /* stride of the window; 0: half of n_ctx */
    weft_kv_type kv_type;       /* default f32, so that the cache does not affect the result */
    weft_evaluate_fn *progress; /* or NULL */
    void *progress_ud;
    weft_kv_type against_kv_type; /* of `against`; default: as kv_type */
    weft_adapter *adapter;        /* that `model` is scored with; `against` has none; or NULL */
    double strength;              /* of the adapter */
} weft_evaluate_options;

/* Scores a model on documents and, unless `against` is NULL, compares it with another model of the
 * same vocabulary, such as the original of a quantised one; or with itself, with another
 * against_kv_type. A document longer than a window is read in overlapping windows; each token is
 * scored in the first window that contains it. The result depends on models, documents, n_ctx,
 * stride and kv_type, not on threads or n_batch. If the caller stops, returns WEFT_OK with the
 * result so far. */
WEFT_API weft_status weft_evaluate(weft_model *model, weft_model *against,
                                   const weft_document *documents, int64_t n_document,
                                   const weft_evaluate_options *options, weft_evaluation *result,
                                   weft_error *err);

/* ---- training -------------------------------------------------------------------------------- */

typedef enum weft_schedule {
    WEFT_SCHEDULE_COSINE,
    WEFT_SCHEDULE_LINEAR,
    WEFT_SCHEDULE_CONSTANT,
    WEFT_SCHEDULE_WSD,          /* constant, then a linear decay */
    WEFT_SCHEDULE_INVERSE_SQRT, /* sqrt(n_warmup / step), as in "Attention Is All You Need" */
} weft_schedule;

/* BY_NAME: token files by their magic number, JSONL by .jsonl, TSV by .tsv, everything else is
 * text. TSV: source, tab and target on each line. RAW16: 16-bit ids without a header, as nanoGPT
 * writes them.
 *
 * A line of JSONL has "text"; or "prompt" and "completion", of which only the latter is trained on;
 * or a conversation, of which only what the assistant writes is: "messages" with optional "tools",
 * "conversations" (ShareGPT), or "instruction", "input" and "output" (Alpaca).
 *
 * For classifiers, tables have labels: TSV, CSV (by .csv), and JSONL with "text", "label" and
 * optionally "text_pair". */
typedef enum weft_data_kind {
    WEFT_DATA_BY_NAME,
    WEFT_DATA_TEXT,
    WEFT_DATA_JSONL,
    WEFT_DATA_IDS,
    WEFT_DATA_RAW16,
    WEFT_DATA_TSV,
    WEFT_DATA_CSV,
} weft_data_kind;

/* Reported before the first step and after every step. Missing values are NaN. */
typedef struct weft_train_progress {
    size_t struct_size;
    int64_t step, n_step;
    double loss;     /* of this step */
    double smoothed; /* moving average of the loss */
    double lr, grad_norm;
    double val_loss; /* if an evaluation followed this step */
    double best_val_loss;
    int64_t best_step;
    int64_t n_token; /* tokens trained on so far, resumed runs included */
    double tokens_per_second;
    double share;        /* of the f32 matrix product speed of this machine */
    double seconds_left; /* before the first step: a prediction */
    bool skipped;        /* non-finite gradients: the step was skipped */
    int64_t n_skipped;
    bool saved;          /* a checkpoint was written */
    size_t bytes;        /* peak memory so far; nearly all is allocated before the first step */
    double val_accuracy; /* accuracy, for classifiers */
    double expert_least; /* smallest and largest load of an expert, relative to the mean */
    double expert_most;  /* of its layer; NaN without experts */
    /* Of this step's pairs, if the data says which of two answers is preferred (DPO); otherwise NaN: */
    double margin;        /* mean of what log sigma is taken of; 0 before the first step */
    double right;         /* share of pairs whose margin is above 0 */
    double logp_chosen;   /* mean log-probability of the preferred answers, */
    double logp_rejected; /* and of the others */
    /* With weft_train_options.lora: the adapter as it is now, or NULL. Valid during the call, and
     * during the call of `sample` that follows: sessions that weft_session_adapt gives it to must be
     * freed before that returns. The model itself is the base. */
    weft_adapter *adapter;
} weft_train_progress;

/* May run the model, for example to generate a sample; objects made from it must be freed before
 * the function returns. Return false to stop; a checkpoint is written. */
typedef bool weft_train_fn(void *ud, const weft_train_progress *progress, weft_model *model);

/* Called after each evaluation, unless progress returned false. Returns a text that the model
 * generates, for metrics.jsonl, and its length in bytes; or NULL. The text must stay valid until
 * the next call. */
typedef const char *weft_sample_fn(void *ud, weft_model *model, size_t *length);

/* A weight after a step of training, with what the step was made of. Valid during the call. */
typedef struct weft_train_tensor {
    size_t struct_size;
    const char *name; /* as in GGUF: "blk.0.attn_q.weight" */
    int64_t step;     /* the one just taken, from 1 */
    int n_dim;
    int64_t shape[4];                   /* outermost first */
    int64_t n;                          /* numbers in each of: */
    const float *weight, *grad, *m, *v; /* the gradient before clipping; NULL of frozen weights */
    double clip; /* by which the step multiplied all gradients: 1 if they were not clipped */
} weft_train_tensor;

typedef void weft_train_tensor_fn(void *ud, const weft_train_tensor *tensor);

/* Called at least ten times per second while there is no progress to report; return false to stop.
 */
typedef bool weft_wait_fn(void *ud);

/* Training objective of an encoder-decoder. BY_DATA: pairs if documents have two parts (TSV, or
 * JSONL with prompt and completion); otherwise spans if the vocabulary has <extra_id_0>, infilling
 * if it has <mask>. */
typedef enum weft_objective {
    WEFT_OBJECTIVE_BY_DATA,
    WEFT_OBJECTIVE_PAIRS,  /* predict the second part from the first */
    WEFT_OBJECTIVE_SPANS,  /* T5: predict the spans cut out of the text */
    WEFT_OBJECTIVE_INFILL, /* BART: predict the text from one with masked spans */
} weft_objective;

/* Position encoding of a new model. Only gpt2 has a choice. */
typedef enum weft_positions {
    WEFT_POSITIONS_OF_ARCH,    /* the default of the architecture; gpt2: learned */
    WEFT_POSITIONS_LEARNED,    /* a learned vector per position, added to the embedding */
    WEFT_POSITIONS_ROTARY,     /* queries and keys are rotated (RoPE) */
    WEFT_POSITIONS_SINUSOIDAL, /* sines and cosines, added to the embedding times sqrt(d_model) */
    WEFT_POSITIONS_NONE,       /* only the causal mask tells rows apart */
} weft_positions;

typedef struct weft_train_options {
    size_t struct_size;
    const char *out; /* directory of the run: checkpoints, metrics.jsonl, and the model in Hugging
                           Face format */
    bool resume;     /* resume from the newest checkpoint, if there is one */
    /* To fine-tune: a Hugging Face directory or a GGUF file, which may be quantised only with `lora`.
     * NULL: a new model of the size below. */
    const char *model;
    const char *preset; /* "tiny", "mini", "small" or "base"; NULL: tiny */
    const char *arch;   /* "llama", "gpt2" ...; sizes of 0 are the preset's */
    int64_t n_layer, d_model, n_head, n_head_kv, d_ff;
    int tied;              /* share the output matrix with the embedding: 1, 0; -1: the preset's */
    const char *tokenizer; /* NULL: the model's; for a new model, train one on the data */
    bool characters;       /* a character-level tokenizer; otherwise byte-level BPE */
    int32_t n_vocab;       /* maximum vocabulary of the new tokenizer */

    const char *const *data;
    int n_data;
    weft_data_kind data_kind;
    const char *separator; /* between documents of a text; "": empty lines; NULL: one per file */
    bool parse_special;
    double validation; /* share of the data used for validation */
    int64_t n_ctx;     /* sequence length; 0: the model's, at most 1024 */
    int n_sample;      /* sequences per batch */
    int n_part;        /* gradient accumulation: batches per step */

    int64_t n_step;
    weft_schedule schedule;
    double lr;        /* < 0: 1e-3 for a new model, 1e-4 for fine-tuning, 2e-4 for an adapter */
    double lr_min;    /* < 0: a tenth of lr */
    int64_t n_warmup; /* steps; < 0: a tenth of them, at most 100 */
    int64_t n_decay;  /* of WEFT_SCHEDULE_WSD; < 0: a fifth of the steps */
    double beta1, beta2, eps;
    double weight_decay; /* < 0: 0.1, and 0 for an adapter */
    double clip;         /* maximum gradient norm; 0: no clipping */
    double dropout, smoothing;
    bool bf16;                 /* mixed precision: bf16 products, f32 sums and weights */
    bool recompute;            /* recompute activations: less memory, a third more work */
    const char *const *frozen; /* patterns of weights to freeze: "blk.0.*" */
    int n_frozen;

    uint64_t seed;
    int64_t eval_every, save_every; /* steps; 0: at the end only. Runs begin with an evaluation */
    int keep;                       /* checkpoints to keep beside the best; 0: all */
    int patience;                   /* early stopping: evaluations without improvement; 0: off */
    int max_skipped;                /* fail after so many non-finite steps in a row */

    int threads;    /* 0: one per processor of this process */
    size_t ram_max; /* memory limit; 0: none */
    weft_load load;
    weft_train_fn *progress;
    void *progress_ud;
    weft_log_fn *log;
    void *log_ud;
    weft_progress_fn *reading; /* bytes of data read, before the first step; or NULL */
    void *reading_ud;

    /* Vision models. Data: a directory with a subdirectory of PNG and JPEG files per class, or pairs of
     * IDX files, images and then labels. */
    int64_t image_size; /* side of the images of a new model; 0: as in IDX files, or 224 */
    int64_t patch_size; /* side of its patches; 0: a seventh of the image, at most 16 */
    int64_t shift;      /* augmentation: random shift of up to so many pixels */

    weft_objective objective; /* of an encoder-decoder */

    /* With labelled texts, an encoder trains to classify. If it has no such head, it gets a new one. */
    const char
        *columns; /* of tables: "label,text,text" (default "text,label"); "pair" is a second text,
                            "-" is ignored */
    const char *validation_data; /* validation data, instead of a share; or NULL */
    weft_budget *budget;         /* also counted there, or NULL */
    weft_wait_fn *waiting; /* while a new model is written, and before the first step; or NULL */
    void *waiting_ud;
    weft_positions positions; /* of a new model */
    weft_sample_fn *sample;   /* or NULL */
    void *sample_ud;
    int n_group; /* groups that the sequences of a step are divided into: a power of two up to 1024;
                    0: 1. Their gradients are summed as a binary tree, so the result depends on
                    n_group, but not on which process computes a group */
    /* The template of conversations, as for weft_template_load; NULL: the model's or, for a new model,
     * the tokenizer's. A template that prints a date prints 26 July 2024. */
    const char *chat_template;
    /* Called for every weight after each step that was not skipped; or NULL. */
    weft_train_tensor_fn *tensor;
    void *tensor_ud;
    double dpo_beta; /* with pairs of a preferred and another answer, which need `lora`; 0: 0.1 */
    /* Trains an adapter for `model`, which stays as it is and may be quantised: "r=16,alpha=32", with
     * commas between any of r=N (16), alpha=X (32), rslora, dora, dropout=P (0), targets=NAME+NAME
     * (all-linear) and init=DIR, a PEFT directory to continue from. "": the defaults. `out` becomes a
     * PEFT directory. NULL: trains the model. */
    const char *lora;
    /* Several processes, ranks, of one MPI job train together: a power of two, at most n_group. Each
     * computes its part of the groups, and has the optimiser's state of a part of the weights; all see
     * the same files. The result has the bits of one process. Rank 0 writes them, and calls back. */
    const char *mpi; /* "openmpi", "mpich", "none" or the path of a module; NULL: by what mpirun or
                          srun left in the environment */
    bool
        reduce_fast; /* sum gradients in the order of MPI: sooner with many ranks, but other bits */
    double rank_limit; /* a rank that sends nothing for so many seconds is lost, and ends the run;
                          0: ten times a step, at least 60 */
    /* What a new gpt2 is made of; NULL: what GPT-2 has. With a choice that transformers' GPT-2 lacks,
     * model_type in config.json is "decoder", which weft alone reads. */
    const char *norm;      /* "pre", "post", "pre-rms" or "post-rms" */
    const char *act;       /* "gelu-tanh", "gelu", "relu", "silu", "swiglu" or "geglu" */
    const char *attention; /* "mha"; "gqa:2", two key-value heads; "mqa", one; "mla" or "mla:64", a
                              latent. A llama may have the first three */
} weft_train_options;

/* Fills in the defaults, which suit a small model. struct_size: sizeof(weft_train_options). */
WEFT_API void weft_train_defaults(weft_train_options *options, size_t struct_size);

typedef struct weft_train_info {
    size_t struct_size;
    int64_t step;      /* total steps */
    int64_t from_step; /* the step that this call resumed from */
    int64_t n_parameter;
    double loss, smoothed, val_loss, best_val_loss;
    int64_t best_step, n_skipped, n_token;
    bool stopped;          /* by the caller */
    double seconds;        /* duration, as predicted before the first step */
    size_t bytes_peak;     /* peak memory */
    double val_accuracy;   /* of the last evaluation; NaN: none */
    int64_t n_line_lost;   /* lines of metrics.jsonl that were not written; see the log */
    int rank, n_rank;      /* of this process in its job, also if training failed; 0 of 1: alone */
    uint64_t bytes_sent;   /* by this rank; without the sums of reduce_fast, which MPI makes */
    double reduce_hidden;  /* seconds of exchanging gradients while backward went on, */
    double reduce_exposed; /* and of exchanging gradients and weights while nothing else did */
} weft_train_info;

/* Trains up to step n_step, or until the caller or early stopping ends it; then writes a
 * checkpoint. The same options give the same bits on every processor with fused multiply-add,
 * whatever the number of threads and however often the run was stopped and resumed. info may be
 * NULL.
 *
 * In a job of several ranks, a failure of one is logged and ends all processes: with exit code 75
 * if trying again may help (a lost rank, a full disk), otherwise with 1. */
WEFT_API weft_status weft_train(const weft_train_options *options, weft_train_info *info,
                                weft_error *err);

/* ---- what training would take, on any number of ranks ---------------------------------------- */

typedef struct weft_train_network {
    size_t struct_size;
    double bandwidth; /* bytes a second out of each rank, while as many come in */
    double latency;   /* seconds from one rank to another, of an empty message */
} weft_train_network;

typedef struct weft_train_cost {
    size_t struct_size;
    int n_rank;
    int64_t n_parameter;
    int64_t n_token;        /* of a step, of all ranks */
    double token_seconds;   /* of forward and backward of a token by one rank, as measured here */
    double step_seconds;    /* compute and exposed */
    double compute_seconds; /* of a step, by each rank */
    double reduce_hidden;   /* seconds of exchanging gradients during backward, */
    double reduce_exposed;  /* and of exchanging gradients and weights while nothing else does */
    double seconds;         /* n_step steps, without evaluations and checkpoints */
    uint64_t bytes;         /* memory of a rank */
    uint64_t bytes_sent;    /* by a rank in a step */
} weft_train_cost;

typedef void weft_train_cost_fn(void *ud, const weft_train_cost *cost);

/* Says for each of n numbers of ranks what weft_train would take with these options, from a network's
 * speed and this machine's, which it measures by training on made-up tokens for some seconds. For a
 * new model on text, or for training all weights of `model`, which must fit into this machine; a new
 * one is measured on two with fewer layers. It needs no data; the vocabulary is the tokenizer's if
 * there is one, otherwise n_vocab. If options.waiting ends it, fn is not called. */
WEFT_API weft_status weft_train_plan(const weft_train_options *options,
                                     const weft_train_network *network, const int *n_rank, int n,
                                     weft_train_cost_fn *fn, void *ud, weft_error *err);

/* Accuracy of a text classifier on labelled data; only the options about data are used. Texts that
 * are too long are truncated, as in training. */
WEFT_API weft_status weft_text_score(weft_model *model, const weft_tokenizer *tokenizer,
                                     const weft_train_options *data, weft_score *score,
                                     weft_error *err);

/* ---- training data, inspected before a run --------------------------------------------------- */

typedef struct weft_data weft_data;

/* Reads the data as weft_train would with these options; only those about data, tokenizer and
 * model size matter. Writes nothing. */
WEFT_API weft_data *weft_data_open(const weft_train_options *options, weft_error *err);
WEFT_API void weft_data_close(weft_data *data);

typedef struct weft_data_counts {
    int64_t n_sample;    /* distinct sequences */
    int64_t n_document;  /* with windows: documents of all data */
    int64_t n_cut;       /* documents that continue in another sequence */
    int64_t n_truncated; /* documents with a prompt that are truncated */
    int64_t n_skipped;   /* documents left out: no token to train on */
    int64_t n_row;       /* all tokens */
    int64_t n_target;    /* tokens trained on */
    int64_t n_end;       /* end-of-text tokens among them */
} weft_data_counts;

typedef struct weft_data_info {
    size_t struct_size;
    bool windows; /* sequences are windows of one stream; otherwise packed documents */
    int64_t n_ctx;
    int32_t n_vocab, end_id; /* -1: no end-of-text token */
    int64_t n_token, n_document;
    int64_t n_empty;      /* documents without text, left out */
    int64_t n_prompt;     /* documents with a prompt, which is not trained on */
    int64_t n_straddling; /* documents with a token that spans prompt and completion */
    weft_data_counts train, validation;
    size_t bytes;                     /* memory in use */
    int64_t n_label;                  /* number of labels; 0: no labels */
    int64_t n_image, n_class;         /* of images; 0: text */
    int64_t height, width;            /* of all images; 0: various */
    int64_t n_conversation, n_answer; /* conversations, and messages of the assistant trained on */
    int64_t n_unprompted;      /* answers that do not follow the template's generation prompt: they
                                  are trained on from their first byte */
    int64_t n_thought_dropped; /* messages whose thinking the template leaves out */
    int64_t n_endless;    /* answers that no special token ends: the model does not learn to stop */
    int64_t n_preference; /* pairs of a chosen and a rejected answer */
} weft_data_info;

WEFT_API void weft_data_get_info(const weft_data *data, weft_data_info *info);

/* A token of a sequence, valid during the call. */
typedef struct weft_data_token {
    size_t struct_size;
    int32_t sequence; /* document in the sequence; documents are masked from each other */
    int32_t id;       /* -1: this is the label of the text before it */
    const char *text; /* not terminated; special tokens as they are spelled */
    size_t length;
    bool special;
    bool learned; /* it is trained on */
} weft_data_token;

typedef void weft_data_fn(void *ud, const weft_data_token *token);

/* The tokens of training sequence `sample`, 0 to 2^40 - 1, in the order given by the seed. */
WEFT_API weft_status weft_data_show(weft_data *data, uint64_t seed, int64_t sample,
                                    weft_data_fn *fn, void *ud, weft_error *err);

/* Writes all data as one file of token ids, which weft_train reads without tokenizing. */
WEFT_API weft_status weft_data_save(const weft_data *data, const char *path, weft_error *err);

/* ---- explain: a model and a text as a page --------------------------------------------------- */

/* Receives the whole page, picture or JSON; false: it could not be written, and err says why. */
typedef bool weft_page_fn(void *ud, const char *bytes, size_t n, weft_error *err);

typedef struct weft_explain_options {
    size_t struct_size;
    const char *title;               /* NULL: the architecture */
    const char *text;                /* that the ids were made from; NULL: unknown */
    const weft_tokenizer *tokenizer; /* names tokens; NULL: by number */
    const char *only;                /* views, "heads,output"; NULL: all */
    int64_t layer, head, token;      /* where the page opens, from 0; -1: the last one */
    bool json;                       /* JSON instead of a page */
    bool all;                        /* the numbers of all layers, even if the page becomes large;
                                        otherwise those of `layer`, or of all if they are few */
    int threads;                     /* 0: one per processor of this process */
    weft_hook_fn *hook;              /* changes the forward that is shown; NULL: none */
    void *hook_ud;

    /* For encoder-decoders: the text that the encoder reads. The ids are then what the decoder
     * reads, its start token first; without ids it reads its own greedy translation. */
    const int32_t *source;
    int64_t n_source;
    const char *source_text;                /* that the source was made from; NULL: unknown */
    const weft_tokenizer *source_tokenizer; /* names its tokens; NULL: by number */

    const weft_image *image; /* of this model, if it reads images; there are no ids then */
    /* Steps of training to take and show, up to WEFT_EXPLAIN_STEPS, as weft_train begins with its
     * defaults and this text; 0: none. They change a copy of the model, whose weights must be floats,
     * and are without the hook. */
    int train;
    /* What should follow the text; of a masked language model, a token for each mask or, without
     * masks, for `token`. NULL: the text itself teaches. */
    const int32_t *target;
    int64_t n_target;
} weft_explain_options;

#define WEFT_EXPLAIN_STEPS 8

#define WEFT_EXPLAIN_TOKENS 1024 /* the longest text of a page */

/* Evaluates the ids in one forward and makes a page of it: one self-contained HTML file with every
 * step of the model, drawn from its numbers; or the same numbers as JSON. They are those of
 * weft_engine_trace_with and weft_encoder_trace_with, bit by bit. Of an encoder-decoder, all rows of
 * the decoder are shown, and its layers; layer, head and token are the decoder's. The tokens of an
 * image are its rows: learned ones, then patches. */
WEFT_API weft_status weft_explain(weft_model *model, const int32_t *ids, int64_t n,
                                  const weft_explain_options *options, weft_page_fn *fn, void *ud,
                                  weft_error *err);

typedef struct weft_explain_kernels_options {
    size_t struct_size;
    const char *title; /* NULL: the name of the file */
    bool json;         /* JSON instead of a page */
    size_t ram_max;
    weft_budget *budget; /* also counted there, or NULL */
} weft_explain_kernels_options;

#define WEFT_EXPLAIN_POINTS 256 /* of a page about kernels */

/* Makes a page, or JSON, of kernel regression (weft_kernel_pool): where attention came from. path: a
 * CSV file of two columns of numbers, x and y, with or without a line of names. Each kernel's width
 * is learned from the points, each predicted from the others; the page has the curves, the weights of
 * every point for every other, and how the width was found. */
WEFT_API weft_status weft_explain_kernels(const char *path,
                                          const weft_explain_kernels_options *options,
                                          weft_page_fn *fn, void *ud, weft_error *err);

typedef struct weft_alignment_options {
    size_t struct_size;
    const int32_t *source; /* ids that the encoder reads */
    int64_t n_source;
    int64_t n_begin; /* ids of the text that were given, the start first: they have no row; 0: 1 */
    int64_t layer;   /* of the decoder, from 1; 0: the mean over all */
    const weft_tokenizer *source_tokenizer, *target_tokenizer; /* name tokens; NULL: by number */
    int threads;          /* 0: one per processor of this process */
    weft_kv_type kv_type; /* as in the engine that made the text */
} weft_alignment_options;

/* Draws where an encoder-decoder looked in its source while it made a text, as an SVG: a row for
 * each token of the text, a column for each of the source, and in each cell the attention, the mean
 * over heads. ids: what the decoder began with, then what it made. They are evaluated once more, in
 * one forward. */
WEFT_API weft_status weft_alignment(weft_model *model, const int32_t *ids, int64_t n,
                                    const weft_alignment_options *options, weft_page_fn *fn,
                                    void *ud, weft_error *err);

/* ---- report of a training run ---------------------------------------------------------------- */

typedef struct weft_report_options {
    size_t struct_size;
    const char *title; /* NULL: the name of the run's directory */
    size_t ram_max;
    weft_budget *budget; /* also counted there, or NULL */
} weft_report_options;

typedef struct weft_report_info {
    size_t struct_size;
    int64_t step;     /* the last */
    int64_t n_point;  /* points in the charts */
    int64_t n_sample; /* samples on the page */
    uint64_t bytes;   /* size of the page */
    char path[4096];
} weft_report_info;

/* Makes an HTML report from RUN/metrics.jsonl: loss, validation, learning rate, gradient norm,
 * speed, samples. One self-contained file without scripts. to: its path; NULL: RUN/report.html.
 * info may be NULL. */
WEFT_API weft_status weft_report(const char *run, const char *to,
                                 const weft_report_options *options, weft_report_info *info,
                                 weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
