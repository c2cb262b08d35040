import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LruPolicy } from "../src/index.js";
import {
	Cluster,
	content,
	entriesOf,
	hasRightBytes,
	hint,
	key,
	leftovers,
	NOTHING_LEFT,
	outcomesOf,
	type Peer,
	releaseAll,
} from "./support/cluster.js";
import { Wire } from "./support/wire.js";

const A = key(1n);
const B = key(2n);

let cluster: Cluster;
let wire: Wire;
let source: Peer;
let target: Peer;

beforeEach(async () => {
	cluster = new Cluster();
	wire = new Wire(cluster);
	source = await cluster.peer("source", { agentOptions: { mode: "manual" } });
	target = await cluster.peer("target", { slots: 4, frameworkElements: 8 });
	cluster.deposit(source, A, B);
});
afterEach(async () => {
	for (const peer of cluster.peers)
		for (const write of peer.agent.writes) write.fail();
	await cluster.close();
});

function advise(request = "r"): void {
	target.kvcr.submitHint(hint(source.endpoint, [1n, 2n]), request);
}

function deliver(keys: readonly (typeof A)[], request = "r") {
	const region = target.framework as never;
	const handle = target.kvcr.deliver(
		keys.map((one, element) => ({
			key: one,
			pieces: [{ label: "kv", region, element }],
		})),
		{ requestId: request },
	);
	cluster.settle();
	return handle;
}

function completeAll(): void {
	for (const write of source.agent.writes) write.complete();
	cluster.settle();
}

describe("abort", () => {
	it("of a fetch ends it at once, asks the source to stop, and keeps the slots until it has", () => {
		advise();
		const handle = target.kvcr.fetch([A, B], { requestId: "r" });
		cluster.settle();
		expect(target.kvcr.abort(handle)).toBe(true);
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["aborted", "aborted"]);
		expect(source.agent.writes[0]?.cancelRequested).toBe(true);
		expect(target.kvcr.stats().cache?.discarding).toBe(2);
		source.agent.writes[0]?.confirmCancel();
		cluster.settle();
		target.kvcr.discardHint("r");
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
	});

	it("of one key lets the others go on", () => {
		advise();
		const handle = target.kvcr.fetch([A, B], { requestId: "r" });
		cluster.settle();
		target.kvcr.abort(handle, [A]);
		cluster.settle();
		expect(source.agent.writes[0]?.cancelRequested).toBe(false);
		completeAll();
		expect(outcomesOf(target, handle)).toEqual(["aborted", "SUCCESS"]);
		expect(target.kvcr.stats().cache?.claims).toBe(1);
		releaseAll(target, handle);
		target.kvcr.discardHint("r");
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
	});

	it("leaves shared work alone while others need it", () => {
		advise();
		const one = target.kvcr.fetch([A], { requestId: "r" });
		const two = target.kvcr.fetch([A], { requestId: "r" });
		cluster.settle();
		target.kvcr.abort(one);
		cluster.settle();
		expect(outcomesOf(target, one)).toEqual(["aborted"]);
		expect(source.agent.writes[0]?.cancelRequested).toBe(false);
		completeAll();
		expect(outcomesOf(target, two)).toEqual(["SUCCESS"]);
		expect(hasRightBytes(entriesOf(target, two)?.[0])).toBe(true);
		releaseAll(target, two);
		target.kvcr.discardHint("r");
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
	});

	it("of a fetch that hints wait for too does not end their placement", () => {
		target.kvcr.submitHint(hint(source.endpoint, [1n]));
		advise();
		cluster.settle();
		const handle = target.kvcr.fetch([A], { requestId: "r" });
		target.kvcr.abort(handle);
		completeAll();
		expect(target.kvcr.query([A])).toMatchObject([{ status: "HIT" }]);
	});

	it("of a delivery ends when its memory is safe, not before", () => {
		advise();
		const handle = deliver([A]);
		target.kvcr.abort(handle);
		cluster.settle();
		expect(outcomesOf(target, handle)).toBeUndefined();
		source.agent.writes[0]?.confirmCancel();
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["aborted"]);
	});

	it("of one key of a delivery lets the others go on, and ends with them", () => {
		advise();
		const handle = deliver([A, B]);
		target.kvcr.abort(handle, [A]);
		cluster.settle();
		expect(outcomesOf(target, handle)).toBeUndefined();
		completeAll();
		expect(outcomesOf(target, handle)).toEqual(["aborted", "SUCCESS"]);
	});

	it("of work that asked nothing of anybody yet ends it without a trace", () => {
		wire.lose("target_metadata");
		advise();
		const fetched = target.kvcr.fetch([A], { requestId: "r" });
		const delivered = deliver([B]);
		target.kvcr.abort(fetched);
		target.kvcr.abort(delivered);
		cluster.settle();
		expect(outcomesOf(target, fetched)).toEqual(["aborted"]);
		expect(outcomesOf(target, delivered)).toEqual(["aborted"]);
		target.kvcr.discardHint("r");
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
		wire.pass("target_metadata");
		cluster.run(2_000);
		expect(wire.of("start_write")).toEqual([]);
	});

	it("of a fetch that waits for capacity takes it out of the queue", async () => {
		const full = [10n, 11n, 12n, 13n].map((hash) => key(hash));
		cluster.deposit(target, ...full);
		const held = target.kvcr.fetch(full);
		cluster.settle();
		advise();
		const handle = target.kvcr.fetch([A], { requestId: "r" });
		cluster.settle();
		expect(target.kvcr.stats().cache?.waiting).toBe(1);
		target.kvcr.abort(handle);
		cluster.settle();
		expect(target.kvcr.stats().cache?.waiting).toBe(0);
		expect(outcomesOf(target, handle)).toEqual(["aborted"]);
		releaseAll(target, held);
		cluster.settle();
		expect(source.agent.writes).toEqual([]);
	});

	it("of what is over, unknown, or another's key changes nothing", () => {
		advise();
		const handle = target.kvcr.fetch([A], { requestId: "r" });
		cluster.settle();
		expect(target.kvcr.abort(handle, [B])).toBe(true);
		completeAll();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		expect(target.kvcr.abort(handle)).toBe(false);
		expect(target.kvcr.abort(12345n as never)).toBe(false);
		releaseAll(target, handle);
	});

	it("does not spoil the advice of the request: it can be fetched again", () => {
		advise();
		const first = target.kvcr.fetch([A], { requestId: "r" });
		cluster.settle();
		target.kvcr.abort(first);
		cluster.settle();
		source.agent.writes[0]?.confirmCancel();
		cluster.settle();
		const second = target.kvcr.fetch([A], { requestId: "r" });
		cluster.settle();
		completeAll();
		expect(outcomesOf(target, second)).toEqual(["SUCCESS"]);
		releaseAll(target, second);
	});
});

