/** Settings of an instance, and their defaults. */
import type {
	CapacityListener,
	Clock,
	ControlChannel,
	FrameworkPins,
	InventorySink,
	KeyAdapter,
	KVCachePolicy,
	Logger,
	MemoryRegion,
	TelemetryStats,
	TransferAgent,
} from "./ports/index.js";
import {
	checkObject,
	InvalidArgumentError,
	systemClock,
} from "./ports/index.js";
import type { TransferReportListener } from "./transfer/reports.js";

/** One pool of managed memory. */
export interface PoolOptions {
	/** Without ":"; empty only when it is the only pool. */
	readonly name: string;
	/** Bytes of one slot, and so of every piece with this pool's label. */
	readonly slotBytes: number;
	/** Slots to allocate. 0: this instance only knows the size, and keeps no such blocks itself. */
	readonly slotCount: number;
}

/** Bounds that protect an instance from its peers. */
export interface KvcrLimits {
	/** Targets whose memory this instance keeps loaded, and sources it remembers. @default 10240 */
	readonly maxPeers?: number;
	/** Writes one target may have in progress here; more are refused. @default 1024 */
	readonly maxWritesPerPeer?: number;
	/** Largest metadata blob of a peer, in bytes. @default 262144 */
	readonly maxMetadataBytes?: number;
	/** A target unused for this long is unloaded, in milliseconds. @default 600000 */
	readonly idlePeerMs?: number;
}

/** Everything `Kvcr.create` takes. */
export interface KvcrOptions {
	/** Moves the bytes. The instance owns it from now on and closes it. */
	readonly agent: TransferAgent;
	/** Carries control messages. The instance owns it from now on and closes it. Absent: no peers, local memory only. */
	readonly channel?: ControlChannel | undefined;
	/** What keys mean. Absent: hints work in request scope only, and cover every key. */
	readonly adapter?: KeyAdapter | undefined;
	/** At least one. */
	readonly pools: readonly PoolOptions[];
	/** The framework's own registered memory, made by the same agent. Labels are unique: `pool`, `pool:part` or `pool:*`. */
	readonly frameworkRegions?: readonly MemoryRegion[] | undefined;
	/** Lets peers read framework memory. Absent: only managed memory is served. */
	readonly pins?: FrameworkPins | undefined;
	/** @default least recently used */
	readonly policy?: KVCachePolicy | undefined;
	/** Told which blocks came and went, inside API calls. Default: nobody. */
	readonly inventorySink?: InventorySink | undefined;
	/** @default 0: at once */
	readonly inventoryReportIntervalMs?: number | undefined;
	/** Told when a pool falls under the low watermark, inside API calls. Default: nobody. */
	readonly capacityListener?: CapacityListener | undefined;
	/** @default 0: never */
	readonly capacityLowWatermarkPercent?: number | undefined;
	/** From the start of an operation to the failure of its waiters, in milliseconds. @default 1000 */
	readonly operationTimeoutMs?: number | undefined;
	/** From the start of an operation to the report that its memory is uncertain, in milliseconds. @default 5000 */
	readonly abandonTimeoutMs?: number | undefined;
	/** Between repeated introductions to a source that does not answer, in milliseconds. @default 100 */
	readonly metadataRetryIntervalMs?: number | undefined;
	/** Longest wait of `close` for transfers to end by themselves, in milliseconds. @default 2000 */
	readonly closeTimeoutMs?: number | undefined;
	/**
	 * How long the event loop keeps turning after blocks were asked for instead of sleeping until the answer comes, in
	 * milliseconds, at most 100; 0: not at all. It shortens transfers by the wake-ups of a sleeping process, and costs up to this
	 * much processor time per request. @default 0.5; 0 with a clock other than the system's
	 */
	readonly hotWaitMs?: number | undefined;
	/** Introduce this instance to a source as soon as a hint names it. @default true */
	readonly eagerConnect?: boolean | undefined;
	/**
	 * `"verify"`: keep a checksum of every managed block, give it to peers that resolve its hash, and check what independent
	 * hints bring in before it becomes ready. Costs one pass over the bytes at either side, in small portions.
	 * @default "off"
	 */
	readonly integrity?: "off" | "verify" | undefined;
	/**
	 * Whether a predecessor at our control endpoint must be dead once we have it. True lets targets of a restarted source use
	 * their memory again. @default what the channel says of its endpoint
	 */
	readonly exclusiveEndpoint?: boolean | undefined;
	/** Bounds that protect the instance from its peers. */
	readonly limits?: KvcrLimits | undefined;
	/** Told about memory at risk, inside API calls. @default a log line */
	readonly onTransferReport?: TransferReportListener | undefined;
	/** Receives figures as they happen. Default: nobody. */
	readonly stats?: TelemetryStats | undefined;
	/** @default warnings and errors to the console */
	readonly logger?: Logger | undefined;
	/** @default the system clock */
	readonly clock?: Clock | undefined;
}

