#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define READ_BYTES ((size_t)16 << 10)
#define READ_BYTES_MAX ((size_t)1 << 20)
#define FIRST_WINDOW 16 /* parts under way, until it is known how large a client's replies are */
/* A client that has closed its end waits so long for the next reply: it can read it still. */
#define GONE_MS 1000

#define TO(state) KW_SM_TO(KW_CLIENT_##state)
#define ENDS (TO(LEAVING) | TO(CLOSED))
static const struct kw_sm_state states[] = {
	[KW_CLIENT_READING] = {"reading", TO(ANSWERING) | TO(WRITING) | ENDS, KW_SM_INITIAL},
	[KW_CLIENT_ANSWERING] = {"answering", TO(READING) | TO(WRITING) | ENDS},
	[KW_CLIENT_WRITING] = {"writing", TO(READING) | TO(ANSWERING) | ENDS},
	[KW_CLIENT_LEAVING] = {"leaving", TO(CLOSED)},
	[KW_CLIENT_CLOSED] = {"closed", 0, KW_SM_FINAL},
};

static bool client_holds(const void *owner, int state)
{
	const struct kw_client *client = owner;

	if (client->parts > 0 && !client->work)
		return false; /* keys of its questions lie in the input */
	switch ((enum kw_client_state)state) {
	case KW_CLIENT_READING:
		return client->parts == 0;
	case KW_CLIENT_ANSWERING:
	case KW_CLIENT_WRITING:
		return client->work;
	default:
		return true;
	}
}

static const struct kw_sm_conf machine = {
	"client", states, sizeof states / sizeof *states, client_holds};

static bool is(const struct kw_client *client, enum kw_client_state state)
{
	return client->sm.state == (int)state;
}

static void move(struct kw_client *client, enum kw_client_state state)
{
	if (!is(client, state))
		kw_sm_move(&client->sm, (int)state, "");
}

static void on_poll(uv_poll_t *poll, int status, int events);

/* Its end is watched always, so that a client that waits is missed; until it is known to be gone.
 */
static void watch(struct kw_client *client, int events)
{
	events &= ~UV_DISCONNECT;
	if (client->gone_ms == 0)
		events |= UV_DISCONNECT;
	if (client->events == events || is(client, KW_CLIENT_CLOSED))
		return;
	client->events = events;
	if (events)
		uv_poll_start(&client->poll, events, on_poll);
	else
		uv_poll_stop(&client->poll);
}

/* ---- memory ---- */

/* What it holds counts among what all hold: memory, also if no byte stands in it. */
static void count_held(struct kw_client *client)
{
	const struct kw_work *work = client->work;
	size_t held = client->kept;

	if (work)
		held += work->input.capacity + work->output.capacity;
	client->server->stats.held += held;
	client->server->stats.held -= client->held;
	client->held = held;
}

/* Keys of its questions lie in the input: that stays until they have ended. */
static void release_output(struct kw_client *client)
{
	client->server->stats.held -= client->held;
	client->held = 0;
	if (client->work)
		kw_buffer_close(&client->work->output);
}

/* ---- the end ---- */

static void free_client(struct kw_client *client)
{
	struct kw_frontend *server = client->server;

	if (client->protocol->closed)
		client->protocol->closed(client);
	if (client->work)
		kw_frontend_give_work(server, client->work);
	free(client);
	kw_frontend_part_closed(server);
}

/* Its descriptor is closed, no part is under way, and no list holds it. */
static void free_when_over(struct kw_client *client)
{
	if (is(client, KW_CLIENT_CLOSED) && client->handle_closed && client->parts == 0 &&
		!client->touched)
		free_client(client);
}

static void on_closed(uv_handle_t *handle)
{
	struct kw_client *client = handle->data;

	kw_socket_close(&client->socket);
	client->handle_closed = true;
	free_when_over(client);
}

