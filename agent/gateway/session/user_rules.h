/* One user, made by the words of its line. Pure; used by users.c only. */
#ifndef KW_AGENT_GATEWAY_SESSION_USER_RULES_H
#define KW_AGENT_GATEWAY_SESSION_USER_RULES_H

#include "users.h"

/* As a line begins: off, no password, no key, no channel, no command. */
void kw_user_init(struct kw_user *user, struct kw_slice name);
void kw_user_close(struct kw_user *user);

/* Follow one rule. On failure the sentence says what is wrong with it, without the word itself. */
int kw_user_rule(struct kw_user *user, struct kw_slice word, struct kw_error *error);

#endif
