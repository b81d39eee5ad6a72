/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/util.h"
#include "device_internal.h"
#include "memory/gpu.h"

enum { PATH_SIZE = 512 };
_Static_assert((int)GPU_MODEL_SIZE <= (int)DEVICE_NAME_SIZE, "a model fits");

static const struct device_paths system_paths = {
        .cpuinfo = "/proc/cpuinfo",
        .modules = "/sys/module",
};

/* The value of the first "key<blanks>: value" line of a file. false when there is none. */
static bool line_value(const char *path, const char *key, char *text, size_t size)
{
        FILE *file = fopen(path, "re");
        if (!file)
                return false;
        char line[512];
        bool found = false;
        while (!found && fgets(line, sizeof(line), file)) {
                size_t n = strlen(key);
                if (strncmp(line, key, n) != 0)
                        continue;
                char *value = line + n + strspn(line + n, " \t");
                if (*value != ':')
                        continue;
                value += 1 + strspn(value + 1, " \t");
                value[strcspn(value, "\n")] = '\0';
                (void)snprintf(text, size, "%s", value);
                found = *value != '\0';
        }
        (void)fclose(file);
        return found;
}

static void cpu_fill(const char *cpuinfo, struct device_memory *memory)
{
        (void)snprintf(memory->name, sizeof(memory->name), "cpu");
        struct utsname system;
        /* Some architectures have no model in cpuinfo. */
        if (!line_value(cpuinfo, "model name", memory->model, sizeof(memory->model)) && uname(&system) == 0)
                (void)snprintf(memory->model, sizeof(memory->model), "%.*s", (int)sizeof(memory->model) - 1,
                               system.machine);
        struct sysinfo info;
        if (sysinfo(&info) == 0)
                memory->total_bytes = (uint64_t)info.totalram * info.mem_unit;
}

static void gpu_fill(unsigned n, struct device_inventory *inventory)
{
        struct device_memory *memory = &inventory->memories[inventory->n_memories];
        struct gpu_view view;

        if (!gpu_describe(n, &view))
                return;
        memcpy(memory->name, view.name, sizeof(view.name));
        memcpy(memory->model, view.model, sizeof(view.model));
        memory->total_bytes = view.total_bytes;
        inventory->n_memories++;
        inventory->n_gpus_direct += view.gpu_direct;
}

static bool module_is_loaded(const char *directory, const char *name)
{
        char path[PATH_SIZE];
        int n = snprintf(path, sizeof(path), "%s/%s", directory, name);
        return n > 0 && (size_t)n < sizeof(path) && access(path, F_OK) == 0;
}

int device_memories_fill(const struct device_paths *paths, struct device_inventory *inventory)
{
        const char *reason = "";
        const unsigned n_gpus = gpu_count(&reason);

        inventory->memories = calloc(1 + n_gpus, sizeof(*inventory->memories));
        if (!inventory->memories)
                return -ENOMEM;
        inventory->n_gpus = n_gpus;
        if (n_gpus == 0)
                (void)snprintf(inventory->gpu_error, sizeof(inventory->gpu_error), "%s", reason);
        inventory->peer_memory =
                module_is_loaded(paths->modules, "nvidia_peermem") || module_is_loaded(paths->modules, "nv_peer_mem");
        cpu_fill(paths->cpuinfo, &inventory->memories[inventory->n_memories++]);
        for (unsigned n = 0; n < n_gpus; n++)
                gpu_fill(n, inventory);
        return 0;
}

int device_inventory_new(const struct device_ucx *ucx, const struct device_source *source,
                         struct device_inventory **ret_inventory)
{
        static const struct device_source verbs = { .fill = device_nics_fill };
        if (!source)
                source = &verbs;
        struct device_inventory *inventory = calloc(1, sizeof(*inventory));
        if (!inventory)
                return -ENOMEM;
        inventory->ucx = *ucx;
        int r = device_memories_fill(&system_paths, inventory);
        if (r == 0) {
                r = source->fill(source->context, inventory);
                if (r < 0 && r != -ENOMEM) {
                        if (inventory->rdma_error[0] == '\0')
                                (void)snprintf(inventory->rdma_error, sizeof(inventory->rdma_error), "%s",
                                               strerror(-r));
                        r = 0;
                }
        }
        if (r < 0) {
                device_inventory_free(inventory);
                return r;
        }
        *ret_inventory = inventory;
        return 0;
}

struct device_inventory *device_inventory_free(struct device_inventory *inventory)
{
        if (!inventory)
                return NULL;
        for (size_t i = 0; i < inventory->n_nics; i++)
                free(inventory->nics[i].ports);
        free(inventory->nics);
        free(inventory->memories);
        free(inventory);
        return NULL;
}
