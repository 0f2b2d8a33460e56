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
	kw_buffer_printf(text,
		"# HELP %s_rdma_faults_total what went wrong on RDMA connections, by kind\n"
		"# TYPE %s_rdma_faults_total counter\n",
		prefix, prefix);
	for (int i = 0; i < KW_RDMA_COUNTS; i++)
		kw_buffer_printf(text, "%s_rdma_faults_total{kind=\"%s\"} %" PRIu64 "\n", prefix,
			kw_rdma_count_name((enum kw_rdma_count)i),
			kw_rdma_counted((enum kw_rdma_count)i));
}
