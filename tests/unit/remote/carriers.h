/* The tests of the conformance suite, by file. */
#ifndef KW_TEST_REMOTE_CARRIERS_H
#define KW_TEST_REMOTE_CARRIERS_H

#include "fixture.h"

/* carriers_read.c */
void right_bytes_at_every_size_and_alignment(void **state);
void the_last_byte_of_the_extent_can_be_read_and_no_more(void **state);
void many_reads_beyond_depth_end_once_each_in_order(void **state);
void many_large_reads_end_once_each_in_order(void **state);
void out_of_bounds_is_refused_before_anything_is_sent(void **state);
void before_ready_every_read_is_refused(void **state);
void a_callback_may_start_reads_and_is_never_called_from_within(void **state);
void memory_that_grows_can_be_read_once_it_is_advertised(void **state);
void a_writer_may_write_while_it_is_read(void **state);
void timers_fire_in_time_with_64_reads_in_flight(void **state);

#define CARRIER_READ_TESTS                                                                         \
	cmocka_unit_test(right_bytes_at_every_size_and_alignment),                                 \
		cmocka_unit_test(the_last_byte_of_the_extent_can_be_read_and_no_more),             \
		cmocka_unit_test(many_reads_beyond_depth_end_once_each_in_order),                  \
		cmocka_unit_test(many_large_reads_end_once_each_in_order),                         \
		cmocka_unit_test(out_of_bounds_is_refused_before_anything_is_sent),                \
		cmocka_unit_test(before_ready_every_read_is_refused),                              \
		cmocka_unit_test(a_callback_may_start_reads_and_is_never_called_from_within),      \
		cmocka_unit_test(memory_that_grows_can_be_read_once_it_is_advertised),             \
		cmocka_unit_test(a_writer_may_write_while_it_is_read),                             \
		cmocka_unit_test(timers_fire_in_time_with_64_reads_in_flight)

/* carriers_end.c */
void a_killed_proxy_ends_every_read_once_and_the_connection_once(void **state);
void a_stopped_proxy_is_a_passed_deadline_where_it_serves(void **state);
void closing_tells_back_the_reads_that_are_out(void **state);
void closing_amid_large_reads_lets_go_of_their_memory(void **state);
void closing_while_connecting_is_told_once(void **state);
void nobody_listening_is_a_sentence_and_not_a_crash(void **state);
void a_proxy_that_never_answers_is_a_passed_deadline(void **state);
void a_proxy_that_shuts_down_says_so(void **state);
void many_connections_leave_nothing_behind(void **state);

#define CARRIER_END_TESTS                                                                          \
	cmocka_unit_test(a_killed_proxy_ends_every_read_once_and_the_connection_once),             \
		cmocka_unit_test(a_stopped_proxy_is_a_passed_deadline_where_it_serves),            \
		cmocka_unit_test(closing_tells_back_the_reads_that_are_out),                       \
		cmocka_unit_test(closing_amid_large_reads_lets_go_of_their_memory),                \
		cmocka_unit_test(closing_while_connecting_is_told_once),                           \
		cmocka_unit_test(nobody_listening_is_a_sentence_and_not_a_crash),                  \
		cmocka_unit_test(a_proxy_that_never_answers_is_a_passed_deadline),                 \
		cmocka_unit_test(a_proxy_that_shuts_down_says_so),                                 \
		cmocka_unit_test(many_connections_leave_nothing_behind)

/* carriers_session.c */
void the_right_secret_is_let_in(void **state);
void a_wrong_secret_is_refused_on_both_sides(void **state);
void a_missing_secret_is_refused_on_both_sides(void **state);
void an_agent_with_a_secret_does_not_trust_a_proxy_without(void **state);
void another_layout_version_is_refused_with_both_named(void **state);
void sixty_four_agents_read_at_once(void **state);
void one_session_too_many_is_refused_with_the_limit(void **state);
void one_name_or_peer_does_not_take_all_sessions(void **state);
void a_silent_session_gives_way_to_its_name(void **state);
void disconnect_revokes_at_once(void **state);
void progress_arrives_and_holds_tombstones(void **state);
void each_session_is_asked_for_its_ticket(void **state);
void a_peer_that_says_nothing_is_let_go(void **state);
void silence_has_a_shorter_deadline_than_a_handshake(void **state);
void strangers_who_hold_every_slot_give_way(void **state);
void strangers_at_one_listener_do_not_concern_another(void **state);

#define CARRIER_SESSION_TESTS                                                                      \
	cmocka_unit_test(the_right_secret_is_let_in),                                              \
		cmocka_unit_test(a_wrong_secret_is_refused_on_both_sides),                         \
		cmocka_unit_test(a_missing_secret_is_refused_on_both_sides),                       \
		cmocka_unit_test(an_agent_with_a_secret_does_not_trust_a_proxy_without),           \
		cmocka_unit_test(another_layout_version_is_refused_with_both_named),               \
		cmocka_unit_test(sixty_four_agents_read_at_once),                                  \
		cmocka_unit_test(one_session_too_many_is_refused_with_the_limit),                  \
		cmocka_unit_test(one_name_or_peer_does_not_take_all_sessions),                     \
		cmocka_unit_test(a_silent_session_gives_way_to_its_name),                          \
		cmocka_unit_test(disconnect_revokes_at_once),                                      \
		cmocka_unit_test(progress_arrives_and_holds_tombstones),                           \
		cmocka_unit_test(each_session_is_asked_for_its_ticket),                            \
		cmocka_unit_test(a_peer_that_says_nothing_is_let_go),                              \
		cmocka_unit_test(silence_has_a_shorter_deadline_than_a_handshake),                 \
		cmocka_unit_test(strangers_who_hold_every_slot_give_way),                          \
		cmocka_unit_test(strangers_at_one_listener_do_not_concern_another)

/* carriers_lie.c */
void a_lying_agent_gets_no_byte_and_is_gone(void **state);
void more_reads_than_negotiated_end_the_session(void **state);
void garbage_instead_of_frames_ends_the_session(void **state);
void an_agent_that_does_not_read_costs_the_others_nothing(void **state);
void a_lying_proxy_is_found_out(void **state);
void replies_cut_anywhere_are_put_together(void **state);

/* carriers_compress.c */
void compressed_answers_take_fewer_bytes(void **state);
void a_proxy_that_forbids_compression_serves_plain(void **state);
void more_sessions_than_may_are_served_plain(void **state);
void short_reads_stay_plain(void **state);

#define CARRIER_COMPRESS_TESTS                                                                     \
	cmocka_unit_test(compressed_answers_take_fewer_bytes),                                     \
		cmocka_unit_test(a_proxy_that_forbids_compression_serves_plain),                   \
		cmocka_unit_test(more_sessions_than_may_are_served_plain),                         \
		cmocka_unit_test(short_reads_stay_plain)

#define CARRIER_LIE_TESTS                                                                          \
	cmocka_unit_test(a_lying_agent_gets_no_byte_and_is_gone),                                  \
		cmocka_unit_test(more_reads_than_negotiated_end_the_session),                      \
		cmocka_unit_test(garbage_instead_of_frames_ends_the_session),                      \
		cmocka_unit_test(an_agent_that_does_not_read_costs_the_others_nothing),            \
		cmocka_unit_test(a_lying_proxy_is_found_out),                                      \
		cmocka_unit_test(replies_cut_anywhere_are_put_together)

#endif
