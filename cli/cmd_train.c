/* weft train - trains a new model on text, labelled text or images, or fine-tunes one. */
#include "train_result.h"
#include "train_tensors.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNSET (-1) /* what the library's default stays in place of */

static const char *positional[1]; /* MODEL */
static const char *model, *lora, *out, *preset, *arch, *tokenizer, *separator;
static const char *norm, *act, *attention, *prompt = "\n", *save_ids, *columns, *validation_data,
                                           *template, *mpi;
static int schedule = 1, format, objective, positions; /* 0: by name, by data, by family */
static int sums = 1;
static text_list data, frozen;
static int64_t n_layer, d_model, n_head, n_head_kv, d_ff, n_vocab = UNSET;
static int64_t n_ctx, n_sample = UNSET, n_part = UNSET, n_group = UNSET, n_step = UNSET,
                      n_warmup = UNSET;
static int64_t n_decay = UNSET, seed = UNSET, eval_every = UNSET, save_every = UNSET, keep = UNSET;
static int64_t patience, max_skipped = UNSET, threads, sample_tokens = 100;
static double validation = UNSET, lr = UNSET, lr_min = UNSET, beta1 = UNSET, beta2 = UNSET;
static double weight_decay = UNSET, clip = UNSET, dropout, smoothing, dpo_beta, temperature = 0.8;
static double rank_limit;
static bool tied, untied, characters, parse_special, bf16, recompute, resume, no_mmap, check_data,
    json;
static int64_t show_data = 2, image_size, patch_size, shift, tensors_step;

/* Model, sizes and seed are not settings here: a value meant for running models would silently
 * change the training. */
