/**
 * Loads damaged copies of a peer's metadata: `metadata-fuzz.ts SEED ROUNDS`. Prints how many were refused; that the
 * process ends with code 0 is the point.
 */
import { InvalidMetadataError, TransferAgentError } from "kvcr-core";
import { createAgent } from "../helpers.js";

let state = Number(process.argv[2]) | 1;
const rounds = Number(process.argv[3]);
const random = (below: number) => {
	state ^= state << 13;
	state ^= state >>> 17;
	state ^= state << 5;
	return (state >>> 0) % below;
};

const [a, b] = [await createAgent(), await createAgent()];
const region = await b.createRegion({
	label: "r",
	elementBytes: 4096,
	elementCount: 4,
});
const whole = Buffer.from(b.localMetadata());
// Half of the damage goes to UCX's worker address, which is a small part of the blob and the most delicate one.
const addressAt = whole.indexOf("|c") + 10;
const addressBytes = Number(whole.readBigUInt64LE(addressAt - 8));
const place = () =>
	random(2) === 0 ? random(whole.length) : addressAt + random(addressBytes);
let refused = 0;
for (let i = 0; i < rounds; i += 1) {
	const blob = Buffer.from(whole);
	const kind = i % 3;
	if (kind === 0) {
		for (let n = 1 + random(3); n > 0; n -= 1) {
			const at = place();
			blob[at] = (blob[at] as number) ^ (1 << random(8));
		}
	} else if (kind === 1) {
		const at = place();
		for (let n = 0; n < 16 && at + n < blob.length; n += 1)
			blob[at + n] = random(256);
	}
	const bytes = kind === 2 ? blob.subarray(0, random(blob.length)) : blob;
	try {
		a.removeRemote(a.addRemote(bytes, [region.descriptor]));
	} catch (error) {
		if (
			!(error instanceof InvalidMetadataError) &&
			!(error instanceof TransferAgentError)
		)
			throw error;
		refused += 1;
	}
}
console.log(refused);
await a.close();
await b.close();
