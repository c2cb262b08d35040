import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

it("runs the conformance suites under node:test as well", () => {
	const program = `
		import { describe, it } from "node:test";
		import { MemoryNetwork, controlChannelSuite } from ${JSON.stringify(new URL("../src/testing/index.ts", import.meta.url).href)};
		const network = new MemoryNetwork({ maxQueued: 20000 });
		let next = 0;
		const create = (e) => network.channel(e ? e.slice(9) : "c" + next++);
		controlChannelSuite({ describe, it }, { name: "x", create, absentEndpoint: () => "memory://nobody" });
	`;
	const output = execFileSync(
		process.execPath,
		[
			"--import",
			"tsx",
			"--test-reporter=tap",
			"--input-type=module",
			"--eval",
			program,
		],
		{ cwd: fileURLToPath(new URL("..", import.meta.url)), encoding: "utf8" },
	);
	expect(output).toMatch(/^# pass (1[5-9]|2\d)$/m);
	expect(output).toMatch(/^# fail 0$/m);
});
