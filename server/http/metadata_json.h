/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_METADATA_JSON_H
#define HTTP_METADATA_JSON_H

struct ferry_json_writer;
struct http_request;
struct operation;

/*
 * Writes the metadata of an operation, with the addresses at which this client's machine can reach the worker. key: of
 * the member to add; NULL = the document alone. 0; FERRY_E_NOT_PASSIVE; FERRY_E_GONE; -errno. The document is a secret.
 */
int metadata_json_write(struct ferry_json_writer *writer, struct http_request *request, struct operation *operation,
                        const char *key);

/* Adds the member "metadata" to an open object, if the operation still has metadata. */
void metadata_json_add(struct ferry_json_writer *writer, struct http_request *request, struct operation *operation);

#endif
