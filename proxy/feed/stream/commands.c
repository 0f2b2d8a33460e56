#include "feed/stream/commands.h"

#include "base/clock.h"

void kw_commands_close(struct kw_commands *commands)
{
	kw_repl_catalog_free(commands->catalog);
	commands->catalog = NULL;
}

static void answered(void *arg, const struct kw_reply *reply)
{
	struct kw_commands *commands = arg;
	struct kw_repl_catalog *before = commands->catalog, *catalog;
	struct kw_error why;

	reply = kw_data_reply(commands->data, reply);
	if (!reply)
		return;
	if (reply->type == KW_REPLY_ERROR) {
		kw_data_refusal(&why, commands->username, "COMMAND", "+command", reply);
		commands->refused(commands->arg, &why);
		return;
	}
	if (kw_repl_catalog_new(reply, &catalog, &why)) {
		commands->refused(commands->arg, &why);
		return;
	}
	commands->catalog = catalog;
	commands->learnt(commands->arg, catalog);
	kw_repl_catalog_free(before);
}

void kw_commands_ask(struct kw_commands *commands)
{
	commands->asked_us = kw_clock_us();
	kw_data_words(commands->data, answered, commands, "COMMAND", NULL);
}

void kw_commands_ask_again(struct kw_commands *commands)
{
	if (kw_clock_us() - commands->asked_us >= KW_COMMANDS_EVERY_US &&
		!kw_data_is_broken(commands->data))
		kw_commands_ask(commands);
}
