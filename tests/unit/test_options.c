/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/options.h>

#include "base/log.h"
#include "base/util.h"
#include "ferryd.h"
#include "unit.h"

/* What the latest command line came to; cleared before the next one. */
static struct ferry_worker_options options;
#define message options.base.message

/* The arguments after the program's name. */
#define PARSE(...) parse((char *const[]){ (char *)(uintptr_t)("ferryd"), ##__VA_ARGS__, NULL })

static int parse(char *const *argv)
{
        int argc = 0;

        while (argv[argc])
                argc++;
        ferry_options_clear(&options.base);
        return options_parse(argc, argv, &options);
}

static void forget_variables(void)
{
        for (size_t i = 0; i < ferry_variables_count; i++)
                if (ferry_variables[i])
                        (void)unsetenv(ferry_variables[i]);
}

static int setup(void **state)
{
        forget_variables();
        return 0;
}

static int teardown(void **state)
{
        ferry_options_clear(&options.base);
        return 0;
}

TEST_WITH(nothing_given_is_valid_and_leaves_the_defaults, setup, teardown)
{
        assert_int_equal(PARSE(), 0);
        assert_int_equal(options.listen.n, 1);
        assert_string_equal(options.listen.items[0], "127.0.0.1:9300");
        assert_null(options.data_listen);
        assert_null(options.local);
        assert_false(options.no_auth);
        assert_int_equal(options.log_level, LOG_INFO);
        assert_int_equal(options.log_format, LOG_LOGFMT);
        assert_int_equal(options.drain_timeout_ms, 30000);
}

TEST_WITH(each_default_is_a_value, setup, teardown)
{
        assert_int_equal(PARSE(), 0);
        for (size_t i = 0; i < options.base.n; i++) {
                const struct ferry_option *option = &options.base.table[i];
                struct ferry_worker_options tried = { 0 };

                worker_options_init(&tried, true);
                if (option->fallback && ferry_option_set(&tried.base, option, option->name, option->fallback) != 0)
                        fail_msg("--%s: %s", option->name, option->fallback);
                ferry_options_clear(&tried.base);
        }
}

TEST_WITH(every_type_of_flag_is_read, setup, teardown)
{
        assert_int_equal(PARSE("--name", "kv-0", "--local=off", "--no-auth", "--window", "7", "--memory-limit=1.5G",
                               "--ttl", "90s", "--grace=250ms", "--retention", "2h", "--stall-limit", "3m",
                               "--max-operations=12", "--log-level", "debug", "--log-format=json"),
                         0);
        assert_string_equal(options.name, "kv-0");
        assert_string_equal(options.local, "off");
        assert_true(options.no_auth);
        assert_int_equal(options.window, 7);
        assert_int_equal(options.memory_limit, UINT64_C(3) << 29);
        assert_int_equal(options.ttl_ms, 90000);
        assert_int_equal(options.grace_ms, 250);
        assert_int_equal(options.retention_ms, 7200000);
        assert_int_equal(options.stall_ms, 180000);
        assert_int_equal(options.max_operations, 12);
        assert_int_equal(options.log_level, LOG_DEBUG);
        assert_int_equal(options.log_format, LOG_JSON);
}

TEST_WITH(a_repeated_flag_makes_a_list, setup, teardown)
{
        assert_int_equal(PARSE("--listen", "127.0.0.1:0", "--listen=unix:/run/f.sock", "--listen", "[::1]:80"), 0);
        assert_int_equal(options.listen.n, 3);
        assert_string_equal(options.listen.items[0], "127.0.0.1:0");
        assert_string_equal(options.listen.items[1], "unix:/run/f.sock");
        assert_string_equal(options.listen.items[2], "[::1]:80");
}

