/*
 * Arbitrary bytes as the reply to COMMAND: a catalog is made of it or refused, and no key that it
 * names lies outside of a command.
 */
#include "fuzz.h"

#include "stream/catalog.h"


#define TEXT(length, text) "$" #length "\r\n" text "\r\n"
#define SEARCH(type, spec) "*4\r\n$4\r\ntype\r\n" type "$4\r\nspec\r\n" spec
#define INDEX SEARCH(TEXT(5, "index"), "*2\r\n$5\r\nindex\r\n:1\r\n")
#define KEYWORD                                                                                    \
	SEARCH(TEXT(7, "keyword"), "*4\r\n$7\r\nkeyword\r\n$1\r\na\r\n$9\r\nstartfrom\r\n:-2\r\n")
#define RANGE                                                                                      \
	SEARCH(TEXT(5, "range"),                                                                   \
		"*6\r\n$7\r\nlastkey\r\n:-1\r\n$7\r\nkeystep\r\n:1\r\n$5\r\nlimit\r\n:2\r\n")
#define KEYNUM                                                                                     \
	SEARCH(TEXT(6, "keynum"),                                                                  \
		"*6\r\n$9\r\nkeynumidx\r\n:0\r\n$8\r\nfirstkey\r\n:1\r\n$7\r\nkeystep\r\n:1\r\n")
#define SPEC(begin, find)                                                                          \
	"*6\r\n$5\r\nflags\r\n*1\r\n+RW\r\n$12\r\nbegin_search\r\n" begin "$9\r\nfind_"            \
	"keys\r\n" find
#define ENTRY(spec)                                                                                \
	"*10\r\n$1\r\nx\r\n:-2\r\n*1\r\n+write\r\n:1\r\n:-1\r\n:1\r\n*0\r\n*0\r\n*1\r\n" spec      \
	"*0\r\n"

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("*1\r\n" ENTRY(SPEC(INDEX, RANGE))),
	KW_FUZZ_BYTES("*1\r\n" ENTRY(SPEC(INDEX, KEYNUM))),
	KW_FUZZ_BYTES("*1\r\n" ENTRY(SPEC(KEYWORD, RANGE))),
	KW_FUZZ_BYTES("*1\r\n" ENTRY(SPEC(KEYWORD, KEYNUM))),
	KW_FUZZ_BYTES("*1\r\n*7\r\n$1\r\nx\r\n:2\r\n*1\r\n+write\r\n:1\r\n:-1\r\n:1\r\n*0\r\n"),
};

static uint32_t words;

static void on_key(void *arg, uint32_t index)
{
	must(index > 0 && index < words);
}

static bool on_reply(void *arg, const struct kw_reply *reply)
{
	static const struct kw_repl_word text[] = {{{"x", 1}, false}, {{"3", 1}, false},
		{{"a", 1}, false}, {{NULL, 0}, true}, {{"A", 1}, false}, {{"2", 1}, false},
		{{"b", 1}, false}};
	struct kw_repl_catalog *catalog = NULL;
	struct kw_error error = {0};

	if (kw_repl_catalog_new(reply, &catalog, &error)) {
		must(error.text[0] != '\0');
		return true;
	}
	must(kw_repl_catalog_count(catalog) <= KW_REPL_COMMANDS_MOST);
	for (words = 1; words <= sizeof text / sizeof *text; words++)
		for (int cut = 0; cut < 2; cut++)
			kw_repl_catalog_keys(catalog,
				&(struct kw_repl_command){
					.words = text, .count = words, .cut = cut},
				on_key, NULL);
	kw_repl_catalog_free(catalog);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kw_reply_reader *reader = kw_reply_reader_new(on_reply, NULL);
	struct kw_error error;

	kw_reply_reader_feed(reader, data, size, &error);
	kw_reply_reader_free(reader);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
