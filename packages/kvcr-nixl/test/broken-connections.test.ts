import { describe, expect, it } from "vitest";
import { missingNixl, runChild } from "./helpers.js";
import { OVER_RELAYS } from "./relay.js";

/** What the child says that happened. */
async function happens(
	mode: string,
	env: Record<string, string> = {},
): Promise<unknown[]> {
	const ended = await runChild("connections.ts", [mode], {
		...OVER_RELAYS,
		...env,
	});
	expect(ended, ended.stderr).toMatchObject({ code: 0, signal: null });
	return JSON.parse(ended.stdout) as unknown[];
}

const suite = missingNixl === undefined ? describe.concurrent : describe.skip;

suite("a connection between two living peers", () => {
	it("that breaks costs one write, then the peer has to introduce itself, and all is well", async () => {
		expect(await happens("idleReset")).toEqual([
			"done",
			"failed",
			"ERR_KVCR_STALE_REMOTE",
			"ERR_KVCR_STALE_REMOTE",
			"done",
			"done",
			true,
			"ERR_KVCR_STALE_REMOTE",
		]);
	});

	it("that breaks under writes is made again only after all of them have ended", async () => {
		expect(await happens("busyReset")).toEqual([
			"done",
			"ERR_KVCR_REMOTE_BUSY",
			"failed",
			"failed",
			"failed",
			"ERR_KVCR_STALE_REMOTE",
			"ERR_KVCR_STALE_REMOTE",
			"done",
		]);
	});

	it("that breaks while the peer is not loaded is noticed by the first write", async () => {
		expect(await happens("removedReset")).toEqual([
			"done",
			"ERR_KVCR_STALE_REMOTE",
			"failed",
			"ERR_KVCR_STALE_REMOTE",
			"done",
		]);
	});

	it("is kept when the peer is removed and added again, and not made for what is refused", async () => {
		expect(await happens("files")).toEqual([
			"done",
			true,
			true,
			"ERR_KVCR_INVALID_METADATA",
		]);
	});

	it.each([
		["in the background", "y", "failed"],
		["at once", "n", "ERR_KVCR_TRANSFER_AGENT"],
	])(
		"that cannot be made, which shows %s, can be made later",
		async (_when, setting, failure) => {
			expect(
				await happens("comesAndGoes", { UCX_TCP_CONN_NB: setting }),
			).toEqual([failure, failure, failure, "done", "done"]);
		},
	);

	it("holds nothing up while nobody answers", async () => {
		const [longest] = await happens("silence");
		expect(longest).toBeLessThan(1_000);
	});
});
