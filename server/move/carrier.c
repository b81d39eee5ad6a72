/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/util.h"
#include "move/engine.h"

/* The names of carriers, as users read and write them. A constant table: any thread. */

static const struct {
        enum engine_carrier carrier;
        const char *name;
} carriers[] = {
        { ENGINE_CARRIER_SHM, "shm" },   { ENGINE_CARRIER_TCP, "tcp" },     { ENGINE_CARRIER_RDMA, "rdma" },
        { ENGINE_CARRIER_HTTP, "http" }, { ENGINE_CARRIER_HTTPS, "https" },
};

unsigned engine_carrier_from_name(const char *name, size_t length)
{
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(carriers); i++)
                if (strlen(carriers[i].name) == length && memcmp(carriers[i].name, name, length) == 0)
                        return carriers[i].carrier;
        return 0;
}

const char *engine_carrier_name(size_t i)
{
        return i < FERRY_ARRAY_SIZE(carriers) ? carriers[i].name : NULL;
}
