#include "base/buffer.h"
#include "base/clock.h"
#include "remote/carrier.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_TIMEOUT_MS 5000
#define READ_TIMEOUT_MS 2000
#define DEPTH 16

#define IN(state) KW_SM_TO(KW_REMOTE_##state)
static const struct kw_sm_state states[] = {
	[KW_REMOTE_CONNECTING] = {"connecting", IN(READY) | IN(CLOSING), KW_SM_INITIAL},
	[KW_REMOTE_READY] = {"ready", IN(CLOSING)},
	[KW_REMOTE_CLOSING] = {"closing", IN(CLOSED)},
	[KW_REMOTE_CLOSED] = {"closed", 0, KW_SM_FINAL},
};

static bool remote_holds(const void *owner, int state)
{
	const struct kw_remote *remote = owner;

	if (remote->in_flight > KW_DEPTH_MAX || (remote->in_flight == 0) != !remote->flight.head)
		return false;
	switch ((enum kw_remote_state)state) {
	case KW_REMOTE_CONNECTING:
		return !remote->flight.head && remote->extent_count == 0;
	case KW_REMOTE_READY:
		return remote->own && remote->info.depth > 0 && remote->extent_count > 0;
	case KW_REMOTE_CLOSING:
		return remote->own != NULL;
	case KW_REMOTE_CLOSED:
		return remote->shutting == 0 && !remote->flight.head && !remote->waiting.head &&
		       !remote->refused.head;
	}
	return false;
}

static const struct kw_sm_conf machine = {
	.where = "remote",
	.states = states,
	.count = sizeof states / sizeof *states,
	.invariant = remote_holds,
};

/* ---- lists of READs ---- */

void kw_read_list_push(struct kw_read_list *list, struct kw_remote_read *read)
{
	read->next = NULL;
	if (list->tail)
		list->tail->next = read;
	else
		list->head = read;
	list->tail = read;
}

struct kw_remote_read *kw_read_list_pop(struct kw_read_list *list)
{
	struct kw_remote_read *read = list->head;

	if (read) {
		list->head = read->next;
		if (!list->head)
			list->tail = NULL;
		read->next = NULL;
	}
	return read;
}

/* ---- opening ---- */

static const struct kw_carrier_ops *const carriers[] = {
	&kw_carrier_shm,
	&kw_carrier_tcp,
	&kw_carrier_tls,
#ifdef KW_HAVE_RDMA
	&kw_carrier_rdma,
#endif
};
#define CARRIERS (sizeof carriers / sizeof *carriers)

static const struct kw_carrier_ops *find_carrier(enum kw_carrier carrier)
{
	for (size_t i = 0; i < CARRIERS; i++)
		if (carriers[i]->carrier == carrier)
			return carriers[i];
	return NULL;
}

void kw_remote_end(uv_loop_t *loop)
{
	for (size_t i = 0; i < CARRIERS; i++)
		if (carriers[i]->end)
			carriers[i]->end(loop);
}

static void set_options(struct kw_remote *remote, const struct kw_remote_options *options)
{
	struct kw_remote_options *own = &remote->options;

	*own = *options;
	if (own->connect_timeout_ms == 0)
		own->connect_timeout_ms = CONNECT_TIMEOUT_MS;
	if (own->read_timeout_ms == 0)
		own->read_timeout_ms = READ_TIMEOUT_MS;
	if (own->depth == 0)
		own->depth = DEPTH;
	if (own->depth > KW_DEPTH_MAX)
		own->depth = KW_DEPTH_MAX;
	if (own->role == 0)
		own->role = KW_ROLE_AGENT;
	if (own->tls && own->tls->context)
		remote->tls = kw_tls_context_ref(own->tls->context);
	own->secret = (struct kw_slice){0};
	if (options->secret.length > 0) {
		void *copy = kw_alloc(options->secret.length);

		memcpy(copy, options->secret.data, options->secret.length);
		own->secret = kw_slice(copy, options->secret.length);
	}
}

static void free_memory(struct kw_remote *remote)
{
	void *secret = (void *)(uintptr_t)remote->options.secret.data;

	if (secret)
		explicit_bzero(secret, remote->options.secret.length);
	free(secret);
	kw_tls_context_unref(remote->tls);
	free(remote);
}

/* Will the proxy prove who it is? */
static bool is_guarded(const struct kw_address *address, const struct kw_remote_options *options)
{
	if (address->carrier == KW_CARRIER_TLS && options->tls && options->tls->context &&
		kw_tls_context_verifies(options->tls->context))
		return true;
	return options->secret.length > 0 || options->allow_insecure;
}

