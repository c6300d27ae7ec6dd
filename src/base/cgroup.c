/* cgroup.c - limits of version 2 control groups, which are files:
 *
 *     /proc/self/cgroup            0::/pod/weft
 *     /sys/fs/cgroup/pod/weft/cpu.max      "max 100000"       no limit
 *     /sys/fs/cgroup/pod/cpu.max           "150000 100000"    1.5 processors
 *     /sys/fs/cgroup/pod/memory.max        "1073741824"
 *
 * A group's limit is at most that of its parents. Inside a container the path is often just "/". */
#include "base/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "quota period", or a single number; INT64_MAX for "max" and anything else. */
static int64_t parse(const char *text)
{
    char *end;
    const long long quota = strtoll(text, &end, 10),
                    period = *end == ' ' ? strtoll(end, NULL, 10) : 1;
    if (end == text || quota < 1 || period < 1)
        return INT64_MAX;
    return quota / period + (quota % period > 0);
}

static int64_t read_limit(const char *path)
{
    char line[64];
    FILE *f = fopen(path, "re");
    if (!f)
        return INT64_MAX;
    const int64_t limit = fgets(line, sizeof line, f) ? parse(line) : INT64_MAX;
    fclose(f);
    return limit;
}

/* "0::/pod/weft\n" -> "/pod/weft" */
static bool own_group(const char *groups, char *group, size_t size)
{
    FILE *f = fopen(groups, "re");
    bool found = false;
    while (f && !found && fgets(group, (int)size, f))
        found = strncmp(group, "0::/", 4) == 0;
    if (f)
        fclose(f);
    if (!found)
        return false;
    group[strcspn(group, "\n")] = '\0';
    memmove(group, group + 3, strlen(group + 3) + 1);
    return true;
}

int64_t cgroup_limit(const char *groups, const char *root, const char *limit)
{
    char group[2048], path[4096];
    int64_t min = INT64_MAX;
    if (!own_group(groups, group, sizeof group))
        return INT64_MAX;
    for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
        *end = '\0';
        if (snprintf(path, sizeof path, "%s%s/%s", root, group, limit) < (int)sizeof path) {
            const int64_t here = read_limit(path);
            min = here < min ? here : min;
        }
    }
    return min;
}
