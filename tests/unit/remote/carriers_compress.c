/* What compression changes about a carrier: how many bytes travel, and for how many sessions. */
#include "carriers.h"

static void fill_text(struct fixture *fixture)
{
	for (uint64_t i = 0; i < EXTENT; i++)
		fixture->memory.base[i] = (uint8_t) "user:1234 name value "[(i + i / 97) % 21];
}

static struct kw_session_info session_of(struct fixture *fixture)
{
	struct kw_session_info info;

	assert_int_equal(kw_server_sessions(fixture->server, &info, 1), 1);
	return info;
}

/* All of the extent, in READs of `length`. Returns the bytes that travelled. */
static uint64_t read_all(struct fixture *fixture, struct client *client, uint64_t length)
{
	const uint64_t before = kw_remote_received(client->remote);

	for (uint64_t at = 0; at < EXTENT; at += length) {
		struct try t;

		try_init(&t, at, length);
		try_read(client, &t);
		WAIT(fixture, t.told);
		assert_false(t.failed);
		assert_memory_equal(t.read.buffer, fixture->memory.base + at, length);
		try_free(&t);
	}
	return kw_remote_received(client->remote) - before;
}

void compressed_answers_take_fewer_bytes(void **state)
{
	struct fixture fixture;
	struct client client;
	struct kw_session_info info;
	uint64_t travelled;

	fixture_start(&fixture);
	fill_text(&fixture);
	client_connect(&fixture, &client);
	assert_true(client.info.wished);
	assert_int_equal(client.info.compression, KW_COMPRESSION_ZSTD);
	travelled = read_all(&fixture, &client, 131072);
	assert_true(travelled > 0 && travelled < EXTENT / 8);
	/* The serving thread counts what it has sent. */
	WAIT(&fixture,
		session_of(&fixture).bytes == EXTENT &&
			session_of(&fixture).wire_bytes == kw_remote_received(client.remote));
	info = session_of(&fixture);
	assert_true(info.compressed);
	assert_int_equal(info.bytes, EXTENT);
	assert_int_equal(info.reads, EXTENT / 131072);
	assert_int_equal(info.wire_bytes, kw_remote_received(client.remote));
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

void short_reads_stay_plain(void **state)
{
	const uint64_t length = KW_BLOCKS_LEAST / 2;
	struct fixture fixture;
	struct client client;

	fixture_start(&fixture);
	fill_text(&fixture);
	client_connect(&fixture, &client);
	assert_int_equal(read_all(&fixture, &client, length),
		EXTENT / length * (length + sizeof(struct kw_frame_reply)));
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

void a_proxy_that_forbids_compression_serves_plain(void **state)
{
	const struct kw_server_limits forbids = {.compressed = 0};
	struct fixture fixture;
	struct client client;

	fixture_start(&fixture);
	kw_server_set_limits(fixture.server, &forbids);
	fill_text(&fixture);
	client_connect(&fixture, &client);
	assert_true(client.info.wished);
	assert_int_equal(client.info.compression, KW_COMPRESSION_FORBIDDEN);
	assert_true(read_all(&fixture, &client, 131072) > EXTENT);
	assert_false(session_of(&fixture).compressed);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

void more_sessions_than_may_are_served_plain(void **state)
{
	const struct kw_server_limits one = {.compressed = 1};
	struct client first, second, third;
	struct fixture fixture;

	fixture_start(&fixture);
	kw_server_set_limits(fixture.server, &one);
	client_connect(&fixture, &first);
	client_connect(&fixture, &second);
	assert_int_equal(first.info.compression, KW_COMPRESSION_ZSTD);
	assert_int_equal(second.info.compression, KW_COMPRESSION_FULL);
	client_close(&fixture, &first);
	WAIT(&fixture, fixture.left == 1);
	client_connect(&fixture, &third);
	assert_int_equal(third.info.compression, KW_COMPRESSION_ZSTD);
	client_close(&fixture, &second);
	client_close(&fixture, &third);
	fixture_close(&fixture);
}
