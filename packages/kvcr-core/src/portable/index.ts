/**
 * The portable transfer agent: the data path of KVCR over plain TCP, for development, tests and machines without RDMA.
 *
 * ```ts
 * const agent = await PortableTransferAgent.create();
 * const region = await agent.createRegion({ label: "kv", elementBytes: 65536, elementCount: 1024 });
 * // agent.localMetadata() and region.descriptor go to a peer, which loads them with addRemote and can then write.
 * await agent.close();
 * ```
 */
export { isWildcardHost } from "./host.js";
export {
	type PortableAgentOptions,
	PortableTransferAgent,
} from "./portable-agent.js";
