/** One attempt to reach an agent: connect, say hello, hear welcome; then frames until the connection ends. */
import { createConnection, type Socket } from "node:net";
import type { Clock } from "../ports/clock.js";
import { reasonOf } from "../ports/errors.js";
import {
	FrameError,
	type FrameHeader,
	FrameReader,
	FrameType,
	frame,
	HELLO_MAGIC,
	MAX_REASON_BYTES,
	MAX_REMEMBERED_REFUSALS,
	WelcomeStatus,
} from "./frames.js";

/** Bytes of answers read at a time. */
const ANSWER_BUFFER_BYTES = 8 * 1024;

/** Whom to reach, and as whom. */
export interface DialTarget {
	readonly host: string;
	readonly port: number;
	readonly token: Uint8Array;
	readonly linkId: Uint8Array;
	/** Name of the dialing agent. */
	readonly self: string;
}

/** How the target received the link. */
export interface Welcome {
	/** Last sequence number of this link that the target processed. */
	readonly processed: number;
	/** Those among them that were not carried out. */
	readonly refused: ReadonlySet<number>;
}

/** The target's answer to one write. */
export interface Ack {
	readonly sequence: number;
	readonly status: number;
	readonly reason: string;
}

/**
 * Why a connection ended. `gone`: the agent that the metadata describes no longer listens, so it cannot carry anything out
 * any more. `unsure`: it may be alive.
 */
export interface Ending {
	readonly certainty: "gone" | "unsure";
	readonly reason: string;
}

/** What happens on a connection. */
export interface DialEvents {
	welcomed(welcome: Welcome): void;
	acknowledged(ack: Ack): void;
	/** The system has let go of the connection. Called exactly once, last. */
	ended(ending: Ending): void;
}

/** A connection to a target, from its first attempt to its end. */
export class Dialer {
	readonly #events: DialEvents;
	readonly #socket: Socket;
	readonly #reader: FrameReader;
	#welcomed = false;
	#ending: Ending = { certainty: "unsure", reason: "the connection was lost" };
	readonly closed: Promise<void>;

	constructor(
		target: DialTarget,
		events: DialEvents,
		clock: Clock,
		greetingMs: number,
	) {
		this.#events = events;
		this.#reader = new FrameReader(this);
		const socket = createConnection({
			host: target.host,
			port: target.port,
			noDelay: true,
			keepAlive: true,
			keepAliveInitialDelay: 15_000,
			// One small buffer for all answers: without it Node allocates 64 KiB for each of them.
			onread: {
				buffer: Buffer.allocUnsafeSlow(ANSWER_BUFFER_BYTES),
				callback: (bytes, buffer) => {
					this.#feed(Buffer.from(buffer.buffer, buffer.byteOffset, bytes));
					return true;
				},
			},
		});
		this.#socket = socket;
		const timer = clock.schedule(greetingMs, () => {
			if (!this.#welcomed) this.#fail("unsure", "the target did not answer");
		});
		socket.once("connect", () => {
			const { token, linkId, self } = target;
			socket.write(
				frame(
					FrameType.hello,
					Buffer.concat([token, linkId, Buffer.from(self)]),
					HELLO_MAGIC,
				),
			);
		});
		socket.on("error", (error: NodeJS.ErrnoException) => {
			const gone = error.code === "ECONNREFUSED";
			this.#ending = {
				certainty: gone ? "gone" : "unsure",
				reason: `${this.#welcomed ? "the connection was lost" : "the target cannot be reached"}: ${error.message}`,
			};
		});
		this.closed = new Promise((resolve) => {
			socket.once("close", () => {
				timer.cancel();
				events.ended(this.#ending);
				resolve();
			});
		});
	}

	/** Sends buffers as one; `flushed` is called when the system has taken them, not called when the connection ends. */
	send(buffers: readonly Uint8Array[], flushed?: () => void): void {
		const socket = this.#socket;
		socket.cork();
		for (let i = 0; i < buffers.length - 1; i += 1)
			socket.write(buffers[i] as Uint8Array);
		socket.write(buffers.at(-1) as Uint8Array, (error) => {
			if (!error) flushed?.();
		});
		socket.uncork();
	}

	/** Ends the connection now. `ended` and `closed` follow. */
	end(): void {
		this.#socket.destroy();
	}

	/** Ends the connection once what was sent is out, at the latest after `mostMs`. */
	endSoon(clock: Clock, mostMs: number): void {
		const timer = clock.schedule(mostMs, () => this.end());
		this.#socket.once("close", () => timer.cancel());
		this.#socket.destroySoon();
	}

	/** For the frame reader. */
	header({ type, length }: FrameHeader): "body" {
		const most = this.#welcomed
			? MAX_REASON_BYTES
			: 6 * MAX_REMEMBERED_REFUSALS;
		const expected = this.#welcomed ? FrameType.ack : FrameType.welcome;
		if (type !== expected || length > most) {
			// Before the welcome this means that somebody else has taken over the port.
			if (!this.#welcomed)
				this.#fail("gone", "something else listens at the target's address");
			throw new FrameError(`frame type ${type} of ${length} bytes`);
		}
		return "body";
	}

	/** For the frame reader. */
	frame(header: FrameHeader, body: Buffer): void {
		if (this.#socket.destroyed) return;
		if (this.#welcomed) {
			this.#events.acknowledged({
				sequence: header.number,
				status: header.status,
				reason: body.toString("utf8"),
			});
			return;
		}
		switch (header.status) {
			case WelcomeStatus.ok: {
				this.#welcomed = true;
				const refused = new Set<number>();
				for (let at = 0; at + 6 <= body.length; at += 6)
					refused.add(body.readUIntLE(at, 6));
				this.#events.welcomed({ processed: header.number, refused });
				return;
			}
			case WelcomeStatus.unknownToken:
				this.#fail(
					"gone",
					"the target was restarted, or does not know the token",
				);
				return;
			default:
				this.#fail("unsure", "the target has too many peers");
		}
	}

	/** For the frame reader; a target streams nothing. */
	stream(): void {}

	#feed(bytes: Buffer): void {
		if (this.#socket.destroyed) return;
		try {
			this.#reader.feed(bytes);
		} catch (error) {
			this.#fail("unsure", `the target broke the protocol: ${reasonOf(error)}`);
		}
	}

	#fail(certainty: Ending["certainty"], reason: string): void {
		if (this.#socket.destroyed) return;
		this.#ending = { certainty, reason };
		this.#socket.destroy();
	}
}
