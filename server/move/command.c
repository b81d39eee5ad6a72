/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "engine_internal.h"

/*
 * Commands of other threads to the engine: a queue that any thread fills and the holder of the progress lock takes
 * whole (commands_take). The queue owns a command from its posting until command_finish().
 *
 * Lock: command_lock guards the queue, the reserve and the callers that wait. It is a leaf, held for a few
 * instructions. A cancel, a revoke, a stop and a resolved name must get through when memory is short: for these 64
 * commands are made beforehand, the reserve. STOP is the last command; after it all are refused with -ESHUTDOWN.
 */

enum { RESERVE = 64 };

int commands_init(struct engine *engine)
{
        engine->reserved = calloc(RESERVE, sizeof(*engine->reserved));
        if (!engine->reserved)
                return -ENOMEM;
        for (size_t i = 0; i < RESERVE; i++)
                LL_PREPEND(engine->reserve, &engine->reserved[i]);
        return 0;
}

void engine_wake(struct engine *engine)
{
        (void)eventfd_write(engine->wake_fd, 1);
}

/* Takes a command of the reserve; NULL when it is used up. The command lock is held. */
static struct command *take_reserve(struct engine *engine)
{
        struct command *command = engine->reserve;

        if (command)
                engine->reserve = command->next;
        return command;
}

/*
 * Queues a copy of the command. finished: of a caller that waits, or NULL; wake: writes wake_fd, once for all commands
 * that the engine has not taken yet; surely: takes a reserved command when memory is short. Returns 0; -ESHUTDOWN after
 * a STOP; -ENOMEM; with surely, -ENOBUFS when the reserve is used up, too.
 */
static int enqueue(struct engine *engine, const struct command *command, bool *finished, bool wake, bool surely)
{
        struct command *copy = malloc(sizeof(*copy));
        bool reserved = !copy;

        if (!copy && !surely)
                return -ENOMEM;
        (void)pthread_mutex_lock(&engine->command_lock);
        if (engine->closed || (reserved && !(copy = take_reserve(engine)))) {
                bool closed = engine->closed;

                (void)pthread_mutex_unlock(&engine->command_lock);
                if (!reserved)
                        free(copy);
                return closed ? -ESHUTDOWN : -ENOBUFS;
        }
        *copy = *command;
        copy->finished = finished;
        copy->reserved = reserved;
        DL_APPEND(engine->commands, copy);
        engine->closed = command->type == COMMAND_STOP;
        atomic_store(&engine->commands_waiting, true);
        if (wake && !atomic_exchange(&engine->commands_told, true))
                engine_wake(engine);
        (void)pthread_mutex_unlock(&engine->command_lock);
        return 0;
}

int command_post(struct engine *engine, const struct command *command)
{
        return enqueue(engine, command, NULL, true, false);
}

int command_post_unwoken(struct engine *engine, const struct command *command)
{
        return enqueue(engine, command, NULL, false, false);
}

int command_post_reserved(struct engine *engine, const struct command *command)
{
        int r;

        /* Retries: the engine's thread empties the queue, which refills the reserve. */
        while ((r = enqueue(engine, command, NULL, true, true)) == -ENOBUFS)
                (void)sched_yield();
        return r;
}

int command_call(struct engine *engine, const struct command *command)
{
        bool finished = false;
        int r = enqueue(engine, command, &finished, true, false);

        if (r < 0)
                return r;
        (void)pthread_mutex_lock(&engine->command_lock);
        /* The condition is shared by all callers: each looks at its own flag. */
        while (!finished)
                (void)pthread_cond_wait(&engine->command_done, &engine->command_lock);
        (void)pthread_mutex_unlock(&engine->command_lock);
        return 0;
}

struct command *commands_take(struct engine *engine)
{
        struct command *list;

        if (!atomic_load_explicit(&engine->commands_waiting, memory_order_acquire))
                return NULL;
        (void)pthread_mutex_lock(&engine->command_lock);
        list = engine->commands;
        engine->commands = NULL;
        /* Under the lock: a command that is queued next sets both again, and writes wake_fd again. */
        atomic_store(&engine->commands_waiting, false);
        atomic_store(&engine->commands_told, false);
        (void)pthread_mutex_unlock(&engine->command_lock);
        return list;
}

struct command *command_finish(struct engine *engine, struct command *command)
{
        struct command *next = command->next;
        bool reserved = command->reserved; /* read first: once back in the reserve, another thread may use it */

        if (command->finished || reserved) {
                (void)pthread_mutex_lock(&engine->command_lock);
                if (command->finished) {
                        *command->finished = true;
                        (void)pthread_cond_broadcast(&engine->command_done);
                }
                if (reserved) {
                        command->next = engine->reserve;
                        engine->reserve = command;
                }
                (void)pthread_mutex_unlock(&engine->command_lock);
        }
        if (!reserved)
                free(command);
        return next;
}
