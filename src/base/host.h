/* host.h - services of the embedding program: memory, files and log. Each model has one host, and
 * everything made from the model uses it. */
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
