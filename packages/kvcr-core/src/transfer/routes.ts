/**
 * Routes: what a source knows about its targets. A route is one loaded generation of a target agent's metadata and regions;
 * a changed blob starts a new generation, and operations queued for the old one are refused, never written.
 */
import type {
	Clock,
	Incarnation,
	RemoteAgent,
	Timer,
	TransferAgent,
} from "../ports/index.js";
import { InvalidMetadataError } from "../ports/index.js";
import { RecencyMap } from "../progress/recency-map.js";
import type {
	MessageHeader,
	PeerMetadata,
	TransferElement,
} from "../protocol/index.js";
import { matchingLabel } from "../protocol/index.js";

/** One generation of one target. */
export interface Route {
	readonly agentName: string;
	readonly incarnation: Incarnation;
	readonly remote: RemoteAgent;
	readonly metadata: PeerMetadata;
	/** False once a newer generation replaced it, or it was dropped. */
	current: boolean;
	/** Operations that hold this route. A route in use is never dropped for being idle. */
	users: number;
	/** Clock time of the last message that used it. */
	lastUsed: number;
}

/** An element of a target, found in a route. */
export interface RoutedElement {
	/** Index into the regions given to the agent. */
	readonly regionIndex: number;
	readonly element: number;
	/** Bytes. */
	readonly size: number;
}

/** Limits of the table. */
export interface RouteTableOptions {
	/** Targets remembered at most; the longest idle is dropped for a new one. */
	readonly maxRoutes: number;
	/** Largest metadata blob accepted, in bytes. */
	readonly maxMetadataBytes: number;
	/** A route unused for this long is dropped, so that a dead peer's mappings go without anybody else's help. */
	readonly idleMs: number;
	/** Told who introduced itself with metadata that the agent accepted. */
	readonly onLoaded?: (incarnation: Incarnation) => void;
}

/** Idle routes dropped in one turn of the event loop at most: unloading a peer is native work. */
const MAX_DROPS_PER_SWEEP = 16;

export class RouteTable {
	readonly #agent: TransferAgent;
	readonly #clock: Clock;
	readonly #options: RouteTableOptions;
	#sweep: Timer | undefined;
	/** By agent name. */
	readonly #routes = new RecencyMap<string, Route>();
	readonly #catalogs = new WeakMap<Route, ReadonlyMap<string, number>>();

	constructor(agent: TransferAgent, clock: Clock, options: RouteTableOptions) {
		this.#agent = agent;
		this.#clock = clock;
		this.#options = options;
	}

	get size(): number {
		return this.#routes.size;
	}

	/**
	 * The route a message travels: the known one, or a new generation when the message brings changed metadata.
	 * Undefined: the sender is unknown and did not introduce itself.
	 * @throws InvalidMetadataError, RemoteBusyError (the old generation has writes in flight)
	 */
	resolve(
		header: MessageHeader,
		peer: PeerMetadata | undefined,
	): Route | undefined {
		const known = this.#routes.get(header.targetAgent);
		if (peer === undefined) {
			// Without metadata only the very incarnation that introduced itself may be written to.
			if (known === undefined || known.incarnation !== header.senderIncarnation)
				return undefined;
			return this.#used(known);
		}
		if (
			known !== undefined &&
			known.incarnation === header.senderIncarnation &&
			samePeer(known.metadata, peer)
		) {
			return this.#used(known);
		}
		return this.#load(header, peer, known);
	}

	/**
	 * Finds an element in a route.
	 * @returns undefined when the element is not one the target registered.
	 */
	locate(route: Route, element: TransferElement): RoutedElement | undefined {
		if (element.endPointName !== route.agentName) return undefined;
		const regions = element.framework
			? route.metadata.regions.framework
			: route.metadata.regions.managed;
		const label = matchingLabel(regions, element.label, element.framework);
		const region = label === undefined ? undefined : regions.get(label);
		const regionIndex =
			label === undefined
				? undefined
				: this.#catalogs.get(route)?.get(catalogKey(element.framework, label));
		if (region === undefined || regionIndex === undefined) return undefined;
		if (element.elementIndex < 0 || element.elementIndex >= region.count)
			return undefined;
		return { regionIndex, element: element.elementIndex, size: region.size };
	}

