/** A process that has used up its sockets. In a file of its own: the limit is that of the process. */
import { expect, it } from "vitest";
import { context, Pull } from "zeromq";
import { ZmqControlChannel } from "../src/index.js";

it("closes although no socket is left to watch that with", async () => {
	context.maxSockets = 4;
	const channel = new ZmqControlChannel();
	await channel.start(() => {});
	const others: Pull[] = [];
	expect(() => {
		for (;;) others.push(new Pull());
	}).toThrow("Too many open");
	await channel.close();
	await channel.close();
	for (const other of others) other.close();
});
