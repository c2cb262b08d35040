import { describe, it } from "vitest";
import { PortableTransferAgent } from "../src/portable/index.js";
import { transferAgentSuite } from "../src/testing/index.js";

transferAgentSuite(
	{ describe, it },
	{
		name: "PortableTransferAgent",
		create: (name) =>
			PortableTransferAgent.create(name === undefined ? {} : { name }),
		refusesReleasedTargets: true,
	},
);
