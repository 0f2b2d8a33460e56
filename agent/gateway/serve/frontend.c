#include "internal.h"
#include "onward.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS 100
#define SPARE_PARTS 4096
#define SPARE_WORKS 256
#define REPLY_KEPT ((size_t)1 << 10)
#define BUFFER_KEPT ((size_t)64 << 10)
#define WORDS_KEPT 1024
#define TURN_HANDLES 2 /* check, prepare */
#define HANDLES 4      /* and awake, tick */
#define SAY_EACH_MS 60000

/* ---- pools ---- */

struct kw_part *kw_frontend_take_part(struct kw_frontend *server)
{
	struct kw_part *part = server->spare_parts;

	server->begun++;
	server->stats.parts = server->begun;
	if (!part)
		return kw_zalloc(sizeof *part);
	server->spare_parts = part->next;
	server->spare_parts_count--;
	return part;
}

void kw_frontend_give_part(struct kw_frontend *server, struct kw_part *part)
{
	assert(server->begun > 0);
	server->begun--;
	server->stats.parts = server->begun;
	kw_buffer_clear(&part->reply);
	kw_buffer_trim(&part->reply, REPLY_KEPT);
	if (server->spare_parts_count >= SPARE_PARTS) {
		kw_buffer_close(&part->reply);
		free(part);
		return;
	}
	part->next = server->spare_parts;
	server->spare_parts = part;
	server->spare_parts_count++;
}

struct kw_work *kw_frontend_take_work(struct kw_frontend *server)
{
	struct kw_work *work = server->spare_works;

	if (!work)
		return kw_zalloc(sizeof *work);
	server->spare_works = work->next;
	server->spare_works_count--;
	return work;
}

/*
 * What no request has taken is the beginning of one that was broken off, and can be a login. With
 * the last request of a batch nothing is left here, and this costs nothing.
 */
static void wipe_rest(const struct kw_work *work)
{
	const struct kw_buffer *input = &work->input;

	if (kw_buffer_length(input) > 0)
		explicit_bzero(input->data + input->start, kw_buffer_length(input));
}

static void free_work(struct kw_work *work)
{
	kw_buffer_close(&work->input);
	kw_buffer_close(&work->output);
	free(work->words);
	free(work);
}

void kw_frontend_give_work(struct kw_frontend *server, struct kw_work *work)
{
	wipe_rest(work);
	if (server->spare_works_count >= SPARE_WORKS || work->words_capacity > WORDS_KEPT) {
		free_work(work);
		return;
	}
	work->begun = work->words_count = 0;
	kw_buffer_clear(&work->input);
	kw_buffer_clear(&work->output);
	kw_buffer_trim(&work->input, BUFFER_KEPT);
	kw_buffer_trim(&work->output, BUFFER_KEPT);
	work->next = server->spare_works;
	server->spare_works = work;
	server->spare_works_count++;
}

/* ---- turns ---- */

static void on_awake(uv_idle_t *handle)
{
}

void kw_frontend_touch(struct kw_frontend *server, struct kw_client *client)
{
	if (client->touched)
		return;
	client->touched = true;
	client->next_touched = server->touched;
	server->touched = client;
	/* Before the loop sleeps, the prepare handle looks at them. */
}

bool kw_frontend_may_say(const struct kw_frontend *server, uint64_t *said_ms)
{
	uint64_t now_ms = uv_now(server->options.loop);

	if (*said_ms > 0 && now_ms - *said_ms < SAY_EACH_MS)
		return false;
	*said_ms = now_ms > 0 ? now_ms : 1;
	return true;
}

static struct kw_client *holds_most(const struct kw_frontend *server)
{
	struct kw_client *most = server->clients;

	for (struct kw_client *at = most; at; at = at->next)
		if (kw_client_goes_before(at, most))
			most = at;
	return most;
}

/*
 * Together they hold too much: those that hold most go, strangers first. Each of the others that go
 * holds more than its share.
 */
static void shed(struct kw_frontend *server)
{
	const uint64_t limit = server->options.max_buffer_bytes;
	struct kw_client *most;

	while (server->stats.held > limit && (most = holds_most(server))) {
		if (kw_frontend_may_say(server, &server->shed_said_ms))
			kw_log_warn("gateway",
				"requests and replies of %" PRIu64
				" clients take more than gateway.max_buffer_bytes (%" PRIu64
				"): the one with most of it (%zu bytes) is closed; raise the key, "
				"or see which clients do not read their replies",
				server->stats.clients, limit, most->held);
		kw_client_close(most, KW_CLOSED_MEMORY);
	}
}

