/* weft.h - transformers on CPUs. The only header of libweft.
 *
 * A complete program: a hundred tokens of text, each the most likely one.
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
 *             printf("%.*s", n <= (int64_t)sizeof piece ? (int)n : 0, piece);
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
 *   - The library never prints, exits or aborts on input. What the world does wrong comes back as a
 *     status and a weft_error; the error pointer is always last and may be NULL.
 *   - A model is immutable and may be shared by threads. An engine and its sessions belong to one
 *     thread at a time. Free handles in any order: a session keeps its engine alive, and so on,
 *     until it is freed itself; no handle is used after its own free. Every free accepts NULL.
 *   - All anonymous memory is counted against the model's `ram_max` before it is taken; a
 *     weft_budget puts several objects, and the host's own memory, under one cap.
 *   - A call needs at most 64 KiB of the calling thread's stack (generating takes 21, training 52), a
 *     callback's own aside. Large buffers are in the engine; threads of the library have 1 MiB.
 *   - The logits of a token depend on the model and on the tokens before it in its session, and on
 *     nothing else: not on batch mates, chunking or the number of threads. The same bits always.
 *   - Option structs begin with their size, so that a program built against an older header keeps
 *     working: `weft_engine_options o = { .struct_size = sizeof o };`. Zero means the default. A
 *     struct_size of 0 (it was forgotten) and one that is larger than this library knows (a newer
 *     header) are WEFT_EINVAL. NULL means all defaults, except for weft_train_options.
 *   - Result structs begin with their size too. A larger one than this library knows is filled as
 *     far as it does, and keeps the rest. A struct_size below sizeof(size_t) is WEFT_EINVAL, before
 *     any work is done; functions without a status leave such a struct alone.
 *   - Arguments are checked before anything changes: NULL for a handle or for a place that is
 *     needed, a negative or too large count, an index or enum value that does not exist, and a
 *     count without its array are WEFT_EINVAL with a sentence (too many tokens: WEFT_ECONTEXT), and
 *     all objects stay as they were. Functions without a status return NULL, -1, 0 or false then.
 *     What cannot be checked: that a pointer points to as much memory as the count beside it says,
 *     and that a handle is alive. */
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
    WEFT_EINVAL,       /* the caller asked for something that does not exist or is out of range */
    WEFT_EIO,          /* the file could not be opened or read */
    WEFT_EFORMAT,      /* the file is not what it says it is */
    WEFT_EUNSUPPORTED, /* the file is fine, but weft does not know this kind */
    WEFT_ENOMEM,       /* the system refused memory */
    WEFT_ELIMIT,       /* the memory cap would be passed */
    WEFT_ECONTEXT,     /* the context or the page pool is full */
    WEFT_ESYSTEM,      /* threads or other services of the system could not be had */
    WEFT_ENUMERIC,     /* the model's numbers are not finite, or do not fit */
    WEFT_ESTOPPED,     /* the caller said so: a callback, or a cancelled session */
} weft_status;

typedef struct weft_error {
    weft_status code;
    char message[508];
} weft_error;

/* ---- library --------------------------------------------------------------------------------- */

#define WEFT_VERSION     "0.1.0"
#define WEFT_ABI_VERSION 1

WEFT_API const char *weft_version(void);
WEFT_API int weft_abi_version(void);

/* One line on what this build contains and what it found: parts, kernel table, threads. */
WEFT_API const char *weft_build_parts(void);
WEFT_API const char *weft_kernels_name(void);
WEFT_API int weft_cpu_count(void);

typedef enum weft_log_level { WEFT_LOG_INFO, WEFT_LOG_WARN } weft_log_level;
typedef void weft_log_fn(void *ud, weft_log_level level, const char *line);

/* ---- memory ---------------------------------------------------------------------------------- */

/* One cap for several objects and for the host itself. What is opened with a budget counts in it,
 * beside its own ram_max: either may refuse, with WEFT_ELIMIT, before memory is taken. A budget may
 * be used by many threads at once. */
typedef struct weft_budget weft_budget;

/* The memory limit of this process's control groups (memory.max, version 2), as a container sets it, in
 * bytes; 0: none. A host may pass it as ram_max. */
WEFT_API size_t weft_memory_limit(void);

/* ram_max: bytes; 0: no cap, it only counts. */
WEFT_API weft_budget *weft_budget_new(size_t ram_max, weft_error *err);
WEFT_API void weft_budget_free(weft_budget *budget);

/* Counts memory that the host is about to take, `what` being its name in the error; and no longer
 * counts it: no more is given back than the host has taken. A NULL budget refuses nothing. */
WEFT_API weft_status weft_budget_take(weft_budget *budget, size_t bytes, const char *what,
                                      weft_error *err);
WEFT_API void weft_budget_give(weft_budget *budget, size_t bytes);

/* Bytes counted now; 0 of NULL. */
WEFT_API size_t weft_budget_used(const weft_budget *budget);

/* ---- model ----------------------------------------------------------------------------------- */

typedef struct weft_model weft_model;

/* A copy cannot be hurt by a file that changes; a map is shared with other processes and loads as
 * it is touched, but a file that shrinks under it kills the process with SIGBUS. */
typedef enum weft_load { WEFT_LOAD_COPY, WEFT_LOAD_MAP } weft_load;

typedef struct weft_model_options {
    size_t struct_size;
    weft_load load;
    size_t ram_max; /* cap on anonymous memory of the model and all made from it; 0: none */
    weft_log_fn *log;
    void *log_ud;
    weft_budget *budget; /* counted there too, or NULL */
    bool no_pack; /* products read the weights from the file, which processes share; else from
                            a copy in the order they want, made with the first engine or encoder if
                            ram_max has room for it. The answers are the same bits */
} weft_model_options;

/* path: a GGUF file, or the first of its parts; or a Hugging Face directory with config.json and
 * model.safetensors, or model.safetensors.index.json and the files it names. */
WEFT_API weft_model *weft_model_open(const char *path, const weft_model_options *options,
                                     weft_error *err);
WEFT_API void weft_model_close(weft_model *model);

/* What a model was made for. */
typedef enum weft_task {
    WEFT_TASK_GENERATE, /* after each token: which one is next */
    WEFT_TASK_FILL,     /* in place of each token: which one belongs there */
    WEFT_TASK_CLASSIFY, /* of the whole: which label it has */
    WEFT_TASK_TAG,      /* of each token: which label it has */
    WEFT_TASK_ANSWER,   /* of each token: whether the answer begins there, and whether it ends */
    WEFT_TASK_EMBED,    /* a vector; there is no head */
} weft_task;

typedef struct weft_model_info {
    size_t struct_size;
    const char *architecture; /* "llama" */
    const char *format;       /* "gguf" or "safetensors" */
    int64_t n_layer, n_head, n_head_kv, d_model, d_head, d_ff, n_vocab, n_ctx;
    int64_t n_tensor, n_metadata;
    int64_t n_parameter;    /* numbers in the weights, tied ones once */
    size_t bytes_mapped;    /* weights mapped from files */
    size_t bytes_anonymous; /* memory taken so far, counted against ram_max */
    int32_t eos_id;         /* the first token that ends a text, -1 if the file names none */
    weft_task task;
    int64_t n_out; /* numbers that it gives of a token or of the whole: tokens, labels, d_model */
    bool images;   /* it takes pictures, not texts */
    int64_t n_layer_src; /* of an encoder, whose decoder the others describe; 0: there is none */
    int64_t n_vocab_src; /* tokens that a source may have */
    int32_t start_id;    /* the token before a decoder's first; -1: none */
    int64_t
        n_feature; /* numbers of a row, of models that take pictures: an input has n_ctx rows; 0:
                          it takes tokens */
} weft_model_info;

WEFT_API void weft_model_get_info(const weft_model *model, weft_model_info *info);

