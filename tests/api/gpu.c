/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

#include <stdio.h>

void gpu_set_faults(const struct gpu_scene *s, const char *words)
{
        FILE *file;

        /* The workers read it while it changes. */
        const char *next = text_format("%s.next", s->faults);
        file = fopen(next, "we");
        assert_non_null(file);
        assert_true(fputs(words, file) >= 0);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(rename(next, s->faults), 0);
}

static void gpu_release(void *scene)
{
        struct gpu_scene *s = scene;

        gpu_set_faults(s, ""); /* for workers that are still to end */
        (void)munmap(s->counts, sizeof(*s->counts));
}

void gpu_begin(struct gpu_scene *s)
{
        directory_make(s->directory, sizeof(s->directory));
        (void)snprintf(s->faults, sizeof(s->faults), "%s/faults", s->directory);
        (void)setenv("CUDA_STANDIN_FAULTS", s->faults, 1);
        (void)snprintf(s->counts_path, sizeof(s->counts_path), "%s/counts", s->directory);
        s->counts = standin_counts_new(s->counts_path);
        assert_non_null(s->counts);
        test_keep(s, gpu_release);
        (void)unsetenv("CUDA_STANDIN_DEVICES");
        (void)unsetenv("CUDA_STANDIN_FIRST");
        gpu_set_faults(s, "");
}

/* A region on a device, with the pattern of seed; 0 = zeros. */
const char *device_region(struct worker *w, const char *device, uint64_t size, uint64_t seed)
{
        const struct ferry_region_spec spec = { .size = size, .device = device };
        uint8_t *pattern = malloc(size);
        struct ferry_region region;

        assert_non_null(pattern);
        assert_int_equal(ferry_create_region(w->client, &spec, &region), 0);
        pattern_fill(seed, 0, pattern, size);
        if (seed)
                assert_int_equal(ferry_put_region_content(w->client, region.id, 0, pattern, size), 0);
        free(pattern);
        return text_format("%s", region.id);
}

/* The transport that an operation names. */
void assert_transport(struct worker *w, const char *id, const char *transport)
{
        struct json_object *operation = operation_json(w, id);

        assert_string_equal(json_text(operation, "transport"), transport);
}

static const char *active_body(const struct course *c, const char *region, const char *metadata)
{
        return text_format("{\"kind\":\"%s\",\"descriptors\":[{\"region\":\"%s\"}],\"remote_metadata\":%s%s}",
                           c->kind == FERRY_READABLE ? "read" : "write", region, metadata, c->more ? c->more : "");
}

void course_prepare(struct pair *p, const struct course *c, struct course_state *ret_state)
{
        bool read = c->kind == FERRY_READABLE;

        ret_state->offered = device_region(&p->a, c->offered, c->size, read ? SEED : 0);
        ret_state->local = device_region(&p->b, c->local, c->size, read ? 0 : SEED);
        offer_make(&p->a, c->kind, ret_state->offered, &ret_state->passive);
}

void course_begin(struct pair *p, const struct course *c, struct course_state *state)
{
        const char *body = active_body(c, state->local, state->passive.metadata);
        struct json_object *answer = call_json(&p->b, 201, "POST", "/v1/operations", body);

        (void)snprintf(state->active, sizeof(state->active), "%s", json_text(answer, "id"));
}

void course_end(struct pair *p, const struct course *c, struct course_state *state, const char *passive_transport,
                const char *active_transport)
{
        bool read = c->kind == FERRY_READABLE;

        operation_assert_end(&p->b, state->active, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, state->passive.id, FERRY_COMPLETE, NULL);
        region_assert_pattern(read ? &p->b : &p->a, read ? state->local : state->offered, SEED, 0, c->size);
        assert_transport(&p->b, state->active, active_transport);
        assert_transport(&p->a, state->passive.id, passive_transport);
        course_clear(p, state);
}

void course_clear(struct pair *p, struct course_state *state)
{
        ferry_operation_clear(&state->passive);
        region_drop(&p->a, state->offered);
        region_drop(&p->b, state->local);
}

void course_run(struct pair *p, const struct course *c, const char *passive_transport, const char *active_transport)
{
        struct course_state state;

        course_prepare(p, c, &state);
        course_begin(p, c, &state);
        course_end(p, c, &state, passive_transport, active_transport);
}

void assert_not_done(struct worker *w, const char *id)
{
        OPERATION now;

        assert_int_equal(ferry_get_operation(w->client, id, 0, 0, &now), 0);
        assert_false(ferry_status_is_terminal(now.status));
}
