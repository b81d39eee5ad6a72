/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/metadata.h>

#include "base/address.h"
#include "base/log.h"
#include "base/util.h"
#include "memory/device.h"
#include "options.h"
#include "peers/registry.h"
#include "transfer/engine.h"
#include "wire/header.h"
#include "worker_settings.h"

#define KIB UINT64_C(1024)
#define SECOND UINT64_C(1000)
#define HOUR (3600 * SECOND)

static const char *const level_names[] = { "error", "warn", "info", "debug", NULL };
static const char *const format_names[] = { "logfmt", "json", NULL };
static const char *const gpudirect_names[] = { "auto", "on", "off", NULL };

_Static_assert(LOG_ERROR == 0 && LOG_WARN == 1 && LOG_INFO == 2 && LOG_DEBUG == 3 && LOG_LEVEL_COUNT == 4,
               "level_names is in the order of enum log_level");
_Static_assert(LOG_LOGFMT == 0 && LOG_JSON == 1, "format_names is in the order of enum log_format");
_Static_assert(DEVICE_GPUDIRECT_AUTO == 0 && DEVICE_GPUDIRECT_ON == 1 && DEVICE_GPUDIRECT_OFF == 2,
               "gpudirect_names is in the order of enum device_gpudirect");

/* Of a host name, or of an IPv4 address. */
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

/* A host name, an IPv4 address, an IPv6 address with or without brackets. */
static bool is_host(const char *text)
{
        char host[ADDRESS_HOST_SIZE];

        if (text[0] == '[')
                return text[strlen(text) - 1] == ']' && address_host(text, host);
        return address_is_literal(text) || is_name(text);
}

/* The same, or the base URL by which a proxy is reached; a path in front of ours is not supported. */
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

#define GROUP_HTTP "HTTP, the control plane"
#define GROUP_UCX "The data plane"
#define GROUP_ACCESS "Access"
#define GROUP_REGISTRY "Names for workers"
#define GROUP_LIMITS "Limits"
#define GROUP_TIMES "Times, such as 500ms, 30s, 10m, 2h"
#define GROUP_OTHER "Other"
#define AT(field) .offset = offsetof(struct options, field)
#define WORKER(field) .offset = offsetof(struct options, worker.field)

