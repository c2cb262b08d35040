import { describe, expect, it } from "vitest";
import {
	ManualClock,
	MemoryNetwork,
	ScriptedChannel,
	settle,
} from "../src/testing/index.js";

const bytes = (...values: number[]) => Uint8Array.from(values);

describe("ManualClock", () => {
	it("runs timers by due time, equals in order of arming, and those armed meanwhile", () => {
		const clock = new ManualClock(100);
		const ran: string[] = [];
		clock.schedule(5, () => ran.push(`b@${clock.now()}`));
		clock.schedule(5, () => ran.push(`c@${clock.now()}`));
		clock.schedule(1, () => {
			ran.push(`a@${clock.now()}`);
			clock.schedule(1, () => ran.push(`inner@${clock.now()}`));
		});
		clock.schedule(50, () => ran.push("late"));
		expect(clock.advance(10)).toBe(4);
		expect(ran).toEqual(["a@101", "inner@102", "b@105", "c@105"]);
		expect(clock.now()).toBe(110);
		expect(clock.pending).toBe(1);
		expect(clock.nextAt).toBe(150);
	});

	it("forgets cancelled timers, also when cancelled twice or after they ran", () => {
		const clock = new ManualClock();
		let ran = 0;
		const gone = clock.schedule(1, () => ran++);
		const kept = clock.schedule(2, () => ran++);
		gone.cancel();
		gone.cancel();
		expect(clock.pending).toBe(1);
		clock.advance(5);
		kept.cancel();
		expect(ran).toBe(1);
		expect(clock.pending).toBe(0);
		expect(clock.runNext()).toBe(false);
	});

	it("fails instead of hanging on a timer that re-arms itself without delay", () => {
		const clock = new ManualClock();
		const again = () => void clock.schedule(0, again);
		again();
		expect(() => clock.advance(1)).toThrow(/more than/);
	});
});

describe("MemoryNetwork", () => {
	async function pair(options: ConstructorParameters<typeof MemoryNetwork>[0]) {
		const network = new MemoryNetwork(options);
		const a = network.channel("a");
		const b = network.channel("b", { aliases: ["b2"] });
		const got: number[] = [];
		await a.start(() => {});
		await b.start((message) => got.push(message[0] as number));
		return { network, a, b, got };
	}

	it("delivers in order, later, to every alias", async () => {
		const { a, got } = await pair({});
		for (let i = 0; i < 5; i += 1)
			a.send(i % 2 ? "memory://b2" : "memory://b", bytes(i));
		expect(got).toEqual([]);
		await settle();
		expect(got).toEqual([0, 1, 2, 3, 4]);
	});

	it("moves only with its clock when it has one", async () => {
		const clock = new ManualClock();
		const { a, got } = await pair({ clock, latencyMs: 3 });
		a.send("memory://b", bytes(1));
		await settle();
		clock.advance(2);
		expect(got).toEqual([]);
		clock.advance(1);
		expect(got).toEqual([1]);
	});

	it("drops, duplicates, corrupts and reorders as the policy says", async () => {
		const clock = new ManualClock();
		const { network, a, got } = await pair({
			clock,
			policy: ({ bytes: [kind] }) =>
				kind === 0
					? { copies: 0 }
					: kind === 1
						? { copies: 2 }
						: kind === 2
							? { bytes: bytes(99) }
							: kind === 3
								? { delayMs: 10 }
								: {},
		});
		for (const kind of [3, 0, 1, 2, 4]) a.send("memory://b", bytes(kind));
		clock.advance(20);
		expect(got).toEqual([1, 1, 99, 4, 3]);
		expect(network.lost).toBe(1);
	});

	it("lets a test choose what arrives, in manual mode", async () => {
		const { network, a, got } = await pair({ mode: "manual" });
		for (let i = 0; i < 4; i += 1) a.send("memory://b", bytes(i));
		expect(network.waiting.map(({ from, to }) => from + to)).toEqual(
			Array(4).fill("ab"),
		);
		network.deliverAt(2);
		network.loseAt(0);
		expect(network.deliver()).toBe(2);
		expect(got).toEqual([2, 1, 3]);
		expect(network.deliverAt(0)).toBe(false);
	});

	it("cuts and heals, whichever name was addressed", async () => {
		const { network, a, got } = await pair({});
		network.partition("b", "a");
		a.send("memory://b2", bytes(1));
		await settle();
		network.heal("a", "b");
		a.send("memory://b2", bytes(2));
		await settle();
		expect(got).toEqual([2]);
		expect(network.lost).toBe(1);
	});

	it("refuses beyond the queue bound and takes messages again once they were delivered", async () => {
		const { network, a, b, got } = await pair({ mode: "manual", maxQueued: 2 });
		expect([1, 2, 3].map((i) => a.send("memory://b", bytes(i)))).toEqual([
			true,
			true,
			false,
		]);
		expect(a.stats().refused).toEqual({ queue_full: 1 });
		network.deliver();
		expect(a.send("memory://b", bytes(4))).toBe(true);
		await b.close();
		network.deliver();
		expect(got).toEqual([1, 2]);
	});

	it("gives a name to one channel at a time, and again after a close", async () => {
		const { network, b } = await pair({});
		await expect(network.channel("b").start(() => {})).rejects.toMatchObject({
			code: "ERR_KVCR_INVALID_ENDPOINT",
		});
		await b.close();
		await network.channel("b").start(() => {});
	});
});

describe("ScriptedChannel", () => {
	it("captures sends and plays the peers", async () => {
		const channel = new ScriptedChannel("x://me");
		const got: Uint8Array[] = [];
		expect(channel.send("x://you", bytes(0))).toBe(false);
		await channel.start((message) => got.push(message));
		expect(channel.send("x://you", bytes(1))).toBe(true);
		expect(channel.takeSends()).toEqual([
			{ endpoint: "x://you", message: bytes(1) },
		]);
		expect(channel.takeSends()).toEqual([]);
		channel.accept = (endpoint) => endpoint !== "x://full";
		expect(channel.send("x://full", bytes(2))).toBe(false);
		expect(channel.inject(bytes(7))).toBe(true);
		await channel.close();
		expect(channel.inject(bytes(8))).toBe(false);
		expect(got).toEqual([bytes(7)]);
	});
});
