import { expect, it } from "vitest";
import { key } from "./harness/blocks.js";
import { expectDrained, expectRightBytes, release } from "./harness/expect.js";
import { hint } from "./harness/hint.js";
import { overAllRigs } from "./harness/rigs.js";

overAllRigs(
	"request scope",
	[
		["portable", "zmq"],
		["nixl", "zmq"],
		["portable", "nats"],
		["portable", "memory"],
	],
	(rig) => {
		it("advice is followed by a later fetch and a later deliver of its request", async () => {
			const source = await rig.worker("source");
			const target = await rig.worker("target");
			await source.call("deposit", [{ key: key(1n) }, { key: key(2n) }]);
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [1n, 2n, 3n] }),
				"r",
			);
			const fetched = await target.call("fetch", [key(1n)], { requestId: "r" });
			expectRightBytes(fetched);
			expectRightBytes(await target.call("deliver", [{ key: key(2n) }], "r"));
			// What the source lacks is remembered.
			expect(
				await target.call("fetch", [key(3n)], { requestId: "r" }),
			).toMatchObject([{ status: "FAILED", reason: "not_at_source" }]);
			expect(await target.call("query", [key(3n)], "r")).toEqual([
				{ status: "MISS" },
			]);
			// Another request has no advice.
			expect(
				await target.call("fetch", [key(2n)], { requestId: "other" }),
			).toMatchObject([{ status: "FAILED", reason: "no_source" }]);
			await release(target, fetched);
			await target.call("discardHint", "r");
			await expectDrained(source);
			await expectDrained(target);
		});

		it("the source serves framework memory under a pin when managed memory does not have the block", async () => {
			const source = await rig.worker("source", {
				frameworkBlocks: [{ key: key(1n), layout: ["kv"] }],
			});
			const target = await rig.worker("target");
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [1n], allowFramework: false }),
				"denied",
			);
			expect(
				await target.call("fetch", [key(1n)], { requestId: "denied" }),
			).toMatchObject([{ status: "FAILED", reason: "not_at_source" }]);
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [1n] }),
				"allowed",
			);
			const fetched = await target.call("fetch", [key(1n)], {
				requestId: "allowed",
			});
			expectRightBytes(fetched);
			await release(target, fetched);
			await target.call("discardHint", "denied");
			await target.call("discardHint", "allowed");
			await expectDrained(source);
			await expectDrained(target);
		});

		it("a malformed hint changes nothing", async () => {
			const target = await rig.worker("target");
			const envelope = hint(
				{ source: "tcp://127.0.0.1:9", hashes: [1n] },
				{ source: "tcp://127.0.0.1:9", hashes: [2n] },
			).replace('"mode":"copy"', '"mode":"borrow"');
			await expect(
				target.call("submitHint", envelope, "r"),
			).rejects.toMatchObject({
				code: "ERR_KVCR_INVALID_HINT",
				message: expect.stringMatching(/mode.*borrow/),
			});
			expect((await target.call("stats")).advice).toBe(0);
		});
	},
);
