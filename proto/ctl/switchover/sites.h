/*
 * The daemons of a switch-over: a control socket each, and what they say of themselves.
 *
 * The caller owns the struct. One thread.
 */
#ifndef KW_CTL_SWITCHOVER_SITES_H
#define KW_CTL_SWITCHOVER_SITES_H

#include "ctl/ctl.h"
#include "ctl/switchover/plan.h"

struct kw_site {
	struct ctl ctl;          /* its socket and its connection */
	char name[160];          /* for sentences: "the old proxy (/run/keywake/old.sock)" */
	json_t *status;          /* the last one; NULL: it did not answer */
	char why[KW_ERROR_TEXT]; /* it did not answer, or the reason of its state */
};

struct kw_sites {
	struct kw_site from, to, agent;
	struct kw_site others[KW_SWITCHOVER_AGENTS];
	size_t other_count;
};

/* sockets: old proxy, new proxy, agent, other agents. */
void kw_sites_open(struct kw_sites *sites, const char *const *sockets, size_t count);
void kw_sites_close(struct kw_sites *sites);

/* As ctl_call; the sentence begins with the daemon. */
int kw_site_call(struct kw_site *site, const char *method, json_t *params, json_t **result,
	struct kw_error *error);

/* Ask for the status; site->status and site->why are of now. */
int kw_site_look(struct kw_site *site, struct kw_error *error);

/* A field of the last status: "history.table.term". The defaults are 0 and "". */
const char *kw_site_text(const struct kw_site *site, const char *path);
double kw_site_number(const struct kw_site *site, const char *path);

/* Save a term at a proxy, whose lock this token is of. */
int kw_site_set_term(struct kw_site *proxy, json_int_t lock, uint64_t term, struct kw_error *error);

/* The term that a proxy has; 0 also if it does not answer. */
uint64_t kw_site_term(struct kw_site *proxy);

/* Ask all. facts: texts of it are the sites', until they are looked at again. */
void kw_sites_ask(struct kw_sites *sites, struct kw_switchover_facts *facts);

#endif
