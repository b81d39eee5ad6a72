/* SPDX-License-Identifier: Apache-2.0 */
#include "storm.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
        CANARY = 0xc5,   /* what memory is made when its operation has ended */
        SCRIBBLE = 0x3a, /* what a source is made then: no byte of it may arrive */
        QUIET_MS = 400,
        TIMEOUT_MS = 8000, /* of operations; stalls end earlier */
        END_MS = 30000,    /* within which everything has ended */
};

static const char *const transports[STORM_TRANSPORTS] = {
        [STORM_SHM] = "shm",
        [STORM_TCP] = "tcp",
        [STORM_HTTP] = "http",
        [STORM_HTTPS] = "https",
};

uint64_t storm_draw(struct storm *s, uint64_t below)
{
        s->random ^= s->random << 13;
        s->random ^= s->random >> 7;
        s->random ^= s->random << 17;
        return s->random % below;
}

bool place_listens(const struct place *place)
{
        return place->w.pid > 0 && place->resume_ms == 0;
}

static struct place *place_of(struct storm *s, const struct storm_end *end)
{
        return &s->places[end->place];
}

static bool is_alive(struct storm *s, const struct storm_end *end)
{
        return place_of(s, end)->life == end->life;
}

/* ---- memory ---- */

static bool end_open(struct storm *s, struct storm_end *end, uint64_t size)
{
        struct worker *w = &place_of(s, end)->w;
        struct ferry_region region;
        void *memory;
        int fd;

        if (ferry_create_region(w->client, &(struct ferry_region_spec){ .size = size }, &region) != 0) {
                assert_int_equal(ferry_last_problem(w->client)->http_status, 507); /* somebody fills its memory */
                return false;
        }
        (void)snprintf(end->region, sizeof(end->region), "%s", region.id);
        fd = open(region.path, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(memory != MAP_FAILED);
        (void)close(fd);
        end->memory = memory;
        return true;
}

static void end_close(struct storm *s, struct storm_end *end, uint64_t size)
{
        if (end->memory)
                (void)munmap(end->memory, size);
        end->memory = NULL;
        if (end->region[0] && is_alive(s, end))
                assert_int_equal(ferry_delete_region(place_of(s, end)->w.client, end->region), 0);
        end->region[0] = '\0';
}

static void check_all(const uint8_t *memory, uint64_t size, uint8_t value, const char *what)
{
        for (uint64_t i = 0; i < size; i++)
                if (memory[i] != value)
                        fail_msg("%s: byte %llu of %llu is %02x", what, (unsigned long long)i, (unsigned long long)size,
                                 memory[i]);
}

static void check_bytes(const struct transfer *t)
{
        static uint8_t wanted[STORM_SIZE_MAX];
        const uint8_t *memory = t->ends[STORM_TARGET].memory;

        pattern_fill(t->seed, 0, wanted, t->size);
        for (uint64_t i = 0; i < t->size; i++)
                if (memory[i] != wanted[i])
                        fail_msg("a %s of %llu bytes by %s is COMPLETE, and byte %llu is %02x, not %02x",
                                 t->read ? "read" : "write", (unsigned long long)t->size, transports[t->transport],
                                 (unsigned long long)i, memory[i], wanted[i]);
}

/* ---- a transfer ---- */

/* POST of an operation. Whether there is one now; a worker may refuse only for want of room, or of a peer that lives.
 */
static struct json_object *post(struct storm *s, struct storm_end *end, const char *path, const char *body)
{
        struct ferry *client = place_of(s, end)->w.client;
        struct json_object *operation = NULL;
        struct ferry_answer answer;
        int r = ferry_request(client, "POST", path, "application/json", body, strlen(body), &answer);

        s->sums.operations++;
        if (r == 0)
                operation = json_tokener_parse(answer.body);
        else
                fail_msg("POST %s %s: %s", path, body, ferry_last_message(client));
        (void)snprintf(end->operation, sizeof(end->operation), "%s", json_text(operation, "id"));
        ferry_answer_clear(&answer);
        return operation;
}

static void start(struct storm *s, struct transfer *t)
{
        struct storm_end *passive = &t->ends[t->read ? STORM_SOURCE : STORM_TARGET];
        struct storm_end *active = &t->ends[t->read ? STORM_TARGET : STORM_SOURCE];
        const char *body = text_format("{\"kind\":\"%s\",\"ttl_ms\":%d,\"descriptors\":[{\"region\":\"%s\"}]}",
                                       t->read ? "readable" : "writable", TIMEOUT_MS, passive->region);
        struct json_object *offer = post(s, passive, "/v1/operations?include=metadata", body), *begun;

        body = text_format("{\"kind\":\"%s\",\"timeout_ms\":%d,\"verify\":%s,\"transports\":[\"%s\"],"
                           "\"descriptors\":[{\"region\":\"%s\"}],\"remote_metadata\":%s}",
                           t->read ? "read" : "write", TIMEOUT_MS, storm_draw(s, 2) ? "true" : "false",
                           transports[t->transport], active->region,
                           json_object_to_json_string(json_member(offer, "metadata")));
        begun = post(s, active, "/v1/operations", body);
        json_object_put(begun);
        json_object_put(offer);
}

static void transfer_end(struct storm *s, struct transfer *t)
{
        for (int i = 0; i < 2; i++) {
                end_close(s, &t->ends[i], t->size);
                t->ends[i].operation[0] = '\0';
        }
        t->begun = false;
}

void transfer_begin(struct storm *s, struct transfer *t)
{
        static const uint64_t sizes[] = { 100, 8000, 64 << 10, 1 << 20, STORM_SIZE_MAX, STORM_SIZE_MAX };
        uint64_t size = 1 + storm_draw(s, sizes[storm_draw(s, sizeof(sizes) / sizeof(sizes[0]))]);

        *t = (struct transfer){ .seed = 1 + storm_draw(s, 1 << 30),
                                .size = size,
                                .read = storm_draw(s, 2),
                                .transport = (enum storm_transport)storm_draw(s, STORM_HTTPS),
                                .begun_ms = now_ms() };
        for (int i = 0; i < 2; i++) {
                t->ends[i].place = storm_draw(s, STORM_WORKERS);
                t->ends[i].life = place_of(s, &t->ends[i])->life;
                if (!place_listens(place_of(s, &t->ends[i])))
                        return;
        }
        if (t->transport == STORM_HTTP && place_has_tls(t->ends[t->read ? STORM_SOURCE : STORM_TARGET].place))
                t->transport = STORM_HTTPS; /* the passive side's requests are what carries the bytes */
        t->begun = true;
        if (!end_open(s, &t->ends[STORM_SOURCE], size) || !end_open(s, &t->ends[STORM_TARGET], size)) {
                s->sums.refused++;
                transfer_end(s, t);
                return;
        }
        pattern_fill(t->seed, 0, t->ends[STORM_SOURCE].memory, size);
        start(s, t);
}

/* ---- its end ---- */

static void end_is_done(struct storm *s, struct transfer *t, struct storm_end *end, int status)
{
        end->done = true;
        end->status = status;
        if (status == FERRY_COMPLETE)
                s->sums.complete++;
        else
                s->sums.failed++;
        if (end == &t->ends[STORM_SOURCE]) {
                memset(end->memory, SCRIBBLE, t->size);
                return;
        }
        if (status == FERRY_COMPLETE) {
                check_bytes(t);
                s->sums.bytes += t->size;
                s->sums.by_transport[t->transport]++;
        }
        memset(end->memory, CANARY, t->size);
}

static void end_look(struct storm *s, struct transfer *t, struct storm_end *end)
{
        struct ferry *client = place_of(s, end)->w.client;
        struct ferry_operation now;
        int r;

        if (end->done || !place_listens(place_of(s, end)))
                return;
        r = ferry_get_operation(client, end->operation, 0, 0, &now);
        if (end->forgotten && (r == FERRY_E_NOT_FOUND || r == FERRY_E_GONE)) {
                struct ferry_region region; /* it ends when its region is free */

                assert_int_equal(ferry_get_region(client, end->region, &region), 0);
                if (region.in_use == 0)
                        end_is_done(s, t, end, FERRY_CANCELLED);
        } else {
                if (r != 0)
                        fail_msg("%s of worker %s: %s", end->operation, place_of(s, end)->w.name,
                                 ferry_last_message(client));
                if (now.done)
                        end_is_done(s, t, end, now.status);
                ferry_operation_clear(&now);
        }
        if (!end->done && now_ms() > t->begun_ms + END_MS * SLOWNESS)
                fail_msg("the %s side (%s of worker %s) of a %s of %llu bytes by %s does not end",
                         end == &t->ends[STORM_SOURCE] ? "source's" : "target's", end->operation,
                         place_of(s, end)->w.name, t->read ? "read" : "write", (unsigned long long)t->size,
                         transports[t->transport]);
}

static void check_quiet(struct storm *s, struct transfer *t)
{
        check_all(t->ends[STORM_TARGET].memory, t->size, CANARY, "a target after its end");
        check_all(t->ends[STORM_SOURCE].memory, t->size, SCRIBBLE, "a source after its end");
        s->sums.canaries += 2;
}

void transfer_look(struct storm *s, struct transfer *t)
{
        if (!t->begun)
                return;
        for (int i = 0; i < 2; i++)
                end_look(s, t, &t->ends[i]);
        if (!t->ends[STORM_SOURCE].done || !t->ends[STORM_TARGET].done)
                return;
        if (t->quiet_until_ms == 0)
                t->quiet_until_ms = now_ms() + storm_draw(s, QUIET_MS);
        if (now_ms() < t->quiet_until_ms)
                return;
        for (int i = 0; i < 2; i++)
                if (is_alive(s, &t->ends[i]) && !place_listens(place_of(s, &t->ends[i])))
                        return; /* its region is deleted when it runs again */
        check_quiet(s, t);
        transfer_end(s, t);
}

/* ---- what happens to it ---- */

void storm_disturb(struct storm *s, bool delete)
{
        size_t first = storm_draw(s, STORM_TRANSFERS);

        for (size_t i = 0; i < STORM_TRANSFERS; i++) {
                struct transfer *t = &s->transfers[(first + i) % STORM_TRANSFERS];
                struct storm_end *end = &t->ends[storm_draw(s, 2)];
                struct ferry *client = place_of(s, end)->w.client;

                if (!t->begun || end->done || end->forgotten || !place_listens(place_of(s, end)))
                        continue;
                if (delete)
                        assert_int_equal(ferry_delete_operation(client, end->operation), 0);
                else
                        assert_int_equal(ferry_cancel_operation(client, end->operation, NULL), 0);
                end->forgotten = delete;
                return;
        }
}

void storm_mourn(struct storm *s, size_t place)
{
        for (size_t i = 0; i < STORM_TRANSFERS; i++)
                for (int side = 0; s->transfers[i].begun && side < 2; side++) {
                        struct transfer *t = &s->transfers[i];

                        if (t->ends[side].place == place && !t->ends[side].done)
                                end_is_done(s, t, &t->ends[side], -1);
                }
}
