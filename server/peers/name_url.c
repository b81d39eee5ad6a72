/* SPDX-License-Identifier: Apache-2.0 */
#include "peers_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/metadata.h>

#include "base/util.h"
#include "registry/registry.h"

/*
 * URLs that name a worker by its name in the registry. A lookup asks the registry for the worker's base URL, then
 * fetches the document from there by the rules for any other URL: the registry is not trusted. Errors are told from the
 * user's point of view: a registry that refuses, or gives something that is no HTTP URL, makes the peer unreachable.
 *
 * Thread: any for the functions of the header; the callbacks run on libcurl's thread, which is the peers' and the
 * registry's alike.
 */

static const char scheme[] = "ferry://";

enum { PATH_SIZE = 96, DETAIL_SIZE = 256 };

/* A URL that is being resolved and fetched. */
struct name_lookup {
        struct peers *peers;
        bool worker;
        char name[REGISTRY_NAME_SIZE];
        char path[PATH_SIZE];               /* "" = the URL of a worker */
        char http[FERRY_METADATA_URL_SIZE]; /* base URL, from the registry */
        peers_fetched fetched;
        peers_wanted wanted;
        void *context;
};

bool name_url_is(const char *url)
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
static const char *parse(const char *url, bool worker, struct name_lookup *ret_lookup)
{
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";
        const char *name = url + strlen(scheme), *path = name + strspn(name, letters);
        size_t length = (size_t)(path - name);

        if (length < 1 || length >= sizeof(ret_lookup->name) || (*path && *path != '/'))
                return "ferry:// must be followed by the name of a worker";
        memcpy(ret_lookup->name, name, length);
        ret_lookup->name[length] = '\0';
        ret_lookup->path[0] = '\0';
        if (worker)
                return !*path || strcmp(path, "/") == 0 ? NULL : "the URL of a worker is ferry://NAME";
        return take_operation(path, ret_lookup->path) ? NULL : "the URL must be ferry://NAME/op_ID";
}

/*
 * Parses the URL, and whether there is a registry to resolve it. Returns 0 or FERRY_E_INVALID_PARAMETER with a
 * sentence.
 */
static int check(const struct registry *registry, const char *url, bool worker, struct name_lookup *ret_lookup,
                 char *detail, size_t detail_size)
{
        const char *why = parse(url, worker, ret_lookup);

        if (!why && !registry)
                why = "this worker has no registry to resolve the name (--registry)";
        if (!why)
                return 0;
        (void)snprintf(detail, detail_size, "%s", why);
        return FERRY_E_INVALID_PARAMETER;
}

int name_url_check(const struct registry *registry, const char *url, bool worker, char *detail, size_t detail_size)
{
        struct name_lookup lookup;

        return check(registry, url, worker, &lookup, detail, detail_size);
}

/* Tells the caller, and frees the lookup. */
static void finish(struct name_lookup *lookup, int error, const char *detail, struct ferry_metadata *metadata)
{
        lookup->fetched(lookup->context, error, detail, metadata);
        free(lookup);
}

/* Thread: the peers'. */
static void on_fetched(void *context, int error, const char *detail, struct ferry_metadata *metadata)
{
        struct name_lookup *lookup = context;

        if (!error && lookup->worker)
                memcpy(metadata->http, lookup->http, sizeof(metadata->http));
        finish(lookup, error, detail, metadata);
}

/* Thread: the peers'. */
static bool is_wanted(void *context)
{
        struct name_lookup *lookup = context;

        return !lookup->wanted || lookup->wanted(lookup->context);
}

/*
 * Fetches the document from the worker's base URL. Returns 0, or an error with a sentence, upon which nothing was
 * begun.
 */
static int fetch(struct name_lookup *lookup, char detail[DETAIL_SIZE])
{
        FERRY_CLEANUP(cleanup_free) char *url = NULL;

        if (asprintf(&url, "%s%s", lookup->http, lookup->path) < 0) {
                url = NULL;
                return -ENOMEM;
        }
        return peers_fetch(lookup->peers, lookup->worker ? &fetch_worker : &fetch_metadata, url, on_fetched, is_wanted,
                           lookup, detail, DETAIL_SIZE);
}

/* Takes the base URL from the registry's answer. 0 or FERRY_E_* with a sentence. */
static int resolve(struct name_lookup *lookup, const struct registry_page *page, char detail[DETAIL_SIZE])
{
        size_t length;

        if (page->n == 0) {
                (void)snprintf(detail, DETAIL_SIZE,
                               page->n_skipped ? "the registry's value for the name %s is not a worker's"
                                               : "the registry has no worker named %s",
                               lookup->name);
                return FERRY_E_PEER_UNREACHABLE;
        }
        memcpy(lookup->http, page->entries[0].http, sizeof(lookup->http));
        length = strlen(lookup->http);
        while (length > 0 && lookup->http[length - 1] == '/')
                lookup->http[--length] = '\0';
        /* No second lookup: the registry must give an HTTP URL. */
        if (strncmp(lookup->http, "http://", 7) != 0 && strncmp(lookup->http, "https://", 8) != 0) {
                (void)snprintf(detail, DETAIL_SIZE, "the registry has no HTTP address of the worker %s", lookup->name);
                return FERRY_E_PEER_UNREACHABLE;
        }
        return 0;
}

/* Thread: the peers'. */
static void on_found(void *context, int error, const char *why, const struct registry_page *page)
{
        struct name_lookup *lookup = context;
        char detail[DETAIL_SIZE] = "";

        if (error == FERRY_E_CANCELLED)
                (void)snprintf(detail, sizeof(detail), "%s", why);
        else if (error)
                (void)snprintf(detail, sizeof(detail), "the registry cannot be asked: %s", why);
        else
                error = resolve(lookup, page, detail);
        if (!error)
                error = fetch(lookup, detail);
        else if (error == FERRY_E_PEER_REFUSED) /* which the caller reads as a refusal by the peer */
                error = FERRY_E_PEER_UNREACHABLE;
        if (error == 0)
                return;
        if (error == FERRY_E_INVALID_PARAMETER) /* the fault is the registry's, not the client's */
                error = FERRY_E_PEER_UNREACHABLE;
        finish(lookup, error, detail, NULL);
}

int name_url_fetch(struct peers *peers, struct registry *registry, bool worker, const char *url, peers_fetched fetched,
                   peers_wanted wanted, void *context, char *detail, size_t detail_size)
{
        struct name_lookup *lookup = calloc(1, sizeof(*lookup));
        int r;

        if (!lookup)
                return -ENOMEM;
        r = check(registry, url, worker, lookup, detail, detail_size);
        lookup->peers = peers;
        lookup->worker = worker;
        lookup->fetched = fetched;
        lookup->wanted = wanted;
        lookup->context = context;
        if (r == 0) {
                const struct registry_query query = { .name = lookup->name, .limit = 1 };

                r = registry_find(registry, &query, on_found, lookup);
                if (r == FERRY_E_LIMIT_REACHED)
                        (void)snprintf(detail, detail_size, "too many names are being looked up");
        }
        if (r)
                free(lookup);
        return r;
}
