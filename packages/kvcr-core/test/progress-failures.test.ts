import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LruPolicy, ProgressFailedError } from "../src/index.js";
import { OwnerQueue } from "../src/progress/owner-queue.js";
import { StallMonitor } from "../src/progress/stall-monitor.js";
import { ManualClock } from "../src/testing/index.js";
import {
	Cluster,
	content,
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
	source = await cluster.peer("source");
	target = await cluster.peer("target");
	cluster.deposit(source, A, B);
});
afterEach(async () => {
	for (const peer of cluster.peers)
		for (const write of peer.agent.writes) write.fail();
	await cluster.close();
});

function outcomes(): Record<string, number> {
	const prefix = 'kvcr_hint_outcomes_total{outcome="';
	return Object.fromEntries(
		Object.entries(target.kvcr.stats().counters)
			.filter(([name]) => name.startsWith(prefix))
			.map(([name, count]) => [name.slice(prefix.length, -2), count]),
	);
}

describe("a nonfatal exception while a fetch is admitted", () => {
	it.each([
		["an error", new Error("policy out of order")],
		["what has no text", Object.create(null)],
	])(
		"fails the affected group, discards its private advice, and later hints are placed (%s)",
		async (_what, thrown) => {
			let angry = true;
			const policy = new LruPolicy();
			const decideIngest = policy.decideIngest.bind(policy);
			policy.decideIngest = (meta, from) => {
				if (angry) throw thrown;
				return decideIngest(meta, from);
			};
			target = await cluster.peer("angry", { policy });
			target.kvcr.submitHint(hint(source.endpoint, [1n]));
			cluster.run(50);
			expect(outcomes()).toEqual({ admission_failed: 1 });
			expect(leftovers(target)).toEqual(NOTHING_LEFT);
			angry = false;
			target.kvcr.submitHint(hint(source.endpoint, [2n]));
			cluster.run(50);
			expect(outcomes()).toEqual({ admission_failed: 1, placed: 1 });
			expect(leftovers(target)).toEqual(NOTHING_LEFT);
		},
	);

	it("that nobody expected is warned about once, however often it happens", () => {
		const cache = target.parts?.cache;
		if (cache === undefined) throw new Error("no cache");
		const admit = cache.admit.bind(cache);
		cache.admit = () => {
			throw new TypeError("a defect");
		};
		for (const hash of [1n, 2n]) {
			target.kvcr.submitHint(hint(source.endpoint, [hash]));
			cluster.run(50);
		}
		expect(outcomes()).toEqual({ admission_failed: 2 });
		expect(
			target.warnings?.filter((one) => one.includes("could not be admitted")),
		).toHaveLength(1);
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
		cache.admit = admit;
		target.kvcr.submitHint(hint(source.endpoint, [1n]));
		cluster.run(50);
		expect(outcomes()).toEqual({ admission_failed: 2, placed: 1 });
	});

	it("in a call of the framework reaches its caller, and nothing of the operation remains", () => {
		const cache = target.parts?.cache;
		if (cache === undefined) throw new Error("no cache");
		const admit = cache.admit.bind(cache);
		cache.admit = () => {
			throw new TypeError("a defect");
		};
		target.kvcr.submitHint(hint(source.endpoint, [1n]), "r");
		expect(() => target.kvcr.fetch([A], { requestId: "r" })).toThrow(TypeError);
		cache.admit = admit;
		cluster.settle();
		expect(target.results).toEqual([]);
		const handle = target.kvcr.fetch([A], { requestId: "r" });
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		releaseAll(target, handle);
		target.kvcr.discardHint("r");
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
	});

	it("leaves no claim of blocks of the same call that were here already", () => {
		const cache = target.parts?.cache;
		if (cache === undefined) throw new Error("no cache");
		cluster.deposit(target, B);
		cache.admit = () => {
			throw new TypeError("a defect");
		};
		target.kvcr.submitHint(hint(source.endpoint, [1n]), "r");
		expect(() => target.kvcr.fetch([B, A], { requestId: "r" })).toThrow(
			TypeError,
		);
		const blocks = [B, A].map((one) => ({
			key: one,
			pieces: [{ label: "kv", bytes: content(one) }],
		}));
		expect(() => target.kvcr.deposit(blocks, { noEvict: true })).toThrow(
			TypeError,
		);
		target.kvcr.discardHint("r");
		cluster.settle();
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
	});
});

