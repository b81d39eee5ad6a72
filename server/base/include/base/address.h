/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Host names, IP literals and ports as text. Pure; any thread. */

enum {
        ADDRESS_HOST_SIZE = 256, /* a DNS name, or an IPv6 literal without brackets */
        ADDRESS_SIZE = ADDRESS_HOST_SIZE + 16,
};

/* "HOST:PORT" or "[V6]:PORT" into host (without brackets) and port. false when it is not of that form. */
bool address_split(const char *text, char host[ADDRESS_HOST_SIZE], uint16_t *ret_port);

/* The host of a Host header: port optional, brackets and one final dot taken off. false when it is malformed. */
bool address_host(const char *text, char host[ADDRESS_HOST_SIZE]);

/* The reverse of address_split: brackets are put around IPv6 literals. */
void address_join(const char *host, uint16_t port, char text[ADDRESS_SIZE]);

/* An IPv4 or IPv6 literal without brackets; a zone ("fe80::1%eth0") is allowed. */
bool address_is_literal(const char *host);

/* 0.0.0.0 or ::, which name no host. */
bool address_is_wildcard(const char *host);

/*
 * The address for peers of a bound "host:port": its host is replaced by advertise if that is not NULL, else by
 * local_host if the bound host is a wildcard and local_host is not "". Copies text that is not an address.
 */
void address_publish(const char *bound, const char *advertise, const char *local_host, char *text, size_t size);

#endif
