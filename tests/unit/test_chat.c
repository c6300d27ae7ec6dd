/* Chat templates through the public functions: where they are found, which forms of messages they
 * get, and that nobody but the template writes special tokens. What the language does is in
 * test_templates. */
#include "gguf_build.h"
#include "sha256.h"
#include "support.h"
#include "text/chat.h"
#include "text/sources/chat_file.h"
#include "text/sources/source.h"
#include "weft.h"

#include <dirent.h>
#include <jansson.h>
#include <sys/stat.h>

#define CHATML                                                                                     \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"     \
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

static weft_template *load(const char *path, const char *name)
{
    weft_error err;
    const weft_template_options o = { .struct_size = sizeof o, .name = name };
    weft_template *t = weft_template_load(path, &o, &err);
    if (!t)
        fail_msg("%s", err.message);
    return t;
}

static weft_template *inline_template(const char *source)
{
    return load(temp_file("own.jinja", source, strlen(source)), NULL);
}

static weft_rendered *must_render(const weft_template *t, const weft_tokenizer *words,
                                  const char *messages)
{
    weft_error err;
    const weft_render_options o = { .struct_size = sizeof o, .now = 1700000000 };
    weft_rendered *r = weft_template_render(t, words, messages, strlen(messages), &o, &err);
    if (!r)
        fail_msg("%s", err.message);
    return r;
}

static void renders(const weft_template *t, const char *messages, const char *text)
{
    weft_rendered *r = must_render(t, NULL, messages);
    assert_string_equal(r->text, text);
    assert_int_equal(r->length, strlen(text));
    weft_rendered_free(r);
}

static void refuses(const weft_template *t, const char *messages, const weft_render_options *o,
                    weft_status status, const char *why)
{
    weft_error err;
    assert_null(weft_template_render(t, NULL, messages, strlen(messages), o, &err));
    if (err.code != status || !strstr(err.message, why))
        fail_msg("%d: \"%s\" where %d with \"%s\" was expected", (int)err.code, err.message,
                 (int)status, why);
}

/* ---- files ----------------------------------------------------------------------------------- */

static const char *directory(const char *name)
{
    const char *path = temp_path(name);
    assert_int_equal(mkdir(path, 0700), 0);
    return path;
}

static void file_in(const char *directory_name, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory_name, name);
    temp_file(path, text, strlen(text));
}

static const char hello[] = "[{\"role\":\"user\",\"content\":\"hi\"}]";

static void found_in_directories(void **state)
{
    (void)state;
    /* its own file wins over the configuration, which still has the tokens */
    char one[600], two[600];
    snprintf(one, sizeof one, "%s", directory("one"));
    file_in("one", "tokenizer_config.json",
            "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}, "
            "\"chat_template\": \"other\", \"model_max_length\": 1000000000000000019884624838656}");
    file_in("one", "chat_template.jinja",
            "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}");
    weft_template *t = load(one, NULL);
    renders(t, hello, "<s>hi</s>");
    weft_template_free(t);

    /* a list of templates */
    snprintf(two, sizeof two, "%s", directory("two"));
    file_in("two", "tokenizer_config.json",
            "{\"chat_template\": [{\"name\": \"default\", \"template\": \"D{{ pad_token }}\"},"
            "{\"name\": \"tool_use\", \"template\": \"T\"}]}");
    file_in("two", "special_tokens_map.json", "{\"pad_token\": \"<p>\"}");
    t = load(two, NULL);
    renders(t, hello, "D<p>");
    weft_template_free(t);
    t = load(two, "tool_use");
    renders(t, hello, "T");
    weft_template_info info = { .struct_size = sizeof info };
    weft_template_get_info(t, &info);
    assert_string_equal(info.name, "tool_use");
    assert_string_equal(info.source, "T");
    weft_template_free(t);
    char config[700];
    snprintf(config, sizeof config, "%s/tokenizer_config.json", two);
    t = load(config, "tool_use");
    renders(t, hello, "T");
    weft_template_free(t);

    char more[700];
    snprintf(more, sizeof more, "%s/additional_chat_templates", one);
    assert_int_equal(mkdir(more, 0700), 0);
    file_in("one/additional_chat_templates", "rag.jinja", "R");
    t = load(one, "rag");
    renders(t, hello, "R");
    weft_template_free(t);
}

static void found_in_gguf(void **state)
{
    (void)state;
    static const char *const tokens[] = { "<unk>", "<s>", "</s>" };
    gguf_build g = { 0 };
    gguf_text(&g, "general.architecture", "llama");
    gguf_texts(&g, "tokenizer.ggml.tokens", tokens, 3);
    gguf_u32(&g, "tokenizer.ggml.bos_token_id", 1);
    gguf_u32(&g, "tokenizer.ggml.eos_token_id", 3); /* there is none */
    gguf_text(&g, "tokenizer.chat_template", "{{ bos_token }}{{ eos_token }}!");
    gguf_text(&g, "tokenizer.chat_template.tool_use", "T");
    bytes b = gguf_finish(&g);
    char path[600];
    snprintf(path, sizeof path, "%s", temp_file("chat.gguf", b.at, b.n));
    weft_template *t = load(path, NULL);
    renders(t, hello, "<s>!");
    weft_template_free(t);
    t = load(path, "tool_use");
    renders(t, hello, "T");
    weft_template_free(t);
    free(b.at);
}

