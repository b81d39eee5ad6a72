/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli.h"

static int worker_unreachable(const struct cli_worker *worker, int r)
{
        const char *message = ferry_last_message(worker->ferry);
        bool tls = strncmp(worker->url, "https:", 6) == 0;
        switch (r) {
        case -ECONNRESET: /* by TLS 1.3 a client without a certificate is refused after its own handshake, by closing */
                if (tls)
                        return cli_fail(CLI_UNREACHABLE,
                                        "%s: %s (has the worker ended, or does it ask for a client certificate: --cert "
                                        "and --key?)",
                                        worker->url, message);
                __attribute__((fallthrough));
        case -ECONNREFUSED:
        case -EHOSTUNREACH:
                return cli_fail(CLI_UNREACHABLE,
                                "is a worker running at %s? %s (start one with ferryd, or name another with --url)",
                                worker->url, message);
        case -ETIMEDOUT:
                return cli_fail(CLI_UNREACHABLE, "%s: %s (is the worker stopped%s, or the network cut?)", worker->url,
                                message, tls ? ", its URL http:" : "");
        case -EPROTO:
                return cli_fail(CLI_UNREACHABLE, "%s: %s (is this the URL of a ferryd?)", worker->url, message);
        case -EACCES:
                return cli_fail(CLI_UNREACHABLE, "%s: %s (see --ca-file, --cert, --key, and the socket's mode)",
                                worker->url, message);
        default:
                return cli_fail(CLI_UNREACHABLE, "%s: %s", worker->url, *message ? message : strerror(-r));
        }
}

/* Advice about a refusal, where it is not obvious. */
static const char *worker_advice(int error, bool retryable)
{
        switch (error) {
        case FERRY_E_UNAUTHENTICATED:
                return " (give the worker's token with --token-file)";
        case FERRY_E_FORBIDDEN:
                return " (this needs the full token, or --allow-peer at the worker)";
        case FERRY_E_HOST_REFUSED:
                return " (start the worker with --allow-host NAME, or use its address)";
        case FERRY_E_NO_SPACE:
                /* Else it would not fit into an empty worker either. */
                return retryable ? " (remove regions with ferry rm, or raise --memory-limit of the worker)" : "";
        default:
                return "";
        }
}

int cli_result(const struct cli_worker *worker, int r)
{
        if (r == 0)
                return CLI_OK;
        if (cli_is_silent(r))
                return CLI_PROBLEM;
        if (r == -EINVAL || r == -ENOTSUP || r == -ENOMEM)
                return cli_usage_error("%s", *ferry_last_message(worker->ferry) ? ferry_last_message(worker->ferry)
                                                                                : strerror(-r));
        if (r < 0)
                return worker_unreachable(worker, r);
        const struct ferry_problem *problem = ferry_last_problem(worker->ferry);
        const char *message = ferry_last_message(worker->ferry);
        if (r == FERRY_E_UNAUTHENTICATED && worker->peer_token)
                return cli_fail_with_code(CLI_PROBLEM, problem->code,
                                          "%s: %s (give that worker's token with --peer-token-file)", worker->url,
                                          message);
        return cli_fail_with_code(CLI_PROBLEM, problem->code, "%s%s", message, worker_advice(r, problem->retryable));
}

int cli_region_result(const struct cli_worker *worker, const struct ferry_region *region, int r)
{
        if (r != FERRY_E_NOT_FOUND || !region->idle_ms)
                return cli_result(worker, r);
        return cli_fail_with_code(CLI_PROBLEM, "not-found",
                                  "%s is gone: someone deleted it, or nothing used it for %" PRIu64 " ms", region->id,
                                  region->idle_ms);
}

static const char *operation_advice(const struct ferry_operation *o)
{
        switch (o->error) {
        case FERRY_E_PEER_UNREACHABLE:
                return " (ferry doctor PEER tells why)";
        case FERRY_E_PEER_LOST:
                return " (does the other worker still run?)";
        case FERRY_E_ALREADY_CLAIMED:
        case FERRY_E_STALE_METADATA:
        case FERRY_E_METADATA_EXPIRED:
        case FERRY_E_EXPIRED:
                return " (offer it again)";
        case FERRY_E_DECLINED: /* as ferry send does with a file of another size */
                return o->kind == FERRY_WRITABLE ? " (has the file that was to come another size than --size?)" : "";
        case FERRY_E_STALLED:
                return " (no byte moved: ferry doctor PEER checks the network)";
        default:
                return "";
        }
}

int cli_operation_result(const struct ferry_operation *operation)
{
        if (operation->status == FERRY_COMPLETE)
                return CLI_OK;
        return cli_fail_with_code(CLI_PROBLEM, operation->error_code, "%s did not complete: %s%s%s%s", operation->id,
                                  operation->error_code, operation->error_detail[0] ? ": " : "",
                                  operation->error_detail, operation_advice(operation));
}
