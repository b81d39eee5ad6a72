/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every option of Ferry's programs, once. Includers define the macros of the rows they want, before each inclusion:
 *
 * WORKER: a worker's, also inside another program (ferry_worker_options_set); FERRYD: of ferryd besides; FERRY: of
 * ferry; NATS: of ferry-nats. A row has the columns
 *
 *   part      the heading in ferryd --help; the commands of ferry that have the option, NULL = all
 *   letter    the short form, 0 = none
 *   name      "ttl" for --ttl
 *   variable  of the environment; NULL = none
 *   kind      of value, see enum ferry_option_kind
 *   field     in the program's struct, which it makes from these rows
 *   argument  as --help names it, NULL for a flag; of a CHOICE, the words
 *   fallback  the default, in the form of a value; NULL = none, or one that the text tells
 *   text      of --help; NULL = hidden
 *   check     RANGE (without one, numbers are from 0), AT_LEAST or ACCEPTS; may be left out
 */
#ifndef WORKER
#define WORKER(...)
#endif
#ifndef FERRYD
#define FERRYD(...)
#endif
#ifndef FERRY
#define FERRY(...)
#endif
#ifndef NATS
#define NATS(...)
#endif

#define RANGE(low, high) .min = (low), .max = (high)
#define AT_LEAST(low) .min = (low)
#define ACCEPTS(function, words) .accepts = (function), .accepted = (words)
#define SECONDS(n) ((n)*UINT64_C(1000))
#define HOURS(n) SECONDS((n)*3600)

/* clang-format off */

#define PART "HTTP, the control plane"
WORKER(PART, 0, "listen", "FERRY_LISTEN", LIST, listen, "HOST:PORT|unix:PATH|systemd", "127.0.0.1:9300",
       "Serve HTTP at this address; repeatable. Port 0 selects a free port; systemd: the sockets that systemd passes. "
       "Beyond loopback, requires --token-file",
       ACCEPTS(is_listen, "HOST:PORT, [IPV6]:PORT, unix:/PATH or systemd"))
WORKER(PART, 0, "advertise", "FERRY_ADVERTISE", TEXT, advertise, "HOST|URL", NULL,
       "Host or URL in metadata and links, instead of the bind address; behind a proxy, the proxy's URL",
       ACCEPTS(is_public, "a host name or an address without a port, or a URL without a path"))
WORKER(PART, 0, "allow-host", "FERRY_ALLOW_HOST", LIST, allow_host, "NAME", NULL,
       "Host name that clients or a proxy may use, in addition to IP addresses, localhost and --advertise; repeatable",
       ACCEPTS(is_host, "a host name, without a port"))
WORKER(PART, 0, "name", "FERRY_NAME", TEXT, name, "NAME", NULL,
       "Name of this worker (default: host name and process id)",
       ACCEPTS(ferry_metadata_is_name, "1 to 63 letters, digits, '.', '-' and '_'"))
#undef PART

#define PART "The data plane"
WORKER(PART, 0, "local", "FERRY_LOCAL", TEXT, local, "auto|DIR|off", NULL,
       "Shared memory, for peers of the same user on this machine. Workers that share DIR, which holds their sockets, "
       "find each other, even from different containers (default auto: $XDG_RUNTIME_DIR/ferry, else "
       "/run/user/UID/ferry, else /tmp/ferry-UID)",
       ACCEPTS(is_local, "auto, off or an absolute path"))
WORKER(PART, 0, "copy-threads", "FERRY_COPY_THREADS", TEXT, copy_threads, "auto|N", "auto",
       "Threads that share large copies between workers on this machine with the data-plane thread; auto: as many as it "
       "has further processors, at most 3; 0: it copies alone",
       ACCEPTS(is_copy_threads, "auto or a number, 0 to 64"))
WORKER(PART, 0, "data-listen", "FERRY_DATA_LISTEN", TEXT, data_listen, "HOST:PORT", NULL,
       "Open the network transport, for peers on other machines. HOST may be an interface; port 0 selects a free port. "
       "UCX trusts its network: see ferryd(8), SECURITY CONSIDERATIONS (default off)",
       ACCEPTS(is_host_port, "HOST:PORT, [IPV6]:PORT or INTERFACE:PORT"))
