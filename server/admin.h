/* admin.h - a socket for whoever runs the server: a command per line, and an answer per line.
 *
 *     status           numbers of the server, as JSON
 *     ready off, on    /ready says 503, so that a balancer sends no more; requests are served all the
 *                      same
 *     reload, stop     as SIGHUP, as SIGTERM
 *     help             the commands
 *
 * It is a file that only its owner may open; the kernel says who the client is. The HTTP loop reads
 * and writes it without waiting: an answer that finds no room ends the connection. */
#ifndef WEFT_SERVER_ADMIN_H
#define WEFT_SERVER_ADMIN_H

#include <stdbool.h>
#include <sys/types.h>

#define ADMIN_CLIENTS 8   /* one more ends the oldest */
#define ADMIN_LINE    128 /* bytes of a command */

struct server;

typedef struct admin_client {
    int fd; /* -1: none */
    int n;
    char line[ADMIN_LINE];
    unsigned long long number; /* the oldest has the smallest */
} admin_client;

typedef struct admin {
    const char *path; /* NULL: there is none */
    int listener;
    int epoll; /* readable if there is something to do */
    dev_t device;
    ino_t file; /* what is at the path, if it is ours */
    unsigned long long n_client;
    bool paused; /* there was no descriptor for a client: none is let in until admin_resume */
    admin_client client[ADMIN_CLIENTS];
} admin;

/* path: NULL or of the socket. False after printing why not. */
bool admin_open(admin *a, const char *path);

/* Closes it and removes the file. */
void admin_close(admin *a);

/* Obeys what has come; waits for nothing. True: the server is to stop. */
bool admin_turn(admin *a, struct server *s);

/* Now and then: lets clients in again. */
void admin_resume(admin *a);

#endif
