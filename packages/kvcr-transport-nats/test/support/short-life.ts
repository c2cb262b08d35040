/** A process that uses everything once and must then end by itself. Argument: the server's address. */
import {
	listenForHints,
	NatsControlChannel,
	watchPeers,
} from "../../src/index.js";

const servers = process.argv[2] ?? "";
const channel = new NatsControlChannel({ connect: { servers } });
const arrived = new Promise<void>((resolve) => {
	void channel
		.start(() => resolve())
		.then(() => channel.send(channel.endpoint ?? "", Uint8Array.of(1)));
});
await arrived;
const hints = await listenForHints(channel, { submit: () => {} });
const watch = await watchPeers(channel);
await watch.close();
await hints.close();
await channel.close();
console.log("closed");
