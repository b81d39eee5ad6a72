/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ferry/error.h>

#include "base/log.h"
#include "base/util.h"
#include "fuzz_tape.h"
#include "fuzz_text.h"
#include "registry_internal.h"
#include "request_size.h"

/*
 * An etcd that says what the input says, whole or in pieces, much or little, to a worker that logs in, registers
 * itself, lists, looks one up or watches. Every question ends, what is found is a worker as one may be, and an honest
 * answer is understood afterwards.
 */

enum {
        ANSWERS_MAX = 24, /* of one input; then the registry hangs up */
        QUESTION_SIZE = 8192,
        HUGE = 128 << 10, /* more than any question takes: 64 KiB, and 4 for each of 3 workers */
        PIECE = 7,
        STEPS_MAX = 20000, /* by then every question has ended */
        POLL_MS = 20,
};

/* How an answer begins. */
enum { HOW_RIGHT, HOW_RAW, HOW_STATUS, HOW_SHORT, HOW_HEADS, HOW_HUGE = 4, HOW_SLOW = 8 };

static int listener = -1;
static char url[48];
static uint64_t now_us;

struct etcd {
        struct fuzz_tape tape;
        unsigned n_answers;
        bool honest;
        struct registry *registry;
        struct easy_multi multi;
        int fd; /* of the question that is open; -1 = none */
        char question[QUESTION_SIZE];
        size_t n_question;
        struct fuzz_buffer answer;
        size_t n_sent, piece;
};

struct finding {
        bool done;
        int error;
        size_t n, limit;
        char name[REGISTRY_NAME_SIZE];
};

uint64_t __wrap_clock_now_us(void);
uint64_t __wrap_clock_now_us(void)
{
        return now_us;
}

static void prepare(void)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof(address);

        if (listener >= 0)
                return;
        log_set_level(LOG_ERROR);
        listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        FUZZ_CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&address, size) == 0);
        FUZZ_CHECK(listen(listener, 64) == 0);
        FUZZ_CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
        (void)snprintf(url, sizeof(url), "etcd://127.0.0.1:%u", ntohs(address.sin_port));
}

/* ---- what it says ---- */

static void say(struct etcd *etcd, const char *text)
{
        fuzz_append(&etcd->answer, text, strlen(text));
}

static void say_head(struct etcd *etcd, unsigned how, size_t size)
{
        static const char *const statuses[] = { "401 No", "403 No", "404 No", "500 No", "302 Found\r\nLocation: /" };
        char head[160];

        if (how == HOW_STATUS)
                (void)snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nConnection: close\r\n\r\n",
                               statuses[tape_below(&etcd->tape, FERRY_ARRAY_SIZE(statuses))]);
        else if (how == HOW_SHORT)
                (void)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", size + 100);
        else
                (void)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        if (how != HOW_RAW)
                say(etcd, head);
}

static void lie(struct etcd *etcd)
{
        unsigned how = tape_byte(&etcd->tape);
        size_t wanted = tape_number(&etcd->tape, 2), size;
        char *body = malloc(wanted + 1);

        FUZZ_CHECK(body);
        size = tape_take(&etcd->tape, body, wanted);
        say_head(etcd, how % HOW_HEADS, size);
        if (how & HOW_HUGE) {
                char *spaces = malloc(HUGE);

                FUZZ_CHECK(spaces);
                memset(spaces, ' ', HUGE);
                fuzz_append(&etcd->answer, spaces, HUGE);
                free(spaces);
        }
        fuzz_append(&etcd->answer, body, size);
        etcd->piece = (how & HOW_SLOW) && !(how & HOW_HUGE) ? PIECE : SIZE_MAX;
        free(body);
}

