/*
 * Clients that could log in and have not, the oldest first. They give way: to one client more than
 * there may be, and when memory is short. So a flood of them takes no place of those that did.
 */
#include "internal.h"

static void unlist(struct kw_strangers *all, struct kw_client *client)
{
	*(client->younger ? &client->younger->elder : &all->newest) = client->elder;
	*(client->elder ? &client->elder->younger : &all->oldest) = client->younger;
	client->elder = client->younger = NULL;
}

static void list(struct kw_strangers *all, struct kw_client *client)
{
	client->elder = all->newest;
	*(all->newest ? &all->newest->younger : &all->oldest) = client;
	all->newest = client;
}

void kw_client_set_strange(struct kw_client *client, bool strange)
{
	struct kw_strangers *all = &client->server->strangers;

	if (client->strange == strange)
		return;
	client->strange = strange;
	if (strange)
		list(all, client);
	else
		unlist(all, client);
}

bool kw_client_goes_before(const struct kw_client *client, const struct kw_client *other)
{
	if (client->strange != other->strange)
		return client->strange ? client->held > 0 : other->held == 0;
	return client->held > other->held;
}
