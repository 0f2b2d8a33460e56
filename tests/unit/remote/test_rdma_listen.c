/* Listening over rdma: what fails, and what comes later. */
#include "rdma_kit.h"

#include "../vm_flags.h"

#include "fake_verbs.h"
#include "rdma_raw.h"
#include "remote/rdma/counts.h"
#include "remote/slots.h"

#include <errno.h>
#include <string.h>

/* What librdmacm says on a host that has no device at all. */
static void without_a_device_the_other_carriers_are_named(void **state)
{
	const struct kw_remote_options options = plain_options();
	const struct kw_server_options none = {0};
	const struct kw_server_handlers handlers = {0};
	struct fixture fixture;
	struct client client;
	struct kw_error error;

	fixture_start(&fixture);
	fake_verbs.fail_call = "rdma_create_event_channel";
	fake_verbs.fail_errno = ENODEV;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	expect_closed(&fixture, &client, KW_E_GONE, "no RDMA device");
	expect_text(client.why.text, "use shm:// or tcp://");
	fixture_stop_server(&fixture);
	fixture.server = kw_server_new(&fixture.loop, &fixture.memory, &none, &handlers);
	assert_int_equal(kw_server_prepare(fixture.server, &fixture.address, &error), KW_E_GONE);
	expect_text(error.text, "no RDMA device");
	expect_text(error.text, "use shm:// or tcp://");
	fixture.closed = 0;
	fixture_close(&fixture);
}

static void listening_that_fails_is_a_sentence_too(void **state)
{
	static const char *const calls[] = {"rdma_create_event_channel", "rdma_create_id",
		"rdma_bind_addr", "ibv_query_device", "ibv_alloc_pd", "ibv_reg_mr", "rdma_listen"};
	const struct kw_server_options none = {0};
	const struct kw_server_options wide = {.allow_insecure = true};
	const struct kw_server_handlers handlers = {0};
	struct kw_address address;
	struct fixture fixture;
	struct kw_error error;

	fixture_open(&fixture);
	kw_address_parse("rdma://127.0.0.1:0", &address, &error);
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		fake_verbs.fail_call = calls[i];
		fake_verbs.fail_errno = EIO;
		fixture.server = kw_server_new(&fixture.loop, &fixture.memory, &wide, &handlers);
		assert_int_not_equal(kw_server_listen(fixture.server, &address, &error), 0);
		expect_text(error.text, "listen on rdma://127.0.0.1:0");
		fixture.closed = 0;
		fixture_stop_server(&fixture);
		kw_remote_end(&fixture.loop);
		uv_run(&fixture.loop, UV_RUN_NOWAIT);
		assert_int_equal(fake_verbs_left(), 0);
	}
	fake_verbs.fail_call = NULL;
	fixture.server = kw_server_new(&fixture.loop, &fixture.memory, &none, &handlers);
	kw_address_parse("rdma://0.0.0.0:0", &address, &error);
	assert_int_equal(kw_server_listen(fixture.server, &address, &error), KW_E_CONFIG);
	expect_text(error.text, "auth.secret_file");
	fixture.closed = 0;
	fixture_stop_server(&fixture);
	fixture.server = kw_server_new(&fixture.loop, &fixture.memory, &wide, &handlers);
	fake_verbs.devices = 2;
	assert_int_equal(kw_server_listen(fixture.server, &address, &error), KW_E_CONFIG);
	expect_text(error.text, "2 RDMA devices");
	fake_verbs.devices = 1;
	assert_int_equal(kw_server_listen(fixture.server, &address, &error), 0);
	fixture.closed = 0;
	fixture_close(&fixture);
}

/* ---- a device that comes and goes ---- */

static struct kw_listener_info info_of(const struct fixture *fixture, int number)
{
	struct kw_listener_info infos[4];

	assert_true(kw_server_listeners(fixture->server, infos, 4) > number);
	return infos[number];
}

