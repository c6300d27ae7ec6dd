/* Which tensor gets which format. */
#include "support.h"

#include "formats/quant_mix.h"

static const dtype *type_in(const char *target, const char *name, int64_t row)
{
    const quant_target *t = quant_target_by_name(target);
    assert_non_null(t);
    const bool vector = !strstr(name, "weight") || strstr(name, "norm");
    const quant_tensor of = { name, vector ? 1 : 2, row, 16, true };
    return quant_fitting(quant_wanted(t, &of), row);
}

static void expect(const char *target, const char *name, int64_t row, const char *type)
{
    const dtype *got = type_in(target, name, row);
    assert_that(strcmp(got->name, type) == 0, "%s: %s with rows of %lld is %s, expected %s", target,
                name, (long long)row, got->name, type);
}

/* Layers 0 to 15: two at each end, and every third between, are finer. */
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
            expect("q6_k", name, 2048, strstr(name, "norm") ? "f32" : "q6_k");
            expect("q4_0", name, 2048, strstr(name, "norm") ? "f32" : "q4_0");
            expect("bf16", name, 2048, strstr(name, "norm") ? "f32" : "bf16");
        }
    }
}

static void outside_of_layers(void **state)
{
    (void)state;
    expect("q4_k_m", "token_embd.weight", 2048, "q6_k"); /* it makes the logits */
    expect("q4_k_m", "output.weight", 2048, "q4_k");     /* this one, here, does not */
    expect("q4_0", "token_embd.weight", 2048, "q6_k");
    expect("q8_0", "token_embd.weight", 2048, "q8_0");
    expect("f16", "token_embd.weight", 2048, "f16");
    expect("q4_k_m", "output_norm.weight", 2048, "f32");
    expect("q4_k_m", "blk.3.attn_q.bias", 2048, "f32");
    expect("q8_0", "position_embd.weight", 768, "f32");
    const quant_tensor untied[] = { { "output.weight", 2, 2048, 16, false },
                                    { "token_embd.weight", 2, 2048, 16, false },
                                    { "rope_freqs.weight", 1, 64, 16, false } };
    const quant_target *t = quant_target_by_name("q4_k_m");
    assert_ptr_equal(quant_wanted(t, &untied[0]), &dtype_q6_k);
    assert_ptr_equal(quant_wanted(t, &untied[1]), &dtype_q4_k);
    assert_ptr_equal(quant_wanted(t, &untied[2]), &dtype_f32);
    assert_null(quant_target_by_name("q7_k"));
}

static void rows_that_do_not_fit(void **state)
{
    (void)state;
    expect("q4_k_m", "blk.4.attn_q.weight", 576, "q5_0");
    expect("q5_k_m", "blk.4.attn_q.weight", 576, "q5_1");
    expect("q4_k_m", "blk.0.attn_v.weight", 576, "q8_0");
    expect("q4_k_m", "blk.4.ffn_down.weight", 172, "f16");
    expect("q4_0", "token_embd.weight", 64, "q8_0");
    expect("q4_0", "blk.4.ffn_down.weight", 172, "f16");
    expect("q8_0", "blk.4.ffn_down.weight", 172, "f16");
    expect("f32", "blk.4.ffn_down.weight", 172, "f32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("mix: in 16 layers, the ends and every third are finer", layers_of_a_mix),
        TEST("mix: the matrix that makes the logits is finer, vectors stay F32", outside_of_layers),
        TEST("mix: rows that are no whole blocks fall back", rows_that_do_not_fit),
    };
    return RUN(tests);
}
