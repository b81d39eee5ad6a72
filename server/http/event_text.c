/* SPDX-License-Identifier: Apache-2.0 */
#include "event_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>

#include "base/clock.h"
#include "base/util.h"
#include "operation_json.h"

static const struct {
        const char *name, *family;
} types[] = {
#define X(name, family, verb) [EVENT_##name] = { family "." verb, family },
        EVENT_TYPES(X)
#undef X
};

/* ---- types ---- */

const char *event_type_name(int type)
{
        return type >= 0 && type < EVENT_TYPE_COUNT ? types[type].name : NULL;
}

static bool is_word(const char *text, size_t length, const char *word)
{
        return strlen(word) == length && !memcmp(text, word, length);
}

unsigned event_types_from_text(const char *text)
{
        unsigned all = 0;

        for (;;) {
                size_t length = strcspn(text, ",");
                unsigned some = 0;

                for (size_t i = 0; i < EVENT_TYPE_COUNT; i++)
                        if (is_word(text, length, types[i].name) || is_word(text, length, types[i].family))
                                some |= 1u << i;
                if (!some)
                        return 0;
                all |= some;
                if (!text[length])
                        return all;
                text += length + 1;
        }
}

/* ---- text ---- */

void event_id_format(uint64_t epoch, uint64_t number, char text[EVENT_ID_SIZE])
{
        ferry_id_format("", epoch, text);
        char *end = stpcpy(text + strlen(text), "-");
        (void)ferry_uint_format(number, end);
}

/* Puts the fields of a stream's event around the JSON. -ENOMEM: the event has no text. */
static int frame(struct event *event, const char *id, const char *json, size_t size)
{
        static const char id_line[] = "id: ", type_line[] = "\nevent: ", data_line[] = "\ndata: ", end[] = "\n\n";
        const char *type = types[event->type].name;
        size_t head = strlen(id_line) + strlen(id) + strlen(type_line) + strlen(type) + strlen(data_line);
        char *text = json ? malloc(head + size + sizeof(end)) : NULL;

        if (!text)
                return -ENOMEM;
        stpcpy(stpcpy(stpcpy(stpcpy(stpcpy(text, id_line), id), type_line), type), data_line);
        memcpy(text + head, json, size);
        memcpy(text + head + size, end, sizeof(end));
        event->text = text;
        event->size = head + size + strlen(end);
        event->json_at = head;
        event->json_size = size;
        return 0;
}

int event_text_make(struct event *event, uint64_t epoch, uint64_t number,
                    void (*write)(struct ferry_json_writer *writer, const void *object), const void *object)
{
        char id[EVENT_ID_SIZE], time[CLOCK_TEXT_SIZE];
        struct ferry_json_writer writer = { 0 };
        size_t size;

        event_id_format(epoch, number, id);
        clock_format(event->unix_ms, time);
        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "id", id);
        ferry_json_add_string(&writer, "type", types[event->type].name);
        ferry_json_add_string(&writer, "time", time);
        ferry_json_key(&writer, types[event->type].family);
        write(&writer, object);
        ferry_json_end_object(&writer);
        FERRY_CLEANUP(cleanup_free) char *json = ferry_json_take(&writer, &size);
        return frame(event, id, json, size);
}

static void write_operation(struct ferry_json_writer *writer, const void *object)
{
        operation_json_write(writer, object);
}

int event_text_need(struct event *event, uint64_t epoch, uint64_t number)
{
        return event->text ? 0 : event_text_make(event, epoch, number, write_operation, &event->view);
}
