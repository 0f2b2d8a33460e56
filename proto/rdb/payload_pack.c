#include "rdb/payload_pack.h"

#include <assert.h>

#define END_MARK 0xff

#define LISTPACK_HEADER 6
#define ZIPLIST_HEADER 10
#define INTSET_HEADER 8
#define ZIPMAP_HEADER 1

#define COUNT_UNKNOWN UINT16_MAX /* in listpack and ziplist: too many to say in 16 bits */
#define ZIPMAP_COUNT_UNKNOWN 254

static const char *kind_name(enum kw_pack_kind kind)
{
	static const char *const names[] = {
		[KW_PACK_LISTPACK] = "listpack",
		[KW_PACK_ZIPLIST] = "ziplist",
		[KW_PACK_INTSET] = "intset",
		[KW_PACK_ZIPMAP] = "zipmap",
	};

	return names[kind];
}

static int corrupt(const struct kw_pack *pack, const char *what, struct kw_error *error)
{
	return kw_error_set(error, KW_E_CORRUPT, "payload: %s, element %llu: %s",
		kind_name(pack->kind), (unsigned long long)pack->counted, what);
}

static size_t left(const struct kw_pack *pack)
{
	return (size_t)(pack->end - pack->at);
}

/* Header sizes, the total length it tells and the end mark; then only the elements are left. */
static int open_marked(
	struct kw_pack *pack, struct kw_slice bytes, size_t header, struct kw_error *error)
{
	const uint8_t *first = bytes.data;

	if (bytes.length < header + 1 || first[bytes.length - 1] != END_MARK)
		return corrupt(pack, "no header or no end mark", error);
	pack->at = first + header;
	pack->end = first + bytes.length - 1;
	if (pack->kind == KW_PACK_ZIPMAP) {
		if (first[0] < ZIPMAP_COUNT_UNKNOWN)
			pack->announced = 2 * (uint64_t)first[0];
		return KW_OK;
	}
	if (kw_little_endian(first, 4) != bytes.length)
		return corrupt(pack, "the header tells another length", error);
	pack->announced = kw_little_endian(first + header - 2, 2);
	if (pack->announced == COUNT_UNKNOWN)
		pack->announced = UINT64_MAX;
	return KW_OK;
}

static int open_intset(struct kw_pack *pack, struct kw_slice bytes, struct kw_error *error)
{
	const uint8_t *first = bytes.data;

	if (bytes.length < INTSET_HEADER)
		return corrupt(pack, "no header", error);
	pack->width = (uint32_t)kw_little_endian(first, 4);
	pack->announced = kw_little_endian(first + 4, 4);
	if (pack->width != 2 && pack->width != 4 && pack->width != 8)
		return corrupt(pack, "integers of an impossible width", error);
	if (pack->announced * pack->width != bytes.length - INTSET_HEADER)
		return corrupt(pack, "the count does not fit the bytes", error);
	pack->at = first + INTSET_HEADER;
	pack->end = first + bytes.length;
	return KW_OK;
}

int kw_pack_open(
	struct kw_pack *pack, enum kw_pack_kind kind, struct kw_slice bytes, struct kw_error *error)
{
	*pack = (struct kw_pack){.kind = kind, .announced = UINT64_MAX};
	switch (kind) {
	case KW_PACK_LISTPACK:
		return open_marked(pack, bytes, LISTPACK_HEADER, error);
	case KW_PACK_ZIPLIST:
		return open_marked(pack, bytes, ZIPLIST_HEADER, error);
	case KW_PACK_ZIPMAP:
		return open_marked(pack, bytes, ZIPMAP_HEADER, error);
	case KW_PACK_INTSET:
		return open_intset(pack, bytes, error);
	}
	return kw_error_set(
		error, KW_E_ARGUMENT, "payload: pack kind %d does not exist", (int)kind);
}

int kw_pack_finish(const struct kw_pack *pack, struct kw_error *error)
{
	if (pack->announced != UINT64_MAX && pack->announced != pack->counted)
		return corrupt(pack, "the header announces another count", error);
	return KW_OK;
}

/*
 * An entry of a listpack or ziplist, decoded: `head` bytes of encoding, then either `length` bytes
 * of text, or an integer of `length` bytes (0: it lies in the head already).
 */
struct entry {
	unsigned head;
	uint64_t length;
	enum { ENTRY_TEXT, ENTRY_INTEGER } type;
	int64_t immediate; /* the integer, when length is 0 */
};

