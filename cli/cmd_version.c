/* weft version - what this build has and found. */
#include "chat.h"
#include "json.h"

#ifdef WEFT_SERVE
#define SERVE_PART " libmicrohttpd"
#else
#define SERVE_PART ""
#endif

static bool version_json;

static const option version_options[] = {
    OPTION_JSON(version_json, "print one JSON object"),
    { 0 },
};

static int version_main(void)
{
    char parts[1024];
    if (!version_json) {
        printf("weft %s\nparts    %s" CHAT_EDIT_PART SERVE_PART "\nkernels  %s\nthreads  %d\n",
               weft_version(), weft_build_parts(), weft_kernels_name(), weft_cpu_count());
        return 0;
    }
    cli_json_object(NULL);
    cli_json_string("version", weft_version());
    snprintf(parts, sizeof parts, "%s" CHAT_EDIT_PART SERVE_PART, weft_build_parts());
    cli_json_string("parts", parts);
    cli_json_string("kernels", weft_kernels_name());
    cli_json_int("threads", weft_cpu_count());
    cli_json_end();
    return 0;
}

const command command_version = {
    .name = "version",
    .arguments = "",
    .summary = "show version, build features and CPU",
    .examples = "  weft --version\n",
    .options = version_options,
    .main = version_main,
};
