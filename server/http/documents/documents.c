/* SPDX-License-Identifier: Apache-2.0 */
#include "resources.h"

#include <stdio.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "base/clock.h"

unsigned problem_status(int error)
{
        int status = ferry_error_http(error);

        return status ? (unsigned)status : 500;
}

unsigned problem_retry_after(int error)
{
        switch (error) {
        case FERRY_E_LIMIT_REACHED:
        case FERRY_E_NO_SPACE:
                return 1;
        case FERRY_E_DRAINING:
                return 5;
        default:
                return 0;
        }
}

static void add_complaints(struct ferry_json_writer *writer, const struct ferry_json_errors *errors)
{
        ferry_json_open_array(writer, "errors");
        for (size_t i = 0; i < errors->n; i++) {
                ferry_json_begin_object(writer);
                ferry_json_add_string(writer, "pointer", errors->items[i].pointer);
                ferry_json_add_string(writer, "detail", errors->items[i].detail);
                ferry_json_end_object(writer);
        }
        ferry_json_end_array(writer);
}

void problem_members(struct ferry_json_writer *writer, int error, bool retryable, const char *detail,
                     const struct ferry_json_errors *errors)
{
        char type[64], first[FERRY_JSON_POINTER_SIZE + FERRY_JSON_DETAIL_SIZE + 4];

        if (errors && errors->n) {
                const struct ferry_json_complaint *item = &errors->items[0];

                snprintf(first, sizeof(first), "%s%s%s", item->pointer, *item->pointer ? ": " : "", item->detail);
                detail = first;
        }
        snprintf(type, sizeof(type), "/docs#error-%s", ferry_error_code(error));
        ferry_json_add_string(writer, "type", type);
        ferry_json_add_string(writer, "title", ferry_error_title(error));
        ferry_json_add_uint(writer, "status", problem_status(error));
        ferry_json_add_string(writer, "detail", detail && *detail ? detail : ferry_error_title(error));
        ferry_json_add_string(writer, "code", ferry_error_code(error));
        ferry_json_add_bool(writer, "retryable", retryable);
        if (errors && errors->n)
                add_complaints(writer, errors);
}

void problem_write(struct ferry_json_writer *writer, int error, bool retryable, const char *detail,
                   const struct ferry_json_errors *errors)
{
        ferry_json_begin_object(writer);
        problem_members(writer, error, retryable, detail, errors);
        ferry_json_end_object(writer);
}

void problem_add_error(struct ferry_json_writer *writer, int error, const char *detail)
{
        ferry_json_open_object(writer, "error");
        ferry_json_add_string(writer, "code", ferry_error_code(error));
        ferry_json_add_string(writer, "detail", *detail ? detail : ferry_error_title(error));
        ferry_json_end_object(writer);
}

/* ---- members of documents ---- */

void document_add_time(struct ferry_json_writer *writer, const char *key, uint64_t unix_ms)
{
        char text[CLOCK_TEXT_SIZE];

        if (!unix_ms)
                return;
        clock_format(unix_ms, text);
        ferry_json_key(writer, key);
        ferry_json_put_plain(writer, text, CLOCK_TEXT_LENGTH);
}

void document_add_text(struct ferry_json_writer *writer, const char *key, const char *text)
{
        if (text && *text)
                ferry_json_add_string(writer, key, text);
}
