/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>

#include "json_document.h"

size_t ferry_json_count(struct json_object *array)
{
        return ((const struct json_list *)json_object_get_userdata(array))->n;
}

struct ferry_json_elements ferry_json_elements(struct json_object *array)
{
        const struct json_list *list = json_object_get_userdata(array);

        return (struct ferry_json_elements){ .at = list->text + 1, .end = list->text + list->size, .left = list->n };
}

int ferry_json_next(struct ferry_json_elements *elements, struct json_object **ret_element)
{
        struct json_fault fault;

        if (!elements->left)
                return 0;
        if (!elements->element)
                elements->element = json_document_new_element();
        /* All of it has been checked before: only memory can be short. */
        if (!elements->element || json_document_read(elements->element, elements->at,
                                                     (size_t)(elements->end - elements->at), false, &fault) != 0)
                return -ENOMEM;
        elements->left--;
        elements->at = elements->element->outline.end;
        while (*elements->at != ',' && *elements->at != ']')
                elements->at++;
        elements->at++;
        *ret_element = elements->element->root;
        return 1;
}

void ferry_json_elements_clear(struct ferry_json_elements *elements)
{
        elements->element = ferry_json_free(elements->element);
}

bool ferry_json_get_uint(const struct json_object *value, uint64_t *ret_number)
{
        /* Asked for as unsigned, a negative number is 0. */
        if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
                return false;
        *ret_number = json_object_get_uint64(value);
        return true;
}
