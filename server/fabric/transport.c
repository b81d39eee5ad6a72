/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fabric_internal.h"

/*
 * UCX names an endpoint's lanes only in its printed form (ucp_ep_query learned it after 1.13):
 *
 *   #   lane[1]:  1:tcp/lo.0 md[1]  -> md[1]/tcp/sysdev[255] rma_bw#0 am am_bw#0 wireup
 *
 * Bulk goes over the first lane for RMA bandwidth, else the one for bandwidth of active messages, else the one for any.
 */
static const char *const bulk_marks[] = { "rma_bw#0", "am_bw#0", " am" };

static void copy_name(const char *line, char *name, size_t size)
{
        const char *start = strstr(line, "]:"), *end;

        if (!start || !(start = strchr(start + 2, ':')))
                return;
        start++;
        end = strchr(start, '/');
        if (end && end > start && (size_t)(end - start) < size)
                (void)snprintf(name, size, "%.*s", (int)(end - start), start);
}

const char *peer_transport(struct peer *peer)
{
        FERRY_CLEANUP(cleanup_free) char *text = NULL;
        size_t size = 0;
        FILE *out;
        char *save = NULL;
        char names[FERRY_ARRAY_SIZE(bulk_marks)][FABRIC_TRANSPORT_SIZE] = { { 0 } };

        if (peer->transport[0] || peer->closed)
                return peer->transport;
        out = open_memstream(&text, &size);
        if (!out)
                return "";
        ucp_ep_print_info(peer->endpoint, out);
        (void)fclose(out);
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
                for (size_t i = 0; i < FERRY_ARRAY_SIZE(bulk_marks); i++)
                        if (strstr(line, "lane[") && strstr(line, bulk_marks[i]) && !names[i][0])
                                copy_name(line, names[i], sizeof(names[i]));
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(bulk_marks) && !peer->transport[0]; i++)
                memcpy(peer->transport, names[i], sizeof(peer->transport));
        return peer->transport;
}

bool peer_is_serial(struct peer *peer)
{
        const char *name = peer_transport(peer);

        return name[0] == '\0' || strcmp(name, "tcp") == 0; /* not known yet, or TCP */
}

bool peer_takes_parts(struct peer *peer)
{
        return !peer_is_local(peer) && peer_is_serial(peer);
}
