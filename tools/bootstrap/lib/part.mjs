/**
 * The contract of a bootstrap part: one file in `parts/`, one thing it makes available.
 */

/**
 * @typedef {object} Context
 * @property {string} root the repository's root
 * @property {string} cache the folder a part keeps its things in (below it, a folder of its own)
 * @property {NodeJS.ProcessEnv} env the environment built up by the parts that ran before
 * @property {(line: string) => void} log prints one line of progress
 */

/**
 * What a part answers. `env` is merged into the environment of later parts and of everything
 * the bootstrap was run for; a `PATH` there is put in front of the present one.
 *
 * @typedef {{ status: "ready", detail: string, env?: Record<string, string> }
 *   | { status: "skipped", reason: string }} Outcome
 */

/**
 * @typedef {object} Part
 * @property {string} name as it appears in lists, in `needs` of test steps and on the command line
 * @property {boolean} required without a required part nothing else can run; an optional one may be
 *   skipped, except where `CI=true`
 * @property {(context: Context) => Promise<Outcome>} ensure finds the thing, or fetches it. Runs every
 *   time, so it must be quick when there is nothing to do. Throws {@link BootstrapError}.
 */

/**
 * What became of one part in a run.
 *
 * @typedef {object} PartResult
 * @property {string} name
 * @property {"ready" | "skipped" | "failed"} status
 * @property {string} detail what was found, or why not
 * @property {Record<string, string>} [env] what the part added to the environment, without `PATH`
 */

/**
 * What came of every part when it last ran; kept in `.cache/bootstrap.json` for test configurations to read.
 *
 * @typedef {object} State
 * @property {PartResult[]} parts
 */

/** A part could not do its work; the message is one paragraph that says what to do about it. */
export class BootstrapError extends Error {
	/** Machine-readable kind of the error. */
	code = "ERR_KVCR_BOOTSTRAP";

	/**
	 * @param {string} message
	 * @param {ErrorOptions} [options]
	 */
	constructor(message, options) {
		super(message, options);
		this.name = "BootstrapError";
	}
}
