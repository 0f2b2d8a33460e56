#include "redis/reply.h"

#include "base/buffer.h"
#include "redis/arena.h"
#include "redis/resp_parse.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>

/*
 * After each reply that ends beyond its first KiB, hiredis moves the rest to the front of its
 * buffer. Small pieces make that cheap: with 4 KiB, two bytes are moved for one that is parsed.
 */
#define PIECE_BYTES ((size_t)4 * 1024)

/* While a bulk string is incomplete nothing is moved: larger pieces need fewer calls. */
#define BULK_PIECE_BYTES ((size_t)16 * 1024)

/* A parser whose buffer grew beyond this is replaced: one large value must not stay. */
#define KEEP_BYTES ((size_t)4 * 1024 * 1024)

/* So much of an incomplete reply is kept before hiredis gets it; and so much is added at a time. */
#define TAIL_BYTES ((size_t)64 * 1024)
#define TAIL_STEP_BYTES ((size_t)4 * 1024)

/* What RESP adds to a text is less than this: a type, a length, line ends. */
#define FRAME_BYTES ((size_t)64)

static const struct kw_reply_bound unbounded = {"a reply", KW_REPLY_MAX_BYTES, SIZE_MAX};

enum reader_mode {
	READER_IN_PLACE, /* resp_parse.h reads the next reply where it lies */
	READER_HIREDIS,  /* hiredis has the beginning of the present reply */
	READER_STOPPED,  /* the sink wants no more: nothing is taken */
};

struct kw_reply_reader {
	redisReader *parser;
	enum reader_mode mode;
	size_t tail_length; /* IN_PLACE: bytes of a reply that is not complete, in tail */
	size_t given;       /* HIREDIS: bytes of the present reply that it has */
	size_t elements;    /* HIREDIS: of all arrays of the present reply */
	const struct kw_reply_bound *bound;
	struct kw_arena arena;
	struct kw_reply scalar; /* the present reply when it is no array: already handed over */
	kw_reply_sink sink;
	void *arg;
	size_t high_bytes;   /* the most the parser's buffer has held */
	const char *refusal; /* why one of our functions returned NULL to the parser */
	struct kw_error failed;
	uint8_t tail[TAIL_BYTES];
};

static struct kw_reply *refuse(struct kw_reply_reader *reader, const char *why)
{
	reader->refusal = why;
	return NULL;
}

/* Beyond the bound of its command. The first such sentence is told in place of any other. */
static bool too_long(struct kw_reply_reader *reader, size_t bytes)
{
	size_t most = reader->bound->bytes;
	bool whole_mib = most % ((size_t)1024 * 1024) == 0;

	if (bytes <= most)
		return false;
	if (reader->failed.code == KW_OK)
		kw_error_set(&reader->failed, KW_E_PROTOCOL,
			"%s has more than %zu %s: is this the address of a Redis server?",
			reader->bound->what, whole_mib ? most / 1024 / 1024 : most / 1024,
			whole_mib ? "MiB" : "KiB");
	return true;
}

static bool too_many(struct kw_reply_reader *reader, size_t elements)
{
	if (elements <= reader->bound->elements - reader->elements)
		return false;
	if (reader->failed.code == KW_OK)
		kw_error_set(&reader->failed, KW_E_PROTOCOL,
			"%s has more than %zu elements: is this the address of a Redis server?",
			reader->bound->what, reader->bound->elements);
	return true;
}

/* Where the parser's new object goes: the place in its array, or the scalar at the top level. */
static struct kw_reply *place(const redisReadTask *task)
{
	struct kw_reply_reader *reader = task->privdata;
	const struct kw_reply *array;

	if (!task->parent)
		return &reader->scalar;
	array = task->parent->obj;
	return (struct kw_reply *)(uintptr_t)array->elements + task->idx;
}

/* A scalar at the top level is complete: hand it over while its text is still in place. */
static void *finish(const redisReadTask *task, struct kw_reply *reply)
{
	struct kw_reply_reader *reader = task->privdata;

	if (!task->parent && !reader->sink(reader->arg, reply))
		reader->mode = READER_STOPPED;
	return reply;
}

static void *create_string(const redisReadTask *task, char *text, size_t length)
{
	struct kw_reply_reader *reader = task->privdata;
	struct kw_reply *reply = place(task);

	if (too_long(reader, length))
		return NULL;
	*reply = (struct kw_reply){.text = {text, length}};
	switch (task->type) {
	case REDIS_REPLY_STRING:
		reply->type = KW_REPLY_STRING;
		break;
	case REDIS_REPLY_STATUS:
		reply->type = KW_REPLY_STATUS;
		break;
	case REDIS_REPLY_ERROR:
		reply->type = KW_REPLY_ERROR;
		break;
	default:
		return refuse(reader, "a type of RESP3, which was not asked for");
	}
	if (task->parent) {
		void *copy = kw_arena_take(&reader->arena, length);

		if (!copy)
			return refuse(reader, "an array of more than 1 GiB");
		memcpy(copy, text, length);
		reply->text.data = copy;
	}
	return finish(task, reply);
}

