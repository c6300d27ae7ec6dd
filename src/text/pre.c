/* pre.c - how byte-level text is split, by the names that GGUF files use (tokenizer.ggml.pre).
 *
 * A name stands for patterns that cut one after the other; each is the model's own, as its
 * tokenizer.json has it, or does the same. A name that is not here is an error: a wrong guess costs
 * a tenth of a model's quality, in silence. */
#include "text/source.h"

#include <string.h>

#define APOSTROPHE "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL       "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2       "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CL100K(digits)                                                                             \
    APOSTROPHE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K(contraction, digits)                                                                 \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" contraction "|[^\\r\\n\\p{L}\\p{N}]?" UPPER       \
    "+" LOWER "*" contraction "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL
#define DEEPSEEK3                                                                                  \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"           \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" TAIL
#define BLOOM " ?[^(\\s|.,!?…。，、।۔،)]+"
#define LATIN                                                                                      \
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛ" \
    "ὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ" \
    "-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"

enum { KEEP_WORDS = 1, ADD_BOS = 2 };

typedef struct pre {
    const char *names;      /* parted by spaces */
    const char *pattern[6]; /* each cuts what the one before left */
    int flags;
} pre;

static const pre table[] = {
    { "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert mpt "
      "olmo jais trillion granite-docling exaone4 jina-v1-en jina-v2-code roberta-bpe",
      { GPT2 },
      0 },
    { "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
      { CL100K("\\p{N}{1,3}") },
      KEEP_WORDS | ADD_BOS },
    { "cl100k dbrx smaug-bpe glm4 chatglm-bpe", { CL100K("\\p{N}{1,3}") }, 0 },
    { "qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 hunyuan solar-open megrez grok-2",
      { CL100K("\\p{N}") },
      0 },
    { "qwen35",
      { APOSTROPHE "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+"
                   "[\\r\\n]*" TAIL },
      0 },
    { "gpt-4o llama4 kanana2 talkie minimax-m2 o200k",
      { O200K(APOSTROPHE "?", "\\p{N}{1,3}") },
      0 },
    { "tekken", { O200K("", "\\p{N}") }, KEEP_WORDS | ADD_BOS },
    { "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
      { "\\p{N}", GPT2 },
      0 },
    { "falcon", { "[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]" }, 0 },
    { "deepseek-coder",
      { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}" },
      0 },
    { "deepseek-llm",
      { "[\\r\\n]", LATIN, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", "[一-龥ࠀ-一가-퟿]+", "\\p{N}+" },
      0 },
    { "deepseek-v3 hunyuan-dense joyai-llm",
      { "\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3 },
      0 },
    { "poro-chat bloom gpt3-finnish", { BLOOM }, 0 },
    { "viking", { BLOOM, "\\p{N}" }, 0 },
    { "bailingmoe bailingmoe2 llada-moe",
      { "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++"
        "[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+" },
      0 },
    { "seed-coder",
      { APOSTROPHE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" TAIL },
      0 },
    { "superbpe", { "\\p{N}+", "(?=(\\d{3})+(?!\\d))" }, 0 },
    { "minicpm5",
      { "\\p{N}{1,3}",
        APOSTROPHE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL },
      KEEP_WORDS },
    { "laguna", { "[^\\n]+|[\\n]+", CL100K("\\p{N}") }, 0 },
    { "gemma4", { "[^\\n]+|[\\n]+" }, ADD_BOS },
};

static const pre *find(const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (const char *k = table[i].names; k; k = strchr(k, ' ')) {
            k += *k == ' ';
            if (n > 0 && strncmp(k, name, n) == 0 && (k[n] == ' ' || !k[n]))
                return &table[i];
        }
    return NULL;
}

bool pre_keeps_words(const char *name)
{
    const pre *p = find(name);
    return p && p->flags & KEEP_WORDS;
}

bool pre_adds_bos(const char *name)
{
    const pre *p = find(name);
    return p && p->flags & ADD_BOS;
}

weft_status pre_apply(tokenizer *t, const char *name, weft_error *err)
{
    const pre *p = find(name);
    if (!p)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: splits its text as \"%.64s\" does, which is not known; name the way "
                         "of a model that is (llama-bpe, qwen2, gpt-2, ...)",
                         t->path, name);
    weft_status status = WEFT_OK;
    for (int i = 0; i < 6 && p->pattern[i] && status == WEFT_OK; i++)
        status = add_pattern(t, p->pattern[i], strlen(p->pattern[i]), SPLIT_ISOLATED, false, err);
    return status;
}