static const option options[] = {
    { 'd', "data", OPT_LIST, &data, "PATH", 0, "training data; may be repeated" },
    { 'o', "out", OPT_TEXT, &out, "DIR", 0, "directory for checkpoints, metrics and the model" },
    { 0, "resume", OPT_FLAG, &resume, NULL, 0, "resume from the newest checkpoint in --out" },
    OPTION_HF,
    { 'm', "model", OPT_TEXT, &model, "PATH", 0, "fine-tune this model (none: train a new one)" },
    { 0, "lora", OPT_TEXT, &lora, "SPEC", 0,
      "train an adapter of MODEL: r=16,alpha=32,targets=..." },
    { 0, "preset", OPT_TEXT, &preset, "NAME", 0,
      "size of a new model: tiny, mini, small, base (tiny)" },
    { 0, "arch", OPT_TEXT, &arch, "NAME", RARE,
      "architecture: gpt2, t5, bert, vit, ... (the preset's)" },
    { 0, "positions", OPT_CHOICE, &positions, "learned|rope|sinusoidal|none", RARE,
      "position encoding of a new gpt2 (learned)" },
    { 0, "norm", OPT_TEXT, &norm, "NAME", RARE,
      "norms of a new gpt2: pre, post, pre-rms, post-rms (pre)" },
    { 0, "act", OPT_TEXT, &act, "gelu-tanh|gelu|relu|silu|swiglu|geglu", RARE,
      "activation of a new gpt2 (gelu-tanh)" },
    { 0, "attention", OPT_TEXT, &attention, "mha|gqa:HEADS|mqa|mla|mla:WIDTH", RARE,
      "attention of a new gpt2; llama takes all but mla (mha)" },
    { 0, "objective", OPT_CHOICE, &objective, "pairs|spans|infill", RARE,
      "objective of an encoder-decoder (by the data)" },
    { 0, "layers", OPT_INT, &n_layer, "N", RARE, "number of layers (the preset's)" },
    { 0, "width", OPT_INT, &d_model, "N", RARE, "model dimension (the preset's)" },
    { 0, "heads", OPT_INT, &n_head, "N", RARE, "attention heads (the preset's)" },
    { 0, "kv-heads", OPT_INT, &n_head_kv, "N", RARE, "KV heads (as many as heads)" },
    { 0, "hidden", OPT_INT, &d_ff, "N", RARE, "feed-forward dimension (the preset's)" },
    { 0, "image-size", OPT_INT, &image_size, "N", RARE,
      "side of images in pixels (as in IDX files; 224)" },
    { 0, "patch-size", OPT_INT, &patch_size, "N", RARE,
      "side of patches (a seventh of the image, at most 16)" },
    { 0, "shift", OPT_INT, &shift, "N", RARE, "augmentation: random shift of up to N pixels (0)" },
    { 0, "tied", OPT_FLAG, &tied, NULL, RARE, "share the output matrix with the embedding" },
    { 0, "untied", OPT_FLAG, &untied, NULL, RARE, "use a separate output matrix" },
    { 0, "tokenizer", OPT_TEXT, &tokenizer, "PATH", RARE,
      "use this tokenizer (trained on the data)" },
    { 0, "characters", OPT_FLAG, &characters, NULL, RARE,
      "one token per character (off: byte-level BPE)" },
    { 'v', "vocab-size", OPT_INT, &n_vocab, "N", RARE,
      "maximum vocabulary of a new tokenizer (4096)" },
    { 0, "format", OPT_CHOICE, &format, "text|jsonl|ids|raw16|tsv|csv", RARE,
      "format of the data (by file name)" },
    { 0, "columns", OPT_TEXT, &columns, "NAMES", RARE,
      "columns of a table: text, pair, label, - (text,label)" },
    { 0, "template", OPT_TEXT, &template, "FILE", RARE,
      "chat template of conversations (the model's)" },
    { 0, "separator", OPT_TEXT, &separator, "TEXT", RARE,
      "separates documents; \"\": empty lines (one per file)" },
    { 0, "parse-special", OPT_FLAG, &parse_special, NULL, RARE,
      "parse special tokens in the text" },
    { 0, "validation", OPT_REAL, &validation, "SHARE", RARE,
      "share of the data used for validation (0.1)" },
    { 0, "validation-data", OPT_TEXT, &validation_data, "FILE", RARE,
      "validation data, instead of a share" },
    { 0, "check-data", OPT_FLAG, &check_data, NULL, 0,
      "do not train: count the data and show samples" },
    { 0, "show", OPT_INT, &show_data, "N", RARE, "samples shown by --check-data (2)" },
    { 0, "save-ids", OPT_TEXT, &save_ids, "FILE", RARE,
      "do not train: write the data as token ids" },
    { 'c', "ctx-size", OPT_INT, &n_ctx, "N", 0, "sequence length (the model's, up to 1024)" },
    { 'b', "batch-size", OPT_INT, &n_sample, "N", 0, "sequences per batch (12)" },
    { 0, "accumulate", OPT_INT, &n_part, "N", RARE, "gradient accumulation: batches per step (1)" },
    { 0, "groups", OPT_INT, &n_group, "N", RARE,
      "groups of sequences, summed as a tree; a power of 2 (1)" },
    { 'n', "steps", OPT_INT, &n_step, "N", 0, "number of optimizer steps (2000)" },
    { 0, "schedule", OPT_CHOICE, &schedule, "cosine|linear|constant|wsd|inverse-sqrt", RARE,
      "learning rate schedule (cosine)" },
    { 0, "lr", OPT_REAL, &lr, "X", 0, "learning rate (1e-3; fine-tuning: 1e-4; --lora: 2e-4)" },
    { 0, "min-lr", OPT_REAL, &lr_min, "X", RARE, "final learning rate (a tenth of --lr)" },
    { 0, "warmup", OPT_INT, &n_warmup, "N", RARE, "warm-up steps (a tenth of all, at most 100)" },
    { 0, "decay-steps", OPT_INT, &n_decay, "N", RARE, "decay steps of wsd (a fifth of all)" },
    { 0, "beta1", OPT_REAL, &beta1, "X", RARE, "AdamW beta1 (0.9)" },
    { 0, "beta2", OPT_REAL, &beta2, "X", RARE, "AdamW beta2 (0.99)" },
    { 0, "weight-decay", OPT_REAL, &weight_decay, "X", RARE,
      "weight decay of matrices (0.1; --lora: 0)" },
    { 0, "clip", OPT_REAL, &clip, "X", RARE, "clip the gradient norm (1; 0: off)" },
    { 0, "dropout", OPT_REAL, &dropout, "X", RARE, "dropout probability (0)" },
    { 0, "label-smoothing", OPT_REAL, &smoothing, "X", RARE, "label smoothing (0)" },
    { 0, "dpo-beta", OPT_REAL, &dpo_beta, "X", RARE,
      "beta of chosen and rejected answers, with --lora (0.1)" },
    { 0, "bf16", OPT_FLAG, &bf16, NULL, RARE, "mixed precision: bf16 products, f32 weights" },
    { 0, "recompute", OPT_FLAG, &recompute, NULL, RARE,
      "recompute activations: less memory, a third more work" },
    { 0, "freeze", OPT_LIST, &frozen, "GLOB", RARE,
      "freeze matching weights: \"blk.0.*\"; may be repeated" },
    { 0, "seed", OPT_INT, &seed, "N", RARE, "random seed (1337)" },
    { 0, "eval-every", OPT_INT, &eval_every, "N", RARE,
      "steps between evaluations (250; 0: at the end)" },
    { 0, "save-every", OPT_INT, &save_every, "N", RARE,
      "steps between checkpoints (250; 0: at the end)" },
    { 0, "keep", OPT_INT, &keep, "N", RARE,
      "newest checkpoints to keep, plus the best (2; 0: all)" },
    { 0, "patience", OPT_INT, &patience, "N", RARE,
      "early stopping: N evaluations without gain (0: off)" },
    { 0, "max-skipped", OPT_INT, &max_skipped, "N", RARE,
      "stop after N non-finite steps in a row (10)" },
    { 'p', "prompt", OPT_TEXT, &prompt, "TEXT", RARE, "prompt of the samples (a line break)" },
    { 0, "sample", OPT_INT, &sample_tokens, "N", RARE,
      "tokens to sample at each evaluation (100; 0: none)" },
    { 0, "temp", OPT_REAL, &temperature, "T", RARE, "temperature of the samples; 0: greedy (0.8)" },
    { 0, "tensors", OPT_INT, &tensors_step, "STEP", RARE,
      "print each weight's gradient, m and v after this step" },
    { 0, "json", OPT_FLAG, &json, NULL, RARE, "print the result, and tensors, as JSON" },
    { 0, "mpi", OPT_TEXT, &mpi, "NAME", RARE,
      "openmpi, mpich, none or a module's path (by mpirun or srun)" },
    { 0, "reduce", OPT_CHOICE, &sums, "exact|fast", RARE,
      "sums over ranks: bits of one rank, or MPI's order (exact)" },
    { 0, "rank-limit", OPT_REAL, &rank_limit, "SECONDS", RARE,
      "a silent rank is lost after this (10 steps, at least 60)" },
    OPTION_THREADS(threads),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(no_mmap),
    { 0 },
};

