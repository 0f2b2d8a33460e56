#include "redis/server.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>

/* The number of databases of a server that does not allow CONFIG GET. */
#define DEFAULT_DATABASES 16

#define TEXT(number) TEXT_OF(number)
#define TEXT_OF(number) #number

/* The next line without its end; false when there is none. */
static bool next_line(struct kw_slice *rest, struct kw_slice *line)
{
	const char *text = rest->data;
	const char *end;
	size_t taken;

	if (rest->length == 0)
		return false;
	end = memchr(text, '\n', rest->length);
	taken = end ? (size_t)(end - text) + 1 : rest->length;
	*line = kw_slice(text, end ? taken - 1 : taken);
	if (line->length > 0 && text[line->length - 1] == '\r')
		line->length--;
	*rest = kw_slice(text + taken, rest->length - taken);
	return true;
}

static bool starts_with(struct kw_slice text, const char *words)
{
	size_t length = strlen(words);

	return text.length >= length && memcmp(text.data, words, length) == 0;
}

static bool contains(struct kw_slice text, const char *words)
{
	return text.data && text.length > 0 &&
	       memmem(text.data, text.length, words, strlen(words)) != NULL;
}

static struct kw_slice after(struct kw_slice text, size_t length)
{
	return kw_slice((const char *)text.data + length, text.length - length);
}

