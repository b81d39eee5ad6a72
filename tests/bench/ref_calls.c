/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>
#include <ferry/metadata.h>

#include "ref_ucx.h"

/*
 * "ref_calls tcp|socket MAX_SIZE OFFER READ WAIT": the least that three calls for a small transfer can cost with the
 * libraries that Ferry is made of: HTTP, the documents, one round trip, and nothing done about any of it. Two processes
 * with a bare libmicrohttpd each, which print their URLs. The passive one answers POST with OFFER, but for metadata
 * with a key of their own, and GET with WAIT, whatever they say, the latter when the active one has told it of the end;
 * the active one takes the metadata out of a POST and answers with READ after a bare round trip that brings as many
 * bytes as the run's size, and a message that nobody waits for but that GET. DELETE at the active one ends a run.
 */

enum { AM_DONE = REF_TRIP_HANDLERS, BODY_MAX = 64 << 10 };

static char *read_answer, *wait_answer;
static struct {
        const char *text;
        size_t head; /* bytes before the metadata, which are last */
        struct ferry_metadata *metadata;
} offer;
static sem_t over;
static atomic_bool told; /* the passive one: by AM_DONE */

struct call {
        size_t n;
        char body[BODY_MAX];
};

static ucs_status_t on_done(void *context, const void *header, size_t header_size, void *data, size_t size,
                            const ucp_am_recv_param_t *param)
{
        atomic_store(&told, true);
        return UCS_OK;
}

/* By the one connection's thread; the main thread waits for the end of the run. */
static void move(struct ref_ucx *u)
{
        ref_trip(u, true);
        ref_send(u, AM_DONE, NULL, 0);
}

static struct ferry_json *parse(const struct call *call)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *json;

        if (ferry_json_parse(call->body, call->n, "remote_metadata", &json, &errors) != 0)
                ref_fail("not JSON", UCS_ERR_INVALID_PARAM);
        return json;
}

static struct ferry_metadata *decode(const char *text, size_t size)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_metadata *metadata;

        if (ferry_metadata_decode(text, size, "", &metadata, &errors) != 0)
                ref_fail("not metadata", UCS_ERR_INVALID_PARAM);
        return metadata;
}

/* For free(). */
static char *make_offer(const struct call *call)
{
        struct ferry_json_writer writer = { 0 };

        (void)ferry_json_free(parse(call));
        if (getrandom(offer.metadata->key, sizeof(offer.metadata->key), 0) != sizeof(offer.metadata->key))
                ref_fail("random bytes", UCS_ERR_IO_ERROR);
        ferry_json_put_text(&writer, offer.text, offer.head);
        (void)ferry_metadata_encode(offer.metadata, &writer);
        ferry_json_end_object(&writer);
        return ferry_json_take(&writer, NULL);
}

static void take_metadata(const struct call *call)
{
        struct raw {
                struct json_object *remote_metadata, *descriptors;
                const char *kind;
        } raw;
        static const struct ferry_json_field fields[] = {
                { "kind", FERRY_JSON_STRING, true, offsetof(struct raw, kind), 0, 0, NULL },
                { "descriptors", FERRY_JSON_ARRAY, true, offsetof(struct raw, descriptors), 0, 0, NULL },
                { "remote_metadata", FERRY_JSON_KEPT, true, offsetof(struct raw, remote_metadata), 0, 0, NULL },
        };
        struct ferry_json *json = parse(call);
        struct ferry_json_errors errors = { 0 };
        const char *text;
        size_t size;

        if (!ferry_json_decode(ferry_json_root(json), fields, 3, &raw, "", &errors))
                ref_fail("not a read", UCS_ERR_INVALID_PARAM);
        text = ferry_json_text(raw.remote_metadata, &size);
        (void)ferry_metadata_free(decode(text, size));
        (void)ferry_json_free(json);
}

