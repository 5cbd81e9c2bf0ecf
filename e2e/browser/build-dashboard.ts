import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** Called once before the tests in browsers: the service serves what was built from these sources. */
export function setup(): void {
  const build = fileURLToPath(new URL('../../packages/dashboard/build.ts', import.meta.url))
  execFileSync(process.execPath, ['--conditions=wardline-source', build], { stdio: ['ignore', 'ignore', 'pipe'] })
}
