/*
 * The inside of the doctor, shared by its files.
 *
 *   run.c          one phase after the other, the deadline      report.c    findings as JSON
 *   look_server.c  a connection to a server (its findings: tell_server.c)
 *   look_link.c    READs of a table
 *   look_port.c    what listens at a port                       look_host.c this host
 *   look_doors.c   where the daemon listens
 */
#ifndef KW_DOCTOR_INTERNAL_H
#define KW_DOCTOR_INTERNAL_H

#include "doctor/doctor.h"

#include "base/buffer.h"
#include "doctor/link.h"
#include "port/look.h"
#include "redis/address.h"

#include <uv.h>

#define KW_DOCTOR_WHAT 80
#define KW_DOCTOR_SERVERS_MAX 40 /* a primary or local server, and the sentinels */
#define KW_DOCTOR_LINKS_MAX 16

/* ---- what listens at a port: in a thread of the pool ---- */

struct kw_port_visit {
	uv_work_t work;
	struct kw_doctor *doctor;
	char host[KW_PORT_HOST], port[KW_PORT_NUMBER];
	enum kw_port_kind kind; /* afterwards */
	bool reached;           /* something listens there */
};

/* KW_PORT_UNKNOWN without a look if it cannot begin. */
void kw_port_visit_begin(
	struct kw_port_visit *visit, struct kw_doctor *doctor, const char *host, const char *port);

/* ---- a server ---- */

struct kw_server_look {
	struct kw_doctor *doctor;
	struct kw_doctor_server server; /* its texts are the ones below */
	char what[KW_DOCTOR_WHAT], address[300], master[128];
	struct kw_redis_options options;
	struct kw_tls_current tls;
	struct kw_buffer password;
	struct kw_redis *redis;
	uint64_t asked_us, asked_wall_us;
	struct kw_wanted_check wanted;
	int waits;                                       /* answers that are not there yet */
	bool ready, told, asked_setting, listened, over; /* told: INFO was answered */
	struct kw_error error;                           /* its code is KW_OK if nothing failed */
	struct kw_port_visit port;
	struct kw_doctor_server_facts facts;
};

void kw_server_look_begin(struct kw_server_look *look);
void kw_server_look_judge(const struct kw_server_look *look, struct kw_findings *findings);
void kw_server_look_close(struct kw_server_look *look);

/* ---- a proxy ---- */

struct kw_link_look;

struct kw_link_look *kw_link_look_new(
	struct kw_doctor *doctor, const char *address, const struct kw_remote_options *options);
void kw_link_look_begin(struct kw_link_look *look);
void kw_link_look_judge(const struct kw_link_look *look, struct kw_findings *findings);
const struct kw_superblock *kw_link_look_superblock(const struct kw_link_look *look); /* or NULL */
const char *kw_link_look_what(const struct kw_link_look *look);
bool kw_link_look_is_over(const struct kw_link_look *look);
void kw_link_look_free(struct kw_link_look *look);

/* ---- this host ---- */

void kw_host_look(struct kw_host_facts *facts);

/* The MTU of the interface of an RDMA device whose link is Ethernet; 0: none, or not known. */
uint64_t kw_host_mtu(const char *device);

/* ---- the run ---- */

struct kw_doctor {
	const struct kw_doctor_subject *subject;
	const struct kw_config *config;
	uv_loop_t loop;
	uv_timer_t deadline;
	struct kw_findings findings;
	struct kw_host_facts host;
	struct kw_server_look servers[KW_DOCTOR_SERVERS_MAX];
	size_t server_count;
	struct kw_link_look *links[KW_DOCTOR_LINKS_MAX];
	size_t link_count;
	size_t pending; /* looks of the present phase that are not over */
	bool linking;   /* the second phase */
	bool running;   /* a daemon answers at control.socket */
	bool late;
};

/* A look is over, with all its handles closed. */
void kw_doctor_over(struct kw_doctor *doctor);

void kw_doctor_report(const struct kw_doctor *doctor);

#endif
