/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/util.h"

/* Fields of /proc/self/stat, counted from the one after the name, which ends at the last ')'. */
enum { STAT_UTIME = 11, STAT_STIME, STAT_START = 19, STAT_VSIZE, STAT_RSS, STAT_FIELDS };

enum value { CPU, RESIDENT, VIRTUAL, START, OPEN_FILES, MAX_FILES, VALUES };

static const struct {
        enum metric_type type;
        double scale;
        const char *name, *help;
} table[VALUES] = {
        [CPU] = { METRIC_COUNTER, 1e-3, "process_cpu_seconds_total", "User and system processor time in seconds." },
        [RESIDENT] = { METRIC_GAUGE, 0, "process_resident_memory_bytes", "Resident memory in bytes." },
        [VIRTUAL] = { METRIC_GAUGE, 0, "process_virtual_memory_bytes", "Virtual memory in bytes." },
        [START] = { METRIC_GAUGE, 1e-3, "process_start_time_seconds", "Start of the process, in seconds since 1970." },
        [OPEN_FILES] = { METRIC_GAUGE, 0, "process_open_fds", "Open file descriptors." },
        [MAX_FILES] = { METRIC_GAUGE, 0, "process_max_fds", "Most open file descriptors." },
};

/* The fields; false where there is no /proc. */
static bool stat_read(uint64_t fields[STAT_FIELDS])
{
        char text[1024], state;
        FILE *file = fopen("/proc/self/stat", "re");
        size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
        const char *at;
        int used;

        if (file)
                (void)fclose(file);
        text[n] = '\0';
        at = strrchr(text, ')');
        if (!at || sscanf(at, ") %c%n", &state, &used) != 1)
                return false;
        at += used;
        for (size_t i = 1; i < STAT_FIELDS; i++, at += used)
                if (sscanf(at, " %" SCNu64 "%n", &fields[i], &used) != 1)
                        return false;
        return true;
}

/* Ticks of sysconf's clock in milliseconds. */
static int64_t ticks_ms(uint64_t ticks)
{
        return (int64_t)(ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK));
}

static int64_t open_files(void)
{
        DIR *directory = opendir("/proc/self/fd");
        int64_t n = 0;

        if (!directory)
                return 0;
        while (readdir(directory))
                n++;
        (void)closedir(directory);
        return n - 3; /* ".", "..", and the directory's own */
}

static void collect(void *context)
{
        struct metrics *metrics = context;
        uint64_t fields[STAT_FIELDS];
        int64_t values[VALUES] = { 0 };
        struct rlimit files;
        struct timespec up;

        if (stat_read(fields)) {
                (void)clock_gettime(CLOCK_BOOTTIME, &up);
                values[CPU] = ticks_ms(fields[STAT_UTIME] + fields[STAT_STIME]);
                values[VIRTUAL] = (int64_t)fields[STAT_VSIZE];
                values[RESIDENT] = (int64_t)fields[STAT_RSS] * sysconf(_SC_PAGESIZE);
                values[START] = (int64_t)clock_unix_ms() - up.tv_sec * 1000 - up.tv_nsec / 1000000 +
                                ticks_ms(fields[STAT_START]);
        }
        values[OPEN_FILES] = open_files();
        if (getrlimit(RLIMIT_NOFILE, &files) == 0)
                values[MAX_FILES] = (int64_t)files.rlim_cur;
        for (size_t i = 0; i < VALUES; i++)
                metric_set(metric_single(metrics, table[i].type, table[i].name, table[i].help), values[i]);
}

void metrics_process(struct metrics *metrics)
{
        for (size_t i = 0; i < VALUES; i++)
                metrics_scale(metrics_family(metrics, table[i].type, table[i].name, table[i].help, 0, NULL, NULL, 0),
                              table[i].scale);
        metrics_on_render(metrics, collect, metrics);
}