/* The decimal number at the front of text, which is moved past it. False: none, or too large. */
static bool take_number(struct kw_slice *text, uint64_t *number)
{
	const char *at = text->data;
	size_t digits = 0;
	uint64_t value = 0;

	for (; digits < text->length && at[digits] >= '0' && at[digits] <= '9'; digits++) {
		uint64_t digit = (uint64_t)(at[digits] - '0');

		if (value > (UINT64_MAX - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	if (digits == 0)
		return false;
	*text = after(*text, digits);
	*number = value;
	return true;
}

bool kw_info_text(struct kw_slice info, const char *field, struct kw_slice *value)
{
	size_t length = strlen(field);
	struct kw_slice line;

	while (next_line(&info, &line)) {
		if (line.length <= length || ((const char *)line.data)[length] != ':' ||
			memcmp(line.data, field, length) != 0)
			continue;
		*value = after(line, length + 1);
		return true;
	}
	return false;
}

bool kw_info_number(struct kw_slice info, const char *field, uint64_t *value)
{
	struct kw_slice text;
	uint64_t number;

	if (!kw_info_text(info, field, &text) || !take_number(&text, &number) || text.length > 0)
		return false;
	*value = number;
	return true;
}

/* name=NUMBER in a line of the form a=1,b=2. */
static bool pair_number(struct kw_slice pairs, const char *name, uint64_t *value)
{
	size_t length = strlen(name);

	while (pairs.length > length) {
		const char *text = pairs.data;
		const char *comma = memchr(text, ',', pairs.length);

		if (text[length] == '=' && memcmp(text, name, length) == 0) {
			struct kw_slice number = after(pairs, length + 1);

			return take_number(&number, value);
		}
		if (!comma)
			return false;
		pairs = after(pairs, (size_t)(comma - text) + 1);
	}
	return false;
}

/* One number of a command in INFO commandstats; 0: it is not there. */
static uint64_t command_number(struct kw_slice info, const char *command, const char *name)
{
	char field[128];
	struct kw_slice pairs;
	uint64_t value;

	snprintf(field, sizeof field, "cmdstat_%s", command);
	if (!kw_info_text(info, field, &pairs) || !pair_number(pairs, name, &value))
		return 0;
	return value;
}

uint64_t kw_info_calls(struct kw_slice info, const char *command)
{
	return command_number(info, command, "calls");
}

uint64_t kw_info_done(struct kw_slice info, const char *command)
{
	uint64_t calls = command_number(info, command, "calls");
	uint64_t failed = command_number(info, command, "failed_calls");

	return calls > failed ? calls - failed : 0;
}

bool kw_info_seconds(struct kw_slice info, const char *field, uint64_t *us)
{
	struct kw_slice text;
	uint64_t seconds, unit = 1000000;

	if (!kw_info_text(info, field, &text) || !take_number(&text, &seconds) ||
		seconds > UINT64_MAX / unit - 1)
		return false;
	*us = seconds * unit;
	if (!starts_with(text, "."))
		return text.length == 0;
	for (text = after(text, 1); text.length > 0; text = after(text, 1)) {
		uint8_t digit = (uint8_t)(*(const char *)text.data - '0');

		if (digit > 9)
			return false;
		unit /= 10;
		*us += digit * unit;
	}
	return true;
}

void kw_info_commands(struct kw_slice info, kw_info_command_fn fn, void *arg)
{
	struct kw_slice line;

	while (next_line(&info, &line)) {
		const char *colon;
		struct kw_slice name;
		uint64_t calls, usec;

		if (!starts_with(line, "cmdstat_"))
			continue;
		name = after(line, strlen("cmdstat_"));
		colon = memchr(name.data, ':', name.length);
		if (!colon)
			continue;
		name.length = (size_t)(colon - (const char *)name.data);
		line = after(line, strlen("cmdstat_") + name.length + 1);
		if (pair_number(line, "calls", &calls) && pair_number(line, "usec", &usec))
			fn(arg, name, calls, usec);
	}
}

int kw_info_keyspace(struct kw_slice info, kw_info_database_fn fn, void *arg)
{
	struct kw_slice line;
	int count = 0;

	while (next_line(&info, &line)) {
		uint64_t database, keys, expires;
		struct kw_slice rest;

		if (!starts_with(line, "db"))
			continue;
		rest = after(line, 2);
		if (!take_number(&rest, &database) || database > UINT32_MAX ||
			!starts_with(rest, ":"))
			continue;
		rest = after(rest, 1);
		if (!pair_number(rest, "keys", &keys) || !pair_number(rest, "expires", &expires))
			continue;
		if (fn)
			fn(arg, (uint32_t)database, keys, expires);
		count++;
	}
	return count;
}

bool kw_info_has_module(struct kw_slice info, const char *name)
{
	const char *head = "module:name=";
	struct kw_slice line;

	while (next_line(&info, &line)) {
		if (!starts_with(line, head))
			continue;
		line = after(line, strlen(head));
		if (starts_with(line, name) && line.length > strlen(name) &&
			((const char *)line.data)[strlen(name)] == ',')
			return true;
	}
	return false;
}

/*
 * Only a module with data types must handle errors of reading, and INFO does not tell whether it
 * has any. The script engine that Valkey 9.1 brings along has none (moduleAllDatatypesHandleErrors
 * in module.c), and a user's module cannot have its name beside it.
 */
static bool has_no_types(struct kw_slice line, bool valkey)
{
	return valkey && starts_with(line, "module:name=lua,");
}

bool kw_info_module_in_the_way(struct kw_slice info, char *name, size_t room)
{
	struct kw_slice line, version;
	bool valkey = kw_info_text(info, "valkey_version", &version);

	while (next_line(&info, &line)) {
		const char *comma;
		size_t length;

		if (!starts_with(line, "module:name=") ||
			(contains(line, "handle-repl-async-load") &&
				(contains(line, "handle-io-errors") || has_no_types(line, valkey))))
			continue;
		line = after(line, strlen("module:name="));
		comma = line.length ? memchr(line.data, ',', line.length) : NULL;
		length = comma ? (size_t)(comma - (const char *)line.data) : line.length;
		snprintf(name, room, "%.*s", (int)(length < room ? length : room - 1),
			length ? (const char *)line.data : "");
		return true;
	}
	return false;
}

static void add_expires(void *arg, uint32_t database, uint64_t keys, uint64_t expires)
{
	uint64_t *total = arg;

	*total += expires;
}

static void copy_field(struct kw_slice info, const char *field, char *to, size_t room)
{
	struct kw_slice value;

	if (kw_info_text(info, field, &value))
		snprintf(to, room, "%.*s", (int)(value.length < room ? value.length : room - 1),
			(const char *)value.data);
}

/* "7.0.15" to its numbers; what a build adds after them ("-rc1") is passed over. */
static bool parse_version(struct kw_slice text, struct kw_server_identity *identity)
{
	int *const parts[] = {&identity->major, &identity->minor, &identity->patch};

	for (size_t i = 0; i < 3; i++) {
		uint64_t number;

		if (!take_number(&text, &number) || number > 9999)
			return i > 1;
		*parts[i] = (int)number;
		if (!starts_with(text, "."))
			return i >= 1;
		text = after(text, 1);
	}
	return true;
}

const char *kw_upstream_trouble(enum kw_server_upstream upstream)
{
	switch (upstream) {
	case KW_UPSTREAM_SILENT:
		return "nothing has come from its own primary for more than " TEXT(
			KW_UPSTREAM_SILENT_S) " s, although their link is up";
	case KW_UPSTREAM_SYNCING:
		return "it is being synchronised";
	default:
		return "its link to its own primary is down";
	}
}

/* As replication.c tells it: all fields are there for every replica from 6.2 on. */
static enum kw_server_upstream parse_upstream(struct kw_slice info, const char *role)
{
	struct kw_slice status;
	uint64_t syncing, silent_s;

	if (strcmp(role, "slave") != 0)
		return KW_UPSTREAM_NONE;
	if (kw_info_number(info, "master_sync_in_progress", &syncing) && syncing != 0)
		return KW_UPSTREAM_SYNCING;
	if (kw_info_text(info, "master_link_status", &status) &&
		!kw_slice_equal(status, kw_slice_text("up")))
		return KW_UPSTREAM_DOWN;
	if (kw_info_number(info, "master_last_io_seconds_ago", &silent_s) &&
		silent_s > KW_UPSTREAM_SILENT_S)
		return KW_UPSTREAM_SILENT;
	return KW_UPSTREAM_UP;
}

int kw_server_identity_parse(
	struct kw_slice info, struct kw_server_identity *identity, struct kw_error *error)
{
	struct kw_slice version, other;
	uint64_t loading, good, active, read_only;

	*identity = (struct kw_server_identity){.databases = DEFAULT_DATABASES};
	/* Valkey also says redis_version:7.2.4, the Redis it stems from. */
	identity->valkey = kw_info_text(info, "valkey_version", &version);
	if (!identity->valkey && !kw_info_text(info, "redis_version", &version))
		return kw_error_set(error, KW_E_PROTOCOL,
			"INFO tells no redis_version: this is neither Redis nor Valkey");
	/* Servers that speak the protocol, but write payloads and raise events of their own kind.
	 */
	if (kw_info_text(info, "dragonfly_version", &other))
		return kw_error_set(error, KW_E_REFUSED,
			"this is Dragonfly %.*s: keywake follows Redis and Valkey only",
			(int)(other.length < 40 ? other.length : 40), (const char *)other.data);
	if (!parse_version(version, identity))
		return kw_error_set(error, KW_E_PROTOCOL, "INFO tells a version that is none: %.*s",
			(int)(version.length < 40 ? version.length : 40),
			(const char *)version.data);
	copy_field(info, "server_mode", identity->mode, sizeof identity->mode);
	copy_field(info, "redis_mode", identity->mode, sizeof identity->mode);
	copy_field(info, "run_id", identity->run_id, sizeof identity->run_id);
	copy_field(info, "master_replid", identity->replid, sizeof identity->replid);
	copy_field(info, "master_replid2", identity->replid2, sizeof identity->replid2);
	/* -1 without a second id. */
	if (!kw_info_number(info, "second_repl_offset", &identity->second_offset))
		identity->second_offset = 0;
	if (!kw_info_number(info, "master_repl_offset", &identity->offset))
		identity->offset = 0;
	if (!kw_info_number(info, "repl_backlog_active", &active) || active == 0 ||
		!kw_info_number(info, "repl_backlog_first_byte_offset", &identity->backlog_begin))
		identity->backlog_begin = 0;
	copy_field(info, "role", identity->role, sizeof identity->role);
	identity->upstream = parse_upstream(info, identity->role);
	identity->loading = kw_info_number(info, "loading", &loading) && loading != 0;
	identity->shutting_down = kw_info_text(info, "shutdown_in_milliseconds", &other);
	identity->failing_over = kw_info_text(info, "master_failover_state", &other) &&
				 !kw_slice_equal(other, kw_slice_text("no-failover"));
	/* Servers tell how many of them are good only if writes depend on it (genRedisInfoString).
	 */
	identity->counts_replicas = kw_info_number(info, "min_slaves_good_slaves", &good);
	identity->writable_replica =
		kw_info_number(info, "slave_read_only", &read_only) && read_only == 0;
	if (!kw_info_number(info, "process_id", &identity->process))
		identity->process = 0;
	kw_info_keyspace(info, add_expires, &identity->expires_total);
	return 0;
}

static bool older(const struct kw_server_identity *identity, int major, int minor)
{
	return identity->major < major || (identity->major == major && identity->minor < minor);
}

int kw_server_identity_check(const struct kw_server_identity *identity, struct kw_error *error)
{
	const char *name = identity->valkey ? "Valkey" : "Redis";

	if (strcmp(identity->mode, "sentinel") == 0)
		return kw_error_set(error, KW_E_REFUSED,
			"this is a Sentinel, which holds no keys: give the address of the server "
			"(SENTINEL GET-MASTER-ADDR-BY-NAME tells it)");
	if (strcmp(identity->mode, "cluster") == 0)
		return kw_error_set(error, KW_E_REFUSED,
			"the server runs in cluster mode, and a node of a cluster holds the keys "
			"of "
			"its own slots only, which is not supported: use a server with "
			"cluster-enabled no");
	if (identity->valkey ? older(identity, 7, 2) : older(identity, 6, 2))
		return kw_error_set(error, KW_E_REFUSED,
			"%s %d.%d.%d is too old: upgrade it to %s or later", name, identity->major,
			identity->minor, identity->patch,
			identity->valkey ? "Valkey 7.2" : "Redis 6.2");
	return 0;
}

/* RDB_VERSION in rdb.h of each series; the newest known also stands for later ones. */
bool kw_server_loads_rdb(uint16_t local, uint16_t version)
{
	/* Valkey 9 counts from 80. It takes 80, and the common versions up to 11. */
	if (local >= 80)
		return version <= 11 || (version >= 80 && version <= local);
	return local == 0 || version <= local;
}

uint64_t kw_server_id(const struct kw_server_identity *identity)
{
	size_t length = strlen(identity->run_id);

	return length ? kw_hash_key(0, 0, identity->run_id, length) : 0;
}

uint16_t kw_server_rdb_version(const struct kw_server_identity *identity)
{
	static const struct {
		int major, minor;
		uint16_t rdb;
	} redis[] = {{8, 8, 14}, {8, 6, 13}, {7, 4, 12}, {7, 2, 11}, {7, 0, 10}};

	if (identity->valkey)
		return older(identity, 9, 0) ? 11 : 80;
	for (size_t i = 0; i < sizeof redis / sizeof *redis; i++) {
		if (!older(identity, redis[i].major, redis[i].minor))
			return redis[i].rdb;
	}
	return 9;
}

bool kw_server_lacks_command(struct kw_slice text)
{
	static const char words[] = "ERR unknown command";

	return text.length >= sizeof words - 1 && memcmp(text.data, words, sizeof words - 1) == 0;
}

enum kw_server_error kw_server_error(struct kw_slice text)
{
	static const struct {
		const char *word; /* the first of the sentence, with the space after it */
		enum kw_server_error kind;
	} words[] = {
		{"LOADING ", KW_SERVER_E_LOADING},
		{"BUSY ", KW_SERVER_E_BUSY},
		{"TRYAGAIN ", KW_SERVER_E_LOADING},
		{"MASTERDOWN ", KW_SERVER_E_MASTERDOWN},
		{"CLUSTERDOWN ", KW_SERVER_E_LOADING},
		{"OOM ", KW_SERVER_E_OOM},
		{"READONLY ", KW_SERVER_E_READONLY},
		{"MISCONF ", KW_SERVER_E_MISCONF},
		{"NOREPLICAS ", KW_SERVER_E_MISCONF},
		{"NOPERM ", KW_SERVER_E_PERMISSION},
		{"NOAUTH ", KW_SERVER_E_PERMISSION},
		{"WRONGPASS ", KW_SERVER_E_PERMISSION},
		{"DENIED ", KW_SERVER_E_PERMISSION},
	};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (starts_with(text, words[i].word))
			return words[i].kind;
	}
	if (contains(text, "DUMP payload version or checksum are wrong") ||
		contains(text, "Bad data format"))
		return KW_SERVER_E_PAYLOAD;
	return KW_SERVER_E_OTHER;
}