describe("a quarantined block", () => {
	it("cannot be fetched or deposited anew until its slots are safe; then it can", () => {
		advise();
		target.kvcr.fetch([A], { requestId: "r" });
		cluster.settle();
		wire.lose("write_probe");
		cluster.run(1_000);
		target.kvcr.discardHint("r");
		advise("again");
		const fetched = target.kvcr.fetch([A], { requestId: "again" });
		const deposited = target.kvcr.deposit([
			{ key: A, pieces: [{ label: "kv", bytes: content(A) }] },
		]);
		cluster.settle();
		expect(outcomesOf(target, fetched)).toEqual(["quarantined"]);
		expect(outcomesOf(target, deposited)).toEqual(["quarantined"]);
		expect(target.kvcr.query([A])).toEqual([{ status: "MISS" }]);
		// A delivery needs none of those slots.
		target.kvcr.submitHint(hint(source.endpoint, [1n]), "d");
		const delivered = deliver([A], "d");
		source.agent.writes[1]?.complete();
		cluster.settle();
		expect(outcomesOf(target, delivered)).toEqual(["SUCCESS"]);
		source.agent.writes[0]?.confirmCancel();
		cluster.settle();
		const later = target.kvcr.fetch([A], { requestId: "again" });
		cluster.settle();
		completeAll();
		expect(outcomesOf(target, later)).toEqual(["SUCCESS"]);
		releaseAll(target, later);
	});
});

describe("admission that waits for capacity", () => {
	it("gets it when a claim is released, and fails at the operation's deadline when not", () => {
		const full = [10n, 11n, 12n, 13n].map((hash) => key(hash));
		cluster.deposit(target, ...full);
		const held = target.kvcr.fetch(full);
		cluster.settle();
		advise();
		const one = target.kvcr.fetch([A], { requestId: "r" });
		cluster.run(400);
		const two = target.kvcr.fetch([B], { requestId: "r" });
		cluster.run(600);
		expect(outcomesOf(target, one)).toEqual(["no_capacity"]);
		expect(outcomesOf(target, two)).toBeUndefined();
		releaseAll(target, held);
		cluster.settle();
		completeAll();
		expect(outcomesOf(target, two)).toEqual(["SUCCESS"]);
		releaseAll(target, two);
	});

	it("shares a fill of the same block that somebody else began meanwhile", async () => {
		const policy = new LruPolicy();
		policy.decideRecovery = () => "wait";
		const small = await cluster.peer("small", { slots: 1, policy });
		cluster.deposit(small, key(10n));
		const held = small.kvcr.fetch([key(10n)]);
		cluster.settle();
		for (const request of ["one", "two"])
			small.kvcr.submitHint(hint(source.endpoint, [1n]), request);
		const handles = ["one", "two"].map((requestId) =>
			small.kvcr.fetch([A], { requestId }),
		);
		cluster.settle();
		expect(small.kvcr.stats().cache?.waiting).toBe(2);
		releaseAll(small, held);
		cluster.settle();
		expect(source.agent.writes).toHaveLength(1);
		completeAll();
		for (const handle of handles) {
			expect(outcomesOf(small, handle)).toEqual(["SUCCESS"]);
			releaseAll(small, handle);
		}
	});
});
