/**
 * Tells the others that this peer is there: at an interval, when asked, and when it leaves.
 *
 * An announcement is JSON on `<prefix>._presence.<peer>`: `{"instance": "…", "state": "up" | "down", "interval_ms": n}`.
 * Who speaks is said by the subject, which the server's permissions can tie to one account or user; the payload only
 * says which running instance it is. Being asked costs at most a few announcements a second, whoever asks how often.
 */
import { randomBytes } from "node:crypto";
import type { Clock, Timer } from "kvcr-core";
import type { Link } from "./link.js";
import type { LinkSubscription } from "./link-types.js";
import type { SubjectSpace } from "./subjects.js";

/** Shortest time between two announcements of one peer, in milliseconds. */
const MIN_GAP_MS = 200;

/** See the file comment. */
export class Announcer {
	private readonly instance = randomBytes(16).toString("hex");
	private subscription: LinkSubscription | undefined;
	private unobserve: (() => void) | undefined;
	private timer: Timer | undefined;
	private answer: Timer | undefined;
	private last = Number.NEGATIVE_INFINITY;
	private active = false;

	constructor(
		private readonly link: Link,
		private readonly subjects: SubjectSpace,
		private readonly peer: string,
		private readonly intervalMs: number,
		private readonly clock: Clock,
	) {}

	/** Registers for questions. */
	listen(): void {
		this.subscription = this.link.subscribe(this.subjects.presenceQuery, () =>
			this.soon(),
		);
		this.unobserve = this.link.observe({
			linkUp: () => this.soon(),
			linkDown: () => {},
		});
	}

	/** Announces now and from now on. */
	begin(): void {
		this.active = true;
		this.announce();
	}

	/** Ends; `farewell` says so to the others. */
	stop(farewell: boolean): void {
		this.active = false;
		this.timer?.cancel();
		this.answer?.cancel();
		this.timer = undefined;
		this.answer = undefined;
		this.subscription?.unsubscribe();
		this.unobserve?.();
		if (farewell) this.publish("down");
	}

	private soon(): void {
		if (!this.active || this.answer !== undefined) return;
		const wait = this.last + MIN_GAP_MS - this.clock.now();
		if (wait <= 0) {
			this.announce();
			return;
		}
		this.answer = this.clock.schedule(wait, () => {
			this.answer = undefined;
			this.announce();
		});
	}

	private announce(): void {
		this.timer?.cancel();
		this.last = this.clock.now();
		this.publish("up");
		this.timer = this.clock.schedule(this.intervalMs, () => this.announce());
	}

	private publish(state: "up" | "down"): void {
		const text = JSON.stringify({
			instance: this.instance,
			state,
			interval_ms: this.intervalMs,
		});
		// Nothing is queued while the link is down: the next one says the same.
		this.link.publish(this.subjects.presenceOf(this.peer), Buffer.from(text));
	}
}
