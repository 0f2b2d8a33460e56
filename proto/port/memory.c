#include "port/memory.h"

#include "base/buffer.h"
#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kw_port_errand {
	uv_work_t work;
	struct kw_port_place *place; /* NULL: nobody waits for it any more */
	char host[KW_PORT_HOST], port[KW_PORT_NUMBER];
	enum kw_port_kind kind;
};

void kw_port_memory_init(struct kw_port_memory *memory, uv_loop_t *loop)
{
	*memory = (struct kw_port_memory){.loop = loop};
}

/* Its errand cannot be stopped once a thread runs it. */
static void forget(struct kw_port_place *place)
{
	if (place->errand) {
		place->errand->place = NULL;
		uv_cancel((uv_req_t *)&place->errand->work);
	}
	*place = (struct kw_port_place){0};
}

void kw_port_memory_close(struct kw_port_memory *memory)
{
	for (int i = 0; i < KW_PORT_PLACES; i++)
		forget(&memory->places[i]);
	memory->loop = NULL;
}

/* In a thread of the pool: it touches the errand alone. */
static void on_work(uv_work_t *work)
{
	struct kw_port_errand *errand = work->data;

	errand->kind = kw_port_look(errand->host, errand->port, NULL);
}

static void on_worked(uv_work_t *work, int status)
{
	struct kw_port_errand *errand = work->data;
	struct kw_port_place *place = errand->place;

	if (place) {
		assert(place->errand == errand);
		place->errand = NULL;
		place->looked_us = kw_clock_us();
		if (status == 0)
			place->kind = errand->kind;
	}
	free(errand);
}

static void begin_look(struct kw_port_memory *memory, struct kw_port_place *place)
{
	struct kw_port_errand *errand = kw_zalloc(sizeof *errand);

	errand->work.data = errand;
	errand->place = place;
	memcpy(errand->host, place->host, sizeof errand->host);
	memcpy(errand->port, place->port, sizeof errand->port);
	if (uv_queue_work(memory->loop, &errand->work, on_work, on_worked)) {
		free(errand);
		return;
	}
	place->errand = errand;
}

/* The place of this address, or the one that gives way to it. */
static struct kw_port_place *find(struct kw_port_memory *memory, const char *host, const char *port)
{
	struct kw_port_place *oldest = &memory->places[0];

	for (int i = 0; i < KW_PORT_PLACES; i++) {
		struct kw_port_place *place = &memory->places[i];

		if (strcmp(place->host, host) == 0 && strcmp(place->port, port) == 0)
			return place;
		if (place->asked_us < oldest->asked_us)
			oldest = place;
	}
	forget(oldest);
	snprintf(oldest->host, sizeof oldest->host, "%s", host);
	snprintf(oldest->port, sizeof oldest->port, "%s", port);
	return oldest;
}

enum kw_port_kind kw_port_ask(struct kw_port_memory *memory, const char *host, const char *port)
{
	struct kw_port_place *place;
	uint64_t now_us = kw_clock_us();

	if (!memory || !memory->loop || strlen(host) >= KW_PORT_HOST ||
		strlen(port) >= KW_PORT_NUMBER || !*host)
		return KW_PORT_UNKNOWN;
	place = find(memory, host, port);
	place->asked_us = now_us;
	if (!place->errand && (place->looked_us == 0 || now_us - place->looked_us >=
								KW_PORT_AGAIN_MS * UINT64_C(1000)))
		begin_look(memory, place);
	return place->kind;
}
