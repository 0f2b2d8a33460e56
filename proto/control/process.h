/*
 * What the system knows of this process, by the names that the client libraries of Prometheus give
 * it: process_cpu_seconds_total, process_resident_memory_bytes, process_open_fds, process_max_fds,
 * process_start_time_seconds. Dashboards and alerts of others find them in each daemon.
 *
 * What cannot be read is left out. A question costs some reads of /proc, and one entry of a folder
 * for each descriptor. Any thread.
 */
#ifndef KW_CONTROL_PROCESS_H
#define KW_CONTROL_PROCESS_H

#include "base/buffer.h"

void kw_process_metrics(struct kw_buffer *text);

#endif
