/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_STATE_H
#define BASE_STATE_H

#include <stdint.h>

/*
 * A table of states has a row for each value of an enum: its name, and the states that may follow it. A setter of its
 * own changes the state of a thing, and asks state_check first. scripts/draw-states draws each table in the README of
 * its folder.
 */
struct state_row {
        const char *name;
        uint32_t next; /* STATE_BIT of each */
};

#define STATE_BIT(state) (UINT32_C(1) << (state))

/* Logs a change that the table forbids, and aborts the process. of: the thing. Any thread. */
void state_check(const char *of, const struct state_row *table, unsigned from, unsigned to);

#endif
