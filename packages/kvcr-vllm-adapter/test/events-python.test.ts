/** The intake against a real publisher process that encodes as vLLM does. */
import { createHash } from "node:crypto";
import { type RouterHash, silentLogger } from "kvcr-core";
import { afterEach, describe, expect, it } from "vitest";
import {
	IntegerHashesError,
	KvEventSubscriber,
	type KvEventSubscriberOptions,
	type PublisherStats,
} from "../src/events/index.js";
import { ReverseHashMap } from "../src/index.js";
import {
	type PublisherOptions,
	PythonPublisher,
	python,
	pythonRequired,
	removed,
	stored,
} from "./support/python-publisher.js";

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
	for (const thing of open.splice(0)) await thing.close();
});

function hashOf(name: string | number, bytes = 32): string {
	return createHash("sha256")
		.update(String(name))
		.digest("hex")
		.slice(0, 2 * bytes);
}

function routerHash(hash: string): RouterHash {
	return BigInt(`0x${hash.slice(-16)}`) as RouterHash;
}

class Rig {
	readonly map = new ReverseHashMap();
	readonly errors: IntegerHashesError[] = [];

	private constructor(
		readonly publishers: PythonPublisher[],
		readonly subscriber: KvEventSubscriber,
	) {}

	static async start(
		options: readonly PublisherOptions[],
		more: Partial<KvEventSubscriberOptions> & { replay?: boolean } = {},
	): Promise<Rig> {
		const publishers = await Promise.all(
			options.map((each) => PythonPublisher.start(each)),
		);
		const map = new ReverseHashMap();
		const errors: IntegerHashesError[] = [];
		const subscriber = new KvEventSubscriber({
			map,
			publishers: publishers.map(({ endpoint, replay }) =>
				more.replay === false
					? { endpoint }
					: { endpoint, replayEndpoint: replay },
			),
			logger: silentLogger,
			onError: (error) => errors.push(error),
			replayTimeoutMs: 400,
			...more,
		});
		const rig = new Rig(publishers, subscriber);
		Object.assign(rig, { map, errors });
		open.push({
			close: async () => {
				await subscriber.close();
				await Promise.all(publishers.map((publisher) => publisher.stop()));
			},
		});
		await subscriber.start();
		for (const publisher of publishers)
			await publisher.command("wait_subscriber");
		return rig;
	}

	get publisher(): PythonPublisher {
		return this.publishers[0] as PythonPublisher;
	}

	get stats(): PublisherStats {
		return this.subscriber
			.stats()
			.get(this.publisher.endpoint) as PublisherStats;
	}

	status(hash: string) {
		return this.map.status(routerHash(hash));
	}

	/** Waits until the last thing published has arrived. */
	async settled(batches: number): Promise<void> {
		await expect
			.poll(() => this.stats.batches, { timeout: 8000, interval: 5 })
			.toBeGreaterThanOrEqual(batches);
	}

	async until(hash: string, status: string): Promise<void> {
		await expect
			.poll(() => this.status(hash), { timeout: 8000, interval: 5 })
			.toBe(status);
	}
}

it("has a Python with msgspec and pyzmq for the publisher process", (context) => {
	if (python !== undefined) return;
	const reason =
		"no Python with msgspec and pyzmq (node tools/bootstrap/main.mjs python-events)";
	if (pythonRequired) throw new Error(reason);
	context.skip(reason);
});

