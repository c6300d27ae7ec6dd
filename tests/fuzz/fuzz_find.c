/* fuzz_find.c - bytes as the contents of a model store (an Ollama manifest, a reference, a file
 * name), as a name that a user types, and as a file that is not a model. */
#include "formats/find.h"
#include "formats/recognise.h"
#include "hostile.h"

#include <jansson.h>
#include <string.h>

static void as_manifest(const uint8_t *data, size_t size)
{
    host h = { .io = io_system };
    weft_error err = { 0 };
    char digest[STORE_DIGEST] = "";
    mem_init(&h.mem, (size_t)64 << 20, NULL);
    if (ollama_manifest(data, size, "fuzz", digest, &h, &err) == WEFT_OK)
        holds(strlen(digest) == 71 && strncmp(digest, "sha256-", 7) == 0 &&
                  strspn(digest + 7, "0123456789abcdef") == 64,
              "a digest is none");
    else
        holds(err.message[0], "an error without a message");
    holds(atomic_load(&h.mem.used) == 0, "memory is left");
}

/* Anything that becomes part of a path is a single component. */
static void is_one_name(const char *name)
{
    holds(name[0] && name[0] != '.' && !strchr(name, '/') && !strchr(name, '\n'),
          "a name that is a path");
}

static void as_names(const uint8_t *data, size_t size)
{
    char to[256], text[1024];
    wanted w;
    bool named = false;
    if (store_ref(data, size, to, sizeof to))
        is_one_name(to);
    const size_t n = size < sizeof text ? size : sizeof text - 1;
    memcpy(text, data, n);
    text[n] = '\0';
    store_tag(text, to, sizeof to);
    const store_model m = { text, to, text, "path", NULL };
    if (!wanted_parse(&w, text))
        return;
    holds(!strstr(w.name, "..") || w.name[0] != '.', "a name that is a path");
    holds(!w.tag[0] || (w.tag[0] != '.' && !strchr(w.tag, '/')), "a tag that is a path");
    for (int kind = STORE_DIRECTORY; kind <= STORE_OLLAMA; kind++)
        holds(wanted_fits(&w, &(store){ (store_kind)kind, "" }, &m, &named) <= 5, "fits too well");
}

static void as_file(const uint8_t *data, size_t size)
{
    weft_error err = { 0 };
    const weft_status known = recognise_known("fuzz", data, size, "X", &err);
    holds(known == WEFT_OK || err.message[0], "an error without a message");
    holds(recognise("fuzz", data, size, "X", &err) != WEFT_OK, "it is not a model");
    for (const char *c = err.message; *c; c++)
        holds(*c >= ' ' && *c < 127, "a message that is not letters");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_object_seed(1); /* hashing is random by default, findings must repeat */
    as_manifest(data, size);
    as_names(data, size);
    as_file(data, size);
    return 0;
}
