/** A connection over which another agent writes into this one. */
import type { Socket } from "node:net";
import type { Clock, Timer } from "../ports/clock.js";
import { readInto } from "./accepted-socket.js";
import { MAX_NOTIFICATION_BYTES, MAX_WRITE_PAIRS } from "./checks.js";
import {
	AckStatus,
	FrameError,
	type FrameHeader,
	FrameReader,
	FrameType,
	frame,
	HELLO_MAGIC,
	LINK_ID_BYTES,
	MAX_DATA_BYTES,
	MAX_REASON_BYTES,
	RUN_BYTES,
	WelcomeStatus,
} from "./frames.js";
import { Landing, type RegionLookup } from "./landing.js";
import { isAgentName, MAX_AGENT_NAME_BYTES, TOKEN_BYTES } from "./metadata.js";
import type { RegionMemory } from "./region-memory.js";
import type { Session } from "./sessions.js";

/** Bytes of answers that may wait for a peer that does not read them. */
const MAX_UNREAD_ANSWERS = 4 << 20;

/** What a connection needs from its agent. */
export interface InboundHost {
	readonly region: RegionLookup;
	/** Takes over the session of a link, ending its former connection; or says why not. */
	admit(
		token: Uint8Array,
		linkId: string,
		connection: InboundConnection,
	): Session | "unknownToken" | "busy";
	/** Hands over a notification. False when the owner has too many. */
	notified(from: string, payload: Uint8Array): boolean;
	/** The connection is over. */
	ended(connection: InboundConnection): void;
}

/** Speaks the target's side of the protocol of `frames.ts`. */
export class InboundConnection {
	readonly #host: InboundHost;
	readonly #socket: Socket;
	readonly #reader: FrameReader;
	readonly #greetingTimer: Timer;
	#session: Session | undefined;
	#from = "";
	#landing: Landing | undefined;
	#lastPart = false;
	/** Not sent yet, in order. */
	#answers: Buffer[] = [];
	#answersDue = false;
	/** Region whose memory the system was told to read into. */
	#lent: RegionMemory | undefined;
	/** Memory of an ended region that the system may still read into. */
	#kept: readonly ArrayBuffer[] = [];
	readonly closed: Promise<void>;