describe("a fatal progress failure", () => {
	it("during actual fetch admission of a hint reaches the caller of the API, and closing still works", async () => {
		wire.hold("hashes_resolved");
		target.kvcr.submitHint(hint(source.endpoint, [1n, 2n]));
		cluster.settle();
		target.polling = false;
		wire.release("hashes_resolved");
		cluster.settle();
		target.agent.expectTraffic = () => {
			throw new Error("the device is gone");
		};
		expect(() => target.kvcr.pollCompleted()).toThrow(ProgressFailedError);
		expect(() => target.kvcr.query([A])).toThrow(ProgressFailedError);
		expect(() => target.kvcr.fetch([A])).toThrow(ProgressFailedError);
		expect(outcomes()).toMatchObject({ admission_failed: 2 });
		expect(target.kvcr.stats().cache?.filling).toBe(0);
		const closing = target.kvcr.close();
		await cluster.clock.advanceAsync(3_000);
		await closing;
		expect(target.agent.regionCount).toBe(0);
		expect(target.kvcr.stats()).toMatchObject({
			advice: 0,
			hintsPending: 0,
			operations: { open: 0 },
			transfers: { pulls: {}, writes: 0 },
		});
	});

	it("during a fetch reaches its caller; nothing of the operation remains, and closing still works", async () => {
		target.kvcr.submitHint(hint(source.endpoint, [1n, 2n]), "r");
		cluster.settle();
		target.polling = false;
		target.agent.localMetadata = () => {
			throw new Error("the device is gone");
		};
		target.agent.expectTraffic = () => {
			throw new Error("the device is gone");
		};
		expect(() => target.kvcr.fetch([A, B], { requestId: "r" })).toThrow(
			ProgressFailedError,
		);
		expect(target.kvcr.stats()).toMatchObject({
			cache: { filling: 0, claims: 0, pools: [{ free: 16 }] },
			operations: { open: 0 },
			transfers: { pulls: {} },
		});
		const closing = target.kvcr.close();
		await cluster.clock.advanceAsync(3_000);
		await closing;
		expect(target.kvcr.pollCompleted()).toEqual([]);
		expect(target.agent.regionCount).toBe(0);
	});

	it("outside any call is shown by the next one, with its cause, and open operations end at close", async () => {
		source.agent.mode = "manual";
		target.kvcr.submitHint(hint(source.endpoint, [1n]), "r");
		const handle = target.kvcr.fetch([A], { requestId: "r" });
		cluster.settle();
		target.polling = false;
		const cause = new Error("completion queue lost");
		target.agent.takeNotifications = () => {
			throw cause;
		};
		let woken = 0;
		target.kvcr.onWake(() => {
			woken += 1;
		});
		source.agent.writes[0]?.complete();
		cluster.settle();
		expect(woken).toBeGreaterThan(0);
		expect(() => target.kvcr.pollCompleted()).toThrow(
			expect.objectContaining({ cause, code: "ERR_KVCR_PROGRESS_FAILED" }),
		);
		const closing = target.kvcr.close();
		await cluster.clock.advanceAsync(10);
		await closing;
		target.results.push(...target.kvcr.pollCompleted());
		expect(outcomesOf(target, handle)).toEqual(["closed"]);
	});

	it("that metadata cannot be had is one, wherever it is noticed", () => {
		target.polling = false;
		target.agent.localMetadata = () => {
			throw new Error("the device is gone");
		};
		expect(() => target.kvcr.submitHint(hint(source.endpoint, [1n]))).toThrow(
			ProgressFailedError,
		);
	});
});

describe("the state lock", () => {
	it("held across awaits: nothing the owner could see changes, and the write waits for it", async () => {
		const hold = source.kvcr.lockState();
		source.polling = false;
		const before = JSON.stringify(source.kvcr.stats().cache);
		target.kvcr.submitHint(hint(source.endpoint, [1n]), "r");
		const handle = target.kvcr.fetch([A], { requestId: "r" });
		cluster.run(200);
		await Promise.resolve();
		cluster.run(200);
		expect(JSON.stringify(source.kvcr.stats().cache)).toBe(before);
		expect(outcomesOf(target, handle)).toBeUndefined();
		hold.release();
		source.polling = true;
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		releaseAll(target, handle);
	});

	it("does not hold up resolution: an unresolvable hash has its outcome while the lock is held and nobody polls", () => {
		const hold = source.kvcr.lockState();
		source.polling = false;
		target.kvcr.submitHint(hint(source.endpoint, [1n, 9n]));
		cluster.run(100);
		expect(outcomes()).toEqual({ not_found: 1 });
		hold.release();
		source.polling = true;
		cluster.run(100);
		expect(outcomes()).toEqual({ not_found: 1, placed: 1 });
	});

	it("counts its holds, and releasing one twice ends nothing else", () => {
		const one = source.kvcr.lockState();
		const two = source.kvcr.lockState();
		one.release();
		one.release();
		source.polling = false;
		target.kvcr.submitHint(hint(source.endpoint, [1n]), "r");
		const handle = target.kvcr.fetch([A], { requestId: "r" });
		cluster.run(100);
		expect(outcomesOf(target, handle)).toBeUndefined();
		two.release();
		source.polling = true;
		cluster.run(100);
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		releaseAll(target, handle);
	});

	it("held while a write ends delays the cleanup, not the destination", () => {
		source.agent.mode = "manual";
		target.kvcr.submitHint(hint(source.endpoint, [1n]), "r");
		const handle = target.kvcr.fetch([A], { requestId: "r" });
		cluster.settle();
		const hold = source.kvcr.lockState();
		source.polling = false;
		source.agent.writes[0]?.complete();
		cluster.settle();
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		expect(source.kvcr.stats().cache?.claims).toBe(1);
		hold.release();
		source.polling = true;
		cluster.settle();
		expect(source.kvcr.stats().cache?.claims).toBe(0);
		releaseAll(target, handle);
	});
});

