/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <ferry/commit.h>
#include <ferry/options.h>
#include <ferry/util.h>

#include "bus.h"

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
