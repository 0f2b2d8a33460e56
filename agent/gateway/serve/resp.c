/* RESP: requests of Redis clients, answered from the table. */
#include "client.h"
#include "onward.h"

#include "gateway/answers/command.h"
#include "gateway/answers/words.h"
#include "gateway/resp/reply.h"
#include "gateway/resp/request.h"
#include "gateway/session/session.h"

#include <assert.h>
#include <string.h>

#define SHOWN 128 /* characters of a client's words in an error */

struct resp {
	struct kw_request request;
	struct kw_session session;
	struct kw_onward onward;
	uint64_t answers; /* so far: what a command that chooses begins from */
	bool whole;       /* the request was cut, and waits for parts of those before */

	/* A request of many keys, of which some were not begun yet; NULL: there is none. */
	const struct kw_command *command;
	uint32_t words_at, keys, next_key;
	/* Of a sum: nothing else of this client is begun until it is known. */
	uint32_t summed;
	int64_t sum;
	struct kw_buffer failure; /* the first key that could not be answered: the reply */
};

static struct resp *resp_of(struct kw_client *client)
{
	return kw_client_own(client);
}

/* How a reply to a request that began with this version is written. */
static struct kw_reply_to reply_to(
	struct kw_client *client, struct kw_buffer *out, enum kw_resp_version version)
{
	return (struct kw_reply_to){
		.out = out,
		.version = version,
		.release = kw_frontend_release(kw_client_server(client)),
	};
}

static struct kw_reply_to reply_now(struct kw_client *client)
{
	return reply_to(client, kw_client_reply(client), resp_of(client)->session.version);
}

/* The client can have said HELLO since it asked. */
static enum kw_resp_version version_of(const struct kw_part *part)
{
	return (enum kw_resp_version)part->flags;
}

/* One that nobody has to log in for is no stranger. */
static void note_user(struct kw_client *client)
{
	kw_client_set_strange(client, !resp_of(client)->session.user);
}

static void on_opened(struct kw_client *client)
{
	struct kw_frontend *server = kw_client_server(client);

	kw_session_init(&resp_of(client)->session, kw_frontend_sessions(server),
		kw_frontend_stats(server)->accepted, client);
	note_user(client);
}

static void on_closed(struct kw_client *client)
{
	kw_request_close(&resp_of(client)->request);
	kw_session_close(&resp_of(client)->session);
	kw_buffer_close(&resp_of(client)->failure);
	kw_onward_closed(&resp_of(client)->onward);
}

static void on_left(struct kw_client *client)
{
	kw_onward_left(&resp_of(client)->onward);
}

static bool take_users(struct kw_client *client, const struct kw_users *users)
{
	bool stays = kw_session_take_users(&resp_of(client)->session, users);

	note_user(client);
	return stays;
}

/* ---- why there is no answer ---- */

static void say_why(const struct kw_reply_to *to, const struct kw_got *got)
{
	switch (got->outcome) {
	case KW_GOT_LOADING:
		kw_reply_error(to, "LOADING the gateway's table is not complete: %s", got->why);
		return;
	case KW_GOT_STALE:
	case KW_GOT_LOST:
		kw_reply_error(to, "MASTERDOWN %s", got->why);
		return;
	case KW_GOT_TRY_AGAIN:
		kw_reply_error(to, "TRYAGAIN %s", got->why);
		return;
	case KW_GOT_TOO_LARGE:
		kw_reply_error(to, "ERR %s", got->why);
		return;
	case KW_GOT_VALUE:
	case KW_GOT_MISSING:
		break;
	}
	assert(!"an answer needs no excuse");
}

/* ---- answers ---- */

static bool is_answer(const struct kw_got *got)
{
	return got->outcome == KW_GOT_VALUE || got->outcome == KW_GOT_MISSING;
}

static struct kw_ask ask_of(
	const struct kw_part *part, const struct kw_got *got, const struct kw_reply_to *to)
{
	return (struct kw_ask){
		.words = kw_part_words(part),
		.count = part->words,
		.payload = got->payload,
		.kind = got->kind,
		.expires_ms = got->expires_ms,
		.now_ms = got->now_ms,
		.to = to,
	};
}

