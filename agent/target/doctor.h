/*
 * What the doctor of an agent or a gateway looks at: its proxies, and what it proves to them. Loop
 * thread only.
 */
#ifndef KW_AGENT_TARGET_DOCTOR_H
#define KW_AGENT_TARGET_DOCTOR_H

#include "doctor/doctor.h"
#include "target/target.h"

#include <stdbool.h>

/* Zeroed by the owner; stays until kw_target_examined. */
struct kw_target_doctor {
	struct kw_target target;
	struct kw_proxies proxies;
	struct kw_remote_options remote;
	bool open;
};

void kw_target_examine(struct kw_target_doctor *target, struct kw_doctor *doctor,
	const struct kw_config *config, enum kw_role role);
void kw_target_examined(struct kw_target_doctor *target);

#endif
