/** Takes completions and notifications off the transfer agent whenever it wakes, and hands them on in batches. */
import type {
	AgentNotification,
	TransferAgent,
	TransferCompletion,
} from "../ports/index.js";

/** Where the pump delivers to. */
export interface AgentEvents {
	completed(completion: TransferCompletion): void;
	notified(notification: AgentNotification): void;
	/** The agent itself failed: progress cannot go on. */
	failed(error: unknown): void;
}

/** Owns the agent's wake-up listener. */
export class AgentPump {
	readonly #agent: TransferAgent;
	readonly #events: AgentEvents;
	#attached = false;

	constructor(agent: TransferAgent, events: AgentEvents) {
		this.#agent = agent;
		this.#events = events;
	}

	/** Begins to deliver. */
	start(): void {
		this.#agent.attach(() => this.pump());
		this.#attached = true;
	}

	/** Delivers what is waiting. Notifications go first: a success that came with the last bytes outranks what follows. */
	pump(): void {
		try {
			for (const notification of this.#agent.takeNotifications())
				this.#events.notified(notification);
			for (const completion of this.#agent.takeCompletions())
				this.#events.completed(completion);
		} catch (error) {
			this.#events.failed(error);
		}
	}

	/** Ends delivery. */
	stop(): void {
		if (!this.#attached) return;
		this.#attached = false;
		this.#agent.detach();
	}
}
