/* serve_families.c - the server with models of every family: scores, ranks, labels, masks and translations are
 * those of the commands rerank, classify, fill-mask and translate, whose numbers are compared with transformers'
 * elsewhere. They are the same among many requests as alone; and the same again from one server that has all of the
 * models, with less cache than its requests want.
 *
 *     host_serve_families WEFT GOLDEN DECODER */
#include "serve_client.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_NUMBER 256
#define N_CLIENT   8
#define N_ROUND    12
#define MAX_ALL    64

static const char *weft, *models, *decoder;

/* ---- the models ------------------------------------------------------------------------------ */

static void run(const char *command)
{
    must(system(command) == 0, command, NULL);
}

/* Small ones without a vocabulary of their own get one that is made here. */
static void make_models(void)
{
    static const char *const names[] = { "bert",     "bert-rank", "bert-classify",
                                         "bert-tag", "bert-fill", "t5" };
    char command[1200];
    run("printf 'the bread is warm and the tea is hot\\nthe water is hot and the bread is old\\n' "
        ">corpus");
    snprintf(command, sizeof command,
             "%s train-tokenizer corpus --model wordpiece --vocab-size 60 -o tokenizer.json "
             ">/dev/null 2>&1",
             weft);
    run(command);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(command, sizeof command, "cp -r %s/%s . && cp tokenizer.json %s", models, names[i],
                 names[i]);
        run(command);
    }
    snprintf(command, sizeof command, "cp -r %s/vit . && cp %s/images/*.png %s/images/photo*.jpg .",
             models, models, models);
    run(command);
    snprintf(command, sizeof command,
             "%s convert %s talks >/dev/null 2>&1 && printf '{{ messages[0].content }}' "
             ">talks/chat_template.jinja",
             weft, decoder);
    run(command);
    run("cp -r bert-classify bert-several && sed -i -e '/problem_type/d' -e "
        "'s/\"model_type\"/\"problem_type\": \"multi_label_classification\", &/' "
        "bert-several/config.json");
}

/* ---- numbers --------------------------------------------------------------------------------- */

typedef struct numbers {
    double at[MAX_NUMBER];
    int n;
} numbers;

/* All that follow "key": in a text; of a list, its elements. */
static numbers numbers_of(const char *text, const char *key)
{
    numbers x = { .n = 0 };
    char mark[64];
    snprintf(mark, sizeof mark, "\"%s\":", key);
    for (const char *p = strstr(text, mark); p; p = strstr(p, mark)) {
        p += strlen(mark);
        do {
            char *end;
            p += *p == '[' || *p == ',';
            const double value = strtod(p, &end);
            if (end == p || x.n == MAX_NUMBER)
                break;
            x.at[x.n++] = value;
            p = end;
        } while (*p == ',' && (p[1] == '-' || (p[1] >= '0' && p[1] <= '9')));
    }
    return x;
}

static int falling(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x > y ? -1 : x < y;
}

/* What a command prints. */
static char *output_of(const char *arguments)
{
    char command[1200];
    static char text[65536];
    snprintf(command, sizeof command, "%s %s", weft, arguments);
    FILE *f = popen(command, "r");
    must(f, command, NULL);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    must(pclose(f) == 0, command, NULL);
    return text;
}

static bool are_equal(const numbers *a, const numbers *b)
{
    for (int i = 0; i < a->n && i < b->n; i++)
        if (a->at[i] != b->at[i])
            return false;
    return a->n == b->n && a->n > 0;
}

/* ---- a server with each model ---------------------------------------------------------------- */

typedef struct compared {
    const char *path, *body, *key; /* of the server's numbers, */
    const char *command, *name;    /* and of the command's */
    const char *what;
    bool sort; /* the command has them in falling order, the server by label */
} compared;

static void compare(const child *s, const compared *c)
{
    char *answer = ask(s, c->path, "", c->body);
    numbers ours = numbers_of(body_of(answer), c->key);
    const numbers theirs = numbers_of(output_of(c->command), c->name);
    if (c->sort)
        qsort(ours.at, (size_t)ours.n, sizeof *ours.at, falling);
    check(status_of(answer) == 200 && are_equal(&ours, &theirs), c->what, "%.600s", answer);
    free(answer);
}

typedef struct refused {
    const char *path, *body, *says;
} refused;

