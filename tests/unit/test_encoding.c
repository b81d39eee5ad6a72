/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/encoding.h>

#include "unit.h"

TEST(an_id_is_its_prefix_and_sixteen_digits)
{
        char text[FERRY_ID_TEXT_SIZE];
        uint64_t id;

        FOR_EACH (uint64_t, each, 1, 0xabc, UINT64_C(0x8000000000000000), UINT64_MAX, UINT64_C(0x0123456789abcdef)) {
                ferry_id_format("rgn_", each, text);
                assert_string_equal(text, text_format("rgn_%016llx", (unsigned long long)each));
                assert_true(ferry_id_parse("rgn_", text, &id));
                assert_true(id == each);
        }
}

TEST(other_texts_are_no_id)
{
        uint64_t id = 7;

        FOR_EACH_TEXT (text, "", "op_", "op_0000000000000000", "op_000000000000001", "op_00000000000000001",
                       "op_000000000000000A", "op_000000000000000g", "op_ 00000000000000a", "op_+0000000000000a1",
                       "op_0x00000000000001", "op_-000000000000001", "rgn_000000000000001", "OP_0000000000000001",
                       "0000000000000001", "op_0000000000000001 ", "op_0000000000000001\n", "op_000000000000000\xc3")
                assert_false(ferry_id_parse("op_", text, &id));
        assert_true(id == 7);
}

