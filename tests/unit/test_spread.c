/* Weights that a directory stores in another way (bind_spread.c): blocks and scales of MXFP4, FP8
 * with a scale for 128 x 128. test_golden compares their values with transformers; here a missing,
 * wrong or surplus part is refused by name, and every code is decoded. */
#include "edited.h"
#include "models/convert.h"
#include "support.h"

#include "models/bind.h"

#define UP     "model.layers.0.mlp.up_proj.weight"
#define SCALE  UP "_scale_inv"
#define BLOCKS "model.layers.1.mlp.experts.gate_up_proj_blocks"
#define SCALES "model.layers.1.mlp.experts.gate_up_proj_scales"

/* Opening the golden with these changes fails with this message; NULL: it opens. */
typedef struct wrong {
    const char *says;
    edit e;
    const char *was, *is; /* in config.json */
} wrong;

static void refused_with(const char *golden, const edit *e, int n, const wrong *w)
{
    char path[128];
    host h;
    model m;
    weft_error err = { 0 };
    host_plain(&h);
    snprintf(path, sizeof path, "golden/%s", golden);
    const char *directory = edited_directory(fixture(path), "wrong", e, n, w->was, w->is);
    const weft_status status = model_open(&m, directory, WEFT_LOAD_COPY, &h, &err);
    if (status == WEFT_OK)
        model_close(&m);
    assert_int_equal(h.mem.used, 0);
    if (!w->says && status != WEFT_OK)
        fail_msg("%s", err.message);
    if (w->says && (status == WEFT_OK || !strstr(err.message, w->says)))
        fail_msg("%s: got %d \"%s\", expected \"%s\"", golden, (int)status, err.message, w->says);
}

static void refused(const char *golden, const wrong *w)
{
    refused_with(golden, &w->e, w->e.name ? 1 : 0, w);
}

static const float one_nan[4] = { 1, 1, NAN, 1 }, one_inf[4] = { 1, 1, 1, INFINITY };
static const float negative[4] = { 1, -1, 0, 1e30f };

