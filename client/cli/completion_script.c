/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli.h"

/*
 * Completion scripts for bash, zsh and fish, made of the tables of commands and options, so that a new command needs
 * nothing here. A script finds the command and the worker of the line that is typed, and runs `ferry completion NOUN`
 * with the same worker for what only that one knows, with a time limit of 1 s.
 */

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
        return strstr(command->arguments, "FILE") || strstr(command->arguments, "FROM") ||
               strstr(command->arguments, "METADATA");
}

/* Options with a fixed set of words, which the shells offer. "" = none. */
static const char *completion_choices(const struct ferry_option *option)
{
        if (strcmp(option->name, "kind") == 0)
                return "readable read writable write";
        return strcmp(option->name, "status") == 0 ? "INITIALIZED IN_PROGRESS COMPLETE CANCELLED ERRORED" : "";
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
             "        --url | -u) _ferry_ask workers; _ferry_unbroken; return ;;");
        for (size_t i = 0; i < cli->base.n; i++) {
                const char *choices = completion_choices(&cli->base.table[i]);
                if (*choices)
                        printf("        --%s) _ferry_words '%s'; return ;;\n", cli->base.table[i].name, choices);
        }
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

/* Writes a text that stands in single quotes; quote: what stands for a quote in it. */
static void completion_quoted(const char *text, const char *quote)
{
        for (; *text; text++) {
                if (*text == '\'')
                        fputs(quote, stdout);
                else
                        putchar(*text);
        }
}

/* One option in the form that _arguments takes: '(-u --url)'{-u+,--url=}'[what it is for]:URL:what completes URL'. */
static void completion_zsh_option(const struct ferry_option *option)
{
        const char *repeats = option->kind == FERRY_OPTION_LIST ? "*" : "", *argument = option->argument;
        fputs("\n                ", stdout);
        if (option->letter)
                printf("'(-%c --%s)'{-%c%s,--%s%s}'[", option->letter, option->name, option->letter,
                       argument ? "+" : "", option->name, argument ? "=" : "");
        else
                printf("'%s--%s%s[", repeats, option->name, argument ? "=" : "");
        for (const char *c = option->text; *c; c++) {
                if (*c == '\'')
                        fputs("'\\''", stdout);
                else if (!strchr("[]", *c))
                        putchar(*c);
        }
        putchar(']');
        if (argument) {
                putchar(':');
                for (const char *c = argument; *c; c++)
                        printf("%s%c", *c == ':' ? "\\" : "", *c);
                if (strcmp(argument, "FILE") == 0)
                        fputs(":_files", stdout);
                else if (strcmp(option->name, "url") == 0)
                        fputs(": _ferry_ask workers", stdout);
                else if (*completion_choices(option))
                        printf(":(%s)", completion_choices(option));
        }
        putchar('\'');
}

static void completion_zsh_options(const struct cli *cli, const struct cli_command *command)
{
        for (size_t i = 0; i < cli->base.n; i++) {
                if (cli_option_belongs(&cli->base.table[i], command))
                        completion_zsh_option(&cli->base.table[i]);
        }
}

static void completion_zsh_arguments(const struct cli *cli, const struct cli_command *command)
{
        const char *nouns = completion_nouns(command);
        (void)cli;
        if (*nouns)
                printf("_ferry_ask %s; ", nouns);
        fputs(completion_takes_files(command) ? "_files" : ":", stdout);
}

/*
 * _ferry finds the command and the worker of the line, and takes "@NAME" before the command away: what _arguments sees
 * begins with the command. The file works in a directory of fpath, and by source.
 */
