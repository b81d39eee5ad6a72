/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/commit.h>
#include <ferry/util.h>
#include <ferry/variables.h>

#include "bus.h"

#define AT(field) offsetof(struct bus_options, field)

/* Values are const char *, those without an argument bool. */
static const struct option {
        const char *name, *argument, *environment, *help;
        size_t offset;
} options_table[] = {
        { "nats", "URL", "FERRY_NATS", "the NATS server of the bridge (" NATS_DEFAULT_URL ")", AT(nats) },
        { "nats-creds", "FILE", "FERRY_NATS_CREDS", "credentials for NATS", AT(creds) },
        { "nats-user-file", "FILE", "FERRY_NATS_USER_FILE", "file with NAME:PASSWORD, or a token, for NATS",
          AT(user_file) },
        { "nats-inbox", "PREFIX", "FERRY_NATS_INBOX",
          "prefix of the subjects on which metadata gets its answers (_INBOX)", AT(inbox) },
        { "nats-ca", "FILE", "FERRY_NATS_CA", "PEM certificates of the NATS server's authorities; enables TLS",
          AT(ca) },
        { "nats-cert", "FILE", "FERRY_NATS_CERT", "PEM client certificate for NATS; enables TLS", AT(cert) },
        { "nats-key", "FILE", "FERRY_NATS_KEY", "PEM key of --nats-cert", AT(key) },
        { "insecure", NULL, "FERRY_NATS_INSECURE", "connect to another machine without TLS", AT(insecure) },
        { "url", "URL", "FERRY_URL", "the worker of the bridge (http://127.0.0.1:9300)", AT(url) },
        { "token-file", "FILE", "FERRY_TOKEN_FILE", "file with the worker's peer token, or its full token",
          AT(token_file) },
        { "ca-file", "FILE", "FERRY_CA_FILE", "PEM certificates of the worker's authorities (the system's)",
          AT(ca_file) },
        { "cert", "FILE", "FERRY_CERT", "PEM client certificate for the worker", AT(worker_cert) },
        { "key", "FILE", "FERRY_KEY", "PEM key of --cert", AT(worker_key) },
        { "help", NULL, NULL, "print help", AT(help) },
        { "version", NULL, NULL, "print the version", AT(version) },
};
enum { OPTIONS = FERRY_ARRAY_SIZE(options_table) };

static void print_help(void)
{
        fputs("Usage: ferry-nats bridge [OPTION]...\n"
              "       ferry-nats metadata nats://HOST:PORT/WORKER/op_ID [OPTION]...\n"
              "Carries the metadata of operations over NATS.\n"
              "\n"
              "bridge answers requests on ferry.v1.WORKER.metadata for one worker, and prints a\n"
              "line when it is ready. metadata asks the bridge of another worker and prints the\n"
              "metadata, as ferry fetch nats://... does.\n\n",
              stdout);
        for (size_t i = 0; i < OPTIONS; i++) {
                const struct option *o = &options_table[i];
                int n = printf("  --%s%s%s", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
                printf("%*s %s", n < 24 ? 24 - n : 0, "", o->help);
                if (o->environment)
                        printf(" [%s]", o->environment);
                putchar('\n');
        }
}

static void set(struct bus_options *options, const struct option *option, const char *value)
{
        char *target = (char *)options + option->offset;
        if (option->argument)
                *(const char **)(void *)target = value;
        else
                *(bool *)(void *)target = true;
}

static void warn_misspelt(const char *wrong, const char *near)
{
        (void)bus_fail(BUS_OK, "the variable %s is unknown: did you mean %s?", wrong, near);
}

static int read_environment(struct bus_options *options)
{
        ferry_variables_check(warn_misspelt);
        for (size_t i = 0; i < OPTIONS; i++) {
                const struct option *o = &options_table[i];
                const char *value = o->environment ? getenv(o->environment) : NULL;
                bool off = value && (!*value || (!o->argument && (!strcmp(value, "0") || !strcmp(value, "false"))));
                if (!value || off)
                        continue;
                if (!o->argument && strcmp(value, "1") != 0 && strcmp(value, "true") != 0)
                        return bus_fail(BUS_USAGE, "%s: %s is not one of 1, true, 0, false", o->environment, value);
                set(options, o, value);
        }
        return BUS_OK;
}

static const struct option *find(const char *name, size_t length)
{
        for (size_t i = 0; i < OPTIONS; i++)
                if (strlen(options_table[i].name) == length && strncmp(options_table[i].name, name, length) == 0)
                        return &options_table[i];
        return NULL;
}

/* What is no option becomes an operand. */
static int parse(struct bus_options *options, int argc, char **argv, const char *operands[2], int *ret_n)
{
        *ret_n = 0;
        if (read_environment(options) != BUS_OK)
                return BUS_USAGE;
        for (int i = 1; i < argc; i++) {
                if (strncmp(argv[i], "--", 2) != 0) {
                        if (*ret_n == 2)
                                return bus_fail(BUS_USAGE, "too many arguments (see --help)");
                        operands[(*ret_n)++] = argv[i];
                        continue;
                }
                const char *name = argv[i] + 2, *value = strchr(name, '=');
                size_t length = value ? (size_t)(value - name) : strlen(name);
                const struct option *option = find(name, length);
                if (!option)
                        return bus_fail(BUS_USAGE, "no option --%.*s (see --help)", (int)length, name);
                if (!option->argument && value)
                        return bus_fail(BUS_USAGE, "--%s takes no value", option->name);
                value = value ? value + 1 : NULL;
                if (option->argument && !value && i + 1 == argc)
                        return bus_fail(BUS_USAGE, "--%s needs a value", option->name);
                set(options, option, option->argument && !value ? argv[++i] : value);
        }
        return BUS_OK;
}

static int run(int argc, char **argv)
{
        struct bus_options options = { 0 };
        const char *operands[2] = { 0 };
        int n, status = parse(&options, argc, argv, operands, &n);
        if (status != BUS_OK)
                return status;
        if (options.help) {
                print_help();
                return BUS_OK;
        }
        if (options.version) {
                printf("ferry-nats %s\n", ferry_full_version);
                return BUS_OK;
        }
        if (n == 1 && strcmp(operands[0], "bridge") == 0)
                return bridge_run(&options);
        if (n == 2 && strcmp(operands[0], "metadata") == 0)
                return ask_run(&options, operands[1]);
        return bus_fail(BUS_USAGE, "usage: ferry-nats bridge, or ferry-nats metadata URL (see --help)");
}

/* Not by exit(): libnats's threads may still use OpenSSL, which exit() tears down; and nats_CloseAndWait of libnats 3.4
 * frees a list of OpenSSL's that exit() frees again. */
int main(int argc, char **argv)
{
        int status = run(argc, argv);
        (void)fflush(stdout);
        _exit(status);
}
