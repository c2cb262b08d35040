import { afterEach, describe, expect, it } from "vitest";
import { Push } from "zeromq";
import { ZmqControlChannel } from "../src/index.js";
import { Pace } from "../src/pace.js";

const ends: (() => unknown)[] = [];
afterEach(async () => {
	for (const end of ends.splice(0).reverse()) await end();
});

/** A pace on a clock that a test moves. */
function rig() {
	let now = 1_000;
	const pace = new Pace(() => now);
	return {
		pace,
		pass(ms: number) {
			now += ms;
		},
	};
}

describe("the pace of reading", () => {
	it("reads on within half a millisecond, then lets the event loop have a turn", () => {
		const { pace, pass } = rig();
		for (let n = 0; n < 1_000; n += 1) expect(pace.next()).toBe("read");
		pass(0.5);
		expect(pace.next()).toBe("turn");
		pace.begin();
		expect(pace.next()).toBe("read");
	});

	it("rests after two messages that nobody wants, and starts afresh after that", () => {
		const { pace } = rig();
		pace.excess();
		expect(pace.next()).toBe("read");
		pace.excess();
		expect(pace.next()).toBe(1);
		pace.begin();
		expect(pace.next()).toBe("read");
	});

	it("rests at the end of a turn that had a single one", () => {
		const { pace, pass } = rig();
		pace.excess();
		pass(0.5);
		expect(pace.next()).toBe(1);
		pace.begin();
		pass(0.5);
		expect(pace.next()).toBe("turn");
	});
});

describe("a channel whose owner has no use for what a sender sends", () => {
	it("leaves it with that sender, and loses nothing of anybody", async () => {
		const channel = new ZmqControlChannel();
		ends.push(() => channel.close());
		const order: string[] = [];
		await channel.start((bytes) => {
			const text = Buffer.from(bytes).toString();
			order.push(text);
			if (text.startsWith("flood")) channel.slowDown();
		});
		const [flooder, honest] = [new Push(), new Push()];
		for (const push of [flooder, honest]) {
			ends.push(() => push.close());
			push.connect(channel.endpoint as string);
		}
		await honest.send("hello");
		while (order.length < 1) await new Promise((done) => setTimeout(done, 5));
		const flooding = (async () => {
			for (let n = 0; n < 2_000; n += 1) await flooder.send(`flood ${n}`);
		})();
		while (order.length < 100) await new Promise((done) => setTimeout(done, 1));
		const before = order.length;
		const startedAt = performance.now();
		await honest.send("honest");
		while (order.length < 2_002)
			await new Promise((done) => setTimeout(done, 5));
		await flooding;
		// Two in a millisecond at most: unhindered, it would take a fiftieth of that on an idle machine.
		expect(performance.now() - startedAt).toBeGreaterThan(500);
		// Behind what libzmq had handed out of the flood, and nothing of what was still with its sender.
		expect(order.indexOf("honest") - before).toBeLessThan(1_000);
		expect(order.filter((text) => text.startsWith("flood"))).toEqual(
			Array.from({ length: 2_000 }, (_, n) => `flood ${n}`),
		);
	}, 20_000);
});
