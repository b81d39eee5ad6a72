/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>
#include <string.h>

#include "member.h"
#include "table.h"

/* Scripts for shells, from the tables of commands and options, and the words that the scripts ask this command for. */

/* What a command's arguments stand for: the nouns that ferry completion lists. "" = none. */
static const char *completion_nouns(const struct cli_command *command)
{
        static const struct {
                const char *argument, *nouns;
        } known[] = { { "OPERATION", "operations" }, { "ID", "operations regions" },
                      { "FROM TO", "regions" },      { "FILE|OFFER", "offers workers" },
                      { "URL", "offers" },           { "METADATA", "offers" },
                      { "PEER", "workers" } };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(known); i++)
                if (strstr(command->arguments, known[i].argument))
                        return known[i].nouns;
        return "";
}

static bool completion_takes_files(const struct cli_command *command)
{
        return !*completion_nouns(command) || strstr(command->arguments, "FILE") ||
               strstr(command->arguments, "FROM") || strstr(command->arguments, "METADATA");
}

static void completion_words(const struct cli *cli, const struct cli_command *command)
{
        for (size_t i = 0; i < cli->base.n; i++) {
                if (cli_option_belongs(&cli->base.table[i], command))
                        printf(" --%s", cli->base.table[i].name);
        }
}

enum completion_options {
        OPTIONS_ALL,
        OPTIONS_FILES,  /* that take a file */
        OPTIONS_COMMON, /* of every command */
};

