/** The core with vLLM's keys. */
import { PortableTransferAgent } from "kvcr-core/portable";
import { MemoryNetwork } from "kvcr-core/testing";
import { TIER_BITS, VllmKeyAdapter } from "kvcr-vllm-adapter";
import { main, moveBlock } from "./two-workers.js";

main(async () => {
	const network = new MemoryNetwork();
	const adapter = new VllmKeyAdapter({ events: true });
	const blockHash = new Uint8Array(32).map((_, at) => at * 7);
	const key = adapter.encode({ blockHash, groupIndex: 0 });
	adapter.map?.add(key, TIER_BITS.DRAM);
	await moveBlock(
		async (name) => ({
			agent: await PortableTransferAgent.create(),
			channel: network.channel(name),
		}),
		adapter,
		key,
	);
});
