/*
 * Tickets: numbered barriers that cover silent commands, too. `keywakectl wait` draws one. When it
 * has passed, all that the primary did before it was drawn is in the table. No clock takes part.
 *
 *   ┌──────┐ wanted ┌───────────┐ published ┌───────────┐ told ┌─────────┐ read ┌──────────┐
 *   │ IDLE │───────▶│ ANNOUNCED │──────────▶│ EXAMINING │─────▶│ READING │─────▶│ EXAMINED │
 *   └──────┘        └───────────┘           └───────────┘      └─────────┘      └──────────┘
 *      ▲                                    the feed looks at  function            │     ▲ a doubt
 *      │                                    silent commands    libraries           ▼     │ came up
 *      │                barrier passed                                           ┌─────────┐
 *      └─────────────────────────────────────────────────────────────────────────│ COVERED │
 *                                                                                └─────────┘
 *                                                        a freshness barrier was asked for: fresh.h
 *
 * The number is in the superblock: layout.h says how it counts, and what a reader concludes. It is
 * published as begun before the feed is asked. So a reader that sees it at rest knows that the next
 * one begins later. If the feed stops, the ticket under way begins anew when one is wanted.
 *
 * Pure. The caller owns the struct. One thread.
 */
#ifndef KW_PROXY_SOURCE_TICKET_H
#define KW_PROXY_SOURCE_TICKET_H

#include "base/sm.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_ticket_state {
	KW_TICKET_IDLE,
	KW_TICKET_ANNOUNCED,
	KW_TICKET_EXAMINING,
	KW_TICKET_READING,
	KW_TICKET_EXAMINED,
	KW_TICKET_COVERED,
};

struct kw_ticket {
	struct kw_sm sm;
	uint16_t number;   /* as in the superblock */
	uint64_t question; /* READING: until this one is answered; see functions.h */
};

void kw_ticket_init(struct kw_ticket *ticket);

/* The number goes on from that of a process before; 0: there was none. No reader draws it twice. */
void kw_ticket_resume(struct kw_ticket *ticket, uint16_t number);

/*
 * A reader waits for this number. True: a ticket was announced for it. The number has changed then
 * and must be published before kw_ticket_examine. A number that no reader can have drawn is
 * ignored: other values would cost the primary a look each.
 */
bool kw_ticket_announce(struct kw_ticket *ticket, uint16_t wanted);

/* The number is published. False: the feed stopped meanwhile. */
bool kw_ticket_examine(struct kw_ticket *ticket);

/*
 * The feed told all that silent commands did; and the function libraries that it told of are read:
 * question is kw_source_functions_question() at that moment.
 */
void kw_ticket_told(struct kw_ticket *ticket, uint64_t question);
void kw_ticket_examined(struct kw_ticket *ticket);

/* Must function libraries be read before it goes on? */
static inline bool kw_ticket_is_reading(const struct kw_ticket *ticket)
{
	return ticket->sm.state == KW_TICKET_READING;
}

/* A freshness barrier was asked for; doubt came up, so it proves nothing. */
void kw_ticket_asked(struct kw_ticket *ticket);
void kw_ticket_spoil(struct kw_ticket *ticket);

/* Does it wait for the next freshness barrier? */
static inline bool kw_ticket_wants_barrier(const struct kw_ticket *ticket)
{
	return ticket->sm.state == KW_TICKET_EXAMINED;
}

/* A freshness barrier passed. True: the number has changed. */
bool kw_ticket_passed(struct kw_ticket *ticket);

/* The feed stopped. */
void kw_ticket_reset(struct kw_ticket *ticket);

/*
 * When wishes of readers begin a ticket. Each ticket costs the primary something, and a reader may
 * wish as often as it likes. All who wait share a ticket, so one budget for all of them makes
 * nobody wait for longer than a heartbeat. A budget for each session would bound nothing, because
 * one holder of a key can have many.
 *
 * So tickets cost the primary one in each each_us, and one at each heartbeat.
 */
struct kw_ticket_price {
	uint32_t saved;    /* so many may be begun in a row, … */
	uint64_t each_us;  /* … and one more in each such time … */
	uint64_t apart_us; /* … but not sooner after the last one, or after a look for wishes */
};

/* By notifications a ticket is a look at silent commands: INFO, and perhaps CONFIG GET. */
#define KW_TICKETS_SAVED 10
#define KW_TICKET_EACH_US UINT64_C(500000)
#define KW_TICKET_APART_US UINT64_C(20000) /* it takes about so long */
extern const struct kw_ticket_price kw_ticket_look;

/* By the replication stream it is two ROLEs, of some microseconds each. */
extern const struct kw_ticket_price kw_ticket_role;

/* Zeroed memory has saved all it can. */
struct kw_ticket_budget {
	uint64_t spent_us; /* what was saved before this moment is spent */
	uint64_t last_us;
};

/* The moment from which one may begin; not after now_us: it may. */
uint64_t kw_ticket_due_us(const struct kw_ticket_budget *budget,
	const struct kw_ticket_price *price, uint64_t now_us);

/* It might begin, and wishes are looked for. */
void kw_ticket_looked(struct kw_ticket_budget *budget, uint64_t now_us);

/* One was begun. It might. */
void kw_ticket_spend(
	struct kw_ticket_budget *budget, const struct kw_ticket_price *price, uint64_t now_us);

#endif
