/** A subscription that can be narrowed: what it takes of a flood, and when it opens again. */
import { ManualClock } from "kvcr-core/testing";
import { describe, expect, it } from "vitest";
import { Gate } from "../src/gate.js";
import { ScriptedServer } from "./support/scripted-server.js";

/** A gate on subject `s`; `quiet` says which payloads count as no noise. */
function rig(quiet: (value: number) => boolean = () => false) {
	const clock = new ManualClock();
	const server = new ScriptedServer();
	const taken: number[] = [];
	const events: string[] = [];
	const gate = new Gate({
		clock,
		subscribe: (handler, how) => server.subscribe("s", handler, how),
		handle: ({ data }) => {
			taken.push(data[0] ?? -1);
			return !quiet(data[0] ?? -1);
		},
		narrowed: () => events.push(`narrowed with ${server.subjects.length}`),
		opened: () => events.push(`opened with ${server.subjects.length}`),
	});
	gate.open();
	/** Publishes for `ms` milliseconds, `rate` messages in each; returns how many were taken. */
	const flood = (ms: number, rate: number, value = 1, bytes = 1): number => {
		const before = taken.length;
		const data = new Uint8Array(bytes).fill(value);
		for (let at = 0; at < ms; at++) {
			for (let n = 0; n < rate; n++) server.publish("s", data);
			clock.advance(1);
		}
		return taken.length - before;
	};
	return { clock, server, taken, events, gate, flood };
}

describe("a gate", () => {
	it("takes everything while it is open", () => {
		const { flood, gate, clock } = rig();
		expect(flood(100, 100)).toBe(10_000);
		expect(gate.state).toBe("open");
		expect(clock.pending).toBe(0);
	});

	it("takes 8 messages at a time once narrow, ten milliseconds apart", () => {
		const { flood, gate, server } = rig();
		gate.narrow();
		const taken = flood(1_000, 100);
		expect(taken).toBeGreaterThan(700);
		expect(taken).toBeLessThanOrEqual(800);
		expect(new Set(server.log.slice(1))).toEqual(new Set(["s 8"]));
	});

	it("is for fewer messages when they are large", () => {
		const { flood, gate } = rig();
		gate.narrow();
		// 16 KiB each: the first opening has to find out.
		expect(flood(1_000, 20, 1, 16 << 10)).toBeLessThanOrEqual(8 + 4 * 100);
		expect(flood(1_000, 20, 1, 1 << 20)).toBeLessThanOrEqual(4 + 100);
	});

	it("still takes what was under way when it became narrow", () => {
		const { server, taken, gate } = rig();
		server.hold = true;
		server.publish("s", Uint8Array.of(7));
		gate.narrow();
		server.publish("s", Uint8Array.of(8));
		server.arrive();
		expect(taken).toEqual([7]);
	});

	it("stays narrow as long as a flood lasts, and opens five seconds after it", () => {
		const { flood, gate, events, clock, server } = rig();
		gate.narrow();
		flood(20_000, 10);
		expect(gate.state).not.toBe("open");
		expect(events).toEqual(["narrowed with 1"]);
		clock.advance(5_100);
		expect(gate.state).toBe("open");
		expect(events).toEqual(["narrowed with 1", "opened with 1"]);
		expect(server.subjects).toEqual(["s"]);
		expect(flood(10, 100)).toBe(1_000);
	});

	it("opens once in 30 seconds whatever comes, so that what nobody minds any more is not kept out for good", () => {
		const { flood, gate } = rig();
		gate.narrow();
		flood(29_900, 2);
		expect(gate.state).not.toBe("open");
		flood(200, 2);
		expect(gate.state).toBe("open");
		gate.narrow();
		flood(29_900, 2);
		expect(gate.state).not.toBe("open");
	});

	it("loses nothing of a trickle, and opens although that goes on", () => {
		const { flood, gate } = rig();
		gate.narrow();
		flood(20, 0);
		expect(gate.state).toBe("ajar");
		let taken = 0;
		for (let at = 0; at < 600; at++) taken += flood(10, 0) + flood(1, 1);
		expect(taken).toBe(600);
		expect(gate.state).toBe("open");
	});

	it("opens although messages go on that are no noise, however many", () => {
		const { flood, gate } = rig((value) => value === 2);
		gate.narrow();
		flood(15, 0);
		const taken = flood(6_000, 5, 2);
		expect(gate.state).toBe("open");
		expect(taken).toBe(30_000);
	});

	it("leaves neither a timer nor a subscription when it is closed, wherever it is", () => {
		for (const state of ["open", "shut", "ajar"] as const) {
			const { gate, clock, server } = rig();
			if (state !== "open") gate.narrow();
			if (state === "ajar") clock.advance(10);
			expect(gate.state).toBe(state);
			gate.close();
			expect(clock.pending).toBe(0);
			expect(server.subjects).toEqual([]);
		}
	});
});
