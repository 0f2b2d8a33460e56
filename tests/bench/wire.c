#include "wire.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH KW_READER_DEPTH_MAX

struct wire_read {
	struct kw_remote_read remote;
	struct kw_read *asked;
	struct wire *wire;
	struct wire_read *next;
};

void wire_die(const struct wire *wire, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", wire->name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

void wire_init(struct wire *wire, const char *address)
{
	struct kw_error error;

	if (kw_address_parse(address, &wire->address, &error) != 0)
		wire_die(wire, "%s", error.text);
	uv_loop_init(&wire->loop);
}

static struct kw_tls_context *load_tls(const struct wire *wire)
{
	const char *path = getenv("KW_BENCH_CA");
	FILE *file = fopen(path ? path : "", "r");
	struct kw_tls_options options = {
		.role = KW_TLS_CLIENT, .verify = true, .terms = &kw_remote_tls_terms};
	struct kw_tls_context *context;
	struct kw_error error;
	static char pem[65536];

	if (!file)
		wire_die(wire, "KW_BENCH_CA names no file of a CA");
	options.ca = (struct kw_tls_pem){path, kw_slice(pem, fread(pem, 1, sizeof pem, file))};
	fclose(file);
	context = kw_tls_context_new(&options, &error);
	if (!context)
		wire_die(wire, "%s", error.text);
	return context;
}

static void on_ready(void *arg, const struct kw_remote_info *info)
{
	((struct wire *)arg)->ready = true;
}

static void on_closed(void *arg, const struct kw_error *why)
{
	struct wire *wire = arg;

	if (why->code != KW_OK)
		wire_die(wire, "%s", why->text);
	kw_remote_free(wire->remote);
	wire->remote = NULL;
}

void wire_connect(struct wire *wire, uint32_t depth)
{
	const struct kw_remote_options options = {.agent_name = "yardstick",
		.depth = depth,
		.allow_insecure = true,
		.tls = &wire->tls};
	const struct kw_remote_handlers handlers = {on_ready, on_closed, wire};
	struct kw_error error;

	wire->ready = false;
	if (wire->address.carrier == KW_CARRIER_TLS && !wire->tls.context)
		kw_tls_current_put(&wire->tls, load_tls(wire));
	if (kw_remote_open(
		    &wire->loop, &wire->address, &options, &handlers, &wire->remote, &error) != 0)
		wire_die(wire, "%s", error.text);
	while (!wire->ready)
		uv_run(&wire->loop, UV_RUN_ONCE);
}

void wire_disconnect(struct wire *wire)
{
	kw_remote_close(wire->remote);
	while (wire->remote)
		uv_run(&wire->loop, UV_RUN_ONCE);
}

void wire_free(struct wire *wire)
{
	while (wire->spare) {
		struct wire_read *read = wire->spare;

		wire->spare = read->next;
		free(read);
	}
	kw_tls_current_put(&wire->tls, NULL);
	kw_remote_end(&wire->loop);
	uv_run(&wire->loop, UV_RUN_DEFAULT);
	uv_loop_close(&wire->loop);
}

static void on_read(struct kw_remote_read *remote, const struct kw_error *error)
{
	struct wire_read *read = remote->arg;
	struct wire *wire = read->wire;
	struct kw_read *asked = read->asked;

	read->next = wire->spare;
	wire->spare = read;
	kw_reader_complete(asked, error);
}

/* The spare ones are bounded by the readers' depths. */
static struct kw_remote_read *prepare(struct wire *wire, struct kw_read *asked)
{
	struct wire_read *read = wire->spare;

	if (read)
		wire->spare = read->next;
	else if (!(read = malloc(sizeof *read)))
		wire_die(wire, "out of memory");
	*read = (struct wire_read){.asked = asked, .wire = wire};
	read->remote = (struct kw_remote_read){.offset = asked->offset,
		.length = asked->length,
		.buffer = asked->buffer,
		.done = on_read,
		.arg = read};
	return &read->remote;
}

static void on_reads(void *arg, struct kw_read *const *asked, int count)
{
	struct wire *wire = arg;
	struct kw_remote_read *batch[BATCH];

	for (int i = 0; i < count; i += BATCH) {
		int filled = 0;

		while (filled < BATCH && i + filled < count) {
			batch[filled] = prepare(wire, asked[i + filled]);
			filled++;
		}
		kw_remote_read(wire->remote, batch, filled);
	}
}

static void on_extents(void *arg, const struct kw_extent *extents, int count)
{
	kw_remote_set_extents(((struct wire *)arg)->remote, extents, count);
}

struct kw_reader_io wire_io(struct wire *wire)
{
	return (struct kw_reader_io){on_reads, on_extents, wire};
}
