/* SPDX-License-Identifier: Apache-2.0 */
#include "message/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include <ferry/error.h>
#include <ferry/protocol.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/state.h"
#include "base/util.h"

/*
 * The common part of all transports: the base of a transport, its messages, and the states of a link. A message is
 * made for each send and receive, and freed with the key wiped out. Thread: the progress thread.
 */

void transport_init(struct transport *transport, const struct transport_ops *ops, const char *name, size_t index,
                    const struct transport_handlers *handlers)
{
        transport->ops = ops;
        transport->name = name;
        transport->index = index;
        transport->message_size = sizeof(struct message);
        transport->fd = -1;
        transport->handlers = *handlers;
}

struct message *message_new(struct transport *transport)
{
        struct message *message = malloc(transport->message_size);

        if (message)
                memset(message, 0, transport->message_size);
        return message;
}

void message_free(struct message *message)
{
        explicit_bzero(message->header.key, sizeof(message->header.key));
        free(message);
}

/* ---- links ---- */

static const struct state_row states[] = {
        [LINK_CONNECTING] = { "CONNECTING", STATE_BIT(LINK_OPENING) | STATE_BIT(LINK_UP) | STATE_BIT(LINK_FAILED) },
        [LINK_OPENING] = { "OPENING", STATE_BIT(LINK_UP) | STATE_BIT(LINK_FAILED) },
        [LINK_UP] = { "UP", STATE_BIT(LINK_FAILED) },
        [LINK_FAILED] = { "FAILED", STATE_BIT(LINK_ENDED) },
        [LINK_ENDED] = { "ENDED", 0 },
};

void link_init(struct link *link, struct transport *transport, bool accepted)
{
        link->transport = transport;
        link->state = LINK_CONNECTING;
        link->accepted = accepted;
        link->created_us = clock_now_us();
        DL_APPEND(transport->links, link);
}

void link_set_state(struct link *link, enum link_state state)
{
        state_check("link", states, link->state, state);
        link->state = state;
}

void link_free(struct link *link)
{
        DL_DELETE(link->transport->links, link);
        free(link);
}

bool link_fail(struct link *link, int error, const char *detail)
{
        if (!link_is_usable(link))
                return false;
        link_set_state(link, LINK_FAILED);
        link->error = error;
        (void)snprintf(link->detail, sizeof(link->detail), "%s", detail);
        return true;
}

void link_fail_protocol(struct link *link, unsigned protocol)
{
        char detail[TRANSPORT_DETAIL_SIZE];

        if (!ferry_protocol_differs(FERRY_PROTOCOL, protocol, detail, sizeof(detail)))
                return;
        log_event(LOG_WARN, "peer refused", LOG_S("transport", link->transport->name), LOG_S("reason", detail));
        link->transport->ops->fail(link, FERRY_E_PROTOCOL_MISMATCH, detail);
}

void link_note_message(struct link *link)
{
        if (!link_is_connecting(link))
                return;
        link_set_state(link, LINK_UP);
        link->connect_us = at_least(clock_now_us() - link->created_us, 1); /* 0 means that no message came */
}

static const struct {
        const char *name;
        unsigned rank;
} paths[] = {
        [GPU_PATH_NONE] = { "", 0 },
        [GPU_PATH_GPUDIRECT] = { "+gpudirect", 1 },
        [GPU_PATH_CUDA_IPC] = { "+cuda_ipc", 2 },
        [GPU_PATH_CUDA_COPY] = { "+cuda_copy", 3 },
        [GPU_PATH_STAGED] = { "+staged", 4 },
};

const char *gpu_path_name(enum gpu_path path)
{
        return paths[path].name;
}

enum gpu_path gpu_path_worse(enum gpu_path a, enum gpu_path b)
{
        return paths[a].rank < paths[b].rank ? b : a;
}