static void read_something(struct fixture *fixture)
{
	struct client client;
	struct try t;

	client_connect(fixture, &client);
	try_init(&t, 12345, 100000);
	try_read(&client, &t);
	WAIT(fixture, t.told);
	try_check(&t);
	try_free(&t);
	client_close(fixture, &client);
}

/* The proxy waits, what it had is let go of, and it serves on the same port when there is one. */
static void a_removed_device_is_let_go_of_and_taken_again(void **state)
{
	const struct kw_remote_options options = plain_options();
	struct kw_extent later = {.offset = EXTENT, .length = EXTENT};
	struct fixture fixture;
	struct client client;
	struct kw_error error;
	uint32_t rkey;

	fixture_start(&fixture);
	assert_string_equal(fixture.listener.device, "fake0");
	for (int life = 1; life < 4; life++) {
		assert_int_equal(fixture.placed, life);
		rkey = fixture.memory.extents[0].rkey;
		assert_int_not_equal(rkey, 0);
		/* Pages that the device has must stay where they are. */
		assert_false(kw_memory_give_back(&fixture.memory, 2 * EXTENT, 4096));
		client_connect(&fixture, &client);
		WAIT(&fixture, fixture.joined == 2 * life - 1);
		kw_memory_expect(&fixture.memory, 3 * EXTENT, EXTENT);
		fake_verbs_remove();
		expect_closed(&fixture, &client, KW_E_IO, "was removed");
		WAIT(&fixture, !fake_verbs_held());
		assert_int_equal(fixture.left, 2 * life - 1);
		expect_text(fixture.why_left, "was removed");
		assert_true(info_of(&fixture, 0).waiting);
		assert_string_equal(info_of(&fixture, 0).device, "");
		assert_int_equal(fixture.memory.extents[0].rkey, 0);
		assert_int_equal(client_open(&fixture, &client, &options), 0);
		expect_closed(&fixture, &client, KW_E_IO, "no RDMA device leads to that address");
		WAIT(&fixture, info_of(&fixture, 0).attempts >= 2);
		expect_text(
			info_of(&fixture, 0).why, "no RDMA device of this host has that address");
		kw_memory_expect(&fixture.memory, 2 * EXTENT, EXTENT); /* nobody does anything */
		/* The table grows meanwhile. */
		if (life == 2)
			assert_int_equal(kw_memory_extend(&fixture.memory, &later, &error), 0);
		fake_verbs_add();
		WAIT(&fixture, !info_of(&fixture, 0).waiting);
		assert_int_not_equal(fixture.memory.extents[0].rkey, rkey);
		if (life >= 2)
			assert_int_not_equal(fixture.memory.extents[1].rkey, 0);
		read_something(&fixture);
		WAIT(&fixture, fixture.left == 2 * life);
	}
	/* Told of once when it was lost, once why it does not come back, once when it was back. */
	assert_int_equal(fixture.told_of_listeners, 1 + 3 * 3);
	fixture_close(&fixture);
}

static void extend(struct fixture *fixture, uint64_t offset, bool registered_here)
{
	struct kw_extent extent = {.offset = offset, .length = EXTENT};
	int elsewhere = fake_verbs_counts.registered;
	struct kw_error error;

	assert_int_equal(kw_memory_extend(&fixture->memory, &extent, &error), 0);
	assert_int_not_equal(extent.rkey, 0);
	assert_int_equal(extent.address, (uintptr_t)fixture->memory.base + offset);
	if (registered_here)
		assert_int_equal(fake_verbs_counts.registered, elsewhere);
}