/* Options with an argument as a pattern of case. */
static void completion_pattern(const struct cli *cli, enum completion_options which)
{
        const char *between = "";
        for (size_t i = 0; i < cli->base.n; i++) {
                const struct ferry_option *option = &cli->base.table[i];
                if (!option->argument || (which == OPTIONS_FILES && strcmp(option->argument, "FILE") != 0) ||
                    (which == OPTIONS_COMMON && option->part))
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
 * fails outside of a completion. What a worker names is quoted: the shell will read it.
 */
static const char completion_bash_start[] =
        "# bash completion of ferry\n"
        "_ferry_words() {\n"
        "        compopt +o filenames 2>/dev/null\n"
        "        mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$current\")\n"
        "}\n"
        "_ferry_files() {\n"
        "        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$current\")\n"
        "}\n"
        "_ferry_ask() {\n"
        "        local noun word worker=$own_worker prefix=\n"
        "        compopt +o filenames 2>/dev/null\n"
        "        [[ $current == @*/* ]] && worker=${current%%/*} && prefix=$worker/\n"
        "        for noun; do\n"
        "                while read -r word; do\n"
        "                        printf -v word %q \"$word\"\n"
        "                        [[ $prefix$word == \"$current\"* ]] && COMPREPLY+=(\"$prefix$word\")\n"
        "                done < <(\"$ferry\" ${worker:+\"$worker\"} \"${own[@]}\" --answer-timeout 1s completion $noun "
        "\\\n"
        "                        2>/dev/null)\n"
        "        done\n"
        "}\n"
        "_ferry_unbroken() {\n"
        "        local kept=${current%\"$replaced\"}\n"
        "        COMPREPLY=(\"${COMPREPLY[@]#\"$kept\"}\")\n"
        "}\n"
        "_ferry() {\n"
        "        local rest=${COMP_LINE:0:COMP_POINT} ferry=$1 replaced=$2 command= before current word blanks border "
        "i\n"
        "        local own_worker=\n"
        "        local -a words=() own=()\n"
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
        "                case ${words[i]} in";

/* A line of case for each command that has what a function prints. */
static void completion_cases(const struct cli *cli, const char *between, const char *end,
                             void (*print)(const struct cli *cli, const struct cli_command *command))
{
        for (size_t i = 0; i < cli->n_commands; i++) {
                printf("                %s) %s", cli->commands[i].name, between);
                print(cli, &cli->commands[i]);
                puts(end);
        }
}

static void completion_arguments(const struct cli *cli, const struct cli_command *command)
{
        const char *nouns = completion_nouns(command);
        (void)cli;
        if (*nouns)
                printf("_ferry_ask %s; ", nouns);
        fputs(completion_takes_files(command) ? "_ferry_files" : ":", stdout);
}

static void completion_bash(const struct cli *cli)
{
        puts(completion_bash_start);
        fputs("                ", stdout);
        completion_pattern(cli, OPTIONS_COMMON);
        fputs(") own+=(\"${words[i]}\" \"${words[i + 1]}\") i=$((i + 1)) ;;\n                ", stdout);
        completion_pattern(cli, OPTIONS_ALL);
        puts(") i=$((i + 1)) ;;\n"
             "                --url=*) own+=(\"${words[i]}\") ;;\n"
             "                -*) ;;\n"
             "                @*) own_worker=${words[i]} ;;\n"
             "                *) [[ $command ]] || command=${words[i]} ;;\n"
             "                esac\n"
             "        done\n"
             "        if [[ $current == --*=* ]]; then\n"
             "                before=${current%%=*} current=${current#*=}\n"
             "        fi\n"
             "        case $before in\n"
             "        --kind) _ferry_words 'readable read writable write'; return ;;\n"
             "        --status) _ferry_words 'INITIALIZED IN_PROGRESS COMPLETE CANCELLED ERRORED'; return ;;\n"
             "        --url | -u) _ferry_ask workers; _ferry_unbroken; return ;;");
        fputs("        ", stdout);
        completion_pattern(cli, OPTIONS_FILES);
        fputs(") _ferry_files; _ferry_unbroken; return ;;\n        ", stdout);
        completion_pattern(cli, OPTIONS_ALL);
        puts(") return ;;\n"
             "        esac\n"
             "        if [[ $current == @* && $current != */* ]]; then\n"
             "                _ferry_ask workers\n"
             "        elif [[ $current == -* ]]; then\n"
             "                local options");
        fputs("                options='", stdout);
        completion_words(cli, NULL);
        puts("'\n                case $command in");
        completion_cases(cli, "options+='", "' ;;", completion_words);
        fputs("                esac\n"
              "                _ferry_words \"$options\"\n"
              "        elif [[ -z $command || $command == help ]]; then\n"
              "                _ferry_words '",
              stdout);
        completion_names(cli);
        puts("'\n"
             "        elif [[ $command == completion ]]; then\n"
             "                _ferry_words 'bash zsh fish operations offers regions workers'\n"
             "        else\n"
             "                case $command in");
        completion_cases(cli, "", " ;;", completion_arguments);
        puts("                *) _ferry_files ;;\n"
             "                esac\n"
             "                _ferry_unbroken\n"
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
             "_ferry_arguments() {\n"
             "        local word noun\n"
             "        local -a own nouns found\n"
             "        [[ -n $opt_args[--url] ]] && own=(--url $opt_args[--url])\n"
             "        for word in $words[2,CURRENT-1]; do\n"
             "                case $word in\n"
             "                @*) own+=($word) ;;");
        for (size_t i = 0; i < cli->n_commands; i++)
                if (*completion_nouns(&cli->commands[i]))
                        printf("                %s) nouns=(%s) ;;\n", cli->commands[i].name,
                               completion_nouns(&cli->commands[i]));
        puts("                esac\n"
             "        done\n"
             "        for noun in $nouns; do\n"
             "                found+=(${(f)\"$(_call_program $noun $words[1] ${(q)own} --answer-timeout 1s completion "
             "$noun "
             "2>/dev/null)\"})\n"
             "        done\n"
             "        compadd -a found\n"
             "        _files\n"
             "}\n"
             "_ferry() {\n"
             "        local -a commands\n"
             "        local -A opt_args\n"
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
             "                '*:argument:_ferry_arguments'\n"
             "}\n"
             "_ferry \"$@\"");
}

static void completion_fish(const struct cli *cli)
{
        puts("# fish completion of ferry\n"
             "function __ferry_ask\n"
             "        set -l own (string match -r '^@.*' -- (commandline -opc)[2])\n"
             "        for noun in $argv\n"
             "                command ferry $own --answer-timeout 1s completion $noun 2>/dev/null\n"
             "        end\n"
             "end");
        for (size_t i = 0; i < cli->n_commands; i++) {
                const struct cli_command *command = &cli->commands[i];
                printf("complete -c ferry -n __fish_use_subcommand -a %s -d '", command->name);
                completion_quoted(command->help, "\\'");
                puts("'");
                if (*completion_nouns(command))
                        printf("complete -c ferry -n '__fish_seen_subcommand_from %s' -a '(__ferry_ask %s)'\n",
                               command->name, completion_nouns(command));
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

/* ---- what there is ---- */

enum { COMPLETION_PAGE = 200 };

/* The newest of a list, one on a line. offers: only what a peer can use. */
static int completion_list(struct cli *cli, const char *member, const char *query, bool offers)
{
        struct json_object *page = NULL, *list;
        char path[96];
        snprintf(path, sizeof(path), "/v1/%s?limit=%d%s", member, COMPLETION_PAGE, query);
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = table_get(&cli->worker, path, member, json_type_array, &page);
        for (size_t i = 0, n = member_list(page, member, &list); i < n; i++) {
                struct json_object *one = json_object_array_get_idx(list, i);
                char id[FERRY_ID_SIZE];
                if (offers && !strstr(member_text(one, "kind", ""), "able"))
                        continue;
                snprintf(id, sizeof(id), "%s", member_text(one, "id", ""));
                cli_mask_controls(id);
                puts(id);
        }
        json_object_put(page);
        return status;
}

static int completion_operations(struct cli *cli)
{
        return completion_list(cli, "operations", "&order=newest", false);
}

static int completion_offers(struct cli *cli)
{
        return completion_list(cli, "operations", "&order=newest&done=false", true);
}

static int completion_regions(struct cli *cli)
{
        return completion_list(cli, "regions", "", false);
}

/* @NAME of the file, and ferry://NAME of the registry. */
static int completion_workers(struct cli *cli)
{
        struct json_object *page = NULL, *list;
        worker_names_print();
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = table_get(&cli->worker, "/v1/peers?registry=1&limit=200", "peers", json_type_array, &page);
        for (size_t i = 0, n = member_list(page, "peers", &list); i < n; i++) {
                char name[128];
                table_format(json_object_array_get_idx(list, i), &(struct table_column){ "", "worker", TABLE_TEXT },
                             name, sizeof(name));
                printf("ferry://%s\n", name);
        }
        json_object_put(page);
        return status;
}

int cli_run_completion(struct cli *cli, int argc, char **argv)
{
        static const struct {
                const char *name;
                void (*print)(const struct cli *cli);
        } shells[] = { { "bash", completion_bash }, { "zsh", completion_zsh }, { "fish", completion_fish } };
        static const struct {
                const char *name;
                int (*list)(struct cli *cli);
        } nouns[] = { { "operations", completion_operations },
                      { "offers", completion_offers },
                      { "regions", completion_regions },
                      { "workers", completion_workers } };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(shells); i++) {
                if (strcmp(shells[i].name, argv[1]) == 0) {
                        shells[i].print(cli);
                        return CLI_OK;
                }
        }
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(nouns); i++)
                if (strcmp(nouns[i].name, argv[1]) == 0)
                        return nouns[i].list(cli);
        return cli_usage_error("no completion for %s: bash, zsh or fish", argv[1]);
}
