/*
 * peer-load ADDRESS: SETs over a known set of keys, as a server's users send them.
 *
 *   --seconds N      how long; 0: until standard input closes
 *   --connections N  each with its own batch under way (50)
 *   --pipeline N     commands in a batch (1)
 *   --rate N         SETs a second in all; 0: as many as the server takes
 *   --keys N         key:<12 digits>, those of peer-fill (1000000)
 *   --value-bytes N  (100)
 *   --zipf           keys by a Zipf law of exponent 0.99, the ranks scattered; otherwise uniform
 *
 * Prints SETs a second, CPU seconds of its own and how long a batch took, as one JSON object. The
 * keys are drawn before the clocks start, so both laws cost the same while it runs.
 */
#include "draw.h"
#include "histogram.h"
#include "noise.h"
#include "peer.h"
#include "words.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 512
#define PIPELINE_MAX 1024
#define HEAD "*3\r\n$3\r\nSET\r\n$16\r\nkey:"
#define HEAD_BYTES (sizeof HEAD - 1)
#define DIGITS 12
#define TURN_MS 1

struct options {
	double seconds, rate;
	unsigned connections, pipeline, keys, value_bytes;
	bool zipf;
};

struct line { /* one connection */
	int fd;
	unsigned owed;      /* replies */
	uint64_t sent_us;   /* when its batch went out */
	size_t out_at;      /* of the batch already written */
	size_t batch_bytes; /* 0: none under way */
	char *batch;
};