TEST(a_key_is_43_characters_of_base64url)
{
        uint8_t key[FERRY_KEY_SIZE];
        char text[FERRY_KEY_TEXT_SIZE];

        memset(key, 0xff, sizeof(key));
        ferry_key_format(key, text);
        assert_string_equal(text, "__________________________________________8");
        memset(key, 0, sizeof(key));
        key[0] = 0xfb;
        ferry_key_format(key, text);
        assert_string_equal(text, "-wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
}

TEST(a_key_survives_the_round_trip)
{
        uint8_t key[FERRY_KEY_SIZE], back[FERRY_KEY_SIZE];
        char text[FERRY_KEY_TEXT_SIZE];

        for (unsigned seed = 0; seed < 256; seed++) {
                for (unsigned i = 0; i < sizeof(key); i++)
                        key[i] = (uint8_t)(seed * 131 + i * i * 17 + i);
                ferry_key_format(key, text);
                assert_int_equal(strlen(text), FERRY_KEY_TEXT_SIZE - 1);
                assert_true(ferry_key_parse(text, back));
                assert_memory_equal(key, back, sizeof(key));
        }
}

TEST(other_texts_are_no_key)
{
        uint8_t key[FERRY_KEY_SIZE] = { 7 };

        FOR_EACH_TEXT (text, "", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                       "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
                       "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "+AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                       "/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", " AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                       "AAAAAAAAAAAAAAAAAAAAA\nAAAAAAAAAAAAAAAAAAAAA")
                assert_false(ferry_key_parse(text, key));
        assert_int_equal(key[0], 7);
}

TEST(only_one_text_stands_for_a_key)
{
        static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        char text[FERRY_KEY_TEXT_SIZE] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        uint8_t key[FERRY_KEY_SIZE];

        for (size_t i = 0; i < 64; i++) {
                text[FERRY_KEY_TEXT_SIZE - 2] = alphabet[i];
                assert_int_equal(ferry_key_parse(text, key), i % 4 == 0);
        }
}

TEST(keys_differ_in_any_bit)
{
        uint8_t a[FERRY_KEY_SIZE], b[FERRY_KEY_SIZE];

        memset(a, 0x5a, sizeof(a));
        memcpy(b, a, sizeof(b));
        assert_true(ferry_key_equal(a, b));
        for (unsigned bit = 0; bit < FERRY_KEY_SIZE * 8; bit++) {
                b[bit / 8] ^= (uint8_t)(1 << bit % 8);
                assert_false(ferry_key_equal(a, b));
                b[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
}

TEST(secrets_are_equal_only_as_a_whole)
{
        assert_true(ferry_secret_equal("", ""));
        assert_true(ferry_secret_equal("token", "token"));
        assert_false(ferry_secret_equal("token", "Token"));
        assert_false(ferry_secret_equal("token", "toke"));
        assert_false(ferry_secret_equal("toke", "token"));
        assert_false(ferry_secret_equal("", "token"));
        assert_false(ferry_secret_equal("token", ""));
        assert_false(ferry_secret_equal("tokentoken", "token"));
        assert_false(ferry_secret_equal("tokeo", "token"));
}

/* RFC 4648, section 10. */
TEST(base64_gives_the_vectors_of_the_rfc)
{
        static const struct {
                const char *data, *text;
        } vectors[] = {
                { "", "" },
                { "f", "Zg==" },
                { "fo", "Zm8=" },
                { "foo", "Zm9v" },
                { "foob", "Zm9vYg==" },
                { "fooba", "Zm9vYmE=" },
                { "foobar", "Zm9vYmFy" },
                { "\xfb\xff\xbf", "+/+/" },
        };

        for (size_t i = 0; i < UNIT_COUNT(vectors); i++) {
                char *text = ferry_base64_encode(vectors[i].data, strlen(vectors[i].data));
                void *data;
                size_t size;

                assert_string_equal(text, vectors[i].text);
                assert_int_equal(ferry_base64_decode(text, strlen(text), &data, &size), 0);
                assert_int_equal(size, strlen(vectors[i].data));
                assert_memory_equal(data, vectors[i].data, size);
                free(data);
                free(text);
        }
}

TEST(base64_survives_the_round_trip_at_every_length)
{
        uint8_t data[300];

        for (unsigned i = 0; i < sizeof(data); i++)
                data[i] = (uint8_t)(i * i * 31 + i * 7);
        for (size_t n = 0; n <= sizeof(data); n++) {
                char *text = ferry_base64_encode(data, n);
                void *back;
                size_t size;

                assert_non_null(text);
                assert_int_equal(strlen(text), (n + 2) / 3 * 4);
                assert_int_equal(ferry_base64_decode(text, strlen(text), &back, &size), 0);
                assert_int_equal(size, n);
                assert_memory_equal(back, data, n);
                free(back);
                free(text);
        }
}

TEST(base64_is_only_read_in_its_canonical_form)
{
        static const char *const bad[] = {
                "Z",     "Zg",   "Zg=",      "Zm8",     "=",        "==",     "===",      "====", "Z===",
                "Zh==",  "Zm9=", "Zg==Zg==", "Zg==\n",  " Zg==",    "Zm9v\n", "Zm-v",     "Zm_v", "Zm9v====",
                "Zm9vZ", "Zm=v", "=m9v",     "Zm9\xc3", "Zm 9v===", "Zm9v.",  "Zg==Zm9v", "Z=g=", "Zm8=Zm8=",
        };

        for (size_t i = 0; i < UNIT_COUNT(bad); i++) {
                void *data = (void *)bad;
                size_t size = 7;

                assert_int_equal(ferry_base64_decode(bad[i], strlen(bad[i]), &data, &size), -EINVAL);
                assert_ptr_equal(data, bad);
                assert_int_equal(size, 7);
        }
}

TEST(base64_does_not_stop_at_a_nul)
{
        void *data;
        size_t size;

        assert_int_equal(ferry_base64_decode("Zm9v\0\0\0\0", 8, &data, &size), -EINVAL);
        assert_int_equal(ferry_base64_decode("Z\0==", 4, &data, &size), -EINVAL);
}

TEST(base64_reads_no_byte_beyond_the_length)
{
        char *exact = malloc(4);
        void *data;
        size_t size;

        memcpy(exact, "Zm9v", 4);
        assert_int_equal(ferry_base64_decode(exact, 4, &data, &size), 0);
        assert_int_equal(size, 3);
        free(data);
        free(exact);
}

TEST(numbers_are_written_in_decimal)
{
        FOR_EACH (uint64_t, number, 0, 1, 9, 10, 99, 100, 1234567890, UINT64_MAX - 1, UINT64_MAX) {
                char text[FERRY_UINT_TEXT_SIZE];

                const char *expected = text_format("%llu", (unsigned long long)number);
                assert_int_equal(ferry_uint_format(number, text), strlen(expected));
                assert_string_equal(text, expected);
        }
}

TEST(digits_are_read_up_to_what_is_none)
{
        static const struct {
                const char *text, *rest; /* NULL = there are no digits */
                uint64_t number;
        } cases[] = {
                { "0", "", 0 },
                { "12-3", "-3", 12 },
                { "007 ", " ", 7 },
                { "18446744073709551615", "", UINT64_MAX },
                { "18446744073709551616x", "x", UINT64_MAX },
                { "99999999999999999999999999999999999999999", "", UINT64_MAX },
                { "", NULL, 0 },
                { "-1", NULL, 0 },
                { "+1", NULL, 0 },
                { " 1", NULL, 0 },
                { "x1", NULL, 0 },
        };

        for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
                uint64_t number = 0;
                const char *rest = ferry_uint_read(cases[i].text, &number);

                if (cases[i].rest)
                        assert_string_equal(rest, cases[i].rest);
                else
                        assert_null(rest);
                assert_int_equal(number, cases[i].number);
        }
}

TEST(a_number_is_all_digits_and_within_its_limit)
{
        uint64_t number = 5;

        assert_true(ferry_uint_parse("65535", 65535, &number));
        assert_int_equal(number, 65535);
        assert_false(ferry_uint_parse("65536", 65535, &number));
        assert_false(ferry_uint_parse("", 65535, &number));
        assert_false(ferry_uint_parse("12 ", 65535, &number));
        assert_false(ferry_uint_parse("0x10", 65535, &number));
        assert_false(ferry_uint_parse("18446744073709551616", UINT64_MAX - 1, &number));
        assert_int_equal(number, 65535);
}
