/** What must be left of finished operations: nothing. */
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

/** Blocks resident in a peer's managed memory and peers that can write to it or be written to, for both kinds of peer. */
export async function connectedTargets(peer: Peer): Promise<number> {
	if (peer instanceof Worker) return (await peer.call("stats")).peers.targets;
	if (!(peer instanceof PythonPeer)) throw new Error("unknown kind of peer");
	return (await peer.call("state")).gauges.connected_remotes ?? -1;
}
