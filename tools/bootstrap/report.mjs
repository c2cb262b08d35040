/** Prints what a bootstrap came to, a line per part. */

/**
 * @param {readonly import("./lib/part.mjs").PartResult[]} parts
 * @param {(line: string) => void} [print]
 */
export function report(parts, print = console.log) {
	for (const { name, status, detail } of parts)
		print(`  ${status.padEnd(7)} ${name.padEnd(16)} ${detail}`);
}