/* {"name":"a","epoch":"00000000000000ab"} below /ferry/workers/a */
static void say_the_truth(struct etcd *etcd)
{
        say_head(etcd, HOW_RIGHT, 0);
        if (memmem(etcd->question, etcd->n_question, "/v3/auth/", 9))
                say(etcd, "{\"token\":\"t\"}");
        else
                say(etcd, "{\"header\":{\"revision\":\"5\"},\"kvs\":[{\"key\":\"L2ZlcnJ5L3dvcmtlcnMvYQ==\","
                          "\"create_revision\":\"2\",\"value\":"
                          "\"eyJuYW1lIjoiYSIsImVwb2NoIjoiMDAwMDAwMDAwMDAwMDBhYiJ9\"}],\"count\":\"1\"}");
        etcd->piece = SIZE_MAX;
}

static void begin_answer(struct etcd *etcd)
{
        etcd->answer.size = etcd->n_sent = 0;
        if (etcd->honest)
                say_the_truth(etcd);
        else if (etcd->n_answers++ < ANSWERS_MAX && tape_has(&etcd->tape))
                lie(etcd);
}

/* ---- its connection ---- */

static void hang_up(struct etcd *etcd)
{

        /* Bytes that were sent still reach the worker: no reset takes them back, as what it sent is read. */
        (void)shutdown(etcd->fd, SHUT_WR);
        while (recv(etcd->fd, etcd->question, sizeof(etcd->question), MSG_DONTWAIT) > 0)
                ;
        (void)close(etcd->fd);
        etcd->fd = -1;
}

/* Whether the question is whole. */
static bool listen_on(struct etcd *etcd)
{
        ssize_t n = recv(etcd->fd, etcd->question + etcd->n_question, sizeof(etcd->question) - 1 - etcd->n_question,
                         MSG_DONTWAIT);
        size_t whole;

        if (n == 0 || (n < 0 && errno != EAGAIN)) {
                hang_up(etcd);
                return false;
        }
        etcd->n_question += n > 0 ? (size_t)n : 0;
        FUZZ_CHECK(etcd->n_question < sizeof(etcd->question) - 1);
        etcd->question[etcd->n_question] = '\0';
        whole = request_size(etcd->question);
        return whole && etcd->n_question >= whole;
}

