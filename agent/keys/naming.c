#include "naming.h"

#include "base/hash.h"
#include "table/layout.h"

#include <stdio.h>
#include <stdlib.h>

/* What each kind of rule is hashed with. filter.c has the numbers before these. */
enum seed { SEED_DATABASE = 4, SEED_PREFIX = 5 };

#define DATABASES "filter.map_databases"
#define PREFIXES "filter.rewrite_prefixes"

static bool is_one_in_the_other(struct kw_slice a, struct kw_slice b)
{
	return kw_naming_begins_with(a, b) || kw_naming_begins_with(b, a);
}

/* ---- rules about databases ---- */

/* Digits alone. Returns what follows them; NULL: it is no number of a database. */
static const char *parse_number(const char *text, uint32_t *number)
{
	const char *at = text;

	*number = 0;
	while (*at >= '0' && *at <= '9' && *number <= KW_DATABASE_MAX)
		*number = *number * 10 + (uint32_t)(*at++ - '0');
	return at > text && *number <= KW_DATABASE_MAX ? at : NULL;
}

static int parse_database(
	const char *rule, struct kw_naming_database *parsed, struct kw_error *error)
{
	const char *at = parse_number(rule, &parsed->table);

	if (at && *at == '=')
		at = parse_number(at + 1, &parsed->local);
	else
		at = NULL;
	if (!at || *at)
		return kw_error_set(error, KW_E_CONFIG,
			"\"%s\" is no rule: write \"0=3\" to keep the table's database 0 in the "
			"local database 3 (each 0 to %d)",
			rule, KW_DATABASE_MAX);
	if (parsed->table == parsed->local)
		return kw_error_set(error, KW_E_CONFIG, "\"%s\" changes nothing: remove it", rule);
	return KW_OK;
}

int kw_naming_check_database(const char *rule, struct kw_error *error)
{
	struct kw_naming_database parsed;

	return parse_database(rule, &parsed, error);
}

static int refuse_database(const struct kw_naming *naming, const struct kw_naming_database *added,
	struct kw_error *error)
{
	for (size_t i = 0; i < naming->database_count; i++) {
		const struct kw_naming_database *other = &naming->databases[i];

		if (other->table == added->table)
			return kw_error_set(error, KW_E_CONFIG,
				DATABASES ": two rules for database %u of the table: keep one",
				added->table);
		if (other->local == added->local)
			return kw_error_set(error, KW_E_CONFIG,
				DATABASES ": databases %u and %u would both become the local "
					  "database %u: give each its own",
				other->table, added->table, added->local);
	}
	if (naming->database_count < KW_NAMING_DATABASES_MAX)
		return KW_OK;
	return kw_error_set(error, KW_E_CONFIG, DATABASES ": more than %d rules; shorten the list",
		KW_NAMING_DATABASES_MAX);
}

int kw_naming_add_database(struct kw_naming *naming, const char *rule, struct kw_error *error)
{
	struct kw_naming_database parsed;
	int code;

	if (parse_database(rule, &parsed, error))
		return kw_error_wrap(error, DATABASES);
	code = refuse_database(naming, &parsed, error);
	if (code)
		return code;
	naming->databases = kw_realloc(
		naming->databases, (naming->database_count + 1) * sizeof *naming->databases);
	naming->databases[naming->database_count++] = parsed;
	return KW_OK;
}

static const struct kw_naming_database *rule_of_table(
	const struct kw_naming *naming, uint32_t database)
{
	for (size_t i = 0; i < naming->database_count; i++)
		if (naming->databases[i].table == database)
			return &naming->databases[i];
	return NULL;
}

static const struct kw_naming_database *rule_of_local(
	const struct kw_naming *naming, uint32_t database)
{
	for (size_t i = 0; i < naming->database_count; i++)
		if (naming->databases[i].local == database)
			return &naming->databases[i];
	return NULL;
}

int kw_naming_keeps_database(
	const struct kw_naming *naming, uint32_t database, struct kw_error *error)
{
	const struct kw_naming_database *taken = rule_of_local(naming, database);

	if (!taken || rule_of_table(naming, database))
		return KW_OK;
	return kw_error_set(error, KW_E_CONFIG,
		DATABASES ": database %u would become the local database %u, which database %u of "
			  "the table has already: leave that one out by filter.databases or "
			  "filter.exclude_databases, or map it, too",
		taken->table, database, database);
}

