/* load_stream.h - one streamed completion over HTTP/1.1, without blocking: a socket, the request that
 * is sent, and the times at which tokens arrive. */
#ifndef WEFT_BENCH_LOAD_STREAM_H
#define WEFT_BENCH_LOAD_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

typedef enum stream_state {
    STREAM_CONNECTING,
    STREAM_READING,
    STREAM_DONE,
    STREAM_FAILED
} stream_state;

typedef struct load_stream {
    int fd;
    stream_state state;
    char *request; /* [n_request], malloc'ed */
    size_t n_request, n_sent;

    /* the answer so far */
    int status; /* of HTTP */
    bool in_body, chunked;
    int64_t chunk;    /* bytes left of the chunk; -1: its length comes next */
    char line[65536]; /* the line being read: of the head, a chunk's length, an event */
    size_t n_line;
    char size_line[32]; /* the length of a chunk */
    size_t n_size;

    double asked, first, last; /* seconds: request, first token, latest token; 0: none yet */
    int64_t n_event;           /* events with text */
    int64_t n_token;           /* as the server counts them at the end; 0: it did not */
    char error[200];           /* why it failed */
} load_stream;

/* Called for each token that arrives, with the seconds since the one before (or since the request). */
typedef void stream_token_fn(void *ud, load_stream *s, double gap, bool is_first);

/* Takes the request over. False, with s->error set, if there is no socket. */
bool load_stream_open(load_stream *s, const struct sockaddr *to, socklen_t n_to, char *request,
                      size_t n_request);
void load_stream_close(load_stream *s);

/* The socket is ready: sends and reads what it can. */
void load_stream_advance(load_stream *s, stream_token_fn *fn, void *ud);

#endif
