/** How the agents of two processes get to know each other in tests: one line of JSON. */
import type { MemoryRegion, RegionDescriptor, RemoteAgent } from "kvcr-core";
import type { NixlTransferAgent } from "../src/index.js";

/** What one side tells the other. */
export interface Introduction {
	readonly metadata: string;
	readonly regions: readonly (Omit<RegionDescriptor, "addr"> & {
		readonly addr: string;
	})[];
}

/** The introduction of an agent with some of its regions. */
export function introduce(
	agent: NixlTransferAgent,
	regions: readonly MemoryRegion[],
): Introduction {
	return {
		metadata: Buffer.from(agent.localMetadata()).toString("base64"),
		regions: regions.map(({ descriptor }) => ({
			...descriptor,
			addr: String(descriptor.addr),
		})),
	};
}

/** Loads the agent behind an introduction. */
export function load(
	agent: NixlTransferAgent,
	{ metadata, regions }: Introduction,
): RemoteAgent {
	return agent.addRemote(
		Buffer.from(metadata, "base64"),
		regions.map((region) => ({ ...region, addr: BigInt(region.addr) })),
	);
}
