/* page.c - the page of weft serve as it comes over HTTP: its headers, that nothing in it leads elsewhere, that its policy
 * has the hashes of its script and style, and that the server knows every path and field that it uses.
 * tools/page_check.py looks at it in a browser.
 *
 *     host_page WEFT MODEL TEMPLATE */
#include "serve_client.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_PAGE ((size_t)40 << 10)

static const char *weft, *model, *template;

static child start(const char *option, const char *value)
{
    const char *const args[] = { model,      "--template",           template, "-t", "1",
                                 "--no-log", option ? option : NULL, value,    NULL };
    return server_start(weft, args);
}

static void stop(child *s)
{
    check(server_stop(s, SIGTERM, 30) == 0, "page: the server ends", "it does not");
}

/* ---- the file -------------------------------------------------------------------------------- */

static void has(const char *answer, const char *part)
{
    char sentence[160];
    snprintf(sentence, sizeof sentence, "page: has %s", part);
    check(strstr(answer, part) != NULL, sentence, "%.1500s", answer);
}

static void lacks(const char *page, const char *part)
{
    char sentence[160];
    const char *at = strcasestr(page, part);
    snprintf(sentence, sizeof sentence, "page: nowhere has %s", part);
    check(!at, sentence, "%.60s", at);
}

static void headers(const char *answer)
{
    static const char *const parts[] = {
        "HTTP/1.1 200",
        "Content-Type: text/html; charset=utf-8",
        "default-src 'none'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cache-Control: no-store",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        has(answer, parts[i]);
    const char *policy = strstr(answer, "Content-Security-Policy: ");
    check(policy && !memmem(policy, strcspn(policy, "\r"), "unsafe", 6),
          "page: the policy allows nothing unsafe", "%.400s", policy ? policy : "no policy");
}

/* Addresses of other servers, and what would make markup or programs of text. */
static void closed(const char *page)
{
    static const char *const parts[] = {
        "http:",          "https:",     "src=",         "url(",         "@import",
        "import(",        "//cdn",      "innerHTML",    "outerHTML",    "insertAdjacentHTML",
        "document.write", "eval(",      "new Function", "localStorage", "onclick=",
        "WebSocket",      "sendBeacon",
    };
    check(strlen(page) > 10000 && strlen(page) <= MAX_PAGE, "page: is at most 40 KiB", "%zu bytes",
          strlen(page));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        lacks(page, parts[i]);
    const char *link = strstr(page, "href=");
    check(link && strncmp(link, "href=\"data:,\"", 13) == 0 && !strstr(link + 1, "href="),
          "page: its only link is an empty picture", "%.40s", link ? link : "none");
}

/* The hash that a browser computes. */
static void hash_is_right(const char *answer, const char *element)
{
    char begin[16], end[16], path[] = "/tmp/weft-page-XXXXXX", command[128], line[128] = "",
                             want[160];
    snprintf(begin, sizeof begin, "<%s>", element);
    snprintf(end, sizeof end, "</%s>", element);
    const char *from = strstr(answer, begin), *to = from ? strstr(from, end) : NULL;
    const int fd = mkstemp(path);
    must(to && fd >= 0, "page: a script and a style", NULL);
    from += strlen(begin);
    must(write(fd, from, (size_t)(to - from)) == to - from, "page: a file", NULL);
    snprintf(command, sizeof command,
             "sha256sum <%s | cut -c1-64 | tr a-f A-F | basenc --base16 -d | base64", path);
    FILE *f = popen(command, "r");
    must(f && fgets(line, sizeof line, f), "page: sha256sum and basenc", NULL);
    pclose(f);
    close(fd);
    unlink(path);
    snprintf(want, sizeof want, "%s-src 'sha256-%.44s'", element, line);
    has(answer, want);
}

/* ---- what it asks ---------------------------------------------------------------------------- */

/* Copies what is between quotes; returns what follows, or NULL. */
static const char *quoted(const char *at, char to[64])
{
    const char *from = at ? strchr(at, '"') : NULL, *end = from ? strchr(from + 1, '"') : NULL;
    if (!end || end - from > 60)
        return NULL;
    snprintf(to, 64, "%.*s", (int)(end - from - 1), from + 1);
    return end + 1;
}

static void field_is_known(const child *s, const char *path, const char *field)
{
    char body[128], sentence[200];
    snprintf(body, sizeof body, "{\"%s\":null}", field);
    snprintf(sentence, sizeof sentence, "page: %s has the field %s", path, field);
    char *answer = ask(s, path, "", body);
    check(status_of(answer) == 400 && !strstr(answer, "unknown_parameter"), sentence, "%s", answer);
    free(answer);
}

/* The lines of its table: "NAME": { ..., "path": "/v1/...", "fields": ["...", ...] } */
static void requests(const child *s, const char *page)
{
    const char *end = strstr(page, "\n};");
    char path[64], field[64];
    int n_path = 0, n_field = 0;
    for (const char *at = strstr(page, "const API = {"); at && at < end; n_path++) {
        at = strstr(at, "\"path\": ");
        if (!at || at > end)
            break;
        at = quoted(at + 7, path);
        const char *list = strstr(at, "\"fields\": ["), *last = strchr(list, ']');
        for (at = list + 10; at && strchr(at, '"') < last; n_field++) {
            at = quoted(at, field);
            field_is_known(s, path, field);
        }
    }
    check(n_path == 7 && n_field > 40, "page: its table of requests was read",
          "%d paths, %d fields", n_path, n_field);
}

/* As the page writes them. */
static void whole_requests(const child *s)
{
    static const char *const ask_of[][3] = {
        { "/v1/chat/completions",
          "{\"model\":\"shakespeare\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
          "\"temperature\":0.7,\"top_p\":0.95,\"top_k\":40,\"min_p\":0.05,\"max_tokens\":4,"
          "\"seed\":7,"
          "\"logprobs\":true,\"top_logprobs\":5,\"messages\":[{\"role\":\"system\",\"content\":"
          "\"a\"},"
          "{\"role\":\"user\",\"content\":\"b\"}]}",
          "\"top_logprobs\":[{\"token\":" },
        { "/v1/completions",
          "{\"model\":\"shakespeare\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
          "\"temperature\":0.7,\"top_p\":0.95,\"top_k\":40,\"min_p\":0.05,\"max_tokens\":4,"
          "\"seed\":7,"
          "\"logprobs\":5,\"prompt\":\"ROMEO:\"}",
          "\"top_logprobs\":[{" },
    };
    for (size_t i = 0; i < 2; i++) {
        char *answer = ask(s, ask_of[i][0], "", ask_of[i][1]);
        check(status_of(answer) == 200 && strstr(answer, ask_of[i][2]) &&
                  strstr(answer, "\"timings\":{") && strstr(answer, "data: [DONE]"),
              "page: a whole request of it is answered", "%s", answer);
        free(answer);
    }
    char *answer = ask(s, "/v1/models", "", NULL);
    check(strstr(answer, "\"endpoints\":[") && strstr(answer, "\"/v1/chat/completions\"") &&
              strstr(answer, "\"/v1/completions\"") && !strstr(answer, "\"/v1/classify\""),
          "page: a model lists the paths that it has", "%s", answer);
    free(answer);
}

/* ---- when it is there ------------------------------------------------------------------------ */

static void turned_off(void)
{
    child s = start("--no-page", NULL);
    char *answer = ask(&s, "/", "", NULL);
    check(status_of(answer) == 404, "page: --no-page turns it off", "%s", answer);
    free(answer);
    stop(&s);
}

static void without_key(void)
{
    char path[] = "/tmp/weft-page-keys-XXXXXX";
    const int fd = mkstemp(path);
    must(fd >= 0 && write(fd, "alice 0123456789abcdef\n", 23) == 23, "page: a file of keys", NULL);
    close(fd);
    const char *const args[] = { model, "--api-key-file", path, "-t", "1", "--no-log", NULL };
    child s = server_start(weft, args);
    char *answer = ask(&s, "/", "", NULL), *models = ask(&s, "/v1/models", "", NULL);
    check(status_of(answer) == 200 && status_of(models) == 401,
          "page: comes without a key, and nothing else does", "%d, %d", status_of(answer),
          status_of(models));
    char *mine = ask(&s, "/v1/models", "Authorization: Bearer 0123456789abcdef\r\n", NULL);
    check(strstr(mine, "\"/v1/completions\"") && !strstr(mine, "\"/v1/chat/completions\""),
          "page: a model without a template has no chat", "%s", mine);
    free(answer);
    free(models);
    free(mine);
    unlink(path);
    stop(&s);
}

int main(int argc, char **argv)
{
    must(argc == 4, "host_page WEFT MODEL TEMPLATE", NULL);
    weft = argv[1];
    model = argv[2];
    template = argv[3];
    child s = start(NULL, NULL);
    char *answer = ask(&s, "/", "", NULL), *other = ask(&s, "/", "", "{}");
    headers(answer);
    closed(body_of(answer));
    hash_is_right(answer, "script");
    hash_is_right(answer, "style");
    requests(&s, body_of(answer));
    whole_requests(&s);
    check(status_of(other) == 405, "page: only GET", "%s", other);
    free(answer);
    free(other);
    stop(&s);
    turned_off();
    without_key();
    return n_failed > 0;
}
