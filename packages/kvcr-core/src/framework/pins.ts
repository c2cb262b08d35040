/**
 * Pins on framework memory, shared between the operations that read through them: a request asks the framework only for keys
 * that no pin covers and no earlier request asks for. The last reader's end releases a pin, again and again until the
 * framework takes it back. Everything here runs in the owner's turn.
 */
import type { KeyRef } from "../owner/key-ref.js";
import { disregard } from "../ports/foreign.js";
import type {
	FrameworkPiece,
	FrameworkPins,
	GrantedPin,
	PinHandle,
	PinRequestId,
} from "../ports/index.js";
import {
	blockKey,
	InvalidArgumentError,
	keyFromText,
	keyText,
} from "../ports/index.js";
import type { Telemetry } from "../telemetry/telemetry.js";

/** An operation that wants to read framework memory. */
export interface PinClient {
	/** Every key asked for is either pinned or known to be unavailable. */
	pinsSettled(): void;
}

interface Pin {
	readonly handle: PinHandle;
	readonly pieces: Map<string, readonly FrameworkPiece[]>;
	readonly users: Set<PinClient>;
	/** Once a release was tried, the memory may not be read any more. */
	releasing: boolean;
}

interface PendingRequest {
	readonly id: PinRequestId;
	readonly keys: readonly KeyRef[];
	readonly clients: Set<PinClient>;
}

/** What one client waits for and holds. */
interface ClientState {
	readonly pending: Set<PinRequestId>;
	readonly pins: Set<Pin>;
	/** Keys whose pin is being released right now: they are asked for again afterwards. */
	blocked: KeyRef[];
}

/**
 * Polls after a cancellation that are asked for because of it: a framework may grant a withdrawn request, and may also never
 * answer it.
 */
const POLLS_AFTER_CANCEL = 100;

export class PinLedger {
	readonly #pins: FrameworkPins;
	readonly #telemetry: Telemetry;
	/** Rejects pieces that are not registered framework memory. */
	readonly #accepts: (pieces: readonly FrameworkPiece[]) => boolean;
	readonly #byKey = new Map<string, Pin>();
	readonly #byHandle = new Map<PinHandle, Pin>();
	readonly #pending = new Map<PinRequestId, PendingRequest>();
	readonly #pendingByKey = new Map<string, PendingRequest>();
	readonly #clients = new Map<PinClient, ClientState>();
	/** Withdrawn requests that may be granted all the same, with the polls they are still waited for. */
	readonly #withdrawn = new Map<PinRequestId, number>();

	constructor(
		pins: FrameworkPins,
		telemetry: Telemetry,
		accepts: (pieces: readonly FrameworkPiece[]) => boolean,
	) {
		this.#pins = pins;
		this.#telemetry = telemetry;
		this.#accepts = accepts;
	}

	/** Pins held, requests without an answer, and pins whose release is not accepted yet. */
	get counts(): {
		readonly held: number;
		readonly pending: number;
		readonly releasing: number;
	} {
		let releasing = 0;
		for (const pin of this.#byHandle.values())
			if (pin.releasing) releasing += 1;
		return {
			held: this.#byHandle.size - releasing,
			pending: this.#pending.size,
			releasing,
		};
	}

	/** True while only the framework can move things on: an answer or an accepted release is outstanding. */
	get waiting(): boolean {
		return (
			this.#pending.size > 0 ||
			this.#withdrawn.size > 0 ||
			this.counts.releasing > 0
		);
	}

	/**
	 * Acquires pins for a client. True: settled already. False: `pinsSettled` follows in a later `poll`.
	 */
	acquire(client: PinClient, keys: readonly KeyRef[]): boolean {
		const state = this.#clients.get(client) ?? {
			pending: new Set(),
			pins: new Set(),
			blocked: [],
		};
		this.#clients.set(client, state);
		const missing: KeyRef[] = [];
		for (const ref of keys) {
			const pin = this.#byKey.get(ref.text);
			const pending = this.#pendingByKey.get(ref.text);
			if (pin !== undefined && !pin.releasing) {
				pin.users.add(client);
				state.pins.add(pin);
			} else if (pin !== undefined) state.blocked.push(ref);
			else if (pending !== undefined) {
				pending.clients.add(client);
				state.pending.add(pending.id);
			} else missing.push(ref);
		}
		if (missing.length > 0) this.#request(client, state, missing);
		return state.pending.size === 0 && state.blocked.length === 0;
	}