static const char examples[] =
    "  weft train --data input.txt --out run\n"
    "  weft train --preset mini -d stories.txt --separator '<|endoftext|>' -o run\n"
    "  weft train model-directory --data notes.txt --lr 1e-5 -n 200 --out tuned\n"
    "  weft train model.gguf --lora r=16,alpha=32 --data chats.jsonl --out adapter\n"
    "  weft train bert-directory --data reviews.tsv --check-data\n";

static int train_main(void);

const command command_train = {
    .name = "train",
    .arguments = "[MODEL]",
    .summary = "train a model on text or images, or fine-tune one",
    .examples = examples,
    .options = options,
    .n_positional = 1,
    .positional = positional,
    .main = train_main,
};

/* ---- what is shown --------------------------------------------------------------------------- */

typedef struct show {
    bool begun;                /* progress has been told */
    weft_tokenizer *tokenizer; /* for samples; NULL: none are made */
    int threads;               /* for samples, as for training, */
    uint64_t seed;             /* and so is this */
    bool live;                 /* the line is written over and over */
    double shown;              /* when */
    double began;              /* the first step, */
    size_t bytes;              /* and the prediction before the run */
    char *sample;              /* the latest, with its length */
    size_t n_sample, room;
    train_tensors tensors; /* of the step of --tensors */
    weft_adapter *adapter; /* that is trained, or NULL */
} show;

