/** Reads an accepted connection into memory of the reader's choice. */
import { Socket } from "node:net";

/** Bytes of the buffer that is read into when the reader has no better place: room for a frame around 64 KiB. */
export const SCRATCH_BYTES = 80 * 1024;

/** Where bytes go. */
export interface SocketReader {
	/** Memory for the next bytes, or `undefined` for the scratch buffer. */
	target(): Uint8Array | undefined;
	/** `bytes` were read into the memory that `target` gave. */
	direct(bytes: number): void;
	/** These bytes were read; they are only good during the call. */
	read(bytes: Buffer): void;
}

/**
 * Turns a connection from a server with `pauseOnConnect` into one that reads by `reader`. Node lets a socket read into given
 * memory (`onread`) only when it makes the socket itself, so the connection's handle moves to a new socket. Where that is
 * not possible, bytes are read as usual and handed to `read`.
 */
export function readInto(accepted: Socket, reader: SocketReader): Socket {
	const holder = accepted as Socket & { _handle?: unknown };
	const handle = holder._handle;
	if (typeof handle !== "object" || handle === null) {
		accepted.on("data", (bytes: Buffer) => reader.read(bytes));
		return accepted;
	}
	holder._handle = null;
	// Without its handle this only tells the server that the connection is no longer its own.
	accepted.destroy();
	const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
	let target: Uint8Array | undefined;
	const options = {
		handle,
		readable: true,
		writable: true,
		onread: {
			buffer: () => {
				target = reader.target();
				return target ?? scratch;
			},
			callback: (bytes: number) => {
				if (target === undefined) reader.read(scratch.subarray(0, bytes));
				else reader.direct(bytes);
				return true;
			},
		},
	};
	const socket = new Socket(options);
	socket.read(0);
	return socket;
}
