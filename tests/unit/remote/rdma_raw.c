#include "rdma_raw.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>

void expect_text(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" lacks \"%s\"", text, part);
}

void expect_closed(
	struct fixture *fixture, struct client *client, enum kw_code code, const char *part)
{
	WAIT(fixture, client->closed);
	expect_text(client->why.text, part);
	assert_int_equal(client->why.code, code);
	assert_int_equal(client->closed, 1);
	kw_remote_free(client->remote);
}

/* ---- what comes ---- */

static void raw_say(struct raw *raw)
{
	struct kw_slice output = kw_handshake_output(&raw->handshake);
	struct kw_error error;

	if (output.length == 0)
		return;
	if (kw_rdma_end_send(&raw->end, output.data, (uint32_t)output.length, &error) != 0)
		fail_msg("%s", error.text);
	kw_handshake_sent(&raw->handshake, output.length);
}

static void raw_message(void *owner, const uint8_t *bytes, uint32_t length)
{
	struct raw *raw = owner;

	raw->messages++;
	if (kw_handshake_is(&raw->handshake, KW_HANDSHAKE_DONE) ||
		kw_handshake_is(&raw->handshake, KW_HANDSHAKE_FAILED))
		return;
	if (kw_handshake_input(&raw->handshake, bytes, length) == 0)
		raw_say(raw);
}

static void raw_sent(void *owner)
{
	(void)owner;
}

static void raw_read(void *owner, uint64_t last)
{
	struct raw *raw = owner;

	(void)last;
	raw->reads++;
}

/* Tests poll again anyway. */
static void raw_more(void *owner)
{
}

static void raw_broken(void *owner, const struct kw_error *why)
{
	struct raw *raw = owner;

	raw->broken++;
	raw->why = *why;
}

/* ---- what it does ---- */

static struct kw_rdma_cm_event raw_wait(
	struct fixture *fixture, struct raw *raw, enum rdma_cm_event_type event)
{
	struct kw_rdma_cm_event cm_event = {0};
	bool got = false;

	WAIT(fixture, got || (got = kw_rdma_cm_event_take(raw->channel, &cm_event)));
	assert_int_equal(cm_event.type, event);
	return cm_event;
}

static struct sockaddr_in raw_target(const struct fixture *fixture)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(fixture->address.port)};

	assert_int_equal(inet_pton(AF_INET, fixture->address.host, &to.sin_addr), 1);
	return to;
}

enum rdma_cm_event_type raw_dial(
	struct fixture *fixture, struct raw *raw, const struct kw_rdma_private *private)
{
	static const struct kw_rdma_end_ops ops = {
		raw_message, raw_sent, raw_read, NULL, raw_more, raw_broken};
	const struct kw_rdma_options options = {.ack_timeout = 14, .retry_count = 3};
	struct sockaddr_in to = raw_target(fixture);
	struct rdma_conn_param param = {
		.private_data = private, .private_data_len = sizeof *private, .initiator_depth = 4};
	struct kw_rdma_cm_event cm_event = {0};
	bool got = false;
	struct kw_error error;

	*raw = (struct raw){0};
	kw_rdma_end_init(&raw->end, &ops, raw);
	raw->channel = rdma_create_event_channel();
	fcntl(raw->channel->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(rdma_create_id(raw->channel, &raw->id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(raw->id, NULL, (struct sockaddr *)&to, 1000), 0);
	raw_wait(fixture, raw, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(raw->id, 1000), 0);
	raw_wait(fixture, raw, RDMA_CM_EVENT_ROUTE_RESOLVED);
	raw->end.id = raw->id;
	if (kw_rdma_end_build(&raw->end, 4, 4096, &error) != 0)
		fail_msg("%s", error.text);
	param.qp_num = raw->end.qp->qp_num;
	assert_int_equal(rdma_connect(raw->id, &param), 0);
	WAIT(fixture, got || (got = kw_rdma_cm_event_take(raw->channel, &cm_event)));
	if (cm_event.type != RDMA_CM_EVENT_CONNECT_RESPONSE) {
		kw_rdma_cm_error(&raw->why, &cm_event);
		return cm_event.type;
	}
	assert_int_equal(kw_rdma_end_connect(&raw->end, 4, 0, &options, &error), 0);
	assert_int_equal(rdma_establish(raw->id), 0);
	return cm_event.type;
}

/* options: without a channel and a nonce. */
static int greet(struct fixture *fixture, struct raw *raw, struct kw_handshake_options *options,
	void (*lie)(struct kw_channel *channel))
{
	uint8_t nonce[KW_NONCE_BYTES];
	struct kw_rdma_private private;
	struct kw_channel channel;
	struct kw_error error;

	kw_rdma_private_init(&private, KW_RDMA_REJECT_NONE);
	assert_int_equal(raw_dial(fixture, raw, &private), RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(kw_handshake_nonce(nonce, &error), 0);
	channel = kw_rdma_end_channel(&raw->end, true);
	if (lie)
		lie(&channel);
	options->name = "raw";
	options->role = KW_ROLE_AGENT;
	options->depth = 4;
	options->nonce = nonce;
	options->channel = &channel;
	kw_handshake_init_agent(&raw->handshake, options);
	raw_say(raw);
	WAIT(fixture, (kw_rdma_end_poll(&raw->end),
			      raw->broken || kw_handshake_is(&raw->handshake, KW_HANDSHAKE_DONE) ||
				      kw_handshake_is(&raw->handshake, KW_HANDSHAKE_FAILED)));
	return kw_handshake_is(&raw->handshake, KW_HANDSHAKE_DONE) ? 0
								   : (int)raw->handshake.error.code;
}

int raw_greet(struct fixture *fixture, struct raw *raw, uint16_t layout_version)
{
	struct kw_handshake_options options = {.layout_version = layout_version};

	return greet(fixture, raw, &options, NULL);
}

int raw_greet_as(struct fixture *fixture, struct raw *raw, struct kw_slice secret,
	void (*lie)(struct kw_channel *channel))
{
	struct kw_handshake_options options = {
		.layout_version = KW_LAYOUT_VERSION, .secret = secret};

	return greet(fixture, raw, &options, lie);
}

void raw_read_one(struct fixture *fixture, struct raw *raw, uint64_t address, uint32_t rkey)
{
	const struct kw_rdma_read read = {
		.address = address, .rkey = rkey, .length = 64, .signalled = true};
	struct kw_error error;

	if (kw_rdma_end_read(&raw->end, &read, 1, &error) != 0)
		fail_msg("%s", error.text);
	WAIT(fixture, (kw_rdma_end_poll(&raw->end), raw->reads || raw->broken));
}

void raw_close(struct raw *raw)
{
	kw_rdma_end_stop(&raw->end);
	kw_rdma_end_close(&raw->end);
	rdma_destroy_id(raw->id);
	rdma_destroy_event_channel(raw->channel);
}
