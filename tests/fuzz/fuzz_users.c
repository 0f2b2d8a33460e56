/*
 * Arbitrary bytes as the gateway's file of users: a file is taken or refused with a sentence of
 * one line, and what a user of it may do can be judged for any request.
 *
 * The last line of the input is the request.
 */
#include "fuzz.h"

#include "gateway/session/permission.h"
#include "gateway/session/session.h"

#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 64

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("user default off\nuser a on >secret ~cache:* %R~orders:* +@read -keys\n"
		      "AUTH a secret"),
	KW_FUZZ_BYTES("# comment\n\nuser default on nopass allkeys +@all -@write\r\nGET key"),
	KW_FUZZ_BYTES(
		"user default on nopass %W~a* %RW~[bc]? resetkeys ~a &* +client|id -client|id "
		"+xread\nXREAD COUNT 1 STREAMS a b 0 0"),
	KW_FUZZ_BYTES("user default on nopass ~a +zunionstore +sort\nZUNIONSTORE a 2 a b"),
	KW_FUZZ_BYTES("user default on nopass ~a +@all\nSORT a BY x GET y STORE z"),
	KW_FUZZ_BYTES("user a reset on "
		      "#2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b "
		      "!2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\nPING"),
	KW_FUZZ_BYTES("user a (+get ~x)\nHELLO 3 AUTH a x SETNAME n"),
	KW_FUZZ_BYTES("user a on >x\nuser a on >y\nCOMMAND GETKEYS MSETEX 2 a 1 b 2"),
};

static size_t split(struct kw_slice line, struct kw_slice words[WORDS_MAX])
{
	const char *at = line.data, *end = at + line.length;
	size_t count = 0;

	while (at < end && count < WORDS_MAX) {
		const char *stop = memchr(at, ' ', (size_t)(end - at));

		if (!stop)
			stop = end;
		words[count++] = kw_slice(at, (size_t)(stop - at));
		at = stop + (stop < end);
	}
	return count;
}

/* What a session lets pass, the judge must have allowed. */
static void ask(const struct kw_users *users, const struct kw_slice *words, size_t count)
{
	const struct kw_session_host host = {.users = users};
	const struct kw_catalog_row *row = kw_catalog_resolve(words, count);
	struct kw_buffer out = {0};
	struct kw_session session;
	enum kw_session_verdict verdict;

	kw_session_init(&session, &host, 1, NULL);
	must(session.user == kw_users_unnamed(users));
	verdict = kw_session_begin(&session, &host, words, count, &out);
	must((verdict == KW_SESSION_PASSES) == (kw_buffer_length(&out) == 0));
	if (verdict == KW_SESSION_PASSES)
		must(row && kw_catalog_fits(row, count) && session.user &&
			kw_user_may(session.user, row, words, count) == KW_PERMITTED);
	must(!session.may_all || verdict != KW_SESSION_REPLIED || !row ||
		!kw_catalog_fits(row, count) || memcmp(kw_buffer_bytes(&out), "-NOPERM", 7) != 0);
	must(kw_session_take_users(&session, users));
	kw_session_close(&session);
	kw_buffer_close(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *last = size ? memrchr(data, '\n', size) : NULL;
	size_t length = last ? (size_t)(last - data) : 0;
	struct kw_slice words[WORDS_MAX];
	struct kw_error error = {0};
	struct kw_users *users;
	char *exact;
	size_t count;

	if (!last || size > 4096)
		return 0;
	/* A copy of just these bytes: what is read beyond them is found. */
	exact = malloc(length + 1);
	must(exact != NULL);
	memcpy(exact, data, length);
	users = kw_users_parse(kw_slice(exact, length), &error);
	free(exact);
	must(users ? error.code == KW_OK : error.code == KW_E_CONFIG && error.text[0] != 0);
	must(strchr(error.text, '\n') == NULL);
	if (!users)
		users = kw_users_open();
	must(kw_users_count(users) <= KW_USERS_MAX);
	count = split(kw_slice(last + 1, size - length - 1), words);
	if (count > 0)
		ask(users, words, count);
	kw_users_free(users);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
