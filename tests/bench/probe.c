/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <inttypes.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

/*
 * A watchpoint for each thread of the watched process: one for all of them would need to be inherited, and then has no
 * buffer. The kernel's own writes count, too: that is how bytes come by TCP. Needs CAP_PERFMON, or
 * kernel.perf_event_paranoid at most 1.
 */

enum { RING_SIZE = 16 << 10 };

/* Where pid has byte offset of the file mapped; 0 = nowhere. */
static uint64_t address_of(pid_t pid, const char *path, uint64_t offset)
{
        char maps[64], line[512];
        struct stat file;
        uint64_t found = 0;
        FILE *f;

        (void)snprintf(maps, sizeof(maps), "/proc/%d/maps", (int)pid);
        f = stat(path, &file) == 0 ? fopen(maps, "re") : NULL;
        while (f && !found && fgets(line, sizeof(line), f)) {
                uint64_t from, to, at, inode;

                if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*x:%*x %" SCNu64, &from, &to, &at, &inode) ==
                            4 &&
                    inode == file.st_ino && offset >= at && offset - at < to - from)
                        found = from + (offset - at);
        }
        if (f)
                (void)fclose(f);
        return found;
}

static bool watch_thread(struct probe *probe, pid_t thread, uint64_t address)
{
        struct perf_event_attr attr = {
                .type = PERF_TYPE_BREAKPOINT,
                .size = sizeof(attr),
                .bp_type = HW_BREAKPOINT_W,
                .bp_addr = address,
                .bp_len = HW_BREAKPOINT_LEN_8,
                .sample_period = 1,
                .sample_type = PERF_SAMPLE_TIME,
                .use_clockid = 1,
                .clockid = CLOCK_MONOTONIC,
        };
        int fd = (int)syscall(SYS_perf_event_open, &attr, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
        void *page;

        if (fd < 0)
                return false;
        page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE) + RING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (page == MAP_FAILED) {
                (void)close(fd);
                return false;
        }
        probe->threads[probe->n].fd = fd;
        probe->threads[probe->n++].page = page;
        return true;
}

bool probe_open(struct probe *probe, pid_t pid, const char *path, uint64_t offset)
{
        uint64_t address = address_of(pid, path, offset);
        char tasks[64];
        struct dirent *entry;
        bool good = address != 0;
        DIR *folder;

        *probe = (struct probe){ 0 };
        (void)snprintf(tasks, sizeof(tasks), "/proc/%d/task", (int)pid);
        folder = opendir(tasks);
        while (good && folder && (entry = readdir(folder)))
                if (entry->d_name[0] != '.')
                        good = probe->n < PROBE_THREADS_MAX &&
                               watch_thread(probe, (pid_t)strtol(entry->d_name, NULL, 10), address);
        if (folder)
                (void)closedir(folder);
        if (!good)
                probe_close(probe);
        return good && probe->n > 0;
}

void probe_close(struct probe *probe)
{
        for (size_t i = 0; i < probe->n; i++) {
                (void)munmap(probe->threads[i].page, (size_t)sysconf(_SC_PAGESIZE) + RING_SIZE);
                (void)close(probe->threads[i].fd);
        }
        probe->n = 0;
}

/* The ring's latest time. Its records are as short as they can be: a head and a time, 16 bytes. */
static uint64_t ring_take(struct perf_event_mmap_page *page)
{
        struct {
                struct perf_event_header head;
                uint64_t time;
        } record;
        const char *ring = (const char *)page + sysconf(_SC_PAGESIZE);
        uint64_t head = page->data_head, latest = 0;

        atomic_thread_fence(memory_order_acquire);
        while (page->data_tail < head) {
                memcpy(&record, ring + page->data_tail % RING_SIZE, sizeof(record));
                if (record.head.type == PERF_RECORD_SAMPLE && record.time > latest)
                        latest = record.time;
                page->data_tail += record.head.size;
        }
        return latest;
}

uint64_t probe_take(struct probe *probe)
{
        uint64_t latest = 0;

        for (size_t i = 0; i < probe->n; i++) {
                uint64_t time = ring_take(probe->threads[i].page);

                latest = time > latest ? time : latest;
        }
        return latest;
}
