/** Peers that answer in the place of others. Nothing they say may have an effect. */
import type { OpHandle } from "../../ports/index.js";
import {
	type ControlMessage,
	encodeControlMessage,
	encodeWriteDone,
	UNRESOLVED,
} from "../../protocol/index.js";
import type { FaultDice } from "./faults.js";
import type { SimInstance } from "./instance.js";

/** `asker` sends a request to somebody: perhaps `stranger` answers it, too. */
export function strangerAnswers(
	asker: SimInstance,
	message: ControlMessage,
	stranger: SimInstance,
	dice: FaultDice,
	later: (ms: number, task: () => void) => void,
	log: (line: string) => void,
): void {
	const scope = `strangers ${asker.name}`;
	const to = asker.channel.endpoint;
	const own = stranger.channel.endpoint;
	if (to === undefined || own === undefined) return;
	const header = {
		targetAgent: stranger.agent.name,
		senderIncarnation: stranger.parts.incarnation,
		senderControlEndpoint: own,
		sourceControlEndpoint: to,
	};
	const random = dice.random(scope);
	const post = (forged: ControlMessage): void =>
		later(random.pick([0, 1, 10]), () => {
			if (!stranger.alive) return;
			log(`${stranger.name} forges ${forged.type} for ${asker.name}`);
			stranger.channel.post(to, encodeControlMessage(forged));
		});
	switch (message.type) {
		case "resolve_hashes": {
			if (!dice.roll("forge", scope)) return;
			post({
				type: "hashes_resolved",
				header,
				resolutionId: message.resolutionId,
				// An answer that no peer here would give.
				results: message.hashes.map(() => UNRESOLVED.unsupported),
			});
			return;
		}
		case "start_write": {
			const { opHandle } = message;
			if (dice.roll("forge", scope))
				post({ type: "write_refused", header, opHandle });
			if (dice.roll("impostor", scope))
				later(random.pick([0, 1, 10]), () => {
					log(`${stranger.name} claims a write to ${asker.name}`);
					claimDone(asker, stranger.agent.name, opHandle, message.keys.length);
				});
			return;
		}
		case "write_probe": {
			const { opHandle } = message;
			if (dice.roll("forge", scope))
				post({ type: "write_probe_ack", header, opHandle, terminal: true });
			return;
		}
		default:
			return;
	}
}

/** An agent says that a write has completed which it never posted. */
function claimDone(
	asker: SimInstance,
	from: string,
	opHandle: OpHandle,
	keys: number,
): void {
	if (!asker.alive) return;
	const completedIndices = Array.from({ length: keys }, (_, index) => index);
	asker.agent.inner.deliver(
		from,
		encodeWriteDone({ opHandle, success: true, completedIndices }),
	);
}
