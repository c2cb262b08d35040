/** Checks of arguments that every package makes. */
import { InvalidArgumentError } from "./errors.js";

/**
 * Checks that an argument can have fields at all.
 * @param operation The call, for the error, e.g. `TransferAgent.write`.
 * @param argument Name of the argument.
 * @throws InvalidArgumentError
 */
export function checkObject(
	operation: string,
	argument: string,
	value: unknown,
): asserts value is object {
	if (typeof value === "object" && value !== null) return;
	throw new InvalidArgumentError(operation, argument, value, "an object");
}