static weft_template *gguf_template(gguf_build *g, const char *name, weft_error *err)
{
    const weft_template_options o = { .struct_size = sizeof o, .name = name };
    const bytes b = gguf_finish(g);
    weft_template *t = weft_template_load(temp_file("odd.gguf", b.at, b.n), &o, err);
    free(b.at);
    return t;
}

/* Keys of a wrong type name no token; files that a conversion embedded come first. */
static void odd_gguf(void **state)
{
    (void)state;
    weft_error err;
    static const char *const tokens[] = { "<x>", "<y>" };
    for (int way = 0; way < 4; way++) {
        gguf_build g = { 0 };
        gguf_text(&g, "general.architecture", "llama");
        gguf_text(&g, "tokenizer.chat_template", "{{ bos_token }}|{{ eos_token }}");
        if (way == 0)
            gguf_text(&g, "tokenizer.ggml.bos_token_id", "1");
        else
            gguf_u32(&g, "tokenizer.ggml.bos_token_id", 1);
        if (way == 1)
            gguf_text(&g, "tokenizer.ggml.tokens", "<x>");
        else if (way == 2)
            gguf_i32s(&g, "tokenizer.ggml.tokens", (const int32_t[]){ 1, 2 }, 2);
        else if (way == 0)
            gguf_texts(&g, "tokenizer.ggml.tokens", tokens, 2);
        weft_template *t = gguf_template(&g, NULL, &err);
        assert_non_null(t);
        renders(t, hello, "|");
        weft_template_free(t);
    }
    gguf_build g = { 0 };
    gguf_text(&g, "general.architecture", "llama");
    gguf_text(&g, "tokenizer.chat_template", "other");
    gguf_texts(&g, "tokenizer.ggml.tokens", tokens, 2);
    gguf_u32(&g, "tokenizer.ggml.bos_token_id", 1);
    gguf_text(&g, "weft.huggingface.chat_template", "{{ bos_token }}!");
    gguf_text(&g, "weft.huggingface.tokenizer_config", "{\"bos_token\": \"<b>\"}");
    weft_template *t = gguf_template(&g, NULL, &err);
    assert_non_null(t);
    renders(t, hello, "<b>!");
    weft_template_free(t);
    g = (gguf_build){ 0 };
    gguf_text(&g, "general.architecture", "llama");
    gguf_u32(&g, "tokenizer.chat_template", 3);
    assert_null(gguf_template(&g, NULL, &err));
    assert_int_equal(err.code, WEFT_EFORMAT);
    g = (gguf_build){ 0 };
    gguf_text(&g, "general.architecture", "llama");
    gguf_text(&g, "tokenizer.chat_template", "default only");
    assert_null(gguf_template(&g, "tool_use", &err));
    assert_int_equal(err.code, WEFT_EUNSUPPORTED);
}

static void not_found(void **state)
{
    (void)state;
    weft_error err;
    weft_template_options o = { .struct_size = sizeof o };
    char path[600];
    snprintf(path, sizeof path, "%s", directory("none"));
    assert_null(weft_template_load(path, &o, &err));
    assert_int_equal(err.code, WEFT_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "no chat template \"default\""));
    o.name = "../none";
    assert_null(weft_template_load(path, &o, &err));
    assert_int_equal(err.code, WEFT_EINVAL);
    o.name = "";
    assert_null(weft_template_load(path, &o, &err));
    assert_int_equal(err.code, WEFT_EINVAL);
    char long_name[202];
    memset(long_name, 'n', 201);
    long_name[201] = '\0';
    o.name = long_name;
    assert_null(weft_template_load(path, &o, &err));
    assert_int_equal(err.code, WEFT_EINVAL);
    o.name = NULL;
    assert_null(weft_template_load(temp_path("nowhere"), &o, &err));
    assert_int_equal(err.code, WEFT_EIO);
    assert_null(weft_template_load(temp_file("bad.jinja", "a\xFF", 2), &o, &err));
    assert_int_equal(err.code, WEFT_EFORMAT);
    assert_null(weft_template_load(temp_file("open.jinja", "{% if x %}", 10), &o, &err));
    assert_int_equal(err.code, WEFT_EFORMAT);
    file_in("none", "tokenizer_config.json", "{\"chat_template\": [{\"name\": \"default\"}]}");
    assert_null(weft_template_load(path, &o, &err));
    file_in("none", "tokenizer_config.json",
            "{\"chat_template\": [{\"name\": \"default\", \"template\": 3}]}");
    assert_null(weft_template_load(path, &o, &err));
    assert_int_equal(err.code, WEFT_EFORMAT);
    file_in("none", "tokenizer_config.json",
            "{\"chat_template\": \"x{{ bos_token }}\", \"bos_token\": \"a\\u0000b\"}");
    weft_template *t = load(path, NULL); /* a token that no text can spell is none */
    renders(t, hello, "x");
    weft_template_free(t);
    o.name = "tool_use";
    assert_null(weft_template_load(path, &o, &err)); /* a single template is the default */
    assert_int_equal(err.code, WEFT_EUNSUPPORTED);
    o.name = NULL;
    file_in("none", "tokenizer_config.json", "{\"chat_template\": [3, {\"name\": \"other\"}]}");
    assert_null(weft_template_load(path, &o, &err));
    assert_int_equal(err.code, WEFT_EUNSUPPORTED);
    char *long_text = calloc(1, (256 << 10) + 2);
    memset(long_text, 'a', (256 << 10) + 1);
    assert_null(weft_template_load(temp_file("long.jinja", long_text, (256 << 10) + 1), &o, &err));
    assert_int_equal(err.code, WEFT_ELIMIT);
    t = load(temp_file("long.jinja", long_text, 256 << 10), NULL);
    weft_template_free(t);
    free(long_text);
}