const struct option option_table[] = {
        { .group = GROUP_HTTP,
          .flag = "listen",
          .argument = "HOST:PORT|unix:PATH|systemd",
          .type = OPTION_LIST,
          AT(listen),
          .accepts = is_listen,
          .accepted = "HOST:PORT, [IPV6]:PORT, unix:/PATH or systemd",
          .help = "Serve HTTP at this address; repeatable. Port 0 selects a free port; systemd: the sockets that "
                  "systemd passes. Beyond loopback, requires --token-file (default 127.0.0.1:9300)" },
        { .group = GROUP_HTTP,
          .flag = "advertise",
          .argument = "HOST|URL",
          .type = OPTION_STRING,
          WORKER(advertise),
          .accepts = is_public,
          .accepted = "a host name or an address without a port, or a URL without a path",
          .help = "Host or URL in metadata and links, instead of the bind address; behind a proxy, the proxy's URL" },
        { .group = GROUP_HTTP,
          .flag = "allow-host",
          .argument = "NAME",
          .type = OPTION_LIST,
          AT(allow_host),
          .accepts = is_host,
          .accepted = "a host name, without a port",
          .help = "Host name that clients or a proxy may use, in addition to IP addresses, localhost and --advertise; "
                  "repeatable" },
        { .group = GROUP_HTTP,
          .flag = "name",
          .argument = "NAME",
          .type = OPTION_STRING,
          WORKER(name),
          .accepts = ferry_metadata_is_name,
          .accepted = "1 to 63 letters, digits, '.', '-' and '_'",
          .help = "Name of this worker (default: host name and process id)" },

        { .group = GROUP_UCX,
          .flag = "local",
          .argument = "auto|DIR|off",
          .type = OPTION_STRING,
          WORKER(local),
          .accepts = is_local,
          .accepted = "auto, off or an absolute path",
          .help = "Shared memory, for peers of the same user on this machine. Workers that share DIR, which holds "
                  "their sockets, find each other, even from different containers (default auto: "
                  "$XDG_RUNTIME_DIR/ferry, else /run/user/UID/ferry, else /tmp/ferry-UID)" },
        { .group = GROUP_UCX,
          .flag = "copy-threads",
          .argument = "N",
          .type = OPTION_UINT32,
          WORKER(copy_threads),
          .max = 64,
          .help = "Threads that share large copies between workers on this machine (default 0: the data-plane thread "
                  "copies alone)" },
        { .group = GROUP_UCX,
          .flag = "data-listen",
          .argument = "HOST:PORT",
          .type = OPTION_STRING,
          WORKER(data_listen),
          .accepts = is_host_port,
          .accepted = "HOST:PORT, [IPV6]:PORT or INTERFACE:PORT",
          .help = "Open the network transport, for peers on other machines. HOST may be an interface; port 0 selects a "
                  "free port. UCX trusts its network: see ferryd(8), SECURITY CONSIDERATIONS (default off)" },
        { .group = GROUP_UCX,
          .flag = "transports",
          .argument = "LIST",
          .type = OPTION_STRING,
          WORKER(transports),
          .help = "UCX transports between machines, in the syntax of UCX_TLS (default: all but ud)" },
        { .group = GROUP_UCX,
          .flag = "interfaces",
          .argument = "LIST",
          .type = OPTION_STRING,
          WORKER(interfaces),
          .help = "Interfaces for UCX, in the syntax of UCX_NET_DEVICES (default: those of --data-listen and "
                  "--advertise, and the active RDMA ports)" },
        { .group = GROUP_UCX,
          .flag = "gpu-direct",
          .argument = "auto|on|off",
          .type = OPTION_CHOICE,
          WORKER(gpu_direct),
          .names = gpudirect_names,
          .help = "Whether RDMA cards access GPU memory directly: auto if the driver and UCX allow it, on without "
                  "checks, off never (default auto)" },
        { .group = GROUP_UCX,
          .flag = "chunk-size",
          .argument = "SIZE",
          .type = OPTION_SIZE,
          WORKER(chunk_size),
          .min = ENGINE_CHUNK_MIN,
          .max = WIRE_CHUNK_MAX,
          .help = "Largest request (default 16MiB locally; on the network 4MiB, more on links with a long round "
                  "trip)" },
        { .group = GROUP_UCX,
          .flag = "window",
          .argument = "N",
          .type = OPTION_UINT32,
          WORKER(window),
          .min = 1,
          .max = ENGINE_WINDOW_MAX,
          .help = "Chunks in flight to one peer (default 4)" },
        { .group = GROUP_UCX,
          .flag = "spin-us",
          .argument = "N",
          .type = OPTION_UINT32,
          WORKER(spin_us),
          .min = 1,
          .max = 1000000,
          .help = "Microseconds that the data plane polls after traffic before it sleeps; the HTTP threads poll a "
                  "third of that after an answer (default 500)" },

        { .group = GROUP_ACCESS,
          .flag = "token-file",
          .argument = "FILE",
          .type = OPTION_STRING,
          WORKER(token_file),
          .help = "File with the token that HTTP clients must send (Authorization: Bearer)" },
        { .group = GROUP_ACCESS,
          .flag = "peer-token-file",
          .argument = "FILE",
          .type = OPTION_STRING,
          WORKER(peer_token_file),
          .help = "File with the token that permits only fetching metadata and /v1/worker; this worker also sends it "
                  "to its peers" },
        { .group = GROUP_ACCESS,
          .flag = "metrics-token-file",
          .argument = "FILE",
          .type = OPTION_STRING,
          WORKER(metrics_token_file),
          .help = "File with a token that permits only fetching /metrics, for Prometheus" },
        { .group = GROUP_ACCESS,
          .flag = "no-auth",
          .type = OPTION_FLAG,
          WORKER(no_auth),
          .help = "Serve beyond loopback without a token: every client that reaches the port has full access" },
        { .group = GROUP_ACCESS,
          .flag = "allow-peer",
          .argument = "HOST|CIDR",
          .type = OPTION_LIST,
          AT(allow_peer),
          .help = "Host from which this worker may fetch metadata, and to which it may connect; repeatable (default: "
                  "loopback, if every --listen is loopback)" },
        { .group = GROUP_ACCESS,
          .flag = "allow-origin",
          .argument = "ORIGIN",
          .type = OPTION_LIST,
          AT(allow_origin),
          .accepts = is_origin,
          .accepted = "an origin like https://tool.example or http://localhost:3000, without a path",
          .help = "Web origin (https://host) whose pages may call the worker; repeatable (default none)" },
        { .group = GROUP_ACCESS,
          .flag = "tls-cert",
          .argument = "FILE",
          .type = OPTION_STRING,
          WORKER(tls_cert),
          .help = "PEM certificate chain; enables HTTPS" },
        { .group = GROUP_ACCESS,
          .flag = "tls-key",
          .argument = "FILE",
          .type = OPTION_STRING,
          WORKER(tls_key),
          .help = "PEM key of --tls-cert" },
        { .group = GROUP_ACCESS,
          .flag = "tls-client-ca",
          .argument = "FILE",
          .type = OPTION_STRING,
          WORKER(tls_client_ca),
          .help = "PEM certificates of authorities; clients need a certificate signed by one of them, in addition to "
                  "the token (default none)" },
        { .group = GROUP_ACCESS,
          .flag = "peer-ca",
          .argument = "FILE",
          .type = OPTION_STRING,
          WORKER(peer_ca),
          .help = "PEM certificates of the authorities that sign peers' certificates (default: the system's)" },
        { .group = GROUP_ACCESS,
          .flag = "peer-cert",
          .argument = "FILE",
          .type = OPTION_STRING,
          WORKER(peer_cert),
          .help = "PEM client certificate for requests to peers" },
        { .group = GROUP_ACCESS,
          .flag = "peer-key",
          .argument = "FILE",
          .type = OPTION_STRING,
          WORKER(peer_key),
          .help = "PEM key of --peer-cert" },

        { .group = GROUP_REGISTRY,
          .flag = "registry",
          .argument = "URL[,URL]...",
          .type = OPTION_STRING,
          WORKER(registry),
          .accepts = registry_url_is_valid,
          .accepted = "etcd://HOST:PORT, http://HOST:PORT or https://HOST:PORT, further ones after commas",
          .help = "Register this worker's name in the etcd at one of these endpoints, and resolve ferry://NAME there "
                  "(default none)" },
        { .group = GROUP_REGISTRY,
          .flag = "registry-prefix",
          .argument = "PREFIX",
          .type = OPTION_STRING,
          WORKER(registry_prefix),
          .accepts = registry_prefix_is_valid,
          .accepted = "1 to 200 visible ASCII characters, without quotes and backslashes",
          .help = "Prefix of the keys (default " REGISTRY_PREFIX_DEFAULT ")" },
        { .group = GROUP_REGISTRY,
          .flag = "registry-ttl",
          .argument = "TIME",
          .type = OPTION_DURATION,
          WORKER(registry_ttl_ms),
          .min = REGISTRY_TTL_MIN_MS,
          .max = HOUR,
          .help = "Time until the name of a dead worker becomes free; a worker renews its name three times within it "
                  "(default 10s)" },
        { .group = GROUP_REGISTRY,
          .flag = "registry-ca",
          .argument = "FILE",
          .type = OPTION_STRING,
          WORKER(registry_ca),
          .help = "PEM certificates of the authorities that sign etcd's certificate (default: the system's); "
                  "--peer-cert is the client certificate" },
        { .group = GROUP_REGISTRY,
          .flag = "registry-user-file",
          .argument = "FILE",
          .type = OPTION_STRING,
          WORKER(registry_user_file),
          .help = "File with one line, NAME:PASSWORD, for etcd's own authentication (default none)" },

        { .group = GROUP_LIMITS,
          .flag = "memory-limit",
          .argument = "SIZE",
          .type = OPTION_SIZE,
          WORKER(memory_limit),
          .min = 4 * KIB,
          .max = UINT64_C(1) << 52,
          .help = "Total memory of all regions, such as 512M or 8GiB (default: half of the memory of the machine or of "
                  "its control group)" },
        { .group = GROUP_LIMITS,
          .flag = "max-regions",
          .argument = "N",
          .type = OPTION_UINT,
          WORKER(max_regions),
          .min = 1,
          .max = 60000,
          .help = "Number of regions that clients create (default 4096)" },
        { .group = GROUP_LIMITS,
          .flag = "max-operations",
          .argument = "N",
          .type = OPTION_UINT,
          WORKER(max_operations),
          .min = 1,
          .max = 1000000,
          .help = "Number of operations, including ended ones that are still kept (default 16384)" },
        { .group = GROUP_LIMITS,
          .flag = "max-connections",
          .argument = "N",
          .type = OPTION_UINT,
          WORKER(max_connections),
          .min = 1,
          .max = 1000000,
          .help = "Number of HTTP connections (default 10000, or fewer if the limit of open files is lower)" },
        { .group = GROUP_LIMITS,
          .flag = "max-waiters",
          .argument = "N",
          .type = OPTION_UINT,
          WORKER(max_waiters),
          .min = 1,
          .max = 1000000,
          .help = "Number of waiting requests (default 8192)" },
        { .group = GROUP_LIMITS,
          .flag = "max-links",
          .argument = "N",
          .type = OPTION_UINT,
          WORKER(max_links),
          .min = 1,
          .max = 65536,
          .help = "Number of links that other workers may open to this one (default 4096)" },
        { .group = GROUP_LIMITS,
          .flag = "http-threads",
          .argument = "N",
          .type = OPTION_UINT32,
          WORKER(http_threads),
          .min = 1,
          .max = 64,
          .help = "Threads that serve HTTP (default: 2 to 4, depending on the number of processors)" },

        { .group = GROUP_TIMES,
          .flag = "ttl",
          .argument = "TIME",
          .type = OPTION_DURATION,
          WORKER(ttl_ms),
          .min = 1,
          .max = 24 * HOUR,
          .help = "How long an offer waits for its peer, unless its request says otherwise (default 10m)" },
        { .group = GROUP_TIMES,
          .flag = "stall-limit",
          .argument = "TIME",
          .type = OPTION_DURATION,
          WORKER(stall_ms),
          .min = 100,
          .max = HOUR,
          .help = "End a transfer that moves no bytes for this time (default 30s)" },
        { .group = GROUP_TIMES,
          .flag = "retention",
          .argument = "TIME",
          .type = OPTION_DURATION,
          WORKER(retention_ms),
          .min = 1,
          .max = 24 * HOUR,
          .help = "How long ended operations are kept (default 10m)" },
        { .group = GROUP_TIMES,
          .flag = "grace",
          .argument = "TIME",
          .type = OPTION_DURATION,
          WORKER(grace_ms),
          .min = 1,
          .max = 60 * SECOND,
          .help = "How long a cancel waits for bytes in flight before it closes the connection (default 2s)" },
        { .group = GROUP_TIMES,
          .flag = "drain-timeout",
          .daemon = true,
          .argument = "TIME",
          .type = OPTION_DURATION,
          AT(drain_timeout_ms),
          .min = 0,
          .max = HOUR,
          .help = "How long SIGTERM waits for running transfers (default 30s)" },

        { .group = GROUP_OTHER,
          .flag = "log-level",
          .daemon = true,
          .argument = "error|warn|info|debug",
          .type = OPTION_CHOICE,
          AT(log_level),
          .names = level_names,
          .help = "Minimum severity of events that are logged on standard error (default info)" },
        { .group = GROUP_OTHER,
          .flag = "log-format",
          .daemon = true,
          .argument = "logfmt|json",
          .type = OPTION_CHOICE,
          AT(log_format),
          .names = format_names,
          .help = "Format of the log (default logfmt)" },
        { .group = GROUP_OTHER,
          .flag = "help",
          .daemon = true,
          .letter = 'h',
          .type = OPTION_FLAG,
          AT(help),
          .not_in_environment = true,
          .help = "Print this help and exit" },
        { .group = GROUP_OTHER,
          .flag = "version",
          .daemon = true,
          .letter = 'V',
          .type = OPTION_FLAG,
          AT(version),
          .not_in_environment = true,
          .help = "Print the version and exit" },
};
const size_t option_count = FERRY_ARRAY_SIZE(option_table);

_Static_assert(FERRY_ARRAY_SIZE(option_table) <= OPTIONS_MAX, "the parser keeps a mark for each");
