/** A TCP proxy that a test can cut, or make swallow what comes back. */
import {
	type AddressInfo,
	createConnection,
	createServer,
	type Server,
	type Socket,
} from "node:net";

export class FlakyProxy {
	/** When true, nothing that the target answers is passed on. */
	swallowAnswers = false;
	/** Bytes passed on to the target so far. */
	forwarded = 0;
	/** Connections accepted so far. */
	accepted = 0;
	/** Called with the total after every piece that was passed on. */
	onForward: (total: number) => void = () => {};
	targetPort = 0;
	readonly #server: Server;
	readonly #sockets = new Set<Socket>();

	constructor() {
		this.#server = createServer((near) => {
			this.accepted += 1;
			const far = createConnection({
				host: "127.0.0.1",
				port: this.targetPort,
			});
			for (const [one, other] of [
				[near, far],
				[far, near],
			] as const) {
				this.#sockets.add(one);
				one.on("error", () => {});
				one.on("close", () => {
					this.#sockets.delete(one);
					other.destroy();
				});
			}
			near.on("data", (bytes: Buffer) => {
				far.write(bytes);
				this.forwarded += bytes.length;
				this.onForward(this.forwarded);
			});
			far.on("data", (bytes: Buffer) => {
				if (!this.swallowAnswers) near.write(bytes);
			});
		});
	}

	async listen(): Promise<number> {
		await new Promise<void>((resolve) =>
			this.#server.listen(0, "127.0.0.1", resolve),
		);
		return (this.#server.address() as AddressInfo).port;
	}

	/** Breaks every connection. */
	cut(): void {
		for (const socket of this.#sockets) socket.destroy();
	}

	async close(): Promise<void> {
		this.cut();
		await new Promise((resolve) => this.#server.close(resolve));
	}
}
