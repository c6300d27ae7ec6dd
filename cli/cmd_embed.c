/* weft embed - lines in, vectors out. */
#include "json.h"
#include "texts.h"

static const char *positional[2]; /* MODEL, TEXT */
static load_options load;
static text_options lines;
static const char *npy;
static bool json;

static const option options[] = {
    OPTION_MODEL(load),
    OPTION_LINES(lines),
    OPTION_TRUNCATE(lines),
    OPTION_POOLING(lines),
    { 0, "normalize", OPT_FLAG, &lines.normalize, NULL, RARE,
      "scale vectors to length 1 (as the model says)" },
    OPTION_TOKENIZER(load),
    OPTION_LORA(lines.lora),
    { 0, "npy", OPT_TEXT, &npy, "FILE", 0, "write all vectors to a NumPy file" },
    OPTION_THREADS(lines.threads),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_NO_PACK(load.no_pack),
    OPTION_COMPUTE(load),
    OPTION_JSON(json, "print one JSON object per text"),
    { 0 },
};

static const char examples[] = "  weft embed all-MiniLM-L6-v2 \"A man is playing a guitar\"\n"
                               "  weft embed model.gguf -f lines.txt --npy vectors.npy\n";

static const char about[] =
    "Prints one vector per line. The model's own files say how token vectors are pooled\n"
    "(mean, max, first or last) and whether the result is normalised. Decoders use the\n"
    "vector of the last token.\n";

typedef struct vectors {
    texts t;
    out_file npy; /* its f is NULL without --npy */
    int64_t width;
    float *
        none; /* the vector of a line that could not be read: NaN, so that rows stay those of lines */
} vectors;

static void json_vector(const vectors *v, int64_t i, const weft_input *in)
{
    cli_json_object(NULL);
    cli_json_int("index", i);
    cli_json_int("n_token", in->n);
    cli_json_list("embedding");
    for (int64_t k = 0; k < v->width; k++)
        cli_json_real(NULL, (double)in->out[k], 9);
    cli_json_end();
    cli_json_end();
}

static int show(void *ud, int64_t i, const weft_tokens *tokens, const weft_input *in)
{
    const vectors *v = ud;
    const float *x = in ? in->out : v->none;
    (void)tokens;
    if (v->npy.f)
        return fwrite(x, sizeof *x, (size_t)v->width, v->npy.f) == (size_t)v->width
                   ? 0
                   : cli_cannot_write(npy);
    if (json) {
        if (in)
            json_vector(v, i, in);
        else
            texts_json_failed(&v->t, i);
        return 0;
    }
    for (int64_t k = 0; k < v->width; k++)
        printf("%s%.9g", k ? " " : "", (double)x[k]);
    putchar('\n');
    return 0;
}

static int embed(vectors *v)
{
    const int64_t shape[] = { v->t.n, v->width };
    if (npy && !out_begin(&v->npy, npy))
        return cli_cannot_write(npy);
    int code = npy && !cli_npy_header(v->npy.f, 2, shape) ? cli_cannot_write(npy) : 0;
    if (!code)
        code = texts_each(&v->t, &lines, NULL, show, v);
    if (npy && !out_end(&v->npy, code == 0 || v->t.n_failed) && !code)
        code = cli_cannot_write(npy);
    return code;
}

static int embed_main(void)
{
    vectors v = { 0 };
    load.path = positional[0] ? positional[0] : load.path;
    cli_catch_interrupt();
    int code = texts_open(&v.t, &command_embed, &load, &lines, positional[1], ~0u,
                          WEFT_OUTPUT_POOLED);
    if (!code) {
        v.width = weft_encoder_width(v.t.encoder);
        v.none = cli_alloc((size_t)v.width, sizeof *v.none, "a vector");
        for (int64_t k = 0; v.none && k < v.width; k++)
            v.none[k] = NAN;
        code = v.none ? embed(&v) : cli_no_memory();
    }
    cli_free(v.none);
    texts_close(&v.t);
    return code;
}

const command command_embed = {
    .name = "embed",
    .arguments = "MODEL [TEXT|-]",
    .summary = "compute embeddings of texts",
    .examples = examples,
    .about = about,
    .options = options,
    .n_positional = 2,
    .positional = positional,
    .main = embed_main,
};