static const char completion_zsh_start[] =
        "#compdef ferry\n"
        "# zsh completion of ferry\n"
        "_ferry_ask() {\n"
        "        local noun\n"
        "        local -a found\n"
        "        [[ $PREFIX == @*/* ]] && own=(${PREFIX%%/*}) && compset -P '*/'\n"
        "        for noun; do\n"
        "                found+=(${(f)\"$($ferry $own --answer-timeout 1s completion $noun 2>/dev/null)\"})\n"
        "        done\n"
        "        compadd -a found\n"
        "}\n"
        "_ferry_command() {\n"
        "        local -a commands\n"
        "        if [[ $PREFIX == @* ]]; then\n"
        "                _ferry_ask workers\n"
        "                return\n"
        "        fi\n"
        "        commands=(";

static void completion_zsh(const struct cli *cli)
{
        puts(completion_zsh_start);
        for (size_t i = 0; i < cli->n_commands; i++) {
                printf("                '%s:", cli->commands[i].name);
                completion_quoted(cli->commands[i].help, "'\\''");
                puts("'");
        }
        puts("        )\n"
             "        _describe command commands\n"
             "}\n"
             "_ferry_arguments() {\n"
             "        if [[ $PREFIX == @* && $PREFIX != */* ]]; then\n"
             "                _ferry_ask workers\n"
             "                return\n"
             "        fi\n"
             "        case $command in\n"
             "        help) _ferry_command; return ;;\n"
             "        completion) compadd bash zsh fish operations offers regions workers; return ;;");
        completion_cases(cli, "", " ;;", completion_zsh_arguments);
        puts("        esac\n"
             "}\n"
             "_ferry() {\n"
             "        local ferry=${(Q)words[1]} command=\n"
             "        local -i i at=0\n"
             "        local -a own options\n"
             "        local -A opt_args\n"
             "        for ((i = 2; i < CURRENT; i++)); do\n"
             "                case $words[i] in");
        fputs("                ", stdout);
        completion_pattern(cli, OPTIONS_COMMON);
        fputs(") own+=(\"${(Q)words[i]}\" \"${(Q)words[i + 1]}\"); ((i++)) ;;\n                ", stdout);
        completion_pattern(cli, OPTIONS_ALL);
        fputs(") ((i++)) ;;\n"
              "                --url=*) own+=(\"${(Q)words[i]}\") ;;\n"
              "                -*) ;;\n"
              "                @*) [[ $command ]] || { own+=($words[i]); at=i } ;;\n"
              "                *) [[ $command ]] || command=$words[i] ;;\n"
              "                esac\n"
              "        done\n"
              "        ((at)) && words[at]=() && ((CURRENT--))\n"
              "        options=(",
              stdout);
        completion_zsh_options(cli, NULL);
        puts("\n"
             "        )\n"
             "        case $command in");
        completion_cases(cli, "options+=(", ") ;;", completion_zsh_options);
        puts("        esac\n"
             "        _arguments -s $options '1:command:_ferry_command' '*:argument:_ferry_arguments'\n"
             "}\n"
             "if [[ $funcstack[1] == _ferry ]]; then _ferry \"$@\"; else compdef _ferry ferry; fi");
}

/* Options with an argument as patterns of switch. */
static void completion_fish_pattern(const struct cli *cli, bool common)
{
        for (size_t i = 0; i < cli->base.n; i++) {
                const struct ferry_option *option = &cli->base.table[i];
                if (!option->argument || (common && option->part))
                        continue;
                printf(" --%s", option->name);
                if (option->letter)
                        printf(" -%c", option->letter);
        }
}

