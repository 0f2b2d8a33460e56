/* The events of a device and those who watch for them, who may stop at any of them. */
#include "rdma_kit.h"

#include "fake_verbs_state.h"
#include "remote/rdma/event.h"
#include "remote/rdma/watch.h"

#define WATCHERS 3

struct watcher {
	struct kw_rdma_watch watch;
	int told, stops_at;
};

static uv_loop_t loop;
static uv_idle_t others; /* a daemon's other handles, which keep the loop alive */
static struct rdma_event_channel *channel;
static struct rdma_cm_id *id; /* of those who watch */
static struct watcher watchers[WATCHERS];

static void on_told(void *owner, const struct ibv_async_event *event)
{
	struct watcher *watcher = owner;

	assert_int_equal(event->event_type, IBV_EVENT_PORT_ERR);
	if (++watcher->told == watcher->stops_at)
		kw_rdma_watch_stop(&watcher->watch);
}

static void start(struct watcher *watcher, int stops_at)
{
	struct kw_error error;

	*watcher = (struct watcher){
		.watch = {.told = on_told, .owner = watcher}, .stops_at = stops_at};
	assert_int_equal(kw_rdma_watch_start(&watcher->watch, &loop, &fake_context, id, &error), 0);
}

static void raise_events(int count)
{
	for (int i = 0; i < count; i++)
		fake_verbs_async(IBV_EVENT_PORT_ERR, 1);
}

static void turns(void)
{
	for (int i = 0; i < 5; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

static void make_id(void)
{
	struct sockaddr_in here = {.sin_family = AF_INET};
	struct kw_error error;

	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	channel = kw_rdma_channel_new(&error);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&here), 0);
}

/* As an owner does it when it hears of the removal. */
static void destroy_id(void)
{
	struct kw_rdma_cm_event cm_event;

	if (!id)
		return;
	while (kw_rdma_cm_event_take(channel, &cm_event))
		continue;
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	id = NULL;
}

static void on_others(uv_idle_t *idle)
{
	(void)idle;
}

static int begin(void **state)
{
	if (rdma_begin(state) || uv_loop_init(&loop))
		return 1;
	uv_idle_init(&loop, &others);
	uv_idle_start(&others, on_others);
	make_id();
	return 0;
}

static int end(void **state)
{
	for (int i = 0; i < WATCHERS; i++)
		kw_rdma_watch_stop(&watchers[i].watch);
	destroy_id();
	uv_close((uv_handle_t *)&others, NULL);
	/* What is idle does not keep the loop from its end. */
	uv_run(&loop, UV_RUN_DEFAULT);
	kw_rdma_watch_end(&loop);
	/* Nothing polls any more, and no handle is left behind. */
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop) || rdma_nothing_left(state);
}

static void all_who_watch_are_told_of_each_event(void **state)
{
	for (int i = 0; i < WATCHERS; i++)
		start(&watchers[i], 0);
	raise_events(4);
	turns();
	for (int i = 0; i < WATCHERS; i++)
		assert_int_equal(watchers[i].told, 4);
}

/* Each of them in turn; the others go on. */
static void one_may_stop_amid_the_events(void **state)
{
	for (int stops = 0; stops < WATCHERS; stops++) {
		for (int i = 0; i < WATCHERS; i++)
			start(&watchers[i], i == stops ? 2 : 0);
		raise_events(3);
		turns();
		for (int i = 0; i < WATCHERS; i++) {
			assert_int_equal(watchers[i].told, i == stops ? 2 : 3);
			kw_rdma_watch_stop(&watchers[i].watch);
		}
		turns();
	}
}

/* What came behind is for whoever watches next: the descriptor is the process's. */
static void the_last_may_stop_amid_the_events(void **state)
{
	for (int i = 0; i < WATCHERS; i++)
		start(&watchers[i], 1);
	raise_events(3);
	turns();
	for (int i = 0; i < WATCHERS; i++)
		assert_int_equal(watchers[i].told, 1);
	start(&watchers[0], 0);
	turns();
	assert_int_equal(watchers[0].told, 2);
}

static void the_last_may_stop_as_the_device_goes(void **state)
{
	start(&watchers[0], 1);
	fake_verbs_remove();
	raise_events(2);
	turns();
	assert_int_equal(watchers[0].told, 1);
	assert_false(fake_verbs_held());
	fake_verbs_add();
}

/* No connection is there, and so no event of one. */
static void an_idle_device_is_let_go_of_when_it_is_removed(void **state)
{
	start(&watchers[0], 0);
	kw_rdma_watch_stop(&watchers[0].watch);
	destroy_id();
	turns();
	assert_true(fake_verbs_held());
	fake_verbs_remove();
	turns();
	assert_false(fake_verbs_held());
	fake_verbs_add();
}

static void who_watches_again_is_told_of_the_same_device(void **state)
{
	for (int turn = 0; turn < 3; turn++) {
		start(&watchers[0], 0);
		raise_events(1);
		turns();
		assert_int_equal(watchers[0].told, 1);
		kw_rdma_watch_stop(&watchers[0].watch);
		turns();
	}
}

/* Those who watch hear of it by their own ids: their context stays until the last has stopped. */
static void a_watched_device_is_kept_until_the_last_stops(void **state)
{
	start(&watchers[0], 0);
	start(&watchers[1], 0);
	fake_verbs_remove();
	turns();
	kw_rdma_watch_stop(&watchers[0].watch);
	turns();
	assert_true(fake_verbs_held());
	kw_rdma_watch_stop(&watchers[1].watch);
	assert_false(fake_verbs_held());
	fake_verbs_add();
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		T(all_who_watch_are_told_of_each_event),
		T(one_may_stop_amid_the_events),
		T(the_last_may_stop_amid_the_events),
		T(the_last_may_stop_as_the_device_goes),
		T(an_idle_device_is_let_go_of_when_it_is_removed),
		T(who_watches_again_is_told_of_the_same_device),
		T(a_watched_device_is_kept_until_the_last_stops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
