/* host.h - what the library asks of the program it lives in: memory, files, and an ear for its log.
 * One host per model; everything made from the model draws on it. */
#ifndef WEFT_BASE_HOST_H
#define WEFT_BASE_HOST_H

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"

typedef struct host {
    mem mem;
    io_hooks io;
    log_sink log;
} host;

#endif