int kw_remote_open(uv_loop_t *loop, const struct kw_address *address,
	const struct kw_remote_options *options, const struct kw_remote_handlers *handlers,
	struct kw_remote **remote, struct kw_error *error)
{
	const struct kw_carrier_ops *ops = find_carrier(address->carrier);
	struct kw_remote *made;

	*remote = NULL;
	if (kw_address_check_guard(address, is_guarded(address, options), false, error))
		return KW_E_CONFIG;
	if (!ops)
		return kw_carrier_missing(address, error);
	if (!kw_agent_name_valid(options->agent_name))
		return kw_error_set(error, KW_E_CONFIG,
			"the agent's name must be 1 to %d printable ASCII characters",
			KW_AGENT_NAME_MAX);
	if (options->key_id[0] && !kw_key_id_valid(options->key_id, strlen(options->key_id)))
		return kw_error_set(error, KW_E_CONFIG,
			"the key's id must be 1 to %d of A-Z a-z 0-9 . _ -", KW_KEY_ID_MAX);
	made = kw_zalloc(sizeof *made);
	assert(!options->compress || kw_compression_built());
	made->loop = loop;
	made->ops = ops;
	made->address = *address;
	made->handlers = *handlers;
	made->mapped_bytes = UINT64_MAX;
	made->info.carrier = address->carrier;
	kw_address_text(address, made->info.peer, sizeof made->info.peer);
	set_options(made, options);
	kw_sm_init(&made->sm, &machine, made, KW_REMOTE_CONNECTING);
	if (ops->open(made, error) != 0) {
		free_memory(made);
		return error ? (int)error->code : (int)KW_E_CONFIG;
	}
	kw_remote_pace_init(made);
	*remote = made;
	return 0;
}

/* Over shm and rdma nothing is sent that could be compressed. */
static bool wishes(const struct kw_remote *remote)
{
	return remote->options.compress &&
	       (remote->info.carrier == KW_CARRIER_TCP || remote->info.carrier == KW_CARRIER_TLS);
}

/* Nor can it wake an agent over any other carrier. */
static bool may_sleep(const struct kw_remote *remote)
{
	return remote->ops->sleep && remote->handlers.awake;
}

int kw_remote_greet(struct kw_remote *remote, struct kw_handshake *handshake,
	const struct kw_channel *channel, struct kw_error *error)
{
	uint8_t nonce[KW_NONCE_BYTES];
	struct kw_handshake_options options = {
		.secret = remote->options.secret,
		.name = remote->options.agent_name,
		.key_id = remote->options.key_id,
		.role = remote->options.role,
		.layout_version = KW_LAYOUT_VERSION,
		.depth = remote->options.depth,
		.compress = wishes(remote),
		.sleeps = may_sleep(remote),
		.channel = channel,
		.nonce = nonce,
	};
	int code = kw_handshake_nonce(nonce, error);

	if (code == 0)
		kw_handshake_init_agent(handshake, &options);
	return code;
}

/* ---- what the key may read ---- */

static void ready(struct kw_remote *remote)
{
	kw_remote_report_soon(remote);
	remote->handlers.ready(remote->handlers.arg, &remote->info);
	kw_remote_pump(remote);
}

static int judge_scope(struct kw_remote *remote, struct kw_error *error)
{
	const struct kw_slice text = {
		remote->scope_text, strnlen((char *)remote->scope_text, KW_SCOPE_TEXT_MAX)};
	struct kw_scope scope = {0};
	int code = kw_scope_read(&scope, text, error);

	if (code != 0)
		kw_error_wrap(error, "the proxy says what this key may read, and this agent "
				     "cannot read it: upgrade this agent");
	else
		code = remote->options.scoped(remote->options.scoped_arg, &scope, error);
	kw_scope_close(&scope);
	return code;
}

static void on_scope(struct kw_remote_read *read, const struct kw_error *lost)
{
	struct kw_remote *remote = read->arg;
	struct kw_error error;
	int code = lost ? (int)KW_E_IO : judge_scope(remote, &error);

	free(remote->scope_text);
	remote->scope_text = NULL;
	if (lost)
		return; /* handlers.closed follows */
	if (code == 0)
		ready(remote);
	else
		kw_remote_fail(remote, &error);
}

