/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/options.h>

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <ferry/util.h>

/*
 * The variables of the environment that Ferry knows, and whether a name is a misspelt one. No program refuses a
 * variable that it does not read: others of Ferry may.
 */

#define PREFIX "FERRY_"

/* All that Ferry's programs read, so that none of them takes another's for a mistake. */
const char *const ferry_variables[] = {
#define WORKER(part, letter, name, variable, ...) variable,
#define FERRYD WORKER
#define FERRY WORKER
#define NATS WORKER
#include <ferry/option_table.h>
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
                if (!name)
                        continue;
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
                if (ferry_variables[i] && strcmp(ferry_variables[i], name) == 0)
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