	/** Pieces a client may read for a key; undefined when the key is not pinned for it. */
	pieces(
		client: PinClient,
		text: string,
	): readonly FrameworkPiece[] | undefined {
		const pin = this.#byKey.get(text);
		return pin?.users.has(client) ? pin.pieces.get(text) : undefined;
	}

	/** Keeps only the pins behind these keys; the others are released when nobody else uses them. */
	retain(client: PinClient, texts: ReadonlySet<string>): void {
		const state = this.#clients.get(client);
		if (state === undefined) return;
		for (const pin of [...state.pins]) {
			let needed = false;
			for (const text of pin.pieces.keys())
				if (texts.has(text) && this.#byKey.get(text) === pin) needed = true;
			if (needed) continue;
			state.pins.delete(pin);
			this.#unuse(pin, client);
		}
		this.#withdraw(client, state);
		if (state.pins.size === 0) this.#clients.delete(client);
	}

	/** Gives up everything a client holds or waits for. */
	drop(client: PinClient): void {
		const state = this.#clients.get(client);
		if (state === undefined) return;
		this.#clients.delete(client);
		this.#withdraw(client, state);
		for (const pin of state.pins) this.#unuse(pin, client);
	}

	/** Retries releases and takes the framework's answers. */
	poll(): void {
		for (const pin of [...this.#byHandle.values()])
			if (pin.releasing) this.#release(pin);
		this.#retryBlocked();
		// Also when nothing is pending: a withdrawn request may be granted all the same, and that pin has to go back.
		this.#takeAnswers();
		for (const [id, polls] of this.#withdrawn) {
			if (polls > 1) this.#withdrawn.set(id, polls - 1);
			else this.#withdrawn.delete(id);
		}
	}

	/**
	 * Withdraws and releases everything.
	 * @returns handles the framework did not take back.
	 */
	close(): readonly PinHandle[] {
		for (const client of [...this.#clients.keys()]) this.drop(client);
		this.#takeAnswers();
		for (const pin of [...this.#byHandle.values()]) this.#release(pin);
		return [...this.#byHandle.keys()];
	}

	#request(
		client: PinClient,
		state: ClientState,
		missing: readonly KeyRef[],
	): void {
		let id: PinRequestId;
		try {
			// From the text: the keys may be views of a message, whose memory a channel may use again.
			id = this.#pins.request(missing.map((ref) => keyFromText(ref.text)));
			if (typeof id !== "bigint") {
				disregard(id);
				throw new InvalidArgumentError(
					"FrameworkPins.request",
					"result",
					id,
					"a bigint",
				);
			}
		} catch (error) {
			this.#telemetry.warnOnce(
				"pin-request",
				{ error },
				"framework refused a pin request",
			);
			return;
		}
		if (this.#pending.has(id)) {
			this.#telemetry.warnOnce(
				"pin-request-id",
				{ id: String(id) },
				"framework reused the ID of a pin request in flight",
			);
			return;
		}
		const request: PendingRequest = {
			id,
			keys: missing,
			clients: new Set([client]),
		};
		this.#pending.set(id, request);
		for (const ref of missing) this.#pendingByKey.set(ref.text, request);
		state.pending.add(id);
	}

	/** Takes what the framework has answered; an answer that makes no sense is nobody's but its own. */
	#takeAnswers(): void {
		const answers: (readonly [PinRequestId, GrantedPin | undefined])[] = [];
		try {
			// One by one: what came before a failure counts.
			const results = this.#pins.pollResults();
			disregard(results);
			for (const answer of results) answers.push(answer);
		} catch (error) {
			this.#telemetry.warnOnce(
				"pin-poll",
				{ error },
				"framework failed to report pin results",
			);
		}
		for (const answer of answers) {
			if (Array.isArray(answer)) this.#answered(answer[0], answer[1]);
			else
				this.#telemetry.warnOnce(
					"pin-answer",
					{ answer },
					"framework reported a pin result that is no pair",
				);
		}
	}

	#answered(id: PinRequestId, granted: GrantedPin | null | undefined): void {
		const request = this.#pending.get(id);
		this.#withdrawn.delete(id);
		if (request !== undefined) this.#forget(request);
		if (typeof granted?.handle === "string") this.#install(request, granted);
		else if (granted !== undefined && granted !== null)
			this.#telemetry.warnOnce(
				"pin-handle",
				{ granted },
				"framework granted a pin without a handle",
			);
		if (request === undefined) return;
		for (const client of request.clients) {
			const state = this.#clients.get(client);
			if (state === undefined || !state.pending.delete(id)) continue;
			if (state.pending.size === 0 && state.blocked.length === 0)
				client.pinsSettled();
		}
	}

