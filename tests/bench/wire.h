/*
 * The agent's own carrier under the agent's own reader, and nothing else: for yardsticks that read
 * a table as an agent does. Dies with a sentence where an agent would try again. One loop.
 */
#ifndef KW_BENCH_WIRE_H
#define KW_BENCH_WIRE_H

#include "remote/remote.h"
#include "table/reader.h"

struct wire_read; /* one READ on its way */

struct wire {
	const char *name; /* of the program, for sentences */
	uv_loop_t loop;
	struct kw_address address;
	struct kw_tls_current tls;
	struct kw_remote *remote;
	struct wire_read *spare;
	bool ready;
};

void wire_die(const struct wire *wire, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));

/* Zeroed but for name. */
void wire_init(struct wire *wire, const char *address);

/*
 * Returns when the connection is there. Over tcp+tls the proxy's certificate must be signed by the
 * CA of the file that KW_BENCH_CA names.
 */
void wire_connect(struct wire *wire, uint32_t depth);

/* Returns when it is closed. */
void wire_disconnect(struct wire *wire);
void wire_free(struct wire *wire);

/* What a reader on it is made with; any number of readers. */
struct kw_reader_io wire_io(struct wire *wire);

#endif
