/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "base/allowlist.h"
#include "easy/thread.h"
#include "fuzz_text.h"
#include "http_fixture.h"
#include "move/http.h"
#include "peers/peers.h"

/*
 * Any bytes on a connection to the whole server, whose sending side is closed behind them. The connection ends, every
 * answer is one of HTTP/1.1 and none says that the server has failed, without a token nothing is made or read, and the
 * next client is served.
 *
 * Names that an input cannot guess stand in it in braces: {T} the full token, {P} the peer token, {R} a region, {O} and
 * {W} operations that offer it, {K} and {L} their keys. The first byte says whether the server asks for tokens.
 */

enum { ANSWER_S = 10, ANSWERS_MAX = 1 << 20, NAMES = 7, NAME_SIZE = 80 };

static const char token[] = "full-token-of-the-fuzzer", peer_token[] = "peer-token-of-the-fuzzer";

struct house {
        struct http_fixture *h;
        char names[NAMES][NAME_SIZE];
        size_t n_operations, n_regions;
};
static struct house houses[2]; /* open, with tokens */

/* ---- the server ---- */

static int connect_nobody(void *context, const struct engine_connect *connect)
{
        (void)context;
        (void)connect;
        return -ESHUTDOWN;
}

static ssize_t list_nobody(void *context, uint64_t *cursor, struct engine_peer_view *page, size_t max)
{
        (void)context;
        (void)page;
        (void)max;
        *cursor = 0;
        return 0;
}

/* How many operations there are; cancel: ends them. */
static size_t visit_operations(const struct house *house, bool cancel)
{
        struct operation_store *store = house->h->f->store;
        struct operation *page[128];
        uint64_t cursor = 0;
        size_t n = operation_page(store, NULL, &cursor, page, FERRY_ARRAY_SIZE(page));

        for (size_t i = 0; i < n; i++) {
                if (cancel)
                        operation_cancel(store, page[i]);
                operation_unref(page[i]);
        }
        return n;
}

static size_t count_regions(const struct house *house)
{
        uint64_t bytes;
        size_t n;

        region_totals(house->h->f->regions, &n, &bytes);
        return n;
}

static void name_operation(struct house *house, int which, enum ferry_kind kind, char *id, char *key)
{
        struct operation *operation = make(house->h->f, kind);
        struct ferry_metadata *metadata = metadata_of(house->h->f, operation);

        ferry_id_format("op_", look(house->h->f, operation).id, id);
        ferry_key_format(metadata->key, key);
        (void)ferry_metadata_free(metadata);
}

static void open_house(struct house *house, bool tokens)
{
        static const struct engine_outcome unreachable = { .error = FERRY_E_PEER_UNREACHABLE };
        struct http_fixture *h;
        void *state;

        FUZZ_CHECK(http_setup(&state) == 0);
        h = house->h = state;
        http_stop(h);
        h->peers = peers_free(h->peers);
        h->mover = http_mover_free(h->mover);
        h->client = easy_thread_free(h->client);
        h->allowlist = allowlist_free(h->allowlist);
        FUZZ_CHECK(allowlist_new(NULL, 0, true, &h->allowlist) == 0); /* no request leaves this process */
        FUZZ_CHECK((h->client = easy_thread_new()) != NULL);
        FUZZ_CHECK(peers_new(&(struct peers_config){ .easy.allowlist = h->allowlist, .thread = h->client },
                             &h->peers) == 0);
        http_make_mover(h);
        h->config.peers = h->peers;
        h->config.threads = 1;
        h->config.limits.wait_ms_max = 1;
        h->config.connector = (struct http_connector){ connect_nobody, list_nobody, NULL };
        if (tokens)
                h->config.secrets = (struct http_secrets){ .token = token, .peer_token = peer_token };
        h->f->data_plane.end_in_start = &unreachable;
        http_start(h);
        memcpy(house->names[0], token, sizeof(token));
        memcpy(house->names[1], peer_token, sizeof(peer_token));
        memcpy(house->names[2], h->region, sizeof(h->region));
        name_operation(house, 0, FERRY_READABLE, house->names[3], house->names[5]);
        name_operation(house, 1, FERRY_WRITABLE, house->names[4], house->names[6]);
        house->n_operations = visit_operations(house, false);
        house->n_regions = count_regions(house);
}

static void close_house(struct house *house)
{
        void *state = house->h;

        (void)visit_operations(house, true);
        FUZZ_CHECK(http_teardown(&state) == 0);
        house->h = NULL;
}

