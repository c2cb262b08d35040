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
let refused = 0;
for (let i = 0; i < rounds; i += 1) {
	const blob = Buffer.from(whole);
	const kind = i % 3;
	if (kind === 0) {
		for (let n = 1 + random(3); n > 0; n -= 1)
			blob[random(blob.length)] = random(256);
	} else if (kind === 1) {
		const at = random(blob.length);
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
