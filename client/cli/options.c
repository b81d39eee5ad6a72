/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <ferry/variables.h>

#include "cli.h"

#define AT(field) offsetof(struct cli, field)

const struct cli_option cli_options[] = {
        { "url", "URL", "FERRY_URL", "worker: http://HOST:PORT, https://HOST:PORT or unix:/PATH (" CLI_DEFAULT_URL ")",
          'u', NULL, AT(url) },
        { "token-file", "FILE", "FERRY_TOKEN_FILE", "file with the worker's token", 0, NULL, AT(token_file) },
        { "peer-token-file", "FILE", "FERRY_PEER_TOKEN_FILE", "file with the other worker's token", 0,
          "bench copy doctor fetch send spread", AT(peer_token_file) },
        { "ca-file", "FILE", "FERRY_CA_FILE",
          "PEM certificates of the authorities that sign the worker's certificate (the system's)", 0, NULL,
          AT(ca_file) },
        { "cert", "FILE", "FERRY_CERT", "PEM client certificate", 0, NULL, AT(cert) },
        { "key", "FILE", "FERRY_KEY", "PEM key of the client certificate", 0, NULL, AT(key) },
        { "answer-timeout", "TIME", "FERRY_ANSWER_TIMEOUT", "give up on a worker that is silent for this long (10s)", 0,
          NULL, AT(answer_timeout) },
        { "json", NULL, NULL, "print JSON (help and completion scripts stay text)", 'j', NULL, AT(json) },
        { "quiet", NULL, NULL, "show no progress", 'q', NULL, AT(quiet) },
        { "output", "FILE", NULL, "write the bytes to FILE; - is standard output", 'o', "accept fetch get",
          AT(output) },
        { "size", "SIZE", NULL, "number of bytes: 4096, 64K, 1.5GiB", 's', "accept bench", AT(size) },
        { "timeout", "TIME", NULL, "give up after this time: 500ms, 30s, 2m, 1h", 't',
          "accept copy fetch offer send spread wait", AT(timeout) },
        { "ttl", "TIME", NULL, "how long the offer waits for its peer (10m)", 0, "accept offer", AT(ttl) },
        { "idle", "TIME", NULL,
          "if the command is killed or stopped, the worker deletes its region after this time (5m; 0 = never)", 0,
          "accept fetch offer send", AT(idle) },
        { "name", "NAME", NULL, "name of the region", 'n', "accept offer spread", AT(name) },
        { "verify", NULL, NULL, "verify the bytes by checksums", 0, "bench copy fetch send", AT(verify) },
        { "kind", "KIND", NULL, "only this kind: readable, read, writable or write", 0, "ls", AT(kind) },
        { "status", "STATUS", NULL, "only this status: INITIALIZED, IN_PROGRESS, COMPLETE, CANCELLED or ERRORED", 0,
          "ls", AT(status) },
        { "label", "LABEL", NULL, "label of the operation, at most 64 bytes", 'l',
          "accept events fetch ls offer send spread", AT(label) },
        { "uses", "N", NULL, "number of peers that may fetch the file (1)", 0, "offer", AT(uses) },
        { "done", NULL, NULL, "only operations that are done", 0, "ls", AT(done) },
        { "running", NULL, NULL, "only operations that are not done", 0, "ls", AT(running) },
        { "newest", NULL, NULL, "newest first", 0, "ls", AT(newest) },
        { "any", NULL, NULL, "wait until one of the operations is done", 0, "wait", AT(any) },
        { "follow", NULL, NULL, "keep running, and print new events", 'f', "events", AT(follow) },
        { "watch", NULL, NULL, "keep running, and print workers as they join and leave", 'w', "workers", AT(watch) },
        { "interval", "TIME", NULL, "shortest time between updates (1s)", 'i', "top", AT(interval) },
        { "count", "N", NULL, "stop after N updates", 'c', "top", AT(count) },
        { "mdoc", NULL, NULL, "print the manual's commands and options", 0, "help", AT(mdoc) },
        { "help", NULL, NULL, "print help; after a command, the help of that command", 'h', NULL, AT(help) },
        { "version", NULL, NULL, "print the version, and the commit that was built", 'V', NULL, AT(version) },
};
const size_t cli_options_count = FERRY_ARRAY_SIZE(cli_options);

