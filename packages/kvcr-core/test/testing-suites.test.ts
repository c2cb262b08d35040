import { describe, it } from "vitest";
import {
	controlChannelSuite,
	MemoryFabric,
	MemoryNetwork,
	transferAgentSuite,
} from "../src/testing/index.js";

const network = new MemoryNetwork({ maxQueued: 20_000 });
let channels = 0;
const nameOf = (endpoint?: string) =>
	endpoint?.slice("memory://".length) ?? `c${channels++}`;
controlChannelSuite(
	{ describe, it },
	{
		name: "MemoryChannel",
		create: (endpoint) => network.channel(nameOf(endpoint)),
		createAddressless: () => network.channel(nameOf(), { addressless: true }),
		absentEndpoint: () => "memory://nobody",
	},
);

const fabric = new MemoryFabric({ agents: { incomingWakes: "expected" } });
let agents = 0;
transferAgentSuite(
	{ describe, it },
	{
		name: "ScriptedTransferAgent",
		create: (name = `agent${agents++}`) => fabric.agent(name),
		refusesReleasedTargets: true,
	},
);
