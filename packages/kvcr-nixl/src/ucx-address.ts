/**
 * The shape of a UCX worker address, as far as it keeps UCX from reading past its end: UCX walks it by the lengths
 * inside, without looking where the bytes stop. Layout as packed by UCX 1.12 and later, which is part of its promise of
 * compatibility on the wire:
 *
 * - a byte with the format (low half) and flags (high half), then, as flagged, 8 bytes of worker ID, 8 of client ID
 *   and a name of a byte's length
 * - devices, the last one flagged: a byte with the memory domain, a byte with the length of the device's address, as
 *   flagged the number of paths and the system's device, the address
 * - behind each device that is not flagged empty its interfaces, the last one flagged: 2 bytes that stand for the
 *   transport, attributes (16 bytes, 8 in format 2), a byte with the length of the interface's address, the address
 *
 * In format 2 a length or number with all bits set is in the byte that follows.
 *
 * The insides of device and interface addresses belong to the transports and are not looked at.
 */

const FORMAT_1 = 0;
const FORMAT_2 = 1;

const HAS_NAME = 0x10;
const HAS_WORKER_ID = 0x20;
const HAS_CLIENT_ID = 0x40;

const NO_DEVICES = 0xff;
const EMPTY_DEVICE = 0x80;
const LAST = 0x80;
const HAS_PATHS = 0x40;
const HAS_SYSTEM_DEVICE = 0x20;
const HAS_ENDPOINT = 0x40;

const ATTRIBUTE_BYTES = { [FORMAT_1]: 16, [FORMAT_2]: 8 } as const;

/** One way to reach a worker. */
export interface Transport {
	/** UCX's stand-in for the transport's name. */
	readonly checksum: number;
	/** The memory domain that it uses, by its place among those of the worker. */
	readonly domain: number;
	/** Lengths of the addresses that the transport itself takes apart. */
	readonly deviceBytes: number;
	readonly interfaceBytes: number;
}

/** The transports in an address whose parts follow each other up to its last byte, or else what is wrong with it. */
export function transportsIn(address: Uint8Array): Transport[] | string {
	const cursor = new Cursor(address);
	const header = cursor.byte();
	const format = header & 0x0f;
	// UCX ends the process over a format that it does not know.
	if (format !== FORMAT_1 && format !== FORMAT_2)
		return "is of an unknown format";
	// Without the flag, format 1 may have the worker's ID or not, depending on the version that packed it.
	if ((header & HAS_WORKER_ID) === 0) return "has no worker ID";
	cursor.skip(8);
	if ((header & HAS_CLIENT_ID) !== 0) cursor.skip(8);
	if ((header & HAS_NAME) !== 0) cursor.skip(cursor.byte());
	if (cursor.peek() === NO_DEVICES) return "has no devices";
	const transports: Transport[] = [];
	let last = false;
	while (!last && !cursor.overrun) {
		const domain = cursor.number(0x7f, format);
		const device = cursor.number(0x1f, format);
		last = (device.flags & LAST) !== 0;
		if ((device.flags & HAS_PATHS) !== 0) cursor.skip(1);
		if ((device.flags & HAS_SYSTEM_DEVICE) !== 0) cursor.skip(1);
		cursor.skip(device.value);
		let lastInterface = (domain.flags & EMPTY_DEVICE) !== 0;
		while (!lastInterface && !cursor.overrun) {
			const checksum = cursor.byte() | (cursor.byte() << 8);
			cursor.skip(ATTRIBUTE_BYTES[format]);
			const { flags, value } = cursor.number(0x3f, format);
			if ((flags & HAS_ENDPOINT) !== 0) return "has endpoint addresses";
			lastInterface = (flags & LAST) !== 0;
			cursor.skip(value);
			transports.push({
				checksum,
				domain: domain.value,
				deviceBytes: device.value,
				interfaceBytes: value,
			});
		}
	}
	if (cursor.overrun) return "reaches past its end";
	if (!cursor.atEnd) return "goes on behind its last part";
	return transports;
}

/**
 * Whether a peer leaves an address out that a transport of ours would read. UCX hands transports whatever there is, and
 * nothing where there is nothing. Transports that we do not have are never asked.
 */
export function lacksAddress(
	peer: readonly Transport[],
	own: readonly Transport[],
): boolean {
	return peer.some(({ checksum, deviceBytes, interfaceBytes }) => {
		const ours = own.filter((transport) => transport.checksum === checksum);
		return (
			ours.length > 0 &&
			((deviceBytes === 0 && ours.every((t) => t.deviceBytes > 0)) ||
				(interfaceBytes === 0 && ours.every((t) => t.interfaceBytes > 0)))
		);
	});
}

/** Reads onwards; past the end it reads zeros and says so. */
class Cursor {
	readonly #bytes: Uint8Array;
	#at = 0;

	constructor(bytes: Uint8Array) {
		this.#bytes = bytes;
	}

	get overrun(): boolean {
		return this.#at > this.#bytes.length;
	}

	get atEnd(): boolean {
		return this.#at === this.#bytes.length;
	}

	peek(): number {
		return this.#bytes[this.#at] ?? 0;
	}

	byte(): number {
		const value = this.peek();
		this.#at += 1;
		return value;
	}

	skip(count: number): void {
		this.#at += count;
	}

	/** A number below flags, in the next byte if it does not fit in this one and the format allows that. */
	number(mask: number, format: number): { flags: number; value: number } {
		const first = this.byte();
		const small = first & mask;
		const value = format === FORMAT_2 && small === mask ? this.byte() : small;
		return { flags: first & ~mask, value };
	}
}
