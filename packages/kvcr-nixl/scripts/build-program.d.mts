/** The path of a program below `native/`, built when it is not there yet. Throws where there is no compiler. */
export function nativeProgram(name: "floor/floor" | "control/plain"): string;