/** The settings that are plain numbers, checked and with defaults. */
export interface Settings {
	/** See `KvcrOptions.operationTimeoutMs`. */
	readonly operationTimeoutMs: number;
	/** See `KvcrOptions.abandonTimeoutMs`. */
	readonly abandonTimeoutMs: number;
	/** See `KvcrOptions.metadataRetryIntervalMs`. */
	readonly metadataRetryIntervalMs: number;
	/** See `KvcrOptions.closeTimeoutMs`. */
	readonly closeTimeoutMs: number;
	/** See `KvcrOptions.hotWaitMs`. */
	readonly hotWaitMs: number;
	/** See `KvcrLimits.maxPeers`. */
	readonly maxPeers: number;
	/** See `KvcrLimits.maxWritesPerPeer`. */
	readonly maxWritesPerPeer: number;
	/** See `KvcrLimits.maxMetadataBytes`. */
	readonly maxMetadataBytes: number;
	/** See `KvcrLimits.idlePeerMs`. */
	readonly idlePeerMs: number;
	/** See `KvcrOptions.eagerConnect`. */
	readonly eagerConnect: boolean;
	/** See `KvcrOptions.integrity`. */
	readonly integrity: "off" | "verify";
}

/** Longest delay that Node's timers take, in milliseconds: longer ones would fire at once. */
const MAX_MS = 0x7fff_ffff;

/** Several times what an answer of a peer that is well takes. */
const HOT_WAIT_MS = 0.5;
const MAX_HOT_WAIT_MS = 100;

/** Ports that may be left out, with the methods they must have. */
const OPTIONAL_PORTS = [
	["channel", ["start", "send", "close"]],
	["adapter", ["encode", "decode"]],
	["pins", ["request", "pollResults", "cancel", "release"]],
	[
		"policy",
		["decideIngest", "evictionScore", "decideEviction", "decideRecovery"],
	],
	["stats", ["increaseCounter", "observeHistogram"]],
	["logger", ["debug", "info", "warn", "error"]],
	["clock", ["now", "schedule"]],
] as const satisfies readonly (readonly [
	keyof KvcrOptions,
	readonly string[],
])[];

/** Callbacks that may be left out. */
const OPTIONAL_CALLBACKS = [
	"inventorySink",
	"capacityListener",
	"onTransferReport",
] as const satisfies readonly (keyof KvcrOptions)[];

