#include "control/notify.h"

#include "base/clock.h"
#include "base/printable.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef KW_HAVE_SYSTEMD
#include <systemd/sd-daemon.h>

#define STORE_US UINT64_C(3000000)
#endif

#ifdef KW_HAVE_SYSTEMD
static void tell(const char *text)
{
	sd_notify(0, text); /* without a service manager: 0, nothing to do */
}

static uint64_t watchdog_us(void)
{
	uint64_t us = 0;

	return sd_watchdog_enabled(0, &us) > 0 ? us : 0;
}

static bool store(const char *text, int fd)
{
	if (sd_pid_notify_with_fds(0, 0, text, &fd, 1) <= 0)
		return false;
	/* The manager knows the sender by its process, which must live until then. */
	(void)sd_notify_barrier(0, STORE_US);
	return true;
}
#else
static void tell(const char *text)
{
	(void)text;
}

static uint64_t watchdog_us(void)
{
	return 0;
}

static bool store(const char *text, int fd)
{
	(void)text;
	(void)fd;
	return false;
}
#endif

static void feed_watchdog(uv_timer_t *timer)
{
	(void)timer;
	tell("WATCHDOG=1");
}

void kw_notify_init(struct kw_notify *notify, uv_loop_t *loop)
{
	uint64_t period_ms = watchdog_us() / 2000;

	notify->status[0] = '\0';
	uv_timer_init(loop, &notify->watchdog);
	uv_unref((uv_handle_t *)&notify->watchdog);
	if (period_ms > 0)
		uv_timer_start(&notify->watchdog, feed_watchdog, period_ms, period_ms);
}

void kw_notify_close(struct kw_notify *notify)
{
	uv_close((uv_handle_t *)&notify->watchdog, NULL);
}

bool kw_notify_has_manager(void)
{
	const char *manager = getenv("NOTIFY_SOCKET");

	return manager && *manager;
}

bool kw_notify_can_store(void)
{
#ifdef KW_HAVE_SYSTEMD
	return kw_notify_has_manager();
#else
	return false;
#endif
}

bool kw_notify_store(const char *name, int fd)
{
	char text[128];

	snprintf(text, sizeof text, "FDSTORE=1\nFDNAME=%s", name);
	return store(text, fd);
}

void kw_notify_forget(const char *name)
{
	char text[128];

	snprintf(text, sizeof text, "FDSTOREREMOVE=1\nFDNAME=%s", name);
	tell(text);
}

void kw_notify_extend(uint64_t us)
{
	char text[64];

	snprintf(text, sizeof text, "EXTEND_TIMEOUT_USEC=%llu", (unsigned long long)us);
	tell(text);
}

void kw_notify_ready(void)
{
	tell("READY=1");
}

void kw_notify_reloading(void)
{
	char text[64];

	/* Type=notify-reload wants the moment too; others ignore it. */
	snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%llu",
		(unsigned long long)kw_clock_us());
	tell(text);
}

void kw_notify_stopping(void)
{
	tell("STOPPING=1");
}

void kw_notify_status(struct kw_notify *notify, const char *format, ...)
{
	char line[sizeof notify->status + 8], text[sizeof notify->status],
		raw[sizeof notify->status];
	va_list args;

	va_start(args, format);
	vsnprintf(raw, sizeof raw, format, args);
	va_end(args);
	/* A new line would begin another field, such as MAINPID=. */
	kw_printable(text, sizeof text, kw_slice(raw, kw_printable_whole(raw, strlen(raw))),
		KW_NEWLINE_ESCAPED);
	if (strcmp(text, notify->status) == 0)
		return;
	memcpy(notify->status, text, sizeof text);
	snprintf(line, sizeof line, "STATUS=%s", text);
	tell(line);
}
