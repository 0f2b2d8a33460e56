#include "source/ticket.h"

#include "table/table.h"

#include <assert.h>

#define FIRST 2 /* at rest; 0 is that of a proxy without tickets */

static bool holds(const void *owner, int state)
{
	const struct kw_ticket *ticket = owner;

	/* Under way, the number is odd. After the feed stopped it can be odd at rest, too. */
	return ticket->number > 0 && (state == KW_TICKET_IDLE || ticket->number % 2 == 1);
}

#define RESET KW_SM_TO(KW_TICKET_IDLE)
static const struct kw_sm_state states[] = {
	[KW_TICKET_IDLE] = {"idle", KW_SM_TO(KW_TICKET_ANNOUNCED), KW_SM_INITIAL},
	[KW_TICKET_ANNOUNCED] = {"announced", KW_SM_TO(KW_TICKET_EXAMINING) | RESET},
	[KW_TICKET_EXAMINING] = {"examining", KW_SM_TO(KW_TICKET_READING) | RESET},
	[KW_TICKET_READING] = {"reading functions", KW_SM_TO(KW_TICKET_EXAMINED) | RESET},
	[KW_TICKET_EXAMINED] = {"examined", KW_SM_TO(KW_TICKET_COVERED) | RESET},
	[KW_TICKET_COVERED] = {"covered", KW_SM_TO(KW_TICKET_EXAMINED) | RESET},
};

static const struct kw_sm_conf machine = {"ticket", states, KW_TICKET_COVERED + 1, holds};

void kw_ticket_init(struct kw_ticket *ticket)
{
	*ticket = (struct kw_ticket){.number = FIRST};
	kw_sm_init(&ticket->sm, &machine, ticket, KW_TICKET_IDLE);
}

void kw_ticket_resume(struct kw_ticket *ticket, uint16_t number)
{
	assert(ticket->sm.state == KW_TICKET_IDLE);
	if (number > 0)
		ticket->number = number;
}

bool kw_ticket_announce(struct kw_ticket *ticket, uint16_t wanted)
{
	if (ticket->sm.state != KW_TICKET_IDLE || wanted == 0 ||
		!kw_ticket_awaited(ticket->number, wanted))
		return false;
	if (ticket->number % 2 == 0)
		ticket->number = kw_ticket_next(ticket->number);
	kw_sm_move(&ticket->sm, KW_TICKET_ANNOUNCED, "");
	return true;
}

bool kw_ticket_examine(struct kw_ticket *ticket)
{
	if (ticket->sm.state != KW_TICKET_ANNOUNCED)
		return false;
	kw_sm_move(&ticket->sm, KW_TICKET_EXAMINING, "");
	return true;
}

void kw_ticket_told(struct kw_ticket *ticket, uint64_t question)
{
	assert(ticket->sm.state == KW_TICKET_EXAMINING);
	ticket->question = question;
	kw_sm_move(&ticket->sm, KW_TICKET_READING, "");
}

void kw_ticket_examined(struct kw_ticket *ticket)
{
	assert(kw_ticket_is_reading(ticket));
	kw_sm_move(&ticket->sm, KW_TICKET_EXAMINED, "");
}

void kw_ticket_asked(struct kw_ticket *ticket)
{
	if (ticket->sm.state == KW_TICKET_EXAMINED)
		kw_sm_move(&ticket->sm, KW_TICKET_COVERED, "");
}

void kw_ticket_spoil(struct kw_ticket *ticket)
{
	if (ticket->sm.state == KW_TICKET_COVERED)
		kw_sm_move(&ticket->sm, KW_TICKET_EXAMINED, "doubt came up");
}

bool kw_ticket_passed(struct kw_ticket *ticket)
{
	if (ticket->sm.state != KW_TICKET_COVERED)
		return false;
	ticket->number = kw_ticket_next(ticket->number);
	kw_sm_move(&ticket->sm, KW_TICKET_IDLE, "passed");
	return true;
}

void kw_ticket_reset(struct kw_ticket *ticket)
{
	if (ticket->sm.state != KW_TICKET_IDLE)
		kw_sm_move(&ticket->sm, KW_TICKET_IDLE, "the feed stopped");
}

/* ---- when ---- */

const struct kw_ticket_price kw_ticket_look = {
	KW_TICKETS_SAVED, KW_TICKET_EACH_US, KW_TICKET_APART_US};
const struct kw_ticket_price kw_ticket_role = {100, 5000, 2000};

/* The moment from which savings count: no more than so many are kept. */
static uint64_t saved_since(
	const struct kw_ticket_budget *budget, const struct kw_ticket_price *price, uint64_t now_us)
{
	uint64_t most = price->saved * price->each_us;

	return now_us > most && budget->spent_us < now_us - most ? now_us - most : budget->spent_us;
}

uint64_t kw_ticket_due_us(
	const struct kw_ticket_budget *budget, const struct kw_ticket_price *price, uint64_t now_us)
{
	uint64_t apart_us = budget->last_us + price->apart_us;
	uint64_t saved_us = saved_since(budget, price, now_us) + price->each_us;

	return apart_us > saved_us ? apart_us : saved_us;
}

void kw_ticket_looked(struct kw_ticket_budget *budget, uint64_t now_us)
{
	budget->last_us = now_us;
}

void kw_ticket_spend(
	struct kw_ticket_budget *budget, const struct kw_ticket_price *price, uint64_t now_us)
{
	uint64_t since_us = saved_since(budget, price, now_us);

	assert(now_us >= since_us + price->each_us);
	budget->spent_us = since_us + price->each_us;
	budget->last_us = now_us;
}
