/** Each conformance suite against implementations that break one promise each: the test named beside it must fail. */
import assert from "node:assert/strict";
import { describe, expect, it } from "vitest";
import {
	AmbiguousHashError,
	blockKey,
	type ControlChannel,
	type ElementPair,
	HashNotFoundError,
	type KeyAdapter,
	type RouterHash,
	type RouterLookup,
	type TransferAgent,
	type TransferId,
	type WriteRequest,
} from "../src/ports/index.js";
import {
	controlChannelSuite,
	type KeyAdapterSubject,
	keyAdapterSuite,
	MemoryFabric,
	MemoryNetwork,
	type MemoryNetworkOptions,
	type ScriptedTransferAgent,
	type SuiteRunner,
	transferAgentSuite,
} from "../src/testing/index.js";

/** Runs the tests of a suite whose names contain `part`, and tells how each ended. */
async function run(
	declare: (runner: SuiteRunner) => void,
	part: string,
): Promise<{ name: string; error: unknown }[]> {
	const tests: { name: string; body: () => Promise<void> }[] = [];
	declare({
		describe: (_name, body) => body(),
		it: (name, body) => tests.push({ name, body }),
	});
	const results = [];
	for (const { name, body } of tests.filter((t) => t.name.includes(part))) {
		let error: unknown;
		await body().catch((thrown: unknown) => {
			error = thrown;
		});
		results.push({ name, error });
	}
	expect(results, `no test is called ${part}`).not.toHaveLength(0);
	return results;
}

/** An object whose methods in `changed` stand before those of `base`. */
function altered<T extends object>(base: T, changed: Partial<T>): T {
	return new Proxy(base, {
		get(target, property) {
			const value: unknown =
				property in changed
					? Reflect.get(changed, property)
					: Reflect.get(target, property, target);
			return typeof value === "function" ? value.bind(target) : value;
		},
	});
}

describe("controlChannelSuite bites on a channel that", () => {
	type Break = (
		inner: ControlChannel,
		all: ControlChannel[],
	) => Partial<ControlChannel>;
	const channels = async (
		part: string,
		breakIt: Break,
		options: MemoryNetworkOptions = {},
	) => {
		const network = new MemoryNetwork({ maxQueued: 20_000, ...options });
		const all: ControlChannel[] = [];
		let next = 0;
		const results = await run(
			(runner) =>
				controlChannelSuite(runner, {
					name: "broken",
					create: (endpoint) => {
						const name = endpoint?.slice("memory://".length) ?? `c${next++}`;
						const inner = network.channel(name);
						const channel = altered(inner, breakIt(inner, all));
						all.push(channel);
						return channel;
					},
					absentEndpoint: () => "memory://nobody",
					floodMessages: 25_000,
					patienceMs: 250,
					quietMs: 20,
				}),
			part,
		);
		for (const { name, error } of results)
			expect(error, `${name} passed`).toBeInstanceOf(Error);
	};
	const receivers = new Map<string, (message: Uint8Array) => void>();
	const none: Break = () => ({});
	let order = 0;

	const cases: [string, string, Break, MemoryNetworkOptions?][] = [
		[
			"doubles messages",
			"at most once",
			none,
			{ policy: () => ({ copies: 2 }) },
		],
		[
			"reorders messages",
			"keeps the order",
			none,
			{ policy: () => ({ delayMs: order++ % 3 }) },
		],
		[
			"changes bytes",
			"bytes unchanged",
			none,
			{
				policy: ({ bytes }) => ({
					bytes: bytes.map((b, i) => (i === 200 ? b ^ 1 : b)),
				}),
			},
		],
		[
			"takes messages of any size",
			"over 1 MiB",
			none,
			{ maxMessageBytes: 1 << 30 },
		],
		["queues without bound", "bounds what it queues", none, { maxQueued: 1e9 }],
		[
			"takes any endpoint",
			"endpoints it cannot reach",
			(inner) => ({
				send: (e, m) =>
					inner.send(e.startsWith("memory") ? e : "memory://x", m),
			}),
		],
		[
			"throws from send",
			"endpoints it cannot reach",
			(inner) => ({
				send: (e, m) => {
					if (!inner.send(e, m)) throw new Error("no");
					return true;
				},
			}),
		],
		[
			"says true after close",
			"never delivers after close",
			(inner) => ({
				send: (e, m) => {
					inner.send(e, m);
					return true;
				},
			}),
		],
		[
			"delivers inside send and hands out the sender's own bytes",
			"",
			(inner) => ({
				start: async (receive) => {
					await inner.start(receive);
					receivers.set(inner.endpoint as string, receive);
				},
				send: (e, m) => {
					receivers.get(e)?.(m);
					return true;
				},
			}),
		],
		[
			"starts twice",
			"second start",
			(inner) => ({ start: (receive) => inner.start(receive).catch(() => {}) }),
		],
		[
			"sends before start",
			"before start",
			(inner) => ({ send: (e, m) => inner.send(e, m) || true }),
		],
		[
			"counts in one shared object",
			"in snapshots",
			(inner) => {
				const live = { sent: 0, received: 0, refused: {}, dropped: {} };
				return { stats: () => Object.assign(live, inner.stats()) };
			},
		],
		[
			"hangs in close",
			"closes twice",
			() => ({ close: () => new Promise(() => {}) }),
		],
		[
			"leaves a start for ever unsettled when a close overtakes it",
			"ends a start",
			(inner) => {
				let closed = false;
				return {
					start: async (receive) => {
						await inner.start(receive);
						if (closed) await new Promise(() => {});
					},
					close: () => {
						closed = true;
						return inner.close();
					},
				};
			},
		],
		[
			"goes on delivering after close",
			"never delivers after close",
			() => ({ close: async () => {} }),
		],
		[
			"dies when its receiver throws",
			"receiver that throws",
			(inner) => ({
				start: (receive) => {
					let dead = false;
					return inner.start((message) => {
						if (dead) return;
						dead = true;
						receive(message);
						dead = false;
					});
				},
			}),
		],
		[
			"forgets its endpoint at a restart",
			"restarted at the same endpoint",
			(inner, all) =>
				all.length > 1 && all.some((c) => c.endpoint === inner.endpoint)
					? { send: () => false, start: async () => {} }
					: {},
		],
	];
	it.each(cases)("%s", async (_what, part, breakIt, options) => {
		if (part !== "") return channels(part, breakIt, options);
		await channels("never delivers inside send", breakIt, options);
		await channels("bytes that are its own", breakIt, options);
	});
});

