import { describe, expect, it } from "vitest";
import type { Incarnation } from "../src/index.js";
import { FairInbox } from "../src/progress/fair-inbox.js";
import { senderOf } from "../src/progress/sender-of.js";
import { encodeControlMessage } from "../src/protocol/index.js";
import { ManualClock } from "../src/testing/index.js";

const HONEST = "1".repeat(32) as Incarnation;
const OTHER = "2".repeat(32) as Incarnation;
const METADATA = 1 << 10;

/** A message of a sender, with a number to tell it by. */
function message(sender: string, number = 0): Uint8Array {
	return encodeControlMessage({
		type: "write_probe",
		header: {
			targetAgent: "agent",
			senderIncarnation: sender as Incarnation,
			senderControlEndpoint: "memory://a",
		},
		opHandle: BigInt(number) as never,
	});
}

/** An inbox whose messages take as long as a test says, and whose turns come when it says. */
function rig(costMs = 1) {
	const clock = new ManualClock();
	const turns: (() => void)[] = [];
	const handled: Uint8Array[] = [];
	const dropped: Record<string, number> = {};
	const state = { costMs };
	const inbox = new FairInbox({
		clock,
		handle: (bytes) => {
			handled.push(bytes);
			clock.advance(state.costMs);
		},
		dropped: (reason) => {
			dropped[reason] = (dropped[reason] ?? 0) + 1;
		},
		maxPeers: 4,
		maxMetadataBytes: METADATA,
		defer: (task) => turns.push(task),
	});
	return {
		inbox,
		handled,
		dropped,
		state,
		senders: () => handled.map((bytes) => senderOf(bytes)),
		clock,
		/** Runs the turns that are due, and lets time pass while somebody waits for its share; false when all is done. */
		turn(): boolean {
			const due = turns.splice(0);
			for (const task of due) task();
			if (due.length === 0 && inbox.waiting > 0) clock.advance(1);
			return due.length > 0 || inbox.waiting > 0;
		},
	};
}

describe("the sender of a message", () => {
	it("is found in every message that names one, without decoding", () => {
		expect(senderOf(message(HONEST))).toBe(HONEST);
	});

	it("is nobody's in bytes that name none, or break off", () => {
		const bytes = message(HONEST);
		const at = Buffer.from(bytes).indexOf(HONEST);
		expect(senderOf(new Uint8Array())).toBeUndefined();
		expect(senderOf(bytes.subarray(0, at + 31))).toBeUndefined();
		expect(senderOf(new Uint8Array(100).fill(0xc1))).toBeUndefined();
	});
});

