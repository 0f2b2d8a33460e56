/* Agents that sleep until something is published (frame.h). */
#include "remote/server_internal.h"

#include <assert.h>

static void set_slept(struct kw_session *session, uint64_t publication)
{
	struct kw_server *server = session->server;

	assert((session->slept == 0) != (publication == 0));
	session->slept = publication;
	if (publication > 0)
		server->asleep++;
	else
		server->asleep--;
}

static void wake(struct kw_session *session)
{
	set_slept(session, 0);
	session->listener->ops->wake(session);
}

/* The last publication that says something to this agent. */
static uint64_t news_for(const struct kw_session *session)
{
	const struct kw_server *server = session->server;

	return session->ticket && server->ticket_moved > server->published ? server->ticket_moved
									   : server->published;
}

static bool misses_news(const struct kw_session *session)
{
	return session->slept > 0 && session->slept < news_for(session);
}

void kw_session_is_awake(struct kw_session *session)
{
	if (session->slept > 0)
		set_slept(session, 0);
}

bool kw_session_sleeps(struct kw_session *session, uint64_t publication)
{
	if (!session->wakes || session->slept > 0 || publication == 0)
		return false;
	set_slept(session, publication);
	if (misses_news(session))
		wake(session);
	return true;
}

void kw_session_wishes(struct kw_session *session, uint16_t ticket)
{
	struct kw_server *server = session->server;

	if (session->ticket == ticket)
		return;
	session->ticket = ticket;
	if (ticket == 0 || kw_server_closing(server))
		return;
	/* Since it looked, the ticket can have passed. */
	if (misses_news(session))
		wake(session);
	if (server->handlers.ticket)
		server->handlers.ticket(server->handlers.arg, ticket);
}

void kw_server_wake(struct kw_server *server)
{
	uint32_t woken = 0;

	if (server->asleep == 0)
		return;
	for (struct kw_session *at = server->sessions; at; at = at->next) {
		if (!misses_news(at) || at->sm.state != KW_SESSION_JOINED)
			continue;
		if (woken++ == KW_SERVER_WAKES) {
			uv_async_send(&server->async);
			return;
		}
		wake(at);
	}
}

void kw_server_published(struct kw_server *server, uint64_t publication)
{
	assert(publication >= server->published);
	server->published = publication;
	kw_server_wake(server);
}

void kw_server_ticket_moved(struct kw_server *server, uint64_t publication)
{
	assert(publication >= server->ticket_moved);
	server->ticket_moved = publication;
	kw_server_wake(server);
}