/* Each client that something happened to, once; then what they asked becomes one posting. */
static void turn(struct kw_frontend *server)
{
	struct kw_client *client;

	if (!server->closing)
		kw_onward_turn(server);
	kw_handshakes_turn(server);
	client = server->touched;
	server->touched = NULL;
	while (client) {
		struct kw_client *next = client->next_touched;

		client->touched = false;
		kw_client_turn(client);
		client = next;
	}
	if (server->stats.held > server->options.max_buffer_bytes)
		shed(server);
	if (!server->closing)
		kw_gets_post(server->options.gets);
	if (server->touched && !uv_is_active((uv_handle_t *)&server->awake))
		uv_idle_start(&server->awake, on_awake);
	else if (!server->touched && uv_is_active((uv_handle_t *)&server->awake))
		uv_idle_stop(&server->awake);
}

static void on_check(uv_check_t *handle)
{
	turn(handle->data);
}

static void on_prepare(uv_prepare_t *handle)
{
	turn(handle->data);
}

static void on_tick(uv_timer_t *timer)
{
	struct kw_frontend *server = timer->data;
	uint64_t now_us = kw_clock_us();
	struct kw_client *client = server->clients;

	while (client) {
		struct kw_client *next = client->next;

		kw_client_tick(client, now_us);
		client = next;
	}
	kw_handshakes_tick(server, uv_now(server->options.loop));
	if (server->options.forward) {
		kw_onward_guard(server);
		kw_forward_tick(server->options.forward, now_us);
	}
	if (server->starved) {
		server->starved = false;
		kw_frontend_watch_listeners(server);
	}
}

/* ---- begin and end ---- */

struct kw_frontend *kw_frontend_new(const struct kw_frontend_options *options)
{
	struct kw_frontend *server = kw_zalloc(sizeof *server);

	server->options = *options;
	server->started_us = kw_clock_us();
	kw_frontend_sessions_init(server);
	server->open = HANDLES;
	uv_check_init(options->loop, &server->check);
	uv_prepare_init(options->loop, &server->prepare);
	uv_idle_init(options->loop, &server->awake);
	uv_timer_init(options->loop, &server->tick);
	server->check.data = server->prepare.data = server->awake.data = server->tick.data = server;
	uv_check_start(&server->check, on_check);
	uv_prepare_start(&server->prepare, on_prepare);
	uv_timer_start(&server->tick, on_tick, TICK_MS, TICK_MS);
	return server;
}

static void free_server(struct kw_frontend *server)
{
	struct kw_part *part;
	struct kw_work *work;

	while ((part = server->spare_parts)) {
		server->spare_parts = part->next;
		kw_buffer_close(&part->reply);
		free(part);
	}
	while ((work = server->spare_works)) {
		server->spare_works = work->next;
		free_work(work);
	}
	kw_buffer_close(&server->request);
	kw_frontend_sessions_close(server);
	server->done(server->done_arg);
	free(server);
}

static void on_handle_closed(uv_handle_t *handle)
{
	kw_frontend_part_closed(handle->data);
}

void kw_frontend_part_closed(struct kw_frontend *server)
{
	assert(server->open > 0);
	server->open--;
	if (server->open == 0) {
		free_server(server);
	} else if (server->open == TURN_HANDLES && server->closing) {
		/* Turns free the clients whose parts end later: they close after the last one. */
		uv_close((uv_handle_t *)&server->check, on_handle_closed);
		uv_close((uv_handle_t *)&server->prepare, on_handle_closed);
	}
}

void kw_frontend_close(struct kw_frontend *server, void (*done)(void *arg), void *arg)
{
	assert(!server->closing);
	server->closing = true;
	server->done = done;
	server->done_arg = arg;
	kw_frontend_close_listeners(server);
	kw_handshakes_close(server);
	while (server->clients)
		kw_client_close(server->clients, KW_CLOSED_END);
	kw_onward_close(server);
	uv_close((uv_handle_t *)&server->awake, on_handle_closed);
	uv_close((uv_handle_t *)&server->tick, on_handle_closed);
}

void kw_frontend_set_max_clients(struct kw_frontend *server, uint32_t clients)
{
	server->options.max_clients = clients;
}

void kw_frontend_set_idle_timeout(struct kw_frontend *server, uint32_t idle_timeout_ms)
{
	server->options.idle_timeout_ms = idle_timeout_ms;
}

struct kw_release kw_frontend_release(const struct kw_frontend *server)
{
	const struct kw_follow *follow = kw_gets_follow(server->options.gets);

	return kw_release_of_rdb(follow->superblock.rdb_version);
}

const char *kw_closed_for_name(enum kw_closed_for reason)
{
	static const char *const names[] = {"peer", "quit", "protocol", "input", "slow", "full",
		"user", "memory", "idle", "handshake", "end"};

	assert((size_t)reason < sizeof names / sizeof *names);
	return names[reason];
}

const struct kw_frontend_stats *kw_frontend_stats(const struct kw_frontend *server)
{
	return &server->stats;
}
