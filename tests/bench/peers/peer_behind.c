/*
 * peer-behind PRIMARY REPLICA [--seconds N] [--interval-us N]: how far behind its primary is a
 * replica?
 *
 * Each interval (10000 us) one key is SET on the primary. From the reply on, the replica is asked
 * for the key until it has that value, some 50 us apart. The next SET waits for that. Asks for
 * realtime scheduling, as peer-probe does, and says whether it was granted.
 */
#include "behind.h"
#include "histogram.h"
#include "peer.h"
#include "words.h"

#include <stdio.h>
#include <string.h>

static bool has(struct peer *replica, const char *key, const char *value, size_t length)
{
	long long got;

	peer_array(replica, 2);
	peer_bulk(replica, "GET", 3);
	peer_bulk(replica, key, strlen(key));
	peer_flush(replica);
	if (peer_header(replica, &got) != '$' || got < 0)
		return false;
	return memcmp(peer_body(replica, (size_t)got), value, length) == 0 && (size_t)got == length;
}

int main(int argc, char **argv)
{
	static struct histogram histogram;
	struct behind behind;
	struct peer replica;
	char value[BEHIND_VALUE];
	uint64_t written_us;

	if (argc < 3)
		peer_die("usage: peer-behind PRIMARY REPLICA [--seconds N] [--interval-us N]");
	peer_connect(&replica, argv[2]);
	behind_begin(&behind, argv[1], argc, argv);
	while ((written_us = behind_write(&behind, value)) > 0) {
		while (!has(&replica, behind.key, value, strlen(value)))
			behind_nap(&behind, written_us);
		histogram_add(&histogram, behind_now_us() - written_us);
	}
	behind_print(&behind, &histogram);
	behind_end(&behind);
	peer_close(&replica);
	return 0;
}