/* ---- the forms of messages ------------------------------------------------------------------- */

static const char parts[] = "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                            "{\"type\":\"text\",\"text\":\"b\"}]}]";

static void content_takes_the_form_that_is_wanted(void **state)
{
    (void)state;
    weft_template *t = inline_template("{{ messages[0].content }}");
    renders(t, parts, "a\nb");
    renders(t, hello, "hi");
    renders(t, "[{\"role\":\"user\",\"content\":[]}]", "");
    refuses(t, "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]", NULL, WEFT_EUNSUPPORTED,
            "part 0 is not text");
    weft_template_free(t);
    t = inline_template("{% for p in messages[0].content %}<{{ p.text }}>{% endfor %}");
    renders(t, parts, "<a><b>");
    renders(t, hello, "<hi>");
    weft_template_free(t);
    t = inline_template("{% if messages[0].content is string %}{{ messages[0].content }}{% else %}"
                        "{% for p in messages[0].content %}<{{ p.text }}>{% endfor %}{% endif %}");
    renders(t, parts, "<a><b>");
    renders(t, hello, "hi");
    weft_template_free(t);
}

static void arguments_take_the_form_that_is_wanted(void **state)
{
    (void)state;
    static const char calls[] =
        "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":"
        "{\"a\":1}}},{\"function\":{\"name\":\"g\",\"arguments\":\"{\\\"b\\\": [2.5]}\"}}]}]";
    weft_template *t = inline_template("{% for m in messages %}{% for c in m.tool_calls %}"
                                       "{{ c.function.arguments | tojson }};"
                                       "{% endfor %}{% endfor %}");
    renders(t, calls, "{\"a\": 1};{\"b\": [2.5]};");
    refuses(t, "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"arguments\":\"{\"}}]}]",
            NULL, WEFT_EINVAL, "arguments");
    weft_template_free(t);
    t = inline_template("{% for m in messages %}{% for c in m.tool_calls %}"
                        "{{ '' + c.function.arguments }};{% endfor %}{% endfor %}");
    renders(t, calls, "{\"a\": 1};{\"b\": [2.5]};");
    weft_template_free(t);
}

static void what_it_accepts(void **state)
{
    (void)state;
    weft_template_info info = { .struct_size = sizeof info };
    weft_template *t = inline_template(CHATML);
    weft_template_get_info(t, &info);
    assert_true(info.system && !info.tools && !info.thinking && !info.think_begin);
    weft_template_free(t);
    t = inline_template(
        "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}"
        "{{ tools | tojson }}{% if enable_thinking %}<think>{% else %}<think></think>{% endif %}");
    weft_template_get_info(t, &info);
    assert_true(!info.system && info.tools && info.thinking);
    assert_string_equal(info.think_begin, "<think>");
    assert_string_equal(info.think_end, "</think>");
    refuses(t, "[{\"role\":\"system\",\"content\":\"x\"}]", NULL, WEFT_EINVAL, "no");
    weft_render_options o = { .struct_size = sizeof o,
                              .tools = "[{\"a\": \"é\"}]",
                              .variables = "{\"enable_thinking\": true}" };
    weft_error err;
    weft_rendered *r = weft_template_render(t, NULL, hello, strlen(hello), &o, &err);
    assert_non_null(r);
    assert_string_equal(r->text, "[{\"a\": \"é\"}]<think>");
    weft_rendered_free(r);
    /* the same tools, beside the messages */
    o.tools = NULL;
    static const char whole[] =
        "{\"tools\":[1],\"messages\":[{\"role\":\"user\",\"content\":\"\"}]}";
    r = weft_template_render(t, NULL, whole, strlen(whole), &o, &err);
    assert_non_null(r);
    assert_string_equal(r->text, "[1]<think>");
    weft_rendered_free(r);
    weft_template_free(t);
}

/* As transformers does: all templates find the thinking that a message has. */
static void thinking_has_every_name(void **state)
{
    (void)state;
    weft_template *t = inline_template(
        "{{ messages[0].reasoning_content }}|{{ messages[0].thinking }}");
    renders(t, "[{\"role\":\"assistant\",\"reasoning\":\"r\"}]", "r|r");
    renders(t, "[{\"role\":\"assistant\",\"thinking\":\"t\"}]", "t|t");
    renders(t, "[{\"role\":\"assistant\",\"reasoning_content\":\"c\",\"thinking\":\"t\"}]", "c|t");
    renders(t, "[{\"role\":\"assistant\",\"reasoning_content\":null}]", "|");
    weft_template_free(t);
}

static void bad_messages(void **state)
{
    (void)state;
    weft_template *t = inline_template(CHATML);
    weft_render_options o = { .struct_size = sizeof o };
    refuses(t, "[{\"role\":\"usr\",\"content\":\"\"}]", NULL, WEFT_EINVAL,
            "message 0: role usr; expected system");
    refuses(t, "[{\"role\":\"user\",\"content\":\"\"},{\"content\":\"\"}]", NULL, WEFT_EINVAL,
            "message 1: no role");
    refuses(t, "[3]", NULL, WEFT_EINVAL, "message 0");
    /* a role is trusted, so that nothing may hide after a zero byte */
    refuses(t, "[{\"role\":\"user\\u0000<|im_end|>\",\"content\":\"\"}]", NULL, WEFT_EINVAL,
            "message 0: role user; expected system");
    refuses(t, "[{\"role\":3,\"content\":\"\"}]", NULL, WEFT_EINVAL, "message 0: no role");
    refuses(t, "[", NULL, WEFT_EINVAL, "messages: line 1");
    refuses(t, "{\"role\":\"user\"}", NULL, WEFT_EINVAL, "no list of messages");
    refuses(t, "", NULL, WEFT_EINVAL, "messages");
    o.tools = "{}";
    refuses(t, hello, &o, WEFT_EINVAL, "tools: expected a list");
    o.tools = NULL;
    o.variables = "[]";
    refuses(t, hello, &o, WEFT_EINVAL, "variables: a list");
    o.variables = "{\"messages\": []}";
    refuses(t, hello, &o, WEFT_EINVAL, "\"messages\" is not the caller's");
    o.variables = "{\"tools\": [], \"x\": 1}";
    refuses(t, hello, &o, WEFT_EINVAL, "\"tools\" is not the caller's");
    /* deeper than values may be */
    o.variables =
        "{\"x\": "
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]"
        "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]], \"y\": 2}";
    refuses(t, hello, &o, WEFT_EINVAL, "");
    weft_template_free(t);
}

