import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ClosedError, KvcrDriver, ProgressFailedError } from "../src/index.js";
import { settle } from "../src/testing/index.js";
import {
	Cluster,
	content,
	hasRightBytes,
	hint,
	key,
	leftovers,
	NOTHING_LEFT,
	type Peer,
} from "./support/cluster.js";

const A = key(1n);
const B = key(2n);

let cluster: Cluster;
let source: Peer;
let target: Peer;
let driver: KvcrDriver;

beforeEach(async () => {
	cluster = new Cluster();
	source = await cluster.peer("source", { agentOptions: { mode: "manual" } });
	target = await cluster.peer("target", { frameworkElements: 4 });
	cluster.deposit(source, A, B);
	target.polling = false;
	driver = new KvcrDriver(target.kvcr);
});
afterEach(async () => {
	driver.stop();
	for (const write of source.agent.writes) write.fail();
	await cluster.close();
});

/** Runs the cluster and lets promises follow. */
async function run(ms = 0): Promise<void> {
	cluster.settle();
	await cluster.clock.advanceAsync(ms);
	cluster.settle();
	await settle();
}

function advise(...hashes: readonly bigint[]): void {
	target.kvcr.submitHint(hint(source.endpoint, hashes), "r");
}

function aliveTimers(): number {
	return process.getActiveResourcesInfo().filter((one) => one === "Timeout")
		.length;
}

