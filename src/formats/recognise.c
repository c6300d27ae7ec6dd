/* recognise.c - identifies files by their first bytes, and directories by the names in them, if
 * they are not what was expected. It parses nothing: it looks for patterns, and the result is an
 * error message "path: found; expected; do this". */
#include "formats/recognise.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HEAD 512 /* bytes that are checked */

typedef struct sample {
    const char *path;
    const uint8_t *at;
    size_t n; /* at most HEAD */
} sample;

static sample sample_of(const char *path, const uint8_t *data, size_t size)
{
    return (sample){ path, data, size < HEAD ? size : HEAD };
}

static bool begins(const sample *s, const char *bytes, size_t n)
{
    return s->n >= n && memcmp(s->at, bytes, n) == 0;
}

static bool has(const sample *s, const char *text)
{
    return memmem(s->at, s->n, text, strlen(text)) != NULL;
}

static bool name_matches(const sample *s, const char *tail)
{
    return text_ends_with(s->path, tail);
}

/* ---- Git LFS --------------------------------------------------------------------------------- */

static const char lfs_head[] = "version https://git-lfs.github.com/spec/v1\n";

static bool is_lfs(const sample *s)
{
    return begins(s, lfs_head, sizeof lfs_head - 1);
}

/* " of 4.7 GB", from the pointer's line "size 4661211328"; "" if it has none, or an implausible
 * one. */
static const char *lfs_size(const sample *s, char *text, size_t room)
{
    const char *line = memmem(s->at, s->n, "\nsize ", 6);
    double size = 0;
    text[0] = '\0';
    const char *end = (const char *)&s->at[s->n];
    for (const char *c = line ? &line[6] : end; c < end && *c >= '0' && *c <= '9'; c++)
        size = 10 * size + (*c - '0'); /* bounded: a double, of HEAD digits at most */
    if (size >= 1e9 && size < 1e18)
        snprintf(text, room, " of %.1f GB", size / 1e9);
    else if (size > 0 && size < 1e9)
        snprintf(text, room, " of %.1f MB", size / 1e6);
    return text;
}

static weft_status refuse_lfs(const sample *s, const char *expected, weft_error *err)
{
    char size[32];
    return weft_fail(err, WEFT_EFORMAT,
                     "%s: a Git LFS pointer to a file%s; expected %s; run \"git lfs pull\" in the "
                     "clone, or download the file itself",
                     s->path, lfs_size(s, size, sizeof size), expected);
}

/* ---- by the first bytes ---------------------------------------------------------------------- */

/* Skips a byte order mark and blanks before it. */
static bool is_web_page(const sample *s)
{
    static const char *const tags[] = { "<!doctype html", "<html", "<head", "<?xml", "<!--" };
    size_t at = begins(s, "\xEF\xBB\xBF", 3) ? 3 : 0;
    while (at < s->n && memchr(" \t\r\n", s->at[at], 4))
        at++;
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        const size_t n = strlen(tags[i]);
        if (s->n - at >= n && strncasecmp((const char *)&s->at[at], tags[i], n) == 0)
            return true;
    }
    return false;
}

/* torch.save writes a zip whose first entry is NAME/data.pkl; before version 1.6, a pickle. */
static bool is_pytorch(const sample *s)
{
    if (begins(s, "PK\3\4", 4))
        return has(s, "/data.pkl") || name_matches(s, ".pt") || name_matches(s, ".pth") ||
               name_matches(s, ".bin") || name_matches(s, ".ckpt");
    return s->n >= 3 && s->at[0] == 0x80 && s->at[1] >= 2 && s->at[1] <= 5 && s->at[2] != 0;
}

static bool is_zip(const sample *s)
{
    return begins(s, "PK\3\4", 4);
}

static bool is_tar(const sample *s)
{
    return s->n > 262 && memcmp(&s->at[257], "ustar", 5) == 0;
}

static bool is_compressed(const sample *s)
{
    return begins(s, "\x1F\x8B", 2) ||
           begins(s,
                  "\xFD"
                  "7zXZ",
                  5) ||
           begins(s, "BZh", 3) || begins(s, "\x28\xB5\x2F\xFD", 4) ||
           begins(s, "7z\xBC\xAF\x27\x1C", 6);
}

/* Little-endian magic numbers: ggml, ggmf, ggjt, ggla. */
static bool is_ggml(const sample *s)
{
    return begins(s, "lmgg", 4) || begins(s, "fmgg", 4) || begins(s, "tjgg", 4) ||
           begins(s, "algg", 4);
}

/* Field 1, the version of the format, then field 2, the producer. A SentencePiece model, which is
 * protobuf too, begins with field 1 as a message: 0A. */
static bool is_onnx(const sample *s)
{
    return name_matches(s, ".onnx") ||
           (s->n > 4 && s->at[0] == 0x08 && s->at[1] <= 32 && s->at[2] == 0x12 && s->at[3] > 0);
}

static bool is_hdf5(const sample *s)
{
    return begins(s, "\x89HDF\r\n\x1A\n", 8);
}

