/** Independent placement, from a submitted action to one outcome per hash, on scripted ports. */
import { beforeEach, describe, expect, it } from "vitest";
import {
	AdviceStore,
	composeKvHint,
	type FetchAction,
	type HintOutcomeReport,
	IndependentHintHandler,
	type IndependentHintOptions,
	MAX_KEYS_PER_TURN,
	type PlacementGroup,
	type PlacementOutcome,
	parseHintEnvelope,
	requestAdviceId,
} from "../src/hints/index.js";
import { MAX_REPORTS_PER_TURN } from "../src/hints/outcomes.js";
import {
	MAX_KEYS_PER_GROUP,
	MAX_PIECES_PER_GROUP,
} from "../src/hints/placement-groups.js";
import { MAX_KEYS_IN_FLIGHT_PER_SOURCE } from "../src/hints/placement-lanes.js";
import {
	type BlockKey,
	ClosedError,
	InvalidArgumentError,
	type KeyAdapter,
	type RouterHash,
	TransferAgentError,
} from "../src/ports/index.js";
import { type HashResult, UNRESOLVED } from "../src/protocol/index.js";
import {
	HashResolver,
	type ResolveHashesBody,
} from "../src/resolution/index.js";
import { ManualClock } from "../src/testing/manual-clock.js";

const source = "tcp://s:1";
const h = (value: number | bigint) => BigInt(value) as RouterHash;
const range = (count: number, from = 0) =>
	Array.from({ length: count }, (_, i) => h(from + i));

/** The key of a hash in these tests: its eight bytes. */
function keyOf(hash: bigint): BlockKey {
	const key = Buffer.alloc(8);
	key.writeBigUInt64BE(hash);
	return new Uint8Array(key) as BlockKey;
}

const adapter: KeyAdapter = {
	encode: () => keyOf(0n),
	decode: (key) => Buffer.from(key).readBigUInt64BE() as RouterHash,
};

function resolved(
	hash: bigint,
	labels: readonly string[] = ["kv"],
	sizes: readonly number[] = labels.map(() => 16),
): HashResult {
	return { status: "resolved", key: keyOf(hash), labels, sizes };
}

function action(fields: Partial<FetchAction> = {}): FetchAction {
	return {
		source,
		hashes: [h(1)],
		mode: "copy",
		scope: "independent",
		allowFramework: true,
		noRetain: false,
		...fields,
	};
}

class Fatal extends Error {}

interface Fetch {
	readonly group: PlacementGroup;
	readonly hashes: readonly bigint[];
	finish(outcome: PlacementOutcome | readonly PlacementOutcome[]): void;
}

let clock: ManualClock;
let advice: AdviceStore;
let requests: { endpoint: string; body: ResolveHashesBody }[];
let fetches: Fetch[];
let admit: (group: PlacementGroup) => void;
let ownerTasks: (() => void)[];
let reports: HintOutcomeReport[];
let unexpected: unknown[];
let resolver: HashResolver;
let handler: IndependentHintHandler;

beforeEach(() => {
	clock = new ManualClock();
	advice = new AdviceStore();
	requests = [];
	fetches = [];
	admit = () => {};
	ownerTasks = [];
	reports = [];
	unexpected = [];
	resolver = new HashResolver({
		clock,
		send: (endpoint, body) => {
			requests.push({ endpoint, body });
			return true;
		},
	});
	handler = build();
});

function build(options: Partial<IndependentHintOptions> = {}) {
	return new IndependentHintHandler({
		clock,
		resolver,
		adapter,
		advice,
		slotBytes: (label) => ({ kv: 16, indexer: 4 })[label.split(":")[0] ?? ""],
		placement: {
			fetch: (group, done) => {
				admit(group);
				fetches.push({
					group,
					hashes: group.keys.map((key) => adapter.decode(key)),
					finish: (outcome) => done(results(group, outcome)),
				});
			},
			enqueueOwner: (task) => ownerTasks.push(task),
		},
		operationTimeoutMs: 1_000,
		isFatal: (error) => error instanceof Fatal,
		onUnexpected: (error) => unexpected.push(error),
		report: (report) => reports.push(report),
		...options,
	});
}

