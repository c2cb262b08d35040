import { afterEach, beforeEach, expect, it } from "vitest";
import { Cluster, entriesOf, hint, key, type Peer } from "./support/cluster.js";

const A = key(1n);

let cluster: Cluster;

beforeEach(() => {
	cluster = new Cluster();
});
afterEach(() => cluster.close());

function fetched(target: Peer, source: Peer): string | undefined {
	target.kvcr.submitHint(
		hint(source.endpoint, [target.adapter.decode(A)]),
		"r",
	);
	const handle = target.kvcr.fetch([A], { requestId: "r" });
	cluster.run(2_000, 100);
	return entriesOf(target, handle)?.[0]?.status;
}

it("a peer with more metadata than maxMetadataBytes is not loaded, one with as much is", async () => {
	const target = await cluster.peer("target");
	const size = target.agent.localMetadata().byteLength;
	const strict = await cluster.peer("strict", {
		limits: { maxMetadataBytes: size - 1 },
	});
	const exact = await cluster.peer("exact", {
		limits: { maxMetadataBytes: size },
	});
	cluster.deposit(strict, A);
	cluster.deposit(exact, A);

	expect(fetched(target, strict)).toBe("FAILED");
	expect(strict.kvcr.stats().peers.targets).toBe(0);
	expect(strict.agent.remoteCount).toBe(0);
	target.kvcr.discardHint("r");
	expect(fetched(target, exact)).toBe("SUCCESS");
	expect(exact.kvcr.stats().peers.targets).toBe(1);
});
