/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/state.h"
#include "base/util.h"

#include "unit.h"

enum { FIRST, SECOND, LAST };

static const struct state_row states[] = {
        [FIRST] = { "FIRST", STATE_BIT(SECOND) | STATE_BIT(LAST) },
        [SECOND] = { "SECOND", STATE_BIT(LAST) },
        [LAST] = { "LAST", 0 },
};

/* How a process ends that makes the change: its signal, or 0. */
static int change(unsigned from, unsigned to)
{
        pid_t child = fork();
        int status;

        assert_true(child >= 0);
        if (child == 0) {
                (void)prctl(PR_SET_DUMPABLE, 0); /* no core */
                (void)signal(SIGABRT, SIG_DFL);
                (void)close(STDERR_FILENO);
                state_check("test", states, from, to);
                _exit(EXIT_SUCCESS);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(a_change_that_the_table_lacks_aborts)
{
        static const int ends[FERRY_ARRAY_SIZE(states)][FERRY_ARRAY_SIZE(states)] = {
                [FIRST] = { SIGABRT, 0, 0 },
                [SECOND] = { SIGABRT, SIGABRT, 0 },
                [LAST] = { SIGABRT, SIGABRT, SIGABRT },
        };

        FOR_EACH (unsigned, from, FIRST, SECOND, LAST)
                FOR_EACH (unsigned, to, FIRST, SECOND, LAST)
                        assert_int_equal(change(from, to), ends[from][to]);
}
