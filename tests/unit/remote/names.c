#include "names.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define NAME "localhost"

static const char *of_name; /* NULL: what the system says */

void names_set(struct kw_address *address, const char *addresses)
{
	snprintf(address->host, sizeof address->host, "%s", NAME);
	of_name = addresses;
}

/* The list is freed by libc, whose own two lists it is made of. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
	struct addrinfo **addresses)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	char first[INET6_ADDRSTRLEN] = "";
	const char *comma = of_name && strcmp(host, NAME) == 0 ? strchr(of_name, ',') : NULL;
	int status;

	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	if (!comma)
		return real(host, port, hints, addresses);
	if (hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME;
	memcpy(first, of_name, (size_t)(comma - of_name));
	status = real(first, port, hints, addresses);
	return status ? status : real(comma + 1, port, hints, &(*addresses)->ai_next);
}
