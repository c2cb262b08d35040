/** Which transfer agent the demo runs over: NIXL where it can be had, the portable one with a reason where not. */
import type { TransferAgent } from "kvcr-core";
import { PortableTransferAgent } from "kvcr-core/portable";
import { UsageError } from "./usage-error.js";

/** Kinds of agents. */
export type AgentKind = "nixl" | "portable";

/** The kind to use, and why it is not NIXL when it is not. */
export interface AgentChoice {
	readonly kind: AgentKind;
	readonly reason?: string;
}

/** Makes an agent of a kind. @throws what its package throws, for `nixl` also when the addon is not built. */
export async function createAgent(kind: AgentKind): Promise<TransferAgent> {
	if (kind === "portable") return PortableTransferAgent.create();
	const { NixlTransferAgent } = await import("kvcr-nixl");
	return NixlTransferAgent.create();
}

/** Tries NIXL once. `wanted` set: that kind and no other. @throws UsageError when it is not to be had */
export async function chooseAgent(
	wanted: string | undefined,
): Promise<AgentChoice> {
	if (wanted === "portable") return { kind: "portable", reason: "asked for" };
	try {
		await (await createAgent("nixl")).close();
		return { kind: "nixl" };
	} catch (error) {
		const reason = error instanceof Error ? error.message : String(error);
		if (wanted === "nixl")
			throw new UsageError(`demo: there is no NIXL here: ${reason}`);
		return { kind: "portable", reason };
	}
}
