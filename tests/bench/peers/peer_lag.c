/*
 * peer-lag: how long after a write is it on the replica?
 *
 *   peer-lag unix:///primary unix:///replica [--rate N] [--seconds N] [--keys N] [--value-bytes N]
 *            [--uniform] [--drain-ms N]
 *
 * Writes SET lag:<n> to the primary at a steady rate, a burst each millisecond, and watches the
 * replica's own keyspace notifications (it switches them on there) for what arrives: `restore` from
 * keywake, `set` from the server's own replication. Each arrival is timed against the moment its
 * burst was handed to the primary's socket. Keys are written in turn, or with --uniform drawn at
 * random. A key written again before it arrived counts as overtaken, and its arrival against the
 * later write. When the writing is over it waits up to --drain-ms (2000) for what is still owed;
 * end_us says how long after the last write the last arrival was, owed how many keys never came.
 * Prints one JSON object, microseconds.
 */
#include "noise.h"
#include "words.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BURST_US 1000
#define INPUT_BYTES (1 << 20)
#define BURST_BYTES (8 << 20)
#define BURST_KEYS 65536
#define COMMAND_BYTES 64 /* without the value */
#define KEY_FORMAT "lag:%09u"
#define KEY_BYTES 13
#define EVENT_MARK "\r\n$13\r\nlag:"

struct options {
	const char *primary, *replica;
	uint32_t rate, seconds, keys, value_bytes;
	uint64_t drain_us;
	bool uniform;
};

struct run {
	struct options options;
	int primary, replica;
	uint64_t *written_us; /* by key; 0: nothing owed */
	uint32_t *lags;
	size_t lag_count, lag_capacity;
	uint64_t written, overtaken, noise;
	uint64_t owed;                /* keys written and not arrived */
	uint64_t sent_us, arrived_us; /* the last of each */
	uint32_t *burst_keys;         /* of the burst being sent */
	char input[INPUT_BYTES];
	size_t input_length;
	char *burst;
};