void kw_client_close(struct kw_client *client, enum kw_closed_for why)
{
	struct kw_frontend *server = client->server;

	if (is(client, KW_CLIENT_CLOSED))
		return;
	server->stats.closed[why]++;
	server->stats.clients--;
	if (client->before)
		client->before->next = client->next;
	else
		server->clients = client->next;
	if (client->next)
		client->next->before = client->before;
	kw_client_set_strange(client, false);
	kw_socket_farewell(&client->socket);
	uv_close((uv_handle_t *)&client->poll, on_closed);
	move(client, KW_CLIENT_CLOSED);
	release_output(client);
	if (client->protocol->left)
		client->protocol->left(client);
}

/* What is in the output is written first. */
static void leave(struct kw_client *client, enum kw_closed_for why)
{
	client->leaves_for = why;
	client->more = KW_MORE_ENDED;
}

static void refuse(struct kw_client *client, enum kw_closed_for why, const char *sentence)
{
	client->protocol->refuse(client, sentence, kw_client_reply(client));
	kw_client_replied(client);
	leave(client, why);
}

/* ---- parts ---- */

static struct kw_part *begin_part(struct kw_client *client)
{
	struct kw_part *part = kw_frontend_take_part(client->server);

	part->client = client;
	part->next = NULL;
	part->ended = false;
	part->what = NULL;
	if (client->last)
		client->last->next = part;
	else
		client->first = part;
	client->last = part;
	client->parts++;
	return part;
}

static bool counts(struct kw_client *client, const struct kw_part *part)
{
	return !client->protocol->counts || client->protocol->counts(client, part);
}

/* The front of the queue has ended: its replies become output, in order. */
static void take_ended(struct kw_client *client)
{
	struct kw_part *part;

	while ((part = client->first) && part->ended) {
		client->first = part->next;
		if (!client->first)
			client->last = NULL;
		client->parts--;
		client->kept -= part->reply.capacity;
		if (!is(client, KW_CLIENT_CLOSED) && counts(client, part))
			kw_buffer_append(&client->work->output, kw_buffer_bytes(&part->reply),
				kw_buffer_length(&part->reply));
		kw_frontend_give_part(client->server, part);
	}
}

struct kw_buffer *kw_part_reply(struct kw_part *part)
{
	struct kw_client *client = part->client;

	return part == client->first ? &client->work->output : &part->reply;
}

static void note_size(struct kw_client *client, size_t bytes)
{
	if (bytes > client->largest)
		client->largest = bytes;
}

void kw_part_append(struct kw_part *part, struct kw_slice reply)
{
	kw_buffer_append(kw_part_reply(part), reply.data, reply.length);
	note_size(part->client, reply.length);
}

void kw_part_end(struct kw_part *part)
{
	struct kw_client *client = part->client;

	assert(!part->ended);
	part->ended = true;
	note_size(client, kw_buffer_length(&part->reply));
	client->kept += part->reply.capacity;
	if (part != client->first) {
		if (kw_part_wanted(part))
			count_held(client);
		return;
	}
	take_ended(client);
	kw_frontend_touch(client->server, client);
}

bool kw_part_wanted(const struct kw_part *part)
{
	return !is(part->client, KW_CLIENT_CLOSED);
}

const struct kw_slice *kw_client_words(const struct kw_client *client, uint32_t words_at)
{
	assert(words_at < client->work->words_count);
	return client->work->words + words_at;
}

const struct kw_slice *kw_part_words(const struct kw_part *part)
{
	return kw_client_words(part->client, part->words_at);
}

static void on_got(void *arg, const struct kw_got *got)
{
	struct kw_part *part = arg;
	struct kw_client *client = part->client;
	struct kw_buffer *out = kw_part_reply(part);
	size_t before = kw_buffer_length(out);

	if (kw_part_wanted(part) && client->protocol->instead &&
		client->protocol->instead(client, part, got))
		return;
	if (kw_part_wanted(part)) {
		client->protocol->answer(client, part, got, out);
		note_size(client, kw_buffer_length(out) - before);
	}
	kw_part_end(part);
}

struct kw_part *kw_client_get(struct kw_client *client, uint32_t database, struct kw_slice key)
{
	struct kw_part *part = begin_part(client);

	part->question.key = key;
	part->question.database = database;
	part->question.fn = on_got;
	part->question.arg = part;
	kw_gets_ask(client->server->options.gets, &part->question);
	return part;
}

