/** CURVE: every message encrypted, and only listed keys let in. */
import { InvalidArgumentError } from "kvcr-core";
import { type Context, curveKeyPair, Reply } from "zeromq";

/** A CURVE key pair, each key as 40 characters of Z85. */
export interface CurveKeyPair {
	/** Given to peers. */
	readonly publicKey: string;
	/** Kept. */
	readonly secretKey: string;
}

/** Settings of CURVE. Peers with another mechanism, or none, can neither send nor be sent to. */
export interface ZmqCurveOptions extends CurveKeyPair {
	/** Public keys of the peers that may send to this channel. */
	readonly allow: readonly string[];
	/**
	 * Public key of the peer behind an endpoint: one for all, or one by endpoint. Without one (`undefined`) nothing is sent to
	 * that endpoint; neither is when it throws or its answer is no key, which `stats().refused.bad_key` counts.
	 */
	readonly serverKey: string | ((endpoint: string) => string | undefined);
}

/** A new random key pair. */
export function generateCurveKeys(): CurveKeyPair {
	return curveKeyPair();
}

const ALPHABET =
	"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/** Where libzmq asks whether a key may enter (ZeroMQ RFC 27). There is one such place in each context. */
const ZAP_ADDRESS = "inproc://zeromq.zap.01";

/** Domain of our requests. */
export const ZAP_DOMAIN = "kvcr";

/**
 * Checks the form of a key.
 * @throws InvalidArgumentError; the message does not repeat the key, which may be a secret one
 */
export function checkKey(
	operation: string,
	argument: string,
	key: unknown,
): void {
	const valid =
		typeof key === "string" &&
		key.length === 40 &&
		[...key].every((character) => ALPHABET.includes(character));
	if (!valid)
		throw new InvalidArgumentError(
			operation,
			argument,
			typeof key,
			"a CURVE key: 40 characters of Z85",
		);
}

/**
 * The key of the peer behind an endpoint; undefined when it has none.
 * @throws what `serverKey` throws; InvalidArgumentError when its answer is no key
 */
export function serverKeyOf(
	{ serverKey }: ZmqCurveOptions,
	endpoint: string,
): string | undefined {
	if (typeof serverKey !== "function") return serverKey;
	const key = serverKey(endpoint);
	if (key !== undefined)
		checkKey("ZmqControlChannel.send", "curve.serverKey", key);
	return key;
}

/** Answers libzmq's questions about keys for the sockets of one context of its own. */
export class KeyGate {
	/** Keys turned away so far. */
	turnedAway = 0;
	readonly #allowed: ReadonlySet<string>;
	readonly #socket: Reply;

	/** @param context whose sockets are guarded */
	constructor(allow: readonly string[], context: Context) {
		this.#allowed = new Set(allow);
		this.#socket = new Reply({ context, linger: 0 });
	}

	/** Begins to answer. */
	async start(): Promise<void> {
		await this.#socket.bind(ZAP_ADDRESS);
		void this.#serve();
	}

	/** Stops answering: nobody new gets in. */
	close(): void {
		this.#socket.close();
	}

	async #serve(): Promise<void> {
		try {
			for await (const parts of this.#socket) {
				const [version, request, , , , mechanism, key] = parts;
				const allowed =
					mechanism?.toString() === "CURVE" &&
					key?.length === 32 &&
					this.#allowed.has(encodeKey(key));
				if (!allowed) this.turnedAway += 1;
				await this.#socket.send([
					version ?? "1.0",
					request ?? "",
					allowed ? "200" : "400",
					allowed ? "OK" : "unknown key",
					"",
					"",
				]);
			}
		} catch {
			// The socket was closed between a question and its answer.
		}
	}
}

/** Z85 text of 32 bytes (ZeroMQ RFC 32). */
export function encodeKey(bytes: Uint8Array): string {
	const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
	let text = "";
	for (let at = 0; at < bytes.length; at += 4) {
		const value = view.getUint32(at);
		for (let power = 85 ** 4; power >= 1; power /= 85)
			text += ALPHABET[Math.floor(value / power) % 85];
	}
	return text;
}
