/*
 * Arbitrary bytes as the proxy's file of keys: a file is taken or refused with a sentence of one
 * line that quotes no secret. Each key of a file that was taken is found by its id and holds.
 */
#include "fuzz.h"

#include "auth/keyring.h"

#include <stdlib.h>
#include <string.h>

#define SECRET "000102030405060708090a0b0c0d0e0f"
#define OTHER "ff0102030405060708090a0b0c0d0e0f"

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("key edge-1 " SECRET " databases=0,2 prefix=session: prefix=cart%20: "
		      "sessions=4 role=agent"),
	KW_FUZZ_BYTES("# rotation\r\nkey a " SECRET "\nkey a " OTHER "\n"),
	KW_FUZZ_BYTES("key gw " OTHER SECRET " carriers=shm,tcp,rdma role=gateway,agent # why"),
	KW_FUZZ_BYTES("key a " SECRET " prefix=%00%ff%25 databases=65535\n\n\tkey b " OTHER),
	KW_FUZZ_BYTES("key a " SECRET " databases=0\nkey a " OTHER " databases=1"),
};

/* What is written of a scope is read as the same scope. */
static void write_and_read(const struct kw_key *key)
{
	struct kw_buffer text = {0};
	struct kw_keyring *ring;

	kw_buffer_printf(&text, "key x " SECRET " ");
	kw_scope_write(&key->rules.scope, &text);
	ring = kw_keyring_new((struct kw_slice){0},
		kw_slice(kw_buffer_bytes(&text), kw_buffer_length(&text)), NULL);
	must(ring && kw_keyring_count(ring) == 1);
	kw_keyring_release(ring);
	kw_buffer_close(&text);
}

static void ask(const struct kw_keyring *ring, const char *id)
{
	const struct kw_key *found[KW_KEY_LINES_MAX];
	size_t count = kw_keyring_find(ring, id, found);

	must(count >= 1 && count <= KW_KEY_LINES_MAX);
	for (size_t i = 0; i < count; i++) {
		const struct kw_scope *scope = &found[i]->rules.scope;

		must(found[i]->secret.length >= KW_KEY_SECRET_LEAST);
		must(kw_keyring_judge(ring, id, found[i]->digest) == KW_KEY_HOLDS);
		must(kw_scope_narrow(scope) || kw_scope_allows(scope, 7, kw_slice_text("any")));
		for (size_t j = 0; j < scope->prefix_count; j++)
			must(kw_scope_allows(scope, scope->database_count ? scope->databases[0] : 9,
				scope->prefixes[j]));
		write_and_read(found[i]);
	}
}

/* The id of each line that has one. */
static void ask_all(const struct kw_keyring *ring, const char *text, size_t length)
{
	const char *end = text + length;

	for (const char *at = text; at && at < end;) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		char id[KW_KEY_ID_MAX + 1];
		size_t used = 0;

		while (at < end && strchr(" \t\r", *at))
			at++;
		if (end - at > 4 && memcmp(at, "key", 3) == 0) {
			for (at += 3; at < end && strchr(" \t\r", *at);)
				at++;
			while (at < end && used < KW_KEY_ID_MAX && !strchr(" \t\r\n", *at))
				id[used++] = *at++;
			id[used] = '\0';
			ask(ring, id);
		}
		at = stop ? stop + 1 : NULL;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kw_error error = {0};
	struct kw_keyring *ring;
	char *exact;

	if (size > 4096)
		return 0;
	/* A copy of just these bytes: what is read beyond them is found. */
	exact = malloc(size ? size : 1);
	must(exact != NULL);
	if (size)
		memcpy(exact, data, size);
	ring = kw_keyring_new((struct kw_slice){0}, kw_slice(exact, size), &error);
	must(ring ? error.code == KW_OK : error.code == KW_E_CONFIG && error.text[0] != 0);
	must(strchr(error.text, '\n') == NULL);
	must(strstr(error.text, "0405060708") == NULL);
	must(ring || !kw_keyring_new((struct kw_slice){0}, kw_slice(exact, size), NULL));
	if (ring)
		ask_all(ring, exact, size);
	free(exact);
	kw_keyring_release(ring);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