static void ask_scope(struct kw_remote *remote)
{
	const bool served =
		remote->info.carrier == KW_CARRIER_TCP || remote->info.carrier == KW_CARRIER_TLS;
	struct kw_error error;

	if (!served) {
		kw_error_set(&error, KW_E_PROTOCOL,
			"the proxy limits this key over a carrier that cannot be limited");
		kw_remote_fail(remote, &error);
		return;
	}
	if (!remote->options.scoped) {
		kw_error_set(&error, KW_E_REFUSED,
			"this key has databases= or prefix=, and a %s needs the whole table: use "
			"another key",
			kw_role_name(remote->options.role));
		kw_remote_fail(remote, &error);
		return;
	}
	remote->scope_text = kw_zalloc(KW_SCOPE_TEXT_MAX);
	remote->scope_read = (struct kw_remote_read){
		.offset = KW_FRAME_SCOPE_OFFSET,
		.length = KW_SCOPE_TEXT_MAX,
		.buffer = remote->scope_text,
		.done = on_scope,
		.arg = remote,
	};
	kw_read_list_push(&remote->waiting, &remote->scope_read);
	kw_remote_pump(remote);
}

void kw_remote_welcomed(struct kw_remote *remote, const struct kw_handshake_facts *facts)
{
	assert(kw_remote_is(remote, KW_REMOTE_CONNECTING));
	assert(facts->depth > 0);
	remote->info.epoch = facts->epoch;
	remote->info.depth = facts->depth;
	remote->extents[0] = facts->extent;
	remote->extent_count = 1;
	remote->info.scoped = facts->scoped;
	remote->info.wished = wishes(remote);
	remote->info.compression = facts->compression;
	remote->info.wakes = facts->wakes;
	kw_sm_move(&remote->sm, KW_REMOTE_READY, remote->info.peer);
	if (facts->scoped)
		ask_scope(remote);
	else
		ready(remote);
}

/* ---- READs ---- */

static bool in_bounds(const struct kw_remote *remote, const struct kw_remote_read *read)
{
	/* Before WELCOME nothing is readable. */
	return read->length <= KW_READ_MAX && read->offset <= remote->mapped_bytes &&
	       read->length <= remote->mapped_bytes - read->offset &&
	       kw_extents_cover(remote->extents, remote->extent_count, read->offset, read->length);
}

void kw_remote_read(struct kw_remote *remote, struct kw_remote_read *const *reads, int count)
{
	assert(!kw_remote_is(remote, KW_REMOTE_CLOSED));
	for (int i = 0; i < count; i++) {
		assert(reads[i]->done);
		/*
		 * While closing, all are told back in the same way, when no thread writes any more.
		 */
		if (in_bounds(remote, reads[i]) || kw_remote_is(remote, KW_REMOTE_CLOSING)) {
			kw_read_list_push(&remote->waiting, reads[i]);
		} else {
			kw_read_list_push(&remote->refused, reads[i]);
			kw_remote_turn_soon(remote);
		}
	}
	kw_remote_pump(remote);
}

/* When this turn of the loop began. A deadline of seconds need not know it better, and asking the
 * clock twice a READ took a twentieth of a gateway's time.
 */
static uint64_t turn_us(const struct kw_remote *remote)
{
	return uv_now(remote->loop) * 1000;
}

void kw_remote_pump(struct kw_remote *remote)
{
	struct kw_remote_read *first = NULL;
	uint64_t deadline;

	if (remote->corked || !remote->waiting.head || !kw_remote_is(remote, KW_REMOTE_READY) ||
		remote->in_flight >= remote->info.depth)
		return;
	deadline = turn_us(remote) + kw_remote_read_timeout_us(remote);
	assert(remote->info.depth > 0 && remote->info.depth <= KW_DEPTH_MAX);
	while (remote->waiting.head && remote->in_flight < remote->info.depth) {
		struct kw_remote_read *read = kw_read_list_pop(&remote->waiting);

		read->id = ++remote->next_id;
		read->deadline_us = deadline;
		kw_read_list_push(&remote->flight, read);
		remote->in_flight++;
		if (!first)
			first = read;
	}
	kw_remote_wake_at(remote, deadline);
	remote->ops->post(remote, first);
}

void kw_remote_progressed(struct kw_remote *remote)
{
	remote->overdue_us = 0;
	if (remote->flight.head)
		remote->flight.head->deadline_us =
			turn_us(remote) + kw_remote_read_timeout_us(remote);
}

void kw_remote_complete(struct kw_remote *remote)
{
	struct kw_remote_read *read = kw_read_list_pop(&remote->flight);

	assert(read);
	assert(kw_remote_is(remote, KW_REMOTE_READY));
	assert(remote->in_flight > 0);
	remote->in_flight--;
	kw_remote_progressed(remote); /* the next one was waiting for this one */
	read->done(read, NULL);
	kw_remote_pump(remote);
}