/* One key's share of a sum. The reply is given once all are known. */
static void add_to_sum(struct resp *resp, const struct kw_got *got, const struct kw_reply_to *to)
{
	resp->summed++;
	if (is_answer(got)) {
		resp->sum += got->outcome == KW_GOT_VALUE;
	} else if (kw_buffer_length(&resp->failure) == 0) {
		struct kw_reply_to failure = *to;

		failure.out = &resp->failure;
		say_why(&failure, got);
	}
}

static void on_answer(struct kw_client *client, struct kw_part *part, const struct kw_got *got,
	struct kw_buffer *out)
{
	const struct kw_command *command = part->what;
	struct kw_reply_to to = reply_to(client, out, version_of(part));
	struct kw_ask ask;

	resp_of(client)->onward.gets--;
	if (command->join == KW_COMMAND_SUM) {
		add_to_sum(resp_of(client), got, &to);
		return;
	}
	if (command->join == KW_COMMAND_EACH && part->at == 0)
		kw_reply_array(&to, part->of);
	if (!is_answer(got)) {
		say_why(&to, got);
		return;
	}
	ask = ask_of(part, got, &to);
	ask.random = (uint64_t)(uintptr_t)client + (++resp_of(client)->answers << 32);
	kw_command_answer(command, &ask);
}

/* ---- the primary in the table's place ---- */

/* One key's share of a sum, as the primary says it. */
static void add_reply(struct resp *resp, struct kw_slice reply)
{
	const char *text = reply.data;

	resp->summed++;
	if (reply.length == sizeof ":1\r\n" - 1 && text[0] == ':')
		resp->sum += text[1] == '1';
	else if (kw_buffer_length(&resp->failure) == 0)
		kw_buffer_append(&resp->failure, reply.data, reply.length);
}

/* One key's share of an array: the request had this key alone. */
static void put_element(struct kw_client *client, struct kw_part *part, struct kw_slice reply)
{
	static const char one[] = "*1\r\n";
	struct kw_reply_to to = reply_to(client, kw_part_reply(part), version_of(part));
	size_t skip = sizeof one - 1;

	if (reply.length < skip || memcmp(reply.data, one, skip) != 0)
		skip = 0; /* an error */
	if (part->at == 0)
		kw_reply_array(&to, part->of);
	kw_part_append(part, kw_slice((const char *)reply.data + skip, reply.length - skip));
}

static void on_primary(void *arg, enum kw_forward_end end, struct kw_slice reply)
{
	struct kw_part *part = arg;
	struct kw_client *client = part->client;
	const struct kw_command *command = part->what;

	if (kw_part_wanted(part)) {
		resp_of(client)->onward.gets--;
		if (command->join == KW_COMMAND_SUM)
			add_reply(resp_of(client), reply);
		else if (command->join == KW_COMMAND_EACH)
			put_element(client, part, reply);
		else
			kw_part_append(part, reply);
	}
	kw_part_end(part);
}

/* Of a request of many keys, the part of this key alone. */
static bool on_instead(struct kw_client *client, struct kw_part *part, const struct kw_got *got)
{
	const struct kw_command *command = part->what;
	const struct kw_slice *words = kw_part_words(part);
	const struct kw_slice alone[] = {words[0], part->question.key};
	struct kw_onward_request request = {
		.words = words,
		.count = part->words,
		.resp_version = (int)version_of(part),
		.database = part->question.database,
	};

	if (is_answer(got))
		return false;
	if (command->join != KW_COMMAND_WHOLE) {
		request.words = alone;
		request.count = 2;
	}
	return kw_onward_instead(part, &request, on_primary);
}

/* ---- requests ---- */

/* Begin as many keys of the present request as there is room for. */
static enum kw_begun begin_keys(struct kw_client *client)
{
	struct resp *resp = resp_of(client);
	const struct kw_command *command = resp->command;
	uint32_t room = kw_client_room(client);

