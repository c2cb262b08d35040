/** A NATS server for the tests: the one in PATH, or Debian's, unpacked into `.cache/`. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { hasApt, unpackDebian } from "../lib/debian.mjs";
import { run, which } from "../lib/exec.mjs";

/** @type {import("../lib/part.mjs").Part} */
export const natsServer = {
	name: "nats-server",
	required: false,
	async ensure(context) {
		const { cache, env, log } = context;
		const home = join(cache, "nats-server");
		const unpacked = join(home, "usr/sbin/nats-server");
		let server = env.KVCR_NATS_SERVER ?? which("nats-server", env) ?? unpacked;
		if (!existsSync(server)) {
			if (!hasApt(env))
				return {
					status: "skipped",
					reason:
						"no nats-server in PATH and no apt-get to fetch one; install NATS server 2.9 or newer",
				};
			log("fetching Debian's nats-server");
			await unpackDebian(["nats-server"], home, context);
			server = unpacked;
		}
		const { code, output } = await run(server, ["--version"], {
			env,
			timeoutMs: 10_000,
		});
		return code === 0
			? {
					status: "ready",
					detail: output.trim(),
					env: { KVCR_NATS_SERVER: server },
				}
			: {
					status: "skipped",
					reason: `${server} does not run: ${output.trim()}`,
				};
	},
};
