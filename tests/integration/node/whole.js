/*
 * One client library reads keys whole, through its own parser:
 *
 *   node whole.js MODULES ioredis|redis OPTIONS READS        OPTIONS: JSON, as the library takes them
 *
 * READS: a file, a JSON list of words on each line. Prints each reply as one line of JSON: what comes
 * in no order is sorted, a map is its sorted pairs.
 */
"use strict";

const fs = require("fs");
const [modules, library, options, reads] = process.argv.slice(2);
const load = require("module").createRequire(modules + "/");
const IN_FLIGHT = 500;

async function connect() {
	if (library === "ioredis") {
		const client = new (load("ioredis"))({ ...JSON.parse(options), lazyConnect: true, retryStrategy: null });
		await client.connect();
		return { ask: (words) => client.call(...words), quit: () => client.quit() };
	}
	const client = load("redis").createClient(JSON.parse(options));
	client.on("error", (error) => { throw error; });
	await client.connect();
	return { ask: (words) => client.sendCommand(words), quit: () => client.close() };
}

function pairs(reply) {
	if (reply instanceof Map) return [...reply];
	if (!Array.isArray(reply)) return Object.entries(reply);
	return Array.from({ length: reply.length / 2 }, (_, i) => reply.slice(2 * i, 2 * i + 2));
}

function plain(command, reply) {
	if (command === "HGETALL") return pairs(reply).map((pair) => JSON.stringify(pair)).sort();
	if (command === "SMEMBERS") return [...reply].map(String).sort();
	return reply;
}

async function main() {
	const client = await connect();
	const asked = fs.readFileSync(reads, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
	for (let at = 0; at < asked.length; at += IN_FLIGHT) {
		const some = asked.slice(at, at + IN_FLIGHT);
		const replies = await Promise.all(some.map((words) => client.ask(words)));
		console.log(replies.map((reply, i) => JSON.stringify(plain(some[i][0], reply))).join("\n"));
	}
	await client.quit();
}

main().catch((error) => {
	console.error(error.message);
	process.exitCode = 1;
});
