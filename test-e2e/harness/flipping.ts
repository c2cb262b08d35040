/** An agent between whose writes and their notifications one bit goes wrong. */
import type { MemoryRegion, TransferAgent } from "kvcr-core";

/** Makes an agent flip one bit of every element that the first write to it has filled. Call it before it has regions. */
export function flipOneBit(agent: TransferAgent): void {
	const regions: MemoryRegion[] = [];
	const createRegion = agent.createRegion.bind(agent);
	agent.createRegion = async (options) => {
		const region = await createRegion(options);
		regions.push(region);
		return region;
	};
	const takeNotifications = agent.takeNotifications.bind(agent);
	let flipped = false;
	agent.takeNotifications = () => {
		const notifications = takeNotifications();
		if (notifications.length === 0 || flipped) return notifications;
		for (const region of regions) {
			for (let at = 0; at < region.elementCount; at += 1) {
				const bytes = region.element(at);
				if (bytes.every((byte) => byte === 0)) continue;
				bytes[5] = (bytes[5] ?? 0) ^ 0x10;
				flipped = true;
			}
		}
		return notifications;
	};
}
