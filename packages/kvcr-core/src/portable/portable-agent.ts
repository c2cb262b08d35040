/** The portable transfer agent: one-sided writes over TCP between processes that have nothing better. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { checkPayload } from "../ports/agent-checks.js";
import { checkObject } from "../ports/checks.js";
import type { Clock } from "../ports/clock.js";
import {
	ClosedError,
	InvalidArgumentError,
	RemoteBusyError,
	StaleRemoteError,
} from "../ports/errors.js";
import { systemClock } from "../ports/system-clock.js";
import type {
	AgentNotification,
	RegionDescriptor,
	RegionSpec,
	RemoteAgent,
	TrafficExpectation,
	TransferAgent,
	TransferAgentInfo,
	TransferCompletion,
	TransferId,
	WriteRequest,
} from "../ports/transfer-agent.js";
import { checkCovered, checkWrite, MAX_NOTIFICATION_BYTES } from "./checks.js";
import { checkAdvertisedHost, isPort } from "./host.js";
import { Listener } from "./listener.js";
import { Mailbox } from "./mailbox.js";
import {
	decodeMetadata,
	encodeMetadata,
	isAgentName,
	MAX_AGENT_NAME_BYTES,
	TOKEN_BYTES,
} from "./metadata.js";
import { PeerLink } from "./peer-link.js";
import { RegionMemory, type RegionOwner } from "./region-memory.js";
import { PairRuns } from "./runs.js";
import { WriteJob } from "./write-job.js";

/** Settings of a {@link PortableTransferAgent}. */
export interface PortableAgentOptions {
	/** Name of the agent, at most 512 bytes; default: a unique one of host name, process ID and random digits. */
	readonly name?: string;
	/** Address to listen on; default `"127.0.0.1"`. A wildcard needs `advertisedHost`. */
	readonly host?: string;
	/** Port to listen on; default 0: any free one. */
	readonly port?: number;
	/** Host that peers connect to; default: `host`. Never a wildcard. */
	readonly advertisedHost?: string;
	/** Port that peers connect to; default: the one listened on. */
	readonly advertisedPort?: number;
	/** Peers that may be connected to this agent at the same time; default 1024. */
	readonly maxPeers?: number;
	/** Time a new connection has to introduce itself, on either side, in milliseconds; default 5000. */
	readonly greetingTimeoutMs?: number;
	/** Time `close` waits for targets to confirm the end of writes in flight, in milliseconds; default 500. */
	readonly closeGraceMs?: number;
	/** Clock of all timers; default: the system's. */
	readonly clock?: Clock;
}

const CLASS = "PortableTransferAgent";

class Remote implements RemoteAgent {
	readonly name: string;
	readonly regions: readonly RegionDescriptor[];
	readonly link: PeerLink;
	readonly linkKey: string;
	inFlight = 0;

	constructor(
		name: string,
		regions: readonly RegionDescriptor[],
		link: PeerLink,
		linkKey: string,
	) {
		this.name = name;
		this.regions = regions;
		this.link = link;
		this.linkKey = linkKey;
	}
}

/**
 * A {@link TransferAgent} over TCP. Its metadata contains a random token: only those who got it from this agent's owner can
 * write. The bytes travel unencrypted.
 *
 * A write ends as `failed` when the target process is gone, restarted, or refused it. When a connection breaks off while
 * the target may live, the write stays in flight until the target confirms what became of it.
 */
export class PortableTransferAgent implements TransferAgent, RegionOwner {
	readonly name: string;
	readonly info: TransferAgentInfo;
	readonly #host: string;
	readonly #port: number;
	readonly #token: Uint8Array;
	readonly #listener: Listener;
	readonly #clock: Clock;
	readonly #greetingMs: number;
	readonly #closeGraceMs: number;
	readonly #mailbox: Mailbox;
	readonly #regions: Map<bigint, RegionMemory>;
	readonly #remotes = new Map<string, Remote>();
	readonly #links = new Map<string, PeerLink>();
	/** Links without a remote whose connections are about to end. */
	readonly #retiring = new Set<PeerLink>();
	readonly #writes = new Map<TransferId, { job: WriteJob; link: PeerLink }>();
	#allEnded: (() => void) | undefined;
	#nextTransfer = 1;
	#nextAddr = 0x1_0000n;
	#closing: Promise<void> | undefined;

	private constructor(parts: {
		name: string;
		host: string;
		port: number;
		listening: string;
		token: Uint8Array;
		listener: Listener;
		mailbox: Mailbox;
		regions: Map<bigint, RegionMemory>;
		clock: Clock;
		greetingMs: number;
		closeGraceMs: number;
	}) {
		this.name = parts.name;
		this.#host = parts.host;
		this.#port = parts.port;
		this.#token = parts.token;
		this.#listener = parts.listener;
		this.#mailbox = parts.mailbox;
		this.#regions = parts.regions;
		this.#clock = parts.clock;
		this.#greetingMs = parts.greetingMs;
		this.#closeGraceMs = parts.closeGraceMs;
		this.info = {
			kind: "portable",
			transports: ["tcp"],
			rdma: false,
			details: {
				listening: parts.listening,
				advertised: addressText(parts.host, parts.port),
			},
		};
	}