describe.skipIf(python === undefined)("KV events of a vLLM publisher", () => {
	for (const encoding of ["map", "array"] as const) {
		describe(`encoded as ${encoding}s`, () => {
			it("follows stores, removals and clears, per group and medium, for hashes of 32 and 16 bytes", async () => {
				const rig = await Rig.start([{ encoding }]);
				const [a, b] = [hashOf("a"), hashOf("b", 16)];
				await rig.publisher.publish([
					stored([a, b]),
					stored([a], { medium: "CPU", ownership: "kvcr", locality: "LOCAL" }),
					stored([b], {
						group_idx: 1,
						lora_id: 3,
						lora_name: "x",
						extra_keys: [["k", 1]],
					}),
				]);
				await rig.until(b, "ambiguous_hash");
				expect(rig.status(a)).toBe("unique");
				expect(rig.map.resolve(routerHash(a))).toEqual(
					new Uint8Array(Buffer.from(`${a}00000000`, "hex")),
				);
				await rig.publisher.publish([
					removed([a]),
					removed([b], { group_idx: 1 }),
					{ type: "SomethingNew", block_hashes: [a] },
				]);
				await rig.until(b, "unique");
				// Eviction from the GPU leaves the host's copy.
				expect(rig.status(a)).toBe("unique");
				await rig.publisher.publish([
					removed([a], { medium: "CPU", ownership: "kvcr", locality: "LOCAL" }),
				]);
				await rig.until(a, "not_found");
				await rig.publisher.publish([{ type: "AllBlocksCleared" }]);
				await rig.until(b, "not_found");
				expect(rig.stats).toMatchObject({
					batches: 4,
					cleared: 1,
					gaps: 0,
					dropped: { unknown_tag: 1, malformed: 0, invalid_event: 0 },
				});
			});

			it("fills a gap from a replay, in order, with live batches waiting", async () => {
				const rig = await Rig.start([{ encoding }]);
				const [a, b, c] = [hashOf(1), hashOf(2), hashOf(3)];
				await rig.publisher.publish([stored([a])]);
				await rig.publisher.publish([stored([b])], { lose: true });
				await rig.publisher.publish([removed([b])]);
				await rig.publisher.publish([stored([c])]);
				await rig.until(c, "unique");
				// The store that the replay brought came before its removal.
				expect(rig.status(b)).toBe("not_found");
				expect(rig.status(a)).toBe("unique");
				expect(rig.stats).toMatchObject({
					gaps: 1,
					replays: 1,
					clears: { gap_not_replayable: 0 },
				});
				expect(await rig.publisher.command("replays")).toEqual({
					// From the last batch applied: it proves that the stream is the same.
					replays: [0],
				});
			});

			it("refuses a stream of integer hashes and names the setting", async () => {
				const rig = await Rig.start([{ encoding }]);
				await rig.publisher.publish([stored([12345, -7])]);
				await rig.publisher.publish([stored([5])]);
				await rig.settled(2);
				await expect.poll(() => rig.errors.length).toBe(1);
				expect(rig.errors[0]).toBeInstanceOf(IntegerHashesError);
				expect(rig.errors[0]?.message).toContain(
					"VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES",
				);
				expect(rig.map.size).toBe(0);
				expect(rig.stats.dropped.integer_hashes).toBe(2);
			});
		});
	}

	it("reads replay answers without the topic frame, as older releases send them", async () => {
		const rig = await Rig.start([
			{ encoding: "array", replay_topic: false, topic: "kv-events" },
		]);
		await rig.publisher.publish([stored([hashOf(1)])]);
		await rig.publisher.publish([stored([hashOf(2)])], { lose: true });
		await rig.publisher.publish([stored([hashOf(3)])]);
		await rig.until(hashOf(3), "unique");
		expect(rig.status(hashOf(2))).toBe("unique");
	});

	it("asks a publisher found in mid-stream for its past", async () => {
		const rig = await Rig.start([{ encoding: "map" }]);
		for (let i = 0; i < 5; i++)
			await rig.publisher.publish([stored([hashOf(i)])], { lose: true });
		await rig.publisher.publish([stored([hashOf(9)])]);
		await rig.until(hashOf(9), "unique");
		for (let i = 0; i < 5; i++) expect(rig.status(hashOf(i))).toBe("unique");
		expect(rig.stats.clears.gap_not_replayable).toBe(0);
	});

	it("clears, and says so, when a gap is older than what the publisher keeps", async () => {
		const warnings: object[] = [];
		const rig = await Rig.start([{ encoding: "map", buffer: 2 }], {
			logger: { ...silentLogger, warn: (fields) => warnings.push(fields) },
		});
		await rig.publisher.publish([stored([hashOf(0)])]);
		for (let i = 1; i < 5; i++)
			await rig.publisher.publish([stored([hashOf(i)])], { lose: true });
		await rig.publisher.publish([stored([hashOf(5)])]);
		await rig.until(hashOf(5), "unique");
		// What can still be replayed counts; what came before is forgotten.
		expect([0, 1, 2, 3, 4].map((i) => rig.status(hashOf(i)))).toEqual([
			"not_found",
			"not_found",
			"not_found",
			"not_found",
			"unique",
		]);
		expect(rig.stats.clears.gap_not_replayable).toBe(1);
		expect(warnings).toContainEqual(
			expect.objectContaining({ reason: "gap_not_replayable" }),
		);
	});

	it("clears when the replay socket does not answer, and goes on with the live stream", async () => {
		const rig = await Rig.start([{ encoding: "map" }]);
		await rig.publisher.command("answering", { value: false });
		await rig.publisher.publish([stored([hashOf(0)])]);
		await rig.publisher.publish([stored([hashOf(1)])], { lose: true });
		await rig.publisher.publish([stored([hashOf(2)])]);
		await rig.until(hashOf(2), "unique");
		expect(rig.status(hashOf(0))).toBe("not_found");
		expect(rig.stats).toMatchObject({
			replays: 1,
			clears: { gap_not_replayable: 1 },
		});
	});

	it("clears on every gap where there is no replay socket", async () => {
		const rig = await Rig.start([{ encoding: "map" }], { replay: false });
		await rig.publisher.publish([stored([hashOf(0)])]);
		await rig.publisher.publish([stored([hashOf(1)])], { lose: true });
		await rig.publisher.publish([stored([hashOf(2)])]);
		await rig.until(hashOf(2), "unique");
		expect(rig.status(hashOf(0))).toBe("not_found");
	});

	it("forgets what a restarted publisher had reported", async () => {
		const rig = await Rig.start([{ encoding: "map" }]);
		for (let i = 0; i < 4; i++)
			await rig.publisher.publish([stored([hashOf(i)])]);
		await rig.until(hashOf(3), "unique");
		await rig.publisher.command("restart");
		await rig.publisher.publish([stored([hashOf("new")])]);
		await rig.until(hashOf("new"), "unique");
		expect(rig.status(hashOf(3))).toBe("not_found");
		expect(rig.stats.clears.restarted).toBe(1);
	});

	it("recognizes a publisher process that was replaced and has counted exactly as far", async () => {
		const rig = await Rig.start([{ encoding: "map" }]);
		await rig.publisher.publish([stored([hashOf("old")])]);
		await rig.until(hashOf("old"), "unique");
		await rig.publisher.stop();
		const next = await PythonPublisher.start({
			encoding: "map",
			bind: rig.publisher.endpoint,
			bind_replay: rig.publisher.replay,
			clock: 60,
		});
		open.push({ close: () => next.stop() });
		await next.publish([stored([hashOf("missed")])], { lose: true });
		await next.command("wait_subscriber");
		await next.publish([stored([hashOf("new")])]);
		await rig.until(hashOf("new"), "unique");
		expect(rig.status(hashOf("old"))).toBe("not_found");
		expect(rig.status(hashOf("missed"))).toBe("unique");
		expect(rig.stats.clears.restarted).toBe(1);
	});

	it("credits each publisher on its own", async () => {
		const rig = await Rig.start([
			{ encoding: "map", rank: 0 },
			{ encoding: "array", rank: 1 },
		]);
		const [first, second] = rig.publishers as [
			PythonPublisher,
			PythonPublisher,
		];
		const [both, own] = [hashOf("both"), hashOf("own")];
		await first.publish([stored([both])]);
		await second.publish([stored([both, own])]);
		await rig.until(own, "unique");
		await first.publish([removed([both])]);
		await first.publish([
			{ type: "AllBlocksCleared" },
			stored([hashOf("mark")]),
		]);
		await rig.until(hashOf("mark"), "unique");
		expect(rig.status(both)).toBe("unique");
		await second.publish([removed([both])]);
		await rig.until(both, "not_found");
	});

	it("tells ranks apart that share one socket", async () => {
		const rig = await Rig.start([{ encoding: "map" }], { replay: false });
		const shared = hashOf("shared");
		await rig.publisher.publish([stored([shared])], { rank: 0 });
		await rig.publisher.command("restart");
		await rig.publisher.publish([stored([shared])], { rank: 1 });
		await rig.publisher.publish([removed([shared])], { rank: 1 });
		await rig.publisher.publish([stored([hashOf("mark")])], { rank: 1 });
		await rig.until(hashOf("mark"), "unique");
		expect(rig.status(shared)).toBe("unique");
		expect(rig.stats).toMatchObject({ clears: { restarted: 0 }, gaps: 0 });
	});

	it("survives malformed messages between good ones", async () => {
		const rig = await Rig.start([{ encoding: "map" }]);
		await rig.publisher.publish([stored([hashOf(0)])]);
		const number = "0000000000000001";
		for (const frames of [
			[""],
			["", ""],
			["", "00", "90"],
			["", "7fffffffffffffff", "90"],
			["", number, ""],
			["", number, "c1"],
			["", number, "ddffffffff"],
			["", number, "93"],
			["", number, "9301"],
			["", number, "92a161a162"],
			["", number, "80"],
			["", number, `${"91".repeat(50)}90`],
		])
			await rig.publisher.command("raw", { frames });
		await rig.publisher.publish([stored([hashOf(1)])]);
		await rig.until(hashOf(1), "unique");
		expect(rig.status(hashOf(0))).toBe("unique");
		expect(rig.stats.dropped).toMatchObject({ malformed: 8, bad_sequence: 4 });
		expect(rig.stats.gaps).toBe(0);
	});

	it("takes what publishers reported out of the map when it closes", async () => {
		const rig = await Rig.start([{ encoding: "map" }]);
		await rig.publisher.publish([stored([hashOf(0)])]);
		await rig.until(hashOf(0), "unique");
		await rig.subscriber.close();
		await rig.subscriber.close();
		expect(rig.status(hashOf(0))).toBe("not_found");
		await expect(rig.subscriber.start()).rejects.toMatchObject({
			code: "ERR_KVCR_CLOSED",
		});
	});
});
