import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { keyText } from "../src/index.js";
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
	SLOT,
} from "./support/cluster.js";
import { ScriptedPins } from "./support/pins.js";
import { Wire } from "./support/wire.js";

const A = key(1n);
const B = key(2n);
const C = key(3n);

let cluster: Cluster;
let wire: Wire;
let pins: ScriptedPins;
let source: Peer;
let target: Peer;
let other: Peer;

beforeEach(async () => {
	cluster = new Cluster();
	wire = new Wire(cluster);
	pins = new ScriptedPins();
	source = await cluster.peer("source", {
		agentOptions: { mode: "manual" },
		frameworkElements: 8,
		pins,
	});
	target = await cluster.peer("target");
	other = await cluster.peer("other");
	for (const one of [A, B]) pins.keep(source.framework as never, one);
});
afterEach(async () => {
	pins.accepts = true;
	for (const peer of cluster.peers)
		for (const write of peer.agent.writes) write.fail();
	await cluster.close();
});

function fetchOn(
	peer: Peer,
	keys: readonly (typeof A)[],
	more: object = {},
	request = "r",
) {
	peer.kvcr.discardHint(request);
	peer.kvcr.submitHint(
		hint(
			source.endpoint,
			keys.map((one) => peer.adapter.decode(one)),
			more,
		),
		request,
	);
	const handle = peer.kvcr.fetch(keys, { requestId: request });
	cluster.settle();
	return handle;
}

function completeAll(): void {
	for (const write of source.agent.writes) write.complete();
	cluster.settle();
}

