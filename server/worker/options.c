/* SPDX-License-Identifier: Apache-2.0 */
#include "ferryd.h"

#include <string.h>

#include <ferry/metadata.h>
#include <ferry/util.h>

#include "base/address.h"
#include "base/log.h"
#include "memory/device.h"
#include "message/header.h"
#include "move/engine.h"
#include "registry/registry.h"

/*
 * The options of ferryd and of a worker: the checks of their values, and the table, made from ferry/option_table.h,
 * which the functions of ferry/options.h read (flags, environment, --help). The table's first WORKER_OPTIONS rows are
 * those that a worker inside a program has, too.
 *
 * Thread: any; no state.
 */

_Static_assert(LOG_ERROR == 0 && LOG_WARN == 1 && LOG_INFO == 2 && LOG_DEBUG == 3 && LOG_LEVEL_COUNT == 4,
               "--log-level names them in the order of enum log_level");
_Static_assert(LOG_LOGFMT == 0 && LOG_JSON == 1, "--log-format names them in the order of enum log_format");
_Static_assert(DEVICE_GPUDIRECT_AUTO == 0 && DEVICE_GPUDIRECT_ON == 1 && DEVICE_GPUDIRECT_OFF == 2,
               "--gpu-direct names them in the order of enum device_gpudirect");

/* Whether the text has only characters of a host name, or of an IPv4 address. */
static bool is_name(const char *text)
{
        return *text && text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._")] == '\0';
}

static bool is_host_port(const char *text)
{
        char host[ADDRESS_HOST_SIZE];
        uint16_t port;

        return address_split(text, host, &port) && (text[0] == '[' || is_name(host));
}

static bool is_listen(const char *text)
{
        if (strncmp(text, "unix:", 5) == 0)
                return text[5] == '/';
        return strcmp(text, "systemd") == 0 || is_host_port(text);
}

static bool is_local(const char *text)
{
        return strcmp(text, "auto") == 0 || strcmp(text, "off") == 0 || text[0] == '/';
}

static bool is_copy_threads(const char *text)
{
        uint64_t n;

        return strcmp(text, "auto") == 0 || ferry_uint_parse(text, 64, &n);
}

/* A host name, an IPv4 address, an IPv6 address with or without brackets. */
static bool is_host(const char *text)
{
        char host[ADDRESS_HOST_SIZE];

        if (text[0] == '[')
                return text[strlen(text) - 1] == ']' && address_host(text, host);
        return address_is_literal(text) || is_name(text);
}

/* A host, or the base URL by which a proxy is reached; a path in front of ours is not supported. */
static bool is_public(const char *text)
{
        const char *scheme = strstr(text, "://");

        if (!scheme)
                return is_host(text);
        if (strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0)
                return false;
        return is_host(scheme + 3) || is_host_port(scheme + 3);
}

/* What browsers send in Origin; also of their extensions, whose scheme is their own. */
static bool is_origin(const char *text)
{
        const char *scheme = strstr(text, "://");

        return scheme && scheme != text && (is_host(scheme + 3) || is_host_port(scheme + 3));
}

/* The options of a worker, which an embedding program has too, come before those of ferryd. */
static const struct ferry_option option_table[] = {
#define WORKER(...) FERRY_OPTION_ROW(struct ferry_worker_options, __VA_ARGS__)
#include <ferry/option_table.h>
#define FERRYD(...) FERRY_OPTION_ROW(struct ferry_worker_options, __VA_ARGS__)
#include <ferry/option_table.h>
};
_Static_assert(FERRY_ARRAY_SIZE(option_table) <= FERRY_OPTIONS_MAX, "each has a bit");

/* clang-format off */
enum {
        WORKER_OPTIONS = 0
#define WORKER(...) + 1
#include <ferry/option_table.h>
};
/* clang-format on */

void worker_options_init(struct ferry_worker_options *options, bool ferryd)
{
        options->base = (struct ferry_option_base){ .program = "ferryd",
                                                    .table = option_table,
                                                    .n = ferryd ? FERRY_ARRAY_SIZE(option_table) : WORKER_OPTIONS };
        ferry_options_default(&options->base);
}

static void warn_misspelt(const char *wrong, const char *near)
{
        log_event(LOG_WARN, "unknown variable in the environment", LOG_S("variable", wrong),
                  LOG_S("did_you_mean", near));
}

void options_check_environment(void)
{
        ferry_variables_check(warn_misspelt);
}

int options_parse(int argc, char *const *argv, struct ferry_worker_options *ret_options)
{
        *ret_options = (struct ferry_worker_options){ 0 };
        worker_options_init(ret_options, true);
        return ferry_options_read(&ret_options->base, argc, argv, NULL);
}

void options_help(FILE *file)
{
        const char *part = "";

        (void)fputs("Usage: ferryd [FLAG]...\n"
                    "A Ferry worker: moves memory between processes, on one machine or many.\n"
                    "\n"
                    "Prints one line of JSON on standard output when it is ready; logs to standard\n"
                    "error. SIGTERM drains and ends it. Each flag can also be set in the environment,\n"
                    "as FERRY_<FLAG> (FERRY_DATA_LISTEN=...; lists are comma-separated); the command\n"
                    "line takes precedence.\n",
                    file);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(option_table); i++) {
                if (strcmp(part, option_table[i].part) != 0)
                        (void)fprintf(file, "\n%s:\n", option_table[i].part);
                part = option_table[i].part;
                ferry_option_help(file, &option_table[i]);
        }
}