WORKER(PART, 0, "transports", "FERRY_TRANSPORTS", TEXT, transports, "LIST", NULL,
       "UCX transports between machines, in the syntax of UCX_TLS (default: all but ud)")
WORKER(PART, 0, "interfaces", "FERRY_INTERFACES", TEXT, interfaces, "LIST", NULL,
       "Interfaces for UCX, in the syntax of UCX_NET_DEVICES (default: those of --data-listen and --advertise, and the "
       "active RDMA ports)")
WORKER(PART, 0, "gpu-direct", "FERRY_GPU_DIRECT", CHOICE, gpu_direct, "auto|on|off", "auto",
       "Whether RDMA cards access GPU memory directly: auto if the driver and UCX allow it, on without checks, off never")
WORKER(PART, 0, "chunk-size", "FERRY_CHUNK_SIZE", SIZE, chunk_size, "SIZE", NULL,
       "Largest request on the network (default 4MiB, more on links with a long round trip)",
       RANGE(ENGINE_CHUNK_MIN, WIRE_CHUNK_MAX))
WORKER(PART, 0, "window", "FERRY_WINDOW", NUMBER, window, "N", "4",
       "Chunks in flight to one peer", RANGE(1, ENGINE_WINDOW_MAX))
WORKER(PART, 0, "spin-us", "FERRY_SPIN_US", NUMBER, spin_us, "N", "500",
       "Microseconds that the data plane polls after traffic before it sleeps; the HTTP threads poll a third of that "
       "after an answer",
       RANGE(1, 1000000))
#undef PART

#define PART "Access"
WORKER(PART, 0, "token-file", "FERRY_TOKEN_FILE", TEXT, token_file, "FILE", NULL,
       "File with the token that HTTP clients must send (Authorization: Bearer)")
WORKER(PART, 0, "peer-token-file", "FERRY_PEER_TOKEN_FILE", TEXT, peer_token_file, "FILE", NULL,
       "File with the token that permits only fetching metadata and /v1/worker; this worker also sends it to its peers")
WORKER(PART, 0, "metrics-token-file", "FERRY_METRICS_TOKEN_FILE", TEXT, metrics_token_file, "FILE", NULL,
       "File with a token that permits only fetching /metrics, for Prometheus")
WORKER(PART, 0, "no-auth", "FERRY_NO_AUTH", FLAG, no_auth, NULL, NULL,
       "Serve beyond loopback without a token: every client that reaches the port has full access")
WORKER(PART, 0, "allow-peer", "FERRY_ALLOW_PEER", LIST, allow_peer, "HOST|CIDR", NULL,
       "Host from which this worker may fetch metadata, and to which it may connect; repeatable (default: loopback, if "
       "every --listen is loopback)")
WORKER(PART, 0, "allow-origin", "FERRY_ALLOW_ORIGIN", LIST, allow_origin, "ORIGIN", NULL,
       "Web origin (https://host) whose pages may call the worker; repeatable (default none)",
       ACCEPTS(is_origin, "an origin like https://tool.example or http://localhost:3000, without a path"))
WORKER(PART, 0, "tls-cert", "FERRY_TLS_CERT", TEXT, tls_cert, "FILE", NULL, "PEM certificate chain; enables HTTPS")
WORKER(PART, 0, "tls-key", "FERRY_TLS_KEY", TEXT, tls_key, "FILE", NULL, "PEM key of --tls-cert")
WORKER(PART, 0, "tls-client-ca", "FERRY_TLS_CLIENT_CA", TEXT, tls_client_ca, "FILE", NULL,
       "PEM certificates of authorities; clients need a certificate signed by one of them, in addition to the token "
       "(default none)")
WORKER(PART, 0, "peer-ca", "FERRY_PEER_CA", TEXT, peer_ca, "FILE", NULL,
       "PEM certificates of the authorities that sign peers' certificates (default: the system's)")
WORKER(PART, 0, "peer-cert", "FERRY_PEER_CERT", TEXT, peer_cert, "FILE", NULL,
       "PEM client certificate for requests to peers")
WORKER(PART, 0, "peer-key", "FERRY_PEER_KEY", TEXT, peer_key, "FILE", NULL, "PEM key of --peer-cert")
#undef PART

