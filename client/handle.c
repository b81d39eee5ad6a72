/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "client_internal.h"
#include "connection.h"
#include "sigpipe.h"
#include "sizes.h"

static pthread_once_t handle_once = PTHREAD_ONCE_INIT;
static CURLcode handle_curl = CURLE_FAILED_INIT; /* written once under handle_once */

/* How often this process and those it comes from have been forked. Written by the only thread of a child. */
static unsigned handle_generation;

static void handle_forked(void)
{
        handle_generation++;
}

bool handle_is_ours(const struct ferry *f)
{
        return f->generation == handle_generation;
}

static void handle_curl_init(void)
{
        (void)pthread_atfork(NULL, NULL, handle_forked);
        handle_curl = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* The path of a file that can be read. 0, also for no path at all. */
static int handle_copy_path(const char *path, char **ret_copy)
{
        if (!path)
                return 0;
        if (access(path, R_OK) < 0)
                return -errno;
        *ret_copy = strdup(path);
        return *ret_copy ? 0 : -ENOMEM;
}

int handle_authorization(const char *token, char **ret_header)
{
        char *header;
        /* A line break would smuggle headers in. */
        for (const char *p = token; *p; p++) {
                if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f)
                        return -EKEYREJECTED;
        }
        if (!*token)
                return -EKEYREJECTED;
        if (asprintf(&header, "Authorization: Bearer %s", token) < 0)
                return -ENOMEM;
        *ret_header = header;
        return 0;
}

static int handle_set_options(struct ferry *f, const struct ferry_options *o)
{
        f->connect_timeout_ms = o->connect_timeout_ms ? o->connect_timeout_ms : CLIENT_CONNECT_TIMEOUT_MS;
        f->timeout_ms = o->timeout_ms ? o->timeout_ms : CLIENT_TIMEOUT_MS;
        f->retries = o->retries < 0 ? 0 : o->retries ? (unsigned)o->retries : CLIENT_RETRIES;
        f->answer_max = o->answer_max ? o->answer_max : CLIENT_ANSWER_MAX;
        const struct {
                const char *from;
                char **to;
        } files[] = { { o->ca_file, &f->ca_file }, { o->cert_file, &f->cert_file }, { o->key_file, &f->key_file } };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(files); i++) {
                int r = handle_copy_path(files[i].from, files[i].to);
                if (r < 0)
                        return r;
        }
        return o->token ? handle_authorization(o->token, &f->authorization) : 0;
}

static void handle_split_base(struct ferry *f)
{
        f->tls = strncasecmp(f->base, "https:", 6) == 0;
        f->prefix = strstr(f->base, "://") + 3;
        f->prefix += strcspn(f->prefix, "/");
}

int ferry_new_sized(const char *url, const struct ferry_options *options, struct ferry **ret_ferry,
                    const struct ferry_sizes *sizes)
{
        struct ferry_options ours = { 0 };
        int r = options ? sizes_take(NULL, &ours, sizeof(ours), options, sizes->options) : 0;
        if (r < 0)
                return r;
        pthread_once(&handle_once, handle_curl_init);
        if (handle_curl != CURLE_OK)
                return -ENOMEM;
        struct ferry *f = calloc(1, sizeof(*f));
        if (!f)
                return -ENOMEM;
        f->generation = handle_generation;
        f->wake = -1;
        r = url_parse(url, &f->base, &f->unix_socket);
        if (r == 0)
                r = handle_set_options(f, &ours);
        if (r == 0) {
                handle_split_base(f);
                r = connection_init(f);
        }
        if (r < 0) {
                ferry_free(f);
                return r;
        }
        *ret_ferry = f;
        return 0;
}

int handle_clone(const struct ferry *f, CURLM *multi, struct ferry **ret_ferry)
{
        struct ferry *clone = calloc(1, sizeof(*clone));
        if (!clone)
                return -ENOMEM;
        const struct {
                const char *from;
                char **to;
        } texts[] = { { f->base, &clone->base },         { f->unix_socket, &clone->unix_socket },
                      { f->ca_file, &clone->ca_file },   { f->authorization, &clone->authorization },
                      { f->key_file, &clone->key_file }, { f->cert_file, &clone->cert_file } };
        int r = 0;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(texts); i++) {
                *texts[i].to = texts[i].from ? strdup(texts[i].from) : NULL;
                if (texts[i].from && !*texts[i].to)
                        r = -ENOMEM;
        }
        clone->connect_timeout_ms = f->connect_timeout_ms;
        clone->timeout_ms = f->timeout_ms;
        clone->retries = f->retries;
        clone->answer_max = f->answer_max;
        clone->generation = handle_generation;
        clone->multi = multi;
        clone->multi_shared = true;
        clone->wake = -1;
        if (r == 0) {
                handle_split_base(clone);
                r = connection_init(clone);
        }
        if (r < 0)
                ferry_free(clone);
        else
                *ret_ferry = clone;
        return r;
}

struct ferry *ferry_free(struct ferry *f)
{
        if (!f)
                return NULL;
        problem_clear(f);
        struct sigpipe_guard guard = sigpipe_block(f->tls);
        connection_free(f, !handle_is_ours(f));
        sigpipe_restore(&guard);
        ferry_secret_free(f->authorization);
        free(f->base);
        free(f->unix_socket);
        free(f->ca_file);
        free(f->cert_file);
        free(f->key_file);
        free(f);
        return NULL;
}

void ferry_abort(struct ferry *f)
{
        atomic_store(&f->aborted, true);
        (void)!write(f->wake, &(uint64_t){ 1 }, sizeof(uint64_t));
}

void ferry_resume(struct ferry *f)
{
        (void)!read(f->wake, &(uint64_t){ 0 }, sizeof(uint64_t));
        atomic_store(&f->aborted, false);
}

const char *ferry_version(void)
{
        return FERRY_VERSION;
}

const struct ferry_problem *ferry_last_problem(const struct ferry *f)
{
        return &f->problem;
}

const char *ferry_last_message(const struct ferry *f)
{
        return f->message;
}

void ferry_secret_free(char *secret)
{
        if (secret)
                explicit_bzero(secret, strlen(secret));
        free(secret);
}