/* On a terminal it is cut where it would not fit: a line that has wrapped cannot be written over.
 */
static void show_line(show *s, const weft_train_progress *p)
{
    char left[32], line[256], share[32] = "", load[48] = "";
    if (isfinite(p->share))
        snprintf(share, sizeof share, "  %.0f %% of peak", 100 * p->share);
    if (isfinite(p->expert_most))
        snprintf(load, sizeof load, "  experts %.2f to %.2f", p->expert_least, p->expert_most);
    if (isfinite(p->margin))
        snprintf(load, sizeof load, "  margin %.3f  right %.0f %%", p->margin, 100 * p->right);
    snprintf(line, sizeof line,
             "step %lld/%lld %s loss %.4f (%.4f)  %s left  %.0f tokens/s  lr %.2e  |g| %.2f%s%s",
             (long long)p->step, (long long)p->n_step, p->skipped ? " SKIPPED " : "", p->loss,
             p->smoothed, train_duration(p->seconds_left, left, sizeof left), p->tokens_per_second,
             p->lr, p->grad_norm, load, share);
    if (s->live)
        fprintf(stderr, "\r%.*s\x1b[K", cli_columns(stderr) - 1, line);
    else
        fprintf(stderr, "%s\n", line);
    s->shown = cli_now();
}

static void end_line(const show *s)
{
    if (s->live && s->shown > 0)
        fputc('\n', stderr);
}

/* ---- samples --------------------------------------------------------------------------------- */

static void add_piece(show *s, int32_t id)
{
    const int64_t n = weft_tokenizer_piece(s->tokenizer, id, s->sample + s->n_sample,
                                           s->room - s->n_sample);
    if (n > 0 && (size_t)n <= s->room - s->n_sample)
        s->n_sample += (size_t)n;
}

static bool add_text(void *ud, const weft_generated *token)
{
    show *s = ud;
    if (token->length <= s->room - s->n_sample) {
        memcpy(s->sample + s->n_sample, token->text, token->length);
        s->n_sample += token->length;
    }
    return !cli_interrupted();
}

/* The prompt is what the text begins with, or what an encoder reads. */
static bool give_prompt(weft_model *m, weft_session *session, const weft_tokens *k)
{
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(m, &info);
    if (!k || k->n == 0)
        return false;
    if (info.n_layer_src == 0)
        return weft_session_eval(session, k->ids, k->n, NULL) == WEFT_OK;
    return weft_session_source(session, k->ids, k->n, NULL) == WEFT_OK &&
           weft_session_eval(session, &info.start_id, 1, NULL) == WEFT_OK;
}

static void write_sample(show *s, weft_model *m, weft_session *session, weft_sampler *sampler)
{
    weft_tokens *k = weft_tokenizer_encode(s->tokenizer, prompt, strlen(prompt), NULL, NULL);
    const bool good = give_prompt(m, session, k);
    const weft_generate_options o = { .struct_size = sizeof o,
                                      .n_new = sample_tokens,
                                      .slide = true };
    for (int64_t i = 0; k && i < k->n; i++)
        add_piece(s, k->ids[i]);
    weft_tokens_free(k);
    if (good)
        weft_generate(session, sampler, s->tokenizer, &o, add_text, s, NULL, NULL);
}

/* What the model writes by now. A sample that cannot be made, for a context that is too short, is
 * no reason to stop. */
