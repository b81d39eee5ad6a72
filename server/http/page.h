/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_PAGE_H
#define HTTP_PAGE_H

#include <stddef.h>
#include <stdint.h>

/* A page ends with the element that exceeds so many bytes: one operation may take some megabytes. */
enum { PAGE_ANSWER_MAX = 16 << 20 };

struct http_request;
struct ferry_json_writer;

/* The number of elements that the client asks for (limit), at most page_max, and the cursor (after). */
size_t page_limit(const struct http_request *request);
uint64_t page_cursor(const struct http_request *request);

/*
 * Begin and end {"<name>":[…],"next":"…"}; the caller writes the elements in between. cursor 0 = the last page: no next
 * and no Link header.
 */
void page_begin(struct ferry_json_writer *writer, const char *name);
void page_end(struct ferry_json_writer *writer, struct http_request *request, uint64_t cursor);

#endif