#define PART "Names for workers"
WORKER(PART, 0, "registry", "FERRY_REGISTRY", TEXT, registry, "URL[,URL]...", NULL,
       "Register this worker's name in the etcd at one of these endpoints, and resolve ferry://NAME there (default none)",
       ACCEPTS(registry_url_is_valid,
               "etcd://HOST:PORT, http://HOST:PORT or https://HOST:PORT, further ones after commas"))
WORKER(PART, 0, "registry-prefix", "FERRY_REGISTRY_PREFIX", TEXT, registry_prefix, "PREFIX", NULL,
       "Prefix of the keys (default /ferry/workers/)",
       ACCEPTS(registry_prefix_is_valid, "1 to 200 visible ASCII characters, without quotes and backslashes"))
WORKER(PART, 0, "registry-ttl", "FERRY_REGISTRY_TTL", TIME, registry_ttl_ms, "TIME", "10s",
       "Time until the name of a dead worker becomes free; a worker renews its name three times within it",
       RANGE(REGISTRY_TTL_MIN_MS, HOURS(1)))
WORKER(PART, 0, "registry-ca", "FERRY_REGISTRY_CA", TEXT, registry_ca, "FILE", NULL,
       "PEM certificates of the authorities that sign etcd's certificate (default: the system's); --peer-cert is the "
       "client certificate")
WORKER(PART, 0, "registry-user-file", "FERRY_REGISTRY_USER_FILE", TEXT, registry_user_file, "FILE", NULL,
       "File with one line, NAME:PASSWORD, for etcd's own authentication (default none)")
#undef PART

#define PART "Limits"
WORKER(PART, 0, "memory-limit", "FERRY_MEMORY_LIMIT", SIZE, memory_limit, "SIZE", NULL,
       "Total memory of all regions, such as 512M or 8GiB (default: half of the memory of the machine or of its control "
       "group)",
       RANGE(4096, UINT64_C(1) << 52))
WORKER(PART, 0, "max-regions", "FERRY_MAX_REGIONS", NUMBER, max_regions, "N", "4096",
       "Number of regions that clients create", RANGE(1, 60000))
WORKER(PART, 0, "max-operations", "FERRY_MAX_OPERATIONS", NUMBER, max_operations, "N", "16384",
       "Number of operations, including ended ones that are still kept", RANGE(1, 1000000))
WORKER(PART, 0, "max-connections", "FERRY_MAX_CONNECTIONS", NUMBER, max_connections, "N", "10000",
       "Number of HTTP connections, fewer if the limit of open files is lower", RANGE(1, 1000000))
WORKER(PART, 0, "max-waiters", "FERRY_MAX_WAITERS", NUMBER, max_waiters, "N", "8192",
       "Number of waiting requests", RANGE(1, 1000000))
WORKER(PART, 0, "max-links", "FERRY_MAX_LINKS", NUMBER, max_links, "N", "4096",
       "Number of links that other workers may open to this one", RANGE(1, 65536))
WORKER(PART, 0, "http-threads", "FERRY_HTTP_THREADS", NUMBER, http_threads, "N", NULL,
       "Threads that serve HTTP (default: 2 to 4, depending on the number of processors)", RANGE(1, 64))
#undef PART

#define PART "Times, such as 500ms, 30s, 10m, 2h"
WORKER(PART, 0, "ttl", "FERRY_TTL", TIME, ttl_ms, "TIME", "10m",
       "How long an offer waits for its peer, unless its request says otherwise", RANGE(1, HOURS(24)))
WORKER(PART, 0, "stall-limit", "FERRY_STALL_LIMIT", TIME, stall_ms, "TIME", "30s",
       "End a transfer that moves no bytes for this time", RANGE(100, HOURS(1)))
WORKER(PART, 0, "retention", "FERRY_RETENTION", TIME, retention_ms, "TIME", "10m",
       "How long ended operations are kept", RANGE(1, HOURS(24)))
WORKER(PART, 0, "grace", "FERRY_GRACE", TIME, grace_ms, "TIME", "2s",
       "How long a cancel waits for bytes in flight before it closes the connection", RANGE(1, SECONDS(60)))
FERRYD(PART, 0, "drain-timeout", "FERRY_DRAIN_TIMEOUT", TIME, drain_timeout_ms, "TIME", "30s",
       "How long SIGTERM waits for running transfers", RANGE(0, HOURS(1)))
#undef PART

