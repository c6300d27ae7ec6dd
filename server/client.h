/* client.h - connections, and how long each may take.
 *
 * libmicrohttpd's own timeouts stand still while a connection is suspended, and a suspended one
 * does not notice that its client hangs up. So the deadlines are ours, and our own epoll watches
 * every connection for its end. A client that ends its side is gone, even if it would still read.
 * Connections of clients that are gone or too slow are shut down; libmicrohttpd then finds them
 * closed.
 *
 *     HEADER --> BODY --> WAITING <--> WRITING --> IDLE --> HEADER ... */
#ifndef WEFT_SERVER_CLIENT_H
#define WEFT_SERVER_CLIENT_H

#include "job.h"
#include "mhd.h"

#include <sys/socket.h>

#define CLIENT_POOL ((size_t)32 << 10) /* of libmicrohttpd for each: the head of a request fits */

typedef enum stage { STAGE_HEADER, STAGE_BODY, STAGE_WAITING, STAGE_WRITING, STAGE_IDLE } stage;

struct http;

typedef struct client {
    struct client *next, *before;
    struct http *http;
    struct MHD_Connection *connection;
    int fd;
    unsigned char address[16]; /* IPv6, or IPv4 as in ::ffff:127.0.0.1 */
    stage stage;
    double since;    /* when the stage began */
    double progress; /* when bytes were last taken for sending */
    bool suspended, watched, closing;

    /* the request; zeroed when it has ended */
    struct exchange {
        bool begun;
        double began;
        const struct route *route;
        char method[8], path[384]; /* for the log, cut */
        char id[ID_BYTES];
        int key;
        refusal why;    /* status 0: none */
        bool preflight; /* a browser asks whether its page may ask */
        bool unclear;   /* where the body ends: it is refused before it is read */
        bytes body;
        size_t received, sent;
        int status;
        bool gone; /* the client hung up */
        double pinged;
        job *job;
    } x;
} client;

/* libmicrohttpd's notifications. */
void client_notice(void *ud, struct MHD_Connection *connection, void **context,
                   enum MHD_ConnectionNotificationCode what);
enum MHD_Result client_accepts(void *ud, const struct sockaddr *address, socklen_t length);

client *client_of(struct MHD_Connection *connection);
void client_enter(client *c, stage s);

/* Waits for the job, and for the client to hang up. */
void client_suspend(client *c);
void client_resume(client *c);

/* An event of our epoll: the client has hung up. */
void client_hung_up(client *c);

/* Shuts the connection down. */
void client_drop(client *c);

/* Forgets the request: its job goes on only if others hold it. */
void client_end_exchange(client *c);

/* Looks at all deadlines; sends comments to streams that have been silent. */
void client_tick(struct http *h, double now);

#endif
