import { AsyncLocalStorage } from "node:async_hooks";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { DeadlineHeap } from "../src/ports/deadline-heap.js";
import { systemClock } from "../src/ports/index.js";

const wait = (ms: number) =>
	new Promise<void>((resolve) => void systemClock.schedule(ms, resolve));

/** An event loop that is held open while `body` runs: the clock's own timers do not. */
async function awake(body: () => Promise<void>): Promise<void> {
	const alive = setInterval(() => {}, 1_000);
	try {
		await body();
	} finally {
		clearInterval(alive);
	}
}

describe("DeadlineHeap", () => {
	it("gives entries by due time, equals in order of arming, without those that were cancelled", () => {
		fc.assert(
			fc.property(
				fc.array(fc.tuple(fc.integer({ min: 0, max: 9 }), fc.boolean())),
				(entries) => {
					const heap = new DeadlineHeap();
					const added = entries.map(([at]) => heap.add(at, () => {}));
					entries.forEach(([, cancelled], i) => {
						if (cancelled) added[i]?.cancel();
					});
					const expected = added
						.filter((_, i) => !entries[i]?.[1])
						.sort((a, b) => a.at - b.at || a.order - b.order);
					expect(heap.size).toBe(expected.length);
					for (const deadline of expected) {
						expect(heap.first).toBe(deadline);
						deadline.cancel();
						deadline.cancel();
					}
					expect([heap.size, heap.first]).toEqual([0, undefined]);
				},
			),
		);
	});
});

describe("systemClock", () => {
	it("calls back in order, never early, and not what was cancelled", () =>
		awake(async () => {
			const ran: string[] = [];
			const early: string[] = [];
			const timer = (name: string, ms: number) => {
				const due = systemClock.now() + ms;
				return systemClock.schedule(ms, () => {
					ran.push(name);
					if (systemClock.now() < due) early.push(name);
				});
			};
			timer("c", 20);
			const gone = timer("gone", 5);
			timer("b", 10.5);
			timer("a", 0);
			gone.cancel();
			gone.cancel();
			await wait(25);
			expect([ran, early]).toEqual([["a", "b", "c"], []]);
		}));

	it("uses no Node timer for a deadline later than one that is armed", () =>
		awake(async () => {
			const first = systemClock.schedule(60_000, () => {});
			const armed = vi.spyOn(globalThis, "setTimeout");
			for (let i = 0; i < 1_000; i += 1)
				systemClock.schedule(60_001, () => {}).cancel();
			// Once, because setTimeout is another function than before.
			const count = armed.mock.calls.length;
			armed.mockRestore();
			first.cancel();
			expect(count).toBe(1);
			// What is due before it is not late for that.
			await wait(1);
		}));

	it("runs what a callback arms without delay in a later turn", () =>
		awake(async () => {
			let turns = 0;
			let depth = 0;
			const again = () => {
				depth += 1;
				expect(depth).toBe(1);
				turns += 1;
				if (turns < 5) systemClock.schedule(0, again);
				depth -= 1;
			};
			systemClock.schedule(0, again);
			await wait(30);
			expect(turns).toBe(5);
		}));

	it.each([Number.NaN, -5, Number.NEGATIVE_INFINITY])(
		"takes a delay of %s for none",
		(ms) => awake(() => wait(ms)),
	);

	it("goes by fake timers while there are any, and goes on after them", async () => {
		const ran: string[] = [];
		vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
		try {
			systemClock.schedule(60_000, () => ran.push("fake"));
			systemClock.schedule(80_000, () => ran.push("left"));
			vi.advanceTimersByTime(60_000);
			expect(ran).toEqual(["fake"]);
		} finally {
			vi.useRealTimers();
		}
		await awake(() => wait(5));
		expect(ran).toEqual(["fake"]);
	});

	it("calls back in the context of whoever armed the deadline", () =>
		awake(async () => {
			const request = new AsyncLocalStorage<string>();
			const seen: (string | undefined)[] = [];
			const arm = (name: string, ms: number) =>
				request.run(name, () =>
					systemClock.schedule(ms, () => seen.push(request.getStore())),
				);
			arm("first", 8);
			arm("second", 9);
			arm("third", 2);
			await wait(20);
			expect(seen).toEqual(["third", "first", "second"]);
		}));

	it("keeps no process alive, and loses no deadline to a callback that throws", async () => {
		const source = new URL("../src/ports/index.ts", import.meta.url).href;
		const { stdout } = await promisify(execFile)(
			process.execPath,
			[
				"--import",
				"tsx",
				"--input-type=module",
				"--eval",
				`
					import { systemClock } from ${JSON.stringify(source)};
					process.on("uncaughtException", (error) => console.log(error.message));
					systemClock.schedule(60_000, () => {});
					systemClock.schedule(Infinity, () => {});
					systemClock.schedule(2, () => { throw new Error("thrown"); });
					systemClock.schedule(2, () => console.log("after"));
					setTimeout(() => {}, 100);
				`,
			],
			{ cwd: new URL("..", import.meta.url) },
		);
		expect(stdout).toBe("thrown\nafter\n");
	});
});
