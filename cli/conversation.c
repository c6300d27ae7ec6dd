/* conversation.c - the messages of a chat, and their file.
 *
 *     {"messages":[{"role":"user","content":"Hi"},
 *                  {"role":"assistant","content":"Hello!","reasoning_content":"A greeting."}]}
 *
 * It is the form of the OpenAI API and of most data for fine-tuning. What a chat cannot keep, such
 * as calls of tools, is an error when a file is loaded, not lost. */
#include "chat.h"
#include "json.h"

#include <jansson.h>
#include <string.h>

/* ---- bytes ----------------------------------------------------------------------------------- */

bool cli_text_add(cli_text *t, const char *bytes, size_t n)
{
    if (n >= t->room - t->n || !t->at) {
        const size_t room = t->n + n + 1 + t->n / 2 + 64;
        char *longer = cli_grow(t->at, room, "a message");
        if (!longer)
            return false;
        t->at = longer;
        t->room = room;
    }
    if (n)
        memcpy(t->at + t->n, bytes, n);
    t->n += n;
    t->at[t->n] = '\0';
    return true;
}

void cli_text_free(cli_text *t)
{
    cli_free(t->at);
    *t = (cli_text){ 0 };
}

/* ---- the messages ---------------------------------------------------------------------------- */

static const char *const roles[] = { "system", "developer", "user", "assistant" };

static const char *role_named(const char *name)
{
    for (size_t i = 0; name && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(name, roles[i]) == 0)
            return roles[i];
    return NULL;
}

static bool is_system(const message *m)
{
    return m->role == roles[0] || m->role == roles[1];
}

static bool is_user(const message *m)
{
    return m->role == roles[2];
}

message *conversation_add(conversation *c, const char *role)
{
    if (c->n == c->room) {
        const int64_t room = c->room + c->room / 2 + 16;
        message *at = cli_grow(c->at, (size_t)room * sizeof *at, "the conversation");
        if (!at)
            return NULL;
        c->at = at;
        c->room = room;
    }
    message *m = &c->at[c->n];
    *m = (message){ .role = role_named(role) };
    if (!cli_text_add(&m->content, "", 0))
        return NULL;
    c->n++;
    return m;
}

void message_free(message *m)
{
    cli_text_free(&m->content);
    cli_text_free(&m->reasoning);
}

void conversation_cut(conversation *c, int64_t n)
{
    while (c->n > n)
        message_free(&c->at[--c->n]);
}

void conversation_free(conversation *c)
{
    conversation_cut(c, 0);
    cli_free(c->at);
    *c = (conversation){ 0 };
}

message *conversation_system(const conversation *c)
{
    return c->n > 0 && is_system(&c->at[0]) ? &c->at[0] : NULL;
}

static void remove_messages(conversation *c, int64_t from, int64_t n)
{
    for (int64_t i = from; i < from + n; i++)
        message_free(&c->at[i]);
    memmove(c->at + from, c->at + from + n, (size_t)(c->n - from - n) * sizeof *c->at);
    c->n -= n;
}

bool conversation_set_system(conversation *c, const char *content, size_t n)
{
    if (n == 0) {
        if (conversation_system(c))
            remove_messages(c, 0, 1);
        return true;
    }
    cli_text t = { 0 };
    if (!cli_text_add(&t, content, n))
        return false;
    if (!conversation_system(c)) {
        if (!conversation_add(c, "system")) {
            cli_text_free(&t);
            return false;
        }
        const message made = c->at[c->n - 1];
        memmove(c->at + 1, c->at, (size_t)(c->n - 1) * sizeof *c->at);
        c->at[0] = made;
    }
    cli_text_free(&c->at[0].content);
    c->at[0].content = t;
    return true;
}

int64_t conversation_last_user(const conversation *c)
{
    int64_t i = c->n - 1;
    while (i >= 0 && !is_user(&c->at[i]))
        i--;
    return i;
}

bool conversation_drop_oldest(conversation *c)
{
    const int64_t from = conversation_system(c) ? 1 : 0;
    int64_t to = from + 1;
    while (to < c->n && !is_user(&c->at[to]))
        to++;
    if (to >= c->n)
        return false;
    remove_messages(c, from, to - from);
    return true;
}

/* ---- written as JSON ------------------------------------------------------------------------- */

static void write_list(const conversation *c, const char *key)
{
    cli_json_list(key);
    for (int64_t i = 0; i < c->n; i++) {
        const message *m = &c->at[i];
        cli_json_object(NULL);
        cli_json_string("role", m->role);
        cli_json_text("content", m->content.at, m->content.n);
        if (m->reasoning.n)
            cli_json_text("reasoning_content", m->reasoning.at, m->reasoning.n);
        cli_json_end();
    }
    cli_json_end();
}

/* A stream into a text, whose memory is counted. */
static ssize_t write_text(void *cookie, const char *bytes, size_t n)
{
    return cli_text_add(cookie, bytes, n) ? (ssize_t)n : 0;
}