/* ---- rules about prefixes ---- */

/* `parsed` points into the rule. */
static int parse_prefix(const char *rule, struct kw_naming_prefix *parsed, struct kw_error *error)
{
	const char *equals = strchr(rule, '=');

	if (!equals || strchr(equals + 1, '='))
		return kw_error_set(error, KW_E_CONFIG,
			"\"%s\" is no rule: write \"old:=new:\" to call keys that begin with old: "
			"new: and the rest of their name (one =, which neither side can have)",
			rule);
	parsed->table = kw_slice(rule, (size_t)(equals - rule));
	parsed->local = kw_slice_text(equals + 1);
	if (parsed->table.length > KW_NAMING_PREFIX_BYTES ||
		parsed->local.length > KW_NAMING_PREFIX_BYTES)
		return kw_error_set(error, KW_E_CONFIG,
			"a prefix has more than %d bytes: shorten it", KW_NAMING_PREFIX_BYTES);
	if (kw_slice_equal(parsed->table, parsed->local))
		return kw_error_set(error, KW_E_CONFIG, "\"%s\" changes nothing: remove it", rule);
	return KW_OK;
}

int kw_naming_check_prefix(const char *rule, struct kw_error *error)
{
	struct kw_naming_prefix parsed;

	return parse_prefix(rule, &parsed, error);
}

static int refuse_prefix(const struct kw_naming *naming, const struct kw_naming_prefix *added,
	const char *rule, struct kw_error *error)
{
	for (size_t i = 0; i < naming->prefix_count; i++) {
		const struct kw_naming_prefix *other = &naming->prefixes[i];
		bool table = is_one_in_the_other(other->table, added->table);

		if (table || is_one_in_the_other(other->local, added->local))
			return kw_error_set(error, KW_E_CONFIG,
				PREFIXES ": \"%s\" and \"%s=%s\" overlap on the %s side: no prefix "
					 "may begin with another one",
				rule, (const char *)other->table.data,
				(const char *)other->local.data, table ? "left" : "right");
	}
	if (naming->prefix_count < KW_NAMING_PREFIXES_MAX)
		return KW_OK;
	return kw_error_set(error, KW_E_CONFIG, PREFIXES ": more than %d rules; shorten the list",
		KW_NAMING_PREFIXES_MAX);
}

static struct kw_slice copy_text(struct kw_slice text)
{
	char *copy = kw_zalloc(text.length + 1);

	if (text.length > 0)
		memcpy(copy, text.data, text.length);
	return kw_slice(copy, text.length);
}

int kw_naming_add_prefix(struct kw_naming *naming, const char *rule, struct kw_error *error)
{
	struct kw_naming_prefix parsed = {0};
	int code;

	if (parse_prefix(rule, &parsed, error))
		return kw_error_wrap(error, PREFIXES);
	code = refuse_prefix(naming, &parsed, rule, error);
	if (code)
		return code;
	naming->prefixes =
		kw_realloc(naming->prefixes, (naming->prefix_count + 1) * sizeof *naming->prefixes);
	naming->prefixes[naming->prefix_count++] =
		(struct kw_naming_prefix){copy_text(parsed.table), copy_text(parsed.local)};
	return KW_OK;
}

/* The rule that a key of the table has: one at most. NULL: it keeps its name. */
static const struct kw_naming_prefix *rule_of_key(
	const struct kw_naming *naming, struct kw_slice key)
{
	for (size_t i = 0; i < naming->prefix_count; i++)
		if (kw_naming_begins_with(key, naming->prefixes[i].table))
			return &naming->prefixes[i];
	return NULL;
}

static const struct kw_naming_prefix *rule_of_name(
	const struct kw_naming *naming, struct kw_slice local)
{
	for (size_t i = 0; i < naming->prefix_count; i++)
		if (kw_naming_begins_with(local, naming->prefixes[i].local))
			return &naming->prefixes[i];
	return NULL;
}

