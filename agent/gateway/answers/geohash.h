/*
 * Places on the earth, as the servers keep them in a score of a sorted set. It has 26 bits of the
 * longitude and 26 of the latitude, interleaved (their geohash.c and geohash_helper.c).
 *
 * The numbers must come out as the servers', to the last digit that is said. So each formula is
 * computed in the servers' order. Sine and the like are those of this machine's C library.
 *
 * Pure.
 */
#ifndef KW_AGENT_GATEWAY_ANSWERS_GEOHASH_H
#define KW_AGENT_GATEWAY_ANSWERS_GEOHASH_H

#include <stdbool.h>
#include <stdint.h>

#define KW_GEO_STEPS 26 /* bits of each coordinate */
#define KW_GEO_BOXES 9
#define KW_GEO_LONGITUDE_MAX 180
#define KW_GEO_LATITUDE_MAX 85.05112878

struct kw_geo_place {
	double longitude, latitude;
};

/* What is searched: a circle or a rectangle around a place. Lengths are in units of `unit` m. */
struct kw_geo_shape {
	enum { KW_GEO_CIRCLE, KW_GEO_RECTANGLE } kind;
	struct kw_geo_place centre;
	double unit;
	double radius;
	double width, height;
};

/* Scores from `from` on, before `to`; both 0: none. */
struct kw_geo_box {
	uint64_t bits;
	unsigned steps;
	uint64_t from, to;
};

struct kw_geo_place kw_geo_decode(double score);

/* The eleven characters that other programs know as geohash; the last one is always 0. */
#define KW_GEO_TEXT 11
void kw_geo_text(struct kw_geo_place place, char text[KW_GEO_TEXT]);

/* In metres. */
double kw_geo_distance(struct kw_geo_place a, struct kw_geo_place b);

/* Is the place within the shape? Then distance is how far from its centre it is, in metres. */
bool kw_geo_within(const struct kw_geo_shape *shape, struct kw_geo_place place, double *distance);

/* The box around the centre and its eight neighbours, in the order in which they are searched. */
void kw_geo_cover(const struct kw_geo_shape *shape, struct kw_geo_box boxes[KW_GEO_BOXES]);

#endif
