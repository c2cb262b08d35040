/** The send buffer: bounded, in order, never twice, and not poured into a broken connection. */
import { ManualClock } from "kvcr-core/testing";
import { beforeEach, describe, expect, it } from "vitest";
import { Outbox, type OutboxLink } from "../src/outbox.js";

/** A link that records what it is given and confirms when told to. */
class ScriptedLink implements OutboxLink {
	maxPayload = 1 << 20;
	accepts = true;
	readonly published: number[] = [];
	private readonly rounds: ((confirmed: boolean) => void)[] = [];

	publish(_subject: string, payload: Uint8Array): boolean {
		if (this.accepts) this.published.push(payload[0] ?? -1);
		return this.accepts;
	}

	flushed(): Promise<boolean> {
		return new Promise((resolve) => this.rounds.push(resolve));
	}

	get openRounds(): number {
		return this.rounds.length;
	}

	async answer(confirmed: boolean): Promise<void> {
		this.rounds.shift()?.(confirmed);
		await settle();
	}
}

/** Lets every microtask run. */
async function settle(): Promise<void> {
	for (let i = 0; i < 10; i++) await Promise.resolve();
}

const limits = { maxMessages: 8, maxBytes: 1 << 20, maxAgeMs: 1_000 };

describe("outbox", () => {
	let clock: ManualClock;
	let link: ScriptedLink;
	let outbox: Outbox;
	const offer = (value: number, size = 1) => {
		const payload = new Uint8Array(size);
		payload[0] = value;
		return outbox.offer("kvcr.b", payload);
	};

	beforeEach(() => {
		clock = new ManualClock();
		link = new ScriptedLink();
		outbox = new Outbox(link, limits, clock);
	});

	it("keeps messages in order until the link is up", () => {
		for (const value of [1, 2, 3]) expect(offer(value)).toBe(true);
		expect(link.published).toEqual([]);
		outbox.linkUp();
		expect(link.published).toEqual([1, 2, 3]);
	});

	it("is bounded in messages while down", () => {
		for (let value = 0; value < limits.maxMessages; value++)
			expect(offer(value)).toBe(true);
		expect(offer(99)).toBe(false);
		outbox.linkUp();
		expect(link.published).toHaveLength(limits.maxMessages);
	});

	it("is bounded in bytes while down", () => {
		expect(offer(1, limits.maxBytes)).toBe(true);
		expect(offer(2)).toBe(false);
		expect(outbox.bytes).toBe(limits.maxBytes);
	});

	it("counts what the server has not confirmed, and takes more once it has", async () => {
		outbox.linkUp();
		for (let value = 0; value < limits.maxMessages; value++) offer(value);
		expect(offer(99)).toBe(false);
		await settle();
		await link.answer(true);
		expect(outbox.messages).toBe(0);
		expect(outbox.bytes).toBe(0);
		expect(offer(99)).toBe(true);
	});

	it("has one confirmation round under way at a time", async () => {
		outbox.linkUp();
		offer(1);
		offer(2);
		await settle();
		expect(link.openRounds).toBe(1);
		offer(3);
		await settle();
		expect(link.openRounds).toBe(1);
		await link.answer(true);
		expect(link.openRounds).toBe(1);
		expect(outbox.messages).toBe(1);
	});

	it("hands over no more than a window that is not confirmed", async () => {
		outbox = new Outbox(
			link,
			{ ...limits, maxMessages: 100, maxBytes: 64 << 20 },
			clock,
		);
		outbox.linkUp();
		for (let value = 0; value < 10; value++)
			expect(offer(value, 1 << 20)).toBe(true);
		expect(link.published).toEqual([0, 1, 2, 3]);
		await settle();
		await link.answer(true);
		expect(link.published).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
	});

	it("never sends again what was handed to a connection that broke", async () => {
		outbox.linkUp();
		offer(1);
		await settle();
		outbox.linkDown();
		offer(2);
		outbox.linkUp();
		expect(link.published).toEqual([1, 2]);
		expect(outbox.lost.unconfirmed).toBe(1);
	});

	it("ignores the answer of an earlier connection", async () => {
		outbox.linkUp();
		offer(1);
		await settle();
		outbox.linkDown();
		outbox.linkUp();
		offer(2);
		await settle();
		await link.answer(true);
		expect(outbox.messages).toBe(1);
		await link.answer(true);
		expect(outbox.messages).toBe(0);
	});

	it("does not pour the queue into a connection that broke unnoticed", async () => {
		outbox.linkUp();
		offer(1);
		await settle();
		await link.answer(false);
		offer(2);
		expect(link.published).toEqual([1]);
		outbox.linkDown();
		outbox.linkUp();
		expect(link.published).toEqual([1, 2]);
	});

	it("goes on by itself when the connection did not break after all", async () => {
		outbox.linkUp();
		offer(1);
		await settle();
		await link.answer(false);
		offer(2);
		clock.advance(100);
		expect(link.published).toEqual([1, 2]);
	});

	it("drops and counts what waited too long", () => {
		offer(1);
		clock.advance(limits.maxAgeMs + 1);
		offer(2);
		outbox.linkUp();
		expect(link.published).toEqual([2]);
		expect(outbox.lost.expired).toBe(1);
	});

	it("drops and counts what the next server would not take", () => {
		offer(1, 1_000);
		offer(2, 10);
		link.maxPayload = 100;
		outbox.linkUp();
		expect(link.published).toEqual([2]);
		expect(outbox.lost.over_server_limit).toBe(1);
	});

	it("drops and counts what the client refuses", () => {
		link.accepts = false;
		outbox.linkUp();
		offer(1);
		expect(outbox.messages).toBe(0);
		expect(outbox.lost.publish_failed).toBe(1);
	});

	it("tells when everything is confirmed, and does not wait for a lost link", async () => {
		outbox.linkUp();
		offer(1);
		let idle = 0;
		const note = () => void idle++;
		void outbox.idle().then(note);
		await settle();
		expect(idle).toBe(0);
		await link.answer(true);
		expect(idle).toBe(1);

		offer(2);
		void outbox.idle().then(note);
		await settle();
		outbox.linkDown();
		await settle();
		expect(idle).toBe(2);
	});

	it("counts what is still queued when it is cleared", () => {
		offer(1);
		offer(2);
		outbox.clear();
		expect(outbox.messages).toBe(0);
		expect(outbox.lost.closed).toBe(2);
	});
});
