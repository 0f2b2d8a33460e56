#include "source/history.h"

#include "keys/databases.h"

#include <stdio.h>
#include <string.h>

void kw_source_history_init(struct kw_history *history, const char *name)
{
	*history = (struct kw_history){
		.standing = KW_HISTORY_AWAITED,
		.proxy = kw_proxy_identity(name),
	};
	snprintf(history->proxy_name, sizeof history->proxy_name, "%s", *name ? name : "_");
	for (char *c = history->proxy_name; *c; c++)
		if (*c < 0x21 || *c > 0x7e)
			*c = '_';
}

void kw_source_history_resume(struct kw_history *history, const struct kw_history *before)
{
	if (before->standing == KW_HISTORY_NONE || before->proxy != history->proxy)
		return;
	history->standing = before->standing;
	memcpy(history->replid, before->replid, sizeof history->replid);
	memcpy(history->replid2, before->replid2, sizeof history->replid2);
	history->second_offset = before->second_offset;
	history->server = before->server;
}

void kw_source_history_told(struct kw_history *history, const struct kw_server_identity *identity)
{
	bool told = kw_history_is_id(identity->replid);
	bool linked = told && kw_history_is_id(identity->replid2);

	if (strcmp(history->replid, told ? identity->replid : "") != 0)
		history->looked.version = history->looked.offset = 0; /* of another history */
	memset(history->replid, 0, sizeof history->replid);
	memset(history->replid2, 0, sizeof history->replid2);
	history->standing = told ? KW_HISTORY_TOLD : KW_HISTORY_UNTOLD;
	history->second_offset = linked ? identity->second_offset : 0;
	if (told)
		memcpy(history->replid, identity->replid, KW_HISTORY_ID);
	if (linked)
		memcpy(history->replid2, identity->replid2, KW_HISTORY_ID);
}

static uint8_t one_byte(int number)
{
	return number > 0 && number < UINT8_MAX ? (uint8_t)number : 0;
}

void kw_source_history_server(
	struct kw_history *history, const struct kw_server_identity *identity, uint32_t databases)
{
	history->server = (struct kw_history_server){
		.fork = identity->valkey ? 2 : 1,
		.major = one_byte(identity->major),
		.minor = one_byte(identity->minor),
		.patch = one_byte(identity->patch),
		.databases = databases < KW_DATABASES_MOST ? databases : 0,
	};
}

bool kw_source_history_looked(struct kw_history *history, struct kw_source_look *before,
	const struct kw_server_identity *identity, uint64_t version)
{
	const uint64_t known_version = history->looked.version;
	const uint64_t known_offset = history->looked.offset;
	const bool goes_on = before->count > 0 && strcmp(before->replid, identity->replid) == 0 &&
			     strcmp(identity->role, "master") == 0 && identity->offset > 0;

	if (identity->looks == before->count)
		return false;
	history->looked.version = goes_on ? before->version : 0;
	history->looked.offset = goes_on ? identity->offset : 0;
	before->count = identity->looks;
	before->version = version;
	memcpy(before->replid, identity->replid, sizeof before->replid);
	return history->looked.version != known_version || history->looked.offset != known_offset;
}