struct load {
	struct options options;
	struct line lines[CONNECTIONS_MAX];
	struct pollfd watch[CONNECTIONS_MAX + 1];
	struct draw draw;
	size_t command_bytes, value_at;
	uint64_t sets, begun_us;
	uint64_t stamp;
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

/* The batch of a connection: `pipeline` times the same command, in which key and value change. */
static void build_batch(struct load *load, struct line *line)
{
	const struct options *o = &load->options;
	char head[64];
	int head_bytes =
		snprintf(head, sizeof head, HEAD "%0*u\r\n$%u\r\n", DIGITS, 0, o->value_bytes);
	uint64_t noise = (uint64_t)line->fd;
	char *at;

	load->value_at = (size_t)head_bytes;
	load->command_bytes = load->value_at + o->value_bytes + 2;
	line->batch = at = malloc(load->command_bytes * o->pipeline);
	if (!line->batch)
		peer_die("out of memory");
	for (unsigned i = 0; i < o->pipeline; i++, at += load->command_bytes) {
		memcpy(at, head, load->value_at);
		noise_fill(&noise, at + load->value_at, o->value_bytes);
		memcpy(at + load->command_bytes - 2, "\r\n", 2);
	}
}

static void write_digits(char *at, uint32_t key)
{
	for (int i = DIGITS - 1; i >= 0; i--, key /= 10)
		at[i] = (char)('0' + key % 10);
}

static void write_some(struct line *line)
{
	ssize_t n = send(line->fd, line->batch + line->out_at, line->batch_bytes - line->out_at,
		MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		peer_die("write: %s", strerror(errno));
	if (n > 0)
		line->out_at += (size_t)n;
}

static void send_batch(struct load *load, struct line *line, unsigned count)
{
	char *at = line->batch;

	for (unsigned i = 0; i < count; i++, at += load->command_bytes) {
		uint64_t stamp = ++load->stamp;

		write_digits(at + HEAD_BYTES, draw_next(&load->draw));
		memcpy(at + load->value_at, &stamp,
			load->options.value_bytes < sizeof stamp ? load->options.value_bytes
								 : sizeof stamp);
	}
	line->owed = count;
	line->batch_bytes = count * load->command_bytes;
	line->out_at = 0;
	line->sent_us = now_us();
	write_some(line);
}

static void take_replies(struct load *load, struct line *line)
{
	char replies[PIPELINE_MAX * 8];
	ssize_t n = recv(line->fd, replies, sizeof replies, MSG_DONTWAIT);

	if (n == 0)
		peer_die("the server closed");
	for (ssize_t i = 0; i < n; i++) {
		if (replies[i] == '-')
			peer_die("the server says: %.*s", (int)(n - i), replies + i);
		line->owed -= replies[i] == '\n';
		load->sets += replies[i] == '\n';
	}
	if (n > 0 && line->owed == 0) {
		histogram_add(&load->histogram, now_us() - line->sent_us);
		line->batch_bytes = 0;
	}
}

/* How many SETs may go out now. A load that was held up does not make up for more than 100 ms. */
static unsigned allowed(struct load *load, uint64_t now, uint64_t *granted)
{
	double due = (double)(now - load->begun_us) / 1e6 * load->options.rate;
	double slack = load->options.rate / 10;

	if (load->options.rate <= 0)
		return load->options.pipeline;
	if (due - (double)*granted > slack)
		*granted = (uint64_t)(due - slack);
	if (due < (double)*granted + 1)
		return 0;
	due -= (double)*granted;
	return due < load->options.pipeline ? (unsigned)due : load->options.pipeline;
}

static void turn(struct load *load, uint64_t *granted)
{
	unsigned connections = load->options.connections;
	uint64_t now = now_us();

	for (unsigned i = 0; i < connections; i++) {
		struct line *line = &load->lines[i];
		unsigned count;

		if (line->batch_bytes == 0 && (count = allowed(load, now, granted)) > 0) {
			*granted += count;
			send_batch(load, line, count);
		}
		load->watch[i].events =
			(short)(POLLIN | (line->out_at < line->batch_bytes ? POLLOUT : 0));
	}
	if (poll(load->watch, connections + 1, TURN_MS) <= 0)
		return;
	for (unsigned i = 0; i < connections; i++) {
		if (load->watch[i].revents & POLLOUT)
			write_some(&load->lines[i]);
		if (load->watch[i].revents & ~POLLOUT)
			take_replies(load, &load->lines[i]);
	}
}

static void go(struct load *load)
{
	unsigned connections = load->options.connections;
	uint64_t granted = 0, end;
	struct pollfd *input = &load->watch[connections];

	/* Told to run for a time, it does not listen to its input. */
	*input = (struct pollfd){.fd = load->options.seconds > 0 ? -1 : 0, .events = POLLIN};
	load->begun_us = now_us();
	end = load->options.seconds > 0 ? load->begun_us + (uint64_t)(load->options.seconds * 1e6)
					: UINT64_MAX;
	while (now_us() < end && !input->revents)
		turn(load, &granted);
}

static void connect_all(struct load *load, const char *address)
{
	for (unsigned i = 0; i < load->options.connections; i++) {
		struct line *line = &load->lines[i];
		struct peer peer;

		peer_connect(&peer, address);
		free(peer.in.data);
		free(peer.out.data);
		line->fd = peer.fd;
		fcntl(line->fd, F_SETFL, fcntl(line->fd, F_GETFL) | O_NONBLOCK);
		load->watch[i].fd = line->fd;
		build_batch(load, line);
	}
}

static struct options read_options(int argc, char **argv)
{
	struct options o = {
		.seconds = words_number(argc, argv, "--seconds", 10),
		.rate = words_number(argc, argv, "--rate", 0),
		.connections = (unsigned)words_number(argc, argv, "--connections", 50),
		.pipeline = (unsigned)words_number(argc, argv, "--pipeline", 1),
		.keys = (unsigned)words_number(argc, argv, "--keys", 1000000),
		.value_bytes = (unsigned)words_number(argc, argv, "--value-bytes", 100),
		.zipf = words_have(argc, argv, "--zipf"),
	};

	if (argc < 2 || o.connections < 1 || o.connections > CONNECTIONS_MAX || o.pipeline < 1 ||
		o.pipeline > PIPELINE_MAX || o.keys < 1 || o.value_bytes < 1)
		peer_die("usage: peer-load ADDRESS [--seconds N] [--connections 1..%d] "
			 "[--pipeline 1..%d] [--rate N] [--keys N] [--value-bytes N] [--zipf]",
			CONNECTIONS_MAX, PIPELINE_MAX);
	return o;
}

int main(int argc, char **argv)
{
	struct load *load = calloc(1, sizeof *load);
	double seconds, cpu_s;

	if (!load)
		peer_die("out of memory");
	load->options = read_options(argc, argv);
	draw_open(&load->draw, load->options.keys, load->options.zipf, 7);
	connect_all(load, argv[1]);
	cpu_s = cpu_seconds();
	go(load);
	seconds = (double)(now_us() - load->begun_us) / 1e6;
	cpu_s = cpu_seconds() - cpu_s;
	printf("{\"sets\":%llu,\"seconds\":%.6f,\"sets_s\":%.1f,\"cpu_s\":%.3f,",
		(unsigned long long)load->sets, seconds, (double)load->sets / seconds, cpu_s);
	histogram_print(&load->histogram);
	printf("}\n");
	for (unsigned i = 0; i < load->options.connections; i++) {
		close(load->lines[i].fd);
		free(load->lines[i].batch);
	}
	draw_close(&load->draw);
	free(load);
	return 0;
}