	for (; resp->next_key < resp->keys && room > 0; room--) {
		const struct kw_slice *words = kw_client_words(client, resp->words_at);
		uint32_t word = (uint32_t)command->first_key + resp->next_key;
		struct kw_part *part = kw_client_get(client, resp->session.database, words[word]);

		resp->onward.gets++;
		part->what = command;
		part->at = resp->next_key++;
		part->of = resp->keys;
		part->words_at = resp->words_at;
		part->words = (uint32_t)resp->request.count;
		part->flags = resp->session.version;
	}
	if (resp->next_key < resp->keys ||
		(command->join == KW_COMMAND_SUM && resp->summed < resp->keys))
		return KW_BEGUN_SOME;
	return KW_BEGUN_WHOLE;
}

static void end_sum(struct kw_client *client)
{
	struct resp *resp = resp_of(client);
	struct kw_reply_to to = reply_now(client);

	if (kw_buffer_length(&resp->failure) > 0)
		kw_buffer_append(
			to.out, kw_buffer_bytes(&resp->failure), kw_buffer_length(&resp->failure));
	else
		kw_reply_integer(&to, resp->sum);
	kw_client_replied(client);
	kw_buffer_close(&resp->failure);
}

/* The request is over: the next one can be cut. */
static enum kw_begun end_request(struct resp *resp, enum kw_begun begun, size_t *taken)
{
	*taken = resp->request.bytes;
	resp->command = NULL;
	resp->whole = false;
	kw_request_next(&resp->request);
	return begun;
}

static enum kw_begun go_on(struct kw_client *client, size_t *taken)
{
	struct resp *resp = resp_of(client);

	if (begin_keys(client) == KW_BEGUN_SOME)
		return KW_BEGUN_SOME;
	if (resp->command->join == KW_COMMAND_SUM)
		end_sum(client);
	return end_request(resp, KW_BEGUN_WHOLE, taken);
}

static enum kw_begun begin_command(
	struct kw_client *client, const struct kw_command *command, size_t *taken)
{
	struct resp *resp = resp_of(client);
	struct kw_request *request = &resp->request;

	resp->command = command;
	resp->keys = (uint32_t)kw_command_keys(command, request->count);
	resp->next_key = resp->summed = 0;
	resp->sum = 0;
	resp->words_at = kw_client_keep_words(client, request->words, (uint32_t)request->count);
	return go_on(client, taken);
}

/* It may be asked, but nobody answers it. why: NULL if nothing is forwarded. */
static void refuse_command(struct kw_client *client, const char *why)
{
	struct resp *resp = resp_of(client);
	struct kw_slice name = resp->request.words[0];
	struct kw_reply_to to = reply_now(client);

	kw_client_refused(client);
	if (why)
		kw_reply_error(&to, "ERR '%.*s' is not forwarded: %s",
			(int)(name.length < SHOWN ? name.length : SHOWN), (const char *)name.data,
			why);
	else
		kw_session_refuse(&resp->session, kw_frontend_sessions(kw_client_server(client)),
			resp->request.words, to.out);
	kw_client_replied(client);
}

/* A password stood in it, and nothing looks at its words any more. They point into the input. */
static void wipe_login(const struct kw_request *request)
{
	struct kw_slice name = request->words[0], last = request->words[request->count - 1];
	char *from = (char *)(uintptr_t)name.data;

	if (kw_word_is(name, "auth") || kw_word_is(name, "hello"))
		explicit_bzero(from, (size_t)((const char *)last.data + last.length - from));
}

/* True: the session answered or refused the request, which is over. */
static bool begin_session(struct kw_client *client, enum kw_begun *begun, size_t *taken)
{
	struct resp *resp = resp_of(client);
	const struct kw_request *request = &resp->request;
	struct kw_frontend *server = kw_client_server(client);
	struct kw_buffer *reply = kw_frontend_scratch(server);
	enum kw_session_verdict verdict = kw_session_begin(&resp->session,
		kw_frontend_sessions(server), request->words, request->count, reply);

	if (verdict == KW_SESSION_PASSES)
		return false;
	note_user(client);
	wipe_login(request);
	kw_buffer_append(kw_client_reply(client), kw_buffer_bytes(reply), kw_buffer_length(reply));
	kw_client_replied(client);
	*begun = end_request(
		resp, verdict == KW_SESSION_CLOSE ? KW_BEGUN_LAST : KW_BEGUN_WHOLE, taken);
	return true;
}

