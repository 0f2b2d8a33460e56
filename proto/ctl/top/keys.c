#include "ctl/top/keys.h"

#define ESCAPE 0x1b
#define FORM_FEED 0x0c /* Ctrl-L */
#define LONGER 0xff    /* of parameters: function keys have two digits */

static enum top_key plain(unsigned char byte)
{
	switch (byte) {
	case 's':
	case '>':
		return TOP_KEY_SORT_NEXT;
	case 'S':
	case '<':
		return TOP_KEY_SORT_BACK;
	case 'r':
		return TOP_KEY_REVERSE;
	case ' ':
	case 'p':
		return TOP_KEY_PAUSE;
	case 'k':
		return TOP_KEY_UP;
	case 'j':
		return TOP_KEY_DOWN;
	case 'g':
		return TOP_KEY_FIRST;
	case 'G':
		return TOP_KEY_LAST;
	case 'q':
	case 'Q':
		return TOP_KEY_QUIT;
	case FORM_FEED:
		return TOP_KEY_REDRAW;
	default:
		return TOP_KEY_NONE;
	}
}

/* "ESC [ A", "ESC O A" and "ESC [ 5 ~". */
static enum top_key sequence(unsigned char parameter, unsigned char last)
{
	switch (last) {
	case 'A':
		return TOP_KEY_UP;
	case 'B':
		return TOP_KEY_DOWN;
	case 'C':
		return TOP_KEY_SORT_NEXT;
	case 'D':
		return TOP_KEY_SORT_BACK;
	case 'H':
		return TOP_KEY_FIRST;
	case 'F':
		return TOP_KEY_LAST;
	case '~':
		break;
	default:
		return TOP_KEY_NONE;
	}
	switch (parameter) {
	case '1':
	case '7':
		return TOP_KEY_FIRST;
	case '4':
	case '8':
		return TOP_KEY_LAST;
	case '5':
		return TOP_KEY_PAGE_UP;
	case '6':
		return TOP_KEY_PAGE_DOWN;
	default:
		return TOP_KEY_NONE;
	}
}

enum top_key top_keys_take(struct top_keys *keys, unsigned char byte)
{
	switch (keys->state) {
	case TOP_KEYS_PLAIN:
		break;
	case TOP_KEYS_ESCAPE:
		keys->parameter = 0;
		keys->state = byte == '[' || byte == 'O' ? TOP_KEYS_SEQUENCE : TOP_KEYS_PLAIN;
		if (keys->state == TOP_KEYS_SEQUENCE)
			return TOP_KEY_NONE;
		break; /* the escape key, and then this one */
	case TOP_KEYS_SEQUENCE:
		if (byte >= 0x20 && byte < 0x40) { /* parameters, until the last byte */
			keys->parameter = keys->parameter ? LONGER : byte;
			return TOP_KEY_NONE;
		}
		keys->state = TOP_KEYS_PLAIN;
		if (byte >= 0x40)
			return sequence(keys->parameter, byte);
		break; /* a control byte ends a sequence that was not whole */
	}
	if (byte == ESCAPE) {
		keys->state = TOP_KEYS_ESCAPE;
		return TOP_KEY_NONE;
	}
	return plain(byte);
}
