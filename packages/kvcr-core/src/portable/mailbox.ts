/** What waits for an agent's owner, and the one wake that says so. */
import { AlreadyStartedError } from "../ports/errors.js";
import type {
	AgentNotification,
	TransferCompletion,
} from "../ports/transfer-agent.js";

/** Notifications, and bytes of them, that may wait: no peer can make the agent's memory grow without end. */
const MAX_WAITING = 1 << 16;
const MAX_WAITING_BYTES = 64 << 20;

/** Completions and notifications in order of arrival. */
export class Mailbox {
	#completions: TransferCompletion[] = [];
	#notifications: AgentNotification[] = [];
	#waitingBytes = 0;
	#wake: (() => void) | undefined;
	#scheduled = false;
	#closed = false;

	/** Sets the listener. @throws AlreadyStartedError */
	attach(operation: string, wake: () => void): void {
		if (this.#wake !== undefined)
			throw new AlreadyStartedError(operation, "the listener");
		this.#wake = wake;
		if (this.#completions.length > 0 || this.#notifications.length > 0)
			this.#schedule();
	}

	/** Removes the listener. */
	detach(): void {
		this.#wake = undefined;
	}

	/** Adds a completion. */
	completed(completion: TransferCompletion): void {
		this.#completions.push(completion);
		this.#schedule();
	}

	/** Adds a notification. False when too many wait already. */
	notified(from: string, payload: Uint8Array): boolean {
		if (
			this.#closed ||
			this.#notifications.length >= MAX_WAITING ||
			this.#waitingBytes >= MAX_WAITING_BYTES
		)
			return false;
		this.#waitingBytes += payload.byteLength;
		this.#notifications.push({ from, payload });
		this.#schedule();
		return true;
	}

	/** Takes the completions. */
	takeCompletions(): readonly TransferCompletion[] {
		const taken = this.#completions;
		this.#completions = [];
		return taken;
	}

	/** Takes the notifications. */
	takeNotifications(): readonly AgentNotification[] {
		const taken = this.#notifications;
		this.#notifications = [];
		this.#waitingBytes = 0;
		return taken;
	}

	/** Never wakes anybody again. What waits can still be taken. */
	close(): void {
		this.#closed = true;
		this.#wake = undefined;
	}

	#schedule(): void {
		if (this.#scheduled || this.#wake === undefined) return;
		this.#scheduled = true;
		// A microtask runs after the call at hand has returned, and before the event loop waits again.
		queueMicrotask(() => {
			this.#scheduled = false;
			this.#wake?.();
		});
	}
}
