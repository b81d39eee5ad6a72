/* SPDX-License-Identifier: Apache-2.0 */
#include "named.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/metadata.h>

#include "base/util.h"
#include "peers/registry.h"
#include "peers_internal.h"

static const char scheme[] = "ferry://";

enum { PATH_SIZE = 96, DETAIL_SIZE = 256 };

/* A URL that is being resolved and fetched. */
struct named {
        struct peers *peers;
        bool worker;
        char name[REGISTRY_NAME_SIZE];
        char path[PATH_SIZE];               /* "" = the URL of a worker */
        char http[FERRY_METADATA_URL_SIZE]; /* base URL, from the registry */
        peers_fetched fetched;
        void *context;
};

bool named_is(const char *url)
{
        return strncmp(url, scheme, strlen(scheme)) == 0;
}

/* The rest of the URL is "/op_ID", or the whole path of the metadata. */
static bool take_operation(const char *path, char ret_path[PATH_SIZE])
{
        static const char head[] = "/v1/operations/", tail[] = "/metadata";
        char id[FERRY_ID_TEXT_SIZE];
        const char *start = strncmp(path, head, strlen(head)) == 0 ? path + strlen(head) : path + (*path == '/');
        size_t length = strcspn(start, "/");
        uint64_t number;

        if (length >= sizeof(id))
                return false;
        memcpy(id, start, length);
        id[length] = '\0';
        if (!ferry_id_parse("op_", id, &number) || strcmp(start + length, start - path > 1 ? tail : "") != 0)
                return false;
        (void)snprintf(ret_path, PATH_SIZE, "%s%s%s", head, id, tail);
        return true;
}

/* NULL, or why the URL is refused. */
static const char *parse(const char *url, bool worker, struct named *ret_named)
{
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";
        const char *name = url + strlen(scheme), *path = name + strspn(name, letters);
        size_t length = (size_t)(path - name);

        if (length < 1 || length >= sizeof(ret_named->name) || (*path && *path != '/'))
                return "after ferry:// comes the name of a worker";
        memcpy(ret_named->name, name, length);
        ret_named->name[length] = '\0';
        ret_named->path[0] = '\0';
        if (worker)
                return !*path || strcmp(path, "/") == 0 ? NULL : "the URL of a worker is ferry://NAME";
        return take_operation(path, ret_named->path) ? NULL : "the URL must be ferry://NAME/op_ID";
}

static int check(const struct registry *registry, const char *url, bool worker, struct named *ret_named, char *detail,
                 size_t detail_size)
{
        const char *why = parse(url, worker, ret_named);

        if (!why && !registry)
                why = "this worker has no registry that could resolve the name (--registry)";
        if (!why)
                return 0;
        (void)snprintf(detail, detail_size, "%s", why);
        return FERRY_E_INVALID_PARAMETER;
}

int named_check(const struct registry *registry, const char *url, bool worker, char *detail, size_t detail_size)
{
        struct named named;

        return check(registry, url, worker, &named, detail, detail_size);
}

static void finish(struct named *named, int error, const char *detail, struct ferry_metadata *metadata)
{
        named->fetched(named->context, error, detail, metadata);
        free(named);
}

/* Thread: the peers'. */
static void on_fetched(void *context, int error, const char *detail, struct ferry_metadata *metadata)
{
        struct named *named = context;

        if (!error && named->worker)
                memcpy(metadata->http, named->http, sizeof(metadata->http));
        finish(named, error, detail, metadata);
}

static int fetch(struct named *named, char detail[DETAIL_SIZE])
{
        FERRY_CLEANUP(cleanup_free) char *url = NULL;

        if (asprintf(&url, "%s%s", named->http, named->path) < 0) {
                url = NULL;
                return -ENOMEM;
        }
        return peers_fetch(named->peers, named->worker ? &fetch_worker : &fetch_metadata, url, on_fetched, named,
                           detail, DETAIL_SIZE);
}

/* Takes the base URL from the registry's answer. 0 or FERRY_E_* with a sentence. */
static int resolve(struct named *named, const struct registry_page *page, char detail[DETAIL_SIZE])
{
        size_t length;

        if (page->n == 0) {
                (void)snprintf(detail, DETAIL_SIZE, "the registry has no worker of the name %s", named->name);
                return FERRY_E_PEER_UNREACHABLE;
        }
        memcpy(named->http, page->entries[0].http, sizeof(named->http));
        length = strlen(named->http);
        while (length > 0 && named->http[length - 1] == '/')
                named->http[--length] = '\0';
        /* No second lookup: the registry must give an HTTP URL. */
        if (strncmp(named->http, "http://", 7) != 0 && strncmp(named->http, "https://", 8) != 0) {
                (void)snprintf(detail, DETAIL_SIZE, "the registry has no HTTP address of the worker %s", named->name);
                return FERRY_E_PEER_UNREACHABLE;
        }
        return 0;
}

/* Thread: the peers'. */
static void on_found(void *context, int error, const char *why, const struct registry_page *page)
{
        struct named *named = context;
        char detail[DETAIL_SIZE] = "";

        if (error == FERRY_E_CANCELLED)
                (void)snprintf(detail, sizeof(detail), "%s", why);
        else if (error)
                (void)snprintf(detail, sizeof(detail), "the registry cannot be asked: %s", why);
        else
                error = resolve(named, page, detail);
        if (!error)
                error = fetch(named, detail);
        else if (error == FERRY_E_PEER_REFUSED) /* which the caller reads as a refusal by the peer */
                error = FERRY_E_PEER_UNREACHABLE;
        if (error == 0)
                return;
        if (error == FERRY_E_INVALID_PARAMETER) /* the fault is the registry's, not the client's */
                error = FERRY_E_PEER_UNREACHABLE;
        finish(named, error, detail, NULL);
}

int named_fetch(struct peers *peers, struct registry *registry, bool worker, const char *url, peers_fetched fetched,
                void *context, char *detail, size_t detail_size)
{
        struct named *named = calloc(1, sizeof(*named));
        int r;

        if (!named)
                return -ENOMEM;
        r = check(registry, url, worker, named, detail, detail_size);
        named->peers = peers;
        named->worker = worker;
        named->fetched = fetched;
        named->context = context;
        if (r == 0) {
                const struct registry_query query = { .name = named->name, .limit = 1 };

                r = registry_find(registry, &query, on_found, named);
                if (r == FERRY_E_LIMIT_REACHED)
                        (void)snprintf(detail, detail_size, "too many names are being looked up");
        }
        if (r)
                free(named);
        return r;
}
