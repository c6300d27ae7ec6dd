/* convert_kept.c - files of a directory that only weft's own GGUF files embed: vocabularies other
 * than tokenizer.json, and the pooling of sentence models.
 *
 * The names come from a list in the program, plus one that modules.json gives and that binding has
 * checked: a GGUF file never decides which file is written. */
#include "formats/gguf_write.h"
#include "models/conversion.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    "tokenizer.model",
    "spiece.model",
    "source.spm",
    "target.spm",
    "vocab.json",
    "target_vocab.json",
    "merges.txt",
    "vocab.txt",
    "source_vocabulary.txt",
    "target_vocabulary.txt",
    "modules.json",
};
#define N_NAME (int)(sizeof names / sizeof *names)

/* Name i: from the list, then from modules.json; NULL after the last. */
static const char *name_of(const conversion *c, int i)
{
    return i < N_NAME ? names[i] : i == N_NAME ? c->m.notes->pooling_file : NULL;
}

static weft_status keep_file(const conversion *c, gguf_writer *w, const char *name)
{
    char path[4096], key[KEPT_KEY_BYTES];
    file f;
    if (!convert_join(path, sizeof path, c->from, name) || !path_exists(path, c->host))
        return WEFT_OK;
    const weft_status status = file_open(&f, path, WEFT_LOAD_COPY, c->host, c->err);
    if (status != WEFT_OK)
        return status;
    if (f.size > GGUF_MAX_TEXT)
        log_write(&c->host->log, WEFT_LOG_WARN, "%s: %zu bytes; the limit of a key is %u; left out",
                  path, f.size, GGUF_MAX_TEXT);
    else
        gguf_add_text(w, kept_key(name, key), file_text(&f), f.size);
    file_close(&f, c->host);
    return WEFT_OK;
}

weft_status convert_keep_files(const conversion *c, gguf_writer *w)
{
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && name_of(c, i); i++)
        status = keep_file(c, w, name_of(c, i));
    return status;
}

/* "1_Pooling/config.json" needs its directory. */
static void make_parent(conversion *c, const char *path, const char *name)
{
    char parent[4096];
    if (!strchr(name, '/'))
        return;
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
    save_directory(&c->save, parent);
}

void convert_restore_files(conversion *c, const char *directory)
{
    char path[4096];
    for (int i = 0; name_of(c, i); i++) {
        const meta *m = kept_file(&c->m.file, name_of(c, i));
        if (!m)
            continue;
        if (!convert_join(path, sizeof path, directory, name_of(c, i))) {
            save_fail(&c->save, WEFT_EINVAL, "%.200s...: the path is too long", directory);
            return;
        }
        make_parent(c, path, name_of(c, i));
        save_file(&c->save, path);
        save_put(&c->save, m->text, m->length);
        c->report->n_file++;
    }
}