/* Does this token end a text? A chat model has several that do, which generation_config.json
 * names. */
WEFT_API bool weft_model_is_end(const weft_model *model, int32_t id);

/* The name of output i of n_out, for models that give labels; NULL where the file has none. */
WEFT_API const char *weft_model_label(const weft_model *model, int64_t i);

typedef struct weft_tensor_info {
    size_t struct_size;
    const char *name; /* weft's name, which is GGUF's: "blk.0.attn_q.weight" */
    const char *type; /* "f32", "bf16", "q8_0" ... */
    int n_dim;
    int64_t shape[4]; /* outermost first */
    size_t bytes;
} weft_tensor_info;

/* Weight i of n_tensor, in the order in which the model binds them. */
WEFT_API weft_status weft_model_get_tensor(const weft_model *model, int64_t i,
                                           weft_tensor_info *info);

/* Metadata entry i of n_metadata as text; value is cut at `size` bytes, terminator included, and may
 * be NULL where that is 0. */
WEFT_API weft_status weft_model_get_metadata(const weft_model *model, int64_t i, const char **key,
                                             char *value, size_t size);

/* The exact bytes that a token stands for in running text, without terminator. Returns how many
 * there are (more than `size` if the buffer is too small, which is then left alone; `bytes` may be
 * NULL to ask), or -1 if the model carries no vocabulary, or no such token. Control tokens stand for nothing: 0. */
WEFT_API int64_t weft_model_piece(const weft_model *model, int32_t id, char *bytes, size_t size);

/* ---- models by name: what other programs have downloaded -------------------------------------- */

/* The places, in the order in which they are searched; nothing is written and nothing downloaded.
 *   WEFT_MODELS          directories, separated by colons: NAME.gguf, NAME/, ORG/NAME/
 *   Hugging Face cache   $HF_HUB_CACHE, $HF_HOME/hub, or huggingface/hub in $XDG_CACHE_HOME or ~/.cache
 *   llama.cpp cache      $LLAMA_CACHE, or llama.cpp in $XDG_CACHE_HOME or ~/.cache
 *   Ollama               $OLLAMA_MODELS or ~/.ollama/models; /usr/share/ollama/.ollama/models */

/* Called for each place where none of them has the model: "nothing of this name", "no such
 * directory". weft_model_list calls it for places that are not there. */
typedef void weft_searched_fn(void *ud, const char *place, const char *path, const char *result);

typedef struct weft_find_options {
    size_t struct_size;
    size_t ram_max;      /* cap on the memory of the search; 0: none */
    weft_budget *budget; /* counted there too, or NULL */
    weft_searched_fn *searched;
    void *searched_ud;
} weft_find_options;

/* The path of the model that a name means, for weft_model_open and weft_tokenizer_load. A name is NAME,
 * ORG/NAME or hf.co/ORG/NAME, with :TAG behind it (a type as Q4_K_M, or Ollama's tag) where there is
 * more than one. The first place that has a model of that name decides. WEFT_EINVAL: several fit, or
 * it is not a name; WEFT_EIO: there is none, or it is not whole. */
WEFT_API weft_status weft_model_find(const char *name, const weft_find_options *options, char *path,
                                     size_t size, weft_error *err);

/* A model in one of the places; its texts live for the call. */
typedef struct weft_model_entry {
    size_t struct_size;
    const char *store; /* "directory", "huggingface", "llama.cpp" or "ollama" */
    const char *name;  /* by which weft_model_find finds it */
    const char *path;  /* NULL where there is a problem */
    const char
        *problem; /* NULL, or why it cannot be opened: "a link to a file that is not there" */
} weft_model_entry;

/* False ends the walk, with WEFT_ESTOPPED. */
typedef bool weft_model_entry_fn(void *ud, const weft_model_entry *model);

/* Calls back for each model in all places. */
WEFT_API weft_status weft_model_list(weft_model_entry_fn *fn, void *ud,
                                     const weft_find_options *options, weft_error *err);

/* ---- files: from one form into another ------------------------------------------------------- */

typedef enum weft_format {
    WEFT_FORMAT_OTHER, /* the one that the source is not */
    WEFT_FORMAT_GGUF,
    WEFT_FORMAT_HF, /* a Hugging Face directory */
} weft_format;

/* Bytes of weights written so far, and in all; false stops. */
typedef bool weft_progress_fn(void *ud, uint64_t done, uint64_t total);

/* A tensor that has been written. */
typedef struct weft_converted_tensor {
    const char *name, *from, *to; /* the types: "bf16", "q4_k" */
    uint64_t numbers, bytes;
    double error; /* root of the mean square of what is lost, relative to that of the numbers */
    bool instead; /* another type than the one asked for, whose blocks do not fit its rows */
} weft_converted_tensor;

typedef void weft_converted_tensor_fn(void *ud, const weft_converted_tensor *tensor);

typedef struct weft_convert_options {
    size_t struct_size;
    weft_format to;   /* a path that ends in .gguf is one, whatever this says */
    const char *type; /* of the matrices: "f32", "f16", "bf16"; in GGUF also "q8_0", "q4_0", "q4_1",
                           "q5_0", "q5_1", "q6_k" and the mixes "q5_k_m", "q4_k_m", "q3_k_l",
                           "q3_k_m", "q3_k_s", "q2_k"; NULL: as they are, or as they were in the
                           directory that a GGUF file came from */
    uint64_t max_shard; /* most bytes of weights in one file; 0: one file for all */
    bool force;         /* replace what is there, which may be what is read */
    weft_load load;
    size_t ram_max;
    weft_progress_fn *progress;
    void *progress_ud;
    weft_log_fn *log;
    void *log_ud;
    int n_thread;                        /* 0: one for each processor */
    weft_converted_tensor_fn *converted; /* called after each tensor, or NULL */
    void *converted_ud;
    weft_budget *budget; /* counted there too, or NULL */
} weft_convert_options;

typedef struct weft_convert_info {
    size_t struct_size;
    weft_format format;
    int64_t n_tensor, n_file;
    int64_t n_left_out; /* tensors of the source that no model needs */
    uint64_t bytes;     /* of all files */
    size_t bytes_peak;  /* memory taken at most */
    char architecture[64];
    char type[16];   /* that was asked for, or of most numbers */
    char path[4096]; /* what was written: a file, the first of several, or a directory */
} weft_convert_info;

/* Writes the model at `from` to `to`: a path that ends in .gguf; a directory, in which a GGUF file
 * gets a name from its contents and a Hugging Face model lies as it is. What was there is replaced
 * when all of the new has reached the disk, or stays. Configuration, tokenizer and number formats
 * of a directory are kept in the GGUF file, so that the way back leads to the same bytes of weights.
 * info may be NULL. */
WEFT_API weft_status weft_convert(const char *from, const char *to,
                                  const weft_convert_options *options, weft_convert_info *info,
                                  weft_error *err);

/* ---- tokenizer: text to ids and back --------------------------------------------------------- */

/* What a model was trained with, executed as its file says. A step that this library does not know
 * is an error with its name and place, never a guess. Immutable, and may be shared by threads. */
typedef struct weft_tokenizer weft_tokenizer;

/* Of a model that translates: the language it reads, the one it writes. They may have a tokenizer
 * each (source_vocabulary.txt and target_vocabulary.txt, or Marian's source.spm and target.spm). */
typedef enum weft_side { WEFT_SIDE_ANY, WEFT_SIDE_SOURCE, WEFT_SIDE_TARGET } weft_side;

typedef struct weft_tokenizer_options {
    size_t struct_size;
    weft_load load;
    size_t ram_max;  /* cap on its memory and on that of all that is encoded with it; 0: none, but
                        loading takes at most 256 MiB and 64 bytes for each byte of the file */
    const char *pre; /* how text is split, where the file does not say: "llama-bpe", "qwen2" ... */
    weft_budget *budget; /* counted there too, or NULL */
    weft_side side; /* of a model's directory or file: this side's tokenizer, if there are two */
} weft_tokenizer_options;

