/* Ports of this host. */
#ifndef KW_TEST_REDIS_PORTS_H
#define KW_TEST_REDIS_PORTS_H

/* A TCP port that nobody else has while this process lives, and nobody listens on yet. */
int test_free_port(void);

#endif
