/*
 * The digits of a double as the servers write them from Redis 7.2 on.
 *
 * They use Grisu2 (Loitsch, "Printing Floating-Point Numbers Quickly and Accurately with Integers",
 * 2010; the servers' deps/fpconv). Its digits always say the same number, but in one of some
 * hundred numbers they are one more than the fewest. So an exact search would differ from the
 * server.
 *
 * Pure.
 */
#ifndef KW_AGENT_GATEWAY_RESP_SHORTEST_H
#define KW_AGENT_GATEWAY_RESP_SHORTEST_H

#define KW_SHORTEST_DIGITS 20

/*
 * The number is finite and above 0. It is 0.DIGITS times ten to the power. Returns how many digits
 * there are.
 */
int kw_shortest_digits(double number, char digits[KW_SHORTEST_DIGITS], int *power);

#endif
