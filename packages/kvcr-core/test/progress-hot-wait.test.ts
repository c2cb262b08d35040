import { expect, test } from "vitest";
import { HotWait } from "../src/progress/hot-wait.js";

function rig(windowMs: number) {
	const turns: (() => void)[] = [];
	const state = { now: 100, waiting: true };
	const wait = new HotWait({
		windowMs,
		waiting: () => state.waiting,
		now: () => state.now,
		nextTurn: (task) => void turns.push(task),
	});
	return {
		wait,
		state,
		/** Whether the loop would turn once more. */
		turn(): boolean {
			turns.shift()?.();
			return turns.length > 0;
		},
		pending: () => turns.length,
	};
}

test("turns the loop for its window after a message, and sleeps then", () => {
	const { wait, state, turn, pending } = rig(0.5);
	expect(pending()).toBe(0);
	wait.expect();
	expect(turn()).toBe(true);
	state.now += 0.4;
	expect(turn()).toBe(true);
	state.now += 0.2;
	expect(turn()).toBe(false);
});

test("counts from the last message and never turns twice at once", () => {
	const { wait, state, turn, pending } = rig(0.5);
	wait.expect();
	state.now += 0.4;
	wait.expect();
	wait.expect();
	expect(pending()).toBe(1);
	state.now += 0.4;
	expect(turn()).toBe(true);
	state.now += 0.2;
	expect(turn()).toBe(false);
	wait.expect();
	expect(pending()).toBe(1);
});

test("sleeps as soon as nothing is waited for, and always with a window of 0", () => {
	const awake = rig(0.5);
	awake.wait.expect();
	expect(awake.turn()).toBe(true);
	awake.state.waiting = false;
	expect(awake.turn()).toBe(false);
	const never = rig(0);
	never.wait.expect();
	expect(never.pending()).toBe(0);
});