	/**
	 * Makes an agent that listens. It keeps the process alive until it is closed.
	 * @throws InvalidEndpointError for an advertised wildcard, InvalidArgumentError, TransferAgentError when the address
	 * cannot be bound.
	 */
	static async create(
		options: PortableAgentOptions = {},
	): Promise<PortableTransferAgent> {
		const operation = `${CLASS}.create`;
		checkObject(operation, "options", options);
		const name = options.name ?? uniqueName();
		if (!isAgentName(name))
			throw new InvalidArgumentError(
				operation,
				"name",
				name,
				`a well-formed string of 1 to ${MAX_AGENT_NAME_BYTES} bytes`,
			);
		const bindHost = options.host ?? "127.0.0.1";
		if (typeof bindHost !== "string" || bindHost === "")
			throw new InvalidArgumentError(
				operation,
				"host",
				bindHost,
				"a host name or address",
			);
		const host = checkAdvertisedHost(
			operation,
			options.advertisedHost ?? bindHost,
		);
		const bindPort = options.port ?? 0;
		if (bindPort !== 0) checkPort(operation, "port", bindPort);
		if (options.advertisedPort !== undefined)
			checkPort(operation, "advertisedPort", options.advertisedPort);
		const greetingMs = positive(operation, options, "greetingTimeoutMs", 5_000);
		const closeGraceMs = positive(operation, options, "closeGraceMs", 500);
		const maxPeers = positive(operation, options, "maxPeers", 1_024);
		const clock = options.clock ?? systemClock;
		if (typeof clock.now !== "function" || typeof clock.schedule !== "function")
			throw new InvalidArgumentError(
				operation,
				"clock",
				clock,
				"an object with now, schedule",
			);
		const token = randomBytes(TOKEN_BYTES);
		const mailbox = new Mailbox();
		const regions = new Map<bigint, RegionMemory>();
		const listener = new Listener({
			host: bindHost === "*" ? "0.0.0.0" : bindHost,
			port: bindPort,
			token,
			clock,
			greetingMs,
			maxPeers,
			region: (addr) => regions.get(addr),
			notified: (from, payload) => mailbox.notified(from, payload),
		});
		const bound = await listener.start(operation);
		return new PortableTransferAgent({
			name,
			host,
			port: options.advertisedPort ?? bound,
			listening: addressText(bindHost, bound),
			token,
			listener,
			mailbox,
			regions,
			clock,
			greetingMs,
			closeGraceMs,
		});
	}

	attach(wake: () => void): void {
		this.#assertOpen("attach");
		this.#mailbox.attach(`${CLASS}.attach`, wake);
	}

	detach(): void {
		this.#mailbox.detach();
	}

	async createRegion(spec: RegionSpec): Promise<RegionMemory> {
		this.#assertOpen("createRegion");
		// Addresses are names here: never reused, so that a late write cannot hit another region.
		const addr = this.#nextAddr++;
		const region = new RegionMemory(`${CLASS}.createRegion`, spec, addr, this);
		this.#regions.set(addr, region);
		return region;
	}

