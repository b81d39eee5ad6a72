/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/variables.h>

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <ferry/util.h>

#define PREFIX "FERRY_"

/* All that Ferry's programs read, so that none of them takes another's for a mistake. */
const char *const ferry_variables[] = {
        /* ferryd: one for each flag */
        "FERRY_LISTEN",
        "FERRY_ADVERTISE",
        "FERRY_ALLOW_HOST",
        "FERRY_NAME",
        "FERRY_LOCAL",
        "FERRY_COPY_THREADS",
        "FERRY_DATA_LISTEN",
        "FERRY_TRANSPORTS",
        "FERRY_INTERFACES",
        "FERRY_GPU_DIRECT",
        "FERRY_CHUNK_SIZE",
        "FERRY_WINDOW",
        "FERRY_SPIN_US",
        "FERRY_TOKEN_FILE",
        "FERRY_PEER_TOKEN_FILE",
        "FERRY_METRICS_TOKEN_FILE",
        "FERRY_NO_AUTH",
        "FERRY_ALLOW_PEER",
        "FERRY_ALLOW_ORIGIN",
        "FERRY_TLS_CERT",
        "FERRY_TLS_KEY",
        "FERRY_TLS_CLIENT_CA",
        "FERRY_PEER_CA",
        "FERRY_PEER_CERT",
        "FERRY_PEER_KEY",
        "FERRY_REGISTRY",
        "FERRY_REGISTRY_PREFIX",
        "FERRY_REGISTRY_TTL",
        "FERRY_REGISTRY_CA",
        "FERRY_REGISTRY_USER_FILE",
        "FERRY_MEMORY_LIMIT",
        "FERRY_MAX_REGIONS",
        "FERRY_MAX_OPERATIONS",
        "FERRY_MAX_CONNECTIONS",
        "FERRY_MAX_WAITERS",
        "FERRY_MAX_LINKS",
        "FERRY_HTTP_THREADS",
        "FERRY_TTL",
        "FERRY_STALL_LIMIT",
        "FERRY_RETENTION",
        "FERRY_GRACE",
        "FERRY_DRAIN_TIMEOUT",
        "FERRY_LOG_LEVEL",
        "FERRY_LOG_FORMAT",
        /* ferry; it and ferry-nats read FERRY_TOKEN_FILE, ferry FERRY_PEER_TOKEN_FILE, too */
        "FERRY_URL",
        "FERRY_CA_FILE",
        "FERRY_CERT",
        "FERRY_KEY",
        "FERRY_ANSWER_TIMEOUT",
        /* ferry-nats */
        "FERRY_NATS",
        "FERRY_NATS_CREDS",
        "FERRY_NATS_USER_FILE",
        "FERRY_NATS_INBOX",
        "FERRY_NATS_CA",
        "FERRY_NATS_CERT",
        "FERRY_NATS_KEY",
        "FERRY_NATS_INSECURE",
        /* the Python module */
        "FERRY_WORKER_LIBRARY",
        /* Kubernetes, where a service has the name ferry; it makes others, which are close to none of these */
        "FERRY_PORT",
};
const size_t ferry_variables_count = FERRY_ARRAY_SIZE(ferry_variables);

enum { SUGGEST_NAME_MAX = 32 };

/* Changes, insertions and deletions that make b of a. */
static size_t suggest_distance(const char *a, const char *b)
{
        size_t row[SUGGEST_NAME_MAX + 1], n = strlen(b);
        if (n > SUGGEST_NAME_MAX)
                return SIZE_MAX;
        for (size_t j = 0; j <= n; j++)
                row[j] = j;
        for (size_t i = 0; a[i]; i++) {
                size_t corner = row[0]++;
                for (size_t j = 0; j < n; j++) {
                        size_t change = corner + (a[i] != b[j]), least = row[j] < row[j + 1] ? row[j] : row[j + 1];
                        corner = row[j + 1];
                        row[j + 1] = change < least + 1 ? change : least + 1;
                }
        }
        return row[n];
}

const char *ferry_suggest(const char *wrong, const char *const *names, size_t n, size_t stride)
{
        const char *best = NULL;
        if (!*wrong)
                return NULL;
        size_t least = strlen(wrong) < 4 ? 2 : 3; /* a larger distance means another word */
        for (size_t i = 0; i < n; i++) {
                const char *name = *(const char *const *)(const void *)((const char *)names + i * stride);
                size_t distance = strncmp(name, wrong, strlen(wrong)) == 0 ? 1 : suggest_distance(wrong, name);
                if (distance < least) {
                        least = distance;
                        best = name;
                }
        }
        return best;
}

/* What the variable "NAME=value" may have meant; NULL = nothing. */
static const char *meant(const char *variable, char *name, size_t size)
{
        size_t length = strcspn(variable, "=");
        const char *near;

        if (strncmp(variable, PREFIX, strlen(PREFIX)) != 0 || length == strlen(PREFIX) || length >= size)
                return NULL;
        memcpy(name, variable, length);
        name[length] = '\0';
        near = ferry_suggest(name, ferry_variables, ferry_variables_count, sizeof(ferry_variables[0]));
        for (size_t i = 0; near && i < ferry_variables_count; i++)
                if (strcmp(ferry_variables[i], name) == 0)
                        near = NULL;
        return near;
}

void ferry_variables_check(void (*complain)(const char *wrong, const char *near))
{
        char name[FERRY_VARIABLE_SIZE];

        for (char **variable = environ; variable && *variable; variable++) {
                const char *near = meant(*variable, name, sizeof(name));

                if (near)
                        complain(name, near);
        }
}
