/* What every test over the fake of the libraries begins and ends with. */
#ifndef KW_TEST_REMOTE_RDMA_KIT_H
#define KW_TEST_REMOTE_RDMA_KIT_H

#include "fixture.h"

/* A harmless fake; and nothing of its objects is left. */
int rdma_begin(void **state);
int rdma_nothing_left(void **state);

#define RDMA_TEST(test) cmocka_unit_test_setup_teardown(test, rdma_begin, rdma_nothing_left)

#endif
