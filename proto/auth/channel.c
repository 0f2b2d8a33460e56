#include "auth/channel.h"

#include <stdio.h>
#include <string.h>

struct kw_channel kw_channel_shm(uint64_t device, uint64_t inode)
{
	return (struct kw_channel){
		.kind = KW_CHANNEL_SHM,
		.file = {.device = device, .inode = inode},
	};
}

struct kw_channel kw_channel_tcp(const struct kw_endpoint *proxy)
{
	struct kw_channel channel = kw_channel_rdma(proxy, 0, 0);

	channel.kind = KW_CHANNEL_TCP;
	return channel;
}

struct kw_channel kw_channel_rdma(
	const struct kw_endpoint *proxy, uint32_t agent_pair, uint32_t proxy_pair)
{
	struct kw_channel channel = {
		.kind = KW_CHANNEL_RDMA,
		.host = {.port = proxy->port, .agent_pair = agent_pair, .proxy_pair = proxy_pair},
	};

	memcpy(channel.host.address, proxy->address, sizeof channel.host.address);
	return channel;
}

struct kw_channel kw_channel_tls(const uint8_t exporter[KW_CHANNEL_EXPORTER_BYTES])
{
	struct kw_channel channel = {.kind = KW_CHANNEL_TLS};

	memcpy(channel.tls.exporter, exporter, sizeof channel.tls.exporter);
	return channel;
}

static struct kw_endpoint endpoint_of(const struct kw_channel *channel)
{
	return kw_endpoint_six(channel->host.address, channel->host.port);
}

bool kw_channel_decode(
	uint8_t kind, const uint8_t bytes[KW_CHANNEL_BYTES], struct kw_channel *channel)
{
	struct kw_channel known = {0};
	struct kw_endpoint endpoint;

	*channel = (struct kw_channel){.kind = (enum kw_channel_kind)kind};
	memcpy(channel->bytes, bytes, KW_CHANNEL_BYTES);
	endpoint = endpoint_of(channel);
	/* What is known of it, put together again, must be all of it. */
	switch (channel->kind) {
	case KW_CHANNEL_SHM:
		known = kw_channel_shm(channel->file.device, channel->file.inode);
		break;
	case KW_CHANNEL_TCP:
		known = kw_channel_tcp(&endpoint);
		break;
	case KW_CHANNEL_RDMA:
		known = kw_channel_rdma(
			&endpoint, channel->host.agent_pair, channel->host.proxy_pair);
		break;
	case KW_CHANNEL_TLS:
		known = kw_channel_tls(channel->tls.exporter);
		break;
	default:
		return false;
	}
	return memcmp(known.bytes, bytes, KW_CHANNEL_BYTES) == 0;
}

static bool is_one_of(const struct kw_endpoint *endpoint, const struct kw_endpoints *all)
{
	for (int i = 0; all && i < all->count; i++)
		if (kw_endpoint_equal(endpoint, &all->items[i]))
			return true;
	return false;
}

enum kw_channel_verdict kw_channel_compare(const struct kw_channel *said,
	const struct kw_channel *own, const struct kw_endpoints *more)
{
	struct kw_endpoint dialled, arrived;

	if (said->kind != own->kind)
		return KW_CHANNEL_CARRIER_DIFFERS;
	if (own->kind == KW_CHANNEL_SHM)
		return memcmp(said->bytes, own->bytes, KW_CHANNEL_BYTES) == 0
			       ? KW_CHANNEL_SAME
			       : KW_CHANNEL_FILE_DIFFERS;
	if (own->kind == KW_CHANNEL_TLS)
		return memcmp(said->bytes, own->bytes, KW_CHANNEL_BYTES) == 0
			       ? KW_CHANNEL_SAME
			       : KW_CHANNEL_SESSION_DIFFERS;
	dialled = endpoint_of(said);
	arrived = endpoint_of(own);
	if (!kw_endpoint_equal(&dialled, &arrived) && !is_one_of(&dialled, more))
		return KW_CHANNEL_ADDRESS_DIFFERS;
	if (said->host.agent_pair != own->host.agent_pair ||
		said->host.proxy_pair != own->host.proxy_pair)
		return KW_CHANNEL_PAIRS_DIFFER;
	return KW_CHANNEL_SAME;
}

void kw_channel_text(const struct kw_channel *channel, char *text, size_t size)
{
	static const char *const names[] = {
		[KW_CHANNEL_NONE] = "nothing",
		[KW_CHANNEL_SHM] = "shm",
		[KW_CHANNEL_TCP] = "tcp",
		[KW_CHANNEL_RDMA] = "rdma",
		[KW_CHANNEL_TLS] = "tcp+tls",
	};
	struct kw_endpoint endpoint = endpoint_of(channel);
	char host[KW_ENDPOINT_TEXT];

	kw_endpoint_text(&endpoint, host, sizeof host);
	if ((size_t)channel->kind >= sizeof names / sizeof *names)
		snprintf(text, size, "an unknown carrier");
	else if (channel->kind == KW_CHANNEL_TCP || channel->kind == KW_CHANNEL_RDMA)
		snprintf(text, size, "%s %s", names[channel->kind], host);
	else
		snprintf(text, size, "%s", names[channel->kind]);
}