/* path: a GGUF file, a tokenizer.json, a SentencePiece .model, a tiktoken file, BERT's vocab.txt, a
 * vocab.json with merges.txt beside it, llama2.c's tokenizer.bin, or a directory with one of them; an
 * OpenNMT vocabulary whose tokens are letters (..._vocabulary.txt).
 * Test vectors that are stored with it (weft.tokenizer.selftest) are checked. */
WEFT_API weft_tokenizer *
weft_tokenizer_load(const char *path, const weft_tokenizer_options *options, weft_error *err);
WEFT_API void weft_tokenizer_free(weft_tokenizer *tokenizer);

typedef struct weft_tokenizer_info {
    size_t struct_size;
    const char *source;     /* "tokenizer.json", "gguf", "sentencepiece" ... */
    const char *model;      /* "BPE", "Unigram", "WordPiece" or "WordLevel" */
    int32_t n_vocab;        /* ids are below this; some may be unused */
    int32_t bos_id, eos_id; /* -1 if the file names none */
    bool byte_level;        /* any bytes have ids, and come back from them unchanged */
    size_t bytes_anonymous; /* memory taken so far */
} weft_tokenizer_info;

WEFT_API void weft_tokenizer_get_info(const weft_tokenizer *tokenizer, weft_tokenizer_info *info);

typedef struct weft_tokenize_options {
    size_t struct_size;
    bool no_special;    /* leave out the tokens that the model wants around a text (BOS, EOS ...) */
    bool parse_special; /* special tokens spelled in the text become those tokens; otherwise they
                           are letters like others, as they must be for text of strangers */
    bool spans;         /* tell where each token comes from */
    bool fit;           /* truncate and pad as the file says; otherwise neither is ever done */
    const char *pair;   /* a second text, for models of pairs */
    size_t pair_length;
} weft_tokenize_options;

/* The bytes [from, to) of the text, of the second one where types say so. */
typedef struct weft_span {
    uint32_t from, to;
} weft_span;

typedef struct weft_tokens {
    int64_t n;
    const int32_t *ids;
    const weft_span *spans; /* both 0 for tokens that stand for no text; NULL if not asked for */
    const uint8_t *types;   /* 0 or 1, for models of pairs; NULL where all are 0 */
} weft_tokens;

/* The tokenizer is the only one who puts BOS and EOS, here and once. Text that is not UTF-8 is not
 * refused: a byte-level tokenizer takes bytes as they are, others see U+FFFD for each bad byte. Texts
 * of 2^30 bytes and more are WEFT_ELIMIT, before they are read. NULL with err filled on failure. */
WEFT_API weft_tokens *weft_tokenizer_encode(const weft_tokenizer *tokenizer, const char *text,
                                            size_t length, const weft_tokenize_options *options,
                                            weft_error *err);
WEFT_API void weft_tokens_free(weft_tokens *tokens);

/* The exact bytes that a token stands for in running text: as weft_model_piece. */
WEFT_API int64_t weft_tokenizer_piece(const weft_tokenizer *tokenizer, int32_t id, char *bytes,
                                      size_t size);

/* A token as its file spells it ("\xC4\xA0world", "##ing", "<s>"), special ones too; NULL for no
 * such token; `length` may be NULL. And back: -1 for no such spelling. */
WEFT_API const char *weft_tokenizer_token(const weft_tokenizer *tokenizer, int32_t id,
                                          size_t *length);
WEFT_API int32_t weft_tokenizer_id(const weft_tokenizer *tokenizer, const char *token,
                                   size_t length);

/* True for tokens that stand for no text. */
WEFT_API bool weft_tokenizer_is_special(const weft_tokenizer *tokenizer, int32_t id);

/* Ids to text while they come: what is given out is whole code points, and is never taken back.
 * Special tokens are left out unless kept. Belongs to one thread at a time. */
typedef struct weft_decoder weft_decoder;

WEFT_API weft_decoder *weft_decoder_new(const weft_tokenizer *tokenizer, bool keep_special,
                                        weft_error *err);
WEFT_API void weft_decoder_free(weft_decoder *decoder);

/* *bytes, *length: what is new, good until the next call; often nothing yet. */
WEFT_API weft_status weft_decoder_push(weft_decoder *decoder, int32_t id, const char **bytes,
                                       size_t *length, weft_error *err);

/* At the end: what was held back because a code point was not finished. Either may be NULL. */
WEFT_API void weft_decoder_flush(weft_decoder *decoder, const char **bytes, size_t *length);

/* ---- compressed text: gzip and zstd ---------------------------------------------------------- */

/* Data files that are given by path may be compressed: they are decompressed into counted memory. These
 * two functions are for text that the host has read itself. weft_build_parts lists gzip and zstd if this
 * build has them. */

/* True if the data starts like gzip or zstd data. */
WEFT_API bool weft_is_compressed(const void *data, size_t size);

/* Decompresses all members or frames and verifies their checksums; data that is not compressed is
 * copied. `to` NULL: only counts the bytes. *n: on entry the size of `to`, on return the number of bytes.
 * It is an error if the data is truncated, damaged, followed by anything else, a tar archive, or grows
 * to more than 64 MiB and 256 times its size. name: of the data, in errors, or NULL. */
WEFT_API weft_status weft_decompress(const char *name, const void *data, size_t size, char *to,
                                     size_t *n, weft_budget *budget, weft_error *err);

/* ---- training a tokenizer -------------------------------------------------------------------- */

typedef enum weft_token_model {
    WEFT_TOKENS_BPE,
    WEFT_TOKENS_WORDPIECE,
    WEFT_TOKENS_CHARACTERS, /* every code point of the text, in their order; nothing is merged */
} weft_token_model;

/* Which of two equally frequent pairs becomes a token first: the one whose tokens have the smaller
 * ids, as in Hugging Face's trainers, or the one that is greater in bytes. */
typedef enum weft_ties { WEFT_TIES_IDS, WEFT_TIES_BYTES } weft_ties;

typedef struct weft_tokenizer_train_options {
    size_t struct_size;
    weft_token_model model; /* byte-level BPE, WordPiece as BERT has it, or characters */
    weft_ties ties;
    int32_t n_vocab;       /* tokens, special ones included; 0: 8192 */
    int64_t min_frequency; /* pairs that occur less often are not merged; 0: 2 */
    bool lines;            /* each line is a text by itself, as Hugging Face reads files; otherwise
                              each file is. A text ends at special tokens too, which are not
                              learned from */
    bool cased;            /* WordPiece: keep case and accents */
    const char *pattern;   /* BPE: what splits text into words; NULL: GPT-2's */
    const char *const *special; /* tokens that get the first ids */
    int n_special;
    int threads;         /* 0: one per processor of this process */
    weft_load load;      /* of the text */
    size_t ram_max;      /* cap on memory; 0: none */
    weft_budget *budget; /* counted there too, or NULL */
} weft_tokenizer_train_options;

typedef struct weft_tokenizer_train_info {
    size_t struct_size;
    int32_t n_vocab; /* fewer than asked for where the text has no more to merge */
    int64_t n_merge;
    int64_t n_word; /* different words of the text, and words in all */
    int64_t n_occurrence;
    size_t bytes_peak; /* memory taken at most */
} weft_tokenizer_train_info;

/* Learns a tokenizer from files of UTF-8 text and writes it to `to` as a tokenizer.json. The result
 * depends on the text and the options, never on threads. info may be NULL. */
WEFT_API weft_status weft_tokenizer_train(const char *const *paths, int n_path, const char *to,
                                          const weft_tokenizer_train_options *options,
                                          weft_tokenizer_train_info *info, weft_error *err);

