/* Conversations as training data: the forms of data sets, and that exactly what the assistant wrote
 * has a loss. */
#include "sha256.h"
#include "support.h"

#include "formats/json.h"
#include "text/sources/chat_file.h"
#include "text/sources/source.h"
#include "train/corpus_open.h"
#include "train/data.h"

/* ---- a tokenizer and a template -------------------------------------------------------------- */

/* Printable characters and line breaks by their code; special <s> (0) and <e> (1), and <call> (2),
 * which is added but not special. */
enum { EOS = 1, N_VOCAB = 130 };

static void put_added(char *to, size_t room, int id, const char *text, bool special)
{
    const size_t n = strlen(to);
    snprintf(to + n, room - n,
             "%s{\"id\": %d, \"content\": \"%s\", \"single_word\": false, \"lstrip\": false, "
             "\"rstrip\": false, \"normalized\": false, \"special\": %s}",
             id ? ", " : "", id, text, special ? "true" : "false");
}

static void tokenizer_open(tokenizer *t, host *h)
{
    char entries[4096] = "", tokens[1024] = "", json[8192];
    size_t n = (size_t)snprintf(entries, sizeof entries,
                                "\"<s>\": 0, \"<e>\": 1, \"<call>\": 2, "
                                "\"\\n\": 10");
    for (int c = 32; c < 127; c++)
        n += (size_t)snprintf(entries + n, sizeof entries - n, ", \"%s%c\": %d",
                              c == '"' || c == '\\' ? "\\" : "", c, c);
    put_added(tokens, sizeof tokens, 0, "<s>", true);
    put_added(tokens, sizeof tokens, 1, "<e>", true);
    put_added(tokens, sizeof tokens, 2, "<call>", false);
    const int length = snprintf(
        json, sizeof json,
        "{\"version\": \"1.0\", \"added_tokens\": [%s], \"normalizer\": null, \"pre_tokenizer\": "
        "null, \"post_processor\": null, \"decoder\": {\"type\": \"Fuse\"}, \"model\": {\"type\": "
        "\"BPE\", \"vocab\": {%s, \"no\": 129}, \"merges\": [[\"n\", \"o\"]]}}",
        tokens, entries);
    weft_error err = { 0 };
    host_plain(h);
    if (tokenizer_load(t, temp_file("tokenizer.json", json, (size_t)length), NULL, WEFT_LOAD_COPY,
                       h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    t->eos = EOS;
}

/* A template and data that are read with it. */
typedef struct lesson {
    host host, tokenizer_host;
    tokenizer tokenizer;
    arena store;
    chat chat;
    corpus corpus;
    weft_error err;
} lesson;

static weft_status lesson_try(lesson *l, const char *jinja, const char *jsonl)
{
    const char *path = temp_file("t.jinja", jinja, strlen(jinja));
    *l = (lesson){ 0 };
    host_plain(&l->host);
    tokenizer_open(&l->tokenizer, &l->tokenizer_host);
    if (arena_init(&l->store, ARENA_GROWING, &l->host.mem, 0, "a template", &l->err) != WEFT_OK ||
        chat_load(&l->chat, path, "default", &l->store, &l->host, &l->err) != WEFT_OK)
        fail_msg("%s", l->err.message);
    const corpus_options o = {
        .tokenizer = &l->tokenizer, .chat = &l->chat, .eos = EOS, .n_thread = 1
    };
    path = temp_file("data.jsonl", jsonl, strlen(jsonl));
    return corpus_open(&l->corpus, &path, 1, &o, &l->host, &l->err);
}

static void lesson_close(lesson *l)
{
    corpus_close(&l->corpus);
    chat_close(&l->chat);
    arena_free(&l->store);
    tokenizer_free(&l->tokenizer);
    assert_int_equal(l->host.mem.used, 0);
}

/* The text of the corpus, with what is learned between [ and ], and | after each document. */
static const char *marked_text(const corpus *c, const tokenizer *t)
{
    static char text[8192];
    size_t n = 0;
    for (int64_t k = 0; k < c->n_source; k++) {
        const shard *s = &c->source[k].shard;
        uint64_t at = 0;
        bool learned = false;
        for (uint64_t i = 0; i < s->n_id; i++) {
            const bool now = shard_has_loss(s, i) &&
                             i - shard_begin(s, at) >= s->document[at].n_prompt;
            const uint32_t id = shard_id(s, i);
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s",
                                  now == learned ? ""
                                  : now          ? "["
                                                 : "]",
                                  (int)t->vocab.length[id], vocab_text(&t->vocab, id));
            learned = now;
            if (i + 1 == s->document[at].end) {
                n += (size_t)snprintf(text + n, sizeof text - n, "%s|", learned ? "]" : "");
                learned = false;
                at++;
            }
        }
    }
    return text;
}

/* ---- what is learned ------------------------------------------------------------------------- */

#define TURNS                                                                                      \
    "{% for m in messages %}<s>{{ m.role }}\n{{ m.content }}<e>\n{% endfor %}"                     \
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"

#define HI_YES                                                                                     \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},"                                       \
    "{\"role\":\"assistant\",\"content\":\"yes\"}]}\n"

/* Each rule of chat_data.h with a template that needs it. */
static const struct {
    const char *rule, *source, *line, *text;
    int n_answer, n_unprompted, n_thought_dropped, n_endless;
} rules[] = {
    { "the answer and the token that ends it", TURNS, HI_YES,
      "<s>user\nhi<e>\n<s>assistant\n[yes<e>]\n|", 1, 0, 0, 0 },
    { "every answer", TURNS,
      "{\"messages\":[{\"role\":\"system\",\"content\":\"x\"},{\"role\":\"user\",\"content\":\"a\"}"
      ","
      "{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"c\"},"
      "{\"role\":\"assistant\",\"content\":\"d\"}]}",
      "<s>system\nx<e>\n<s>user\na<e>\n<s>assistant\n[b<e>]\n<s>user\nc<e>\n<s>assistant\n[d<e>]"
      "\n|",
      2, 0, 0, 0 },
    { "nobody else can write special tokens", TURNS,
      "{\"messages\":[{\"role\":\"user\",\"content\":\"<e>\"},"
      "{\"role\":\"assistant\",\"content\":\"<s>\"}]}",
      "<s>user\n<e><e>\n<s>assistant\n[<s><e>]\n|", 1, 0, 0, 0 },
    { "not with weight 0", TURNS,
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
      "\"b\",\"weight\":0},{\"role\":\"assistant\",\"content\":\"c\",\"weight\":1}]}",
      "<s>user\na<e>\n<s>assistant\nb<e>\n<s>assistant\n[c<e>]\n|", 1, 0, 0, 0 },
    { "ShareGPT", TURNS,
      "{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"},{\"from\":\"gpt\",\"value\":\"b\"},"
      "{\"from\":\"tool\",\"value\":\"c\"},{\"from\":\"chatgpt\",\"value\":\"d\",\"weight\":0}]}",
      "<s>user\na<e>\n<s>assistant\n[b<e>]\n<s>tool\nc<e>\n<s>assistant\nd<e>\n|", 1, 0, 0, 0 },
    { "conversations in OpenAI's form", TURNS,
      "{\"conversations\":[{\"role\":\"user\",\"content\":\"a\"},"
      "{\"role\":\"assistant\",\"content\":\"b\"}]}",
      "<s>user\na<e>\n<s>assistant\n[b<e>]\n|", 1, 0, 0, 0 },
    { "Alpaca", TURNS, "{\"instruction\":\"a\",\"input\":\"b\",\"output\":\"c\"}",
      "<s>user\na\n\nb<e>\n<s>assistant\n[c<e>]\n|", 1, 0, 0, 0 },
    { "Alpaca without an input, with a system message", TURNS,
      "{\"instruction\":\"a\",\"input\":\"\",\"output\":\"c\",\"system\":\"s\"}",
      "<s>system\ns<e>\n<s>user\na<e>\n<s>assistant\n[c<e>]\n|", 1, 0, 0, 0 },
    { "beside other lines", TURNS,
      "{\"text\":\"ab\"}\n" HI_YES "{\"prompt\":\"a\",\"completion\":\"b\"}",
      "[ab<e>]|<s>user\nhi<e>\n<s>assistant\n[yes<e>]\n|a[b<e>]|", 1, 0, 0, 0 },
    { "nothing if the assistant says nothing", TURNS,
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", "<s>user\na<e>\n|", 0, 0, 0, 0 },
    { "what the template writes inside an answer",
      "{% for m in messages %}<s>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls %}<call>"
      "{{ c.function.name }}({{ c.function.arguments | tojson }})<call>{% endfor %}<e>\n{% endfor "
      "%}"
      "{% if add_generation_prompt %}<s>assistant\n{% endif %}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"<call>\"},{\"role\":\"assistant\","
      "\"content\":"
      "\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}}]}]}",
      "<s>user\n<call><e>\n<s>assistant\n[<call>f({\"x\": 1})<call><e>]\n|", 1, 0, 0, 0 },
    { "a call of a tool may end in a special token before the turn does",
      "{% for m in messages %}<s>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls %}"
      "{{ c.function.name }}<s>{% endfor %}<e>\n{% endfor %}"
      "{% if add_generation_prompt %}<s>assistant\n{% endif %}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
      "\"b\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{}}}]}]}",
      "<s>user\na<e>\n<s>assistant\n[bf<s><e>]\n|", 1, 0, 0, 0 },
    { "the last turn may end in another token",
      "{% for m in messages %}{{ m.role }}: {{ m.content }}{% if loop.last %}<e>{% else %}<s>"
      "{% endif %}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
      "\"b\"},{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"assistant\",\"content\":\"d\"}]}",
      "user: a<s>assistant: [b<s>]user: c<s>assistant: [d<e>]|", 2, 2, 0, 0 },
    { "an added token that the template writes ends a turn, special or not",
      "{% for m in messages %}{{ m.role }}: {{ m.content }} <call>{% endfor %}"
      "{% if add_generation_prompt %}assistant: {% endif %}",
      HI_YES, "user: hi <call>assistant: [yes <call>]|", 1, 0, 0, 0 },
    { "no token that ends a turn",
      "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}assistant: {% endif %}",
      HI_YES, "user: hi\nassistant: [yes]\n|", 1, 0, 0, 1 },
    { "from the first byte, if the text has another beginning than the prompt",
      "{% for m in messages %}<s>{{ m.role }}\n{{ m.content }}<e>\n{% endfor %}"
      "{% if add_generation_prompt %}<s>assistant\n<think>{% endif %}",
      HI_YES, "<s>user\nhi<e>\n<s>assistant\n[yes<e>]\n|", 1, 1, 0, 0 },
    { "thinking that is written belongs to the answer",
      "{% for m in messages %}<s>{{ m.role }}\n{% if m.thinking %}({{ m.thinking }}){% endif %}"
      "{{ m.content }}<e>\n{% endfor %}{% if add_generation_prompt %}<s>assistant\n{% endif %}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
      "\"b\",\"reasoning\":\"t\"}]}",
      "<s>user\na<e>\n<s>assistant\n[(t)b<e>]\n|", 1, 0, 0, 0 },
    { "thinking that is dropped is counted", TURNS,
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
      "\"b\",\"reasoning_content\":\"t\"}]}",
      "<s>user\na<e>\n<s>assistant\n[b<e>]\n|", 1, 0, 1, 0 },
    { "a template that refuses a part of the conversation",
      "{% if messages|length == 1 %}{{ raise_exception('one') }}{% endif %}" TURNS, HI_YES,
      "<s>user\nhi<e>\n<s>assistant\n[yes<e>]\n|", 1, 1, 0, 0 },
    { "an answer ends where somebody else's text begins",
      "{% for m in messages %}<s>{{ m.role }}\n{{ m.content[:1] }}{{ messages[0].content }}"
      "{{ m.content[1:] }}<e>\n{% endfor %}{% if add_generation_prompt %}<s>assistant\n{% endif %}",
      HI_YES, "<s>user\nhhii<e>\n<s>assistant\n[y]hies<e>\n|", 1, 0, 0, 1 },
    { "nor is the end of the turn learned then",
      "{% for m in messages %}<s>{{ m.role }}\n{{ m.content }}{{ messages[0].content }}<e>\n"
      "{% endfor %}{% if add_generation_prompt %}<s>assistant\n{% endif %}",
      HI_YES, "<s>user\nhihi<e>\n<s>assistant\n[yes]hi<e>\n|", 1, 0, 0, 1 },
    { "an answer begins after what others wrote in its turn",
      "{% for m in messages %}<s>{{ m.role }}\n{{ messages[0].content }}: {{ m.content }}<e>\n"
      "{% endfor %}{% if add_generation_prompt %}<s>assistant\n{% endif %}",
      HI_YES, "<s>user\nhi: hi<e>\n<s>assistant\nhi[: yes<e>]\n|", 1, 0, 0, 0 },
    { "the turn, not what was quoted before it",
      "{% for m in messages %}{{ m.content }},{% endfor %}{% for m in messages %}<s>"
      "{{ m.content }}<e>{% endfor %}",
      HI_YES, "hi,yes,<s>hi<e><s>[yes<e>]|", 1, 1, 0, 0 },
    { "the turn, not what is quoted after it",
      TURNS "{{ messages[1].content if messages|length > 1 }}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
      "\"b\"},{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"assistant\",\"content\":\"d\"}]}",
      "<s>user\na<e>\n<s>assistant\n[b<e>]\n<s>user\nc<e>\n<s>assistant\n[d<e>]\nb|", 2, 1, 0, 0 },
    { "messages in another order",
      "{% for m in messages | reverse %}<s>{{ m.role }}\n{{ m.content }}<e>\n{% endfor %}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
      "\"b\"},{\"role\":\"assistant\",\"content\":\"c\"}]}",
      "<s>assistant\n[c<e>]\n<s>assistant\n[b<e>]\n<s>user\na<e>\n|", 2, 2, 0, 0 },
    { "a special token before an added one",
      "{% for m in messages %}{{ m.role }}: {{ m.content }}{% if loop.last %}!{% endif %}"
      "<call><s>{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
      "{% if messages|length == 2 and not add_generation_prompt %}{{ raise_exception('two') }}"
      "{% endif %}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
      "\"b\"},{\"role\":\"user\",\"content\":\"c\"}]}",
      "user: a<call><s>assistant: [b<call><s>]user: c!<call><s>|", 1, 1, 0, 0 },
    { "not the end of somebody else's turn",
      "{% for m in messages %}{{ m.role }}: {{ m.content }} {% if m.role == 'user' %}<e>"
      "{% endif %}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
      "\"b\"},{\"role\":\"user\",\"content\":\"c\"}]}",
      "user: a <e>assistant: [b] user: c <e>|", 1, 0, 0, 1 },
    { "generation blocks say themselves what they are",
      "{% for m in messages %}<s>{{ m.role }}\n{% if m.role == 'assistant' %}>"
      "{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}<e>\n"
      "{% endfor %}{% if add_generation_prompt %}<s>assistant\n{% endif %}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
      "\"b\"},{\"role\":\"assistant\",\"content\":\"c\",\"weight\":0}]}",
      "<s>user\na<e>\n<s>assistant\n>[b]<e>\n<s>assistant\n>c<e>\n|", 1, 0, 0, 1 },
    { "a token of the answer that begins before it",
      "{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' %}n{% endif %}"
      "{{ m.content }}<e>{% endfor %}{% if add_generation_prompt %}assistant: n{% endif %}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
      "\"o\"}]}",
      "user: a<e>assistant: [no<e>]|", 1, 0, 0, 0 },
    { "variables of a line", "{% for m in messages %}{{ m.content }}{{ mood }}{% endfor %}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
      "\"b\"}],\"chat_template_kwargs\":{\"mood\":\"!\"}}",
      "a![b]!|", 1, 0, 0, 1 },
};

static void each_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        lesson l;
        if (lesson_try(&l, rules[i].source, rules[i].line) != WEFT_OK)
            fail_msg("%s: %s", rules[i].rule, l.err.message);
        const char *text = marked_text(&l.corpus, &l.tokenizer);
        if (strcmp(text, rules[i].text) != 0)
            fail_msg("%s: \"%s\", expected \"%s\"", rules[i].rule, text, rules[i].text);
        const chat_counts *n = &l.corpus.chat;
        if (n->n_conversation != 1 || n->n_answer != rules[i].n_answer ||
            n->n_unprompted != rules[i].n_unprompted ||
            n->n_thought_dropped != rules[i].n_thought_dropped ||
            n->n_endless != rules[i].n_endless)
            fail_msg(
                "%s: %lld conversations, %lld answers, %lld unprompted, %lld thoughts dropped, "
                "%lld endless",
                rules[i].rule, (long long)n->n_conversation, (long long)n->n_answer,
                (long long)n->n_unprompted, (long long)n->n_thought_dropped,
                (long long)n->n_endless);
        lesson_close(&l);
        count_assertion();
    }
}

