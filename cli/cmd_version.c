/* weft version - what this build has and found. */
#include "cli.h"

static bool version_json;

static const option version_options[] = {
    OPTION_JSON(version_json, "print one JSON object"),
    { 0 },
};

static int version_main(void)
{
    printf(version_json
               ? "{\"version\":\"%s\",\"parts\":\"%s\",\"kernels\":\"%s\",\"threads\":%d}\n"
               : "weft %s\nparts    %s\nkernels  %s\nthreads  %d\n",
           weft_version(), weft_build_parts(), weft_kernels_name(), weft_cpu_count());
    return 0;
}

const command command_version = {
    .name = "version",
    .arguments = "",
    .summary = "tell what this build has and found",
    .examples = "  weft --version\n",
    .options = version_options,
    .main = version_main,
};
