/**
 * Closes what is open when the process or the worker thread exits. Two things of the binding make that necessary in worker
 * threads, where it would abort the whole process: a socket with a pending receive that is torn down with its thread tries to
 * settle a promise of an environment that is gone; and a sent message of over 128 bytes is handed back to the thread that sent
 * it, from libzmq's own threads, up to some time after its socket closed.
 *
 * `worker.terminate()` runs no handler at all, so a worker has to close its channels before that.
 */
import { isMainThread } from "node:worker_threads";

/** Time libzmq's threads take to hand back the messages of closed sockets, generously, in milliseconds. */
export const HAND_BACK_MS = 100;

const closers = new Set<() => void>();

/** Calls `close` at exit, until it is removed. */
export function add(close: () => void): void {
	if (closers.size === 0) process.on("exit", closeAll);
	closers.add(close);
}

/** The inverse of {@link add}. */
export function remove(close: () => void): void {
	if (closers.delete(close) && closers.size === 0)
		process.off("exit", closeAll);
}

function closeAll(): void {
	for (const close of closers) close();
	// Nothing asynchronous runs in an exit handler any more, so this waits by blocking.
	if (!isMainThread && closers.size > 0)
		Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, HAND_BACK_MS);
}