/* ---- engine: where forwards happen ----------------------------------------------------------- */

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
    int n_session;        /* sessions in one forward, and contexts in the cache; 0: 1 */
    int n_batch;          /* most rows in one forward; 0: 256 */
    int64_t n_ctx;        /* positions per session; 0: the model's own, at most 4096 */
    weft_kv_type kv_type; /* how keys and values are kept; default f16 */
    int64_t n_cache;      /* positions in the cache, shared ones once; 0: n_session contexts */
} weft_engine_options;

WEFT_API weft_engine *weft_engine_new(weft_model *model, const weft_engine_options *options,
                                      weft_error *err);
WEFT_API void weft_engine_free(weft_engine *engine);

/* What an engine was made with, the defaults filled in, and how much of its cache is free. */
typedef struct weft_engine_info {
    size_t struct_size;
    int threads, n_session, n_batch;
    int64_t n_ctx;
    const char *kv_type;  /* "f16" */
    int64_t n_cache;      /* positions, in whole pages ... */
    int64_t n_cache_free; /* ... of which so many are in pages that no session holds */
} weft_engine_info;

/* For NULL all is 0. */
WEFT_API void weft_engine_get_info(const weft_engine *engine, weft_engine_info *info);

/* What an engine with these options will take, found by a dry run before any of it is taken. */
typedef struct weft_memory_plan {
    size_t struct_size;
    size_t kv_bytes;       /* pages for keys and values */
    size_t step_bytes;     /* both arenas of a step, exact */
    int64_t n_ctx;         /* positions per session, defaults filled in */
    size_t session_bytes;  /* one session beside its pages: tokens, logits */
    size_t total_bytes;    /* engine and n_session sessions: no more is ever taken, unless attention
                             maps are traced */
    size_t position_bytes; /* keys and values of one position in all layers, as kv_type has them */
    size_t panel_bytes;    /* of total_bytes: packed weights, which belong to the model and are made
                             with its first engine or encoder, where the cap has room for them */
} weft_memory_plan;

WEFT_API weft_status weft_engine_plan(weft_model *model, const weft_engine_options *options,
                                      weft_memory_plan *plan, weft_error *err);

/* What a part of a model holds, and the floating-point operations of one token. A head that is tied
 * to the embedding has operations, but no parameters of its own. */
typedef struct weft_part {
    int64_t n_parameter;
    size_t bytes;
    double flops;
} weft_part;

typedef struct weft_model_cost {
    size_t struct_size;
    weft_part embedding, attention, feed_forward, head;
} weft_model_cost;

/* Of the token at the end of a context of n_ctx positions; 0: as an engine would have. */
WEFT_API weft_status weft_model_get_cost(weft_model *model, int64_t n_ctx, weft_model_cost *cost,
                                         weft_error *err);

typedef struct weft_speed {
    size_t struct_size;
    int64_t n_prompt;    /* tokens of the prompt: 512, or the context */
    double prompt;       /* tokens a second; */
    double generate;     /* the same of generated ones, at the beginning of a context */
    double read_rate;    /* bytes of weights that one row goes through, a second */
    double product_rate; /* operations of many rows, a second */
    double seconds;      /* that measuring took */
} weft_speed;

/* How fast an engine with these options will be. Measures this machine for part of a second, with
 * weights of the model's formats that are made for it: the model's own are not touched. */
WEFT_API weft_status weft_engine_estimate(weft_model *model, const weft_engine_options *options,
                                          weft_speed *speed, weft_error *err);

/* Every named tensor of a forward, as it is made: rows of numbers, valid during the call. With
 * `attention_maps`, attention also shows its scores and probabilities: that costs rows x keys of
 * memory and is the only thing that does. */
typedef struct weft_trace_tensor {
    size_t struct_size;
    const char *name;           /* "blk.3.attn_q.rope" */
    const char *op;             /* "rope" */
    int64_t rows, cols, stride; /* numbers; rows begin `stride` apart */
    const float *data;
    const char *formula; /* of the op: "y = x W^T + b" */
} weft_trace_tensor;

typedef void weft_trace_fn(void *ud, const weft_trace_tensor *tensor);

WEFT_API weft_status weft_engine_trace(weft_engine *engine, weft_trace_fn *fn, void *ud,
                                       bool attention_maps, weft_error *err);

/* ---- encoder: whole texts, for models that do not generate ----------------------------------- */

/* Reads texts, or images, as wholes: every token sees all others. Many go through the model
 * together, none is filled up to the length of another, and each gets the same bits as alone. All
 * memory is taken when it is made. Belongs to one thread at a time. */
typedef struct weft_encoder weft_encoder;

typedef enum weft_encoder_output {
    WEFT_OUTPUT_HEAD,   /* what the model was made for: logits of tokens or labels, as its task */
    WEFT_OUTPUT_STATES, /* the vector of every token, as it enters the head */
    WEFT_OUTPUT_POOLED, /* one vector for the whole, made as the model's files say: the mean of the
                           states, their maximum, or the first; normalised or not */
} weft_encoder_output;

/* How the states of a text become one vector. A decoder whose files do not say it gives its last. */
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
    int n_batch;   /* most rows in one forward, and no fewer than n_ctx; 0: n_ctx, at least 256 */
    int64_t n_ctx; /* most rows of one input; 0: the model's own, at most 65536 */
    weft_encoder_output output;
    weft_pooling pooling; /* of WEFT_OUTPUT_POOLED */
    bool normalize;       /* vectors of length 1, whatever the model says */
} weft_encoder_options;

WEFT_API weft_encoder *weft_encoder_new(weft_model *model, const weft_encoder_options *options,
                                        weft_error *err);
WEFT_API void weft_encoder_free(weft_encoder *encoder);

/* What an encoder with these options will take: kv_bytes, session_bytes and position_bytes are 0. */
WEFT_API weft_status weft_encoder_plan(weft_model *model, const weft_encoder_options *options,
                                       weft_memory_plan *plan, weft_error *err);

/* One text or image, and where what comes out of it goes. */
typedef struct weft_input {
    const int32_t *ids;    /* [n], of models that take tokens; */
    const float *features; /* [n, width], of models that take vectors */
    const uint8_t *types;  /* [n], as weft_tokens has them; NULL: all 0 */
    int64_t n;
    const int32_t *at; /* the rows that are asked for, ascending; NULL: all */
    int64_t n_at;      /* 0 to n; 0 where `at` is NULL */
    float *out; /* [rows, width]: one row for the whole (see weft_encoder_rows), n_at rows, or n */
} weft_input;

/* Numbers of a row of output, and how many rows an input gives: 0 where eval would refuse its
 * counts. */
WEFT_API int64_t weft_encoder_width(const weft_encoder *encoder);
WEFT_API int64_t weft_encoder_rows(const weft_encoder *encoder, const weft_input *input);

/* Fills `out` of all inputs. One that is too long is WEFT_ECONTEXT, before anything is computed. */
WEFT_API weft_status weft_encoder_eval(weft_encoder *encoder, const weft_input *inputs, int64_t n,
                                       weft_error *err);

/* As weft_engine_trace. */
WEFT_API weft_status weft_encoder_trace(weft_encoder *encoder, weft_trace_fn *fn, void *ud,
                                        bool attention_maps, weft_error *err);

/* ---- images ---------------------------------------------------------------------------------- */

/* A picture as a model takes it: an input of an encoder. */
typedef struct weft_image {
    int64_t n; /* rows: patches, and those that the model has learned */
    const float *features;
} weft_image;

/* Reads a PNG or a JPEG, from a file or from memory, and does with it what the
 * preprocessor_config.json beside the model says (or its config.json, where that has image_mean), as
 * transformers would: resize, crop, rescale, normalise. NULL with err filled on failure;
 * weft_build_parts tells whether this build knows png and jpeg. */
WEFT_API weft_image *weft_image_open(weft_model *model, const char *path, weft_error *err);
WEFT_API weft_image *weft_image_decode(weft_model *model, const void *data, size_t size,
                                       weft_error *err);