/* ---- the client ---- */

static void put_name(struct fuzz_buffer *to, const struct house *house, char letter)
{
        static const char letters[NAMES + 1] = "TPROWKL";
        const char *at = letter ? strchr(letters, letter) : NULL;

        if (at)
                fuzz_append(to, house->names[at - letters], strlen(house->names[at - letters]));
}

/* The input with the names in place. */
static struct fuzz_buffer write_out(const struct house *house, const uint8_t *data, size_t size)
{
        struct fuzz_buffer request = { 0 };

        for (size_t i = 0; i < size; i++)
                if (data[i] == '{' && i + 2 < size && data[i + 2] == '}' && memchr("TPROWKL", data[i + 1], NAMES)) {
                        put_name(&request, house, (char)data[i + 1]);
                        i += 2;
                } else {
                        fuzz_append(&request, &data[i], 1);
                }
        return request;
}

/* All that comes until the connection ends, which it does. */
static struct fuzz_buffer receive_all(int fd)
{
        struct fuzz_buffer answers = { 0 };
        char piece[16384];
        ssize_t n;

        while ((n = recv(fd, piece, sizeof(piece), 0)) > 0 && answers.size < ANSWERS_MAX)
                fuzz_append(&answers, piece, (size_t)n);
        FUZZ_CHECK(n >= 0 || errno == ECONNRESET);
        fuzz_append(&answers, "", 1);
        return answers;
}

/* Leaves no socket in TIME_WAIT: there are only so many ports. */
static struct fuzz_buffer talk(const struct house *house, const char *bytes, size_t size)
{
        const struct linger at_once = { .l_onoff = 1 };
        const struct timeval limit = { .tv_sec = ANSWER_S };
        struct fuzz_buffer answers;
        int fd = raw_dial(house->h->port);

        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        raw_send(fd, bytes, size);
        (void)shutdown(fd, SHUT_WR);
        answers = receive_all(fd);
        (void)close(fd);
        return answers;
}

/* ---- what must hold ---- */

static bool has(const struct fuzz_buffer *buffer, const char *text)
{
        return buffer->size > 0 && memmem(buffer->bytes, buffer->size, text, strlen(text));
}

/* A name that an input has only when it stands there in braces. */
static bool has_credential(const struct house *house, const struct fuzz_buffer *request)
{
        return has(request, house->names[0]) || has(request, house->names[1]) || has(request, house->names[5]) ||
               has(request, house->names[6]);
}

static bool changes_something(const struct fuzz_buffer *request)
{
        return has(request, "POST") || has(request, "PUT") || has(request, "DELETE") || has(request, "/content");
}

static void check(const struct house *house, bool tokens, const struct fuzz_buffer *request,
                  const struct fuzz_buffer *answers)
{
        struct fuzz_buffer live;

        if (answers->size > 1)
                FUZZ_CHECK(strncmp(answers->bytes, "HTTP/1.1 ", 9) == 0);
        FUZZ_CHECK(!has(answers, "HTTP/1.1 500"));
        if (tokens && !has_credential(house, request)) {
                FUZZ_CHECK(!has(answers, "HTTP/1.1 201") && !has(answers, "HTTP/1.1 204") && !has(answers, ":\"rgn_"));
                FUZZ_CHECK(visit_operations(house, false) == house->n_operations);
                FUZZ_CHECK(count_regions(house) == house->n_regions);
        }
        live = talk(house, "GET /livez HTTP/1.0\r\n\r\n", 23);
        FUZZ_CHECK(strncmp(live.bytes, "HTTP/1.1 200", 12) == 0);
        free(live.bytes);
}

static void close_houses(void)
{
        for (int i = 0; i < 2; i++)
                if (houses[i].h)
                        close_house(&houses[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        bool tokens = size > 0 && data[0] & 1;
        struct house *house = &houses[tokens];
        struct fuzz_buffer request, answers;
        static bool opened;

        if (!opened)
                (void)atexit(close_houses);
        opened = true;
        if (!house->h)
                open_house(house, tokens);
        request = write_out(house, data + (size > 0), size - (size > 0));
        answers = talk(house, request.bytes ? request.bytes : "", request.size);
        check(house, tokens, &request, &answers);
        if (changes_something(&request) && has(&answers, "HTTP/1.1 2")) /* the next input finds it as this one did */
                close_house(house);
        free(answers.bytes);
        free(request.bytes);
        return 0;
}
