#include "remote/tcp/resume.h"

#include <string.h>

struct kept {
	uv_loop_t *loop; /* NULL: the place is free */
	struct kw_tls_context *context;
	char host[256];
	uint16_t port;
	struct kw_tls_session *session;
};

static struct kept all[KW_TLS_RESUME_MAX];
static unsigned next; /* the place that is used next */

static void drop(struct kept *kept)
{
	kw_tls_session_free(kept->session);
	kw_tls_context_unref(kept->context);
	*kept = (struct kept){0};
}

static struct kept *find(const struct kw_remote *remote)
{
	for (struct kept *at = all; at < all + KW_TLS_RESUME_MAX; at++)
		if (at->loop == remote->loop && at->port == remote->address.port &&
			strcmp(at->host, remote->address.host) == 0)
			return at;
	return NULL;
}

const struct kw_tls_session *kw_tls_resume(const struct kw_remote *remote)
{
	struct kept *kept = find(remote);

	/* With it goes the private key that it was made with. */
	if (kept && kept->context != remote->tls) {
		drop(kept);
		return NULL;
	}
	return kept ? kept->session : NULL;
}

void kw_tls_remember(const struct kw_remote *remote, struct kw_tls_channel *channel)
{
	struct kw_tls_session *session = kw_tls_channel_take_session(channel);
	struct kept *kept = find(remote);

	if (!session)
		return;
	if (!kept)
		kept = &all[next++ % KW_TLS_RESUME_MAX];
	drop(kept);
	kept->loop = remote->loop;
	kept->context = kw_tls_context_ref(remote->tls);
	memcpy(kept->host, remote->address.host, sizeof kept->host);
	kept->port = remote->address.port;
	kept->session = session;
}

void kw_tls_forget(uv_loop_t *loop)
{
	for (struct kept *at = all; at < all + KW_TLS_RESUME_MAX; at++)
		if (at->loop == loop)
			drop(at);
}
