/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

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

/* Everything until its end; -EFBIG beyond max. */
static int tool_read(int fd, size_t max, char **ret_text)
{
        char *text = malloc(max + 1);
        size_t size = 0;
        int error = text ? 0 : -ENOMEM;
        while (!error) {
                ssize_t n = cli_read(fd, text + size, max - size);
                if (n == 0)
                        break;
                error = n < 0 ? (int)n : 0;
                size += n > 0 ? (size_t)n : 0;
                if (size == max)
                        error = -EFBIG;
        }
        if (error) {
                if (text)
                        explicit_bzero(text, size);
                free(text);
                return error;
        }
        text[size] = '\0';
        *ret_text = text;
        return 0;
}

int tool_output(const char *name, const char *const *argv, size_t max, char **ret_output)
{
        char *text = NULL;
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
        int r = tool_read(out[0], max, &text);
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
