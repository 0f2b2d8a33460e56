#include "control/signals.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static sigset_t ours(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	return set;
}

void kw_signals_block(void)
{
	sigset_t set = ours();

	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void tell(struct kw_signals *signals, uint32_t number)
{
	if (number != SIGHUP) {
		signals->state = KW_SIGNALS_ENDING;
		signals->handlers.ended(
			signals->handlers.arg, number == SIGINT ? "SIGINT" : "SIGTERM");
	} else if (signals->state == KW_SIGNALS_ALL) {
		signals->handlers.reload(signals->handlers.arg);
	}
}

/* One at a time: the callback may close this. The poll is level-triggered and comes again. */
static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct kw_signals *signals = poll->data;
	struct signalfd_siginfo info;

	if (read(signals->fd, &info, sizeof info) == (ssize_t)sizeof info)
		tell(signals, info.ssi_signo);
}

int kw_signals_start(struct kw_signals *signals, uv_loop_t *loop,
	const struct kw_signals_handlers *handlers, struct kw_error *error)
{
	sigset_t set = ours();
	int status;

	assert(signals->state == KW_SIGNALS_OFF);
	signals->handlers = *handlers;
	signals->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (signals->fd < 0)
		return kw_error_errno(error, errno, "no descriptor for signals");
	status = uv_poll_init(loop, &signals->poll, signals->fd);
	if (status != 0) {
		close(signals->fd);
		return kw_error_errno(error, -status, "signals cannot be watched for");
	}
	signals->poll.data = signals;
	uv_poll_start(&signals->poll, UV_READABLE, on_readable);
	signals->state = KW_SIGNALS_ALL;
	return KW_OK;
}

static void on_closed(uv_handle_t *handle)
{
	struct kw_signals *signals = handle->data;

	close(signals->fd);
}

void kw_signals_close(struct kw_signals *signals)
{
	if (signals->state == KW_SIGNALS_OFF)
		return;
	signals->state = KW_SIGNALS_OFF;
	uv_close((uv_handle_t *)&signals->poll, on_closed);
}
