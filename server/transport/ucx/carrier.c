/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ucx_internal.h"

/*
 * UCX names the lanes of an endpoint only in its printed form (ucp_ep_query learned it after 1.13):
 *
 *   #   lane[1]:  1:tcp/lo.0 md[1]  -> md[1]/tcp/sysdev[255] rma_bw#0 am am_bw#0 wireup
 *
 * Bulk takes the first lane for RMA bandwidth, else the first for bandwidth of active messages, else that for any
 * active message.
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

const char *ucx_carrier(struct link *base)
{
        struct ucx_link *link = ucx_link_of(base);
        FERRY_CLEANUP(cleanup_free) char *text = NULL;
        size_t size = 0;
        FILE *out;
        char *save = NULL;
        char names[FERRY_ARRAY_SIZE(bulk_marks)][TRANSPORT_NAME_SIZE] = { { 0 } };

        /* Only while the link is up: before the first message lanes may be missing, and after a failure UCX cannot
         * tell. */
        if (base->carrier[0] || !link->endpoint || base->state != LINK_UP)
                return base->carrier;
        out = open_memstream(&text, &size);
        if (!out)
                return "";
        ucp.ep_print_info(link->endpoint, out);
        (void)fclose(out);
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
                for (size_t i = 0; i < FERRY_ARRAY_SIZE(bulk_marks); i++)
                        if (strstr(line, "lane[") && strstr(line, bulk_marks[i]) && !names[i][0])
                                copy_name(line, names[i], sizeof(names[i]));
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(bulk_marks) && !base->carrier[0]; i++)
                memcpy(base->carrier, names[i], sizeof(base->carrier));
        return base->carrier;
}

bool ucx_link_is_tcp(struct ucx_link *link)
{
        const char *name = ucx_carrier(&link->base);

        return name[0] == '\0' || strcmp(name, "tcp") == 0;
}
