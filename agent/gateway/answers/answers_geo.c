/*
 * Answers about places. A search says its places in the server's order: by box and score, or by
 * distance. Of places at the same distance the server's own sort decides which comes first; here it
 * is the one with the lower score.
 */
#include "answers.h"
#include "geohash.h"
#include "words.h"
#include "zset.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISTANCE_TEXT 64
#define COORDINATE_TEXT 64

/* ---- numbers ---- */

/* The server's fixedpoint_d2string: four digits after the point. */
static void say_distance(const struct kw_reply_to *to, double distance)
{
	char text[DISTANCE_TEXT];
	int length;

	if (kw_release_since(to->release, KW_RELEASE(7, 2), 0)) {
		long long scaled = llrint(distance * 10000.0); /* never below zero */

		length = snprintf(text, sizeof text, "%lld.%04lld", scaled / 10000, scaled % 10000);
	} else {
		length = snprintf(text, sizeof text, "%.4f", distance);
	}
	kw_reply_bulk(to, kw_slice(text, (size_t)length));
}

/* 17 digits after the point, without the zeros at the end: before Redis 8.0. */
static void say_coordinate(const struct kw_reply_to *to, double coordinate)
{
	char text[COORDINATE_TEXT];
	size_t length;

	if (kw_release_since(to->release, KW_RELEASE(8, 0), KW_RELEASE_NEVER)) {
		kw_reply_double(to, coordinate);
		return;
	}
	length = (size_t)snprintf(text, sizeof text, "%.17f", coordinate);
	while (text[length - 1] == '0')
		length--;
	if (text[length - 1] == '.')
		length--;
	if (length == 2 && memcmp(text, "-0", 2) == 0)
		text[0] = text[--length];
	kw_reply_number(to, kw_slice(text, length));
}

static void say_place(const struct kw_reply_to *to, struct kw_geo_place place)
{
	kw_reply_array(to, 2);
	say_coordinate(to, place.longitude);
	say_coordinate(to, place.latitude);
}

static bool refuse(const struct kw_ask *ask, const char *error)
{
	kw_reply_error(ask->to, "%s", error);
	return false;
}

static bool read_double(
	const struct kw_ask *ask, struct kw_slice word, const char *error, double *number)
{
	const char *text = word.data;

	if (word.length > 0 && !isspace((unsigned char)text[0]) &&
		kw_answer_double(ask, word, number) && !isnan(*number))
		return true;
	return refuse(ask, error);
}

/* A unit's length in metres. */
static bool read_unit(const struct kw_ask *ask, struct kw_slice word, double *metres)
{
	if (kw_word_is(word, "m"))
		*metres = 1;
	else if (kw_word_is(word, "km"))
		*metres = 1000;
	else if (kw_word_is(word, "ft"))
		*metres = 0.3048;
	else if (kw_word_is(word, "mi"))
		*metres = 1609.34;
	else
		return refuse(ask, "ERR unsupported unit provided. please use M, KM, FT, MI");
	return true;
}

/* ---- members ---- */

static void say_text(const struct kw_ask *ask, const double *score)
{
	char text[KW_GEO_TEXT];

	if (!score) {
		kw_reply_nil(ask->to);
		return;
	}
	kw_geo_text(kw_geo_decode(*score), text);
	kw_reply_bulk(ask->to, kw_slice(text, sizeof text));
}

static void say_position(const struct kw_ask *ask, const double *score)
{
	if (score)
		say_place(ask->to, kw_geo_decode(*score));
	else
		kw_reply_nil_array(ask->to);
}

static void answer_members(
	const struct kw_ask *ask, void (*say)(const struct kw_ask *ask, const double *score))
{
	size_t count = ask->count - 2;
	struct kw_member_score *found = kw_zset_scores(ask, 2, count);

	if (found) {
		kw_reply_array(ask->to, count);
		for (size_t i = 0; i < count; i++)
			say(ask, found[i].there ? &found[i].score : NULL);
	}
	free(found);
}

void kw_answer_geohash(const struct kw_ask *ask)
{
	answer_members(ask, say_text);
}

