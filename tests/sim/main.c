/*
 * kw-sim: runs seeded schedules of writer, READs and agents, and says which promise did not hold.
 *
 *   kw-sim [--seed N] [--schedules N] [--verbose]      exit 0: every promise held in all of them
 *   kw-sim --broken R [--seed N] [--schedules N]       exit 0: leaving out rule R was noticed
 *
 * A failing schedule prints its seed; `kw-sim --seed N` runs that one again, exactly.
 */
#include "sim.h"

#include "base/buffer.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int usage(const char *why)
{
	fprintf(stderr,
		"kw-sim: %s\n"
		"usage: kw-sim [--seed N] [--schedules N] [--broken 1..7] [--verbose]\n",
		why);
	return 2;
}

static bool number(const char *text, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	return errno == 0 && end != text && *end == '\0';
}

static struct sim *new_sim(void)
{
	struct sim *sim = kw_zalloc(sizeof *sim);
	void *memory = mmap(NULL, SIM_RESERVE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED) {
		perror("kw-sim: mmap");
		exit(2);
	}
	/* Writes are trapped page by page. */
	madvise(memory, SIM_RESERVE_BYTES, MADV_NOHUGEPAGE);
	sim->memory = memory;
	return sim;
}

/* An assertion of the table's ends the process: the seed must be told all the same. */
static volatile uint64_t seed_at_work;

static void on_abort(int number)
{
	char line[64];
	int length = snprintf(line, sizeof line, "kw-sim: aborted at seed %llu\n",
		(unsigned long long)seed_at_work);

	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		_exit(1);
	signal(number, SIG_DFL);
	raise(number);
}

static void add(struct sim_counts *totals, const struct sim_counts *counts)
{
#define ADD(name) totals->name += counts->name;
	SIM_COUNTS(ADD)
#undef ADD
}

static void print(const struct sim_counts *totals)
{
#define PRINT(name) printf(" " #name " %llu", (unsigned long long)totals->name);
	SIM_COUNTS(PRINT)
#undef PRINT
	printf("\n");
}

struct arguments {
	uint64_t seed, schedules, broken;
	bool verbose;
};

static int parse(int argc, char **argv, struct arguments *arguments)
{
	static const struct option options[] = {
		{"seed", required_argument, NULL, 's'},
		{"schedules", required_argument, NULL, 'n'},
		{"broken", required_argument, NULL, 'b'},
		{"verbose", no_argument, NULL, 'v'},
		{0},
	};
	int option;

	*arguments = (struct arguments){.seed = 1, .schedules = 1};
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		bool well = true;

		switch (option) {
		case 's':
			well = number(optarg, &arguments->seed);
			break;
		case 'n':
			well = number(optarg, &arguments->schedules);
			break;
		case 'b':
			well = number(optarg, &arguments->broken) && arguments->broken >= 1 &&
			       arguments->broken <= 7;
			break;
		case 'v':
			arguments->verbose = true;
			break;
		default:
			return usage("unknown option");
		}
		if (!well)
			return usage("not a number that this option takes");
	}
	return optind < argc ? usage("only options are taken") : 0;
}

int main(int argc, char **argv)
{
	struct sim_counts totals = {0};
	struct arguments arguments;
	struct sim *sim;
	uint64_t seed, end;

	if (parse(argc, argv, &arguments))
		return 2;
	signal(SIGABRT, on_abort);
	sim = new_sim();
	end = arguments.seed + arguments.schedules;
	for (seed = arguments.seed; seed < end; seed++) {
		bool held;

		seed_at_work = seed;
		held = sim_run(sim, seed, (int)arguments.broken);

		add(&totals, &sim->counts);
		if (arguments.verbose) {
			printf("seed %llu:", (unsigned long long)seed);
			print(&sim->counts);
		}
		if (!held)
			break;
	}
	if (seed < end)
		printf("seed %llu: step %llu: %s\n", (unsigned long long)seed,
			(unsigned long long)sim->counts.steps, sim->violation);
	if (seed < end && arguments.broken == 0)
		printf("kw-sim: repeat it with: kw-sim --seed %llu --verbose\n",
			(unsigned long long)seed);
	if (seed == end)
		printf("kw-sim: %llu schedules, every promise held\n",
			(unsigned long long)arguments.schedules);
	printf("kw-sim: all in all:");
	print(&totals);
	munmap(sim->memory, SIM_RESERVE_BYTES);
	free(sim);
	return (seed < end) == (arguments.broken != 0) ? 0 : 1;
}
