#include "source/missing.h"

struct kw_key *kw_missing_find(
	const struct kw_key_table *set, uint32_t database, struct kw_slice key)
{
	if (set->count == 0)
		return NULL; /* the common case costs no hash */
	return kw_key_table_find(set, kw_key_table_hash(set, database, key), database, key);
}

struct kw_key *kw_missing_add(struct kw_key_table *set, uint32_t database, struct kw_slice key)
{
	return kw_key_table_add(set, kw_key_table_hash(set, database, key), database, key);
}

void kw_missing_remove(struct kw_key_table *set, uint32_t database, struct kw_slice key)
{
	struct kw_key *known = kw_missing_find(set, database, key);

	if (known)
		kw_key_table_remove(set, known);
}

struct removing {
	struct kw_key_table *set;
	uint32_t database;
};

static void remove_one(void *arg, struct kw_key *key)
{
	const struct removing *removing = arg;

	if (key->database == removing->database)
		kw_key_table_remove(removing->set, key);
}

void kw_missing_remove_database(struct kw_key_table *set, uint32_t database)
{
	kw_key_table_each(set, remove_one, &(struct removing){set, database});
}

static void add_one(void *arg, struct kw_key *key)
{
	if (!kw_databases_has(arg, key->database))
		kw_databases_add(arg, key->database);
}

void kw_missing_databases(struct kw_key_table *set, struct kw_databases *databases)
{
	kw_key_table_each(set, add_one, databases);
}

struct sweeping {
	const struct kw_key_table *set;
	const struct kw_databases *databases;
	struct kw_dirty *dirty;
};

static void sweep_one(void *arg, struct kw_key *key)
{
	const struct sweeping *sweeping = arg;

	if (kw_databases_has(sweeping->databases, key->database))
		kw_dirty_add(sweeping->dirty, key->database, kw_key_table_name(sweeping->set, key),
			KW_DIRTY_SCAN | KW_DIRTY_TTL | KW_DIRTY_COUNTED); /* the table has none */
}

void kw_missing_sweep(
	struct kw_key_table *set, const struct kw_databases *databases, struct kw_dirty *dirty)
{
	kw_key_table_each(set, sweep_one, &(struct sweeping){set, databases, dirty});
}