void kw_answer_geopos(const struct kw_ask *ask)
{
	answer_members(ask, say_position);
}

/* GEODIST key member member [unit] */
void kw_answer_geodist(const struct kw_ask *ask)
{
	struct kw_member_score *found;
	double metres = 1;

	if (ask->count > 5)
		refuse(ask, "ERR syntax error");
	if (ask->count > 5 || (ask->count == 5 && !read_unit(ask, ask->words[4], &metres)))
		return;
	found = kw_zset_scores(ask, 2, 2);
	if (found && found[0].there && found[1].there)
		say_distance(ask->to, kw_geo_distance(kw_geo_decode(found[0].score),
					      kw_geo_decode(found[1].score)) /
					      metres);
	else if (found)
		kw_reply_nil(ask->to);
	free(found);
}

/* ---- what a search asks for ---- */

struct search {
	struct kw_geo_shape shape;
	bool with_distance, with_hash, with_place, any;
	enum { ANY_ORDER, NEAREST_FIRST, FARTHEST_FIRST } order;
	int64_t count; /* 0: all */
	enum { FROM_NOTHING, FROM_MEMBER, FROM_PLACE } from;
	enum { BY_NOTHING, BY_RADIUS, BY_BOX } by;
};

static bool read_place(const struct kw_ask *ask, size_t at, struct kw_geo_place *place)
{
	static const char no_float[] = "ERR value is not a valid float";

	if (!read_double(ask, ask->words[at], no_float, &place->longitude) ||
		!read_double(ask, ask->words[at + 1], no_float, &place->latitude))
		return false;
	if (fabs(place->longitude) <= KW_GEO_LONGITUDE_MAX &&
		fabs(place->latitude) <= KW_GEO_LATITUDE_MAX)
		return true;
	kw_reply_error(ask->to, "ERR invalid longitude,latitude pair %f,%f", place->longitude,
		place->latitude);
	return false;
}

static bool read_radius(const struct kw_ask *ask, size_t at, struct kw_geo_shape *shape)
{
	shape->kind = KW_GEO_CIRCLE;
	if (!read_double(ask, ask->words[at], "ERR need numeric radius", &shape->radius))
		return false;
	if (shape->radius < 0)
		return refuse(ask, "ERR radius cannot be negative");
	return read_unit(ask, ask->words[at + 1], &shape->unit);
}

static bool read_box(const struct kw_ask *ask, size_t at, struct kw_geo_shape *shape)
{
	shape->kind = KW_GEO_RECTANGLE;
	if (!read_double(ask, ask->words[at], "ERR need numeric width", &shape->width) ||
		!read_double(ask, ask->words[at + 1], "ERR need numeric height", &shape->height))
		return false;
	if (shape->width < 0 || shape->height < 0)
		return refuse(ask, "ERR height or width cannot be negative");
	return read_unit(ask, ask->words[at + 2], &shape->unit);
}

/* Of a missing key it is not looked for. */
static bool read_member(const struct kw_ask *ask, size_t at, struct kw_geo_place *place)
{
	struct kw_member_score *found;
	bool there;

	if (kw_ask_is_missing(ask))
		return true;
	found = kw_zset_scores(ask, at, 1);
	if (!found)
		return false;
	there = found->there;
	if (there)
		*place = kw_geo_decode(found->score);
	free(found);
	if (!there && kw_release_since(ask->to->release, KW_RELEASE_NEVER, KW_RELEASE(9, 0)))
		kw_reply_error(ask->to, "ERR member %.*s does not exist",
			(int)ask->words[at].length, (const char *)ask->words[at].data);
	else if (!there)
		refuse(ask, "ERR could not decode requested zset member");
	return there;
}

static bool read_count(const struct kw_ask *ask, size_t at, int64_t *count)
{
	if (!kw_answer_number(ask->words[at], count))
		return refuse(ask, "ERR value is not an integer or out of range");
	return *count > 0 || refuse(ask, "ERR COUNT must be > 0");
}

