/** Waiting for peers: until nothing is left of finished operations, until they are connected, until they stand still. */
import { readdirSync, readFileSync } from "node:fs";
import { expect } from "vitest";
import { expectDrained } from "../harness/expect.js";
import { Worker } from "../harness/worker-handle.js";
import type { Peer } from "./pairs.js";
import { PythonPeer, type PythonState } from "./python-peer.js";

/** Waits until a peer has no operation, transfer, pin or claim left. Advice must have been discarded before. */
export async function expectSettled(peer: Peer): Promise<void> {
	if (peer instanceof Worker) return expectDrained(peer);
	if (!(peer instanceof PythonPeer)) throw new Error("unknown kind of peer");
	await expect
		.poll(async () => settledPart(await peer.call("state")), {
			timeout: 15_000,
			interval: 50,
		})
		.toEqual({ open: 0, pins: 0, framework: 0, claimed: 0 });
}

function settledPart({ gauges, pins }: PythonState): Record<string, number> {
	const { local_g2_allocated_slots = 0, local_g2_evictable_slots = 0 } = gauges;
	return {
		open: gauges.in_flight_ops ?? -1,
		pins,
		framework: gauges.framework_pins ?? -1,
		claimed: local_g2_allocated_slots - local_g2_evictable_slots,
	};
}

/** Targets whose memory a peer can write to. */
export async function connectedTargets(peer: Peer): Promise<number> {
	if (peer instanceof Worker) return (await peer.call("stats")).peers.targets;
	if (!(peer instanceof PythonPeer)) throw new Error("unknown kind of peer");
	return (await peer.call("state")).gauges.connected_remotes ?? -1;
}

/** Stops a peer and waits until every thread of it stands still, which takes a while on a busy machine. */
export async function standStill(peer: Peer): Promise<void> {
	peer.signal("SIGSTOP");
	await expect
		.poll(() => threadStates(peer.pid), { timeout: 5_000, interval: 5 })
		.toMatch(/^T+$/);
}

function threadStates(pid: number): string {
	const tasks = `/proc/${pid}/task`;
	return readdirSync(tasks)
		.map((task) => {
			const status = readFileSync(`${tasks}/${task}/status`, "utf8");
			return /^State:\s+(\S)/m.exec(status)?.[1] ?? "?";
		})
		.join("");
}
