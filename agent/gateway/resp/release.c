#include "release.h"

#define RDB_REDIS_7_0 10
#define RDB_OF_BOTH 11
#define RDB_VALKEY_9 80

struct kw_release kw_release_of_rdb(uint16_t rdb_version)
{
	if (rdb_version >= RDB_VALKEY_9)
		return (struct kw_release){KW_FORK_VALKEY, KW_RELEASE(9, 0)};
	if (rdb_version > RDB_OF_BOTH)
		return (struct kw_release){KW_FORK_REDIS, KW_RELEASE(8, 0)};
	if (rdb_version == RDB_OF_BOTH)
		return (struct kw_release){KW_FORK_VALKEY, KW_RELEASE(8, 1)};
	return (struct kw_release){
		KW_FORK_REDIS, rdb_version == RDB_REDIS_7_0 ? KW_RELEASE(7, 0) : 0};
}
