/*
 * Arbitrary bytes as what a server says to the agent that acts as its primary: the same is answered
 * and told whether they come at once or in pieces, and nobody without the login gets to PSYNC.
 *
 * The first byte chooses the login that is set and the pieces.
 */
#include "fuzz.h"

#include "base/hash.h"
#include "primary/replconf.h"

#include <string.h>

#define HANDSHAKE                                                                                  \
	"*1\r\n$4\r\nPING\r\n*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$2\r\npw\r\n"                          \
	"*3\r\n$8\r\nREPLCONF\r\n$14\r\nlistening-port\r\n$4\r\n6379\r\n"                          \
	"*5\r\n$8\r\nREPLCONF\r\n$4\r\ncapa\r\n$3\r\neof\r\n$4\r\ncapa\r\n$6\r\npsync2\r\n"

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("\x01" HANDSHAKE "*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n"),
	KW_FUZZ_BYTES("\x05" HANDSHAKE "*3\r\n$5\r\nPSYNC\r\n$40\r\n"
		      "6b65797761000000000000000000000000000000\r\n$3\r\n100\r\n"
		      "\n\n*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$3\r\n200\r\n"),
	KW_FUZZ_BYTES("\x00*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n*1\r\n$4\r\nPING\r\n"),
	KW_FUZZ_BYTES("\x02*2\r\n$4\r\nAUTH\r\n$3\r\nbad\r\n"),
	KW_FUZZ_BYTES("\x02*1\r\n$7\r\nCOMMAND\r\n"),
	KW_FUZZ_BYTES("\x02PING\r\n"),
};

struct heard {
	struct kw_replconf replconf;
	uint64_t hash;
	unsigned psyncs, acks;
};

static void on_psync(void *arg, const char *replid, int64_t offset)
{
	struct heard *heard = arg;

	must(heard->replconf.authenticated && heard->replconf.eof && heard->psyncs == 0);
	must(strcmp(replid, "?") == 0 ||
		(strlen(replid) == KW_REPLID_LENGTH &&
			strspn(replid, "0123456789abcdef") == KW_REPLID_LENGTH));
	heard->psyncs++;
	heard->hash = kw_hash_key(heard->hash, 1, replid, strlen(replid));
	heard->hash = kw_hash_key(heard->hash, 2, &offset, sizeof offset);
}

static void on_ack(void *arg, uint64_t offset)
{
	struct heard *heard = arg;

	must(heard->psyncs == 1 && offset <= INT64_MAX);
	heard->acks++;
	heard->hash = kw_hash_key(heard->hash, 3, &offset, sizeof offset);
}

static int feed(const uint8_t *data, size_t size, size_t piece, const struct kw_link_login *login,
	struct heard *heard)
{
	const struct kw_replconf_handlers handlers = {on_psync, on_ack, heard};
	struct kw_error error = {0};
	int code = 0;

	kw_replconf_init(&heard->replconf, login, &handlers);
	while (size > 0 && !code) {
		size_t take = piece == 0 || piece > size ? size : piece;

		code = kw_replconf_feed(&heard->replconf, data, take, &error);
		must(code == 0 || error.text[0] != 0);
		data += take;
		size -= take;
	}
	heard->hash = kw_hash_key(heard->hash, (uint32_t)code,
		kw_buffer_length(&heard->replconf.output) ? kw_buffer_bytes(&heard->replconf.output)
							  : (const uint8_t *)"",
		kw_buffer_length(&heard->replconf.output));
	kw_replconf_close(&heard->replconf);
	return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct kw_link_login logins[] = {{"", "pw"}, {"u", "pw"}, {"", ""}};
	struct heard whole = {0}, pieces = {0};
	const struct kw_link_login *login;
	uint8_t choice;
	int code;

	/* Above the bound of one command pieces would be refused earlier than the whole. */
	if (size < 1 || size > KW_REPLCONF_BYTES)
		return 0;
	choice = data[0];
	login = &logins[choice % 3];
	code = feed(data + 1, size - 1, 0, login, &whole);
	must(feed(data + 1, size - 1, choice / 3 + 1, login, &pieces) == code);
	must(whole.hash == pieces.hash && whole.psyncs == pieces.psyncs);
	must(whole.psyncs == 0 || login->password[0]);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