static void die(const char *what)
{
	fprintf(stderr, "peer-lag: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static int connect_to(const char *address)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (strncmp(address, "unix://", 7) == 0)
		address += 7;
	snprintf(name.sun_path, sizeof name.sun_path, "%s", address);
	if (fd < 0 || connect(fd, (struct sockaddr *)&name, sizeof name) < 0)
		die(address);
	return fd;
}

static void write_all(int fd, const char *data, size_t length)
{
	while (length > 0) {
		ssize_t n = write(fd, data, length);

		if (n < 0 && errno != EINTR)
			die("write");
		if (n > 0) {
			data += n;
			length -= (size_t)n;
		}
	}
}

/* One command whose answer is a single line or is not looked at further. */
static void ask(int fd, const char *command)
{
	char answer[4096];

	write_all(fd, command, strlen(command));
	if (read(fd, answer, sizeof answer) <= 0)
		die("read");
	if (answer[0] == '-') {
		fprintf(stderr, "peer-lag: %.*s: %.100s\n", 40, command, answer);
		exit(1);
	}
}

static void drop_replies(int fd)
{
	char answers[65536];

	while (recv(fd, answers, sizeof answers, MSG_DONTWAIT) > 0)
		continue;
}

static uint32_t draw_key(struct run *run)
{
	uint64_t number = run->options.uniform ? noise_next(&run->noise) : run->noise++;

	return (uint32_t)(number % run->options.keys);
}

static void send_burst(struct run *run, uint32_t count)
{
	size_t length = 0;

	for (uint32_t i = 0; i < count; i++) {
		run->burst_keys[i] = draw_key(run);
		length += (size_t)sprintf(run->burst + length,
			"*3\r\n$3\r\nSET\r\n$13\r\n" KEY_FORMAT "\r\n$%u\r\n%0*llu\r\n",
			run->burst_keys[i], run->options.value_bytes, (int)run->options.value_bytes,
			(unsigned long long)(run->written + i));
	}
	run->sent_us = now_us();
	for (uint32_t i = 0; i < count; i++) {
		uint64_t *written_us = &run->written_us[run->burst_keys[i]];

		run->overtaken += *written_us != 0;
		run->owed += *written_us == 0;
		*written_us = run->sent_us;
	}
	write_all(run->primary, run->burst, length);
	run->written += count;
	drop_replies(run->primary);
}

static void arrived(struct run *run, uint32_t key, uint64_t now)
{
	if (key >= run->options.keys || run->written_us[key] == 0)
		return;
	if (run->lag_count < run->lag_capacity)
		run->lags[run->lag_count++] = (uint32_t)(now - run->written_us[key]);
	run->written_us[key] = 0;
	run->owed--;
	run->arrived_us = now;
}

static void take_events(struct run *run)
{
	ssize_t n = recv(run->replica, run->input + run->input_length,
		sizeof run->input - run->input_length - 1, MSG_DONTWAIT);
	uint64_t now = now_us();
	char *at = run->input, *mark;

	if (n == 0)
		die("the replica closed the connection");
	if (n < 0)
		return;
	run->input_length += (size_t)n;
	run->input[run->input_length] = '\0';
	while ((mark = strstr(at, EVENT_MARK))) {
		char *number = mark + sizeof EVENT_MARK - 1;

		if (number + 11 > run->input + run->input_length)
			break;
		arrived(run, (uint32_t)strtoul(number, NULL, 10), now);
		at = number + 9;
	}
	if (!mark && run->input + run->input_length - at > 64)
		at = run->input + run->input_length - 64; /* a mark may be cut */
	run->input_length -= (size_t)(at - run->input);
	memmove(run->input, at, run->input_length);
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static uint32_t quantile(const struct run *run, double q)
{
	return run->lag_count ? run->lags[(size_t)((double)(run->lag_count - 1) * q)] : 0;
}

/* Asleep until then: a yardstick that spins takes a core from what it measures. */
static bool wait_events(const struct run *run, uint64_t until_us)
{
	struct pollfd watch = {.fd = run->replica, .events = POLLIN};
	uint64_t now = now_us(), left = until_us > now ? until_us - now : 0;
	struct timespec timeout = {(time_t)(left / 1000000), (long)(left % 1000000) * 1000};

	return ppoll(&watch, 1, &timeout, NULL) > 0;
}

static void go(struct run *run)
{
	uint64_t start = now_us(), end = start + run->options.seconds * UINT64_C(1000000);
	uint64_t due = start;
	double owed = 0;

	while (now_us() < end + run->options.drain_us) {
		uint64_t now = now_us();

		if (now >= due && now < end) {
			owed += run->options.rate * (BURST_US / 1e6);
			send_burst(run, (uint32_t)owed);
			owed -= (uint32_t)owed;
			due += BURST_US;
			/* Having been held up is not made up for by one large burst. */
			if (due + 100 * BURST_US < now)
				due = now;
		}
		if (wait_events(run, now < end ? due : now + BURST_US))
			take_events(run);
		if (now >= end && run->owed == 0)
			break;
	}
}

static struct options read_options(int argc, char **argv)
{
	return (struct options){argv[1], argv[2],
		(uint32_t)words_number(argc, argv, "--rate", 10000),
		(uint32_t)words_number(argc, argv, "--seconds", 10),
		(uint32_t)words_number(argc, argv, "--keys", 100000),
		(uint32_t)words_number(argc, argv, "--value-bytes", 100),
		(uint64_t)words_number(argc, argv, "--drain-ms", 2000) * 1000,
		words_have(argc, argv, "--uniform")};
}

int main(int argc, char **argv)
{
	struct run *run = calloc(1, sizeof *run);
	uint32_t burst;

	if (argc < 3) {
		fprintf(stderr,
			"usage: peer-lag unix:///primary unix:///replica [--rate N] "
			"[--seconds N] [--keys N] [--value-bytes N] [--uniform] [--drain-ms N]\n");
		return 1;
	}
	run->options = read_options(argc, argv);
	burst = run->options.rate / (1000000 / BURST_US) + 1;
	if (run->options.keys == 0 || burst > BURST_KEYS ||
		(uint64_t)burst * (run->options.value_bytes + COMMAND_BYTES) > BURST_BYTES) {
		fprintf(stderr, "peer-lag: a burst a millisecond of that rate is too large\n");
		return 1;
	}
	run->lag_capacity = (size_t)run->options.rate * run->options.seconds * 2;
	run->lags = calloc(run->lag_capacity, sizeof *run->lags);
	run->written_us = calloc(run->options.keys, sizeof *run->written_us);
	run->burst = malloc(BURST_BYTES);
	run->burst_keys = calloc(BURST_KEYS, sizeof *run->burst_keys);
	run->primary = connect_to(argv[1]);
	run->replica = connect_to(argv[2]);
	ask(run->replica, "CONFIG SET notify-keyspace-events Eg$\r\n");
	ask(run->replica, "SUBSCRIBE __keyevent@0__:restore __keyevent@0__:set\r\n");
	go(run);
	qsort(run->lags, run->lag_count, sizeof *run->lags, by_size);
	printf("{\"written\":%llu,\"arrived\":%zu,\"overtaken\":%llu,\"owed\":%llu,\"p50_us\":%u,"
	       "\"p99_us\":%u,\"max_us\":%u,\"end_us\":%llu}\n",
		(unsigned long long)run->written, run->lag_count,
		(unsigned long long)run->overtaken, (unsigned long long)run->owed,
		quantile(run, 0.5), quantile(run, 0.99), quantile(run, 1.0),
		(unsigned long long)(run->arrived_us > run->sent_us ? run->arrived_us - run->sent_us
								    : 0));
	return 0;
}