/* Nothing answers it at once, and the table cannot: the primary does, or nobody. */
static enum kw_begun begin_onward(struct kw_client *client, const struct kw_command *command,
	const struct kw_onward_request *request, size_t *taken)
{
	struct resp *resp = resp_of(client);
	struct kw_onward_verdict verdict =
		kw_onward_judge(kw_client_server(client), &resp->onward, request);

	switch (verdict.place) {
	case KW_ONWARD_WAIT:
		return KW_BEGUN_SOME;
	case KW_ONWARD_TABLE:
		return begin_command(client, command, taken);
	case KW_ONWARD_PRIMARY:
		kw_onward_begin(client, &resp->onward, request, verdict.writes);
		break;
	case KW_ONWARD_REFUSED:
		refuse_command(client, verdict.why);
		break;
	}
	return end_request(resp, KW_BEGUN_WHOLE, taken);
}

/* Each request passes its session, unless it is the table's and its user may do all. */
static enum kw_begun begin_request(struct kw_client *client, size_t *taken)
{
	struct resp *resp = resp_of(client);
	const struct kw_command *command = kw_command_find(resp->request.words[0]);
	const struct kw_onward_request request = {
		.words = resp->request.words,
		.count = resp->request.count,
		.answerable = command && kw_command_fits(command, resp->request.count),
		.resp_version = (int)resp->session.version,
		.database = resp->session.database,
	};
	enum kw_begun begun;

	if (!(request.answerable && kw_session_is_free(&resp->session)) &&
		begin_session(client, &begun, taken))
		return begun;
	if (kw_onward_is_barrier(request.words[0]))
		return kw_onward_begin_barrier(client, &resp->onward, &request) == KW_ONWARD_WAIT
			       ? KW_BEGUN_SOME
			       : end_request(resp, KW_BEGUN_WHOLE, taken);
	return begin_onward(client, command, &request, taken);
}

static enum kw_begun begin_broken(struct kw_client *client, const struct kw_error *error)
{
	struct kw_reply_to to = reply_now(client);

	kw_reply_error(&to, "ERR %s", error->text);
	kw_client_replied(client);
	kw_client_ends(client, KW_CLOSED_PROTOCOL);
	return KW_BEGUN_LAST;
}

static enum kw_begun on_begin(struct kw_client *client, struct kw_slice input, size_t *taken)
{
	struct resp *resp = resp_of(client);
	struct kw_request *request = &resp->request;
	struct kw_error error;

	if (resp->command)
		return go_on(client, taken);
	if (resp->whole)
		return begin_request(client, taken);
	request->from = resp->session.user ? KW_REQUEST_FROM_USER : KW_REQUEST_FROM_STRANGER;
	switch (kw_request_parse(request, input, &error)) {
	case KW_REQUEST_PARTIAL:
		return KW_BEGUN_PARTIAL;
	case KW_REQUEST_BROKEN:
		return begin_broken(client, &error);
	case KW_REQUEST_WHOLE:
		break;
	}
	if (request->count == 0)
		return end_request(resp, KW_BEGUN_WHOLE, taken);
	resp->whole = true;
	return begin_request(client, taken);
}

static void on_refuse(struct kw_client *client, const char *why, struct kw_buffer *out)
{
	const struct kw_reply_to to = {.out = out, .version = KW_RESP_2};

	kw_reply_error(&to, "ERR %s", why);
}

const struct kw_protocol kw_protocol_resp = {
	.name = "Redis",
	.bytes = sizeof(struct resp),
	.opened = on_opened,
	.closed = on_closed,
	.left = on_left,
	.take_users = take_users,
	.begin = on_begin,
	.answer = on_answer,
	.instead = on_instead,
	.refuse = on_refuse,
};
