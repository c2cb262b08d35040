/** Least bound at which ZeroMQ itself refuses a frame, in bytes. */
const LEAST_FRAME_BOUND = 256 * 1024 * 1024;

/**
 * The frame size at which ZeroMQ refuses to receive, in bytes. It gives the connection up for good over such a frame, so the
 * user's limit is checked after receipt, and this bound, at least twice that limit, only keeps one announced length from
 * taking all memory.
 */
export function frameBound(maxPayloadBytes: number): number {
	return Math.max(2 * maxPayloadBytes, LEAST_FRAME_BOUND);
}
