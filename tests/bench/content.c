/* SPDX-License-Identifier: Apache-2.0 */
#include <curl/curl.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "bench_internal.h"

/* GET of a readable operation's content beside a download of as many bytes from a bare libmicrohttpd, by libcurl. */

static size_t count(char *data, size_t one, size_t size, void *context)
{
        uint64_t *received = context;

        (void)data;
        *received += one * size;
        return one * size;
}

/* Seconds. header NULL = none. The handle keeps its connection for the next download from the same place. */
static double download(CURL *curl, const char *url, const char *header, uint64_t size)
{
        struct curl_slist *headers = header ? curl_slist_append(NULL, header) : NULL;
        uint64_t received = 0;
        CURLcode result;
        long status = 0;

        (void)curl_easy_setopt(curl, CURLOPT_URL, url);
        (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, count);
        (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, &received);
        (void)curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 512L << 10);
        (void)curl_easy_setopt(curl, CURLOPT_CAINFO, FERRY_TLS "/ca.pem");
        (void)curl_easy_setopt(curl, CURLOPT_PROXY, "");
        uint64_t start = now_ns();
        result = curl_easy_perform(curl);
        double seconds = seconds_since(start);
        (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        if (result != CURLE_OK || status != 200 || received != size)
                bench_fail("%s: HTTP %ld, %llu bytes, %s", url, status, (unsigned long long)received,
                           curl_easy_strerror(result));
        curl_slist_free_all(headers);
        return seconds;
}

static double download_operation(CURL *curl, const struct worker *w, struct ferry *client, const struct region *region)
{
        const struct ferry_descriptor from = { .region = region->info.id };
        struct ferry_operation_spec spec = {
                .kind = FERRY_READABLE, .descriptors = &from, .n_descriptors = 1, .include_metadata = true
        };
        struct ferry_operation offer;
        struct json_object *metadata, *key = NULL;
        char url[512], header[128];
        double seconds;

        bench_check(client, ferry_create_operation(client, &spec, &offer), "offer");
        metadata = json_tokener_parse(offer.metadata);
        if (!json_object_object_get_ex(metadata, "notification_key", &key))
                bench_fail("the offer's metadata have no key");
        (void)snprintf(url, sizeof(url), "%s/v1/operations/%s/content", w->url, offer.id);
        (void)snprintf(header, sizeof(header), "Authorization: Bearer %s", json_object_get_string(key));
        json_object_put(metadata);
        seconds = download(curl, url, header, region->info.size);
        bench_check(client, ferry_delete_operation(client, offer.id), "delete the offer");
        ferry_operation_clear(&offer);
        return seconds;
}

static void measure(const char *scheme, const char *const *flags, const char *const *bare_flags, uint64_t size)
{
        const struct ferry_options options = { .ca_file = FERRY_TLS "/ca.pem" };
        CURL *curl = curl_easy_init(), *bare_curl = curl_easy_init();
        unsigned n = rounds(5, 20);
        struct reference bare;
        struct region region;
        struct ferry *client;
        struct worker w;
        char bare_url[128];

        worker_start(&w, flags);
        if (ferry_new(w.url, &options, &client))
                bench_fail("no handle for %s", w.url);
        region_create(client, size, &region);
        region_map(&region);
        memset(region.memory, 7, size);
        reference_start(&bare, "ref_http", bare_flags);
        (void)snprintf(bare_url, sizeof(bare_url), "%s/", reference_line(&bare));
        (void)download(bare_curl, bare_url, NULL, size);
        (void)download_operation(curl, &w, client, &region);
        for (unsigned i = 0; i < n; i++) {
                begin_round("%s, round %u of %u", scheme, i + 1, n);
                sample("GB/s", gigabytes_per_second(size, download(bare_curl, bare_url, NULL, size)), "content.%s.bare",
                       scheme);
                sample("GB/s", gigabytes_per_second(size, download_operation(curl, &w, client, &region)), "content.%s",
                       scheme);
        }
        reference_stop(&bare);
        client = ferry_free(client);
        worker_stop(&w);
        curl_easy_cleanup(curl);
        curl_easy_cleanup(bare_curl);
}

void bench_content(void)
{
        const uint64_t size = 256 * MIB;
        char bytes[32];

        (void)snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)size);
        measure("http", NULL, (const char *const[]){ "--bytes", bytes, NULL }, size);
        measure("https",
                (const char *const[]){ "--tls-cert", FERRY_TLS "/server.pem", "--tls-key", FERRY_TLS "/server-key.pem",
                                       NULL },
                (const char *const[]){ "--bytes", bytes, FERRY_TLS "/server.pem", FERRY_TLS "/server-key.pem", NULL },
                size);
}
