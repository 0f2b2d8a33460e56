#include "rdma_kit.h"

#include "fake_verbs.h"

int rdma_begin(void **state)
{
	(void)state;
	carrier = KW_CARRIER_RDMA;
	fake_verbs_reset();
	return 0;
}

int rdma_nothing_left(void **state)
{
	(void)state;
	if (fake_verbs_left() != 0)
		print_error("%d objects of the libraries were left behind\n", fake_verbs_left());
	return fake_verbs_left();
}
