/* SPDX-License-Identifier: Apache-2.0 */
#include "bus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/commit.h>
#include <ferry/encoding.h>
#include <ferry/options.h>
#include <ferry/util.h>

#include "reply.h"

/*
 * ferry-nats, a program of its own, so that ferry needs no libnats: its options, and the command that asks another
 * worker's bridge for metadata, which ferry runs for nats:// URLs (cli/remote.c).
 */

/* ---- the question ---- */

/* Asks the bridge of another worker: nats://HOST:PORT/WORKER/op_ID. */

struct ask {
        char *server; /* the URL without its path */
        char name[BUS_NAME_SIZE];
        char subject[BUS_SUBJECT_SIZE];
        const char *id; /* borrowed from the URL */
};

static int ask_parse(const char *url, struct ask *ret_ask)
{
        const char *host = strstr(url, "://"), *worker = host ? strchr(host + 3, '/') : NULL;
        const char *id = worker ? strchr(worker + 1, '/') : NULL;
        size_t length = id ? (size_t)(id - worker) - 1 : 0;
        uint64_t number;
        if (strchr(url, '@')) /* which may be a password */
                return bus_fail(BUS_USAGE, "a NATS URL has no user or password: use --nats-user-file or --nats-creds");
        if (!id || length >= sizeof(ret_ask->name) || !ferry_id_parse("op_", id + 1, &number))
                return bus_fail(BUS_USAGE, "%s is not nats://HOST:PORT/WORKER/op_ID or tls://HOST:PORT/WORKER/op_ID",
                                url);
        memcpy(ret_ask->name, worker + 1, length);
        ret_ask->name[length] = '\0';
        if (!bus_subject(ret_ask->name, ret_ask->subject))
                return bus_fail(BUS_USAGE, "%s cannot be the name of a worker on NATS", ret_ask->name);
        ret_ask->id = id + 1;
        ret_ask->server = strndup(url, (size_t)(worker - url));
        return ret_ask->server ? BUS_OK : bus_fail(BUS_USAGE, "%s", strerror(ENOMEM));
}

/* Prints metadata, or tells why there are none. Anybody may answer on a bus: reply.c decides what it is. */
static int ask_classify(const struct ask *ask, const char *data, size_t size)
{
        char code[REPLY_CODE_SIZE];
        switch (reply_read(data, size, code)) {
        case REPLY_METADATA:
                return fwrite(data, 1, size, stdout) != size || putchar('\n') == EOF || fflush(stdout) != 0 ? BUS_USAGE
                                                                                                            : BUS_OK;
        case REPLY_PROBLEM:
                return bus_fail(BUS_PROBLEM, "%s of worker %s: %s", ask->id, ask->name, code);
        case REPLY_NONSENSE:
                break;
        }
        return bus_fail(BUS_UNREACHABLE, "what came for worker %s is not metadata", ask->name);
}

static int ask_exchange(natsConnection *connection, const struct ask *ask)
{
        natsMsg *reply = NULL;
        natsStatus s =
                natsConnection_Request(&reply, connection, ask->subject, ask->id, (int)strlen(ask->id), BUS_TIMEOUT_MS);
        if (s == NATS_NO_RESPONDERS)
                return bus_fail(BUS_PROBLEM, "nobody answers for worker %s on NATS (ferry-nats bridge)", ask->name);
        if (s == NATS_TIMEOUT)
                return bus_fail(BUS_UNREACHABLE, "no answer for worker %s within %d s", ask->name,
                                BUS_TIMEOUT_MS / 1000);
        if (s != NATS_OK)
                return bus_fail(BUS_UNREACHABLE, "NATS: %s", natsStatus_GetText(s));
        int status = ask_classify(ask, natsMsg_GetData(reply) ? natsMsg_GetData(reply) : "",
                                  (size_t)natsMsg_GetDataLength(reply));
        natsMsg_Destroy(reply);
        return status;
}

static int ask_run(const struct bus_options *options, const char *url)
{
        natsConnection *connection = NULL;
        struct ask ask = { 0 };
        int status = ask_parse(url, &ask);
        if (status == BUS_OK)
                status = bus_connect(options, ask.server, true, &connection);
        if (status == BUS_OK)
                status = ask_exchange(connection, &ask);
        natsConnection_Destroy(connection);
        free(ask.server);
        return status;
}

/* ---- the program ---- */

static const struct ferry_option options_table[] = {
#define NATS(...) FERRY_OPTION_ROW(struct bus_options, __VA_ARGS__)
#include <ferry/option_table.h>
};

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
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(options_table); i++)
                ferry_option_help(stdout, &options_table[i]);
}

static void warn_misspelt(const char *wrong, const char *near)
{
        (void)bus_fail(BUS_OK, "the variable %s is unknown: did you mean %s?", wrong, near);
}

static int take_operand(struct ferry_option_base *base, char *text, bool literal)
{
        struct bus_options *options = (struct bus_options *)(void *)base;
        if (options->n_operands == FERRY_ARRAY_SIZE(options->operands))
                return ferry_option_refuse(base, "too many arguments (see ferry-nats --help)");
        options->operands[options->n_operands++] = text;
        return 0;
}

static int perform(const struct bus_options *options)
{
        if (options->help) {
                print_help();
                return BUS_OK;
        }
        if (options->version) {
                printf("ferry-nats %s\n", ferry_full_version);
                return BUS_OK;
        }
        if (options->n_operands == 1 && strcmp(options->operands[0], "bridge") == 0)
                return bridge_run(options);
        if (options->n_operands == 2 && strcmp(options->operands[0], "metadata") == 0)
                return ask_run(options, options->operands[1]);
        return bus_fail(BUS_USAGE, "usage: ferry-nats bridge, or ferry-nats metadata URL (see ferry-nats --help)");
}

static int run(int argc, char **argv)
{
        struct bus_options options = {
                .base = { .program = "ferry-nats", .table = options_table, .n = FERRY_ARRAY_SIZE(options_table) }
        };
        ferry_variables_check(warn_misspelt);
        ferry_options_default(&options.base);
        int r = ferry_options_read(&options.base, argc, argv, take_operand);
        int status = r == 0 ? perform(&options)
                            : bus_fail(BUS_USAGE, "%s", r == -EINVAL ? options.base.message : strerror(-r));
        ferry_options_clear(&options.base);
        return status;
}

/* Not by exit(): libnats's threads may still use OpenSSL, which exit() tears down; and nats_CloseAndWait of libnats 3.4
 * frees a list of OpenSSL's that exit() frees again. */
int main(int argc, char **argv)
{
        int status = run(argc, argv);
        (void)fflush(stdout);
        _exit(status);
}
