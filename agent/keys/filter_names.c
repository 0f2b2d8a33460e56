/* What is followed, by the names that it has in the local server. */
#include "filter.h"

#include "glob.h"

int kw_filter_map_database(struct kw_filter *filter, const char *rule, struct kw_error *error)
{
	return kw_naming_add_database(&filter->names, rule, error);
}

int kw_filter_rewrite_prefix(struct kw_filter *filter, const char *rule, struct kw_error *error)
{
	return kw_naming_add_prefix(&filter->names, rule, error);
}

/* ---- are the rules sound, for what is followed? ---- */

/* "tmp:*", and nothing else that is special: every key with a prefix is left out. */
static bool leaves_out(struct kw_slice pattern, struct kw_slice prefix)
{
	const char *bytes = pattern.data;
	struct kw_buffer beginning = {0};
	bool all;

	if (pattern.length == 0 || bytes[pattern.length - 1] != '*' ||
		memchr(bytes, '\\', pattern.length))
		return false;
	kw_glob_beginning(pattern, &beginning);
	all = kw_buffer_length(&beginning) == pattern.length - 1 &&
	      kw_naming_begins_with(
		      prefix, kw_slice(kw_buffer_bytes(&beginning), kw_buffer_length(&beginning)));
	kw_buffer_close(&beginning);
	return all;
}

static bool is_left_out(const void *arg, struct kw_slice prefix)
{
	const struct kw_filter *filter = arg;

	for (size_t i = 0; i < filter->excluded.count; i++)
		if (leaves_out(filter->excluded.texts[i], prefix))
			return true;
	return false;
}

/* Some keys that are followed begin with `beginning`, and no other is known of them. */
struct look {
	const struct kw_filter *filter;
	uint64_t met; /* a bit for each rule that such a key can have */
	struct kw_error *error;
};
_Static_assert(KW_NAMING_PREFIXES_MAX <= 64, "a bit for each rule");

static int look_at(struct look *look, struct kw_slice beginning)
{
	const struct kw_naming *names = &look->filter->names;

	for (size_t i = 0; i < names->prefix_count; i++)
		if (kw_naming_begins_with(beginning, names->prefixes[i].table) ||
			kw_naming_begins_with(names->prefixes[i].table, beginning))
			look->met |= UINT64_C(1) << i;
	return kw_naming_keeps_prefix(names, beginning, is_left_out, look->filter, look->error);
}

static int look_at_pattern(struct look *look, struct kw_slice pattern)
{
	struct kw_buffer beginning = {0};
	int code;

	kw_glob_beginning(pattern, &beginning);
	code = look_at(look, kw_slice(kw_buffer_bytes(&beginning), kw_buffer_length(&beginning)));
	kw_buffer_close(&beginning);
	return code;
}

static int check_prefixes(const struct kw_filter *filter, struct kw_error *error)
{
	const struct kw_naming *names = &filter->names;
	struct look look = {.filter = filter, .error = error};
	int code = KW_OK;

	if (filter->prefixes.count == 0 && filter->patterns.count == 0)
		code = look_at(&look, kw_slice(NULL, 0));
	for (size_t i = 0; i < filter->prefixes.count && !code; i++)
		code = look_at(&look, filter->prefixes.texts[i]);
	for (size_t i = 0; i < filter->patterns.count && !code; i++)
		code = look_at_pattern(&look, filter->patterns.texts[i]);
	for (size_t i = 0; i < names->prefix_count && !code; i++)
		if (!(look.met >> i & 1))
			code = kw_error_set(error, KW_E_CONFIG,
				"filter.rewrite_prefixes: no key that begins with %s is followed: "
				"remove the rule, or add it to filter.prefixes",
				(const char *)names->prefixes[i].table.data);
	return code;
}

int kw_filter_check_names(const struct kw_filter *filter, struct kw_error *error)
{
	const struct kw_naming *names = &filter->names;
	int code;

	for (size_t i = 0; i < names->database_count; i++) {
		uint32_t table = names->databases[i].table, local = names->databases[i].local;

		if (!kw_filter_has_database(filter, table))
			return kw_error_set(error, KW_E_CONFIG,
				"filter.map_databases: database %u is not followed: remove the "
				"rule, or add it to filter.databases",
				table);
		if (!kw_filter_has_database(filter, local))
			continue;
		code = kw_naming_keeps_database(names, local, error);
		if (code)
			return code;
	}
	return names->prefix_count > 0 ? check_prefixes(filter, error) : KW_OK;
}

/* ---- names ---- */

bool kw_filter_finds_database(const struct kw_filter *filter, uint32_t local, uint32_t *database)
{
	return kw_naming_table_database(&filter->names, local, database) &&
	       kw_filter_has_database(filter, *database);
}

bool kw_filter_finds_key(const struct kw_filter *filter, struct kw_slice local,
	struct kw_buffer *room, struct kw_slice *key)
{
	return kw_naming_table_key(&filter->names, local, room, key) &&
	       kw_filter_has_key(filter, *key);
}
