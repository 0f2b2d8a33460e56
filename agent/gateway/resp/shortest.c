#include "shortest.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A number: fraction times two to the exponent. */
struct binary {
	uint64_t fraction;
	int exponent;
};

#define HIDDEN_BIT (UINT64_C(1) << 52)
#define EXPONENT_BIAS (1023 + 52)

/* After the product with a power of ten the exponent lies between these. */
#define EXPONENT_LEAST (-60)
#define EXPONENT_MOST (-32)

/* Powers of ten from 10^-348 on, each the eighth, rounded to 64 bits. */
#define FIRST_POWER (-348)
#define POWER_STEP 8
#define POWERS (sizeof powers / sizeof *powers)
static const struct binary powers[] = {{UINT64_C(0xfa8fd5a0081c0288), -1220},
	{UINT64_C(0xbaaee17fa23ebf76), -1193}, {UINT64_C(0x8b16fb203055ac76), -1166},
	{UINT64_C(0xcf42894a5dce35ea), -1140}, {UINT64_C(0x9a6bb0aa55653b2d), -1113},
	{UINT64_C(0xe61acf033d1a45df), -1087}, {UINT64_C(0xab70fe17c79ac6ca), -1060},
	{UINT64_C(0xff77b1fcbebcdc4f), -1034}, {UINT64_C(0xbe5691ef416bd60c), -1007},
	{UINT64_C(0x8dd01fad907ffc3c), -980}, {UINT64_C(0xd3515c2831559a83), -954},
	{UINT64_C(0x9d71ac8fada6c9b5), -927}, {UINT64_C(0xea9c227723ee8bcb), -901},
	{UINT64_C(0xaecc49914078536d), -874}, {UINT64_C(0x823c12795db6ce57), -847},
	{UINT64_C(0xc21094364dfb5637), -821}, {UINT64_C(0x9096ea6f3848984f), -794},
	{UINT64_C(0xd77485cb25823ac7), -768}, {UINT64_C(0xa086cfcd97bf97f4), -741},
	{UINT64_C(0xef340a98172aace5), -715}, {UINT64_C(0xb23867fb2a35b28e), -688},
	{UINT64_C(0x84c8d4dfd2c63f3b), -661}, {UINT64_C(0xc5dd44271ad3cdba), -635},
	{UINT64_C(0x936b9fcebb25c996), -608}, {UINT64_C(0xdbac6c247d62a584), -582},
	{UINT64_C(0xa3ab66580d5fdaf6), -555}, {UINT64_C(0xf3e2f893dec3f126), -529},
	{UINT64_C(0xb5b5ada8aaff80b8), -502}, {UINT64_C(0x87625f056c7c4a8b), -475},
	{UINT64_C(0xc9bcff6034c13053), -449}, {UINT64_C(0x964e858c91ba2655), -422},
	{UINT64_C(0xdff9772470297ebd), -396}, {UINT64_C(0xa6dfbd9fb8e5b88f), -369},
	{UINT64_C(0xf8a95fcf88747d94), -343}, {UINT64_C(0xb94470938fa89bcf), -316},
	{UINT64_C(0x8a08f0f8bf0f156b), -289}, {UINT64_C(0xcdb02555653131b6), -263},
	{UINT64_C(0x993fe2c6d07b7fac), -236}, {UINT64_C(0xe45c10c42a2b3b06), -210},
	{UINT64_C(0xaa242499697392d3), -183}, {UINT64_C(0xfd87b5f28300ca0e), -157},
	{UINT64_C(0xbce5086492111aeb), -130}, {UINT64_C(0x8cbccc096f5088cc), -103},
	{UINT64_C(0xd1b71758e219652c), -77}, {UINT64_C(0x9c40000000000000), -50},
	{UINT64_C(0xe8d4a51000000000), -24}, {UINT64_C(0xad78ebc5ac620000), 3},
	{UINT64_C(0x813f3978f8940984), 30}, {UINT64_C(0xc097ce7bc90715b3), 56},
	{UINT64_C(0x8f7e32ce7bea5c70), 83}, {UINT64_C(0xd5d238a4abe98068), 109},
	{UINT64_C(0x9f4f2726179a2245), 136}, {UINT64_C(0xed63a231d4c4fb27), 162},
	{UINT64_C(0xb0de65388cc8ada8), 189}, {UINT64_C(0x83c7088e1aab65db), 216},
	{UINT64_C(0xc45d1df942711d9a), 242}, {UINT64_C(0x924d692ca61be758), 269},
	{UINT64_C(0xda01ee641a708dea), 295}, {UINT64_C(0xa26da3999aef774a), 322},
	{UINT64_C(0xf209787bb47d6b85), 348}, {UINT64_C(0xb454e4a179dd1877), 375},
	{UINT64_C(0x865b86925b9bc5c2), 402}, {UINT64_C(0xc83553c5c8965d3d), 428},
	{UINT64_C(0x952ab45cfa97a0b3), 455}, {UINT64_C(0xde469fbd99a05fe3), 481},
	{UINT64_C(0xa59bc234db398c25), 508}, {UINT64_C(0xf6c69a72a3989f5c), 534},
	{UINT64_C(0xb7dcbf5354e9bece), 561}, {UINT64_C(0x88fcf317f22241e2), 588},
	{UINT64_C(0xcc20ce9bd35c78a5), 614}, {UINT64_C(0x98165af37b2153df), 641},
	{UINT64_C(0xe2a0b5dc971f303a), 667}, {UINT64_C(0xa8d9d1535ce3b396), 694},
	{UINT64_C(0xfb9b7cd9a4a7443c), 720}, {UINT64_C(0xbb764c4ca7a44410), 747},
	{UINT64_C(0x8bab8eefb6409c1a), 774}, {UINT64_C(0xd01fef10a657842c), 800},
	{UINT64_C(0x9b10a4e5e9913129), 827}, {UINT64_C(0xe7109bfba19c0c9d), 853},
	{UINT64_C(0xac2820d9623bf429), 880}, {UINT64_C(0x80444b5e7aa7cf85), 907},
	{UINT64_C(0xbf21e44003acdd2d), 933}, {UINT64_C(0x8e679c2f5e44ff8f), 960},
	{UINT64_C(0xd433179d9c8cb841), 986}, {UINT64_C(0x9e19db92b4e31ba9), 1013},
	{UINT64_C(0xeb96bf6ebadf77d9), 1039}, {UINT64_C(0xaf87023b9bf0ee6b), 1066}};