/* Pinning takes long: what is expected is registered by another thread. */
static void what_is_expected_is_registered_before_it_is_needed(void **state)
{
	struct fixture fixture;
	int elsewhere;

	fixture_start(&fixture);
	elsewhere = fake_verbs_counts.registered;
	/* Three times the same, another one, and one too many, which is not begun. */
	for (int i = 0; i < 3; i++)
		kw_memory_expect(&fixture.memory, EXTENT, EXTENT);
	kw_memory_expect(&fixture.memory, 3 * EXTENT, EXTENT);
	kw_memory_expect(&fixture.memory, 5 * EXTENT, EXTENT);
	WAIT(&fixture, fake_verbs_counts.registered == elsewhere + 2);
	extend(&fixture, EXTENT, true);
	extend(&fixture, 3 * EXTENT, true);
	assert_int_equal(fake_verbs_counts.registered, elsewhere + 2);
	/* Wanted at once: waited for, or done here. Not expected like this: done here. */
	kw_memory_expect(&fixture.memory, 4 * EXTENT, EXTENT);
	extend(&fixture, 4 * EXTENT, false);
	elsewhere = fake_verbs_counts.registered;
	kw_memory_expect(&fixture.memory, 5 * EXTENT, 2 * EXTENT);
	WAIT(&fixture, fake_verbs_counts.registered == elsewhere + 1);
	extend(&fixture, 5 * EXTENT, true);
	/* It could not be registered ahead, and now it can. */
	fake_verbs.fail_call = "ibv_reg_mr";
	fake_verbs.fail_errno = ENOMEM;
	kw_memory_expect(&fixture.memory, 2 * EXTENT, EXTENT);
	WAIT(&fixture, fake_verbs.fail_skip < 0);
	fake_verbs.fail_call = NULL;
	extend(&fixture, 2 * EXTENT, true);
	/* Beyond the reservation nothing is. What is left over goes with the device. */
	kw_memory_expect(&fixture.memory, RESERVE, EXTENT);
	kw_memory_expect(&fixture.memory, RESERVE - EXTENT, 2 * EXTENT);
	kw_memory_expect(&fixture.memory, 6 * EXTENT, EXTENT);
	fixture_close(&fixture);
}

#define POOL_THREADS 4 /* of libuv, unless the environment says otherwise */

static void hold_a_thread(uv_work_t *work)
{
	uv_sem_wait(work->data);
}

static void let_it_be(uv_work_t *work, int status)
{
	(void)work;
	assert_int_equal(status, 0);
}

static void hold_the_pool(struct fixture *fixture, uv_work_t works[POOL_THREADS], uv_sem_t *go_on)
{
	assert_int_equal(uv_sem_init(go_on, 0), 0);
	for (int i = 0; i < POOL_THREADS; i++) {
		works[i].data = go_on;
		assert_int_equal(
			uv_queue_work(&fixture->loop, &works[i], hold_a_thread, let_it_be), 0);
	}
}

static void let_the_pool_go(uv_sem_t *go_on)
{
	for (int i = 0; i < POOL_THREADS; i++)
		uv_sem_post(go_on);
}

/* Gone again while the table is being registered: the kernel must not wait for us. */
static void a_device_that_goes_while_it_is_prepared_is_let_go_of(void **state)
{
	struct fixture fixture;
	uv_work_t works[POOL_THREADS];
	uv_sem_t go_on;

	fixture_start(&fixture);
	fake_verbs_remove();
	WAIT(&fixture, info_of(&fixture, 0).attempts >= 1 && !fake_verbs_held());
	hold_the_pool(&fixture, works, &go_on);
	fake_verbs_add();
	WAIT(&fixture, fixture.memory.device.add);
	fake_verbs_remove();
	let_the_pool_go(&go_on);
	WAIT(&fixture, !fake_verbs_held());
	fake_verbs_add();
	WAIT(&fixture, !info_of(&fixture, 0).waiting);
	read_something(&fixture);
	WAIT(&fixture, fixture.left == 1);
	fixture_close(&fixture);
	uv_sem_destroy(&go_on);
}

