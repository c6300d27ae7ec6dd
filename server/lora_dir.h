/* lora_dir.h - how an adapter is named on the command line and in lists, and whether it was trained
 * with the template that its model is served with. Nothing here needs the server. */
#ifndef WEFT_SERVER_LORA_DIR_H
#define WEFT_SERVER_LORA_DIR_H

#include <weft.h>

/* "PATH:0.5": the bytes of the path, and the number after the last colon. Without a number all is
 * the path, and the strength is 1. */
size_t lora_split(const char *given, double *strength);

/* Does the adapter at `path` carry a chat template that is not the model's (NULL: it has none)?
 * White space at the end does not count. False if it carries none. `why` gets the reason. */
bool lora_template_differs(const char *path, const weft_template *of_model, char *why, size_t room);

#endif
