/* Compression, as the two ends agree on it (handshake.h). What carries it out is in tcp/. */
#include "remote/remote.h"

bool kw_compression_built(void)
{
#ifdef KW_HAVE_ZSTD
	return true;
#else
	return false;
#endif
}

const char *kw_compression_text(enum kw_compression compression)
{
	switch (compression) {
	case KW_COMPRESSION_ZSTD:
		return "";
	case KW_COMPRESSION_UNTOLD:
		return "the proxy is of an earlier version, which compresses nothing: upgrade it";
	case KW_COMPRESSION_FORBIDDEN:
		return "the proxy allows no compression: set its remote.compressed_sessions";
	case KW_COMPRESSION_FULL:
		return "the proxy compresses for as many sessions as it allows already: raise its "
		       "remote.compressed_sessions";
	case KW_COMPRESSION_UNBUILT:
		return "the proxy was built without zstd (-Dzstd=disabled)";
	}
	return "the proxy does not compress, for a reason that this build does not know";
}