	localMetadata(): Uint8Array {
		this.#assertOpen("localMetadata");
		return encodeMetadata({
			name: this.name,
			host: this.#host,
			port: this.#port,
			token: this.#token,
			regions: [...this.#regions.values()].map((region) => region.descriptor),
		});
	}

	addRemote(
		metadata: Uint8Array,
		regions: readonly RegionDescriptor[],
	): RemoteAgent {
		this.#assertOpen("addRemote");
		const operation = `${CLASS}.addRemote`;
		const decoded = decodeMetadata(operation, metadata);
		const checked = checkCovered(operation, metadata, regions, decoded.regions);
		this.#assertOpen("addRemote");
		const former = this.#remotes.get(decoded.name);
		if (former !== undefined && former.inFlight > 0)
			throw new RemoteBusyError(operation, former.name);
		const { name, host, port, token } = decoded;
		const key = `${Buffer.from(token).toString("hex")}@${host}:${port}`;
		if (former !== undefined && former.linkKey !== key) this.#forget(former);
		let link = this.#links.get(key);
		if (link === undefined) {
			link = new PeerLink(
				{ host, port, token },
				{ self: this.name, clock: this.#clock, greetingMs: this.#greetingMs },
			);
			this.#links.set(key, link);
		}
		const remote = new Remote(name, checked, link, key);
		this.#remotes.set(name, remote);
		return remote;
	}

	removeRemote(remote: RemoteAgent): void {
		const own = this.#own("removeRemote", remote);
		if (this.#remotes.get(own.name) !== own) return;
		if (own.inFlight > 0)
			throw new RemoteBusyError(`${CLASS}.removeRemote`, own.name);
		this.#forget(own);
	}

	connect(remote: RemoteAgent): void {
		this.#current("connect", remote).link.connect();
	}

	write(request: WriteRequest): TransferId {
		checkObject(`${CLASS}.write`, "request", request);
		const remote = this.#current("write", request.remote);
		const runs = new PairRuns();
		const notification = checkWrite(
			`${CLASS}.write`,
			request,
			remote.regions,
			(region) => this.#regions.get(region.descriptor.addr) === region,
			runs.add,
		);
		this.#current("write", remote);
		const transfer = this.#nextTransfer++ as TransferId;
		const job = new WriteJob(
			transfer,
			runs,
			notification,
			remote.regions,
			(completion) => {
				remote.inFlight -= 1;
				this.#writes.delete(transfer);
				this.#mailbox.completed(completion);
				if (this.#writes.size === 0) this.#allEnded?.();
			},
		);
		remote.inFlight += 1;
		this.#writes.set(transfer, { job, link: remote.link });
		remote.link.write(job);
		return transfer;
	}

	cancel(transfer: TransferId): boolean {
		const write = this.#writes.get(transfer);
		if (write === undefined) return false;
		write.link.cancel(write.job);
		return true;
	}

	takeCompletions(): readonly TransferCompletion[] {
		return this.#mailbox.takeCompletions();
	}

	notify(remote: RemoteAgent, payload: Uint8Array): boolean {
		const current = this.#current("notify", remote);
		checkPayload(`${CLASS}.notify`, "payload", payload, MAX_NOTIFICATION_BYTES);
		return current.link.notify(payload);
	}

	takeNotifications(): readonly AgentNotification[] {
		return this.#mailbox.takeNotifications();
	}

	/** Nothing to do: sockets tell of traffic by themselves. */
	expectTraffic(): TrafficExpectation {
		this.#assertOpen("expectTraffic");
		return { end: () => {} };
	}

	close(): Promise<void> {
		this.#closing ??= this.#close();
		return this.#closing;
	}

	/** For regions: one of them ended. */
	regionEnded(region: RegionMemory, moved: readonly ArrayBuffer[]): void {
		this.#regions.delete(region.descriptor.addr);
		this.#listener.regionEnded(region, moved);
	}

	async #close(): Promise<void> {
		this.#mailbox.detach();
		for (const { job, link } of [...this.#writes.values()]) link.cancel(job);
		if (this.#writes.size > 0) {
			await new Promise<void>((resolve) => {
				this.#allEnded = resolve;
				// Not the injected clock: the bound of `close` must hold in a process whose clock stands still.
				setTimeout(resolve, this.#closeGraceMs).unref();
			});
		}
		// Only when the system has let go of every connection can nothing touch the regions any more.
		await Promise.all([
			this.#listener.close(),
			...[...this.#links.values(), ...this.#retiring].map((link) =>
				link.close("the agent was closed"),
			),
		]);
		this.#mailbox.close();
		this.#writes.clear();
		this.#links.clear();
		this.#remotes.clear();
		for (const region of [...this.#regions.values()]) region.end();
	}

	#forget(remote: Remote): void {
		this.#remotes.delete(remote.name);
		for (const other of this.#remotes.values())
			if (other.link === remote.link) return;
		const { link } = remote;
		this.#links.delete(remote.linkKey);
		this.#retiring.add(link);
		void link.retire().then(() => this.#retiring.delete(link));
	}

	#own(operation: string, remote: RemoteAgent): Remote {
		if (remote instanceof Remote) return remote;
		throw new InvalidArgumentError(
			`${CLASS}.${operation}`,
			"remote",
			(remote as RemoteAgent | undefined)?.name,
			"a handle that addRemote of this agent returned",
		);
	}

	#current(operation: string, remote: RemoteAgent): Remote {
		this.#assertOpen(operation);
		const own = this.#own(operation, remote);
		if (this.#remotes.get(own.name) !== own)
			throw new StaleRemoteError(`${CLASS}.${operation}`, own.name);
		return own;
	}

	#assertOpen(operation: string): void {
		if (this.#closing !== undefined)
			throw new ClosedError(`${CLASS}.${operation}`, "the agent");
	}
}

function addressText(host: string, port: number): string {
	return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

function uniqueName(): string {
	const host = hostname().slice(0, 100);
	return `portable-${host}-${process.pid}-${randomBytes(6).toString("hex")}`;
}

function checkPort(operation: string, argument: string, value: number): void {
	if (!isPort(value))
		throw new InvalidArgumentError(
			operation,
			argument,
			value,
			"a port of 1 to 65535",
		);
}

function positive(
	operation: string,
	options: PortableAgentOptions,
	argument: "greetingTimeoutMs" | "closeGraceMs" | "maxPeers",
	fallback: number,
): number {
	const value = options[argument] ?? fallback;
	// Node's timers take no longer delay: they would fire at once.
	if (typeof value !== "number" || !(value > 0 && value <= 0x7fff_ffff))
		throw new InvalidArgumentError(
			operation,
			argument,
			value,
			"a positive number below 2^31",
		);
	return value;
}