TEST_WITH(a_list_in_the_environment_has_the_elements_between_its_commas, setup, teardown)
{
        (void)setenv("FERRY_LISTEN", " unix:/run/my dir/f.sock , 127.0.0.1:1 ", 1);
        assert_int_equal(PARSE(), 0);
        assert_int_equal(options.listen.n, 2);
        assert_string_equal(options.listen.items[0], "unix:/run/my dir/f.sock");
        assert_string_equal(options.listen.items[1], "127.0.0.1:1");
        (void)setenv("FERRY_LISTEN", "127.0.0.1:1 127.0.0.1:2", 1);
        assert_int_equal(PARSE(), -EINVAL);
        assert_non_null(strstr(message, "127.0.0.1:1 127.0.0.1:2"));
}

/* What is set, as text. */
static const char *value_of(const struct ferry_option *option)
{
        const void *value = (const char *)&options + option->offset;

        switch (option->kind) {
        case FERRY_OPTION_TEXT:
                return *(const char *const *)value;
        case FERRY_OPTION_LIST:
                return ((const struct ferry_strings *)value)->items[0];
        case FERRY_OPTION_FLAG:
                return *(const bool *)value ? "1" : "0";
        case FERRY_OPTION_CHOICE:
                return text_format("%u", *(const unsigned *)value);
        default:
                return text_format("%llu", *(const unsigned long long *)value);
        }
}

/* Two texts that the option takes. */
static void find_values(const struct ferry_option *option, const char *ret_values[2])
{
        static const char *const texts[] = {
                "1",   "0",   "2",    "64K",  "1M",    "1s",          "2s",          "h",          "g",      "h:1",
                "g:1", "off", "auto", "info", "debug", "127.0.0.1:1", "127.0.0.1:2", "json",       "logfmt", "/a",
                "/b",  "10",  "100",  "128K", "2M",    "10s",         "etcd://h:1",  "etcd://g:1",
        };
        size_t n = 0;

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(texts) && n < 2; i++) {
                struct ferry_worker_options tried = { 0 };

                worker_options_init(&tried, true);
                if (ferry_option_set(&tried.base, option, "test", texts[i]) == 0)
                        ret_values[n++] = texts[i];
                ferry_options_clear(&tried.base);
        }
        if (n < 2)
                fail_msg("no values for --%s", option->name);
}

/* --flag[=value], and what it comes to. */
static const char *parse_one(const struct ferry_option *option, const char *value)
{
        const char *flag = !value                              ? NULL
                           : option->kind == FERRY_OPTION_FLAG ? text_format("--%s", option->name)
                                                               : text_format("--%s=%s", option->name, value);
        const char *found;

        if (PARSE((char *)(uintptr_t)flag) != 0)
                fail_msg("--%s: %s", option->name, message);
        found = text_format("%s", value_of(option));
        return found;
}

TEST_WITH(each_flag_has_a_variable_over_which_it_wins, setup, teardown)
{
        assert_int_equal(PARSE(), 0);
        assert_true(options.base.n > 40);
        for (size_t i = 0; i < options.base.n; i++) {
                const struct ferry_option *option = &options.base.table[i];
                const char *const variable = option->variable;
                const char *values[2], *by_flag;

                if (!variable)
                        continue;
                find_values(option, values);
                by_flag = parse_one(option, values[0]);
                (void)setenv(variable, values[0], 1);
                if (strcmp(parse_one(option, NULL), by_flag) != 0)
                        fail_msg("%s=%s is not --%s", variable, values[0], option->name);
                (void)setenv(variable, values[1], 1);
                if (strcmp(parse_one(option, NULL), by_flag) == 0)
                        fail_msg("%s=%s changes nothing", variable, values[1]);
                if (strcmp(parse_one(option, values[0]), by_flag) != 0)
                        fail_msg("%s wins over --%s", variable, option->name);
                (void)unsetenv(variable);
        }
}

