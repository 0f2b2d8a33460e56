/* peer-dump [--ttl] ADDRESS: read every key of database 0 and throw it away. */
#include "peer.h"

#include <stdio.h>
#include <string.h>

struct total {
	size_t keys, bytes;
};

static void count(void *arg, const struct peer_item *item)
{
	struct total *total = arg;

	total->keys++;
	total->bytes += item->payload_length;
}

int main(int argc, char **argv)
{
	bool with_ttl = argc > 1 && strcmp(argv[1], "--ttl") == 0;
	struct total total = {0};
	struct peer peer;
	double begin;

	if (argc != (with_ttl ? 3 : 2))
		peer_die("usage: peer-dump [--ttl] unix:///path | tcp://host:port");
	peer_connect(&peer, argv[argc - 1]);
	begin = peer_now();
	peer_walk(&peer, with_ttl, count, &total);
	printf("{\"keys\": %zu, \"bytes\": %zu, \"seconds\": %.6f}\n", total.keys, total.bytes,
		peer_now() - begin);
	peer_close(&peer);
	return 0;
}
