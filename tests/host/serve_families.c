/* serve_families.c - the server with models that do not continue texts: scores, ranks, labels, masks and
 * translations are those of the commands rerank, classify, fill-mask and translate, whose numbers are
 * compared with transformers' elsewhere; and they are the same among many requests as alone.
 *
 *     host_serve_families WEFT GOLDEN */
#include "serve_client.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define MAX_NUMBER 256
#define N_CLIENT   8
#define N_ROUND    12
#define MAX_BODY   12

static const char *weft, *models;

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
    const char *const *bodies; /* path, body, path, body ... */
    int n;
    char *alone[MAX_BODY];
    pthread_mutex_t lock;
    int n_same, n_different;
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
    for (int i = 0; i < N_ROUND * c->n; i++) {
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

static void same_among_many(const child *s, const char *const *bodies, const char *what)
{
    crowd c = { .server = s, .bodies = bodies };
    pthread_t client[N_CLIENT];
    pthread_mutex_init(&c.lock, NULL);
    for (; bodies[2 * c.n]; c.n++) {
        char *answer = ask(s, bodies[2 * c.n], "", bodies[2 * c.n + 1]);
        c.alone[c.n] = part_that_stays(answer);
        const bool good = check(c.alone[c.n], "serve: a request alone is answered", "%.300s",
                                answer);
        free(answer);
        if (!good)
            return;
    }
    for (int i = 0; i < N_CLIENT; i++)
        pthread_create(&client[i], NULL, ask_often, &c);
    for (int i = 0; i < N_CLIENT; i++)
        pthread_join(client[i], NULL);
    check(c.n_different == 0 && c.n_same == N_CLIENT * N_ROUND * c.n, what, "%d of %d differ: %s",
          c.n_different, c.n_same + c.n_different, c.first);
    for (int i = 0; i < c.n; i++)
        free(c.alone[i]);
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
    same_among_many(&s, bodies, "serve: scores of pairs are those of a request alone");
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
    same_among_many(&s, bodies, "serve: vectors and cosines are those of a request alone");
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
    free(answer);
    same_among_many(&s, bodies, "serve: labels are those of a request alone");
    stop(&s);
    compared several_classes = classes;
    several_classes.command = "classify bert-several 'the tea is hot' --top 0 --json";
    several_classes.what = "serve: each of several labels has a probability of its own";
    s = start("bert-several");
    compare(&s, &several_classes);
    stop(&s);
    s = start("bert-tag");
    compare(&s, &tags);
    same_among_many(&s, bodies, "serve: labels of tokens are those of a request alone");
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
    same_among_many(&s, bodies, "serve: tokens for masks are those of a request alone");
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
        NULL,
    };
    child s = start("t5");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuses(&s, &bad[i]);
    same_translations(&s);
    same_among_many(&s, bodies, "serve: translations are those of a request alone");
    stop(&s);
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/weft-families-XXXXXX", command[64];
    must(argc == 3 && mkdtemp(directory) && chdir(directory) == 0, "serve_families WEFT GOLDEN",
         NULL);
    weft = argv[1];
    models = argv[2];
    make_models();
    scores_pairs();
    scores_vectors();
    labels_texts();
    fills_masks();
    translates();
    must(chdir("/") == 0, "leaving", NULL);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    run(command);
    return n_failed > 0;
}