WEFT_API void weft_image_free(weft_image *image);

/* How many of some pictures, or texts, a model knows. */
typedef struct weft_score {
    size_t struct_size;
    int64_t n, n_right;
    double loss; /* mean of -log p of their classes */
} weft_score;

/* data: pictures with their classes, as weft_train takes them: [n_data] paths. */
WEFT_API weft_status weft_image_score(weft_model *model, const char *const *data, int n_data,
                                      int threads, weft_score *score, weft_error *err);

/* ---- kernel regression: where attention came from --------------------------------------------- */

typedef enum weft_kernel {
    WEFT_KERNEL_GAUSSIAN,     /* K(t) = e^(-t/2),  t = |q - k|^2 / width^2 */
    WEFT_KERNEL_BOXCAR,       /* 1 where t <= 1 */
    WEFT_KERNEL_EPANECHNIKOV, /* max(0, 1 - t) */
} weft_kernel;

/* Nadaraya and Watson, 1964: for each query the mean of the values, weighted by how near their keys
 * are: out[i] = sum_j K(t_ij) values[j] / sum_j K(t_ij). A query that no key is near enough to gets 0.
 * queries, out: [n_query]; keys, values: [n_key]. */
WEFT_API weft_status weft_kernel_pool(weft_kernel kernel, double width, const float *queries,
                                      int64_t n_query, const float *keys, const float *values,
                                      int64_t n_key, float *out, weft_error *err);

/* ---- session: one timeline of tokens --------------------------------------------------------- */

/* Sessions of one engine share the pages of its cache: a fork takes none until it goes its own way,
 * and a page goes back when the last session that holds it lets go. */
typedef struct weft_session weft_session;

WEFT_API weft_session *weft_session_new(weft_engine *engine, weft_error *err);
WEFT_API void weft_session_free(weft_session *session);

/* Another session of the same engine with the same tokens and logits. Both go on as if each were
 * alone. */
WEFT_API weft_session *weft_session_fork(const weft_session *session, weft_error *err);

/* Of a model with an encoder: the session forgets its tokens and has this source from now on. What
 * its decoder says begins with start_id. Keys and values of the source are made once, and forks share
 * them. On any error, a refused argument too, the session has neither source nor tokens: nothing is
 * ever said about the source before. A model without an encoder refuses, and its session keeps its
 * tokens. */
WEFT_API weft_status weft_session_source(weft_session *session, const int32_t *ids, int64_t n,
                                         weft_error *err);

/* Appends n tokens and computes the logits that follow the last of them. On error the session has
 * the tokens it had before the call. A context or a cache that is full is WEFT_ECONTEXT, before
 * anything is computed. */
WEFT_API weft_status weft_session_eval(weft_session *session, const int32_t *ids, int64_t n,
                                       weft_error *err);

/* The timeline becomes these tokens; only what is new is computed. Kept is the longest beginning that
 * the session has itself or that another session of the engine has, of the latter in whole pages of
 * 64 tokens, which both then share. The last token is computed at least, unless the session stands
 * at it with its logits. *reused, which may be NULL: tokens that were not computed. On error the
 * session has those, unless an argument was refused: then it has what it had. */
WEFT_API weft_status weft_session_sync(weft_session *session, const int32_t *ids, int64_t n,
                                       int64_t *reused, weft_error *err);

/* The first half of that, for those who evaluate the rest together with other sessions: the session
 * now has the first of these tokens, as many as are returned. -1 for a negative n, or no ids: then
 * it has what it had. */
WEFT_API int64_t weft_session_match(weft_session *session, const int32_t *ids, int64_t n);

/* Forgets all tokens from position `length` on. */
WEFT_API weft_status weft_session_rewind(weft_session *session, int64_t length, weft_error *err);
WEFT_API int64_t weft_session_length(const weft_session *session);

/* Its tokens so far, valid until the next call that changes it; n may be NULL. */
WEFT_API const int32_t *weft_session_tokens(const weft_session *session, int64_t *n);

/* n_vocab numbers, valid until the next eval or rewind; NULL before the first eval and after a
 * rewind. */
WEFT_API const float *weft_session_logits(const weft_session *session);

/* The most likely next token (the lowest id among equals), or -1 where there are no logits. */
WEFT_API int32_t weft_session_greedy(const weft_session *session);

/* From any thread: the session takes no part in its next forward, nor in those that the same eval
 * would have gone on with, and has the tokens it had before that eval. A forward that runs already
 * ends first, so that this takes one forward at most; an eval that ran its last one is not stopped,
 * but the next eval is. */
WEFT_API void weft_session_cancel(weft_session *session);

/* Writes tokens, logits and the session's part of the cache to a file, which replaces the one that
 * was there only when it is whole. */
WEFT_API weft_status weft_session_save(const weft_session *session, const char *path,
                                       weft_error *err);

/* A session as it was saved, that goes on with the same bits. The model must have the same weights in
 * the same format and the engine the same kv_type (WEFT_EINVAL otherwise), and the tokens must fit
 * its context (WEFT_ECONTEXT). A damaged file is WEFT_EFORMAT. Kernels of another processor may have
 * computed it: that is logged, as its last bits may be theirs. */
WEFT_API weft_session *weft_session_restore(weft_engine *engine, const char *path, weft_error *err);

/* Evaluates for several sessions of one engine, at most 1024, in as few forwards as their rows
 * fit into. */
typedef struct weft_eval_request {
    weft_session *session;
    const int32_t *ids;
    int64_t n;          /* 1 or more */
    int64_t done;       /* tokens that were appended: 0 to n */
    weft_status status; /* WEFT_OK; WEFT_ESTOPPED: its session was cancelled; WEFT_ECONTEXT: no room
                           in the context or the cache; WEFT_ENUMERIC: its logits are not finite */
    const char *message; /* set with a status: why; until its session is evaluated again or freed */
} weft_eval_request;

/* Until every work is done or has failed. A work fails alone: its session has the tokens it had
 * before, the others finish with the bits they would get without it, and the first failure is
 * returned in the end. Wrong arguments fail the call before anything happens. */
WEFT_API weft_status weft_engine_eval(weft_engine *engine, weft_eval_request *work, int n,
                                      weft_error *err);

/* One forward of at most n_batch rows in at most n_session works, for those who let works come and
 * go between forwards. Works with one token left come first, so that no long prompt keeps a session
 * from its next token; the others share the room that is left. Works with done = n are passed over,
 * and so are those with a status: a session that fails or is cancelled has kept what was done. The
 * first failure of this forward is returned, the other works have moved on; to cancel is none.
 * Begin with done and status 0. */
WEFT_API weft_status weft_engine_step(weft_engine *engine, weft_eval_request *work, int n,
                                      weft_error *err);

/* What the model thinks of a token after the session's last one: the logarithm of its probability,
 * over the whole vocabulary and without temperature, in nats. */
typedef struct weft_logprob {
    int32_t id;
    double logprob;
} weft_logprob;

/* The k most likely tokens, best first; among equals the lower id. Returns how many were written:
 * fewer than k where the vocabulary ends, 0 where there are no logits or k is below 1. */
WEFT_API int64_t weft_session_top(const weft_session *session, int64_t k, weft_logprob *out);

/* Of n tokens that the caller names in out[i].id. */
WEFT_API weft_status weft_session_logprobs(const weft_session *session, weft_logprob *out,
                                           int64_t n, weft_error *err);

/* ---- sampling: which token comes next -------------------------------------------------------- */

