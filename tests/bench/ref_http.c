/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "ref_http JSON": a bare libmicrohttpd that answers everything with JSON, started with the flags of Ferry's server. */

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **state)
{
        char *json = context;
        struct MHD_Response *response;
        enum MHD_Result result;
        static int seen;

        if (!*state) { /* the headers came; a body may follow */
                *state = &seen;
                return MHD_YES;
        }
        if (*size) {
                *size = 0;
                return MHD_YES;
        }
        response = MHD_create_response_from_buffer(strlen(json), json, MHD_RESPMEM_PERSISTENT);
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
        result = MHD_queue_response(connection, MHD_HTTP_OK, response);
        MHD_destroy_response(response);
        return result;
}

int main(int argc, char **argv)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        unsigned threads = cores < 2 ? 2 : cores > 4 ? 4 : (unsigned)cores;
        struct MHD_Daemon *daemon;

        if (argc != 2)
                return EXIT_FAILURE;
        daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL,
                                  NULL, answer, argv[1], MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_STRICT_FOR_CLIENT,
                                  1, MHD_OPTION_CONNECTION_LIMIT, 10000u, MHD_OPTION_CONNECTION_TIMEOUT, 60u,
                                  MHD_OPTION_THREAD_POOL_SIZE, threads, MHD_OPTION_END);
        if (!daemon)
                return EXIT_FAILURE;
        (void)printf("http://127.0.0.1:%u\n", MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
        (void)fflush(stdout);
        while (getchar() != EOF)
                ;
        MHD_stop_daemon(daemon);
        return EXIT_SUCCESS;
}
