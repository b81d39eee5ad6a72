/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/json_write.h>

#include "base/metrics.h"
#include "base/thread.h"
#include "base/util.h"
#include "registry_internal.h"

/*
 * The registry's client: its making, its end, and what libcurl's thread runs of it. registry.h is the contract; the
 * files are call.c (questions to etcd), lookup.c (other workers' names) and member.c (this worker's own). It lives
 * from the worker's start until after the peers, which resolve names by it; the thread stops before it is freed.
 *
 * Thread: any for the public functions; on_run() and on_stop() libcurl's.
 */

enum {
        HOST_MAX = REGISTRY_ENDPOINT_SIZE - 10, /* and its port, behind "https://" */
        CONNECT_MS = 2000,
        CALL_MIN_MS = 1000,
        CALL_MAX_MS = 5000,
};

/* ---- running; thread: libcurl's ---- */

static uint64_t on_run(struct easy_user *user, uint64_t now)
{
        struct registry *registry = FERRY_CONTAINER_OF(user, struct registry, user);

        registry_calls_run(registry, false);
        return registry_member_run(registry, now);
}

/* Ends all calls and lookups, wakes waiting threads. */
static void on_stop(struct easy_user *user)
{
        struct registry *registry = FERRY_CONTAINER_OF(user, struct registry, user);

        pthread_mutex_lock(&registry->lock);
        registry->phase = REGISTRY_STOPPED;
        pthread_cond_broadcast(&registry->changed);
        pthread_mutex_unlock(&registry->lock);
        registry_calls_run(registry, true);
}

/* ---- making ---- */

/* Returns the number of endpoints, and stores them unless endpoints is NULL. -EINVAL: not a list of endpoints. */
static int endpoints_parse(const char *url, char (*endpoints)[REGISTRY_ENDPOINT_SIZE])
{
        enum { SCHEME = 2, HOST = 3, SEPARATOR = 5, GROUPS };
        static const char pattern[] = "^((etcd|https?)://)?(([A-Za-z0-9._-]+|\\[[A-Za-z0-9:.%]+]):[0-9]{1,5})/?(,|$)";
        const char *scheme = NULL;
        regmatch_t at[GROUPS];
        regex_t regex;
        int n = 0, r = -EINVAL;

        if (regcomp(&regex, pattern, REG_EXTENDED) != 0)
                return -ENOMEM;
        while (r < 0 && n < REGISTRY_ENDPOINTS_MAX && regexec(&regex, url, GROUPS, at, 0) == 0) {
                const int size = at[HOST].rm_eo - at[HOST].rm_so;

                if (at[SCHEME].rm_so >= 0)
                        scheme = strncmp(url, "https", 5) == 0 ? "https" : "http";
                if (!scheme || size > HOST_MAX)
                        break;
                if (endpoints)
                        (void)snprintf(endpoints[n], REGISTRY_ENDPOINT_SIZE, "%s://%.*s", scheme, size,
                                       url + at[HOST].rm_so);
                n++;
                if (at[SEPARATOR].rm_so == at[SEPARATOR].rm_eo)
                        r = n;
                url += at[0].rm_eo;
        }
        regfree(&regex);
        return r;
}

bool registry_url_is_valid(const char *url)
{
        return endpoints_parse(url, NULL) > 0;
}

bool registry_prefix_is_valid(const char *prefix)
{
        size_t length = strlen(prefix);

        for (const char *c = prefix; *c; c++)
                if (!isgraph((unsigned char)*c) || *c == '"' || *c == '\\')
                        return false;
        return length > 0 && length <= REGISTRY_PREFIX_MAX;
}

