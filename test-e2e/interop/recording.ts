/** The form of the files in `recordings/`. */

/** One message or notification, as it was on the wire. */
export interface RecordedMessage {
	readonly from: "python" | "typescript";
	readonly via: "control" | "notification";
	readonly hex: string;
}

/** What one scenario put on the wire, in the order one side saw it. */
export interface Recording {
	/** Versions of the Python side, by package. */
	readonly python: Readonly<Record<string, string>>;
	readonly messages: readonly RecordedMessage[];
}
