/** A rule that did not hold. */

/** One broken rule: which, and how it showed. */
export class SimViolation extends Error {
	/** Name of the rule, such as `"close"`. */
	readonly rule: string;

	/** @param message how it showed, without the name of the rule */
	constructor(rule: string, message: string) {
		super(`${rule}: ${message}`);
		this.rule = rule;
	}
}

/** Keeps the first broken rule: what follows it is its consequence. Instances swallow what is thrown inside of them. */
export class Verdict {
	first: SimViolation | undefined;

	readonly broken = (rule: string, message: string): void => {
		this.first ??= new SimViolation(rule, message);
	};
}