/* A sampler is a chain of steps. The first of them change scores, which begin as the logits; the
 * others leave tokens out; then one of those that are left is drawn by its probability among them.
 *
 *     bias         score += bias                                         of tokens that are named
 *     penalties    score = score < 0 ? score * repetition : score / repetition, then
 *                  score -= frequency * times + presence                 of tokens of the history
 *     dry          score -= multiplier * base^(length - dry_length)      of tokens that would go on
 *                  repeating what the last `length` tokens repeat already
 *     temperature  score /= temperature; 0 keeps the best token only
 *     top_k        keeps the k best, and those that equal the last of them
 *     top_p        keeps the fewest best ones that together have probability p
 *     min_p        keeps those with at least p times the probability of the best
 *     typical      keeps those whose surprise is nearest to the entropy and that together have
 *                  probability p
 *     xtc          with a probability, leaves out all that have at least the threshold, except for
 *                  the last of them
 *     mirostat     keeps those with a surprise of at most mu bits; mu begins at 2 tau and, after
 *                  the draw, mu -= eta * (surprise of the token - tau)
 *
 * That is the default chain. top_k, top_p, min_p, typical and penalties keep what the processors of
 * transformers keep. "The best" is by score, and the lower id among equals; where top_p cuts
 * between equals the lower ids stay.
 *
 * The history is what the caller says it is: all tokens of a session, its prompt too. A draw is a
 * function of (seed, length of the history) and of the scores: it does not depend on draws before,
 * except through mirostat, which remembers mu. A sampler belongs to one thread at a time. */
typedef struct weft_sampler weft_sampler;

typedef struct weft_bias {
    int32_t id;
    float bias; /* -INFINITY forbids the token */
} weft_bias;

/* All zero: greedy. A step whose option is 0 does nothing. */
typedef struct weft_sampler_options {
    size_t struct_size;
    const char *chain;      /* names with ';' between them; NULL: "bias;penalties;dry;temperature;
                                 top_k;top_p;min_p;typical;xtc;mirostat". What changes scores of
                                 single tokens comes before temperature and what leaves out */
    uint64_t seed;          /* 0 is a seed like others */
    double temperature;     /* 0: greedy */
    int64_t top_k;          /* 0: all */
    double top_p;           /* 0 or 1: all */
    double min_p;           /* 0: all */
    double typical;         /* 0 or 1: all */
    double repetition;      /* 0 or 1: none; 0.01 to 100 */
    double frequency;       /* times it occurred; -100 to 100 */
    double presence;        /* -100 to 100 */
    int64_t penalty_last_n; /* tokens of the history that penalties count; 0: all */
    double dry_multiplier;  /* 0: off; at most 100 */
    double dry_base;        /* 0: 1.75; 1 to 10 */
    int64_t dry_length;     /* a repetition that is shorter costs nothing; 0: 2 */
    int64_t dry_last_n;     /* tokens of the history that it looks at; 0: 4096 */
    double xtc_probability; /* 0: off */
    double xtc_threshold;   /* 0: 0.1; at most 0.5 */
    double mirostat_tau;    /* bits; 0: off */
    double mirostat_eta;    /* 0: 0.1; at most 1 */
    const weft_bias *bias;  /* [n_bias] */
    int64_t n_bias;
    const int32_t *breakers; /* [n_breaker]: tokens at which repetitions end for dry */
    int64_t n_breaker;
    int64_t n_vocab; /* of logits that come without a model; at most 2^24 */
} weft_sampler_options;

/* model: whose vocabulary it is and whose memory it counts against, or NULL with n_vocab given. An
 * option out of range, or one that is set and whose step is not in the chain, is an error. */
WEFT_API weft_sampler *weft_sampler_new(weft_model *model, const weft_sampler_options *options,
                                        weft_error *err);
WEFT_API void weft_sampler_free(weft_sampler *sampler);

/* Every token whose bytes contain one of these strings ends repetitions for dry: "\n", ":", "\""
 * and "*" are what others use. */
WEFT_API weft_status weft_sampler_break(weft_sampler *sampler, const weft_tokenizer *tokenizer,
                                        const char *const *strings, int n, weft_error *err);

/* The steps that do something, in order, in one line that lives as long as the sampler:
 * "temperature 0.8; top_k 40; top_p 0.95; seed 7". */
WEFT_API const char *weft_sampler_describe(const weft_sampler *sampler);

/* The next token after logits [n_vocab] and a history of n tokens, at most 2^31 - 1. Logits that are NaN or +inf are
 * an error, and so is a vocabulary in which nothing is possible. Takes no memory. */
WEFT_API weft_status weft_sampler_pick(weft_sampler *sampler, const float *logits, int64_t n_vocab,
                                       const int32_t *ids, int64_t n, int32_t *id, weft_error *err);

/* The same after a session's logits and all of its tokens. The token is not evaluated. */
WEFT_API weft_status weft_sampler_next(weft_sampler *sampler, const weft_session *session,
                                       int32_t *id, weft_error *err);

/* The tokens that were left for the last draw, best first, with their probabilities in it. Writes at
 * most k of them and returns how many there were; out may be NULL to ask. */
typedef struct weft_token_prob {
    int32_t id;
    double p;
} weft_token_prob;

WEFT_API int64_t weft_sampler_kept(weft_sampler *sampler, int64_t k, weft_token_prob *out);

/* Before another text: mirostat begins again. */
WEFT_API void weft_sampler_reset(weft_sampler *sampler);

/* ---- stop strings ---------------------------------------------------------------------------- */

/* Ends a text where one of several strings occurs, however the text is cut into tokens: at the
 * string that is complete first; of those that end together, the longest. */
typedef struct weft_stop weft_stop;

WEFT_API weft_stop *weft_stop_new(const char *const *strings, int n, weft_error *err);
WEFT_API void weft_stop_free(weft_stop *stop);

/* *out, *out_length: what can be given out now, good until the next call. What may be the beginning
 * of a stop string is held back; of the string itself and what follows nothing is given. */
WEFT_API weft_status weft_stop_push(weft_stop *stop, const char *bytes, size_t length,
                                    const char **out, size_t *out_length, weft_error *err);

/* Which string ended the text, or -1. */
WEFT_API int weft_stop_hit(const weft_stop *stop);

/* At the end of the text: what was held back. Then it is as new, for another text. Either place may be
 * NULL. */
WEFT_API void weft_stop_flush(weft_stop *stop, const char **out, size_t *out_length);

/* ---- beam search: the most likely texts ------------------------------------------------------ */

#define WEFT_MAX_BEAM 256
#define WEFT_MAX_END  256

/* When does a search end that has found n_beam texts? The score of a text that goes on can only be
 * guessed: as if it ended here, or (NEVER, where longer texts gain) as long as it may become. */
typedef enum weft_beam_stop {
    WEFT_BEAM_STOP_GUESS, /* when no live text would be better than the worst found, if it ended here */
    WEFT_BEAM_STOP_FULL,  /* at once */
    WEFT_BEAM_STOP_NEVER, /* when no live text can become better than the worst found */
} weft_beam_stop;

typedef struct weft_beam_options {
    size_t struct_size;
    int n_beam;            /* texts that are followed; 0: 4 */
    int n_best;            /* texts that are given, at most n_beam; 0: 1 */
    int64_t n_new;         /* most tokens of a text; 0: what the context has room for */
    double length_penalty; /* scores are sum(log p) / length^this; 0: the sum; -10 to 10 */
    weft_beam_stop stop;
    const int32_t *ends; /* [n_end] tokens that end a text; NULL: those of the model */
    int n_end;
    const int32_t *source; /* [n_source] what an encoder-decoder reads; all beams share it */
    int64_t n_source;
} weft_beam_options;

typedef struct weft_beam {
    const int32_t *ids; /* behind the prompt, with the token that ended it */
    int64_t n;
    double score;
    bool ended; /* by such a token, not by n_new */
} weft_beam;

typedef struct weft_beams {
    int n;
    const weft_beam *beam; /* best first */
} weft_beams;

/* Texts and scores are those of transformers' generate(num_beams=n_beam, do_sample=False). All live
 * texts share the pages of what they have in common and go through one forward a step; the engine
 * needs cache for n_beam sessions that part behind the prompt. NULL with err filled on failure. */
