/*
 * A source that follows a real server by a fake feed, which tells values. It tells what the server
 * does not have, so it is seen which of the two is in the table. There is one of it.
 */
#ifndef KW_TEST_SOURCE_VALUES_FIXTURE_H
#define KW_TEST_SOURCE_VALUES_FIXTURE_H

#include "fake_feed.h"
#include "fixture.h"
#include "source/source_internal.h"

#define KEYS 50 /* key:0 …, on the server and in the table */
#define TOLD "told by the feed"

#define EXPIRES UINT64_C(4102444800123)
#define EXPIRES_TEXT "4102444800123"

extern struct test test;

/* Follows, and no order has passed yet: each key is guarded. */
void begin_guarded(void);
/* What was fetched is behind the stream. */
void pass_orders(void);

/* Await a fetch and its order; the server is at this offset of the stream. */
void pass_order(uint64_t offset);
/* Both. */
void begin(void);
void end(void);

/* It tells these, of database 0. */
void tell(enum kw_feed_value_kind kind, const char *name, const char *text, uint64_t expires_ms);
void tell_payload(const char *name, struct kw_slice payload);
void tell_string(const char *name);
void tell_dirty(const char *name);

/* What was told is in the table or fetched. */
bool is_at_rest(struct test *t);

/* What the table has of a key, as text that is valid until the next call; NULL: it has none. */
const char *text_of(const char *name);
uint64_t expiry_of(const char *name);

/* Of keys of database 0, but for copy. */
void add(const char *name, int64_t number);
void append(const char *name, const char *text);
void write_at(const char *name, int64_t at, const char *text);
void copy(uint32_t from_database, const char *from, uint32_t database, const char *name);
/* Each of these is said: told at once, or so many together within one turn. The texts stay. */
#define TOGETHER 40 /* more than a batch has */
void say(const struct kw_feed_value *value);
void say_together(uint32_t most); /* none waits; 0: each at once */
bool none_waits(void);
void say_all(void);

/* The key may have got another expiry, too. */
void tell_dirty_expiry(const char *name);
/* The table is exact about the key afterwards. */
void fetch(const char *name);

void no_fetch_from_here(void);
uint64_t fetches_since(void);
void assert_no_fetch(void);
void await_fetch(void);

/* What a server refuses it does not send. */
bool server_does(const char *command, const char *name, const char *more);

#endif
