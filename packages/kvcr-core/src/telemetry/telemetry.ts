/**
 * Figures and events of one instance. Every name and label value used here is fixed in this file, so the number of
 * series is bounded whatever peers send.
 */

import { channel } from "node:diagnostics_channel";
import { callOut, guardedLogger } from "../ports/foreign.js";
import type { Incarnation, Logger, TelemetryStats } from "../ports/index.js";

/** Diagnostics channel with one message per hash of an independent hint: `HintOutcomeReport` and the `instance`. */
export const HINT_OUTCOME_CHANNEL = "kvcr:hint-outcome";
/** Diagnostics channel with one message per transfer that ended, at either side: `TransferEvent` and the `instance`. */
export const TRANSFER_CHANNEL = "kvcr:transfer";
/** Diagnostics channel for memory that a failed transfer may still touch: the `instance` and the `report`. */
export const RESILIENCE_CHANNEL = "kvcr:resilience";

/** Names of the counters. */
export type CounterName =
	| "kvcr_hint_outcomes_total"
	| "kvcr_hints_total"
	| "kvcr_control_received_total"
	| "kvcr_control_dropped_total"
	| "kvcr_control_sent_total"
	| "kvcr_control_refused_total"
	| "kvcr_resolution_ignored_total"
	| "kvcr_transfers_total"
	| "kvcr_transfer_blocks_total"
	| "kvcr_transfer_bytes_total"
	| "kvcr_writes_refused_total"
	| "kvcr_notifications_dropped_total"
	| "kvcr_resilience_reports_total"
	| "kvcr_stalls_total"
	| "kvcr_integrity_checks_total"
	| "kvcr_retired_blocks_total";

/** One transfer that ended. */
export interface TransferEvent {
	/** Which part this instance had in it. */
	readonly side: "source" | "destination";
	/** What it was for; `"serve"` at the source. */
	readonly scope: "fetch" | "deliver" | "serve";
	/** `"partial"`: some of its blocks. */
	readonly result: "success" | "partial" | "failed";
	/** Why not all of it was a success, from a fixed set. */
	readonly reason?: string | undefined;
	/** Blocks that were moved. */
	readonly blocks: number;
	/** Bytes of those blocks. */
	readonly bytes: number;
	/** Milliseconds from the start of the operation. */
	readonly elapsedMs: number;
	/** Control endpoint or agent name of the other side. */
	readonly peer: string;
}

/** One series of a counter. */
interface Counter {
	readonly name: CounterName;
	readonly labels: Readonly<Record<string, string>>;
	value: number;
}

/** The series of a counter that differ in one label, found by its value: for what is counted with every message. */
export class CounterFamily {
	readonly #series: (value: string) => Counter;
	readonly #added: (series: Counter, by: number) => void;
	readonly #byValue = new Map<string, Counter>();

	constructor(
		series: (value: string) => Counter,
		added: (series: Counter, by: number) => void,
	) {
		this.#series = series;
		this.#added = added;
	}

	/** Adds to the series with this value of the label. */
	count(value: string, by = 1): void {
		let series = this.#byValue.get(value);
		if (series === undefined) {
			series = this.#series(value);
			this.#byValue.set(value, series);
		}
		series.value += by;
		this.#added(series, by);
	}
}

/** Counts, logs and publishes. */
export class Telemetry {
	/** The logger it was given, which cannot throw here. */
	readonly logger: Logger;
	readonly #stats: TelemetryStats | undefined;
	readonly #counters = new Map<string, Counter>();
	readonly #warned = new Set<string>();
	readonly #hints = channel(HINT_OUTCOME_CHANNEL);
	readonly #transfers = channel(TRANSFER_CHANNEL);
	readonly #resilience = channel(RESILIENCE_CHANNEL);

	readonly #blocks = this.family("kvcr_transfer_blocks_total", "side");
	readonly #bytes = this.family("kvcr_transfer_bytes_total", "side");
	readonly #instance: Incarnation;

