import { transferAgentSuite } from "kvcr-core/testing";
import { describe, it } from "vitest";
import { createAgent, missingNixl } from "./helpers.js";

describe.skipIf(missingNixl !== undefined)("over NIXL", () => {
	transferAgentSuite({ describe, it }, { name: "nixl", create: createAgent });
});
