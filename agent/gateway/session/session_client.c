/* CLIENT: what a client says of itself, and what it is told of itself. Others are not shown. */
#include "calls.h"

#include "gateway/answers/answers.h"
#include "gateway/answers/words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool kw_session_text_valid(struct kw_slice word)
{
	const char *text = word.data;

	for (size_t i = 0; i < word.length; i++)
		if (text[i] < '!' || text[i] > '~')
			return false;
	return true;
}

static bool is_short(struct kw_call *call, struct kw_slice word)
{
	if (word.length <= KW_SESSION_TEXT_MAX)
		return true;
	kw_reply_error(call->to, "ERR keywake-gateway keeps at most %d bytes of such a text",
		KW_SESSION_TEXT_MAX);
	return false;
}

bool kw_session_name_valid(struct kw_call *call, struct kw_slice word)
{
	if (kw_session_text_valid(word))
		return is_short(call, word);
	kw_reply_error(call->to,
		"ERR Client names cannot contain spaces, newlines or special characters.");
	return false;
}

void kw_session_set_text(char **text, struct kw_slice word)
{
	free(*text);
	*text = NULL;
	if (word.length == 0)
		return;
	*text = kw_alloc(word.length + 1);
	memcpy(*text, word.data, word.length);
	(*text)[word.length] = '\0';
}

void kw_call_client_id(struct kw_call *call)
{
	kw_reply_integer(call->to, (int64_t)call->session->id);
}

void kw_call_client_getname(struct kw_call *call)
{
	if (call->session->name)
		kw_reply_bulk(call->to, kw_slice_text(call->session->name));
	else
		kw_reply_nil(call->to);
}

void kw_call_client_setname(struct kw_call *call)
{
	if (!kw_session_name_valid(call, call->words[2]))
		return;
	kw_session_set_text(&call->session->name, call->words[2]);
	kw_reply_simple(call->to, "OK");
}

void kw_call_client_setinfo(struct kw_call *call)
{
	bool library = kw_word_is(call->words[2], "lib-name");

	if (!library && !kw_word_is(call->words[2], "lib-ver")) {
		kw_reply_error(call->to, "ERR Unrecognized option '%.*s'",
			(int)(call->words[2].length < 128 ? call->words[2].length : 128),
			(const char *)call->words[2].data);
	} else if (!kw_session_text_valid(call->words[3])) {
		kw_reply_error(call->to,
			"ERR %s cannot contain spaces, newlines or special characters.",
			library ? "lib-name" : "lib-ver");
	} else if (is_short(call, call->words[3])) {
		kw_session_set_text(
			library ? &call->session->library : &call->session->library_version,
			call->words[3]);
		kw_reply_simple(call->to, "OK");
	}
}

/* ---- what a client is told of itself ---- */

static const char *or_nothing(const char *text)
{
	return text ? text : "";
}

/* Client libraries take these for numbers that are always there. */
#define UNKNOWN_FIGURES                                                                            \
	"qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0"

static void put_line(const struct kw_call *call, struct kw_buffer *out)
{
	const struct kw_session *session = call->session;
	const struct kw_session_facts facts = kw_session_look(session, call->host);
	uint64_t now_us = facts.now_us;
	uint64_t age_us = now_us > session->since_us ? now_us - session->since_us : 0;

	kw_buffer_printf(out,
		"id=%" PRIu64 " addr=%s laddr=%s fd=0 name=%s age=%" PRIu64
		" idle=0 flags=N db=%u sub=0 psub=0 ssub=0 multi=-1 " UNKNOWN_FIGURES
		" events=r cmd=%s user=%s redir=-1 resp=%d lib-name=%s lib-ver=%s\n",
		session->id, facts.address, facts.local_address, or_nothing(session->name),
		age_us / 1000000, (unsigned)session->database, call->row->name, session->user->name,
		(int)session->version, or_nothing(session->library),
		or_nothing(session->library_version));
}

