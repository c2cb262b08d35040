/** The worker process of e2e tests: one instance over real libraries, driven by commands over IPC. */
import { KvcrError } from "kvcr-core";
import type { Request, WorkerOptions } from "./commands.js";
import { createInstance } from "./instance.js";

const options = JSON.parse(process.argv[2] ?? "{}", (name, value) =>
	name === "key" ? new Uint8Array(Buffer.from(value, "hex")) : value,
) as WorkerOptions;
const { handlers } = await createInstance(options);

process.on("message", async ({ id, name, args }: Request) => {
	try {
		const handler = handlers[name] as (
			...values: readonly unknown[]
		) => unknown;
		process.send?.({ id, ok: true, value: await handler(...args) });
	} catch (error) {
		process.send?.({
			id,
			ok: false,
			error: {
				name: error instanceof Error ? error.name : "Error",
				code: error instanceof KvcrError ? error.code : "",
				message: error instanceof Error ? error.message : String(error),
			},
		});
	}
	// From here on nothing keeps the process: it must end by itself.
	if (name === "close") process.disconnect();
});
process.send?.({ id: 0, ok: true, value: handlers.info() });
