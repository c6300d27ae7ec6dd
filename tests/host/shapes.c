/* shapes.c - published models bind and can be inspected, by their names and shapes alone.
 *
 *     host_shapes WEFT
 *
 * Every file of tests/golden/shapes becomes a directory whose weights are holes in a sparse file;
 * `weft inspect` opens it and must count what transformers counts. A tensor that no model expects,
 * or one that is missing, is an error of the opening. */
#include "say.h"

#include <jansson.h>
#include <unistd.h>

/* Ranges of numbers in a collapsed name: "layers.{0-27}.experts.{0-63}.weight". */
typedef struct pattern {
    const char *at[4]; /* where the braces open */
    int low[4], high[4], n;
} pattern;

static pattern read_pattern(const char *name)
{
    pattern p = { .n = 0 };
    for (const char *open = strchr(name, '{'); open; open = strchr(open + 1, '{')) {
        must(p.n < 4 && sscanf(open, "{%d-%d}", &p.low[p.n], &p.high[p.n]) == 2, name, NULL);
        p.at[p.n++] = open;
    }
    return p;
}

/* The name with these numbers in place of its ranges. */
static void fill(char *to, size_t size, const char *name, const pattern *p, const int number[4])
{
    const char *from = name;
    size_t n = 0;
    for (int i = 0; i < p->n; i++) {
        n += (size_t)snprintf(to + n, size - n, "%.*s%d", (int)(p->at[i] - from), from, number[i]);
        from = strchr(p->at[i], '}') + 1;
    }
    snprintf(to + n, size - n, "%s", from);
}

/* Counts up, the last number fastest; false after the last. */
static bool next(const pattern *p, int number[4])
{
    for (int i = p->n - 1; i >= 0; i--) {
        if (++number[i] <= p->high[i])
            return true;
        number[i] = p->low[i];
    }
    return false;
}

/* Adds the tensors of one pattern to a header, as bf16 from `at` on; returns their end. */
static json_int_t add_tensors(json_t *header, json_t *tensor, json_int_t at)
{
    const char *name = json_string_value(json_array_get(tensor, 0));
    json_t *shape = json_array_get(tensor, 1), *d;
    json_int_t bytes = 2;
    size_t k;
    json_array_foreach(shape, k, d) bytes *= json_integer_value(d);
    const pattern p = read_pattern(name);
    int number[4] = { p.low[0], p.low[1], p.low[2], p.low[3] };
    do {
        char full[512];
        fill(full, sizeof full, name, &p, number);
        json_object_set_new(header, full,
                            json_pack("{s:s, s:O, s:[I,I]}", "dtype", "BF16", "shape", shape,
                                      "data_offsets", at, at + bytes));
        at += bytes;
    } while (next(&p, number));
    return at;
}

/* A directory of this model under `to`, without values. */
static bool write_model(json_t *golden, const char *to)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/config.json", to);
    bool ok = json_dump_file(json_object_get(golden, "config"), path, JSON_COMPACT) == 0;
    json_t *header = json_object(), *tensor;
    json_int_t end = 0;
    size_t i;
    json_array_foreach(json_object_get(golden, "tensors"), i, tensor)
        end = add_tensors(header, tensor, end);
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);

    snprintf(path, sizeof path, "%s/model.safetensors", to);
    FILE *f = fopen(path, "wb");
    const uint64_t length = (strlen(text) + 7) & ~(uint64_t)7; /* values are aligned */
    ok = ok && f && fwrite(&length, 8, 1, f) == 1 &&
         fprintf(f, "%-*s", (int)length, text) == (int)length && fflush(f) == 0 &&
         ftruncate(fileno(f), (off_t)(8 + length) + end) == 0;
    if (f)
        fclose(f);
    free(text);
    return ok;
}

/* What `weft inspect --json` prints about a directory; NULL if it fails. */
static json_t *inspect(const char *weft, const char *directory)
{
    char command[8400];
    snprintf(command, sizeof command, "'%s' inspect '%s' --no-speed --json", weft, directory);
    FILE *f = popen(command, "r");
    json_t *said = f ? json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    return f && pclose(f) == 0 ? said : NULL;
}

/* 0 if it is not there. */
static json_int_t number(json_t *of, const char *key)
{
    return json_integer_value(json_object_get(of, key));
}

static void judge(const char *weft, const char *file, const char *directory)
{
    char sentence[300];
    json_t *golden = json_load_file(file, 0, NULL);
    must(golden && write_model(golden, directory), file, NULL);
    json_t *said = inspect(weft, directory);
    const json_int_t weights = number(said, "weight_bytes"),
                     parameters = number(said, "n_parameter");
    snprintf(sentence, sizeof sentence, "%s binds with nothing left over", strrchr(file, '/') + 1);
    check(said && parameters == number(golden, "parameters") &&
              number(said, "n_left_out") == number(golden, "left_out"),
          sentence, "%lld parameters, expected %lld; %lld tensors left out, expected %lld",
          (long long)parameters, (long long)number(golden, "parameters"),
          (long long)number(said, "n_left_out"), (long long)number(golden, "left_out"));
    check(weights >= 2 * parameters && weights < 2 * parameters + parameters / 10 &&
              number(json_object_get(said, "plan"), "step_bytes") > 0,
          "its memory is reported", "%lld bytes of weights", (long long)weights);
    json_decref(said);
    json_decref(golden);
}

int main(int argc, char **argv)
{
    must(argc == 2, "usage: host_shapes WEFT", NULL);
    const char *in = getenv("TMPDIR");
    char directory[1024], path[2][1100];
    snprintf(directory, sizeof directory, "%s/weft-shapes-XXXXXX", in && *in ? in : "/tmp");
    must(mkdtemp(directory) != NULL, "a directory", NULL);
    snprintf(path[0], sizeof *path, "%s/config.json", directory);
    snprintf(path[1], sizeof *path, "%s/model.safetensors", directory);

    struct dirent **entry;
    const int n = scandir(golden("shapes"), &entry, NULL, alphasort);
    int n_model = 0;
    for (int i = 0; i < n; i++) {
        if (strstr(entry[i]->d_name, ".json")) {
            char file[4400];
            snprintf(file, sizeof file, "%s/%s", golden("shapes"), entry[i]->d_name);
            judge(argv[1], file, directory);
            n_model++;
        }
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    unlink(path[0]);
    unlink(path[1]);
    rmdir(directory);
    check(n_model >= 20, "there are twenty", "%d", n_model);
    return n_failed > 0;
}
