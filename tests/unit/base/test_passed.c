/* Sockets of systemd are found by their names, and only those meant for this process. */
#include "base/passed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_socket_is_found_by_its_name(void **state)
{
	static const struct {
		const char *name, *pid, *count, *names;
		int fd;
	} cases[] = {
		{"link", "7", "1", "link", 3},
		{"link", "7", "2", "other:link", 4},
		{"other", "7", "2", "other:link", 3},
		{"link", "7", "3", "::link", 5},
		{"", "7", "3", "a::link", -1},
		{"link", "8", "1", "link", -1},
		{"link", "07", "1", "link", 3},
		{"link", "7x", "1", "link", -1},
		{"link", "-7", "1", "link", -1},
		{"link", NULL, "1", "link", -1},
		{"link", "7", NULL, "link", -1},
		{"link", "7", "1", NULL, -1},
		{"link", "7", "0", "link", -1},
		{"link", "7", "-1", "link", -1},
		{"link", "7", "1", "other:link", -1},
		{"link", "7", "9", "other", -1},
		{"link", "7", "9", "linkage:lin", -1},
		{"link", "7", "9", "", -1},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int fd = kw_passed_find(
			cases[i].name, cases[i].pid, cases[i].count, cases[i].names, 7);

		if (fd != cases[i].fd)
			fail_msg("case %zu: %d", i, fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_socket_is_found_by_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
