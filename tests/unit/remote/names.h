/* A name server of our own, in libc's place. */
#ifndef KW_TEST_REMOTE_NAMES_H
#define KW_TEST_REMOTE_NAMES_H

#include "remote/remote.h"

/*
 * The address is that of a name from now on, which leads to these two: "127.0.0.9,127.0.0.1". A
 * certificate for localhost fits it.
 */
void names_set(struct kw_address *address, const char *addresses);

#endif
