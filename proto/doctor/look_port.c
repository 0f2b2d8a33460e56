/* What listens at a port, as one of the looks of the doctor. */
#include "doctor/internal.h"

#include <stdio.h>

static void on_work(uv_work_t *work)
{
	struct kw_port_visit *visit = work->data;

	visit->kind = kw_port_look(visit->host, visit->port, &visit->reached);
}

static void on_worked(uv_work_t *work, int status)
{
	struct kw_port_visit *visit = work->data;

	kw_doctor_over(visit->doctor);
}

void kw_port_visit_begin(
	struct kw_port_visit *visit, struct kw_doctor *doctor, const char *host, const char *port)
{
	visit->doctor = doctor;
	visit->work.data = visit;
	snprintf(visit->host, sizeof visit->host, "%s", host);
	snprintf(visit->port, sizeof visit->port, "%s", port);
	if (uv_queue_work(&doctor->loop, &visit->work, on_work, on_worked))
		kw_doctor_over(doctor);
}
