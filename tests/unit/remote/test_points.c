/*
 * Whatever call to the system fails, at whatever moment: a connection is made and serves READs, or
 * ends with a sentence. Each READ is told back once, nothing hangs, and nothing is left behind.
 *
 * One round is the whole life of a proxy's end and an agent's end. The n-th call of a function
 * fails in it, for n = 1, 2, 3 … until the round has no n-th call.
 */
#include "fixture.h"

#ifdef KW_HAVE_RDMA
#include "fake_verbs.h"
#endif
#include "points.h"

#include <errno.h>

#define READS 4
#define ROUNDS_MAX 400 /* of one sweep: more means that failing makes it call again and again */
#define TIMEOUT_MS 1000
#define MOMENTS                                                                                    \
	3000 /* turns of the loop that wait for something; each some milliseconds at most          \
	      */

struct round {
	uv_loop_t loop;
	uv_timer_t tick;
	char folder[64];
	struct kw_memory memory;
	struct kw_server *server;
	struct kw_remote *remote;
	struct try tries[READS];
	int ready, closed, server_closed, told;
	struct kw_error why;
};

/* ---- the two ends ---- */

static void on_tick(uv_timer_t *timer)
{
	(void)timer;
}

static uint64_t on_epoch(void *arg)
{
	(void)arg;
	return EPOCH;
}

static void on_session(void *arg, const struct kw_session_info *session)
{
	(void)arg;
	(void)session;
}

static void on_left(void *arg, const struct kw_session_info *session, const char *why)
{
	(void)arg;
	(void)session;
	assert_true(why[0] != '\0');
}

static void on_rejected(void *arg, const char *why)
{
	(void)arg;
	assert_true(why[0] != '\0');
}

static void on_server_closed(void *arg)
{
	((struct round *)arg)->server_closed++;
}

static void on_ready(void *arg, const struct kw_remote_info *info)
{
	(void)info;
	((struct round *)arg)->ready++;
}

static void on_closed(void *arg, const struct kw_error *why)
{
	struct round *round = arg;

	round->closed++;
	round->why = *why;
}

#define AWAIT(round, condition)                                                                    \
	do {                                                                                       \
		for (int i_ = 0; i_ < MOMENTS && !(condition); i_++)                               \
			uv_run(&(round)->loop, UV_RUN_ONCE);                                       \
		assert_true(condition);                                                            \
	} while (0)

static struct kw_address address_of(const struct round *round)
{
	struct kw_address address = {.carrier = carrier};

	if (carrier == KW_CARRIER_SHM)
		snprintf(address.path, sizeof address.path, "%s/s", round->folder);
	else
		strcpy(address.host, "127.0.0.1");
	return address;
}

static bool make_memory(struct round *round)
{
	struct kw_extent extent = {.offset = 0, .length = 1 << 20};
	struct kw_error error = {0};

	if (kw_memory_init(&round->memory, 1 << 20, &error) != 0 ||
		kw_memory_extend(&round->memory, &extent, &error) != 0) {
		assert_true(error.text[0] != '\0');
		return false;
	}
	fill_pattern(&round->memory, 0, extent.length);
	return true;
}

static bool serve(struct round *round)
{
	const struct kw_server_options options = {.allow_insecure = true,
		.handshake_timeout_ms = TIMEOUT_MS,
		.hello_timeout_ms = TIMEOUT_MS};
	const struct kw_server_handlers handlers = {.epoch = on_epoch,
		.joined = on_session,
		.left = on_left,
		.rejected = on_rejected,
		.arg = round};
	struct kw_address address = address_of(round);
	struct kw_error error = {0};

	round->server = kw_server_new(&round->loop, &round->memory, &options, &handlers);
	if (kw_server_listen(round->server, &address, &error) == 0)
		return true;
	assert_true(error.text[0] != '\0');
	return false;
}

static void dial(struct round *round)
{
	const struct kw_remote_handlers handlers = {on_ready, on_closed, round};
	const struct kw_remote_options options = {.agent_name = "tester",
		.allow_insecure = true,
		.connect_timeout_ms = TIMEOUT_MS,
		.read_timeout_ms = TIMEOUT_MS};
	struct kw_address address = address_of(round);
	struct kw_error error = {0};

	if (carrier != KW_CARRIER_SHM)
		address.port = kw_server_port(round->server, 0);
	if (address.port == 0 && carrier != KW_CARRIER_SHM) /* rdma: it waits for its device */
		return;
	if (kw_remote_open(&round->loop, &address, &options, &handlers, &round->remote, &error))
		assert_true(error.text[0] != '\0');
}