/* What may be needed later never stands in the way of what is needed now. */
static void what_was_expected_in_vain_harms_nothing(void **state)
{
	struct fixture fixture;
	uv_work_t works[POOL_THREADS];
	uv_sem_t go_on;
	int elsewhere;

	/* The table needs more at that place than it had said. */
	fixture_start(&fixture);
	elsewhere = fake_verbs_counts.registered;
	kw_memory_expect(&fixture.memory, EXTENT, EXTENT / 2);
	kw_memory_expect(&fixture.memory, 3 * EXTENT / 2, EXTENT / 2);
	WAIT(&fixture, fake_verbs_counts.registered == elsewhere + 2);
	extend(&fixture, EXTENT, true);
	/* Both are gone, so two others find room. */
	kw_memory_expect(&fixture.memory, 2 * EXTENT, EXTENT);
	kw_memory_expect(&fixture.memory, 3 * EXTENT, EXTENT);
	WAIT(&fixture, fake_verbs_counts.registered == elsewhere + 4);
	/* They took the memory that may be locked, and something else is needed. */
	fake_verbs.fail_errno = ENOMEM;
	fake_verbs.fail_times = 1;
	fake_verbs.fail_call = "ibv_reg_mr";
	extend(&fixture, 4 * EXTENT, true);
	/* The pool has other things to do, and has not begun. */
	hold_the_pool(&fixture, works, &go_on);
	kw_memory_expect(&fixture.memory, 5 * EXTENT, EXTENT);
	extend(&fixture, 5 * EXTENT, true);
	let_the_pool_go(&go_on);
	fixture_close(&fixture);
	uv_sem_destroy(&go_on);
}

/* A proxy that starts at boot may be faster than its NIC. */
static void a_device_that_is_not_there_yet_is_waited_for(void **state)
{
	const struct kw_server_options wide = {.allow_insecure = true};
	struct fixture fixture;
	struct kw_error error;

	fake_verbs.devices = 0;
	fixture_open(&fixture);
	fixture_serve(&fixture, &wide);
	assert_true(fixture.listener.waiting);
	expect_text(fixture.listener.why, "no RDMA device of this host has that address");
	assert_int_equal(kw_server_prepare(fixture.server, &fixture.address, &error), KW_E_GONE);
	assert_int_equal(fixture.placed, 0);
	fake_verbs.devices = 1;
	WAIT(&fixture, !fixture.listener.waiting);
	assert_int_equal(fixture.placed, 1);
	fixture.address.port = kw_server_port(fixture.server, 0);
	read_something(&fixture);
	fixture_close(&fixture);
}

/* Bonding moves it to another device; or the device failed and was not removed. */
static void an_address_that_moved_is_listened_on_anew(void **state)
{
	for (int failed = 0; failed < 2; failed++) {
		enum kw_rdma_count counted =
			failed ? KW_RDMA_DEVICE_REMOVED : KW_RDMA_ADDRESS_CHANGED;
		uint64_t before = kw_rdma_counted(counted);
		struct fixture fixture;
		struct client client;

		fixture_start(&fixture);
		client_connect(&fixture, &client);
		if (failed)
			fake_verbs_async(IBV_EVENT_DEVICE_FATAL, 1);
		else
			fake_verbs_tell_listeners(RDMA_CM_EVENT_ADDR_CHANGE);
		WAIT(&fixture, fixture.listener.waiting);
		expect_text(fixture.listener.why, failed ? "failed or was removed" : "moved");
		assert_true(kw_rdma_counted(counted) > before);
		WAIT(&fixture, client.closed && fixture.left == 1);
		kw_remote_free(client.remote);
		/* It is in the list of devices: its context is the next one's, too. */
		assert_true(fake_verbs_held());
		WAIT(&fixture, !fixture.listener.waiting);
		assert_int_equal(fixture.placed, 2);
		read_something(&fixture);
		fixture_close(&fixture);
	}
}