int kw_naming_keeps_prefix(const struct kw_naming *naming, struct kw_slice prefix,
	bool (*left_out)(const void *arg, struct kw_slice prefix), const void *arg,
	struct kw_error *error)
{
	for (size_t i = 0; i < naming->prefix_count; i++) {
		const struct kw_naming_prefix *rule = &naming->prefixes[i];
		struct kw_slice both = prefix.length > rule->local.length ? prefix : rule->local;

		/* `both`: keys that are followed, and have such a name if no rule is theirs. */
		if (!is_one_in_the_other(prefix, rule->local) || rule_of_key(naming, both) ||
			left_out(arg, both))
			continue;
		return kw_error_set(error, KW_E_CONFIG,
			PREFIXES ": \"%s=%s\" gives names that other keys have: those that begin "
				 "with \"%.*s\" are followed, too: name what is followed by "
				 "filter.prefixes, or leave these out by filter.exclude",
			(const char *)rule->table.data, (const char *)rule->local.data,
			(int)both.length, (const char *)both.data);
	}
	return KW_OK;
}

void kw_naming_close(struct kw_naming *naming)
{
	for (size_t i = 0; i < naming->prefix_count; i++) {
		free((void *)(uintptr_t)naming->prefixes[i].table.data);
		free((void *)(uintptr_t)naming->prefixes[i].local.data);
	}
	free(naming->prefixes);
	free(naming->databases);
	*naming = (struct kw_naming){0};
}

/* ---- names ---- */

uint32_t kw_naming_local_database(const struct kw_naming *naming, uint32_t database)
{
	const struct kw_naming_database *rule = rule_of_table(naming, database);

	return rule ? rule->local : database;
}

bool kw_naming_table_database(const struct kw_naming *naming, uint32_t local, uint32_t *database)
{
	const struct kw_naming_database *rule = rule_of_local(naming, local);

	*database = rule ? rule->table : local;
	/* Without a rule it could only be that database itself, and that has another name. */
	return rule || !rule_of_table(naming, local);
}

void kw_naming_clear(struct kw_buffer *room)
{
	kw_buffer_clear(room);
	kw_buffer_trim(room, KW_NAMING_KEEP_BYTES);
}

/* `text` begins with `from`: the same with `to` in its place. */
static struct kw_slice exchange(
	struct kw_slice text, struct kw_slice from, struct kw_slice to, struct kw_buffer *room)
{
	size_t before = kw_buffer_length(room), rest = text.length - from.length;

	kw_buffer_reserve(room, to.length + rest + 1); /* an empty name lies somewhere, too */
	kw_buffer_append(room, to.data, to.length);
	kw_buffer_append(room, (const char *)text.data + from.length, rest);
	return kw_slice(kw_buffer_bytes(room) + before, to.length + rest);
}

struct kw_slice kw_naming_append_local_key(
	const struct kw_naming *naming, struct kw_slice key, struct kw_buffer *room)
{
	const struct kw_naming_prefix *rule = rule_of_key(naming, key);

	return rule ? exchange(key, rule->table, rule->local, room) : key;
}

struct kw_slice kw_naming_local_key(
	const struct kw_naming *naming, struct kw_slice key, struct kw_buffer *room)
{
	kw_naming_clear(room);
	return kw_naming_append_local_key(naming, key, room);
}

bool kw_naming_table_key(const struct kw_naming *naming, struct kw_slice local,
	struct kw_buffer *room, struct kw_slice *key)
{
	const struct kw_naming_prefix *rule = rule_of_name(naming, local);

	kw_naming_clear(room);
	*key = rule ? exchange(local, rule->local, rule->table, room) : local;
	return rule || !rule_of_key(naming, local);
}

/* ---- the hash ---- */

uint64_t kw_naming_hash(const struct kw_naming *naming)
{
	struct kw_buffer bytes = {0};
	uint64_t hash = 0;

	for (size_t i = 0; i < naming->database_count; i++)
		hash += kw_hash_key(SEED_DATABASE, naming->databases[i].table,
			&naming->databases[i].local, sizeof naming->databases[i].local);
	for (size_t i = 0; i < naming->prefix_count; i++) {
		const struct kw_naming_prefix *rule = &naming->prefixes[i];

		kw_buffer_clear(&bytes);
		kw_buffer_append(&bytes, rule->table.data, rule->table.length);
		kw_buffer_append(&bytes, rule->local.data, rule->local.length);
		/* The place of the border tells "a=bc" from "ab=c". */
		hash += kw_hash_key(SEED_PREFIX, (uint32_t)rule->table.length,
			kw_buffer_bytes(&bytes), kw_buffer_length(&bytes));
	}
	kw_buffer_close(&bytes);
	return hash;
}
