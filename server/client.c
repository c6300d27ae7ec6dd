/* client.c - connections and deadlines; see client.h. */
#include "http.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>

#define BODY_GRACE 10.0   /* seconds before the rate counts */
#define BODY_RATE  1024.0 /* bytes in a second, at least */

/* ---- addresses ------------------------------------------------------------------------------- */

static void address_of(const struct sockaddr *from, unsigned char to[16])
{
    memset(to, 0, 16);
    if (from->sa_family == AF_INET) {
        to[10] = to[11] = 0xFF;
        memcpy(to + 12, &((const struct sockaddr_in *)from)->sin_addr, 4);
    } else if (from->sa_family == AF_INET6) {
        memcpy(to, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
    }
}

static bool is_loopback(const unsigned char a[16])
{
    static const unsigned char mapped[12] = { [10] = 0xFF, [11] = 0xFF };
    static const unsigned char one[16] = { [15] = 1 };
    return memcmp(a, one, 16) == 0 || (memcmp(a, mapped, 12) == 0 && a[12] == 127);
}

/* A proxy on this machine may bring all clients from one address; others have a share. */
enum MHD_Result client_accepts(void *ud, const struct sockaddr *address, socklen_t length)
{
    const http *h = ud;
    unsigned char from[16];
    int n = 0;
    (void)length;
    address_of(address, from);
    if (is_loopback(from) || h->server->options.n_per_address <= 0)
        return MHD_YES;
    for (const client *c = h->first; c; c = c->next)
        n += memcmp(c->address, from, sizeof from) == 0;
    return n < h->server->options.n_per_address ? MHD_YES : MHD_NO;
}

/* ---- from the first byte to the last ---------------------------------------------------------- */

void client_enter(client *c, stage s)
{
    c->stage = s;
    c->since = c->progress = server_now();
}

static void watch(client *c)
{
    struct epoll_event e = { .events = EPOLLRDHUP | EPOLLET, .data.ptr = c };
    c->watched = epoll_ctl(c->http->epoll, EPOLL_CTL_ADD, c->fd, &e) == 0;
}

static void unwatch(client *c)
{
    if (c->watched)
        epoll_ctl(c->http->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    c->watched = false;
}

static void begin(http *h, struct MHD_Connection *connection, void **context)
{
    const union MHD_ConnectionInfo *fd = mhd.get_connection_info(connection,
                                                                 MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *from = mhd.get_connection_info(
        connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const bool room = weft_budget_take(memory_budget, CLIENT_POOL, "a connection", NULL) == WEFT_OK;
    client *c = room ? memory_take(sizeof *c) : NULL;
    *context = c;
    if (room && !c)
        weft_budget_give(memory_budget, CLIENT_POOL);
    if (!c) { /* closed by the handler, or by the client */
        shutdown(fd->connect_fd, SHUT_RDWR);
        return;
    }
    c->http = h;
    c->connection = connection;
    c->fd = fd->connect_fd;
    if (from && from->client_addr)
        address_of(from->client_addr, c->address);
    client_enter(c, STAGE_HEADER);
    watch(c);
    c->next = h->first;
    if (h->first)
        h->first->before = c;
    h->first = c;
    h->n_client++;
    atomic_store(&h->server->metrics.n_connection, h->n_client);
}

static void end_client(http *h, client *c)
{
    if (!c)
        return;
    unwatch(c);
    client_end_exchange(c);
    if (c->before)
        c->before->next = c->next;
    else
        h->first = c->next;
    if (c->next)
        c->next->before = c->before;
    h->n_client--;
    atomic_store(&h->server->metrics.n_connection, h->n_client);
    memory_give(c);
    weft_budget_give(memory_budget, CLIENT_POOL);
}

void client_notice(void *ud, struct MHD_Connection *connection, void **context,
                   enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        begin(ud, connection, context);
    else
        end_client(ud, *context);
}

client *client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *i = mhd.get_connection_info(connection,
                                                                MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return i ? i->socket_context : NULL;
}

void client_end_exchange(client *c)
{
    job *j = c->x.job;
    if (j) {
        j->client = NULL;
        pthread_mutex_lock(&j->lock);
        const bool complete = j->complete;
        pthread_mutex_unlock(&j->lock);
        if (!complete)
            job_cancel(j);
        job_release(j);
    }
    bytes_free(&c->x.body);
    c->x = (struct exchange){ 0 };
}

/* ---- waiting --------------------------------------------------------------------------------- */

void client_suspend(client *c)
{
    client_enter(c, STAGE_WAITING);
    c->suspended = true;
    mhd.suspend_connection(c->connection);
}

void client_resume(client *c)
{
    if (!c->suspended)
        return;
    c->suspended = false;
    client_enter(c, STAGE_WRITING);
    mhd.resume_connection(c->connection);
}

/* Shut down, so that libmicrohttpd looks at the connection again: an end that came together with
 * the last bytes is one event, after which it has read only the bytes. A connection that was reset
 * has no further event: its own deadline ends it. */
void client_hung_up(client *c)
{
    unwatch(c);
    shutdown(c->fd, SHUT_RDWR);
    c->x.gone = true;
    if (c->x.job) {
        job_cancel(c->x.job);
    }
    client_resume(c);
    mhd.set_connection_option(c->connection, MHD_CONNECTION_OPTION_TIMEOUT, 1u);
}

void client_drop(client *c)
{
    if (c->closing)
        return;
    c->closing = true;
    client_hung_up(c);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static bool is_late(const http *h, const client *c, double now)
{
    switch (c->stage) {
    case STAGE_HEADER:
        return now - c->since > h->header;
    case STAGE_IDLE:
        return now - c->since > h->idle;
    case STAGE_BODY:
        return now - c->since > BODY_GRACE + (double)c->x.received / BODY_RATE;
    case STAGE_WRITING:
        return now - c->progress > h->stall;
    case STAGE_WAITING:
        break;
    }
    return false;
}

/* A comment, which clients ignore, keeps proxies from closing a stream whose prompt is long. */
static void ping(client *c, double now)
{
    job *j = c->x.job;
    if (!j || !c->suspended || now - c->since < c->http->ping || now - c->x.pinged < c->http->ping)
        return;
    pthread_mutex_lock(&j->lock);
    const bool silent = j->stream && !j->complete && j->out.n == j->taken;
    if (silent)
        bytes_text(&j->out, ": waiting\n\n");
    pthread_mutex_unlock(&j->lock);
    c->x.pinged = now;
    if (silent)
        client_resume(c);
}

void client_tick(http *h, double now)
{
    for (client *c = h->first, *next; c; c = next) {
        next = c->next;
        if (!c->closing && is_late(h, c, now)) {
            atomic_fetch_add(&h->server->metrics.n_dropped, 1);
            client_drop(c);
        } else {
            ping(c, now);
        }
    }
}