static void refuses(const child *s, const refused *r)
{
    char *answer = ask(s, r->path, "", r->body);
    check(status_of(answer) == 400 && strstr(answer, r->says), "serve: a wrong request is refused",
          "%s %s: %.300s; expected %s", r->path, r->body, answer, r->says);
    free(answer);
}

/* ---- alone and among others ------------------------------------------------------------------ */

typedef struct crowd {
    const child *server;
    const char **bodies; /* path, body, path, body ... */
    int n;
    char **alone;
    pthread_mutex_t lock;
    int n_round, n_same, n_different;
    char first[600];
} crowd;

/* Without id, times and counts of cached tokens. */
static char *part_that_stays(const char *answer)
{
    const char *body = body_of(answer), *from = strstr(body, "\"data\":");
    from = from ? from : strstr(body, "\"results\":");
    return status_of(answer) != 200 ? NULL : from ? strdup(from) : choices_of(answer);
}

static void *ask_often(void *ud)
{
    crowd *c = ud;
    for (int i = 0; i < c->n_round * c->n; i++) {
        const int k = (int)((unsigned)i * 7 + (unsigned)(size_t)pthread_self() / 4096) % c->n;
        char *answer = ask(c->server, c->bodies[2 * k], "", c->bodies[2 * k + 1]);
        char *found = part_that_stays(answer);
        pthread_mutex_lock(&c->lock);
        if (found && strcmp(found, c->alone[k]) == 0)
            c->n_same++;
        else if (c->n_different++ == 0)
            snprintf(c->first, sizeof c->first, "%s: %.200s, alone %.200s", c->bodies[2 * k + 1],
                     found ? found : answer, c->alone[k]);
        pthread_mutex_unlock(&c->lock);
        free(found);
        free(answer);
    }
    return NULL;
}

/* All that was asked of a server with one model, and what it answered when nobody else asked. */
static struct {
    const char *bodies[2 * MAX_ALL]; /* path and body, which names its model */
    char *alone[MAX_ALL];
    int n;
} asked;

/* {"input": ...} -> {"model": "bert", "input": ...} */
static char *naming(const char *model, const char *body)
{
    char *named = NULL;
    must(asprintf(&named, "{\"model\":\"%s\",%s", model, body + 1) > 0, "memory", NULL);
    return named;
}

static bool remember(const char *model, const char *path, const char *body, char *alone)
{
    must(asked.n < MAX_ALL, "serve_families: raise MAX_ALL", NULL);
    asked.bodies[2 * asked.n] = path;
    asked.bodies[2 * asked.n + 1] = naming(model, body);
    asked.alone[asked.n++] = alone;
    return alone;
}

static void ask_all(crowd *c, const char *what)
{
    pthread_t client[N_CLIENT];
    pthread_mutex_init(&c->lock, NULL);
    for (int i = 0; i < N_CLIENT; i++)
        pthread_create(&client[i], NULL, ask_often, c);
    for (int i = 0; i < N_CLIENT; i++)
        pthread_join(client[i], NULL);
    check(c->n_different == 0 && c->n_same == N_CLIENT * c->n_round * c->n, what,
          "%d of %d differ: %s", c->n_different, c->n_same + c->n_different, c->first);
}

/* model: what the server calls it. */
static void same_among_many(const child *s, const char *model, const char *const *bodies,
                            const char *what)
{
    crowd c = { .server = s,
                .bodies = asked.bodies + 2 * asked.n,
                .alone = asked.alone + asked.n,
                .n_round = N_ROUND };
    for (; bodies[2 * c.n]; c.n++) {
        char *answer = ask(s, bodies[2 * c.n], "", bodies[2 * c.n + 1]);
        const bool good = check(
            remember(model, bodies[2 * c.n], bodies[2 * c.n + 1], part_that_stays(answer)),
            "serve: a request alone is answered", "%.300s", answer);
        free(answer);
        if (!good)
            return;
    }
    ask_all(&c, what);
}

static child start(const char *model)
{
    const char *const args[] = { model, "--no-log", NULL };
    return server_start(weft, args);
}

static void stop(child *s)
{
    check(server_stop(s, SIGTERM, 20) == 0, "serve: a server of any family ends well",
          "it does not");
}

/* ---- families -------------------------------------------------------------------------------- */

#define TEA                                                                                        \
    "\"query\":\"the tea\",\"documents\":[\"is hot\",\"is old and the bread is warm\",\"the "      \
    "water is hot\"]"