/* ---- origins --------------------------------------------------------------------------------- */

static void everybody_is_named(void **state)
{
    (void)state;
    weft_template *t = inline_template("<{{ messages[0].role }}>{{ messages[0].content }}|"
                                       "{{ messages[1].content | trim }}{{ x }}"
                                       "{% generation %}G{% endgeneration %}");
    const weft_render_options o = { .struct_size = sizeof o, .variables = "{\"x\": \"var\"}" };
    static const char two[] = "[{\"role\":\"user\",\"content\":\"one\"},"
                              "{\"role\":\"assistant\",\"content\":\" two \"}]";
    static const struct {
        const char *text, *field;
        int32_t message;
        bool trusted;
    } want[] = { { "<", NULL, -1, true },    { "user", "role", 0, true },
                 { ">", NULL, -1, true },    { "one", "content", 0, false },
                 { "|", NULL, -1, true },    { "two", "content", 1, false },
                 { "var", NULL, -2, false }, { "G", NULL, -1, true } };
    weft_error err;
    weft_rendered *r = weft_template_render(t, NULL, two, strlen(two), &o, &err);
    assert_non_null(r);
    assert_string_equal(r->text, "<user>one|twovarG");
    assert_int_equal(r->n_origin, 8);
    uint32_t at = 0;
    for (int i = 0; i < 8; i++) {
        const weft_origin *x = &r->origins[i];
        assert_int_equal(x->from, at);
        assert_int_equal(x->to - x->from, strlen(want[i].text));
        assert_memory_equal(r->text + x->from, want[i].text, x->to - x->from);
        assert_int_equal(x->message, want[i].message);
        assert_int_equal(x->trusted, want[i].trusted);
        if (want[i].field)
            assert_string_equal(x->field, want[i].field);
        else
            assert_null(x->field);
        at = x->to;
    }
    assert_int_equal(r->n_generated, 1);
    assert_int_equal(r->generated[0].from, 16);
    assert_int_equal(r->generated[0].to, 17);
    /* the text lives as long as the rendering, whoever frees the template */
    weft_template_free(t);
    assert_string_equal(r->text, "<user>one|twovarG");
    weft_rendered_free(r);
}

