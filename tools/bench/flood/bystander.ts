/** The bystander of the flood bench: a process that has a channel, reads what comes and does nothing about it. */
import { makeChannel, type Place } from "./shared.js";

const place = JSON.parse(process.argv[2] ?? "{}") as Place;
const channel = makeChannel(place, "bystander");
await channel.start(() => {});
let stopping = false;
// The bench is gone without a word.
process.on("disconnect", () => stopping || process.exit(1));
process.on("message", async () => {
	stopping = true;
	await channel.close();
	process.disconnect();
});
process.send?.({ endpoint: channel.endpoint });
