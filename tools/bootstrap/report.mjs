/** Prints what a bootstrap came to, a line per part. */

/** @param {readonly import("./lib/part.mjs").PartResult[]} parts */
export function report(parts) {
	for (const { name, status, detail } of parts)
		console.log(`  ${status.padEnd(7)} ${name.padEnd(14)} ${detail}`);
}