static void fp8_parts(void **state)
{
    (void)state;
    static const char size[] = "      128,\n      128\n";
    const dtype *f32 = &dtype_f32, *u8 = dtype_by_name("u8");
    const wrong cases[] = {
        { "tensor " SCALE " is missing, the scales of " UP, { SCALE, NULL, 0, { 0 }, NULL }, 0, 0 },
        { SCALE " is f32 [1, 2], expected [2, 2]", { SCALE, f32, 2, { 1, 2 }, NULL }, 0, 0 },
        { SCALE " is f32 [2, 1], expected [2, 2]", { SCALE, f32, 2, { 2, 1 }, NULL }, 0, 0 },
        { SCALE " is f32 [2, 3], expected [2, 2]", { SCALE, f32, 2, { 2, 3 }, NULL }, 0, 0 },
        { SCALE " is f32 [4], expected [2, 2]", { SCALE, f32, 1, { 4 }, NULL }, 0, 0 },
        { SCALE " is i32, expected f32, f16 or bf16", { SCALE, &dtype_i32, 2, { 2, 2 }, 0 }, 0, 0 },
        { SCALE " is u8, expected f32, f16 or bf16", { SCALE, u8, 2, { 2, 2 }, NULL }, 0, 0 },
        { SCALE " is f8_e4m3, expected f32", { SCALE, &dtype_f8, 2, { 2, 2 }, NULL }, 0, 0 },
        { SCALE " holds nan, expected finite", { SCALE, f32, 2, { 2, 2 }, one_nan }, 0, 0 },
        { SCALE " holds inf, expected finite", { SCALE, f32, 2, { 2, 2 }, one_inf }, 0, 0 },
        { NULL, { SCALE, f32, 2, { 2, 2 }, negative }, 0, 0 },
        { NULL, { SCALE, &dtype_f16, 2, { 2, 2 }, NULL }, 0, 0 },
        { UP " is f8_e4m3 [131, 132], expected", { UP, &dtype_f8, 2, { 131, 132 }, NULL }, 0, 0 },
        { "unexpected tensor " SCALE, { UP, &dtype_bf16, 2, { 130, 132 }, NULL }, 0, 0 },
        { "model.norm.weight is f8_e4m3; expected that of matrices only",
          { "model.norm.weight", &dtype_f8, 1, { 132 }, NULL },
          0,
          0 },
        { "model.embed_tokens.weight_scale_inv is missing",
          { "model.embed_tokens.weight", &dtype_f8, 2, { 67, 132 }, NULL },
          0,
          0 },
        { "weight_block_size.0 is 0; expected", { 0 }, size, "0, 128" },
        { "weight_block_size.1 is 65537; expected", { 0 }, size, "128, 65537" },
        { "weight_block_size.0 is 1.5; expected", { 0 }, size, "1.5, 128" },
        { "scale_inv is f32 [1, 2], expected [1, 3]", { 0 }, size, "128, 64" },
        { "scale_inv is f32 [1, 2], expected [2, 2]", { 0 }, size, "16, 128" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused("qwen3-fp8", &cases[i]);
}

static void mxfp4_parts(void **state)
{
    (void)state;
    const dtype *u8 = dtype_by_name("u8"), *i8 = dtype_by_name("i8");
    const wrong cases[] = {
        { "tensor " SCALES " is missing, the scales of " BLOCKS,
          { SCALES, NULL, 0, { 0 }, NULL },
          0,
          0 },
        { SCALES " is u8 [3, 64, 1], expected [3, 64, 2]",
          { SCALES, u8, 3, { 3, 64, 1 }, 0 },
          0,
          0 },
        { SCALES " is u8 [3, 63, 2], expected", { SCALES, u8, 3, { 3, 63, 2 }, NULL }, 0, 0 },
        { SCALES " is u8 [3, 64, 2, 1], expected", { SCALES, u8, 4, { 3, 64, 2, 1 }, NULL }, 0, 0 },
        { "its scales are i8, expected u8", { SCALES, i8, 3, { 3, 64, 2 }, NULL }, 0, 0 },
        { BLOCKS " is i8 and its", { BLOCKS, i8, 4, { 3, 64, 2, 16 }, NULL }, 0, 0 },
        { BLOCKS " is u8 [3, 64, 2, 15], expected", { BLOCKS, u8, 4, { 3, 64, 2, 15 }, 0 }, 0, 0 },
        { BLOCKS " is u8 [2, 64, 2, 16], expected", { BLOCKS, u8, 4, { 2, 64, 2, 16 }, 0 }, 0, 0 },
        { BLOCKS " is u8 [3, 64, 32], expected", { BLOCKS, u8, 3, { 3, 64, 32 }, NULL }, 0, 0 },
        { "experts.gate_up_proj is missing", { BLOCKS, NULL, 0, { 0 }, NULL }, 0, 0 },
        { "unexpected tensor " BLOCKS,
          { "model.layers.1.mlp.experts.gate_up_proj", &dtype_f32, 3, { 3, 64, 64 }, NULL },
          0,
          0 },
        { "experts.gate_up_proj is f32 [3, 64, 63], expected [3, 64, 64]",
          { "model.layers.1.mlp.experts.gate_up_proj", &dtype_f32, 3, { 3, 64, 63 }, NULL },
          0,
          0 },
        { "swiglu_limit", { 0 }, "\"swiglu_limit\": 7.0", "\"swiglu_limit\": 6.0" },
        { "swiglu_alpha", { 0 }, "\"swiglu_alpha\": 1.702", "\"swiglu_alpha\": 1.7" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused("gpt-oss-mxfp4", &cases[i]);
#define FIRST "model.layers.0.mlp.experts.gate_up_proj"
    const edit wide[] = { { FIRST "_blocks", u8, 4, { 3, 66, 2, 16 }, NULL },
                          { FIRST "_scales", u8, 3, { 3, 66, 2 }, NULL } };
    const wrong odd = { "experts.down_proj_blocks: rows of 33 numbers, expected a multiple of 32",
                        { 0 },
                        "\"intermediate_size\": 32",
                        "\"intermediate_size\": 33" };
    refused_with("gpt-oss-mxfp4", wide, 2, &odd);
}

static const tensor *param(const model *m, const char *name)
{
    for (int64_t i = 0; i < m->n_param; i++)
        if (strcmp(m->param[i]->name, name) == 0)
            return m->param[i];
    fail_msg("no parameter %s", name);
    return NULL;
}

/* Every code of E4M3, by its definition: (-1)^s 2^(e - 7) (1 + m / 8), or 2^-6 m / 8. */
static void every_code(void **state)
{
    (void)state;
    static uint8_t codes[130 * 132];
    static const float ones[4] = { 1, 1, 1, 1 };
    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (uint8_t)i;
    const edit e[] = { { UP, &dtype_f8, 2, { 130, 132 }, codes },
                       { SCALE, &dtype_f32, 2, { 2, 2 }, ones } };
    host h;
    model m;
    weft_error err = { 0 };
    host_plain(&h);
    const char *directory = edited_directory(fixture("golden/qwen3-fp8"), "codes", e, 2, NULL,
                                             NULL);
    if (model_open(&m, directory, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    const tensor *up = param(&m, "blk.0.ffn_up.weight");
    assert_ptr_equal(up->type, &dtype_bf16);
    for (int64_t i = 0; i < 130 * 132; i++) {
        const int code = codes[i], exponent = code >> 3 & 15, mantissa = code & 7;
        real got;
        up->type->decode(&got, up->data, i, 1);
        const double size = exponent ? pow(2, exponent - 7) * (1 + mantissa / 8.0)
                                     : pow(2, -6) * mantissa / 8.0;
        if ((code & 127) == 127)
            assert_true(isnan(got));
        else
            assert_true((double)got == (code & 128 ? -size : size));
    }
    model_close(&m);
}

/* Rows of one stored matrix keep their factors: q, k and v of a Phi-3 with blocks of 16 x 8. All
 * codes are 1, so that weights are factors. */
static void fp8_of_fused_rows(void **state)
{
    (void)state;
    static const char stem[] = "model.layers.0.self_attn.qkv_proj.weight";
    static const char beside[] = "model.layers.0.self_attn.qkv_proj.weight_scale_inv";
    static const struct {
        const char *name;
        int64_t row0, n;
    } parts[] = { { "blk.0.attn_q.weight", 0, 32 },
                  { "blk.0.attn_k.weight", 32, 16 },
                  { "blk.0.attn_v.weight", 48, 16 } };
    static uint8_t codes[64 * 32];
    float factors[4 * 4];
    memset(codes, 0x38, sizeof codes);
    for (int i = 0; i < 16; i++)
        factors[i] = (float)(i + 1);
    const edit e[] = { { stem, &dtype_f8, 2, { 64, 32 }, codes },
                       { beside, &dtype_f32, 2, { 4, 4 }, factors } };
    host h;
    model m;
    weft_error err = { 0 };
    host_plain(&h);
    const char *directory = edited_directory(
        fixture("golden/phi3"), "fused", e, 2, "\"hidden_act\"",
        "\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [16, 8]}, "
        "\"hidden_act\"");
    if (model_open(&m, directory, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    for (int p = 0; p < 3; p++) {
        const tensor *w = param(&m, parts[p].name);
        assert_int_equal(rows(w), parts[p].n);
        for (int64_t i = 0; i < parts[p].n * 32; i++) {
            real got;
            w->type->decode(&got, w->data, i, 1);
            const int64_t row_of = parts[p].row0 + i / 32, col = i % 32;
            assert_true((float)got == factors[row_of / 16 * 4 + col / 8]);
        }
    }
    model_close(&m);
}

/* FP8 becomes BF16 or Q8_0, and its config.json no longer says fp8. */
static void fp8_converts(void **state)
{
    (void)state;
    static const char *const types[] = { NULL, "q8_0", "bf16" };
    static const char *const names[] = { "bf16", "q8_0", "bf16" };
    static convert_report report;
    for (int i = 0; i < 3; i++) {
        host h;
        container c;
        weft_error err = { 0 };
        const convert_options o = { .to = i == 2 ? WEFT_FORMAT_HF : WEFT_FORMAT_GGUF,
                                    .target = types[i] ? quant_target_by_name(types[i]) : NULL,
                                    .force = true,
                                    .n_thread = 1 };
        const char *to = temp_path(i == 2 ? "plain" : "plain.gguf");
        host_plain(&h);
        const weft_status status = convert_model(fixture("golden/qwen3-fp8"), to, &o, &report, &h,
                                                 &err);
        if (status != WEFT_OK)
            fail_msg("%s", err.message);
        assert_int_equal(container_open(&c, to, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
        const stored *t = container_tensor(&c, i == 2 ? "model.layers.0.self_attn.o_proj.weight"
                                                      : "blk.0.attn_output.weight");
        assert_string_equal(t->type->name, names[i]); /* rows of 32 */
        for (int64_t k = 0; k < c.n_entry; k++)
            assert_null(strstr(c.entry[k].key, "quantization_config"));
        container_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("spread: a missing, wrong or surplus part of FP8 is refused by name", fp8_parts),
        TEST("spread: a missing, wrong or surplus part of MXFP4 is refused by name", mxfp4_parts),
        TEST("spread: every code of E4M3 is decoded", every_code),
        TEST("spread: rows of one matrix in FP8 keep their scales", fp8_of_fused_rows),
        TEST("spread: FP8 becomes BF16 or Q8_0", fp8_converts),
    };
    return RUN(tests);
}