/* An option of one word. */
static bool read_word(struct search *search, struct kw_slice word)
{
	if (kw_word_is(word, "withdist"))
		search->with_distance = true;
	else if (kw_word_is(word, "withhash"))
		search->with_hash = true;
	else if (kw_word_is(word, "withcoord"))
		search->with_place = true;
	else if (kw_word_is(word, "any"))
		search->any = true;
	else if (kw_word_is(word, "asc"))
		search->order = NEAREST_FIRST;
	else if (kw_word_is(word, "desc"))
		search->order = FARTHEST_FIRST;
	else
		return false;
	return true;
}

/* An option of GEOSEARCH alone. How many words follow it; -1: it was refused. */
static int read_of_search(struct search *search, const struct kw_ask *ask, size_t at)
{
	size_t left = ask->count - at - 1;
	struct kw_slice word = ask->words[at];

	if (kw_word_is(word, "frommember") && left >= 1 && search->from != FROM_PLACE) {
		search->from = FROM_MEMBER;
		return read_member(ask, at + 1, &search->shape.centre) ? 1 : -1;
	}
	if (kw_word_is(word, "fromlonlat") && left >= 2 && search->from != FROM_MEMBER) {
		search->from = FROM_PLACE;
		return read_place(ask, at + 1, &search->shape.centre) ? 2 : -1;
	}
	if (kw_word_is(word, "byradius") && left >= 2 && search->by != BY_BOX) {
		search->by = BY_RADIUS;
		return read_radius(ask, at + 1, &search->shape) ? 2 : -1;
	}
	if (kw_word_is(word, "bybox") && left >= 3 && search->by != BY_RADIUS) {
		search->by = BY_BOX;
		return read_box(ask, at + 1, &search->shape) ? 3 : -1;
	}
	refuse(ask, "ERR syntax error");
	return -1;
}

static bool read_options(struct search *search, const struct kw_ask *ask, size_t at, bool of_search)
{
	for (; at < ask->count; at++) {
		int more;

		if (read_word(search, ask->words[at]))
			continue;
		if (kw_word_is(ask->words[at], "count") && at + 1 < ask->count) {
			if (!read_count(ask, ++at, &search->count))
				return false;
			continue;
		}
		if (!of_search)
			return refuse(ask, "ERR syntax error");
		more = read_of_search(search, ask, at);
		if (more < 0)
			return false;
		at += (size_t)more;
	}
	return true;
}

static bool is_complete(const struct search *search, const struct kw_ask *ask)
{
	const char *lacks = NULL;

	if (search->from == FROM_NOTHING)
		lacks = "FROMMEMBER or FROMLONLAT";
	else if (search->by == BY_NOTHING)
		lacks = "BYRADIUS and BYBOX";
	if (!lacks)
		return true;
	kw_reply_error(ask->to, "ERR exactly one of %s can be specified for %.*s", lacks,
		(int)ask->words[0].length, (const char *)ask->words[0].data);
	return false;
}

/* ---- what it finds ---- */

struct found {
	struct kw_geo_place place;
	double distance; /* from the centre, in metres */
	size_t at;       /* in the sorted set */
	size_t rank;     /* as it was found */
};

struct finding {
	const struct search *search;
	const struct kw_zset *zset;
	struct found *found;
	size_t count, most;
};

static bool is_full(const struct finding *finding)
{
	return finding->count == finding->most;
}

/* The entries of one box. */
static void search_box(struct finding *finding, const struct kw_geo_box *box)
{
	const struct kw_zset *zset = finding->zset;
	size_t low = 0, high = zset->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (zset->entries[middle].score < (double)box->from)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < zset->count && zset->entries[low].score < (double)box->to; low++) {
		struct found found = {.place = kw_geo_decode(zset->entries[low].score),
			.at = low,
			.rank = finding->count};

		if (is_full(finding))
			return;
		if (kw_geo_within(&finding->search->shape, found.place, &found.distance))
			finding->found[finding->count++] = found;
	}
}