function results(
	group: PlacementGroup,
	outcome: PlacementOutcome | readonly PlacementOutcome[],
): PlacementOutcome[] {
	return group.keys.map((_, i) =>
		typeof outcome === "string" ? outcome : (outcome[i] as PlacementOutcome),
	);
}

/** One turn of the owner, as a poll would give. */
function poll(): void {
	for (const task of ownerTasks.splice(0)) task();
}

/** Polls, and lets the event loop go round, until nothing more happens by itself. */
function settle(): void {
	do {
		poll();
		clock.advance(0);
	} while (ownerTasks.length > 0);
}

/** Answers the requests from `from` on: every hash resolved unless said otherwise. */
function answer(
	resultOf: (hash: RouterHash) => HashResult = (hash) => resolved(hash),
	from = 0,
): void {
	for (let i = from; i < requests.length; i++) {
		const { endpoint, body } = requests[i] as (typeof requests)[number];
		resolver.resolved({
			type: "hashes_resolved",
			header: {
				targetAgent: "s",
				senderIncarnation: "b".repeat(32) as never,
				senderControlEndpoint: endpoint,
			},
			resolutionId: body.resolutionId,
			results: body.hashes.map(resultOf),
		});
	}
}

const outcomes = () =>
	new Map(reports.map(({ hash, outcome }) => [Number(hash), outcome]));

/** What must hold once a test is through: no hash, advice, timer or request left. */
function expectClean(hashes: number): void {
	expect(reports).toHaveLength(hashes);
	expect(handler.size).toBe(0);
	expect(handler.openHashes).toBe(0);
	expect(advice.size).toBe(0);
	expect(resolver.inFlight).toBe(0);
	expect(clock.pending).toBe(0);
	expect(ownerTasks).toHaveLength(0);
}

