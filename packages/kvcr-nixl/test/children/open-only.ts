/**
 * Creates an agent with the given options (JSON) and prints what became of it: the error's code and message, or the
 * agent's info.
 */
import { NixlTransferAgent } from "../../src/index.js";

try {
	const agent = await NixlTransferAgent.create(
		JSON.parse(process.argv[2] ?? "{}"),
	);
	console.log(
		JSON.stringify({
			info: agent.info,
			memoryEvents: process.env.UCX_MEM_EVENTS,
		}),
	);
	await agent.close();
} catch (error) {
	const { code, message } = error as { code?: string; message: string };
	console.log(JSON.stringify({ code, message }));
}
