/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * "ref_http JSON": a bare libmicrohttpd that answers everything with JSON, started with the flags of Ferry's server.
 * "ref_http --bytes N [CERTIFICATE KEY]": with N bytes of memory, by TLS where these files are named.
 */

struct body {
        char *bytes;
        size_t size;
        const char *type;
};

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **state)
{
        const struct body *body = context;
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
        response = MHD_create_response_from_buffer(body->size, body->bytes, MHD_RESPMEM_PERSISTENT);
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, body->type);
        result = MHD_queue_response(connection, MHD_HTTP_OK, response);
        MHD_destroy_response(response);
        return result;
}

/* The text of a file; NULL = none. */
static char *read_text(const char *path)
{
        FILE *file = fopen(path, "re");
        char *text = NULL;
        size_t room = 0;

        if (file && getdelim(&text, &room, '\0', file) < 0) {
                free(text);
                text = NULL;
        }
        if (file)
                (void)fclose(file);
        return text;
}

int main(int argc, char **argv)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        unsigned threads = cores < 2 ? 2 : cores > 4 ? 4 : (unsigned)cores;
        bool bytes = argc >= 3 && strcmp(argv[1], "--bytes") == 0, tls = bytes && argc == 5;
        struct MHD_OptionItem options[3] = { { MHD_OPTION_END, 0, NULL } };
        struct MHD_Daemon *daemon;
        struct body body;

        if (bytes) {
                body = (struct body){ .size = (size_t)strtoull(argv[2], NULL, 10), .type = "application/octet-stream" };
                body.bytes = malloc(body.size);
                if (!body.bytes)
                        return EXIT_FAILURE;
                memset(body.bytes, 7, body.size);
        } else if (argc == 2) {
                body = (struct body){ argv[1], strlen(argv[1]), "application/json" };
        } else {
                return EXIT_FAILURE;
        }
        if (tls) {
                options[0] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_CERT, 0, read_text(argv[3]) };
                options[1] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_KEY, 0, read_text(argv[4]) };
                options[2] = (struct MHD_OptionItem){ MHD_OPTION_END, 0, NULL };
        }
        daemon = MHD_start_daemon(
                MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | (tls ? MHD_USE_TLS : 0u),
                0, NULL, NULL, answer, &body, MHD_OPTION_ARRAY, options, MHD_OPTION_SOCK_ADDR, &address,
                MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_CONNECTION_LIMIT, 10000u, MHD_OPTION_CONNECTION_TIMEOUT,
                60u, MHD_OPTION_THREAD_POOL_SIZE, threads, MHD_OPTION_END);
        if (!daemon)
                return EXIT_FAILURE;
        (void)printf("%s://127.0.0.1:%u\n", tls ? "https" : "http",
                     MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
        (void)fflush(stdout);
        while (getchar() != EOF)
                ;
        MHD_stop_daemon(daemon);
        return EXIT_SUCCESS;
}
