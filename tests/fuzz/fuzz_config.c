/* fuzz_config.c - bytes as a config.json, as a modules.json, and as an index of weights. */
#include "hostile.h"

#include <jansson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_object_seed(1); /* hashing is random by default, findings must repeat */
    fuzz_parser(config_parse, data, size);
    fuzz_parser(config_parse_list, data, size);
    fuzz_parser(index_parse, data, size);
    return 0;
}
