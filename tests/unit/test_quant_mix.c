/* The format that each mix chooses for each tensor. */
#include "support.h"

#include "formats/quant_mix.h"

static int64_t layers = 16, gqa = 1; /* of the model */
static bool weighed;

static const dtype *type_in(const char *target, const char *name, int64_t row)
{
    const quant_target *t = quant_target_by_name(target);
    assert_non_null(t);
    const bool vector = !strstr(name, "weight") || strstr(name, "norm");
    const quant_tensor of = { name, vector ? 1 : 2, row, layers, true, gqa, weighed };
    return quant_fitting(quant_wanted(t, &of), row);
}

static void expect(const char *target, const char *name, int64_t row, const char *type)
{
    const dtype *got = type_in(target, name, row);
    assert_that(strcmp(got->name, type) == 0, "%s: %s with rows of %lld is %s, expected %s", target,
                name, (long long)row, got->name, type);
}

/* Layers 0 to 15: two at each end, and every third between, have more bits. */
static void layers_of_a_mix(void **state)
{
    (void)state;
    static const char finer[] = "++..+..+..+..+++";
    for (int l = 0; l < 16; l++) {
        const bool more = finer[l] == '+';
        const struct {
            const char *stem, *q4_k_m, *q5_k_m;
        } part[] = {
            { "attn_q", "q4_k", "q5_k" },
            { "attn_k", "q4_k", "q5_k" },
            { "attn_v", more ? "q6_k" : "q4_k", more ? "q6_k" : "q5_k" },
            { "attn_output", "q4_k", "q5_k" },
            { "ffn_gate", "q4_k", "q5_k" },
            { "ffn_up", "q4_k", "q5_k" },
            { "ffn_down", more ? "q6_k" : "q4_k", more ? "q6_k" : "q5_k" },
            { "attn_qkv", "q5_k", "q6_k" },
            { "attn_norm", "f32", "f32" },
            { "ffn_norm", "f32", "f32" },
        };
        for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.weight", l, part[i].stem);
            expect("q4_k_m", name, 2048, part[i].q4_k_m);
            expect("Q4_K", name, 2048, part[i].q4_k_m);
            expect("q5_k_m", name, 2048, part[i].q5_k_m);
            expect("q3_k_s", name, 2048, strstr(name, "norm") ? "f32" : "q3_k");
            expect("q6_k", name, 2048, strstr(name, "norm") ? "f32" : "q6_k");
            expect("q4_0", name, 2048, strstr(name, "norm") ? "f32" : "q4_0");
            expect("bf16", name, 2048, strstr(name, "norm") ? "f32" : "bf16");
        }
    }
}

/* One matrix of layer l, named by its stem. */
static void expect_in_layer(const char *target, int l, const char *stem, const char *type)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s.weight", l, stem);
    expect(target, name, 2048, type);
}

/* 33 layers: the first two of them for the values, and two sixteenths for the feed forward. */
static void layers_of_three_bits(void **state)
{
    (void)state;
    layers = 33;
    for (int l = 0; l < 33; l++) {
        const char *early = l < 2 ? "q5_k" : "q4_k";
        static const char *const values[] = { "attn_v", "attn_qkv", "attn_kv_b" };
        static const char *const down[] = { "ffn_down", "ffn_down_exps", "ffn_down_exps.7",
                                            "ffn_down_shexp" };
        static const char *const rest[] = { "attn_q", "attn_k",        "ffn_gate",
                                            "ffn_up", "ffn_gate_exps", "attn_kv_a_mqa" };
        for (int i = 0; i < 3; i++) {
            expect_in_layer("q3_k_m", l, values[i], early);
            expect_in_layer("q3_k_l", l, values[i], "q5_k");
        }
        for (int i = 0; i < 4; i++) {
            expect_in_layer("Q3_K", l, down[i], early);
            expect_in_layer("q3_k_l", l, down[i], "q5_k");
            expect_in_layer("q2_k", l, down[i], "q3_k");
        }
        for (int i = 0; i < 6; i++) {
            expect_in_layer("q3_k_m", l, rest[i], "q3_k");
            expect_in_layer("q3_k_l", l, rest[i], "q3_k");
            expect_in_layer("q2_k", l, rest[i], "q2_k");
        }
        expect_in_layer("q3_k_m", l, "attn_output", "q4_k");
        expect_in_layer("q3_k_l", l, "attn_output", "q5_k");
        expect_in_layer("q2_k", l, "attn_output", "q3_k");
    }
    layers = 31; /* the sixteenth is one layer here; the two stay two */
    expect_in_layer("q3_k_m", 0, "ffn_down", "q5_k");
    expect_in_layer("q3_k_m", 1, "ffn_down", "q4_k");
    expect_in_layer("q3_k_m", 1, "attn_v", "q5_k");
    layers = 15;
    expect_in_layer("q3_k_m", 0, "ffn_down", "q4_k");
    layers = 16;
}

