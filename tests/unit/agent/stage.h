/* A whole agent between a table of our own making and a real local server. */
#ifndef KW_TEST_AGENT_STAGE_H
#define KW_TEST_AGENT_STAGE_H

#include "agent.h"
#include "fixture.h"

#define STAGE_EPOCH 0x1111

struct stage {
	struct test_server server;
	uv_loop_t loop;
	struct test_proxy proxy;
	struct kw_agent_options options; /* of the next agent; addresses are filled in */
	struct kw_agent *agent;
	int closed;
	uint64_t seen; /* for the test */
	int warm;      /* times the state became warm since the agent was started */
};

/* An empty server, and a proxy whose first scan is complete; options for that apply mode. */
void stage_open(struct stage *stage, const char *mode);
/* The agent is closed too, if there is one. */
void stage_close(struct stage *stage);

/* Opened in mode commands, with the first `keys` of stage_fill, and an agent that is warm. */
void stage_open_warm(struct stage *stage, int keys);

void stage_start_agent(struct stage *stage);
void stage_stop_agent(struct stage *stage);

/* The proxy is gone, and another is there with an empty table. */
void stage_another_proxy(struct stage *stage, uint64_t epoch, bool complete);

/* key:first … key:(last - 1), each "value", even numbers in database 0 and odd ones in 1. */
void stage_fill(struct stage *stage, int first, int last);

/* What redis-cli answers to these words. */
const char *stage_cli(struct stage *stage, const char *words);

/* Run the loop until holds(stage), or until the agent is in that state. */
void stage_wait(struct stage *stage, bool (*holds)(void *stage), const char *what);
void stage_wait_state(struct stage *stage, enum kw_agent_state state);

/* Publish, and run the loop until all of it is applied; warm: until the agent says so, too. */
void stage_wait_applied(struct stage *stage);
void stage_wait_warm(struct stage *stage);

#endif