/* As many first texts as second ones: each pair has the score that it has alone. */
static void pairs_in_order(const child *s)
{
    static const char *const first[] = { "the tea", "the water", "old bread" };
    static const char *const second[] = { "is hot", "is warm", "and tea" };
    char *all = ask(s, "/v1/score", "",
                    "{\"text_1\":[\"the tea\",\"the water\",\"old bread\"],"
                    "\"text_2\":[\"is hot\",\"is warm\",\"and tea\"]}");
    const numbers together = numbers_of(all, "score");
    for (int i = 0; i < 3; i++) {
        char body[200];
        snprintf(body, sizeof body, "{\"text_1\":\"%s\",\"text_2\":\"%s\"}", first[i], second[i]);
        char *answer = ask(s, "/v1/score", "", body);
        const numbers one = numbers_of(answer, "score");
        check(together.n == 3 && one.n == 1 && one.at[0] == together.at[i],
              "serve: the texts of a pair belong together", "%s\n%s", answer, all);
        free(answer);
    }
    free(all);
}

static void scores_pairs(void)
{
    static const compared ranks = { "/v1/rerank",
                                    "{" TEA ",\"use_activation\":false}",
                                    "relevance_score",
                                    "rerank bert-rank 'the tea' 'is hot' 'is old and the bread is "
                                    "warm' 'the water is hot' --json",
                                    "score",
                                    "serve: ranks are those of weft rerank",
                                    false };
    static const refused bad[] = {
        { "/v1/rerank", "{\"query\":\"a\"}", "documents: missing" },
        { "/v1/rerank", "{\"documents\":[\"a\"]}", "query: missing" },
        { "/v1/rerank", "{\"query\":\"a\",\"documents\":[]}", "1 to 2048 texts" },
        { "/v1/rerank", "{\"query\":\"a\",\"documents\":[\"a\",[1]]}", "documents[1]" },
        { "/v1/rerank", "{\"query\":[1],\"documents\":[\"a\"]}", "query: found" },
        { "/v1/score", "{\"text_1\":\"a\"}", "text_2: missing" },
        { "/v1/score", "{\"text_1\":[\"a\",\"b\"],\"text_2\":[\"a\",\"b\",\"c\"]}",
          "3 texts beside 2" },
        { "/v1/fill-mask", "{\"input\":\"a\"}", "is not a masked language model" },
        { "/v1/translate", "{\"input\":\"a\"}", "is not an encoder-decoder" },
        { "/v1/completions", "{\"prompt\":\"a\"}", "does not generate" },
    };
    static const char *const bodies[] = {
        "/v1/rerank", "{" TEA "}",
        "/v1/rerank", "{" TEA ",\"top_n\":1,\"return_documents\":false}",
        "/v1/score",  "{\"text_1\":[\"a\",\"the tea\"],\"text_2\":[\"b\",\"is hot\"]}",
        "/v1/score",  "{\"text_1\":\"the water\",\"text_2\":\"is warm\"}",
        NULL,
    };
    child s = start("bert-rank");
    compare(&s, &ranks);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuses(&s, &bad[i]);
    pairs_in_order(&s);
    same_among_many(&s, "bert-rank", bodies, "serve: scores of pairs are those of a request alone");
    char *plain = ask(&s, "/v1/score", "",
                      "{\"text_1\":\"the tea\",\"text_2\":[\"is hot\",\"is old and the bread is "
                      "warm\"],\"use_activation\":false}");
    char *shown = ask(&s, "/v1/rerank", "", "{" TEA ",\"top_n\":2}");
    const numbers z = numbers_of(plain, "score"), p = numbers_of(shown, "relevance_score"),
                  at = numbers_of(shown, "index");
    check(z.n == 2 && p.n == 2 && at.n == 2 && at.at[0] == 2 && at.at[1] == 0 &&
              fabs(p.at[1] - 1 / (1 + exp(-z.at[0]))) < 1e-8,
          "serve: the best documents come first, with a score of 0 to 1", "%s\n%s", plain, shown);
    check(strstr(shown, "\"document\":{\"text\":\"the water is hot\"}") != NULL,
          "serve: a rank has its document", "%s", shown);
    free(plain);
    free(shown);
    stop(&s);
}

