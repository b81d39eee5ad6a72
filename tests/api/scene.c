/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

int worker_setup(void **state)
{
        struct worker *w = calloc(1, sizeof(*w));

        if (!w)
                return -1;
        w->out = -1;
        *state = w;
        return 0;
}

int worker_teardown(void **state)
{
        worker_clean(*state);
        free(*state);
        return 0;
}

void worker_end(struct worker *w)
{
        if (w->pid > 0)
                worker_stop(w);
}

int pair_setup(void **state)
{
        *state = calloc(1, sizeof(struct pair));
        return *state ? 0 : -1;
}

int pair_teardown(void **state)
{
        pair_clean(*state);
        free(*state);
        return 0;
}

void pair_end(struct pair *p)
{
        worker_end(&p->b);
        worker_end(&p->a);
}

int shared_scene_setup(void **state)
{
        struct shared_scene *s = calloc(1, sizeof(*s));

        if (!s)
                return -1;
        (void)snprintf(s->path, sizeof(s->path), "/tmp/ferry-scene-XXXXXX");
        *state = s;
        return mkdtemp(s->path) ? 0 : -1;
}

int shared_scene_teardown(void **state)
{
        struct shared_scene *s = *state;

        pair_clean(&s->pair);
        (void)command_run(STRINGS("rm", "-rf", s->path), NULL, NULL, NULL);
        free(s);
        return 0;
}

void shared_scene_end(struct shared_scene *s)
{
        pair_end(&s->pair);
}
