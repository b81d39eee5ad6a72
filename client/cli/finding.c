/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>

void doctor_find(struct doctor *d, enum finding_level level, const char *fix, const char *format, ...)
{
        static const char *const names[] = { "good", "note", "bad" };
        static const char *const marks[] = { "ok  ", "note", "BAD " };
        va_list arguments;
        char *text = NULL;
        va_start(arguments, format);
        if (vasprintf(&text, format, arguments) < 0)
                text = NULL;
        va_end(arguments);
        if (text)
                cli_mask_controls(text);
        d->bad += level == FINDING_BAD;
        if (d->findings) {
                struct json_object *one = json_object_new_object();
                json_object_object_add(one, "level", json_object_new_string(names[level]));
                json_object_object_add(one, "finding", json_object_new_string(text ? text : ""));
                if (fix)
                        json_object_object_add(one, "fix", json_object_new_string(fix));
                json_object_array_add(d->findings, one);
        } else {
                printf("%s  %s\n", marks[level], text ? text : "");
                if (fix)
                        printf("      → %s\n", fix);
        }
        free(text);
}