WEFT_API weft_beams *weft_beam_search(weft_engine *engine, const int32_t *ids, int64_t n,
                                      const weft_beam_options *options, weft_error *err);
WEFT_API void weft_beams_free(weft_beams *beams);

/* ---- evaluation: how well a model foretells texts -------------------------------------------- */

typedef struct weft_document {
    const int32_t *ids;
    int64_t n;
} weft_document;

typedef struct weft_evaluation {
    size_t struct_size;
    int64_t n_token;   /* tokens scored: all but the first of each document */
    int64_t n_total;   /* as many there are to score */
    bool stopped;      /* by the caller, before all were */
    double nll;        /* mean of -log p(token), in nats */
    double perplexity; /* exp(nll) */
    double against_nll, against_perplexity;
    double kl_mean, kl_max; /* of KL(against || model) over the tokens */
    double kl_p99;          /* 99 of 100 tokens have no more; 0 in what progress is told */
    double same_top;        /* share of tokens where both hold the same one most likely */
} weft_evaluation;

/* Called after every forward, so that a caller can show how far it is; false stops. */
typedef bool weft_evaluate_fn(void *ud, const weft_evaluation *so_far);

typedef struct weft_evaluate_options {
    size_t struct_size;
    int threads;          /* 0: one per processor of this process */
    int n_batch;          /* most rows in one forward; 0: 256 */
    int64_t n_ctx;        /* tokens of a window; 0: the model's own, at most 4096 */
    int64_t stride;       /* from the start of a window to that of the next; 0: half of n_ctx */
    weft_kv_type kv_type; /* default f32: the model is measured, not its cache */
    weft_evaluate_fn *progress; /* or NULL */
    void *progress_ud;
    weft_kv_type against_kv_type; /* of `against`; default: as kv_type */
} weft_evaluate_options;

/* Scores a model on documents and, unless `against` is NULL, compares it with another model of the
 * same vocabulary on the same tokens: the one it was made from, when it is a quantised one. A
 * document that is longer than a window is read in windows that overlap; every token is scored in
 * the first window that reaches it. Logits are made in parts and never kept. The result depends on
 * models, documents, n_ctx, stride and kv_type, never on threads or n_batch. A caller that stops
 * gets what there is so far, with WEFT_OK. A model may be compared with itself, with keys and values
 * in another format. */
WEFT_API weft_status weft_evaluate(weft_model *model, weft_model *against,
                                   const weft_document *documents, int64_t n_document,
                                   const weft_evaluate_options *options, weft_evaluation *result,
                                   weft_error *err);

/* ---- training -------------------------------------------------------------------------------- */

typedef enum weft_schedule {
    WEFT_SCHEDULE_COSINE,
    WEFT_SCHEDULE_LINEAR,
    WEFT_SCHEDULE_CONSTANT,
    WEFT_SCHEDULE_WSD,          /* constant, and linear at the end */
    WEFT_SCHEDULE_INVERSE_SQRT, /* the square root of n_warmup / step, as in 2017 */
} weft_schedule;

/* By name: ids by what the file begins with, JSONL by .jsonl, TSV by .tsv, all others are text. TSV: a
 * source, a tab and a target on each line. RAW16: ids of two
 * bytes and nothing else, as nanoGPT writes them.
 *
 * For a model that reads texts as wholes, tables have labels: TSV, CSV (by .csv), and JSONL with
 * "text", "label" and perhaps "text_pair". */
typedef enum weft_data_kind {
    WEFT_DATA_BY_NAME,
    WEFT_DATA_TEXT,
    WEFT_DATA_JSONL,
    WEFT_DATA_IDS,
    WEFT_DATA_RAW16,
    WEFT_DATA_TSV,
    WEFT_DATA_CSV,
} weft_data_kind;

/* Before the first step, and after every one. Numbers that there are none of are NaN. */
typedef struct weft_train_progress {
    size_t struct_size;
    int64_t step, n_step;
    double loss; /* of the step, and a mean of the last ones: */
    double smoothed;
    double lr, grad_norm;
    double val_loss; /* where this step was followed by an evaluation */
    double best_val_loss;
    int64_t best_step;
    int64_t n_token; /* learned from so far, those of this run and of the ones it goes on from */
    double tokens_per_second;
    double share;        /* of the speed at which this machine multiplies matrices in f32 */
    double seconds_left; /* before the first step: a prediction */
    bool skipped;        /* numbers were not finite: nothing was learned from this step */
    int64_t n_skipped;
    bool saved;          /* a checkpoint was written */
    size_t bytes;        /* memory taken at most so far: nearly all of it before the first step */
    double val_accuracy; /* beside val_loss: the share that is right, where labels are learned */
    double expert_least; /* rows an expert got, over the mean of its layer: the least of all, */
    double expert_most;  /* and the most; not numbers without experts */
} weft_train_progress;

/* The model may be run meanwhile, for a sample of what it writes by now; what is made from it must
 * be freed before the function returns. False: stop, with a checkpoint. */
typedef bool weft_train_fn(void *ud, const weft_train_progress *progress, weft_model *model);

/* Called after each evaluation, unless progress returned false. Returns a text that the model generates,
 * for metrics.jsonl, and its length in bytes; or NULL. The text must stay valid until the next call. */
typedef const char *weft_sample_fn(void *ud, weft_model *model, size_t *length);

/* Asked ten times a second or more often while a run has no progress to tell: false stops. */
typedef bool weft_wait_fn(void *ud);

/* What an encoder-decoder learns. By data: pairs where documents have two parts (TSV, or JSONL with
 * prompt and completion); otherwise spans where the vocabulary has <extra_id_0>, and infilling where
 * it has <mask>. */
typedef enum weft_objective {
    WEFT_OBJECTIVE_BY_DATA,
    WEFT_OBJECTIVE_PAIRS,  /* the second part, from the first */
    WEFT_OBJECTIVE_SPANS,  /* T5: spans that are cut out of the text */
    WEFT_OBJECTIVE_INFILL, /* BART: the text, from one in which spans are masked */
} weft_objective;

/* How a new model tells its rows apart. Only a gpt2 has the choice; others have what their family has. */
typedef enum weft_positions {
    WEFT_POSITIONS_OF_ARCH, /* a gpt2's are learned */
    WEFT_POSITIONS_LEARNED, /* a vector for each, added to the embedding */
    WEFT_POSITIONS_ROTARY,  /* queries and keys are rotated (RoPE) */
} weft_positions;

