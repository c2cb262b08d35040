/**
 * One write at its source: what was asked, what is claimed for it, and where it stands.
 *
 * admitting → writing → finished
 *      ↘          ↘ cancelling → finished
 *       finished
 */
import type { Residency } from "../cache/index.js";
import type { PinClient } from "../framework/pins.js";
import type { KeyRef } from "../owner/key-ref.js";
import type { Timer, TransferId } from "../ports/index.js";
import { KvcrError } from "../ports/index.js";
import type { WriteName } from "./ended-writes.js";
import type { ReportedElement } from "./reports.js";
import type { RoutedElement } from "./routes.js";
import type { ReplyAddress } from "./serve-replies.js";

export type ServeState = "admitting" | "writing" | "cancelling" | "finished";

const NEXT: Readonly<Record<ServeState, readonly ServeState[]>> = {
	admitting: ["writing", "finished"],
	writing: ["cancelling", "finished"],
	cancelling: ["finished"],
	finished: [],
};

/** One destination piece: its label, and where it is. */
export interface ServeDestination extends RoutedElement {
	readonly label: string;
}

/** What a target asked for, checked. */
export interface ServeRequest extends ReplyAddress {
	readonly name: WriteName;
	readonly keys: readonly KeyRef[];
	readonly destinations: readonly (readonly ServeDestination[])[];
	readonly allowSubset: boolean;
	readonly allowFramework: boolean;
	readonly move: boolean;
	readonly startedAt: number;
	readonly deadline: number;
}

export class ServeJob implements PinClient {
	readonly request: ServeRequest;
	/** Managed blocks claimed, by key text. */
	readonly claims = new Map<string, Residency>();
	/** Managed blocks that are part of the write: the only ones a move may retire. */
	readonly written: Residency[] = [];
	transfer: TransferId | undefined;
	timer: Timer | undefined;
	abandoned = false;
	/** True once framework pins were asked for: never twice for one job. */
	pinsRequested = false;
	/** Memory the write reads, for reports. */
	sources: readonly ReportedElement[] = [];
	blocks = 0;
	bytes = 0;
	#state: ServeState = "admitting";
	readonly #settled: (job: ServeJob) => void;

	/** @param pinsSettled Called in the owner's turn when the framework has answered for every key. */
	constructor(request: ServeRequest, pinsSettled: (job: ServeJob) => void) {
		this.request = request;
		this.#settled = pinsSettled;
	}

	get state(): ServeState {
		return this.#state;
	}

	/** @throws KvcrError for a transition that the protocol does not have: a defect, never bad input. */
	enter(next: ServeState): void {
		if (!NEXT[this.#state].includes(next)) {
			throw new KvcrError(
				"ERR_KVCR_STATE",
				`write ${this.request.opHandle}: ${this.#state} cannot become ${next}`,
			);
		}
		this.#state = next;
	}

	pinsSettled(): void {
		this.#settled(this);
	}
}
