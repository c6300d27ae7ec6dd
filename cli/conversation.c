/* conversation.c - the messages of a chat, and their file.
 *
 *     {"messages":[{"role":"user","content":"Hi"},
 *                  {"role":"assistant","content":"Hello!","reasoning_content":"A greeting."}]}
 *
 * Calls of tools are "tool_calls" of an answer, and their results messages with the role tool. It is
 * the form of the OpenAI API and of most data for fine-tuning. What a chat cannot keep is an error
 * when a file is loaded, not lost. */
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

static const char *const roles[] = { "system", "developer", "user", "assistant", "tool" };

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

static bool is_result(const message *m)
{
    return m->role == roles[4];
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
    cli_text_free(&m->id);
    cli_text_free(&m->name);
    call_list_free(&m->calls);
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

/* The answer whose calls the last messages give the results of, or await; -1: there is none. */
static int64_t calling(const conversation *c)
{
    int64_t i = c->n - 1;
    while (i >= 0 && is_result(&c->at[i]))
        i--;
    return i >= 0 && c->at[i].calls.n > 0 ? i : -1;
}

int64_t conversation_asked(const conversation *c)
{
    int64_t n = conversation_pending(c, NULL, NULL) ? calling(c) : c->n;
    while (n > 0 && !is_user(&c->at[n - 1]) && !is_result(&c->at[n - 1]))
        n--;
    return n;
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

/* ---- calls of tools -------------------------------------------------------------------------- */

call *call_list_add(call_list *list)
{
    if (list->n == list->room) {
        const int64_t room = list->room * 2 + 4;
        call *at = cli_grow(list->at, (size_t)room * sizeof *at, "a call");
        if (!at)
            return NULL;
        list->at = at;
        list->room = room;
    }
    list->at[list->n] = (call){ 0 };
    return &list->at[list->n++];
}

void call_list_cut(call_list *list, int64_t n)
{
    while (list->n > n) {
        call *k = &list->at[--list->n];
        cli_text_free(&k->id);
        cli_text_free(&k->name);
        cli_text_free(&k->arguments);
    }
}

void call_list_free(call_list *list)
{
    call_list_cut(list, 0);
    cli_free(list->at);
    *list = (call_list){ 0 };
}

static bool has_result(const conversation *c, int64_t from, const call *k)
{
    for (int64_t i = from; i < c->n; i++)
        if (c->at[i].id.n == k->id.n && memcmp(c->at[i].id.at, k->id.at, k->id.n) == 0)
            return true;
    return false;
}

const call *conversation_pending(const conversation *c, int64_t *nth, int64_t *of)
{
    const int64_t from = calling(c);
    for (int64_t i = 0; from >= 0 && i < c->at[from].calls.n; i++) {
        const call *k = &c->at[from].calls.at[i];
        if (has_result(c, from + 1, k))
            continue;
        if (nth)
            *nth = i;
        if (of)
            *of = c->at[from].calls.n;
        return k;
    }
    return NULL;
}

int64_t conversation_next_call(const conversation *c)
{
    int64_t most = 0;
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t k = 0; k < c->at[i].calls.n; k++) {
            int number;
            if (sscanf(c->at[i].calls.at[k].id.at, "call%5d", &number) == 1 && number > most)
                most = number;
        }
    return most + 1;
}

/* ---- written as JSON ------------------------------------------------------------------------- */

static void write_text_of(const char *key, const cli_text *t)
{
    cli_json_text(key, t->at, t->n);
}

static void write_calls(const call_list *calls)
{
    cli_json_list("tool_calls");
    for (int64_t i = 0; i < calls->n; i++) {
        cli_json_object(NULL);
        write_text_of("id", &calls->at[i].id);
        cli_json_string("type", "function");
        cli_json_object("function");
        write_text_of("name", &calls->at[i].name);
        write_text_of("arguments", &calls->at[i].arguments);
        cli_json_end();
        cli_json_end();
    }
    cli_json_end();
}

static void write_list(const conversation *c, const char *key)
{
    cli_json_list(key);
    for (int64_t i = 0; i < c->n; i++) {
        const message *m = &c->at[i];
        cli_json_object(NULL);
        cli_json_string("role", m->role);
        write_text_of("content", &m->content);
        if (m->reasoning.n)
            write_text_of("reasoning_content", &m->reasoning);
        if (m->calls.n)
            write_calls(&m->calls);
        if (is_result(m))
            write_text_of("tool_call_id", &m->id);
        if (m->name.n)
            write_text_of("name", &m->name);
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
const char *conversation_too_much(const char *s, size_t n)
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
    fputs("; expected role (system, user, assistant or tool) and content, strings, and perhaps "
          "reasoning_content, tool_calls, tool_call_id and name\n",
          stderr);
    return 1;
}

/* What is wrong with the members of an object, or NULL: each must be a string, and one of `known`. */
static const char *wrong_member(json_t *value, const char *const *known, const char *except)
{
    static char found[128];
    const char *key;
    json_t *member;
    json_object_foreach(value, key, member)
    {
        size_t i = 0;
        while (known[i] && strcmp(key, known[i]) != 0)
            i++;
        snprintf(found, sizeof found, "%.60s is not a string", key);
        if (!known[i])
            snprintf(found, sizeof found, "\"%.60s\" is unknown here", key);
        if (!known[i] || (!json_is_string(member) && !(except && strcmp(key, except) == 0)))
            return found;
    }
    return NULL;
}

/* {"id":"call00001","type":"function","function":{"name":"add","arguments":"{}"}} */
static const char *take_call(call_list *to, json_t *value)
{
    static const char *const of_call[] = { "id", "type", "function", NULL },
                             *const of_function[] = { "name", "arguments", NULL };
    json_t *function = json_object_get(value, "function"), *id = json_object_get(value, "id"),
           *name = json_object_get(function, "name"),
           *arguments = json_object_get(function, "arguments");
    const char *found = wrong_member(value, of_call, "function");
    if (!found)
        found = wrong_member(function, of_function, NULL);
    if (!found && (!id || !name || !arguments))
        found = "a call without id, name or arguments";
    if (found)
        return found;
    call *k = call_list_add(to);
    return k && take_string(id, &k->id) && take_string(name, &k->name) &&
                   take_string(arguments, &k->arguments)
               ? NULL
               : "";
}

/* What is wrong, "" without memory, or NULL. */
static const char *take_calls(message *m, const json_t *list)
{
    size_t i;
    json_t *value;
    const char *found = json_is_array(list) ? NULL : "tool_calls is not a list";
    json_array_foreach(list, i, value)
    {
        if (!found)
            found = take_call(&m->calls, value);
    }
    return found;
}

/* The rest of a message, beside its role and content. */
static const char *take_members(message *m, json_t *value)
{
    const json_t *calls = json_object_get(value, "tool_calls"),
                 *reasoning = json_object_get(value, "reasoning_content"),
                 *id = json_object_get(value, "tool_call_id"),
                 *name = json_object_get(value, "name");
    if (calls && strcmp(m->role, "assistant") != 0)
        return "tool_calls, but not of an assistant";
    if (is_result(m) != !!id || (name && !id))
        return id ? "tool_call_id, but not of a tool" : "no tool_call_id";
    const bool good = (!reasoning || take_string(reasoning, &m->reasoning)) &&
                      (!id || take_string(id, &m->id)) && (!name || take_string(name, &m->name));
    return !good ? "" : calls ? take_calls(m, calls) : NULL;
}

static int take_message(conversation *c, const char *path, size_t i, json_t *value)
{
    static const char *const known[] = { "role",       "content",      "reasoning_content",
                                         "tool_calls", "tool_call_id", "name",
                                         NULL };
    const json_t *content = json_object_get(value, "content");
    const char *role = role_named(json_string_value(json_object_get(value, "role")));
    const bool calls = json_object_get(value, "tool_calls") != NULL;
    if (calls && json_is_null(content))
        json_object_del(value, "content");
    const char *found = wrong_member(value, known, "tool_calls");
    content = json_object_get(value, "content");
    if (!found && (!role || (!content && !calls)))
        found = role ? "no content" : "no such role";
    if (found)
        return bad_message(path, i, found);
    if (i > 0 && (strcmp(role, "developer") == 0 || strcmp(role, "system") == 0))
        return bad_message(path, i, "a system message that is not the first");
    message *m = conversation_add(c, role);
    if (!m || (content && !take_string(content, &m->content)))
        return cli_no_memory();
    found = take_members(m, value);
    return !found ? 0 : *found ? bad_message(path, i, found) : cli_no_memory();
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
    const char *limit = conversation_too_much(bytes, n);
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
