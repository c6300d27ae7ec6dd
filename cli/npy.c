/* npy.c - reads npy.h's files: a head in a Python dictionary, then the numbers.
 *
 *     0  "\x93NUMPY", version 1 to 3, 0, length of the dictionary: 2 bytes, from version 2 on 4
 *        {'descr': '<f4', 'fortran_order': False, 'shape': (3, 48), }   blanks, a line end
 *        float32 numbers, the last dimension fastest
 *
 * numpy.save writes exactly these keys. Other types and orders are refused, and the error says how
 * to convert them. */
#include "npy.h"

#include "cli.h"

#include <stdlib.h>
#include <string.h>

#define HEAD_MOST 4096 /* bytes of a dictionary; numpy's own has 118 */

static int refuse(const char *path, const char *found)
{
    fprintf(stderr,
            "weft: %s: %s; expected float32 numbers in C order: numpy.save(file, "
            "numpy.ascontiguousarray(x, 'float32'))\n",
            path, found);
    return 1;
}

/* What follows 'key': in the dictionary, or NULL. */
static const char *value_of(const char *head, const char *key)
{
    const char *at = strstr(head, key);
    if (!at)
        return NULL;
    at += strlen(key);
    return at + strspn(at, " ");
}

static bool begins(const char *text, const char *with)
{
    return text && strncmp(text, with, strlen(with)) == 0;
}

/* "(3, 48)": false unless it lists positive numbers, with at most `most` values in all. */
static bool read_shape(const char *at, int64_t most, npy_array *to)
{
    if (!begins(at, "("))
        return false;
    at++;
    to->n = 1;
    for (to->n_dim = 0; *at != ')'; to->n_dim++) {
        char *end;
        if (to->n_dim == NPY_DIM || *at < '0' || *at > '9')
            return false;
        const long long d = strtoll(at, &end, 10);
        if (d < 1 || d > most / to->n)
            return false;
        to->shape[to->n_dim] = d;
        to->n *= d;
        at = end + strspn(end, " ");
        if (*at == ',')
            at += 1 + strspn(at + 1, " ");
        else if (*at != ')')
            return false;
    }
    return true;
}

/* Where the dictionary begins, and its length; 0 if there is none. */
static size_t find_head(const unsigned char *file, size_t n, size_t *from)
{
    const bool wide = n >= 12 && file[6] > 1;
    *from = wide ? 12 : 10;
    if (n < 12 || memcmp(file, "\x93NUMPY", 6) != 0 || file[6] < 1 || file[6] > 3)
        return 0;
    const size_t low = file[8] | (size_t)file[9] << 8;
    const size_t length = wide ? low | (size_t)file[10] << 16 | (size_t)file[11] << 24 : low;
    return length <= HEAD_MOST && length <= n - *from ? length : 0;
}

const char *npy_parse(const char *file, size_t n, npy_array *to, size_t *data)
{
    const uint16_t probe = 1;
    const char *own = *(const uint8_t *)&probe ? "'<f4'" : "'>f4'";
    char head[HEAD_MOST + 1];
    size_t from;
    *to = (npy_array){ 0 };
    const size_t length = find_head((const unsigned char *)file, n, &from);
    if (length == 0)
        return "not a NumPy file";
    memcpy(head, file + from, length);
    head[length] = '\0';
    *data = from + length;
    const size_t most = (n - *data) / sizeof *to->at;
    if (!begins(value_of(head, "'descr':"), own))
        return "numbers of another type";
    if (!begins(value_of(head, "'fortran_order':"), "False"))
        return "numbers in Fortran's order";
    if (!read_shape(value_of(head, "'shape':"), (int64_t)most, to) ||
        (size_t)to->n * sizeof *to->at != n - *data)
        return "a shape that is not that of its numbers";
    return NULL;
}

static int read_array(const char *path, const char *file, size_t n, npy_array *to)
{
    size_t data;
    const char *found = npy_parse(file, n, to, &data);
    if (found)
        return refuse(path, found);
    to->at = cli_alloc((size_t)to->n, sizeof *to->at, "the numbers of a patch");
    if (!to->at)
        return cli_no_memory();
    memcpy(to->at, file + data, (size_t)to->n * sizeof *to->at);
    return 0;
}

int npy_read(const char *path, npy_array *to)
{
    char *file = NULL;
    size_t n = 0;
    *to = (npy_array){ 0 };
    int code = cli_read(path, CLI_MAX_TEXT, &file, &n);
    if (!code)
        code = read_array(path, file, n, to);
    cli_free(file);
    return code;
}
