/** A rule that did not hold. */

/** One broken rule: which, and how it showed. */
export class SimViolation extends Error {
	readonly rule: string;

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
