/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "member.h"
#include "table.h"

enum { EVENTS_PAGE = 1000 };

/* The members of an event's object that its line shows, if present. */
static const struct table_column events_columns[] = {
        { "", "id", TABLE_TEXT },           { "", "worker", TABLE_TEXT },    { "", "name", TABLE_TEXT },
        { "", "kind", TABLE_TEXT },         { "", "status", TABLE_TEXT },    { "", "bytes_done", TABLE_BYTES },
        { "", "bytes_total", TABLE_BYTES }, { "", "size", TABLE_BYTES },     { "", "used", TABLE_NUMBER },
        { "", "max", TABLE_NUMBER },        { "", "transport", TABLE_TEXT }, { "", "label", TABLE_TEXT },
};

static int events_print(const struct cli *cli, struct json_object *event)
{
        static const struct table_column time = { "", "time", TABLE_TEXT }, code = { "", "code", TABLE_TEXT };
        struct json_object *object, *error, *value;
        char type[64], family[16], text[256];
        if (cli->json)
                return table_print_line(event);
        table_format(event, &time, text, sizeof(text));
        table_format(event, &(struct table_column){ "", "type", TABLE_TEXT }, type, sizeof(type));
        printf("%s %s", text, type);
        snprintf(family, sizeof(family), "%.*s", (int)strcspn(type, "."), type);
        if (json_object_object_get_ex(event, family, &object)) {
                for (size_t i = 0; i < FERRY_ARRAY_SIZE(events_columns); i++) {
                        if (!json_object_object_get_ex(object, events_columns[i].member, &value))
                                continue;
                        table_format(object, &events_columns[i], text, sizeof(text));
                        printf(" %s", text);
                }
                if (json_object_object_get_ex(object, "error", &error)) {
                        table_format(error, &code, text, sizeof(text));
                        printf(" %s", text);
                }
        }
        putchar('\n');
        return CLI_OK;
}

/* Reports missed events on standard error. */
static void events_missed(struct json_object *page)
{
        const char *missed = member_text(page, "missed", NULL);
        if (member_text(page, "restarted", NULL))
                (void)cli_problem("the worker was started anew");
        if (missed)
                (void)cli_problem("%s events were missed", missed);
}

int events_page(struct cli *cli, const char *after, unsigned wait_ms, struct json_object **ret_page)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        struct json_object *list;
        path_add(&path, "/v1/events");
        path_query_number(&path, "limit", EVENTS_PAGE);
        path_query(&path, "after", after);
        path_query(&path, "label", cli->label);
        path_query_number(&path, "wait_ms", wait_ms);
        int status = table_path(&path);
        if (status == CLI_OK)
                status = table_get(&cli->worker, path.text.data, "events", json_type_array, ret_page);
        /* Whoever follows would be led in a circle. */
        if (status == CLI_OK && after && member_list(*ret_page, "events", &list) &&
            strcmp(member_text(*ret_page, "next", ""), after) == 0) {
                json_object_put(*ret_page);
                *ret_page = NULL;
                return table_nonsense(&cli->worker, "/v1/events");
        }
        return status;
}

int cli_run_events(struct cli *cli, int argc, char **argv)
{
        char *after = NULL;
        bool more = true;
        int status = cli_connect(cli);
        while (status == CLI_OK && more) {
                struct json_object *page = NULL, *list;
                const char *next;
                status = events_page(cli, after, cli->follow && after ? EVENTS_WAIT_MS : 0, &page);
                if (status != CLI_OK)
                        break;
                events_missed(page);
                size_t n = member_list(page, "events", &list);
                for (size_t i = 0; status == CLI_OK && i < n; i++)
                        status = events_print(cli, json_object_array_get_idx(list, i));
                if (status == CLI_OK)
                        status = cli_flush();
                free(after);
                after = (next = member_text(page, "next", NULL)) ? strdup(next) : NULL;
                more = after && (cli->follow || n > 0);
                json_object_put(page);
        }
        free(after);
        return cli->follow && signals_caught() ? CLI_OK : status;
}