/** @throws InvalidArgumentError naming the first unusable setting. */
export function readSettings(options: KvcrOptions): Settings {
	checkObject("Kvcr.create", "options", options);
	requireMethods("agent", options.agent, ["createRegion", "write", "close"]);
	for (const [argument, methods] of OPTIONAL_PORTS)
		if (options[argument] !== undefined)
			requireMethods(argument, options[argument], methods);
	for (const argument of OPTIONAL_CALLBACKS)
		if (
			options[argument] !== undefined &&
			typeof options[argument] !== "function"
		)
			throw new InvalidArgumentError(
				"Kvcr.create",
				argument,
				options[argument],
				"a function",
			);
	checkPools(options.pools);
	checkRegions(options.frameworkRegions ?? []);
	boolean("exclusiveEndpoint", options.exclusiveEndpoint, false);
	atMost(
		"inventoryReportIntervalMs",
		options.inventoryReportIntervalMs,
		MAX_MS,
	);
	atMost(
		"capacityLowWatermarkPercent",
		options.capacityLowWatermarkPercent,
		100,
	);
	const operationTimeoutMs = positive(
		"operationTimeoutMs",
		options.operationTimeoutMs,
		1000,
	);
	const abandonTimeoutMs = positive(
		"abandonTimeoutMs",
		options.abandonTimeoutMs,
		Math.max(5000, operationTimeoutMs),
	);
	if (abandonTimeoutMs < operationTimeoutMs) {
		const expected = `at least operationTimeoutMs (${operationTimeoutMs})`;
		throw new InvalidArgumentError(
			"Kvcr.create",
			"abandonTimeoutMs",
			abandonTimeoutMs,
			expected,
		);
	}
	const limits = options.limits ?? {};
	checkObject("Kvcr.create", "limits", limits);
	return {
		operationTimeoutMs,
		abandonTimeoutMs,
		metadataRetryIntervalMs: positive(
			"metadataRetryIntervalMs",
			options.metadataRetryIntervalMs,
			100,
		),
		closeTimeoutMs: positive("closeTimeoutMs", options.closeTimeoutMs, 2000),
		hotWaitMs: hotWaitOf(options),
		maxPeers: count("limits.maxPeers", limits.maxPeers, 10_240),
		maxWritesPerPeer: count(
			"limits.maxWritesPerPeer",
			limits.maxWritesPerPeer,
			1024,
		),
		maxMetadataBytes: count(
			"limits.maxMetadataBytes",
			limits.maxMetadataBytes,
			262_144,
		),
		idlePeerMs: positive("limits.idlePeerMs", limits.idlePeerMs, 600_000),
		eagerConnect: boolean("eagerConnect", options.eagerConnect, true),
		integrity: integrityOf(options.integrity),
	};
}

/** A manual clock stands still while the loop turns: nothing would be won. */
function hotWaitOf({ hotWaitMs, clock }: KvcrOptions): number {
	if (hotWaitMs === undefined)
		return clock === undefined || clock === systemClock ? HOT_WAIT_MS : 0;
	if (
		typeof hotWaitMs === "number" &&
		hotWaitMs >= 0 &&
		hotWaitMs <= MAX_HOT_WAIT_MS
	)
		return hotWaitMs;
	throw new InvalidArgumentError(
		"Kvcr.create",
		"hotWaitMs",
		hotWaitMs,
		`0 to ${MAX_HOT_WAIT_MS} milliseconds`,
	);
}

/** Labels are keys of maps on the wire, and decoders refuse this one. */
const UNUSABLE_KEY = "__proto__";

