#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "auth/channel.h"

#include <string.h>

static struct kw_endpoint endpoint(const char *text)
{
	struct kw_endpoint parsed;

	assert_true(kw_endpoint_parse(text, &parsed));
	return parsed;
}

/* Channels that are all different. */
static int make_all(struct kw_channel *all)
{
	const struct kw_endpoint one = endpoint("10.0.0.9:7000"), port = endpoint("10.0.0.9:7001"),
				 host = endpoint("10.0.0.8:7000");
	const struct kw_channel made[] = {
		kw_channel_shm(5, 6),
		kw_channel_shm(5, 7),
		kw_channel_shm(6, 6),
		kw_channel_tcp(&one),
		kw_channel_tcp(&port),
		kw_channel_tcp(&host),
		kw_channel_rdma(&one, 1, 2),
		kw_channel_rdma(&one, 2, 1),
		kw_channel_rdma(&one, 1, 3),
		kw_channel_rdma(&port, 1, 2),
		kw_channel_rdma(&host, 1, 2),
		kw_channel_rdma(&one, 0, 0),
	};

	memcpy(all, made, sizeof made);
	return (int)(sizeof made / sizeof *made);
}

static void only_the_same_channel_is_the_same(void **state)
{
	struct kw_channel all[16];
	int count = make_all(all);

	for (int i = 0; i < count; i++)
		for (int j = 0; j < count; j++)
			assert_int_equal(
				kw_channel_compare(&all[i], &all[j], NULL) == KW_CHANNEL_SAME,
				i == j);
}

static void the_verdict_says_what_differs(void **state)
{
	struct kw_channel all[16];

	make_all(all);
	assert_int_equal(kw_channel_compare(&all[0], &all[1], NULL), KW_CHANNEL_FILE_DIFFERS);
	assert_int_equal(kw_channel_compare(&all[3], &all[4], NULL), KW_CHANNEL_ADDRESS_DIFFERS);
	assert_int_equal(kw_channel_compare(&all[6], &all[7], NULL), KW_CHANNEL_PAIRS_DIFFER);
	assert_int_equal(kw_channel_compare(&all[6], &all[9], NULL), KW_CHANNEL_ADDRESS_DIFFERS);
	assert_int_equal(kw_channel_compare(&all[0], &all[3], NULL), KW_CHANNEL_CARRIER_DIFFERS);
	assert_int_equal(kw_channel_compare(&all[3], &all[11], NULL), KW_CHANNEL_CARRIER_DIFFERS);
}

static void further_addresses_are_the_proxys_too(void **state)
{
	const struct kw_endpoint own = endpoint("172.17.0.2:7000"),
				 tunnel = endpoint("127.0.0.1:7471");
	struct kw_endpoints more = {.count = 2, .items = {endpoint("10.0.0.9:7000"), tunnel}};
	struct kw_channel said = kw_channel_tcp(&tunnel), arrived = kw_channel_tcp(&own);

	assert_int_equal(kw_channel_compare(&said, &arrived, &more), KW_CHANNEL_SAME);
	more.count = 1;
	assert_int_equal(kw_channel_compare(&said, &arrived, &more), KW_CHANNEL_ADDRESS_DIFFERS);
	/* Another address does not make another connection the same. */
	more.count = 2;
	said = kw_channel_rdma(&tunnel, 1, 2);
	arrived = kw_channel_rdma(&own, 1, 3);
	assert_int_equal(kw_channel_compare(&said, &arrived, &more), KW_CHANNEL_PAIRS_DIFFER);
}

static void the_bytes_are_all_that_is_known(void **state)
{
	struct kw_channel all[16], decoded;
	int count = make_all(all);

	for (int i = 0; i < count; i++) {
		assert_true(kw_channel_decode((uint8_t)all[i].kind, all[i].bytes, &decoded));
		assert_int_equal(kw_channel_compare(&decoded, &all[i], NULL), KW_CHANNEL_SAME);
	}
}

static void reserved_bytes_and_kinds_are_refused(void **state)
{
	static const struct {
		enum kw_channel_kind kind;
		size_t first_reserved;
	} tails[] = {{KW_CHANNEL_SHM, 16}, {KW_CHANNEL_TCP, 20}, {KW_CHANNEL_RDMA, 28},
		{KW_CHANNEL_TLS, KW_CHANNEL_EXPORTER_BYTES}};
	struct kw_channel decoded;
	uint8_t bytes[KW_CHANNEL_BYTES];

	for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
		for (size_t at = 0; at < KW_CHANNEL_BYTES; at++) {
			bool host =
				tails[i].kind == KW_CHANNEL_TCP || tails[i].kind == KW_CHANNEL_RDMA;
			bool reserved =
				at >= tails[i].first_reserved || (host && (at == 18 || at == 19));

			memset(bytes, 0, sizeof bytes);
			bytes[at] = 1;
			assert_int_equal(kw_channel_decode((uint8_t)tails[i].kind, bytes, &decoded),
				!reserved);
		}
	memset(bytes, 0, sizeof bytes);
	for (int kind = 0; kind < 256; kind++)
		assert_int_equal(kw_channel_decode((uint8_t)kind, bytes, &decoded),
			kind >= KW_CHANNEL_SHM && kind <= KW_CHANNEL_TLS);
}

static void a_channel_is_named_for_people(void **state)
{
	const struct kw_endpoint four = endpoint("10.0.0.9:7000"), six = endpoint("[::1]:7");
	struct kw_channel channel = kw_channel_tcp(&four);
	char text[KW_CHANNEL_TEXT];

	kw_channel_text(&channel, text, sizeof text);
	assert_string_equal(text, "tcp 10.0.0.9:7000");
	channel = kw_channel_rdma(&six, 1, 2);
	kw_channel_text(&channel, text, sizeof text);
	assert_string_equal(text, "rdma [::1]:7");
	channel = kw_channel_shm(1, 2);
	kw_channel_text(&channel, text, sizeof text);
	assert_string_equal(text, "shm");
	channel.kind = (enum kw_channel_kind)200;
	kw_channel_text(&channel, text, sizeof text);
	assert_string_equal(text, "an unknown carrier");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_same_channel_is_the_same),
		cmocka_unit_test(the_verdict_says_what_differs),
		cmocka_unit_test(further_addresses_are_the_proxys_too),
		cmocka_unit_test(the_bytes_are_all_that_is_known),
		cmocka_unit_test(reserved_bytes_and_kinds_are_refused),
		cmocka_unit_test(a_channel_is_named_for_people),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