	/** A route turned out to be unusable: its target is loaded afresh when it introduces itself again. */
	drop(route: Route): void {
		if (this.#routes.get(route.agentName) === route)
			this.#routes.delete(route.agentName);
		this.#retire(route);
	}

	/** Drops every route that nothing uses any more, and the sweep timer. */
	close(): void {
		this.#sweep?.cancel();
		this.#sweep = undefined;
		for (const route of this.#routes.values()) this.#retire(route);
		this.#routes.clear();
	}

	#load(
		header: MessageHeader,
		peer: PeerMetadata,
		known: Route | undefined,
	): Route {
		if (peer.metadata.byteLength > this.#options.maxMetadataBytes) {
			const limit = this.#options.maxMetadataBytes;
			throw new InvalidMetadataError(
				"addRemote",
				peer.metadata,
				`larger than ${limit} bytes`,
			);
		}
		if (known === undefined) this.#makeRoom();
		const regions = [
			...peer.regions.framework.values(),
			...peer.regions.managed.values(),
		];
		const remote = this.#agent.addRemote(peer.metadata, regions);
		// Loading replaced whatever was known under the name the metadata states, whoever sent it.
		const replaced = this.#routes.get(remote.name);
		if (replaced !== undefined) {
			replaced.current = false;
			this.#routes.delete(remote.name);
		}
		if (remote.name !== header.targetAgent) {
			this.#agent.removeRemote(remote);
			throw new InvalidMetadataError(
				"addRemote",
				peer.metadata,
				"it names another agent than the message does",
			);
		}
		const route: Route = {
			agentName: header.targetAgent,
			incarnation: header.senderIncarnation,
			remote,
			metadata: peer,
			current: true,
			users: 0,
			lastUsed: this.#clock.now(),
		};
		const catalog = new Map<string, number>();
		let index = 0;
		for (const label of peer.regions.framework.keys())
			catalog.set(catalogKey(true, label), index++);
		for (const label of peer.regions.managed.keys())
			catalog.set(catalogKey(false, label), index++);
		this.#catalogs.set(route, catalog);
		this.#routes.set(route.agentName, route);
		try {
			this.#agent.connect(remote);
		} catch {
			// Only ahead of need: the first write tells what is wrong.
		}
		this.#armSweep();
		this.#options.onLoaded?.(route.incarnation);
		return route;
	}

	/** Waits for the route that is idle the longest. */
	#armSweep(): void {
		if (this.#sweep !== undefined) return;
		const oldest = this.#routes.values().next();
		if (oldest.done) return;
		const wait =
			oldest.value.lastUsed + this.#options.idleMs - this.#clock.now();
		this.#sweep = this.#clock.schedule(Math.max(wait, 1), () => {
			this.#sweep = undefined;
			const limit = this.#clock.now() - this.#options.idleMs;
			let left = MAX_DROPS_PER_SWEEP;
			for (const [name, route] of this.#routes) {
				if (route.lastUsed > limit || left === 0) break;
				left -= 1;
				if (route.users > 0) {
					this.#used(route);
					continue;
				}
				this.#retire(route);
				this.#routes.delete(name);
			}
			this.#armSweep();
		});
	}

	#used(route: Route): Route {
		route.lastUsed = this.#clock.now();
		this.#routes.use(route.agentName);
		return route;
	}

	#makeRoom(): void {
		if (this.#routes.size < this.#options.maxRoutes) return;
		for (const [name, route] of this.#routes) {
			if (route.users > 0) continue;
			this.#retire(route);
			this.#routes.delete(name);
			return;
		}
		throw new InvalidMetadataError(
			"addRemote",
			undefined,
			`all ${this.#options.maxRoutes} routes are in use`,
		);
	}

	#retire(route: Route): void {
		route.current = false;
		try {
			this.#agent.removeRemote(route.remote);
		} catch {
			// Still busy: closing the agent ends it.
		}
	}
}

function catalogKey(framework: boolean, label: string): string {
	return `${framework ? "f" : "m"}${label}`;
}

function samePeer(left: PeerMetadata, right: PeerMetadata): boolean {
	return (
		sameBytes(left.metadata, right.metadata) &&
		sameRegions(left.regions.framework, right.regions.framework) &&
		sameRegions(left.regions.managed, right.regions.managed)
	);
}

function sameBytes(left: Uint8Array, right: Uint8Array): boolean {
	return (
		left.byteLength === right.byteLength && Buffer.compare(left, right) === 0
	);
}

function sameRegions(
	left: PeerMetadata["regions"]["managed"],
	right: PeerMetadata["regions"]["managed"],
): boolean {
	if (left.size !== right.size) return false;
	for (const [label, region] of left) {
		const other = right.get(label);
		if (
			other === undefined ||
			other.addr !== region.addr ||
			other.count !== region.count ||
			other.size !== region.size ||
			other.stride !== region.stride ||
			other.deviceId !== region.deviceId ||
			other.memType !== region.memType
		) {
			return false;
		}
	}
	return true;
}