static const char *take_sample(void *ud, weft_model *m, size_t *length)
{
    show *s = ud;
    s->n_sample = 0;
    weft_adapter_info adapts = { .struct_size = sizeof adapts };
    weft_adapter_get_info(s->adapter, &adapts);
    const weft_engine_options o = { .struct_size = sizeof o,
                                    .threads = s->threads,
                                    .adapter_rank = adapts.rank };
    const weft_sampler_options draw = { .struct_size = sizeof draw,
                                        .temperature = temperature,
                                        .seed = s->seed };
    if (!s->tokenizer || sample_tokens == 0)
        return NULL;
    weft_engine *e = weft_engine_new(m, &o, NULL);
    weft_session *session = e ? weft_session_new(e, NULL) : NULL;
    weft_sampler *sampler = weft_sampler_new(m, &draw, NULL);
    const bool adapted = session && weft_session_adapt(session, s->adapter, 1, NULL) == WEFT_OK;
    if (adapted && sampler)
        write_sample(s, m, session, sampler);
    weft_sampler_free(sampler);
    weft_session_free(session);
    weft_engine_free(e);
    if (s->n_sample > 0)
        fprintf(stderr, "---\n%.*s\n---\n", (int)s->n_sample, s->sample);
    *length = s->n_sample;
    return s->sample;
}

/* ---- between steps --------------------------------------------------------------------------- */

static void load_tokenizer(show *s)
{
    const weft_tokenizer_options o = { .struct_size = sizeof o,
                                       .load = WEFT_LOAD_COPY,
                                       .budget = cli_budget() };
    s->tokenizer = weft_tokenizer_load(out, &o, NULL);
    if (!s->tokenizer && model)
        s->tokenizer = weft_tokenizer_load(model, &o, NULL);
}

static void begin(show *s, const weft_train_progress *p, const weft_model *m)
{
    char bytes[32], time[32], count[32], own[48] = "";
    weft_adapter_info adapts = { .struct_size = sizeof adapts };
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(m, &info);
    s->begun = true;
    load_tokenizer(s);
    weft_adapter_get_info(s->adapter, &adapts);
    if (s->adapter)
        snprintf(own, sizeof own, ", adapter of %s",
                 cli_count((double)adapts.bytes / 4, count, sizeof count));
    fprintf(stderr, "weft: %s of %s parameters%s; %s of memory, about %s for %lld steps\n",
            info.architecture, cli_count((double)info.n_parameter, count, sizeof count), own,
            cli_bytes(p->bytes, bytes, sizeof bytes),
            train_duration(p->seconds_left, time, sizeof time), (long long)(p->n_step - p->step));
    if (!run_options_write(&command_train, out))
        fprintf(stderr, "weft: %s/options: %s; --resume will need all options again\n", out,
                strerror(errno));
    s->began = cli_now();
    s->bytes = p->bytes;
    if (p->step > 0)
        fprintf(stderr, "weft: resuming from step %lld\n", (long long)p->step);
    if (isfinite(p->val_loss))
        fprintf(stderr, "step %lld  validation %.4f%s\n", (long long)p->step, p->val_loss,
                train_accuracy(p->val_accuracy, bytes, sizeof bytes));
}

static bool listen(void *ud, const weft_train_progress *p, weft_model *m)
{
    show *s = ud;
    cli_progress_end(); /* of reading */
    s->adapter = p->adapter;
    if (!s->begun)
        begin(s, p, m);
    char right[32];
    const bool first = isnan(p->lr), looked = isfinite(p->val_loss) && !first;
    const double since = cli_now() - s->shown;
    if (!first && (looked || p->skipped || p->step == p->n_step || since > (s->live ? 0.1 : 5)))
        show_line(s, p);
    if (looked) {
        end_line(s);
        fprintf(stderr, "step %lld  validation %.4f%s (best %.4f at step %lld)\n",
                (long long)p->step, p->val_loss,
                train_accuracy(p->val_accuracy, right, sizeof right), p->best_val_loss,
                (long long)p->best_step);
    }
    if (s->tensors.n > 0 && !s->tensors.printed) {
        if (!looked)
            end_line(s);
        train_tensors_print(&s->tensors, json);
    }
    return !cli_interrupted();
}

/* ---- the command ----------------------------------------------------------------------------- */

static void over_int(int *to, int64_t from)
{
    if (from != UNSET)
        *to = from > INT_MAX ? INT_MAX : from < INT_MIN ? INT_MIN : (int)from;
}

static void over_long(int64_t *to, int64_t from)
{
    if (from != UNSET)
        *to = from;
}