describe("an owner that does not poll", () => {
	it("does not keep its instance from serving ready blocks", () => {
		source.polling = false;
		target.kvcr.submitHint(hint(source.endpoint, [1n, 2n]));
		cluster.run(100);
		expect(outcomes()).toEqual({ placed: 2 });
	});

	it("gets its completions, callbacks and inventory events inside its next call, not out of the blue", () => {
		target.polling = false;
		target.kvcr.submitHint(hint(source.endpoint, [1n]), "r");
		const handle = target.kvcr.fetch([A], { requestId: "r" });
		const events = target.inventory?.length;
		cluster.run(500);
		expect(target.inventory).toHaveLength(events ?? -1);
		target.kvcr.query([]);
		expect(target.inventory).toHaveLength((events ?? 0) + 1);
		target.results.push(...target.kvcr.pollCompleted());
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		releaseAll(target, handle);
	});
});

describe("a stall of the source's progress", () => {
	/** A clock that a test can make jump, as a stopped process sees it. */
	class JumpingClock extends ManualClock {
		ahead = 0;
		override now(): number {
			return super.now() + this.ahead;
		}
	}

	it("longer than the operation timeout ends the acceptance of new writes for a while; idleness is no stall", () => {
		const clock = new JumpingClock();
		const stalls: number[] = [];
		const monitor = new StallMonitor(clock, 1_000, (gap) => stalls.push(gap));
		monitor.traffic();
		expect(monitor.stalled).toBe(false);
		clock.advance(900);
		expect(monitor.stalled).toBe(false);
		clock.ahead += 1_500;
		monitor.traffic();
		expect(stalls).toHaveLength(1);
		expect(monitor.stalled).toBe(true);
		clock.advance(999);
		expect(monitor.stalled).toBe(true);
		clock.advance(2);
		expect(monitor.stalled).toBe(false);
		// Quiet for long: the monitor goes to sleep, and no timer is left.
		clock.advance(60_000);
		expect(clock.pending).toBe(0);
		clock.ahead += 100_000;
		monitor.traffic();
		expect(monitor.stalled).toBe(false);
		expect(stalls).toHaveLength(1);
		monitor.close();
		expect(clock.pending).toBe(0);
	});

	it("makes it refuse what piled up, and the target asks again or fails: nothing is written that nobody waits for", async () => {
		const clock = new JumpingClock();
		const slow = await cluster.peer("slow", {
			clock: {
				now: () => cluster.clock.now() + clock.ahead,
				schedule: (ms, callback) => cluster.clock.schedule(ms, callback),
			},
		});
		cluster.deposit(slow, key(7n), key(8n));
		target.kvcr.submitHint(hint(slow.endpoint, [7n]), "warm");
		releaseAll(target, target.kvcr.fetch([key(7n)], { requestId: "warm" }));
		cluster.run(300);
		clock.ahead += 5_000;
		target.kvcr.submitHint(hint(slow.endpoint, [8n]), "r");
		const handle = target.kvcr.fetch([key(8n)], { requestId: "r" });
		cluster.run(1_200);
		expect(outcomesOf(target, handle)).toEqual(["transfer_failed"]);
		expect(slow.kvcr.stats().counters).toMatchObject({
			kvcr_stalls_total: 1,
			'kvcr_writes_refused_total{side="source",reason="stalled"}': 2,
		});
		cluster.run(1_000);
		target.kvcr.discardHint("r");
		target.kvcr.submitHint(hint(slow.endpoint, [8n]), "r");
		const again = target.kvcr.fetch([key(8n)], { requestId: "r" });
		cluster.run(300);
		expect(outcomesOf(target, again)).toEqual(["SUCCESS"]);
	});
});

describe("wake-ups", () => {
	it("of a listener that throws disturb nothing: the others are called, and progress goes on", () => {
		let called = 0;
		target.kvcr.onWake(() => {
			throw new Error("not now");
		});
		const stop = target.kvcr.onWake(() => {
			called += 1;
		});
		target.kvcr.submitHint(hint(source.endpoint, [1n]), "r");
		const handle = target.kvcr.fetch([A], { requestId: "r" });
		cluster.run(100);
		expect(outcomesOf(target, handle)).toEqual(["SUCCESS"]);
		expect(called).toBeGreaterThan(0);
		stop();
		releaseAll(target, handle);
	});
});

describe("a task of the owner that throws", () => {
	it("ends the call with its error, and those behind it run with the next one", () => {
		const queue = new OwnerQueue();
		const ran: string[] = [];
		queue.enqueue(() => {
			ran.push("first");
			queue.enqueue(() => void ran.push("added"));
			throw new Error("first");
		});
		queue.enqueue(() => void ran.push("second"));
		expect(() => queue.drain()).toThrow("first");
		expect(ran).toEqual(["first"]);
		expect(queue.size).toBe(2);
		queue.drain();
		expect(ran).toEqual(["first", "second", "added"]);
		expect(queue.size).toBe(0);
	});
});