static void scores_vectors(void)
{
    static const compared ranks = { "/v1/rerank",
                                    "{" TEA "}",
                                    "relevance_score",
                                    "rerank bert 'the tea' 'is hot' 'is old and the bread is warm' "
                                    "'the water is hot' --json",
                                    "score",
                                    "serve: a model that makes vectors ranks by cosine",
                                    false };
    static const char *const bodies[] = {
        "/v1/rerank",
        "{" TEA "}",
        "/v1/score",
        "{\"text_1\":[\"a\",\"the tea\"],\"text_2\":[\"b\",\"is hot\"]}",
        "/v1/embeddings",
        "{\"input\":[\"the tea\",\"is old and the bread is warm\"]}",
        NULL,
    };
    static const refused no_labels = { "/v1/classify", "{\"input\":\"a\"}", "has no labels" };
    child s = start("bert");
    compare(&s, &ranks);
    refuses(&s, &no_labels);
    pairs_in_order(&s);
    same_among_many(&s, "bert", bodies, "serve: vectors and cosines are those of a request alone");
    stop(&s);
}

static void labels_texts(void)
{
    static const compared classes = { "/v1/classify",
                                      "{\"input\":\"the tea is hot\"}",
                                      "probs",
                                      "classify bert-classify 'the tea is hot' --top 0 --json",
                                      "p",
                                      "serve: probabilities of labels are those of weft classify",
                                      true };
    static const compared tags = { "/v1/classify",
                                   "{\"input\":\"the tea is hot\"}",
                                   "prob",
                                   "classify bert-tag 'the tea is hot' --json",
                                   "p",
                                   "serve: labels of tokens are those of weft classify",
                                   false };
    static const char *const bodies[] = {
        "/v1/classify", "{\"input\":[\"the tea is hot\",\"water\",\"the bread is old\"]}",
        "/v1/classify", "{\"input\":\"the water and the bread\"}",
        "/v1/classify", "{\"input\":[[4,5,6],[7]]}",
        NULL,
    };
    static const refused several = { "/v1/rerank", "{\"query\":\"a\",\"documents\":[\"b\"]}",
                                     "has several labels" };
    child s = start("bert-classify");
    compare(&s, &classes);
    refuses(&s, &several);
    char *answer = ask(&s, "/v1/classify", "", "{\"input\":\"the tea is hot\"}");
    check(strstr(answer, "\"label\":\"perhaps\"") && strstr(answer, "\"num_classes\":3"),
          "serve: a text has its best label", "%s", answer);
    check(strstr(answer, "\"labels\":[\"no\",\"perhaps\",\"yes\"]"),
          "serve: the labels are listed in the order of their probabilities", "%s", answer);
    free(answer);
    same_among_many(&s, "bert-classify", bodies, "serve: labels are those of a request alone");
    stop(&s);
    compared several_classes = classes;
    several_classes.command = "classify bert-several 'the tea is hot' --top 0 --json";
    several_classes.what = "serve: each of several labels has a probability of its own";
    s = start("bert-several");
    compare(&s, &several_classes);
    stop(&s);
    s = start("bert-tag");
    compare(&s, &tags);
    same_among_many(&s, "bert-tag", bodies, "serve: labels of tokens are those of a request alone");
    stop(&s);
}

/* 656 masks with 100 tokens each are too many for an answer, just; with 99 they are not. */
static void many_masks(const child *s)
{
    static char body[16384];
    for (int k = 99; k <= 100; k++) {
        char *to = body + sprintf(body, "{\"input\":[\"[MASK]\"");
        for (int i = 1; i < 656; i++)
            to += sprintf(to, ",\"[MASK]\"");
        sprintf(to, "],\"top_k\":%d}", k);
        char *answer = ask(s, "/v1/fill-mask", "", body);
        check(status_of(answer) == (k == 99 ? 200 : 400),
              "serve: the tokens for all masks of a request are limited", "%d: %.200s", k, answer);
        free(answer);
    }
}

