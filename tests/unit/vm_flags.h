/* The flags that the kernel has for the mapping of an address of ours (man proc_pid_smaps). */
#ifndef KW_TEST_VM_FLAGS_H
#define KW_TEST_VM_FLAGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "dd": core dumps leave it out. */
static inline bool vm_has_flag(const void *address, const char *flag)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long long from, to, at = (uintptr_t)address;
	char line[512], word[8];
	bool inside = false, has = false;

	if (!file)
		abort();
	snprintf(word, sizeof word, " %s", flag);
	while (fgets(line, sizeof line, file)) {
		if (sscanf(line, "%llx-%llx ", &from, &to) == 2)
			inside = at >= from && at < to;
		if (inside && strncmp(line, "VmFlags:", 8) == 0)
			has = strstr(line, word) != NULL;
	}
	fclose(file);
	return has;
}

#endif