static void answer_on(struct etcd *etcd)
{
        size_t left = etcd->answer.size - etcd->n_sent, piece = left < etcd->piece ? left : etcd->piece;
        ssize_t n = piece ? send(etcd->fd, etcd->answer.bytes + etcd->n_sent, piece, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

        if (n > 0)
                etcd->n_sent += (size_t)n;
        if (etcd->n_sent == etcd->answer.size || (n < 0 && errno != EAGAIN)) {
                hang_up(etcd);
                etcd->n_question = 0;
        }
}

static bool answers(const struct etcd *etcd)
{
        return etcd->answer.size > etcd->n_sent;
}

static void etcd_step(struct etcd *etcd)
{
        if (etcd->fd < 0) {
                etcd->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
                etcd->n_question = 0;
                etcd->answer.size = etcd->n_sent = 0;
        }
        if (etcd->fd < 0)
                return;
        if (answers(etcd)) {
                answer_on(etcd);
        } else if (listen_on(etcd)) {
                begin_answer(etcd);
                answer_on(etcd);
        }
}

/* ---- the worker's side ---- */

static void step(struct etcd *etcd)
{
        uint64_t due = registry_run(etcd->registry, &etcd->multi, now_us);
        struct curl_waitfd fds[2] = { { .fd = listener, .events = CURL_WAIT_POLLIN },
                                      { .fd = etcd->fd, .events = CURL_WAIT_POLLIN } };

        easy_multi_run(&etcd->multi);
        etcd_step(etcd);
        if (!etcd->registry->calls && due != UINT64_MAX && due > now_us)
                now_us = due;
        else if (!answers(etcd))
                (void)curl_multi_poll(etcd->multi.curl, fds, etcd->fd >= 0 ? 2 : 1, etcd->registry->calls ? POLL_MS : 0,
                                      NULL);
}

static void check_text(const char *text, size_t size)
{
        FUZZ_CHECK(strnlen(text, size) < size);
        for (const char *c = text; *c; c++)
                FUZZ_CHECK(*c > ' ' && *c < 0x7f);
}

static void check_entry(const struct registry_entry *entry)
{
        char *text = registry_entry_encode(entry);
        struct registry_entry again;

        check_text(entry->name, sizeof(entry->name));
        check_text(entry->version, sizeof(entry->version));
        check_text(entry->http, sizeof(entry->http));
        check_text(entry->data, sizeof(entry->data));
        check_text(entry->started_at, sizeof(entry->started_at));
        FUZZ_CHECK(*entry->name && entry->epoch && text);
        FUZZ_CHECK(registry_entry_decode(text, strlen(text), entry->name, &again) == 0);
        FUZZ_CHECK(again.epoch == entry->epoch && strcmp(again.http, entry->http) == 0);
        free(text);
}

static void on_found(void *context, int error, const char *detail, const struct registry_page *page)
{
        struct finding *finding = context;

        FUZZ_CHECK(!finding->done && error >= 0);
        finding->done = true;
        finding->error = error;
        if (error) {
                FUZZ_CHECK(*detail && strlen(detail) < REGISTRY_DETAIL_SIZE);
                for (const char *c = detail; *c; c++)
                        FUZZ_CHECK(*c >= ' ' && *c < 0x7f);
                return;
        }
        finding->n = page->n;
        FUZZ_CHECK(page->n <= finding->limit && page->revision > 0);
        for (size_t i = 0; i < page->n; i++)
                check_entry(&page->entries[i]);
        if (page->n)
                memcpy(finding->name, page->entries[0].name, sizeof(finding->name));
}

static struct finding find(struct etcd *etcd, const struct registry_query *query)
{
        struct finding finding = { .limit = query->name ? 1 : query->limit };

        FUZZ_CHECK(registry_find(etcd->registry, query, on_found, &finding) == 0);
        for (unsigned i = 0; !finding.done; i++) {
                FUZZ_CHECK(i < STEPS_MAX);
                step(etcd);
        }
        return finding;
}

/* As registry_join, which waits for another thread. */
static void join_in(struct etcd *etcd)
{
        const struct registry_entry self = { .name = "b", .epoch = 17 };

        etcd->registry->self = self;
        etcd->registry->joined = true;
        for (unsigned i = 0; tape_has(&etcd->tape) && etcd->n_answers < ANSWERS_MAX; i++) {
                FUZZ_CHECK(i < STEPS_MAX);
                step(etcd);
        }
        registry_leave(etcd->registry);
        for (unsigned i = 0; etcd->registry->member.state != MEMBER_LEFT; i++) {
                FUZZ_CHECK(i < STEPS_MAX);
                step(etcd);
        }
}

static int wake(void *context)
{
        (void)context;
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const struct registry_query queries[] = { { .name = "a" },
                                                         { .limit = 3 },
                                                         { .limit = 2, .revision = 7, .wait_ms = 50000 } };
        struct etcd etcd = { .tape = { data, data + size }, .fd = -1 };
        unsigned what = tape_byte(&etcd.tape);
        const struct registry_config config = { .url = url, .user = what & 4 ? "n:p" : NULL };
        struct finding finding;

        prepare();
        FUZZ_CHECK(easy_multi_init(&etcd.multi));
        now_us = UINT64_C(1000000000);
        FUZZ_CHECK(registry_new(&config, &etcd.registry) == 0);
        registry_attach(etcd.registry, wake, NULL);
        if (what % 4 == 3)
                join_in(&etcd);
        else
                (void)find(&etcd, &queries[what % 4]);
        etcd.honest = true;
        if (etcd.fd >= 0)
                hang_up(&etcd);
        finding = find(&etcd, &queries[0]);
        FUZZ_CHECK(finding.error == 0 && finding.n == 1 && strcmp(finding.name, "a") == 0);
        registry_stop(etcd.registry);
        etcd.registry = registry_free(etcd.registry);
        easy_multi_clear(&etcd.multi);
        if (etcd.fd >= 0)
                hang_up(&etcd);
        free(etcd.answer.bytes);
        return 0;
}