static void fills_masks(void)
{
    static const compared masks = { "/v1/fill-mask",
                                    "{\"input\":\"the [MASK] is [MASK]\",\"top_k\":3}",
                                    "prob",
                                    "fill-mask bert-fill 'the [MASK] is [MASK]' -k 3 --json",
                                    "p",
                                    "serve: tokens for masks are those of weft fill-mask",
                                    false };
    static const refused bad[] = {
        { "/v1/fill-mask", "{\"input\":[\"[MASK]\",\"the tea\"]}", "input 1 has no mask" },
        { "/v1/fill-mask", "{\"input\":\"[MASK]\",\"top_k\":101}", "from 1 to 100" },
    };
    char many[1024] = "{\"input\":[\"the [MASK]\",\"";
    for (int i = 0; i < 20; i++)
        strcat(many, "[MASK] ");
    strcat(many, "\",\"");
    for (int i = 0; i < 20; i++) /* more than 32 masks are two groups */
        strcat(many, "[MASK] ");
    strcat(many, "\",\"[MASK] tea [MASK]\"],\"top_k\":2}");
    const char *const bodies[] = {
        "/v1/fill-mask",
        many,
        "/v1/fill-mask",
        "{\"input\":\"the [MASK] is hot\"}",
        "/v1/fill-mask",
        "{\"input\":[\"[MASK]\",\"the bread and the [MASK]\"],\"top_k\":100}",
        NULL,
    };
    child s = start("bert-fill");
    compare(&s, &masks);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuses(&s, &bad[i]);
    many_masks(&s);
    same_among_many(&s, "bert-fill", bodies,
                    "serve: tokens for masks are those of a request alone");
    char *alone = ask(&s, "/v1/fill-mask", "", "{\"input\":\"[MASK] tea [MASK]\",\"top_k\":2}");
    char *last = ask(&s, "/v1/fill-mask", "", many);
    const numbers a = numbers_of(alone, "prob"), b = numbers_of(last, "prob");
    check(a.n == 4 && b.n == 2 * 43 && memcmp(a.at, b.at + 82, sizeof *a.at * 4) == 0,
          "serve: a text gets the tokens of its own masks", "%s\n%s", alone, last);
    free(alone);
    free(last);
    stop(&s);
}

static void same_translations(const child *s)
{
    static const char *const sources[] = { "the tea", "the water is hot", "old bread" };
    for (int i = 0; i < 6; i++) {
        char body[200], command[200];
        const char *source = sources[i / 2];
        snprintf(body, sizeof body, "{\"input\":\"%s\",\"max_tokens\":9%s}", source,
                 i % 2 ? ",\"forced_bos_token_id\":7" : "");
        snprintf(command, sizeof command, "translate t5 -p '%s' -n 9 %s", source,
                 i % 2 ? "--begin 7" : "");
        char *answer = ask(s, "/v1/translate", "", body), *text = text_of(answer);
        char *theirs = output_of(command);
        theirs[strcspn(theirs, "\n")] = '\0';
        check(text && theirs[0] && strcmp(text, theirs) == 0,
              "serve: a translation is that of weft translate", "%s, %s", answer, theirs);
        free(text);
        free(answer);
    }
}

static void translates(void)
{
    static const refused bad[] = {
        { "/v1/completions", "{\"prompt\":\"a\"}", "use /v1/translate" },
        { "/v1/embeddings", "{\"input\":\"a\"}", "use /v1/translate" },
        { "/v1/translate", "{}", "input: missing" },
        { "/v1/translate", "{\"input\":[70000]}", "expected one below" },
        { "/v1/translate", "{\"input\":\"a\",\"forced_bos_token_id\":70000}",
          "expected one below" },
        { "/v1/translate", "{\"input\":\"\",\"add_special_tokens\":false}", "has no tokens" },
    };
    static const char *const bodies[] = {
        "/v1/translate",
        "{\"input\":[\"the tea\",\"the water is hot\"],\"max_tokens\":9}",
        "/v1/translate",
        "{\"input\":\"the bread\",\"max_tokens\":12,\"forced_bos_token_id\":7}",
        "/v1/translate",
        "{\"input\":\"the tea\",\"max_tokens\":15,\"temperature\":1,\"seed\":4}",
        "/v1/translate",
        "{\"input\":[[4,5,6],[6,5,4]],\"max_tokens\":7}",
        "/v1/translate",
        "{\"input\":[\"the tea\",\"the tea is hot\",\"old water\"],\"max_tokens\":140,"
        "\"ignore_eos\":true,\"logit_bias\":{\"5\":100}}",
        NULL,
    };
    child s = start("t5");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuses(&s, &bad[i]);
    same_translations(&s);
    same_among_many(&s, "t5", bodies, "serve: translations are those of a request alone");
    stop(&s);
}

#define SPEECH                                                                                     \
    "ROMEO:\\nBut, soft! what light through yonder window breaks? It is the east, and Juliet is "  \
    "the "                                                                                         \
    "sun. Arise, fair sun, and kill the envious moon, who is already sick and pale with grief, "   \
    "that "                                                                                        \
    "thou her maid art far more fair than she: be not her maid, since she is envious.\\n"