#define PART "Other"
FERRYD(PART, 0, "log-level", "FERRY_LOG_LEVEL", CHOICE, log_level, "error|warn|info|debug", "info",
       "Minimum severity of events that are logged on standard error")
FERRYD(PART, 0, "log-format", "FERRY_LOG_FORMAT", CHOICE, log_format, "logfmt|json", "logfmt", "Format of the log")
FERRYD(PART, 'h', "help", NULL, QUERY, help, NULL, NULL, "Print this help and exit")
FERRYD(PART, 'V', "version", NULL, QUERY, version, NULL, NULL, "Print the version and exit")
#undef PART

FERRY(NULL, 'u', "url", "FERRY_URL", TEXT, url, "URL", "http://127.0.0.1:9300",
      "worker: http://HOST:PORT, https://HOST:PORT or unix:/PATH")
FERRY(NULL, 0, "token-file", "FERRY_TOKEN_FILE", TEXT, token_file, "FILE", NULL, "file with the worker's token")
FERRY("bench copy decline doctor fetch renew send spread", 0, "peer-token-file", "FERRY_PEER_TOKEN_FILE", TEXT, peer_token_file,
      "FILE", NULL, "file with the other worker's token")
FERRY(NULL, 0, "ca-file", "FERRY_CA_FILE", TEXT, ca_file, "FILE", NULL,
      "PEM certificates of the authorities that sign the worker's certificate (default: the system's)")
FERRY(NULL, 0, "cert", "FERRY_CERT", TEXT, cert, "FILE", NULL, "PEM client certificate")
FERRY(NULL, 0, "key", "FERRY_KEY", TEXT, key, "FILE", NULL, "PEM key of the client certificate")
FERRY(NULL, 0, "answer-timeout", "FERRY_ANSWER_TIMEOUT", TIME, answer_timeout_ms, "TIME", "10s",
      "give up on a worker that is silent for this long", RANGE(1, INT32_MAX))
FERRY(NULL, 'j', "json", NULL, FLAG, json, NULL, NULL, "print JSON: a document, or a line for each event of a stream; errors are lines, too (help and completion stay text)")
FERRY(NULL, 'q', "quiet", NULL, FLAG, quiet, NULL, NULL, "show no progress")
FERRY("accept fetch get", 'o', "output", NULL, TEXT, output, "FILE", NULL,
      "write the bytes to FILE; - is standard output")
FERRY("accept bench", 's', "size", NULL, SIZE, size, "SIZE", NULL, "number of bytes: 4096, 64K, 1.5GiB", AT_LEAST(1))
FERRY("accept copy fetch offer send spread wait", 't', "timeout", NULL, TIME, timeout_ms, "TIME", NULL,
      "give up after this time: 500ms, 30s, 2m, 1h")
FERRY("accept offer renew", 0, "ttl", NULL, TIME, ttl_ms, "TIME", NULL,
      "how long the offer waits for its peer (default 10m; of renew, as at its creation)", AT_LEAST(1))
FERRY("accept offer", 0, "renew-max", NULL, TIME, renew_max_ms, "TIME", NULL,
      "how long after its creation a peer may keep the offer by ferry renew (default: it may not)", AT_LEAST(1))
FERRY("accept fetch offer send", 0, "idle", NULL, TIME, idle_ms, "TIME", "5m",
      "if the command is killed or stopped, the worker deletes its region after this time; 0 = never")
FERRY("accept offer spread", 'n', "name", NULL, TEXT, name, "NAME", NULL, "name of the region",
      ACCEPTS(ferry_utf8_valid, "UTF-8"))
FERRY("bench copy fetch send", 0, "verify", NULL, FLAG, verify, NULL, NULL, "verify the bytes by checksums")
FERRY("ls", 0, "kind", NULL, TEXT, kind, "KIND", NULL, "only this kind: readable, read, writable or write")
FERRY("ls", 0, "status", NULL, TEXT, status, "STATUS", NULL,
      "only this status: INITIALIZED, IN_PROGRESS, COMPLETE, CANCELLED or ERRORED")
FERRY("accept events fetch ls offer send spread", 'l', "label", NULL, TEXT, label, "LABEL", NULL,
      "label of the operation, at most 64 bytes", ACCEPTS(ferry_utf8_valid, "UTF-8"))
FERRY("offer", 0, "uses", NULL, TEXT, uses, "N", NULL,
      "number of peers that may fetch the file (default 1); unlimited: all, until --ttl passes without one",
      ACCEPTS(cli_uses_valid, "a number from 1, or unlimited"))
