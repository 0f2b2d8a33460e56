/* The events of a device and those who watch for them, who may stop at any of them. */
#include "rdma_kit.h"

#include "fake_verbs_state.h"
#include "remote/rdma/watch.h"

#define WATCHERS 3

struct watcher {
	struct kw_rdma_watch watch;
	int told, stops_at;
};

static uv_loop_t loop;
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
	assert_int_equal(kw_rdma_watch_start(&watcher->watch, &loop, &fake_context, &error), 0);
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

static int begin(void **state)
{
	return rdma_begin(state) || uv_loop_init(&loop);
}

static int end(void **state)
{
	for (int i = 0; i < WATCHERS; i++)
		kw_rdma_watch_stop(&watchers[i].watch);
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

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		T(all_who_watch_are_told_of_each_event),
		T(one_may_stop_amid_the_events),
		T(the_last_may_stop_amid_the_events),
		T(the_last_may_stop_as_the_device_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
