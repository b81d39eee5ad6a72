/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { CLI_TOKEN_MAX = 4096 };

const struct cli_option cli_options[] = {
        { "url", "URL", "FERRY_URL", "worker: http://HOST:PORT, https://HOST:PORT, unix:/PATH (" CLI_DEFAULT_URL ")",
          offsetof(struct cli, url) },
        { "token-file", "FILE", "FERRY_TOKEN_FILE", "file that holds the token", offsetof(struct cli, token_file) },
        { "ca-file", "FILE", "FERRY_CA_FILE", "PEM: who may vouch for the worker (the system's)",
          offsetof(struct cli, ca_file) },
        { "cert", "FILE", "FERRY_CERT", "PEM: client certificate", offsetof(struct cli, cert) },
        { "key", "FILE", "FERRY_KEY", "PEM: key of the client certificate", offsetof(struct cli, key) },
        { "help", NULL, NULL, "print this", offsetof(struct cli, help) },
        { "version", NULL, NULL, "print the version", offsetof(struct cli, version) },
};
const size_t cli_options_count = sizeof(cli_options) / sizeof(cli_options[0]);

int cli_usage_error(const char *format, ...)
{
        va_list arguments;
        va_start(arguments, format);
        fputs("ferry: ", stderr);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
        va_end(arguments);
        return CLI_USAGE;
}

static void *cli_option_target(struct cli *cli, const struct cli_option *option)
{
        return (char *)cli + option->offset;
}

int cli_options_parse(struct cli *cli, int argc, char **argv, int *ret_next)
{
        struct option longs[sizeof(cli_options) / sizeof(cli_options[0]) + 1] = { 0 };
        for (size_t i = 0; i < cli_options_count; i++) {
                const struct cli_option *option = &cli_options[i];
                longs[i].name = option->name;
                longs[i].has_arg = option->argument ? required_argument : no_argument;
                const char *value = option->environment ? getenv(option->environment) : NULL;
                if (value && *value)
                        *(const char **)cli_option_target(cli, option) = value;
        }
        int index = 0;
        for (int c = getopt_long(argc, argv, "+h", longs, &index); c != -1;
             c = getopt_long(argc, argv, "+h", longs, &index)) {
                if (c == 'h') {
                        cli->help = true;
                        continue;
                }
                if (c != 0)
                        return CLI_USAGE; /* getopt_long has said why */
                const struct cli_option *option = &cli_options[index];
                if (option->argument)
                        *(const char **)cli_option_target(cli, option) = optarg;
                else
                        *(bool *)cli_option_target(cli, option) = true;
        }
        *ret_next = optind;
        return CLI_OK;
}

/* The first line of the file, without white space at its end. */
static int cli_token_read(struct cli *cli)
{
        char text[CLI_TOKEN_MAX + 1];
        int fd = open(cli->token_file, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return cli_usage_error("%s: %s", cli->token_file, strerror(errno));
        ssize_t n = read(fd, text, sizeof(text));
        int error = errno;
        close(fd);
        if (n < 0)
                return cli_usage_error("%s: %s", cli->token_file, strerror(error));
        if (n > CLI_TOKEN_MAX)
                return cli_usage_error("%s: too large for a token", cli->token_file);
        while (n > 0 && strchr(" \t\r\n", text[n - 1]))
                n--;
        if (n == 0 || memchr(text, '\0', (size_t)n))
                return cli_usage_error("%s: there is no token in it", cli->token_file);
        cli->token = strndup(text, (size_t)n);
        explicit_bzero(text, sizeof(text));
        return cli->token ? CLI_OK : cli_usage_error("%s", strerror(ENOMEM));
}

int cli_connect(struct cli *cli)
{
        if (cli->token_file) {
                int status = cli_token_read(cli);
                if (status != CLI_OK)
                        return status;
        }
        struct ferry_options options = {
                .token = cli->token,
                .ca_file = cli->ca_file,
                .cert_file = cli->cert,
                .key_file = cli->key,
        };
        const char *url = cli->url ? cli->url : CLI_DEFAULT_URL;
        int r = ferry_new(url, &options, &cli->ferry);
        if (r == -EINVAL)
                return cli_usage_error("the URL or the token is not valid: %s", url);
        return r < 0 ? cli_usage_error("%s", strerror(-r)) : CLI_OK;
}

bool cli_duration_parse(const char *text, uint64_t *ret_ms)
{
        static const struct {
                const char *unit;
                double ms;
        } units[] = { { "", 1e3 }, { "s", 1e3 }, { "ms", 1 }, { "m", 60e3 }, { "h", 3600e3 } };
        char *end;
        if (!strchr("0123456789.", *text) || strpbrk(text, "xX"))
                return false;
        double number = strtod(text, &end);
        for (size_t i = 0; end != text && i < sizeof(units) / sizeof(units[0]); i++) {
                if (strcmp(units[i].unit, end) != 0)
                        continue;
                double ms = number * units[i].ms;
                if (!(ms >= 0 && ms < 1e15))
                        return false;
                *ret_ms = (uint64_t)ms;
                return true;
        }
        return false;
}
