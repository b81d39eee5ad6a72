/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LINK_H
#define CLI_LINK_H

/*
 * A resource of any worker: "http://HOST:PORT/v1/operations/ID[/metadata]", "unix:/PATH:/v1/operations/ID[/metadata]",
 * "@NAME/ID", "ferry://NAME/ID" or "ID". Pure.
 */
struct link {
        char *worker; /* URL, "@NAME" or "ferry://NAME"; NULL = the one of --url */
        char *id;
};

/* collection: "operations" or "regions", whose ids begin with prefix. 0; -EINVAL; -ENOMEM. */
int link_parse(const char *text, const char *collection, const char *prefix, struct link *ret_link);
void link_clear(struct link *link);

/* The URL of an operation's metadata at a worker, for free(); NULL when memory is short. */
char *link_metadata(const char *worker_url, const char *id);

#endif
