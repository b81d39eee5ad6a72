/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_CARRIERS_H
#define HTTP_CARRIERS_H

#include <stdbool.h>

struct ferry_json_errors;
struct ferry_json_writer;
struct json_object;

/* The field "transports" of an operation: the transports that may carry its bytes. Pure. */

/* Decodes the names into bits of enum engine_carrier. false: errors has why. */
bool carriers_decode(struct json_object *list, unsigned *ret_carriers, struct ferry_json_errors *errors);

/* Adds "transports":[…]; nothing when all are allowed (0). */
void carriers_write(struct ferry_json_writer *writer, unsigned carriers);

#endif