/* A line of two answers is two documents; only what differs is learned. */
static void preferences(void **state)
{
    (void)state;
    static const struct {
        const char *line, *text;
    } good[] = {
        { "{\"prompt\":\"q\",\"chosen\":\"ab\",\"rejected\":\"c\"}", "q[ab<e>]|q[c<e>]|" },
        { "{\"prompt\":[{\"role\":\"user\",\"content\":\"q\"}],"
          "\"chosen\":[{\"role\":\"assistant\",\"content\":\"a\"}],"
          "\"rejected\":[{\"role\":\"assistant\",\"content\":\"b\"}]}",
          "<s>user\nq<e>\n<s>assistant\n[a<e>]\n|<s>user\nq<e>\n<s>assistant\n[b<e>]\n|" },
        { "{\"prompt\":[{\"role\":\"assistant\",\"content\":\"old\"},"
          "{\"role\":\"user\",\"content\":\"q\"}],"
          "\"chosen\":[{\"role\":\"assistant\",\"content\":\"a\"}],"
          "\"rejected\":[{\"role\":\"assistant\",\"content\":\"b\"}]}",
          "<s>assistant\nold<e>\n<s>user\nq<e>\n<s>assistant\n[a<e>]\n|"
          "<s>assistant\nold<e>\n<s>user\nq<e>\n<s>assistant\n[b<e>]\n|" },
        { "{\"chosen\":[{\"role\":\"assistant\",\"content\":\"old\"},{\"role\":\"user\","
          "\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"a\"}],"
          "\"rejected\":[{\"role\":\"assistant\",\"content\":\"old\"},{\"role\":\"user\","
          "\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"b\"}]}",
          "<s>assistant\nold<e>\n<s>user\nq<e>\n<s>assistant\n[a<e>]\n|"
          "<s>assistant\nold<e>\n<s>user\nq<e>\n<s>assistant\n[b<e>]\n|" },
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        lesson l;
        if (lesson_try(&l, TURNS, good[i].line) != WEFT_OK)
            fail_msg("%zu: %s", i, l.err.message);
        assert_string_equal(marked_text(&l.corpus, &l.tokenizer), good[i].text);
        assert_int_equal(l.corpus.n_preference, 1);
        lesson_close(&l);
    }
}

