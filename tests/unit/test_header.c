/* SPDX-License-Identifier: Apache-2.0 */
#include "message/header.h"

#include "unit.h"

static struct wire_header sample(enum wire_type type)
{
        struct wire_header h = {
                .type = type,
                .flags = WIRE_VERIFY,
                .to_epoch = 0x1122334455667788,
                .from_epoch = 2,
                .operation = 3,
                .transfer = 4,
                .seq = 5,
                .status = 6,
                .offset = 992,
                .length = 32,
                .total = 1024,
                .whole = 4096,
                .checksum = 0xfedcba9876543210,
        };

        memset(h.key, 0xa5, sizeof(h.key));
        return h;
}

TEST(a_header_survives_the_wire)
{
        for (int type = WIRE_READ; type < WIRE_TYPE_END; type++) {
                struct wire_header h = sample((enum wire_type)type), back;
                uint8_t bytes[WIRE_SIZE], version;

                wire_encode(&h, bytes);
                assert_int_equal(wire_decode(bytes, sizeof(bytes), &back, &version), WIRE_OK);
                assert_int_equal(back.type, h.type);
                assert_int_equal(back.flags, h.flags);
                assert_true(back.to_epoch == h.to_epoch && back.from_epoch == h.from_epoch);
                assert_true(back.operation == h.operation && back.transfer == h.transfer);
                assert_true(back.seq == h.seq && back.status == h.status && back.checksum == h.checksum);
                assert_true(back.offset == h.offset && back.length == h.length && back.total == h.total);
                assert_true(back.whole == h.whole);
                assert_memory_equal(back.key, h.key, sizeof(h.key));
        }
}

TEST(the_layout_is_that_of_the_protocol_page)
{
        struct wire_header h = sample(WIRE_READ);
        uint8_t bytes[WIRE_SIZE];
        static const uint8_t epoch[] = { 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11 };

        wire_encode(&h, bytes);
        assert_memory_equal(bytes, "FRRY\x08\x01\x02\x00", 8);
        assert_memory_equal(bytes + 8, epoch, sizeof(epoch));
        assert_int_equal(bytes[40], 5);
        assert_int_equal(bytes[44], 6);
        assert_int_equal(bytes[64], 0x00);
        assert_int_equal(bytes[65], 0x04);
        assert_int_equal(bytes[72], 0x00);
        assert_int_equal(bytes[73], 0x10);
        assert_int_equal(bytes[80], 0x10);
        assert_int_equal(bytes[88], 0xa5);
}

static void expect_refused(struct wire_header h)
{
        uint8_t bytes[WIRE_SIZE], version;

        wire_encode(&h, bytes);
        assert_int_equal(wire_decode(bytes, sizeof(bytes), &h, &version), WIRE_INVALID);
}

TEST(impossible_numbers_are_refused)
{
        struct wire_header h;

        for (int type = WIRE_READ; type <= WIRE_WRITE; type += WIRE_WRITE - WIRE_READ) {
                h = sample((enum wire_type)type);
                h.length = 0;
                expect_refused(h);
                h.length = 33; /* one beyond the total */
                expect_refused(h);
                h = sample((enum wire_type)type);
                h.offset = UINT64_MAX - 10; /* the sum overflows */
                expect_refused(h);
                h = sample((enum wire_type)type);
                h.total = h.whole + 1;
                expect_refused(h);
        }
        h = sample(WIRE_PARTS);
        h.total = h.whole + 1;
        expect_refused(h);
        h = sample(WIRE_PARTS);
        h.length = 8; /* half a part */
        expect_refused(h);
        h = sample(WIRE_PARTS);
        h.flags = 0;
        expect_refused(h);
        h = sample(WIRE_DATA);
        h.transfer = 0;
        expect_refused(h);
        h = sample(WIRE_DATA);
        h.operation = 0;
        expect_refused(h);
        h = sample(WIRE_DATA);
        h.from_epoch = 0;
        expect_refused(h);
        h = sample(WIRE_DATA);
        h.flags = 64;
        expect_refused(h);
}

TEST(foreign_bytes_are_refused)
{
        struct wire_header h = sample(WIRE_READ), back;
        uint8_t bytes[WIRE_SIZE + 1] = { 0 }, version;

        wire_encode(&h, bytes);
        assert_int_equal(wire_decode(bytes, 0, &back, &version), WIRE_INVALID);
        assert_int_equal(wire_decode(bytes, WIRE_SIZE - 1, &back, &version), WIRE_INVALID);
        assert_int_equal(wire_decode(bytes, WIRE_SIZE + 1, &back, &version), WIRE_INVALID);
        for (size_t i = 0; i < 4; i++) { /* magic */
                bytes[i] ^= 0x40;
                assert_int_equal(wire_decode(bytes, WIRE_SIZE, &back, &version), WIRE_INVALID);
                bytes[i] ^= 0x40;
        }
        assert_int_equal(wire_decode(bytes, WIRE_SIZE, &back, &version), WIRE_OK);
        bytes[5] = 0; /* type */
        assert_int_equal(wire_decode(bytes, WIRE_SIZE, &back, &version), WIRE_INVALID);
        bytes[5] = WIRE_TYPE_END;
        assert_int_equal(wire_decode(bytes, WIRE_SIZE, &back, &version), WIRE_INVALID);
}

/* Of any size and with anything behind it: what it means is that version's affair. */
TEST(another_version_is_named)
{
        uint8_t version = 0;
        struct wire_header back;

        assert_int_equal(wire_decode("FRRY\x01", 5, &back, &version), WIRE_OTHER_PROTOCOL);
        assert_int_equal(version, 1);
        assert_int_equal(wire_decode("FRRY\x09 and more", 14, &back, &version), WIRE_OTHER_PROTOCOL);
        assert_int_equal(version, 9);
}