/* If four or more query heads share values, better values cost little. */
static void shared_values(void **state)
{
    (void)state;
    static const char *const types[] = { "q3_k", "q3_k", "q3_k", "q3_k", "q4_k", "q4_k" };
    for (gqa = 0; gqa < 6; gqa++) {
        expect_in_layer("q2_k", 3, "attn_v", types[gqa]);
        expect_in_layer("q2_k", 3, "attn_qkv", types[gqa]);
        expect_in_layer("q2_k", 3, "attn_output", "q3_k");
        expect_in_layer("q3_k_m", 3, "attn_v", "q4_k");
    }
    gqa = 1;
}

/* Feed forwards of experts count like others. */
static void experts(void **state)
{
    (void)state;
    expect_in_layer("q4_k_m", 0, "ffn_down_exps", "q6_k");
    expect_in_layer("q4_k_m", 0, "ffn_down_exps.12", "q6_k");
    expect_in_layer("q4_k_m", 2, "ffn_down_exps", "q4_k");
    expect_in_layer("q5_k_m", 15, "ffn_down_shexp", "q6_k");
    expect_in_layer("q4_k_m", 0, "ffn_up_exps", "q4_k");
}

/* 16 layers: the first eighth of the feed forward has more bits, unless errors are weighed. */
static void layers_of_iq4(void **state)
{
    (void)state;
    for (int l = 0; l < 16; l++)
        for (gqa = 3; gqa < 5; gqa++)
            for (int w = 0; w < 2; w++) {
                weighed = w;
                expect_in_layer("iq4_xs", l, "ffn_down", l < 2 && !w ? "q5_k" : "iq4_xs");
                expect_in_layer("iq4_nl", l, "ffn_down_exps", l < 2 && !w ? "q5_k" : "iq4_nl");
                expect_in_layer("iq4_xs", l, "attn_v", gqa == 4 ? "q5_k" : "iq4_xs");
                expect_in_layer("IQ4_NL", l, "attn_qkv", gqa == 4 ? "q5_k" : "iq4_nl");
                expect_in_layer("iq4_xs", l, "attn_output", "iq4_xs");
                expect_in_layer("iq4_xs", l, "ffn_up", "iq4_xs");
            }
    gqa = 1;
    weighed = false;
}

static void only_experts(void **state)
{
    (void)state;
    static const char *const parts[] = { "ffn_up_exps", "ffn_gate_exps", "ffn_down_exps" };
    for (int i = 0; i < 3; i++)
        expect_in_layer("mxfp4_moe", 2, parts[i], "mxfp4");
    expect_in_layer("mxfp4_moe", 2, "ffn_down_shexp", "q8_0");
    expect_in_layer("mxfp4_moe", 2, "attn_v", "q8_0");
    expect_in_layer("mxfp4", 2, "attn_v", "mxfp4");
    expect("mxfp4_moe", "token_embd.weight", 2048, "q8_0");
    expect("mxfp4", "token_embd.weight", 2048, "q8_0");
}