TEST_WITH(empty_and_foreign_variables_do_not_count, setup, teardown)
{
        (void)setenv("FERRY_NAME", "", 1);
        (void)setenv("FERRY_HELP", "1", 1);
        (void)setenv("FERRY_VERSION", "2", 1);
        (void)setenv("FERRY_PORT", "tcp://10.0.0.1:80", 1);
        assert_int_equal(PARSE(), 0);
        assert_null(options.name);
        assert_false(options.help);
        assert_false(options.version);
}

TEST_WITH(a_flag_in_the_environment_can_be_off, setup, teardown)
{
        (void)setenv("FERRY_NO_AUTH", "0", 1);
        assert_int_equal(PARSE(), 0);
        assert_false(options.no_auth);
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
                { "ferryd", "--bogus", NULL },     { "ferryd", "--bogus=1", NULL },
                { "ferryd", "-x", NULL },          { "ferryd", "-", NULL },
                { "ferryd", "--", "x", NULL },     { "ferryd", "--listenx", "127.0.0.1:0", NULL },
                { "ferryd", "--max", "1", NULL },  { "ferryd", "--registry-", "x", NULL },
                { "ferryd", "--no-aut=1", NULL },  { "ferryd", "--window", "--", NULL },
                { "ferryd", "127.0.0.1:0", NULL }, { "ferryd", "", NULL },
                { "ferryd", "--name", NULL },      { "ferryd", "--name", "--no-auth", NULL },
                { "ferryd", "--no-auth=1", NULL }, { "ferryd", "--no-auth", "1", NULL },
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
        assert_true(strlen(message) < FERRY_OPTION_MESSAGE_SIZE);
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

TEST_WITH(help_names_every_flag_in_lines_that_fit, setup, teardown)
{
        char *text = NULL, *line, *rest, needle[64];
        size_t size;
        FILE *file = open_memstream(&text, &size);

        assert_non_null(file);
        options_help(file);
        (void)fclose(file);
        assert_int_equal(PARSE(), 0);
        for (size_t i = 0; i < options.base.n; i++) {
                const struct ferry_option *option = &options.base.table[i];

                (void)snprintf(needle, sizeof(needle), "--%s%s%s\n", option->name, option->argument ? " " : "",
                               option->argument ?: "");
                assert_non_null(strstr(text, needle));
        }
        rest = text;
        while ((line = strsep(&rest, "\n")))
                assert_true(strlen(line) <= 80);
        free(text);
}

/*
 * In mdoc a flag is "Fl -name"; its item in a list starts with it. What ferry.1 says of options is made from the table.
 */
TEST(the_man_pages_describe_every_option)
{
        static const struct {
                const char *page, *name, *variable, *argument;
                char letter;
        } options_of[] = {
#define WORKER(part, letter, name, variable, kind, field, argument, ...)                                               \
        { FERRYD_MAN_PAGE, name, variable, argument, letter },
#define FERRYD WORKER
#define NATS(part, letter, name, variable, kind, field, argument, ...)                                                 \
        { NATS_MAN_PAGE, name, variable, argument, letter },
#include <ferry/option_table.h>
        };
        static char page[128 * 1024];

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(options_of); i++) {
                const char *const argument = options_of[i].argument;
                FILE *file = fopen(options_of[i].page, "re");

                (void)test_row(options_of[i].name);
                assert_non_null(file);
                page[fread(page, 1, sizeof(page) - 1, file)] = '\0';
                (void)fclose(file);
                if (options_of[i].letter)
                        assert_non_null(strstr(
                                page, text_format("\n.It Fl %c , Fl -%s\n", options_of[i].letter, options_of[i].name)));
                else if (strcmp(options_of[i].page, FERRYD_MAN_PAGE) == 0)
                        assert_non_null(
                                strstr(page, text_format("\n.It Fl -%s%c", options_of[i].name, argument ? ' ' : '\n')));
                else if (options_of[i].variable)
                        assert_non_null(strstr(page, text_format("\n.It Fl -%s%s%s , Ev %s\n", options_of[i].name,
                                                                 argument ? " Ar " : "", argument ?: "",
                                                                 options_of[i].variable)));
        }
}

