/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_PEER_JSON_H
#define HTTP_PEER_JSON_H

struct engine_peer_view;
struct ferry_json_writer;

/* Writes a peer as JSON. */
void peer_json_write(struct ferry_json_writer *writer, const struct engine_peer_view *peer);

/* Its members: a text, unless it is ""; the addresses, each of which may be "". */
void peer_json_text(struct ferry_json_writer *writer, const char *name, const char *text);
void peer_json_addresses(struct ferry_json_writer *writer, const char *url, const char *data);

#endif
