/** The control channel of an instance that has no peers. */
import type { ControlChannel } from "../ports/index.js";

/** Refuses every message and delivers none. */
export const noChannel: ControlChannel = {
	endpoint: undefined,
	start: async () => {},
	send: () => false,
	stats: () => ({ sent: 0, received: 0, refused: {}, dropped: {} }),
	close: async () => {},
};
