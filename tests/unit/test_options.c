/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/variables.h>

#include "base/log.h"
#include "base/util.h"
#include "options.h"
#include "unit.h"

/* What the latest command line came to; cleared before the next one. */
static struct options options;
static char message[OPTION_MESSAGE_SIZE];

/* The arguments after the program's name. */
#define PARSE(...) parse((char *const[]){ (char *)(uintptr_t)("ferryd"), ##__VA_ARGS__, NULL })

static int parse(char *const *argv)
{
        int argc = 0;

        while (argv[argc])
                argc++;
        options_clear(&options);
        options = (struct options){ 0 };
        return options_parse(argc, argv, &options, message);
}

static void forget_variables(void)
{
        char variable[OPTION_VARIABLE_SIZE];

        for (size_t i = 0; i < option_count; i++) {
                option_variable(&option_table[i], variable);
                (void)unsetenv(variable);
        }
}

static int setup(void **state)
{
        forget_variables();
        return 0;
}

static int teardown(void **state)
{
        options_clear(&options);
        return 0;
}

TEST_WITH(nothing_given_is_valid_and_leaves_the_defaults, setup, teardown)
{
        assert_int_equal(PARSE(), 0);
        assert_int_equal(options.worker.n_listen, 1);
        assert_string_equal(options.worker.listen[0], "127.0.0.1:9300");
        assert_null(options.worker.data_listen);
        assert_null(options.worker.local);
        assert_false(options.worker.no_auth);
        assert_int_equal(options.log_level, LOG_INFO);
        assert_int_equal(options.log_format, LOG_LOGFMT);
        assert_int_equal(options.drain_timeout_ms, 30000);
}

TEST_WITH(every_type_of_flag_is_read, setup, teardown)
{
        assert_int_equal(PARSE("--name", "kv-0", "--local=off", "--no-auth", "--window", "7", "--memory-limit=1.5G",
                               "--ttl", "90s", "--grace=250ms", "--retention", "2h", "--stall-limit", "3m",
                               "--max-operations=12", "--log-level", "debug", "--log-format=json"),
                         0);
        assert_string_equal(options.worker.name, "kv-0");
        assert_string_equal(options.worker.local, "off");
        assert_true(options.worker.no_auth);
        assert_int_equal(options.worker.window, 7);
        assert_int_equal(options.worker.memory_limit, UINT64_C(3) << 29);
        assert_int_equal(options.worker.ttl_ms, 90000);
        assert_int_equal(options.worker.grace_ms, 250);
        assert_int_equal(options.worker.retention_ms, 7200000);
        assert_int_equal(options.worker.stall_ms, 180000);
        assert_int_equal(options.worker.max_operations, 12);
        assert_int_equal(options.log_level, LOG_DEBUG);
        assert_int_equal(options.log_format, LOG_JSON);
}

/* So that a misspelt one is told by the name of the right one. */
TEST(the_table_of_variables_has_each_flag)
{
        char variable[OPTION_VARIABLE_SIZE];

        for (size_t i = 0; i < option_count; i++) {
                bool found = option_table[i].not_in_environment;

                option_variable(&option_table[i], variable);
                for (size_t k = 0; k < ferry_variables_count; k++)
                        found |= strcmp(ferry_variables[k], variable) == 0;
                if (!found)
                        fail_msg("%s is missing", variable);
        }
}

TEST_WITH(a_value_may_hold_an_equals_sign, setup, teardown)
{
        assert_int_equal(PARSE("--token-file=/etc/a=b"), 0);
        assert_string_equal(options.worker.token_file, "/etc/a=b");
}

TEST_WITH(a_repeated_flag_makes_a_list, setup, teardown)
{
        assert_int_equal(PARSE("--listen", "127.0.0.1:0", "--listen=unix:/run/f.sock", "--listen", "[::1]:80"), 0);
        assert_int_equal(options.worker.n_listen, 3);
        assert_string_equal(options.worker.listen[0], "127.0.0.1:0");
        assert_string_equal(options.worker.listen[1], "unix:/run/f.sock");
        assert_string_equal(options.worker.listen[2], "[::1]:80");
}