/* Makes the body of etcd's login. Returns 0; -EINVAL: user has no colon; -ENOMEM. */
static int credentials_make(struct registry *registry, const char *user)
{
        struct ferry_json_writer writer = { 0 };
        const char *colon = user ? strchr(user, ':') : NULL;
        FERRY_CLEANUP(cleanup_free) char *name = NULL;

        if (!user)
                return 0;
        if (!colon)
                return -EINVAL;
        name = strndup(user, (size_t)(colon - user));
        if (!name)
                return -ENOMEM;
        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "name", name);
        ferry_json_add_string(&writer, "password", colon + 1);
        ferry_json_end_object(&writer);
        registry->credentials = ferry_json_take(&writer, NULL);
        return registry->credentials ? 0 : -ENOMEM;
}

/* Fills in the times: a question to one endpoint may take a third of the TTL, within bounds. Returns 0 or -EINVAL. */
static int settings_make(struct registry *registry, const struct registry_config *config)
{
        struct easy_settings *settings = &registry->settings;

        *settings = config->easy;
        registry->ttl_ms = ((config->ttl_ms ?: REGISTRY_TTL_DEFAULT_MS) + 999) / 1000 * 1000;
        if (registry->ttl_ms < REGISTRY_TTL_MIN_MS || registry->ttl_ms / 1000 > REGISTRY_LEASE_MAX_S)
                return -EINVAL;
        registry->call_ms = (long)at_most(at_least(registry->ttl_ms / 3, CALL_MIN_MS), CALL_MAX_MS);
        settings->connect_timeout_ms = (long)at_most((uint64_t)registry->call_ms, CONNECT_MS);
        return 0;
}

static void cleanup_registry(struct registry **registry)
{
        *registry = registry_free(*registry);
}

static void metrics_make(struct registry *registry, struct metrics *metrics)
{
        registry->calls_total =
                metrics_by_code(metrics, "ferry_registry_calls_total",
                                "Questions to the registry, by result: ok, or the error's code.", "result");
        (void)metric_get(registry->calls_total, (const char *const[]){ "ok" });
        registry->registered = metric_single(metrics, METRIC_GAUGE, "ferry_registry_registered",
                                             "1 while this worker's name is in the registry.");
        registry->lookups = metric_single(metrics, METRIC_GAUGE, "ferry_registry_lookups",
                                          "Questions of clients that the registry has not answered yet.");
}

int registry_new(const struct registry_config *config, struct registry **ret_registry)
{
        FERRY_CLEANUP(cleanup_registry) struct registry *registry = calloc(1, sizeof(*registry));
        const char *prefix = config->prefix ?: REGISTRY_PREFIX_DEFAULT;
        int r;

        if (!registry)
                return -ENOMEM;
        pthread_mutex_init(&registry->lock, NULL);
        condition_init(&registry->changed);
        r = endpoints_parse(config->url, registry->endpoints);
        if (r > 0) {
                registry->n_endpoints = (size_t)r;
                r = registry_prefix_is_valid(prefix) ? 0 : -EINVAL;
        }
        if (r == 0)
                r = credentials_make(registry, config->user);
        if (r == 0)
                r = settings_make(registry, config);
        if (r < 0)
                return r;
        (void)snprintf(registry->prefix, sizeof(registry->prefix), "%s%s", prefix,
                       prefix[strlen(prefix) - 1] == '/' ? "" : "/");
        /* A random first endpoint spreads the workers. */
        registry->endpoint = random_id() % registry->n_endpoints;
        metrics_make(registry, config->metrics);
        registry->thread = config->thread;
        registry->user = (struct easy_user){ .run = on_run, .stop = on_stop };
        easy_thread_add(registry->thread, &registry->user);
        *ret_registry = FERRY_STEAL(registry);
        return 0;
}

struct registry *registry_free(struct registry *registry)
{
        if (!registry)
                return NULL;
        free(registry->key);
        free(registry->value);
        if (registry->credentials)
                explicit_bzero(registry->credentials, strlen(registry->credentials));
        free(registry->credentials);
        explicit_bzero(registry->token, sizeof(registry->token));
        pthread_cond_destroy(&registry->changed);
        pthread_mutex_destroy(&registry->lock);
        free(registry);
        return NULL;
}
