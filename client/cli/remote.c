/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/metadata.h>

/*
 * The offer of another worker: its metadata, from the worker's URL, or by ferry-nats from a NATS server; and what of
 * them a command must know. The metadata are a secret: they hold the key.
 */

/* ---- another program ---- */

extern char **environ;

/* The path beside this program; "" = unknown. */
static void tool_beside(const char *name, char path[PATH_MAX])
{
        char own[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
        char *slash;
        path[0] = '\0';
        if (n <= 0)
                return;
        own[n] = '\0';
        slash = strrchr(own, '/');
        if (slash && (size_t)(slash - own) + strlen(name) + 2 <= PATH_MAX)
                snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - own), own, name);
}

/* 0 or an errno. */
static int tool_start(const char *name, const char *const *argv, int out, pid_t *ret_pid)
{
        posix_spawn_file_actions_t actions;
        char path[PATH_MAX];
        char *const *arguments = (char *const *)(uintptr_t)argv;
        int error = posix_spawn_file_actions_init(&actions);
        if (error)
                return error;
        error = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
        tool_beside(name, path);
        if (!error)
                error = *path ? posix_spawn(ret_pid, path, &actions, NULL, arguments, environ) : ENOENT;
        if (error == ENOENT)
                error = posix_spawnp(ret_pid, name, &actions, NULL, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
        return error;
}

/*
 * Runs a program of ours, which lies beside this one or in PATH, with our standard error. What it prints, at most max
 * bytes, for ferry_secret_free(). Its exit status, which is one of ours; CLI_USAGE when it is not installed.
 */
static int tool_output(const char *name, const char *const *argv, size_t max, char **ret_output)
{
        char *text = NULL;
        size_t size;
        int out[2], status = 0;
        pid_t pid;
        if (pipe2(out, O_CLOEXEC) < 0)
                return cli_usage_error("%s", strerror(errno));
        int error = tool_start(name, argv, out[1], &pid);
        close(out[1]);
        if (error) {
                close(out[0]);
                return cli_usage_error("%s: %s%s", name, strerror(error),
                                       error == ENOENT ? " (it is built where libnats is)" : "");
        }
        int r = cli_read_all(out[0], max, &text, &size);
        close(out[0]);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (r == 0 && WIFEXITED(status) && WEXITSTATUS(status) == CLI_OK) {
                *ret_output = text;
                return CLI_OK;
        }
        ferry_secret_free(text);
        if (WIFEXITED(status) && WEXITSTATUS(status) != CLI_OK)
                return WEXITSTATUS(status) == 127 ? cli_usage_error("%s cannot be run", name) : WEXITSTATUS(status);
        return cli_usage_error("%s: %s", name, r < 0 ? strerror(-r) : "it was ended by a signal");
}

/* ---- an offer ---- */

enum { REMOTE_METADATA_MAX = 8 << 20 };

/* Takes the size, and checks that the offer is of the kind. More is the worker's to check. Returns an exit status. */
static int remote_decode(struct remote *remote, enum ferry_kind kind)
{
        struct json_object *root = table_parse(remote->metadata), *value = NULL, *list = NULL;
        int offered = json_object_object_get_ex(root, "operation_kind", &value) ? json_object_get_int(value) : 0;
        size_t n = member_list(root, "descriptors", &list);
        bool whole = n > 0;
        for (size_t i = 0; i < n; i++) {
                struct json_object *descriptor = json_object_array_get_idx(list, i);
                int64_t size = json_object_object_get_ex(descriptor, "size", &value) ? json_object_get_int64(value) : 0;
                whole &= size > 0 && !__builtin_add_overflow(remote->size, (uint64_t)size, &remote->size);
        }
        json_object_put(root);
        if (!whole || (offered != FERRY_METADATA_READ && offered != FERRY_METADATA_WRITE))
                return cli_fail(CLI_UNREACHABLE, "%s: what came is not the metadata of an operation",
                                remote->worker.url);
        if (offered == FERRY_METADATA_READ && kind == FERRY_WRITABLE)
                return cli_usage_error("this operation offers bytes: use ferry fetch");
        if (offered == FERRY_METADATA_WRITE && kind == FERRY_READABLE)
                return cli_usage_error("this operation accepts bytes: use ferry send");
        return CLI_OK;
}

/* The worker checks the parts against the offer. */
static int remote_take_parts(const struct cli *cli, struct remote *remote)
{
        const struct ferry_strings *given = &cli->remote;
        if (!given->n)
                return CLI_OK;
        remote->parts = calloc(given->n, sizeof(*remote->parts));
        if (!remote->parts)
                return cli_usage_error("%s", strerror(ENOMEM));
        remote->size = 0;
        for (size_t i = 0; i < given->n; i++) {
                struct ferry_range *part = &remote->parts[remote->n_parts++];
                (void)cli_part_parse(given->items[i], part);
                if (__builtin_add_overflow(remote->size, part->size, &remote->size))
                        return cli_usage_error("--remote: the parts are too large");
        }
        return CLI_OK;
}

static int remote_refused(const struct remote *remote, const char *id, int r)
{
        const char *code = ferry_last_problem(remote->worker.ferry)->code;
        if (r == FERRY_E_GONE)
                return cli_fail_with_code(CLI_PROBLEM, code, "%s at %s has ended: offer it again", id,
                                          remote->worker.url);
        if (r == FERRY_E_NOT_FOUND)
                return cli_fail_with_code(CLI_PROBLEM, code,
                                          "%s has no %s, or no longer: use the URL that ferry offer or accept prints",
                                          remote->worker.url, id);
        if (r == FERRY_E_NOT_PASSIVE)
                return cli_fail_with_code(CLI_PROBLEM, code,
                                          "%s at %s is no offer: use the URL that ferry offer or accept prints", id,
                                          remote->worker.url);
        return cli_result(&remote->worker, r);
}

/* nats://HOST:PORT/WORKER/op_ID: runs ferry-nats, which has the NATS library. */
static int remote_ask_nats(const struct cli *cli, const char *url, enum ferry_kind kind, struct remote *remote)
{
        int status = tool_output("ferry-nats", (const char *const[]){ "ferry-nats", "metadata", url, NULL },
                                 REMOTE_METADATA_MAX, &remote->metadata);
        remote->worker.url = status == CLI_OK ? strdup(url) : NULL;
        if (status == CLI_OK && !remote->worker.url)
                return cli_usage_error("%s", strerror(ENOMEM));
        if (status == CLI_OK)
                status = remote_decode(remote, kind);
        return status == CLI_OK ? remote_take_parts(cli, remote) : status;
}

int remote_fetch(struct cli *cli, const char *text, enum ferry_kind kind, struct remote *ret_remote)
{
        struct link link = { 0 };
        *ret_remote = (struct remote){ 0 };
        if (strncmp(text, "nats://", 7) == 0 || strncmp(text, "tls://", 6) == 0)
                return remote_ask_nats(cli, text, kind, ret_remote);
        int r = link_parse(text, "operations", "op_", &link);
        if (r == -EINVAL)
                return cli_usage_error("%s is not the URL of an offer: http://HOST:PORT/v1/operations/op_…/metadata",
                                       text);
        if (r < 0)
                return cli_usage_error("%s", strerror(-r));
        int status = link.worker ? CLI_OK : cli_connect(cli);
        if (status == CLI_OK)
                status = cli_worker_named(cli, link.worker ? link.worker : cli->worker.url, WORKER_ITSELF,
                                          &ret_remote->worker);
        if (status == CLI_OK) {
                r = ferry_get_operation_metadata(ret_remote->worker.ferry, link.id, &ret_remote->metadata);
                status = r == 0 ? remote_decode(ret_remote, kind) : remote_refused(ret_remote, link.id, r);
        }
        if (status == CLI_OK)
                status = remote_take_parts(cli, ret_remote);
        link_clear(&link);
        return status;
}

void remote_clear(struct remote *remote)
{
        worker_close(&remote->worker);
        ferry_secret_free(remote->metadata);
        free(remote->parts);
        *remote = (struct remote){ 0 };
}
