/** Endpoints of this transport: `tcp://host:port`, IPv6 addresses in brackets. */
import { isIPv4, isIPv6 } from "node:net";
import { InvalidEndpointError } from "kvcr-core";

/** A parsed endpoint. */
export interface TcpEndpoint {
	/** Host name or address, without brackets. */
	readonly host: string;
	/** 1 to 65535; 0 only where a free port is meant. */
	readonly port: number;
}

const SHAPE =
	/^tcp:\/\/(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253}))(?::(\d{1,5}))?$/;

/**
 * Parses an endpoint; `undefined` for anything else. Nothing that the underlying library would read as more than a host and
 * a port (interface names with source addresses, other transports) gets through.
 */
export function parseEndpoint(
	text: unknown,
	portOptional = false,
): TcpEndpoint | undefined {
	if (typeof text !== "string") return undefined;
	const match = SHAPE.exec(text);
	if (match === null) return undefined;
	const [, v6, name, digits] = match;
	if (digits === undefined && !portOptional) return undefined;
	const port = Number(digits ?? 0);
	if (port > 65_535 || (port === 0 && !portOptional)) return undefined;
	if (v6 !== undefined) return isIPv6(v6) ? { host: v6, port } : undefined;
	return { host: name as string, port };
}

/** The text of an endpoint. */
export function formatEndpoint({ host, port }: TcpEndpoint): string {
	return isIPv6(host) ? `tcp://[${host}]:${port}` : `tcp://${host}:${port}`;
}

/** Whether a host is spelled as a numeric address. */
export function isAddress(host: string): boolean {
	return isIPv4(host) || isIPv6(host);
}

/**
 * Parses an endpoint that a channel would tell its peers; the port may be left out or 0 for the one bound.
 * @throws InvalidEndpointError also for a wildcard, which names nobody in particular
 */
export function parseAdvertised(
	operation: string,
	text: unknown,
	isWildcard: (host: string) => boolean,
): TcpEndpoint {
	const parsed = parseEndpoint(text, true);
	if (parsed === undefined || isWildcard(parsed.host))
		throw new InvalidEndpointError(
			operation,
			text,
			"tcp://host:port that peers can connect to, not a wildcard",
		);
	return parsed;
}
