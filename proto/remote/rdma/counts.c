#include "remote/rdma/counts.h"

#include <inttypes.h>
#include <stdatomic.h>

static _Atomic uint64_t counts[KW_RDMA_COUNTS];

const char *kw_rdma_count_name(enum kw_rdma_count count)
{
	static const char *const names[] = {
#define X(id, name, doc) [KW_RDMA_##id] = name,
		KW_RDMA_COUNTS_LIST(X)
#undef X
	};

	return names[count];
}

uint64_t kw_rdma_counted(enum kw_rdma_count count)
{
	return atomic_load_explicit(&counts[count], memory_order_relaxed);
}

void kw_rdma_count(enum kw_rdma_count count)
{
	atomic_fetch_add_explicit(&counts[count], 1, memory_order_relaxed);
}

void kw_rdma_metrics(struct kw_buffer *text, const char *prefix)
{
	static const char *const docs[] = {
#define X(id, name, doc) [KW_RDMA_##id] = doc,
		KW_RDMA_COUNTS_LIST(X)
#undef X
	};

	for (int i = 0; i < KW_RDMA_COUNTS; i++) {
		const char *name = kw_rdma_count_name((enum kw_rdma_count)i);

		kw_buffer_printf(text,
			"# HELP %s_%s_total %s\n# TYPE %s_%s_total counter\n%s_%s_total %" PRIu64
			"\n",
			prefix, name, docs[i], prefix, name, prefix, name,
			kw_rdma_counted((enum kw_rdma_count)i));
	}
}
