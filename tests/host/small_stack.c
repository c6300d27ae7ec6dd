/* small_stack.c [KIB] - runs every part of the library on threads with a stack of 64 KiB and
 * measures its use: the stack is filled with a pattern before and inspected after.
 *
 * weft.h states the figure. Not built with sanitizers, whose frames are larger. */
#include "say.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATTERN 0xA5

static size_t stack_bytes = (size_t)64 << 10;

static char place[256]; /* where files are written */

static const char *in_place(const char *name)
{
    static char path[4][512];
    static int at;
    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%s/%s", place, name);
    return path[at];
}

/* ---- what is done ---------------------------------------------------------------------------- */

typedef weft_status action_fn(const char *path, weft_error *err);

static const int32_t ids[] = { 3, 8, 13, 18, 23, 28, 33, 38, 43, 48 };

/* Prefill and decode with two threads, sampling with every step, forks, a session on disk. */
static weft_status generate(const char *path, weft_error *err)
{
    const weft_engine_options o = {
        .struct_size = sizeof o, .threads = 2, .n_session = 4, .n_ctx = 29
    };
    const weft_sampler_options s = { .struct_size = sizeof s,
                                     .temperature = 1,
                                     .top_k = 30,
                                     .top_p = 0.95,
                                     .min_p = 0.01,
                                     .typical = 0.9,
                                     .repetition = 1.1,
                                     .dry_multiplier = 0.5 };
    weft_model_info info = { .struct_size = sizeof info };
    weft_model *m = weft_model_open(path, NULL, err);
    weft_engine *e = m ? weft_engine_new(m, &o, err) : NULL;
    weft_session *one = e ? weft_session_new(e, err) : NULL;
    weft_sampler *sampler = one ? weft_sampler_new(m, &s, err) : NULL;
    weft_status status = sampler ? WEFT_OK : err->code;
    weft_model_get_info(m, &info);
    if (status == WEFT_OK && info.n_layer_src > 0)
        status = weft_session_source(one, ids, 4, err);
    for (int i = 0; i < 4 && status == WEFT_OK; i++) {
        int32_t next = ids[i];
        status = i == 0 ? weft_session_eval(one, ids, 10, err)
                        : weft_sampler_next(sampler, one, &next, err);
        if (status == WEFT_OK && i > 0)
            status = weft_session_eval(one, &next, 1, err);
    }
    weft_session *two = status == WEFT_OK ? weft_session_fork(one, err) : NULL;
    if (two && info.n_layer_src == 0 &&
        weft_session_save(two, in_place("session"), err) == WEFT_OK) {
        weft_session_free(two);
        two = weft_session_restore(e, in_place("session"), err);
    }
    status = two ? WEFT_OK : err->code;
    const weft_beam_options b = { .struct_size = sizeof b,
                                  .n_beam = 3,
                                  .n_new = 4,
                                  .source = info.n_layer_src > 0 ? ids : NULL,
                                  .n_source = info.n_layer_src > 0 ? 4 : 0 };
    weft_session_free(two);
    weft_session_free(one);
    weft_beams *beams = status == WEFT_OK ? weft_beam_search(e, ids, 3, &b, err) : NULL;
    status = beams ? WEFT_OK : err->code;
    weft_beams_free(beams);
    weft_sampler_free(sampler);
    weft_engine_free(e);
    weft_model_close(m);
    return status;
}

static weft_status measure(const char *path, weft_error *err)
{
    const weft_engine_options o = { .struct_size = sizeof o, .threads = 1 };
    const weft_document d = { ids, 10 };
    weft_evaluation result = { .struct_size = sizeof result };
    weft_speed speed = { .struct_size = sizeof speed };
    weft_model *m = weft_model_open(path, NULL, err);
    if (m && weft_evaluate(m, m, &d, 1, NULL, &result, err) == WEFT_OK)
        weft_engine_estimate(m, &o, &speed, err);
    weft_model_close(m);
    return err->code;
}

static weft_status encode(const char *path, weft_error *err)
{
    static float out[64 * 128];
    const weft_encoder_options o = { .struct_size = sizeof o, .threads = 2 };
    weft_model *m = weft_model_open(path, NULL, err);
    weft_encoder *e = m ? weft_encoder_new(m, &o, err) : NULL;
    const weft_input in = { .ids = ids, .n = 10, .out = out };
    if (e)
        weft_encoder_eval(e, &in, 1, err);
    weft_encoder_free(e);
    weft_model_close(m);
    return err->code;
}

static weft_status see(const char *path, weft_error *err)
{
    static float out[64 * 128];
    static const char *const files[] = { "images/photo.png", "images/photo.jpg",
                                         "images/photo-progressive.jpg",
                                         "images/rgb-interlaced.png" };
    weft_model *m = weft_model_open(path, NULL, err);
    weft_encoder *e = m ? weft_encoder_new(m, NULL, err) : NULL;
    for (size_t i = 0; e && err->code == WEFT_OK && i < sizeof files / sizeof *files; i++) {
        weft_image *im = weft_image_open(m, golden(files[i]), err);
        const weft_input in = { .features = im ? im->features : NULL,
                                .n = im ? im->n : 0,
                                .out = out };
        if (im)
            weft_encoder_eval(e, &in, 1, err);
        weft_image_free(im);
    }
    weft_encoder_free(e);
    weft_model_close(m);
    return err->code;
}

static weft_status convert(const char *path, weft_error *err)
{
    const weft_convert_options o = {
        .struct_size = sizeof o, .type = "q8_0", .force = true, .n_thread = 2
    };
    const weft_convert_options back = { .struct_size = sizeof back,
                                        .to = WEFT_FORMAT_HF,
                                        .force = true };
    if (weft_convert(path, in_place("q.gguf"), &o, NULL, err) == WEFT_OK)
        weft_convert(in_place("q.gguf"), in_place("hf"), &back, NULL, err);
    return err->code;
}

