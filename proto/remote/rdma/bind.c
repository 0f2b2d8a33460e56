#include "remote/rdma/bind.h"

#include "remote/rdma/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * A driver that takes its contexts away has freed what was made by them. With this setting the
 * library frees its half too, rather than keep it and return EIO (ibv_open_device(3)). The library
 * reads it once, at its first use; set it before there are threads.
 */
__attribute__((constructor)) static void free_what_was_on_a_removed_device(void)
{
	(void)setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 0);
}

int kw_rdma_resolve(
	const struct kw_address *address, struct sockaddr_storage *to, struct kw_error *error)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
	};
	struct addrinfo *found = NULL;
	char port[8];
	int status;

	snprintf(port, sizeof port, "%u", address->port);
	status = getaddrinfo(address->host, port, &hints, &found);
	if (status != 0)
		return kw_error_set(
			error, KW_E_IO, "the host cannot be resolved: %s", gai_strerror(status));
	memcpy(to, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

/* Among several devices the choice is not obvious, and a table is registered with one only. */
static int choose_device(
	struct kw_rdma_bound *bound, const struct kw_rdma_options *options, struct kw_error *error)
{
	int count = 0;

	bound->held = rdma_get_devices(&count);
	for (int i = 0; bound->held && i < count; i++)
		if (options->device[0] == 0
				? count == 1
				: strcmp(options->device,
					  ibv_get_device_name(bound->held[i]->device)) == 0)
			bound->verbs = bound->held[i];
	if (bound->verbs)
		return 0;
	if (count == 0)
		return kw_error_set(error, KW_E_GONE, "%s", KW_RDMA_NO_DEVICE);
	if (options->device[0])
		return kw_error_set(
			error, KW_E_GONE, "this host has no RDMA device \"%s\"", options->device);
	return kw_error_set(error, KW_E_CONFIG,
		"this host has %d RDMA devices: listen on the address of one of them, or name one "
		"(rdma.device)",
		count);
}

static int bind_id(struct kw_rdma_bound *bound, struct sockaddr *address, struct kw_error *error)
{
	int errnum;

	if (rdma_create_id(bound->channel, &bound->id, NULL, RDMA_PS_TCP) != 0) {
		bound->id = NULL;
		return kw_error_errno(error, errno, "connection identifier");
	}
	if (rdma_bind_addr(bound->id, address) == 0)
		return 0;
	errnum = errno;
	if (errnum != EADDRNOTAVAIL && errnum != ENODEV)
		return kw_error_errno(error, errnum, "bind%s",
			errnum == EADDRINUSE ? " (another process listens there)" : "");
	kw_error_errno(error, errnum, "bind (no RDMA device of this host has that address)");
	error->code = KW_E_GONE;
	return KW_E_GONE;
}

int kw_rdma_bind(struct kw_rdma_bound *bound, struct sockaddr *address,
	const struct kw_rdma_options *options, struct kw_error *error)
{
	int code;

	bound->channel = kw_rdma_channel_new(error);
	if (!bound->channel)
		return (int)error->code;
	code = bind_id(bound, address, error);
	if (code == 0 && !bound->id->verbs)
		return choose_device(bound, options, error);
	if (code == 0)
		bound->verbs = bound->id->verbs;
	return code ? code : kw_rdma_options_apply(options, bound->id, error);
}

void kw_rdma_unbind(struct kw_rdma_bound *bound)
{
	if (bound->id)
		(void)rdma_destroy_id(bound->id);
	if (bound->channel)
		rdma_destroy_event_channel(bound->channel);
	if (bound->held)
		rdma_free_devices(bound->held);
	*bound = (struct kw_rdma_bound){0};
}

int kw_rdma_look(const struct kw_address *address, const struct kw_rdma_options *given,
	struct kw_error *error)
{
	struct kw_address anywhere = *address;
	struct kw_rdma_options options;
	struct kw_rdma_bound bound = {0};
	struct sockaddr_storage to;
	int code = kw_rdma_options_set(&options, given, error);

	anywhere.port = 0; /* the proxy might be running, and have it */
	if (code == 0)
		code = kw_rdma_resolve(&anywhere, &to, error);
	if (code == 0)
		code = kw_rdma_bind(&bound, (struct sockaddr *)&to, &options, error);
	kw_rdma_unbind(&bound);
	return code;
}

bool kw_rdma_removed(const struct ibv_context *verbs)
{
	struct ibv_device **all = ibv_get_device_list(NULL);
	bool found = false;

	if (!all)
		return false; /* not known */
	for (int i = 0; all[i]; i++)
		found = found || all[i] == verbs->device;
	ibv_free_device_list(all);
	return !found;
}

void kw_rdma_let_go(struct ibv_context *verbs)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (nothing < 0)
		return;
	/* librdmacm closes these descriptors later: so they must stay ours, and lead nowhere. */
	(void)dup3(nothing, verbs->cmd_fd, O_CLOEXEC);
	(void)dup3(nothing, verbs->async_fd, O_CLOEXEC);
	close(nothing);
}
