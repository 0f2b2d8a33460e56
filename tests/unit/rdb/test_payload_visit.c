/* The visitor: what it hands out, in which order, and that it ends where its caller wants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "payload_build.h"
#include "rdb/payload.h"
#include "rdb/payload_visit.h"

/* All that was handed out, as text; the visit stops at the first name or element `until`. */
struct seen {
	char text[1024];
	const char *until;
};

static void say(struct seen *seen, const char *mark, struct kw_slice bytes)
{
	size_t length = strlen(seen->text);

	snprintf(seen->text + length, sizeof seen->text - length, "%s%.*s", mark, (int)bytes.length,
		(const char *)bytes.data);
}

static enum kw_visit verdict(const struct seen *seen, struct kw_slice bytes)
{
	return seen->until && kw_slice_equal(bytes, kw_slice_text(seen->until)) ? KW_VISIT_STOP
										: KW_VISIT_ON;
}

static enum kw_visit on_string(void *arg, struct kw_slice bytes)
{
	say(arg, "'", bytes);
	return KW_VISIT_ON;
}

static enum kw_visit on_element(void *arg, struct kw_slice bytes)
{
	say(arg, " ", bytes);
	return verdict(arg, bytes);
}

static enum kw_visit on_name(void *arg, struct kw_slice bytes)
{
	say(arg, " ", bytes);
	return verdict(arg, bytes);
}

static enum kw_visit on_value(void *arg, struct kw_slice bytes, uint64_t expires_ms)
{
	char expiry[32];

	say(arg, "=", bytes);
	if (expires_ms) {
		snprintf(expiry, sizeof expiry, "%llu", (unsigned long long)expires_ms);
		say(arg, "@", kw_slice_text(expiry));
	}
	return KW_VISIT_ON;
}

static enum kw_visit on_score(void *arg, double score)
{
	char text[32];

	snprintf(text, sizeof text, "%g", score);
	say(arg, ":", kw_slice_text(text));
	return KW_VISIT_ON;
}

static int visit(const struct kw_buffer *payload, const char *until, struct seen *seen)
{
	const struct kw_visitor visitor = {
		on_string, on_element, on_name, on_value, on_score, .arg = seen};

	*seen = (struct seen){.until = until};
	return kw_payload_visit(build_slice(payload), &visitor, NULL);
}

static void assert_visit(const struct kw_buffer *payload, const char *until, const char *expected)
{
	struct seen seen;

	assert_int_equal(visit(payload, until, &seen), KW_OK);
	assert_string_equal(seen.text, expected);
}

static void slices(const char *const *words, struct kw_slice *out, size_t count)
{
	for (size_t i = 0; i < count; i++)
		out[i] = kw_slice_text(words[i]);
}

static void pack(struct kw_buffer *payload, uint8_t type, uint16_t version,
	const char *const *words, size_t count)
{
	struct kw_buffer inner = {0};
	struct kw_slice elements[16];

	slices(words, elements, count);
	pack_listpack(&inner, elements, count);
	build_begin(payload, type);
	if (type == 25)
		build_u64(payload, 1);
	build_string(payload, build_slice(&inner));
	build_end(payload, version);
	kw_buffer_close(&inner);
}

static void each_kind_is_handed_out_in_its_order(void **state)
{
	static const char *const words[] = {"b", "12", "a", "-70000"};
	struct kw_buffer payload = {0};

	build_begin(&payload, 0);
	build_integer(&payload, -300);
	build_end(&payload, 9);
	assert_visit(&payload, NULL, "'-300");
	pack(&payload, 20, 11, words, 4);
	assert_visit(&payload, NULL, " b 12 a -70000");
	pack(&payload, 16, 10, words, 4);
	assert_visit(&payload, NULL, " b=12 a=-70000");
	pack(&payload, 17, 10, words, 4);
	assert_visit(&payload, NULL, " b:12 a:-70000");
	kw_buffer_close(&payload);
}

/* The value stands before its expiry, and both are integers in one scratch place. */
static void a_field_keeps_its_value_and_its_expiry(void **state)
{
	static const char *const words[] = {"f", "12345", "1893456000123", "g", "text", "0"};
	struct kw_buffer payload = {0};

	pack(&payload, 25, 12, words, 6);
	assert_visit(&payload, NULL, " f=12345@1893456000123 g=text");
	kw_buffer_close(&payload);
}

static void a_visit_ends_where_the_visitor_wants(void **state)
{
	static const char *const words[] = {"b", "12", "a", "-70000"};
	struct kw_buffer payload = {0};

	pack(&payload, 16, 10, words, 4);
	assert_visit(&payload, "a", " b=12 a");
	assert_visit(&payload, "b", " b");
	pack(&payload, 20, 11, words, 4);
	assert_visit(&payload, "12", " b 12");
	kw_buffer_close(&payload);
}

static void sizes_are_counted_in_every_form(void **state)
{
	static const char *const words[] = {"b", "12", "a", "-70000"};
	static const struct {
		uint8_t type;
		uint64_t size;
	} packed[] = {{16, 2}, {17, 2}, {20, 4}};
	struct kw_buffer payload = {0};
	uint64_t size;

	for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
		pack(&payload, packed[i].type, 11, words, 4);
		assert_int_equal(kw_payload_size(build_slice(&payload), &size, NULL), KW_OK);
		assert_int_equal(size, packed[i].size);
	}
	build_begin(&payload, 2);
	build_length(&payload, 3);
	for (int i = 0; i < 3; i++)
		build_text(&payload, words[i]);
	build_end(&payload, 9);
	assert_int_equal(kw_payload_size(build_slice(&payload), &size, NULL), KW_OK);
	assert_int_equal(size, 3);
	kw_buffer_close(&payload);
}

static void what_has_no_elements_is_refused(void **state)
{
	struct kw_buffer payload = {0};
	struct seen seen;

	build_begin(&payload, 7);
	build_text(&payload, "a module's");
	build_end(&payload, 11);
	assert_int_equal(visit(&payload, NULL, &seen), KW_E_ARGUMENT);
	build_begin(&payload, 99);
	build_end(&payload, 11);
	assert_int_equal(visit(&payload, NULL, &seen), KW_E_PROTOCOL);
	kw_buffer_clear(&payload);
	assert_int_equal(visit(&payload, NULL, &seen), KW_E_CORRUPT);
	kw_buffer_close(&payload);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kind_is_handed_out_in_its_order),
		cmocka_unit_test(a_field_keeps_its_value_and_its_expiry),
		cmocka_unit_test(a_visit_ends_where_the_visitor_wants),
		cmocka_unit_test(sizes_are_counted_in_every_form),
		cmocka_unit_test(what_has_no_elements_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