static void read_all(struct round *round)
{
	static const uint64_t lengths[READS] = {1, 100, 70000, 900000};
	struct kw_extent extent = {.offset = 0, .length = 1 << 20};
	const struct kw_extent *extents = round->memory.extents;

	extent.address = extents[0].address;
	extent.rkey = extents[0].rkey;
	kw_remote_set_extents(round->remote, &extent, 1);
	for (int i = 0; i < READS; i++) {
		struct kw_remote_read *read = &round->tries[i].read;

		try_init(&round->tries[i], (uint64_t)i * 1000, lengths[i]);
		kw_remote_read(round->remote, &read, 1);
	}
	for (int i = 0; i < READS; i++) {
		struct try *t = &round->tries[i];

		AWAIT(round, t->told);
		if (t->failed)
			assert_true(t->error.text[0] != '\0');
		else
			try_check(t);
	}
}

static void end(struct round *round)
{
	if (round->remote) {
		kw_remote_close(round->remote);
		AWAIT(round, round->closed == 1);
		kw_remote_free(round->remote);
	}
	for (int i = 0; i < READS; i++) {
		assert_true(!round->tries[i].bytes || round->tries[i].told == 1);
		try_free(&round->tries[i]);
	}
	if (round->server) {
		kw_server_close(round->server, on_server_closed, round);
		AWAIT(round, round->server_closed == 1);
	}
	kw_remote_end(&round->loop);
	uv_close((uv_handle_t *)&round->tick, NULL);
	uv_run(&round->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&round->loop), 0);
	kw_memory_close(&round->memory);
}

/* The functions of the libraries of rdma, which the fake makes fail. */
static bool is_verb(const char *point)
{
	return strncmp(point, "ibv_", 4) == 0 || strncmp(point, "rdma_", 5) == 0;
}

static void arm(const char *point, unsigned n, int errnum)
{
#ifdef KW_HAVE_RDMA
	fake_verbs_reset();
	if (is_verb(point) && n > 0) {
		fake_verbs.fail_call = point;
		fake_verbs.fail_errno = errnum;
		fake_verbs.fail_skip = (int)n - 1;
		fake_verbs.fail_times = 1;
	}
#endif
	if (!is_verb(point))
		kw_point_arm(point, n, errnum);
}

/* True: it failed. */
static bool disarm(const char *point)
{
	bool fired = !is_verb(point) && kw_point_fired();

#ifdef KW_HAVE_RDMA
	fired = fired || (is_verb(point) && !fake_verbs.fail_call);
	assert_int_equal(fake_verbs_left(), 0);
	fake_verbs_reset();
#endif
	kw_point_arm(point, 0, 0);
	return fired;
}

/* The n-th call of `point` fails. True: there was one. */
static bool live(const char *point, unsigned n, int errnum)
{
	struct round round = {.memory = {.fd = -1, .readonly_fd = -1}};
	char path[128];
	bool fired;

	if (getenv("KW_VERBOSE"))
		fprintf(stderr, "%s %u: %s\n", point, n, strerror(errnum));
	strcpy(round.folder, "/tmp/kw-points-XXXXXX");
	assert_non_null(mkdtemp(round.folder));
	assert_int_equal(uv_loop_init(&round.loop), 0);
	uv_timer_init(&round.loop, &round.tick);
	uv_timer_start(&round.tick, on_tick, 1, 1);
	arm(point, n, errnum);
	if (make_memory(&round) && serve(&round))
		dial(&round);
	if (round.remote)
		AWAIT(&round, round.ready || round.closed);
	if (round.ready && !round.closed)
		read_all(&round);
	else if (round.closed)
		assert_true(round.why.text[0] != '\0');
	end(&round);
	fired = disarm(point);
	/* One that could not be removed is what its owner's failing unlink would leave. */
	snprintf(path, sizeof path, "%s/s", round.folder);
	(void)unlink(path);
	assert_int_equal(rmdir(round.folder), 0);
	return fired;
}

/* ---- the sweeps ---- */

struct point {
	const char *name;
	int errnum;
};

/*
 * epoll_ctl and malloc are not here: at their failure libuv, or we, end the process at once
 * (base/buffer.h). What libuv aborts for, and no kernel returns, is left out too: an error other
 * than EINTR of its eventfd.
 */