describe("transferAgentSuite bites on an agent that", () => {
	type Break = (inner: ScriptedTransferAgent) => Partial<TransferAgent>;
	const copyNow = (fabricWrite: ScriptedTransferAgent) =>
		fabricWrite.writes.at(-1);
	const cases: [string, string, Break][] = [
		[
			"notifies before the bytes are there",
			"delivers the bytes, then",
			(inner) => ({
				write: (request) => {
					inner.notify(request.remote, request.notification);
					const late = inner.write(request);
					const write = copyNow(inner);
					write?.stall();
					setTimeout(() => write?.complete(), 20);
					return late;
				},
			}),
		],
		[
			"completes twice",
			"exactly once",
			(inner) => ({
				takeCompletions: () => {
					const taken = inner.takeCompletions();
					return [...taken, ...taken];
				},
			}),
		],
		["never wakes", "delivers the bytes, then", () => ({ attach: () => {} })],
		[
			"wakes inside write",
			"writes to itself",
			(inner) => {
				let wake = () => {};
				return {
					attach: (listener) => {
						wake = listener;
						inner.attach(listener);
					},
					write: (request) => {
						const transfer = inner.write(request);
						wake();
						return transfer;
					},
				};
			},
		],
		[
			"wakes for every completion twice over",
			"coalesces wakes",
			(inner) => ({
				attach: (wake) =>
					inner.attach(() => {
						for (let i = 0; i < 200; i += 1) wake();
					}),
			}),
		],
		[
			"accepts stale handles",
			"was replaced",
			(inner) => {
				let latest: WriteRequest["remote"];
				return {
					addRemote: (metadata, regions) => {
						latest = inner.addRemote(metadata, regions);
						return latest;
					},
					write: (request) => inner.write({ ...request, remote: latest }),
				};
			},
		],
		[
			"accepts removed handles",
			"was removed",
			() => ({ removeRemote: () => {} }),
		],
		[
			"lets a remote go under a write",
			"never removes",
			(inner) => ({
				removeRemote: (remote) => {
					try {
						inner.removeRemote(remote);
					} catch {}
				},
			}),
		],
		[
			"writes a part of what it refuses",
			"posts nothing",
			(inner) => ({
				write: (request) => {
					try {
						return inner.write(request);
					} catch (error) {
						const pairs = request.pairs.slice(0, 1);
						if (pairs.length > 0) inner.write({ ...request, pairs });
						throw error;
					}
				},
			}),
		],
		[
			"reads a request twice",
			"reads every part of a write once",
			(inner) => ({
				write: (request) => {
					assert.ok(request.pairs);
					return inner.write(request);
				},
			}),
		],
		[
			"reads the form of a region twice",
			"reads every part of a region",
			(inner) => ({
				createRegion: (spec) => {
					assert.ok(spec.elementCount > 0);
					return inner.createRegion(spec);
				},
			}),
		],
		[
			"reads a descriptor twice",
			"reads every part of a descriptor",
			(inner) => ({
				addRemote: (metadata, regions) => {
					assert.ok(regions.every(({ size }) => size > 0));
					return inner.addRemote(metadata, regions);
				},
			}),
		],
		[
			"packs all writes into one list",
			"keeps a write apart",
			(inner) => {
				const packed: ElementPair[] = [];
				return {
					write: ({ remote, pairs, notification }) => {
						pairs.forEach((pair, i) => {
							packed[i] = { ...pair };
						});
						const own = packed.slice(0, pairs.length);
						return inner.write({ remote, pairs: own, notification });
					},
				};
			},
		],
		[
			"looks at the pairs only before it reads them",
			"of which something ends",
			(inner) => ({
				write: (request) => {
					const pairs = request.pairs.map((pair) => ({ ...pair }));
					try {
						return inner.write({ ...request, pairs });
					} catch {
						return 1 as TransferId;
					}
				},
			}),
		],
		[
			"throws a bare error for bad metadata",
			"not metadata",
			(inner) => ({
				addRemote: (metadata, regions) => {
					try {
						return inner.addRemote(metadata, regions);
					} catch {
						throw new TypeError("bad");
					}
				},
			}),
		],
		[
			"loses the last element",
			"thousands of pairs",
			(inner) => ({
				write: (request) =>
					inner.write({ ...request, pairs: request.pairs.slice(0, -1) }),
			}),
		],
		[
			"reports success for a region that is gone",
			"its owner released",
			(inner) => ({
				takeCompletions: () =>
					inner
						.takeCompletions()
						.map(({ transfer }) => ({ transfer, outcome: "done" })),
			}),
		],
		[
			"shuffles notifications",
			"in order",
			(inner) => ({
				takeNotifications: () => [...inner.takeNotifications()].reverse(),
			}),
		],
		[
			"cancels what it does not know",
			"did not post",
			() => ({ cancel: () => true }),
		],
		[
			"moves bytes after a cancelled completion",
			"ends a cancelled write once",
			(inner) => ({
				cancel: (transfer) => {
					const write = inner.writes.find((w) => w.transfer === transfer);
					if (write === undefined) return false;
					const { request } = write;
					const known = write.confirmCancel();
					setTimeout(() => inner.write(request), 5);
					return known;
				},
			}),
		],
		[
			"hangs in close",
			"closes twice at once",
			() => ({ close: () => new Promise(() => {}) }),
		],
		[
			"leaves its regions when it closes",
			"closes for good",
			() => ({ close: async () => {} }),
		],
		["takes a second listener", "one listener", () => ({ attach: () => {} })],
		[
			"releases a region under a write",
			"does not release a region",
			(inner) => ({
				createRegion: async (spec) => {
					const region = await inner.createRegion(spec);
					return altered(region, { release: () => {} });
				},
			}),
		],
		[
			"keeps views of released regions alive",
			"once and for all",
			(inner) => ({
				createRegion: async (spec) => {
					const region = await inner.createRegion(spec);
					const copy = new Uint8Array(spec.elementBytes || 1);
					return altered(region, { element: () => copy });
				},
			}),
		],
		[
			"accepts unusable specs",
			"unusable region specs",
			(inner) => ({
				createRegion: () =>
					inner.createRegion({ label: "", elementBytes: 1, elementCount: 1 }),
			}),
		],
		[
			"ignores what arrives while nothing is expected",
			"kept while nothing",
			() => ({ takeNotifications: () => [] }),
		],
	];
	it.each(cases)("%s", async (_what, part, breakIt) => {
		const fabric = new MemoryFabric();
		let next = 0;
		const results = await run(
			(runner) =>
				transferAgentSuite(runner, {
					name: "broken",
					create: (name = `agent${next++}`) => {
						const inner = fabric.agent(name);
						return altered<TransferAgent>(inner, breakIt(inner));
					},
					refusesReleasedTargets: true,
					patienceMs: 250,
					quietMs: 20,
				}),
			part === "kept while nothing" ? "keeps what arrived" : part,
		);
		for (const { name, error } of results)
			expect(error, `${name} passed`).toBeInstanceOf(Error);
	});
});