describe("an independent hint", () => {
	it("goes from resolution over validation to one fetch, and reports each hash once", () => {
		handler.submit(action({ hashes: [h(1), h(2)], actionId: "a1" }));
		expect(requests[0]?.body.hashes).toEqual([1n, 2n]);
		expect(fetches).toHaveLength(0);
		clock.advance(5);
		answer();
		expect(fetches).toHaveLength(0);
		poll();
		expect(fetches).toHaveLength(1);
		expect(fetches[0]?.hashes).toEqual([1n, 2n]);
		expect(fetches[0]?.group.layout).toEqual(["kv"]);
		expect(reports).toHaveLength(0);
		clock.advance(2);
		fetches[0]?.finish(["placed", "already_resident"]);
		expect(reports).toEqual([
			{
				hintId: "hint-1",
				actionId: "a1",
				source,
				hash: 1n,
				outcome: "placed",
				bytes: 16,
				elapsedMs: 7,
			},
			{
				hintId: "hint-1",
				actionId: "a1",
				source,
				hash: 2n,
				outcome: "already_resident",
				bytes: 0,
				elapsedMs: 7,
			},
		]);
		expectClean(2);
	});

	it("admits on the owner's side only, never while a reply arrives", () => {
		handler.submit(action());
		answer();
		expect(fetches).toHaveLength(0);
		expect(ownerTasks).toHaveLength(1);
		settle();
		expect(fetches).toHaveLength(1);
	});

	it("needs a source", () => {
		const { source: _none, ...local } = action();
		expect(() => handler.submit(local)).toThrow(InvalidArgumentError);
		expectClean(0);
	});

	it("is unsupported without an adapter, and asks nobody", () => {
		handler = build({ adapter: undefined });
		handler.submit(action({ hashes: [h(1), h(2)] }));
		expect(requests).toHaveLength(0);
		expect([...outcomes().values()]).toEqual(["unsupported", "unsupported"]);
		expectClean(2);
	});

	it("gives partial success: every hash its own outcome", () => {
		handler.submit(action({ hashes: range(10) }));
		const byHash: HashResult[] = [
			resolved(0n),
			UNRESOLVED.not_found,
			UNRESOLVED.ambiguous_hash,
			UNRESOLVED.not_resident,
			UNRESOLVED.lookup_failed,
			UNRESOLVED.self_source,
			UNRESOLVED.unsupported,
			resolved(99n),
			resolved(8n, ["kv"], [17]),
			resolved(9n),
		];
		answer((hash) => byHash[Number(hash)] as HashResult);
		poll();
		fetches[0]?.finish(["placed", "transfer_failed"]);
		expect([...outcomes().entries()].sort(([a], [b]) => a - b)).toEqual([
			[0, "placed"],
			[1, "not_found"],
			[2, "ambiguous_hash"],
			[3, "not_resident"],
			[4, "lookup_failed"],
			[5, "self_source"],
			[6, "unsupported"],
			[7, "key_mismatch"],
			[8, "layout_mismatch"],
			[9, "transfer_failed"],
		]);
		expectClean(10);
	});

	it("times out when the source does not answer", () => {
		handler.submit(action({ hashes: range(3) }));
		clock.advance(999);
		expect(reports).toHaveLength(0);
		clock.advance(1);
		expect(new Set(outcomes().values())).toEqual(new Set(["timeout"]));
		expect(reports[0]?.elapsedMs).toBe(1_000);
		expectClean(3);
	});

	it("is peer_unreachable when the channel does not accept the request", () => {
		resolver = new HashResolver({ clock, send: () => false });
		handler = build();
		handler.submit(action({ hashes: range(3) }));
		expect(new Set(outcomes().values())).toEqual(new Set(["peer_unreachable"]));
		expectClean(3);
	});

	it("fails hashes whose fetch reports nothing about them", () => {
		handler = build({
			placement: {
				fetch: (_, done) => done(["placed"]),
				enqueueOwner: (task) => ownerTasks.push(task),
			},
		});
		handler.submit(action({ hashes: range(2) }));
		answer();
		settle();
		expect(outcomes()).toEqual(
			new Map([
				[0, "placed"],
				[1, "transfer_failed"],
			]),
		);
		expectClean(2);
	});

	it("ends a group once, however often its fetch reports", () => {
		handler.submit(action());
		answer();
		settle();
		fetches[0]?.finish("placed");
		fetches[0]?.finish("transfer_failed");
		expect([...outcomes().values()]).toEqual(["placed"]);
		expectClean(1);
	});
});

describe("full-key identity", () => {
	it("a key that decodes to another hash is key_mismatch and is not fetched", () => {
		handler.submit(action({ hashes: [h(1), h(2)] }));
		// The source swaps the two keys.
		answer((hash) => resolved(3n - hash));
		settle();
		expect(fetches).toHaveLength(0);
		expect(new Set(outcomes().values())).toEqual(new Set(["key_mismatch"]));
		expectClean(2);
	});

	it("an adapter that throws, or gives no exact hash, is key_mismatch", () => {
		handler = build({
			adapter: {
				...adapter,
				decode: (key) => {
					if (adapter.decode(key) === 1n) throw new Error("not a key");
					return Number(adapter.decode(key)) as unknown as RouterHash;
				},
			},
		});
		handler.submit(action({ hashes: [h(1), h(2)] }));
		answer();
		settle();
		expect(fetches).toHaveLength(0);
		expect(new Set(outcomes().values())).toEqual(new Set(["key_mismatch"]));
		expect(unexpected).toEqual([new Error("not a key")]);
		expectClean(2);
	});
});