TEST(sizes_have_binary_and_decimal_units)
{
        static const struct {
                const char *text;
                uint64_t size;
        } good[] = {
                { "0", 0 },
                { "64", 64 },
                { "007", 7 },
                { "4k", 4096 },
                { "4K", 4096 },
                { "4KiB", 4096 },
                { "4kiB", 4096 },
                { "1M", 1 << 20 },
                { "1MiB", 1 << 20 },
                { "1.5G", UINT64_C(3) << 29 },
                { "1GiB", 1 << 30 },
                { "2T", UINT64_C(2) << 40 },
                { "2TiB", UINT64_C(2) << 40 },
                { "3kB", 3000 },
                { "2MB", 2000000 },
                { "2GB", UINT64_C(2000000000) },
                { "1TB", UINT64_C(1000000000000) },
                { "0.5k", 512 },
                { "1.0001k", 1024 },
                { "0.000000000001TB", 1 },
                { "0.0000000000000000001T", 0 },
                { "9007199254740991", (UINT64_C(1) << 53) - 1 },
                { "8191.99T", UINT64_C(0x1ffffd70a3d70a) },
        };

        for (size_t i = 0; i < UNIT_COUNT(good); i++) {
                uint64_t size = 1;

                assert_true(ferry_size_parse(good[i].text, &size));
                assert_int_equal(size, good[i].size);
        }
}

TEST(other_texts_are_no_size)
{
        FOR_EACH_TEXT (text, "", " ", "k", "-1", "+1", "1 ", " 1", "1 k", "1kb", "1mb", "1m", "1g", "1t", "1Ki", "1KIB",
                       "1B", "1KB", "1P", "1EiB", ".5k", "1.k", "1..5k", "1.5", "1.5.5k", "0x10", "1e3", "1,5k",
                       "1_000", "1kk", "nan", "inf", "\xd9\xa1", "1\n") {
                uint64_t size = 7;

                assert_false(ferry_size_parse(text, &size));
                assert_int_equal(size, 7);
        }
}

TEST(sizes_of_2_53_and_above_are_refused)
{
        FOR_EACH_TEXT (huge, "9007199254740992", "8192T", "8192TiB", "9008TB", "18446744073709551615",
                       "18446744073709551616", "18446744073709551615T", "99999999999999999999999999999999999999",
                       "16777216T", "18014398509481984k") {
                uint64_t size;

                assert_false(ferry_size_parse(huge, &size));
        }
}

TEST(times_have_units)
{
        static const struct {
                const char *text;
                uint64_t ms;
        } good[] = {
                { "0", 0 },          { "0ms", 0 },
                { "1ms", 1 },        { "30s", 30000 },
                { "1.5s", 1500 },    { "2m", 120000 },
                { "0.5h", 1800000 }, { "0.0001s", 0 },
                { "24h", 86400000 }, { "9007199254740991ms", (UINT64_C(1) << 53) - 1 },
        };

        for (size_t i = 0; i < UNIT_COUNT(good); i++) {
                uint64_t ms = 1;

                (void)test_row(good[i].text);
                assert_true(ferry_time_parse(good[i].text, &ms));
                assert_int_equal(ms, good[i].ms);
        }
        FOR_EACH_TEXT (text, "", "s", "1", "00", "1.5", "1.5ms", ".5s", "1.s", "-1s", "+1s", " 1s", "1 s", "1d", "1S",
                       "1sm", "0x1s", "1e3s", "nan", "9007199254740992ms", "9007199254741s", "18446744073709551616s",
                       "18446744073709613s" /* 61 s beyond 64 bits */, "2562047788016h") {
                uint64_t ms = 7;

                assert_false(ferry_time_parse(text, &ms));
                assert_int_equal(ms, 7);
        }
}