	constructor(
		accepted: Socket,
		host: InboundHost,
		clock: Clock,
		greetingMs: number,
	) {
		this.#host = host;
		this.#reader = new FrameReader(this);
		this.#socket = readInto(accepted, {
			target: () => this.#target(),
			direct: (bytes) =>
				this.#guarded(() => {
					this.#landing?.placedDirectly(bytes);
					this.#reader.skip(bytes);
					if (this.#reader.streamLeft === 0) this.#partEnded();
				}),
			read: (bytes) => this.#guarded(() => this.#reader.feed(bytes)),
		});
		this.#socket.setNoDelay(true);
		this.#socket.setKeepAlive(true, 15_000);
		this.#socket.on("error", () => this.end());
		this.#greetingTimer = clock.schedule(greetingMs, () => this.end());
		this.closed = new Promise((resolve) => {
			this.#socket.once("close", () => {
				this.#greetingTimer.cancel();
				this.#kept = [];
				host.ended(this);
				resolve();
			});
		});
	}

	/** True until the peer has shown that it knows the token. */
	get anonymous(): boolean {
		return this.#session === undefined;
	}

	/** False once the connection has been ended. */
	get live(): boolean {
		return !this.#socket.destroyed;
	}

	/** Ends the connection now; no further byte is placed. What was answered is still told, if the system takes it. */
	end(): void {
		this.#landing = undefined;
		this.#answer();
		this.#socket.destroy();
	}

	/** Whether memory of an ended region is kept for a read that was set up before. */
	get holdsEndedMemory(): boolean {
		return this.#kept.length > 0;
	}

	/** A region of the agent ended; keeps its memory for a read that was set up before. */
	regionEnded(region: RegionMemory, moved: readonly ArrayBuffer[]): void {
		if (this.#lent === region) this.#kept = moved;
	}

	/** For the frame reader. */
	header(header: FrameHeader): "body" | "stream" {
		const { type, length } = header;
		if (this.#session === undefined) {
			const longest = TOKEN_BYTES + LINK_ID_BYTES + MAX_AGENT_NAME_BYTES;
			if (
				type !== FrameType.hello ||
				header.number !== HELLO_MAGIC ||
				length > longest
			)
				throw new FrameError("not a hello");
			return "body";
		}
		switch (type) {
			case FrameType.write:
				return bounded(
					length,
					4 + MAX_WRITE_PAIRS * RUN_BYTES + MAX_NOTIFICATION_BYTES,
				);
			case FrameType.abort:
				return bounded(length, 0);
			case FrameType.notify:
				return bounded(length, MAX_NOTIFICATION_BYTES);
			case FrameType.data:
				if (this.#landing === undefined || length < 1)
					throw new FrameError("data outside a write");
				bounded(length, MAX_DATA_BYTES);
				this.#lastPart = header.status === 1;
				return "stream";
			default:
				throw new FrameError(`frame type ${type}`);
		}
	}

	/** For the frame reader. */
	frame(header: FrameHeader, body: Buffer): void {
		if (this.#session === undefined) {
			this.#greet(body);
			return;
		}
		switch (header.type) {
			case FrameType.write:
				if (
					this.#landing !== undefined ||
					header.number <= this.#session.processed
				)
					throw new FrameError("a write out of turn");
				this.#landing = new Landing(header.number, body, this.#host.region);
				return;
			case FrameType.abort:
				if (this.#landing?.sequence !== header.number)
					throw new FrameError("an abort out of turn");
				this.#finish(AckStatus.aborted, "aborted by the writer");
				return;
			case FrameType.notify:
				this.#host.notified(this.#from, new Uint8Array(body));
		}
	}

	/** For the frame reader. */
	stream(bytes: Buffer): void {
		this.#landing?.place(bytes);
		if (this.#reader.streamLeft === 0) this.#partEnded();
	}

	#greet(body: Buffer): void {
		const nameAt = TOKEN_BYTES + LINK_ID_BYTES;
		const name = body.toString("utf8", nameAt);
		if (body.length <= nameAt || !isAgentName(name))
			throw new FrameError("an unusable hello");
		const admitted = this.#host.admit(
			body.subarray(0, TOKEN_BYTES),
			body.toString("hex", TOKEN_BYTES, nameAt),
			this,
		);
		if (typeof admitted === "string") {
			this.#socket.end(
				frame(FrameType.welcome, Buffer.alloc(0), 0, WelcomeStatus[admitted]),
			);
			this.#socket.destroySoon();
			return;
		}
		this.#greetingTimer.cancel();
		this.#session = admitted;
		this.#from = name;
		const refused = Buffer.alloc(6 * admitted.refused.length);
		admitted.refused.forEach((number, i) => {
			refused.writeUIntLE(number, 6 * i, 6);
		});
		this.#answers.push(
			frame(FrameType.welcome, refused, admitted.processed, WelcomeStatus.ok),
		);
		this.#answer();
	}

	/** A data frame is complete. */
	#partEnded(): void {
		const landing = this.#landing;
		if (!this.#lastPart || landing === undefined) return;
		const refusal =
			landing.refusal ??
			(landing.left > 0 ? "fewer bytes than announced" : undefined);
		if (refusal !== undefined) this.#finish(AckStatus.refused, refusal);
		else if (!this.#host.notified(this.#from, landing.notification))
			this.#finish(
				AckStatus.refused,
				"the target's owner takes no notifications",
			);
		else this.#finish(AckStatus.done, "");
	}

	#finish(status: number, reason: string): void {
		const { sequence } = this.#landing as Landing;
		this.#landing = undefined;
		this.#session?.finished(sequence, status === AckStatus.done);
		const text = Buffer.from(reason).subarray(0, MAX_REASON_BYTES);
		this.#answers.push(frame(FrameType.ack, text, sequence, status));
		if (status === AckStatus.done) this.#answerSoon();
		else this.#answer();
	}

	/**
	 * Answers once the owner has had its turn. The mailbox wakes it in the next microtask, and it mostly looks in the one after
	 * that: an answer before it costs the owner the time of a system call, and the writer is in no hurry.
	 */
	#answerSoon(): void {
		if (this.#answersDue) return;
		this.#answersDue = true;
		queueMicrotask(() =>
			queueMicrotask(() => {
				this.#answersDue = false;
				this.#answer();
			}),
		);
	}

	/** Where the system should read to next. */
	#target(): Uint8Array | undefined {
		const direct = this.#landing?.direct(this.#reader.streamLeft);
		this.#lent = direct === undefined ? undefined : this.#landing?.directRegion;
		this.#kept = [];
		return direct;
	}

	/** Sends what waits. */
	#answer(): void {
		const answers = this.#answers;
		if (answers.length === 0 || this.#socket.destroyed) return;
		this.#answers = [];
		this.#socket.write(
			answers.length === 1 ? (answers[0] as Buffer) : Buffer.concat(answers),
		);
		if (this.#socket.writableLength > MAX_UNREAD_ANSWERS) this.end();
	}

	/** Handles arrived bytes; whatever breaks the protocol ends the connection, never the process. */
	#guarded(handle: () => void): void {
		if (this.#socket.destroyed) return;
		try {
			handle();
		} catch {
			this.end();
		}
	}
}

function bounded(length: number, most: number): "body" {
	if (length > most) throw new FrameError(`a frame of ${length} bytes`);
	return "body";
}
