/*
 * peer-get ADDRESS: GETs over a known set of keys, as a cache's users send them.
 *
 *   --protocol WORD   resp, memcached (text), meta
 *   --multi           memcached: one get for the keys of a batch
 *   --seconds N       how long (10)
 *   --connections N   each with its own batch under way (50)
 *   --pipeline N      requests in a batch (1)
 *   --keys N          key:<12 digits>, those of peer-fill; at least as many as connections
 * (1000000)
 *   --value-bytes N   of what is there and of what is written, at least 8 (100)
 *   --zipf            keys by a Zipf law of exponent 0.99, the ranks scattered; otherwise uniform
 *   --updates SHARE   so much of the requests are SETs of keys drawn in the same way (0)
 *   --fill            SETs of every key, each once, and nothing else
 *   --inserts SHARE   so much are SETs of new keys, and GETs ask for the newest (YCSB D) (0)
 *
 * Each value written carries its number. A GET that was sent after the reply to a SET and answers
 * with something older, or with nothing, is a stale one; a GET of a key that nobody wrote and that
 * is not there, or has another length, is a wrong one. Prints figures as one JSON object.
 */
#include "draw.h"
#include "histogram.h"
#include "noise.h"
#include "peer.h"
#include "words.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 512
#define PIPELINE_MAX 1024
#define NEW_KEYS_MAX (UINT32_C(1) << 24)
#define NAME_BYTES 16 /* key:<12 digits> */
#define STAMP_BYTES 8
#define TURN_MS 1
#define LINE_MAX 512

enum protocol { RESP, MEMCACHED, META };

struct options {
	double seconds, updates, inserts;
	unsigned connections, pipeline, keys, value_bytes;
	enum protocol protocol;
	bool zipf, multi, fill;
};

struct request {
	uint32_t key;
	uint64_t stamp; /* SET: its number. GET: the last one known to be there when it was sent */
	bool set;
};

struct line { /* one connection */
	struct peer peer;
	struct request requests[PIPELINE_MAX];
	unsigned count, answered; /* of the batch; equal: none is under way */
	uint64_t sent_us;
	long long body;        /* bytes of a value that are awaited; -1: a line is */
	struct request *named; /* whose value that is */
	bool found[PIPELINE_MAX];
};

struct load {
	struct options options;
	struct line *lines;
	struct pollfd watch[CONNECTIONS_MAX];
	struct draw draw;
	uint64_t *known; /* by key: the newest number that a reply confirmed */
	uint32_t keys;   /* with those that were inserted; --fill: those that were sent */
	uint64_t stamp, noise;
	uint64_t gets, sets, missing, wrong, stale, errors;
	char first_error[LINE_MAX];
	char *value;
	struct histogram histogram;
};

static uint64_t now_us(void)
{
	return (uint64_t)(peer_now() * 1e6);
}

