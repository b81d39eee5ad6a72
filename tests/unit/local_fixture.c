/* SPDX-License-Identifier: Apache-2.0 */
#include "local_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"

char fixture_directory[] = "/tmp/ferry-test-XXXXXX";
static uint64_t next_id = 1;

int fixture_setup(void **state)
{
        (void)state;
        (void)memcpy(fixture_directory + sizeof(fixture_directory) - 7, "XXXXXX", 6);
        return mkdtemp(fixture_directory) ? 0 : -1;
}

/* Nothing is left behind by any test. */
int fixture_teardown(void **state)
{
        (void)state;
        return rmdir(fixture_directory);
}

/* ---- the engine ---- */

static bool begin(struct message *message)
{
        struct outcome *outcome = message->owner;

        outcome->begun++;
        return !outcome->refuses;
}

static void done(struct message *message, enum message_result result)
{
        struct outcome *outcome = message->owner;

        outcome->done++;
        outcome->result = result;
        outcome->copied = message->copied;
}

struct message *message_make(struct worker *worker, const struct stream *stream, uint64_t offset, uint64_t length,
                             uint64_t transfer, struct outcome *outcome)
{
        struct message *message = message_new(worker->transport);

        assert_non_null(message);
        message->header = (struct wire_header){
                .type = WIRE_DATA,
                .to_epoch = 1,
                .from_epoch = worker->epoch,
                .operation = 1,
                .transfer = transfer,
                .offset = offset,
                .length = length,
        };
        message->stream = length ? stream : NULL;
        message->offset = offset;
        message->length = length;
        message->transfer = transfer;
        message->begin = begin;
        message->done = done;
        message->owner = outcome;
        *outcome = (struct outcome){ .refuses = outcome->refuses };
        return message;
}

void worker_send(struct link *link, struct message *message)
{
        link->transport->ops->send(link, message);
}

static void piece_received(struct message *message)
{
        struct outcome *outcome = message->owner;
        struct worker *worker = FERRY_CONTAINER_OF(outcome, struct worker, received);

        worker->copied++;
        if (worker->on_copied)
                worker->on_copied(worker, message);
}

static void on_message(void *context, struct link *link, const struct wire_header *header, struct payload *payload)
{
        struct worker *worker = context;

        if (worker->n < HEADERS_MAX)
                worker->headers[worker->n] = *header;
        worker->n++;
        worker->link = link;
        if (payload->bytes && !(worker->place && worker->place->off_host)) {
                worker->bytes += payload->length;
                assert_true(payload->length <= sizeof(worker->last_inline));
                memcpy(worker->last_inline, payload->bytes, payload->length);
        } else if (payload->length > 0 && worker->place) {
                bool refuses = worker->received.refuses;
                int times = worker->received.done;
                struct message *message = message_make(worker, worker->place, header->offset, payload->length,
                                                       header->transfer, &worker->received);

                message->piece_done = piece_received;
                message->verify = (header->flags & WIRE_VERIFY) != 0;
                worker->received.refuses = refuses;
                worker->received.done = times;
                worker->transport->ops->receive(link, message, payload);
        }
        if (worker->on_message)
                worker->on_message(worker, link, header);
}

static bool on_accepted(void *context, struct link *link)
{
        struct worker *worker = context;

        if (worker->refuses_links)
                return false;
        worker->link = link;
        return true;
}

static void on_ended(void *context, struct link *link)
{
        struct worker *worker = context;

        assert_int_equal(link->state, LINK_ENDED);
        worker->ended++;
        worker->error = link->error;
        (void)snprintf(worker->detail, sizeof(worker->detail), "%s", link->detail);
        if (worker->link == link)
                worker->link = NULL;
        link_free(link);
}

static void on_room(void *context, struct link *link)
{
        (void)link;
        ((struct worker *)context)->room++;
}

/* ---- workers ---- */

void worker_open(struct worker *worker, unsigned copy_threads)
{
        const struct transport_handlers handlers = { worker, on_message, on_accepted, on_ended, on_room };
        struct local_config config = { .directory = fixture_directory, .copy_threads = copy_threads };

        *worker = (struct worker){ .epoch = random_id() };
        config.epoch = worker->epoch;
        assert_int_equal(local_transport_new(&config, &handlers, 0, &worker->transport), 0);
}

void worker_close(struct worker *worker)
{
        worker->transport->ops->shut_down(worker->transport, 0);
        assert_null(worker->transport->links);
        worker->transport->ops->free(worker->transport);
        worker->transport = NULL;
}

struct link *worker_connect(struct worker *worker, uint64_t epoch)
{
        struct transport_peer peer = { .epoch = epoch };
        int error = 0;
        struct link *link = worker->transport->ops->connect(worker->transport, &peer, &error);

        assert_int_equal(error, 0);
        assert_non_null(link);
        return link;
}

void worker_step(struct worker *a, struct worker *b)
{
        if (a)
                (void)a->transport->ops->progress(a->transport);
        if (b)
                (void)b->transport->ops->progress(b->transport);
}

/* ---- memory ---- */

void block_fill(struct block *block, unsigned seed)
{
        for (size_t i = 0; i < block->memory.size; i++)
                block->memory.address[i] = (uint8_t)(i * 31 + i / 4099 + seed);
}

void block_new(struct block *block, struct worker *worker, size_t size, bool is_file)
{
        void *address;
        int fd = -1;

        if (is_file) {
                fd = memfd_create("ferry-test-block", MFD_CLOEXEC | MFD_ALLOW_SEALING);
                assert_true(fd >= 0);
                assert_int_equal(ftruncate(fd, (off_t)size), 0);
                assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
        }
        address = mmap(NULL, size, PROT_READ | PROT_WRITE, is_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
        assert_true(address != MAP_FAILED);
        *block = (struct block){ .memory = { .address = address, .size = size, .id = next_id, .fd = fd },
                                 .worker = worker };
        next_id++;
        block_fill(block, (unsigned)block->memory.id);
        assert_int_equal(worker->transport->ops->register_memory(worker->transport, &block->memory), 0);
}

void block_free(struct block *block)
{
        struct worker *worker = block->worker;

        if (!worker)
                return;
        if (worker->transport)
                worker->transport->ops->deregister_memory(worker->transport, &block->memory);
        block->worker = NULL;
        (void)munmap(block->memory.address, block->memory.size);
        if (block->memory.fd >= 0)
                (void)close(block->memory.fd);
}

/* ---- what is left ---- */

int count_descriptors(void)
{
        DIR *directory = opendir("/proc/self/fd");
        int n = 0;

        assert_non_null(directory);
        while (readdir(directory))
                n++;
        (void)closedir(directory);
        return n;
}

int count_mappings(const char *name)
{
        FILE *maps = fopen("/proc/self/maps", "re");
        char line[512];
        int n = 0;

        assert_non_null(maps);
        while (fgets(line, sizeof(line), maps))
                n += strstr(line, name) != NULL;
        (void)fclose(maps);
        return n;
}
