import { execFileSync } from 'node:child_process'

export const noPython = 'python3 of at least 3.9 is not installed'

function findPython(): string | undefined {
  try {
    const script = 'import sys; assert sys.version_info >= (3, 9); print(sys.executable)'
    return execFileSync('python3', ['-c', script], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return undefined
  }
}
export const python = findPython()