static void continues_texts(void)
{
    static const char *const bodies[] = {
        "/v1/completions",
        "{\"prompt\":\"" SPEECH "\",\"max_tokens\":100,\"temperature\":0.8,\"seed\":1}",
        "/v1/completions",
        "{\"prompt\":[\"JULIET: O\",\"The "
        "king\"],\"max_tokens\":90,\"logprobs\":3,\"temperature\":0}",
        "/v1/embeddings",
        "{\"input\":\"to be or not to be\"}",
        NULL,
    };
    char named[600];
    snprintf(named, sizeof named, "decoder=%s", decoder);
    const char *const args[] = { "-m", named, "--no-log", "-c", "256", NULL };
    child s = server_start(weft, args);
    same_among_many(&s, "decoder", bodies, "serve: texts are those of a request alone");
    stop(&s);
}

/* The body of a request for the labels of images. */
static char *image_body(const char *const *files)
{
    char command[200], *body = NULL;
    size_t n;
    FILE *to = open_memstream(&body, &n);
    fputs("{\"input\":[", to);
    for (int i = 0; files[i]; i++) {
        const bool png = strstr(files[i], ".png");
        snprintf(command, sizeof command, "base64 -w 0 %s", files[i]);
        FILE *from = popen(command, "r");
        must(from, command, NULL);
        fprintf(to, "%s\"data:image/%s;base64,", i ? "," : "", png ? "png" : "jpeg");
        for (int c; (c = getc(from)) != EOF;)
            putc(c, to);
        must(pclose(from) == 0, command, NULL);
        putc('"', to);
    }
    fputs("]}", to);
    fclose(to);
    return body;
}

/* Each of several images has the numbers that it has alone. */
static void images_in_order(const child *s, const char *body, const char *const *files)
{
    char *answer = ask(s, "/v1/classify", "", body);
    const numbers together = numbers_of(body_of(answer), "probs");
    free(answer);
    for (int i = 0; files[i]; i++) {
        const char *const file[] = { files[i], NULL };
        char *own = image_body(file), *alone = ask(s, "/v1/classify", "", own);
        const numbers one = numbers_of(body_of(alone), "probs");
        check(one.n > 0 && together.n >= (i + 1) * one.n &&
                  memcmp(one.at, together.at + i * one.n, (size_t)one.n * sizeof *one.at) == 0,
              "serve: each of several images has its own labels", "%s: %.300s", files[i], alone);
        free(own);
        free(alone);
    }
}

/* A grey JPEG of one value, or the head of a progressive one: both codes are the bit 0, so that a block is two of them. */
static void make_jpeg(const char *name, int side, int n_scan)
{
    static const unsigned char codes[2][20] = { { 0, 20, 0x00, 1 }, { 0, 20, 0x10, 1 } };
    static const unsigned char scan[10] = { 0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0 };
    const unsigned char high = (unsigned char)(side >> 8), low = (unsigned char)side;
    const unsigned char frame[] = {
        0xff, n_scan > 1 ? 0xc2 : 0xc0, 0, 11, 8, high, low, high, low, 1, 1, 0x11, 0
    };
    FILE *to = fopen(name, "w");
    must(to, name, NULL);
    fwrite("\xff\xd8\xff\xdb\0\x43\0", 7, 1, to);
    for (int i = 0; i < 64; i++)
        putc(1, to);
    fwrite(frame, sizeof frame, 1, to);
    for (int i = 0; i < 2; i++) {
        fwrite("\xff\xc4", 2, 1, to);
        fwrite(codes[i], sizeof codes[i], 1, to);
    }
    for (int i = 0; i < n_scan; i++) {
        fwrite(scan, sizeof scan, 1, to);
        for (int k = 0; n_scan == 1 && k < side / 8 * (side / 8) / 4; k++)
            putc(0, to);
    }
    fwrite("\xff\xd9", 2, 1, to);
    must(fclose(to) == 0, name, NULL);
}

/* 2^26 pixels in all: four of 4096 x 4096, but not five. 25 further scans count as more than three. */
static void limits_pixels(const child *s)
{
    static const struct {
        const char *files[6];
        int status;
        const char *text;
    } kinds[] = {
        { { "flat.jpg", "flat.jpg", "flat.jpg", "flat.jpg" }, 200, "" },
        { { "flat.jpg", "flat.jpg", "flat.jpg", "flat.jpg", "flat.jpg" }, 400, "input 4: the" },
        { { "scans.jpg" }, 400, "input 0: the" },
        { { "photo-progressive.jpg" }, 200, "" },
    };
    make_jpeg("flat.jpg", 4096, 1);
    make_jpeg("scans.jpg", 4096, 26);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char *body = image_body(kinds[i].files), *answer = ask(s, "/v1/classify", "", body);
        check(status_of(answer) == kinds[i].status && strstr(answer, kinds[i].text),
              "serve: the pixels of a request have a limit", "%zu: %.300s", i, answer);
        free(body);
        free(answer);
    }
}

