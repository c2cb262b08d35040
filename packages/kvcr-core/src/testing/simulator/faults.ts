/** What goes wrong, how often, and the dice that decide it. */
import { SimRandom } from "./random.js";

/** Chances of each fault, 0 to 1, per message, write, call, or whatever the fault is about. */
export interface FaultRates {
	/** A control message is lost. */
	readonly lose: number;
	/** A control message comes later than sent, by 1 to 1500 ms, and may be overtaken. */
	readonly delay: number;
	/** A control message comes once more, up to 1500 ms later. */
	readonly duplicate: number;
	/** Bytes are changed or cut off; what still reads as a message is lost instead, as behind a checksum. */
	readonly damage: number;
	/** `send` answers false. */
	readonly refuseSend: number;
	/** A stranger answers in the place of the peer that was asked. */
	readonly forge: number;
	/** The agent's `write` throws. */
	readonly writeRefused: number;
	/** A write ends as failed. */
	readonly writeFail: number;
	/** A write takes 50 to 700 ms. */
	readonly writeSlow: number;
	/** Ends long after both deadlines. */
	readonly writeStall: number;
	/** Cancelling a write has no effect: it goes on. */
	readonly ignoreCancel: number;
	/** The notification of a write is lost. */
	readonly noteLose: number;
	/** The notification of a write comes twice. */
	readonly noteDuplicate: number;
	/** The notification of a write comes 5 to 1500 ms after its bytes. */
	readonly noteLate: number;
	/** A stranger claims that a write has completed. */
	readonly impostor: number;
	/** The framework answers a pin request with a refusal. */
	readonly pinDeny: number;
	/** The framework's answer to a pin request takes 50 to 900 ms. */
	readonly pinLate: number;
	/** The framework refuses to take a pin back; it may be asked again. */
	readonly pinRefuseRelease: number;
	/** A method of the framework's pins throws. */
	readonly pinThrow: number;
	/** A method of the cache policy throws. */
	readonly policyThrow: number;
	/** The cache policy drops a block that comes, or keeps one that should go. */
	readonly policyDecline: number;
	/** The key adapter throws, or returns something it must not. */
	readonly adapterFail: number;
	/** The inventory sink throws. */
	readonly sinkThrow: number;
	/** The agent does not accept the metadata of a peer. */
	readonly peerMetadataRefused: number;
}

/** Name of one fault. */
export type FaultKind = keyof FaultRates;

/** Rates of an ordinary run, before a run's own emphasis. */
export const USUAL_RATES: FaultRates = {
	lose: 0.03,
	delay: 0.08,
	duplicate: 0.05,
	damage: 0.02,
	refuseSend: 0.01,
	forge: 0.04,
	writeRefused: 0.02,
	writeFail: 0.06,
	writeSlow: 0.1,
	writeStall: 0.06,
	ignoreCancel: 0.5,
	noteLose: 0.03,
	noteDuplicate: 0.05,
	noteLate: 0.05,
	impostor: 0.05,
	pinDeny: 0.15,
	pinLate: 0.2,
	pinRefuseRelease: 0.3,
	pinThrow: 0.03,
	policyThrow: 0.01,
	policyDecline: 0.02,
	adapterFail: 0.02,
	sinkThrow: 0.05,
	peerMetadataRefused: 0.01,
};

/** Names of all faults, in the order of {@link USUAL_RATES}. */
export const FAULT_KINDS = Object.keys(USUAL_RATES) as readonly FaultKind[];

/** Rates of one run: each kind is left out, usual, or frequent, so that runs differ in what they are about. */
export function drawRates(random: SimRandom): FaultRates {
	const calm = random.chance(0.08);
	const rates: Record<string, number> = {};
	for (const kind of FAULT_KINDS) {
		const factor = calm ? 0 : random.pick([0, 0, 1, 1, 1, 3]);
		rates[kind] = Math.min(0.9, USUAL_RATES[kind] * factor);
	}
	return rates as unknown as FaultRates;
}

/** Decides. Every scope (a link, an agent, an instance) has a sequence of its own, so that they disturb each other little. */
export class FaultDice {
	readonly #rates: FaultRates;
	readonly #seed: string;
	readonly #scopes = new Map<string, SimRandom>();
	/** Faults that happened, by kind; steps that are faults are counted here too. */
	readonly counts: Record<string, number> = {};
	/** True: nothing goes wrong any more. */
	calm = false;

	constructor(seed: string, rates: FaultRates) {
		this.#seed = seed;
		this.#rates = rates;
	}

	/** The sequence of a scope, for how a fault looks. */
	random(scope: string): SimRandom {
		let random = this.#scopes.get(scope);
		if (random === undefined) {
			random = new SimRandom(`${this.#seed} faults ${scope}`);
			this.#scopes.set(scope, random);
		}
		return random;
	}

	/** Whether a fault happens now. */
	roll(kind: FaultKind, scope: string): boolean {
		const hit = this.random(scope).chance(this.#rates[kind]);
		if (!hit || this.calm) return false;
		this.count(kind);
		return true;
	}

	count(kind: string): void {
		this.counts[kind] = (this.counts[kind] ?? 0) + 1;
	}
}