static void reply_line(const struct kw_call *call, bool shown)
{
	struct kw_buffer text = {0};

	if (shown)
		put_line(call, &text);
	kw_reply_verbatim(call->to, kw_slice(kw_buffer_bytes(&text), kw_buffer_length(&text)));
	kw_buffer_close(&text);
}

void kw_call_client_info(struct kw_call *call)
{
	reply_line(call, true);
}

static void list_type(struct kw_call *call)
{
	static const char *const others[] = {"master", "replica", "slave", "pubsub"};

	if (kw_word_is(call->words[3], "normal")) {
		reply_line(call, true);
		return;
	}
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (kw_word_is(call->words[3], others[i])) {
			reply_line(call, false);
			return;
		}
	kw_reply_error(call->to, "ERR Unknown client type '%.*s'",
		(int)(call->words[3].length < 128 ? call->words[3].length : 128),
		(const char *)call->words[3].data);
}

static void list_ids(struct kw_call *call)
{
	bool shown = false;

	for (size_t i = 3; i < call->count; i++) {
		int64_t id = 0;

		if (!kw_answer_number(call->words[i], &id) || id < 1) {
			kw_reply_error(call->to, "ERR Invalid client ID");
			return;
		}
		shown |= (uint64_t)id == call->session->id;
	}
	reply_line(call, shown);
}

/* CLIENT LIST [TYPE type] [ID id …] */
void kw_call_client_list(struct kw_call *call)
{
	if (call->count == 2)
		reply_line(call, true);
	else if (call->count == 4 && kw_word_is(call->words[2], "type"))
		list_type(call);
	else if (call->count > 3 && kw_word_is(call->words[2], "id"))
		list_ids(call);
	else
		kw_reply_error(call->to, "ERR syntax error");
}

/* ---- what would change how a client is served ---- */

static bool is_switch(struct kw_slice word)
{
	return kw_word_is(word, "on") || kw_word_is(word, "off");
}

/* NO-EVICT, NO-TOUCH: the gateway does neither evict clients nor touch keys. */
void kw_call_client_switch(struct kw_call *call)
{
	if (is_switch(call->words[2]))
		kw_reply_simple(call->to, "OK");
	else
		kw_reply_error(call->to, "ERR syntax error");
}

void kw_call_client_reply(struct kw_call *call)
{
	if (kw_word_is(call->words[2], "on"))
		kw_reply_simple(call->to, "OK");
	else if (kw_word_is(call->words[2], "off") || kw_word_is(call->words[2], "skip"))
		kw_reply_error(call->to, "ERR keywake-gateway answers each request: leave CLIENT "
					 "REPLY out, or ask the primary");
	else
		kw_reply_error(call->to, "ERR syntax error");
}

void kw_call_client_tracking(struct kw_call *call)
{
	if (kw_word_is(call->words[2], "off"))
		kw_reply_simple(call->to, "OK");
	else if (kw_word_is(call->words[2], "on"))
		kw_reply_error(call->to,
			"ERR keywake-gateway sends no invalidations: turn the client's cache off "
			"(gateway.cache_bytes is one), or ask the primary");
	else
		kw_reply_error(call->to, "ERR syntax error");
}

void kw_call_client_trackinginfo(struct kw_call *call)
{
	kw_reply_map(call->to, 3);
	kw_reply_bulk(call->to, kw_slice_text("flags"));
	kw_reply_set(call->to, 1);
	kw_reply_bulk(call->to, kw_slice_text("off"));
	kw_reply_bulk(call->to, kw_slice_text("redirect"));
	kw_reply_integer(call->to, -1);
	kw_reply_bulk(call->to, kw_slice_text("prefixes"));
	kw_reply_array(call->to, 0);
}

void kw_call_client_getredir(struct kw_call *call)
{
	kw_reply_integer(call->to, -1);
}

void kw_call_client_caching(struct kw_call *call)
{
	kw_reply_error(call->to, "ERR CLIENT CACHING can be called only when the client is in "
				 "tracking mode with OPTIN or OPTOUT mode enabled");
}