/* Needs at least `head` bytes to be there; false: unknown encoding or too few bytes. */
static bool listpack_entry(const uint8_t *at, size_t available, struct entry *entry)
{
	uint8_t first = at[0];

	*entry = (struct entry){.head = 1};
	if (first < 0x80) { /* 0xxxxxxx: unsigned, 7 bits */
		entry->type = ENTRY_INTEGER;
		entry->immediate = first;
		return true;
	}
	if (first < 0xc0) { /* 10xxxxxx: text up to 63 bytes */
		entry->length = first & 0x3f;
		return true;
	}
	if (first < 0xf0 && available < 2)
		return false;
	if (first < 0xe0) { /* 110xxxxx x: signed, 13 bits */
		entry->head = 2;
		entry->type = ENTRY_INTEGER;
		entry->immediate = kw_sign_extend((uint64_t)(first & 0x1f) << 8 | at[1], 13);
		return true;
	}
	if (first < 0xf0) { /* 1110xxxx x: text up to 4095 bytes */
		entry->head = 2;
		entry->length = (uint64_t)(first & 0x0f) << 8 | at[1];
		return true;
	}
	if (first == 0xf0) { /* text, 32 bits of length */
		if (available < 5)
			return false;
		entry->head = 5;
		entry->length = kw_little_endian(at + 1, 4);
		return true;
	}
	if (first > 0xf4)
		return false;
	/* f1, f2, f3, f4: signed integers of 2, 3, 4, 8 bytes */
	entry->type = ENTRY_INTEGER;
	entry->length = first == 0xf4 ? 8 : (uint64_t)first - 0xf1 + 2;
	return true;
}

static bool ziplist_entry(const uint8_t *at, size_t available, struct entry *entry)
{
	uint8_t first = at[0];

	*entry = (struct entry){.head = 1};
	if (first < 0x40) { /* 00xxxxxx: text up to 63 bytes */
		entry->length = first;
		return true;
	}
	if (first < 0x80) { /* 01xxxxxx x: text up to 16383 bytes, big-endian */
		entry->head = 2;
		entry->length = available < 2 ? 0 : (uint64_t)(first & 0x3f) << 8 | at[1];
		return available >= 2;
	}
	if (first == 0x80) { /* text, 32 bits of length, big-endian */
		if (available < 5)
			return false;
		entry->head = 5;
		entry->length = (uint64_t)at[1] << 24 | (uint64_t)at[2] << 16 |
				(uint64_t)at[3] << 8 | at[4];
		return true;
	}
	entry->type = ENTRY_INTEGER;
	switch (first) {
	case 0xfe:
		entry->length = 1;
		return true;
	case 0xc0:
		entry->length = 2;
		return true;
	case 0xf0:
		entry->length = 3;
		return true;
	case 0xd0:
		entry->length = 4;
		return true;
	case 0xe0:
		entry->length = 8;
		return true;
	default: /* 1111xxxx with 1 … 13: the integers 0 … 12 */
		entry->immediate = (int64_t)(first & 0x0f) - 1;
		return first >= 0xf1 && first <= 0xfd;
	}
}

/* Hand out what the entry at pack->at holds, and step over its head and data. */
static int take_entry(struct kw_pack *pack, const struct entry *entry, struct kw_slice *element,
	struct kw_error *error)
{
	const uint8_t *data = pack->at + entry->head;
	int64_t integer = entry->immediate;

	assert(entry->head <= left(pack));
	if (entry->length > left(pack) - entry->head)
		return corrupt(pack, "longer than the bytes that are left", error);
	pack->at = data + entry->length;
	if (entry->type == ENTRY_TEXT) {
		*element = kw_slice(data, entry->length);
		return KW_OK;
	}
	if (entry->length != 0)
		integer = kw_sign_extend(kw_little_endian(data, (unsigned)entry->length),
			8 * (unsigned)entry->length);
	*element = kw_digits(integer, pack->digits);
	return KW_OK;
}

/* How many bytes the server spends on the length after an entry (listpack.c, lpEncodeBacklen). */
static unsigned backwards_bytes(uint64_t length)
{
	if (length <= 127)
		return 1;
	if (length < 16383)
		return 2;
	if (length < 2097151)
		return 3;
	return length < 268435455 ? 4 : 5;
}

