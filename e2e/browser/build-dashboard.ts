import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** Called once before the browser tests, so that the service serves the dashboard of these sources. */
export function setup(): void {
  const build = fileURLToPath(new URL('../../packages/dashboard/build.ts', import.meta.url))
  execFileSync(process.execPath, ['--conditions=wardline-source', build], { stdio: ['ignore', 'ignore', 'pipe'] })
}
