/* mhd.h - libmicrohttpd, loaded when the server starts.
 *
 * It brings GnuTLS with it: linked in, `weft --version` took 3.3 ms instead of 1.6, and 2.4 MiB
 * more memory, which every other command would pay. So it is opened by name, and its functions are
 * here: mhd.run for MHD_run. */
#ifndef WEFT_SERVER_MHD_H
#define WEFT_SERVER_MHD_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

/* Each function that the server uses, by its name without MHD_. */
#define MHD_FUNCTIONS(F)                                                                           \
    F(start_daemon)                                                                                \
    F(stop_daemon)                                                                                 \
    F(quiesce_daemon)                                                                              \
    F(run)                                                                                         \
    F(get_timeout)                                                                                 \
    F(get_daemon_info)                                                                             \
    F(get_connection_info)                                                                         \
    F(get_connection_values)                                                                       \
    F(set_connection_option)                                                                       \
    F(lookup_connection_value)                                                                     \
    F(suspend_connection)                                                                          \
    F(resume_connection)                                                                           \
    F(create_response_from_buffer)                                                                 \
    F(create_response_from_callback)                                                               \
    F(add_response_header)                                                                         \
    F(queue_response)                                                                              \
    F(destroy_response)

#define MHD_MEMBER(name) __typeof__(MHD_##name) *name;

typedef struct mhd_library {
    MHD_FUNCTIONS(MHD_MEMBER)
} mhd_library;

extern mhd_library mhd;

/* False with `why` filled if it is not installed. */
bool mhd_load(char *why, size_t size);

#endif