describe("framework pins", () => {
	it("are requested for what managed memory lacks, read from, and released when the write is over", () => {
		cluster.deposit(source, C);
		const handle = fetchOn(target, [A, C, B]);
		expect(pins.requests).toEqual([[keyText(A), keyText(B)]]);
		expect(source.kvcr.stats().pins).toEqual({
			held: 1,
			pending: 0,
			releasing: 0,
		});
		expect(pins.releases).toBe(0);
		completeAll();
		expect(outcomesOf(target, handle)).toEqual([
			"SUCCESS",
			"SUCCESS",
			"SUCCESS",
		]);
		for (const entry of entriesOf(target, handle) ?? [])
			expect(hasRightBytes(entry)).toBe(true);
		expect(pins.held.size).toBe(0);
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
	});

	it("already held are shared: a key is never requested twice, and its pin outlives the first reader", () => {
		const first = fetchOn(target, [A]);
		const second = fetchOn(other, [A]);
		expect(pins.requests).toHaveLength(1);
		const [one, two] = source.agent.writes;
		one?.complete();
		cluster.settle();
		expect(outcomesOf(target, first)).toEqual(["SUCCESS"]);
		expect(pins.held.size).toBe(1);
		two?.complete();
		cluster.settle();
		expect(outcomesOf(other, second)).toEqual(["SUCCESS"]);
		expect(hasRightBytes(entriesOf(other, second)?.[0])).toBe(true);
		expect(pins.held.size).toBe(0);
	});

	it("in the making are awaited, only the rest is requested", () => {
		pins.auto = false;
		const first = fetchOn(target, [A]);
		const second = fetchOn(other, [A, B]);
		expect(pins.requests).toEqual([[keyText(A)], [keyText(B)]]);
		pins.answer(1);
		cluster.settle();
		// The first has everything; the second still waits for B.
		expect(source.agent.writes.map((write) => write.to)).toEqual([
			target.agent.name,
		]);
		pins.answer();
		cluster.settle();
		expect(source.agent.writes.map((write) => write.to)).toEqual([
			target.agent.name,
			other.agent.name,
		]);
		completeAll();
		expect(outcomesOf(target, first)).toEqual(["SUCCESS"]);
		expect(outcomesOf(other, second)).toEqual(["SUCCESS", "SUCCESS"]);
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
	});

	it("are asked to be released until the framework accepts", () => {
		pins.accepts = false;
		fetchOn(target, [A]);
		completeAll();
		cluster.run(350);
		expect(pins.releases).toBeGreaterThan(2);
		expect(source.kvcr.stats().pins).toMatchObject({ held: 0, releasing: 1 });
		pins.accepts = true;
		cluster.run(200);
		expect(pins.held.size).toBe(0);
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
	});

	it("that are being released are not read any more: whoever needs the key waits, and asks again afterwards", () => {
		pins.accepts = false;
		fetchOn(target, [A]);
		completeAll();
		const second = fetchOn(other, [A]);
		expect(source.agent.writes).toEqual([]);
		expect(pins.requests).toHaveLength(1);
		pins.accepts = true;
		cluster.run(200);
		expect(pins.requests).toHaveLength(2);
		completeAll();
		expect(outcomesOf(other, second)).toEqual(["SUCCESS"]);
		expect(hasRightBytes(entriesOf(other, second)?.[0])).toBe(true);
	});

	it("in the making are cancelled when their operation dies, and an answer that comes all the same is given back", () => {
		pins.auto = false;
		const handle = fetchOn(target, [A]);
		expect(source.kvcr.stats().pins.pending).toBe(1);
		cluster.run(1_000);
		expect(outcomesOf(target, handle)).toEqual(["timeout"]);
		expect(pins.cancelled).toEqual([1n]);
		expect(source.kvcr.stats().pins.pending).toBe(0);
		// An owner that comes when woken, and a framework that cannot wake anybody.
		pins.attach(() => {});
		source.polling = false;
		let woken = false;
		source.kvcr.onWake(() => {
			woken = true;
		});
		const run = (ms: number): void => {
			for (let t = 0; t < ms; t += 50) {
				cluster.run(50, 50);
				if (woken) source.kvcr.pollCompleted();
				woken = false;
			}
		};
		run(500);
		pins.answer();
		expect(pins.held.size).toBe(1);
		run(300);
		expect(pins.held.size).toBe(0);
		// And then it is quiet, as it is after a request that is never answered.
		run(1_000);
		const { polls } = pins;
		run(10_000);
		expect(pins.polls).toBe(polls);
		fetchOn(target, [B], {}, "never");
		source.kvcr.pollCompleted();
		run(60_000);
		const after = pins.polls;
		run(10_000);
		expect(pins.polls).toBe(after);
		expect(pins.cancelled).toHaveLength(2);
	});

	it("in the making go on while another operation waits for them", () => {
		pins.auto = false;
		fetchOn(target, [A]);
		cluster.run(500);
		const second = fetchOn(other, [A]);
		cluster.run(600);
		expect(pins.cancelled).toEqual([]);
		pins.answer();
		cluster.settle();
		completeAll();
		expect(outcomesOf(other, second)).toEqual(["SUCCESS"]);
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
	});

	it("outlive reads: nothing is released while a write that was given up on may still read", () => {
		const handle = fetchOn(target, [A]);
		cluster.run(6_000);
		expect(outcomesOf(target, handle)).toEqual(["timeout"]);
		expect(pins.held.size).toBe(1);
		expect(pins.releases).toBe(0);
		source.agent.writes[0]?.confirmCancel();
		cluster.run(50);
		expect(pins.held.size).toBe(0);
	});

	it("for keys the write does not need are given back before it begins", () => {
		// A has a layout nobody asked for.
		pins.keepAt(A, [
			{ label: "kv", region: source.framework as never, element: 0 },
			{ label: "kv", region: source.framework as never, element: 1 },
		]);
		pins.auto = false;
		const first = fetchOn(other, [A]);
		const second = fetchOn(target, [A, B]);
		expect(pins.requests).toEqual([[keyText(A)], [keyText(B)]]);
		pins.answer();
		cluster.settle();
		expect(outcomesOf(other, first)).toEqual(["not_at_source"]);
		expect(source.agent.writes).toHaveLength(1);
		expect([...pins.held]).toEqual(["pin-2"]);
		completeAll();
		expect(outcomesOf(target, second)).toEqual(["not_at_source", "SUCCESS"]);
		expect(pins.held.size).toBe(0);
	});

	it("on memory that is not registered here are refused, given back, and warned about once", async () => {
		const stranger = await target.agent.createRegion({
			label: "kv",
			elementBytes: SLOT,
			elementCount: 1,
		});
		for (const one of [A, B]) {
			pins.keepAt(one, [{ label: "kv", region: stranger, element: 0 }]);
			expect(outcomesOf(target, fetchOn(target, [one]))).toEqual([
				"not_at_source",
			]);
		}
		expect(pins.held.size).toBe(0);
		expect(
			source.warnings?.filter((one) => one.includes("not registered")),
		).toHaveLength(1);
	});

	it("of a framework that throws fail the operation that asked, nothing else", () => {
		cluster.deposit(source, C);
		const request = pins.request.bind(pins);
		pins.request = () => {
			throw new Error("no more pins");
		};
		const handle = fetchOn(target, [A, C]);
		completeAll();
		expect(outcomesOf(target, handle)).toEqual(["not_at_source", "SUCCESS"]);
		pins.request = request;
		const again = fetchOn(target, [B]);
		completeAll();
		expect(outcomesOf(target, again)).toEqual(["SUCCESS"]);
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
	});

	it("need the owner: they are asked for in its turn, and the write waits without one", () => {
		source.polling = false;
		const handle = fetchOn(target, [A]);
		cluster.run(300);
		expect(pins.requests).toEqual([]);
		source.polling = true;
		cluster.run(100);
		completeAll();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
	});

	it("leave nothing behind at a source whose owner never polls", () => {
		source.polling = false;
		for (let i = 0; i < 200; i += 1) {
			fetchOn(target, [A], {}, `r${i % 3}`);
			cluster.run(20);
		}
		cluster.run(1_000);
		// Requests that have died meanwhile are not kept for the owner.
		expect(source.kvcr.stats().transfers.writes).toBe(0);
		expect(source.parts?.owner.size).toBeLessThanOrEqual(1);
		source.polling = true;
		cluster.run(100);
		expect(pins.requests).toEqual([]);
	});
});