static void over_real(double *to, double from)
{
    if (from != UNSET)
        *to = from;
}

static void fill(weft_train_options *o)
{
    o->out = out;
    o->resume = resume;
    o->model = model;
    o->lora = lora;
    o->preset = preset;
    o->arch = arch;
    o->n_layer = n_layer;
    o->d_model = d_model;
    o->n_head = n_head;
    o->n_head_kv = n_head_kv;
    o->d_ff = d_ff;
    o->tied = tied ? 1 : untied ? 0 : -1;
    o->tokenizer = tokenizer;
    o->characters = characters;
    o->data = data.at;
    o->n_data = data.n;
    o->data_kind = (weft_data_kind)format;
    o->separator = separator;
    o->parse_special = parse_special;
    o->columns = columns;
    o->chat_template = template;
    o->validation_data = validation_data;
    o->n_ctx = n_ctx;
    o->image_size = image_size;
    o->patch_size = patch_size;
    o->shift = shift;
    o->schedule = (weft_schedule)(schedule - 1);
    o->objective = (weft_objective)objective;
    o->positions = (weft_positions)positions;
    o->norm = norm;
    o->act = act;
    o->attention = attention;
    o->dropout = dropout;
    o->smoothing = smoothing;
    o->dpo_beta = dpo_beta;
    o->bf16 = bf16;
    o->recompute = recompute;
    o->mpi = mpi;
    o->reduce_fast = sums == 2;
    o->rank_limit = rank_limit;
    o->frozen = frozen.at;
    o->n_frozen = frozen.n;
    o->budget = cli_budget();
    o->load = no_mmap ? WEFT_LOAD_COPY : WEFT_LOAD_MAP;
    o->log = cli_log;
}

/* What has a default of its own in the library. */
static void fill_over(weft_train_options *o)
{
    over_int(&o->n_vocab, n_vocab);
    over_int(&o->n_sample, n_sample);
    over_int(&o->n_part, n_part);
    over_int(&o->n_group, n_group);
    over_int(&o->keep, keep);
    over_int(&o->patience, patience);
    over_int(&o->max_skipped, max_skipped);
    over_long(&o->n_step, n_step);
    over_long(&o->n_warmup, n_warmup);
    over_long(&o->n_decay, n_decay);
    over_long(&o->eval_every, eval_every);
    over_long(&o->save_every, save_every);
    over_real(&o->validation, validation);
    over_real(&o->lr, lr);
    over_real(&o->lr_min, lr_min);
    over_real(&o->beta1, beta1);
    over_real(&o->beta2, beta2);
    over_real(&o->weight_decay, weight_decay);
    over_real(&o->clip, clip);
    if (seed != UNSET)
        o->seed = (uint64_t)seed;
}

static void show_ranks(const weft_train_info *i)
{
    char bytes[32];
    const double all = i->reduce_hidden + i->reduce_exposed;
    if (i->n_rank > 1)
        fprintf(stderr,
                "weft: %d ranks; rank 0 sent %s; exchanges took %.1f s, %.0f %% of it hidden by "
                "backward\n",
                i->n_rank, cli_bytes((size_t)i->bytes_sent, bytes, sizeof bytes), all,
                all > 0 ? 100 * i->reduce_hidden / all : 0);
}

static int finish(const weft_train_info *i, const show *s)
{
    const train_run r = { out, s->bytes, cli_now() - s->began };
    show_ranks(i);
    train_result_print(i, &r, json);
    if (s->tensors.no_memory)
        return cli_no_memory();
    if (tensors_step > 0 && !s->tensors.printed && !i->stopped) {
        fprintf(stderr, "weft: --tensors: step %lld was %s\n", (long long)tensors_step,
                tensors_step <= i->from_step ? "taken before this run was resumed"
                : tensors_step > i->step     ? "not reached"
                                             : "skipped");
        return 1;
    }
    if (!i->stopped)
        return 0;
    fprintf(stderr, "weft: stopped at step %lld; to resume: weft train --out %s --resume\n",
            (long long)i->step, out);
    return cli_interrupted() ? cli_stopped() : 1;
}

