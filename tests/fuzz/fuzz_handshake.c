/*
 * The handshake and the frames against bytes of anybody's.
 *
 * The first byte chooses: raw bytes into a proxy's or an agent's handshake, with or without a
 * secret; raw bytes as a stream of frames; raw bytes as a reply; or two honest ends whose messages
 * are altered on their way by (position, mask) pairs: with a secret they must never both be
 * content.
 *
 * Built with -fsanitize=fuzzer it is a libFuzzer target; without, a program that replays the files
 * and folders of files it is given (KW_FUZZ_REPLAY).
 */
#include "remote/frame.h"
#include "remote/handshake.h"

#include <stdlib.h>
#include <string.h>

#define INPUT_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
	if (!condition)
		abort();
}

static void begin(struct kw_handshake *handshake, int agent, int secret)
{
	static const uint8_t nonces[2][KW_NONCE_BYTES] = {{1, 2, 3}, {4, 5, 6}};
	const struct kw_handshake_options options = {
		.secret = secret ? kw_slice_text("fuzz") : (struct kw_slice){0},
		.name = agent ? "fuzzer" : NULL,
		.layout_version = KW_LAYOUT_VERSION,
		.depth = 8,
		.nonce = nonces[agent],
	};

	if (agent)
		kw_handshake_init_agent(handshake, &options);
	else
		kw_handshake_init_proxy(handshake, &options);
}

static void welcome(struct kw_handshake *handshake)
{
	const struct kw_handshake_facts facts = {
		.epoch = 9, .depth = 1, .extent = {.length = 1 << 20}};

	if (kw_handshake_is(handshake, KW_HANDSHAKE_PROVED))
		kw_handshake_welcome(handshake, &facts);
}

/* Fed in pieces of at most what it wants, as a stream does, or all at once, as a message does. */
static void feed_raw(const uint8_t *data, size_t size, int agent, int secret, int whole)
{
	struct kw_handshake handshake;

	begin(&handshake, agent, secret);
	while (size > 0) {
		size_t take = whole ? size : kw_handshake_wants(&handshake);
		int code;

		if (take == 0 || take > size)
			take = size;
		code = kw_handshake_input(&handshake, data, take);
		must(code == 0 || handshake.error.text[0] != 0);
		data += take;
		size -= take;
		if (code != 0)
			break;
		kw_handshake_sent(&handshake, kw_handshake_output(&handshake).length);
		welcome(&handshake);
	}
	/* Nobody guesses an HMAC. */
	must(!secret || !kw_handshake_is(&handshake, KW_HANDSHAKE_DONE));
	must(kw_handshake_output(&handshake).length <= KW_HANDSHAKE_MESSAGE_MAX);
}

/* One message over the wire, altered; *data moves on. Returns how many bits changed. */
static int carry(
	struct kw_handshake *from, struct kw_handshake *to, const uint8_t **data, size_t *size)
{
	struct kw_slice output = kw_handshake_output(from);
	uint8_t bytes[KW_HANDSHAKE_MESSAGE_MAX];
	int changed = 0;

	if (output.length == 0)
		return 0;
	memcpy(bytes, output.data, output.length);
	kw_handshake_sent(from, output.length);
	if (*size >= 2) {
		bytes[(*data)[0] % output.length] ^= (*data)[1];
		changed = (*data)[1] != 0;
		*data += 2;
		*size -= 2;
	}
	(void)kw_handshake_input(to, bytes, output.length);
	return changed;
}

static void between_two(const uint8_t *data, size_t size, int secret)
{
	struct kw_handshake agent, proxy;
	int changed = 0;

	begin(&agent, 1, secret);
	begin(&proxy, 0, secret);
	for (int i = 0; i < 3; i++) {
		changed += carry(&agent, &proxy, &data, &size);
		welcome(&proxy);
		changed += carry(&proxy, &agent, &data, &size);
	}
	if (changed == 0)
		must(kw_handshake_is(&agent, KW_HANDSHAKE_DONE) &&
			kw_handshake_is(&proxy, KW_HANDSHAKE_DONE));
	else if (secret)
		must(!kw_handshake_is(&agent, KW_HANDSHAKE_DONE));
}

static void feed_frames(const uint8_t *data, size_t size)
{
	struct kw_frame frame;
	struct kw_error error;
	size_t taken;

	while (kw_frame_take(data, size, &taken, &frame, &error) == 0 && taken > 0) {
		must(taken <= size && taken <= KW_FRAME_MAX);
		if (frame.op == KW_FRAME_READ)
			must(frame.length >= 1 && frame.length <= KW_READ_MAX);
		else
			must(memchr(frame.progress.state, 0, sizeof frame.progress.state) != NULL);
		data += taken;
		size -= taken;
	}
}

static void feed_reply(const uint8_t *data, size_t size)
{
	struct kw_frame_reply reply;
	struct kw_error error;

	if (size < sizeof reply)
		return;
	memcpy(&reply, data, sizeof reply);
	if (kw_frame_check_reply(&reply, 3, 99, &error) == 0)
		must(reply.id == 3 && reply.length == 99 && reply.status == KW_FRAME_OK);
	else
		must(error.text[0] != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t choice;

	if (size == 0)
		return 0;
	choice = data[0];
	data++;
	size--;
	switch (choice & 3) {
	case 0:
		feed_raw(data, size, (choice >> 2) & 1, (choice >> 3) & 1, (choice >> 4) & 1);
		break;
	case 1:
		between_two(data, size, (choice >> 2) & 1);
		break;
	case 2:
		feed_frames(data, size);
		break;
	default:
		feed_reply(data, size);
	}
	return 0;
}

#ifdef KW_FUZZ_REPLAY

#include <dirent.h>
#include <stdio.h>

static int replay(const char *path)
{
	static uint8_t bytes[INPUT_MAX];
	struct dirent *entry;
	FILE *file;
	DIR *folder = opendir(path);
	int count = 0;

	if (folder) {
		while ((entry = readdir(folder))) {
			char inner[4096];

			if (entry->d_name[0] == '.')
				continue;
			snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
			count += replay(inner);
		}
		closedir(folder);
		return count;
	}
	file = fopen(path, "rb");
	if (!file) {
		fprintf(stderr, "%s cannot be read\n", path);
		exit(1);
	}
	LLVMFuzzerTestOneInput(bytes, fread(bytes, 1, sizeof bytes, file));
	fclose(file);
	return 1;
}

int main(int argc, char **argv)
{
	int count = 0;

	for (int i = 1; i < argc; i++)
		count += replay(argv[i]);
	printf("%d inputs replayed\n", count);
	return 0;
}

#endif
