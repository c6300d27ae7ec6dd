/* systemd.h - what systemd hands to a service and hears from it: a socket that listens already
 * (LISTEN_FDS), states (NOTIFY_SOCKET) and pings of a watchdog (WATCHDOG_USEC); sd_listen_fds(3) and
 * sd_notify(3) describe them. Other supervisors speak the same protocol. */
#ifndef WEFT_SERVER_SYSTEMD_H
#define WEFT_SERVER_SYSTEMD_H

#include <stdbool.h>
#include <stddef.h>

/* The listener that was handed over, non-blocking; -1: none was; -2: what was handed over is none,
 * and why says so. */
int systemd_listener(char *why, size_t room);

struct server;

/* Its state, of the loop's thread only. */
typedef struct systemd {
    int fd;       /* connected; -1: nobody listens */
    double every; /* seconds between pings; 0: no watchdog */
    double pinged;
    int n_asked; /* reloads that systemd knows of */
    bool ready, reloading, stopping;
} systemd;

/* Connects, before the sandbox forbids it. Prints why not. */
void systemd_open(systemd *d);
void systemd_close(systemd *d);

/* In each turn of the loop: says what has changed, and pings while all threads live. */
void systemd_turn(systemd *d, struct server *s, double now);

#endif
