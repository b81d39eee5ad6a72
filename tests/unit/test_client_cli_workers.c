/* SPDX-License-Identifier: Apache-2.0 */
/* The workers that the ferry command speaks to: their names, and what is secret between it and each of them. */
#include <sys/stat.h>

#include "cli_fixture.h"

/* A directory with a file of workers, for XDG_CONFIG_HOME, and files of tokens. */
static char config[sizeof("/tmp/ferry-test-XXXXXX")];

static const char *config_write(const char *name, const char *text)
{
        const char *path = text_format("%s/%s", config, name);
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        fputs(text, file);
        assert_int_equal(fclose(file), 0);
        return path;
}

static void config_remove(void *directory)
{
        unsetenv("XDG_CONFIG_HOME");
        (void)!system(text_format("rm -r %s", (const char *)directory));
}

static void config_make(void)
{
        strcpy(config, "/tmp/ferry-test-XXXXXX");
        assert_non_null(mkdtemp(config));
        test_keep(config, config_remove);
        assert_int_equal(mkdir(text_format("%s/ferry", config), 0700), 0);
        setenv("XDG_CONFIG_HOME", config, 1);
}

TEST(workers_have_names)
{
        START(s, { JSON("{}") }, { JSON("{}") }, { JSON("{}") }, { JSON("{}") });
        config_make();
        config_write("token", "s3cret\n");
        char *mine = strdup(config_write("mine", "m1ne\n"));
        test_keep(mine, free);
        config_write("ferry/workers",
                     text_format("# ours\nother http://127.0.0.1:1\nprefill  %s token-file=%s/token # near\n", s->url,
                                 config));
        run(0, NULL, "", "@prefill", "get", "/a", NULL);
        run(0, NULL, "", "get", "/a", "--url", "@prefill", NULL);
        run(2, NULL, "", "@decode", "get", "/a", NULL);
        contains(r.err, "no worker decode in ");
        /* The environment is for no worker in particular, an option for this one. */
        setenv("FERRY_TOKEN_FILE", mine, 1);
        run(0, NULL, "", "@prefill", "get", "/a", NULL);
        run(0, NULL, "", "@prefill", "get", "/a", "--token-file", mine, NULL);
        unsetenv("FERRY_TOKEN_FILE");
        for (size_t i = 0; i < 4; i++)
                contains(request_of(s, i),
                         i < 3 ? "Authorization: Bearer s3cret\r\n" : "Authorization: Bearer m1ne\r\n");
}

#define REGION(id) JSON("{\"id\":\"" id "\",\"size\":8,\"device\":\"host\"}")

/* The token that request i had, "" for none. */
static void has_token(const struct server *s, size_t i, const char *token)
{
        assert_true(i < s->served);
        if (*token)
                contains(s->requests[i], text_format("Authorization: Bearer %s\r\n", token));
        else
                assert_null(strstr(s->requests[i], "Authorization:"));
}

TEST(each_worker_gets_its_own_token)
{
        static const struct server_step steps[] = { { REGION("rgn_1") }, { REGION("rgn_1") }, { REGION("rgn_1") } };
        static const struct server_step refuses[] = { { NOT_FOUND }, { NOT_FOUND }, { NOT_FOUND } };
        struct server *a = start(steps, 3), *b = start(refuses, 3), *c = start(refuses, 3);
        config_make();
        config_write("a", "a-token\n");
        config_write("c", "c-token\n");
        char *peer = strdup(config_write("b", "b-token\n"));
        test_keep(peer, free);
        config_write("ferry/workers", text_format("a %s token-file=%s/a\nb %s\nc %s token-file=%s/c\n", a->url, config,
                                                  b->url, c->url, config));
        run(1, NULL, "", "@a", "copy", "@a/rgn_1", "@b/rgn_2", "--peer-token-file", peer, NULL);
        run(1, NULL, "", "@a", "copy", "@a/rgn_1", "@c/rgn_2", "--peer-token-file", peer, NULL);
        run(1, NULL, "", "@a", "copy", "rgn_1", "@b/rgn_2", "--peer-token-file", peer, "--token-file", peer, NULL);
        setenv("FERRY_PEER_TOKEN_FILE", peer, 1);
        run(1, NULL, "", "-u", b->url, "copy", "@c/rgn_1", "x", NULL);
        run(1, NULL, "", "-u", b->url, "copy", "rgn_1", "x", NULL); /* nobody's token is for b as our own worker */
        unsetenv("FERRY_PEER_TOKEN_FILE");
        run(1, NULL, "", "-u", c->url, "copy", "@c/rgn_1", "x", NULL);
        server_stop(a);
        server_stop(b);
        server_stop(c);
        has_token(a, 0, "a-token");
        has_token(a, 1, "a-token");
        has_token(a, 2, "b-token");
        has_token(b, 0, "b-token");
        has_token(b, 1, "b-token");
        has_token(b, 2, "");
        for (size_t i = 0; i < 3; i++)
                has_token(c, i, "c-token");
}

