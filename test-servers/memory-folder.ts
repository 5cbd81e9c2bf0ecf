import { statfsSync } from 'node:fs'

/** A folder in memory for what needs no disk, where there is room, which a container's 64 MiB is not. */
export function memoryFolder(): string | undefined {
  try {
    const { bavail, bsize } = statfsSync('/dev/shm')
    return bavail * bsize > 4 * 1024 ** 3 ? '/dev/shm' : undefined
  } catch {
    return undefined
  }
}
