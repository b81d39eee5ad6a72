/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EASY_EASY_H
#define EASY_EASY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/buffer.h>
#include <ferry/curl.h>

/*
 * One HTTP request to another worker or to etcd, by a libcurl easy handle: permitted hosts, rules, meaning of failures.
 * A multi handle runs the requests of one thread and keeps their connections.
 */

struct allowlist;

/* Fixed while there are requests, but for headers. */
struct easy_settings {
        const struct allowlist *allowlist;
        struct curl_slist *_Atomic headers; /* of documents, the token too; peers_set_token replaces them */
        const char *ca_file, *cert_file, *key_file, *user_agent; /* NULL = none */
        const char *worker;                                      /* "EPOCH NAME" of this one; NULL = not told */
        long connect_timeout_ms, timeout_ms;
        size_t max_body;
};

enum { EASY_DETAIL_SIZE = 256 };

/* The requests of one thread, which owns all this. */
struct easy_multi {
        CURLM *curl; /* any thread may call curl_multi_wakeup */
        size_t n_running;
        struct easy_socket *sockets; /* oldest first */
};

/* One handle of libcurl. Made by any thread, then owned by the thread that runs it. */
struct easy {
        const struct easy_settings *settings;
        CURL *curl;
        CURLU *url;
        uint64_t host;            /* of the URL, with its port: a digest */
        struct easy_multi *multi; /* that runs it, or ran it last */
        bool trusted;             /* the allowlist names the host: any address will do */
        size_t header_bytes;
        /* the cause of a failure, which libcurl's codes do not tell */
        bool address_refused, connected, too_large, no_memory;
        bool fresh;               /* a new connection was tried; once connected: the request goes over that one */
        bool repeated;            /* the kept connection that it was sent over first was dead */
        struct ferry_buffer body; /* of the answer, after easy_collect */
        size_t body_max;
        bool (*enough)(const struct easy *easy); /* whether the body is whole before its end; NULL = never */
        /* Goes back to the first byte of the request's body, which is sent again. NULL = it has no reader. */
        void (*rewind)(struct easy *easy);
        /* The request is over and its handle in no multi handle any more. On that thread. */
        void (*done)(struct easy *easy, CURLcode result);
};

static inline void cleanup_curl(char **text)
{
        curl_free(*text);
}

/*
 * Parses a URL: http or https, without user information. libcurl gets the parsed URL, not the text, so it connects to
 * what was checked. 0; FERRY_E_INVALID_PARAMETER with a sentence in detail; -ENOMEM.
 */
int easy_locate(struct easy *easy, const struct easy_settings *settings, const char *url, char *detail,
                size_t detail_size);

/* Checks the host against the allowlist. 0; FERRY_E_FORBIDDEN with a sentence in detail; -ENOMEM. After easy_locate. */
int easy_admit(struct easy *easy, char *detail, size_t detail_size);

/* Makes the handle, after easy_admit. The struct must not move from now on. false: memory is short. */
bool easy_prepare(struct easy *easy);

/* Has the body of the answer collected, of so many bytes at most. After easy_prepare. false: memory is short. */
bool easy_collect(struct easy *easy, size_t max);

/* Makes a multi handle. false: memory is short. */
bool easy_multi_init(struct easy_multi *multi);
/* When nothing runs. Takes one that was not made. */
void easy_multi_clear(struct easy_multi *multi);

/*
 * Starts a request: the first one of its handle, or the next. Where it goes over a kept connection that turns out to be
 * dead before a byte of the answer came, it is sent again over a new one, and the other connections kept to the host
 * are closed. So a request must do no harm when the host gets it twice. false: memory is short.
 */
bool easy_start(struct easy_multi *multi, struct easy *easy);

/* Ends a running request early; done is not called. */
void easy_stop(struct easy *easy);

/* Moves what can be moved, and calls done of the requests that are over. */
void easy_multi_run(struct easy_multi *multi);

/* Counts a header line of an answer. Returns size, or 0 where the answer has too many. */
size_t easy_count_header(struct easy *easy, size_t size);

/* Frees the handle and the URL, and the body, which is wiped: it may contain a token or a key. */
void easy_clear(struct easy *easy);

/* Classifies a result other than CURLE_OK: FERRY_E_* and a sentence, in which name stands for the document. */
int easy_classify(const struct easy *easy, CURLcode result, const char *name, char detail[EASY_DETAIL_SIZE]);

#endif
