/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>

#include "base/util.h"
#include "faulty_transport.h"
#include "fuzz_engines.h"
#include "fuzz_tape.h"

/*
 * Requesters and responders of two engines over the faulty transport: the input says which transfers begin, what is
 * cancelled, when time passes, which engine runs next, and what becomes of each message that arrives.
 */

static struct fuzz_tape tape;
static bool time_passed; /* more than the engines' grace may be */

/* The chance of most messages is to arrive. Those before FAULT_DROP are for sends alone. */
static enum fault next_fault(void *context, const struct wire_header *header)
{
        unsigned choice = tape_byte(&tape);

        (void)context;
        (void)header;
        return choice >= 256 - FAULTS + FAULT_DROP ? choice - (256 - FAULTS) : FAULT_NONE;
}

static uint64_t next_total(void)
{
        static const uint64_t totals[] = { 1, 100, 7936, 7937, 20000, 64 << 10, (64 << 10) + 1, FLIGHT_TOTAL_MAX };

        return totals[tape_below(&tape, FERRY_ARRAY_SIZE(totals))];
}

static void begin(struct fuzz_engines *engines)
{
        unsigned how = tape_byte(&tape);
        uint64_t total = next_total();

        (void)flight_begin(engines, how & 1, how >> 1 & 1, how & 4 ? ENGINE_READ : ENGINE_WRITE, total, how & 8,
                           tape_byte(&tape));
}

static void cancel(struct fuzz_engines *engines)
{
        unsigned which = tape_byte(&tape);

        if (engines->n > 0)
                flight_cancel(&engines->flights[which / 2 % engines->n], which % 2);
}

static void step(struct fuzz_engines *engines)
{
        static const uint64_t times_us[] = { 1, 1000, 20000, 60000, 500000, 6000000, 30000000, 61000000 };
        unsigned choice = tape_byte(&tape);

        switch (choice % 8) {
        case 0:
                begin(engines);
                break;
        case 1:
                cancel(engines);
                break;
        case 2:
                time_passed = true;
                engines_advance(times_us[choice / 8 % FERRY_ARRAY_SIZE(times_us)]);
                break;
        case 3:
        case 4:
                engines_pass(engines, choice % 8 - 3);
                break;
        default:
                engines_run(engines, choice / 8);
        }
}

/* What the faults that were met leave of the promises. */
static void check(const struct flight *f)
{
        bool forged = faulty_count(FAULT_FLIP_HEADER) > 0, lost = time_passed;
        bool complete[2] = { f->ended[ACTIVE] && !f->error[ACTIVE], f->ended[PASSIVE] && !f->error[PASSIVE] };

        for (enum fault fault = FAULT_NONE + 1; fault < FAULTS; fault++)
                lost |= fault != FAULT_DELAY && faulty_count(fault) > 0;
        if (complete[f->direction == ENGINE_READ ? ACTIVE : PASSIVE] && !forged &&
            (f->verify || faulty_count(FAULT_FLIP) == 0))
                FUZZ_CHECK(flight_has_arrived(f));
        if (!forged && f->direction == ENGINE_WRITE && complete[ACTIVE])
                FUZZ_CHECK(complete[PASSIVE]);
        if (!lost)
                FUZZ_CHECK(complete[ACTIVE] == complete[PASSIVE]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const struct faulty_plan plan = { .delay_us = 3000, .script = next_fault };
        struct fuzz_engines engines = { 0 };
        size_t descriptors;

        (void)engines_directory();
        descriptors = fuzz_descriptors();
        tape = (struct fuzz_tape){ data, data + size };
        time_passed = false;
        faulty_set_plan(&plan);
        engines_open(&engines, tape_byte(&tape) & 1);
        while (tape_has(&tape))
                step(&engines);
        engines_close(&engines);
        for (size_t i = 0; i < engines.n; i++)
                check(&engines.flights[i]);
        FUZZ_CHECK(fuzz_descriptors() == descriptors);
        return 0;
}
