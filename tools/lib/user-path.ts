/** Paths as the user wrote them: npm runs scripts in the root of the project, and tells where the user was. */
import { resolve } from "node:path";

/** The absolute path of what a user named on the command line. */
export function userPath(path: string): string {
	return resolve(process.env.INIT_CWD ?? ".", path);
}