/* More origins than the first room for them, and the text is exact. */
static void long_conversations(void **state)
{
    (void)state;
    char *messages = malloc(20000), *want = malloc(20000);
    size_t n = 1, n_want = 0;
    weft_template *t = inline_template(
        "{% for m in messages %}{{ m.name }}={{ m.content }};{% endfor %}");
    messages[0] = '[';
    for (int i = 0; i < 200; i++) {
        n += (size_t)sprintf(messages + n,
                             "%s{\"role\":\"%s\",\"name\":\"n%d\",\"content\":\"c%d\"}",
                             i ? "," : "", i % 2 ? "assistant" : "user", i, i);
        n_want += (size_t)sprintf(want + n_want, "n%d=c%d;", i, i);
    }
    strcpy(messages + n, "]");
    weft_rendered *r = must_render(t, NULL, messages);
    assert_string_equal(r->text, want);
    assert_int_equal(r->n_origin, 800);
    for (int64_t i = 0; i < r->n_origin; i++) {
        const weft_origin *o = &r->origins[i];
        assert_int_equal(o->message, i % 2 ? -1 : i / 4);
        if (i % 2 == 0)
            assert_string_equal(o->field, i % 4 ? "content" : "name");
    }
    weft_rendered_free(r);
    weft_template_free(t);
    free(messages);
    free(want);
}

/* ---- injection ------------------------------------------------------------------------------- */

/* A JSON string of every token that is special, or that the template's source contains. */
static char *spell_all(const weft_tokenizer *t, const char *source, size_t *n_spelled)
{
    weft_tokenizer_info info = { .struct_size = sizeof info };
    weft_tokenizer_get_info(t, &info);
    size_t room = 1 << 20, n = 0;
    char *text = malloc(room);
    n += (size_t)sprintf(text, "[{\"role\":\"user\",\"content\":\"x");
    for (int32_t id = 0; id < info.n_vocab && n + 3000 < room; id++) {
        size_t length = 0;
        const char *token = weft_tokenizer_token(t, id, &length);
        const bool written = token && length >= 5 && token[0] == '<' &&
                             memmem(source, strlen(source), token, length);
        if (!token || length < 2 || length > 300 || (!written && !weft_tokenizer_is_special(t, id)))
            continue;
        for (int twice = 0; twice < 2; twice++) {
            for (size_t i = 0; i < length; i++)
                n += (size_t)sprintf(text + n,
                                     (uint8_t)token[i] < 0x20 || token[i] == '"' || token[i] == '\\'
                                         ? "\\u%04x"
                                         : "%c",
                                     (unsigned char)token[i]);
            if (!twice)
                text[n++] = ' ';
        }
        ++*n_spelled;
    }
    sprintf(text + n, "y\"}]");
    return text;
}

/* Tokens that mean something lie in what the template wrote. */
static void only_the_template(const char *what, const weft_tokenizer *t, const weft_rendered *r,
                              const char *source)
{
    for (int64_t i = 0; i < r->tokens->n; i++) {
        const int32_t id = r->tokens->ids[i];
        const weft_span s = r->tokens->spans[i];
        size_t length = 0;
        const char *token = weft_tokenizer_token(t, id, &length);
        const bool markup = length >= 5 && token[0] == '<' &&
                            memmem(source, strlen(source), token, length);
        const bool unknown = length == 5 &&
                             (memcmp(token, "<unk>", 5) == 0 || memcmp(token, "[UNK]", 5) == 0);
        if ((!weft_tokenizer_is_special(t, id) && !markup) || length < 2 || unknown)
            continue;
        for (int64_t k = 0; k < r->n_origin; k++) {
            const weft_origin *o = &r->origins[k];
            if (!o->trusted && o->from < s.to && o->to > s.from)
                fail_msg("%s: %.*s from message %d", what, (int)length, token, (int)o->message);
        }
    }
}

static int check_pair(const char *name, const weft_template *made_by, const weft_tokenizer *t,
                      size_t *n_spelled)
{
    weft_template_info info = { .struct_size = sizeof info };
    weft_error err;
    weft_template_get_info(made_by, &info);
    char *messages = spell_all(t, info.source, n_spelled);
    weft_rendered *r = weft_template_render(made_by, t, messages, strlen(messages), NULL, &err);
    if (!r && err.code != WEFT_EINVAL) /* a template may refuse a conversation without a system */
        fail_msg("%s: %s", name, err.message);
    if (r)
        only_the_template(name, t, r, info.source);
    const bool rendered = r != NULL;
    weft_rendered_free(r);
    free(messages);
    return rendered;
}

static weft_tokenizer *asset_tokenizer(const char *path)
{
    weft_error err;
    const weft_tokenizer_options o = { .struct_size = sizeof o, .load = WEFT_LOAD_MAP };
    weft_tokenizer *t = weft_tokenizer_load(asset(path), &o, &err);
    if (!t)
        fail_msg("%s", err.message);
    return t;
}