static const struct point points[] = {{"mmap", ENOMEM}, {"memfd_create", EMFILE},
	{"ftruncate", ENOSPC}, {"fchmod", EPERM}, {"open", EMFILE}, {"fcntl", EPERM},
	{"socket", EMFILE}, {"bind", EACCES}, {"listen", ENOBUFS}, {"connect", ENOBUFS},
	{"accept4", ECONNABORTED}, {"accept4", EMFILE}, {"getsockname", ENOBUFS},
	{"getpeername", ENOTCONN}, {"send", ECONNRESET}, {"send", EAGAIN}, {"send", EINTR},
	{"sendmsg", ECONNRESET}, {"sendmsg", EAGAIN}, {"sendmsg", EINTR}, {"recv", ECONNRESET},
	{"recv", EAGAIN}, {"recv", EINTR}, {"recvmsg", ECONNRESET}, {"recvmsg", EAGAIN},
	{"recvmsg", EINTR}, {"epoll_create1", EMFILE}, {"pthread_create", EAGAIN},
	{"getrandom", EINTR}, {"getrandom", ENOSYS}, {"getaddrinfo", EAGAIN}};

/* Of eventfds. Over rdma the fake of the libraries uses them itself, in ways of its own. */
static const struct point wakes[] = {{"eventfd", EMFILE}, {"read", EINTR}, {"write", EINTR}};

#ifdef KW_HAVE_RDMA
static const struct point verbs[] = {{"rdma_create_event_channel", ENOENT},
	{"rdma_create_id", ENOMEM}, {"rdma_bind_addr", EADDRNOTAVAIL}, {"rdma_listen", EADDRINUSE},
	{"rdma_resolve_addr", ENODEV}, {"rdma_resolve_route", ENETUNREACH},
	{"rdma_connect", ENOMEM}, {"rdma_accept", ENOMEM}, {"rdma_establish", EINVAL},
	{"ibv_query_device", EIO}, {"ibv_alloc_pd", ENOMEM}, {"ibv_reg_mr", ENOMEM},
	{"ibv_create_comp_channel", EMFILE}, {"ibv_create_cq", ENOMEM}, {"ibv_create_qp", ENOMEM},
	{"ibv_modify_qp", EINVAL}, {"ibv_post_send", ENOMEM}};
#endif

static int swept; /* points that fired */

static void sweep(const struct point *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		unsigned n = 1;
		int before;

		(void)live(list[i].name, 0, 0); /* what lasts as long as the process is made now */
		before = count_fds();
		while (live(list[i].name, n, list[i].errnum)) {
			if (count_fds() != before)
				fail_msg("%s %u: %d descriptors are left", list[i].name, n,
					count_fds() - before);
			assert_true(++n < ROUNDS_MAX);
			swept++;
		}
	}
}

#define COUNT(list) (sizeof(list) / sizeof *(list))

static void over_shm_each_call_may_fail(void **state)
{
	carrier = KW_CARRIER_SHM;
	swept = 0;
	sweep(points, COUNT(points));
	sweep(wakes, COUNT(wakes));
	print_message("%d points over shm\n", swept);
	assert_true(swept > 30);
}

static void over_tcp_each_call_may_fail(void **state)
{
	carrier = KW_CARRIER_TCP;
	swept = 0;
	sweep(points, COUNT(points));
	sweep(wakes, COUNT(wakes));
	print_message("%d points over tcp\n", swept);
	assert_true(swept > 30);
}

static void reads_and_writes_may_be_short_and_interrupted(void **state)
{
	for (carrier = KW_CARRIER_SHM; carrier <= KW_CARRIER_TCP; carrier++) {
		kw_point_short(50000, 3);
		(void)live("malloc", 0, 0);
		kw_point_short(1, 0);
		/* One byte at a time: the large READ would take a million turns. */
		kw_point_short(0, 0);
	}
}

#ifdef KW_HAVE_RDMA
static void over_rdma_each_call_may_fail(void **state)
{
	carrier = KW_CARRIER_RDMA;
	swept = 0;
	sweep(points, COUNT(points));
	sweep(verbs, COUNT(verbs));
	print_message("%d points over rdma\n", swept);
	assert_true(swept > 30);
}
#endif

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(over_shm_each_call_may_fail),
		cmocka_unit_test(over_tcp_each_call_may_fail),
#ifdef KW_HAVE_RDMA
		cmocka_unit_test(over_rdma_each_call_may_fail),
#endif
		cmocka_unit_test(reads_and_writes_may_be_short_and_interrupted),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
