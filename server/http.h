/* http.h - the loop's files: http.c runs it, client.c has connections and deadlines, route.c
 * decides who may ask for what, respond.c answers. */
#ifndef WEFT_SERVER_HTTP_H
#define WEFT_SERVER_HTTP_H

#include "client.h"

typedef struct http {
    server *server;
    struct MHD_Daemon *daemon;
    int epoll, signals;
    client *first;
    int n_client;
    bool local;                       /* it listens on loopback only: the Host field is checked */
    double stop_at;                   /* while leaving or draining: when that ends */
    double header, idle, stall, ping; /* seconds */
    bool aborted;
} http;

/* ---- route.c --------------------------------------------------------------------------------- */

/* What the server has at a path. */
typedef struct route {
    const char *path;
    bool post; /* otherwise GET */
    bool open; /* without a key */
    endpoint endpoint;
    void (*get)(client *c, bytes *to); /* of GET */
    const char *type;
} route;

/* The head of a request has arrived. Fills c->x; c->x.why says why it is refused, if it is. */
void route_check(client *c, const char *url, const char *method);

/* ---- respond.c ------------------------------------------------------------------------------- */

/* A short answer of our own. */
enum MHD_Result respond(client *c, int status, const char *type, const bytes *body);
enum MHD_Result respond_refusal(client *c, const refusal *why);

/* The answer of the client's job, whose status is known. */
enum MHD_Result respond_job(client *c);

/* ---- log.c ----------------------------------------------------------------------------------- */

/* A line of the access log for a request that has ended. No text of it is written. */
void log_exchange(const client *c, const char *end);

#endif