struct kw_part *kw_client_defer(struct kw_client *client)
{
	return begin_part(client);
}

struct kw_buffer *kw_client_reply(struct kw_client *client)
{
	assert(!client->replying);
	if (!client->first)
		return &client->work->output;
	client->replying = begin_part(client);
	return &client->replying->reply;
}

void kw_client_replied(struct kw_client *client)
{
	struct kw_part *part = client->replying;

	client->replying = NULL;
	if (part)
		kw_part_end(part);
}

uint32_t kw_client_room(const struct kw_client *client)
{
	const struct kw_frontend *server = client->server;
	const size_t most = server->options.max_output_bytes;
	const size_t output = client->work ? kw_buffer_length(&client->work->output) : 0;
	size_t window = KW_CLIENT_PARTS;

	if (client->largest > 0 && most / client->largest < window)
		window = most / client->largest + 1;
	if (server->begun >= KW_FRONTEND_PARTS ||
		server->stats.held > server->options.max_buffer_bytes / 2)
		window = 1;
	if (output > most || client->parts >= window)
		return 0;
	return (uint32_t)window - client->parts;
}

uint32_t kw_client_keep_words(
	struct kw_client *client, const struct kw_slice *words, uint32_t count)
{
	struct kw_work *work = client->work;
	uint32_t at = work->words_count;

	if (work->words_capacity - at < count) {
		while (work->words_capacity - at < count)
			work->words_capacity = work->words_capacity ? 2 * work->words_capacity : 64;
		work->words = kw_realloc(work->words, work->words_capacity * sizeof *work->words);
	}
	memcpy(work->words + at, words, count * sizeof *words);
	work->words_count += count;
	return at;
}

void *kw_client_own(struct kw_client *client)
{
	return client->own;
}

struct kw_frontend *kw_client_server(struct kw_client *client)
{
	return client->server;
}

void kw_client_refused(struct kw_client *client)
{
	client->server->stats.refused++;
}

void kw_client_ends(struct kw_client *client, enum kw_closed_for why)
{
	client->leaves_for = why;
}

/* ---- bytes in ---- */

static struct kw_slice unbegun(const struct kw_client *client)
{
	const struct kw_work *work = client->work;

	if (!work || work->begun == kw_buffer_length(&work->input))
		return kw_slice(NULL, 0);
	return kw_slice(kw_buffer_bytes(&work->input) + work->begun,
		kw_buffer_length(&work->input) - work->begun);
}

static void check_size(struct kw_client *client, size_t bytes)
{
	if (bytes > client->server->options.max_input_bytes)
		refuse(client, KW_CLOSED_INPUT,
			"Protocol error: a request is larger than gateway.max_input_bytes");
}

/* Begin as many requests as there is room for. */
static void begin_requests(struct kw_client *client)
{
	struct kw_slice input;

	if (client->more == KW_MORE_ENDED || !client->work)
		return;
	while ((input = unbegun(client)).length > 0) {
		enum kw_begun begun;
		size_t taken = 0;

		client->more = KW_MORE_WAITING;
		if (kw_client_room(client) == 0)
			return;
		begun = client->protocol->begin(client, input, &taken);
		assert(taken <= input.length && (begun != KW_BEGUN_WHOLE || taken > 0));
		client->work->begun += taken;
		if (begun == KW_BEGUN_SOME)
			return;
		if (begun == KW_BEGUN_PARTIAL) {
			client->more = KW_MORE_NONE;
			check_size(client, input.length - taken);
			return;
		}
		client->server->stats.requests++;
		if (begun == KW_BEGUN_LAST) {
			leave(client, client->leaves_for);
			return;
		}
	}
	client->more = KW_MORE_NONE;
}

/* How much to ask the socket for: more while a large request comes. */
static size_t wanted(const struct kw_client *client)
{
	size_t have = kw_buffer_length(&client->work->input);

	if (have < READ_BYTES)
		return READ_BYTES;
	return have < READ_BYTES_MAX ? have : READ_BYTES_MAX;
}

