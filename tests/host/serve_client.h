/* serve_client.h - a server in a child process and a client of sockets, for the tests of weft
 * serve. */
#ifndef WEFT_TESTS_HOST_SERVE_CLIENT_H
#define WEFT_TESTS_HOST_SERVE_CLIENT_H

#include "say.h"

#include <sys/types.h>

typedef struct child {
    pid_t pid;
    uint32_t address; /* in network order; 0: loopback */
    int port;
    int errors; /* its standard error */
} child;

/* Starts `weft serve MODEL --port 0 ARGS...`; waits until it is ready. Arguments end with NULL. */
child server_start(const char *weft, const char *const *args);

/* Waits only until it listens. Its standard error is not read further. */
child server_begin(const char *weft, const char *const *args);

/* Sends the signal and returns the exit code, or -1 if it does not end within so many seconds. */
int server_stop(child *s, int signal, double seconds);

/* Open descriptors of the process, and its resident memory in bytes. */
int n_descriptor(pid_t pid);
bool descriptors_become(const child *s, int n, double seconds); /* n or fewer */
size_t resident(pid_t pid);
size_t peak(pid_t pid); /* the most that it was; 0: not known */

double now(void);
void pause_for(double seconds);

/* ---- requests -------------------------------------------------------------------------------- */

int dial(const child *s);

/* Sends all of it; false if the server closes first. */
bool put(int fd, const char *bytes, size_t n);

/* Reads until the server closes, the answer is complete, or so many seconds pass. The text is
 * freed by the caller. *closed: the server closed. */
char *take_all(int fd, double seconds, bool *closed);

/* Reads until `mark` has come; false if it does not. */
bool take_until(int fd, const char *mark, double seconds);

/* POST of a JSON body on a connection of its own, or GET if body is NULL. more: further header
 * lines, each with its line end. */
char *ask(const child *s, const char *path, const char *more, const char *body);

/* Sends a POST and leaves the connection open. */
int begin_ask(const child *s, const char *path, const char *body);

int status_of(const char *answer); /* 0: no answer */
const char *body_of(const char *answer);

/* The text of all events of a stream, or of the choices of an object, joined. Freed by the caller. */
char *text_of(const char *answer);

/* All "choices" of an answer, without ids, times and counts of cached tokens. Freed by the caller;
 * NULL if it is not a whole answer. */
char *choices_of(const char *answer);

/* A number of /metrics, -1 if it has none; waits until it has this value, or is not above it. */
double metric(const child *s, const char *name);
bool metric_becomes(const child *s, const char *name, double value, double seconds);
bool metric_falls(const child *s, const char *name, double value, double seconds);

#endif
