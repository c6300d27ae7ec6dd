#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

/* Best first. Each entry runs wherever its table's name promises; scalar runs everywhere. */
static const kernels *const tables[] = { &kernels_scalar };

const kernels *kernels_select(const log_sink *log)
{
    const char *wish = getenv("WEFT_ISA");
    for (size_t i = 0; wish && i < sizeof tables / sizeof *tables; i++)
        if (strcmp(wish, tables[i]->name) == 0)
            return tables[i];
    if (wish && *wish)
        log_write(log, WEFT_LOG_WARN, "WEFT_ISA=%s is not a kernel table here; using %s", wish,
                  tables[0]->name);
    return tables[0];
}
