/** Running the programs a release is made of: what fails ends it, with the program's own words. */
import { run, tail } from "../bootstrap/lib/exec.mjs";

const TIMEOUT_MS = 120_000;

/**
 * Runs a program to its good end.
 *
 * @param {string} program
 * @param {readonly string[]} args
 * @param {string} cwd
 * @param {{ timeoutMs?: number, env?: NodeJS.ProcessEnv, show?: boolean }} [options] `show`: print its output as it comes
 * @returns {Promise<string>} what it said
 * @throws Error with the tail of what it said
 */
export async function must(program, args, cwd, options = {}) {
	const { timeoutMs = TIMEOUT_MS, env = {}, show = false } = options;
	const { code, output } = await run(program, args, {
		cwd,
		timeoutMs,
		env: { ...process.env, ...env },
		...(show ? { onOutput: (text) => process.stdout.write(text) } : {}),
	});
	if (code !== 0)
		throw new Error(
			`${program} ${args.join(" ")} failed:\n${tail(output, 40)}`,
		);
	return output;
}

/**
 * Whether a program ends well.
 *
 * @param {string} program
 * @param {readonly string[]} args
 * @param {string} cwd
 */
export async function succeeds(program, args, cwd) {
	const { code } = await run(program, args, { cwd, timeoutMs: TIMEOUT_MS });
	return code === 0;
}
