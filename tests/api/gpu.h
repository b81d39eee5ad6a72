/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GPU_H
#define TESTS_GPU_H

#include "counts.h"
#include "steps.h"
#include "wire.h"

/*
 * Memory on GPUs, in workers that find tests/cuda where the CUDA driver would be: its memory cannot be touched by host
 * code, and its copies are done when they are waited for. Every function asserts.
 */

enum { KIB = 1 << 10, MIB = 1 << 20, SEED = 11 };

struct gpu_scene {
        struct pair pair;
        char directory[32], faults[64], counts_path[64];
        struct standin_counts *counts; /* of all its workers */
};

/* A test with a struct gpu_scene *s; its workers are gone afterwards. */
#define WITH_GPUS(name) SCENE(struct gpu_scene, s, name, gpu_begin(s))
void gpu_begin(struct gpu_scene *s);

/* The words of CUDA_STANDIN_FAULTS, which the workers see from now on. */
void gpu_set_faults(const struct gpu_scene *s, const char *words);

/* A region on a device, with the pattern of seed; 0 = zeros. */
const char *device_region(struct worker *w, const char *device, uint64_t size, uint64_t seed);

/* The transport that an operation names. */
void assert_transport(struct worker *w, const char *id, const char *transport);

struct course {
        enum ferry_kind kind; /* of the offer, on a */
        const char *offered, *local;
        uint64_t size;
        const char *more; /* of the active operation */
};

/* The same in steps: its regions and the offer, the active operation, both ends and what is to be cleared. */
struct course_state {
        const char *offered, *local;
        char active[FERRY_ID_SIZE];
        struct ferry_operation passive;
};
void course_prepare(struct pair *p, const struct course *c, struct course_state *ret_state);
void course_begin(struct pair *p, const struct course *c, struct course_state *state);
void course_end(struct pair *p, const struct course *c, struct course_state *state, const char *passive_transport,
                const char *active_transport);
/* Its regions go. */
void course_clear(struct pair *p, struct course_state *state);

/* The operation has not ended. */
void assert_not_done(struct worker *w, const char *id);

/* Moves the bytes between a region of each device; both sides end COMPLETE and name these transports. */
void course_run(struct pair *p, const struct course *c, const char *passive_transport, const char *active_transport);

#endif
