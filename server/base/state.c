/* SPDX-License-Identifier: Apache-2.0 */
#include "base/state.h"

#include <stdlib.h>

#include "base/log.h"

void state_check(const char *of, const struct state_row *table, unsigned from, unsigned to)
{
        if (table[from].next & STATE_BIT(to))
                return;
        log_event(LOG_ERROR, "forbidden state change", LOG_S("of", of), LOG_S("from", table[from].name),
                  LOG_S("to", table[to].name));
        abort();
}