/* --check-config says it, with the proxy running or not, and changes nothing. */
static void what_is_not_there_can_be_asked_for(void **state)
{
	const struct kw_rdma_options plain = {0}, other = {.device = "mlx5_9"};
	struct kw_address elsewhere = {.carrier = KW_CARRIER_TCP, .host = "10.9.9.9", .port = 1};
	struct fixture fixture;
	struct kw_error error;

	fixture_start(&fixture);
	assert_int_equal(kw_server_look(&fixture.address, &plain, &error), 0);
	assert_int_equal(kw_server_look(&elsewhere, &plain, &error), 0);
	assert_int_equal(kw_server_look(&fixture.address, &other, &error), KW_E_CONFIG);
	expect_text(error.text, "mlx5_9 is configured");
	fake_verbs.devices = 0;
	assert_int_equal(kw_server_look(&fixture.address, &plain, &error), KW_E_GONE);
	expect_text(error.text, "no RDMA device of this host has that address");
	fake_verbs.devices = 1;
	read_something(&fixture);
	fixture_close(&fixture);
}

/* The module of the connection manager is loaded late, too. What cannot come by itself is refused.
 */
static void what_may_come_is_waited_for_and_nothing_else(void **state)
{
	static const struct {
		const char *call;
		int errnum;
		bool waits;
	} cases[] = {
		{"rdma_create_event_channel", ENODEV, true},
		{"rdma_create_event_channel", ENOENT, true},
		{"rdma_create_event_channel", EACCES, false},
		{"rdma_bind_addr", EADDRNOTAVAIL, true},
		{"rdma_bind_addr", EADDRINUSE, false},
		{"ibv_reg_mr", ENOMEM, false},
	};
	const struct kw_server_options wide = {.allow_insecure = true};
	const struct kw_server_handlers handlers = {0};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct fixture fixture;
		struct kw_error error;
		int code;

		fixture_open(&fixture);
		kw_address_parse("rdma://127.0.0.1:0", &fixture.address, &error);
		fixture.server = kw_server_new(&fixture.loop, &fixture.memory, &wide, &handlers);
		fake_verbs.fail_call = cases[i].call;
		fake_verbs.fail_errno = cases[i].errnum;
		code = kw_server_listen(fixture.server, &fixture.address, &error);
		fake_verbs.fail_call = NULL;
		assert_int_equal(code == 0, cases[i].waits);
		if (cases[i].waits)
			WAIT(&fixture, !info_of(&fixture, 0).waiting);
		fixture_close(&fixture);
	}
}

/* Every step back may fail, as often as it likes: the reason is told, and it is tried again. */
static void what_fails_when_it_comes_back_is_tried_again(void **state)
{
	static const char *const calls[] = {"rdma_create_event_channel", "rdma_create_id",
		"rdma_bind_addr", "ibv_query_device", "ibv_alloc_pd", "ibv_reg_mr", "rdma_listen"};
	struct fixture fixture;

	fixture_start(&fixture);
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		fake_verbs_remove();
		WAIT(&fixture, !fake_verbs_held());
		fake_verbs.fail_call = calls[i];
		fake_verbs.fail_errno = EIO;
		fake_verbs_add();
		WAIT(&fixture, info_of(&fixture, 0).attempts >= 2 &&
				       !strstr(info_of(&fixture, 0).why, "has that address"));
		assert_true(info_of(&fixture, 0).waiting);
		fake_verbs.fail_call = NULL;
		WAIT(&fixture, !info_of(&fixture, 0).waiting);
		read_something(&fixture);
	}
	fixture_close(&fixture);
}

