/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"
#include "fuzz_text.h"

/* Any text as "HOST:PORT" and as a Host header; what is taken apart goes together again. */

static void check_split(const char *text)
{
        char host[ADDRESS_HOST_SIZE], again[ADDRESS_HOST_SIZE], joined[ADDRESS_SIZE];
        uint16_t port, port_again;

        if (!address_split(text, host, &port))
                return;
        FUZZ_CHECK(host[0] && strnlen(host, sizeof(host)) < sizeof(host));
        address_join(host, port, joined);
        FUZZ_CHECK(address_split(joined, again, &port_again));
        FUZZ_CHECK(strcmp(host, again) == 0 && port == port_again);
}

static void check_host(const char *text)
{
        char host[ADDRESS_HOST_SIZE];

        if (!address_host(text, host))
                return;
        FUZZ_CHECK(host[0] && strnlen(host, sizeof(host)) < sizeof(host));
        FUZZ_CHECK(strcspn(host, " /\\\"'<>@[]\r\n\t") == strlen(host));
        /* Only a literal has colons. */
        FUZZ_CHECK(!strchr(host, ':') || address_is_literal(host));
}

static void check_publish(const char *text)
{
        static const char *const advertise[] = { NULL, "host.example", "2001:db8::1" };
        static const char *const local[] = { "", "192.0.2.7", "fe80::1%eth0" };

        for (size_t i = 0; i < 3; i++)
                for (size_t j = 0; j < 3; j++)
                        for (size_t size = 1; size < ADDRESS_SIZE; size = size * 3 + 1) {
                                char *published = malloc(size);

                                FUZZ_CHECK(published);
                                address_publish(text, advertise[i], local[j], published, size);
                                FUZZ_CHECK(strnlen(published, size) < size);
                                free(published);
                        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = fuzz_text(data, size);

        check_split(text);
        check_host(text);
        check_publish(text);
        if (address_is_wildcard(text))
                FUZZ_CHECK(address_is_literal(text));
        free(text);
        return 0;
}