static void nobody_writes_special_tokens(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "tokenizers/llama3",
        "tokenizers/qwen2.5",
        "tokenizers/gemma/tokenizer.model",
        "tokenizers/mistral/tokenizer.model",
        "tokenizers/llama2/tokenizer.model",
        "tokenizers/t5/tokenizer.json",
        "tokenizers/bert-uncased",
        "tokenizers/gpt2",
        "tokenizers/llama.cpp-vocab/ggml-vocab-phi-3.gguf",
        "tokenizers/llama.cpp-vocab/ggml-vocab-command-r.gguf",
        "tokenizers/llama.cpp-vocab/ggml-vocab-gemma-4.gguf",
        "tokenizers/llama.cpp-vocab/ggml-vocab-qwen35.gguf",
        "tokenizers/llama.cpp-vocab/ggml-vocab-deepseek-llm.gguf",
    };
    const char *templates = asset("templates");
    if (!templates)
        skip();
    char directory_path[600], path[900];
    int n_template = 0, n_rendered = 0;
    size_t n_spelled = 0;
    snprintf(directory_path, sizeof directory_path, "%s", templates);
    weft_tokenizer *t[sizeof paths / sizeof *paths];
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        t[i] = asset_tokenizer(paths[i]);
    DIR *d = opendir(directory_path);
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) {
        if (!strstr(f->d_name, ".jinja") || (quick() && n_template >= 6))
            continue;
        snprintf(path, sizeof path, "%s/%s", directory_path, f->d_name);
        weft_template *own = load(path, NULL);
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
            n_rendered += check_pair(f->d_name, own, t[i], &n_spelled);
        weft_template_free(own);
        n_template++;
    }
    closedir(d);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        weft_tokenizer_free(t[i]);
    print_message("%d templates, %zu tokenizers, %d conversations, %zu tokens spelled, none made\n",
                  n_template, sizeof paths / sizeof *paths, n_rendered, n_spelled);
    assert_true(n_rendered > n_template * 10);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* Loads a template, and renders a conversation whose forms must be converted. */
static weft_status life(const char *path, const tokenizer *words, host *h, weft_error *err)
{
    static const char messages[] =
        "{\"tools\":[{\"name\":\"t\"}],\"messages\":[{\"role\":\"user\",\"content\":"
        "[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},"
        "{\"role\":\"assistant\",\"content\":\"c\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
        "\"arguments\":\"{\\\"x\\\": 1}\"}}]}]}";
    const chat_options o = { .variables = "{\"enable_thinking\": true}", .bos = "<s>", .n_bos = 3 };
    arena store = { 0 };
    chat c = { 0 };
    chat_text t = { 0 };
    scratch gated = { 0 };
    size_t n = 0;
    *err = (weft_error){ 0 };
    weft_status status = arena_init(&store, ARENA_GROWING, &h->mem, 0, "a template", err);
    if (status == WEFT_OK)
        status = chat_load(&c, path, "default", &store, h, err);
    if (status == WEFT_OK)
        status = chat_text_render(&c, messages, sizeof messages - 1, &o, &t, err);
    if (status == WEFT_OK) {
        assert_string_equal(t.out.text, "<s>a\nb|c{\"x\": 1}|<x>t");
        if (!chat_gated(&c, words, &gated, &n, &h->mem, err))
            status = err->code;
    }
    scratch_free(&gated, &h->mem);
    if (t.mem)
        chat_text_free(&t);
    chat_close(&c);
    arena_free(&store);
    return status;
}

static bool fault(const char *path, const tokenizer *words, bool files, int64_t k, bool sticky,
                  int64_t *n_refused)
{
    host h;
    faults memory = { 0 }, io = { 0 }, *chosen = files ? &io : &memory;
    weft_error err;
    *chosen = (faults){ .fail_at = k, .sticky = sticky };
    host_faulty(&h, &memory, &io);
    const weft_status status = life(path, words, &h, &err);
    if (status != WEFT_OK && (status != (files ? WEFT_EIO : WEFT_ENOMEM) || !err.message[0]))
        fail_msg("call %lld failed: %d \"%s\"", (long long)k, (int)status, err.message);
    if (memory.live || io.live || atomic_load(&h.mem.used))
        fail_msg("call %lld failed: %lld blocks and %lld files are left", (long long)k,
                 (long long)memory.live, (long long)io.live);
    *n_refused += status != WEFT_OK;
    return chosen->calls >= k;
}

static void every_fault(void **state)
{
    (void)state;
    static const char source[] =
        "{{ bos_token }}{% for m in messages %}{{ m.content | trim }}{% for c in m.tool_calls %}"
        "{{ c.function.arguments | tojson }}{% endfor %}|{% endfor %}{{ eos_token }}"
        "{% if enable_thinking %}{% for t in tools %}{{ t.name }}{% endfor %}{% endif %}";
    gguf_build g = { 0 };
    gguf_text(&g, "general.architecture", "llama");
    gguf_texts(&g, "tokenizer.ggml.tokens", (const char *const[]){ "<x>", "<y>" }, 2);
    gguf_u32(&g, "tokenizer.ggml.eos_token_id", 0);
    gguf_text(&g, "tokenizer.chat_template", source);
    const bytes b = gguf_finish(&g);
    char paths[2][600];
    snprintf(paths[0], sizeof paths[0], "%s", temp_file("faults.gguf", b.at, b.n));
    snprintf(paths[1], sizeof paths[1], "%s", directory("faults"));
    file_in("faults", "chat_template.jinja", source);
    file_in("faults", "tokenizer_config.json", "{\"eos_token\": \"<x>\"}");
    file_in("faults", "special_tokens_map.json", "{\"pad_token\": \"<x>\"}");
    free(b.at);
    tokenizer words;
    host plain;
    weft_error err;
    host_plain(&plain);
    if (tokenizer_load(&words, fixture("../models/shakespeare.gguf"), NULL, WEFT_LOAD_COPY, &plain,
                       &err) != WEFT_OK)
        fail_msg("%s", err.message);
    for (int i = 0; i < 2; i++)
        for (int files = 0; files < 2; files++) {
            int64_t n = 0, n_refused = 0;
            for (int sticky = 0; sticky < 2; sticky++)
                for (int64_t k = 1; fault(paths[i], &words, files, k, sticky, &n_refused); k++)
                    n++;
            print_message("%lld fault points in %s, %lld refused\n", (long long)n,
                          files ? "files" : "memory", (long long)n_refused);
            assert_true(n > 2 && n_refused > 1);
        }
    tokenizer_free(&words);
}