/* Around the earth a neighbour can be the box that was searched before it. */
static void search_boxes(struct finding *finding)
{
	struct kw_geo_box boxes[KW_GEO_BOXES];
	size_t last = 0;

	kw_geo_cover(&finding->search->shape, boxes);
	for (size_t i = 0; i < KW_GEO_BOXES && !is_full(finding); i++) {
		if (boxes[i].steps == 0 || (last > 0 && boxes[i].bits == boxes[last].bits &&
						   boxes[i].steps == boxes[last].steps))
			continue;
		search_box(finding, &boxes[i]);
		last = i;
	}
}

static int nearest_first(const void *left, const void *right)
{
	const struct found *a = left, *b = right;

	if (a->distance != b->distance)
		return a->distance < b->distance ? -1 : 1;
	return (a->rank > b->rank) - (a->rank < b->rank);
}

static int farthest_first(const void *left, const void *right)
{
	const struct found *a = left, *b = right;

	if (a->distance != b->distance)
		return a->distance > b->distance ? -1 : 1;
	return (a->rank > b->rank) - (a->rank < b->rank);
}

static void say_found(
	const struct kw_ask *ask, const struct finding *finding, const struct found *found)
{
	const struct search *search = finding->search;
	size_t more = (size_t)search->with_distance + search->with_hash + search->with_place;

	if (more > 0)
		kw_reply_array(ask->to, more + 1);
	kw_reply_bulk(ask->to, kw_zset_member(finding->zset, found->at));
	if (search->with_distance)
		say_distance(ask->to, found->distance / search->shape.unit);
	if (search->with_hash)
		kw_reply_integer(ask->to, (int64_t)finding->zset->entries[found->at].score);
	if (search->with_place)
		say_place(ask->to, found->place);
}

static void answer_search(const struct kw_ask *ask, struct search *search)
{
	struct kw_zset zset = {0};
	struct finding finding = {.search = search, .zset = &zset};
	size_t said;

	if (search->any && search->count == 0) {
		refuse(ask, "ERR the ANY argument requires COUNT argument");
		return;
	}
	if (!kw_zset_read(&zset, ask))
		return;
	if (search->count > 0 && search->order == ANY_ORDER && !search->any)
		search->order = NEAREST_FIRST;
	/* A box that is searched twice has its places twice. */
	finding.most = KW_GEO_BOXES * zset.count;
	if (search->any && (uint64_t)search->count < finding.most)
		finding.most = (size_t)search->count;
	finding.found = kw_zalloc((finding.most ? finding.most : 1) * sizeof *finding.found);
	if (!kw_ask_is_missing(ask))
		search_boxes(&finding);
	if (search->order != ANY_ORDER)
		qsort(finding.found, finding.count, sizeof *finding.found,
			search->order == NEAREST_FIRST ? nearest_first : farthest_first);
	said = finding.count;
	if (search->count > 0 && (uint64_t)search->count < said)
		said = (size_t)search->count;
	kw_reply_array(ask->to, said);
	for (size_t i = 0; i < said; i++)
		say_found(ask, &finding, &finding.found[i]);
	free(finding.found);
	kw_zset_close(&zset);
}

void kw_answer_geosearch(const struct kw_ask *ask)
{
	struct search search = {0};

	if (read_options(&search, ask, 2, true) && is_complete(&search, ask))
		answer_search(ask, &search);
}

/* GEORADIUS_RO key longitude latitude radius unit … */
void kw_answer_georadius(const struct kw_ask *ask)
{
	struct search search = {0};

	if (read_place(ask, 2, &search.shape.centre) && read_radius(ask, 4, &search.shape) &&
		read_options(&search, ask, 6, false))
		answer_search(ask, &search);
}

/* GEORADIUSBYMEMBER_RO key member radius unit …; of a missing key only the options are read. */
void kw_answer_georadiusbymember(const struct kw_ask *ask)
{
	struct search search = {.shape.unit = 1};

	if (!kw_ask_is_missing(ask) &&
		(!read_member(ask, 2, &search.shape.centre) || !read_radius(ask, 3, &search.shape)))
		return;
	if (read_options(&search, ask, 5, false))
		answer_search(ask, &search);
}