bool cli_option_applies(const struct cli_option *option, const struct cli_command *command)
{
        size_t length = strlen(command->name);
        if (!option->commands)
                return true;
        for (const char *at = option->commands; (at = strstr(at, command->name)); at += length) {
                if ((at == option->commands || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
                        return true;
        }
        return false;
}

bool cli_option_belongs(const struct cli_option *option, const struct cli_command *command)
{
        if (option->offset == AT(mdoc))
                return false;
        return command ? option->commands && cli_option_applies(option, command) : !option->commands;
}

/* ---- parsing ---- */

struct parser {
        struct cli *cli;
        char **argv;
        int argc, next, kept;
};

_Static_assert(FERRY_ARRAY_SIZE(cli_options) <= 64, "struct cli has a bit for each");

static void *parser_field(struct cli *cli, const struct cli_option *option)
{
        return (char *)cli + option->offset;
}

static int parser_set(struct parser *p, const struct cli_option *option, const char *value)
{
        void *target = parser_field(p->cli, option);
        if (!option->argument) {
                if (value)
                        return cli_usage_error("--%s takes no argument", option->name);
                *(bool *)target = true;
        } else {
                if (!value && p->next == p->argc)
                        return cli_usage_error("--%s needs an argument: %s", option->name, option->argument);
                *(const char **)target = value ? value : p->argv[p->next++];
        }
        p->cli->given |= UINT64_C(1) << (option - cli_options);
        return CLI_OK;
}

static int parser_long(struct parser *p, const char *text)
{
        size_t length = strcspn(text, "=");
        for (size_t i = 0; i < cli_options_count; i++) {
                if (strlen(cli_options[i].name) == length && strncmp(cli_options[i].name, text, length) == 0)
                        return parser_set(p, &cli_options[i], text[length] ? text + length + 1 : NULL);
        }
        const char *near = ferry_suggest(text, &cli_options[0].name, cli_options_count, sizeof(cli_options[0]));
        return near ? cli_usage_error("no option --%s: did you mean --%s?", text, near)
                    : cli_usage_error("no option --%s (see ferry --help)", text);
}

static int parser_short(struct parser *p, const char *text)
{
        for (; *text; text++) {
                const struct cli_option *option = NULL;
                for (size_t i = 0; !option && i < cli_options_count; i++) {
                        if (cli_options[i].letter == *text)
                                option = &cli_options[i];
                }
                if (!option)
                        return cli_usage_error("no option -%c (see ferry --help)", *text);
                if (option->argument)
                        return parser_set(p, option, text[1] ? text + 1 : NULL);
                parser_set(p, option, NULL);
        }
        return CLI_OK;
}

bool cli_option_given(const struct cli *cli, const char *const *field)
{
        for (size_t i = 0; i < cli_options_count; i++) {
                if (cli_options[i].offset == (size_t)((const char *)field - (const char *)cli))
                        return cli->given >> i & 1;
        }
        return false;
}

static void parser_misspelt(const char *wrong, const char *near)
{
        (void)cli_problem("the variable %s is unknown: did you mean %s?", wrong, near);
}

static void parser_environment(struct cli *cli)
{
        ferry_variables_check(parser_misspelt);
        for (size_t i = 0; i < cli_options_count; i++) {
                const struct cli_option *option = &cli_options[i];
                const char *value = option->environment ? getenv(option->environment) : NULL;
                if (value && *value)
                        *(const char **)parser_field(cli, option) = value;
        }
}

int cli_command_find(const struct cli *cli, const char *name, const struct cli_command **ret_command)
{
        for (size_t i = 0; i < cli->n_commands; i++) {
                if (strcmp(cli->commands[i].name, name) == 0) {
                        *ret_command = &cli->commands[i];
                        return CLI_OK;
                }
        }
        const char *near = ferry_suggest(name, &cli->commands[0].name, cli->n_commands, sizeof(cli->commands[0]));
        return near ? cli_usage_error("no command %s: did you mean %s?", name, near)
                    : cli_usage_error("no command %s (see ferry --help)", name);
}

/* "@prefill" before the command names the worker. */
static bool parser_is_worker(const struct parser *p, const char *text)
{
        return p->kept == 0 && text[0] == '@' && text[1];
}

static int parser_check(const struct parser *p)
{
        if (p->kept == 0)
                return CLI_OK;
        const char *name = p->argv[0];
        int status = cli_command_find(p->cli, name, &p->cli->command);
        if (status != CLI_OK)
                return status;
        for (size_t i = 0; i < cli_options_count; i++) {
                const struct cli_option *option = &cli_options[i];
                const char *value = option->argument ? *(const char **)parser_field(p->cli, option) : NULL;
                if (p->cli->given >> i & 1 && !cli_option_applies(option, p->cli->command))
                        return cli_usage_error("ferry %s has no option --%s (see ferry %s --help)", name, option->name,
                                               name);
                const char *wanted = value ? cli_value_wants(option->argument, value) : NULL;
                if (wanted)
                        return cli_usage_error("--%s: %s is not %s", option->name, value, wanted);
        }
        return CLI_OK;
}

int cli_options_parse(struct cli *cli, int argc, char **argv, int *ret_argc)
{
        struct parser p = { .cli = cli, .argv = argv, .argc = argc, .next = 1 };
        int status = CLI_OK;
        bool options = true;
        parser_environment(cli);
        while (status == CLI_OK && p.next < argc) {
                char *text = argv[p.next++];
                if (!options || text[0] != '-' || !text[1]) {
                        if (options && parser_is_worker(&p, text))
                                cli->url = text;
                        else
                                argv[p.kept++] = text;
                } else if (strcmp(text, "--") == 0) {
                        options = false;
                } else {
                        status = text[1] == '-' ? parser_long(&p, text + 2) : parser_short(&p, text + 1);
                }
        }
        if (status == CLI_OK)
                status = parser_check(&p);
        *ret_argc = p.kept;
        return status;
}
