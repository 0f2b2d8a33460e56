/*
 * A READ may be carried out in the middle of a put or a publish. To sample READs there without a
 * hook in the writer, the memory is made read-only before an operation: the first store to each
 * page faults, and the handler lets READs sample memory just before it happens. As segments are
 * pages here, and the directories lie in other pages than the superblock, this finds a publication
 * in the wrong order. Faults are synchronous and come in the order of the stores, so a seed still
 * repeats its schedule.
 */
#include "sim.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SAMPLES_MAX 6

static struct sim *armed;
static struct sigaction previous;
static bool installed;

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
	uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	uint8_t *at = info->si_addr;
	struct sim *sim = armed;

	if (!sim || at < sim->memory || at >= sim->memory + SIM_RESERVE_BYTES) {
		/* Not ours: let it happen again, and have its usual effect. */
		sigaction(SIGSEGV, &previous, NULL);
		return;
	}
	at = (uint8_t *)((uintptr_t)at & ~(page_bytes - 1));
	for (uint64_t n = prng_below(&sim->prng, SAMPLES_MAX); n > 0; n--) {
		sim_wire_sample(sim->wire);
		sim->counts.within++;
	}
	mprotect(at, page_bytes, PROT_READ | PROT_WRITE);
}

void sim_pages_arm(struct sim *sim)
{
	struct sigaction action;

	if (!installed) {
		memset(&action, 0, sizeof action);
		action.sa_sigaction = on_fault;
		action.sa_flags = SA_SIGINFO;
		sigaction(SIGSEGV, &action, &previous);
		installed = true;
	}
	armed = sim;
	mprotect(sim->memory, SIM_RESERVE_BYTES, PROT_READ);
}

void sim_pages_disarm(struct sim *sim)
{
	mprotect(sim->memory, SIM_RESERVE_BYTES, PROT_READ | PROT_WRITE);
	armed = NULL;
}
