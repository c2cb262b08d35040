import { expect, it } from "vitest";
import { key } from "./harness/blocks.js";
import { expectDrained, release } from "./harness/expect.js";
import { hint } from "./harness/hint.js";
import { overRigs } from "./harness/rigs.js";

overRigs("connections that break", [["nixl", "zmq"]], (rig) => {
	it("between two living peers are made again, and no fetch fails of it", async () => {
		const relayed = {
			behindRelay: true,
			operationTimeoutMs: 5_000,
			abandonTimeoutMs: 10_000,
		};
		const source = await rig.worker("source", relayed);
		const target = await rig.worker("target", relayed);
		const blocks = Array.from({ length: 7 }, (_, i) => BigInt(i + 1));
		await source.call(
			"deposit",
			blocks.map((hash) => ({ key: key(hash) })),
		);
		const fetch = async (hash: bigint) => {
			const requestId = `r${hash}`;
			await target.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [hash] }),
				requestId,
			);
			const entries = await target.call("fetch", [key(hash)], { requestId });
			await release(target, entries);
			await target.call("discardHint", requestId);
			const { status, bytesOk } = entries[0] ?? {};
			return status === "SUCCESS" ? bytesOk : status;
		};
		expect(await fetch(1n)).toBe(true);
		for (const [under, ...next] of [
			[2n, 3n, 4n],
			[5n, 6n, 7n],
		] as const) {
			await target.call("resetConnections");
			// Its write breaks off, and is asked for once more over a new connection.
			expect(await fetch(under)).toBe(true);
			for (const hash of next) expect(await fetch(hash)).toBe(true);
		}
		await expectDrained(target);
		await expectDrained(source);
		expect(await target.close()).toBe(0);
		expect(await source.close()).toBe(0);
	});
});