bool conversation_json(const conversation *c, cli_text *to)
{
    FILE *f = fopencookie(to, "w", (cookie_io_functions_t){ .write = write_text });
    if (!f)
        return false;
    cli_json_to(f);
    write_list(c, NULL);
    cli_json_to(NULL);
    const bool good = !ferror(f);
    return fclose(f) == 0 && good;
}

int conversation_save(const conversation *c, const char *path)
{
    out_file file;
    if (!out_begin(&file, path))
        return cli_cannot_write(path);
    cli_json_to(file.f);
    cli_json_object(NULL);
    write_list(c, "messages");
    cli_json_end();
    cli_json_to(NULL);
    return out_end(&file, true) ? 0 : cli_cannot_write(path);
}

/* ---- read ------------------------------------------------------------------------------------ */

#define MAX_DEPTH 32
#define MAX_PARTS 200000 /* values of a file: jansson takes up to 77 bytes for each byte of it */

/* jansson recurses, and allocates much for small values: both are limited before it starts. */
static const char *too_much(const char *s, size_t n)
{
    int64_t depth = 0, parts = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (quoted && s[i] == '\\')
            i++;
        else if (s[i] == '"')
            quoted = !quoted;
        else if (!quoted && (s[i] == '[' || s[i] == '{'))
            depth++;
        else if (!quoted && (s[i] == ']' || s[i] == '}'))
            depth--;
        parts += !quoted && i < n && (s[i] == ',' || s[i] == '[' || s[i] == '{' || s[i] == ':');
        if (depth > MAX_DEPTH)
            return "nested deeper than 32";
        if (parts > MAX_PARTS)
            return "more than 200,000 values";
    }
    return NULL;
}

static bool take_string(const json_t *value, cli_text *to)
{
    return cli_text_add(to, json_string_value(value), json_string_length(value));
}

static int bad_message(const char *path, size_t i, const char *found)
{
    fprintf(stderr, "weft: %s: message %zu: ", path, i + 1);
    cli_put(stderr, found, strlen(found));
    fputs("; expected role (system, user or assistant), content and perhaps reasoning_content, all "
          "strings\n",
          stderr);
    return 1;
}

static int take_message(conversation *c, const char *path, size_t i, json_t *value)
{
    const char *key;
    json_t *member;
    char found[128];
    json_object_foreach(value, key, member)
    {
        const bool known = strcmp(key, "role") == 0 || strcmp(key, "content") == 0 ||
                           strcmp(key, "reasoning_content") == 0;
        snprintf(found, sizeof found, known ? "%.60s is not a string" : "\"%.60s\" is unknown here",
                 key);
        if (!known || !json_is_string(member))
            return bad_message(path, i, found);
    }
    const json_t *reasoning = json_object_get(value, "reasoning_content"),
                 *content = json_object_get(value, "content");
    const char *role = role_named(json_string_value(json_object_get(value, "role")));
    if (!role || !content)
        return bad_message(path, i, role ? "no content" : "no such role");
    if (strcmp(role, "developer") == 0 || strcmp(role, "system") == 0)
        if (i > 0)
            return bad_message(path, i, "a system message that is not the first");
    message *m = conversation_add(c, role);
    const bool good = m && take_string(content, &m->content) &&
                      (!reasoning || take_string(reasoning, &m->reasoning));
    return good ? 0 : cli_no_memory();
}

/* The list of messages, or NULL. */
static json_t *list_of(json_t *root)
{
    json_t *list = json_is_object(root) ? json_object_get(root, "messages") : root;
    return json_is_array(list) ? list : NULL;
}

/* jansson quotes the file, which may have any bytes. */
static void bad_json(const char *path, const json_error_t *why)
{
    fprintf(stderr, "weft: %s: line %d: ", path, why->line);
    cli_put(stderr, why->text, strlen(why->text));
    fputs("; expected a saved conversation\n", stderr);
}

static int take_messages(conversation *c, const char *path, const char *bytes, size_t n)
{
    json_error_t why;
    const char *limit = too_much(bytes, n);
    json_t *root = limit ? NULL
                         : json_loadb(bytes, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why),
           *list = list_of(root), *value;
    size_t i;
    int code = 0;
    if (limit)
        fprintf(stderr, "weft: %s: %s; expected a saved conversation\n", path, limit);
    else if (!root)
        bad_json(path, &why);
    else if (!list)
        fprintf(stderr, "weft: %s: no list of messages; expected {\"messages\": [...]}\n", path);
    if (!list)
        code = 1;
    json_array_foreach(list, i, value)
    {
        if (!code)
            code = json_is_object(value) ? take_message(c, path, i, value)
                                         : bad_message(path, i, "not an object");
    }
    json_decref(root);
    return code;
}

int conversation_load(conversation *c, const char *path)
{
    conversation loaded = { 0 };
    char *bytes;
    size_t n = 0;
    int code = cli_read(path, CHAT_MAX_FILE, &bytes, &n);
    if (!code)
        code = take_messages(&loaded, path, bytes, n);
    cli_free(bytes);
    if (code) {
        conversation_free(&loaded);
        return code;
    }
    conversation_free(c);
    *c = loaded;
    return 0;
}
