/* conversion.c - what `weft convert` and `weft quantize` have in common: all but their options. */
#include "cli.h"
#include "json.h"

static void print_info(const weft_convert_info *i, bool json, bool more)
{
    static const char *const forms[] = { "", "gguf", "hf" };
    char size[32];
    if (!json) {
        printf("%s: %s, %lld tensors (%s), %s in %lld file%s\n", i->path, i->architecture,
               (long long)i->n_tensor, i->type, cli_bytes((size_t)i->bytes, size, sizeof size),
               (long long)i->n_file, i->n_file == 1 ? "" : "s");
        if (i->n_left_out)
            printf("%lld unused tensors were left out\n", (long long)i->n_left_out);
        return;
    }
    cli_json_object(NULL);
    cli_json_string("path", i->path);
    cli_json_string("format", forms[i->format]);
    cli_json_string("architecture", i->architecture);
    cli_json_string("type", i->type);
    cli_json_int("n_tensor", i->n_tensor);
    cli_json_int("n_file", i->n_file);
    cli_json_int("n_left_out", i->n_left_out);
    cli_json_int("bytes", i->bytes);
    cli_json_int("bytes_peak", i->bytes_peak);
    if (!more)
        cli_json_end();
}

static bool show_progress(void *ud, uint64_t done, uint64_t total)
{
    (void)ud;
    cli_progress_set(done, total);
    return !cli_interrupted();
}

int cli_convert(const char *from, const char *to, weft_convert_options *o, const char *label,
                bool json, char *path)
{
    weft_convert_info info = { .struct_size = sizeof info };
    weft_error err = { 0 };
    o->struct_size = sizeof *o;
    o->progress = show_progress;
    o->log = cli_log;
    from = cli_model_path(from, &err);
    if (!from)
        return cli_fail(&err);
    cli_catch_interrupt();
    cli_progress_begin(label, NULL);
    const weft_status status = weft_convert(from, to, o, &info, &err);
    cli_progress_end();
    if (status == WEFT_ESTOPPED)
        return cli_stopped();
    if (status != WEFT_OK)
        return cli_fail(&err);
    print_info(&info, json, path != NULL);
    if (path)
        snprintf(path, sizeof info.path, "%s", info.path);
    return 0;
}
