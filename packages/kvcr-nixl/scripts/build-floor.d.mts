/** The path of the floor program, built when it is not there yet. */
export function floorProgram(): Promise<string>;