TEST_WITH(the_environment_sets_every_type_of_flag, setup, teardown)
{
        (void)setenv("FERRY_DATA_LISTEN", "10.0.0.1:0", 1);
        (void)setenv("FERRY_ALLOW_PEER", "10.0.0.0/8, ::1,host.example", 1);
        (void)setenv("FERRY_NO_AUTH", "true", 1);
        (void)setenv("FERRY_WINDOW", "3", 1);
        (void)setenv("FERRY_CHUNK_SIZE", "1MiB", 1);
        (void)setenv("FERRY_DRAIN_TIMEOUT", "0s", 1);
        (void)setenv("FERRY_LOCAL", "off", 1);
        assert_int_equal(PARSE(), 0);
        assert_string_equal(options.worker.data_listen, "10.0.0.1:0");
        assert_int_equal(options.worker.n_allow_peer, 3);
        assert_string_equal(options.worker.allow_peer[1], "::1");
        assert_string_equal(options.worker.allow_peer[2], "host.example");
        assert_true(options.worker.no_auth);
        assert_int_equal(options.worker.window, 3);
        assert_int_equal(options.worker.chunk_size, 1 << 20);
        assert_int_equal(options.drain_timeout_ms, 0);
        assert_string_equal(options.worker.local, "off");
}

TEST_WITH(a_list_in_the_environment_has_the_elements_between_its_commas, setup, teardown)
{
        (void)setenv("FERRY_LISTEN", " unix:/run/my dir/f.sock , 127.0.0.1:1 ", 1);
        assert_int_equal(PARSE(), 0);
        assert_int_equal(options.worker.n_listen, 2);
        assert_string_equal(options.worker.listen[0], "unix:/run/my dir/f.sock");
        assert_string_equal(options.worker.listen[1], "127.0.0.1:1");
        (void)setenv("FERRY_LISTEN", "127.0.0.1:1 127.0.0.1:2", 1);
        assert_int_equal(PARSE(), -EINVAL);
        assert_non_null(strstr(message, "127.0.0.1:1 127.0.0.1:2"));
}

/* What is set, as text. */
static const char *value_of(const struct option *option)
{
        const void *value = (const char *)&options + option->offset;

        switch (option->type) {
        case OPTION_STRING:
                return *(const char *const *)value;
        case OPTION_LIST:
                return ((const struct option_list *)value)->items[0];
        case OPTION_FLAG:
                return *(const bool *)value ? "1" : "0";
        case OPTION_CHOICE:
                return text_format("%u", *(const unsigned *)value);
        case OPTION_UINT32:
                return text_format("%u", *(const uint32_t *)value);
        default:
                return text_format("%llu", *(const unsigned long long *)value);
        }
}

/* Two texts that the option takes. */
static void find_values(const struct option *option, const char *ret_values[2])
{
        static const char *const texts[] = {
                "1",   "0",   "2",    "64K",  "1M",    "1s",          "2s",          "h",          "g",      "h:1",
                "g:1", "off", "auto", "info", "debug", "127.0.0.1:1", "127.0.0.1:2", "json",       "logfmt", "/a",
                "/b",  "10",  "100",  "128K", "2M",    "10s",         "etcd://h:1",  "etcd://g:1",
        };
        size_t n = 0;

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(texts) && n < 2; i++) {
                struct options tried = { 0 };

                if (option_set(option, &tried, "test", texts[i], message) == 0)
                        ret_values[n++] = texts[i];
                options_clear(&tried);
        }
        if (n < 2)
                fail_msg("no values for --%s", option->flag);
}

/* --flag[=value], and what it comes to. */
static const char *parse_one(const struct option *option, const char *value)
{
        const char *flag = !value                        ? NULL
                           : option->type == OPTION_FLAG ? text_format("--%s", option->flag)
                                                         : text_format("--%s=%s", option->flag, value);
        const char *found;

        if (PARSE((char *)(uintptr_t)flag) != 0)
                fail_msg("--%s: %s", option->flag, message);
        found = text_format("%s", value_of(option));
        return found;
}

TEST_WITH(each_flag_has_a_variable_over_which_it_wins, setup, teardown)
{
        for (size_t i = 0; i < option_count; i++) {
                const struct option *option = &option_table[i];
                char variable[OPTION_VARIABLE_SIZE];
                const char *values[2], *by_flag;

                if (option->not_in_environment)
                        continue;
                option_variable(option, variable);
                find_values(option, values);
                by_flag = parse_one(option, values[0]);
                (void)setenv(variable, values[0], 1);
                if (strcmp(parse_one(option, NULL), by_flag) != 0)
                        fail_msg("%s=%s is not --%s", variable, values[0], option->flag);
                (void)setenv(variable, values[1], 1);
                if (strcmp(parse_one(option, NULL), by_flag) == 0)
                        fail_msg("%s=%s changes nothing", variable, values[1]);
                if (strcmp(parse_one(option, values[0]), by_flag) != 0)
                        fail_msg("%s wins over --%s", variable, option->flag);
                (void)unsetenv(variable);
        }
}