typedef struct weft_train_options {
    size_t struct_size;
    const char *out;    /* the run's directory: checkpoints, metrics.jsonl, and a model that others
                           load */
    bool resume;        /* go on from its newest checkpoint, if there is one */
    const char *model;  /* to go on from: a Hugging Face directory or a GGUF file of floats. NULL: a
                          new one, of this shape: */
    const char *preset; /* "tiny", "mini", "small" or "base"; NULL: tiny */
    const char *arch;   /* "llama", "gpt2" ...; sizes: 0 is the preset's */
    int64_t n_layer, d_model, n_head, n_head_kv, d_ff;
    int tied;              /* the head shares the embedding: 1, 0; -1: as the preset has it */
    const char *tokenizer; /* NULL: the model's; for a new one it is made from the data: */
    bool characters;       /* every character of the data a token; otherwise byte-level BPE of */
    int32_t n_vocab;       /* ... so many tokens, at most */

    const char *const *data;
    int n_data;
    weft_data_kind data_kind;
    const char *separator; /* of documents in text; "": empty lines; NULL: a file is a document */
    bool parse_special;
    double validation; /* share of the data that is kept apart */
    int64_t n_ctx;     /* tokens of a sample; 0: the model's, at most 1024 */
    int n_sample;      /* samples that are computed at once, */
    int n_part;        /* and how often, for a step */

    int64_t n_step;
    weft_schedule schedule;
    double lr;        /* < 0: 1e-3 for a new model, 1e-4 for one that has learned */
    double lr_min;    /* < 0: a tenth of lr */
    int64_t n_warmup; /* steps; < 0: a tenth of them, 100 at most */
    int64_t n_decay;  /* of WEFT_SCHEDULE_WSD; < 0: a fifth of the steps */
    double beta1, beta2, eps, weight_decay;
    double clip; /* largest norm of all gradients; 0: no limit */
    double dropout, smoothing;
    bool bf16;                 /* products in bf16, sums and weights in f32 */
    bool recompute;            /* less memory, a third more work */
    const char *const *frozen; /* patterns of names of weights that stay as they are: "blk.0.*" */
    int n_frozen;

    uint64_t seed;
    int64_t eval_every, save_every; /* steps; 0: at the end only */
    int keep;                       /* newest checkpoints, beside the best; 0: all */
    int patience;    /* evaluations in a row without a better loss after which it ends; 0: none */
    int max_skipped; /* steps in a row without finite numbers, after which it is an error */

    int threads;    /* 0: one per processor of this process */
    size_t ram_max; /* cap on memory; 0: none */
    weft_load load;
    weft_train_fn *progress;
    void *progress_ud;
    weft_log_fn *log;
    void *log_ud;
    weft_progress_fn *reading; /* of the data, in bytes, before progress begins; or NULL */
    void *reading_ud;

    /* Of models that see. Their data is a directory with one of PNG and JPEG files for each class,
     * or IDX files: one of pictures, one of labels, and so on. */
    int64_t image_size; /* side of the pictures of a new model; 0: that of IDX, 224 */
    int64_t patch_size; /* of its patches; 0: a seventh of the side, at most 16 */
    int64_t shift;      /* pixels by which pictures are moved at most while they are learned from */

    weft_objective objective; /* of an encoder-decoder */

    /* Where texts have labels, a model that reads them as wholes learns to classify. One that has no
     * such head gets a new one. */
    const char
        *columns; /* of tables: "label,text,text" ("text,label"); "pair" is a second text, and
                            "-" is passed over */
    const char *validation_data; /* a file that is kept apart, instead of a share; or NULL */
    weft_budget *budget;         /* counted there too, or NULL */
    weft_wait_fn *waiting; /* while a new model is written, and before the first step; or NULL */
    void *waiting_ud;
    weft_positions positions; /* of a new model */
    weft_sample_fn *sample;   /* or NULL */
    void *sample_ud;
    int n_group; /* groups that a step's samples are cut into: a power of two up to 1024; 0: 1. The
                    gradients of groups are summed by a binary tree, so the result depends on n_group
                    and not on who computes a group */
} weft_train_options;

/* What is sensible for a small model; struct_size is set, and should be sizeof(weft_train_options). */
WEFT_API void weft_train_defaults(weft_train_options *options, size_t struct_size);

typedef struct weft_train_info {
    size_t struct_size;
    int64_t step;      /* steps taken in all, */
    int64_t from_step; /* the first of which an earlier run had taken */
    int64_t n_parameter;
    double loss, smoothed, val_loss, best_val_loss;
    int64_t best_step, n_skipped, n_token;
    bool stopped;        /* by the caller, before all were taken */
    double seconds;      /* predicted before the first step */
    size_t bytes_peak;   /* memory taken at most */
    double val_accuracy; /* the last; NaN: there was none */
    int64_t n_line_lost; /* lines of metrics.jsonl that could not be written; the log says why */
} weft_train_info;

/* Trains until there are n_step steps, or a caller or a validation loss that gets no better ends it;
 * the run's directory then has a checkpoint of the last one. The same options on the same processor
 * give the same bits, whatever the number of threads, and however often a run was stopped and gone
 * on with. info may be NULL. */
WEFT_API weft_status weft_train(const weft_train_options *options, weft_train_info *info,
                                weft_error *err);

/* How many texts with labels a model knows that classifies; of the options those count that speak of
 * data. Texts that are too long for it lose their end, as in training. */
WEFT_API weft_status weft_text_score(weft_model *model, const weft_tokenizer *tokenizer,
                                     const weft_train_options *data, weft_score *score,
                                     weft_error *err);

/* ---- data of a run, before it begins --------------------------------------------------------- */

typedef struct weft_data weft_data;

/* The data as weft_train would read them with these options, of which only those that speak of data,
 * tokenizer and shape matter. Nothing is written. */
WEFT_API weft_data *weft_data_open(const weft_train_options *options, weft_error *err);
WEFT_API void weft_data_close(weft_data *data);

typedef struct weft_data_counts {
    int64_t n_sample;    /* different ones */
    int64_t n_document;  /* of windows: those of all data */
    int64_t n_cut;       /* documents that go on in another sequence */
    int64_t n_truncated; /* documents with a prompt that lose their end */
    int64_t n_skipped; /* documents that are left out, because there is nothing to learn in them */
    int64_t n_row;     /* tokens that are read, */
    int64_t n_target;  /* those that are learned, */
    int64_t n_end;     /* and of these the ends of texts */
} weft_data_counts;

typedef struct weft_data_info {
    size_t struct_size;
    bool windows; /* samples are windows of one stream, otherwise they are packed with documents */
    int64_t n_ctx;
    int32_t n_vocab, end_id; /* -1: no token ends a text */
    int64_t n_token, n_document;
    int64_t n_empty;      /* documents without text, left out */
    int64_t n_prompt;     /* documents with a part that is only read; */
    int64_t n_straddling; /* those of them in which one token is part of both */
    weft_data_counts train, validation;
    size_t bytes;             /* memory that is taken */
    int64_t n_label;          /* of texts that have labels; 0: they have none */
    int64_t n_image, n_class; /* instead of texts; their size, or 0 where they are of any: */
    int64_t height, width;
} weft_data_info;

WEFT_API void weft_data_get_info(const weft_data *data, weft_data_info *info);

/* A token of a sample, good during the call. */
typedef struct weft_data_token {
    size_t struct_size;
    int32_t sequence; /* within the sample: tokens of one do not see another */
    int32_t id;       /* -1: this is the label of the text before it */
    const char *text; /* not terminated; special tokens as they are spelled */
    size_t length;
    bool special;
    bool learned; /* it is a target; others are only read */
} weft_data_token;

typedef void weft_data_fn(void *ud, const weft_data_token *token);

/* The tokens of a sample for training, counted from 0 to 2^40 - 1, in the order that the seed gives. */
WEFT_API weft_status weft_data_show(weft_data *data, uint64_t seed, int64_t sample,
                                    weft_data_fn *fn, void *ud, weft_error *err);

/* All data as one file of ids, which weft_train reads without a tokenizer's work. */
WEFT_API weft_status weft_data_save(const weft_data *data, const char *path, weft_error *err);

/* ---- report: a run to look at ---------------------------------------------------------------- */

typedef struct weft_report_options {
    size_t struct_size;
    const char *title; /* NULL: the name of the run's directory */
    size_t ram_max;
    weft_budget *budget; /* counted there too, or NULL */
} weft_report_options;

typedef struct weft_report_info {
    size_t struct_size;
    int64_t step;     /* the last */
    int64_t n_point;  /* steps that are drawn */
    int64_t n_sample; /* texts that the model wrote meanwhile */
    uint64_t bytes;   /* of the page */
    char path[4096];
} weft_report_info;

/* Makes a page of RUN/metrics.jsonl: loss and validation, learning rate, norm of the gradients,
 * speed, samples. One HTML file that needs no other, nor a network or scripts. to: its path; NULL:
 * RUN/report.html. info may be NULL. */
WEFT_API weft_status weft_report(const char *run, const char *to,
                                 const weft_report_options *options, weft_report_info *info,
                                 weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
