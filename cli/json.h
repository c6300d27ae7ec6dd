/* json.h - the one writer of JSON: what commands print on standard output with --json, and the
 * conversations of weft chat.
 *
 *     cli_json_object(NULL);
 *     cli_json_int("n", 2);
 *     cli_json_ids("ids", ids, 2);
 *     cli_json_end();                      {"n":2,"ids":[1,403]}
 *
 * The writer puts the commas, the escapes and a line end after the outermost object, so a command
 * that prints several objects prints one per line. It does not flush.
 *
 * The names do not begin with json_: the library links Jansson, which has its own json_object. */
#ifndef WEFT_CLI_JSON_H
#define WEFT_CLI_JSON_H

#include <weft.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Where JSON goes from now on; NULL: standard output. */
void cli_json_to(FILE *f);

/* key: the name of a member of an object; NULL for an element of a list and for the outermost
 * object. */
void cli_json_object(const char *key);
void cli_json_list(const char *key);
void cli_json_end(void); /* of the object or list that was begun last */

/* Bytes that are not UTF-8 become U+FFFD. text may be NULL where n is 0. */
void cli_json_text(const char *key, const char *text, size_t n);
void cli_json_string(const char *key, const char *text); /* up to its '\0' */
void cli_json_hex(const char *key, const char *bytes, size_t n);

void cli_json_int(const char *key, int64_t x);
void cli_json_ids(const char *key, const int32_t *ids, int64_t n);       /* a list */
void cli_json_spans(const char *key, const weft_span *spans, int64_t n); /* [[from, to], ...] */

/* As %.*g and %.*f print them. JSON has neither infinity nor NaN: both become null. */
void cli_json_real(const char *key, double x, int n_digit);
void cli_json_fixed(const char *key, double x, int n_decimal);

void cli_json_bool(const char *key, bool x);
void cli_json_null(const char *key);

#endif