/* The length of a JSON header, in eight bytes, and the header. */
static bool is_safetensors(const sample *s)
{
    return s->n > 8 && s->at[8] == '{' && s->at[6] == 0 && s->at[7] == 0;
}

static bool is_gguf(const sample *s)
{
    return begins(s, "GGUF", 4);
}

typedef struct kind {
    bool (*is)(const sample *s);
    weft_status code;
    const char *what, *advice;
} kind;

static const kind kinds[] = {
    { is_web_page, WEFT_EFORMAT, "a web page, such as a login or error page saved under this name",
      "download it again; the site may require a login" },
    { is_pytorch, WEFT_EUNSUPPORTED, "looks like a PyTorch pickle, which can run code",
      "use the model's safetensors files, or write them with save_pretrained in transformers" },
    { is_zip, WEFT_EUNSUPPORTED, "a zip archive", "unpack it first" },
    { is_tar, WEFT_EUNSUPPORTED, "a tar archive", "extract it and give the files in it" },
    { is_compressed, WEFT_EUNSUPPORTED, "a compressed file", "decompress it first" },
    { is_ggml, WEFT_EUNSUPPORTED, "a GGML file from before GGUF", "download the model as GGUF" },
    { is_onnx, WEFT_EUNSUPPORTED, "an ONNX graph",
      "use the original model, as safetensors or GGUF" },
    { is_hdf5, WEFT_EUNSUPPORTED, "an HDF5 file, as written by Keras",
      "use the model's safetensors files" },
};

weft_status recognise_known(const char *path, const uint8_t *data, size_t size,
                            const char *expected, weft_error *err)
{
    const sample s = sample_of(path, data, size);
    if (is_lfs(&s))
        return refuse_lfs(&s, expected, err);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].is(&s))
            return weft_fail(err, kinds[i].code, "%s: %s; expected %s; %s", path, kinds[i].what,
                             expected, kinds[i].advice);
    return WEFT_OK;
}

/* ---- unknown files --------------------------------------------------------------------------- */

static bool is_text(const sample *s)
{
    const size_t cut = utf8_unfinished((const char *)s->at, s->n);
    if (utf8_find_wrong((const char *)s->at, s->n - cut) != s->n - cut)
        return false;
    for (size_t i = 0; i < s->n; i++)
        if (s->at[i] < ' ' && !memchr("\t\r\n\f\033", s->at[i], 5))
            return false;
    return s->n > 0;
}

/* The start of its first line, in characters that are safe for a terminal. */
static void first_words(const sample *s, char *to, size_t room)
{
    size_t n = 0;
    while (n < s->n && n < room - 1 && s->at[n] != '\n' && s->at[n] != '\r') {
        to[n] = (char)(s->at[n] >= ' ' && s->at[n] < 127 ? s->at[n] : '?');
        n++;
    }
    to[n] = '\0';
}

weft_status recognise(const char *path, const uint8_t *data, size_t size, const char *expected,
                      weft_error *err)
{
    const sample s = sample_of(path, data, size);
    const weft_status known = recognise_known(path, data, size, expected, err);
    char words[48];
    first_words(&s, words, sizeof words);
    if (known != WEFT_OK)
        return known;
    if (is_safetensors(&s))
        return weft_fail(
            err, WEFT_EUNSUPPORTED,
            "%s: weights without a configuration; expected %s; give the directory that "
            "also holds their config.json",
            path, expected);
    if (is_gguf(&s))
        return weft_fail(
            err, WEFT_EFORMAT,
            "%s: a GGUF file under this name; expected %s; rename it to .gguf and give "
            "the file",
            path, expected);
    if (is_text(&s) && name_matches(&s, ".json"))
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: JSON, not weights; expected %s; give its directory", path, expected);
    if (is_text(&s))
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: a text that begins with \"%s\"; expected %s; check the path, or "
                         "download the file again",
                         path, words, expected);
    return weft_fail(
        err, WEFT_EFORMAT,
        "%s: an unknown kind of file; expected %s; check the path, or download the file again",
        path, expected);
}

/* ---- directories ----------------------------------------------------------------------------- */

#define MAX_SHOWN 3
#define MAX_NAME  128

/* The first few names of a kind, in order, and how many there are. */
typedef struct shown {
    char name[MAX_SHOWN][MAX_NAME];
    int64_t n;
} shown;

typedef struct listing {
    int64_t n;
    shown gguf, weights, pickle, foreign_model;
    bool model, snapshots, blobs, adapter;
} listing;

static void show_name(shown *s, const char *name)
{
    char kept[MAX_NAME], last[MAX_NAME];
    snprintf(kept, sizeof kept, "%s", name);
    const int64_t n = s->n < MAX_SHOWN ? s->n : MAX_SHOWN;
    for (int64_t i = 0; i < n; i++)
        if (strcmp(kept, s->name[i]) < 0) {
            memcpy(last, s->name[i], sizeof last);
            memcpy(s->name[i], kept, sizeof kept);
            memcpy(kept, last, sizeof kept);
        }
    if (n < MAX_SHOWN)
        memcpy(s->name[n], kept, sizeof kept);
    s->n++;
}

