/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <errno.h>
#include <sched.h>
#include <sys/eventfd.h>

#include <ferry/buffer.h>

#include "base/util.h"
#include "engine_internal.h"

/*
 * Commands of other threads to the engine: a queue that any thread fills, and that the holder of the progress lock
 * takes whole (commands_take) in exchange for the one that it took before. So the queues grow to what was waiting at
 * once, and an ordinary command takes no memory.
 *
 * Lock: command_lock guards the queue that is filled, and the callers that wait. It is a leaf, held for a few
 * instructions. A cancel, a revoke, a stop and a resolved name must get through when memory is short: for these each
 * queue has RESERVE places that no other command takes. STOP is the last command; after it all are refused with
 * -ESHUTDOWN.
 */

enum { RESERVE = 64 };

int commands_init(struct engine *engine)
{
        struct command_queue *const queues[] = { &engine->commands, &engine->taken_commands };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(queues); i++) {
                queues[i]->all = ferry_reserve(NULL, &queues[i]->room, RESERVE, sizeof(struct command));
                if (!queues[i]->all)
                        return -ENOMEM;
        }
        return 0;
}

void engine_wake(struct engine *engine)
{
        (void)eventfd_write(engine->wake_fd, 1);
}

static bool must_get_through(enum command_type type)
{
        return type == COMMAND_CANCEL || type == COMMAND_REVOKE || type == COMMAND_RESOLVED || type == COMMAND_STOP;
}

/*
 * Queues a copy of the command. wake: writes wake_fd, once for all commands that the engine has not taken yet. Returns
 * 0; -ESHUTDOWN after a STOP; -ENOMEM.
 */
static int enqueue(struct engine *engine, const struct command *command, bool wake)
{
        struct command_queue *queue = &engine->commands;
        struct command *all = NULL;
        int r = -ESHUTDOWN;

        (void)pthread_mutex_lock(&engine->command_lock);
        if (!engine->closed) {
                size_t n = queue->n + 1 + (must_get_through(command->type) ? 0 : RESERVE);

                all = ferry_reserve(queue->all, &queue->room, n, sizeof(*all));
                r = all ? 0 : -ENOMEM;
        }
        if (all) {
                queue->all = all;
                all[queue->n++] = *command;
                engine->closed = command->type == COMMAND_STOP;
                atomic_store(&engine->commands_waiting, true);
                if (wake && !atomic_exchange(&engine->commands_told, true))
                        engine_wake(engine);
        }
        (void)pthread_mutex_unlock(&engine->command_lock);
        return r;
}

int command_post(struct engine *engine, const struct command *command)
{
        int r;

        /* Retries until the engine's thread has taken the queue, whose places are free again then. */
        while ((r = enqueue(engine, command, true)) == -ENOMEM && must_get_through(command->type))
                (void)sched_yield();
        return r;
}

int command_post_unwoken(struct engine *engine, const struct command *command)
{
        return enqueue(engine, command, false);
}

int command_call(struct engine *engine, const struct command *command)
{
        bool finished = false;
        struct command call = *command;
        int r;

        call.finished = &finished;
        r = enqueue(engine, &call, true);
        if (r < 0)
                return r;
        (void)pthread_mutex_lock(&engine->command_lock);
        /* The condition is shared by all callers: each looks at its own flag. */
        while (!finished)
                (void)pthread_cond_wait(&engine->command_done, &engine->command_lock);
        (void)pthread_mutex_unlock(&engine->command_lock);
        return 0;
}

const struct command_queue *commands_take(struct engine *engine)
{
        struct command_queue taken;

        engine->taken_commands.n = 0;
        if (!atomic_load_explicit(&engine->commands_waiting, memory_order_acquire))
                return &engine->taken_commands;
        (void)pthread_mutex_lock(&engine->command_lock);
        taken = engine->commands;
        engine->commands = engine->taken_commands;
        engine->taken_commands = taken;
        /* Under the lock: a command that is queued next sets both again, and writes wake_fd again. */
        atomic_store(&engine->commands_waiting, false);
        atomic_store(&engine->commands_told, false);
        (void)pthread_mutex_unlock(&engine->command_lock);
        return &engine->taken_commands;
}

void command_finish(struct engine *engine, const struct command *command)
{
        if (!command->finished)
                return;
        (void)pthread_mutex_lock(&engine->command_lock);
        *command->finished = true;
        (void)pthread_cond_broadcast(&engine->command_done);
        (void)pthread_mutex_unlock(&engine->command_lock);
}
