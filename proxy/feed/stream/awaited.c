#include "feed/stream/awaited.h"

#include <assert.h>

static void answered(void *arg, const struct kw_reply *reply)
{
	struct kw_awaited_one *one = arg;
	struct kw_awaited *awaited = one->owner;
	struct kw_error why;

	reply = kw_data_reply(awaited->data, reply);
	if (!reply || one->offset.state != KW_OFFSET_ASKED)
		return;
	if (kw_offset_told(&one->offset, reply)) {
		awaited->told(awaited->arg, (enum kw_awaited_kind)(one - awaited->ones));
		return;
	}
	kw_data_refusal(&why, awaited->username, "ROLE", "+role", reply);
	awaited->refused(awaited->arg, &why);
}

static void ask(struct kw_awaited *awaited, struct kw_awaited_one *one)
{
	one->owner = awaited;
	kw_offset_ask(&one->offset);
	kw_data_words(awaited->data, answered, one, "ROLE", NULL);
}

void kw_awaited_ask(struct kw_awaited *awaited, enum kw_awaited_kind kind)
{
	assert(!kw_awaited_is(awaited, kind));
	ask(awaited, &awaited->ones[kind]);
}

void kw_awaited_ask_again(struct kw_awaited *awaited)
{
	if (kw_data_is_broken(awaited->data))
		return;
	for (int kind = 0; kind < KW_AWAITED_KINDS; kind++)
		if (awaited->ones[kind].offset.state == KW_OFFSET_AGAIN)
			ask(awaited, &awaited->ones[kind]);
}

void kw_awaited_reset(struct kw_awaited *awaited)
{
	for (int kind = 0; kind < KW_AWAITED_KINDS; kind++)
		kw_offset_reset(&awaited->ones[kind].offset);
}

bool kw_awaited_is(const struct kw_awaited *awaited, enum kw_awaited_kind kind)
{
	return kw_offset_is_awaited(&awaited->ones[kind].offset);
}

bool kw_awaited_any(const struct kw_awaited *awaited)
{
	for (int kind = 0; kind < KW_AWAITED_KINDS; kind++)
		if (kw_awaited_is(awaited, (enum kw_awaited_kind)kind))
			return true;
	return false;
}

bool kw_awaited_take(struct kw_awaited *awaited, enum kw_awaited_kind kind, uint64_t offset)
{
	struct kw_offset *one = &awaited->ones[kind].offset;

	if (!kw_offset_is_reached(one, offset))
		return false;
	kw_offset_reset(one);
	return true;
}