static int run(weft_train_options *o)
{
    weft_error err = { 0 };
    weft_train_info info = { .struct_size = sizeof info };
    show s = { .threads = o->threads, .seed = o->seed, .live = isatty(STDERR_FILENO) };
    s.room = (size_t)sample_tokens * 64 + 4 * strlen(prompt) + 64;
    s.sample = cli_alloc(s.room, 1, "a sample");
    if (!s.sample)
        return cli_no_memory();
    o->progress = listen;
    o->progress_ud = &s;
    o->sample = take_sample;
    o->sample_ud = &s;
    if (tensors_step > 0) {
        s.tensors.step = tensors_step;
        o->tensor = train_tensors_add;
        o->tensor_ud = &s.tensors;
    }
    const weft_status status = weft_train(o, &info, &err);
    cli_progress_end();
    end_line(&s);
    int code;
    if (info.rank > 0) /* rank 0 has said it */
        code = status == WEFT_OK ? 0 : 1;
    else
        code = status != WEFT_OK ? cli_fail(&err) : finish(&info, &s);
    code = code ? code : info.n_line_lost > 0; /* a warning said so */
    weft_tokenizer_free(s.tokenizer);
    cli_free(s.sample);
    cli_free(s.tensors.at);
    return code;
}

static bool show_reading(void *ud, uint64_t done, uint64_t total)
{
    (void)ud;
    cli_progress_set(done, total);
    return !cli_interrupted();
}

static bool go_on(void *ud)
{
    (void)ud;
    return !cli_interrupted();
}

static int check(const command *c)
{
    if (resume && out && run_options_read(c, out))
        return 1;
    if (data.n == 0)
        return cli_usage(c, "no data; give --data PATH");
    if (!out && !check_data && !save_ids)
        return cli_usage(c, "no output; give a directory: --out RUN");
    if (json && (check_data || save_ids))
        return cli_usage(c, "--json is for training; --check-data and --save-ids print text");
    if (tied && untied)
        return cli_usage(c, "--tied and --untied exclude each other");
    if (show_data < 0)
        return cli_usage(c, "--show: %lld is below 0", (long long)show_data);
    if (sample_tokens < 0 || sample_tokens > 1 << 20)
        return cli_usage(c, "--sample: %lld is out of range", (long long)sample_tokens);
    if (!(temperature >= 0))
        return cli_usage(c, "--temp: %g is below 0", temperature);
    if (model && (preset || arch || n_layer || d_model || n_head || n_head_kv || d_ff))
        return cli_usage(c, "%s: the model's size is fixed; --preset and sizes are for new models",
                         model);
    return 0;
}

static int train_main(void)
{
    const command *c = &command_train;
    weft_train_options o;
    weft_train_defaults(&o, sizeof o);
    if (positional[0])
        option_give(option_named(c, "model", 5), positional[0]);
    weft_error err = { 0 };
    int code = check(c);
    if (!code)
        code = cli_threads(c, threads, &o.threads);
    if (!code && model && !(model = cli_model_path(model, &err)))
        code = cli_fail(&err);
    if (code)
        return code;
    if (seed == UNSET) { /* so that the run remembers which */
        char usual[32];
        snprintf(usual, sizeof usual, "%llu", (unsigned long long)o.seed);
        option_keep(option_named(c, "seed", 4), usual);
    }
    fill(&o);
    fill_over(&o);
    if (tensors_step < 0 || tensors_step > o.n_step)
        return cli_usage(c, "--tensors: %lld is not in 1 to %lld, the run's steps",
                         (long long)tensors_step, (long long)o.n_step);
    o.reading = show_reading;
    o.waiting = go_on;
    cli_catch_interrupt();
    signal(SIGPIPE, SIG_IGN); /* hours of training do not end with the terminal or `| head` */
    cli_progress_begin("reading", NULL);
    code = check_data || save_ids ? cli_check_data(&o, check_data ? show_data : 0, save_ids)
                                  : run(&o);
    return code != 0 && cli_interrupted() ? cli_stopped() : code;
}
