/*
 * The commands of a session: one function each, and one line each in session.c. A function finds
 * words that fit the command's arity and writes one reply.
 *
 * Used inside this folder only.
 */
#ifndef KW_AGENT_GATEWAY_SESSION_CALLS_H
#define KW_AGENT_GATEWAY_SESSION_CALLS_H

#include "catalog.h"
#include "session.h"

struct kw_call {
	struct kw_session *session;
	const struct kw_session_host *host;
	const struct kw_catalog_row *row;
	const struct kw_slice *words;
	size_t count;
	const struct kw_reply_to *to;
	enum kw_session_verdict verdict; /* REPLIED, unless the function says otherwise */
};

/* session_login.c */
void kw_call_auth(struct kw_call *call);
void kw_call_hello(struct kw_call *call);
void kw_call_reset(struct kw_call *call);
void kw_call_whoami(struct kw_call *call);

/* session_connection.c */
void kw_call_cluster(struct kw_call *call);
void kw_call_echo(struct kw_call *call);
void kw_call_ok(struct kw_call *call);
void kw_call_ping(struct kw_call *call);
void kw_call_quit(struct kw_call *call);
void kw_call_select(struct kw_call *call);
void kw_call_time(struct kw_call *call);

/* session_client.c */
void kw_call_client_caching(struct kw_call *call);
void kw_call_client_getname(struct kw_call *call);
void kw_call_client_getredir(struct kw_call *call);
void kw_call_client_id(struct kw_call *call);
void kw_call_client_info(struct kw_call *call);
void kw_call_client_list(struct kw_call *call);
void kw_call_client_reply(struct kw_call *call);
void kw_call_client_setinfo(struct kw_call *call);
void kw_call_client_setname(struct kw_call *call);
void kw_call_client_switch(struct kw_call *call);
void kw_call_client_tracking(struct kw_call *call);
void kw_call_client_trackinginfo(struct kw_call *call);

/* session_command.c */
void kw_call_command(struct kw_call *call);
void kw_call_command_count(struct kw_call *call);
void kw_call_command_docs(struct kw_call *call);
void kw_call_command_getkeys(struct kw_call *call);
void kw_call_command_info(struct kw_call *call);
void kw_call_command_list(struct kw_call *call);

/* session_config.c */
void kw_call_config_get(struct kw_call *call);

/* session_info.c */
void kw_call_info(struct kw_call *call);

/* A command of the session that the gateway does not answer, such as CONFIG SET. */
void kw_call_refuse(struct kw_call *call);

/* ---- what they share ---- */

/* Replace a text of the session; by NULL for an empty word. */
void kw_session_set_text(char **text, struct kw_slice word);

/* Only characters that a line of CLIENT LIST can hold, and not too many. */
bool kw_session_text_valid(struct kw_slice word);

/* False: the word is no name, and that was replied. */
bool kw_session_name_valid(struct kw_call *call, struct kw_slice word);

/* The user of the session from now on; NULL: none. */
void kw_session_become(struct kw_session *session, const struct kw_user *user);

/* As a client that has just connected. */
void kw_session_forget(struct kw_session *session, const struct kw_session_host *host);

struct kw_session_facts kw_session_look(
	const struct kw_session *session, const struct kw_session_host *host);

/* The version of a server that the gateway answers like. */
#define KW_SESSION_VERSION_MAX 32
const char *kw_session_server_version(
	const struct kw_session_host *host, char text[KW_SESSION_VERSION_MAX]);

/* Is the command answered here, or by the table, or by the primary? */
bool kw_session_serves(const struct kw_session_host *host, const struct kw_catalog_row *row);

#endif
