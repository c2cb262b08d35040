/** What goes wrong, how often, and the dice that decide it. */
import { SimRandom } from "./random.js";

/** Chances of each fault, 0 to 1, per message, write, call, or whatever the fault is about. */
export interface FaultRates {
	/** Control messages. */
	readonly lose: number;
	readonly delay: number;
	readonly duplicate: number;
	/** Bytes are changed or cut off; what still reads as a message is lost instead, as behind a checksum. */
	readonly damage: number;
	/** `send` answers false. */
	readonly refuseSend: number;
	/** A stranger answers in the place of the peer that was asked. */
	readonly forge: number;
	/** Writes. */
	readonly writeRefused: number;
	readonly writeFail: number;
	readonly writeSlow: number;
	/** Ends long after both deadlines. */
	readonly writeStall: number;
	readonly ignoreCancel: number;
	/** Notifications. */
	readonly noteLose: number;
	readonly noteDuplicate: number;
	readonly noteLate: number;
	/** A stranger claims that a write has completed. */
	readonly impostor: number;
	/** The framework. */
	readonly pinDeny: number;
	readonly pinLate: number;
	readonly pinRefuseRelease: number;
	readonly pinThrow: number;
	/** Foreign code. */
	readonly policyThrow: number;
	readonly policyDecline: number;
	readonly adapterFail: number;
	readonly sinkThrow: number;
	readonly peerMetadataRefused: number;
}

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
