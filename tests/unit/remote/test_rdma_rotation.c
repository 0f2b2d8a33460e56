/* After a key was withdrawn: the rkeys that its holder was told open nothing, on no queue pair. */
#include "rdma_kit.h"

#include "auth/keyring.h"
#include "fake_verbs.h"
#include "rdma_raw.h"

#include <errno.h>
#include <string.h>

#define UNNAMED kw_slice_text("the secret without an id")
#define GRACE_MS 100
#define YEAR_2026 INT64_C(1767225600)
#define YEAR_2027 INT64_C(1798761600)
#define YEAR_2028 INT64_C(1830297600)

static const char *const all_keys = "key one 00112233445566778899aabbccddeeff\n"
				    "key two 10112233445566778899aabbccddeeff\n"
				    "key six 60112233445566778899aabbccddeeff\n"
				    "key tcp 70112233445566778899aabbccddeeff carriers=tcp\n"
				    "key shm 80112233445566778899aabbccddeeff carriers=shm\n"
				    "key part 90112233445566778899aabbccddeeff databases=1\n";

static const uint8_t secret_one[] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99,
	0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};

static struct kw_keyring *ring_of(const char *text)
{
	struct kw_error error;
	struct kw_keyring *ring = kw_keyring_new(UNNAMED, kw_slice_text(text), &error);

	if (!ring)
		fail_msg("%s", error.text);
	return ring;
}

static void serve_keys(struct fixture *fixture, uint32_t rotate_ms)
{
	struct kw_server_options options = {
		.keyring = ring_of(all_keys), .rdma.rotate_ms = rotate_ms};

	fixture_open(fixture);
	fixture_serve(fixture, &options);
	kw_keyring_release(options.keyring);
}

static void connect_as(struct fixture *fixture, struct client *client, const char *id)
{
	struct kw_remote_options options = plain_options();

	options.secret = UNNAMED;
	if (*id) {
		strcpy(options.key_id, id);
		options.secret = (struct kw_slice){secret_one, sizeof secret_one};
	}
	assert_int_equal(client_open(fixture, client, &options), 0);
	WAIT(fixture, client->ready || client->closed);
	if (client->closed)
		fail_msg("%s", client->why.text);
}

static void revoke_key(struct fixture *fixture, const char *id)
{
	struct kw_error error;
	struct kw_revocation done;

	if (kw_server_revoke(fixture->server, id, &done, &error) != 0)
		fail_msg("%s", error.text);
}

static void load(struct fixture *fixture, const char *text)
{
	struct kw_keyring *ring = ring_of(text);

	kw_server_set_keyring(fixture->server, ring);
	kw_keyring_release(ring);
}

static struct client *stays; /* in its test */

/* What a directory does for an agent. */
static void tell_extents(struct fixture *fixture)
{
	kw_remote_set_extents(
		stays->remote, fixture->memory.extents, atomic_load(&fixture->memory.extent_count));
}

static void read_on(struct fixture *fixture, struct client *client)
{
	struct try t;

	try_init(&t, 5, 100000);
	try_read(client, &t);
	WAIT(fixture, t.told);
	try_check(&t);
	try_free(&t);
}

static void expect_old_rkey_refused(
	struct fixture *fixture, struct raw *raw, uint64_t address, uint32_t rkey)
{
	int denied = fake_verbs_counts.denied;

	raw->reads = 0;
	raw_read_one(fixture, raw, address, rkey);
	assert_int_equal(raw->reads, 0);
	assert_int_equal(fake_verbs_counts.denied, denied + 1);
	expect_text(raw->why.text, "refused access");
}

/* It may have left before: then it has the rkeys all the same. */
static void the_holder_of_a_withdrawn_key_need_not_be_there(void **state)
{
	struct fixture fixture;
	uint32_t before;

	serve_keys(&fixture, GRACE_MS);
	before = fixture.memory.extents[0].rkey;
	load(&fixture, "key two 10112233445566778899aabbccddeeff\n");
	WAIT(&fixture, fixture.rotated == 1);
	assert_int_not_equal(fixture.memory.extents[0].rkey, before);
	fixture_close(&fixture);
}

