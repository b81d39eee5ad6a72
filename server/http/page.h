/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_PAGE_H
#define HTTP_PAGE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a list, which ends with the element that passes it: an operation may take some megabytes. */
enum { PAGE_ANSWER_MAX = 16 << 20 };

struct http_request;
struct ferry_json_writer;

/* How many elements the client wants (limit), page_max at most, and from where on (after). */
size_t page_limit(const struct http_request *request);
uint64_t page_cursor(const struct http_request *request);

/*
 * The frame of {"<name>":[…],"next":"…"}; the elements are written between the two. next, and a Link header with it, is
 * left out when cursor is 0.
 */
void page_begin(struct ferry_json_writer *writer, const char *name);
void page_end(struct ferry_json_writer *writer, struct http_request *request, uint64_t cursor);

#endif