static void completion_fish_functions(const struct cli *cli)
{
        fputs("# fish completion of ferry\n"
              "# The command of the line, or its words that name the worker.\n"
              "function __ferry_line -a wanted\n"
              "        set -l words (commandline -opc)\n"
              "        set -l command\n"
              "        set -l option\n"
              "        set -e words[1]\n"
              "        for word in $words\n"
              "                if set -q option[1]\n"
              "                        test $option[1] = $wanted; and printf '%s\\n' $option[2] $word\n"
              "                        set option\n"
              "                        continue\n"
              "                end\n"
              "                switch $word\n"
              "                        case",
              stdout);
        completion_fish_pattern(cli, true);
        fputs("\n"
              "                                set option own $word\n"
              "                        case",
              stdout);
        completion_fish_pattern(cli, false);
        puts("\n"
             "                                set option other $word\n"
             "                        case '--url=*'\n"
             "                                test $wanted = own; and printf '%s\\n' $word\n"
             "                        case '-*'\n"
             "                        case '@*'\n"
             "                                test $wanted = own; and not set -q command[1]; and printf '%s\\n' $word\n"
             "                        case '*'\n"
             "                                set command $command $word\n"
             "                end\n"
             "        end\n"
             "        test $wanted = command; and set -q command[1]; and printf '%s\\n' $command[1]\n"
             "end\n"
             "function __ferry_is\n"
             "        set -l name (__ferry_line command)\n"
             "        and contains -- $name $argv\n"
             "end\n"
             "function __ferry_ask\n"
             "        set -l own (__ferry_line own)\n"
             "        set -l prefix (string match -r '^@[^/]*/' -- (commandline -ct))\n"
             "        set -q prefix[1]; and set own (string trim -r -c / $prefix)\n"
             "        for noun in $argv\n"
             "                command ferry $own --answer-timeout 1s completion $noun 2>/dev/null | "
             "string replace -r '^' \"$prefix\"\n"
             "        end\n"
             "end\n"
             "function __ferry_names_worker\n"
             "        string match -qr '^@[^/]*$' -- (commandline -ct)\n"
             "end\n"
             "complete -c ferry -n 'not __ferry_line command >/dev/null' -f\n"
             "complete -c ferry -n __ferry_names_worker -f -a '(__ferry_ask workers)'\n"
             "complete -c ferry -n '__ferry_is completion' -f -a 'bash zsh fish operations offers regions workers'");
        fputs("complete -c ferry -n '__ferry_is help' -f -a '", stdout);
        completion_names(cli);
        puts("'");
}

static void completion_fish_command(const struct cli_command *command)
{
        const char *nouns = completion_nouns(command);
        printf("complete -c ferry -n 'not __ferry_line command >/dev/null' -a %s -d '", command->name);
        completion_quoted(command->help, "\\'");
        puts("'");
        if (*nouns)
                printf("complete -c ferry -n '__ferry_is %s; and not __ferry_names_worker' -a '(__ferry_ask %s)'\n",
                       command->name, nouns);
        if (!completion_takes_files(command))
                printf("complete -c ferry -n '__ferry_is %s' -f\n", command->name);
}

static void completion_fish_option(const struct ferry_option *option)
{
        printf("complete -c ferry -l %s", option->name);
        if (option->letter)
                printf(" -s %c", option->letter);
        if (option->argument)
                fputs(strcmp(option->argument, "FILE") == 0 ? " -r -F" : " -x", stdout);
        if (strcmp(option->name, "url") == 0)
                fputs(" -a '(__ferry_ask workers)'", stdout);
        if (*completion_choices(option))
                printf(" -a '%s'", completion_choices(option));
        if (option->part)
                printf(" -n '__ferry_is %s'", option->part);
        fputs(" -d '", stdout);
        completion_quoted(option->text, "\\'");
        puts("'");
}

static void completion_fish(const struct cli *cli)
{
        completion_fish_functions(cli);
        for (size_t i = 0; i < cli->n_commands; i++)
                completion_fish_command(&cli->commands[i]);
        for (size_t i = 0; i < cli->base.n; i++) {
                if (cli->base.table[i].text)
                        completion_fish_option(&cli->base.table[i]);
        }
}

bool completion_script(const struct cli *cli, const char *shell)
{
        static const struct {
                const char *name;
                void (*print)(const struct cli *cli);
        } shells[] = { { "bash", completion_bash }, { "zsh", completion_zsh }, { "fish", completion_fish } };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(shells); i++) {
                if (strcmp(shells[i].name, shell) == 0) {
                        shells[i].print(cli);
                        return true;
                }
        }
        return false;
}
