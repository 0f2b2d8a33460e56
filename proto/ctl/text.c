/* How wide text is, and where its lines end. */
#include "ctl/ctl.h"

#include <unistd.h>

#define LEAST_ROOM 8 /* columns; in less than that, lines are not broken */

int ctl_width(const char *text)
{
	int columns = 0;

	for (; *text; text++)
		columns += ((unsigned char)*text & 0xc0) != 0x80;
	return columns;
}

size_t ctl_bytes_within(const char *text, int columns)
{
	size_t at = 0;

	for (int used = 0; text[at]; at++)
		if (((unsigned char)text[at] & 0xc0) != 0x80 && ++used > columns)
			break;
	return at;
}

size_t ctl_end_of_line(const char *text, int columns)
{
	size_t most = ctl_bytes_within(text, columns), end = most;

	if (!text[most])
		return most;
	while (end > 0 && text[end] != ' ')
		end--;
	return end > 0 ? end : most;
}

int ctl_columns_of_output(void)
{
	return isatty(STDOUT_FILENO) ? ctl_columns(stdout) : 0;
}

void ctl_put_wrapped(FILE *stream, const char *text, int indent, int columns)
{
	int room = columns - indent - 1;

	while (columns > 0 && room >= LEAST_ROOM && ctl_width(text) > room) {
		size_t end = ctl_end_of_line(text, room);

		fprintf(stream, "%.*s\n%*s", (int)end, text, indent, "");
		text += end;
		while (*text == ' ')
			text++;
	}
	fprintf(stream, "%s\n", text);
}

void ctl_print_wrapped(const char *text, int indent)
{
	ctl_put_wrapped(stdout, text, indent, ctl_columns_of_output());
}