static void take_offer(const char *text)
{
        static const char mark[] = "\"metadata\":";
        const char *metadata = strstr(text, mark), *end = strrchr(text, '}');

        if (!metadata || end < metadata)
                ref_fail("no metadata", UCS_ERR_INVALID_PARAM);
        metadata += strlen(mark);
        offer.text = text;
        offer.head = (size_t)(metadata - text);
        offer.metadata = decode(metadata, (size_t)(end - metadata));
}

/* *ret_own: for free(). */
static char *act(struct ref_ucx *u, const char *method, const struct call *call, bool *ret_own)
{
        *ret_own = false;
        if (strcmp(method, MHD_HTTP_METHOD_DELETE) == 0) {
                (void)sem_post(&over);
                return wait_answer;
        }
        if (strcmp(method, MHD_HTTP_METHOD_POST) != 0) {
                while (!u->active && !atomic_load(&told))
                        (void)sched_yield();
                return wait_answer;
        }
        if (!u->active) {
                *ret_own = true;
                atomic_store(&told, false);
                return make_offer(call);
        }
        take_metadata(call);
        move(u);
        return read_answer;
}

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **state)
{
        static const struct {
                const char *name, *value;
        } headers[] = {
                { MHD_HTTP_HEADER_CONTENT_TYPE, "application/json" },
                { MHD_HTTP_HEADER_CACHE_CONTROL, "no-store" },
                { "Request-Id", "req_0123456789abcdef" },
                { MHD_HTTP_HEADER_ETAG, "\"r1\"" },
                { "Location", "/v1/operations/op_0123456789abcdef" },
        };
        struct call *call = *state;
        struct MHD_Response *response;
        enum MHD_Result result;
        char *json;
        bool own;

        if (!call) { /* the headers came; a body may follow */
                *state = call = malloc(sizeof(*call));
                if (!call)
                        return MHD_NO;
                call->n = 0;
                return MHD_YES;
        }
        if (*size) {
                if (*size > sizeof(call->body) - call->n)
                        return MHD_NO;
                memcpy(call->body + call->n, data, *size);
                call->n += *size;
                *size = 0;
                return MHD_YES;
        }
        json = act(context, method, call, &own);
        response = MHD_create_response_from_buffer(strlen(json), json,
                                                   own ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
        for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
                (void)MHD_add_response_header(response, headers[i].name, headers[i].value);
        result = MHD_queue_response(connection, strcmp(method, "POST") == 0 ? MHD_HTTP_CREATED : MHD_HTTP_OK, response);
        MHD_destroy_response(response);
        return result;
}

static void forget(void *context, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
        free(*state);
        *state = NULL;
}

static void setup(struct ref_ucx *u)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct MHD_Daemon *daemon;

        ref_trip_setup(u);
        ref_set_handler(u, AM_DONE, on_done);
        (void)sem_init(&over, 0, 0);
        daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG, 0, NULL, NULL, answer, u,
                                  MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_NOTIFY_COMPLETED, forget, NULL,
                                  MHD_OPTION_THREAD_POOL_SIZE, 2u, MHD_OPTION_END);
        if (!daemon)
                ref_fail("libmicrohttpd", UCS_ERR_NO_RESOURCE);
        (void)printf("%s http://127.0.0.1:%u\n", u->active ? "active" : "passive",
                     MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
        (void)fflush(stdout);
}

static void begin(struct ref_ucx *u)
{
}

static void run(struct ref_ucx *u, uint64_t size)
{
        (void)puts("ready");
        (void)fflush(stdout);
        while (sem_wait(&over) < 0)
                ;
}

int main(int argc, char **argv)
{
        static const struct ref_test test = { UCP_FEATURE_AM, setup, begin, run, .polite = true };

        if (argc != 6)
                ref_fail("usage: ref_calls tcp|socket MAX_SIZE OFFER READ WAIT", UCS_ERR_INVALID_PARAM);
        take_offer(argv[3]);
        read_answer = argv[4];
        wait_answer = argv[5];
        return ref_main(3, argv, &test);
}
