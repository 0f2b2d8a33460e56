/*
 * One client library at a gateway, unmodified:
 *
 *   node read.js MODULES ioredis|redis OPTIONS        OPTIONS: JSON, as the library takes them
 *
 * Prints as JSON what it read, and the error of a write.
 */
"use strict";

const [modules, library, options] = process.argv.slice(2);
let complaint; // what a library says first of a connection that fails
const load = require("module").createRequire(modules + "/");

/* ioredis asks INFO first and waits until the server says that it is ready. */
async function connectIoredis() {
	const Redis = load("ioredis");
	const client = new Redis({ ...JSON.parse(options), lazyConnect: true, retryStrategy: null });
	client.on("error", (error) => (complaint ??= error));
	await client.connect();
	return {
		get: (key) => client.get(key),
		hgetall: (key) => client.hgetall(key),
		mget: (keys) => client.mget(keys),
		set: (key, value) => client.set(key, value),
		pipeline: async (keys) => {
			const pipeline = client.pipeline();
			keys.forEach((key) => pipeline.get(key));
			return (await pipeline.exec()).map(([error, value]) => error ?? value);
		},
		quit: () => client.quit(),
	};
}

async function connectRedis() {
	const client = load("redis").createClient({ disableOfflineQueue: true, ...JSON.parse(options) });
	client.on("error", (error) => {
		complaint ??= error;
		client.destroy();
	});
	await client.connect();
	return {
		get: (key) => client.get(key),
		hgetall: (key) => client.hGetAll(key),
		mget: (keys) => client.mGet(keys),
		set: (key, value) => client.set(key, value),
		pipeline: (keys) => Promise.all(keys.map((key) => client.get(key))),
		quit: () => client.close(),
	};
}

async function main() {
	const client = await (library === "ioredis" ? connectIoredis() : connectRedis());
	const many = Array.from({ length: 500 }, () => "cache:1");
	const read = {
		get: await client.get("cache:1"),
		none: await client.get("cache:none"),
		hgetall: await client.hgetall("cache:h"),
		mget: await client.mget(["cache:1", "cache:none"]),
		pipeline: [...new Set(await client.pipeline(many))],
		set: await client.set("cache:1", "x").catch((error) => error.message),
	};
	await client.quit();
	console.log(JSON.stringify(read));
}

main().catch((error) => {
	console.error((complaint ?? error).message);
	process.exitCode = 1;
});