static void *create_array_of(const redisReadTask *task, size_t count)
{
	struct kw_reply_reader *reader = task->privdata;
	struct kw_reply *reply;
	struct kw_reply *elements = NULL;

	if (task->type != REDIS_REPLY_ARRAY)
		return refuse(reader, "a type of RESP3, which was not asked for");
	if (reader->parser->ridx >= KW_REPLY_DEPTH_MAX)
		return refuse(reader, "arrays in arrays deeper than 8");
	if (too_many(reader, count))
		return NULL;
	reader->elements += count;
	/* At the top level an array lives in the arena like its elements: it is not handed over
	 * yet. */
	reply = task->parent ? place(task) : kw_arena_take(&reader->arena, sizeof *reply);
	if (reply && count > 0 && count <= KW_ARENA_MAX_BYTES / sizeof *elements)
		elements = kw_arena_take(&reader->arena, count * sizeof *elements);
	if (!reply || (count > 0 && !elements))
		return refuse(reader, "an array of more than 1 GiB");
	*reply = (struct kw_reply){.type = KW_REPLY_ARRAY, .elements = elements, .count = count};
	return reply;
}

static void *create_integer(const redisReadTask *task, long long value)
{
	struct kw_reply *reply = place(task);

	*reply = (struct kw_reply){.type = KW_REPLY_INTEGER, .integer = value};
	return finish(task, reply);
}

static void *create_nil(const redisReadTask *task)
{
	struct kw_reply *reply = place(task);

	*reply = (struct kw_reply){.type = KW_REPLY_NIL};
	return finish(task, reply);
}

static void free_object(void *object)
{
	/* Objects live in the arena. */
}

/* The parser's types differ between the hiredis of Debian 12 (0.14) and of Debian 13 (1.2). */
#if HIREDIS_MAJOR >= 1
static void *create_array(const redisReadTask *task, size_t count)
{
	return create_array_of(task, count);
}

static void *create_double(const redisReadTask *task, double value, char *text, size_t length)
{
	return refuse(task->privdata, "a type of RESP3, which was not asked for");
}

static void *create_bool(const redisReadTask *task, int value)
{
	return refuse(task->privdata, "a type of RESP3, which was not asked for");
}

static int item_type(const redisReader *parser)
{
	return parser->task[parser->ridx]->type;
}
#else
static void *create_array(const redisReadTask *task, int count)
{
	return create_array_of(task, (size_t)count);
}

static int item_type(const redisReader *parser)
{
	return parser->rstack[parser->ridx].type;
}
#endif

static redisReplyObjectFunctions functions = {
	.createString = create_string,
	.createArray = create_array,
	.createInteger = create_integer,
#if HIREDIS_MAJOR >= 1
	.createDouble = create_double,
	.createBool = create_bool,
#endif
	.createNil = create_nil,
	.freeObject = free_object,
};

static redisReader *new_parser(struct kw_reply_reader *reader)
{
	redisReader *parser = redisReaderCreateWithFunctions(&functions);

	if (!parser)
		kw_out_of_memory(sizeof *parser);
	parser->privdata = reader;
	parser->maxbuf = KEEP_BYTES;
	return parser;
}

struct kw_reply_reader *kw_reply_reader_new(kw_reply_sink sink, void *arg)
{
	struct kw_reply_reader *reader = kw_zalloc(sizeof *reader);

	assert(sink);
	reader->bound = &unbounded;
	reader->sink = sink;
	reader->arg = arg;
	reader->parser = new_parser(reader);
	return reader;
}

void kw_reply_reader_free(struct kw_reply_reader *reader)
{
	if (!reader)
		return;
	redisReaderFree(reader->parser);
	kw_arena_close(&reader->arena);
	free(reader);
}

void kw_reply_reader_bound(struct kw_reply_reader *reader, const struct kw_reply_bound *bound)
{
	assert(bound->elements >= KW_RESP_ELEMENTS);
	reader->bound = bound;
}