	/** @param instance Tells the messages of several instances in one process apart. */
	constructor(
		instance: Incarnation,
		logger: Logger,
		stats: TelemetryStats | undefined,
	) {
		this.#instance = instance;
		this.logger = guardedLogger(logger);
		this.#stats = stats;
	}

	/** Adds to a counter. */
	count(
		name: CounterName,
		labels: Readonly<Record<string, string>> = {},
		by = 1,
	): void {
		const series = this.#series(name, labels);
		series.value += by;
		this.#tell(series, by);
	}

	/** The counters of this name that differ in `label`. */
	family(name: CounterName, label: string): CounterFamily {
		return new CounterFamily(
			(value) => this.#series(name, { [label]: value }),
			(series, by) => this.#tell(series, by),
		);
	}

	/** Records a duration in milliseconds; reported in seconds. */
	duration(
		name: "kvcr_transfer_seconds" | "kvcr_hint_seconds",
		ms: number,
		labels: Readonly<Record<string, string>>,
	): void {
		const stats = this.#stats;
		if (stats !== undefined)
			callOut(() => stats.observeHistogram(name, ms / 1000, { ...labels }));
	}

	/** All counters so far, as `name{label="value"}` → value. */
	counters(): Readonly<Record<string, number>> {
		const counters: Record<string, number> = {};
		for (const { name, labels, value } of this.#counters.values())
			counters[seriesName(name, labels)] = value;
		return counters;
	}

	/** Warns once per kind for the life of the instance; later occurrences are logged at debug level. */
	warnOnce(kind: string, fields: object, message: string): void {
		if (this.#warned.has(kind)) this.logger.debug(fields, message);
		else {
			this.#warned.add(kind);
			this.logger.warn(fields, message);
		}
	}

	/** Publishes one outcome of an independent hint. */
	hintOutcome(event: object): void {
		if (this.#hints.hasSubscribers)
			this.#hints.publish({ instance: this.#instance, ...event });
	}

	/** Publishes and counts one ended transfer. */
	transfer(event: TransferEvent): void {
		const { side, scope, result } = event;
		const labels = { side, scope, result };
		this.count("kvcr_transfers_total", labels);
		if (event.blocks > 0) {
			this.#blocks.count(side, event.blocks);
			this.#bytes.count(side, event.bytes);
		}
		this.duration("kvcr_transfer_seconds", event.elapsedMs, labels);
		if (this.#transfers.hasSubscribers)
			this.#transfers.publish({ instance: this.#instance, ...event });
	}

	/** Publishes and counts one report about memory at risk. */
	resilience(report: { readonly state: string; readonly side: string }): void {
		this.count("kvcr_resilience_reports_total", {
			state: report.state,
			side: report.side,
		});
		if (this.#resilience.hasSubscribers)
			this.#resilience.publish({ instance: this.#instance, report });
	}

	/** The series of a counter with these labels, begun at 0 where it is new. */
	#series(
		name: CounterName,
		labels: Readonly<Record<string, string>>,
	): Counter {
		// The order of labels is that of the calls in this project, which is fixed.
		let id: string = name;
		for (const label in labels) id += `,${labels[label]}`;
		let series = this.#counters.get(id);
		if (series === undefined) {
			series = { name, labels, value: 0 };
			this.#counters.set(id, series);
		}
		return series;
	}

	#tell({ name, labels }: Counter, by: number): void {
		const stats = this.#stats;
		if (stats !== undefined)
			// A copy: the sink may add to it, and this one names the series here.
			callOut(() => stats.increaseCounter(name, by, { ...labels }));
	}
}

function seriesName(
	name: string,
	labels: Readonly<Record<string, string>>,
): string {
	const keys = Object.keys(labels);
	if (keys.length === 0) return name;
	return `${name}{${keys.map((key) => `${key}="${labels[key]}"`).join(",")}}`;
}
