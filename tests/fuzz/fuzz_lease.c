/*
 * Arbitrary bytes as what a server says of other clients: the answer to CLIENT LIST, and replies as
 * to COMMAND INFO. Every look stays within them and within the bounds that the headers name.
 */
#include "fuzz.h"

#include "authority/lease.h"
#include "local/writers.h"

#include <string.h>

#define OTHER "keywake-agent:claims:00000000000000ff:b@host"

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES(
		"id=7 addr=127.0.0.1:5 name=keywake-agent:writes:0000000000000011:a@host age=3 "
		"idle=0 flags=N db=0\nid=9 name=" OTHER " idle=1\n"),
	KW_FUZZ_BYTES("id=3 name=" OTHER " idle=99\nid=4 name=keywake-agent idle=0\n"),
	KW_FUZZ_BYTES("id=18446744073709551615 name=keywake-agent:waits:-1:@ idle=99999999999\n"),
	KW_FUZZ_BYTES("*2\r\n*3\r\n$3\r\nfoo\r\n:-2\r\n*1\r\n+write\r\n*-1\r\n"),
	KW_FUZZ_BYTES("*1\r\n*3\r\n$3\r\nbar\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n"),
};

static void look_at_owner(const struct kw_lease_owner *owner)
{
	char text[KW_LEASE_OWNER_TEXT], why[512];
	struct kw_lease_owner again;

	must(memchr(owner->agent, 0, sizeof owner->agent) != NULL);
	must(memchr(owner->host, 0, sizeof owner->host) != NULL);
	kw_lease_refusal(owner, why, sizeof why);
	if (owner->session == 0)
		return;
	kw_lease_owner_text(owner, text);
	must(kw_lease_owner_parse(kw_slice_text(text), &again) && again.session == owner->session);
}

static void look_at_list(struct kw_slice list)
{
	struct kw_lease_survey survey;
	struct kw_lease_owner me;
	enum kw_lease_verdict verdict;

	kw_lease_owner_set(&me, 0x11, "a", "host");
	kw_lease_look(&survey, list, &me);
	verdict = kw_lease_judge(&survey);
	must(survey.dead_count <= KW_LEASE_DEAD_MAX);
	for (size_t i = 0; i < survey.dead_count; i++)
		must(survey.dead[i] > 0 && survey.dead[i] != survey.own);
	look_at_owner(&survey.writer.owner);
	look_at_owner(&survey.claimer.owner);
	if (verdict == KW_LEASE_TAKEN || verdict == KW_LEASE_YIELD || verdict == KW_LEASE_AWAIT)
		must(kw_lease_other(&survey)->id > 0);
	must(verdict != KW_LEASE_FREE || survey.own > 0);
}

static bool sink(void *arg, const struct kw_reply *reply)
{
	(void)arg;
	(void)kw_writers_does_write(reply);
	for (size_t i = 0; i < reply->count; i++)
		(void)kw_writers_does_write(&reply->elements[i]);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kw_reply_reader *reader = kw_reply_reader_new(sink, NULL);
	struct kw_error error = {0};

	look_at_list(kw_slice(data, size));
	(void)kw_reply_reader_feed(reader, data, size, &error);
	kw_reply_reader_free(reader);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
