#include "remote/resolve.h"

#include "base/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct kw_resolve {
	uv_getaddrinfo_t request;
	struct kw_resolve **place; /* the owner's; NULL: forgotten */
	char host[sizeof((struct kw_address *)NULL)->host];
	kw_resolve_done done;
	void *owner;
};

static void failed(const struct kw_resolve *resolve, int status)
{
	struct kw_error error;

	kw_error_set(&error, KW_E_IO, "host \"%s\" cannot be resolved: %s", resolve->host,
		uv_strerror(status));
	resolve->done(resolve->owner, NULL, &error);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *addresses)
{
	struct kw_resolve *resolve = request->data;

	if (!resolve->place) {
		uv_freeaddrinfo(addresses);
	} else {
		*resolve->place = NULL;
		if (status == 0)
			resolve->done(resolve->owner, addresses, NULL);
		else
			failed(resolve, status);
	}
	free(resolve);
}

void kw_resolve_start(struct kw_resolve **place, uv_loop_t *loop, const struct kw_address *address,
	kw_resolve_done done, void *owner)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
	};
	struct addrinfo *addresses = NULL;
	struct kw_resolve *resolve;
	char port[8];
	int status;

	snprintf(port, sizeof port, "%u", address->port);
	if (getaddrinfo(address->host, port, &hints, &addresses) == 0) {
		done(owner, addresses, NULL);
		return;
	}
	hints.ai_flags = 0;
	resolve = kw_zalloc(sizeof *resolve);
	*resolve = (struct kw_resolve){.place = place, .done = done, .owner = owner};
	memcpy(resolve->host, address->host, sizeof resolve->host);
	resolve->request.data = resolve;
	status = uv_getaddrinfo(loop, &resolve->request, on_resolved, resolve->host, port, &hints);
	if (status == 0) {
		*place = resolve;
		return;
	}
	failed(resolve, status);
	free(resolve);
}

void kw_resolve_forget(struct kw_resolve **place)
{
	struct kw_resolve *resolve = *place;

	if (!resolve)
		return;
	*place = NULL;
	resolve->place = NULL;
	(void)uv_cancel((uv_req_t *)&resolve->request);
}