static void outside_of_layers(void **state)
{
    (void)state;
    expect("q4_k_m", "token_embd.weight", 2048, "q6_k"); /* it makes the logits */
    expect("q4_k_m", "output.weight", 2048, "q4_k");     /* this one, here, does not */
    expect("q4_0", "token_embd.weight", 2048, "q6_k");
    expect("q8_0", "token_embd.weight", 2048, "q8_0");
    expect("f16", "token_embd.weight", 2048, "f16");
    expect("q2_k", "token_embd.weight", 2048, "q6_k");
    expect("q3_k_s", "token_embd.weight", 2048, "q6_k");
    expect("q3_k_m", "enc.blk.0.attn_v.weight", 2048, "q3_k"); /* not mixed */
    expect("q4_k_m", "output_norm.weight", 2048, "f32");
    expect("q4_k_m", "blk.3.attn_q.bias", 2048, "f32");
    expect("q8_0", "position_embd.weight", 768, "f32");
    const quant_tensor untied[] = { { "output.weight", 2, 2048, 16, false, 1, false },
                                    { "token_embd.weight", 2, 2048, 16, false, 1, false },
                                    { "rope_freqs.weight", 1, 64, 16, false, 1, false } };
    const quant_target *t = quant_target_by_name("q4_k_m");
    assert_ptr_equal(quant_wanted(t, &untied[0]), &dtype_q6_k);
    assert_ptr_equal(quant_wanted(t, &untied[1]), &dtype_q4_k);
    assert_ptr_equal(quant_wanted(t, &untied[2]), &dtype_f32);
    t = quant_target_by_name("q2_k");
    assert_ptr_equal(quant_wanted(t, &untied[0]), &dtype_q6_k);
    assert_ptr_equal(quant_wanted(t, &untied[1]), &dtype_q2_k);
    assert_null(quant_target_by_name("q7_k"));
}

static void rows_that_do_not_fit(void **state)
{
    (void)state;
    expect("q4_k_m", "blk.4.attn_q.weight", 576, "q5_0");
    expect("q5_k_m", "blk.4.attn_q.weight", 576, "q5_1");
    expect("q4_k_m", "blk.0.attn_v.weight", 576, "q8_0");
    expect("q4_k_m", "blk.4.ffn_down.weight", 172, "f16");
    expect("iq4_xs", "blk.4.attn_q.weight", 576, "iq4_nl");
    expect("iq4_xs", "blk.4.ffn_down.weight", 172, "f16");
    expect("mxfp4", "blk.4.attn_q.weight", 96, "mxfp4");
    expect("q2_k", "blk.4.attn_q.weight", 576, "q4_0");
    expect("q3_k_m", "blk.4.attn_q.weight", 576, "q4_0");
    expect("q3_k_m", "blk.4.attn_v.weight", 576, "q5_0");
    expect("q2_k", "token_embd.weight", 576, "q8_0");
    expect("q2_k", "blk.4.attn_q.weight", 172, "f16");
    expect("q4_0", "token_embd.weight", 64, "q8_0");
    expect("q4_0", "blk.4.ffn_down.weight", 172, "f16");
    expect("q8_0", "blk.4.ffn_down.weight", 172, "f16");
    expect("f32", "blk.4.ffn_down.weight", 172, "f32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("mix: in 16 layers, the ends and every third have more bits", layers_of_a_mix),
        TEST("mix: Q3_K_M, Q3_K_L and Q2_K give values, outputs and ffn_down more bits",
             layers_of_three_bits),
        TEST("mix: Q2_K gives values that four query heads share even more bits", shared_values),
        TEST("mix: experts count like other feed forwards", experts),
        TEST("mix: IQ4_XS and IQ4_NL give the first ffn_down and shared values more bits",
             layers_of_iq4),
        TEST("mix: MXFP4_MOE is for experts, the rest is Q8_0", only_experts),
        TEST("mix: the output matrix has more bits, vectors stay F32", outside_of_layers),
        TEST("mix: rows that do not fill blocks fall back", rows_that_do_not_fit),
    };
    return RUN(tests);
}
