/** The contract of a `TransferAgent`, as tests. */
import { AgentRig, type TransferAgentFactory } from "./agent-rig.js";
import type { SuiteRunner } from "./runner.js";
import { getterTests } from "./transfer-getters.js";
import { lifeTests } from "./transfer-life.js";
import { memoryTests } from "./transfer-memory.js";
import { remoteTests } from "./transfer-remotes.js";
import { writeTests } from "./transfer-writes.js";

/** Declares one test that gets a fresh rig. */
export type AgentTest = (
	name: string,
	body: (rig: AgentRig) => Promise<void>,
) => void;

/**
 * Declares the tests of the `TransferAgent` contract.
 *
 * ```ts
 * import { describe, it } from "vitest"; // or "node:test", or the globals of jest
 * transferAgentSuite({ describe, it }, { name: "mine", create: (agentName) => new MyAgent(agentName) });
 * ```
 */
export function transferAgentSuite(
	{ describe, it }: SuiteRunner,
	factory: TransferAgentFactory,
): void {
	const test: AgentTest = (name, body) => {
		it(name, async () => {
			const rig = new AgentRig(factory);
			let failed = true;
			try {
				await body(rig);
				failed = false;
			} finally {
				// What the body found out says more than what closing finds out after it.
				await rig.end().catch((error: unknown) => {
					if (!failed) throw error;
				});
			}
		});
	};

	describe(`TransferAgent contract: ${factory.name}`, () => {
		describe("memory", () => memoryTests(test));
		describe("writes", () => writeTests(test));
		describe("writes with getters", () => getterTests(test));
		describe("remotes", () => remoteTests(test, factory));
		describe("life cycle", () => lifeTests(test, factory));
	});
}