TEST_WITH(the_command_line_wins_over_the_environment, setup, teardown)
{
        (void)setenv("FERRY_NAME", "from-environment", 1);
        (void)setenv("FERRY_LISTEN", "127.0.0.1:1,127.0.0.1:2", 1);
        assert_int_equal(PARSE("--name", "from-flag", "--listen", "127.0.0.1:3", "--listen", "127.0.0.1:4"), 0);
        assert_string_equal(options.worker.name, "from-flag");
        assert_int_equal(options.worker.n_listen, 2);
        assert_string_equal(options.worker.listen[0], "127.0.0.1:3");
}

TEST_WITH(empty_and_foreign_variables_do_not_count, setup, teardown)
{
        (void)setenv("FERRY_NAME", "", 1);
        (void)setenv("FERRY_HELP", "1", 1);
        (void)setenv("FERRY_VERSION", "2", 1);
        (void)setenv("FERRY_PORT", "tcp://10.0.0.1:80", 1);
        assert_int_equal(PARSE(), 0);
        assert_null(options.worker.name);
        assert_false(options.help);
        assert_false(options.version);
}

TEST_WITH(a_flag_in_the_environment_can_be_off, setup, teardown)
{
        (void)setenv("FERRY_NO_AUTH", "0", 1);
        assert_int_equal(PARSE(), 0);
        assert_false(options.worker.no_auth);
}

static void refuse(const char *flag, const char *value, const char *says)
{
        assert_int_equal(PARSE((char *)(uintptr_t)flag, (char *)(uintptr_t)value), -EINVAL);
        assert_non_null(strstr(message, flag));
        assert_non_null(strstr(message, says));
}

/* Each of the values, with that in the message. */
#define REFUSE(flag, says, ...)                                                                                        \
        FOR_EACH_TEXT (value, __VA_ARGS__)                                                                             \
        refuse(flag, value, says)

TEST_WITH(bad_values_are_refused_with_the_flag_and_what_it_takes, setup, teardown)
{
        REFUSE("--listen", "HOST:PORT", "9300", "127.0.0.1", ":9300", "127.0.0.1:65536", "127.0.0.1:-1",
               "127.0.0.1:80x", "http://127.0.0.1:80", "");
        REFUSE("--listen", "[IPV6]:PORT", "::1:80");
        REFUSE("--listen", "unix:/PATH", "unix:relative.sock");
        REFUSE("--data-listen", "HOST:PORT", "unix:/x");
        REFUSE("--name", "letters", "two words", "");
        REFUSE("--name", "63", "0123456789012345678901234567890123456789012345678901234567890123");
        REFUSE("--advertise", "host name", "host:80");
        REFUSE("--allow-origin", "an origin", "tool.example", "https://tool.example/", "https://", "://x", "*");
        REFUSE("--local", "auto, off or an absolute path", "on");
        REFUSE("--log-level", "error|warn|info|debug", "verbose");
        REFUSE("--log-format", "logfmt|json", "xml");
        REFUSE("--window", "1 to 64", "0", "65", "-1", "1.5", " 1", "18446744073709551617");
        REFUSE("--chunk-size", "65536", "1k");
        REFUSE("--chunk-size", "67108864", "2G");
        REFUSE("--chunk-size", "size", "x");
        REFUSE("--memory-limit", "size", "0", "-1");
        REFUSE("--ttl", "500ms", "30", "s", "0s", "25h", "1d", "18446744073709551615s",
               "18446744073709613s" /* 61 s beyond 64 bits */);
        REFUSE("--max-regions", "1 to 60000", "0");
        REFUSE("--token-file", "FILE", "");
}

TEST_WITH(bad_variables_are_refused_by_name, setup, teardown)
{
        static const struct {
                const char *variable, *value;
        } bad[] = {
                { "FERRY_WINDOW", "many" },      { "FERRY_NO_AUTH", "maybe" },
                { "FERRY_LOCAL", "yes" },        { "FERRY_LISTEN", "127.0.0.1:1,,127.0.0.1:2" },
                { "FERRY_LISTEN", "127.0.0.1" }, { "FERRY_GRACE", "1" },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(bad); i++) {
                forget_variables();
                (void)setenv(bad[i].variable, bad[i].value, 1);
                assert_int_equal(PARSE(), -EINVAL);
                assert_non_null(strstr(message, bad[i].variable));
        }
}

