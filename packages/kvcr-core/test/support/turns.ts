/** Watches how long turns of the event loop take, in wall time and in processor time of this process. */
export class Turns {
	readonly wall: number[] = [];
	readonly cpu: number[] = [];
	#running = true;

	constructor() {
		let wall = performance.now();
		let cpu = cpuMs();
		const tick = (): void => {
			const nowWall = performance.now();
			const nowCpu = cpuMs();
			this.wall.push(nowWall - wall);
			this.cpu.push(nowCpu - cpu);
			wall = nowWall;
			cpu = nowCpu;
			if (this.#running) setImmediate(tick);
		};
		setImmediate(tick);
	}

	stop(): void {
		this.#running = false;
	}

	report(): object {
		const top = (list: readonly number[]): string =>
			[...list]
				.sort((a, b) => b - a)
				.slice(0, 6)
				.map((ms) => ms.toFixed(1))
				.join(" ");
		return { turns: this.wall.length, wall: top(this.wall), cpu: top(this.cpu) };
	}
}

function cpuMs(): number {
	const { user, system } = process.cpuUsage();
	return (user + system) / 1000;
}