/* Of an address that belongs to no device nobody is told anything: it is looked after. */
static void a_wildcard_address_loses_its_device_too(void **state)
{
	const struct kw_server_options wide = {.allow_insecure = true};
	struct kw_server_handlers handlers;
	struct kw_address address;
	struct fixture fixture;
	struct kw_error error;

	fixture_open(&fixture);
	handlers = fixture_handlers(&fixture);
	fixture.server = kw_server_new(&fixture.loop, &fixture.memory, &wide, &handlers);
	kw_address_parse("rdma://0.0.0.0:0", &address, &error);
	assert_int_equal(kw_server_listen(fixture.server, &address, &error), 0);
	fixture.address.carrier = KW_CARRIER_RDMA;
	strcpy(fixture.address.host, "127.0.0.1");
	fixture.address.port = kw_server_port(fixture.server, 0);
	read_something(&fixture);
	fake_verbs_remove();
	WAIT(&fixture, !fake_verbs_held());
	assert_true(info_of(&fixture, 0).waiting);
	WAIT(&fixture, strstr(info_of(&fixture, 0).why, "this host has no RDMA device"));
	fake_verbs_add();
	WAIT(&fixture, !info_of(&fixture, 0).waiting);
	read_something(&fixture);
	fixture_close(&fixture);
}

/* Two addresses of one device: registered once, let go of once. */
static void listeners_share_a_device_that_comes_and_goes(void **state)
{
	struct fixture fixture;
	struct kw_address second;
	struct kw_error error;

	fixture_start(&fixture);
	kw_address_parse("rdma://127.0.0.1:0", &second, &error);
	assert_int_equal(kw_server_listen(fixture.server, &second, &error), 0);
	assert_int_equal(fixture.placed, 1);
	fake_verbs_remove();
	WAIT(&fixture, !fake_verbs_held());
	fake_verbs_add();
	WAIT(&fixture, !info_of(&fixture, 0).waiting && !info_of(&fixture, 1).waiting);
	assert_int_equal(fixture.placed, 2);
	read_something(&fixture);
	fixture.address.port = kw_server_port(fixture.server, 1);
	read_something(&fixture);
	fixture_close(&fixture);
}

/* Whatever it is about: waiting, registering, listening again, with a connection or without. */
static void closing_ends_whatever_a_listener_is_about(void **state)
{
	for (int turns = 0; turns < 24; turns++) {
		struct fixture fixture;
		struct client client;

		fixture_start(&fixture);
		client_connect(&fixture, &client);
		fake_verbs_remove();
		if (turns % 2 == 0) {
			WAIT(&fixture, !fake_verbs_held() && client.closed);
			fake_verbs_add();
			WAIT(&fixture, fixture.placed == 2 || info_of(&fixture, 0).attempts > 0);
		}
		for (int i = 0; i < turns; i++)
			uv_run(&fixture.loop, UV_RUN_NOWAIT);
		fixture_stop_server(&fixture);
		WAIT(&fixture, client.closed);
		kw_remote_free(client.remote);
		fixture_close(&fixture);
		assert_int_equal(fake_verbs_left(), 0);
		fake_verbs_reset();
	}
}

#define STRANGERS (KW_SLOTS_MAX + 20)

/* They are connected, say nothing, and take no agent's slot. */
static void strangers_who_hold_every_slot_give_way_over_rdma(void **state)
{
	const struct kw_server_options served = {.handshake_timeout_ms = 60000};
	static struct raw strangers[STRANGERS];
	struct kw_rdma_private private;
	struct fixture fixture;
	struct client client;

	fixture_open(&fixture);
	fixture_serve(&fixture, &served);
	kw_rdma_private_init(&private, KW_RDMA_REJECT_NONE);
	for (int i = 0; i < STRANGERS; i++)
		assert_int_equal(raw_dial(&fixture, &strangers[i], &private),
			RDMA_CM_EVENT_CONNECT_RESPONSE);
	client_connect(&fixture, &client);
	expect_text(fixture.why_rejected, "gave way");
	assert_int_equal(fixture.rejected, STRANGERS - KW_SLOTS_MAX + 1);
	client_close(&fixture, &client);
	for (int i = 0; i < STRANGERS; i++)
		raw_close(&strangers[i]);
	fixture_close(&fixture);
}