/* Replies lie in the tail, or in the parser's buffer and the arena. */
void kw_reply_reader_wipe(struct kw_reply_reader *reader)
{
	redisReader *parser = reader->parser;

	explicit_bzero(reader->tail + reader->tail_length, TAIL_BYTES - reader->tail_length);
	if (parser->buf) { /* hiredis gives it up at an error */
		explicit_bzero(parser->buf, parser->pos);
		explicit_bzero(parser->buf + parser->len, sdsavail(parser->buf));
	}
	kw_arena_wipe(&reader->arena);
}

size_t kw_reply_reader_held_bytes(const struct kw_reply_reader *reader)
{
	return reader->tail_length + reader->parser->len - reader->parser->pos;
}

static int fail(struct kw_reply_reader *reader)
{
	if (reader->failed.code != KW_OK)
		return (int)reader->failed.code;
	if (reader->refusal)
		return kw_error_set(&reader->failed, KW_E_PROTOCOL,
			"the server sent %s, which is not taken", reader->refusal);
	return kw_error_set(&reader->failed, KW_E_PROTOCOL,
		"what came is not RESP (%s): is this the address of a Redis server?",
		reader->parser->errstr);
}

/* The reply has so many bytes at least, with what RESP adds to it. */
static bool needs_too_much(struct kw_reply_reader *reader, size_t needed)
{
	return needed > FRAME_BYTES && too_long(reader, needed - FRAME_BYTES);
}

/* An incomplete reply can wait for more bytes, but their number is bounded. `fed`: the newest. */
static bool within_bounds(struct kw_reply_reader *reader, size_t fed)
{
	const redisReader *parser = reader->parser;
	size_t held = kw_reply_reader_held_bytes(reader);

	if (parser->len > reader->high_bytes)
		reader->high_bytes = parser->len;
	if (needs_too_much(reader, reader->given + fed))
		return false;
	if (held > KW_REPLY_MAX_BYTES)
		reader->refusal = "a reply of more than 2 GiB";
	else if (held > KW_REPLY_LINE_MAX_BYTES &&
		 !memchr(parser->buf + parser->pos, '\n', KW_REPLY_LINE_MAX_BYTES))
		reader->refusal = "a line of more than 64 KiB";
	return !reader->refusal;
}

/* Between two replies the parser can be replaced: a new one starts with a small buffer. */
static bool give_memory_back(struct kw_reply_reader *reader)
{
	redisReader *old = reader->parser;

	reader->high_bytes = 0;
	reader->parser = new_parser(reader);
	if (old->len > old->pos && redisReaderFeed(reader->parser, old->buf + old->pos,
					   old->len - old->pos) != REDIS_OK) {
		redisReaderFree(old);
		return false;
	}
	redisReaderFree(old);
	return true;
}

/* `bytes` of it came last. False: it is too long. */
static bool hand_over_array(
	struct kw_reply_reader *reader, const struct kw_reply *root, size_t bytes)
{
	if (too_long(reader, reader->given + bytes))
		return false;
	if (!reader->sink(reader->arg, root))
		reader->mode = READER_STOPPED;
	return true;
}

/*
 * Hand over the reply that hiredis has, if it is complete. The bytes after it are left alone then,
 * as far as they are among the last `fed` bytes: *unused says how many.
 */
static int parse(struct kw_reply_reader *reader, size_t fed, size_t *unused)
{
	while (reader->mode == READER_HIREDIS) {
		redisReader *parser = reader->parser;
		void *root = NULL;
		size_t left;

		if (redisReaderGetReply(parser, &root) != REDIS_OK)
			return fail(reader);
		if (!root)
			return within_bounds(reader, fed) ? 0 : fail(reader);
		left = parser->len - parser->pos;
		if (root != &reader->scalar &&
			!hand_over_array(reader, root, fed > left ? fed - left : 0))
			return fail(reader);
		kw_arena_reset(&reader->arena);
		reader->given = 0;
		reader->elements = 0;
		if (left <= fed) {
			parser->pos = parser->len;
			if (reader->mode == READER_HIREDIS)
				reader->mode = READER_IN_PLACE;
			*unused = left;
		}
		if (reader->high_bytes > KEEP_BYTES && !give_memory_back(reader))
			return fail(reader);
	}
	return 0;
}

/*
 * How much to feed next: large pieces only into a bulk string that is known to be incomplete. Its
 * buffer is made to grow by doubling. hiredis alone adds a MiB at a time, and if realloc must copy,
 * that is quadratic.
 */
static size_t next_piece(struct kw_reply_reader *reader)
{
	redisReader *parser = reader->parser;
	size_t held = parser->len - parser->pos;

	if (parser->ridx < 0 || item_type(parser) != REDIS_REPLY_STRING || held < BULK_PIECE_BYTES)
		return PIECE_BYTES;
	if (sdsavail(parser->buf) < BULK_PIECE_BYTES) {
		sds grown = sdsMakeRoomFor(parser->buf, held);

		if (!grown)
			kw_out_of_memory(held);
		parser->buf = grown;
	}
	return BULK_PIECE_BYTES;
}