FERRY("fetch send", 0, "remote", NULL, LIST, remote, "OFFSET:SIZE", NULL,
      "move only this part of the offer; repeatable: the file has the parts one after the other",
      ACCEPTS(cli_part_valid, "OFFSET:SIZE, such as 0:4096 or 1M:64K"))
FERRY("ls", 0, "done", NULL, FLAG, done, NULL, NULL, "only operations that are done")
FERRY("ls", 0, "running", NULL, FLAG, running, NULL, NULL, "only operations that are not done")
FERRY("ls", 0, "newest", NULL, FLAG, newest, NULL, NULL, "newest first")
FERRY("wait", 0, "any", NULL, FLAG, any, NULL, NULL, "wait until one of the operations is done")
FERRY("events", 'f', "follow", NULL, FLAG, follow, NULL, NULL, "keep running, and print new events")
FERRY("workers", 'w', "watch", NULL, FLAG, watch, NULL, NULL, "keep running, and print workers as they join and leave")
FERRY("top", 'i', "interval", NULL, TIME, interval_ms, "TIME", "1s", "shortest time between updates")
FERRY("top", 'c', "count", NULL, NUMBER, count, "N", NULL, "stop after N updates", AT_LEAST(1))
FERRY("help", 0, "mdoc", NULL, FLAG, mdoc, NULL, NULL, NULL)
FERRY(NULL, 'h', "help", NULL, QUERY, help, NULL, NULL, "print help; after a command, the help of that command")
FERRY(NULL, 'V', "version", NULL, QUERY, version, NULL, NULL, "print the version, and the commit that was built")

NATS(NULL, 0, "nats", "FERRY_NATS", TEXT, nats, "URL", "nats://localhost:4222", "the NATS server of the bridge")
NATS(NULL, 0, "nats-creds", "FERRY_NATS_CREDS", TEXT, creds, "FILE", NULL, "credentials for NATS")
NATS(NULL, 0, "nats-user-file", "FERRY_NATS_USER_FILE", TEXT, user_file, "FILE", NULL,
     "file with NAME:PASSWORD, or a token, for NATS")
NATS(NULL, 0, "nats-inbox", "FERRY_NATS_INBOX", TEXT, inbox, "PREFIX", NULL,
     "prefix of the subjects on which metadata gets its answers (default _INBOX)")
NATS(NULL, 0, "nats-ca", "FERRY_NATS_CA", TEXT, ca, "FILE", NULL,
     "PEM certificates of the NATS server's authorities; enables TLS")
NATS(NULL, 0, "nats-cert", "FERRY_NATS_CERT", TEXT, cert, "FILE", NULL, "PEM client certificate for NATS; enables TLS")
NATS(NULL, 0, "nats-key", "FERRY_NATS_KEY", TEXT, key, "FILE", NULL, "PEM key of --nats-cert")
NATS(NULL, 0, "insecure", "FERRY_NATS_INSECURE", FLAG, insecure, NULL, NULL, "connect to another machine without TLS")
NATS(NULL, 0, "url", "FERRY_URL", TEXT, url, "URL", "http://127.0.0.1:9300", "the worker of the bridge")
NATS(NULL, 0, "token-file", "FERRY_TOKEN_FILE", TEXT, token_file, "FILE", NULL,
     "file with the worker's peer token, or its full token")
NATS(NULL, 0, "ca-file", "FERRY_CA_FILE", TEXT, ca_file, "FILE", NULL,
     "PEM certificates of the worker's authorities (default: the system's)")
NATS(NULL, 0, "cert", "FERRY_CERT", TEXT, worker_cert, "FILE", NULL, "PEM client certificate for the worker")
NATS(NULL, 0, "key", "FERRY_KEY", TEXT, worker_key, "FILE", NULL, "PEM key of --cert")
NATS(NULL, 0, "help", NULL, QUERY, help, NULL, NULL, "print help")
NATS(NULL, 0, "version", NULL, QUERY, version, NULL, NULL, "print the version")

/* clang-format on */

#undef WORKER
#undef FERRYD
#undef FERRY
#undef NATS
#undef RANGE
#undef AT_LEAST
#undef ACCEPTS
#undef SECONDS
#undef HOURS
