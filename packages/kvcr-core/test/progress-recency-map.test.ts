import fc from "fast-check";
import { expect, it } from "vitest";
import { RecencyMap } from "../src/progress/recency-map.js";

const step = fc.record({
	key: fc.integer({ min: 0, max: 5 }),
	action: fc.constantFrom("use", "get", "set", "delete"),
});

it("keeps its entries in order of last use, as a list that is searched does", () => {
	fc.assert(
		fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
			const map = new RecencyMap<number, string>();
			let model: number[] = [];
			for (const { key, action } of steps) {
				const known = model.includes(key);
				const others = model.filter((other) => other !== key);
				switch (action) {
					case "use":
						expect(map.use(key)).toBe(known ? `${key}` : undefined);
						if (known) model = [...others, key];
						break;
					case "get":
						expect(map.get(key)).toBe(known ? `${key}` : undefined);
						break;
					case "set":
						map.set(key, `${key}`);
						model = [...others, key];
						break;
					case "delete":
						expect(map.delete(key)).toBe(known);
						model = others;
				}
				expect([...map].map(([name]) => name)).toEqual(model);
				expect([...map.values()]).toEqual(model.map(String));
				expect([map.size, map.has(key)]).toEqual([
					model.length,
					model.includes(key),
				]);
			}
			map.clear();
			expect([map.size, map.use(1)]).toEqual([0, undefined]);
		}),
	);
});
