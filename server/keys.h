/* keys.h - who may use the server. A file has a key on each line, with a name before it if logs
 * and fairness are to tell keys apart: "NAME KEY". Lines that begin with # are comments. */
#ifndef WEFT_SERVER_KEYS_H
#define WEFT_SERVER_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#define MAX_KEY        1024
#define MAX_KEY_BYTES  256
#define MAX_KEY_NAME   64
#define LEAST_KEY_SIZE 8

typedef struct api_key {
    unsigned char secret[MAX_KEY_BYTES]; /* zeros after it */
    size_t n;
    char name[MAX_KEY_NAME];
} api_key;

typedef struct keys {
    api_key *at;
    int n;
} keys;

/* Reads a file that only its owner can read. False with `why` filled: path: found; expected. */
bool keys_read(keys *k, const char *path, char *why, size_t size);
bool keys_parse(keys *k, const char *path, const char *text, size_t n, char *why, size_t size);
void keys_free(keys *k);

/* The number of the key that was given, or -1. Compares with every key in full, so that the time it
 * takes depends on neither. */
int keys_find(const keys *k, const char *given, size_t n);

#endif