describe("layouts", () => {
	it("blocks are grouped by layout, in pieces with parts and several pools", () => {
		handler.submit(action({ hashes: range(6) }));
		const layouts = [
			["kv"],
			["kv", "kv", "indexer"],
			["kv:k", "kv:v"],
			["kv", "indexer", "kv"],
		];
		answer((hash) => {
			const labels = layouts[Number(hash) % 4] as string[];
			return resolved(
				hash,
				[...labels],
				labels.map((label) => (label === "indexer" ? 4 : 16)),
			);
		});
		settle();
		expect(fetches.map(({ group, hashes }) => [group.layout, hashes])).toEqual([
			[layouts[0], [0n, 4n]],
			[layouts[1], [1n, 5n]],
			[layouts[2], [2n]],
			[layouts[3], [3n]],
		]);
		for (const fetch of fetches) fetch.finish("placed");
		expect(reports.find(({ hash }) => hash === 1n)?.bytes).toBe(36);
		expectClean(6);
	});

	it("a label without pool, or a piece of another size, is layout_mismatch", () => {
		handler.submit(action({ hashes: range(4) }));
		const layouts: [string[], number[]][] = [
			[["elsewhere"], [16]],
			[
				["kv", "elsewhere:k"],
				[16, 16],
			],
			[["kv"], [15]],
			[[""], [16]],
		];
		answer((hash) =>
			resolved(hash, ...(layouts[Number(hash)] as [string[], number[]])),
		);
		settle();
		expect(fetches).toHaveLength(0);
		expect(new Set(outcomes().values())).toEqual(new Set(["layout_mismatch"]));
		expectClean(4);
	});

	it("equal labels with other sizes are judged on their own, even if the arrays are shared", () => {
		const labels = ["kv"];
		handler.submit(action({ hashes: range(3) }));
		answer((hash) => resolved(hash, labels, [hash === 1n ? 99 : 16]));
		settle();
		fetches[0]?.finish("placed");
		expect(outcomes()).toEqual(
			new Map([
				[0, "placed"],
				[1, "layout_mismatch"],
				[2, "placed"],
			]),
		);
	});

	it("groups are bounded in keys and in pieces", () => {
		const many = Array.from({ length: 100 }, (_, i) => `kv:${i}`);
		handler.submit(action({ hashes: range(900) }));
		answer((hash) => resolved(hash, hash < 300n ? many : ["kv"]));
		settle();
		for (const { group } of fetches) {
			expect(group.keys.length).toBeLessThanOrEqual(MAX_KEYS_PER_GROUP);
			expect(group.keys.length * group.layout.length).toBeLessThanOrEqual(
				MAX_PIECES_PER_GROUP,
			);
		}
		expect(fetches.flatMap(({ hashes }) => hashes)).toHaveLength(900);
	});
});

describe("carrier lifetime", () => {
	it("finishing or discarding the request that carried a hint changes nothing", () => {
		const carrier = advice.record(
			"carrier",
			action({ scope: "request", hashes: [h(50)] }),
		);
		handler.submit(action({ hashes: [h(1)] }));
		advice.discard(carrier);
		answer();
		settle();
		advice.discard(requestAdviceId("carrier"));
		expect(advice.get(fetches[0]?.group.adviceId as never)?.source).toBe(
			source,
		);
		fetches[0]?.finish("placed");
		expect([...outcomes().values()]).toEqual(["placed"]);
		expectClean(1);
	});
});

describe("mixed actions", () => {
	it("of one envelope run on their own: modes, policies, sources", () => {
		const { actions } = parseHintEnvelope(
			composeKvHint({
				actions: [
					{ source, hashes: [1n, 2n], mode: "move", scope: "independent" },
					{
						source: "tcp://b:1",
						hashes: [2n, 3n],
						allowFramework: false,
						scope: "independent",
					},
					{ source, hashes: [2n], scope: "independent" },
				],
			}),
		);
		for (const fetch of actions) handler.submit(fetch);
		answer();
		settle();
		const followed = fetches
			.map(({ group, hashes }) => {
				const stored = advice.get(group.adviceId);
				return {
					source: stored?.source,
					hashes,
					policies: hashes.map((hash) => stored?.policyFor(h(hash))),
				};
			})
			.sort(
				(a, b) =>
					Number(a.hashes[0]) - Number(b.hashes[0]) ||
					a.hashes.length - b.hashes.length,
			);
		const move = { mode: "move", allowFramework: true };
		const managed = { mode: "copy", allowFramework: false };
		expect(followed).toEqual([
			{ source, hashes: [1n, 2n], policies: [move, move] },
			{
				source,
				hashes: [2n],
				policies: [{ mode: "copy", allowFramework: true }],
			},
			{ source: "tcp://b:1", hashes: [2n, 3n], policies: [managed, managed] },
		]);
		for (const fetch of fetches) fetch.finish("placed");
		expect(new Set(reports.map(({ hintId }) => hintId)).size).toBe(3);
		expectClean(5);
	});
});