static double cpu_seconds(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* ---- requests ---- */

static void name_of(uint32_t key, char name[NAME_BYTES])
{
	memcpy(name, "key:", 4);
	for (int i = NAME_BYTES - 1; i >= 4; i--, key /= 10)
		name[i] = (char)('0' + key % 10);
}

static void put(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct line *line, const char *format, ...)
{
	char text[LINE_MAX];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	peer_append(&line->peer.out, text, (size_t)length);
}

static void put_get(struct load *load, struct line *line, const char *name)
{
	if (load->options.protocol == RESP) {
		peer_array(&line->peer, 2);
		peer_bulk(&line->peer, "GET", 3);
		peer_bulk(&line->peer, name, NAME_BYTES);
	} else if (load->options.multi) {
		put(line, " %.*s", NAME_BYTES, name);
	} else if (load->options.protocol == META) {
		put(line, "mg %.*s v\r\n", NAME_BYTES, name);
	} else {
		put(line, "get %.*s\r\n", NAME_BYTES, name);
	}
}

static void put_set(struct load *load, struct line *line, const char *name, uint64_t stamp)
{
	size_t length = load->options.value_bytes;

	memcpy(load->value, &stamp, sizeof stamp);
	if (load->options.protocol == RESP) {
		peer_array(&line->peer, 3);
		peer_bulk(&line->peer, "SET", 3);
		peer_bulk(&line->peer, name, NAME_BYTES);
		peer_bulk(&line->peer, load->value, length);
		return;
	}
	if (load->options.protocol == META)
		put(line, "ms %.*s %zu\r\n", NAME_BYTES, name, length);
	else
		put(line, "set %.*s 0 0 %zu\r\n", NAME_BYTES, name, length);
	peer_append(&line->peer.out, load->value, length);
	peer_append(&line->peer.out, "\r\n", 2);
}

static double chance(struct load *load)
{
	return (double)(noise_next(&load->noise) >> 11) / (double)(UINT64_C(1) << 53);
}

/*
 * SETs of one key come from one connection only. Two of different connections that are under way
 * together are executed in an order that nobody here knows, and the last one is not the newest
 * then.
 */
static uint32_t own_key(const struct load *load, const struct line *line, uint32_t key)
{
	uint32_t connections = load->options.connections;

	key += (uint32_t)(line - load->lines) - key % connections;
	return key < load->options.keys ? key : key - connections;
}

static void choose(struct load *load, const struct line *line, struct request *request)
{
	const struct options *o = &load->options;
	double drawn = o->updates > 0 || o->inserts > 0 ? chance(load) : 1;
	uint32_t next = draw_next(&load->draw);

	*request = (struct request){.set = o->fill || drawn < o->updates + o->inserts};
	if (o->fill)
		request->key = load->keys++;
	else if (drawn < o->inserts && load->keys < NEW_KEYS_MAX)
		request->key = load->keys++;
	else if (o->inserts > 0) /* ranks: the newest is the most frequent */
		request->key = load->keys - 1 - next % load->keys;
	else
		request->key = request->set ? own_key(load, line, next) : next;
	request->stamp = request->set ? ++load->stamp : load->known[request->key];
}

static void write_some(struct line *line)
{
	struct peer_bytes *out = &line->peer.out;
	ssize_t n =
		send(line->peer.fd, out->data + out->start, out->end - out->start, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		peer_die("write: %s", strerror(errno));
	if (n > 0)
		out->start += (size_t)n;
	if (out->start == out->end)
		out->start = out->end = 0;
}

/* Requests of the next batch; 0: all keys were sent. */
static unsigned room_for(const struct load *load)
{
	uint32_t left = load->options.keys - load->keys;

	return load->options.fill && left < load->options.pipeline ? left : load->options.pipeline;
}

static void send_batch(struct load *load, struct line *line)
{
	char name[NAME_BYTES];

	line->count = room_for(load);
	line->answered = 0;
	line->body = -1;
	if (load->options.multi)
		put(line, "get");
	for (unsigned i = 0; i < line->count; i++) {
		struct request *request = &line->requests[i];

		choose(load, line, request);
		line->found[i] = false;
		name_of(request->key, name);
		if (request->set)
			put_set(load, line, name, request->stamp);
		else
			put_get(load, line, name);
	}
	if (load->options.multi)
		put(line, "\r\n");
	line->sent_us = now_us();
	write_some(line);
}

/* ---- replies ---- */

static void check_value(
	struct load *load, const struct request *request, const char *value, size_t length)
{
	uint64_t stamp;

	if (length != load->options.value_bytes) {
		load->wrong++;
		return;
	}
	if (request->stamp == 0)
		return; /* nobody wrote it yet: noise of peer-fill */
	memcpy(&stamp, value, sizeof stamp);
	load->stale += stamp < request->stamp || stamp > load->stamp;
}

static void not_there(struct load *load, const struct request *request)
{
	load->missing++;
	if (request->stamp > 0)
		load->stale++;
	else if (request->key < load->options.keys)
		load->wrong++;
}

static void answered(struct load *load, struct line *line)
{
	if (line->requests[line->answered].set)
		load->sets++;
	else
		load->gets++;
	line->answered++;
}

static void refused(struct load *load, struct line *line, const char *text, size_t length)
{
	if (load->errors++ == 0)
		snprintf(load->first_error, sizeof load->first_error, "%.*s", (int)length, text);
	answered(load, line);
}

static void confirmed(struct load *load, struct line *line)
{
	const struct request *request = &line->requests[line->answered];

	if (load->known[request->key] < request->stamp)
		load->known[request->key] = request->stamp;
	answered(load, line);
}

static void await_body(struct line *line, const char *digits, struct request *request)
{
	line->body = strtoll(digits, NULL, 10);
	line->named = request;
}

static void resp_line(struct load *load, struct line *line, const char *text, size_t length)
{
	struct request *request = &line->requests[line->answered];

	if (text[0] == '$' && text[1] != '-') {
		await_body(line, text + 1, request);
	} else if (text[0] == '$' || text[0] == '_') {
		not_there(load, request);
		answered(load, line);
	} else if (text[0] == '+') {
		confirmed(load, line);
	} else {
		refused(load, line, text, length);
	}
}

/* VALUE key flags length: of the batch's requests one has that key. */
static struct request *named(struct load *load, struct line *line, const char *key)
{
	char name[NAME_BYTES];

	for (unsigned i = load->options.multi ? 0 : line->answered; i < line->count; i++) {
		name_of(line->requests[i].key, name);
		if (!line->found[i] && memcmp(name, key, NAME_BYTES) == 0) {
			line->found[i] = true;
			return &line->requests[i];
		}
	}
	peer_die("a value of a key that was not asked for: %.*s", NAME_BYTES, key);
}

static void memcached_end(struct load *load, struct line *line)
{
	unsigned last = load->options.multi ? line->count : line->answered + 1;

	while (line->answered < last) {
		if (!line->found[line->answered])
			not_there(load, &line->requests[line->answered]);
		answered(load, line);
	}
}

static void memcached_line(struct load *load, struct line *line, const char *text, size_t length)
{
	if (length > 6 + NAME_BYTES && memcmp(text, "VALUE ", 6) == 0) {
		const char *digits = memchr(text + 7 + NAME_BYTES, ' ', length - 7 - NAME_BYTES);

		if (!digits)
			peer_die("no value's line: %.*s", (int)length, text);
		await_body(line, digits + 1, named(load, line, text + 6));
	} else if (memcmp(text, "END", 3) == 0) {
		memcached_end(load, line);
	} else if (memcmp(text, "STORED", 6) == 0) {
		confirmed(load, line);
	} else if (load->options.multi) {
		peer_die("the server says: %.*s", (int)length, text);
	} else {
		refused(load, line, text, length);
	}
}

static void meta_line(struct load *load, struct line *line, const char *text, size_t length)
{
	if (memcmp(text, "VA ", 3) == 0) {
		await_body(line, text + 3, &line->requests[line->answered]);
	} else if (memcmp(text, "EN\r", 3) == 0) {
		not_there(load, &line->requests[line->answered]);
		answered(load, line);
	} else if (memcmp(text, "HD", 2) == 0) {
		confirmed(load, line);
	} else {
		refused(load, line, text, length);
	}
}

/* One line or one value out of what has come; false: more must come first. */
static bool take_one(struct load *load, struct line *line)
{
	struct peer_bytes *in = &line->peer.in;
	const char *text = in->data + in->start, *end;
	size_t length = in->end - in->start;

	if (line->body >= 0) {
		if (length < (size_t)line->body + 2)
			return false;
		check_value(load, line->named, text, (size_t)line->body);
		in->start += (size_t)line->body + 2;
		line->body = -1;
		if (load->options.protocol != MEMCACHED) /* there END ends it */
			answered(load, line);
		return true;
	}
	end = memchr(text, '\n', length);
	if (!end)
		return false;
	length = (size_t)(end - text) + 1;
	in->start += length;
	if (load->options.protocol == RESP)
		resp_line(load, line, text, length);
	else if (load->options.protocol == META)
		meta_line(load, line, text, length);
	else
		memcached_line(load, line, text, length);
	return true;
}

static void take_replies(struct load *load, struct line *line)
{
	struct peer_bytes *in = &line->peer.in;
	char *at = peer_reserve(in, 65536);
	ssize_t n = recv(line->peer.fd, at, in->room - in->end, MSG_DONTWAIT);

	if (n == 0)
		peer_die("the server closed");
	if (n < 0)
		return;
	in->end += (size_t)n;
	while (line->answered < line->count && take_one(load, line))
		;
	if (in->start == in->end)
		in->start = in->end = 0;
	if (line->answered == line->count)
		histogram_add(&load->histogram, now_us() - line->sent_us);
}

/* ---- the run ---- */

static void turn(struct load *load)
{
	unsigned connections = load->options.connections;

	for (unsigned i = 0; i < connections; i++) {
		struct line *line = &load->lines[i];

		if (line->answered == line->count && room_for(load) > 0)
			send_batch(load, line);
		load->watch[i].events =
			(short)(POLLIN | (line->peer.out.start < line->peer.out.end ? POLLOUT : 0));
	}
	if (poll(load->watch, connections, TURN_MS) <= 0)
		return;
	for (unsigned i = 0; i < connections; i++) {
		if (load->watch[i].revents & POLLOUT)
			write_some(&load->lines[i]);
		if (load->watch[i].revents & ~POLLOUT)
			take_replies(load, &load->lines[i]);
	}
}

static enum protocol read_protocol(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i++) {
		if (strcmp(argv[i], "--protocol") != 0)
			continue;
		if (strcmp(argv[i + 1], "memcached") == 0)
			return MEMCACHED;
		if (strcmp(argv[i + 1], "meta") == 0)
			return META;
		if (strcmp(argv[i + 1], "resp") != 0)
			peer_die("--protocol: resp, memcached or meta");
	}
	return RESP;
}

static struct options read_options(int argc, char **argv)
{
	struct options o = {
		.seconds = words_number(argc, argv, "--seconds", 10),
		.updates = words_number(argc, argv, "--updates", 0),
		.inserts = words_number(argc, argv, "--inserts", 0),
		.connections = (unsigned)words_number(argc, argv, "--connections", 50),
		.pipeline = (unsigned)words_number(argc, argv, "--pipeline", 1),
		.keys = (unsigned)words_number(argc, argv, "--keys", 1000000),
		.value_bytes = (unsigned)words_number(argc, argv, "--value-bytes", 100),
		.protocol = read_protocol(argc, argv),
		.zipf = words_have(argc, argv, "--zipf"),
		.multi = words_have(argc, argv, "--multi"),
		.fill = words_have(argc, argv, "--fill"),
	};

	if (argc < 2 || o.connections < 1 || o.connections > CONNECTIONS_MAX || o.pipeline < 1 ||
		o.pipeline > PIPELINE_MAX || o.keys < o.connections || o.keys >= NEW_KEYS_MAX ||
		o.value_bytes < STAMP_BYTES)
		peer_die(
			"usage: peer-get ADDRESS [--protocol resp|memcached|meta] [--multi] "
			"[--seconds N] [--connections 1..%d] [--pipeline 1..%d] [--keys N] "
			"[--value-bytes 8..] [--zipf] [--updates SHARE] [--inserts SHARE] [--fill]",
			CONNECTIONS_MAX, PIPELINE_MAX);
	if (o.multi && (o.protocol != MEMCACHED || o.updates > 0 || o.inserts > 0))
		peer_die("--multi: only with --protocol memcached, and without SETs");
	return o;
}

static void *zeroed(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory)
		peer_die("out of memory");
	return memory;
}