describe("the inbox", () => {
	it("handles messages as they come while there is time", () => {
		const { inbox, handled, turn } = rig(0);
		for (let n = 0; n < 5000; n += 1) inbox.receive(message(HONEST, n));
		expect(handled).toHaveLength(5000);
		expect(inbox.waiting).toBe(0);
		expect(turn()).toBe(false);
	});

	it("serves a peer after at most one message of everybody else together, however many a stranger sent", () => {
		const { inbox, senders, turn } = rig();
		inbox.met(HONEST);
		// Under many names, as it costs nothing.
		for (let n = 0; n < 500; n += 1)
			inbox.receive(message(n.toString(16).padStart(32, "0"), n));
		const before = senders().length;
		inbox.receive(message(HONEST));
		turn();
		turn();
		expect(senders().slice(before)).toContain(HONEST);
		expect(senders().length - before).toBeLessThanOrEqual(2);
	});

	it("gives peers turns among each other, and each its order", () => {
		const { inbox, handled, senders, turn } = rig();
		inbox.met(HONEST);
		inbox.met(OTHER);
		inbox.receive(message(OTHER, 0));
		for (let n = 1; n < 100; n += 1) inbox.receive(message(OTHER, n));
		for (let n = 0; n < 3; n += 1) inbox.receive(message(HONEST, n));
		while (turn());
		const at = senders().flatMap((one, i) => (one === HONEST ? [i] : []));
		expect(at).toEqual([2, 4, 6]);
		const own = (sender: string): Uint8Array[] =>
			handled.filter((bytes) => senderOf(bytes) === sender);
		expect(own(OTHER)).toEqual(
			Array.from({ length: 100 }, (_, n) => message(OTHER, n)),
		);
		expect(own(HONEST)).toEqual([0, 1, 2].map((n) => message(HONEST, n)));
	});

	it("lets nobody have more than its share of time, and strangers together less than a peer", () => {
		for (const [sender, share] of [
			[HONEST, 0.5],
			[OTHER, 0.2],
		] as const) {
			const { inbox, handled, clock, turn } = rig();
			inbox.met(HONEST);
			for (let n = 0; n < 1000; n += 1) inbox.receive(message(sender, n));
			const startedAt = clock.now();
			const before = handled.length;
			while (clock.now() - startedAt < 1000) turn();
			// One millisecond each, and what may be used at once.
			expect(handled.length - before).toBeGreaterThan(1000 * share * 0.9);
			expect(handled.length - before).toBeLessThan(1000 * share * 1.1 + 25);
		}
	});

	it("gives less to a peer beside others, to one that sent too much, and to strangers", () => {
		for (const [sender, waiting, share] of [
			[OTHER, 1_000, 0.25],
			[OTHER, 1_100, 0.05],
			["3".repeat(32), 1_000, 0.05],
		] as const) {
			const { inbox, senders, clock, state, turn } = rig();
			inbox.met(HONEST);
			inbox.met(OTHER);
			inbox.receive(message(HONEST));
			for (let n = 0; n < waiting; n += 1) inbox.receive(message(sender, n));
			const startedAt = clock.now();
			const before = senders().length;
			while (clock.now() - startedAt < 2_000) {
				// Somebody else is there, and costs next to nothing.
				state.costMs = 0;
				inbox.receive(message(HONEST));
				state.costMs = 1;
				turn();
			}
			const served = senders()
				.slice(before)
				.filter((one) => one === sender).length;
			expect(served).toBeGreaterThan(2_000 * share * 0.9);
			expect(served).toBeLessThan(2_000 * share * 1.1 + 25);
		}
	});

	it("forgives a peer that sent too much as soon as nothing of it waits any more", () => {
		const { inbox, senders, clock, state, turn } = rig(0.1);
		inbox.met(HONEST);
		inbox.met(OTHER);
		for (let n = 0; n < 2_000; n += 1) inbox.receive(message(OTHER, n));
		while (turn());
		const before = senders().length;
		for (let n = 0; n < 1_000; n += 1) inbox.receive(message(OTHER, n));
		for (let ms = 0; ms < 400; ms += 1) {
			state.costMs = 0;
			inbox.receive(message(HONEST));
			state.costMs = 0.1;
			turn();
			clock.advance(1);
		}
		// A tenth of a millisecond each, 100 in all: a flood would have had 20 at once, and a twentieth of the time.
		const served = senders().slice(before);
		expect(served.filter((one) => one === OTHER)).toHaveLength(1_000);
	});

	it("gives a peer its full share again when the others have been silent for a while", () => {
		const { inbox, handled, clock, turn } = rig();
		inbox.met(HONEST);
		inbox.met(OTHER);
		inbox.receive(message(HONEST));
		clock.advance(100);
		for (let n = 0; n < 1_000; n += 1) inbox.receive(message(OTHER, n));
		const startedAt = clock.now();
		const before = handled.length;
		while (clock.now() - startedAt < 1_000) turn();
		expect(handled.length - before).toBeGreaterThan(450);
	});

	it("keeps a sender's order when it stops being a stranger", () => {
		const { inbox, handled, turn } = rig();
		for (const sender of [OTHER, HONEST, OTHER, HONEST, HONEST])
			inbox.receive(message(sender, handled.length + inbox.waiting));
		inbox.met(HONEST);
		inbox.receive(message(HONEST, 5));
		expect(inbox.waiting).toBe(5);
		while (turn());
		const own = handled.filter((bytes) => senderOf(bytes) === HONEST);
		expect(own).toEqual([1, 3, 4, 5].map((n) => message(HONEST, n)));
		expect(inbox.waiting).toBe(0);
	});

	it("lets nobody wait for the time of somebody who used up more", () => {
		const { inbox, senders, clock, state, turn } = rig();
		inbox.met(HONEST);
		state.costMs = 100;
		inbox.receive(message(OTHER));
		inbox.receive(message(OTHER));
		turn();
		// That is for how long strangers wait now.
		expect(clock.nextAt).toBeGreaterThan(clock.now() + 300);
		state.costMs = 50;
		inbox.receive(message(HONEST));
		inbox.receive(message(HONEST));
		turn();
		expect(senders()).toEqual([OTHER, HONEST]);
		clock.advance(20);
		turn();
		expect(senders()).toEqual([OTHER, HONEST, HONEST]);
	});

	it("keeps a timer only while somebody waits", () => {
		const { inbox, clock, turn } = rig();
		for (let n = 0; n < 10; n += 1) inbox.receive(message(OTHER, n));
		while (turn());
		expect(clock.pending).toBe(0);
		for (let n = 0; n < 10; n += 1) inbox.receive(message(OTHER, n));
		turn();
		inbox.close();
		expect(clock.pending).toBe(0);
	});

	it("bounds what waits of one sender, and loses the rest without touching others", () => {
		const { inbox, handled, dropped, turn } = rig();
		inbox.met(HONEST);
		for (let n = 0; n < 5000; n += 1) inbox.receive(message(OTHER, n));
		expect(inbox.waiting).toBe(1024);
		expect(dropped).toEqual({ flood: 5000 - 1 - 1024 });
		inbox.receive(message(HONEST));
		expect(inbox.waiting).toBe(1025);
		while (turn());
		expect(handled).toHaveLength(1026);
		expect(inbox.waiting).toBe(0);
	});

	it("bounds what waits of one sender in bytes", () => {
		const { inbox, dropped } = rig();
		const size = METADATA + (64 << 10);
		for (let n = 0; n < 100; n += 1) inbox.receive(new Uint8Array(size));
		expect(inbox.waiting).toBe(Math.floor((4 << 20) / size));
		expect(dropped.flood).toBe(99 - inbox.waiting);
	});

	it("takes large messages from peers only", () => {
		const { inbox, handled, dropped } = rig(0);
		const large = Buffer.concat([
			message(HONEST),
			Buffer.alloc(METADATA + (64 << 10)),
		]);
		inbox.receive(large);
		expect(dropped).toEqual({ stranger_too_large: 1 });
		inbox.met(HONEST);
		inbox.receive(large);
		expect(handled).toEqual([large]);
	});

	it("forgets the peer it heard of longest ago when there are too many", () => {
		const { inbox, senders, turn } = rig();
		inbox.met(HONEST);
		for (let n = 3; n < 7; n += 1)
			inbox.met(String(n).repeat(32) as Incarnation);
		for (let n = 0; n < 10; n += 1) inbox.receive(message(OTHER, n));
		inbox.receive(message(HONEST));
		while (turn());
		expect(senders().at(-1)).toBe(HONEST);
	});

	it("handles nothing after closing", () => {
		const { inbox, handled, turn } = rig();
		inbox.receive(message(HONEST, 1));
		inbox.receive(message(HONEST, 2));
		inbox.close();
		inbox.receive(message(HONEST, 3));
		turn();
		expect(handled).toHaveLength(1);
	});
});