describe("advice isolation", () => {
	it("each group has private advice of its own, that ends with it", () => {
		const own = advice.record(
			"r",
			action({ scope: "request", source: "tcp://elsewhere:1" }),
		);
		handler.submit(action({ hashes: range(2) }));
		handler.submit(action({ hashes: range(2), mode: "move" }));
		answer((hash) =>
			resolved(hash, hash === 0n ? ["kv"] : ["indexer"], [
				hash === 0n ? 16 : 4,
			]),
		);
		settle();
		const ids = fetches.map(({ group }) => group.adviceId);
		expect(new Set([...ids, own]).size).toBe(5);
		advice.addMissing(ids[0] as never, ["k"]);
		advice.fail(ids[0] as never);
		expect(advice.get(ids[1] as never)?.missing.size).toBe(0);
		expect(advice.get(own)?.failed).toBe(false);
		expect(advice.get(ids[0] as never)?.policyFor(h(1))).toBeUndefined();
		fetches[0]?.finish("transfer_failed");
		expect(advice.get(ids[0] as never)).toBeUndefined();
		for (const id of ids.slice(1)) expect(advice.get(id)).toBeDefined();
		for (const fetch of fetches.slice(1)) fetch.finish("placed");
		expect(advice.size).toBe(1);
		expect(advice.get(own)).toBeDefined();
	});
});

describe("cached and partial destinations", () => {
	it("what is resident counts as done, also when the fetch ends before it returns", () => {
		handler = build({
			placement: {
				fetch: (group, done) => done(results(group, "already_resident")),
				enqueueOwner: (task) => ownerTasks.push(task),
			},
		});
		handler.submit(action({ hashes: range(3) }));
		answer();
		settle();
		expect(
			reports.every(
				({ outcome, bytes }) => outcome === "already_resident" && bytes === 0,
			),
		).toBe(true);
		expectClean(3);
	});

	it("a hint given again and again leaves nothing behind", () => {
		for (let round = 0; round < 50; round++) {
			handler.submit(
				action({ hashes: range(4), mode: round % 2 ? "move" : "copy" }),
			);
			answer(undefined, round);
			settle();
			fetches
				.at(-1)
				?.finish(
					round === 0
						? "placed"
						: [
								"already_resident",
								"placed",
								"already_resident",
								"admission_failed",
							],
				);
		}
		expectClean(200);
	});
});

