/* fuzz_config.c - bytes as a config.json. */
#include "hostile.h"

#include <jansson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_object_seed(1); /* hashing is random by default, findings must repeat */
    fuzz_parser(config_parse, data, size);
    return 0;
}