static void an_agent_that_stays_reads_on_over_the_same_connection(void **state)
{
	struct kw_extent later = {.offset = EXTENT, .length = EXTENT};
	struct fixture fixture;
	struct client client;
	struct kw_error error;

	serve_keys(&fixture, GRACE_MS);
	connect_as(&fixture, &client, "");
	stays = &client;
	fixture.when_placed = tell_extents;
	for (int turn = 1; turn <= 3; turn++) {
		revoke_key(&fixture, turn == 1 ? "one" : turn == 2 ? "two" : "six");
		/* The table grows meanwhile. */
		if (turn == 2)
			assert_int_equal(kw_memory_extend(&fixture.memory, &later, &error), 0);
		WAIT(&fixture, (read_on(&fixture, &client), fixture.rotated == turn));
		assert_int_equal(fake_verbs_regions(), 1 + (turn >= 2));
	}
	assert_int_equal(client.closed, 0);
	assert_int_equal(fake_verbs_counts.denied, 0);
	assert_int_equal(fixture.left, 0);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

/* One refused READ, and the next connection is told the new rkeys. */
static void an_agent_that_missed_it_connects_again(void **state)
{
	struct fixture fixture;
	struct client client;
	struct try t;

	serve_keys(&fixture, GRACE_MS);
	connect_as(&fixture, &client, "");
	revoke_key(&fixture, "one");
	WAIT(&fixture, fixture.rotated == 1);
	try_init(&t, 5, 100);
	try_read(&client, &t);
	WAIT(&fixture, t.told && client.closed);
	assert_true(t.failed);
	try_free(&t);
	kw_remote_free(client.remote);
	connect_as(&fixture, &client, "");
	read_on(&fixture, &client);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

static void many_revocations_at_once_are_one_rotation(void **state)
{
	struct fixture fixture;

	serve_keys(&fixture, GRACE_MS);
	revoke_key(&fixture, "one");
	revoke_key(&fixture, "two");
	load(&fixture, "");
	WAIT(&fixture, fixture.placed == 2);
	load(&fixture, all_keys);
	/* The new rkeys are published: their holders can have been told these. */
	for (int i = 0; i < 3; i++)
		revoke_key(&fixture, i == 0 ? "one" : i == 1 ? "two" : "six");
	WAIT(&fixture, fixture.rotated == 2);
	assert_int_equal(fake_verbs_regions(), 1);
	for (int i = 0; i < 20; i++)
		uv_run(&fixture.loop, UV_RUN_ONCE);
	assert_int_equal(fixture.rotated, 2);
	assert_int_equal(fake_verbs_counts.registered, 2);
	fixture_close(&fixture);
}

/* The directory, which tells the rkeys, is read over tcp, too. */
static void a_key_for_tcp_alone_was_told_them_too(void **state)
{
	struct fixture fixture;
	uint32_t before;

	serve_keys(&fixture, GRACE_MS);
	before = fixture.memory.extents[0].rkey;
	revoke_key(&fixture, "tcp");
	WAIT(&fixture, fixture.rotated == 1);
	assert_int_not_equal(fixture.memory.extents[0].rkey, before);
	fixture_close(&fixture);
}

/* A moment withdraws a key as a person does; that of a key over shm alone changes nothing. */
static void a_key_that_expires_takes_the_rkeys_with_it(void **state)
{
	static const char *const keys =
		"key old 20112233445566778899aabbccddeeff expires=2026-01-01T00:00:00Z\n"
		"key map 30112233445566778899aabbccddeeff expires=2027-01-01T00:00:00Z "
		"carriers=shm\n"
		"key new 40112233445566778899aabbccddeeff expires=2028-01-01T00:00:00Z\n";
	const int64_t seconds[] = {YEAR_2026 - 1, YEAR_2026, YEAR_2026, YEAR_2027, YEAR_2028};
	const int rotations[] = {0, 1, 1, 1, 2};
	struct fixture fixture;
	uint32_t before, ended;

	serve_keys(&fixture, GRACE_MS);
	load(&fixture, keys);
	WAIT(&fixture, fixture.rotated == 1); /* those of before were withdrawn */
	for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
		before = fixture.memory.extents[0].rkey;
		kw_server_expire_keys(fixture.server, seconds[i], &ended);
		WAIT(&fixture, fixture.rotated >= 1 + rotations[i]);
		for (int turn = 0; turn < 20; turn++)
			uv_run(&fixture.loop, UV_RUN_ONCE);
		assert_int_equal(fixture.rotated, 1 + rotations[i]);
		assert_int_equal(fixture.memory.extents[0].rkey != before,
			i > 0 && rotations[i] > rotations[i - 1]);
	}
	fixture_close(&fixture);
}

/* The rkey of memory that came meanwhile was told as soon as it was there. */
static void memory_that_came_meanwhile_is_registered_anew_too(void **state)
{
	struct kw_extent later = {.offset = EXTENT, .length = EXTENT};
	struct fixture fixture;
	struct kw_error error;
	uint32_t before;

	serve_keys(&fixture, GRACE_MS);
	revoke_key(&fixture, "one");
	assert_int_equal(kw_memory_extend(&fixture.memory, &later, &error), 0);
	before = fixture.memory.extents[1].rkey;
	revoke_key(&fixture, "two");
	WAIT(&fixture, fixture.rotated == 2);
	assert_int_not_equal(fixture.memory.extents[1].rkey, before);
	assert_int_equal(fake_verbs_regions(), 2);
	fixture_close(&fixture);
}

/*
 * Who keeps a key would be told the new rkeys. A mapping of shm shows them always, and a key with a
 * scope is shown none.
 */
static void only_a_withdrawn_key_that_knows_rkeys_counts(void **state)
{
	struct fixture fixture;
	struct client client;

	serve_keys(&fixture, GRACE_MS);
	load(&fixture, all_keys);
	revoke_key(&fixture, "shm");
	revoke_key(&fixture, "part");
	connect_as(&fixture, &client, "one");
	WAIT(&fixture, fixture.joined == 1);
	assert_true(kw_server_disconnect(fixture.server, fixture.session.id, "by the test"));
	expect_closed(&fixture, &client, KW_E_REFUSED, "");
	WAIT(&fixture, fixture.left == 1);
	revoke_key(&fixture, "six");
	WAIT(&fixture, fixture.rotated == 1);
	load(&fixture, "key one 00112233445566778899aabbccddeeff\n"
		       "key two 10112233445566778899aabbccddeeff\n"
		       "key tcp 70112233445566778899aabbccddeeff carriers=tcp\n");
	/* It was revoked before: nothing is left to withdraw. */
	for (int i = 0; i < 20; i++)
		uv_run(&fixture.loop, UV_RUN_ONCE);
	assert_int_equal(fixture.rotated, 1);
	fixture_close(&fixture);
}

/* ---- what fails ---- */

/* The limit of locked memory counts both: agents then connect again, and the rkeys are gone. */
static void without_room_for_two_the_earlier_regions_go_first(void **state)
{
	struct kw_extent before;
	struct fixture fixture;
	struct raw raw;

	serve_keys(&fixture, 60000);
	assert_int_equal(raw_greet_as(&fixture, &raw, UNNAMED, NULL), 0);
	before = fixture.memory.extents[0];
	fake_verbs.fail_errno = ENOMEM;
	fake_verbs.fail_times = 1;
	fake_verbs.fail_call = "ibv_reg_mr";
	revoke_key(&fixture, "one");
	WAIT(&fixture, fixture.rotated == 1);
	assert_int_equal(fixture.rotation.outcome, KW_ROTATION_BROKE);
	assert_int_equal(fixture.rotation.bytes, EXTENT);
	expect_text(fixture.rotation.why.text, "cannot be registered");
	assert_int_not_equal(fixture.memory.extents[0].rkey, before.rkey);
	assert_int_equal(fake_verbs_regions(), 1);
	expect_old_rkey_refused(&fixture, &raw, before.address, before.rkey);
	raw_close(&raw);
	fixture_close(&fixture);
}

static void what_cannot_be_registered_is_tried_again(void **state)
{
	struct fixture fixture;
	struct client client;

	serve_keys(&fixture, 1);
	fake_verbs.fail_errno = ENOMEM;
	fake_verbs.fail_call = "ibv_reg_mr";
	revoke_key(&fixture, "one");
	WAIT(&fixture, fixture.rotated >= 3);
	assert_int_equal(fixture.rotation.outcome, KW_ROTATION_FAILED);
	assert_int_equal(fixture.memory.extents[0].rkey, 0);
	assert_int_equal(fake_verbs_regions(), 0);
	fake_verbs.fail_call = NULL;
	WAIT(&fixture, fixture.rotation.outcome == KW_ROTATION_SMOOTH);
	assert_int_not_equal(fixture.memory.extents[0].rkey, 0);
	connect_as(&fixture, &client, "");
	read_on(&fixture, &client);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

/* Whatever it is about: the proxy stops, or the device is removed. */
static void the_end_comes_at_any_moment(void **state)
{
	for (int turns = 0; turns < 24; turns++) {
		struct fixture fixture;

		serve_keys(&fixture, turns % 3 ? 1 : GRACE_MS);
		revoke_key(&fixture, "one");
		for (int i = 0; i < turns; i++)
			uv_run(&fixture.loop, UV_RUN_NOWAIT);
		if (turns % 2) {
			fake_verbs_remove();
			WAIT(&fixture, !fake_verbs_held());
			revoke_key(&fixture, "two");
			fake_verbs_add();
			WAIT(&fixture, fixture.memory.extents[0].rkey != 0);
			revoke_key(&fixture, "six");
		}
		fixture_close(&fixture);
		assert_int_equal(fake_verbs_left(), 0);
		fake_verbs_reset();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RDMA_TEST(the_holder_of_a_withdrawn_key_need_not_be_there),
		RDMA_TEST(an_agent_that_stays_reads_on_over_the_same_connection),
		RDMA_TEST(an_agent_that_missed_it_connects_again),
		RDMA_TEST(many_revocations_at_once_are_one_rotation),
		RDMA_TEST(a_key_for_tcp_alone_was_told_them_too),
		RDMA_TEST(a_key_that_expires_takes_the_rkeys_with_it),
		RDMA_TEST(memory_that_came_meanwhile_is_registered_anew_too),
		RDMA_TEST(only_a_withdrawn_key_that_knows_rkeys_counts),
		RDMA_TEST(without_room_for_two_the_earlier_regions_go_first),
		RDMA_TEST(what_cannot_be_registered_is_tried_again),
		RDMA_TEST(the_end_comes_at_any_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