describe("recovery after errors while admitting a fetch", () => {
	it("a nonfatal one fails its group only, discards its advice, and an unexpected one is told", () => {
		admit = (group) => {
			if (group.layout[0] === "kv") throw new Error("policy threw");
		};
		handler.submit(action({ hashes: range(4) }));
		answer((hash) =>
			resolved(hash, hash < 2n ? ["kv"] : ["indexer"], [hash < 2n ? 16 : 4]),
		);
		settle();
		expect(fetches).toHaveLength(1);
		expect(advice.size).toBe(1);
		fetches[0]?.finish("placed");
		expect(outcomes()).toEqual(
			new Map([
				[0, "admission_failed"],
				[1, "admission_failed"],
				[2, "placed"],
				[3, "placed"],
			]),
		);
		expect(unexpected).toEqual([new Error("policy threw")]);
		admit = () => {};
		handler.submit(action({ hashes: [h(9)] }));
		answer(undefined, 1);
		settle();
		fetches.at(-1)?.finish("placed");
		expect(outcomes().get(9)).toBe("placed");
		expectClean(5);
	});

	it("a refusal of this library is expected, and a closed instance says closed", () => {
		const errors = [
			new TransferAgentError("fetch", "no"),
			new ClosedError("fetch", "the instance"),
		];
		admit = () => {
			throw errors.shift();
		};
		handler.submit(action({ hashes: [h(1)] }));
		handler.submit(action({ hashes: [h(2)] }));
		answer();
		settle();
		expect(outcomes()).toEqual(
			new Map([
				[1, "admission_failed"],
				[2, "closed"],
			]),
		);
		expect(unexpected).toEqual([]);
		expectClean(2);
	});

	it("a fatal one reaches the caller of the API, discards its advice, and closing still works", () => {
		const fatal = new Fatal("progress is gone");
		let attempts = 0;
		admit = () => {
			attempts++;
			throw fatal;
		};
		handler.submit(action({ hashes: range(2) }));
		handler.submit(action({ hashes: range(2), source: "tcp://b:1" }));
		answer();
		expect(() => poll()).toThrow(fatal);
		expect(advice.size).toBe(0);
		expect(unexpected).toEqual([]);
		// Nothing more is begun, whatever still arrives.
		handler.submit(action({ hashes: [h(9)] }));
		answer(undefined, 2);
		settle();
		expect(attempts).toBe(1);
		expect(reports).toHaveLength(2);
		handler.close();
		expect(reports.map(({ outcome }) => outcome)).toEqual([
			"admission_failed",
			"admission_failed",
			"closed",
			"closed",
			"closed",
		]);
		expectClean(5);
	});

	it("a reporter that throws disturbs nothing", () => {
		handler = build({
			report: (report) => {
				reports.push(report);
				throw new Error("metrics are down");
			},
		});
		handler.submit(action({ hashes: range(2) }));
		answer(() => UNRESOLVED.not_found);
		expect(unexpected).toHaveLength(2);
		expectClean(2);
	});
});

describe("closing", () => {
	it("gives closed to every unfinished hash, wherever it is, and reports nothing after", () => {
		handler.submit(action({ hashes: range(3) }));
		answer();
		settle();
		handler.submit(action({ hashes: range(3, 10) }));
		answer((hash) => (hash === 10n ? UNRESOLVED.not_found : resolved(hash)), 1);
		handler.submit(action({ hashes: range(3, 20) }));
		handler.close();
		expect(reports).toHaveLength(9);
		expect(outcomes().get(10)).toBe("not_found");
		expect(reports.filter(({ outcome }) => outcome === "closed")).toHaveLength(
			8,
		);
		fetches[0]?.finish("placed");
		answer(undefined, 2);
		settle();
		expectClean(9);
		handler.submit(action({ hashes: [h(30)] }));
		expect(outcomes().get(30)).toBe("closed");
		handler.close();
		expectClean(10);
	});

	it("is complete also when the resolver was closed before", () => {
		handler.submit(action({ hashes: range(3) }));
		resolver.close();
		handler.close();
		expect(new Set(outcomes().values())).toEqual(new Set(["closed"]));
		expectClean(3);
	});
});

