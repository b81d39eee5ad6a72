/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "fabric_internal.h"

/*
 * What other threads ask of the data plane: commands, done in order by whoever has the turn.
 */

void thread_wake(struct fabric *fabric)
{
        uint64_t one = 1;

        (void)!write(fabric->wake_fd, &one, sizeof(one));
}

static int enqueue(struct fabric *fabric, const struct command *command, struct command_reply *reply, bool wake)
{
        struct command *copy = malloc(sizeof(*copy));

        if (!copy)
                return -ENOMEM;
        *copy = *command;
        copy->reply = reply;
        copy->next = NULL;

        (void)pthread_mutex_lock(&fabric->command_lock);
        if (fabric->closed) {
                (void)pthread_mutex_unlock(&fabric->command_lock);
                free(copy);
                return -ESHUTDOWN;
        }
        if (fabric->commands_last)
                fabric->commands_last->next = copy;
        else
                fabric->commands = copy;
        fabric->commands_last = copy;
        fabric->closed = command->type == COMMAND_STOP;
        atomic_store(&fabric->commands_waiting, true);
        if (wake && !atomic_exchange(&fabric->commands_told, true))
                thread_wake(fabric);
        (void)pthread_mutex_unlock(&fabric->command_lock);
        return 0;
}

int command_post(struct fabric *fabric, const struct command *command)
{
        return enqueue(fabric, command, NULL, true);
}

int command_post_unheard(struct fabric *fabric, const struct command *command)
{
        return enqueue(fabric, command, NULL, false);
}

int command_call(struct fabric *fabric, const struct command *command)
{
        struct command_reply reply = { 0 };
        int r = enqueue(fabric, command, &reply, true);

        if (r < 0)
                return r;
        (void)pthread_mutex_lock(&fabric->command_lock);
        while (!reply.ready)
                (void)pthread_cond_wait(&fabric->command_done, &fabric->command_lock);
        (void)pthread_mutex_unlock(&fabric->command_lock);
        return reply.result;
}

static int register_memory(struct fabric *fabric, struct fabric_memory *memory)
{
        for (int i = 0; i < SIDE_COUNT; i++) {
                int r = 0;

                if (fabric->sides[i].worker)
                        r = side_register(&fabric->sides[i], memory->address, memory->size, &memory->handles[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}

void memory_release(struct fabric *fabric, struct fabric_memory *memory)
{
        for (int i = 0; i < SIDE_COUNT; i++)
                if (memory->handles[i])
                        (void)ucp_mem_unmap(fabric->sides[i].context, memory->handles[i]);
}

static void cancel_transfer(struct fabric *fabric, const struct command *command)
{
        struct transfer *t;

        HASH_FIND(hh, fabric->transfers_by_id, &command->id, sizeof(command->id), t);
        if (t)
                transfer_cancel(t, command->reason, "");
}

static void revoke_attempts(struct fabric *fabric, const struct command *command)
{
        struct attempt *a, *next;

        HASH_ITER (hh, fabric->attempts_by_transfer, a, next)
                if (a->operation == command->id)
                        attempt_revoke(a, command->reason, command->wire_reason, "");
}

static void stop_all(struct fabric *fabric)
{
        struct transfer *t, *t_next;
        struct attempt *a, *a_next;

        fabric->stopping = true;
        connects_cancel(fabric);
        HASH_ITER (hh, fabric->transfers_by_id, t, t_next)
                transfer_cancel(t, FERRY_E_CANCELLED, "the worker is shutting down");
        HASH_ITER (hh, fabric->attempts_by_transfer, a, a_next)
                attempt_revoke(a, FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER, "the worker is shutting down");
}

static int run_command(struct fabric *fabric, const struct command *command)
{
        switch (command->type) {
        case COMMAND_START:
                transfer_run(fabric, command->transfer);
                return 0;
        case COMMAND_CONNECT:
                connect_run(fabric, command->connect);
                return 0;
        case COMMAND_CANCEL:
                cancel_transfer(fabric, command);
                return 0;
        case COMMAND_REVOKE:
                revoke_attempts(fabric, command);
                return 0;
        case COMMAND_REGISTER:
                return register_memory(fabric, command->memory);
        case COMMAND_UNREGISTER:
                memory_forget(fabric, command->memory);
                memory_release(fabric, command->memory);
                return 0;
        case COMMAND_STOP:
                stop_all(fabric);
                return 0;
        }
        return -EINVAL;
}

bool commands_run(struct fabric *fabric)
{
        struct command *list, *next;

        if (!atomic_load_explicit(&fabric->commands_waiting, memory_order_acquire))
                return false;
        (void)pthread_mutex_lock(&fabric->command_lock);
        list = fabric->commands;
        fabric->commands = fabric->commands_last = NULL;
        atomic_store(&fabric->commands_waiting, false);
        atomic_store(&fabric->commands_told, false);
        (void)pthread_mutex_unlock(&fabric->command_lock);

        for (; list; list = next) {
                int result = run_command(fabric, list);

                next = list->next;
                if (list->reply) {
                        (void)pthread_mutex_lock(&fabric->command_lock);
                        list->reply->result = result;
                        list->reply->ready = true;
                        (void)pthread_cond_broadcast(&fabric->command_done);
                        (void)pthread_mutex_unlock(&fabric->command_lock);
                }
                free(list);
        }
        return true;
}
