/* fuzz_settings.c - bytes as the program's config file, read for every command in turn. The
 * program reads one such file per process and keeps it in static variables, so its source is
 * included here. */
#define main weft_main /* compiled like the rest of the program */
#include "../../cli/settings.c"
#undef main

/* Declared as in hostile.h, whose `rows` conflicts with the program's. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Options of all commands point into the text, which is freed. */
static void forget(void)
{
    for (int i = 0; commands[i]; i++)
        for (const option *o = NULL; (o = option_next(commands[i], o));)
            if (o->kind == OPT_LIST)
                *(text_list *)o->to = (text_list){ 0 };
    free(config.text);
    memset(&config, 0, sizeof config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool begun;
    if (!begun) {
        FILE *nowhere = fopen("/dev/null", "w"); /* silences the program's messages */
        if (!nowhere)
            abort();
        stderr = stdout = nowhere;
        commands = all_commands;
        begun = true;
    }
    if (memchr(data, '\0', size))
        return 0; /* refused before it is read */
    snprintf(config.path, sizeof config.path, "config");
    config.text = malloc(size + 1);
    if (!config.text)
        return 0;
    if (size > 0)
        memcpy(config.text, data, size);
    config.text[size] = '\0';
    const int code = read_lines();
    if ((code != 0 && code != EXIT_USAGE) || config.n < 0 || config.n > MAX_LINE)
        abort();
    for (int i = 0; commands[i] && code == 0; i++) {
        const int applied = settings_apply(commands[i]);
        if (applied != 0 && applied != EXIT_USAGE)
            abort();
    }
    json = size % 2;
    print_settings(NULL);
    forget();
    return 0;
}