static struct binary binary_of(double number)
{
	uint64_t bits;
	int exponent;

	memcpy(&bits, &number, sizeof bits);
	exponent = (int)(bits >> 52 & 0x7ff);
	bits &= HIDDEN_BIT - 1;
	if (exponent == 0)
		return (struct binary){bits, 1 - EXPONENT_BIAS};
	return (struct binary){bits | HIDDEN_BIT, exponent - EXPONENT_BIAS};
}

/* All 64 bits are used. */
static struct binary normal(struct binary number)
{
	int unused = __builtin_clzll(number.fraction);

	return (struct binary){number.fraction << unused, number.exponent - unused};
}

/* The rounded product's upper half. */
static struct binary product(struct binary a, struct binary b)
{
	unsigned __int128 all = (unsigned __int128)a.fraction * b.fraction;

	return (struct binary){
		(uint64_t)((all + (UINT64_C(1) << 63)) >> 64), a.exponent + b.exponent + 64};
}

/* What the number is multiplied by, and its power of ten. */
static struct binary power_for(int exponent, int *power)
{
	size_t low = 0, high = POWERS - 1;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (exponent + powers[middle].exponent + 64 < EXPONENT_LEAST)
			low = middle + 1;
		else
			high = middle;
	}
	*power = FIRST_POWER + (int)low * POWER_STEP;
	return powers[low];
}

struct digits {
	char *text;
	int count;
	int power;      /* of the last digit */
	uint64_t delta; /* the width of the interval that means the same number */
};

static void put_digit(struct digits *digits, unsigned digit)
{
	if (digit || digits->count)
		digits->text[digits->count++] = (char)('0' + digit);
}

/* Lower the last digit while that comes closer to the number itself. */
static void round_last(const struct digits *digits, uint64_t rest, uint64_t unit, uint64_t distance)
{
	while (rest < distance && digits->delta - rest >= unit &&
		(rest + unit < distance || distance - rest > rest + unit - distance)) {
		digits->text[digits->count - 1]--;
		rest += unit;
	}
}

/* The digits before the point. False: more must follow after it. */
static bool put_whole(struct digits *digits, struct binary upper, uint64_t distance)
{
	int shift = -upper.exponent;
	uint64_t whole = upper.fraction >> shift;
	uint64_t part = upper.fraction & ((UINT64_C(1) << shift) - 1);
	uint64_t unit = 1000000000;

	for (int kappa = 9; kappa >= 0; kappa--, unit /= 10) {
		uint64_t rest;

		put_digit(digits, (unsigned)(whole / unit));
		whole %= unit;
		rest = (whole << shift) + part;
		if (rest <= digits->delta) {
			digits->power += kappa;
			round_last(digits, rest, unit << shift, distance);
			return true;
		}
	}
	return false;
}

/* Ends, as the width grows by ten with each digit. */
static void put_part(struct digits *digits, struct binary upper, uint64_t distance)
{
	int shift = -upper.exponent;
	uint64_t one = UINT64_C(1) << shift, part = upper.fraction & (one - 1);

	do {
		part *= 10;
		digits->delta *= 10;
		distance *= 10;
		digits->power--;
		put_digit(digits, (unsigned)(part >> shift));
		part &= one - 1;
	} while (part >= digits->delta);
	round_last(digits, part, one, distance);
}

int kw_shortest_digits(double number, char text[KW_SHORTEST_DIGITS], int *power)
{
	struct binary exact = binary_of(number), ten, upper, lower;
	int closer = exact.fraction == HIDDEN_BIT ? 2 : 1, shift, tens;
	struct digits digits = {.text = text};

	/* Half way to the next number on both sides; below a power of two it is nearer. */
	upper = normal((struct binary){2 * exact.fraction + 1, exact.exponent - 1});
	lower = (struct binary){(exact.fraction << closer) - 1, exact.exponent - closer};
	shift = lower.exponent - upper.exponent;
	lower = (struct binary){lower.fraction << shift, upper.exponent};
	ten = power_for(upper.exponent, &tens);
	exact = product(normal(exact), ten);
	upper = product(upper, ten);
	lower = product(lower, ten);
	/* What rounding can have moved is given away. */
	upper.fraction--;
	lower.fraction++;
	digits.delta = upper.fraction - lower.fraction;
	digits.power = -tens;
	if (!put_whole(&digits, upper, upper.fraction - exact.fraction))
		put_part(&digits, upper, upper.fraction - exact.fraction);
	*power = digits.power + digits.count;
	return digits.count;
}
