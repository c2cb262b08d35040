/** What the inventory says about one instance, held against the truth. */
import type { InventoryEvent } from "../../ports/index.js";
import { keyText } from "../../ports/index.js";
import type { Complain } from "./framework.js";

export class InventoryCheck {
	readonly #present = new Set<string>();
	readonly #complain: Complain;
	readonly #name: string;

	constructor(name: string, complain: Complain) {
		this.#name = name;
		this.#complain = complain;
	}

	/** Events of one key alternate, beginning with its arrival. */
	event({ keys, removed, tier }: InventoryEvent): void {
		if (tier !== "DRAM")
			this.#complain("inventory", `an event of tier ${tier}`);
		for (const key of keys) {
			const text = keyText(key);
			const known = this.#present.has(text);
			if (known !== removed)
				this.#complain(
					"inventory",
					`${this.#name}: a key ${removed ? "left that was not there" : "came that was there"}`,
				);
			if (removed) this.#present.delete(text);
			else this.#present.add(text);
		}
	}

	/** Once all events are delivered, they add up to what is there. */
	compare(ready: ReadonlySet<string>): void {
		if (
			ready.size !== this.#present.size ||
			[...ready].some((text) => !this.#present.has(text))
		)
			this.#complain(
				"inventory",
				`${this.#name}: ${this.#present.size} blocks by its events, ${ready.size} in fact`,
			);
	}
}
