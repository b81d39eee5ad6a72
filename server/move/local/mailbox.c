/* SPDX-License-Identifier: Apache-2.0 */
#include "mailbox.h"

#include <errno.h>
#include <string.h>

/*
 * Mailboxes: see mailbox.h, which says why the order of loads and stores below is sufficient. The peer writes its own
 * mailbox at any time: each number is loaded once, checked, and only then used. Thread: the progress thread.
 */

_Static_assert(sizeof(struct mailbox) == 128 + MAILBOX_SIZE, "no padding");

/* Bytes of a record with so many of a message. */
static size_t record_size(size_t size)
{
        return (sizeof(struct mail_record) + size + MAIL_ALIGNMENT - 1) & ~(size_t)(MAIL_ALIGNMENT - 1);
}

bool mail_put(struct mail *mail, const struct iovec *pieces, size_t n, bool *ret_wake)
{
        struct mail_record *record;
        size_t size = 0;
        uint8_t *to;

        if (!atomic_load_explicit(&mail->peer->watched, memory_order_relaxed))
                return false;
        for (size_t i = 0; i < n; i++)
                size += pieces[i].iov_len;
        if (atomic_load_explicit(&mail->peer->taken, memory_order_acquire) == mail->n_put)
                mail->end = 0;
        if (size > MAILBOX_MESSAGE_MAX || mail->end + record_size(size) > MAILBOX_SIZE)
                return false;
        record = (struct mail_record *)(void *)(mail->own->bytes + mail->end);
        record->after = mail->n_posted;
        record->size = size;
        to = record->bytes;
        for (size_t i = 0; i < n; i++)
                to = (uint8_t *)mempcpy(to, pieces[i].iov_base, pieces[i].iov_len);
        mail->n_put++;
        if (mail->end == 0)
                atomic_store_explicit(&mail->own->first, mail->n_put, memory_order_relaxed);
        mail->end += record_size(size);
        atomic_store(&mail->own->put, mail->n_put);
        *ret_wake = !atomic_load(&mail->peer->watched);
        return true;
}

/* The record of the peer's next message; NULL = it has put none. */
static const struct mail_record *find(const struct mail *mail)
{
        size_t at = mail->next;

        if (atomic_load(&mail->peer->put) <= mail->n_taken)
                return NULL;
        /* It changes only once all were taken. */
        if (atomic_load_explicit(&mail->peer->first, memory_order_relaxed) == mail->n_taken + 1)
                at = 0;
        return at < MAILBOX_SIZE ? (const void *)(mail->peer->bytes + at) : NULL;
}

/* Loaded once: the peer may change it. */
static uint64_t load(const uint64_t *number)
{
        return *(const volatile uint64_t *)number;
}

bool mail_is_there(const struct mail *mail)
{
        const struct mail_record *record = find(mail);

        return record && load(&record->after) <= mail->n_read;
}

int mail_take(struct mail *mail, uint8_t bytes[MAILBOX_MESSAGE_MAX])
{
        const struct mail_record *record = find(mail);
        uint64_t after, size;
        size_t at;

        if (!record)
                return 0;
        at = (size_t)((const uint8_t *)record - mail->peer->bytes);
        after = load(&record->after);
        size = load(&record->size);
        if (after > mail->n_read)
                return 0;
        if (after < mail->n_read || size == 0 || size > MAILBOX_MESSAGE_MAX || at + record_size(size) > MAILBOX_SIZE)
                return -EBADMSG;
        memcpy(bytes, record->bytes, size);
        mail->next = at + record_size(size);
        atomic_store_explicit(&mail->own->taken, ++mail->n_taken, memory_order_release);
        return (int)size;
}
