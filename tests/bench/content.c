/* SPDX-License-Identifier: Apache-2.0 */
#include <curl/curl.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

/* The bytes of an operation where there is no second worker's region: in a file, and over HTTP. */

/* Offers the whole region of a worker. The offer goes to withdraw(). */
static void offer(struct worker *w, const struct ferry_region *region, struct ferry_operation *ret_offer)
{
        const struct ferry_descriptor from = { .region = region->id };
        struct ferry_operation_spec spec = {
                .kind = FERRY_READABLE, .descriptors = &from, .n_descriptors = 1, .include_metadata = true
        };

        bench_check(w->client, ferry_create_operation(w->client, &spec, ret_offer), "offer");
}

static void withdraw(struct worker *w, struct ferry_operation *offer)
{
        bench_check(w->client, ferry_delete_operation(w->client, offer->id), "delete the offer");
        ferry_operation_clear(offer);
}

/* ---- ferry fetch into a file in memory, beside cp of a file there ---- */

enum { TRIES = 3 }; /* a round's figures are the quickest of these; scale.c tells why, of regions */

/* The ferry of this build; its process too is part of what is measured. */
static double fetch_once(struct pair *p, const char *file)
{
        char *program = program_path("../../ferry"), url[512];
        struct ferry_operation offered;
        double seconds;

        offer(&p->a, &p->at_a, &offered);
        (void)snprintf(url, sizeof(url), "%s/v1/operations/%s/metadata", p->a.url, offered.id);
        seconds = program_run((const char *const[]){ program, "fetch", url, "-o", file, "-u", p->b.url, NULL });
        withdraw(&p->a, &offered);
        free(program);
        return seconds;
}

static void fetch_round(struct pair *p, const char *source, const char *file)
{
        double copied_s = 0, fetched_s = 0;

        for (int i = 0; i < TRIES; i++) {
                double seconds = program_run((const char *const[]){ "cp", source, file, NULL });

                (void)unlink(file);
                copied_s = i == 0 || seconds < copied_s ? seconds : copied_s;
                seconds = fetch_once(p, file);
                (void)unlink(file);
                fetched_s = i == 0 || seconds < fetched_s ? seconds : fetched_s;
        }
        sample("s", copied_s, "fetch.cp");
        sample("s", fetched_s, "fetch.ferry");
}

void bench_fetch(void)
{
        size_t n = quick_or_full(3, 7);
        char directory[] = "/dev/shm/ferry-bench-XXXXXX", *source, *file;
        struct pair p;

        pair_start(&p, false, NULL, MIB);
        region_create(&p.a, size_that_fits(GIB, 5), &p.at_a);
        region_fill(&p.at_a, 7);
        if (!mkdtemp(directory))
                bench_fail("no directory in /dev/shm");
        source = bench_text("%s/source", directory);
        file = bench_text("%s/file", directory);
        (void)fetch_once(&p, source); /* connects, and is what cp copies */
        for (size_t i = 0; i < n; i++) {
                begin_round("round %zu of %zu", i + 1, n);
                fetch_round(&p, source, file);
        }
        (void)unlink(source);
        (void)rmdir(directory);
        free(source);
        free(file);
        pair_stop(&p);
}

/* ---- GET of the content beside a download of as many bytes from a bare libmicrohttpd, by libcurl ---- */

static size_t count_bytes(char *data, size_t one, size_t size, void *context)
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
        uint64_t received = 0, start;
        CURLcode result;
        double seconds;
        long status = 0;

        (void)curl_easy_setopt(curl, CURLOPT_URL, url);
        (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, count_bytes);
        (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, &received);
        (void)curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 512L << 10);
        (void)curl_easy_setopt(curl, CURLOPT_PROXY, "");
        start = now_ns();
        result = curl_easy_perform(curl);
        seconds = seconds_since(start);
        (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        if (result != CURLE_OK || status != 200 || received != size)
                bench_fail("%s: HTTP %ld, %llu bytes, %s", url, status, (unsigned long long)received,
                           curl_easy_strerror(result));
        curl_slist_free_all(headers);
        return seconds;
}

static double download_operation(CURL *curl, struct worker *w, const struct ferry_region *region)
{
        struct json_object *metadata, *key = NULL;
        struct ferry_operation offered;
        char url[512], header[128];
        double seconds;

        offer(w, region, &offered);
        metadata = json_tokener_parse(offered.metadata);
        if (!json_object_object_get_ex(metadata, "notification_key", &key))
                bench_fail("the offer's metadata have no key");
        (void)snprintf(url, sizeof(url), "%s/v1/operations/%s/content", w->url, offered.id);
        (void)snprintf(header, sizeof(header), "Authorization: Bearer %s", json_object_get_string(key));
        json_object_put(metadata);
        seconds = download(curl, url, header, region->size);
        withdraw(w, &offered);
        return seconds;
}

void bench_content(void)
{
        enum { SIZE = 256 << 20 };
        CURL *curl = curl_easy_init(), *bare_curl = curl_easy_init();
        size_t n = quick_or_full(5, 20);
        struct ferry_region region;
        struct reference bare;
        struct worker w;
        char url[128];

        worker_start(&w, NULL);
        region_create(&w, SIZE, &region);
        region_fill(&region, 7);
        reference_start(&bare, "ref_http", (const char *const[]){ "bytes", "268435456", NULL });
        (void)snprintf(url, sizeof(url), "%s/", reference_line(&bare));
        (void)download(bare_curl, url, NULL, SIZE);
        (void)download_operation(curl, &w, &region);
        for (size_t i = 0; i < n; i++) {
                begin_round("round %zu of %zu", i + 1, n);
                sample("GB/s", gigabytes_per_second(SIZE, download(bare_curl, url, NULL, SIZE)), "content.bare");
                sample("GB/s", gigabytes_per_second(SIZE, download_operation(curl, &w, &region)), "content.ferry");
        }
        reference_stop(&bare);
        worker_stop(&w);
        curl_easy_cleanup(curl);
        curl_easy_cleanup(bare_curl);
}
