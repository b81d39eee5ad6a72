/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli.h"

/* Scripts for shells, from the tables of commands and options. */

static void completion_words(const struct cli *cli, const struct cli_command *command)
{
        for (size_t i = 0; i < cli->base.n; i++) {
                if (cli_option_belongs(&cli->base.table[i], command))
                        printf(" --%s", cli->base.table[i].name);
        }
}

/* Options with an argument as a pattern of case; files: those alone that take a file. */
static void completion_pattern(const struct cli *cli, bool files)
{
        const char *between = "";
        for (size_t i = 0; i < cli->base.n; i++) {
                const struct ferry_option *option = &cli->base.table[i];
                if (!option->argument || (files && strcmp(option->argument, "FILE") != 0))
                        continue;
                printf("%s--%s", between, option->name);
                if (option->letter)
                        printf(" | -%c", option->letter);
                between = " | ";
        }
}

static void completion_names(const struct cli *cli)
{
        for (size_t i = 0; i < cli->n_commands; i++)
                printf("%s%s", i ? " " : "", cli->commands[i].name);
}

/*
 * Bash splits COMP_WORDS at '@', ':' and '=' as well; the script joins them again. A completion replaces $2: what
 * follows ':' or '=', and a word from its '@' on. Bash expands the words of compgen -W: they must be our own. compopt
 * fails outside of a completion.
 */
static void completion_bash(const struct cli *cli)
{
        puts("# bash completion of ferry\n"
             "_ferry_words() {\n"
             "        compopt +o filenames 2>/dev/null\n"
             "        mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$current\")\n"
             "}\n"
             "_ferry_files() {\n"
             "        local before=${current%\"$replaced\"}\n"
             "        mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
             "        COMPREPLY=(\"${COMPREPLY[@]#\"$before\"}\")\n"
             "}\n"
             "_ferry_workers() {\n"
             "        local name file=${XDG_CONFIG_HOME:-$HOME/.config}/ferry/workers\n"
             "        compopt +o filenames 2>/dev/null\n"
             "        [[ -r $file ]] || return\n"
             "        while read -r name _ || [[ $name ]]; do\n"
             "                name=${name%%#*}\n"
             "                [[ $name ]] && printf -v name %q \"@$name\" && [[ $name == \"$current\"* ]] &&\n"
             "                        COMPREPLY+=(\"$name\")\n"
             "        done <\"$file\"\n"
             "}\n"
             "_ferry() {\n"
             "        local rest=${COMP_LINE:0:COMP_POINT} replaced=$2 command= before current word blanks border i\n"
             "        local -a words=()\n"
             "        for ((i = 0; i <= COMP_CWORD; i++)); do\n"
             "                blanks=${rest%%[![:blank:]]*} word=${COMP_WORDS[i]}\n"
             "                rest=${rest#\"$blanks\"}\n"
             "                ((i == COMP_CWORD)) && word=$rest\n"
             "                rest=${rest#\"$word\"}\n"
             "                border=${COMP_WORDS[i - 1]: -1}${COMP_WORDS[i]:0:1}\n"
             "                if ((i)) && [[ -z $blanks && $border == *[@:=]* ]]; then\n"
             "                        words[${#words[@]} - 1]+=$word\n"
             "                else\n"
             "                        words+=(\"$word\")\n"
             "                fi\n"
             "        done\n"
             "        current=${words[${#words[@]} - 1]} before=${words[${#words[@]} - 2]}\n"
             "        COMPREPLY=()\n"
             "        for ((i = 1; i < ${#words[@]} - 1; i++)); do\n"
             "                case ${words[i]} in");
        fputs("                ", stdout);
        completion_pattern(cli, false);
        puts(") i=$((i + 1)) ;;\n"
             "                -* | @*) ;;\n"
             "                *) command=${words[i]}; break ;;\n"
             "                esac\n"
             "        done\n"
             "        if [[ $current == --*=* ]]; then\n"
             "                before=${current%%=*} current=${current#*=}\n"
             "        fi\n"
             "        case $before in\n"
             "        --kind) _ferry_words 'readable read writable write'; return ;;\n"
             "        --status) _ferry_words 'INITIALIZED IN_PROGRESS COMPLETE CANCELLED ERRORED'; return ;;\n"
             "        --url | -u) _ferry_workers; return ;;");
        fputs("        ", stdout);
        completion_pattern(cli, true);
        fputs(") _ferry_files; return ;;\n        ", stdout);
        completion_pattern(cli, false);
        puts(") return ;;\n"
             "        esac\n"
             "        if [[ $current == @* ]]; then\n"
             "                _ferry_workers\n"
             "        elif [[ $current == -* ]]; then\n"
             "                local options");
        fputs("                options='", stdout);
        completion_words(cli, NULL);
        puts("'\n                case $command in");
        for (size_t i = 0; i < cli->n_commands; i++) {
                printf("                %s) options+='", cli->commands[i].name);
                completion_words(cli, &cli->commands[i]);
                puts("' ;;");
        }
        fputs("                esac\n"
              "                _ferry_words \"$options\"\n"
              "        elif [[ -z $command || $command == help ]]; then\n"
              "                _ferry_words '",
              stdout);
        completion_names(cli);
        puts("'\n"
             "        elif [[ $command == completion ]]; then\n"
             "                _ferry_words 'bash zsh fish'\n"
             "        else\n"
             "                _ferry_files\n"
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

static void completion_zsh_option(const struct ferry_option *option)
{
        printf(" \\\n                '--%s%s[", option->name, option->argument ? "=" : "");
        for (const char *c = option->text; *c; c++) {
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
        for (size_t i = 0; i < cli->base.n; i++) {
                if (cli->base.table[i].text)
                        completion_zsh_option(&cli->base.table[i]);
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
        for (size_t i = 0; i < cli->base.n; i++) {
                const struct ferry_option *option = &cli->base.table[i];
                if (!option->text)
                        continue;
                printf("complete -c ferry -l %s", option->name);
                if (option->letter)
                        printf(" -s %c", option->letter);
                if (option->argument)
                        fputs(strcmp(option->argument, "FILE") == 0 ? " -r -F" : " -x", stdout);
                if (option->part)
                        printf(" -n '__fish_seen_subcommand_from %s'", option->part);
                fputs(" -d '", stdout);
                completion_quoted(option->text, "\\'");
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
