/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_PAGE_H
#define HTTP_PAGE_H

#include <stddef.h>
#include <stdint.h>

struct http_request;
struct json_object;

/* How many elements the client wants (limit), and from where on (after). */
size_t page_limit(const struct http_request *request);
uint64_t page_cursor(const struct http_request *request);

/* Answers {"<name>":[…],"next":"…"}; next is left out when cursor is 0. list is given up; NULL = memory was short. */
void page_answer(struct http_request *request, const char *name, struct json_object *list, uint64_t cursor);

#endif