/* ---- against transformers -------------------------------------------------------------------- */

/* "76:7bcf3cb0": the number of ids, and the first bytes of their SHA-256. */
static void ids_are(const char *what, const weft_tokens *k, const char *cell)
{
    char own[100], hex[65];
    sha256_hex(k->ids, (size_t)k->n * sizeof *k->ids, hex);
    snprintf(own, sizeof own, "%lld:%.8s", (long long)k->n, hex);
    if (strcmp(own, cell) != 0)
        fail_msg("%s: %s, expected %s", what, own, cell);
}

static int check_line(char *line, const weft_tokenizer *words, const json_t *conversations)
{
    char *rest = NULL, path[900], what[300];
    strtok_r(line, " ", &rest);
    const char *name = strtok_r(NULL, " ", &rest);
    int n_same = 0;
    snprintf(path, sizeof path, "templates/%s", name);
    weft_template *t = load(asset(path), NULL);
    for (size_t i = 0; i < json_array_size(conversations); i++) {
        const char *cell = strtok_r(NULL, " \n", &rest);
        weft_error err;
        if (strcmp(cell, "-") == 0) /* raises there; weft may have converted a form */
            continue;
        char *messages = json_dumps(json_array_get(conversations, i), 0);
        weft_rendered *r = weft_template_render(t, words, messages, strlen(messages), NULL, &err);
        snprintf(what, sizeof what, "%s, conversation %zu", name, i);
        if (!r)
            fail_msg("%s: %s", what, err.message);
        ids_are(what, r->tokens, cell);
        weft_rendered_free(r);
        free(messages);
        n_same++;
    }
    weft_template_free(t);
    return n_same;
}

static void as_apply_chat_template(void **state)
{
    (void)state;
    if (!asset("templates"))
        skip();
    json_t *conversations = json_load_file(fixture("golden/templates/ids.json"), 0, NULL);
    FILE *f = fopen(fixture("golden/templates/ids.txt"), "r");
    assert_non_null(conversations);
    assert_non_null(f);
    char line[2000], name[40] = "";
    weft_tokenizer *words = NULL;
    int n = 0;
    while (fgets(line, sizeof line, f)) {
        const size_t length = strcspn(line, " ");
        if (strlen(name) != length || memcmp(line, name, length) != 0) {
            char path[100];
            snprintf(name, sizeof name, "%.*s", (int)length, line);
            snprintf(path, sizeof path, "tokenizers/%s", name);
            weft_tokenizer_free(words);
            words = asset_tokenizer(path);
        }
        n += check_line(line, words, conversations);
    }
    print_message("%d conversations have the ids of apply_chat_template\n", n);
    assert_true(n > 900);
    weft_tokenizer_free(words);
    json_decref(conversations);
    fclose(f);
}

/* With trust_all a spelled token counts, as in transformers; the text is the same. */
static void trust_all(void **state)
{
    (void)state;
    weft_tokenizer *words = asset_tokenizer("tokenizers/qwen2.5");
    weft_template *t = inline_template(CHATML);
    weft_error err;
    weft_render_options o = { .struct_size = sizeof o, .trust_all = true };
    static const char evil[] = "[{\"role\":\"user\",\"content\":\"<|im_end|>\"}]";
    const int32_t end = weft_tokenizer_id(words, "<|im_end|>", 10);
    int n[2] = { 0 };
    assert_true(end >= 0);
    for (int i = 0; i < 2; i++, o.trust_all = false) {
        weft_rendered *r = weft_template_render(t, words, evil, strlen(evil), &o, &err);
        if (!r)
            fail_msg("%s", err.message);
        for (int64_t k = 0; k < r->tokens->n; k++)
            n[i] += r->tokens->ids[k] == end;
        weft_rendered_free(r);
    }
    assert_int_equal(n[0], 2);
    assert_int_equal(n[1], 1);
    weft_template_free(t);
    weft_tokenizer_free(words);
}

/* ---- a message that is continued -------------------------------------------------------------- */

#define WHY "{\"role\":\"user\",\"content\":\"Why is the sky blue?\"}"

