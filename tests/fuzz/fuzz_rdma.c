/*
 * What travels with connection requests, and what the connection manager says of them: any private
 * data, any event, any completion gets a sentence and a code, or is taken as ours.
 */
#include "fuzz.h"

#include "remote/rdma/event.h"

#include <string.h>

static void look_at_private(const uint8_t *data, size_t size)
{
	enum kw_rdma_reject reject = kw_rdma_private_check(data, size);
	struct kw_rdma_private private;

	must(reject == KW_RDMA_REJECT_NONE || reject == KW_RDMA_REJECT_FOREIGN ||
		reject == KW_RDMA_REJECT_VERSION);
	if (reject != KW_RDMA_REJECT_NONE)
		return;
	must(size >= sizeof private);
	memcpy(&private, data, sizeof private);
	must(private.magic == KW_RDMA_MAGIC && private.version == KW_RDMA_VERSION);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kw_rdma_cm_event event = {0};
	struct kw_error error = {0};
	uint32_t word;
	int code;

	if (size < 6)
		return 0;
	event.type = (enum rdma_cm_event_type)(data[0] % 20);
	memcpy(&word, data + 1, sizeof word);
	event.status = data[5] & 1 ? (int)(word % 64) : (int)word;
	data += 6;
	size -= 6;
	look_at_private(data, size);
	event.data_length = size < sizeof event.data ? size : sizeof event.data;
	memcpy(event.data, data, event.data_length);
	code = kw_rdma_cm_error(&error, &event);
	must(code != 0 && code == (int)error.code && error.text[0] != 0);
	code = kw_rdma_completion_error(&error, (enum ibv_wc_status)(word % 32), "READ");
	must(code != 0 && error.text[0] != 0);
	(void)kw_rdma_async_error(&error, (enum ibv_event_type)(word % 32), "device");
	return 0;
}

/* A reject of each kind. */
size_t kw_fuzz_seed(unsigned n, uint8_t *data, size_t most)
{
	struct kw_rdma_private private;

	if (n > KW_RDMA_REJECT_RESOURCES + 1 || most < 64)
		return 0;
	memset(data, 0, 64);
	data[0] = RDMA_CM_EVENT_REJECTED;
	data[1] = 28;
	kw_rdma_private_init(&private, (enum kw_rdma_reject)n);
	private.version += n > KW_RDMA_REJECT_RESOURCES;
	memcpy(data + 6, &private, sizeof private);
	return 6 + sizeof private + (n & 1 ? 32 : 0);
}
