/*
 * Messages to the service manager (sd_notify): READY, STATUS, WATCHDOG. Without libsystemd, or when
 * another program started the daemon, these functions do nothing. Loop thread only.
 */
#ifndef KW_CONTROL_NOTIFY_H
#define KW_CONTROL_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct kw_notify {
	uv_timer_t watchdog;
	char status[256]; /* as told last */
};

/* Start the watchdog's timer when the service manager asked for one. */
void kw_notify_init(struct kw_notify *notify, uv_loop_t *loop);

/* Stop; the memory may be reused once the loop has closed the handle. */
void kw_notify_close(struct kw_notify *notify);

/* Was the daemon started by a service manager, which starts it again? */
bool kw_notify_has_manager(void);

/*
 * Give the service manager a descriptor to keep until the next start, under this name (FDSTORE=1,
 * sd_notify(3)). When this returns true, the manager has been asked and has read the message, or
 * three seconds have passed. False: there is no service manager to ask.
 *
 * The next process finds it by kw_passed_fd (base/passed.h), and lets the manager forget it.
 */
bool kw_notify_can_store(void);
bool kw_notify_store(const char *name, int fd);
void kw_notify_forget(const char *name);

/*
 * What is done before READY, or between STOPPING and the end, can take so long from now on
 * (EXTEND_TIMEOUT_USEC). It never shortens what the unit allows.
 */
void kw_notify_extend(uint64_t us);

void kw_notify_ready(void);
void kw_notify_reloading(void);
void kw_notify_stopping(void);

/*
 * One line for `systemctl status`; told only if it differs from the last one. Text of any origin:
 * what is not printable is shown as \xNN.
 */
void kw_notify_status(struct kw_notify *notify, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