static void open_load(struct load *load, const char *address)
{
	const struct options *o = &load->options;

	if (o->inserts > 0)
		draw_ranks(&load->draw, o->keys, 7);
	else
		draw_open(&load->draw, o->keys, o->zipf, 7);
	load->keys = o->fill ? 0 : o->keys;
	load->noise = 11;
	load->known = zeroed(o->inserts > 0 ? NEW_KEYS_MAX : o->keys, sizeof *load->known);
	load->value = zeroed(1, o->value_bytes);
	noise_fill(&load->noise, load->value, o->value_bytes);
	load->lines = zeroed(o->connections, sizeof *load->lines);
	for (unsigned i = 0; i < o->connections; i++) {
		int fd;

		peer_connect(&load->lines[i].peer, address);
		fd = load->lines[i].peer.fd;
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
		load->watch[i].fd = fd;
	}
}

static void close_load(struct load *load)
{
	for (unsigned i = 0; i < load->options.connections; i++)
		peer_close(&load->lines[i].peer);
	draw_close(&load->draw);
	free(load->lines);
	free(load->known);
	free(load->value);
	free(load);
}

/* A server's own words in our JSON: only what needs no escape. */
static void print_error(const char *text)
{
	printf("\"first_error\":\"");
	for (; *text; text++)
		if (*text >= ' ' && *text <= '~' && *text != '"' && *text != '\\')
			putchar(*text);
	printf("\",");
}

int main(int argc, char **argv)
{
	struct load *load = zeroed(1, sizeof *load);
	uint64_t begun, end;
	double seconds, cpu_s;

	load->options = read_options(argc, argv);
	open_load(load, argv[1]);
	cpu_s = cpu_seconds();
	begun = now_us();
	end = begun + (uint64_t)(load->options.seconds * 1e6);
	while (now_us() < end && !(load->options.fill && load->sets == load->options.keys))
		turn(load);
	seconds = (double)(now_us() - begun) / 1e6;
	cpu_s = cpu_seconds() - cpu_s;
	printf("{\"gets\":%llu,\"sets\":%llu,\"missing\":%llu,\"wrong\":%llu,\"stale\":%llu,"
	       "\"errors\":%llu,",
		(unsigned long long)load->gets, (unsigned long long)load->sets,
		(unsigned long long)load->missing, (unsigned long long)load->wrong,
		(unsigned long long)load->stale, (unsigned long long)load->errors);
	print_error(load->first_error);
	printf("\"seconds\":%.6f,\"gets_s\":%.1f,\"cpu_s\":%.3f,", seconds,
		(double)load->gets / seconds, cpu_s);
	histogram_print(&load->histogram);
	printf("}\n");
	close_load(load);
	return 0;
}