/* What the listener holds of connections, in objects of the device; `dialled` of them were made. */
static int held_for(int before, int dialled, int of_client)
{
	return fake_verbs_left() - before - dialled * of_client;
}

#define LATE 40

/* Refused ones wait until their last words are sent, and a black hole never takes these. */
static void refused_strangers_hold_no_more_than_the_slots(void **state)
{
	const struct kw_server_options served = {.handshake_timeout_ms = 60000};
	static struct raw strangers[KW_SLOTS_MAX + LATE];
	struct kw_rdma_private private;
	int before, of_client, of_peer;
	struct fixture fixture;
	struct kw_error error;

	fixture_open(&fixture);
	fixture_serve(&fixture, &served);
	kw_rdma_private_init(&private, KW_RDMA_REJECT_NONE);
	before = fake_verbs_left();
	raw_dial(&fixture, &strangers[0], &private);
	of_client = fake_verbs_left();
	of_peer = of_client - before;
	raw_close(&strangers[0]);
	of_client -= fake_verbs_left();
	of_peer -= of_client;
	WAIT(&fixture, fixture.rejected == 1 && fake_verbs_left() == before);
	for (int i = 0; i < KW_SLOTS_MAX; i++)
		raw_dial(&fixture, &strangers[i], &private);
	for (int i = 0; i < KW_SLOTS_MAX; i++)
		assert_int_equal(
			kw_rdma_end_send(&strangers[i].end, "GET / HTTP/1.1\r\n", 16, &error), 0);
	fake_verbs.hold = true;
	WAIT(&fixture, fixture.rejected == 1 + KW_SLOTS_MAX);
	fake_verbs.hold = false;
	for (int i = KW_SLOTS_MAX; i < KW_SLOTS_MAX + LATE; i++) {
		raw_dial(&fixture, &strangers[i], &private);
		assert_in_range(held_for(before, i + 1, of_client), 0, KW_SLOTS_MAX * of_peer);
	}
	for (int i = 0; i < KW_SLOTS_MAX + LATE; i++)
		raw_close(&strangers[i]);
	fixture_close(&fixture);
}

/* Bytes of the table end there. */
static void buffers_of_reads_over_rdma_are_in_no_core_file(void **state)
{
	struct kw_rdma_private private;
	struct fixture fixture;
	struct raw raw;

	fixture_start(&fixture);
	kw_rdma_private_init(&private, KW_RDMA_REJECT_NONE);
	raw_dial(&fixture, &raw, &private);
	assert_true(vm_has_flag(raw.end.arena, "dd"));
	raw_close(&raw);
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RDMA_TEST(without_a_device_the_other_carriers_are_named),
		RDMA_TEST(listening_that_fails_is_a_sentence_too),
		RDMA_TEST(a_removed_device_is_let_go_of_and_taken_again),
		RDMA_TEST(what_is_expected_is_registered_before_it_is_needed),
		RDMA_TEST(what_was_expected_in_vain_harms_nothing),
		RDMA_TEST(a_device_that_goes_while_it_is_prepared_is_let_go_of),
		RDMA_TEST(a_device_that_is_not_there_yet_is_waited_for),
		RDMA_TEST(an_address_that_moved_is_listened_on_anew),
		RDMA_TEST(what_is_not_there_can_be_asked_for),
		RDMA_TEST(what_may_come_is_waited_for_and_nothing_else),
		RDMA_TEST(what_fails_when_it_comes_back_is_tried_again),
		RDMA_TEST(a_wildcard_address_loses_its_device_too),
		RDMA_TEST(listeners_share_a_device_that_comes_and_goes),
		RDMA_TEST(closing_ends_whatever_a_listener_is_about),
		RDMA_TEST(strangers_who_hold_every_slot_give_way_over_rdma),
		RDMA_TEST(refused_strangers_hold_no_more_than_the_slots),
		RDMA_TEST(buffers_of_reads_over_rdma_are_in_no_core_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
