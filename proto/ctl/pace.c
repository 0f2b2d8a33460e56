/* How fast something goes, and how long the rest of it takes. */
#include "ctl/ctl.h"

#include "base/clock.h"

#define LOOK_US 100000 /* two looks that are nearer say nothing about a rate */
#define BAR_COLUMNS 30
#define LATEST 0.3 /* the weight of the latest rate */

size_t ctl_add(
	char line[CTL_LINE], size_t at, const char *before, const char *text, const char *after)
{
	size_t room = CTL_LINE - at;
	int length = snprintf(line + at, room, "%s%s%s", before, text, after);

	return length < 0 ? at : at + ((size_t)length < room ? (size_t)length : room - 1);
}

static void measure(struct ctl_rate *rate, double now, double seconds)
{
	double latest = now > rate->value && seconds > 0 ? (now - rate->value) / seconds : 0;

	if (rate->per_second == 0)
		rate->per_second = latest;
	else
		rate->per_second += (latest - rate->per_second) * LATEST;
	rate->value = now;
}

void ctl_pace_look(struct ctl_pace *pace, double progress, double keys, double bytes)
{
	uint64_t now_us = kw_clock_us();
	double seconds = (double)(now_us - pace->looked_us) / 1e6;

	if (pace->looked_us && now_us - pace->looked_us < LOOK_US)
		return;
	if (!pace->looked_us) {
		/* What was there at the first look came at another time. */
		pace->progress.value = progress;
		pace->keys.value = keys;
		pace->bytes.value = bytes;
	}
	measure(&pace->progress, progress, seconds);
	measure(&pace->keys, keys, seconds);
	measure(&pace->bytes, bytes, seconds);
	pace->looked_us = now_us;
}

size_t ctl_pace_compose(const struct ctl_pace *pace, char line[CTL_LINE], size_t at)
{
	double left = 1 - pace->progress.value;
	char text[160];

	ctl_bar(pace->progress.value, BAR_COLUMNS, text, sizeof text);
	at = ctl_add(line, at, "", text, "");
	if (pace->progress.per_second > 0 && left > 0)
		at = ctl_add(line, at, "  ",
			ctl_show_us(left / pace->progress.per_second * 1e6, text, sizeof text),
			" left");
	if (pace->keys.per_second > 0)
		at = ctl_add(line, at, "  ",
			ctl_show_count(pace->keys.per_second, text, sizeof text), " keys/s");
	if (pace->bytes.per_second > 0)
		at = ctl_add(line, at, "  ",
			ctl_show_bytes(pace->bytes.per_second, text, sizeof text), "/s");
	return at;
}