static int listpack_next(struct kw_pack *pack, struct kw_slice *element, struct kw_error *error)
{
	const uint8_t *begin = pack->at;
	uint64_t length, told = 0;
	struct entry entry;
	unsigned bytes;

	if (!listpack_entry(begin, left(pack), &entry))
		return corrupt(pack, "an encoding that does not exist", error);
	if (take_entry(pack, &entry, element, error))
		return KW_E_CORRUPT;
	length = (uint64_t)(pack->at - begin);
	bytes = backwards_bytes(length);
	if (bytes > left(pack))
		return corrupt(pack, "its length does not follow it", error);
	for (unsigned i = 0; i < bytes; i++)
		told = told << 7 | (pack->at[i] & 0x7f);
	if (told != length)
		return corrupt(pack, "another length stands behind it", error);
	pack->at += bytes;
	return KW_OK;
}

int kw_pack_integer(struct kw_pack *pack, int64_t *number, struct kw_error *error)
{
	const uint8_t *begin = pack->at;
	struct kw_slice element;
	struct entry entry;

	if (!kw_pack_more(pack) || !listpack_entry(begin, left(pack), &entry))
		return corrupt(pack, "an encoding that does not exist", error);
	if (entry.type != ENTRY_INTEGER)
		return corrupt(pack, "a text where an integer belongs", error);
	if (kw_pack_next(pack, &element, error))
		return KW_E_CORRUPT;
	*number = entry.immediate;
	if (entry.length != 0)
		*number =
			kw_sign_extend(kw_little_endian(begin + entry.head, (unsigned)entry.length),
				8 * (unsigned)entry.length);
	return KW_OK;
}

static int ziplist_next(struct kw_pack *pack, struct kw_slice *element, struct kw_error *error)
{
	const uint8_t *begin = pack->at;
	uint64_t before = begin[0];
	struct entry entry;

	pack->at++;
	if (before == 0xfe) {
		if (left(pack) < 4)
			return corrupt(pack, "cut off", error);
		before = kw_little_endian(pack->at, 4);
		pack->at += 4;
	}
	if (before != pack->width)
		return corrupt(pack, "another length of the one before stands in it", error);
	if (left(pack) == 0 || !ziplist_entry(pack->at, left(pack), &entry))
		return corrupt(pack, "an encoding that does not exist", error);
	if (take_entry(pack, &entry, element, error))
		return KW_E_CORRUPT;
	pack->width = (uint32_t)(pack->at - begin);
	return KW_OK;
}

static int zipmap_next(struct kw_pack *pack, struct kw_slice *element, struct kw_error *error)
{
	bool is_value = pack->counted % 2 == 1;
	uint64_t length = *pack->at++;
	uint64_t unused = 0;

	if (length == 0xfe) {
		if (left(pack) < 4)
			return corrupt(pack, "cut off", error);
		length = kw_little_endian(pack->at, 4);
		pack->at += 4;
	}
	if (is_value) {
		if (left(pack) == 0)
			return corrupt(pack, "cut off", error);
		unused = *pack->at++;
	}
	if (length + unused > left(pack))
		return corrupt(pack, "longer than the bytes that are left", error);
	*element = kw_slice(pack->at, length);
	pack->at += length + unused;
	return KW_OK;
}

static void intset_next(struct kw_pack *pack, struct kw_slice *element)
{
	uint64_t bits;

	assert(left(pack) >= pack->width); /* the bytes are a multiple of it */
	bits = kw_little_endian(pack->at, pack->width);
	*element = kw_digits(kw_sign_extend(bits, 8 * pack->width), pack->digits);
	pack->at += pack->width;
}

int kw_pack_next(struct kw_pack *pack, struct kw_slice *element, struct kw_error *error)
{
	int code = KW_OK;

	if (!kw_pack_more(pack))
		return corrupt(pack, "there is none", error);
	switch (pack->kind) {
	case KW_PACK_LISTPACK:
		code = listpack_next(pack, element, error);
		break;
	case KW_PACK_ZIPLIST:
		code = ziplist_next(pack, element, error);
		break;
	case KW_PACK_ZIPMAP:
		code = zipmap_next(pack, element, error);
		break;
	case KW_PACK_INTSET:
		intset_next(pack, element);
		break;
	}
	assert(pack->at <= pack->end);
	pack->counted++;
	return code;
}
