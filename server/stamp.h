/* stamp.h - has a file or a directory changed? */
#ifndef WEFT_SERVER_STAMP_H
#define WEFT_SERVER_STAMP_H

#include <stdbool.h>
#include <stdint.h>

/* A file as it was when it was read; all 0: it is not there. */
typedef struct file_stamp {
    uint64_t device, inode, size;
    int64_t changed_s, changed_ns, written_s, written_ns;
} file_stamp;

/* Of a file that is not a directory. */
file_stamp stamp_file(const char *path);

/* Of a file with the other parts of a GGUF file, or of the files in a directory that a model is read from, as one number;
 * 0: nothing is there. NULL is nothing. */
uint64_t stamp_path(const char *path);

#endif
