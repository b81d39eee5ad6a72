/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"

/* A worker behind nginx with its defaults: Host is the upstream's name, bodies are buffered, silence ends after 60 s.
 */

enum { DEFAULT_BODY_MAX = 1 << 20 /* nginx's client_max_body_size */, SILENCE_MS = 60000 };

struct proxy {
        struct worker worker;
        pid_t nginx; /* 0 = not running */
        char directory[32], url[64];
};

static bool is_listening(const struct proxy *proxy)
{
        struct ferry *client;
        bool answers;

        assert_int_equal(ferry_new(proxy->url, NULL, &client), 0);
        (void)ferry_get_livez(client); /* of any status */
        answers = ferry_last_problem(client)->http_status != 0;
        ferry_free(client);
        return answers;
}

/* Directories are named because the usual ones are root's; nothing else differs from what a distribution installs. */
static void nginx_start(struct proxy *proxy)
{
        const char *text =
                text_format("daemon off; master_process off; pid %1$s/pid; error_log %1$s/error.log;\n"
                            "events {}\n"
                            "http {\n"
                            "  access_log off; client_body_temp_path %1$s/b; proxy_temp_path %1$s/p;\n"
                            "  fastcgi_temp_path %1$s/f; uwsgi_temp_path %1$s/u; scgi_temp_path %1$s/s;\n"
                            "  upstream ferry_upstream { server %2$s; }\n"
                            "  server { listen unix:%1$s/socket; location / { proxy_pass http://ferry_upstream; } }\n"
                            "}\n",
                            proxy->directory, proxy->worker.url + strlen("http://"));
        const char *configuration = text_format("%s/nginx.conf", proxy->directory);

        file_write(configuration, text);
        proxy->nginx = fork();
        assert_true(proxy->nginx >= 0);
        if (proxy->nginx == 0) {
                execlp("nginx", "nginx", "-c", configuration, NULL);
                execl("/usr/sbin/nginx", "nginx", "-c", configuration, NULL);
                _exit(127);
        }
        WAIT_UNTIL(is_listening(proxy));
}

static int setup(void **state)
{
        struct proxy *proxy = calloc(1, sizeof(*proxy));

        assert_non_null(proxy);
        strcpy(proxy->directory, "/tmp/ferry-proxy-XXXXXX");
        assert_non_null(mkdtemp(proxy->directory));
        (void)chmod(proxy->directory, 0711); /* nginx of root takes another user for its workers */
        snprintf(proxy->url, sizeof(proxy->url), "unix:%s/socket", proxy->directory);
        *state = proxy;
        return 0;
}

static int teardown(void **state)
{
        struct proxy *proxy = *state;

        if (proxy->nginx) {
                kill(proxy->nginx, SIGTERM);
                waitpid(proxy->nginx, NULL, 0);
        }
        worker_clean(&proxy->worker);
        (void)command_run(STRINGS("rm", "-rf", proxy->directory), NULL, NULL, NULL);
        free(proxy);
        return 0;
}

static void skip_without_nginx(void)
{
        if (access("/usr/sbin/nginx", X_OK) < 0 && access("/usr/bin/nginx", X_OK) < 0 &&
            access("/usr/local/bin/nginx", X_OK) < 0) {
                print_message("nginx is not installed\n");
                skip();
        }
}

#define WITH_PROXY(name) TEST_OF(struct proxy *proxy, name, setup, teardown)

WITH_PROXY(the_name_of_the_upstream_needs_allow_host)
{
        struct ferry *client;

        skip_without_nginx();
        worker_start(&proxy->worker, "w", NULL);
        nginx_start(proxy);
        assert_int_equal(ferry_new(proxy->url, NULL, &client), 0);
        assert_int_equal(ferry_get_livez(client), FERRY_E_HOST_REFUSED);
        assert_non_null(strstr(ferry_last_message(client), "\"ferry_upstream\" is not allowed"));
        assert_non_null(strstr(ferry_last_message(client), "--allow-host"));
        ferry_free(client);
        worker_stop(&proxy->worker);
}

WITH_PROXY(a_transfer_is_made_through_nginx)
{
        struct worker *w = &proxy->worker;
        OPERATION offer, read;
        struct ferry_worker_info info;
        struct ferry_limits limits;

        skip_without_nginx();
        worker_start(w, "w", STRINGS("--allow-host", "ferry_upstream", "--advertise", "https://ferry.example:8443"));
        nginx_start(proxy);
        worker_connect(w, proxy->url, NULL);
        assert_int_equal(ferry_get_worker(w->client, &info), 0);
        assert_non_null(strstr(info.json, "\"http\":[\"https://ferry.example:8443\"]"));
        ferry_worker_info_clear(&info);

        const char *source = region_make(w, DEFAULT_BODY_MAX, 3);
        const char *target = region_make(w, DEFAULT_BODY_MAX, 0);
        offer_make(w, FERRY_READABLE, source, &offer);

        /* A wait ends before nginx gives up on a connection that is silent. */
        assert_int_equal(ferry_get_limits(w->client, &limits), 0);
        assert_true(limits.wait_ms_max < SILENCE_MS);
        ferry_limits_clear(&limits);
        assert_int_equal(ferry_get_operation(w->client, offer.id, 50, 0, &read), 0);
        assert_false(read.done);
        ferry_operation_clear(&read);

        begin_make(w, FERRY_READ, target, offer.metadata, &read);
        operation_assert_end(w, read.id, FERRY_COMPLETE, NULL);
        region_assert_pattern(w, target, 3, 0, DEFAULT_BODY_MAX);
        region_drop(w, source);
        region_drop(w, target);
        worker_stop(w);
}