/* The same date on every day. */
static void the_date(void **state)
{
    (void)state;
    lesson l;
    assert_int_equal(lesson_try(&l, "{{ strftime_now('%d %b %Y') }}" TURNS, HI_YES), WEFT_OK);
    assert_string_equal(marked_text(&l.corpus, &l.tokenizer),
                        "26 Jul 2024<s>user\nhi<e>\n<s>assistant\n[yes<e>]\n|");
    lesson_close(&l);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void sentences(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } wrong[] = {
        { "{\"messages\":5}", "data.jsonl:1: the messages are not a list" },
        { "{\"prompt\":\"a\",\"chosen\":\"b\"}",
          "data.jsonl:1: expected \"chosen\" and \"rejected\", both texts" },
        { "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":[]}", "both texts or both lists" },
        { "{\"prompt\":\"a\",\"chosen\":5,\"rejected\":6}", "both texts or both lists" },
        { "{\"chosen\":\"a\",\"rejected\":\"b\"}",
          "\"chosen\" is a text; expected a text as \"prompt\" too" },
        { "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"\"}", "\"rejected\" is empty" },
        { "{\"prompt\":\"a\",\"chosen\":[{}],\"rejected\":[{}]}",
          "\"chosen\" has messages; expected messages in \"prompt\" too" },
        { "{\"chosen\":[{\"role\":\"user\",\"content\":\"a\"}],"
          "\"rejected\":[{\"role\":\"user\",\"content\":\"a\"}]}",
          "\"chosen\" has no message that the other has not" },
        { "{\"prompt\":[],\"chosen\":[5],\"rejected\":[6]}",
          "data.jsonl:1: message 0: no \"content\"" },
        { "{\"messages\":[5]}", "data.jsonl:1: message 0: no \"content\"" },
        { HI_YES "{\"messages\":[{\"role\":\"user\"}]}",
          "data.jsonl:2: message 0: no \"content\"" },
        { "{\"messages\":[{\"role\":\"user\",\"text\":\"a\"}]}", "message 0: no \"content\"" },
        { "{\"messages\":[{\"role\":\"me\",\"content\":\"a\"}]}",
          "data.jsonl:1: message 0: role me; expected system" },
        { "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"weight\":0.5}]}",
          "message 0: \"weight\" is neither 0 nor 1" },
        { "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"weight\":\"0\"}]}",
          "message 0: \"weight\" is neither 0 nor 1" },
        { "{\"conversations\":[{\"from\":\"nobody\",\"value\":\"a\"}]}",
          "message 0: from \"nobody\"; expected human, gpt, system or tool" },
        { "{\"conversations\":[{\"from\":\"human\\u0000x\",\"value\":\"a\"}]}",
          "message 0: from \"human\"; expected" },
        { "{\"conversations\":[{\"from\":\"human\",\"value\":1}]}",
          "message 0: \"value\" is not a text" },
        { "{\"conversations\":[{\"from\":5,\"value\":\"a\"}]}", "message 0: from \"\"; expected" },
        { "{\"instruction\":\"a\",\"output\":1}", "\"output\" is not a text" },
        { "{\"instruction\":1,\"output\":\"\"}", "\"instruction\" is not a text" },
        { "{\"instruction\":\"a\",\"input\":1,\"output\":\"b\"}", "\"input\" is not a text" },
        { "{\"instruction\":\"a\",\"output\":\"b\",\"history\":[[\"a\",\"b\"]]}",
          "\"history\" beside an instruction is not read" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":\"[\"}",
          "data.jsonl:1: tools" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"raise\"}]}", "data.jsonl:1: " },
        { "{\"message\":[]}", "nor \"messages\"" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lesson l;
        assert_true(lesson_try(&l,
                               "{% if messages[0].content == 'raise' %}{{ raise_exception('no') }}"
                               "{% endif %}" TURNS,
                               wrong[i].line) != WEFT_OK);
        if (!strstr(l.err.message, wrong[i].says))
            fail_msg("\"%s\", expected \"%s\"", l.err.message, wrong[i].says);
        lesson_close(&l);
    }
}

/* Tools as JSON in a string, as data sets have them, and as a list. */
static void tools(void **state)
{
    (void)state;
    static const char *const forms[] = { "[{\"name\":\"f\"}]", "\"[{\\\"name\\\":\\\"f\\\"}]\"" };
    for (int i = 0; i < 2; i++) {
        char line[400];
        lesson l;
        snprintf(line, sizeof line, "{\"tools\":%s,%s", forms[i], &HI_YES[1]);
        if (lesson_try(&l, "{% for t in tools %}{{ t.name }} {% endfor %}" TURNS, line) != WEFT_OK)
            fail_msg("%s", l.err.message);
        assert_string_equal(marked_text(&l.corpus, &l.tokenizer),
                            "f <s>user\nhi<e>\n<s>assistant\n[yes<e>]\n|");
        lesson_close(&l);
    }
}

/* The error says why there is no template; without conversations there is none. */
static void no_template(void **state)
{
    (void)state;
    static const weft_error why = { .code = WEFT_EUNSUPPORTED, .message = "m: no chat template" };
    const char *chat_path = temp_file("chat.jsonl", HI_YES, sizeof HI_YES - 1);
    const char *text_path = temp_file("text.jsonl", "{\"text\":\"a\"}", 12);
    weft_error err = { 0 };
    tokenizer t;
    host h, th;
    corpus c;
    tokenizer_open(&t, &th);
    host_plain(&h);
    corpus_options o = { .tokenizer = &t, .eos = EOS, .n_thread = 1, .no_chat = &why };
    assert_int_equal(corpus_open(&c, &text_path, 1, &o, &h, &err), WEFT_OK);
    corpus_close(&c);
    assert_int_equal(corpus_open(&c, &chat_path, 1, &o, &h, &err), WEFT_EUNSUPPORTED);
    assert_non_null(
        strstr(err.message, "chat.jsonl:1: a conversation needs a chat template: m: no"));
    o.no_chat = NULL;
    assert_int_equal(corpus_open(&c, &chat_path, 1, &o, &h, &err), WEFT_EINVAL);
    assert_non_null(strstr(err.message, "none was given"));
    assert_int_equal(h.mem.used, 0);
    tokenizer_free(&t);
}

/* ---- as samples ------------------------------------------------------------------------------ */

/* Two conversations of 40 and 33 ids, a plain text, and a conversation without an answer. */
static const char four[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
    "\"bcd\"},{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"assistant\",\"content\":\"d\"}]}\n"
    "{\"text\":\"xyz\"}\n" HI_YES "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n";

static int64_t open_samples(lesson *l, dataset *d, const char *path, int64_t n_ctx)
{
    const data_options o = {
        .corpus = { .tokenizer = &l->tokenizer, .chat = &l->chat, .eos = EOS, .n_thread = 1 },
        .n_ctx = n_ctx
    };
    if (data_open(d, &path, 1, &o, &l->host, &l->err) != WEFT_OK)
        fail_msg("%s", l->err.message);
    return data_targets(&d->train, 7, 0, d->train.n_sample);
}

/* Targets of all samples, as letters. */
static void target_letters(const dataset *d, char *to)
{
    batch b;
    weft_error err = { 0 };
    int64_t n_wanted = 0;
    assert_int_equal(data_room(&b, d, 1, &err), WEFT_OK);
    for (int64_t i = 0; i < d->train.n_sample; i++) {
        assert_int_equal(data_fill(&b, &d->train, 7, i, 1, &err), WEFT_OK);
        for (int32_t k = 0; k < b.n_row; k++) {
            assert_int_equal(b.row[k].wanted, b.row[k].target != NO_TARGET);
            if (b.row[k].wanted)
                *to++ = b.row[k].target == EOS ? '.' : (char)b.row[k].target;
        }
        n_wanted += b.n_wanted;
    }
    *to = 0;
    assert_int_equal(n_wanted, data_targets(&d->train, 7, 0, d->train.n_sample));
    assert_int_equal(n_wanted, d->train.counts.n_target);
    data_room_free(&b, d);
}

/* Rows of a batch have targets where ids have a loss; ids that are saved and read again have the
 * same ones. */
static void as_rows(void **state)
{
    (void)state;
    lesson l;
    dataset d;
    char letters[2][100];
    const char *kept = temp_path("chat.ids");
    assert_int_equal(lesson_try(&l, TURNS, HI_YES), WEFT_OK);
    const char *path = temp_file("four.jsonl", four, sizeof four - 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(open_samples(&l, &d, i ? kept : path, 64), 13);
        assert_int_equal(d.train.counts.n_eos, 4);
        assert_int_equal(d.train.counts.n_skipped, 1);
        assert_int_equal(d.train.counts.n_truncated, 0);
        assert_false(d.windows);
        target_letters(&d, letters[i]);
        if (i == 0)
            assert_int_equal(corpus_save(&d.corpus, kept, &l.err), WEFT_OK);
        else
            assert_true(d.corpus.source[0].shard.marked && d.corpus.source[0].shard.width == 4);
        data_close(&d);
    }
    assert_string_equal(letters[0], letters[1]);
    assert_non_null(strstr(letters[0], "bcd.d."));
    assert_non_null(strstr(letters[0], "yz."));
    assert_non_null(strstr(letters[0], "yes."));
    lesson_close(&l);
}

/* A conversation that is too long loses its end, not its beginning; a text is cut. */
static void too_long(void **state)
{
    (void)state;
    lesson l;
    dataset d;
    char letters[100];
    assert_int_equal(lesson_try(&l, TURNS, HI_YES), WEFT_OK);
    const char *path = temp_file("four.jsonl", four, sizeof four - 1);
    open_samples(&l, &d, path, 22); /* user: 9 ids, then 11 of a header */
    target_letters(&d, letters);
    assert_int_equal(d.train.counts.n_truncated, 2);
    assert_int_equal(d.train.counts.n_skipped, 1);
    assert_non_null(strstr(letters, "bcd"));
    assert_null(strstr(letters, "bcd."));
    data_close(&d);
    lesson_close(&l);
}

/* Only rows that predict the next token know marks. */
static void decoders_only(void **state)
{
    (void)state;
    lesson l;
    dataset d;
    assert_int_equal(lesson_try(&l, TURNS, HI_YES), WEFT_OK);
    const char *path = temp_file("chat.jsonl", HI_YES, sizeof HI_YES - 1);
    data_options o = {
        .corpus = { .tokenizer = &l.tokenizer, .chat = &l.chat, .eos = EOS, .n_thread = 1 },
        .n_ctx = 64,
        .mask_id = 2
    };
    assert_int_equal(data_open(&d, &path, 1, &o, &l.host, &l.err), WEFT_EINVAL);
    assert_non_null(strstr(l.err.message, "conversations train decoders"));
    o.mask_id = 0;
    o.style = DATA_WINDOWS;
    assert_int_equal(data_open(&d, &path, 1, &o, &l.host, &l.err), WEFT_EINVAL);
    assert_non_null(strstr(l.err.message, "windows do not mask prompts"));
    lesson_close(&l);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* Every allocation fails in turn: an error, and nothing is left. */
static void every_fault(void **state)
{
    (void)state;
    lesson l;
    int64_t n_refused = 0, k = 1;
    assert_int_equal(lesson_try(&l, TURNS, HI_YES), WEFT_OK);
    const char *path = temp_file("four.jsonl", four, sizeof four - 1);
    const char *jinja = temp_path("t.jinja");
    for (bool more = true; more; k++) {
        host h;
        faults memory = { .fail_at = k };
        arena store = { 0 };
        chat c = { 0 };
        corpus all;
        weft_error err = { 0 };
        host_faulty(&h, &memory, NULL);
        weft_status status = arena_init(&store, ARENA_GROWING, &h.mem, 0, "a template", &err);
        if (status == WEFT_OK)
            status = chat_load(&c, jinja, "default", &store, &h, &err);
        if (status == WEFT_OK) {
            const corpus_options o = {
                .tokenizer = &l.tokenizer, .chat = &c, .eos = EOS, .n_thread = 1
            };
            status = corpus_open(&all, &path, 1, &o, &h, &err);
            if (status == WEFT_OK) {
                assert_int_equal(all.chat.n_answer, 3);
                corpus_close(&all);
            }
            chat_close(&c);
        }
        arena_free(&store);
        if (status != WEFT_OK && (status != WEFT_ENOMEM || !err.message[0]))
            fail_msg("call %lld failed: %d \"%s\"", (long long)k, (int)status, err.message);
        if (memory.live || atomic_load(&h.mem.used))
            fail_msg("call %lld failed: %lld blocks are left", (long long)k,
                     (long long)memory.live);
        n_refused += status != WEFT_OK;
        more = memory.calls >= k;
    }
    print_message("%lld fault points, %lld refused\n", (long long)k, (long long)n_refused);
    assert_true(n_refused > 100);
    lesson_close(&l);
}

/* ---- against transformers -------------------------------------------------------------------- */

/* One conversation of the golden file. False where weft refuses it. */
static bool same_mask(const char *what, const json_t *context, const corpus_options *o, host *h,
                      const char *cell)
{
    char *line = json_dumps(context, JSON_COMPACT), own[100], hex[65];
    const char *path = temp_file("one.jsonl", line, strlen(line));
    weft_error err = { 0 };
    corpus c;
    free(line);
    if (corpus_open(&c, &path, 1, o, h, &err) != WEFT_OK) {
        if (!strstr(err.message, "no \"content\""))
            fail_msg("%s: %s", what, err.message);
        return false;
    }
    uint32_t none = 0;
    const shard *s = c.n_source > 0 ? &c.source[0].shard : NULL;
    sha256_hex(s ? s->ids : &none, s ? (size_t)s->n_id * 4 : 0, hex);
    snprintf(own, sizeof own, "%lld:%.8s", (long long)c.n_id, hex);
    if (strcmp(own, cell) != 0)
        fail_msg("%s: %s, expected %s", what, own, cell);
    corpus_close(&c);
    return true;
}

static int check_line(char *line, const tokenizer *words, const json_t *contexts, host *h)
{
    char *rest = NULL, path[900], what[300];
    strtok_r(line, " ", &rest);
    const char *name = strtok_r(NULL, " ", &rest);
    weft_error err = { 0 };
    arena store;
    chat c;
    int n = 0;
    snprintf(path, sizeof path, "templates/%s", name);
    const char *found = strcmp(name, "chatml-generation.jinja") == 0
                            ? fixture("golden/templates/chatml-generation.jinja")
                            : asset(path);
    if (arena_init(&store, ARENA_GROWING, &h->mem, 0, "a template", &err) != WEFT_OK ||
        chat_load(&c, found, "default", &store, h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    const corpus_options o = { .tokenizer = words, .chat = &c, .eos = -1, .n_thread = 1 };
    for (size_t i = 0; i < json_array_size(contexts); i++) {
        const char *cell = strtok_r(NULL, " \n", &rest);
        snprintf(what, sizeof what, "%s, conversation %zu", name, i);
        if (strcmp(cell, "-") != 0)
            n += same_mask(what, json_array_get(contexts, i), &o, h, cell);
    }
    chat_close(&c);
    arena_free(&store);
    return n;
}

/* The conversations of ids.json and of conversations.json, as lines. */
static json_t *golden_contexts(void)
{
    json_t *lists = json_load_file(fixture("golden/templates/ids.json"), 0, NULL);
    json_t *named = json_load_file(fixture("golden/templates/conversations.json"), 0, NULL);
    json_t *all = json_array();
    assert_non_null(lists);
    assert_non_null(named);
    for (size_t i = 0; i < json_array_size(lists); i++)
        json_array_append_new(all, json_pack("{s:O}", "messages", json_array_get(lists, i)));
    for (size_t i = 0; i < json_array_size(named); i++)
        json_array_append(all, json_object_get(json_array_get(named, i), "context"));
    json_decref(lists);
    json_decref(named);
    return all;
}

static void as_transformers(void **state)
{
    (void)state;
    if (!asset("templates"))
        skip();
    json_t *contexts = golden_contexts();
    FILE *f = fopen(fixture("golden/templates/masks.txt"), "r");
    assert_non_null(f);
    char line[2000], name[40] = "";
    weft_error err = { 0 };
    tokenizer words;
    host h;
    int n = 0;
    host_plain(&h);
    while (fgets(line, sizeof line, f)) {
        const size_t length = strcspn(line, " ");
        if (strlen(name) != length || memcmp(line, name, length) != 0) {
            char path[100];
            if (*name)
                tokenizer_free(&words);
            snprintf(name, sizeof name, "%.*s", (int)length, line);
            snprintf(path, sizeof path, "tokenizers/%s", name);
            if (tokenizer_load(&words, asset(path), NULL, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
                fail_msg("%s", err.message);
        }
        n += check_line(line, &words, contexts, &h);
    }
    print_message("%d conversations have the ids and the mask of transformers\n", n);
    assert_true(n > 400);
    tokenizer_free(&words);
    assert_int_equal(h.mem.used, 0);
    json_decref(contexts);
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("chat data: learned is what the assistant writes", each_rule),
        TEST("chat data: a chosen and a rejected answer are two documents", preferences),
        TEST("chat data: a template that prints the date has the same text every day", the_date),
        TEST("chat data: an error names the line", sentences),
        TEST("chat data: tools, also as JSON in a string", tools),
        TEST("chat data: a missing template matters to conversations only", no_template),
        TEST("chat data: rows have the targets, also of saved ids", as_rows),
        TEST("chat data: a long conversation loses its end", too_long),
        TEST("chat data: only decoders learn from conversations", decoders_only),
        TEST("chat data: every failed allocation is an error, and leaves nothing", every_fault),
        TEST("chat data: ids and masks are those of transformers", as_transformers),
    };
    return RUN(tests);
}
