/* Hexadecimal digits. Pure; any thread. */
#ifndef KW_BASE_HEX_H
#define KW_BASE_HEX_H

/* 0 to 15; -1: it is none. */
static inline int kw_hex_digit(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	if (digit >= 'a' && digit <= 'f')
		return digit - 'a' + 10;
	return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

#endif
