/** Host names and addresses as agents bind and advertise them. */
import { InvalidEndpointError } from "../ports/errors.js";

/** Longest host name, in characters. */
const MAX_HOST = 255;

/** Addresses that mean "every interface" in the canonical form of the URL parser. */
const WILDCARDS = new Set(["0.0.0.0", "[::]", "[::ffff:0:0]"]);

/**
 * Whether a host names every interface instead of one place: `0.0.0.0`, `::`, `*`, the empty string, or another spelling
 * of these. Anything that is no host at all counts as well, since nobody could connect to it.
 */
export function isWildcardHost(host: string): boolean {
	if (host === "" || host === "*") return true;
	const literal = host.includes(":") ? `[${host}]` : host;
	try {
		return WILDCARDS.has(new URL(`http://${literal}/`).hostname);
	} catch {
		return true;
	}
}

/**
 * Checks a host that peers are to connect to.
 * @throws InvalidEndpointError
 */
export function checkAdvertisedHost(operation: string, host: unknown): string {
	if (
		typeof host !== "string" ||
		host.length > MAX_HOST ||
		/[\s/@?#[\]]/.test(host) ||
		isWildcardHost(host)
	) {
		throw new InvalidEndpointError(
			operation,
			host,
			"a host that peers can connect to, not a wildcard (give an advertised host when binding to all interfaces)",
		);
	}
	return host;
}

/** Whether a value is a TCP port one can connect to. */
export function isPort(value: unknown): value is number {
	return (
		Number.isInteger(value) &&
		(value as number) > 0 &&
		(value as number) < 65_536
	);
}