describe("bounded work", () => {
	it("admits a bounded number of keys per turn and per source", () => {
		handler.submit(action({ hashes: range(10_000) }));
		let answered = 0;
		while (answered < requests.length) {
			const upTo = requests.length;
			answer(undefined, answered);
			answered = upTo;
		}
		let before = 0;
		while (ownerTasks.length > 0) {
			poll();
			const admitted = fetches.reduce(
				(sum, { hashes }) => sum + hashes.length,
				0,
			);
			expect(admitted - before).toBeLessThanOrEqual(MAX_KEYS_PER_TURN);
			before = admitted;
			clock.advance(0);
		}
		expect(before).toBe(MAX_KEYS_IN_FLIGHT_PER_SOURCE);
		for (let i = 0; i < fetches.length; i++) {
			fetches[i]?.finish("placed");
			settle();
		}
		clock.advance(1);
		settle();
		expectClean(10_000);
	});

	it("lets other sources go on while one is slow", () => {
		handler.submit(action({ hashes: range(10_000) }));
		for (let i = 0; i < requests.length; i++)
			answer(undefined, requests.length - 1);
		settle();
		const held = fetches.length;
		const asked = requests.length;
		handler.submit(action({ hashes: [h(1)], source: "tcp://b:1" }));
		answer(undefined, asked);
		settle();
		expect(fetches).toHaveLength(held + 1);
		handler.close();
	});

	it("does not wait again for a source that left a whole group unanswered", () => {
		handler.submit(action({ hashes: range(5_000) }));
		let answered = 0;
		while (answered < requests.length) {
			const upTo = requests.length;
			answer(undefined, answered);
			answered = upTo;
		}
		settle();
		const begun = fetches.length;
		for (let i = 0; i < begun; i++) fetches[i]?.finish("timeout");
		settle();
		for (let i = 0; i < 10; i++) {
			clock.advance(1);
			settle();
		}
		expect(fetches).toHaveLength(begun);
		expect(new Set(outcomes().values())).toEqual(new Set(["timeout"]));
		expectClean(5_000);
	});

	it("checks a bounded number of keys per turn", () => {
		let decoded = 0;
		handler = build({
			adapter: {
				...adapter,
				decode: (key) => {
					decoded++;
					return adapter.decode(key);
				},
			},
		});
		handler.submit(action({ hashes: range(1024 * 8) }));
		answer();
		while (ownerTasks.length > 0) {
			const before = decoded;
			poll();
			expect(decoded - before).toBeLessThanOrEqual(MAX_KEYS_PER_TURN);
			clock.advance(0);
		}
		expect(decoded).toBe(1024 * 8);
		handler.close();
	});

	it("begins a bounded number of fetches per turn when many sources have room at once", () => {
		for (let i = 0; i < 4; i++)
			handler.submit(action({ hashes: range(4_096), source: `tcp://s${i}:1` }));
		answer();
		settle();
		const begun = fetches.length;
		for (const fetch of fetches.slice(0, begun)) fetch.finish("placed");
		poll();
		const keys = fetches
			.slice(begun)
			.reduce((sum, { hashes }) => sum + hashes.length, 0);
		expect(keys).toBeGreaterThan(0);
		expect(keys).toBeLessThan(MAX_KEYS_PER_TURN + MAX_KEYS_PER_GROUP);
		handler.close();
	});

	it("reports in portions when very many hashes end at once, and the rest of them at close", () => {
		resolver = new HashResolver({ clock, send: () => false });
		handler = build();
		handler.submit(action({ hashes: range(10_000) }));
		expect(handler.openHashes).toBe(0);
		expect(reports).toHaveLength(MAX_REPORTS_PER_TURN);
		clock.runNext();
		expect(reports).toHaveLength(2 * MAX_REPORTS_PER_TURN);
		handler.close();
		expect(reports.map(({ hash }) => hash)).toEqual(range(10_000));
		expectClean(10_000);
	});

	it("1,000 hints at once end with nothing left", () => {
		for (let i = 0; i < 1_000; i++)
			handler.submit(
				action({ hashes: range(3, i * 3), source: `tcp://s${i % 7}:1` }),
			);
		let answered = 0;
		while (answered < requests.length) {
			const upTo = requests.length;
			answer(
				(hash) => (hash % 3n === 0n ? UNRESOLVED.not_found : resolved(hash)),
				answered,
			);
			answered = upTo;
		}
		settle();
		for (let i = 0; i < fetches.length; i++) {
			fetches[i]?.finish("placed");
			settle();
		}
		clock.advance(1);
		settle();
		expectClean(3_000);
		expect(reports.filter(({ outcome }) => outcome === "placed")).toHaveLength(
			2_000,
		);
	});

	it("10,000 hints that nobody answers leave nothing", () => {
		for (let i = 0; i < 10_000; i++)
			handler.submit(action({ hashes: [h(i)], source: `tcp://s${i % 100}:1` }));
		clock.advance(1_000);
		for (let i = 0; i < 20; i++) clock.advance(1);
		expectClean(10_000);
		expect(resolver.endpoints).toBe(0);
	});
});
