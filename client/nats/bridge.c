/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/encoding.h>
#include <ferry/ferry.h>

#include "bus.h"

/*
 * ferry-nats bridge: answers for one worker until a signal ends it: with the metadata of the operation that a request
 * names, or with the code of a problem. Several bridges of one worker share the requests (BRIDGE_QUEUE).
 *
 * Thread: the main one sets up, and waits for the signal; the subscription's, of libnats, answers, and alone uses the
 * worker's handle meanwhile.
 */

enum { BRIDGE_PROBLEM_SIZE = 128, BRIDGE_DRAIN_MS = 5000 };

#define BRIDGE_QUEUE "ferry" /* of several bridges for one worker one answers */

/* Opens the worker, and asks for its name. Returns BUS_OK, or another status after a line that says why. */
static int bridge_open(const struct bus_options *options, struct ferry **ret_ferry, char name[BUS_NAME_SIZE])
{
        const char *url = options->url;
        struct ferry_options how = { .ca_file = options->ca_file,
                                     .cert_file = options->worker_cert,
                                     .key_file = options->worker_key,
                                     /* A request on the bus waits no longer. */
                                     .connect_timeout_ms = BUS_TIMEOUT_MS / 2,
                                     .timeout_ms = BUS_TIMEOUT_MS / 2,
                                     .retries = -1 };
        struct ferry_worker_info worker;
        char *token = NULL;
        if (options->token_file && bus_read_secret(options->token_file, &token) != BUS_OK)
                return BUS_USAGE;
        how.token = token;
        int r = ferry_new(url, &how, ret_ferry);
        ferry_secret_free(token);
        if (r < 0)
                return bus_fail(BUS_USAGE, "--url, or a file for it, is not usable: %s", strerror(-r));
        r = ferry_get_worker(*ret_ferry, &worker);
        if (r)
                return bus_fail(r < 0 ? BUS_UNREACHABLE : BUS_PROBLEM, "%s: %s", url, ferry_last_message(*ret_ferry));
        (void)snprintf(name, BUS_NAME_SIZE, "%.*s", BUS_NAME_SIZE - 1, worker.name);
        ferry_worker_info_clear(&worker);
        return BUS_OK;
}

/* {"code":…}: as much as whoever asks may know. */
static void bridge_refuse(natsConnection *connection, const char *reply, const char *code)
{
        char text[BRIDGE_PROBLEM_SIZE];
        int n = snprintf(text, sizeof(text), "{\"code\":\"%s\"}", code);
        (void)natsConnection_Publish(connection, reply, text, n);
}

/* The metadata of the operation that a request names. NULL, or the code of the refusal. */
static const char *bridge_fetch(struct ferry *ferry, natsMsg *request, int64_t size_max, char **ret_metadata)
{
        const char *data = natsMsg_GetData(request);
        size_t size = (size_t)natsMsg_GetDataLength(request);
        char id[FERRY_ID_TEXT_SIZE];
        uint64_t number;
        if (!data || size >= sizeof(id))
                return "invalid-parameter";
        memcpy(id, data, size);
        id[size] = '\0';
        if (!ferry_id_parse("op_", id, &number))
                return "invalid-parameter";
        int r = ferry_get_operation_metadata(ferry, id, ret_metadata);
        if (r)
                return r > 0 ? ferry_error_code(r) : "peer-unreachable";
        return strlen(*ret_metadata) > (size_t)size_max ? "too-large" : NULL;
}

/* Thread: the subscription's. */
static void on_request(natsConnection *connection, natsSubscription *subscription, natsMsg *request, void *context)
{
        const char *reply = natsMsg_GetReply(request);
        char *metadata = NULL;
        (void)subscription;
        if (reply) { /* somebody waits */
                const char *refusal =
                        bridge_fetch(context, request, natsConnection_GetMaxPayload(connection), &metadata);
                if (refusal)
                        bridge_refuse(connection, reply, refusal);
                else
                        (void)natsConnection_Publish(connection, reply, metadata, (int)strlen(metadata));
        }
        ferry_secret_free(metadata);
        natsMsg_Destroy(request);
}

/* Blocked in all threads, so that this one takes them. */
static void bridge_block_signals(sigset_t *ret_set)
{
        (void)sigemptyset(ret_set);
        (void)sigaddset(ret_set, SIGINT);
        (void)sigaddset(ret_set, SIGTERM);
        (void)sigprocmask(SIG_BLOCK, ret_set, NULL);
        (void)signal(SIGPIPE, SIG_IGN);
}

/* Until a signal. *ret_quiet: on_request runs no more. */
static int bridge_serve(natsConnection *connection, struct ferry *ferry, const char *name, const sigset_t *signals,
                        bool *ret_quiet)
{
        natsSubscription *subscription = NULL;
        char subject[BUS_SUBJECT_SIZE];
        int number;
        if (!bus_subject(name, subject))
                return bus_fail(BUS_USAGE, "the worker's name %s cannot be part of a NATS subject", name);
        natsStatus s =
                natsConnection_QueueSubscribe(&subscription, connection, subject, BRIDGE_QUEUE, on_request, ferry);
        if (s == NATS_OK)
                s = natsConnection_FlushTimeout(connection, BUS_TIMEOUT_MS); /* the server has it */
        if (s != NATS_OK) {
                *ret_quiet = !subscription;
                natsSubscription_Destroy(subscription);
                return bus_fail(BUS_UNREACHABLE, "%s cannot be subscribed to: %s", subject, natsStatus_GetText(s));
        }
        printf("{\"event\":\"ready\",\"subject\":\"%s\",\"worker\":\"%s\"}\n", subject, name);
        (void)fflush(stdout);
        (void)sigwait(signals, &number);
        /* Requests that have come are answered first. The callback runs no more once the drain is complete. */
        *ret_quiet = natsSubscription_DrainTimeout(subscription, BRIDGE_DRAIN_MS) == NATS_OK &&
                     natsSubscription_WaitForDrainCompletion(subscription, BRIDGE_DRAIN_MS) == NATS_OK;
        natsSubscription_Destroy(subscription);
        return BUS_OK;
}

int bridge_run(const struct bus_options *options)
{
        natsConnection *connection = NULL;
        struct ferry *ferry = NULL;
        char name[BUS_NAME_SIZE];
        bool quiet = true; /* before the subscription there are no callbacks */
        sigset_t signals;
        bridge_block_signals(&signals);
        int status = bridge_open(options, &ferry, name);
        if (status == BUS_OK)
                status = bus_connect(options, options->nats, false, &connection);
        if (status == BUS_OK)
                status = bridge_serve(connection, ferry, name, &signals, &quiet);
        natsConnection_Destroy(connection);
        if (quiet)
                ferry_free(ferry); /* else a callback that takes too long uses it until the process exits */
        return status;
}
