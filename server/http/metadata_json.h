/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_METADATA_JSON_H
#define HTTP_METADATA_JSON_H

struct http_request;
struct json_object;

/*
 * The metadata of request->operation, with this worker's name and the addresses at which this client's machine can
 * reach it. 0 with *ret_object; FERRY_E_NOT_PASSIVE; FERRY_E_GONE; -errno. The document is a secret.
 */
int metadata_json_new(struct http_request *request, struct json_object **ret_object);

#endif