/* Each of these takes some of the bytes and says how many. */

static size_t feed_hiredis(struct kw_reply_reader *reader, const uint8_t *data, size_t length)
{
	size_t piece = next_piece(reader);
	size_t unused = 0;

	if (piece > length)
		piece = length;
	if (redisReaderFeed(reader->parser, (const char *)data, piece) != REDIS_OK)
		fail(reader);
	else
		parse(reader, piece, &unused);
	/* Still the same reply. */
	if (reader->mode == READER_HIREDIS)
		reader->given += piece;
	return piece - unused;
}

/* hiredis gets what there is of the present reply. */
static void leave_to_hiredis(struct kw_reply_reader *reader)
{
	assert(reader->mode == READER_IN_PLACE);
	reader->mode = READER_HIREDIS;
	if (redisReaderFeed(reader->parser, (const char *)reader->tail, reader->tail_length) !=
		REDIS_OK)
		fail(reader);
	reader->given = reader->tail_length;
	reader->tail_length = 0;
}

/* `used`: the bytes that it took. */
static void hand_over(struct kw_reply_reader *reader, const struct kw_reply *reply, size_t used)
{
	if (too_long(reader, reply->type == KW_REPLY_ARRAY ? used : reply->text.length))
		return;
	if (!reader->sink(reader->arg, reply))
		reader->mode = READER_STOPPED;
}

/* The tail and the new bytes, up to the end of the reply that the tail begins. */
static size_t feed_tail(struct kw_reply_reader *reader, const uint8_t *data, size_t length)
{
	struct kw_reply reply, elements[KW_RESP_ELEMENTS];
	size_t held = reader->tail_length, used, needed;
	size_t step = length < TAIL_STEP_BYTES ? length : TAIL_STEP_BYTES;

	if (step > TAIL_BYTES - held)
		step = TAIL_BYTES - held;
	memcpy(reader->tail + held, data, step);
	switch (kw_resp_parse(reader->tail, held + step, &reply, elements, &used, &needed)) {
	case KW_RESP_DONE:
		if (used >= held) {
			reader->tail_length = 0;
			hand_over(reader, &reply, used);
			return used - held;
		}
		break;
	case KW_RESP_PARTIAL:
		if (needs_too_much(reader, needed > held + step ? needed : held + step))
			return step;
		if (needed <= TAIL_BYTES && held + step < TAIL_BYTES) {
			reader->tail_length += step;
			return step;
		}
		break;
	case KW_RESP_OTHER:
		break;
	}
	leave_to_hiredis(reader);
	return 0;
}

static size_t feed_in_place(struct kw_reply_reader *reader, const uint8_t *data, size_t length)
{
	struct kw_reply reply, elements[KW_RESP_ELEMENTS];
	enum kw_resp_parsed result = KW_RESP_DONE;
	size_t at = 0, used, needed;

	assert(reader->tail_length == 0);
	while (at < length && reader->mode == READER_IN_PLACE && reader->failed.code == KW_OK) {
		result = kw_resp_parse(data + at, length - at, &reply, elements, &used, &needed);
		if (result != KW_RESP_DONE)
			break;
		at += used;
		hand_over(reader, &reply, used);
	}
	if (result == KW_RESP_PARTIAL &&
		needs_too_much(reader, needed > length - at ? needed : length - at))
		return length;
	if (result == KW_RESP_PARTIAL && needed <= TAIL_BYTES && length - at < TAIL_BYTES) {
		memcpy(reader->tail, data + at, length - at);
		reader->tail_length = length - at;
		return length;
	}
	if (result != KW_RESP_DONE)
		reader->mode = READER_HIREDIS;
	return at;
}

int kw_reply_reader_feed(
	struct kw_reply_reader *reader, const void *data, size_t length, struct kw_error *error)
{
	const uint8_t *at = data;

	while (length > 0 && reader->mode != READER_STOPPED && reader->failed.code == KW_OK) {
		size_t taken;

		if (reader->mode == READER_HIREDIS)
			taken = feed_hiredis(reader, at, length);
		else if (reader->tail_length > 0)
			taken = feed_tail(reader, at, length);
		else
			taken = feed_in_place(reader, at, length);
		assert(taken <= length);
		at += taken;
		length -= taken;
	}
	if (error && reader->failed.code != KW_OK)
		*error = reader->failed;
	return (int)reader->failed.code;
}
