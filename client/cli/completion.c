/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli.h"

/*
 * ferry completion: the script of a shell (completion_script.c), or the words that such a script asks for while the
 * user types: ids, and names of workers. What a worker tells is masked, since the shell shows it.
 */

enum { COMPLETION_PAGE = 200 };

struct completion_noun {
        const char *name, *member, *query;
        bool offers; /* only what a peer can use */
};

/* The newest of a list, one on a line. */
static int completion_list(struct cli *cli, const struct completion_noun *noun)
{
        struct json_object *page = NULL, *list;
        char path[96];
        snprintf(path, sizeof(path), "/v1/%s?limit=%d%s", noun->member, COMPLETION_PAGE, noun->query);
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = table_get(&cli->worker, path, noun->member, json_type_array, &page);
        for (size_t i = 0, n = member_list(page, noun->member, &list); i < n; i++) {
                struct json_object *one = json_object_array_get_idx(list, i);
                char id[FERRY_ID_SIZE];
                if (noun->offers && !strstr(member_text(one, "kind", ""), "able"))
                        continue;
                snprintf(id, sizeof(id), "%s", member_text(one, "id", ""));
                cli_mask_controls(id);
                puts(id);
        }
        json_object_put(page);
        return status;
}

/* @NAME of the file, and ferry://NAME of the registry. */
static int completion_workers(struct cli *cli)
{
        struct json_object *page = NULL, *list;
        worker_names_print();
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = table_get(&cli->worker, "/v1/peers?registry=1&limit=200", "peers", json_type_array, &page);
        for (size_t i = 0, n = member_list(page, "peers", &list); i < n; i++) {
                char name[128];
                table_format(json_object_array_get_idx(list, i), &(struct table_column){ "", "worker", TABLE_TEXT },
                             name, sizeof(name));
                printf("ferry://%s\n", name);
        }
        json_object_put(page);
        return status;
}

int cli_run_completion(struct cli *cli, int argc, char **argv)
{
        static const struct completion_noun nouns[] = {
                { "operations", "operations", "&order=newest", false },
                { "offers", "operations", "&order=newest&done=false", true },
                { "regions", "regions", "", false },
        };
        if (completion_script(cli, argv[1]))
                return CLI_OK;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(nouns); i++)
                if (strcmp(nouns[i].name, argv[1]) == 0)
                        return completion_list(cli, &nouns[i]);
        if (strcmp(argv[1], "workers") == 0)
                return completion_workers(cli);
        return cli_usage_error("no completion for %s: bash, zsh or fish", argv[1]);
}
