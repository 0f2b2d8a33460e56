/*
 * A raw agent over rdma: what it does no code of ours has checked. And the tests that it is for,
 * which hold over the fake of the libraries and over a real device alike.
 */
#ifndef KW_TEST_REMOTE_RDMA_RAW_H
#define KW_TEST_REMOTE_RDMA_RAW_H

#include "fixture.h"

#include "remote/rdma/end.h"

struct raw {
	struct kw_rdma_end end;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct kw_handshake handshake;
	int messages, reads, broken;
	struct kw_error why;
};

/* Up to a connected queue pair, or what came instead (why then says it). */
enum rdma_cm_event_type raw_dial(
	struct fixture *fixture, struct raw *raw, const struct kw_rdma_private *private);
void raw_close(struct raw *raw);

/* Dial, then the handshake to its end: 0, or the code of raw->handshake.error. */
int raw_greet(struct fixture *fixture, struct raw *raw, uint16_t layout_version);

/* The same as said: with this secret, and with a channel that `lie` has changed (NULL: the true).
 */
int raw_greet_as(struct fixture *fixture, struct raw *raw, struct kw_slice secret,
	void (*lie)(struct kw_channel *channel));

/* Post one work request and wait until it went through (reads) or the end broke. */
void raw_read_one(struct fixture *fixture, struct raw *raw, uint64_t address, uint32_t rkey);

void expect_text(const char *text, const char *part);
void expect_closed(
	struct fixture *fixture, struct client *client, enum kw_code code, const char *part);

/* rdma_hostile.c */
void who_has_not_proved_itself_reads_nothing(void **state);
void who_says_no_hello_is_let_go(void **state);
void foreign_requests_are_rejected_with_a_code(void **state);
void another_layout_is_refused_with_both_named(void **state);
void a_relayed_handshake_is_refused(void **state);
void a_read_beyond_what_is_registered_ends_that_session_only(void **state);
void another_proxys_key_opens_nothing(void **state);
void garbage_messages_end_the_session(void **state);
void revoked_means_that_the_next_read_fails(void **state);
void an_rkey_told_to_a_revoked_agent_opens_nothing_for_another(void **state);

#define RDMA_HOSTILE_TESTS(T)                                                                      \
	T(who_has_not_proved_itself_reads_nothing), T(who_says_no_hello_is_let_go),                \
		T(foreign_requests_are_rejected_with_a_code),                                      \
		T(another_layout_is_refused_with_both_named), T(a_relayed_handshake_is_refused),   \
		T(a_read_beyond_what_is_registered_ends_that_session_only),                        \
		T(another_proxys_key_opens_nothing), T(garbage_messages_end_the_session),          \
		T(revoked_means_that_the_next_read_fails),                                         \
		T(an_rkey_told_to_a_revoked_agent_opens_nothing_for_another)

#endif