function checkPools(pools: readonly PoolOptions[]): void {
	if (!Array.isArray(pools) || pools.length === 0) {
		throw new InvalidArgumentError(
			"Kvcr.create",
			"pools",
			pools,
			"a non-empty array of pools",
		);
	}
	const names = new Set<string>();
	for (const [index, pool] of (pools as readonly PoolOptions[]).entries()) {
		const at = `pools[${index}]`;
		if (typeof pool !== "object" || pool === null) {
			throw new InvalidArgumentError(
				"Kvcr.create",
				at,
				pool,
				"a pool { name, slotBytes, slotCount }",
			);
		}
		const { name, slotBytes, slotCount } = pool;
		if (
			typeof name !== "string" ||
			name.includes(":") ||
			name === UNUSABLE_KEY
		) {
			throw new InvalidArgumentError(
				"Kvcr.create",
				`${at}.name`,
				name,
				`a string without ":", other than ${UNUSABLE_KEY}`,
			);
		}
		if (name === "" && pools.length > 1) {
			throw new InvalidArgumentError(
				"Kvcr.create",
				`${at}.name`,
				name,
				"non-empty where there are several pools",
			);
		}
		if (names.has(name))
			throw new InvalidArgumentError(
				"Kvcr.create",
				`${at}.name`,
				name,
				"unique",
			);
		names.add(name);
		if (!Number.isSafeInteger(slotBytes) || slotBytes <= 0) {
			throw new InvalidArgumentError(
				"Kvcr.create",
				`${at}.slotBytes`,
				slotBytes,
				"a positive integer",
			);
		}
		if (!Number.isSafeInteger(slotCount) || slotCount < 0) {
			throw new InvalidArgumentError(
				"Kvcr.create",
				`${at}.slotCount`,
				slotCount,
				"a non-negative integer",
			);
		}
	}
}

/** Shapes of regions and that no two share a label; whether a label has a pool is found out when pieces name it. */
function checkRegions(regions: readonly MemoryRegion[]): void {
	if (!Array.isArray(regions))
		throw new InvalidArgumentError(
			"Kvcr.create",
			"frameworkRegions",
			regions,
			"an array of regions",
		);
	const labels = new Set<string>();
	for (const [index, region] of (
		regions as readonly MemoryRegion[]
	).entries()) {
		const at = `frameworkRegions[${index}]`;
		requireMethods(at, region, ["element", "release"]);
		const { label } = region;
		if (
			typeof label !== "string" ||
			labels.has(label) ||
			label === UNUSABLE_KEY
		)
			throw new InvalidArgumentError(
				"Kvcr.create",
				`${at}.label`,
				label,
				`a string, unique among the regions, other than ${UNUSABLE_KEY}`,
			);
		labels.add(label);
	}
}

function positive(
	argument: string,
	value: number | undefined,
	fallback: number,
): number {
	if (value === undefined) return fallback;
	if (typeof value === "number" && value > 0 && value <= MAX_MS) return value;
	throw new InvalidArgumentError(
		"Kvcr.create",
		argument,
		value,
		`a positive number of milliseconds, at most ${MAX_MS}`,
	);
}

function count(
	argument: string,
	value: number | undefined,
	fallback: number,
): number {
	if (value === undefined) return fallback;
	if (Number.isSafeInteger(value) && value > 0) return value;
	throw new InvalidArgumentError(
		"Kvcr.create",
		argument,
		value,
		"a positive integer",
	);
}

function atMost(
	argument: string,
	value: number | undefined,
	most: number,
): void {
	if (value === undefined) return;
	if (typeof value === "number" && value >= 0 && value <= most) return;
	throw new InvalidArgumentError(
		"Kvcr.create",
		argument,
		value,
		`a number from 0 to ${most}`,
	);
}

function boolean(
	argument: string,
	value: boolean | undefined,
	fallback: boolean,
): boolean {
	if (value === undefined || typeof value === "boolean")
		return value ?? fallback;
	throw new InvalidArgumentError("Kvcr.create", argument, value, "a boolean");
}

function requireMethods(
	argument: string,
	value: unknown,
	methods: readonly string[],
): void {
	const object = value as Record<string, unknown> | null | undefined;
	if (
		(typeof object === "object" || typeof object === "function") &&
		object !== null &&
		methods.every((name) => typeof object[name] === "function")
	)
		return;
	throw new InvalidArgumentError(
		"Kvcr.create",
		argument,
		value,
		`an object with ${methods.join(", ")}`,
	);
}

function integrityOf(value: KvcrOptions["integrity"]): "off" | "verify" {
	if (value === undefined || value === "off" || value === "verify")
		return value ?? "off";
	throw new InvalidArgumentError(
		"Kvcr.create",
		"integrity",
		value,
		'"off" or "verify"',
	);
}
