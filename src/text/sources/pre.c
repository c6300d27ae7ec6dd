/* pre.c - how byte-level text is split, by the names that GGUF files use (tokenizer.ggml.pre).
 *
 * A name stands for patterns that cut one after the other. Each is copied from the model's
 * tokenizer.json, or is equivalent to it. An unknown name is an error: a wrong guess silently costs
 * a tenth of a model's quality. */
#include "text/sources/source.h"

#include <stdio.h>
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
#define NOT_HAN(class) "[" class "&&[^\\p{Han}]]"
#define KIMI_UPPER     NOT_HAN("\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}")
#define KIMI_LOWER     NOT_HAN("\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}")
#define DEEPSEEK3                                                                                  \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"           \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" TAIL
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"
#define LATIN                                                                                      \
    "\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}"                             \
    "\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}"                 \
    "\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}"                           \
    "\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}"                         \
    "\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}"                   \
    "\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}"                 \
    "\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}"                 \
    "\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}"                            \
    "\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}"                           \
    "\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}"                 \
    "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"                  \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}"                   \
    "\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"                           \
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}"                            \
    "\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}"                  \
    "\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}"                 \
    "\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}"                 \
    "\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}"                                \
    "\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"                              \
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+"

#define MAX_PATTERN 6

typedef struct pre {
    const char *names;                    /* separated by spaces; the first is the one to write */
    const char *pattern[MAX_PATTERN + 1]; /* each cuts the pieces of the previous; NULL ends it */
    int flags;
} pre;

static const pre table[] = {
    { "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert mpt "
      "olmo jais trillion granite-docling exaone4 jina-v1-en jina-v2-code roberta-bpe",
      { GPT2 },
      0 },
    { "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
      { CL100K("\\p{N}{1,3}") },
      PRE_WORDS | PRE_BOS },
    { "dbrx cl100k smaug-bpe glm4 chatglm-bpe", { CL100K("\\p{N}{1,3}") }, 0 },
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
    { "granite-embed-multi-97m", { O200K(APOSTROPHE "?", "\\p{N}{1,3}") }, PRE_WORDS },
    { "tiny_aya cohere2moe",
      { "\\d{1,3}(?=(?:\\d{3})*\\b)", O200K(APOSTROPHE "?", "\\p{N}{1,3}") },
      0 },
    { "youtu",
      { "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}"
        "\\x{2019}\\x{2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|"
        "[\\x{3105}-\\x{312F}]+|[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+",
        O200K(APOSTROPHE "?", "\\p{N}") },
      PRE_WORDS },
    { "kimi-k2",
      { "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?" KIMI_UPPER "*" KIMI_LOWER "+" APOSTROPHE
        "?|[^\\r\\n\\p{L}\\p{N}]?" KIMI_UPPER "+" KIMI_LOWER "*" APOSTROPHE
        "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL },
      0 },
    { "tekken", { O200K("", "\\p{N}") }, PRE_WORDS | PRE_BOS },
    { "jais-2",
      { APOSTROPHE
        "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
        "\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|"
        "\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}" },
      0 },
    { "exaone-moe",
      { APOSTROPHE "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|"
                   " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+" },
      0 },
    { "chameleon",
      { "<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}",
        "[\\p{P}!-/:-@\\[-`{-~]", GPT2 },
      PRE_BOS },
    { "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
      { "\\p{N}", GPT2 },
      0 },
    { "falcon", { "[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]" }, 0 },
    { "deepseek-coder",
      { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
        "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+", "\\p{N}" },
      0 },
    { "deepseek-llm",
      { "[\\r\\n]", LATIN,
        "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+",
        "\\s+$", "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+", "\\p{N}+" },
      0 },
    { "deepseek-v3 hunyuan-dense joyai-llm",
      { "\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+", DEEPSEEK3 },
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
      PRE_WORDS },
    { "laguna", { "[^\\n]+|[\\n]+", CL100K("\\p{N}") }, 0 },
    { "gemma4", { "[^\\n]+|[\\n]+" }, PRE_BOS | PRE_LETTERS },
    { "granite-embed-multi-311m sarvam-moe", { "[^\\n]+|[\\n]+" }, PRE_LETTERS },
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

int pre_flags(const char *name)
{
    const pre *p = find(name);
    return p ? p->flags : 0;
}

static bool cuts_by(const pre *p, const char *const *pattern, int n)
{
    for (int i = 0; i < n; i++)
        if (!p->pattern[i] || strcmp(p->pattern[i], pattern[i]) != 0)
            return false;
    return !p->pattern[n];
}

bool pre_of_patterns(const char *const *pattern, int n, int flags, char name[PRE_NAME])
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (cuts_by(&table[i], pattern, n) &&
            (table[i].flags & (PRE_WORDS | PRE_LETTERS)) == flags) {
            snprintf(name, PRE_NAME, "%.*s", (int)strcspn(table[i].names, " "), table[i].names);
            return true;
        }
    return false;
}

weft_status pre_apply(tokenizer *t, const char *name, weft_error *err)
{
    const pre *p = find(name);
    if (!p)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: unsupported pre-tokenizer \"%.64s\"; give another with --pre "
                         "(llama-bpe, qwen2, gpt-2, ...)",
                         t->path, name);
    weft_status status = WEFT_OK;
    for (int i = 0; p->pattern[i] && status == WEFT_OK; i++)
        status = add_pattern(t, p->pattern[i], err);
    return status;
}