/* A pattern that PCRE2 compiles and runs; then BPE, and decoding. */
static weft_status learn_tokens(const char *path, weft_error *err)
{
    const char *to = in_place("tokenizer.json");
    const weft_tokenizer_train_options o = { .struct_size = sizeof o,
                                             .n_vocab = 400,
                                             .pattern = "(?:[a-m]+|[n-z]+)(?!x)|\\s+|\\S" };
    static char text[1 << 16];
    weft_tokenizer_train(&path, 1, to, &o, NULL, err);
    weft_tokenizer *t = err->code == WEFT_OK ? weft_tokenizer_load(to, NULL, err) : NULL;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "the cat sat on a mat\n"[i % 21];
    weft_tokens *k = t ? weft_tokenizer_encode(t, text, sizeof text, NULL, err) : NULL;
    weft_decoder *d = k ? weft_decoder_new(t, false, err) : NULL;
    for (int64_t i = 0; d && i < k->n && err->code == WEFT_OK; i++) {
        const char *bytes;
        size_t n;
        weft_decoder_push(d, k->ids[i], &bytes, &n, err);
    }
    weft_decoder_free(d);
    weft_tokens_free(k);
    weft_tokenizer_free(t);
    return err->code;
}

static weft_status learn(const char *path, weft_error *err)
{
    weft_train_options o;
    weft_train_defaults(&o, sizeof o);
    char out[512];
    snprintf(out, sizeof out, "%s", in_place("run"));
    o.out = out;
    o.data = &path;
    o.n_data = 1;
    o.n_layer = 1;
    o.d_model = 160; /* sums of more than one page of numbers */
    o.n_head = 2;
    o.n_ctx = 32;
    o.n_vocab = 280;
    o.n_sample = 2;
    o.n_step = 2;
    o.threads = 2;
    if (weft_train(&o, NULL, err) == WEFT_OK) {
        o.resume = true;
        o.n_step = 3;
        weft_train(&o, NULL, err);
    }
    weft_data *d = err->code == WEFT_OK ? weft_data_open(&o, err) : NULL;
    weft_data_close(d);
    return err->code;
}

/* ---- on a small stack ------------------------------------------------------------------------ */

typedef struct call {
    action_fn *fn;
    const char *path;
    weft_status status;
    weft_error err;
} call;

static void *call_main(void *ud)
{
    call *c = ud;
    c->status = c->fn(c->path, &c->err);
    return NULL;
}

/* Bytes of the stack that were used, from its upper end. */
static size_t touched(const unsigned char *stack)
{
    size_t free_bytes = 0;
    while (free_bytes < stack_bytes && stack[free_bytes] == PATTERN)
        free_bytes++;
    return stack_bytes - free_bytes;
}

static void on_small_stack(const char *what, action_fn *fn, const char *path)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char sentence[128];
    call c = { .fn = fn, .path = path };
    pthread_attr_t a;
    pthread_t thread;
    char *whole = mmap(NULL, stack_bytes + page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(whole != MAP_FAILED && mprotect(whole, page, PROT_NONE) == 0, "a small stack", NULL);
    unsigned char *stack = (unsigned char *)whole + page;
    memset(stack, PATTERN, stack_bytes);
    pthread_attr_init(&a);
    must(pthread_attr_setstack(&a, stack, stack_bytes) == 0, "a small stack for a thread", NULL);
    must(pthread_create(&thread, &a, call_main, &c) == 0, "a thread with a small stack", NULL);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&a);
    printf("%-34s %5.1f KiB of stack\n", what, (double)touched(stack) / 1024);
    snprintf(sentence, sizeof sentence, "a stack of 64 KiB is enough to %s", what);
    check(c.status == WEFT_OK, sentence, "%s", c.err.message);
    munmap(whole, stack_bytes + page);
}

/* A text to learn from. */
static const char *write_text(void)
{
    const char *path = in_place("text.txt");
    FILE *f = fopen(path, "w");
    must(f != NULL, "a text", NULL);
    for (int i = 0; i < 400; i++)
        fprintf(f, "the cat sat on mat %d, and a dog had it all.\n", i);
    fclose(f);
    return path;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        stack_bytes = strtoull(argv[1], NULL, 10) << 10;
    char remove[300];
    snprintf(place, sizeof place, "/tmp/weft-small-stack-XXXXXX");
    must(mkdtemp(place) != NULL, "a directory", NULL);
    char text[512], quantised[512];
    snprintf(text, sizeof text, "%s", write_text());
    snprintf(quantised, sizeof quantised, "%s", in_place("q.gguf"));
    on_small_stack("generate (llama)", generate, golden("llama-gqa"));
    on_small_stack("generate (gpt2)", generate, golden("gpt2"));
    on_small_stack("generate (deepseek)", generate, golden("deepseek-v3"));
    on_small_stack("generate (t5)", generate, golden("t5"));
    on_small_stack("generate (bart)", generate, golden("bart"));
    on_small_stack("generate (bahdanau)", generate, golden("bahdanau"));
    on_small_stack("convert", convert, golden("llama-gqa"));
    on_small_stack("generate (q8_0)", generate, quantised);
    on_small_stack("evaluate and estimate", measure, golden("llama-gqa"));
    on_small_stack("encode (bert)", encode, golden("bert-fill"));
    on_small_stack("classify images (vit)", see, golden("vit"));
    on_small_stack("learn tokens, encode and decode", learn_tokens, text);
    on_small_stack("train", learn, text);
    snprintf(remove, sizeof remove, "rm -rf '%s'", place);
    return system(remove) != 0 || n_failed > 0;
}