TEST(a_worker_that_is_its_own_peer_gets_the_token_for_peers)
{
        START(s, { NOT_FOUND }, { NOT_FOUND }, { NOT_FOUND });
        config_make();
        char *peer = strdup(config_write("peer", "p-token\n"));
        char *own = strdup(config_write("own", "o-token\n"));
        test_keep(peer, free);
        test_keep(own, free);
        char *offer = strdup(text_format("%s/v1/operations/op_1/metadata", s->url));
        test_keep(offer, free);
        run(1, s->url, "", "fetch", offer, "--token-file", own, "--peer-token-file", peer, NULL);
        run(1, s->url, "", "fetch", offer, "--token-file", own, NULL);
        setenv("FERRY_PEER_TOKEN_FILE", peer, 1); /* of some peer, not of this one in particular */
        run(1, s->url, "", "fetch", offer, "--token-file", own, NULL);
        unsetenv("FERRY_PEER_TOKEN_FILE");
        server_stop(s);
        has_token(s, 0, "p-token");
        has_token(s, 1, "o-token");
        has_token(s, 2, "o-token");
}

TEST(each_worker_gets_its_own_certificate)
{
        static const struct server_step steps[] = { { REGION("rgn_1") }, { REGION("rgn_1") }, { REGION("rgn_1") } };
        struct server *a = start(steps, 3);
        config_make();
        char *file = strdup(config_write("pem", ""));
        test_keep(file, free);
        config_write("ferry/workers",
                     text_format("a %s cert=%s key=/nonexistent/a\nb http://127.0.0.1:1 ca-file=/nonexistent/b\n"
                                 "c http://127.0.0.1:1 cert=%s\nd http://127.0.0.1:1 key=/nonexistent/d\n",
                                 a->url, file, file));
        /* A file that is missing tells whose setting it is: that of the line of another worker … */
        run(2, NULL, "", "-u", a->url, "copy", "rgn_1", "@b/rgn_2", "--ca-file", file, NULL);
        run(2, NULL, "", "-u", a->url, "copy", "rgn_1", "@d/rgn_2", "--cert", file, "--key", file, NULL);
        /* … and neither half of a pair of another source. */
        run(3, NULL, "", "@a", "copy", "rgn_1", "@c/rgn_2", "--cert", file, NULL);
        setenv("FERRY_KEY", "/nonexistent/key", 1);
        run(3, NULL, "", "-u", "@c", "copy", "rgn_1", "x", NULL);
        run(3, NULL, "", "-u", "http://127.0.0.1:1", "copy", "rgn_1", "x", "--cert", file, NULL);
        unsetenv("FERRY_KEY");
}

TEST(the_token_comes_from_a_file)
{
        START(s, { JSON("{}") });
        char name[] = "/tmp/ferry-test-XXXXXX";
        int fd = mkstemp(name);
        assert_int_equal(write(fd, "s3cret\n", 7), 7);
        run(0, s->url, "", "--token-file", name, "get", "/", NULL);
        contains(request_of(s, 0), "Authorization: Bearer s3cret\r\n");
        assert_int_equal(ftruncate(fd, 0), 0);
        run(2, s->url, "", "--token-file", name, "get", "/", NULL);
        close(fd);
        unlink(name);
}