	#install(request: PendingRequest | undefined, granted: GrantedPin): void {
		const known = this.#byHandle.get(granted.handle);
		const pin: Pin = known ?? {
			handle: granted.handle,
			pieces: new Map(),
			users: new Set(),
			releasing: false,
		};
		this.#byHandle.set(pin.handle, pin);
		if (request !== undefined && request.clients.size > 0 && !pin.releasing) {
			const byText = this.#blocksOf(granted);
			for (const ref of request.keys) {
				const pieces = byText.get(ref.text);
				if (pieces === undefined || pieces === null) continue;
				if (this.#byKey.has(ref.text)) continue;
				if (!this.#accepts(pieces)) {
					this.#telemetry.warnOnce(
						"pin-pieces",
						{ pin: pin.handle },
						"framework pinned memory that is not registered here",
					);
					continue;
				}
				// The framework may use its list again.
				pin.pieces.set(ref.text, [...pieces]);
				this.#byKey.set(ref.text, pin);
			}
			if (pin.pieces.size > 0) {
				for (const client of request.clients) {
					pin.users.add(client);
					this.#clients.get(client)?.pins.add(pin);
				}
			}
		}
		if (pin.users.size === 0) this.#release(pin);
	}

	/** What a grant names, by key. Nothing, if any of it cannot be read: then the pin goes back at once. */
	#blocksOf(
		granted: GrantedPin,
	): ReadonlyMap<string, readonly FrameworkPiece[] | null | undefined> {
		try {
			const byText = new Map<string, readonly FrameworkPiece[] | undefined>();
			for (const [key, pieces] of granted.blocks)
				byText.set(keyText(blockKey(key, "FrameworkPins", "key")), pieces);
			return byText;
		} catch (error) {
			this.#telemetry.warnOnce(
				"pin-blocks",
				{ error, pin: granted.handle },
				"framework granted a pin whose blocks cannot be read",
			);
			return new Map();
		}
	}

	#withdraw(client: PinClient, state: ClientState): void {
		state.blocked = [];
		for (const id of state.pending) {
			const request = this.#pending.get(id);
			if (request === undefined) continue;
			request.clients.delete(client);
			if (request.clients.size > 0) continue;
			this.#forget(request);
			this.#withdrawn.set(id, POLLS_AFTER_CANCEL);
			try {
				disregard(this.#pins.cancel(id));
			} catch (error) {
				this.#telemetry.warnOnce(
					"pin-cancel",
					{ error },
					"framework failed to cancel a pin request",
				);
			}
		}
		state.pending.clear();
	}

	#forget(request: PendingRequest): void {
		this.#pending.delete(request.id);
		for (const ref of request.keys) {
			if (this.#pendingByKey.get(ref.text) === request)
				this.#pendingByKey.delete(ref.text);
		}
	}

	#unuse(pin: Pin, client: PinClient): void {
		pin.users.delete(client);
		if (pin.users.size === 0) this.#release(pin);
	}

	#release(pin: Pin): void {
		pin.releasing = true;
		let accepted = false;
		try {
			const answer: unknown = this.#pins.release(pin.handle);
			disregard(answer);
			accepted = answer === true;
		} catch (error) {
			this.#telemetry.warnOnce(
				"pin-release",
				{ error, pin: pin.handle },
				"framework failed to release a pin",
			);
		}
		if (!accepted) return;
		this.#byHandle.delete(pin.handle);
		for (const text of pin.pieces.keys())
			if (this.#byKey.get(text) === pin) this.#byKey.delete(text);
	}

	#retryBlocked(): void {
		for (const [client, state] of [...this.#clients]) {
			if (state.blocked.length === 0) continue;
			const again = state.blocked;
			state.blocked = [];
			if (this.acquire(client, again)) client.pinsSettled();
		}
	}
}