static void sees_images(void)
{
    static const char *const one[] = { "photo.png", NULL };
    static const char *const several[] = { "photo.jpg",     "grey.png",  "photo.png",
                                           "photo-444.jpg", "rgb16.png", NULL };
    static const refused bad[] = {
        { "/v1/classify", "{\"input\":\"a cat\"}", "input 0 is not an image" },
        { "/v1/classify", "{\"input\":[[1,2]]}", "input 0 is not an image" },
        { "/v1/classify", "{\"input\":\"data:image/gif;base64,AAAA\"}", "is not an image" },
        { "/v1/classify", "{\"input\":\"data:image/png;base64,AAA\"}", "is not base64" },
        { "/v1/classify", "{\"input\":\"data:image/png;base64,AA*A\"}", "is not base64" },
        { "/v1/classify", "{\"input\":\"data:image/png;base64,AB==\"}", "is not base64" },
        { "/v1/classify", "{\"input\":\"data:image/png;base64,AAAA\"}", "neither PNG nor JPEG" },
        { "/v1/classify", "{\"input\":\"https://example.org/cat.png\"}", "is not an image" },
        { "/v1/completions", "{\"prompt\":\"a\"}", "reads images" },
        { "/tokenize", "{\"prompt\":\"a\"}", "reads images" },
        { "/v1/rerank", "{\"query\":\"a\",\"documents\":[\"b\"]}", "reads images" },
    };
    run("cp grey8.png grey.png");
    char *first = image_body(one), *rest = image_body(several);
    const char *const bodies[] = { "/v1/classify", first, "/v1/classify", rest, "/v1/embeddings",
                                   first,          NULL };
    const compared classes = { "/v1/classify",
                               first,
                               "probs",
                               "classify vit photo.png --top 0 --json",
                               "p",
                               "serve: labels of an image are those of weft classify",
                               true };
    child s = start("vit");
    compare(&s, &classes);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuses(&s, &bad[i]);
    images_in_order(&s, rest, several);
    limits_pixels(&s);
    same_among_many(&s, "vit", bodies, "serve: labels of images are those of a request alone");
    char *answer = ask(&s, "/tokenizer_info", "", NULL);
    check(status_of(answer) == 404, "serve: a model of images has no tokenizer", "%.200s", answer);
    free(answer);
    free(first);
    free(rest);
    stop(&s);
}

/* ---- long requests and short ones ------------------------------------------------------------- */

static bool is_answered(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return poll(&p, 1, 0) > 0;
}

/* While a long request runs, another one gets its answer. */
static void check_short(const child *s, int waiting, const char *path, const char *body,
                        const char *what)
{
    char *answer = ask(s, path, "", body);
    check(status_of(answer) == 200 && !is_answered(waiting), what, "%s: %.300s",
          is_answered(waiting) ? "the long one was answered first" : "it fails", answer);
    free(answer);
    bool closed;
    char *rest = take_all(waiting, 60, &closed);
    check(status_of(rest) == 200, "serve: a long request is answered, too", "%.300s", rest);
    free(rest);
    close(waiting);
}

/* Texts of ids for a second or so. */
static char *long_body(void)
{
    size_t n;
    char *body;
    FILE *to = open_memstream(&body, &n);
    must(to, "memory", NULL);
    fputs("{\"model\":\"decoder\",\"input\":[", to);
    for (int i = 0; i < 400; i++) {
        fputs(i ? ",[" : "[", to);
        for (int k = 0; k < 250; k++)
            fprintf(to, k ? ",%d" : "%d", 5 + (i + k) % 40);
        putc(']', to);
    }
    fputs("]}", to);
    fclose(to);
    return body;
}

