/** The sequence frame of a batch: a number in eight bytes, as vLLM's publishers send it. */
export function sequence(seq: number): Buffer {
	const bytes = Buffer.alloc(8);
	bytes.writeBigUInt64BE(BigInt(seq));
	return bytes;
}
