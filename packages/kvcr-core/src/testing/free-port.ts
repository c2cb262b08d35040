import { createServer } from "node:net";

/** Below the range that outgoing connections get their ports from: what restarts must find its port still free. */
const FIRST = 20_000;
const LAST = 31_999;

/** Each process looks in a part of its own first, so that two of them seldom hand out the same port. */
const STEP = 200;
let next = (process.pid * STEP) % (LAST - FIRST + 1);

/**
 * A TCP port at which nobody listens at this moment, for servers that a test stops and starts again at the same port.
 *
 * @param host Address of this machine to listen on; `127.0.0.1` by default.
 * @throws Error when none is free.
 */
export async function freePort(host = "127.0.0.1"): Promise<number> {
	for (let tries = 0; tries <= LAST - FIRST; tries += 1) {
		const port = FIRST + next;
		next = (next + 1) % (LAST - FIRST + 1);
		if (await isFree(port, host)) return port;
	}
	throw new Error(`freePort: no port of ${host} is free`);
}

async function isFree(port: number, host: string): Promise<boolean> {
	const probe = createServer();
	const free = await new Promise<boolean>((resolve) => {
		probe.once("error", () => resolve(false));
		probe.listen(port, host, () => resolve(true));
	});
	if (free) await new Promise((resolve) => probe.close(resolve));
	return free;
}