TEST_WITH(usage_errors_are_told, setup, teardown)
{
        static char *const bad[][4] = {
                { "ferryd", "--bogus", NULL },
                { "ferryd", "--bogus=1", NULL },
                { "ferryd", "-x", NULL },
                { "ferryd", "-", NULL },
                { "ferryd", "--", NULL },
                { "ferryd", "--listenx", "127.0.0.1:0", NULL },
                { "ferryd", "--liste", "127.0.0.1:0", NULL },
                { "ferryd", "127.0.0.1:0", NULL },
                { "ferryd", "", NULL },
                { "ferryd", "--name", NULL },
                { "ferryd", "--name", "--no-auth", NULL },
                { "ferryd", "--no-auth=1", NULL },
                { "ferryd", "--no-auth", "1", NULL },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(bad); i++) {
                test_row(bad[i][1]);
                assert_int_equal(parse(bad[i]), -EINVAL);
                assert_true(strlen(message) > 10);
        }
}

TEST_WITH(a_message_is_one_clean_line, setup, teardown)
{
        char longest[4096];

        memset(longest, 'x', sizeof(longest));
        longest[sizeof(longest) - 1] = '\0';
        assert_int_equal(PARSE("--name", "a\nb\033[31m"), -EINVAL);
        assert_null(strpbrk(message, "\n\033"));
        assert_int_equal(PARSE("--name", longest), -EINVAL);
        assert_true(strlen(message) < OPTION_MESSAGE_SIZE);
}

TEST_WITH(help_and_version_have_short_forms_and_need_nothing_else, setup, teardown)
{
        (void)setenv("FERRY_WINDOW", "broken", 1);
        assert_int_equal(PARSE("-h"), 0);
        assert_true(options.help);
        assert_int_equal(PARSE("--help", "--bogus"), 0);
        assert_true(options.help);
        assert_int_equal(PARSE("-V"), 0);
        assert_true(options.version);
        assert_int_equal(PARSE("--listen", "127.0.0.1:0", "--version"), 0);
        assert_true(options.version);
}

TEST_WITH(flags_and_variables_are_unique, setup, teardown)
{
        for (size_t i = 0; i < option_count; i++)
                for (size_t j = 0; j < i; j++)
                        assert_string_not_equal(option_table[i].flag, option_table[j].flag);
}

TEST_WITH(help_names_every_flag_in_lines_that_fit, setup, teardown)
{
        char *text = NULL, *line, *rest, needle[64];
        size_t size;
        FILE *file = open_memstream(&text, &size);

        assert_non_null(file);
        options_help(file);
        (void)fclose(file);
        for (size_t i = 0; i < option_count; i++) {
                (void)snprintf(needle, sizeof(needle), "--%s%s%s\n", option_table[i].flag,
                               option_table[i].argument ? " " : "", option_table[i].argument ?: "");
                assert_non_null(strstr(text, needle));
        }
        rest = text;
        while ((line = strsep(&rest, "\n")))
                assert_true(strlen(line) <= 80);
        free(text);
}

/* In mdoc a flag is "Fl -name"; its item in a list starts with it. */
TEST_WITH(the_man_page_describes_every_flag, setup, teardown)
{
        static char page[128 * 1024];
        FILE *file = fopen(FERRYD_MAN_PAGE, "re");
        char needle[64];
        size_t size;

        assert_non_null(file);
        size = fread(page, 1, sizeof(page) - 1, file);
        (void)fclose(file);
        assert_true(size > 0);
        for (size_t i = 0; i < option_count; i++) {
                const struct option *option = &option_table[i];
                char *found = NULL;

                if (option->letter)
                        (void)snprintf(needle, sizeof(needle), "\n.It Fl %c , Fl -%s\n", option->letter, option->flag);
                else
                        (void)snprintf(needle, sizeof(needle), "\n.It Fl -%s%s", option->flag,
                                       option->argument ? " " : "\n");
                found = strstr(page, needle);
                if (!found)
                        print_error("the man page lacks --%s\n", option->flag);
                assert_non_null(found);
        }
}