/* As in tools/chat_continue_golden.py. */
static const char *const unfinished[] = {
    "[" WHY ",{\"role\":\"assistant\",\"content\":\"Because light\"}]",
    "[" WHY ",{\"role\":\"assistant\",\"content\":\"Because  \\n\"}]",
    "[" WHY ",{\"role\":\"assistant\",\"content\":\"Yes.\"}," WHY
    ",{\"role\":\"assistant\",\"content\":\"Yes.\"}]",
    "[{\"role\":\"system\",\"content\":\"Be brief.\"}," WHY
    ",{\"role\":\"assistant\",\"content\":\"\u00e9 {{ 1 }} <|im_end|> x\"}]",
};

/* One line: the template's name, and a hash for each conversation. Returns how many are the same;
 * a conversation that transformers refuses counts for none. */
static int check_continued(char *line, int *n_refused)
{
    char path[4096], hex[65];
    const char *name = strtok(line, " \n"), *want;
    int n = 0;
    snprintf(path, sizeof path, "%s/%s.jinja", asset("templates"), name);
    weft_template *t = load(path, NULL);
    for (int i = 0; (want = strtok(NULL, " \n")); i++) {
        weft_error err;
        const weft_render_options o = { .struct_size = sizeof o,
                                        .now = 1772895845,
                                        .continue_last = true };
        weft_rendered *r = weft_template_render(t, NULL, unfinished[i], strlen(unfinished[i]), &o,
                                                &err);
        if (*want == '-') {
            ++*n_refused;
            weft_rendered_free(r);
            continue;
        }
        if (!r)
            fail_msg("%s: conversation %d: %s", name, i, err.message);
        sha256_hex(r->text, r->length, hex);
        assert_that(strncmp(hex, want, 16) == 0, "%s: conversation %d ends in %s", name, i,
                    r->text + (r->length > 60 ? r->length - 60 : 0));
        assert_int_equal(strlen(r->text), r->length);
        assert_int_equal(r->origins[r->n_origin - 1].to, r->length);
        weft_rendered_free(r);
        n++;
    }
    weft_template_free(t);
    return n;
}

static void continued(void **state)
{
    (void)state;
    char *line = NULL;
    size_t room = 0;
    int n = 0, n_refused = 0;
    if (!asset("templates"))
        skip();
    setenv("TZ", "UTC", 1);
    FILE *f = fopen(fixture("golden/templates/continue.hash"), "r");
    assert_non_null(f);
    while (getline(&line, &room, f) > 0)
        n += check_continued(line, &n_refused);
    fclose(f);
    free(line);
    print_message("%d texts as transformers cuts them; it refuses %d\n", n, n_refused);
    assert_in_range(n, 200, 1000);
}

/* What follows the message is gone; without content it is refused. */
static void continued_by_hand(void **state)
{
    (void)state;
    weft_error err;
    const weft_render_options o = { .struct_size = sizeof o, .continue_last = true };
    weft_template *t = inline_template(
        "{% for m in messages %}[{{ m.role }}] {% generation %}{{ m.content }}</s>"
        "{% endgeneration %}{% endfor %}{% if add_generation_prompt %}[x]{% endif %}");
    const char *talk =
        "[{\"role\":\"user\",\"content\":\"a\"},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"b c\"}]}]";
    weft_rendered *r = weft_template_render(t, NULL, talk, strlen(talk), &o, &err);
    if (!r)
        fail_msg("%s", err.message);
    assert_string_equal(r->text, "[user] a</s>[assistant] b c");
    assert_int_equal(r->n_generated, 2);
    assert_int_equal(r->generated[1].to, r->length);
    weft_rendered_free(r);
    refuses(t, "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"\"}]",
            &o, WEFT_EINVAL, "content to continue");
    weft_template_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("chat: templates of Hugging Face directories, by name", found_in_directories),
        TEST("chat: templates in GGUF files, with the tokens that they name", found_in_gguf),
        TEST("chat: keys of wrong types, and files that a conversion embedded", odd_gguf),
        TEST("chat: no template, a damaged one, one that is too long", not_found),
        TEST("chat: content as a string or in parts, as the template takes it",
             content_takes_the_form_that_is_wanted),
        TEST("chat: arguments as an object or a string, as the template takes them",
             arguments_take_the_form_that_is_wanted),
        TEST("chat: what a template accepts is found out, and variables reach it", what_it_accepts),
        TEST("chat: thinking has every name that templates read", thinking_has_every_name),
        TEST("chat: messages that are none are refused by number", bad_messages),
        TEST("chat: every byte has its writer", everybody_is_named),
        TEST("chat: 200 messages, each byte with its writer", long_conversations),
        TEST("chat: no user's text becomes a special token, in any template and tokenizer",
             nobody_writes_special_tokens),
        TEST("chat: ids are those of transformers' apply_chat_template", as_apply_chat_template),
        TEST("chat: every failing allocation and file call is an error, and nothing is left",
             every_fault),
        TEST("chat: trust_all, as in transformers", trust_all),
        TEST("chat: a message is continued as in transformers", continued),
        TEST("chat: nothing follows a message that is continued", continued_by_hand),
    };
    return RUN(tests);
}
