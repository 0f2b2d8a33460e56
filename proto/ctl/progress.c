/*
 * The progress of a call that takes long, on standard error, while that is a terminal. The daemon
 * tells it as events, on a connection of its own: the other one waits for the answer.
 */
#include "ctl/ctl.h"

#include "base/clock.h"

#include <string.h>
#include <unistd.h>

#define DRAW_US 200000 /* between two looks */
#define SUBSCRIBE_MS 5000
#define EVENTS_MAX 1000 /* taken at one look */

void ctl_progress_begin(struct ctl_progress *progress, const char *socket, const char *kind)
{
	struct kw_error ignored;

	*progress = (struct ctl_progress){.kind = kind};
	if (!isatty(STDERR_FILENO))
		return;
	ctl_line_begin(stderr);
	if (kw_rpc_client_open(socket, &progress->events, &ignored))
		progress->events = NULL;
	else if (kw_rpc_client_call(
			 progress->events, "events.subscribe", NULL, SUBSCRIBE_MS, NULL, &ignored))
		ctl_progress_end(progress);
}

static void draw(struct ctl_progress *progress, const json_t *event)
{
	double keys = json_number_value(json_object_get(event, "keys"));
	double bytes = json_number_value(json_object_get(event, "bytes"));
	char line[CTL_LINE], text[64];
	size_t at = ctl_add(line, 0, "", progress->kind, " ");

	ctl_pace_look(&progress->pace, json_number_value(json_object_get(event, "progress")), keys,
		bytes);
	at = ctl_pace_compose(&progress->pace, line, at);
	at = ctl_add(line, at, "  ", ctl_show_count(keys, text, sizeof text), " keys");
	if (bytes > 0)
		ctl_add(line, at, "  ", ctl_show_bytes(bytes, text, sizeof text), "");
	ctl_line_draw(line);
}

/* The latest event is drawn; the others tell the same of earlier. */
void ctl_progress_look(struct ctl_progress *progress)
{
	json_t *latest = NULL, *event;
	struct kw_error ignored;

	if (!progress->events || kw_clock_us() - progress->drawn_us < DRAW_US)
		return;
	progress->drawn_us = kw_clock_us();
	for (int i = 0;
		i < EVENTS_MAX && kw_rpc_client_event(progress->events, 0, &event, &ignored) == 0;
		i++) {
		const char *kind = json_string_value(json_object_get(event, "kind"));

		if (kind && strcmp(kind, progress->kind) == 0) {
			json_decref(latest);
			latest = json_incref(event);
		}
		json_decref(event);
	}
	if (latest)
		draw(progress, latest);
	json_decref(latest);
}

void ctl_progress_end(struct ctl_progress *progress)
{
	kw_rpc_client_close(progress->events);
	progress->events = NULL;
	ctl_line_end(false);
}
