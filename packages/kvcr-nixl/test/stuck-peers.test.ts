import { readFileSync } from "node:fs";
import type { MemoryRegion, RemoteAgent, TransferId } from "kvcr-core";
import { describe, expect, it, vi } from "vitest";
import { Child, createAgent, missingNixl } from "./helpers.js";
import { type Introduction, load } from "./introduction.js";

const ELEMENTS = 8;

describe.skipIf(missingNixl !== undefined)("a peer that is stuck", () => {
	it.each([
		["small", 400],
		["bulk", 200],
	] as const)(
		"with %s writes on their way to it holds up no other peer",
		async (kind, count) => {
			const stuck = new Child("peer.ts");
			const healthy = new Child("peer.ts");
			const agent = await createAgent();
			try {
				const big = await agent.createRegion({
					label: "big",
					elementBytes: 1 << 20,
					elementCount: ELEMENTS,
				});
				const small = await agent.createRegion({
					label: "small",
					elementBytes: 64,
					elementCount: 1,
				});
				const introductions = [await stuck.line(), await healthy.line()].map(
					(line) => JSON.parse(line) as Introduction,
				);
				// Before it is loaded: a peer that is stopped never completes the connection that writes need.
				await stop(stuck);
				const [toStuck, toHealthy] = introductions.map((one) =>
					load(agent, one),
				) as [RemoteAgent, RemoteAgent];
				const done = new Set<TransferId>();
				agent.attach(() => {
					for (const { transfer, outcome } of agent.takeCompletions())
						if (outcome === "done") done.add(transfer);
				});
				const write = (
					remote: RemoteAgent,
					region: MemoryRegion,
					elements = 1,
				) =>
					agent.write({
						remote,
						pairs: Array.from({ length: elements }, (_, element) => ({
							region,
							element,
							remoteRegion: region === big ? 0 : 1,
							remoteElement: element,
						})),
						notification: Buffer.from("x"),
					});
				const stuckWrites = Array.from({ length: count }, () =>
					write(toStuck, kind === "small" ? small : big),
				);
				for (let i = 0; i < 3; i += 1) {
					const transfer = write(toHealthy, big, ELEMENTS);
					await vi.waitFor(() => expect(done).toContain(transfer), {
						timeout: 10_000,
						interval: 5,
					});
				}
				expect(stuckWrites.filter((transfer) => done.has(transfer))).toEqual(
					[],
				);
			} finally {
				stuck.process.kill("SIGKILL");
				healthy.process.kill("SIGKILL");
				await Promise.all([stuck.ended, healthy.ended]);
				await agent.close().catch(() => {});
			}
		},
	);
});

/** Stops a child, and waits until it has stopped. */
async function stop({ process: child }: Child): Promise<void> {
	child.kill("SIGSTOP");
	await vi.waitFor(() =>
		expect(readFileSync(`/proc/${child.pid}/stat`, "latin1")).toMatch(/\) T /),
	);
}
