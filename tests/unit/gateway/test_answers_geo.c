/* Places: the gateway finds what the server finds, and says it to the last digit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "answers_server.h"

#define PLACES 400

static void fill(void)
{
	unsigned seed = 7;

	answers_do("SET text x");
	answers_do("ZADD plain 1.5 a -3 b 1e300 c");
	answers_do("GEOADD places 13.361389 38.115556 Palermo 15.087269 37.502669 Catania");
	answers_do("GEOADD places 13.4 52.5 Berlin -0.1 51.5 London 179.9 -16.5 east -179.9 -16.6 "
		   "west");
	answers_do("GEOADD places 0 0 null 20 85.05 north 25 -85.05 south 180 85.05112878 corner");
	for (int i = 0; i < PLACES; i++) {
		char line[100];
		double longitude = (double)(rand_r(&seed) % 3600000) / 10000 - 180;
		double latitude = (double)(rand_r(&seed) % 1700000) / 10000 - 85;

		snprintf(line, sizeof line, "GEOADD earth %.4f %.4f p%d", longitude, latitude, i);
		answers_do(line);
		snprintf(line, sizeof line, "GEOADD town %.6f %.6f q%d", 2.35 + longitude / 20000,
			48.85 + latitude / 20000, i);
		answers_do(line);
	}
}

static void members(void **state)
{
	static const char *const lines[] = {"GEOPOS places Palermo none Catania", "GEOPOS places",
		"GEOPOS none a b", "GEOPOS text a", "GEOPOS places null north corner east",
		"GEOHASH places Palermo none Catania null south", "GEOHASH none a",
		"GEOHASH places", "GEOHASH text a", "GEODIST places Palermo Catania",
		"GEODIST places Palermo Catania km", "GEODIST places Palermo Catania mi",
		"GEODIST places Palermo Catania FT", "GEODIST places Palermo Catania parsec",
		"GEODIST places Palermo Palermo", "GEODIST places Palermo none", "GEODIST none a b",
		"GEODIST none a b parsec", "GEODIST text a b", "GEODIST text a b parsec",
		"GEODIST places a b c d", "GEODIST none a b c d", "GEODIST places east west",
		"GEODIST places north south km", "GEODIST places null corner", "GEODIST places a",
		NULL};

	for (int settings = 0; settings < ANSWERS_SETTINGS; settings++) {
		answers_set(settings);
		fill();
		answers_same(lines);
	}
	for (int i = 0; i + 1 < PLACES; i++) {
		const char *some[5] = {NULL};
		char text[4][100];

		snprintf(text[0], 100, "GEOPOS earth p%d", i);
		snprintf(text[1], 100, "GEOHASH earth p%d", i);
		snprintf(text[2], 100, "GEODIST earth p%d p%d", i, i + 1);
		snprintf(text[3], 100, "GEODIST town q%d q%d km", i, i + 1);
		for (int j = 0; j < 4; j++)
			some[j] = text[j];
		answers_same(some);
	}
	answers_none_differs();
}

static void searches(void **state)
{
	static const char *const lines[] = {"GEOSEARCH places FROMLONLAT 15 37 BYRADIUS 200 km ASC",
		"GEOSEARCH places FROMLONLAT 15 37 BYRADIUS 200 km DESC WITHDIST",
		"GEOSEARCH places FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHCOORD WITHDIST "
		"WITHHASH",
		"GEOSEARCH places FROMMEMBER Palermo BYRADIUS 200 km WITHDIST WITHCOORD",
		"GEOSEARCH places FROMMEMBER none BYRADIUS 200 km",
		"GEOSEARCH none FROMMEMBER none BYRADIUS 200 km",
		"GEOSEARCH none FROMMEMBER none BYRADIUS x km",
		"GEOSEARCH text FROMMEMBER a BYRADIUS 1 m",
		"GEOSEARCH text FROMMEMBER a BYRADIUS x m",
		"GEOSEARCH places FROMMEMBER Palermo ASC DESC",
		"GEOSEARCH places BYRADIUS 200 km ASC DESC", "GeoSearch places ASC ASC ASC ASC ASC",
		"GEOSEARCH places FROMMEMBER Palermo BYRADIUS 2 km BYBOX 1 1 km",
		"GEOSEARCH places FROMMEMBER Palermo FROMLONLAT 1 1 BYBOX 1 1 km",
		"GEOSEARCH places FROMMEMBER Palermo BYRADIUS -1 km",
		"GEOSEARCH places FROMMEMBER Palermo BYRADIUS 1 parsec",
		"GEOSEARCH places FROMMEMBER Palermo BYBOX x 1 km",
		"GEOSEARCH places FROMMEMBER Palermo BYBOX 1 x km",
		"GEOSEARCH places FROMMEMBER Palermo BYBOX 1 -1 km",
		"GEOSEARCH places FROMLONLAT 181 1 BYRADIUS 1 km",
		"GEOSEARCH places FROMLONLAT 1 86 BYRADIUS 1 km",
		"GEOSEARCH places FROMLONLAT x 86 BYRADIUS 1 km",
		"GEOSEARCH places FROMLONLAT nan 1 BYRADIUS 1 km",
		"GEOSEARCH places FROMMEMBER Palermo BYRADIUS 9000 km COUNT 2",
		"GEOSEARCH places FROMMEMBER Palermo BYRADIUS 9000 km COUNT 2 DESC",
		"GEOSEARCH places FROMMEMBER Palermo BYRADIUS 9000 km COUNT 2 ANY",
		"GEOSEARCH places FROMMEMBER Palermo BYRADIUS 9000 km ANY",
		"GEOSEARCH places FROMMEMBER Palermo BYRADIUS 9000 km COUNT 0",
		"GEOSEARCH places FROMMEMBER Palermo BYRADIUS 9000 km COUNT x",
		"GEOSEARCH places FROMMEMBER Palermo BYRADIUS 9000 km COUNT",
		"GEOSEARCH places FROMMEMBER Palermo BYRADIUS 9000 km WHAT",
		"GEOSEARCH places FROMMEMBER Palermo BYRADIUS 9000 km STOREDIST",
		"GEOSEARCH places FROMMEMBER Palermo BYRADIUS 0 km WITHDIST",
		"GEOSEARCH places FROMMEMBER east BYRADIUS 100 km WITHDIST",
		"GEOSEARCH places FROMMEMBER corner BYRADIUS 5000 km WITHDIST ASC",
		"GEORADIUS_RO places 15 37 200 km",
		"GEORADIUS_RO places 15 37 200 km WITHDIST DESC", "GEORADIUS_RO places 15 37 x km",
		"GEORADIUS_RO none 15 37 200 km", "GEORADIUS_RO none 15 97 200 km",
		"GEORADIUS_RO text 15 97 200 km", "GEORADIUS_RO places 15 37 200 km STORE x",
		"GEORADIUS_RO places 15 37 200", "GEORADIUS_RO places 15 37 200 km BYRADIUS 1 m",
		"GEORADIUSBYMEMBER_RO places Catania 200 km",
		"GEORADIUSBYMEMBER_RO places none 200 km",
		"GEORADIUSBYMEMBER_RO none Catania x parsec",
		"GEORADIUSBYMEMBER_RO places Catania x km",
		"GEORADIUSBYMEMBER_RO none Catania 1 km COUNT 0",
		"GEORADIUSBYMEMBER_RO text Catania 1 km",
		"GEORADIUSBYMEMBER_RO places Catania 200 km WITHHASH ASC COUNT 1", NULL};

	for (int settings = 0; settings < ANSWERS_SETTINGS; settings++) {
		answers_set(settings);
		fill();
		answers_same(lines);
	}
	answers_none_differs();
}

/* Around places of every latitude, with radii from nothing to half of the earth. */
static void searches_all_over_the_earth(void **state)
{
	static const double radii[] = {
		0, 1, 300, 30e3, 500e3, 1500e3, 4000e3, 6000e3, 12000e3, 21e6};
	static const char *const keys[] = {"earth", "town"};
	static const char marks[] = "pq";

	answers_set(0);
	fill();
	for (int i = 0; i < PLACES; i += 11)
		for (size_t j = 0; j < sizeof radii / sizeof *radii; j++) {
			const char *lines[5] = {NULL};
			char text[4][200];
			int key = (i + (int)j) % 2;

			snprintf(text[0], 200, "GEOSEARCH %s FROMMEMBER %c%d BYRADIUS %.0f m",
				keys[key], marks[key], i, radii[j]);
			snprintf(text[1], 200,
				"GEOSEARCH %s FROMMEMBER %c%d BYBOX %.0f %.0f m WITHDIST",
				keys[key], marks[key], i, radii[j], radii[(j + 1) % 10]);
			snprintf(text[2], 200,
				"GEOSEARCH %s FROMMEMBER %c%d BYRADIUS %.0f m ASC WITHDIST",
				keys[key], marks[key], i, radii[j]);
			snprintf(text[3], 200,
				"GEOSEARCH %s FROMMEMBER %c%d BYRADIUS %.0f m COUNT 7 ANY",
				keys[key], marks[key], i, radii[j]);
			for (int k = 0; k < 4; k++)
				lines[k] = text[k];
			answers_same(lines);
		}
	answers_none_differs();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members),
		cmocka_unit_test(searches),
		cmocka_unit_test(searches_all_over_the_earth),
	};

	return answers_run(argc, argv, tests);
}
