/* serve.h - the server, as the program sees it. */
#ifndef WEFT_SERVER_SERVE_H
#define WEFT_SERVER_SERVE_H

#include "serve_options.h"

/* Serves until SIGTERM or SIGINT, which must be blocked in all threads, as must SIGHUP. Returns an exit code, after
 * printing an error. Prints "listening on http://127.0.0.1:8080" on standard error. */
int serve_run(const serve_options *options);

#endif
