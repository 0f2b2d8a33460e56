#include "geohash.h"

#include <math.h>
#include <string.h>

#define EARTH_RADIUS 6372797.560856
#define MERCATOR_MAX 20037726.37
#define RADIAN (M_PI / 180.0)

#define LONGITUDE_BITS UINT64_C(0xaaaaaaaaaaaaaaaa)
#define LATITUDE_BITS UINT64_C(0x5555555555555555)

/* From here on towards the poles, circles of latitude are so short that wider boxes are needed. */
#define HIGH_LATITUDE 66
#define HIGHEST_LATITUDE 80

struct range {
	double least, most;
};

static const struct range all_longitudes = {-KW_GEO_LONGITUDE_MAX, KW_GEO_LONGITUDE_MAX};
static const struct range all_latitudes = {-KW_GEO_LATITUDE_MAX, KW_GEO_LATITUDE_MAX};

struct area {
	struct range longitude, latitude;
};

/* ---- bits ---- */

/* Every second bit, from bit 0 on. */
static uint64_t spread(uint32_t bits)
{
	uint64_t x = bits;

	x = (x | x << 16) & UINT64_C(0x0000ffff0000ffff);
	x = (x | x << 8) & UINT64_C(0x00ff00ff00ff00ff);
	x = (x | x << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	x = (x | x << 2) & UINT64_C(0x3333333333333333);
	return (x | x << 1) & LATITUDE_BITS;
}

static uint32_t gather(uint64_t x)
{
	x &= LATITUDE_BITS;
	x = (x | x >> 1) & UINT64_C(0x3333333333333333);
	x = (x | x >> 2) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	x = (x | x >> 4) & UINT64_C(0x00ff00ff00ff00ff);
	x = (x | x >> 8) & UINT64_C(0x0000ffff0000ffff);
	return (uint32_t)(x | x >> 16);
}

static uint64_t encode(struct kw_geo_place place, struct range latitudes, unsigned steps)
{
	double latitude = (place.latitude - latitudes.least) / (latitudes.most - latitudes.least);
	double longitude = (place.longitude - all_longitudes.least) /
			   (all_longitudes.most - all_longitudes.least);

	latitude *= (double)(UINT64_C(1) << steps);
	longitude *= (double)(UINT64_C(1) << steps);
	return spread((uint32_t)latitude) | spread((uint32_t)longitude) << 1;
}

static double part_of(struct range range, uint32_t part, unsigned steps)
{
	return range.least +
	       (part * 1.0 / (double)(UINT64_C(1) << steps)) * (range.most - range.least);
}

static struct area area_of(uint64_t bits, unsigned steps)
{
	uint32_t latitude = gather(bits), longitude = gather(bits >> 1);

	return (struct area){
		.longitude = {part_of(all_longitudes, longitude, steps),
			part_of(all_longitudes, longitude + 1, steps)},
		.latitude = {part_of(all_latitudes, latitude, steps),
			part_of(all_latitudes, latitude + 1, steps)},
	};
}

static double middle(struct range range, double most)
{
	double value = (range.least + range.most) / 2;

	return value > most ? most : value < -most ? -most : value;
}

struct kw_geo_place kw_geo_decode(double score)
{
	struct area area = area_of((uint64_t)score, KW_GEO_STEPS);

	return (struct kw_geo_place){middle(area.longitude, KW_GEO_LONGITUDE_MAX),
		middle(area.latitude, KW_GEO_LATITUDE_MAX)};
}

void kw_geo_text(struct kw_geo_place place, char text[KW_GEO_TEXT])
{
	static const char alphabet[] = "0123456789bcdefghjkmnpqrstuvwxyz";
	uint64_t bits = encode(place, (struct range){-90, 90}, KW_GEO_STEPS);

	/* 52 bits are ten characters of five. */
	for (unsigned i = 0; i < KW_GEO_TEXT - 1; i++)
		text[i] = alphabet[bits >> (2 * KW_GEO_STEPS - (i + 1) * 5) & 0x1f];
	text[KW_GEO_TEXT - 1] = alphabet[0];
}

/* ---- distances ---- */

static double along_meridian(double from, double to)
{
	return EARTH_RADIUS * fabs(to * RADIAN - from * RADIAN);
}

/* The haversine formula. */
double kw_geo_distance(struct kw_geo_place a, struct kw_geo_place b)
{
	double u, v, w;

	v = sin((b.longitude * RADIAN - a.longitude * RADIAN) / 2);
	if (v == 0.0)
		return along_meridian(a.latitude, b.latitude);
	u = sin((b.latitude * RADIAN - a.latitude * RADIAN) / 2);
	w = u * u + cos(a.latitude * RADIAN) * cos(b.latitude * RADIAN) * v * v;
	return 2.0 * EARTH_RADIUS * asin(sqrt(w));
}

bool kw_geo_within(const struct kw_geo_shape *shape, struct kw_geo_place place, double *distance)
{
	struct kw_geo_place beside = {shape->centre.longitude, place.latitude};

	if (shape->kind == KW_GEO_CIRCLE) {
		*distance = kw_geo_distance(shape->centre, place);
		return !(*distance > shape->radius * shape->unit);
	}
	if (along_meridian(place.latitude, shape->centre.latitude) >
			shape->height * shape->unit / 2 ||
		kw_geo_distance(place, beside) > shape->width * shape->unit / 2)
		return false;
	*distance = kw_geo_distance(shape->centre, place);
	return true;
}

/* ---- what to search ---- */

static unsigned steps_for(double metres, double latitude)
{
	int steps = 1;

	if (metres == 0)
		return KW_GEO_STEPS;
	for (; metres < MERCATOR_MAX; metres *= 2)
		steps++;
	steps -= 2;
	if (latitude > HIGH_LATITUDE || latitude < -HIGH_LATITUDE)
		steps--;
	if (latitude > HIGHEST_LATITUDE || latitude < -HIGHEST_LATITUDE)
		steps--;
	if (steps < 1)
		return 1;
	return steps > KW_GEO_STEPS ? KW_GEO_STEPS : (unsigned)steps;
}

/* The box around the shape; towards the nearer pole it is widest in degrees. */
static struct area bounds_of(const struct kw_geo_shape *shape)
{
	bool circle = shape->kind == KW_GEO_CIRCLE;
	double height = shape->unit * (circle ? shape->radius : shape->height / 2);
	double width = shape->unit * (circle ? shape->radius : shape->width / 2);
	double latitude = shape->centre.latitude, longitude = shape->centre.longitude;
	double up = height / EARTH_RADIUS / RADIAN;
	double edge = latitude < 0 ? latitude - up : latitude + up;
	double aside = width / EARTH_RADIUS / cos(edge * RADIAN) / RADIAN;

	return (struct area){.longitude = {longitude - aside, longitude + aside},
		.latitude = {latitude - up, latitude + up}};
}

/* One box further, around the earth. */
static uint64_t move(uint64_t bits, uint64_t mask, int by, unsigned steps)
{
	unsigned unused = 64 - 2 * steps;
	uint64_t moved = bits & mask, rest = bits & ~mask, gaps = ~mask >> unused;

	if (by > 0)
		moved += gaps + 1;
	else if (by < 0)
		moved = (moved | gaps) - (gaps + 1);
	else
		return bits;
	return (moved & mask >> unused) | rest;
}

static uint64_t neighbour(uint64_t bits, int east, int north, unsigned steps)
{
	return move(move(bits, LONGITUDE_BITS, east, steps), LATITUDE_BITS, north, steps);
}

/* Do the neighbours reach as far as the shape? */
static bool covers(const struct area *bounds, uint64_t bits, unsigned steps)
{
	return !(area_of(neighbour(bits, 0, 1, steps), steps).latitude.most <
			 bounds->latitude.most ||
		 area_of(neighbour(bits, 0, -1, steps), steps).latitude.least >
			 bounds->latitude.least ||
		 area_of(neighbour(bits, 1, 0, steps), steps).longitude.most <
			 bounds->longitude.most ||
		 area_of(neighbour(bits, -1, 0, steps), steps).longitude.least >
			 bounds->longitude.least);
}

/* Is nothing of the shape on that side of the middle box? */
static bool is_useless(const struct area *bounds, const struct area *area, int east, int north)
{
	return (north < 0 && area->latitude.least < bounds->latitude.least) ||
	       (north > 0 && area->latitude.most > bounds->latitude.most) ||
	       (east < 0 && area->longitude.least < bounds->longitude.least) ||
	       (east > 0 && area->longitude.most > bounds->longitude.most);
}

static double reach_of(const struct kw_geo_shape *shape)
{
	double metres = shape->radius;

	if (shape->kind == KW_GEO_RECTANGLE)
		metres = sqrt((shape->width / 2) * (shape->width / 2) +
			      (shape->height / 2) * (shape->height / 2));
	return metres * shape->unit;
}

void kw_geo_cover(const struct kw_geo_shape *shape, struct kw_geo_box boxes[KW_GEO_BOXES])
{
	static const struct {
		int east, north;
	} order[KW_GEO_BOXES] = {
		{0, 0}, {0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, 1}, {1, -1}, {-1, -1}};
	struct area bounds = bounds_of(shape), area;
	unsigned steps = steps_for(reach_of(shape), shape->centre.latitude);
	uint64_t bits = encode(shape->centre, all_latitudes, steps);

	if (!covers(&bounds, bits, steps) && steps > 1)
		bits = encode(shape->centre, all_latitudes, --steps);
	area = area_of(bits, steps);
	for (unsigned i = 0; i < KW_GEO_BOXES; i++) {
		unsigned unused = 2 * (KW_GEO_STEPS - steps);
		uint64_t box = neighbour(bits, order[i].east, order[i].north, steps);

		boxes[i] = (struct kw_geo_box){box, steps, box << unused, (box + 1) << unused};
		if (steps >= 2 && is_useless(&bounds, &area, order[i].east, order[i].north))
			boxes[i] = (struct kw_geo_box){0};
	}
}
