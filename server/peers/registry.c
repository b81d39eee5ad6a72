/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/json_write.h>

#include "base/metrics.h"
#include "base/util.h"
#include "registry_internal.h"

enum {
        ENDPOINTS_MAX = 16,
        CONNECT_MS = 2000,
        CALL_MIN_MS = 1000,
        CALL_MAX_MS = 5000,
};

/* ---- making ---- */

static const struct {
        const char *given, *used;
} schemes[] = { { "etcd://", "http://" }, { "http://", "http://" }, { "https://", "https://" } };

/* Moves *text past its scheme and returns the one to use; NULL = none. */
static const char *take_scheme(const char **text)
{
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(schemes); i++) {
                size_t length = strlen(schemes[i].given);

                if (strncmp(*text, schemes[i].given, length) != 0)
                        continue;
                *text += length;
                return schemes[i].used;
        }
        return NULL;
}

/* Whether it is HOST:PORT or [IPV6]:PORT. */
static bool is_host_port(const char *text, size_t size)
{
        const char *end = text + size, *colon = memrchr(text, ':', size);

        if (!colon || colon == text || colon + 1 == end || end - colon > 6)
                return false;
        for (const char *c = colon + 1; c < end; c++)
                if (!isdigit((unsigned char)*c))
                        return false;
        for (const char *c = text; c < colon; c++)
                if (!isalnum((unsigned char)*c) && !strchr(*text == '[' ? "[]:.%" : ".-_", *c))
                        return false;
        return true;
}

/* Returns the number of endpoints; stores them unless endpoints is NULL. -EINVAL: not a list of endpoints. */
static int endpoints_parse(const char *url, char **endpoints)
{
        const char *scheme = NULL, *own;
        int n = 0;

        for (;;) {
                own = take_scheme(&url);
                if (own)
                        scheme = own;
                size_t size = strcspn(url, ",");
                size_t bare = size > 0 && url[size - 1] == '/' ? size - 1 : size;
                if (!scheme || n == ENDPOINTS_MAX || !is_host_port(url, bare))
                        return -EINVAL;
                if (endpoints && asprintf(&endpoints[n], "%s%.*s", scheme, (int)bare, url) < 0) {
                        endpoints[n] = NULL;
                        return -ENOMEM;
                }
                n++;
                if (!url[size])
                        return n;
                url += size + 1;
        }
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

static int prefix_take(struct registry *registry, const char *prefix)
{
        if (!registry_prefix_is_valid(prefix))
                return -EINVAL;
        (void)snprintf(registry->prefix, sizeof(registry->prefix), "%s%s", prefix,
                       prefix[strlen(prefix) - 1] == '/' ? "" : "/");
        return 0;
}

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

static int settings_make(struct registry *registry, const struct registry_config *config)
{
        struct easy_settings *settings = &registry->settings;

        settings->ca_file = config->ca_file;
        settings->cert_file = config->cert_file;
        settings->key_file = config->key_file;
        settings->user_agent = config->user_agent;
        registry->ttl_ms = ((config->ttl_ms ?: REGISTRY_TTL_DEFAULT_MS) + 999) / 1000 * 1000;
        if (registry->ttl_ms < REGISTRY_TTL_MIN_MS || registry->ttl_ms / 1000 > ETCD_TTL_MAX_S)
                return -EINVAL;
        registry->call_ms = (long)registry->ttl_ms / 3;
        if (registry->call_ms < CALL_MIN_MS)
                registry->call_ms = CALL_MIN_MS;
        if (registry->call_ms > CALL_MAX_MS)
                registry->call_ms = CALL_MAX_MS;
        settings->connect_timeout_ms = registry->call_ms < CONNECT_MS ? registry->call_ms : CONNECT_MS;
        return 0;
}

static void cleanup_registry(struct registry **registry)
{
        *registry = registry_free(*registry);
}

static void metrics_make(struct registry *registry, struct metrics *metrics)
{
        static const char *const labels[] = { "result" };

        registry->calls_total = metrics_family(metrics, METRIC_COUNTER, "ferry_registry_calls_total",
                                               "Questions to the registry, by result.", 1, labels, NULL, 0);
        registry->registered = metric_single(metrics, METRIC_GAUGE, "ferry_registry_registered",
                                             "1 while this worker's name is in the registry.");
        registry->lookups = metric_single(metrics, METRIC_GAUGE, "ferry_registry_lookups",
                                          "Questions of clients that the registry has not answered yet.");
}

int registry_new(const struct registry_config *config, struct registry **ret_registry)
{
        FERRY_CLEANUP(cleanup_registry) struct registry *registry = calloc(1, sizeof(*registry));
        pthread_condattr_t attributes;
        int r;

        if (!registry)
                return -ENOMEM;
        pthread_mutex_init(&registry->lock, NULL);
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&registry->changed, &attributes);
        pthread_condattr_destroy(&attributes);
        r = endpoints_parse(config->url, NULL);
        if (r < 0)
                return r;
        registry->endpoints = calloc((size_t)r, sizeof(*registry->endpoints));
        if (!registry->endpoints)
                return -ENOMEM;
        registry->n_endpoints = (size_t)r;
        r = endpoints_parse(config->url, registry->endpoints);
        if (r > 0)
                r = prefix_take(registry, config->prefix ?: REGISTRY_PREFIX_DEFAULT);
        if (r == 0)
                r = credentials_make(registry, config->user);
        if (r == 0)
                r = settings_make(registry, config);
        if (r < 0)
                return r;
        /* A random first endpoint spreads the workers. */
        registry->endpoint = random_id() % registry->n_endpoints;
        metrics_make(registry, config->metrics);
        *ret_registry = FERRY_STEAL(registry);
        return 0;
}

struct registry *registry_free(struct registry *registry)
{
        if (!registry)
                return NULL;
        for (size_t i = 0; i < registry->n_endpoints; i++)
                free(registry->endpoints[i]);
        free(registry->endpoints);
        if (registry->credentials)
                explicit_bzero(registry->credentials, strlen(registry->credentials));
        free(registry->credentials);
        explicit_bzero(registry->token, sizeof(registry->token));
        pthread_cond_destroy(&registry->changed);
        pthread_mutex_destroy(&registry->lock);
        free(registry);
        return NULL;
}

/* ---- running ---- */

void registry_attach(struct registry *registry, int (*wake)(void *context), void *context)
{
        registry->wake = wake;
        registry->wake_context = context;
}

uint64_t registry_run(struct registry *registry, struct easy_multi *multi, uint64_t now)
{
        registry->multi = multi;
        lookups_take(registry);
        return member_run(registry, now);
}

void registry_stop(struct registry *registry)
{
        pthread_mutex_lock(&registry->lock);
        registry->stopped = true;
        pthread_cond_broadcast(&registry->changed);
        pthread_mutex_unlock(&registry->lock);
        registry_calls_cancel(registry);
        lookups_cancel(registry);
}
