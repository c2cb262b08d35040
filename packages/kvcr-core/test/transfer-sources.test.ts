import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Incarnation } from "../src/index.js";
import { encodeControlMessage } from "../src/protocol/index.js";
import { Cluster, hint, key, type Peer } from "./support/cluster.js";

describe("what a destination believes about its sources", () => {
	let cluster: Cluster;
	let source: Peer;
	let target: Peer;

	beforeEach(async () => {
		cluster = new Cluster();
		source = await cluster.peer("source");
		target = await cluster.peer("target");
		cluster.deposit(source, key(1n), key(2n));
		target.kvcr.submitHint(hint(source.endpoint, [1n]));
		cluster.settle();
	});
	afterEach(() => cluster.close());

	/** A stranger claims that another process answers at the source's endpoint now. */
	async function forge(): Promise<void> {
		const stranger = cluster.network.channel("stranger");
		await stranger.start(() => {});
		const header = {
			targetAgent: "agent-stranger",
			senderIncarnation: "f".repeat(32) as Incarnation,
			senderControlEndpoint: source.endpoint,
		};
		for (const message of [
			encodeControlMessage({ type: "target_metadata_ack", header }),
			encodeControlMessage({
				type: "hashes_resolved",
				header,
				resolutionId: 1n,
				results: [],
			}),
		])
			stranger.send(target.endpoint, message);
	}

	it("an acknowledgement or a reply that nobody asked for replaces nothing", async () => {
		await forge();
		cluster.settle();
		target.kvcr.submitHint(hint(source.endpoint, [2n]), "r");
		target.kvcr.fetch([key(2n)], { requestId: "r" });
		cluster.settle();
		expect(target.results.at(-1)?.entries[0]?.status).toBe("SUCCESS");
		// The write was asked of the right incarnation at once: nothing was refused.
		expect(source.kvcr.stats().counters).not.toHaveProperty([
			'kvcr_writes_refused_total{side="source",reason="dead_incarnation"}',
		]);
		target.kvcr.discardHint("r");
	});

	it("a transfer under way is not given up because a stranger says so", async () => {
		source.polling = false;
		const hold = source.kvcr.lockState();
		target.kvcr.submitHint(hint(source.endpoint, [2n]), "r");
		target.kvcr.fetch([key(2n)], { requestId: "r" });
		cluster.settle();
		await forge();
		cluster.settle();
		hold.release();
		source.polling = true;
		cluster.settle();
		expect(target.results.at(-1)?.entries[0]?.status).toBe("SUCCESS");
		target.kvcr.discardHint("r");
	});
});
