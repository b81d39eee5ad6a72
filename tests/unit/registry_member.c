/* SPDX-License-Identifier: Apache-2.0 */
#include "registry_member.h"

#include <ferry/error.h>

#include "base/log.h"
#include "peers/peers.h"

struct etcd etcd;
uint64_t member_ttl_ms;
const char *member_user;
static char prefix[32]; /* of the test: what one that failed left behind is not in the way of the next */

void member_start_at(struct member *member, const char *url)
{
        const struct registry_config config = {
                .url = url, .prefix = prefix, .ttl_ms = member_ttl_ms, .user = member_user
        };

        assert_int_equal(registry_new(&config, &member->registry), 0);
        const struct peers_config peers = { .registry = member->registry };
        assert_int_equal(peers_new(&peers, &member->peers), 0);
}

int member_join(struct member *member, const char *name, uint64_t epoch, char message[256])
{
        struct registry_entry self = { .epoch = epoch,
                                       .version = "1",
                                       .http = "http://127.0.0.1:9300",
                                       .data = "127.0.0.1:9400",
                                       .started_at = "2026-11-20T11:01:52.123Z" };

        (void)snprintf(self.name, sizeof(self.name), "%s", name);
        return registry_join(member->registry, &self, message, 256);
}

void member_die(struct member *member)
{
        member->peers = peers_free(member->peers);
        member->registry = registry_free(member->registry);
}

void member_leave(struct member *member)
{
        struct registry_view view;

        registry_leave(member->registry);
        registry_await_left(member->registry, WAIT_MS);
        registry_get_view(member->registry, &view);
        assert_int_equal(view.status, REGISTRY_LEFT);
        member_die(member);
}

void await_status(struct member *member, enum registry_status status)
{
        struct registry_view view;

        WAIT_UNTIL_OR((registry_get_view(member->registry, &view), view.status == status), "%s, not %s",
                      registry_status_name(view.status), registry_status_name(status));
}

void member_start(struct member *member, const char *name, uint64_t epoch)
{
        char message[256] = "";

        member_start_at(member, etcd.url);
        if (member_join(member, name, epoch, message) != 0)
                fail_msg("%s: %s", name, message);
        await_status(member, REGISTRY_REGISTERED);
}

static void on_found(void *context, int error, const char *detail, const struct registry_page *page)
{
        struct found *found = context;

        pthread_mutex_lock(&found->lock);
        found->done = true;
        found->error = error;
        (void)snprintf(found->detail, sizeof(found->detail), "%s", detail);
        if (page) {
                assert_true(page->n <= MEMBERS_MAX);
                memcpy(found->entries, page->entries, page->n * sizeof(page->entries[0]));
                found->n = page->n;
                found->cursor = page->cursor;
                found->revision = page->revision;
        }
        pthread_cond_signal(&found->changed);
        pthread_mutex_unlock(&found->lock);
}

void find_begin(struct member *member, const struct registry_query *query, struct found *found)
{
        *found = (struct found){ .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
        assert_int_equal(registry_find(member->registry, query, on_found, found), 0);
}

void find_end(struct found *found)
{
        pthread_mutex_lock(&found->lock);
        WAIT_SIGNAL(&found->changed, &found->lock, found->done);
        pthread_mutex_unlock(&found->lock);
}

void find(struct member *member, const struct registry_query *query, struct found *found)
{
        find_begin(member, query, found);
        find_end(found);
}

void find_answered(struct member *member, const struct registry_query *query, struct found *found)
{
        WAIT_UNTIL((find(member, query, found), found->error != FERRY_E_PEER_UNREACHABLE));
        assert_int_equal(found->error, 0);
}

uint64_t epoch_of(struct member *member, const char *name)
{
        const struct registry_query query = { .name = name, .limit = 1 };
        struct found found;

        find_answered(member, &query, &found);
        return found.n ? found.entries[0].epoch : 0;
}

void await_epoch(struct member *member, const char *name, uint64_t epoch)
{
        WAIT_UNTIL(epoch_of(member, name) == epoch);
}

int members_setup(void **state)
{
        (void)state;
        log_set_level(LOG_ERROR);
        if (etcd_is_here())
                etcd_start(&etcd, NULL);
        return 0;
}

int member_setup(void **state)
{
        static unsigned n;

        (void)state;
        member_ttl_ms = MEMBER_TTL_MS;
        member_user = NULL;
        (void)snprintf(prefix, sizeof(prefix), "/test/%u", n++);
        return 0;
}

int members_teardown(void **state)
{
        (void)state;
        etcd_clean(&etcd);
        return 0;
}