static void read_input(struct kw_client *client)
{
	struct kw_buffer *input;
	size_t room;
	ssize_t got;

	if (!client->work)
		client->work = kw_frontend_take_work(client->server);
	input = &client->work->input;
	room = wanted(client);
	got = kw_socket_read(&client->socket, kw_buffer_reserve(input, room), room);
	kw_frontend_touch(client->server, client);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		kw_client_close(client, KW_CLOSED_BY_PEER);
		return;
	}
	client->active_ms = uv_now(client->server->options.loop);
	kw_buffer_filled(input, (size_t)got);
	client->server->stats.bytes_in += (uint64_t)got;
	begin_requests(client);
	if (client->parts > 0)
		move(client, KW_CLIENT_ANSWERING);
}

/* ---- bytes out ---- */

/* False: the socket takes no more now, or the client is closed. */
static bool write_output(struct kw_client *client)
{
	struct kw_buffer *output = &client->work->output;
	size_t length = kw_buffer_length(output);
	ssize_t sent;

	if (length == 0)
		return true;
	sent = kw_socket_write(&client->socket, kw_buffer_bytes(output), length);
	if (sent < 0 && errno != EAGAIN && errno != EINTR) {
		kw_client_close(client, KW_CLOSED_BY_PEER);
		return false;
	}
	if (sent > 0) {
		kw_buffer_consume(output, (size_t)sent);
		client->server->stats.bytes_out += (uint64_t)sent;
		client->active_ms = uv_now(client->server->options.loop);
	}
	if (kw_buffer_length(output) == 0)
		return true;
	/* A socket takes more only once a third of its buffer is free: that is the least rate. */
	if (sent > 0 || client->stalled_us == 0)
		client->stalled_us = kw_clock_us();
	return false;
}

/* Nothing is under way, and all is written: forget what was begun. */
static void end_batch(struct kw_client *client)
{
	struct kw_work *work = client->work;

	assert(client->parts == 0 && kw_buffer_length(&work->output) == 0);
	kw_buffer_consume(&work->input, work->begun);
	work->begun = work->words_count = 0;
	client->largest /= 2;
	if (kw_buffer_length(&work->input) > 0)
		return;
	kw_frontend_give_work(client->server, work);
	client->work = NULL;
}

static void wait_for_socket(struct kw_client *client)
{
	const bool last = client->more == KW_MORE_ENDED && client->parts == 0;

	if (is(client, KW_CLIENT_CLOSED))
		return;
	move(client, last ? KW_CLIENT_LEAVING : KW_CLIENT_WRITING);
	watch(client, UV_WRITABLE);
}

static void go_on(struct kw_client *client)
{
	if (client->work && !write_output(client)) {
		wait_for_socket(client);
		return;
	}
	client->stalled_us = 0;
	watch(client, client->events & ~UV_WRITABLE);
	if (client->more == KW_MORE_WAITING)
		begin_requests(client);
	if (client->parts > 0) {
		move(client, KW_CLIENT_ANSWERING);
		return;
	}
	if (client->work && kw_buffer_length(&client->work->output) > 0) {
		kw_frontend_touch(client->server, client);
		return; /* replies that were known at once: the next turn writes them */
	}
	if (client->more == KW_MORE_ENDED) {
		kw_client_close(client, client->leaves_for);
		return;
	}
	if (client->work && client->more == KW_MORE_NONE)
		end_batch(client);
	if (client->more == KW_MORE_WAITING) {
		kw_frontend_touch(client->server, client);
		return; /* the output was full when the last request was looked at */
	}
	move(client, KW_CLIENT_READING);
	watch(client, UV_READABLE);
	/* What TLS holds no poll shows. */
	if (kw_socket_pending(&client->socket))
		read_input(client);
}

