import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

function git(...args: string[]): string | undefined {
  const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8' })
  return status === 0 && stdout !== '' ? stdout.trim() : undefined
}

/** Returns the commit before the newest one that added a migration; undefined without the history. */
export function commitBeforeSchema(): string | undefined {
  const added = ['--diff-filter=A', '--find-renames', '--', 'packages/server/src/db/migrations']
  const newest = git('log', '-1', '--format=%H', ...added)
  return newest && git('rev-parse', '--verify', '--quiet', `${newest}~1^{commit}`)
}