describe("the driver", () => {
	it("resolves calls with their results, without anybody polling", async () => {
		const deposited = await driver.deposit([
			{ key: B, pieces: [{ label: "kv", bytes: content(B) }] },
		]);
		expect(deposited.entries[0]?.status).toBe("SUCCESS");
		advise(1n);
		const fetching = driver.fetch([A], { requestId: "r" });
		await run();
		source.agent.writes[0]?.complete();
		await run();
		const { entries } = await fetching;
		expect(hasRightBytes(entries[0])).toBe(true);
		const region = target.framework as never;
		const { entries: delivered } = await driver.deliver([
			{ key: A, pieces: [{ label: "kv", region, element: 0 }] },
		]);
		expect(delivered[0]?.status).toBe("SUCCESS");
	});

	it("hands completions of operations started on the instance itself to its iterator, each once", async () => {
		const first = target.kvcr.fetch([key(8n)]);
		const second = target.kvcr.fetch([key(9n)]);
		const seen: bigint[] = [];
		const reading = (async () => {
			for await (const { handle } of driver.completions()) {
				seen.push(handle);
				if (seen.length === 3) break;
			}
		})();
		await run();
		const third = target.kvcr.fetch([key(10n)]);
		await run();
		await reading;
		expect(seen).toEqual([first, second, third]);
	});

	it("ends iteration when it stops, and rejects what is open", async () => {
		advise(1n);
		const fetching = driver.fetch([A], { requestId: "r" });
		const iterating = driver.completions().next();
		await run();
		driver.stop();
		await expect(fetching).rejects.toBeInstanceOf(ClosedError);
		expect(await iterating).toEqual({ done: true, value: undefined });
	});

	it("that was stopped starts nothing: no result could be handed out, and no claim given back", async () => {
		cluster.deposit(target, B);
		driver.stop();
		await expect(driver.fetch([B])).rejects.toBeInstanceOf(ClosedError);
		await run();
		expect(target.kvcr.stats().cache?.claims).toBe(0);
		expect(target.kvcr.stats().operations.open).toBe(0);
	});

	it("ends with its instance: whoever reads completions is not left waiting, and the process ends", async () => {
		const idle = aliveTimers();
		const pending = driver.completions().next();
		const looping = (async () => {
			for await (const { handle } of driver.completions()) void handle;
		})();
		await run();
		expect(aliveTimers()).toBe(idle + 1);
		const closing = target.kvcr.close();
		await cluster.clock.advanceAsync(5_000);
		await closing;
		expect(await pending).toEqual({ done: true, value: undefined });
		await looping;
		expect(target.kvcr.closed).toBe(true);
		expect(aliveTimers()).toBe(idle);
		const late = new KvcrDriver(target.kvcr);
		expect(await late.completions().next()).toMatchObject({ done: true });
		await expect(late.fetch([A])).rejects.toBeInstanceOf(ClosedError);
	});

	it("ends a waiting iterator by its return, and gives the next completion to another", async () => {
		const first = driver.completions();
		const second = driver.completions();
		const waiting = [first.next(), second.next()];
		await run();
		expect(await first.return?.()).toEqual({ done: true, value: undefined });
		expect(await waiting[0]).toEqual({ done: true, value: undefined });
		expect(await first.next()).toEqual({ done: true, value: undefined });
		const handle = target.kvcr.fetch([key(8n)]);
		await run();
		expect(await waiting[1]).toMatchObject({ value: { handle } });
	});

	it.each([
		["options", null],
		["options.signal", { signal: null }],
		["options.signal", { signal: {} }],
		["options.signal", { signal: "now" }],
	])("starts nothing when %s are unusable (%j)", async (argument, options) => {
		cluster.deposit(target, B);
		await expect(driver.fetch([B], options as never)).rejects.toMatchObject({
			code: "ERR_KVCR_INVALID_ARGUMENT",
			argument,
		});
		await run();
		expect(target.kvcr.stats().cache?.claims).toBe(0);
		expect(target.kvcr.stats().operations.open).toBe(0);
	});

	it("aborts by signal: the promise settles with what became of the operation", async () => {
		advise(1n);
		const controller = new AbortController();
		const fetching = driver.fetch([A], {
			requestId: "r",
			signal: controller.signal,
		});
		await run();
		controller.abort();
		await run();
		const { entries } = await fetching;
		expect(entries[0]).toMatchObject({ status: "FAILED", reason: "aborted" });
		source.agent.writes[0]?.confirmCancel();
		await run();
		target.kvcr.discardHint("r");
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
	});

	it("takes a signal that is aborted already", async () => {
		advise(1n);
		const fetching = driver.fetch([A], {
			requestId: "r",
			signal: AbortSignal.abort(),
		});
		await run();
		expect((await fetching).entries[0]).toMatchObject({ reason: "aborted" });
	});

	it("does not bring the process down when a signal fires while the instance closes", async () => {
		advise(1n);
		const controller = new AbortController();
		const fetching = driver.fetch([A], {
			requestId: "r",
			signal: controller.signal,
		});
		await run();
		const thrown: unknown[] = [];
		const note = (error: unknown): void => void thrown.push(error);
		process.on("uncaughtException", note);
		const closing = target.kvcr.close();
		controller.abort();
		await cluster.clock.advanceAsync(5_000);
		await closing;
		await settle();
		process.off("uncaughtException", note);
		expect(thrown).toEqual([]);
		expect((await fetching).entries[0]?.status).toBe("FAILED");
	});

	it("keeps the process alive while somebody awaits, and only then", async () => {
		const idle = aliveTimers();
		advise(1n);
		const fetching = driver.fetch([A], { requestId: "r" });
		await run();
		expect(aliveTimers()).toBe(idle + 1);
		source.agent.writes[0]?.complete();
		await run();
		await fetching;
		expect(aliveTimers()).toBe(idle);
	});

	it("rejects every open promise with the error that ended progress", async () => {
		advise(1n);
		const fetching = driver.fetch([A], { requestId: "r" });
		const expected =
			expect(fetching).rejects.toBeInstanceOf(ProgressFailedError);
		await run();
		target.agent.takeNotifications = () => {
			throw new Error("the device is gone");
		};
		source.agent.writes[0]?.complete();
		await run();
		await expected;
		await expect(driver.fetch([A])).rejects.toBeInstanceOf(ProgressFailedError);
	});

	it("that is stopped by a callback inside a call rejects the call and keeps no claim", async () => {
		for (const close of [false, true]) {
			let other: KvcrDriver | undefined;
			const peer = await cluster.peer(`stopping-${close}`, {
				inventorySink: () => {
					other?.stop();
					if (close) void peer.kvcr.close();
				},
			});
			peer.polling = false;
			other = new KvcrDriver(peer.kvcr);
			const deposited = other.deposit(
				[{ key: A, pieces: [{ label: "kv", bytes: content(A) }] }],
				{ noEvict: true },
			);
			const rejected = expect(deposited).rejects.toBeInstanceOf(ClosedError);
			await run(10_000);
			await rejected;
			const left = peer.kvcr.pollCompleted();
			if (close) {
				cluster.peers.splice(cluster.peers.indexOf(peer), 1);
				continue;
			}
			// What completed after the driver's last poll is the owner's to collect.
			for (const { entries } of left)
				peer.kvcr.release(entries.flatMap((one) => one.releaseHandle ?? []));
			expect(peer.kvcr.stats().cache?.claims).toBe(0);
		}
	});

	it("begins nothing for a signal that it cannot listen to", async () => {
		const broken = {
			aborted: false,
			addEventListener() {
				throw new Error("broken");
			},
			removeEventListener() {},
		};
		const half = { aborted: false, addEventListener() {} };
		for (const signal of [broken, half])
			await expect(
				driver.fetch([B], { signal: signal as never }),
			).rejects.toThrow();
		await run();
		expect(leftovers(target)).toEqual(NOTHING_LEFT);
	});
});