describe("keyAdapterSuite", () => {
	/** Keys are text; the hash is the length, so that equal lengths collide. */
	function subject(): KeyAdapterSubject<string> {
		const table = new Map<bigint, Set<string>>();
		const encode = (key: string) => blockKey(Buffer.from(key));
		const hash = (key: Uint8Array) =>
			(0xffff_ffff_ffff_ff00n + BigInt(key.length)) as RouterHash;
		const known = ["a", "bb", "cccc"];
		const colliding = ["xyz", "uvw"];
		for (const key of [...known, ...colliding]) {
			const at = hash(encode(key));
			table.set(at, (table.get(at) ?? new Set()).add(key));
		}
		const adapter: KeyAdapter<string> = {
			encode,
			decode: hash,
			decodeFromRouter: (at) => {
				const found = [...(table.get(at) ?? [])];
				if (found.length === 0) throw new HashNotFoundError(at);
				if (found.length > 1) throw new AmbiguousHashError(at, found.length);
				return encode(found[0] as string);
			},
			decodeManyFromRouter: (hashes) =>
				hashes.map((at): RouterLookup => {
					const found = [...(table.get(at) ?? [])];
					if (found.length === 0) return "not_found";
					if (found.length > 1) return "ambiguous_hash";
					return encode(found[0] as string);
				}),
		};
		return {
			adapter,
			known,
			colliding,
			unknownHash: 5n,
			forget: (key) => void table.get(hash(encode(key)))?.delete(key),
		};
	}

	keyAdapterSuite({ describe, it }, { name: "length hash", create: subject });

	type Break = (inner: KeyAdapter<string>) => Partial<KeyAdapter<string>>;
	const cases: [string, string, Break][] = [
		[
			"encodes to nothing",
			"1 to 1024 bytes",
			() => ({ encode: () => new Uint8Array() as never }),
		],
		[
			"shortens keys",
			"distinct keys",
			() => ({
				encode: (key) =>
					blockKey(
						Buffer.from(key.slice(0, 1) === "c" ? "a" : key.slice(0, 1)),
					),
			}),
		],
		[
			"rounds hashes",
			"unsigned 64-bit",
			(inner) => ({ decode: (key) => Number(inner.decode(key)) as never }),
		],
		[
			"signs hashes",
			"unsigned 64-bit",
			(inner) => ({
				decode: (key) => BigInt.asIntN(64, inner.decode(key)) as never,
			}),
		],
		[
			"finds the wrong block",
			"byte by byte",
			() => ({ decodeFromRouter: () => blockKey(Buffer.from("zz")) }),
		],
		[
			"throws a bare error",
			"does not know",
			() => ({
				decodeFromRouter: () => {
					throw new Error("?");
				},
			}),
		],
		[
			"chooses among several",
			"never chooses",
			() => ({ decodeFromRouter: () => blockKey(Buffer.from("xyz")) }),
		],
		[
			"answers a batch backwards",
			"batch in order",
			(inner) => ({
				decodeManyFromRouter: (hashes) =>
					[...(inner.decodeManyFromRouter?.(hashes) ?? [])].reverse(),
			}),
		],
	];
	it.each(cases)(
		"bites on an adapter that %s",
		async (_what, part, breakIt) => {
			const results = await run(
				(runner) =>
					keyAdapterSuite(runner, {
						name: "broken",
						create: () => {
							const good = subject();
							const adapter = altered(good.adapter, breakIt(good.adapter));
							return { ...good, adapter };
						},
					}),
				part,
			);
			for (const { name, error } of results)
				expect(error, `${name} passed`).toBeInstanceOf(Error);
		},
	);
});
