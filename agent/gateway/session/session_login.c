/* AUTH, HELLO, RESET: who a client is, and how it is spoken to. */
#include "calls.h"

#include "gateway/answers/answers.h"
#include "gateway/answers/words.h"

static bool login(struct kw_call *call, struct kw_slice name, struct kw_slice password)
{
	const struct kw_user *user = kw_users_login(call->host->users, name, password);

	if (user) {
		kw_session_become(call->session, user);
		kw_user_hash(password, call->session->secret);
	} else {
		kw_reply_error(
			call->to, "WRONGPASS invalid username-password pair or user is disabled.");
	}
	return user != NULL;
}

void kw_call_auth(struct kw_call *call)
{
	const struct kw_slice *words = call->words;
	bool named = call->count == 3;

	if (call->count > 3) {
		kw_reply_error(call->to, "ERR syntax error");
		return;
	}
	if (!named && kw_users_unnamed(call->host->users)) {
		kw_reply_error(call->to, "ERR AUTH <password> called without any password "
					 "configured for the default "
					 "user. Are you sure your configuration is correct?");
		return;
	}
	if (login(call, named ? words[1] : kw_slice_text("default"), words[named ? 2 : 1]))
		kw_reply_simple(call->to, "OK");
}

void kw_call_whoami(struct kw_call *call)
{
	kw_reply_bulk(call->to, kw_slice_text(call->session->user->name));
}

void kw_call_reset(struct kw_call *call)
{
	kw_session_forget(call->session, call->host);
	kw_reply_simple(call->to, "RESET");
	call->verdict = KW_SESSION_RESET;
}

/* ---- HELLO [version [AUTH name password] [SETNAME name]] ---- */

struct hello {
	int64_t version;              /* 0: not said */
	const struct kw_slice *login; /* two words */
	const struct kw_slice *name;
};

/* False: an error was replied. */
static bool read_version(struct kw_call *call, struct hello *hello)
{
	if (call->count < 2)
		return true;
	if (!kw_answer_number(call->words[1], &hello->version)) {
		kw_reply_error(call->to, "ERR Protocol version is not an integer or out of range");
		return false;
	}
	if (hello->version >= KW_RESP_2 && hello->version <= KW_RESP_3)
		return true;
	kw_reply_error(call->to, "NOPROTO unsupported protocol version");
	return false;
}

static bool read_options(struct kw_call *call, struct hello *hello)
{
	const struct kw_slice *words = call->words;

	for (size_t at = 2; at < call->count; at++) {
		size_t more = call->count - 1 - at;

		if (kw_word_is(words[at], "auth") && more >= 2) {
			hello->login = &words[at + 1];
			at += 2;
		} else if (kw_word_is(words[at], "setname") && more >= 1) {
			hello->name = &words[++at];
			if (!kw_session_name_valid(call, *hello->name))
				return false;
		} else {
			kw_reply_error(call->to, "ERR Syntax error in HELLO option '%.*s'",
				(int)(words[at].length < 128 ? words[at].length : 128),
				(const char *)words[at].data);
			return false;
		}
	}
	return true;
}

static void put_text(const struct kw_reply_to *to, const char *name, const char *value)
{
	kw_reply_bulk(to, kw_slice_text(name));
	kw_reply_bulk(to, kw_slice_text(value));
}

static void put_number(const struct kw_reply_to *to, const char *name, int64_t value)
{
	kw_reply_bulk(to, kw_slice_text(name));
	kw_reply_integer(to, value);
}

static void greet(struct kw_call *call)
{
	char version[KW_SESSION_VERSION_MAX];
	const struct kw_session *session = call->session;
	const struct kw_reply_to to = kw_session_reply_to(session, call->host, call->to->out);

	kw_reply_map(&to, 7);
	put_text(&to, "server", "redis");
	put_text(&to, "version", kw_session_server_version(call->host, version));
	put_number(&to, "proto", session->version);
	put_number(&to, "id", (int64_t)session->id);
	put_text(&to, "mode", "standalone");
	put_text(&to, "role", "replica");
	kw_reply_bulk(&to, kw_slice_text("modules"));
	kw_reply_array(&to, 0);
}

void kw_call_hello(struct kw_call *call)
{
	struct kw_session *session = call->session;
	struct hello hello = {0};

	if (!read_version(call, &hello) || !read_options(call, &hello))
		return;
	if (hello.login && !login(call, hello.login[0], hello.login[1]))
		return;
	if (!session->user) {
		kw_reply_error(call->to,
			"NOAUTH HELLO must be called with the client already authenticated, "
			"otherwise the HELLO AUTH <user> <pass> option can be used to "
			"authenticate the client and select the RESP protocol version at the same "
			"time");
		return;
	}
	if (hello.name)
		kw_session_set_text(&session->name, *hello.name);
	if (hello.version)
		session->version = (enum kw_resp_version)hello.version;
	greet(call);
}
