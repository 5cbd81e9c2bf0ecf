import { readFileSync } from 'node:fs'

// package.json lies one folder above, for the source as for the compiled code.
const packageJson = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))

/** Version of this command line. */
export const version: string = packageJson.version