/* "a.gguf, b.gguf, c.gguf and 2 more" */
static const char *words_of(const shown *s, char *to, size_t room)
{
    size_t at = 0;
    for (int64_t i = 0; i < s->n && i < MAX_SHOWN && at < room; i++)
        at += (size_t)snprintf(&to[at], room - at, "%s%s", i ? ", " : "", /* bounded: room */
                               s->name[i]);
    if (s->n > MAX_SHOWN && at < room)
        snprintf(&to[at], room - at, " and %lld more", (long long)(s->n - MAX_SHOWN));
    return to;
}

/* Only the first part of a GGUF file in parts can be opened. */
static bool is_later_part(const char *name)
{
    const char *of = strstr(name, "-of-");
    return of && of - name >= 6 && of[-6] == '-' && strncmp(&of[-6], "-00001", 6) != 0;
}

static void note_name(void *ud, const char *name)
{
    listing *l = ud;
    const sample s = { name, NULL, 0 };
    l->n++;
    l->model = l->model || strcmp(name, "model.safetensors") == 0;
    l->snapshots = l->snapshots || strcmp(name, "snapshots") == 0;
    l->blobs = l->blobs || strcmp(name, "blobs") == 0;
    l->adapter = l->adapter || strcmp(name, "adapter_config.json") == 0;
    if (name_matches(&s, ".gguf") && !is_later_part(name))
        show_name(&l->gguf, name);
    else if (name_matches(&s, ".safetensors"))
        show_name(&l->weights, name);
    else if (name_matches(&s, ".bin") || name_matches(&s, ".pt") || name_matches(&s, ".pth") ||
             name_matches(&s, ".ckpt"))
        show_name(&l->pickle, name);
    else if (name_matches(&s, ".onnx") || name_matches(&s, ".h5") || name_matches(&s, ".msgpack") ||
             name_matches(&s, ".ot"))
        show_name(&l->foreign_model, name);
}

static weft_status without_config(const char *path, const listing *l, weft_error *err)
{
    char names[MAX_SHOWN * MAX_NAME]; /* bounded: two constants */
    if (l->n == 0)
        return weft_fail(err, WEFT_EIO, "%s: an empty directory; expected %s; download the model",
                         path, EXPECT_MODEL);
    if (l->gguf.n > 0)
        return weft_fail(err, WEFT_EIO,
                         "%s: a directory of GGUF files, without config.json; expected one model; "
                         "give one of the files: %s",
                         path, words_of(&l->gguf, names, sizeof names));
    if (l->snapshots && l->blobs)
        return weft_fail(err, WEFT_EIO,
                         "%s: an entry of the Hugging Face cache; expected %s; give its name "
                         "(-hf ORG/NAME), or a directory in %s/snapshots",
                         path, EXPECT_MODEL, path);
    if (l->adapter)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: an adapter (adapter_config.json) without its model; expected %s; "
                         "merge it into the model that it was made for",
                         path, EXPECT_MODEL);
    if (l->weights.n > 0)
        return weft_fail(err, WEFT_EIO,
                         "%s: weights without config.json; expected both; download the "
                         "config.json of the same model into the directory",
                         path);
    return weft_fail(err, WEFT_EIO,
                     "%s: a directory without config.json; expected %s; give the model's directory",
                     path, EXPECT_MODEL);
}

static weft_status without_weights(const char *path, const listing *l, weft_error *err)
{
    char names[MAX_SHOWN * MAX_NAME]; /* bounded: two constants */
    if (l->model)
        return weft_fail(
            err, WEFT_EIO,
            "%s/model.safetensors: a broken link; expected the weights; download the model again",
            path);
    if (l->gguf.n > 0)
        return weft_fail(err, WEFT_EIO,
                         "%s: no model.safetensors, but GGUF files; expected one model; give one "
                         "of the files: %s",
                         path, words_of(&l->gguf, names, sizeof names));
    if (l->weights.n > 0)
        return weft_fail(err, WEFT_EIO,
                         "%s: weights in %s; expected model.safetensors, or "
                         "model.safetensors.index.json, which names the files; download that too",
                         path, words_of(&l->weights, names, sizeof names));
    if (l->pickle.n > 0)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: weights only as PyTorch pickles, which can run code (%s); expected "
                         "model.safetensors; download that, or write it with save_pretrained in "
                         "transformers",
                         path, words_of(&l->pickle, names, sizeof names));
    if (l->foreign_model.n > 0)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: weights only in an unsupported format (%s); expected "
                         "model.safetensors; download that",
                         path, words_of(&l->foreign_model, names, sizeof names));
    return weft_fail(err, WEFT_EIO,
                     "%s: config.json without weights; expected model.safetensors, or "
                     "model.safetensors.index.json and its files; download them too",
                     path);
}

weft_status recognise_directory(const char *path, bool config, host *h, weft_error *err)
{
    listing l = { 0 };
    if (h->io.list(h->io.ud, path, note_name, &l) != 0)
        return weft_fail(err, WEFT_EIO, "%s: cannot be listed; expected %s", path, EXPECT_MODEL);
    return config ? without_weights(path, &l, err) : without_config(path, &l, err);
}