describe("allow_framework: false", () => {
	it("fails keys without managed memory, acquires no pin, and the rest of the batch goes on", () => {
		cluster.deposit(source, C);
		const handle = fetchOn(target, [A, C], { allow_framework: false });
		completeAll();
		expect(outcomesOf(target, handle)).toEqual(["not_at_source", "SUCCESS"]);
		expect(pins.requests).toEqual([]);
		expect(wire.of("start_write").at(-1)?.allowFramework).toBe(false);
	});

	it("does not reuse a pin that another operation holds, nor wait for one in the making", () => {
		const allowed = fetchOn(target, [A]);
		expect(pins.held.size).toBe(1);
		const denied = fetchOn(other, [A], { allow_framework: false });
		expect(outcomesOf(other, denied)).toEqual(["not_at_source"]);
		expect(source.agent.writes).toHaveLength(1);
		completeAll();
		expect(outcomesOf(target, allowed)).toEqual(["SUCCESS"]);

		pins.auto = false;
		const pending = fetchOn(target, [B], {}, "p");
		const deniedToo = fetchOn(other, [B], { allow_framework: false }, "q");
		expect(outcomesOf(other, deniedToo)).toEqual(["not_at_source"]);
		pins.answer();
		cluster.settle();
		completeAll();
		expect(outcomesOf(target, pending)).toEqual(["SUCCESS"]);
		expect(pins.requests).toHaveLength(2);
		expect(leftovers(source)).toEqual(NOTHING_LEFT);
	});

	it("holds without a key adapter too: advice that covers every key covers it with its policy", async () => {
		const plain = await cluster.peer("plain", { adapter: undefined });
		plain.kvcr.submitHint(
			hint(source.endpoint, [1n], { allow_framework: false, mode: "move" }),
			"r",
		);
		const handle = plain.kvcr.fetch([A], { requestId: "r" });
		cluster.settle();
		expect(outcomesOf(plain, handle)).toEqual(["not_at_source"]);
		expect(pins.requests).toEqual([]);
		const [request] = wire.of("start_write");
		expect(request).toMatchObject({ allowFramework: false, mode: "move" });
	});
});

describe("bytes under a pin", () => {
	it("are those of the full key, and the framework's memory is never changed or removed by a move", () => {
		const handle = fetchOn(target, [A], { mode: "move" });
		completeAll();
		expect(hasRightBytes(entriesOf(target, handle)?.[0])).toBe(true);
		expect(Buffer.from(source.framework?.element(0) ?? [])).toEqual(
			Buffer.from(content(A, SLOT)),
		);
		expect(source.inventory).toEqual([]);
		expect(
			source.kvcr.stats().counters.kvcr_retired_blocks_total,
		).toBeUndefined();
	});
});