void kw_client_turn(struct kw_client *client)
{
	assert(!client->touched);
	if (is(client, KW_CLIENT_CLOSED)) {
		free_when_over(client);
		return;
	}
	go_on(client);
	if (!is(client, KW_CLIENT_CLOSED))
		count_held(client);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct kw_client *client = poll->data;

	if (status < 0) {
		kw_client_close(client, KW_CLOSED_BY_PEER);
		return;
	}
	if (events & UV_DISCONNECT && client->gone_ms == 0) {
		client->gone_ms = uv_now(client->server->options.loop);
		watch(client, client->events);
	}
	if (events & UV_WRITABLE)
		kw_frontend_touch(client->server, client);
	if (!(events & UV_READABLE))
		return;
	if (is(client, KW_CLIENT_READING) && client->more == KW_MORE_NONE)
		read_input(client);
	else if (!is(client, KW_CLIENT_CLOSED)) /* later: what was sent before comes first */
		watch(client, client->events & ~UV_READABLE);
}

/*
 * Its end is closed, and nothing comes or goes: nobody might wait. While replies stand in the
 * output the socket tells whether they are wanted.
 */
static bool is_gone(const struct kw_client *client, uint64_t now_ms)
{
	const uint64_t since_ms =
		client->active_ms > client->gone_ms ? client->active_ms : client->gone_ms;

	return client->gone_ms > 0 && is(client, KW_CLIENT_ANSWERING) &&
	       now_ms > since_ms + GONE_MS;
}

void kw_client_tick(struct kw_client *client, uint64_t now_us)
{
	const struct kw_frontend_options *options = &client->server->options;
	const uint64_t most_us = (uint64_t)options->output_timeout_ms * 1000;
	const uint64_t now_ms = uv_now(options->loop);

	if (client->stalled_us > 0 && now_us > client->stalled_us + most_us)
		kw_client_close(client, KW_CLOSED_SLOW);
	else if (is_gone(client, now_ms))
		kw_client_close(client, KW_CLOSED_BY_PEER);
	else if (options->idle_timeout_ms > 0 && is(client, KW_CLIENT_READING) &&
		 now_ms > client->active_ms + options->idle_timeout_ms)
		kw_client_close(client, KW_CLOSED_IDLE);
}

static void turn_away(struct kw_frontend *server, const struct kw_protocol *protocol,
	const struct kw_socket *given)
{
	struct kw_buffer words = {0};
	struct kw_socket socket = *given;

	server->stats.closed[KW_CLOSED_FULL]++;
	protocol->refuse(NULL, "max number of clients reached", &words);
	/* It fits into any socket; if the client is gone, nobody misses it. */
	if (kw_socket_write(&socket, kw_buffer_bytes(&words), kw_buffer_length(&words)) < 0)
		kw_log_debug("gateway", "a client that was turned away is gone");
	kw_buffer_close(&words);
	kw_socket_farewell(&socket);
	kw_socket_close(&socket);
}

static void open_client(struct kw_frontend *server, const struct kw_protocol *protocol,
	const struct kw_socket *socket)
{
	struct kw_client *client = kw_zalloc(sizeof *client + protocol->bytes);

	client->socket = *socket;
	if (uv_poll_init(server->options.loop, &client->poll, socket->fd) != 0) {
		kw_socket_close(&client->socket);
		free(client);
		return;
	}
	client->server = server;
	client->protocol = protocol;
	client->poll.data = client;
	client->leaves_for = KW_CLOSED_ON_QUIT;
	client->active_ms = uv_now(server->options.loop);
	client->largest = server->options.max_output_bytes / FIRST_WINDOW;
	kw_sm_init(&client->sm, &machine, client, KW_CLIENT_READING);
	client->next = server->clients;
	if (client->next)
		client->next->before = client;
	server->clients = client;
	server->open++;
	server->stats.clients++;
	server->stats.accepted++;
	if (protocol->opened)
		protocol->opened(client);
	watch(client, UV_READABLE);
	if (kw_socket_pending(&client->socket))
		kw_frontend_touch(server, client);
}

void kw_client_let_in(struct kw_frontend *server, const struct kw_protocol *protocol,
	const struct kw_socket *socket)
{
	if (server->stats.clients >= server->options.max_clients && server->strangers.oldest)
		kw_client_close(server->strangers.oldest, KW_CLOSED_FULL);
	if (server->stats.clients >= server->options.max_clients)
		turn_away(server, protocol, socket);
	else
		open_client(server, protocol, socket);
}
