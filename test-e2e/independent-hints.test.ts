import { expect, it } from "vitest";
import { key } from "./harness/blocks.js";
import {
	byHash,
	expectDrained,
	expectRightBytes,
	release,
} from "./harness/expect.js";
import { hint } from "./harness/hint.js";
import { overAllRigs } from "./harness/rigs.js";

const POOLS = [
	{ name: "kv", slotBytes: 65_536, slotCount: 32 },
	{ name: "indexer", slotBytes: 4_096, slotCount: 32 },
];
const HUGE = 13835058055282163713n;

overAllRigs(
	"independent hints",
	[
		["portable", "zmq"],
		["nixl", "zmq"],
		["portable", "nats"],
		["portable", "memory"],
	],
	(rig) => {
		it("one hint with every outcome of a healthy source", async () => {
			const source = await rig.worker("source", { pools: POOLS });
			const target = await rig.worker("target", { pools: POOLS });
			const three = ["kv", "kv", "indexer"];
			await source.call("deposit", [
				{ key: key(HUGE), layout: ["kv"] },
				{ key: key(2n), layout: three },
				{ key: key(3n), layout: ["kv"] },
				{ key: key(7n, 1), layout: ["kv"] },
				{ key: key(7n, 2), layout: ["kv"] },
			]);
			await target.call("deposit", [{ key: key(3n), layout: ["kv"] }]);
			// Known to the adapter and not in managed memory.
			await source.call("learn", [key(5n)]);
			const hashes = [HUGE, 2n, 3n, 4n, 5n, 7n];
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes, scope: "independent" }),
				"carrier",
			);
			await target.call("discardHint", "carrier");
			const first = await target.call("outcomes", hashes.length);
			expect(byHash(first)).toEqual(
				new Map([
					[HUGE, "placed"],
					[2n, "placed"],
					[3n, "already_resident"],
					[4n, "not_found"],
					[5n, "not_resident"],
					[7n, "ambiguous_hash"],
				]),
			);
			const fetched = await target.call("fetch", [key(HUGE), key(2n), key(3n)]);
			expectRightBytes(fetched);
			await release(target, fetched);
			expectRightBytes(
				await target.call("deliver", [{ key: key(2n), layout: three }]),
			);

			// The collision ends, and the hash names one block again.
			await source.call("forget", [key(7n, 2)]);
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [7n] }),
			);
			const all = await target.call("outcomes", hashes.length + 1);
			expect(all.at(-1)).toMatchObject({ hash: 7n, outcome: "placed" });
			expectRightBytes(await target.call("deliver", [{ key: key(7n, 1) }]));
			await expectDrained(source);
			await expectDrained(target);
			expect(await source.close()).toBe(0);
			expect(await target.close()).toBe(0);
		});

		it("several actions of one envelope, each with its own source, scope and mode", async () => {
			const [a, b, target] = await Promise.all([
				rig.worker("a"),
				rig.worker("b"),
				rig.worker("target"),
			]);
			await a.call("deposit", [{ key: key(1n) }, { key: key(2n) }]);
			await b.call("deposit", [{ key: key(3n) }, { key: key(4n) }]);
			await target.call(
				"submitHint",
				hint(
					{ source: a.endpoint, hashes: [1n], scope: "independent" },
					{
						source: b.endpoint,
						hashes: [3n],
						scope: "independent",
						mode: "move",
					},
					{ source: b.endpoint, hashes: [4n], scope: "request" },
				),
				"r",
			);
			expect(byHash(await target.call("outcomes", 2))).toEqual(
				new Map([
					[1n, "placed"],
					[3n, "placed"],
				]),
			);
			expect(await target.call("query", [key(4n), key(2n)], "r")).toEqual([
				{ status: "FETCHABLE", tier: "REMOTE_G2" },
				{ status: "MISS" },
			]);
			expectRightBytes(await target.call("deliver", [{ key: key(4n) }], "r"));
			// Moved: the source drops its copy and says so.
			await expect
				.poll(async () => (await b.call("query", [key(3n)]))[0])
				.toEqual({ status: "MISS" });
			expect((await b.call("inventory")).at(-1)).toMatchObject({
				removed: true,
			});
			await target.call("discardHint", "r");
			await expectDrained(a);
			await expectDrained(b);
			await expectDrained(target);
		});

		it("a hint to oneself is refused before any look-up", async () => {
			const worker = await rig.worker("self", {
				...(rig.channel === "zmq" && {
					advertise: ["tcp://127.0.0.1", "tcp://localhost"],
				}),
			});
			await worker.call("deposit", [{ key: key(1n) }]);
			const own = worker.endpoint;
			const aliases =
				rig.channel === "zmq"
					? [own, own.replace("127.0.0.1", "localhost")]
					: [own];
			for (const [index, source] of aliases.entries()) {
				await worker.call(
					"submitHint",
					hint({ source, hashes: [1n, 2n], mode: "move" }),
				);
				const outcomes = await worker.call("outcomes", 2 * (index + 1));
				expect(outcomes.slice(-2).map(({ outcome }) => outcome)).toEqual([
					"self_source",
					"self_source",
				]);
			}
			expect(await worker.call("lookups")).toBe(0);
			expectRightBytes(await worker.call("deliver", [{ key: key(1n) }]));
			await expectDrained(worker);
		});

		it("a hint without a request ID, to a peer that does not exist", async () => {
			const worker = await rig.worker("alone", { operationTimeoutMs: 300 });
			const source = {
				zmq: "tcp://127.0.0.1:9",
				nats: "nats://kvcr.nobody",
				memory: "memory://nobody",
			}[rig.channel];
			await worker.call("submitHint", hint({ source, hashes: [1n, 2n] }));
			const outcomes = await worker.call("outcomes", 2);
			for (const { outcome } of outcomes)
				expect(["timeout", "peer_unreachable"]).toContain(outcome);
			await expectDrained(worker);
			expect(await worker.close()).toBe(0);
		});

		it("resolution is answered while the source's owner holds the state lock, and while it does not poll", async () => {
			const source = await rig.worker("source");
			const target = await rig.worker("target", { operationTimeoutMs: 3000 });
			await source.call("deposit", [{ key: key(1n) }]);
			await source.call("poll", false);
			await source.call("lock", true);
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [1n, 9n] }),
			);
			// Not found is final with the reply alone; the write waits for the owner.
			expect(byHash(await target.call("outcomes", 1))).toEqual(
				new Map([[9n, "not_found"]]),
			);
			await source.call("lock", false);
			await source.call("poll", true);
			expect(byHash(await target.call("outcomes", 2)).get(1n)).toBe("placed");
			await expectDrained(source);
			await expectDrained(target);
		});
	},
);
