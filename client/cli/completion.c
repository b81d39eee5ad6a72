/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli.h"

/* Scripts for shells, from the tables of commands and options. */

static void completion_words(const struct cli_command *command)
{
        for (size_t i = 0; i < cli_options_count; i++) {
                const struct cli_option *option = &cli_options[i];
                bool own = command ? option->commands && cli_option_applies(option, command) : !option->commands;
                if (own && option->offset != offsetof(struct cli, mdoc))
                        printf(" --%s", option->name);
        }
}

/* What the word after one of these may be. */
static const struct {
        const char *before, *values;
} completion_known[] = {
        { "--kind", "readable read writable write" },
        { "--status", "INITIALIZED IN_PROGRESS COMPLETE CANCELLED ERRORED" },
        { "completion", "bash zsh fish" },
};

static void completion_values(void)
{
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(completion_known); i++)
                printf("        %s) mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$current\"); return ;;\n",
                       completion_known[i].before, completion_known[i].values);
}

static void completion_bash(const struct cli *cli)
{
        puts("# bash completion of ferry\n"
             "_ferry() {\n"
             "        local word command=\n"
             "        local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
             "        local file=${XDG_CONFIG_HOME:-$HOME/.config}/ferry/workers\n"
             "        COMPREPLY=()\n"
             "        for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
             "                [[ $word == [-@]* ]] || { command=$word; break; }\n"
             "        done\n"
             "        if [[ $current == @* && -r $file ]]; then\n"
             "                mapfile -t COMPREPLY < <(compgen -W \"$(sed -n 's/^[ \t]*\\([^# \t]\\{1,\\}\\).*/@\\1/p' "
             "\"$file\")\" -- \"$current\")\n"
             "                return\n"
             "        fi\n"
             "        case $before in");
        completion_values();
        puts("        esac\n"
             "        if [[ $current == -* ]]; then\n"
             "                local options");
        fputs("                options='", stdout);
        completion_words(NULL);
        puts("'\n                case $command in");
        for (size_t i = 0; i < cli->n_commands; i++) {
                printf("                %s) options+='", cli->commands[i].name);
                completion_words(&cli->commands[i]);
                puts("' ;;");
        }
        fputs("                esac\n"
              "                mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$current\")\n"
              "        elif [[ -z $command || $before == help ]]; then\n"
              "                mapfile -t COMPREPLY < <(compgen -W '",
              stdout);
        for (size_t i = 0; i < cli->n_commands; i++)
                printf("%s%s", i ? " " : "", cli->commands[i].name);
        puts("' -- \"$current\")\n"
             "        else\n"
             "                mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
             "        fi\n"
             "}\n"
             "complete -o filenames -F _ferry ferry");
}

/* In single quotes. */
static void completion_quoted(const char *text, const char *quote)
{
        for (; *text; text++) {
                if (*text == '\'')
                        fputs(quote, stdout);
                else
                        putchar(*text);
        }
}

static void completion_zsh_option(const struct cli_option *option)
{
        printf(" \\\n                '--%s%s[", option->name, option->argument ? "=" : "");
        for (const char *c = option->help; *c; c++) {
                if (*c == '\'')
                        fputs("'\\''", stdout);
                else if (!strchr("[]", *c))
                        putchar(*c);
        }
        printf("]%s%s'", option->argument ? ":" : "", option->argument ? option->argument : "");
        if (option->argument && strcmp(option->argument, "FILE") == 0)
                fputs(":_files", stdout);
}

static void completion_zsh(const struct cli *cli)
{
        puts("#compdef ferry\n"
             "_ferry() {\n"
             "        local -a commands\n"
             "        commands=(");
        for (size_t i = 0; i < cli->n_commands; i++) {
                printf("                '%s:", cli->commands[i].name);
                completion_quoted(cli->commands[i].help, "'\\''");
                puts("'");
        }
        fputs("        )\n        _arguments", stdout);
        for (size_t i = 0; i < cli_options_count; i++) {
                if (cli_options[i].offset != offsetof(struct cli, mdoc))
                        completion_zsh_option(&cli_options[i]);
        }
        puts(" \\\n"
             "                '1:command:{_describe command commands}' \\\n"
             "                '*:file:_files'\n"
             "}\n"
             "_ferry \"$@\"");
}

static void completion_fish(const struct cli *cli)
{
        puts("# fish completion of ferry");
        for (size_t i = 0; i < cli->n_commands; i++) {
                printf("complete -c ferry -n __fish_use_subcommand -a %s -d '", cli->commands[i].name);
                completion_quoted(cli->commands[i].help, "\\'");
                puts("'");
        }
        for (size_t i = 0; i < cli_options_count; i++) {
                const struct cli_option *option = &cli_options[i];
                if (option->offset == offsetof(struct cli, mdoc))
                        continue;
                printf("complete -c ferry -l %s", option->name);
                if (option->letter)
                        printf(" -s %c", option->letter);
                if (option->argument)
                        fputs(strcmp(option->argument, "FILE") == 0 ? " -r -F" : " -x", stdout);
                if (option->commands)
                        printf(" -n '__fish_seen_subcommand_from %s'", option->commands);
                fputs(" -d '", stdout);
                completion_quoted(option->help, "\\'");
                puts("'");
        }
}

int cli_run_completion(struct cli *cli, int argc, char **argv)
{
        static const struct {
                const char *name;
                void (*print)(const struct cli *cli);
        } shells[] = { { "bash", completion_bash }, { "zsh", completion_zsh }, { "fish", completion_fish } };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(shells); i++) {
                if (strcmp(shells[i].name, argv[1]) == 0) {
                        shells[i].print(cli);
                        return CLI_OK;
                }
        }
        return cli_usage_error("no completion for %s: bash, zsh or fish", argv[1]);
}