static void short_beside_long(const child *s)
{
    static const char *const flat[] = { "flat.jpg", "flat.jpg", "flat.jpg", "flat.jpg", NULL };
    char *unnamed = image_body(flat), *images = naming("vit", unnamed), *texts = long_body();
    int waiting = begin_ask(s, "/v1/classify", images);
    pause_for(0.05); /* it is read */
    check_short(s, waiting, "/tokenize", "{\"model\":\"decoder\",\"prompt\":\"a\"}",
                "serve: requests are read while images are decoded");
    waiting = begin_ask(s, "/v1/embeddings", texts);
    pause_for(0.2);
    check_short(s, waiting, "/v1/embeddings", "{\"model\":\"decoder\",\"input\":\"the tea\"}",
                "serve: a short request does not wait for the end of a long one");
    free(unnamed);
    free(images);
    free(texts);
}

/* An encoder has its scratch before it is served, not with the first request. */
static void needs_room(void)
{
    char command[1200], text[600] = "";
    snprintf(command, sizeof command,
             "timeout 10 %s serve bert --port 0 --threads 4 --ram-max 1M --no-log >room 2>&1",
             weft);
    const int status = system(command);
    FILE *f = fopen("room", "r");
    must(f, "room", NULL);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 1 && strstr(text, "memory cap") &&
              !strstr(text, "serving"),
          "serve: an encoder that has no room for requests is not served", "%d: %s", status, text);
}

/* ---- one server with all of them -------------------------------------------------------------- */

/* The cache holds fewer texts than may run, so that some wait for others. */
static void all_in_one(void)
{
    char named[600];
    snprintf(named, sizeof named, "decoder=%s", decoder);
    const char *const args[] = { "-m",         "bert-rank", "-m",
                                 "bert",       "-m",        "bert-classify",
                                 "-m",         "bert-tag",  "-m",
                                 "bert-fill",  "-m",        "t5",
                                 "-m",         "vit",       "-m",
                                 named,        "-m",        "talks",
                                 "--parallel", "6",         "--cache-tokens",
                                 "448",        "-c",        "256",
                                 "--weight",   "t5=3",      "--no-log",
                                 NULL };
    crowd c = {
        .bodies = asked.bodies, .n = asked.n, .alone = asked.alone, .n_round = N_ROUND / 2
    };
    child s = server_start(weft, args);
    c.server = &s;
    ask_all(&c, "serve: one server with all families answers as servers with one model each");
    check(metric(&s, "vllm:prefix_cache_hits_total{model_name=\"decoder\"}") > 0,
          "serve: some of its prompts were cached", "none");
    char *answer = ask(&s, "/v1/models", "", NULL);
    const char *at = answer;
    int n = 0;
    for (; (at = strstr(at, "\"max_model_len\"")); at++)
        n++;
    check(n == 9, "serve: it lists all of its models", "%s", answer);
    free(answer);
    answer = ask(&s, "/v1/rerank", "", "{\"model\":\"vit\"," TEA "}");
    check(status_of(answer) == 400 && strstr(answer, "vit reads images"),
          "serve: a model that cannot answer says so", "%s", answer);
    free(answer);
    answer = ask(&s, "/v1/translate", "", "{\"input\":\"the tea\",\"max_tokens\":3}");
    check(status_of(answer) == 200 && strstr(answer, "\"model\":\"t5\""),
          "serve: without a name, the first model answers that can", "%s", answer);
    free(answer);
    answer = ask(&s, "/v1/chat/completions", "",
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":3}");
    check(status_of(answer) == 200 && strstr(answer, "\"model\":\"talks\""),
          "serve: without a name, a conversation gets the first model with a template", "%s",
          answer);
    free(answer);
    short_beside_long(&s);
    answer = ask(&s, "/v1/translate", "", "{\"model\":\"t6\",\"input\":\"the tea\"}");
    check(status_of(answer) == 404, "serve: an unknown model is not found", "%s", answer);
    free(answer);
    stop(&s);
    for (int i = 0; i < asked.n; i++) {
        free((char *)asked.bodies[2 * i + 1]);
        free(asked.alone[i]);
    }
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/weft-families-XXXXXX", command[64];
    must(argc == 4 && mkdtemp(directory) && chdir(directory) == 0,
         "serve_families WEFT GOLDEN DECODER", NULL);
    weft = argv[1];
    models = argv[2];
    decoder = argv[3];
    make_models();
    scores_pairs();
    scores_vectors();
    labels_texts();
    fills_masks();
    translates();
    sees_images();
    continues_texts();
    needs_room();
    all_in_one();
    must(chdir("/") == 0, "leaving", NULL);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    run(command);
    return n_failed > 0;
}