void kw_remote_set_extents(struct kw_remote *remote, const struct kw_extent *extents, int count)
{
	assert(count >= 0);
	if (count > KW_EXTENTS_MAX)
		count = KW_EXTENTS_MAX; /* a READ beyond them is refused */
	memcpy(remote->extents, extents, (size_t)count * sizeof *extents);
	remote->extent_count = count;
}

/* ---- sleep ---- */

void kw_remote_sleep(struct kw_remote *remote, uint64_t publication)
{
	assert(remote->info.wakes && may_sleep(remote));
	if (!kw_remote_is(remote, KW_REMOTE_READY) || remote->rest != KW_REST_AWAKE)
		return;
	remote->rest = KW_REST_DUE;
	remote->rest_publication = publication;
	remote->ops->sleep(remote);
}

void kw_remote_sleep_taken(struct kw_remote *remote)
{
	assert(remote->rest == KW_REST_DUE);
	remote->rest = KW_REST_ASLEEP;
}

bool kw_remote_is_asleep(const struct kw_remote *remote)
{
	return remote->rest != KW_REST_AWAKE;
}

bool kw_remote_woken(struct kw_remote *remote)
{
	if (remote->rest != KW_REST_ASLEEP)
		return false;
	remote->rest = KW_REST_AWAKE;
	remote->handlers.awake(remote->handlers.arg);
	return true;
}

/* ---- the end ---- */

static void tell_list(struct kw_read_list *list, const struct kw_error *why)
{
	struct kw_remote_read *read;

	while ((read = kw_read_list_pop(list)))
		read->done(read, why);
}

/* Every handle is closed, and no thread writes into a buffer any more. */
static void finish(struct kw_remote *remote)
{
	struct kw_error why = remote->why;

	/* Nothing went wrong when the owner closed, but a READ without its bytes did fail. */
	if (why.code == KW_OK)
		kw_error_set(&why, KW_E_STATE, "the connection was closed while the READ was out");
	remote->in_flight = 0;
	/* A READ started by one of these callbacks joins `waiting` and is told back too. */
	tell_list(&remote->refused, &why);
	tell_list(&remote->flight, &why);
	tell_list(&remote->waiting, &why);
	kw_sm_move(&remote->sm, KW_REMOTE_CLOSED, "");
	remote->handlers.closed(remote->handlers.arg, &remote->why);
}

static void on_shut(struct kw_remote *remote)
{
	assert(remote->shutting > 0);
	remote->shutting--;
	if (remote->shutting == 0 && kw_remote_is(remote, KW_REMOTE_CLOSING))
		finish(remote);
}

void kw_remote_hold(struct kw_remote *remote)
{
	remote->shutting++;
}

void kw_remote_release(struct kw_remote *remote)
{
	on_shut(remote);
}

static void on_handle_closed(uv_handle_t *handle)
{
	on_shut(handle->data);
}

static void on_owned_closed(uv_handle_t *handle)
{
	struct kw_remote *remote = handle->data;

	free(handle);
	on_shut(remote);
}

void kw_remote_shut(struct kw_remote *remote, uv_handle_t *handle, bool owned)
{
	assert(handle->data == remote);
	assert(remote->sm.state != KW_REMOTE_CLOSED);
	remote->shutting++;
	uv_close(handle, owned ? on_owned_closed : on_handle_closed);
}

static void end(struct kw_remote *remote, const struct kw_error *why)
{
	remote->why = *why;
	kw_sm_move(&remote->sm, KW_REMOTE_CLOSING, why->text);
	remote->ops->close(remote);
	kw_remote_pace_close(remote);
}

void kw_remote_fail(struct kw_remote *remote, const struct kw_error *error)
{
	struct kw_error why = *error;

	if (remote->sm.state >= KW_REMOTE_CLOSING)
		return;
	kw_remote_name_stranger(remote, &why);
	kw_error_wrap(&why, "%s", remote->info.peer);
	end(remote, &why);
}

uint64_t kw_remote_received(const struct kw_remote *remote)
{
	return remote->received;
}

void kw_remote_close(struct kw_remote *remote)
{
	static const struct kw_error closed = {.code = KW_OK, .text = "closed"};

	if (remote->sm.state < KW_REMOTE_CLOSING)
		end(remote, &closed);
}

void kw_remote_free(struct kw_remote *remote)
{
	if (!remote)
		return;
	assert(kw_remote_is(remote, KW_REMOTE_CLOSED));
	remote->ops->free(remote);
	free_memory(remote);
}
