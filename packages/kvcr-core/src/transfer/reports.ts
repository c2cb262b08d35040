/** Reports about memory that a failed transfer may still write to or read from. */
import type { OpHandle } from "../ports/index.js";
import { KvcrError } from "../ports/index.js";

/** Memory named in a report. */
export interface ReportedElement {
	/** Label of the region. */
	readonly label: string;
	/** Index in it. */
	readonly element: number;
	/** Who owns the memory. */
	readonly owner: "framework" | "kvcr";
}

/**
 * Says that memory is at risk (`uncertain`), and later that it is not any more (`quiesced`). `quiesced` clears the hazard of
 * this operation only; it never makes the failed data valid.
 */
export class TransferError extends KvcrError {
	/** `"uncertain"`: it may still be written or read. `"quiesced"`: it is proven that nothing touches it any more. */
	readonly state: "uncertain" | "quiesced";
	/** Which side of the transfer this instance is. */
	readonly side: "source" | "destination";
	/** Handle of the transfer, as on the wire. */
	readonly opHandle: OpHandle;
	/** The memory it is about. */
	readonly elements: readonly ReportedElement[];

	/** Made by an instance; the message lists the memory. */
	constructor(
		state: "uncertain" | "quiesced",
		side: "source" | "destination",
		opHandle: OpHandle,
		elements: readonly ReportedElement[],
	) {
		super(
			"ERR_KVCR_TRANSFER",
			`transfer ${opHandle} (${side}): ${elements.length} memory elements are ${state}`,
		);
		this.state = state;
		this.side = side;
		this.opHandle = opHandle;
		this.elements = elements;
	}
}

/** Receives reports, on the owner's side. */
export type TransferReportListener = (report: TransferError) => void;
